//! Edits of stored Clusters that do not decode. They can be deleted and labelled, and an edit can make them readable
//! (DEC-103).

use serde_json::Value;

use golang::json;

/// Whether two states of an object differ in their metadata alone.
pub(super) fn changes_metadata_alone(old: &str, new: &str) -> bool {
    let content = |text: &str| {
        let mut value = json::value(text).ok()?;
        value.as_object_mut()?.remove("metadata")?;
        Some(value)
    };
    let both: Option<(Value, Value)> = content(old).zip(content(new));
    both.is_some_and(|(old, new)| old == new)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::admission::{AdmissionOutcome, AdmissionSettings, DecodedRequest, Operation, Phase, RawRequest};
    use model::hub::Kind;
    use model::wire::WireVersion;
    use model::world::Facts;

    fn cluster(label: &str, replicas: Value) -> String {
        let topology =
            json!({"classRef": {"name": "base"}, "version": "v1.34.0", "controlPlane": {"replicas": replicas}});
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"namespace": "ns", "name": "c", "labels": {"l": label}}, "spec": {"topology": topology},
        })
        .to_string()
    }

    /// Whether a request is allowed, or why it is not decoded.
    fn answer(phase: Phase, operation: Operation, old: Option<&str>, new: Option<&str>) -> Result<bool, String> {
        let version = WireVersion::V1Beta2;
        let request = RawRequest {
            phase,
            kind: Kind::Cluster,
            version,
            operation,
            name: "c",
            object: new,
            old_object: old,
            old_version: version,
        };
        match DecodedRequest::decode(&request) {
            Ok(question) => {
                let verdict = question.settle(&Arc::new(Facts::complete([], [])), &AdmissionSettings::default());
                Ok(matches!(verdict.outcome, AdmissionOutcome::Allowed))
            }
            Err(verdict) => Err(format!("{:?}", verdict.outcome)),
        }
    }

    #[test]
    fn a_stored_cluster_that_does_not_decode_can_be_deleted_labelled_and_made_readable() {
        // ADM-003, DEC-103
        let (broken, labelled) = (cluster("a", json!("three")), cluster("b", json!("three")));
        let (readable, worse) = (cluster("a", json!(3)), cluster("a", json!("four")));
        let update = |phase, old: &str, new: &str| answer(phase, Operation::Update, Some(old), Some(new));
        for phase in [Phase::Default, Phase::Validate] {
            assert_eq!(update(phase, &broken, &labelled), Ok(true), "{phase:?}: its metadata");
            assert_eq!(update(phase, &broken, &readable), Ok(true), "{phase:?}: it becomes readable");
            assert!(update(phase, &broken, &worse).unwrap_err().contains("Undecodable"), "{phase:?}");
            assert!(update(phase, &readable, &broken).unwrap_err().contains("Undecodable"), "{phase:?}");
            assert!(answer(phase, Operation::Create, None, Some(&broken)).is_err(), "{phase:?}");
        }
        assert_eq!(answer(Phase::Validate, Operation::Delete, Some(&broken), None), Ok(true));
        assert!(answer(Phase::Validate, Operation::Delete, None, None).is_err(), "no object at all");
        assert!(!changes_metadata_alone("{", "{") && !changes_metadata_alone("{}", "{}"));
    }
}

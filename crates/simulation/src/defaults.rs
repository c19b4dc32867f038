//! Defaults that the mutating webhook adds to objects of machines on creation.

use std::sync::Arc;

use engine::admission::{AdmissionSettings, DecodedRequest, Operation, Phase, RawRequest};
use model::hub::{GROUP, Kind, Object};
use model::wire::WireVersion;

/// Adds defaults to a new object. Clusters and ClusterClasses have them already.
pub(super) fn default(object: &mut Object) {
    let kind = Kind::OF_MACHINES.into_iter().find(|kind| object.group() == GROUP && object.kind() == kind.name());
    let Some(kind) = kind else { return };
    let text = object.to_value().to_string();
    let request = RawRequest {
        phase: Phase::Default,
        kind,
        version: WireVersion::V1Beta2,
        operation: Operation::Create,
        name: object.name(),
        object: Some(&text),
        old_object: None,
        old_version: WireVersion::V1Beta2,
    };
    let Ok(decoded) = DecodedRequest::decode(&request) else { return };
    let patch = decoded.settle(&Arc::default(), &AdmissionSettings::default()).patch;
    let mut value = object.to_value().into_owned();
    // It is a patch of this object.
    if json_patch::patch(&mut value, &patch).is_ok()
        && let Ok(defaulted) = Object::try_from(value)
    {
        *object = defaulted;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn defaulted(kind: &str) -> Object {
        let object = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"namespace": "default", "name": "one"},
            "spec": {"clusterName": "demo", "template": {"spec": {}}},
        });
        let mut object = Object::try_from(object).unwrap();
        default(&mut object);
        object
    }

    #[test]
    fn new_objects_of_machines_have_defaults() {
        let machine = defaulted("Machine");
        assert_eq!(machine.at("spec.deletion.nodeDeletionTimeoutSeconds"), Some(&json!(10)));
        let deployment = defaulted("MachineDeployment");
        assert_eq!(deployment.at("spec.rollout.strategy.type"), Some(&json!("RollingUpdate")));
        let cluster = defaulted("Cluster");
        assert_eq!(cluster.at("spec.deletion"), None);
    }
}

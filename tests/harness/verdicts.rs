//! Verdicts of the admission engine on ClusterClasses that a test makes up.

use std::sync::Arc;

use serde_json::{Value, json};
use topologist::admission::{AdmissionSettings, DecodedRequest, Operation, Phase, RawRequest};
use topologist::field::RuleId;
use topologist::hub::Kind;
use topologist::wire::WireVersion;
use topologist::world::Facts;

use super::objects::template_ref;

/// Rule and path of every error of a new class with these parts of a spec, in order.
pub fn errors_of_class(parts: &Value) -> Vec<(RuleId, String)> {
    let mut spec = json!({
        "infrastructure": template_ref("infrastructure", "DevClusterTemplate"),
        "controlPlane": template_ref("controlplane", "KubeadmControlPlaneTemplate"),
    });
    for (name, part) in parts.as_object().into_iter().flatten() {
        match (spec[name].as_object_mut(), part.as_object()) {
            (Some(known), Some(more)) => known.extend(more.clone()),
            _ => spec[name] = part.clone(),
        }
    }
    let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"name": "class", "namespace": "ns"}, "spec": spec})
    .to_string();
    let request = RawRequest {
        phase: Phase::Validate,
        kind: Kind::ClusterClass,
        version: WireVersion::V1Beta2,
        operation: Operation::Create,
        name: "class",
        object: Some(&object),
        old_object: None,
        old_version: WireVersion::V1Beta2,
    };
    let question = DecodedRequest::decode(&request).unwrap_or_else(|verdict| panic!("{verdict:?}"));
    let verdict = question.settle(&Arc::new(Facts::default()), &AdmissionSettings::default());
    verdict.errors().iter().map(|error| (error.rule, error.path.to_string())).collect()
}

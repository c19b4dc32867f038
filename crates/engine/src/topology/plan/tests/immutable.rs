//! Definitions whose rules deny the dry run of a template, or a change in place (CT-9.2, CT-13.3).

use serde_json::{Value, json};

use super::{SIZE, SMITH, action_and_part, change};
use crate::topology::Failure;
use crate::topology::failure::DeniedChange;
use crate::topology::testing::Scene;

/// A schema with a rule about `spec`, and one about `spec.template.spec.size`; texts are empty for none.
fn versions(of_spec: &str, of_size: &str) -> Value {
    let rules = |text: &str| match text {
        "" => json!([]),
        text => json!([{"rule": text}]),
    };
    let size = json!({"type": "string", "x-kubernetes-validations": rules(of_size)});
    let inner = json!({"type": "object", "properties": {"size": size, "site": {"type": "string"}}});
    let template = json!({"type": "object", "properties": {
        "metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}, "spec": inner.clone(),
    }});
    let spec = json!({"type": "object", "x-kubernetes-validations": rules(of_spec), "properties": {
        "template": template, "size": size, "site": {"type": "string"},
    }});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!([{"name": "v1beta2", "served": true, "storage": true, "schema": schema}])
}

fn with_rules(kind: &str, of_spec: &str, of_size: &str) -> Scene {
    let name = format!("{kind}.infrastructure.cluster.x-k8s.io");
    Scene::new().with_definition(&name, &[("v1beta2", "v1beta2")], versions(of_spec, of_size))
}

#[test]
fn a_template_whose_rule_denies_the_dry_run_is_not_replaced() {
    let kind = "forgemachinetemplates";
    for (case, scene, want) in [
        ("the spec as a whole", with_rules(kind, "self == oldSelf", ""), Some("spec")),
        ("a field", with_rules(kind, "", "self == oldSelf"), Some("spec.template.spec.size")),
        ("a rule that allows it", with_rules(kind, "", "self >= oldSelf || self == 'large'"), None),
        ("a rule without an old value", with_rules(kind, "", "self.size() > 0"), None),
        ("another kind", with_rules("forgeclustertemplates", "self == oldSelf", ""), None),
    ] {
        let outcome = change(&scene, &scene.clone().at(SMITH, SIZE, json!("large")));
        let steps: Vec<String> = outcome.rounds.iter().flat_map(|round| &round.steps).map(action_and_part).collect();
        match (want, outcome.failure) {
            (Some(want), Some(Failure::Immutable { object, place, change })) => {
                assert_eq!((&*place, change), (want, DeniedChange::Replace), "{case}");
                assert_eq!(object.kind, "ForgeMachineTemplate");
                assert_eq!(steps, [""; 0], "{case}: nothing of the workers is written");
            }
            (None, None) => assert_eq!(steps.len(), 2, "{case}"),
            (want, failure) => panic!("{case}: {failure:?}, wanted {want:?}"),
        }
    }
}

#[test]
fn metadata_of_an_immutable_template_changes_in_place() {
    let scene = with_rules("forgemachinetemplates", "self == oldSelf", "");
    let metadata = json!({"labels": {"team": "a"}});
    let after = scene.clone().at("Cluster", "/spec/topology/workers/machineDeployments/0/metadata", metadata);
    assert_eq!(change(&scene, &after).failure, None);
}

#[test]
fn an_object_whose_rule_denies_the_change_is_not_changed() {
    let scene = with_rules("forgeclusters", "self == oldSelf", "");
    let after = scene.clone().at("ForgeClusterTemplate ground", "/spec/template/spec/site", json!("south"));
    let Some(failure @ Failure::Immutable { change: DeniedChange::Update, .. }) = change(&scene, &after).failure else {
        panic!("the infrastructure cluster is immutable")
    };
    let text = failure.to_string();
    assert!(text.ends_with(" cannot be changed: the definition of ForgeCluster makes spec immutable"), "{text}");
}

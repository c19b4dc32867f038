//! New objects whose names are in use (RS-13, DEC-36).

use super::*;
use model::hub::label;

fn brain() -> String {
    format!("{CONTROL_PLANE}/kubeadmcontrolplanes/brain")
}

/// An existing control plane with these labels.
fn existing(version: &str, labels: Value) -> ScriptedAnswer {
    let metadata =
        json!({"namespace": "ns", "name": "brain", "uid": "old", "resourceVersion": version, "labels": labels});
    ScriptedAnswer::ok(json!({"metadata": metadata}))
}

fn create_brain(script: &Script) -> impl Future<Output = AppliedPlan> {
    carry_out(script, vec![create(TopologyPart::ControlPlane, "brain")])
}

/// A script that expects the creation of an object that exists.
fn collision() -> Script {
    let script = Script::default();
    let words = ["fieldManager=capi-topology", "force=true", "\"resourceVersion\":\"1\""];
    script.expect(&Method::PATCH, &brain(), &words, ScriptedAnswer::error(409, "Conflict"));
    script
}

#[tokio::test]
async fn an_object_that_exists_is_adopted_in_the_version_that_was_read() {
    let script = collision();
    let mine = || json!({label::CLUSTER_NAME: "blade"});
    script.get(&brain(), &[], existing("20", mine()));
    script.expect(
        &Method::PATCH,
        &brain(),
        &["\"uid\":\"old\"", "\"resourceVersion\":\"20\""],
        ScriptedAnswer::error(409, "Conflict"),
    );
    // Another client has changed it since.
    script.get(&brain(), &[], existing("21", mine()));
    script
        .expect(&Method::PATCH, &brain(), &["\"uid\":\"old\"", "\"resourceVersion\":\"21\""], written("brain"))
        .hears(1);
    let outcome = create_brain(&script).await;
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!(outcome.written.len(), 1);
}

#[tokio::test]
async fn an_object_of_another_owner_is_not_written() {
    let script = collision();
    script.get(&brain(), &[], existing("20", json!({label::CLUSTER_NAME: "other"})));
    let error = create_brain(&script).await.error.unwrap();
    assert!(!error.is_conflict(), "it is not tried again at once");
    let want = "KubeadmControlPlane ns/brain belongs to Cluster \"other\" (label cluster.x-k8s.io/cluster-name), so it \
                cannot belong to Cluster \"blade\"";
    assert!(error.to_string().starts_with(want), "{error}");
    // An object that gets another owner between two attempts is left to it.
    let script = collision();
    script.get(&brain(), &[], existing("20", json!({})));
    script.expect(&Method::PATCH, &brain(), &[], ScriptedAnswer::error(409, "Conflict"));
    script.get(&brain(), &[], existing("21", json!({label::CLUSTER_NAME: "other"})));
    assert!(create_brain(&script).await.error.unwrap().to_string().contains("\"other\""));
}

#[tokio::test]
async fn templates_for_what_cannot_be_created_are_deleted_again() {
    // RS-21
    let cells = format!("{INFRASTRUCTURE}/forgemachinetemplates/cells");
    let script = Script::default();
    script.applies(&cells, written("cells"));
    script.expect(&Method::PATCH, &brain(), &[], ScriptedAnswer::error(409, "Conflict"));
    script.get(&brain(), &[], existing("20", json!({label::CLUSTER_NAME: "other"})));
    script.deletes(&cells, "uid-of-cells", ScriptedAnswer::ok(json!({}))).hears(1);
    let steps = vec![create(TopologyPart::ControlPlaneMachines, "cells"), create(TopologyPart::ControlPlane, "brain")];
    assert!(carry_out(&script, steps).await.error.is_some());
}

#[tokio::test]
async fn an_object_that_went_meanwhile_is_created_by_the_next_run() {
    let script = collision();
    script.get(&brain(), &[], ScriptedAnswer::error(404, "NotFound"));
    assert!(create_brain(&script).await.error.unwrap().is_conflict());
    // So is one that changes all the time.
    let script = collision();
    for _ in 0..5 {
        script.get(&brain(), &[], existing("20", json!({})));
        script.expect(&Method::PATCH, &brain(), &[], ScriptedAnswer::error(409, "Conflict"));
    }
    assert!(create_brain(&script).await.error.unwrap().is_conflict());
}

#[tokio::test]
async fn a_replacement_of_a_template_is_a_new_object_as_well() {
    // ROT-05, ROT-12
    let cells = format!("{INFRASTRUCTURE}/forgemachinetemplates/cells");
    let script = Script::default();
    script.expect(&Method::PATCH, &cells, &["\"resourceVersion\":\"1\""], ScriptedAnswer::error(409, "Conflict"));
    let other_set = json!({label::CLUSTER_NAME: "blade", label::DEPLOYMENT_NAME: "md"});
    let found = json!({"metadata": {"namespace": "ns", "name": "cells", "uid": "u", "resourceVersion": "3",
        "labels": other_set}});
    script.get(&cells, &[], ScriptedAnswer::ok(found));
    let outcome = carry_out(&script, vec![step(StepAction::Rotate, TopologyPart::ControlPlaneMachines, "cells")]).await;
    assert!(outcome.error.unwrap().to_string().contains("belongs to MachineDeployment \"md\" of the same topology"));
    assert!(outcome.rotated.is_empty());
}

//! Whole desired states; what belongs to one kind of object is tested there.

use serde_json::{Value, json};

use crate::topology::testing::{Scene, objects};
use model::hub::ObjectKey;
use model::hub::names::Names;

/// Ends that no [`model::hub::names::Derived`] gives.
struct Others;

impl Names for Others {
    fn suffix(&mut self, _: &ObjectKey, _: &str) -> String {
        "other".to_owned()
    }
}

#[test]
fn objects_that_exist_keep_their_names() {
    // DS-07
    for (case, scene) in [
        ("whole", Scene::new()),
        ("no workers", Scene::without_workers()),
        ("older contract", Scene::with_v1beta1_contract()),
    ] {
        let before = scene.desired();
        let after = scene.applied().compute_with(&mut Others).unwrap().desired;
        assert_eq!(before, after, "{case}");
    }
}

/// Every path of a value that holds no others, and the value there.
fn leaves(path: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            members.iter().for_each(|(name, value)| leaves(&format!("{path}.{name}"), value, found));
        }
        Value::Array(list) if !list.is_empty() => {
            list.iter().enumerate().for_each(|(at, value)| leaves(&format!("{path}[{at}]"), value, found));
        }
        _ => found.push((path.trim_start_matches('.').to_owned(), value.clone())),
    }
}

#[test]
fn fields_that_are_not_set_are_not_written() {
    // DS-03
    let check =
        json!({"checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 1}]}});
    for scene in [Scene::new(), Scene::with_v1beta1_contract()] {
        let scene = scene.at("ClusterClass", "/spec/controlPlane/healthCheck", check.clone()).at(
            "ClusterClass",
            "/spec/workers/machineDeployments/0/healthCheck",
            check.clone(),
        );
        for object in objects(&scene.desired()) {
            let mut found = Vec::new();
            leaves("", &object.object.members().clone().into(), &mut found);
            let is_placeholder =
                |value: &Value| [json!(null), json!({}), json!([]), json!(0), json!("")].contains(value);
            found.retain(|(path, value)| is_placeholder(value) && !path.contains("abels"));
            assert_eq!(found, [], "{}", object.object.kind());
        }
    }
}

#[test]
fn every_field_has_an_origin() {
    for object in objects(&Scene::new().desired()) {
        let mut found = Vec::new();
        leaves("", &object.object.members().clone().into(), &mut found);
        for (path, _) in found {
            assert!(object.origins.decisive(&path).is_some(), "{} {path}", object.object.kind());
        }
    }
}

#[test]
fn the_version_of_the_topology_goes_everywhere_when_everything_is_new() {
    // DS-20, DS-26, DS-36, UP-48
    let pinned = json!("v1.29.0");
    let desired = Scene::new()
        .at("Cluster", "/spec/topology/version", json!("v1.30.1"))
        .at("Cluster", "/spec/topology/workers/machineDeployments/0/version", pinned.clone())
        .at("Cluster", "/spec/topology/workers/machinePools/0/version", pinned)
        .desired();
    assert_eq!(desired.control_plane.control_plane.object.at("spec.version"), Some(&json!("v1.30.1")));
    for worker in desired.machine_deployments.iter().chain(&desired.machine_pools) {
        assert_eq!(worker.worker.object.at("spec.template.spec.version"), Some(&json!("v1.30.1")));
    }
}

#[test]
fn references_keep_their_version_when_a_newer_one_is_there() {
    // DEC-30, BP-07
    let definition = "forgemachinetemplates.infrastructure.cluster.x-k8s.io";
    let scene = Scene::new().with_definition(definition, &[("v1beta2", "v1beta2_v1")], json!([]));
    for scene in [scene.clone(), scene.applied()] {
        let template = &scene.desired().machine_deployments[0].infrastructure.object;
        assert_eq!(template.api_version(), "infrastructure.cluster.x-k8s.io/v1beta2");
    }
}

//! Patches of what the engine really computes.

use serde_json::{Value, json};

use crate::topology::desired::Desired;
use crate::topology::origin::Origin;
use crate::topology::testing::{Scene, objects};
use crate::topology::{Computation, Options};
use model::hub::names::DeterministicNames;

const KINDS: [&str; 5] = [
    "ForgeClusterTemplate",
    "KubeadmControlPlaneTemplate",
    "ForgeMachineTemplate",
    "KubeadmConfigTemplate",
    "ForgeMachinePoolTemplate",
];

/// The scene with everything set that has a place in patched objects.
fn furnished(scene: Scene) -> Scene {
    let metadata = json!({"labels": {"team": "a", "example.com/x": "b"}, "annotations": {"note": "c"}});
    let control_plane = json!({
        "metadata": metadata, "replicas": 3, "rollout": {"after": "2030-01-01T00:00:00Z"},
        "deletion": {"nodeDrainTimeoutSeconds": 10, "nodeVolumeDetachTimeoutSeconds": 20,
            "nodeDeletionTimeoutSeconds": 30},
        "readinessGates": [{"conditionType": "Ready"}],
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "propagation": "Always"}],
    });
    KINDS.into_iter().fold(scene.at("Cluster", "/spec/topology/controlPlane", control_plane), |scene, kind| {
        scene
            .at(kind, "/metadata/labels", json!({"of": "template"}))
            .at(kind, "/metadata/annotations", json!({"of": "template"}))
            .at(kind, "/spec/template/metadata", json!({"labels": {"of": "product"}, "annotations": {"of": "product"}}))
    })
}

/// A patch of all templates of the scene.
fn of_all(scene: &Scene, operations: &Value) -> Value {
    let uses = json!({"infrastructureCluster": true, "controlPlane": true,
        "machineDeploymentClass": {"names": ["*"]}, "machinePoolClass": {"names": ["*"]}});
    let class = &scene.document("ClusterClass")["spec"];
    let references = [
        &class["infrastructure"]["templateRef"],
        &class["controlPlane"]["templateRef"],
        &class["workers"]["machineDeployments"][0]["infrastructure"]["templateRef"],
        &class["workers"]["machineDeployments"][0]["bootstrap"]["templateRef"],
        &class["workers"]["machinePools"][0]["infrastructure"]["templateRef"],
    ];
    let definitions = references.map(|reference| {
        let (api_version, kind) = (&reference["apiVersion"], &reference["kind"]);
        let selector = json!({"apiVersion": api_version, "kind": kind, "matchResources": uses});
        json!({"selector": selector, "jsonPatches": operations})
    });
    json!([{"name": "p", "definitions": definitions}])
}

fn patched(scene: Scene, operations: Value) -> Desired {
    let patches = of_all(&scene, &operations);
    let scene = scene.at("ClusterClass", "/spec/patches", patches);
    let options = Options::new(false);
    Computation::from_world(&scene.cluster(), &scene.world(), &mut DeterministicNames, &options).unwrap().desired
}

#[test]
fn a_patch_that_reverts_its_change_changes_nothing() {
    // PE-05, PE-24 to PE-28: everything that is computed survives the way through an item, in both contracts.
    let nothing = json!([
        {"op": "add", "path": "/spec/template/spec/new", "value": 1},
        {"op": "remove", "path": "/spec/template/spec/new"},
    ]);
    for scene in [Scene::new(), Scene::with_v1beta1_contract()] {
        let scene = furnished(scene);
        let want = scene.desired();
        let desired = patched(scene, nothing.clone());
        let pairs: Vec<_> = objects(&want).into_iter().zip(objects(&desired)).collect();
        assert_eq!(pairs.len(), 9);
        for (want, have) in pairs {
            assert_eq!(want.object, have.object);
        }
    }
}

#[test]
fn a_patched_field_is_on_every_object_with_its_origin() {
    let scene = furnished(Scene::new());
    let desired = patched(scene, json!([{"op": "add", "path": "/spec/template/spec/new", "value": 1}]));
    let mut patched = 0;
    for object in objects(&desired) {
        for path in ["spec.new", "spec.template.spec.new"] {
            let is_there = object.object.at(path) == Some(&json!(1));
            let is_by_patch = matches!(object.origins.decisive(path), Some(Origin::Patch(_)));
            assert_eq!(is_there, is_by_patch, "{} {path}", object.object.kind());
            patched += usize::from(is_there);
        }
    }
    assert_eq!(patched, 7, "all but the machine deployment and the machine pool");
}

/// The templates of objects that are not templates themselves: their spec, and even its template, may be missing.
const OF_OBJECTS: [&str; 4] =
    ["ForgeClusterTemplate", "KubeadmControlPlaneTemplate", "KubeadmConfigTemplate crew", "ForgeMachinePoolTemplate"];

/// The furnished scene, in which templates of objects describe nothing, or only metadata.
fn without_specs() -> impl Iterator<Item = Scene> {
    let metadata = json!({"labels": {"of": "product"}, "annotations": {"of": "product"}});
    let described = [json!(null), json!({}), json!({"template": null}), json!({"template": {"metadata": metadata}})];
    described.into_iter().map(|spec| {
        let scene = furnished(Scene::new());
        OF_OBJECTS.into_iter().fold(scene, |scene, template| scene.at(template, "/spec", spec.clone()))
    })
}

#[test]
fn a_label_that_a_patch_adds_joins_all_others_whatever_the_template_has() {
    // PE-05, PE-25
    for scene in without_specs() {
        let want = scene.desired();
        let label = json!([{"op": "add", "path": "/spec/template/metadata/labels/new", "value": "l"}]);
        let desired = patched(scene, label);
        let pairs = objects(&want).into_iter().zip(objects(&desired));
        let of_objects = pairs.filter(|(want, _)| !want.object.kind().ends_with("Template"));
        let mut labelled = 0;
        for (want, have) in of_objects.filter(|(_, have)| have.object.label("new").is_some()) {
            let mut want = want.object.clone();
            want.set("metadata.labels.new", json!("l")).unwrap();
            assert_eq!(want, have.object);
            assert!(want.label("cluster.x-k8s.io/cluster-name").is_some());
            labelled += 1;
        }
        assert_eq!(labelled, 4);
    }
}

#[test]
fn a_patch_may_give_a_template_the_spec_that_it_lacks() {
    // PE-25, PE-27
    for scene in without_specs() {
        let want = scene.desired();
        let operations = json!([{"op": "add", "path": "/spec/template/spec", "value": {"new": 1}}]);
        let desired = patched(scene, operations);
        let control_plane = &desired.control_plane.control_plane.object;
        assert_eq!(control_plane.at("spec.new"), Some(&json!(1)));
        let of_engine = &want.control_plane.control_plane.object;
        assert_eq!(control_plane.at("spec.version"), of_engine.at("spec.version"));
        assert_eq!(control_plane.at("metadata"), of_engine.at("metadata"));
        let pool = &desired.machine_pools[0];
        for object in [&desired.infrastructure, &pool.bootstrap, &pool.infrastructure] {
            assert_eq!(object.object.at("spec"), Some(&json!({"new": 1})));
        }
    }
}

//! Names of new objects, on worlds of files.

use serde_json::{Value, json};

use crate::topology::Failure;
use crate::topology::plan::{Rollout, StepAction};
use crate::topology::testing::Scene;
use model::hub::{ObjectKey, label};

fn blade() -> ObjectKey {
    ObjectKey::new("ns", "blade")
}

fn naming(part: &str, template: &str) -> Scene {
    named(Scene::new(), part, template)
}

fn named(scene: Scene, part: &str, template: &str) -> Scene {
    scene.at("ClusterClass", &format!("/spec/{part}/naming"), json!({"template": template}))
}

const DEPLOYMENTS: &str = "workers/machineDeployments/0";
const POOLS: &str = "workers/machinePools/0";

fn with_deployments(scene: Scene, names: &[&str]) -> Scene {
    let entries: Vec<Value> = names.iter().map(|name| json!({"name": name, "class": "smith"})).collect();
    scene.at("Cluster", "/spec/topology/workers/machineDeployments", json!(entries))
}

/// Steps of all plans, as action and part.
fn steps(outcome: &Rollout) -> Vec<String> {
    let steps = outcome.rounds.iter().flat_map(|round| &round.steps);
    steps.map(|step| format!("{} {}", step.action.name(), step.part)).collect()
}

/// Why a rollout of the Cluster ends.
fn failure(scene: &Scene) -> String {
    scene.simulator().roll_out(&blade()).failure.map(|failure| failure.to_string()).unwrap_or_default()
}

#[test]
fn two_parts_of_a_topology_never_have_one_name() {
    // NAM-05, DEC-36
    let constant = with_deployments(naming(DEPLOYMENTS, "{{ .cluster.name }}-workers"), &["md-0", "md-1"]);
    let want = "MachineDeployment \"md-0\" and MachineDeployment \"md-1\" of Cluster ns/blade both have the generated \
                name \"blade-workers\"; use .random or .machineDeployment.topologyName in the naming template of the \
                ClusterClass";
    assert_eq!(failure(&constant), want);
    assert!(matches!(constant.simulator().compute(&blade()), Err(Failure::SameName(_))));
    let pools = json!([{"name": "a", "class": "crew"}, {"name": "b", "class": "crew"}]);
    let pools = naming(POOLS, "x").at("Cluster", "/spec/topology/workers/machinePools", pools);
    assert!(
        failure(&pools).contains("MachinePool \"a\" and MachinePool \"b\" of Cluster ns/blade"),
        "{}",
        failure(&pools)
    );
    // One set, names that differ, and names of different kinds are fine.
    for scene in [
        with_deployments(naming(DEPLOYMENTS, "{{ .cluster.name }}-workers"), &["md-0"]),
        with_deployments(naming(DEPLOYMENTS, "{{ .machineDeployment.topologyName }}"), &["md-0", "md-1"]),
        named(naming(DEPLOYMENTS, "x"), POOLS, "x"),
    ] {
        assert_eq!(failure(&scene), "");
    }
}

#[test]
fn parts_of_one_name_share_no_health_check() {
    // DEC-36, BP-09
    let scene = named(naming("controlPlane", "same"), DEPLOYMENTS, "same");
    assert_eq!(failure(&scene), "", "without a health check there is nothing to share");
    let check = json!({"checks": {"nodeStartupTimeoutSeconds": 60}});
    for part in ["controlPlane", DEPLOYMENTS] {
        let scene = scene.clone().at("ClusterClass", &format!("/spec/{part}/healthCheck"), check.clone());
        let failure = failure(&scene);
        assert!(failure.contains("the control plane and MachineDeployment \"md\" of Cluster ns/blade"), "{failure}");
    }
}

#[test]
fn objects_that_exist_keep_names_that_another_template_gave_them() {
    // DS-07, DEC-36
    let before = with_deployments(Scene::new(), &["md-0", "md-1"]);
    let mut old = before.simulator();
    assert_eq!(old.roll_out(&blade()).failure, None);
    let after = named(before, DEPLOYMENTS, "{{ .cluster.name }}-workers");
    let mut new = after.simulator();
    new.take_over(&blade(), &old);
    assert_eq!(new.roll_out(&blade()).failure, None);
}

/// An object of the scene with these labels.
fn object(api_version: &str, kind: &str, name: &str, labels: Value) -> Value {
    let metadata = json!({"namespace": "ns", "name": name, "uid": format!("of-{name}"), "labels": labels});
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"kept": true}})
}

const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io/v1beta2";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const CORE: &str = "cluster.x-k8s.io/v1beta2";

#[test]
fn an_object_of_another_owner_is_not_written_over() {
    // RS-13, DEC-36
    let of_green = json!({label::CLUSTER_NAME: "green"});
    let of_other_set = json!({label::CLUSTER_NAME: "blade", label::DEPLOYMENT_NAME: "other"});
    for (part, found, owner) in [
        ("infrastructure", object(INFRASTRUCTURE, "ForgeCluster", "x", of_green.clone()), "Cluster \"green\""),
        ("controlPlane", object(CONTROL_PLANE, "KubeadmControlPlane", "x", of_green.clone()), "Cluster \"green\""),
        (DEPLOYMENTS, object(CORE, "MachineDeployment", "x", of_green.clone()), "Cluster \"green\""),
        (DEPLOYMENTS, object(CORE, "MachineDeployment", "x", of_other_set), "MachineDeployment \"other\""),
        (POOLS, object(CORE, "MachinePool", "x", of_green), "Cluster \"green\""),
    ] {
        let mut fold = naming(part, "x").with(found.clone()).simulator();
        let outcome = fold.roll_out(&blade());
        let message = outcome.failure.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(message.contains(owner) && message.contains("\"blade\"") && message.contains("ns/x"), "{message}");
        let reference = model::hub::Object::try_from(found.clone()).unwrap().reference();
        let model::world::Found::Yes(kept) = fold.facts().objects().unwrap().object(&reference) else { panic!() };
        assert_eq!(Value::from(model::hub::Object::clone(&kept)), found, "{part}");
        // What comes before it is created.
        let is_write = |step: &String| step.ends_with(" infrastructure");
        assert_eq!(steps(&outcome).iter().any(is_write), part != "infrastructure", "{part}");
        // No template is made for what cannot be created.
        assert!(!steps(&outcome).iter().any(|step| step.contains("controlPlane")) || part != "controlPlane");
    }
}

#[test]
fn an_object_without_another_owner_is_adopted_but_not_while_it_is_deleted() {
    // RS-13, DEC-36
    let mine = json!({label::CLUSTER_NAME: "blade"});
    for labels in [json!({}), mine.clone()] {
        let found = object(INFRASTRUCTURE, "ForgeCluster", "x", labels);
        assert_eq!(failure(&naming("infrastructure", "x").with(found)), "");
    }
    let mut leaving = object(INFRASTRUCTURE, "ForgeCluster", "x", mine);
    leaving["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
    assert!(failure(&naming("infrastructure", "x").with(leaving)).contains("ForgeCluster ns/x is being deleted"));
}

#[test]
fn a_referenced_object_that_another_cluster_has_is_not_written() {
    // DEC-36
    let mut fold = Scene::new().simulator();
    assert_eq!(fold.roll_out(&blade()).failure, None);
    let scene = Scene::new().applied().at(
        "KubeadmControlPlane",
        "/metadata/labels/cluster.x-k8s.io~1cluster-name",
        json!("green"),
    );
    let failure = failure(&scene);
    assert!(failure.contains("belongs to Cluster \"green\""), "{failure}");
}

#[test]
fn clusters_of_one_class_do_not_share_a_name() {
    // DEC-36
    let second = json!({"apiVersion": CORE, "kind": "Cluster",
        "metadata": {"namespace": "ns", "name": "axe", "uid": "u"},
        "spec": {"topology": {"classRef": {"name": "forge"}, "version": "v1.33.0"}}});
    let elsewhere = |namespace: &str| {
        let mut other = second.clone();
        other["metadata"]["namespace"] = json!(namespace);
        other["spec"]["topology"]["classRef"]["namespace"] = json!("ns");
        other
    };
    for part in ["infrastructure", "controlPlane"] {
        let failure = failure(&naming(part, "brain").with(second.clone()));
        assert!(failure.contains("belongs to Cluster \"axe\", which generates the same name"), "{part}: {failure}");
        assert!(failure.contains("Cluster \"blade\""), "{failure}");
    }
    assert_eq!(failure(&naming("controlPlane", "brain").with(elsewhere("far"))), "");
    assert_eq!(failure(&naming("controlPlane", "{{ .cluster.name }}").with(second.clone())), "");
    let mut has_its_own = second;
    has_its_own["spec"]["controlPlaneRef"] =
        json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "axe-x7k2p"});
    assert_eq!(failure(&naming("controlPlane", "brain").with(has_its_own)), "");
}

#[test]
fn a_set_whose_name_a_leaving_set_has_is_created_when_that_is_gone() {
    // RS-26, DEC-36
    let constant = |names: &[&str]| with_deployments(naming(DEPLOYMENTS, "{{ .cluster.name }}-workers"), names);
    let mut old = constant(&["before"]).simulator();
    assert_eq!(old.roll_out(&blade()).failure, None);
    let mut new = constant(&["after"]).simulator();
    new.take_over(&blade(), &old);
    let first = new.plan(&blade(), &mut Rollout::default()).unwrap();
    let actions: Vec<_> = first.steps.iter().map(|step| (step.action, step.part.to_string())).collect();
    assert_eq!(actions, [(StepAction::Delete, "MachineDeployment/before".to_owned())]);
    let mut noted = Rollout::default();
    new.plan(&blade(), &mut noted).unwrap();
    let held: Vec<_> = noted.held.iter().map(|held| (&*held.kind, &*held.name, held.reason.to_string())).collect();
    let reason = "waits until MachineDeployment \"before\", which has the same generated name, is deleted";
    assert_eq!(held, [("MachineDeployment", "after", reason.to_owned())]);
    let outcome = new.roll_out(&blade());
    assert_eq!(outcome.failure, None);
    let want = [
        "delete MachineDeployment/before",
        "create MachineDeployment/after/infrastructure",
        "create MachineDeployment/after/bootstrap",
        "create MachineDeployment/after",
    ];
    assert_eq!(steps(&outcome), want);
    assert_eq!(outcome.held, []);
}

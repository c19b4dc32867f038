//! Templates that are gone although an owner refers to them.

use serde_json::json;

use super::confirmed::{differs, planned_with};
use super::{action_and_part, blade};
use crate::topology::blueprint::Blueprint;
use crate::topology::current::Current;
use crate::topology::plan::{Plan, TopologySimulator};
use crate::topology::testing::Scene;
use crate::topology::{Failure, worker::WorkerKind};
use model::hub::names::Names;
use model::hub::{Object, ObjectKey, ObjectRef};

/// Ends of names that no object has.
struct Fresh;

impl Names for Fresh {
    fn suffix(&mut self, _: &ObjectKey, _: &str) -> String {
        "fresh".to_owned()
    }
}

/// A Cluster that was rolled out before one of its objects was deleted.
fn without(reference: &ObjectRef, scene: &Scene) -> TopologySimulator {
    let mut fold = scene.simulator();
    fold.roll_out(&blade());
    fold.facts_mut().objects_mut().unwrap().remove(reference);
    fold
}

fn planned(fold: &TopologySimulator) -> Result<Plan, Failure> {
    planned_with(fold, &mut Fresh, |call| differs(call, |_, _| ())).0
}

/// The templates of a scene, each with its part and the part of its owner.
fn templates(scene: &Scene) -> Vec<(ObjectRef, &'static str, &'static str)> {
    let mut fold = scene.simulator();
    fold.roll_out(&blade());
    let current = fold.compute(&blade()).unwrap().observed.current.clone();
    let md = &current.workers(WorkerKind::MachineDeployment)["md"];
    let reference = |object: &Option<std::sync::Arc<Object>>| object.as_ref().unwrap().reference();
    vec![
        (reference(&current.control_plane.machines), "controlPlane/machines", "controlPlane"),
        (reference(&md.infrastructure), "MachineDeployment/md/infrastructure", "MachineDeployment/md"),
        (reference(&md.bootstrap), "MachineDeployment/md/bootstrap", "MachineDeployment/md"),
    ]
}

#[test]
fn a_template_that_is_gone_gets_a_successor_to_which_its_owner_refers() {
    // ROT-13
    let scene = Scene::new();
    for (reference, part, owner) in templates(&scene) {
        let plan = planned(&without(&reference, &scene)).unwrap();
        let steps: Vec<_> = plan.steps.iter().map(action_and_part).collect();
        assert_eq!(steps, [format!("rotate {part}"), format!("apply {owner}")], "{reference}");
        let [template, of_owner] = &plan.steps[..] else { panic!("two steps") };
        assert_eq!(template.replaces.as_ref(), Some(&reference.key.name));
        assert!(template.object.key.name.ends_with("fresh") && template.current.is_none());
        assert!(template.reason.contains("does not exist"), "{}", template.reason);
        let to = |path: &str| of_owner.changes.iter().find(|one| one.path.ends_with(path)).map(|one| one.to.clone());
        assert_eq!(to("Ref.name"), Some(Some(json!(template.object.key.name))), "{:?}", of_owner.changes);
        assert!(of_owner.current.is_some(), "SSA-24");
    }
}

#[test]
fn a_forecast_with_objects_of_an_api_server_replaces_a_template_that_is_gone() {
    // ROT-13
    let scene = Scene::new();
    for (reference, part, owner) in templates(&scene) {
        let mut fold = without(&reference, &scene);
        fold.facts_mut().objects_mut().unwrap().put_missing(&reference);
        assert_eq!(fold.settle(&blade()).failure, None, "the state before a change");
        let rollout = fold.roll_out(&blade());
        assert_eq!(rollout.failure, None, "{reference}");
        let steps: Vec<_> = rollout.rounds.iter().flat_map(|round| &round.steps).map(action_and_part).collect();
        assert_eq!(steps, [format!("rotate {part}"), format!("apply {owner}")], "{reference}");
        let rolls: Vec<_> = rollout.rounds.iter().flat_map(|round| &round.rolls).collect();
        let [roll] = &rolls[..] else { panic!("{reference}: {rolls:?}") };
        let words = format!("{} {:?} is referenced and does not exist", reference.kind, reference.key.name);
        assert_eq!((roll.part.to_string(), &roll.reason), (owner.to_owned(), &words));
        assert!(roll.machines.replaced.is_some_and(|machines| machines > 0), "{roll:?}");
        assert!(fold.roll_out(&blade()).rounds.is_empty(), "one successor is enough");
    }
}

#[test]
fn a_template_that_is_gone_is_replaced_even_while_an_upgrade_holds_its_owner() {
    // ROT-13, UP-30: the upgrade waits for machines, which cannot come without their template.
    let scene = Scene::new().at("Cluster", "/spec/topology/controlPlane/replicas", json!(3));
    let (reference, part, _) = templates(&scene).remove(0);
    let upgrading = |fold: &mut TopologySimulator| {
        let current = fold.compute(&blade()).unwrap().observed.current.clone();
        let mut control_plane = Object::clone(current.control_plane.object.as_ref().unwrap());
        // Not all machines have the version of the control plane yet.
        control_plane.set("status", json!({"version": "v1.32.0", "replicas": 3, "upToDateReplicas": 1})).unwrap();
        fold.facts_mut().objects_mut().unwrap().put(control_plane.into());
    };
    let scene = scene.at("Cluster", "/spec/topology/version", json!("v1.33.0"));
    let mut fold = scene.simulator();
    fold.roll_out(&blade());
    upgrading(&mut fold);
    fold.facts_mut().objects_mut().unwrap().remove(&reference);
    let next = scene.at("Cluster", "/spec/topology/version", json!("v1.34.0"));
    let mut held = next.simulator();
    held.take_over(&blade(), &fold);
    let plan = planned(&held).unwrap();
    assert!(!plan.held.is_empty(), "the upgrade is held");
    assert!(plan.steps.iter().any(|step| action_and_part(step) == format!("rotate {part}")), "{:?}", plan.steps);
    let version = plan.steps.iter().flat_map(|step| &step.changes).find(|change| change.path == "spec.version");
    assert_eq!(version, None);
}

#[test]
fn other_objects_are_not_replaced_and_files_may_lack_templates() {
    // DEL-14, ROT-13
    let scene = Scene::new();
    let mut made = scene.clone().applied();
    for kind in ["forgemachinetemplates.infrastructure", "kubeadmcontrolplanes.controlplane"] {
        made = made.with_definition(&format!("{kind}.cluster.x-k8s.io"), &[("v1beta2", "v1beta2")], json!(null));
    }
    let current = made.current().unwrap();
    let pool = &current.workers(WorkerKind::MachinePool)["mp"];
    for object in [&current.infrastructure, &current.control_plane.object, &pool.bootstrap, &pool.infrastructure] {
        let reference = object.as_ref().unwrap().reference();
        let gone = made.clone().without(&format!("{} {}", reference.kind, reference.key.name));
        let cluster = gone.cluster();
        let (found, _) = gone.gathered(|world| Current::read(&Blueprint::read(&cluster, world)?, world));
        assert_eq!(found, Err(Failure::NotFound { what: "the referenced object", object: reference }));
    }
    // Files may lack what a cluster has.
    for (reference, ..) in templates(&scene) {
        let missing = Failure::NotFound { what: "the referenced object", object: reference.clone() };
        assert_eq!(without(&reference, &scene).compute(&blade()).err(), Some(missing));
    }
}

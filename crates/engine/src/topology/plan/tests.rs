//! Plans, on worlds with one Cluster: the steps and their order, and that a second plan is empty.

mod confirmed;
mod immutable;
mod in_place;
mod machines;
mod outdated;
mod properties;
mod rotation;
mod timeline;
mod vanished;
mod walk;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::topology::Failure;
use crate::topology::testing::Scene;
use model::world::Found;

fn blade() -> ObjectKey {
    ObjectKey::new("ns", "blade")
}

/// The steps of a rollout that has no more than one plan, as `action part`.
fn steps(outcome: &Rollout) -> Vec<String> {
    assert_eq!(outcome.failure, None);
    outcome.rounds.iter().flat_map(|round| &round.steps).map(action_and_part).collect()
}

fn action_and_part(step: &PlanStep) -> String {
    format!("{} {}", step.action.name(), step.part)
}

/// The rollout from `before`, once it is rolled out, to `after`.
fn change(before: &Scene, after: &Scene) -> Rollout {
    let mut old = before.simulator();
    assert_eq!(old.roll_out(&blade()).failure, None);
    let mut new = after.simulator();
    new.take_over(&blade(), &old);
    new.roll_out(&blade())
}

fn rolled(outcome: &Rollout) -> Vec<(String, Option<i64>, &'static str)> {
    let rolls = outcome.rounds.iter().flat_map(|round| &round.rolls);
    rolls
        .filter(|roll| roll.machines.replaced != Some(0))
        .map(|roll| (roll.part.to_string(), roll.machines.replaced, roll.certainty.name()))
        .collect()
}

const SMITH: &str = "ForgeMachineTemplate smith";
const SIZE: &str = "/spec/template/spec/size";

#[test]
fn everything_is_created_in_the_order_in_which_it_is_referred_to() {
    // RS-12, RS-28, RS-34, ROT-02
    let health_check = json!({"checks": {"nodeStartupTimeoutSeconds": 60}});
    let scene = Scene::new().at("ClusterClass", "/spec/controlPlane/healthCheck", health_check.clone()).at(
        "ClusterClass",
        "/spec/workers/machineDeployments/0/healthCheck",
        health_check,
    );
    let want = [
        "create infrastructure",
        "create controlPlane/healthCheck",
        "create controlPlane/machines",
        "create controlPlane",
        "apply cluster",
        "create MachineDeployment/md/infrastructure",
        "create MachineDeployment/md/bootstrap",
        "create MachineDeployment/md",
        "create MachineDeployment/md/healthCheck",
        "create MachinePool/mp/infrastructure",
        "create MachinePool/mp/bootstrap",
        "create MachinePool/mp",
    ];
    assert_eq!(steps(&scene.simulator().roll_out(&blade())), want);
}

#[test]
fn a_topology_that_is_rolled_out_needs_no_step() {
    // RS-39
    for scene in [Scene::new(), Scene::without_workers(), Scene::with_v1beta1_contract()] {
        let mut fold = scene.simulator();
        assert!(!fold.roll_out(&blade()).rounds.is_empty());
        assert_eq!(steps(&fold.roll_out(&blade())), [""; 0]);
        assert_eq!(steps(&change(&scene, &scene)), [""; 0]);
    }
}

#[test]
fn a_template_whose_spec_changes_is_replaced_under_a_new_name() {
    // ROT-04, ROT-05, DEC-41
    let before = Scene::new().at("Cluster", "/spec/topology/workers/machineDeployments/0/replicas", json!(4));
    let outcome = change(&before, &before.clone().at(SMITH, SIZE, json!("large")));
    assert_eq!(steps(&outcome), ["rotate MachineDeployment/md/infrastructure", "apply MachineDeployment/md"]);
    assert_eq!(rolled(&outcome), [("MachineDeployment/md".to_owned(), Some(4), "assumed")]);
    let [rotation, worker] = &outcome.rounds[0].steps[..] else { panic!("two steps") };
    assert_ne!(rotation.replaces.as_deref(), Some(&*rotation.object.key.name));
    assert!(rotation.applied.as_ref().unwrap().uid().is_empty(), "a new object has no uid");
    assert_eq!(rotation.changes[0].path, "spec.template.spec.size");
    assert_eq!((&rotation.changes[0].from, &rotation.changes[0].to), (&Some(json!("small")), &Some(json!("large"))));
    assert_eq!(worker.changes[0].path, "spec.template.spec.infrastructureRef.name");
    assert_eq!(worker.changes[0].to, Some(json!(rotation.object.key.name)));
    assert!(!worker.applied.as_ref().unwrap().uid().is_empty(), "SSA-05");
    assert!(outcome.rounds[0].rolls[0].reason.contains("spec.template.spec.size"), "{:?}", outcome.rounds[0].rolls);
}

#[test]
fn metadata_reaches_templates_and_machines_in_place() {
    // ROT-04, LBL-03
    let before = Scene::new();
    let after = before.clone().at(SMITH, "/metadata/labels", json!({"team": "red"}));
    let outcome = change(&before, &after);
    assert_eq!(steps(&outcome), ["apply MachineDeployment/md/infrastructure"]);
    assert!(rolled(&outcome).is_empty());
    let after = before.clone().at("Cluster", "/spec/topology/controlPlane/metadata", json!({"labels": {"a": "b"}}));
    assert_eq!(steps(&change(&before, &after)), ["apply controlPlane"]);
    assert!(rolled(&change(&before, &after)).is_empty());
}

#[test]
fn a_field_that_the_topology_no_longer_sets_is_removed() {
    // ROT-07, SSA-01
    let before = Scene::new().at(SMITH, "/spec/template/spec/extra", json!("x"));
    let outcome = change(&before, &Scene::new());
    let change = &outcome.rounds[0].steps[0].changes[0];
    assert_eq!((&*change.path, &change.to, &change.because), ("spec.template.spec.extra", &None, &None));
}

#[test]
fn the_old_template_of_the_control_plane_is_deleted_once_it_is_unused() {
    // RS-20, RS-21, ROT-06
    let before = Scene::new().at("Cluster", "/spec/topology/controlPlane/replicas", json!(3));
    let after = before.clone().at("ForgeMachineTemplate brain", SIZE, json!("huge"));
    for (contract, before, after) in
        [("v1beta2", before.clone(), after.clone()), ("v1beta1", older(before), older(after))]
    {
        let outcome = change(&before, &after);
        let want = ["rotate controlPlane/machines", "apply controlPlane", "delete controlPlane/machines"];
        assert_eq!(steps(&outcome), want, "{contract}");
        let [rotation, _, deletion] = &outcome.rounds[0].steps[..] else { panic!("three steps") };
        assert_eq!(rotation.replaces.as_ref(), Some(&deletion.object.key.name), "{contract}");
        assert_eq!(rolled(&outcome), [("controlPlane".to_owned(), Some(3), "assumed")], "{contract}");
    }
}

fn older(scene: Scene) -> Scene {
    let old = json!("controlplane.cluster.x-k8s.io/v1beta1");
    scene.at("KubeadmControlPlaneTemplate", "/apiVersion", old.clone()).at(
        "ClusterClass",
        "/spec/controlPlane/templateRef/apiVersion",
        old,
    )
}

#[test]
fn changes_that_replace_no_machine_are_in_place() {
    // DEC-41, DS-16 to DS-19
    let before = Scene::new().at("Cluster", "/spec/topology/controlPlane/replicas", json!(3));
    for (path, value) in [
        ("/spec/topology/controlPlane/replicas", json!(5)),
        ("/spec/topology/controlPlane/deletion", json!({"nodeDrainTimeoutSeconds": 5})),
        ("/spec/topology/controlPlane/taints", json!([{"key": "a", "effect": "NoSchedule", "propagation": "Always"}])),
        ("/spec/topology/controlPlane/readinessGates", json!([{"conditionType": "a/b"}])),
        ("/spec/topology/workers/machineDeployments/0/replicas", json!(5)),
        ("/spec/topology/workers/machineDeployments/0/minReadySeconds", json!(5)),
        ("/spec/topology/workers/machinePools/0/replicas", json!(5)),
    ] {
        let outcome = change(&before, &before.clone().at("Cluster", path, value));
        assert_eq!(steps(&outcome).len(), 1, "{path}: {:?}", steps(&outcome));
        assert!(rolled(&outcome).is_empty(), "{path}");
    }
}

#[test]
fn replaced_machines_are_counted() {
    // DEC-41, MA-21.1
    let worker = "/spec/topology/workers/machineDeployments/0";
    let before = Scene::new().at("Cluster", "/spec/topology/controlPlane/replicas", json!(3)).at(
        "Cluster",
        &format!("{worker}/replicas"),
        json!(6),
    );
    let outcome = change(&before, &before.clone().at("Cluster", &format!("{worker}/failureDomain"), json!("b")));
    assert_eq!(rolled(&outcome), [("MachineDeployment/md".to_owned(), Some(6), "assumed")]);
    let kubeadm = "KubeadmControlPlaneTemplate";
    let after = before.clone().at(kubeadm, "/spec/template/spec/kubeadmConfigSpec/format", json!("ignition"));
    assert_eq!(rolled(&change(&before, &after)), [("controlPlane".to_owned(), Some(3), "assumed")]);
    let pool = "ForgeMachinePoolTemplate";
    let outcome = change(&before, &before.clone().at(pool, SIZE, json!("large")));
    assert_eq!(steps(&outcome), ["apply MachinePool/mp/infrastructure"]);
    assert_eq!(rolled(&outcome), [("MachinePool/mp".to_owned(), Some(1), "provider")]);
}

#[test]
fn machines_are_replaced_as_many_at_a_time_as_the_strategy_says() {
    let worker = "/spec/topology/workers/machineDeployments/0";
    for (strategy, want) in [
        (json!({}), Some(1)),
        (json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}}), Some(2)),
        (json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "30%"}}), Some(6)),
        (json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}), Some(1)),
        (json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "900%"}}), Some(10)),
        (json!({"type": "OnDelete"}), None),
    ] {
        let before = Scene::new().at("Cluster", &format!("{worker}/replicas"), json!(10)).at(
            "Cluster",
            &format!("{worker}/rollout"),
            json!({"strategy": strategy}),
        );
        let outcome = change(&before, &before.clone().at(SMITH, SIZE, json!("large")));
        assert_eq!(outcome.rounds[0].rolls[0].at_a_time, want, "{strategy}");
    }
}

#[test]
fn a_bootstrap_of_another_kind_takes_the_place_of_the_old_one() {
    // ROT-08, CS-07
    let other = "bootstrap.cluster.x-k8s.io/v1beta1";
    let document = json!({"apiVersion": other, "kind": "OtherConfigTemplate",
        "metadata": {"namespace": "ns", "name": "smith"}, "spec": {"template": {"spec": {"a": 1}}}});
    let reference = json!({"apiVersion": other, "kind": "OtherConfigTemplate", "name": "smith"});
    let path = "/spec/workers/machineDeployments/0/bootstrap/templateRef";
    let after = Scene::new().with(document).at("ClusterClass", path, reference);
    let outcome = change(&Scene::new(), &after);
    assert_eq!(steps(&outcome), ["rotate MachineDeployment/md/bootstrap", "apply MachineDeployment/md"]);
    let references: Vec<_> = outcome.rounds[0].steps[1].changes.iter().map(|change| &*change.path).collect();
    assert!(references.contains(&"spec.template.spec.bootstrap.configRef.kind"), "{references:?}");
}

#[test]
fn infrastructure_of_another_kind_is_refused() {
    // RS-25, ROT-03
    let other = "infrastructure.cluster.x-k8s.io/v1beta2";
    let template = json!({"apiVersion": other, "kind": "AnvilMachineTemplate",
        "metadata": {"namespace": "ns", "name": "smith"}, "spec": {"template": {"spec": {}}}});
    let reference = json!({"apiVersion": other, "kind": "AnvilMachineTemplate", "name": "smith"});
    let path = "/spec/workers/machineDeployments/0/infrastructure/templateRef";
    let after = Scene::new().with(template).at("ClusterClass", path, reference);
    assert!(matches!(change(&Scene::new(), &after).failure, Some(Failure::Incompatible { .. })));
    // RS-12: what comes before it is carried out all the same.
    let outcome =
        change(&Scene::new(), &after.at("ForgeClusterTemplate ground", "/spec/template/spec/site", json!("n")));
    assert!(matches!(outcome.failure, Some(Failure::Incompatible { .. })));
    assert_eq!(
        outcome.rounds.iter().flat_map(|round| &round.steps).map(action_and_part).collect::<Vec<_>>(),
        ["apply infrastructure"]
    );
}

#[test]
fn workers_are_created_then_updated_then_deleted() {
    // RS-26, RS-33, DEL-03
    let worker = |name: &str, replicas: i64| json!({"name": name, "class": "smith", "replicas": replicas});
    let path = "/spec/topology/workers/machineDeployments";
    let of = |workers: Value| Scene::new().at("Cluster", path, workers);
    let before = of(json!([worker("stays", 1), worker("goes", 1), worker("leaves", 1)]));
    let after = of(json!([worker("stays", 2), worker("comes", 1)]));
    let outcome = change(&before, &after);
    let want = [
        "create MachineDeployment/comes/infrastructure",
        "create MachineDeployment/comes/bootstrap",
        "create MachineDeployment/comes",
        "apply MachineDeployment/stays",
        "delete MachineDeployment/goes",
        "delete MachineDeployment/leaves",
    ];
    assert_eq!(steps(&outcome), want);
    assert!(rolled(&outcome).is_empty());
}

#[test]
fn a_worker_that_is_being_deleted_is_left_alone() {
    // RS-31, CS-10
    let mut fold = Scene::new().simulator();
    fold.roll_out(&blade());
    let deployment = fold.objects_of(&blade()).into_iter().find(|object| object.kind() == "MachineDeployment").unwrap();
    let mut leaving = Object::clone(&deployment);
    leaving.set("metadata.deletionTimestamp", json!("2026-01-01T00:00:00Z")).unwrap();
    fold.facts_mut().objects_mut().unwrap().put(Arc::new(leaving));
    let mut changed = Scene::new().at(SMITH, SIZE, json!("large")).simulator();
    changed.take_over(&blade(), &fold);
    assert_eq!(steps(&changed.roll_out(&blade())), [""; 0]);
}

#[test]
fn health_checks_are_created_updated_and_deleted() {
    // RS-35, RS-33
    let path = "/spec/workers/machineDeployments/0/healthCheck";
    let with =
        |seconds: i64| Scene::new().at("ClusterClass", path, json!({"checks": {"nodeStartupTimeoutSeconds": seconds}}));
    let part = "MachineDeployment/md/healthCheck";
    assert_eq!(steps(&change(&Scene::new(), &with(60))), [format!("create {part}")]);
    assert_eq!(steps(&change(&with(60), &with(90))), [format!("apply {part}")]);
    assert_eq!(steps(&change(&with(60), &Scene::new())), [format!("delete {part}")]);
    let without = with(60).at("Cluster", "/spec/topology/workers", json!({}));
    assert_eq!(
        steps(&change(&with(60), &without))[..2],
        [format!("delete {part}"), "delete MachineDeployment/md".to_owned()]
    );
}

#[test]
fn an_endpoint_that_is_not_known_yet_is_not_sent() {
    // SSA-03, CT-5.13
    let ground = "ForgeClusterTemplate ground";
    let endpoint = |host: &str, port: i64| {
        Scene::new().at(ground, "/spec/template/spec/controlPlaneEndpoint", json!({"host": host, "port": port}))
    };
    let sent = |scene: &Scene| {
        let outcome = scene.simulator().roll_out(&blade());
        outcome.rounds[0].steps[0].applied.as_ref().unwrap().at("spec.controlPlaneEndpoint").cloned()
    };
    assert_eq!(sent(&endpoint("", 0)), None);
    assert_eq!(sent(&endpoint("a", 0)), Some(json!({"host": "a"})));
    assert_eq!(sent(&endpoint("", 6443)), Some(json!({"port": 6443})));
}

#[test]
fn only_fields_of_the_cluster_that_the_engine_sets_are_written() {
    // RS-22, RS-23
    let scene = Scene::new().at("Cluster", "/metadata/labels", json!({"mine": "yes"}));
    let outcome = scene.simulator().roll_out(&blade());
    let cluster = outcome.rounds[0].steps.iter().find(|step| step.part == TopologyPart::Cluster).unwrap();
    let paths: Vec<_> = cluster.changes.iter().map(|change| &*change.path).collect();
    let want = [
        "metadata.labels[cluster.x-k8s.io/cluster-name]",
        "metadata.labels[topology.cluster.x-k8s.io/owned]",
        "spec.infrastructureRef",
        "spec.controlPlaneRef",
    ];
    assert_eq!(paths, want);
}

#[test]
fn a_paused_cluster_is_left_alone() {
    // RS-05
    let outcome = Scene::new().at("Cluster", "/spec/paused", json!(true)).simulator().roll_out(&blade());
    assert!(outcome.rounds.is_empty());
    assert_eq!(outcome.held[0].reason.to_string(), "spec.paused is true");
    let annotated = |value: &str| {
        let annotations = json!({"cluster.x-k8s.io/paused": value});
        Scene::new().at("Cluster", "/metadata/annotations", annotations).simulator().roll_out(&blade())
    };
    assert_eq!(annotated("").held[0].reason.to_string(), "it has the annotation cluster.x-k8s.io/paused");
    // DEC-56
    let held = annotated("topologist.dev/before-cluster-delete uid=u since=2030-01-01T00:00:00Z");
    assert!(held.held.is_empty() && !held.rounds.is_empty(), "{held:?}");
}

#[test]
fn fields_of_others_that_are_not_sent_are_no_difference() {
    // DEC-15, SSA-01: what others set on fields that are not sent stays theirs.
    let mut fold = Scene::new().simulator();
    fold.roll_out(&blade());
    for object in fold.objects_of(&blade()) {
        let mut touched = Object::clone(&object);
        touched.set("spec.setByAProvider", json!(1)).unwrap();
        fold.facts_mut().objects_mut().unwrap().put(Arc::new(touched));
    }
    assert_eq!(steps(&fold.roll_out(&blade())), [""; 0]);
}

#[test]
fn objects_outside_the_topology_are_not_changed() {
    let other = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "ns", "name": "other"}, "a": 1});
    let before = Scene::new().with(other.clone());
    let mut fold = before.at(SMITH, SIZE, json!("large")).simulator();
    fold.roll_out(&blade());
    let key = model::hub::ObjectRef::new("v1", "Secret", ObjectKey::new("ns", "other"));
    let Found::Yes(kept) = fold.facts().objects().unwrap().object(&key) else { panic!("it is there") };
    assert_eq!(Value::from(Object::clone(&kept)), other);
}

/// Changes that users make, one or more at a time.
fn edits() -> impl Strategy<Value = Vec<(&'static str, &'static str, Value)>> {
    let worker = "/spec/topology/workers/machineDeployments/0";
    let workers = "/spec/topology/workers/machineDeployments";
    let all: Vec<(&'static str, &'static str, Value)> = vec![
        ("Cluster", "/spec/topology/controlPlane/replicas", json!(5)),
        ("Cluster", "/spec/topology/controlPlane/metadata", json!({"labels": {"a": "b"}, "annotations": {"c": "d"}})),
        ("Cluster", "/spec/topology/controlPlane/deletion", json!({"nodeDrainTimeoutSeconds": 7})),
        ("Cluster", worker, json!({"name": "md", "class": "smith", "failureDomain": "x", "replicas": 3})),
        ("Cluster", workers, json!([])),
        ("Cluster", workers, json!([{"name": "md", "class": "smith"}, {"name": "two", "class": "smith"}])),
        ("Cluster", "/spec/topology/workers/machinePools", json!([{"name": "other", "class": "crew"}])),
        (SMITH, SIZE, json!("large")),
        (SMITH, "/metadata/annotations", json!({"note": "n"})),
        ("ForgeMachineTemplate brain", SIZE, json!("small")),
        ("KubeadmConfigTemplate smith", "/spec/template/spec/files", json!([{"path": "/a"}])),
        ("ForgeClusterTemplate ground", "/spec/template/spec/site", json!("south")),
        ("ForgeMachinePoolTemplate crew", SIZE, json!("large")),
        (
            "ClusterClass",
            "/spec/workers/machineDeployments/0/healthCheck",
            json!({"checks": {"nodeStartupTimeoutSeconds": 9}}),
        ),
        ("ClusterClass", "/spec/workers/machineDeployments/0/metadata", json!({"labels": {"x": "y"}})),
    ];
    proptest::sample::subsequence(all.clone(), 0..=4)
}

fn edited(edits: &[(&str, &str, Value)]) -> Scene {
    edits.iter().fold(Scene::new(), |scene, (which, pointer, value)| scene.at(which, pointer, value.clone()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn planning_twice_gives_the_same_plan_and_a_finished_plan_leaves_no_step(before in edits(), after in edits()) {
        let (before, after) = (edited(&before), edited(&after));
        let (once, twice) = (change(&before, &after), change(&before, &after));
        prop_assert_eq!(&once.failure, &None);
        prop_assert_eq!(&once.rounds, &twice.rounds);
        let mut old = before.simulator();
        old.roll_out(&blade());
        let mut new = after.simulator();
        new.take_over(&blade(), &old);
        new.roll_out(&blade());
        prop_assert!(new.roll_out(&blade()).rounds.is_empty());
    }

    #[test]
    fn a_plan_changes_only_the_objects_that_it_names(before in edits(), after in edits()) {
        let (before, after) = (edited(&before), edited(&after));
        let mut old = before.simulator();
        old.roll_out(&blade());
        let mut new = after.simulator();
        new.take_over(&blade(), &old);
        let objects = |fold: &TopologySimulator| {
            let all = fold.facts().objects().unwrap().iter();
            all.map(|object| ((object.kind().to_owned(), object.key()), object.clone())).collect::<BTreeMap<_, _>>()
        };
        let was = objects(&new);
        let outcome = new.roll_out(&blade());
        let is = objects(&new);
        let steps = outcome.rounds.iter().flat_map(|round| &round.steps);
        let named: Vec<_> = steps.map(|step| (step.object.kind.clone(), step.object.key.clone())).collect();
        for key in was.keys().chain(is.keys()) {
            prop_assert!(was.get(key) == is.get(key) || named.contains(key), "{:?}", key);
        }
    }

    #[test]
    fn the_order_of_documents_does_not_change_the_result(edits in edits(), seed in any::<u64>()) {
        let scene = edited(&edits);
        let shuffled = scene.clone().shuffled(seed);
        prop_assert_eq!(change(&Scene::new(), &scene).rounds, change(&Scene::new(), &shuffled).rounds);
    }
}

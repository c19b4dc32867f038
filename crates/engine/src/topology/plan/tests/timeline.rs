//! The worked upgrade of `docs/topology.md` from v1.31.0 to v1.33.0, plan by plan.

use serde_json::json;

use super::super::*;
use super::walk::{V31, V33, Walk};
use super::{action_and_part, blade};
use model::hub::annotation;

/// What happens before a row.
enum Since {
    Nothing,
    ControlPlaneDone,
    Done(&'static str),
}

const CONTROL_PLANE: &[&str] = &[
    "apply cluster",
    "rotate controlPlane/machines",
    "apply controlPlane",
    "delete controlPlane/machines",
    "apply cluster",
];
const CLUSTER: &[&str] = &["apply cluster"];
const NONE: &[&str] = &[];

/// A row of the table: what happened, versions of control plane and machine deployments, plans, marks, step, steps of
/// the plan, lines of the condition.
type Want = (
    &'static str,
    Since,
    [&'static str; 2],
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const CLUSTER_UPGRADE: &str = "AfterClusterUpgrade";
const CONTROL_PLANE_UPGRADE: &str = "AfterControlPlaneUpgrade";
const WORKERS_UPGRADE: &str = "AfterWorkersUpgrade";
const BEFORE_WORKERS: &str = "BeforeWorkersUpgrade";

const TO_32: &[&str] = &[
    "KubeadmControlPlane upgrading to version v1.32.0 (v1.33.0 pending)",
    "MachineDeployments md-a, md-b, md-c pending upgrade to version v1.33.0",
];
const TO_33: &[&str] = &[
    "KubeadmControlPlane upgrading to version v1.33.0",
    "MachineDeployments md-a, md-b, md-c pending upgrade to version v1.33.0",
];
const A: &[&str] = &[
    "MachineDeployment md-a upgrading to version v1.33.0",
    "MachineDeployments md-b, md-c pending upgrade to version v1.33.0",
];
const B: &[&str] = &[
    "MachineDeployment md-b upgrading to version v1.33.0",
    "MachineDeployment md-c pending upgrade to version v1.33.0",
];
const C: &[&str] = &["MachineDeployment md-c upgrading to version v1.33.0"];
const FIRST: &[&str] = &[CLUSTER_UPGRADE, CONTROL_PLANE_UPGRADE];
const SECOND: &[&str] = &[CLUSTER_UPGRADE, CONTROL_PLANE_UPGRADE, WORKERS_UPGRADE, BEFORE_WORKERS];
const WORKERS: &[&str] = &[CLUSTER_UPGRADE, WORKERS_UPGRADE];

#[test]
fn the_documented_upgrade_is_planned_step_by_step() {
    // UP-20, UP-25, UP-28, UP-37, UP-50, HK-02, HK-03, HK-20, HK-21, HK-23, DS-23, PE-31, BV-05, ROT-09
    use Since::{ControlPlaneDone, Done, Nothing};
    const MD_A: &[&str] =
        &["apply cluster", "rotate MachineDeployment/md-a/infrastructure", "apply MachineDeployment/md-a"];
    const MD_B: &[&str] = &["rotate MachineDeployment/md-b/infrastructure", "apply MachineDeployment/md-b"];
    const MD_C: &[&str] = &["rotate MachineDeployment/md-c/infrastructure", "apply MachineDeployment/md-c"];
    let table: [Want; 14] = [
        ("R1", Nothing, ["32", "31 31 31"], "32 33 / 33", FIRST, "32", CONTROL_PLANE, TO_32),
        ("R2", Nothing, ["32", "31 31 31"], "33 / 33", FIRST, "32", NONE, TO_32),
        ("R2…", Nothing, ["32", "31 31 31"], "33 / 33", FIRST, "32", NONE, TO_32),
        ("R3", ControlPlaneDone, ["33", "31 31 31"], "33 / 33", SECOND, "33", CONTROL_PLANE, TO_33),
        ("R4", Nothing, ["33", "31 31 31"], "/ 33", SECOND, "33", NONE, TO_33),
        ("R5", ControlPlaneDone, ["33", "33 31 31"], "/ 33", WORKERS, "33", MD_A, A),
        ("R6", Nothing, ["33", "33 31 31"], "/ 33", WORKERS, "33", NONE, A),
        ("R7", Done("md-a"), ["33", "33 33 31"], "/ 33", WORKERS, "33", MD_B, B),
        ("R8", Done("md-b"), ["33", "33 33 33"], "/ 33", WORKERS, "33", MD_C, C),
        ("R9", Nothing, ["33", "33 33 33"], "/", WORKERS, "33", NONE, C),
        ("R9…", Nothing, ["33", "33 33 33"], "/", WORKERS, "33", NONE, C),
        ("R10", Done("md-c"), ["33", "33 33 33"], "/", NONE, "33", CLUSTER, NONE),
        ("R11", Nothing, ["33", "33 33 33"], "/", NONE, "", CLUSTER, NONE),
        ("later", Nothing, ["33", "33 33 33"], "/", NONE, "", NONE, NONE),
    ];
    let mut walk = Walk::new();
    assert!(walk.plan().steps.is_empty(), "it is at rest");
    walk.edit("Cluster", "/spec/topology/version", json!(V33));
    for (name, since, versions, plans, marks, step, steps, lines) in table {
        match since {
            Nothing => {}
            ControlPlaneDone => walk.finish_control_plane(),
            Done(deployment) => walk.finish(deployment),
        }
        let row = walk.plan();
        assert_eq!([&*row.control_plane, &*row.deployments], versions, "{name}");
        assert_eq!(row.plans, plans, "{name}");
        assert_eq!((row.marks, &*row.step), (marks.join(","), step), "{name}");
        assert_eq!(row.steps.iter().map(action_and_part).collect::<Vec<_>>(), steps, "{name}");
        let lines = lines.iter().map(|line| format!("\n  * {line}")).collect::<String>();
        let want = if lines.is_empty() { "True".to_owned() } else { format!("Cluster is upgrading to v1.33.0{lines}") };
        assert_eq!(row.condition, want, "{name}");
        assert_eq!(row.requeue_after_seconds, None, "{name}: what it waits for tells by itself");
    }
}

/// The paths that a plan changes of a part.
fn changed(row: &super::walk::Row, part: &str) -> Vec<String> {
    let of = |step: &&PlanStep| step.part.to_string() == part && step.action == StepAction::Apply;
    let changes = row.steps.iter().filter(of).flat_map(|step| &step.changes);
    changes.map(|change| change.path.clone()).collect()
}

#[test]
fn hooks_are_marked_before_the_step_and_unmarked_in_a_write_of_their_own() {
    // HK-02, HK-03, RS-23
    let mut walk = Walk::new();
    walk.edit("Cluster", "/spec/topology/version", json!(V33));
    walk.edit("Cluster", "/metadata/labels/mine", json!("yes"));
    let (hooks, step) = (
        "metadata.annotations[runtime.cluster.x-k8s.io/pending-hooks]",
        "metadata.annotations[topology.internal.cluster.x-k8s.io/upgrade-step]",
    );
    let row = walk.plan();
    let [first, .., last] = &row.steps[..] else { panic!("several steps") };
    let paths = |step: &PlanStep| step.changes.iter().map(|change| change.path.clone()).collect::<Vec<_>>();
    assert_eq!((action_and_part(first), paths(first)), ("apply cluster".to_owned(), vec![hooks.to_owned()]));
    assert_eq!((action_and_part(last), paths(last)), ("apply cluster".to_owned(), vec![step.to_owned()]));
    // Were nothing written after it, the marks would still be there.
    let marks = first.applied.as_ref().unwrap().texts("metadata.annotations").unwrap();
    assert_eq!(marks[annotation::PENDING_HOOKS], "AfterClusterUpgrade,AfterControlPlaneUpgrade");
    walk.finish_control_plane();
    walk.plan();
    walk.finish_control_plane();
    assert_eq!(changed(&walk.plan(), "cluster"), [hooks]);
    assert_eq!(walk.cluster().metadata.labels.get("mine"), Some("yes"));
}

#[test]
fn a_version_and_whatever_else_has_waited_are_one_write() {
    // UP-30, UP-39, UP-40, ROT-09, RS-19, RS-30, and the worked upgrade
    let check = |seconds: i64| json!({"checks": {"nodeStartupTimeoutSeconds": seconds}});
    let mut walk = Walk::new();
    walk.edit("Cluster", "/spec/topology/version", json!(V33));
    walk.plan();
    // R2: everything that may change does.
    let workers = "/spec/topology/workers/machineDeployments";
    walk.edit("Cluster", "/spec/topology/controlPlane/replicas", json!(5));
    walk.edit("Cluster", "/spec/topology/controlPlane/metadata", json!({"labels": {"a": "b"}}));
    walk.edit("Cluster", "/spec/topology/controlPlane/healthCheck", check(60));
    walk.edit("Cluster", &format!("{workers}/2/replicas"), json!(7));
    walk.edit("Cluster", &format!("{workers}/2/healthCheck"), check(70));
    walk.edit("Cluster", &format!("{workers}/3"), json!({"name": "md-d", "class": "smith"}));
    for template in ["ForgeMachineTemplate", "KubeadmConfigTemplate"] {
        walk.edit(template, "/spec/template/spec/size", json!("huge"));
    }
    let of = |row: &super::walk::Row| row.steps.iter().map(action_and_part).collect::<Vec<_>>();
    let frozen = ["create controlPlane/healthCheck", "create MachineDeployment/md-c/healthCheck"];
    assert_eq!(of(&walk.plan()), frozen);
    walk.edit("Cluster", "/spec/topology/controlPlane/healthCheck", check(61));
    walk.edit("Cluster", &format!("{workers}/2/healthCheck"), check(71));
    let frozen = ["apply controlPlane/healthCheck", "apply MachineDeployment/md-c/healthCheck"];
    assert_eq!(of(&walk.plan()), frozen);
    assert_eq!(of(&walk.plan()), [""; 0]);
    // R3: the control plane with all of its objects.
    walk.finish_control_plane();
    let row = walk.plan();
    assert_eq!(of(&row), CONTROL_PLANE);
    let control_plane = walk.control_plane();
    assert_eq!((control_plane.at("spec.replicas"), control_plane.label("a")), (Some(&json!(5)), Some("b")));
    // R5: the new one is created at its end, and the first of the others goes.
    walk.finish_control_plane();
    let row = walk.plan();
    let md_d = walk.deployment("md-d");
    assert_eq!(md_d.at("spec.template.spec.version"), Some(&json!(V33)));
    let of_c = |row: &super::walk::Row| of(row).into_iter().filter(|step| step.contains("md-c")).collect::<Vec<_>>();
    assert!(of_c(&row).is_empty(), "{:?}", of(&row));
    for name in ["md-a", "md-b"] {
        walk.finish(name);
        let row = walk.plan();
        assert_eq!(of_c(&row).is_empty(), name == "md-a");
    }
    let md_c = walk.deployment("md-c");
    let is = |path: &str| md_c.at(path).cloned();
    assert_eq!((is("spec.replicas"), is("spec.template.spec.version")), (Some(json!(7)), Some(json!(V33))));
}

#[test]
fn a_worker_takes_version_templates_and_fields_in_one_write() {
    // UP-39, ROT-09: one write of the owner, so one rollout
    let mut walk = Walk::new();
    walk.edit("Cluster", "/spec/topology/version", json!(V33));
    for _ in 0..2 {
        walk.plan();
        walk.finish_control_plane();
    }
    walk.edit("Cluster", "/spec/topology/workers/machineDeployments/0/replicas", json!(4));
    let row = walk.plan();
    let mut paths = changed(&row, "MachineDeployment/md-a");
    paths.sort();
    let want = ["spec.replicas", "spec.template.spec.infrastructureRef.name", "spec.template.spec.version"];
    assert_eq!(paths, want);
    assert_eq!(row.steps.iter().filter(|step| action_and_part(step) == "apply MachineDeployment/md-a").count(), 1);
}

#[test]
fn objects_that_wait_are_still_computed() {
    // DS-38, PE-31: with the version that it has, or will be created with
    let mut walk = Walk::new();
    walk.edit("Cluster", "/spec/topology/version", json!(V33));
    walk.plan();
    walk.edit("Cluster", "/spec/topology/workers/machineDeployments/3", json!({"name": "md-d", "class": "smith"}));
    let computed = walk.fold.compute(&blade()).unwrap();
    assert!(computed.tracker.is_pending_create(WorkerKind::MachineDeployment, "md-d"));
    assert_eq!(computed.tracker.machine_deployments.pending.len(), 3);
    let workers = computed.desired.workers(WorkerKind::MachineDeployment).iter();
    let versions = workers.map(|worker| {
        let version = worker.worker.object.at("spec.template.spec.version").cloned();
        let image = worker.infrastructure.object.at("spec.template.spec.image").cloned();
        assert_eq!(version, image, "{}", worker.topology_name);
        version.unwrap()
    });
    assert_eq!(versions.collect::<Vec<_>>(), [V31, V31, V31, V33]);
}

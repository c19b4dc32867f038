use proptest::prelude::*;

use super::testing::{Fleet, MD, MP, Round};
use super::*;
use golang::version::{BuildOrder, KubeVersion};
use model::world::HookAnswer;

const V31: &str = "v1.31.0";
const V32: &str = "v1.32.0";
const V33: &str = "v1.33.0";
const LISTED: [&str; 3] = [V31, V32, V33];

/// The Cluster of the worked timeline, at its beginning.
fn timeline() -> Fleet {
    Fleet::at(V31, &LISTED, &["md-a", "md-b", "md-c"]).to(V33)
}

/// What a row of the timeline shows: the control plane, the machine deployments, and the plans.
fn row(round: &Round) -> (&str, Vec<&str>, Vec<&str>, Vec<&str>) {
    let Tracker { control_plane, machine_deployments, .. } = &round.tracker;

    (
        &round.control_plane,
        round.workers.values().map(String::as_str).collect(),
        control_plane.plan.iter().map(VersionText::as_str).collect(),
        machine_deployments.plan.iter().map(VersionText::as_str).collect(),
    )
}

fn names(names: &std::collections::BTreeSet<String>) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn called(fleet: &Fleet) -> Vec<&'static str> {
    fleet.calls.iter().map(|(hook, _)| hook.name()).collect()
}

/// Goes on until the control plane has `version` in spec and status.
fn bring_control_plane_to(fleet: &mut Fleet, version: &str) {
    for _ in 0..10 {
        if fleet.version() == version {
            return fleet.finish_control_plane();
        }
        fleet.finish_control_plane();
        fleet.step();
    }
    panic!("the control plane is still at {}", fleet.version());
}

#[test]
fn the_worked_timeline_goes_row_by_row() {
    // The worked upgrade of docs/topology.md, UP-24, UP-25, UP-28, UP-32, UP-37, ST-10, HK-20, HK-23, DS-23
    let mut fleet = timeline();
    // R1
    let r1 = fleet.step();
    assert_eq!(row(&r1), (V32, vec![V31; 3], vec![V32, V33], vec![V33]));
    assert_eq!(names(&r1.tracker.machine_deployments.pending), ["c-md-a", "c-md-b", "c-md-c"]);
    assert!(r1.tracker.control_plane.is_starting && !r1.tracker.is_control_plane_frozen() && r1.marks_a_step);
    assert_eq!(fleet.pending(), "AfterClusterUpgrade,AfterControlPlaneUpgrade");
    let first = "Cluster is upgrading to v1.33.0\n  * ExampleControlPlane upgrading to version v1.32.0 (v1.33.0 pending)\n  \
        * MachineDeployments c-md-a, c-md-b, c-md-c pending upgrade to version v1.33.0";
    assert_eq!((r1.condition.reason, &*r1.condition.message), ("ClusterUpgrading", first));
    assert_eq!(called(&fleet), ["BeforeClusterUpgrade", "BeforeControlPlaneUpgrade"]);
    // R2…
    let r2 = fleet.step();
    assert_eq!(row(&r2), (V32, vec![V31; 3], vec![V33], vec![V33]));
    assert!(r2.tracker.control_plane.is_upgrading && r2.tracker.is_control_plane_frozen() && r2.marks_a_step);
    assert_eq!((&*r2.condition.message, fleet.pending()), (first, "AfterClusterUpgrade,AfterControlPlaneUpgrade"));
    assert_eq!(called(&fleet).len(), 2);
    // R3
    fleet.finish_control_plane();
    fleet.calls.clear();
    let r3 = fleet.step();
    assert_eq!(row(&r3), (V33, vec![V31; 3], vec![V33], vec![V33]));
    assert_eq!(names(&r3.tracker.machine_deployments.pending).len(), 3);
    let pending = "AfterClusterUpgrade,AfterControlPlaneUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade";
    assert_eq!((fleet.pending(), r3.marks_a_step), (pending, true));
    let third = "Cluster is upgrading to v1.33.0\n  * ExampleControlPlane upgrading to version v1.33.0\n  \
        * MachineDeployments c-md-a, c-md-b, c-md-c pending upgrade to version v1.33.0";
    assert_eq!(r3.condition.message, third);
    assert_eq!(called(&fleet), ["AfterControlPlaneUpgrade", "BeforeControlPlaneUpgrade"]);
    // R4…
    let r4 = fleet.step();
    assert_eq!(row(&r4), (V33, vec![V31; 3], vec![], vec![V33]));
    assert!(r4.tracker.control_plane.is_upgrading && !r4.tracker.is_control_plane_frozen());
    assert_eq!((&*r4.condition.message, fleet.pending()), (third, pending));
    // R5
    fleet.finish_control_plane();
    fleet.calls.clear();
    let r5 = fleet.step();
    assert_eq!(row(&r5), (V33, vec![V33, V31, V31], vec![], vec![V33]));
    assert_eq!(called(&fleet), ["AfterControlPlaneUpgrade", "BeforeWorkersUpgrade"]);
    assert!(r5.tracker.control_plane.is_waiting_for_workers && r5.tracker.control_plane.is_stable());
    assert_eq!(fleet.pending(), "AfterClusterUpgrade,AfterWorkersUpgrade");
    let fifth = "Cluster is upgrading to v1.33.0\n  * MachineDeployment c-md-a upgrading to version v1.33.0\n  \
        * MachineDeployments c-md-b, c-md-c pending upgrade to version v1.33.0";
    assert_eq!(r5.condition.message, fifth);
    // R6…
    let r6 = fleet.step();
    assert_eq!(row(&r6), (V33, vec![V33, V31, V31], vec![], vec![V33]));
    assert!(!r6.tracker.is_worker_frozen(MD, "c-md-a") && r6.tracker.is_worker_frozen(MD, "c-md-b"));
    assert_eq!(r6.condition.message, fifth);
    // R7
    fleet.finish("md-a");
    let r7 = fleet.step();
    assert_eq!(row(&r7), (V33, vec![V33, V33, V31], vec![], vec![V33]));
    assert_eq!(
        (names(&r7.tracker.machine_deployments.upgrading), names(&r7.tracker.machine_deployments.pending)),
        (vec!["c-md-b"], vec!["c-md-c"])
    );
    // R8
    fleet.finish("md-b");
    let r8 = fleet.step();
    assert_eq!(row(&r8), (V33, vec![V33; 3], vec![], vec![V33]));
    // R9…
    let r9 = fleet.step();
    assert_eq!(row(&r9), (V33, vec![V33; 3], vec![], vec![]));
    let ninth = "Cluster is upgrading to v1.33.0\n  * MachineDeployment c-md-c upgrading to version v1.33.0";
    assert_eq!((&*r9.condition.message, r9.marks_a_step), (ninth, true));
    assert_eq!(called(&fleet).len(), 2);
    // R10
    fleet.finish("md-c");
    fleet.calls.clear();
    let r10 = fleet.step();
    assert_eq!(row(&r10), (V33, vec![V33; 3], vec![], vec![]));
    assert_eq!(called(&fleet), ["AfterWorkersUpgrade", "AfterClusterUpgrade"]);
    assert_eq!((r10.marks_a_step, fleet.pending(), r10.condition.is_true), (true, "", true));
    assert_eq!((r10.condition.reason, &*r10.condition.message), ("ReconcileSucceeded", ""));
    // R11
    let r11 = fleet.step();
    assert_eq!(
        (row(&r11), r11.marks_a_step, r11.condition.is_true),
        ((V33, vec![V33; 3], vec![], vec![]), false, true)
    );
    assert!(r11.tracker.held("c").is_empty());
}

#[test]
fn without_hooks_the_steps_are_the_same_and_nothing_is_marked() {
    // The worked upgrade of docs/topology.md, HK-01, DS-23
    let mut fleet = timeline();
    fleet.has_hooks = false;
    let mut versions = Vec::new();
    let mut marks = Vec::new();
    for _ in 0..7 {
        let round = fleet.step();
        versions.push((round.control_plane, round.workers.into_values().filter(|version| version == V33).count()));
        marks.push(round.marks_a_step);
        fleet.finish_control_plane();
        for name in ["md-a", "md-b", "md-c"] {
            fleet.finish(name);
        }
        assert_eq!((fleet.pending(), fleet.calls.len()), ("", 0));
    }
    let versions: Vec<(&str, usize)> = versions.iter().map(|(version, workers)| (version.as_str(), *workers)).collect();
    assert_eq!(versions, [(V32, 0), (V33, 0), (V33, 1), (V33, 2), (V33, 3), (V33, 3), (V33, 3)]);
    assert_eq!(marks, [true, true, true, true, true, false, false]);
}

#[test]
fn without_hooks_the_step_is_unmarked_while_the_last_worker_still_rolls() {
    // The worked upgrade: every spec is at the target, and the last worker still rolls
    let mut fleet = timeline();
    fleet.has_hooks = false;
    bring_control_plane_to(&mut fleet, V33);
    for name in ["md-a", "md-b"] {
        fleet.step();
        fleet.finish(name);
    }
    assert!(fleet.step().marks_a_step);
    let r9 = fleet.step();
    assert_eq!((r9.marks_a_step, r9.condition.reason), (false, "ClusterUpgrading"));
}

#[test]
fn as_many_workers_upgrade_at_once_as_the_annotation_says() {
    // UP-05, UP-36, UP-43
    for (written, want) in [("2", 2), ("3", 3), ("0", 1), ("-1", 1), ("many", 1), ("", 1)] {
        let mut fleet = timeline().annotated(annotation::UPGRADE_CONCURRENCY, written);
        bring_control_plane_to(&mut fleet, V33);
        let round = fleet.step();
        assert_eq!(fleet.rolling(), ["md-a", "md-b", "md-c"][..want], "{written}");
        assert_eq!(round.tracker.machine_deployments.max_concurrency, want);
    }
}

#[test]
fn the_next_worker_starts_when_either_of_two_is_done() {
    // The worked upgrade of docs/topology.md
    let mut fleet = timeline().annotated(annotation::UPGRADE_CONCURRENCY, "2");
    bring_control_plane_to(&mut fleet, V33);
    fleet.step();
    fleet.step();
    assert_eq!(fleet.rolling(), ["md-a", "md-b"]);
    fleet.finish("md-b");
    fleet.step();
    assert_eq!(fleet.rolling(), ["md-a", "md-c"]);
}

#[test]
fn a_deferred_worker_is_passed_over_and_keeps_the_upgrade_open() {
    // UP-34, UP-45, ST-13, the worked upgrade
    let mut fleet = timeline();
    fleet.annotate(MD, "md-b", annotation::DEFER_UPGRADE, true);
    bring_control_plane_to(&mut fleet, V33);
    fleet.step();
    fleet.finish("md-a");
    fleet.step();
    assert_eq!(fleet.rolling(), ["md-c"]);
    fleet.finish("md-c");
    let round = fleet.step();
    assert_eq!((round.condition.reason, round.marks_a_step), ("MachineDeploymentsUpgradeDeferred", true));
    let message = "Cluster is upgrading to v1.33.0\n  * MachineDeployment c-md-b upgrade to version v1.33.0 deferred by \
        annotation topology.cluster.x-k8s.io/defer-upgrade or topology.cluster.x-k8s.io/hold-upgrade-sequence";
    assert_eq!(round.condition.message, message);
    assert_eq!(fleet.pending(), "AfterClusterUpgrade,AfterWorkersUpgrade");
    let held = round.tracker.held("c");
    let reason = "deferred by annotation topology.cluster.x-k8s.io/defer-upgrade on md-b";
    let held: Vec<_> = held.iter().map(|held| (&*held.kind, &*held.name, held.reason.to_string())).collect();
    assert_eq!(held, [("MachineDeployment", "c-md-b", reason.to_owned())]);
    fleet.annotate(MD, "md-b", annotation::DEFER_UPGRADE, false);
    fleet.step();
    fleet.finish("md-b");
    assert!(fleet.step().condition.is_true);
}

#[test]
fn a_hold_stops_a_worker_and_those_after_it() {
    // UP-34
    let mut fleet = timeline();
    fleet.annotate(MD, "md-b", annotation::HOLD_UPGRADE_SEQUENCE, true);
    bring_control_plane_to(&mut fleet, V33);
    fleet.step();
    fleet.finish("md-a");
    let round = fleet.step();
    assert!(fleet.rolling().is_empty());
    assert_eq!(names(&round.tracker.machine_deployments.deferred), ["c-md-b", "c-md-c"]);
    let reasons: Vec<String> = round.tracker.held("c").into_iter().map(|held| held.reason.to_string()).collect();
    let reason = "deferred by annotation topology.cluster.x-k8s.io/hold-upgrade-sequence on md-b";
    assert_eq!(reasons, [reason, reason]);
    assert_eq!(round.condition.reason, "MachineDeploymentsUpgradeDeferred");
}

#[test]
fn a_hook_that_asks_for_time_holds_the_step_and_everything_behind_it() {
    // HK-04, HK-09, HK-15, UP-30, the worked upgrade
    let mut fleet = timeline();
    bring_control_plane_to(&mut fleet, V32);
    let wait = HookAnswer::Retry { after_seconds: 30, message: "drill".to_owned() };
    fleet.extensions.insert(Hook::BeforeControlPlaneUpgrade, wait);
    let held = fleet.step();
    assert_eq!((&*held.control_plane, held.tracker.hooks.requeue_after_seconds()), (V32, Some(30)));
    assert!(held.tracker.is_control_plane_frozen());
    assert_eq!(names(&held.tracker.machine_deployments.pending).len(), 3);
    let lines: Vec<&str> = held.condition.message.lines().collect();
    let hook = "  * Following hooks are blocking upgrade: BeforeControlPlaneUpgrade: drill";
    assert_eq!(lines[1..3], [hook, "  * ExampleControlPlane pending upgrade to version v1.33.0"]);
    assert_eq!(held.tracker.held("c")[0].reason.to_string(), "hook BeforeControlPlaneUpgrade: drill");
    assert_eq!(fleet.pending(), "AfterClusterUpgrade");
    fleet.extensions.insert(Hook::BeforeControlPlaneUpgrade, HookAnswer::Done);
    assert_eq!(fleet.step().control_plane, V33);
}

#[test]
fn workers_take_three_minor_versions_in_one_step_and_the_control_plane_waits_for_them() {
    // UP-17, UP-26, UP-38, the worked upgrade: four minor versions
    let versions = [V31, V32, V33, "v1.34.0", "v1.35.0"];
    let mut fleet = Fleet::at(V31, &versions, &["md-a", "md-b", "md-c"]).to("v1.35.0");
    let first = fleet.step();
    assert_eq!(row(&first).2, [V32, V33, "v1.34.0", "v1.35.0"]);
    assert_eq!(row(&first).3, ["v1.34.0", "v1.35.0"]);
    bring_control_plane_to(&mut fleet, "v1.34.0");
    for name in ["md-a", "md-b", "md-c"] {
        let round = fleet.step();
        assert_eq!((&*round.control_plane, fleet.rolling()), ("v1.34.0", vec![name]));
        assert!(round.tracker.is_control_plane_frozen() && round.tracker.control_plane.is_waiting_for_workers);
        // It has finished, others have not, and it is not the one that rolls.
        fleet.finish(name);
    }
    let round = fleet.step();
    assert_eq!(round.control_plane, "v1.35.0");
    fleet.finish_control_plane();
    for name in ["md-a", "md-b", "md-c"] {
        fleet.step();
        assert_eq!((fleet.rolling(), &*fleet.worker(name).version), (vec![name], "v1.35.0"));
        fleet.finish(name);
    }
    assert!(fleet.step().condition.is_true);
}

#[test]
fn a_control_plane_at_an_intermediate_version_says_which_workers_it_waits_for() {
    // UP-26, UP-38
    let versions = [V31, V32, V33, "v1.34.0", "v1.35.0"];
    let mut fleet = Fleet::at(V31, &versions, &["md-a", "md-b"]).to("v1.35.0");
    bring_control_plane_to(&mut fleet, "v1.34.0");
    fleet.step();
    fleet.finish("md-a");
    fleet.annotate(MD, "md-b", annotation::DEFER_UPGRADE, true);
    let round = fleet.step();
    let reasons: Vec<String> =
        round.tracker.held("c").into_iter().map(|held| format!("{}: {}", held.name, held.reason)).collect();
    assert_eq!(
        reasons,
        [
            "cp: waits for workers c-md-b to reach v1.34.0",
            "c-md-a: waits for workers c-md-b to reach v1.34.0",
            "c-md-b: deferred by annotation topology.cluster.x-k8s.io/defer-upgrade on md-b",
        ]
    );
    assert!(!round.tracker.machine_deployments.upgrading.contains("c-md-a"));
}

#[test]
fn a_worker_that_still_rolls_to_an_intermediate_version_is_frozen() {
    // UP-36
    let versions = [V31, V32, V33, "v1.34.0", "v1.35.0"];
    let mut fleet = Fleet::at(V31, &versions, &["md-a"]).to("v1.35.0");
    bring_control_plane_to(&mut fleet, "v1.34.0");
    fleet.step();
    let round = fleet.step();
    assert!(round.tracker.is_worker_frozen(MD, "c-md-a"));
    let held = round.tracker.held("c");
    assert_eq!(held[1].reason.to_string(), "its machines are still upgrading to v1.34.0");
    // Its version is there, and only its machines are missing.
    assert_eq!(held[0].reason.to_string(), "waits for the machines of workers c-md-a");
}

#[test]
fn no_plan_is_an_error_that_says_what_is_missing() {
    // UP-13, the worked upgrade
    let mut fleet = Fleet::at(V31, &[], &["md-a"]).to(V33);
    let failure = fleet.decide().unwrap_err();
    assert!(
        matches!(&failure, Failure::Plan(PlanError::MoreThanOneMinor { from, target }) if from == V31 && target == V33)
    );
    let mut fleet = Fleet::at(V31, &[], &["md-a"]).to("v1.32.7");
    assert_eq!(fleet.step().control_plane, "v1.32.7");
}

#[test]
fn a_new_worker_waits_for_the_control_plane_and_starts_at_the_target() {
    // UP-33, UP-23, the worked upgrade
    let mut fleet = timeline();
    fleet.step();
    fleet = fleet.with_entry(MD, "md-d");
    let round = fleet.step();
    assert!(round.tracker.is_pending_create(MD, "md-d") && !fleet.workers.contains_key(&(MD, "md-d".to_owned())));
    assert!(
        round
            .condition
            .message
            .ends_with("\n  * MachineDeployment md-d creation deferred while control plane upgrade is in progress")
    );
    assert_eq!(
        round.tracker.held("c").last().unwrap().reason.to_string(),
        "waits for the control plane to reach v1.33.0"
    );
    bring_control_plane_to(&mut fleet, V33);
    fleet.step();
    assert_eq!(fleet.worker("md-d").version, V33);
}

#[test]
fn workers_are_created_together_with_their_control_plane() {
    // UP-09, UP-24 row 1, UP-33
    let mut fleet = Fleet::at(V31, &LISTED, &[]).to(V33).with_entry(MD, "md-a");
    fleet.control_plane = None;
    let round = fleet.step();
    assert_eq!(round.control_plane, V33);
    assert_eq!(fleet.worker("md-a").version, V33);
    assert!(round.tracker.is_planned && round.tracker.control_plane.plan.is_empty());
    assert!(fleet.calls.is_empty());
}

#[test]
fn while_the_control_plane_provisions_nothing_moves() {
    // UP-06, UP-29, UP-33, ST-14
    for status in [json!({}), json!({"version": ""}), json!({"versions": [{"version": ""}], "version": V31})] {
        let mut fleet = Fleet::at(V31, &LISTED, &["md-a"]).to(V32).with_entry(MD, "md-b");
        fleet.control_plane.as_mut().unwrap()["status"] = status;
        let round = fleet.step();
        assert_eq!((&*round.control_plane, &*fleet.worker("md-a").version), (V31, V31));
        assert!(round.tracker.control_plane.is_provisioning && round.tracker.is_pending_create(MD, "md-b"));
        let held = round.tracker.held("c");
        assert!(
            held.iter().all(|held| held.reason.to_string() == "the control plane is still provisioning")
                && held.len() == 3
        );
    }
}

#[test]
fn a_control_plane_upgrades_while_any_of_its_versions_is_lower() {
    // UP-07
    let mut fleet = Fleet::at(V32, &LISTED, &[]).to(V32);
    for (status, is_upgrading) in [
        (json!({"versions": [{"version": V31, "replicas": 0}, {"version": V32}]}), true),
        (json!({"versions": [{"version": V32}]}), false),
        (json!({"version": V31}), true),
        (json!({"version": V33}), false),
    ] {
        fleet.control_plane.as_mut().unwrap()["status"] = status.clone();
        assert_eq!(fleet.decide().unwrap().tracker.control_plane.is_upgrading, is_upgrading, "{status}");
    }
    fleet.control_plane.as_mut().unwrap()["status"] = json!({"versions": [{"version": V33}, {"version": V32}]});
    assert!(matches!(fleet.decide(), Err(Failure::UnclearVersion(_))));
}

#[test]
fn machines_behind_their_worker_hold_the_control_plane() {
    // UP-21, UP-24 row 8, UP-27
    let mut fleet = Fleet::at(V31, &LISTED, &["md-a"]).to(V32);
    fleet.worker_mut("md-a").machines = vec!["v1.30.0".to_owned(), V31.to_owned()];
    let round = fleet.step();
    assert_eq!((&*round.control_plane, round.tracker.control_plane.is_starting), (V31, false));
    assert_eq!(round.tracker.held("c")[0].reason.to_string(), "waits for the machines of workers c-md-a");
    fleet.worker_mut("md-a").machines.clear();
    assert_eq!(fleet.step().control_plane, V32);
}

#[test]
fn nodes_behind_their_pool_hold_the_control_plane() {
    // UP-22
    let mut fleet = Fleet::at(V31, &LISTED, &[]).to(V32).with_worker(MP, "mp-a", V31);
    fleet.worker_mut("mp-a").machines = vec!["v1.30.0".to_owned()];
    let round = fleet.decide().unwrap();
    assert_eq!((&*round.control_plane, names(&round.tracker.machine_pools.upgrading)), (V31, vec!["c-mp-a"]));
    fleet.finish("mp-a");
    assert_eq!(fleet.decide().unwrap().control_plane, V32);
}

#[test]
fn pools_go_the_same_way_with_a_budget_of_their_own() {
    // UP-19, UP-41, UP-42
    let mut fleet = Fleet::at(V31, &LISTED, &["md-a", "md-b"]).to(V32);
    fleet = fleet.with_worker(MP, "mp-a", V31).with_worker(MP, "mp-b", V31);
    bring_control_plane_to(&mut fleet, V32);
    let round = fleet.step();
    assert_eq!(fleet.rolling(), ["md-a", "mp-a"]);
    assert!(round.condition.message.ends_with(
        "\n  * MachinePool c-mp-a upgrading to version v1.32.0\n  * MachinePool c-mp-b pending upgrade to version v1.32.0"
    ));
    fleet.finish("mp-a");
    fleet.step();
    assert_eq!(fleet.rolling(), ["md-a", "mp-b"]);
    let no_pools = timeline().decide().unwrap().tracker;
    assert!(no_pools.machine_pools.plan.is_empty() && !no_pools.machine_deployments.plan.is_empty());
}

#[test]
fn workers_that_left_the_topology_count_until_they_are_gone() {
    // UP-10, UP-23, UP-44
    let mut fleet = timeline();
    fleet.drop_entry(MD, "md-a");
    fleet.worker_mut("md-a").version = "v1.30.0".to_owned();
    let round = fleet.decide().unwrap();
    assert_eq!(round.tracker.minimum_workers_version.unwrap().as_str(), "v1.30.0");
    assert_eq!(names(&round.tracker.machine_deployments.upgrading), ["c-md-a"]);
}

#[test]
fn a_control_plane_without_workers_walks_one_entry_at_a_time() {
    // UP-49
    let mut fleet = Fleet::at(V31, &LISTED, &[]).to(V33);
    for want in [V32, V33] {
        assert_eq!(fleet.step().control_plane, want);
        fleet.finish_control_plane();
    }
    assert!(fleet.step().condition.is_true);
}

#[test]
fn workers_that_lag_behind_catch_up_without_hooks() {
    // HK-24, UP-11
    let mut fleet = Fleet::at(V32, &LISTED, &[]).with_worker(MD, "md-a", V31);
    let round = fleet.step();
    assert_eq!((&*fleet.worker("md-a").version, round.marks_a_step), (V32, false));
    assert!(fleet.calls.is_empty());
}

#[test]
fn files_have_no_extensions_so_pending_hooks_are_taken_off() {
    // HK-04
    let mut fleet = timeline();
    fleet.is_offline = true;
    fleet.step();
    assert_eq!(fleet.pending(), "AfterClusterUpgrade,AfterControlPlaneUpgrade");
    for _ in 0..6 {
        fleet.finish_control_plane();
        for name in ["md-a", "md-b", "md-c"] {
            fleet.finish(name);
        }
        fleet.step();
    }
    let round = fleet.step();
    assert_eq!((fleet.pending(), round.condition.is_true, fleet.calls.len()), ("", true, 0));
}

#[test]
fn an_extension_may_plan_the_upgrade() {
    // UP-12, UP-15
    let plan = |control_plane: &[&str], workers: &[&str]| {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Some(model::world::PlannedVersions { control_plane: texts(control_plane), workers: texts(workers) })
    };
    let mut fleet = timeline();
    fleet.class["upgrade"] = json!({"external": {"generateUpgradePlanExtension": "plan.ext"}});
    fleet.planner = plan(&["v1.31.9", "v1.32.4", "1.33.0"], &["v1.32.4", V33]);
    let round = fleet.decide().unwrap();
    assert_eq!((&*round.control_plane, row(&round).3), ("v1.31.9", vec!["v1.32.4", V33]));
    assert_eq!(row(&round).2.last(), Some(&V33));
    fleet.planner = None;
    assert!(matches!(fleet.decide(), Err(Failure::PlanExtension { .. })));
    fleet.is_offline = true;
    let failure = fleet.decide().unwrap_err().to_string();
    let want = "the upgrade plan of extension plan.ext is not known; call the extension with --extension";
    assert_eq!(failure, want);
    fleet.has_hooks = false;
    assert!(fleet.decide().unwrap_err().to_string().ends_with("the feature gate RuntimeSDK is off"));
}

#[test]
fn a_lower_version_is_never_taken() {
    // UP-31, UP-47
    let failure = Fleet::at(V33, &LISTED, &["md-a"]).to(V32).decide().unwrap_err();
    assert!(matches!(failure, Failure::Plan(PlanError::OtherEnd { part: UpgradePart::ControlPlane, .. })));
    let mut fleet = Fleet::at(V32, &LISTED, &[]).with_worker(MD, "md-a", V33);
    let failure = fleet.decide().unwrap_err();
    assert!(matches!(failure, Failure::Plan(PlanError::WorkersAhead { .. })), "{failure}");
    let mut fleet = Fleet::at(V32, &LISTED, &[]).with_worker(MD, "md-a", "v1.32.1");
    let failure = fleet.decide().unwrap_err();
    assert!(matches!(failure, Failure::Plan(PlanError::NotAbove { part: UpgradePart::Workers, .. })), "{failure}");
}

#[test]
fn hooks_are_called_in_their_order_once_for_each_step() {
    // HK-14, HK-15, HK-16, HK-17, HK-18, HK-23
    let mut fleet = timeline();
    for _ in 0..12 {
        fleet.step();
        fleet.finish_control_plane();
        for name in ["md-a", "md-b", "md-c"] {
            fleet.finish(name);
        }
    }
    assert_eq!(
        called(&fleet),
        [
            "BeforeClusterUpgrade",
            "BeforeControlPlaneUpgrade",
            "AfterControlPlaneUpgrade",
            "BeforeControlPlaneUpgrade",
            "AfterControlPlaneUpgrade",
            "BeforeWorkersUpgrade",
            "AfterWorkersUpgrade",
            "AfterClusterUpgrade",
        ]
    );
}

#[test]
fn each_hook_holds_what_is_behind_it() {
    // UP-24 rows 5, 6, 9, 11, 13; UP-32 rows 4 and 5; UP-33; HK-21
    for (hook, control_plane, workers) in [
        (Hook::BeforeClusterUpgrade, V31, V31),
        (Hook::BeforeControlPlaneUpgrade, V31, V31),
        (Hook::AfterControlPlaneUpgrade, V32, V31),
        (Hook::BeforeWorkersUpgrade, V33, V31),
        (Hook::AfterWorkersUpgrade, V33, V33),
        (Hook::AfterClusterUpgrade, V33, V33),
    ] {
        let mut fleet = Fleet::at(V31, &LISTED, &["md-a"]).to(V33);
        let answer = HookAnswer::Retry { after_seconds: 7, message: String::new() };
        fleet.extensions.insert(hook, answer);
        let mut last = None;
        for _ in 0..8 {
            last = Some(fleet.step());
            fleet.finish_control_plane();
            fleet.finish("md-a");
        }
        let last = last.unwrap();
        assert_eq!((fleet.version(), &*fleet.worker("md-a").version), (control_plane, workers), "{hook}");
        let held = last.tracker.held("c");
        assert!(held.iter().any(|held| held.reason.to_string() == format!("hook {hook}")), "{hook}: {held:?}");
        assert!(last.tracker.hooks.blocks(hook) && !last.condition.is_true, "{hook}");
        assert_eq!(last.tracker.hooks.requeue_after_seconds(), Some(7));
        let waits = matches!(hook, Hook::AfterControlPlaneUpgrade | Hook::BeforeWorkersUpgrade);
        fleet = fleet.with_entry(MD, "new");
        let is_unstable = last.tracker.control_plane.is_pending;
        assert_eq!(fleet.decide().unwrap().tracker.is_pending_create(MD, "new"), waits || is_unstable, "{hook}");
        // The walk goes on where it stopped.
        fleet.drop_entry(MD, "new");
        fleet.extensions.clear();
        for _ in 0..8 {
            last_condition(&mut fleet);
        }
        assert!(last_condition(&mut fleet), "{hook}");
    }
}

fn last_condition(fleet: &mut Fleet) -> bool {
    let is_true = fleet.step().condition.is_true;
    fleet.finish_control_plane();
    fleet.finish("md-a");
    is_true
}

#[test]
fn a_hook_that_fails_fails_the_computation() {
    // HK-04, HK-07
    let mut fleet = timeline();
    fleet.failing = Some(Hook::BeforeControlPlaneUpgrade);
    let failure = fleet.decide().unwrap_err();
    assert_eq!(failure.to_string(), "hook BeforeControlPlaneUpgrade failed: out of order");
}

#[test]
fn versions_may_lack_their_v_and_are_there_only_letter_by_letter() {
    // UP-03, UP-24 rows 2 and 12
    let mut fleet = Fleet::at(V31, &LISTED, &["md-a"]).to(V32);
    fleet.control_plane.as_mut().unwrap()["spec"]["version"] = json!("1.31.0");
    assert_eq!(fleet.decide().unwrap().control_plane, V32);
    let mut fleet = fleet.to(V31);
    assert!(matches!(fleet.decide(), Err(Failure::NoStep { version, .. }) if version == "1.31.0"));
    for at in ["topology", "control plane", "worker"] {
        let mut fleet = Fleet::at(V31, &LISTED, &["md-a"]).to(V32);
        match at {
            "topology" => fleet = fleet.to("nonsense"),
            "worker" => fleet.worker_mut("md-a").version = "nonsense".to_owned(),
            _ => fleet.control_plane.as_mut().unwrap()["spec"]["version"] = json!("nonsense"),
        }
        let failure = fleet.decide().unwrap_err().to_string();
        assert!(failure.contains("nonsense"), "{at}: {failure}");
    }
    let mut fleet = timeline();
    fleet.control_plane.as_mut().unwrap()["spec"]["version"] = json!(1.31);
    assert!(matches!(fleet.decide(), Err(Failure::WrongType(_))));
}

#[test]
fn without_a_control_plane_versions_are_taken_as_they_are_written() {
    // UP-09, UP-24 row 1
    let mut fleet = Fleet::at("odd", &[], &["md-a"]).to("nonsense");
    fleet.control_plane = None;
    let failure = fleet.decide().unwrap_err().to_string();
    assert!(failure.contains("is at odd") && failure.contains("to nonsense"), "{failure}");
    let round = fleet.to("odd").decide().unwrap();
    assert_eq!(
        (&*round.control_plane, round.workers.into_values().collect::<Vec<_>>()),
        ("odd", vec!["odd".to_owned()])
    );
}

#[test]
fn nothing_of_a_computation_is_left_for_the_next() {
    // UP-04, UP-35, HK-08
    let mut fleet = timeline();
    fleet.step();
    fleet.finish_control_plane();
    let hook = Hook::AfterControlPlaneUpgrade;
    let retry = |after_seconds: u32| HookAnswer::Retry { after_seconds, message: String::new() };
    fleet.extensions.insert(hook, retry(7));
    let held = fleet.decide().unwrap().tracker;
    assert_eq!(fleet.decide().unwrap().tracker, held, "nothing was written, so nothing is different");
    assert!(held.hooks.blocks(hook) && !held.hooks.blocks(Hook::BeforeWorkersUpgrade));
    assert_eq!(names(&held.machine_deployments.pending).len(), 3);
    for answer in [retry(0), HookAnswer::Done] {
        fleet.extensions.insert(hook, answer);
        let free = fleet.decide().unwrap();
        assert!(!free.tracker.hooks.blocks(hook));
        assert_eq!((&*free.control_plane, free.tracker.hooks.requeue_after_seconds()), (V33, None));
    }
}

#[test]
fn without_the_gate_no_answer_holds_anything() {
    // UP-35, HK-01
    let mut fleet = timeline();
    fleet.has_hooks = false;
    for hook in [Hook::BeforeClusterUpgrade, Hook::AfterControlPlaneUpgrade, Hook::BeforeWorkersUpgrade] {
        fleet.extensions.insert(hook, HookAnswer::Retry { after_seconds: 7, message: String::new() });
    }
    bring_control_plane_to(&mut fleet, V33);
    assert!(fleet.step().tracker.hooks.blocking().next().is_none());
    assert_eq!(fleet.rolling(), ["md-a"]);
}

#[test]
fn a_control_plane_is_stable_while_nothing_of_it_moves() {
    // UP-08
    let is = |set: fn(&mut ControlPlaneTracker)| {
        let mut control_plane = ControlPlaneTracker::default();
        set(&mut control_plane);
        (control_plane.is_stable(), control_plane.is_stable_or_waiting())
    };
    assert_eq!(is(|_| {}), (true, true));
    assert_eq!(is(|one| one.is_provisioning = true), (false, false));
    assert_eq!(is(|one| one.is_upgrading = true), (false, false));
    assert_eq!(is(|one| one.is_starting = true), (false, false));
    assert_eq!(is(|one| one.is_pending = true), (false, false));
    assert_eq!(is(|one| one.is_waiting_for_workers = true), (true, true));
    let waits = |one: &mut ControlPlaneTracker| (one.is_pending, one.is_waiting_for_workers) = (true, true);
    assert_eq!(is(waits), (false, true));
    let rolls = |one: &mut ControlPlaneTracker| {
        (one.is_pending, one.is_waiting_for_workers, one.is_upgrading) = (true, true, true);
    };
    assert_eq!(is(rolls), (false, false));
}

#[test]
fn another_target_on_the_way_makes_other_plans_and_begins_no_other_upgrade() {
    // UP-20, UP-46
    let mut fleet = timeline();
    fleet.step();
    fleet.finish_control_plane();
    fleet.calls.clear();
    fleet = fleet.to(V32);
    let round = fleet.step();
    assert_eq!(row(&round), (V32, vec![V32, V31, V31], vec![], vec![V32]));
    fleet.finish("md-a");
    fleet = fleet.to(V33);
    let round = fleet.step();
    assert_eq!(row(&round), (V33, vec![V32, V31, V31], vec![V33], vec![V33]));
    assert_eq!(called(&fleet), ["AfterControlPlaneUpgrade", "BeforeControlPlaneUpgrade"]);
}

/// A list of versions as a class may have it: every minor from 30 on, each with some patches.
fn listed() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(proptest::collection::btree_set(0_u8..5, 1..4), 1..9).prop_map(|minors| {
        let numbered = minors.into_iter().enumerate();
        numbered
            .flat_map(|(minor, patches)| patches.into_iter().map(move |patch| format!("v1.{}.{patch}", 30 + minor)))
            .collect()
    })
}

fn parsed(text: &str) -> KubeVersion {
    KubeVersion::parse_tolerant(text).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// UP-16, UP-18, UP-20, UP-31: plans are valid, versions never fall, workers stay within their distance from the
    /// control plane and their budget, and the walk ends at the target, for any order in which machines finish.
    #[test]
    fn every_walk_rises_to_its_target(
        versions in listed(), from in 0_usize..40, to in 0_usize..40, limit in 1_usize..3, done in proptest::collection::vec(0_u8..4, 1..20),
        with_hooks in any::<bool>(), with_pools in any::<bool>(),
    ) {
        let (from, to) = (from % versions.len(), to % versions.len());
        let (from, to) = (from.min(to), from.max(to));
        let list: Vec<&str> = versions.iter().map(String::as_str).collect();
        let (start, target) = (list[from], list[to]);
        let mut fleet = Fleet::at(start, &list, &["md-a", "md-b", "md-c"]).to(target);
        if with_pools {
            fleet = fleet.with_worker(MP, "mp-a", start).with_worker(MP, "mp-b", start);
        }
        fleet = fleet.annotated(annotation::UPGRADE_CONCURRENCY, &limit.to_string());
        fleet.has_hooks = with_hooks;
        let mut done = done.into_iter().cycle();
        let mut is_done = false;
        // Eight minors, each with one step of the control plane and five workers, and as many rounds of waiting.
        for _ in 0..200 {
            let before = fleet.clone();
            let round = fleet.decide().unwrap();
            check_plans(&fleet, &round);
            fleet.apply(&round);
            check_walk(&before, &fleet, limit);
            is_done = round.condition.is_true && !round.marks_a_step;
            if is_done {
                break;
            }
            // A random machine that is behind finishes.
            let mut behind: Vec<Option<String>> = fleet.rolling().into_iter().map(|name| Some(name.to_owned())).collect();
            if fleet.is_control_plane_rolling() {
                behind.push(None);
            }
            match behind.get(usize::from(done.next().unwrap()) % behind.len().max(1)) {
                Some(Some(name)) => fleet.finish(name),
                Some(None) => fleet.finish_control_plane(),
                None => {}
            }
        }
        prop_assert!(is_done);
        prop_assert_eq!(fleet.version(), target);
        prop_assert!(fleet.workers.values().all(|worker| worker.version == target));
        prop_assert_eq!(fleet.pending(), "");
    }
}

fn check_plans(fleet: &Fleet, round: &Round) {
    let plan = &round.tracker.control_plane.plan;
    let mut before = parsed(fleet.version());
    for one in plan.iter().map(VersionText::version).cloned() {
        assert_eq!(one.build_order(&before), BuildOrder::Higher);
        assert!(one.minor() - before.minor() <= 1, "{plan:?}");
        before = one;
    }
    let workers = &round.tracker.machine_deployments.plan;
    if let Some(head) = workers.first() {
        let lowest = round.tracker.minimum_workers_version.as_ref().unwrap().version();
        assert_eq!(head.version().build_order(lowest), BuildOrder::Higher, "{workers:?}");
        assert!(head.minor() - lowest.minor() <= 3, "{workers:?}");
        assert!(plan.contains(head) || head.as_str() == fleet.version(), "{workers:?}");
    }
}

fn check_walk(before: &Fleet, after: &Fleet, limit: usize) {
    let is_lower = |new: &str, old: &str| parsed(new).build_order(&parsed(old)) == BuildOrder::Lower;
    assert!(!is_lower(after.version(), before.version()));
    let runs = after.control_plane.as_ref().unwrap()["status"]["version"].as_str().unwrap();
    for (key, worker) in &after.workers {
        assert!(!is_lower(&worker.version, &before.workers[key].version), "{key:?}");
        assert!(!is_lower(runs, &worker.version), "{key:?} is ahead of its control plane");
        let machines = worker.machines.iter().map(|machine| parsed(machine).minor()).min().unwrap();
        assert!(parsed(after.version()).minor() <= machines + 3, "{key:?} is too far behind");
    }
    for kind in WorkerKind::ALL {
        let names: Vec<_> = after.workers.keys().filter(|(of, _)| *of == kind).map(|(_, name)| name.as_str()).collect();
        let rolling = after.rolling().into_iter().filter(|name| names.contains(name)).count();
        assert!(rolling <= limit, "{rolling} {}s roll", kind.name());
    }
}

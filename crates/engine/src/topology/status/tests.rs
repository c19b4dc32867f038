use super::*;
use crate::topology::hooks::HookCaller;
use crate::topology::upgrade::testing::Fleet;
use crate::topology::upgrade::{ControlPlaneTracker, Tracker};
use model::world::HookAnswer;

const NOW: &str = "2026-02-02T00:00:00Z";

fn cluster(members: Value) -> Cluster {
    let mut all = json!({"spec": {
        "controlPlaneRef": {"kind": "ExampleControlPlane", "name": "cp"}, "topology": {"version": "v1.32.0"},
    }});
    json_patch::merge(&mut all, &members);
    serde_json::from_value(all).unwrap()
}

fn condition_of(cluster: &Cluster, tracker: &Tracker, error: Option<&str>) -> TopologyReconciled {
    topology_reconciled(&ReconcileOutcome {
        cluster,
        class: None,
        tracker,
        error,
        is_too_large: false,
        guard: DeletionGuard::default(),
    })
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn plan(versions: &[&str]) -> Vec<VersionText> {
    versions.iter().map(|version| VersionText::lenient(version)).collect()
}

/// Trackers with a hook that blocks.
fn blocked(hook: Hook) -> Tracker {
    let mut fleet = Fleet::at("v1.31.0", &[], &[]);
    fleet.cluster["spec"].as_object_mut().unwrap().retain(|name, _| name == "topology");
    fleet.extensions.insert(hook, HookAnswer::Retry { after_seconds: 1, message: "wait".to_owned() });
    let (_, hooks) = fleet
        .ask(|hooks: &HookCaller<'_>, tracker| {
            hooks.before_cluster_create(tracker)?;
            hooks.before_cluster_delete(tracker)
        })
        .unwrap();
    Tracker { hooks, ..Tracker::default() }
}

#[test]
fn the_first_reason_that_applies_is_reported() {
    // ST-01, ST-03 to ST-09, ST-15
    let upgrading = Tracker {
        control_plane: ControlPlaneTracker { is_pending: true, ..ControlPlaneTracker::default() },
        ..Tracker::default()
    };
    let paused = json!({"spec": {"paused": true}, "metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
    let deleting = json!({"metadata": {"deletionTimestamp": NOW}});
    let is_new = json!({"spec": {"controlPlaneRef": null}});
    let (create, delete) = (blocked(Hook::BeforeClusterCreate), blocked(Hook::BeforeClusterDelete));
    let both = "Cluster spec.paused is set to true, Cluster has the cluster.x-k8s.io/paused annotation";
    let hooks = "Following hooks are blocking Cluster topology creation: BeforeClusterCreate: wait";
    let mut gone = paused.clone();
    json_patch::merge(&mut gone, &deleting);
    for (members, tracker, error, reason, message, v1beta1) in [
        (gone, &upgrading, Some("e"), "Paused", both, Some(("Paused", "Info"))),
        (deleting.clone(), &upgrading, Some("e"), "ReconcileFailed", "e", Some(("TopologyReconcileFailed", "Error"))),
        (deleting.clone(), &upgrading, None, "Deleting", "Cluster is deleting", Some(("Deleting", "Info"))),
        (
            deleting,
            &delete,
            None,
            "Deleting",
            "Cluster is deleting. Following hooks are blocking delete: BeforeClusterDelete: wait",
            Some(("Deleting", "Info")),
        ),
        (is_new.clone(), &create, None, "ClusterCreating", hooks, Some(("ClusterCreating", "Info"))),
        (is_new, &upgrading, None, "ReconcileSucceeded", "", None),
        (
            json!({}),
            &upgrading,
            None,
            "ClusterUpgrading",
            "Cluster is upgrading to v1.32.0",
            Some(("ClusterUpgrading", "Info")),
        ),
        (json!({}), &Tracker::default(), None, "ReconcileSucceeded", "", None),
    ] {
        let condition = condition_of(&cluster(members), tracker, error);
        assert_eq!(
            (condition.reason, &*condition.message, condition.v1beta1, condition.is_true),
            (reason, message, v1beta1, v1beta1.is_none())
        );
    }
    for (spec, annotations, want) in [
        (json!(true), json!({}), "Cluster spec.paused is set to true"),
        (json!(false), json!({"cluster.x-k8s.io/paused": "x"}), "Cluster has the cluster.x-k8s.io/paused annotation"),
    ] {
        let paused = cluster(json!({"spec": {"paused": spec}, "metadata": {"annotations": annotations}}));
        assert_eq!(condition_of(&paused, &Tracker::default(), None).message, want);
    }
}

#[test]
fn a_hold_is_no_pause_and_a_deletion_without_one_says_so() {
    // ST-04, DEC-56
    let value = "topologist.dev/before-cluster-delete uid=u since=2030-01-01T00:00:00Z";
    let annotations = json!({"annotations": {"cluster.x-k8s.io/paused": value}});
    let held = cluster(json!({"metadata": annotations}));
    assert_eq!(condition_of(&held, &Tracker::default(), None).reason, "ReconcileSucceeded");
    let leaving = cluster(json!({"metadata": {"deletionTimestamp": NOW}}));
    let message = |guard, tracker: &Tracker| {
        topology_reconciled(&ReconcileOutcome {
            cluster: &leaving,
            class: None,
            tracker,
            error: None,
            is_too_large: false,
            guard,
        })
        .message
    };
    let blocked = blocked(Hook::BeforeClusterDelete);
    let waits = "Cluster is deleting. Following hooks are blocking delete: BeforeClusterDelete: wait";
    for guard in [DeletionGuard::Controller, DeletionGuard::Hold] {
        assert_eq!(message(guard, &blocked), waits);
    }
    assert_eq!(message(DeletionGuard::Nothing, &blocked), format!("{waits}{NOT_HELD}"));
    assert_eq!(message(DeletionGuard::Nothing, &Tracker::default()), "Cluster is deleting");
}

#[test]
fn a_topology_that_is_too_large_has_a_reason_of_its_own() {
    // DEC-58
    let (cluster, tracker) = (cluster(json!({})), Tracker::default());
    let (error, guard) = (Some("too large"), DeletionGuard::default());
    let run = ReconcileOutcome { cluster: &cluster, class: None, tracker: &tracker, error, is_too_large: true, guard };
    let condition = topology_reconciled(&run);
    assert_eq!((condition.is_true, condition.reason, &*condition.message), (false, "TopologyTooLarge", "too large"));
    assert_eq!(condition.v1beta1, Some(("TopologyTooLarge", "Error")));
    let other = topology_reconciled(&ReconcileOutcome { is_too_large: false, ..run });
    assert_eq!((other.reason, other.v1beta1), ("ReconcileFailed", Some(("TopologyReconcileFailed", "Error"))));
}

#[test]
fn a_class_that_is_not_reconciled_is_reported_before_upgrades() {
    // ST-07
    let class: ClusterClass =
        serde_json::from_value(json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2}})).unwrap();
    let (cluster, tracker) = (cluster(json!({})), Tracker::default());
    let condition = topology_reconciled(&ReconcileOutcome {
        cluster: &cluster,
        class: Some(&class),
        tracker: &tracker,
        error: None,
        is_too_large: false,
        guard: DeletionGuard::default(),
    });
    assert_eq!(condition.reason, "ClusterClassNotReconciled");
    let want =
        "The ClusterClass is not reconciled: it is when .status.observedGeneration == .metadata.generation holds. ";
    assert!(condition.message.starts_with(want), "{}", condition.message);
}

#[test]
fn a_provisioning_control_plane_is_no_upgrade() {
    // ST-14
    let provisioning = ControlPlaneTracker { is_provisioning: true, ..ControlPlaneTracker::default() };
    let mut tracker = Tracker { control_plane: provisioning, ..Tracker::default() };
    assert!(condition_of(&cluster(json!({})), &tracker, None).is_true);
    tracker.machine_deployments.pending_create = set(&["md-a"]);
    assert!(!condition_of(&cluster(json!({})), &tracker, None).is_true);
}

#[test]
fn an_upgrade_is_reported_line_by_line() {
    // ST-10, ST-11, ST-12
    let mut tracker = Tracker {
        control_plane: ControlPlaneTracker {
            is_upgrading: true,
            plan: plan(&["v1.33.0", "v1.34.0"]),
            kind: "ExampleControlPlane".to_owned(),
            version: VersionText::lenient("v1.32.0"),
            ..ControlPlaneTracker::default()
        },
        ..Tracker::default()
    };
    tracker.machine_deployments = WorkerTracker {
        plan: plan(&["v1.32.0", "v1.34.0"]),
        upgrading: set(&["b", "a"]),
        pending: set(&["a", "c", "d", "e", "f", "g", "x"]),
        deferred: set(&["a", "x"]),
        pending_create: set(&["n"]),
        ..WorkerTracker::default()
    };
    tracker.machine_pools = WorkerTracker {
        plan: plan(&["v1.34.0"]),
        upgrading: set(&["p"]),
        pending: set(&["q", "r", "s"]),
        deferred: set(&["t", "u"]),
        pending_create: set(&["v"]),
        ..WorkerTracker::default()
    };
    let deferred = "deferred by annotation topology.cluster.x-k8s.io/defer-upgrade or \
        topology.cluster.x-k8s.io/hold-upgrade-sequence";
    let creation = "creation deferred while control plane upgrade is in progress";
    let condition = condition_of(&cluster(json!({"spec": {"topology": {"version": "v1.34.0"}}})), &tracker, None);
    assert_eq!(
        condition.message.lines().collect::<Vec<_>>(),
        [
            "Cluster is upgrading to v1.34.0",
            "  * ExampleControlPlane upgrading to version v1.32.0 (v1.33.0, v1.34.0 pending)",
            "  * MachineDeployments a, b upgrading to version v1.32.0 (v1.34.0 pending)",
            "  * MachineDeployments c, d, e, ... (2 more) pending upgrade to version v1.32.0, v1.34.0",
            &format!("  * MachineDeployment x upgrade to version v1.32.0 {deferred}"),
            &format!("  * MachineDeployment n {creation}"),
            "  * MachinePool p upgrading to version v1.32.0 (v1.34.0 pending)",
            "  * MachinePools q, r, s pending upgrade to version v1.34.0",
            &format!("  * MachinePools t, u upgrade to version v1.32.0 {deferred}"),
            &format!("  * MachinePool v {creation}"),
        ]
    );
    tracker.control_plane.is_upgrading = false;
    let condition = condition_of(&cluster(json!({})), &tracker, None);
    assert_eq!(
        condition.message.lines().nth(1),
        Some("  * ExampleControlPlane pending upgrade to version v1.33.0, v1.34.0")
    );
    tracker.control_plane.plan.clear();
    tracker.machine_deployments.plan.clear();
    let message = condition_of(&cluster(json!({})), &tracker, None).message;
    assert!(!message.contains("ExampleControlPlane") && !message.contains("c, d, e"), "{message}");
}

#[test]
fn deferral_is_the_reason_once_only_deferred_workers_are_left() {
    // ST-13
    let reason = |change: &dyn Fn(&mut Tracker)| {
        let mut tracker = Tracker::default();
        tracker.machine_deployments.deferred = set(&["a"]);
        tracker.machine_deployments.pending = set(&["a"]);
        change(&mut tracker);
        condition_of(&cluster(json!({})), &tracker, None).reason
    };
    let deployments = "MachineDeploymentsUpgradeDeferred";
    assert_eq!(reason(&|_| ()), deployments);
    assert_eq!(reason(&|tracker| tracker.control_plane.is_pending = true), deployments);
    assert_eq!(reason(&|tracker| tracker.machine_pools.deferred = set(&["p"])), deployments);
    assert_eq!(reason(&|tracker| tracker.machine_pools.upgrading = set(&["p"])), deployments);
    let upgrading = "ClusterUpgrading";
    assert_eq!(reason(&|tracker| tracker.control_plane.is_starting = true), upgrading);
    assert_eq!(reason(&|tracker| tracker.control_plane.is_upgrading = true), upgrading);
    assert_eq!(reason(&|tracker| tracker.machine_deployments.upgrading = set(&["b"])), upgrading);
    assert_eq!(reason(&|tracker| tracker.machine_deployments.upgrading = set(&["a"])), upgrading);
    assert_eq!(reason(&|tracker| tracker.machine_deployments.pending = set(&["a", "b"])), upgrading);
    assert_eq!(reason(&|tracker| tracker.hooks = blocked(Hook::BeforeClusterCreate).hooks), upgrading);
    let pools = |tracker: &mut Tracker| {
        tracker.machine_deployments = WorkerTracker::default();
        tracker.machine_pools.deferred = set(&["p"]);
    };
    assert_eq!(reason(&pools), "MachinePoolsUpgradeDeferred");
}

#[test]
fn the_status_has_the_remaining_steps_and_the_condition_in_both_forms() {
    // ST-02, ST-16, ST-18
    let stored = json!({"metadata": {"generation": 4}, "status": {
        "phase": "Provisioned",
        "controlPlane": {"replicas": 3, "upgradePlan": [{"version": "v1.32.0"}]},
        "workers": {"upgradePlan": [{"version": "v1.32.0"}]},
        "conditions": [{"type": "Other", "status": "True"}],
    }});
    let cluster = cluster(json!({}));
    let mut tracker = Tracker { is_planned: true, ..Tracker::default() };
    tracker.machine_deployments.plan = plan(&["v1.33.0"]);
    tracker.machine_pools.plan = plan(&["v1.34.0"]);
    let run = |tracker: &Tracker, error: Option<&str>, stored: &Value| {
        reconciled(
            stored,
            &ReconcileOutcome {
                cluster: &cluster,
                class: None,
                tracker,
                error,
                is_too_large: false,
                guard: DeletionGuard::default(),
            },
            NOW,
        )
    };
    let status = run(&tracker, None, &stored);
    assert_eq!(status["controlPlane"], json!({"replicas": 3}));
    assert_eq!(status["workers"], json!({"upgradePlan": [{"version": "v1.34.0"}]}));
    tracker.machine_pools.plan.clear();
    assert_eq!(run(&tracker, None, &stored)["workers"], json!({"upgradePlan": [{"version": "v1.33.0"}]}));
    assert_eq!(
        status["conditions"],
        json!([
            {"type": "Other", "status": "True"},
            {"type": "TopologyReconciled", "status": "True", "reason": "ReconcileSucceeded", "message": "",
                "lastTransitionTime": NOW, "observedGeneration": 4},
        ])
    );
    assert_eq!(
        status["deprecated"]["v1beta1"]["conditions"],
        json!([
            {"type": "TopologyReconciled", "status": "True", "lastTransitionTime": NOW},
        ])
    );
    // Fields that were not planned do not change.
    let failed = run(&Tracker::default(), Some("out of order"), &stored);
    assert_eq!((&failed["controlPlane"], &failed["phase"]), (&stored["status"]["controlPlane"], &json!("Provisioned")));
    assert_eq!(failed["conditions"][1]["message"], "out of order");
    assert_eq!(
        failed["deprecated"]["v1beta1"]["conditions"],
        json!([
            {"type": "TopologyReconciled", "status": "False", "severity": "Error", "reason": "TopologyReconcileFailed",
                "message": "out of order", "lastTransitionTime": NOW},
        ])
    );
    let bare = run(&Tracker { is_planned: true, ..Tracker::default() }, None, &json!({}));
    assert_eq!((bare.get("controlPlane"), bare.get("workers")), (None, None));
}

//! The status of a Cluster, computed from its topology.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::conditions::{StatusBuilder, StatusLayout, condition, present};
use super::hooks::DeletionGuard;
use super::upgrade::{Tracker, WorkerTracker};
use super::worker::WorkerKind;
use golang::version::VersionText;
use model::hub::{Cluster, ClusterClass, Hook, annotation};

/// The type of the condition, in both forms.
pub(super) const TOPOLOGY_RECONCILED: &str = "TopologyReconciled";
/// The reason of a topology that is too large to compute (DEC-58).
const TOO_LARGE: &str = "TopologyTooLarge";
/// Maximum number of names in a message (ST-11).
const SHOWN_NAMES: usize = 3;

/// The outcome of a reconcile.
///
/// If a reconcile stops before the desired state without an error, the condition stays unchanged (ST-17).
#[derive(Clone, Copy, Debug)]
pub struct ReconcileOutcome<'a> {
    /// The Cluster at the start of the reconcile.
    pub cluster: &'a Cluster,
    /// The class, if it was read.
    pub class: Option<&'a ClusterClass>,
    pub tracker: &'a Tracker,
    /// The text must be the same when the reconcile is retried (ST-05, RS-36).
    pub error: Option<&'a str>,
    /// Whether the error is that the topology is too large to compute (DEC-58).
    pub is_too_large: bool,
    pub guard: DeletionGuard,
}

/// The `TopologyReconciled` condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyReconciled {
    pub is_true: bool,
    pub reason: &'static str,
    pub message: String,
    /// Reason and severity of the v1beta1 form; a condition that is true has none.
    pub v1beta1: Option<(&'static str, &'static str)>,
}

impl TopologyReconciled {
    fn succeeded() -> Self {
        TopologyReconciled { is_true: true, reason: "ReconcileSucceeded", message: String::new(), v1beta1: None }
    }

    fn is_not(reason: &'static str, message: String) -> Self {
        TopologyReconciled { is_true: false, reason, message, v1beta1: Some((reason, "Info")) }
    }
}

/// The condition at the end of a run (ST-03 to ST-15).
pub(super) fn topology_reconciled(run: &ReconcileOutcome<'_>) -> TopologyReconciled {
    let ReconcileOutcome { cluster, class, tracker, error, is_too_large, guard } = run;
    if let Some(message) = paused(cluster) {
        return TopologyReconciled::is_not("Paused", message);
    }
    if let Some(error) = error {
        let (reason, legacy) =
            if *is_too_large { (TOO_LARGE, TOO_LARGE) } else { ("ReconcileFailed", "TopologyReconcileFailed") };
        let v1beta1 = Some((legacy, "Error"));
        return TopologyReconciled { v1beta1, ..TopologyReconciled::is_not(reason, (*error).to_owned()) };
    }
    if cluster.metadata.is_being_deleted() {
        let hooks = tracker.hooks.message("delete").map(|hooks| format!(". {hooks}")).unwrap_or_default();
        let unheld = if *guard == DeletionGuard::Nothing && !hooks.is_empty() { NOT_HELD } else { "" };
        return TopologyReconciled::is_not("Deleting", format!("Cluster is deleting{hooks}{unheld}"));
    }
    if class.is_some_and(|class| class.metadata.generation != class.status.observed_generation) {
        return TopologyReconciled::is_not("ClusterClassNotReconciled", CLASS_NOT_RECONCILED.to_owned());
    }
    if !cluster.spec.infrastructure_ref.is_defined() && !cluster.spec.control_plane_ref.is_defined() {
        return match tracker.hooks.message("Cluster topology creation") {
            Some(message) => TopologyReconciled::is_not("ClusterCreating", message),
            None => TopologyReconciled::succeeded(),
        };
    }
    if is_upgrading(tracker) {
        return TopologyReconciled::is_not(upgrade_reason(tracker), upgrade_message(cluster, tracker));
    }
    TopologyReconciled::succeeded()
}

/// The message of a deletion that does not wait for hooks (DEC-56).
const NOT_HELD: &str =
    ". Nothing holds the deletion: with --enforce=warn, Cluster API deletes the objects of the Cluster meanwhile";

const CLASS_NOT_RECONCILED: &str = "The ClusterClass is not reconciled: it is when .status.observedGeneration == \
    .metadata.generation holds. Most likely its reconciliation has failed, or it is paused";

/// The reason of a pause; `None` if the Cluster is not paused (ST-04).
fn paused(cluster: &Cluster) -> Option<String> {
    let spec = (cluster.spec.paused == Some(true)).then(|| "Cluster spec.paused is set to true".to_owned());
    let annotation = cluster.pause_annotation().map(|_| format!("Cluster has the {} annotation", annotation::PAUSED));
    let reasons: Vec<String> = spec.into_iter().chain(annotation).collect();
    (!reasons.is_empty()).then(|| reasons.join(", "))
}

/// Whether the topology has not reached its version yet (ST-10). A provisioning control plane does not count (ST-14).
fn is_upgrading(tracker: &Tracker) -> bool {
    let Tracker { control_plane, hooks, .. } = tracker;
    let of_workers = |kind: &WorkerKind| {
        let WorkerTracker { upgrading, pending, deferred, pending_create, .. } = tracker.workers(*kind);
        [upgrading, pending, deferred, pending_create].iter().any(|names| !names.is_empty())
    };
    control_plane.is_pending
        || control_plane.is_starting
        || control_plane.is_upgrading
        || WorkerKind::ALL.iter().any(of_workers)
        || hooks.is_pending(Hook::AfterClusterUpgrade)
}

/// The reason of an unfinished upgrade: deferral if only deferred workers are left (ST-13).
fn upgrade_reason(tracker: &Tracker) -> &'static str {
    let control_plane = &tracker.control_plane;
    let may_be_deferral =
        tracker.hooks.blocking().next().is_none() && !control_plane.is_starting && !control_plane.is_upgrading;
    let only_deferred = |kind: WorkerKind| {
        let workers = DistinctWorkers::from_tracker(tracker.workers(kind));
        may_be_deferral && !workers.deferred.is_empty() && workers.upgrading.is_empty() && workers.pending.is_empty()
    };
    match () {
        () if only_deferred(WorkerKind::MachineDeployment) => "MachineDeploymentsUpgradeDeferred",
        () if only_deferred(WorkerKind::MachinePool) => "MachinePoolsUpgradeDeferred",
        () => "ClusterUpgrading",
    }
}

/// The progress of an upgrade, line by line (ST-10).
fn upgrade_message(cluster: &Cluster, tracker: &Tracker) -> String {
    let control_plane = &tracker.control_plane;
    let version = &control_plane.version;
    let mut lines: Vec<String> = tracker.hooks.message("upgrade").into_iter().collect();
    if control_plane.is_starting || control_plane.is_upgrading {
        lines.push(format!(
            "{} upgrading to version {version}{}",
            control_plane.kind,
            rest(&control_plane.plan, version)
        ));
    } else if !control_plane.plan.is_empty() {
        lines.push(format!("{} pending upgrade to version {}", control_plane.kind, listed(&control_plane.plan)));
    }
    for kind in WorkerKind::ALL {
        worker_lines(kind, tracker.workers(kind), version, &mut lines);
    }
    let lines: String = lines.iter().map(|line| format!("\n  * {line}")).collect();
    format!("Cluster is upgrading to {}{lines}", cluster.spec.topology.version)
}

/// Lines 3 to 6 of ST-10.
fn worker_lines(kind: WorkerKind, tracker: &WorkerTracker, version: &VersionText, lines: &mut Vec<String>) {
    let DistinctWorkers { upgrading, deferred, pending } = DistinctWorkers::from_tracker(tracker);
    let WorkerTracker { plan, pending_create, .. } = tracker;
    if !upgrading.is_empty() {
        lines.push(format!("{} upgrading to version {version}{}", names(kind, &upgrading), rest(plan, version)));
    }
    if !pending.is_empty() && !plan.is_empty() {
        lines.push(format!("{} pending upgrade to version {}", names(kind, &pending), listed(plan)));
    }
    if !deferred.is_empty() {
        lines.push(format!(
            "{} upgrade to version {version} deferred by annotation {} or {}",
            names(kind, &deferred),
            annotation::DEFER_UPGRADE,
            annotation::HOLD_UPGRADE_SEQUENCE,
        ));
    }
    if !pending_create.is_empty() {
        let names = names(kind, &pending_create.iter().map(String::as_str).collect::<Vec<_>>());
        lines.push(format!("{names} creation deferred while control plane upgrade is in progress"));
    }
}

/// Distinct names of workers: upgrading before deferred before pending (ST-12).
struct DistinctWorkers<'a> {
    upgrading: Vec<&'a str>,
    deferred: Vec<&'a str>,
    pending: Vec<&'a str>,
}

impl<'a> DistinctWorkers<'a> {
    fn from_tracker(tracker: &'a WorkerTracker) -> Self {
        let WorkerTracker { upgrading, deferred, pending, .. } = tracker;
        let but = |names: &'a BTreeSet<String>, others: &[&BTreeSet<String>]| {
            names.iter().filter(|name| !others.iter().any(|other| other.contains(*name))).map(String::as_str).collect()
        };
        DistinctWorkers {
            upgrading: but(upgrading, &[]),
            deferred: but(deferred, &[upgrading]),
            pending: but(pending, &[upgrading, deferred]),
        }
    }
}

/// The versions of a plan after the current one.
fn rest(plan: &[VersionText], version: &VersionText) -> String {
    let rest = listed(plan.iter().filter(|one| *one != version));
    if rest.is_empty() { rest } else { format!(" ({rest} pending)") }
}

fn listed<'a>(plan: impl IntoIterator<Item = &'a VersionText>) -> String {
    plan.into_iter().map(VersionText::as_str).collect::<Vec<_>>().join(", ")
}

/// A kind with its first sorted names (ST-11).
fn names(kind: WorkerKind, names: &[&str]) -> String {
    let kind = kind.name();
    match names {
        [name] => format!("{kind} {name}"),
        names if names.len() <= SHOWN_NAMES => format!("{kind}s {}", names.join(", ")),
        names => {
            let shown: Vec<&str> = names.iter().copied().take(SHOWN_NAMES).collect();
            format!("{kind}s {}, ... ({} more)", shown.join(", "), names.len() - SHOWN_NAMES)
        }
    }
}

/// The v1beta2 status of a Cluster at the end of a reconcile: the remaining upgrade (ST-02), and the condition in both
/// forms (ST-16), for every outcome (ST-01). `now` is the transition time of changed conditions. Other conditions stay
/// unchanged (ST-18).
pub fn reconciled(cluster: &Value, run: &ReconcileOutcome<'_>, now: &str) -> Value {
    let mut status = StatusBuilder::for_object(cluster, StatusLayout::V1BETA2, now);
    if run.tracker.is_planned {
        let Tracker { control_plane, machine_deployments, machine_pools, .. } = run.tracker;
        let workers = if machine_pools.plan.is_empty() { &machine_deployments.plan } else { &machine_pools.plan };
        set_plan(&mut status.members, "controlPlane", &control_plane.plan);
        set_plan(&mut status.members, "workers", workers);
    }
    let TopologyReconciled { is_true, reason, message, v1beta1 } = topology_reconciled(run);
    let (state, message) = (if is_true { "True" } else { "False" }, message);
    status.set(&condition(TOPOLOGY_RECONCILED, state, reason, message.clone()));
    let (reason, severity) = v1beta1.map_or(("", None), |(reason, severity)| (reason, Some(severity)));
    status.set_legacy(&condition(TOPOLOGY_RECONCILED, state, reason, message), severity);
    status.into_value()
}

fn set_plan(status: &mut Map<String, Value>, part: &str, plan: &[VersionText]) {
    const PLAN: &str = "upgradePlan";
    if plan.is_empty() {
        if let Some(part) = status.get_mut(part).and_then(Value::as_object_mut) {
            part.remove(PLAN);
        }
    } else if let Some(part) = present(status, part, json!({})).as_object_mut() {
        let steps: Value = plan.iter().map(|one| json!({"version": one.as_str()})).collect();
        part.insert(PLAN.to_owned(), steps);
    }
}

#[cfg(test)]
mod tests;

//! The conditions `NodeReady` and `NodeHealthy` (MA-13.5).

use core::time::Duration;

use super::reconcile::{MachineReconcile, NodeState};
use crate::lifecycle::conditions::{self, ConditionState, ConditionStatus, get, put};
use crate::lifecycle::fields::remaining;
use model::hub::Object;

const READY: &str = "NodeReady";
const HEALTHY: &str = "NodeHealthy";
/// Period for which conditions of a Node count after the last contact with its cluster.
const GRACE: Duration = Duration::from_mins(5);
/// Conditions of a healthy Node, with their good status.
const PARTS: [(&str, ConditionStatus); 4] = [
    ("Ready", ConditionStatus::True),
    ("MemoryPressure", ConditionStatus::False),
    ("DiskPressure", ConditionStatus::False),
    ("PIDPressure", ConditionStatus::False),
];

/// Sets both conditions; the first match counts.
pub(super) fn update(work: &mut MachineReconcile<'_, '_>) {
    if let Some((status, reason, message)) = before_inspection(work) {
        return both(work, status, reason, &message);
    }
    if is_connection_lost(work) {
        return both(
            work,
            ConditionStatus::Unknown,
            "ConnectionDown",
            "The workload cluster has not been reached for 5 minutes",
        );
    }
    let was_probed = get(&work.cluster, "RemoteConnectionProbe").is_some();
    if !was_probed && work.workload().is_none() {
        return not_connected(work);
    }
    match work.node.clone() {
        NodeState::NotConnected => not_connected(work),
        NodeState::Ambiguous => {
            both(work, ConditionStatus::Unknown, "InternalError", "Several Nodes have the provider ID");
        }
        NodeState::Found(node) => from_node(work, &node),
        NodeState::NotAsked | NodeState::Missing => without_node(work),
    }
}

fn both(work: &mut MachineReconcile<'_, '_>, status: ConditionStatus, reason: &str, message: &str) {
    for name in [READY, HEALTHY] {
        put(&mut work.machine, name, &ConditionState::new(status, reason, message), work.context.now);
    }
}

/// Conditions while the Cluster is not initialized, and has no Nodes to inspect.
fn before_inspection(work: &MachineReconcile<'_, '_>) -> Option<(ConditionStatus, &'static str, String)> {
    let what = if !work.cluster.is_infrastructure_provisioned() {
        "the infrastructure of the Cluster to be provisioned"
    } else if !conditions::is_true(&work.cluster, "ControlPlaneInitialized") {
        "the control plane of the Cluster to be initialized"
    } else {
        return None;
    };
    Some((ConditionStatus::Unknown, "InspectionFailed", format!("Waiting for {what}")))
}

/// Whether the last contact with the workload cluster is too long ago. The condition `RemoteConnectionProbe` of the
/// Cluster records it: while it is false, its transition time is that of the last contact.
fn is_connection_lost(work: &mut MachineReconcile<'_, '_>) -> bool {
    if !conditions::is_false(&work.cluster, "RemoteConnectionProbe") {
        return false;
    }
    let times = ["RemoteConnectionProbe", "ControlPlaneInitialized"].map(|name| conditions::since(&work.cluster, name));
    let Some(latest) = times.into_iter().flatten().max() else { return false };
    match remaining(latest, GRACE, work.context.now) {
        None => true,
        Some(left) => {
            work.step.requeue_after(left);
            false
        }
    }
}

/// Without a connection, the conditions are kept for a grace period.
fn not_connected(work: &mut MachineReconcile<'_, '_>) {
    if [READY, HEALTHY].iter().any(|name| get(&work.machine, name).is_none()) {
        both(work, ConditionStatus::Unknown, "ConnectionDown", "The workload cluster is not connected");
    }
}

fn from_node(work: &mut MachineReconcile<'_, '_>, node: &Object) {
    let now = work.context.now;
    put(&mut work.machine, READY, &ready(node), now);
    put(&mut work.machine, HEALTHY, &healthy(node), now);
}

fn ready(node: &Object) -> ConditionState {
    let Some(known) = get(node, "Ready") else {
        return ConditionState::new(
            ConditionStatus::Unknown,
            "NodeReadyUnknown",
            "* Node.Ready: Condition not yet reported",
        );
    };
    let (reason, is_shown) = match known.status {
        ConditionStatus::True => ("NodeReady", false),
        ConditionStatus::False => ("NodeNotReady", true),
        ConditionStatus::Unknown => ("NodeReadyUnknown", true),
    };
    let message = if is_shown { format!("* Node.Ready: {}", words(&known)) } else { String::new() };
    ConditionState { status: known.status, reason: reason.to_owned(), message, since: known.since }
}

fn words(condition: &ConditionState) -> &str {
    if condition.message.is_empty() { &condition.reason } else { &condition.message }
}

/// Ready, and not under pressure. Bad conditions precede unknown ones; equal messages are merged.
fn healthy(node: &Object) -> ConditionState {
    let mut bad: Vec<(&str, String)> = Vec::new();
    let mut unknown: Vec<(&str, String)> = Vec::new();
    for (name, good) in PARTS {
        let known = get(node, name).unwrap_or_else(|| {
            ConditionState::new(ConditionStatus::Unknown, "NotYetReported", "Condition not yet reported")
        });
        match known.status {
            status if status == good => {}
            ConditionStatus::Unknown => unknown.push((name, words(&known).to_owned())),
            _ => bad.push((name, words(&known).to_owned())),
        }
    }
    let (status, reason) = match (bad.is_empty(), unknown.is_empty()) {
        (false, _) => (ConditionStatus::False, "NodeNotHealthy"),
        (true, false) => (ConditionStatus::Unknown, "NodeHealthyUnknown"),
        (true, true) => (ConditionStatus::True, "NodeHealthy"),
    };
    bad.append(&mut unknown);
    ConditionState::new(status, reason, bullets(&bad))
}

fn bullets(lines: &[(&str, String)]) -> String {
    if let [(_, first), _, ..] = lines
        && lines.iter().all(|(_, text)| text == first)
    {
        return format!("* Node.AllConditions: {first}");
    }
    let lines: Vec<String> = lines.iter().map(|(name, text)| format!("* Node.{name}: {text}")).collect();
    lines.join("\n")
}

fn without_node(work: &mut MachineReconcile<'_, '_>) {
    let node = work.machine.node_name().to_owned();
    let id = work.machine.provider_id().to_owned();
    let (status, reason, message) = if !node.is_empty() {
        (ConditionStatus::False, "NodeDeleted", format!("Node {node} is deleted"))
    } else if work.is_deleting() {
        (ConditionStatus::Unknown, "NodeDoesNotExist", "The Node does not exist".to_owned())
    } else if id.is_empty() {
        (
            ConditionStatus::Unknown,
            "InspectionFailed",
            "Waiting for the infrastructure to report the provider ID".to_owned(),
        )
    } else {
        (ConditionStatus::Unknown, "InspectionFailed", format!("Waiting for a Node with the provider ID {id}"))
    };
    both(work, status, reason, &message);
}

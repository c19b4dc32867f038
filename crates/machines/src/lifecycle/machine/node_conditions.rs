//! The conditions `NodeReady` and `NodeHealthy` (MA-13.5).

use core::time::Duration;

use super::node::NODE_REF;
use super::work::{NodeState, Work};
use crate::lifecycle::conditions::{self, Condition, Status, get, put};
use crate::lifecycle::fields::{flag, remaining, text};
use model::hub::Object;

const READY: &str = "NodeReady";
const HEALTHY: &str = "NodeHealthy";
/// How long the conditions of a Node count after its cluster was reached last.
const GRACE: Duration = Duration::from_mins(5);
/// What makes a Node healthy, and the status that is good.
const PARTS: [(&str, Status); 4] = [
    ("Ready", Status::True),
    ("MemoryPressure", Status::False),
    ("DiskPressure", Status::False),
    ("PIDPressure", Status::False),
];

/// Sets both; the first that applies wins.
pub(super) fn update(work: &mut Work<'_, '_>) {
    if let Some((status, reason, message)) = before_inspection(work) {
        return both(work, status, reason, &message);
    }
    if is_connection_lost(work) {
        return both(
            work,
            Status::Unknown,
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
        NodeState::Ambiguous => both(work, Status::Unknown, "InternalError", "Several Nodes have the provider ID"),
        NodeState::Found(node) => from_node(work, &node),
        NodeState::NotAsked | NodeState::Missing => without_node(work),
    }
}

fn both(work: &mut Work<'_, '_>, status: Status, reason: &str, message: &str) {
    for name in [READY, HEALTHY] {
        put(&mut work.machine, name, &Condition::new(status, reason, message), work.context.now);
    }
}

/// A Cluster that is not that far has no Nodes to look at.
fn before_inspection(work: &Work<'_, '_>) -> Option<(Status, &'static str, String)> {
    let what = if !flag(&work.cluster, "status.initialization.infrastructureProvisioned") {
        "the infrastructure of the Cluster to be provisioned"
    } else if !conditions::is_true(&work.cluster, "ControlPlaneInitialized") {
        "the control plane of the Cluster to be initialized"
    } else {
        return None;
    };
    Some((Status::Unknown, "InspectionFailed", format!("Waiting for {what}")))
}

/// Whether the workload cluster was reached too long ago. The condition `RemoteConnectionProbe` of the Cluster is the record of
/// it: while it is false, the cluster was reached last when it became so.
fn is_connection_lost(work: &mut Work<'_, '_>) -> bool {
    if !conditions::is_false(&work.cluster, "RemoteConnectionProbe") {
        return false;
    }
    let times = ["RemoteConnectionProbe", "ControlPlaneInitialized"].map(|name| conditions::since(&work.cluster, name));
    let Some(latest) = times.into_iter().flatten().max() else { return false };
    match remaining(latest, GRACE, work.context.now) {
        None => true,
        Some(left) => {
            work.step.look_again(left);
            false
        }
    }
}

/// Without a connection the conditions stay as they are for a while.
fn not_connected(work: &mut Work<'_, '_>) {
    if [READY, HEALTHY].iter().any(|name| get(&work.machine, name).is_none()) {
        both(work, Status::Unknown, "ConnectionDown", "The workload cluster is not connected");
    }
}

fn from_node(work: &mut Work<'_, '_>, node: &Object) {
    let now = work.context.now;
    put(&mut work.machine, READY, &ready(node), now);
    put(&mut work.machine, HEALTHY, &healthy(node), now);
}

fn ready(node: &Object) -> Condition {
    let Some(known) = get(node, "Ready") else {
        return Condition::new(Status::Unknown, "NodeReadyUnknown", "* Node.Ready: Condition not yet reported");
    };
    let (reason, is_shown) = match known.status {
        Status::True => ("NodeReady", false),
        Status::False => ("NodeNotReady", true),
        Status::Unknown => ("NodeReadyUnknown", true),
    };
    let message = if is_shown { format!("* Node.Ready: {}", words(&known)) } else { String::new() };
    Condition { status: known.status, reason: reason.to_owned(), message, since: known.since }
}

fn words(condition: &Condition) -> &str {
    if condition.message.is_empty() { &condition.reason } else { &condition.message }
}

/// Ready, and not short of anything. Bad conditions come before unknown ones; equal messages are shown once.
fn healthy(node: &Object) -> Condition {
    let mut bad: Vec<(&str, String)> = Vec::new();
    let mut unknown: Vec<(&str, String)> = Vec::new();
    for (name, good) in PARTS {
        let known = get(node, name)
            .unwrap_or_else(|| Condition::new(Status::Unknown, "NotYetReported", "Condition not yet reported"));
        match known.status {
            status if status == good => {}
            Status::Unknown => unknown.push((name, words(&known).to_owned())),
            _ => bad.push((name, words(&known).to_owned())),
        }
    }
    let (status, reason) = match (bad.is_empty(), unknown.is_empty()) {
        (false, _) => (Status::False, "NodeNotHealthy"),
        (true, false) => (Status::Unknown, "NodeHealthyUnknown"),
        (true, true) => (Status::True, "NodeHealthy"),
    };
    bad.append(&mut unknown);
    Condition::new(status, reason, bullets(&bad))
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

fn without_node(work: &mut Work<'_, '_>) {
    let node = text(&work.machine, NODE_REF).to_owned();
    let id = text(&work.machine, "spec.providerID").to_owned();
    let (status, reason, message) = if !node.is_empty() {
        (Status::False, "NodeDeleted", format!("Node {node} is deleted"))
    } else if work.is_deleting() {
        (Status::Unknown, "NodeDoesNotExist", "The Node does not exist".to_owned())
    } else if id.is_empty() {
        (Status::Unknown, "InspectionFailed", "Waiting for the infrastructure to report the provider ID".to_owned())
    } else {
        (Status::Unknown, "InspectionFailed", format!("Waiting for a Node with the provider ID {id}"))
    };
    both(work, status, reason, &message);
}

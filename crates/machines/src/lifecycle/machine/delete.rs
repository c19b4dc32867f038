//! The deletion of a Machine, stage by stage (MA-9).

use std::sync::Arc;

use core::time::Duration;

use super::guards::is_timeout_over;
use super::node::NODE_REF;
use super::work::{External, Stage, Work};
use super::{drain, volumes};
use crate::lifecycle::conditions;
use crate::lifecycle::context::Fault;
use crate::lifecycle::fields::{flag, items, reference, set, stamp, text};
use crate::lifecycle::hooks::{
    self, PRE_DRAIN, PRE_DRAIN_START, PRE_DRAIN_WAITS, PRE_TERMINATE, PRE_TERMINATE_START, PRE_TERMINATE_WAITS,
};
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::step::Write;
use model::hub::{Object, label};

/// How often the deletion of a Node is tried.
const NODE_PASS: Duration = Duration::from_secs(2);

/// What a stage waits for; `None` when it is over.
type Waiting = Result<Option<Stage>, Fault>;

/// Goes on with the deletion (MA-9.1). Every stage is asked anew in each step, so a Cluster whose deletion begins meanwhile leaves
/// out what is about the Node (MA-9.4).
pub(super) fn reconcile(work: &mut Work<'_, '_>) -> Result<(), Fault> {
    work.deletion = Some(Stage::new("Deleting", "Deletion started"));
    let node = match node_to_handle(work) {
        Ok(node) => node,
        Err(fault) => {
            work.deletion = Some(Stage::new("InternalError", "Cannot find out what to do with the Node"));
            return Err(fault);
        }
    };
    let stage = match stages(work, node.as_deref()) {
        Ok(stage) => stage,
        Err((stage, fault)) => {
            work.deletion = Some(stage);
            return Err(fault);
        }
    };
    if let Some(stage) = stage {
        work.deletion = Some(stage);
    } else if conditions::is_true(&work.before, "Deleting") {
        // Not before the status has said that the deletion began.
        work.deletion = Some(Stage::completed());
    }
    Ok(())
}

/// Whether the status says that nothing is left of the Machine, which is written before its finalizer goes (DEC-6).
pub(super) fn says_complete(work: &Work<'_, '_>) -> bool {
    conditions::reason(&work.before, "Deleting") == Stage::COMPLETED
}

/// The first stage that is not over; with a failure, the stage that fails.
fn stages(work: &mut Work<'_, '_>, node: Option<&str>) -> Result<Option<Stage>, (Stage, Fault)> {
    let at = |reason: &'static str| move |fault: Fault| (Stage::new(reason, fault.to_string()), fault);
    if let Some(node) = node {
        if let Some(stage) = hooks(work, PRE_DRAIN, PRE_DRAIN_START, PRE_DRAIN_WAITS) {
            return Ok(Some(stage));
        }
        if let Some(stage) = drain::stage(work, node).map_err(at("DrainingNode"))? {
            return Ok(Some(stage));
        }
        if let Some(stage) = volumes::stage(work, node).map_err(at("WaitingForVolumeDetach"))? {
            return Ok(Some(stage));
        }
    }
    if let Some(stage) = hooks(work, PRE_TERMINATE, PRE_TERMINATE_START, PRE_TERMINATE_WAITS) {
        return Ok(Some(stage));
    }
    if let Some(stage) = gone(work, &work.infrastructure.clone(), "WaitingForInfrastructureDeletion") {
        return Ok(Some(stage));
    }
    if let Some(stage) = gone(work, &work.bootstrap.clone(), "WaitingForBootstrapDeletion") {
        return Ok(Some(stage));
    }
    node.map_or(Ok(None), |node| delete_node(work, node).map_err(at("DeletingNode")))
}

/// The name of the Node that is drained and deleted; nothing if it goes with its cluster, or there is none (MA-9.3).
fn node_to_handle(work: &Work<'_, '_>) -> Result<Option<String>, Fault> {
    if work.cluster.is_being_deleted() {
        return Ok(None);
    }
    let Some(node) = node_name(work) else { return Ok(None) };
    let reference = reference(&work.cluster, "spec.controlPlaneRef");
    // A reference to an object that does not exist counts as none.
    if let Some(control_plane) = work.context.referenced(&reference, work.cluster.namespace())? {
        if control_plane.is_being_deleted() {
            return Ok(None);
        }
        if flag(&control_plane, "status.externalManagedControlPlane") {
            return Ok(Some(node));
        }
    }
    Ok(has_control_plane_machine(work)?.then_some(node))
}

/// The Node that the Machine has noted, or one with the provider id that its infrastructure reports.
fn node_name(work: &Work<'_, '_>) -> Option<String> {
    let noted = text(&work.machine, NODE_REF);
    if !noted.is_empty() {
        return Some(noted.to_owned());
    }
    let own = text(&work.machine, "spec.providerID");
    let reported = work.infrastructure.found().map_or("", |object| text(object, "spec.providerID"));
    let id = if own.is_empty() { reported } else { own };
    let node = work.workload()?.nodes_with_provider_id(id).next();
    node.filter(|_| !id.is_empty()).map(|node| node.name().to_owned())
}

fn has_control_plane_machine(work: &Work<'_, '_>) -> Result<bool, Fault> {
    let machines = work.context.of_cluster(&GroupKind::core("Machine"), &work.cluster.key())?;
    let stays = |machine: &Arc<Object>| machine.label(label::CONTROL_PLANE).is_some() && !machine.is_being_deleted();
    Ok(machines.iter().any(stays))
}

/// Waits while annotations ask for it (MA-9.5, MA-9.9). That they are taken away is an event.
fn hooks(work: &mut Work<'_, '_>, prefix: &'static str, start: &str, reason: &'static str) -> Option<Stage> {
    let mut hooks: Vec<&str> = hooks::hooks(&work.machine, prefix).collect();
    hooks.sort_unstable();
    if hooks.is_empty() {
        return None;
    }
    let message = format!("Waiting for hooks to be removed from the annotations: {}", hooks.join(", "));
    if work.machine.at(start).is_none() {
        set(&mut work.machine, start, stamp(work.context.now));
    }
    Some(Stage::new(reason, message))
}

/// Deletes an object of the Machine and waits until it is gone (MA-9.10, MA-9.11, CT-15.7).
fn gone(work: &mut Work<'_, '_>, external: &External, reason: &'static str) -> Option<Stage> {
    match external {
        External::NoReference | External::Missing => None,
        External::Unread => Some(Stage::new(reason, "Waiting until the object can be read")),
        External::Found(object) => {
            work.step.delete(object);
            let finalizers = items(object, "metadata.finalizers");
            let held: Vec<&str> = finalizers.iter().filter_map(serde_json::Value::as_str).collect();
            let held = if held.is_empty() { String::new() } else { format!(" (finalizers: {})", held.join(", ")) };
            Some(Stage::new(reason, format!("Waiting for {} {} to be deleted{held}", object.kind(), object.name())))
        }
    }
}

/// Deletes the Node; what cannot be deleted is left behind after a time (MA-9.12).
fn delete_node(work: &mut Work<'_, '_>, name: &str) -> Waiting {
    let waiting = || Some(Stage::new("DeletingNode", format!("Waiting for Node {name} to be deleted")));
    let node = match work.workload() {
        Some(workload) => workload.node(name).cloned(),
        None if is_given_up(work) => return Ok(None),
        None => return Err(Fault::because(format!("Node {name} cannot be deleted: its cluster is not connected"))),
    };
    let Some(node) = node.filter(|node| !node.is_being_deleted()) else { return Ok(None) };
    if is_given_up(work) {
        return Ok(None);
    }
    work.write_node();
    work.step.writes.push(Write::Delete { workload: Some(work.cluster.key()), object: node });
    work.step.look_again(NODE_PASS);
    Ok(waiting())
}

/// Whether the deletion of the Node has taken longer than it may.
fn is_given_up(work: &Work<'_, '_>) -> bool {
    is_timeout_over(work, "nodeDeletionTimeoutSeconds", "metadata.deletionTimestamp")
}

//! Deletion of a Machine in stages (MA-9).

use std::sync::Arc;

use core::time::Duration;

use super::reconcile::{DeletionWait, ExternalObject, MachineReconcile};
use super::{drain, volumes};
use crate::lifecycle::conditions;
use crate::lifecycle::context::StepError;
use crate::lifecycle::digest::digest;
use crate::lifecycle::fields::{flag, is_timeout_over, set, stamp};
use crate::lifecycle::hooks::{
    self, PRE_DRAIN, PRE_DRAIN_START, PRE_DRAIN_WAITS, PRE_TERMINATE, PRE_TERMINATE_START, PRE_TERMINATE_WAITS,
};
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::step::ObjectWrite;
use model::hub::{Object, paths};

/// Interval between attempts to delete a Node.
const NODE_PASS: Duration = Duration::from_secs(2);

/// What a stage waits for; `None` when it is complete.
type StageResult = Result<Option<DeletionWait>, StepError>;

/// Continues the deletion (MA-9.1). All stages are evaluated in each step, so stages about the Node are skipped if the
/// deletion of the Cluster starts meanwhile (MA-9.4).
pub(super) fn reconcile(work: &mut MachineReconcile<'_, '_>) -> Result<(), StepError> {
    work.deletion = Some(DeletionWait::new("Deleting", "Deletion started"));
    let node = match node_to_handle(work) {
        Ok(node) => node,
        Err(fault) => {
            work.deletion = Some(DeletionWait::new("InternalError", "Cannot find out what to do with the Node"));
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
        // Only after the status has reported the start of the deletion.
        work.deletion = Some(DeletionWait::completed());
    }
    Ok(())
}

/// Whether the status reports the completed deletion, which is written before the finalizer is removed (DEC-6).
pub(super) fn says_complete(work: &MachineReconcile<'_, '_>) -> bool {
    conditions::reason(&work.before, "Deleting") == conditions::DELETION_COMPLETED
}

/// The first incomplete stage; with a failure, the failed stage.
fn stages(
    work: &mut MachineReconcile<'_, '_>,
    node: Option<&str>,
) -> Result<Option<DeletionWait>, (DeletionWait, StepError)> {
    let at = |reason: &'static str| move |fault: StepError| (DeletionWait::new(reason, fault.to_string()), fault);
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

/// The Node to drain and delete; `None` if it is deleted with its cluster, or does not exist (MA-9.3).
fn node_to_handle(work: &MachineReconcile<'_, '_>) -> Result<Option<String>, StepError> {
    if work.cluster.is_being_deleted() {
        return Ok(None);
    }
    let Some(node) = node_name(work) else { return Ok(None) };
    let reference = work.cluster.control_plane_ref();
    // A reference to a missing object counts as none.
    if let Some(control_plane) = work.context.referenced(&reference, work.cluster.namespace())? {
        if control_plane.is_being_deleted() {
            return Ok(None);
        }
        if flag(&control_plane, paths::control_plane::IS_EXTERNAL) {
            return Ok(Some(node));
        }
    }
    Ok(has_control_plane_machine(work)?.then_some(node))
}

/// The Node in the status of the Machine, or one with the provider ID reported by its infrastructure.
fn node_name(work: &MachineReconcile<'_, '_>) -> Option<String> {
    let noted = work.machine.node_name();
    if !noted.is_empty() {
        return Some(noted.to_owned());
    }
    let own = work.machine.provider_id();
    let reported = work.infrastructure.found().map_or("", |object| object.provider_id());
    let id = if own.is_empty() { reported } else { own };
    let node = work.workload()?.nodes_with_provider_id(id).next();
    node.filter(|_| !id.is_empty()).map(|node| node.name().to_owned())
}

fn has_control_plane_machine(work: &MachineReconcile<'_, '_>) -> Result<bool, StepError> {
    let machines = work.context.of_cluster(&GroupKind::core("Machine"), &work.cluster.key())?;
    let stays = |machine: &Arc<Object>| digest(machine).is_of_control_plane(machine) && !machine.is_being_deleted();
    Ok(machines.iter().any(stays))
}

/// Waits for annotations of hooks to be removed, which is an event (MA-9.5, MA-9.9).
fn hooks(
    work: &mut MachineReconcile<'_, '_>,
    prefix: &'static str,
    start: &str,
    reason: &'static str,
) -> Option<DeletionWait> {
    let mut hooks: Vec<&str> = hooks::hooks(&work.machine, prefix).collect();
    hooks.sort_unstable();
    if hooks.is_empty() {
        return None;
    }
    let message = format!("Waiting for hooks to be removed from the annotations: {}", hooks.join(", "));
    if work.machine.at(start).is_none() {
        set(&mut work.machine, start, stamp(work.context.now));
    }
    Some(DeletionWait::new(reason, message))
}

/// Deletes an object of the Machine and waits until it is gone (MA-9.10, MA-9.11, CT-15.7).
fn gone(work: &mut MachineReconcile<'_, '_>, external: &ExternalObject, reason: &'static str) -> Option<DeletionWait> {
    match external {
        ExternalObject::NoReference | ExternalObject::Missing => None,
        ExternalObject::Unread => Some(DeletionWait::new(reason, "Waiting until the object can be read")),
        ExternalObject::Found(object) => {
            work.step.delete(object);
            let finalizers = object.finalizers();
            let held: Vec<&str> = finalizers.iter().filter_map(serde_json::Value::as_str).collect();
            let held = if held.is_empty() { String::new() } else { format!(" (finalizers: {})", held.join(", ")) };
            Some(DeletionWait::new(
                reason,
                format!("Waiting for {} {} to be deleted{held}", object.kind(), object.name()),
            ))
        }
    }
}

/// Deletes the Node; after a timeout, the deletion is complete even if that fails (MA-9.12).
fn delete_node(work: &mut MachineReconcile<'_, '_>, name: &str) -> StageResult {
    let is_given_up = is_timeout_over(
        &work.machine,
        paths::machine::NODE_DELETION_TIMEOUT,
        paths::metadata::DELETION_TIMESTAMP,
        work.context.now,
    );
    let node = match work.workload() {
        Some(workload) => workload.node(name).cloned(),
        None if is_given_up => return Ok(None),
        None => return Err(StepError::failed(format!("Node {name} cannot be deleted: its cluster is not connected"))),
    };
    let Some(node) = node.filter(|node| !node.is_being_deleted()) else { return Ok(None) };
    work.write_node();
    work.step.attempt([ObjectWrite::Delete { workload: Some(work.cluster.key()), object: node }]);
    if is_given_up {
        return Ok(None);
    }
    work.step.requeue_after(NODE_PASS);
    Ok(Some(DeletionWait::new("DeletingNode", format!("Waiting for Node {name} to be deleted"))))
}

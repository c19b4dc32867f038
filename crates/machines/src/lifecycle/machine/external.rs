//! Referenced objects of a Machine: bootstrap configuration and infrastructure (MA-5.3, MA-5.4).

use std::sync::Arc;

use serde_json::json;

use super::reconcile::{ExternalObject, MachineReconcile};
use crate::lifecycle::context::StepError;
use crate::lifecycle::contract::terminal_failure;
use crate::lifecycle::fields::{is_of_kind, is_to, list_mut, owner, set, set_label, set_owner, text};
use crate::lifecycle::objects::GroupKind;
use model::hub::{ContractRef, Object, label, paths};

/// Looks up an object, becomes its controller, and copies its failure.
pub(super) fn look_up(work: &mut MachineReconcile<'_, '_>, to: &ContractRef) -> Result<ExternalObject, StepError> {
    if !to.is_defined() {
        return Ok(ExternalObject::NoReference);
    }
    let Some(object) = work.context.referenced(to, work.machine.namespace())? else {
        return Ok(ExternalObject::Missing);
    };
    copy_failure(work, &object);
    let adopted = adopted(work, &object)?;
    work.step.update_other(&object, adopted);
    Ok(ExternalObject::Found(object))
}

/// The object controlled by this Machine, without the owners from its creation, and with the label of the Cluster
/// (MA-5.3, CT-15.3).
fn adopted(work: &MachineReconcile<'_, '_>, object: &Object) -> Result<Object, StepError> {
    let mut after = object.clone();
    let set = GroupKind::core("MachineSet");
    let control_plane = work.is_control_plane().then(|| GroupKind::for_reference(&work.cluster.control_plane_ref()));
    let is_first = |entry: &serde_json::Value| {
        is_of_kind(entry, &set) || control_plane.as_ref().is_some_and(|kind| is_of_kind(entry, kind))
    };
    if object.owner_references().iter().any(is_first) {
        list_mut(&mut after, "metadata", "ownerReferences").retain(|entry| !is_first(entry));
    }
    if let Some(other) = after.controller().filter(|other| !is_to(other, &work.machine)) {
        let name = |key: &str| other.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
        let (kind, key) = (object.kind(), object.key());
        let (owner, its) = (name("kind"), name("name"));
        return Err(StepError::failed(format!("{kind} {key} has another controller: {owner} {its}")));
    }
    set_owner(&mut after, owner(&work.before, true), &work.before);
    let cluster = work.cluster.name();
    if after.label(label::CLUSTER_NAME) != Some(cluster) {
        set_label(&mut after, label::CLUSTER_NAME, cluster);
    }
    Ok(after)
}

/// Copies a terminal failure; it is permanent, even if the provider withdraws it (MA-5.4, CT-5.5).
fn copy_failure(work: &mut MachineReconcile<'_, '_>, object: &Arc<Object>) {
    let Some((reason, message)) = terminal_failure(object) else { return };
    let text = if message.is_empty() { &reason } else { &message };
    let message = format!("{} {} failed: {text}", object.kind(), object.name());
    fail(work, &reason, &message);
}

/// Records a terminal failure of the Machine; the first one is kept.
pub(super) fn fail(work: &mut MachineReconcile<'_, '_>, reason: &str, message: &str) {
    if !text(&work.machine, paths::status::DEPRECATED_FAILURE_MESSAGE).is_empty() {
        return;
    }
    work.step.warn("ProviderFailure", message);
    if !reason.is_empty() {
        set(&mut work.machine, paths::status::DEPRECATED_FAILURE_REASON, json!(reason));
    }
    set(&mut work.machine, paths::status::DEPRECATED_FAILURE_MESSAGE, json!(message));
}

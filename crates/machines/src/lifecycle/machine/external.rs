//! The objects that a Machine refers to: its bootstrap configuration and its infrastructure (MA-5.3, MA-5.4).

use std::sync::Arc;

use serde_json::json;

use super::work::{External, Work};
use crate::lifecycle::context::Fault;
use crate::lifecycle::contract::terminal_failure;
use crate::lifecycle::fields::{
    controller, is_of_kind, is_to, list_mut, owner, owners, reference, set, set_label, set_owner, text,
};
use crate::lifecycle::objects::GroupKind;
use model::hub::{ContractRef, Object, label};

/// Looks an object up, becomes its controller, and copies the failure that it reports.
pub(super) fn look_up(work: &mut Work<'_, '_>, to: &ContractRef) -> Result<External, Fault> {
    if !to.is_defined() {
        return Ok(External::NoReference);
    }
    let Some(object) = work.context.referenced(to, work.machine.namespace())? else { return Ok(External::Missing) };
    copy_failure(work, &object);
    let adopted = adopted(work, &object)?;
    work.step.update(&object, adopted);
    Ok(External::Found(object))
}

/// The object with this Machine as its controller, without the owners that it had when it was made, and with the label of the
/// Cluster (MA-5.3, CT-15.3).
fn adopted(work: &Work<'_, '_>, object: &Object) -> Result<Object, Fault> {
    let mut after = object.clone();
    let set = GroupKind::core("MachineSet");
    let control_plane =
        work.is_control_plane().then(|| GroupKind::to(&reference(&work.cluster, "spec.controlPlaneRef")));
    let is_first = |entry: &serde_json::Value| {
        is_of_kind(entry, &set) || control_plane.as_ref().is_some_and(|kind| is_of_kind(entry, kind))
    };
    if owners(object).iter().any(is_first) {
        list_mut(&mut after, "metadata", "ownerReferences").retain(|entry| !is_first(entry));
    }
    if let Some(other) = controller(&after).filter(|other| !is_to(other, &work.machine)) {
        let name = |key: &str| other.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
        let (kind, key) = (object.kind(), object.key());
        let (owner, its) = (name("kind"), name("name"));
        return Err(Fault::because(format!("{kind} {key} has another controller: {owner} {its}")));
    }
    set_owner(&mut after, owner(&work.before, true), &work.before);
    let cluster = work.cluster.name();
    if after.label(label::CLUSTER_NAME) != Some(cluster) {
        set_label(&mut after, label::CLUSTER_NAME, cluster);
    }
    Ok(after)
}

/// Copies a failure from which a provider does not recover; it stays when the provider takes it back (MA-5.4, CT-5.5).
fn copy_failure(work: &mut Work<'_, '_>, object: &Arc<Object>) {
    let Some((reason, message)) = terminal_failure(object) else { return };
    let text = if message.is_empty() { &reason } else { &message };
    let message = format!("{} {} failed: {text}", object.kind(), object.name());
    fail(work, &reason, &message);
}

/// Notes a failure from which the Machine does not recover; the first one stays.
pub(super) fn fail(work: &mut Work<'_, '_>, reason: &str, message: &str) {
    const MESSAGE: &str = "status.deprecated.v1beta1.failureMessage";
    if !text(&work.machine, MESSAGE).is_empty() {
        return;
    }
    work.step.warn("ProviderFailure", message);
    if !reason.is_empty() {
        set(&mut work.machine, "status.deprecated.v1beta1.failureReason", json!(reason));
    }
    set(&mut work.machine, MESSAGE, json!(message));
}

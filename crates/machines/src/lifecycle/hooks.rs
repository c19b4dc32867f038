//! Annotations of Machines that hold their deletion (MA-9.5, MA-9.9).

use serde_json::Value;

use super::conditions;
use super::fields::text;
use model::hub::Object;

/// The beginning of annotations that hold a deletion before the drain.
pub(super) const PRE_DRAIN: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";
/// The beginning of annotations that hold a deletion before the infrastructure is deleted.
pub(super) const PRE_TERMINATE: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
/// The hook that a KubeadmControlPlane sets and removes (CT-10.21).
pub const CLEANUP: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";
/// The reasons of the condition `Deleting` while hooks hold.
pub(super) const PRE_DRAIN_WAITS: &str = "WaitingForPreDrainHook";
pub(super) const PRE_TERMINATE_WAITS: &str = "WaitingForPreTerminateHook";
/// Since when hooks hold.
pub(super) const PRE_DRAIN_START: &str = "status.deletion.waitForPreDrainHookStartTime";
pub(super) const PRE_TERMINATE_START: &str = "status.deletion.waitForPreTerminateHookStartTime";

/// The annotations of a Machine that begin with `prefix`.
pub(super) fn hooks<'a>(machine: &'a Object, prefix: &'static str) -> impl Iterator<Item = &'a str> {
    let annotations = machine.at("metadata.annotations").and_then(Value::as_object);
    annotations.into_iter().flatten().map(|(name, _)| &**name).filter(move |name| name.starts_with(prefix))
}

/// A hook that holds the deletion of a Machine now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldingHook<'a> {
    /// The annotation.
    pub annotation: &'a str,
    /// The value of the annotation, by convention the name of the controller that removes it.
    pub controller: &'a str,
    /// When it began to hold; empty if the Machine does not say.
    pub since: &'a str,
}

/// The hook that holds the deletion of a Machine now. One that its provider removes by itself comes after all others.
pub fn holding(machine: &Object) -> Option<HoldingHook<'_>> {
    let waits = conditions::reason(machine, "Deleting");
    let (prefix, start) = match &*waits {
        PRE_DRAIN_WAITS => (PRE_DRAIN, PRE_DRAIN_START),
        PRE_TERMINATE_WAITS => (PRE_TERMINATE, PRE_TERMINATE_START),
        _ => return None,
    };
    let annotation = hooks(machine, prefix).min_by_key(|name| (*name == CLEANUP, *name))?;
    let controller = machine.annotation(annotation).unwrap_or_default();
    Some(HoldingHook { annotation, controller, since: text(machine, start) })
}

//! Annotations of Machines that block their deletion (MA-9.5, MA-9.9).

use super::conditions;
use super::fields::text;
use model::hub::{Object, paths};

/// Prefix of annotations that block a deletion before the drain.
pub(super) const PRE_DRAIN: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";
/// Prefix of annotations that block a deletion before the infrastructure is deleted.
pub(super) const PRE_TERMINATE: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
/// The hook of a KubeadmControlPlane, which it removes itself (CT-10.21).
pub const CLEANUP: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";
/// Reasons of the condition `Deleting` while hooks block.
pub(super) const PRE_DRAIN_WAITS: &str = "WaitingForPreDrainHook";
pub(super) const PRE_TERMINATE_WAITS: &str = "WaitingForPreTerminateHook";
/// Start times of the hooks.
pub(super) const PRE_DRAIN_START: &str = paths::machine::PRE_DRAIN_HOOK_START;
pub(super) const PRE_TERMINATE_START: &str = paths::machine::PRE_TERMINATE_HOOK_START;

/// The annotations of a Machine with the prefix `prefix`.
pub(super) fn hooks<'a>(machine: &'a Object, prefix: &'static str) -> impl Iterator<Item = &'a str> {
    let annotations = machine.annotations();
    annotations.into_iter().flatten().map(|(name, _)| &**name).filter(move |name| name.starts_with(prefix))
}

/// A hook that currently blocks the deletion of a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldingHook<'a> {
    /// The annotation.
    pub annotation: &'a str,
    /// The value of the annotation, by convention the name of the controller that removes it.
    pub controller: &'a str,
    /// Start time of the block; empty if unknown.
    pub since: &'a str,
}

/// The hook that currently blocks the deletion of a Machine. Hooks that the provider removes itself come last.
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

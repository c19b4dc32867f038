//! The hook by which a KubeadmControlPlane blocks the deletion of its Machines until their members have left etcd
//! (CT-10.21).

use super::super::context::ProviderContext;
use super::member::ControlPlaneMachine;
use crate::lifecycle::conditions::{is_true, reason};
use crate::lifecycle::fields::{remaining, time};
use crate::lifecycle::hooks::{CLEANUP, PRE_TERMINATE, PRE_TERMINATE_START, PRE_TERMINATE_WAITS, hooks};
use crate::lifecycle::step::Reconciliation;
use model::hub::{Object, paths};
use model::rollouts::RolloutOwner;

/// Whether the Machines of a control plane have the hook.
pub(super) fn is_used_by(control_plane: &Object) -> bool {
    RolloutOwner::control_plane(control_plane.kind()) == RolloutOwner::KubeadmControlPlane
}

/// The Machine whose hook is removed in this step: the one deleted first, if its member may leave etcd and its removal
/// time has passed. No hook is removed while another Machine without the hook is being deleted.
pub(super) fn released<'m>(
    ctx: &ProviderContext<'_>,
    members: &'m [ControlPlaneMachine],
    step: &mut Reconciliation,
) -> Option<&'m str> {
    if !is_used_by(ctx.object) {
        return None;
    }
    let deleting = || members.iter().map(|member| &member.machine).filter(|machine| machine.is_being_deleted());
    if deleting().any(|machine| machine.annotation(CLEANUP).is_none()) {
        return None;
    }
    let first =
        deleting().min_by_key(|machine| (time(machine, paths::metadata::DELETION_TIMESTAMP), machine.name()))?;
    let has_other_hooks = hooks(first, PRE_TERMINATE).any(|name| name != CLEANUP);
    let is_held = is_true(first, "Deleting") && reason(first, "Deleting") == PRE_TERMINATE_WAITS;
    if has_other_hooks || !is_held {
        return None;
    }
    if members.len() == 1 {
        return Some(first.name());
    }
    if !may_leave(ctx.object, members, first.name()) {
        return None;
    }
    let begun = time(first, PRE_TERMINATE_START).unwrap_or(ctx.context.now);
    if let Some(left) = remaining(begun, ctx.context.settings.timings.etcd_removal, ctx.context.now) {
        step.requeue_after(left);
        return None;
    }
    Some(first.name())
}

/// Whether the control plane works without a Machine: another one runs, and, unless etcd is external, most of the
/// remaining etcd members do. A Machine without a Node has no member.
fn may_leave(control_plane: &Object, members: &[ControlPlaneMachine], leaving: &str) -> bool {
    let (leaving, others): (Vec<&ControlPlaneMachine>, Vec<&ControlPlaneMachine>) =
        members.iter().partition(|member| member.machine.name() == leaving);
    let running = others.iter().filter(|member| member.runs()).count();
    let has_member = leaving.iter().any(|member| member.has_node());
    let is_external = control_plane.at("spec.kubeadmConfigSpec.clusterConfiguration.etcd.external").is_some();
    let of_etcd = others.iter().filter(|member| member.has_node()).count();
    running > 0 && (is_external || !has_member || running > of_etcd / 2)
}

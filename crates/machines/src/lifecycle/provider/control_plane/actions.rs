//! Next action of a control plane, one Machine at a time (ROLL-8).

use std::collections::BTreeMap;

use super::super::context::ProviderContext;
use super::member::ControlPlaneMachine;
use super::outdated::OutdatedMachines;
use super::template::replicas;
use crate::lifecycle::context::StepError;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::created;
use model::hub::{Object, paths};

/// On a Machine: it is deleted first.
const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";

/// The next action.
#[derive(Clone, Debug)]
pub(super) enum ControlPlaneAction {
    None,
    Create,
    /// Deletes a Machine, with the reason.
    Delete(ControlPlaneMachine, &'static str),
    /// Deletes a Machine that a health check found unhealthy.
    Remediate(ControlPlaneMachine),
}

/// The next action. Waits for a Machine that is being deleted, or whose control plane does not run.
pub(super) fn next_action(
    ctx: &ProviderContext<'_>,
    members: &[ControlPlaneMachine],
    outdated: &OutdatedMachines,
    after: &Object,
) -> Result<ControlPlaneAction, StepError> {
    let wanted = replicas(ctx.object);
    let is_initialized = Flag::ControlPlaneInitialized.read(ctx.context, after)?;
    if !ctx.has_infrastructure() || members.iter().any(|member| member.machine.is_being_deleted()) {
        return Ok(ControlPlaneAction::None);
    }
    if let Some(unhealthy) = members.iter().find(|member| may_be_remediated(member, members, is_initialized)) {
        return Ok(ControlPlaneAction::Remediate(unhealthy.clone()));
    }
    if members.is_empty() && wanted > 0 {
        return Ok(ControlPlaneAction::Create);
    }
    if !is_initialized {
        return Ok(ControlPlaneAction::None);
    }
    Ok(scaled(ctx.object, members, outdated, wanted))
}

/// One Machine more or less, towards the desired number of up-to-date Machines.
fn scaled(
    object: &Object,
    members: &[ControlPlaneMachine],
    outdated: &OutdatedMachines,
    wanted: usize,
) -> ControlPlaneAction {
    let is_rolling = !outdated.is_empty();
    let most = if is_rolling { wanted + surge(object, wanted) } else { wanted };
    if members.len() < most {
        let is_safe = members.iter().all(ControlPlaneMachine::is_healthy);
        return if is_safe { ControlPlaneAction::Create } else { ControlPlaneAction::None };
    }
    if !is_rolling && members.len() == wanted {
        return ControlPlaneAction::None;
    }
    let Some(chosen) = chosen(members, outdated) else { return ControlPlaneAction::None };
    let others_run = members.iter().filter(|member| member.machine.name() != chosen.machine.name());
    match others_run.into_iter().all(ControlPlaneMachine::is_healthy) {
        true => ControlPlaneAction::Delete(
            chosen.clone(),
            if is_rolling { "it is outdated" } else { "the control plane is scaled down" },
        ),
        false => ControlPlaneAction::None,
    }
}

/// Maximum number of surplus Machines while outdated ones are replaced (ROLL-8). There are no in-place updates
/// (CT-10.19).
fn surge(object: &Object, wanted: usize) -> usize {
    let paths = [paths::worker::MAX_SURGE, "spec.rolloutStrategy.rollingUpdate.maxSurge"];
    let is_none = paths.iter().filter_map(|path| object.at(path)).any(|surge| *surge == 0 || *surge == "0");
    usize::from(!is_none || wanted < 3)
}

/// The Machine to delete: an outdated one if there is any; first one that does not run, then a marked one, then one of
/// the fullest failure domain, then the oldest.
fn chosen<'a>(members: &'a [ControlPlaneMachine], outdated: &OutdatedMachines) -> Option<&'a ControlPlaneMachine> {
    let domain = |member: &ControlPlaneMachine| member.machine.failure_domain().to_owned();
    let mut number: BTreeMap<String, usize> = BTreeMap::new();
    members.iter().for_each(|member| *number.entry(domain(member)).or_default() += 1);
    let may_go = |member: &&ControlPlaneMachine| outdated.is_empty() || outdated.contains_key(member.machine.name());
    members.iter().filter(may_go).min_by_key(|member| {
        let is_marked = member.machine.annotation(DELETE_MACHINE).is_some();
        let in_domain = number.get(&domain(member)).copied().unwrap_or_default();
        let name = member.machine.name().to_owned();
        (member.is_healthy(), !is_marked, std::cmp::Reverse(in_domain), created(&member.machine), name)
    })
}

/// Whether an unhealthy Machine may be deleted: the others keep a quorum. The only Machine of an initialized control
/// plane is kept.
pub(super) fn may_be_remediated(
    member: &ControlPlaneMachine,
    members: &[ControlPlaneMachine],
    is_initialized: bool,
) -> bool {
    if !member.needs_remediation() {
        return false;
    }
    let others = members.len().saturating_sub(1);
    let running = members.iter().filter(|one| one.machine.name() != member.machine.name() && one.is_healthy()).count();
    !is_initialized || (others > 0 && running > others / 2)
}

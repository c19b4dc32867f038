//! What a control plane does next: one Machine at a time (ROLL-8).

use std::collections::BTreeMap;

use super::super::scene::Scene;
use super::member::Member;
use super::outdated::Outdated;
use super::template::replicas;
use crate::lifecycle::context::Fault;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{created, text};
use model::hub::Object;

/// On a Machine: it goes first when one has to go.
const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";

/// What is done next.
#[derive(Clone, Debug)]
pub(super) enum Move {
    None,
    Create,
    /// With the reason.
    Delete(Member, &'static str),
    /// Deletes a Machine that a health check found unhealthy.
    Remediate(Member),
}

/// The next move. A Machine that is being deleted, or whose control plane does not run, is waited for.
pub(super) fn next_move(
    scene: &Scene<'_>,
    members: &[Member],
    outdated: &Outdated,
    after: &Object,
) -> Result<Move, Fault> {
    let wanted = replicas(scene.object);
    let is_initialized = Flag::ControlPlaneInitialized.read(scene.context, after)?;
    if !scene.has_infrastructure() || members.iter().any(|member| member.machine.is_being_deleted()) {
        return Ok(Move::None);
    }
    if let Some(unhealthy) = members.iter().find(|member| may_be_remediated(member, members, is_initialized)) {
        return Ok(Move::Remediate(unhealthy.clone()));
    }
    if members.is_empty() && wanted > 0 {
        return Ok(Move::Create);
    }
    if !is_initialized {
        return Ok(Move::None);
    }
    Ok(scaled(scene.object, members, outdated, wanted))
}

/// One Machine more or less, towards the wanted number of Machines that are up to date.
fn scaled(object: &Object, members: &[Member], outdated: &Outdated, wanted: usize) -> Move {
    let is_rolling = !outdated.is_empty();
    let most = if is_rolling { wanted + surge(object, wanted) } else { wanted };
    if members.len() < most {
        let is_safe = members.iter().all(Member::is_healthy);
        return if is_safe { Move::Create } else { Move::None };
    }
    if !is_rolling && members.len() == wanted {
        return Move::None;
    }
    let Some(chosen) = chosen(members, outdated) else { return Move::None };
    let others_run = members.iter().filter(|member| member.machine.name() != chosen.machine.name());
    match others_run.into_iter().all(Member::is_healthy) {
        true => {
            Move::Delete(chosen.clone(), if is_rolling { "it is outdated" } else { "the control plane is scaled down" })
        }
        false => Move::None,
    }
}

/// How many Machines more than wanted there may be while outdated ones are replaced (ROLL-8). None is updated in place (CT-10.19).
fn surge(object: &Object, wanted: usize) -> usize {
    let paths = ["spec.rollout.strategy.rollingUpdate.maxSurge", "spec.rolloutStrategy.rollingUpdate.maxSurge"];
    let is_none = paths.iter().filter_map(|path| object.at(path)).any(|surge| *surge == 0 || *surge == "0");
    usize::from(!is_none || wanted < 3)
}

/// The Machine that goes: an outdated one if there is one; one that does not run, then one that is marked, then one of the fullest
/// failure domain, then the oldest.
fn chosen<'a>(members: &'a [Member], outdated: &Outdated) -> Option<&'a Member> {
    let domain = |member: &Member| text(&member.machine, "spec.failureDomain").to_owned();
    let mut number: BTreeMap<String, usize> = BTreeMap::new();
    members.iter().for_each(|member| *number.entry(domain(member)).or_default() += 1);
    let may_go = |member: &&Member| outdated.is_empty() || outdated.contains_key(member.machine.name());
    members.iter().filter(may_go).min_by_key(|member| {
        let is_marked = member.machine.annotation(DELETE_MACHINE).is_some();
        let in_domain = number.get(&domain(member)).copied().unwrap_or_default();
        let name = member.machine.name().to_owned();
        (member.is_healthy(), !is_marked, std::cmp::Reverse(in_domain), created(&member.machine), name)
    })
}

/// Whether an unhealthy Machine may go: the others keep a quorum without it. The only Machine of a control plane that is
/// initialized stays.
pub(super) fn may_be_remediated(member: &Member, members: &[Member], is_initialized: bool) -> bool {
    if !member.needs_remediation() {
        return false;
    }
    let others = members.len().saturating_sub(1);
    let running = members.iter().filter(|one| one.machine.name() != member.machine.name() && one.is_healthy()).count();
    !is_initialized || (others > 0 && running > others / 2)
}

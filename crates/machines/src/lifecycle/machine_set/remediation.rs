//! Remediation of machines that a health check found unhealthy (MA-19.10 to MA-19.13).

use std::cmp::Reverse;

use super::members::{SetMachine, replicas};
use super::preflight;
use super::templates::SetTemplates;
use crate::lifecycle::conditions::{ConditionState, aggregate, is_false, is_true, put, reason, remove};
use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::fields::created;
use crate::lifecycle::step::Reconciliation;
use model::hub::{IntOrString, Object, paths};

/// On a MachineDeployment and its sets: the revision number (MA-21.10).
pub(in crate::lifecycle) const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
/// On a machine whose remediation is requested.
const REMEDIATE: &str = "cluster.x-k8s.io/remediate-machine";
const OWNER_REMEDIATED: &str = "OwnerRemediated";

/// Marks the machines of a set that wait for remediation, and those that are remediated now, which the step deletes.
///
/// # Errors
/// When the limit or the preflight checks cannot be computed.
pub(super) fn remediate(
    context: &StepContext<'_>,
    cluster: &Object,
    (set, deployment): (&Object, Option<&Object>),
    templates: &SetTemplates,
    members: &mut [SetMachine],
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    for member in members.iter_mut() {
        if is_true(&member.after, "HealthCheckSucceeded") && is_false(&member.after, OWNER_REMEDIATED) {
            remove(&mut member.after, OWNER_REMEDIATED);
        }
    }
    let waiting = waiting(members);
    if waiting.is_empty() {
        return Ok(());
    }
    let mark = |member: &mut SetMachine, reason: &str, message: &str| {
        put(&mut member.after, OWNER_REMEDIATED, &ConditionState::new(false, reason, message), context.now);
    };
    if deployment.is_some_and(|deployment| deployment.annotation(REVISION) != set.annotation(REVISION)) {
        let message =
            "The MachineSet is not of the current revision of its MachineDeployment; the rollout replaces the Machine";
        each(members, &waiting, |member| mark(member, "CannotBeRemediated", message));
        return Ok(());
    }
    let limit = limit(deployment, members)?;
    let (now, later) = waiting.split_at(limit.min(waiting.len()));
    each(members, later, |member| {
        mark(member, "RemediationDeferred", "The limit of remediations at the same time is reached");
    });
    if now.is_empty() {
        return Ok(());
    }
    let held = preflight::failures(context, cluster, set, templates)?;
    if !held.is_empty() {
        let message = held.join("; ");
        each(members, now, |member| mark(member, "RemediationDeferred", &message));
        step.requeue_after(preflight::AGAIN);
        return Ok(());
    }
    each(members, now, |member| {
        mark(member, "MachineDeleting", "The Machine is deleted because of its health check");
        member.is_doomed = true;
        step.event("SuccessfulDelete", format!("Deleted Machine {}, which is unhealthy", member.before.name()));
    });
    Ok(())
}

/// Positions of the machines that wait for remediation, in order (MA-19.10, MA-19.12).
fn waiting(members: &[SetMachine]) -> Vec<usize> {
    let waits = |member: &SetMachine| {
        !member.is_leaving()
            && is_false(&member.after, "HealthCheckSucceeded")
            && is_false(&member.after, OWNER_REMEDIATED)
    };
    let mut waiting: Vec<(usize, &SetMachine)> =
        members.iter().enumerate().filter(|(_, member)| waits(member)).collect();
    waiting.sort_by_key(|(_, member)| {
        let machine = &member.before;
        (machine.annotation(REMEDIATE).is_none(), Reverse(created(machine)), machine.name().to_owned())
    });
    waiting.into_iter().map(|(position, _)| position).collect()
}

fn each(members: &mut [SetMachine], positions: &[usize], mut act: impl FnMut(&mut SetMachine)) {
    for position in positions {
        if let Some(member) = members.get_mut(*position) {
            act(member);
        }
    }
}

/// Maximum number of concurrent remediations (MA-19.12).
fn limit(deployment: Option<&Object>, members: &[SetMachine]) -> Result<usize, StepError> {
    let Some(deployment) = deployment else { return Ok(usize::MAX) };
    let Some(most) = deployment.at(paths::worker::MAX_IN_FLIGHT) else { return Ok(usize::MAX) };
    let most: IntOrString =
        serde_json::from_value(most.clone()).map_err(|error| StepError::failed(error.to_string()))?;
    let most = resolved(&most, replicas(deployment)?, true)?;
    let is_in_flight = |member: &&SetMachine| {
        member.before.is_being_deleted()
            && is_false(&member.before, OWNER_REMEDIATED)
            && reason(&member.before, OWNER_REMEDIATED) == "MachineDeleting"
    };
    let in_flight = members.iter().filter(is_in_flight).count();
    Ok(usize::try_from(most).unwrap_or_default().saturating_sub(in_flight))
}

/// A number, or a percentage of `of`, rounded.
///
/// # Errors
/// When the text is not a percentage.
pub(in crate::lifecycle) fn resolved(value: &IntOrString, of: i64, is_rounded_up: bool) -> Result<i64, StepError> {
    let text = match value {
        IntOrString::Int(number) => return Ok(i64::from(*number)),
        IntOrString::String(text) => text,
    };
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<i64>().ok());
    let percent = percent.ok_or_else(|| StepError::failed(format!("{text:?} is not a number or a percentage")))?;
    let hundredfold = percent.saturating_mul(of);
    Ok(if is_rounded_up { hundredfold.saturating_add(99) } else { hundredfold }.div_euclid(100))
}

/// The condition `Remediating`, aggregated over machines (MA-18.4).
pub(in crate::lifecycle) fn condition<'a>(machines: impl Iterator<Item = &'a Object>) -> ConditionState {
    let unhealthy: Vec<&Object> = machines.filter(|machine| is_false(machine, "HealthCheckSucceeded")).collect();
    let waiting: Vec<&Object> =
        unhealthy.iter().copied().filter(|machine| is_false(machine, OWNER_REMEDIATED)).collect();
    if waiting.is_empty() {
        let message = match unhealthy.len() {
            0 => String::new(),
            1 => "1 Machine is unhealthy and not to be remediated by its MachineSet".to_owned(),
            more => format!("{more} Machines are unhealthy and not to be remediated by their MachineSet"),
        };
        return ConditionState::new(false, "NotRemediating", message);
    }
    let merged = aggregate(waiting, OWNER_REMEDIATED, false, ["", "", ""]);
    ConditionState::new(true, "Remediating", merged.message)
}

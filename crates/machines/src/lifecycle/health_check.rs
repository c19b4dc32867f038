//! The step of a MachineHealthCheck (MA-19.1 to MA-19.9): determines which machines are healthy, and requests the
//! remediation of the others unless there are too many.
//!
//! ```text
//! scope.rs: selected machines ─► health.rs: health of each ─► trigger.rs: limits ─► mark.rs: conditions, requests
//! ```

mod mark;
mod scope;
#[cfg(test)]
mod tests;
mod trigger;
mod health;

use std::sync::Arc;

use core::time::Duration;

use serde_json::{Value, json};

use self::health::{HealthEvaluator, MachineHealth};
use self::mark::Marker;
use self::scope::CheckScope;
use self::trigger::Trigger;
use super::conditions::{ConditionState, is_false, observe_generation, put, put_paused};
use super::context::{StepContext, StepError};
use super::fields::{cluster_of, owner, paused, set, set_label, set_owner};
use super::step::Reconciliation;
use model::hub::{Object, annotation, label, paths};

/// Requeue interval while the Cluster does not exist.
const AGAIN: Duration = Duration::from_secs(30);
/// Maximum number of machine names in the status.
const MOST_TARGETS: usize = 10_000;

/// The next step.
///
/// # Errors
/// When a kind is not listed yet, or the spec cannot be used.
pub(super) fn step(
    context: &StepContext<'_>,
    object: &Arc<Object>,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    if object.is_being_deleted() {
        return Ok(());
    }
    let Some(cluster) = cluster_of(context, object)? else {
        // The Cluster is gone, and the check will be deleted with it, or is yet to be created.
        step.requeue_after(AGAIN);
        return Ok(());
    };
    let scope = CheckScope::gather(context, object, cluster)?;
    let mut after = (**object).clone();
    belong_to(&scope.cluster, &mut after);
    let cause = paused(&scope.cluster, object);
    let has_changed = put_paused(&mut after, cause.as_deref(), context.now);
    // Machines of a paused Cluster are checked, and not remediated (MA-19.9).
    if !has_changed && object.annotation(annotation::PAUSED).is_none() {
        check(context, &scope, cause.is_none(), &mut after, step)?;
    }
    if step.errors.is_empty() {
        observe_generation(&mut after);
    }
    step.update(object, after);
    Ok(())
}

/// Makes the Cluster the owner (MA-19.1).
fn belong_to(cluster: &Object, after: &mut Object) {
    let is_owned =
        after.owner_references().iter().any(|owner| owner.get("uid").is_some_and(|uid| uid == cluster.uid()));
    if !is_owned {
        set_owner(after, owner(cluster, false), cluster);
    }
    if after.label(label::CLUSTER_NAME) != Some(cluster.name()) {
        set_label(after, label::CLUSTER_NAME, cluster.name());
    }
}

fn check(
    context: &StepContext<'_>,
    scope: &CheckScope,
    may_remediate: bool,
    after: &mut Object,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let judge = HealthEvaluator::new(context, scope);
    let verdicts: Vec<MachineHealth> = scope.machines.iter().map(|machine| judge.verdict(machine)).collect();
    let healthy = verdicts.iter().filter(|verdict| matches!(verdict, MachineHealth::Healthy)).count();
    let trigger = Trigger::evaluate(&scope.remediation.trigger_if, verdicts.len(), verdicts.len() - healthy)?;
    write_status(context, scope, healthy, &trigger, after, step);
    let marker = Marker { context, scope, acts: may_remediate && trigger.is_allowed };
    for (machine, verdict) in scope.machines.iter().zip(&verdicts) {
        // MA-19.8: a machine that cannot be updated does not stop the others.
        let result = marker.mark(machine, verdict, step);
        step.collect_error(result)?;
        if let MachineHealth::Pending(Some(again)) = verdict {
            step.requeue_after(*again);
        }
    }
    Ok(())
}

/// The counters, the names and the condition (MA-19.6, MA-19.7).
fn write_status(
    context: &StepContext<'_>,
    scope: &CheckScope,
    healthy: usize,
    trigger: &Trigger,
    after: &mut Object,
    step: &mut Reconciliation,
) {
    let names: Vec<&str> = scope.machines.iter().take(MOST_TARGETS).map(|machine| machine.name()).collect();
    set(after, paths::health_check::EXPECTED_MACHINES, json!(scope.machines.len()));
    set(after, paths::health_check::CURRENT_HEALTHY, json!(healthy));
    set(after, paths::health_check::REMEDIATIONS_ALLOWED, json!(trigger.remaining));
    set(after, paths::health_check::TARGETS, if names.is_empty() { Value::Null } else { json!(names) });
    let condition = if trigger.is_allowed {
        ConditionState::new(true, "RemediationAllowed", "")
    } else {
        ConditionState::new(false, "TooManyUnhealthy", &*trigger.message)
    };
    if !trigger.is_allowed && !is_false(after, "RemediationAllowed") {
        step.warn("RemediationRestricted", &*trigger.message);
    }
    put(after, "RemediationAllowed", &condition, context.now);
}

//! The step of a MachineDeployment, which replaces machines by means of MachineSets (MA-20).
//!
//! ```text
//! sets.rs: its sets, and the new one (template.rs) ─► set_template.rs: their content ─► replicas of each ─► status.rs
//!                                                        rollout.rs, paused.rs (limits.rs): counts ─┘
//! ```

mod limits;
mod paused;
mod rollout;
mod sets;
mod set_template;
mod status;
mod template;

use std::sync::Arc;

pub(super) use self::template::differences;

use serde_json::json;

use self::limits::RolloutLimits;
use self::paused::PausedSet;
use self::rollout::RolloutRound;
use self::set_template::{DESIRED, MAX, SetTemplate, hand_down, revise};
use self::sets::{SetDraft, choose, sets};
use super::begin::begin;
use super::context::{StepContext, StepError};
use super::fields::{
    cluster_key, cluster_of, has_owner, owner, remaining, remove_finalizer, set, set_annotation, set_label, set_owner,
    text, time,
};
use super::machine_set::{
    REVISION, SetTemplates, names, observe, put_deleting, put_machines, replicas, selector, selector_text, title,
};
use super::objects::GroupKind;
use super::step::Reconciliation;
use golang::calendar::Moment;
use model::hub::{Object, ObjectKey, label, paths};

/// Finalizer of a deployment until its sets are gone (MA-1.7). The finalizer for templates of topologies belongs to
/// other controllers, which add it themselves.
const FINALIZER: &str = "cluster.x-k8s.io/machinedeployment";

/// The next step.
///
/// # Errors
/// When a kind is not listed yet, or nothing can be done at all.
pub(super) fn step(
    context: &StepContext<'_>,
    object: &Arc<Object>,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let cluster = cluster_of(context, object)?;
    let Some(mut after) = begin(context, cluster.as_deref(), object, FINALIZER, step) else { return Ok(()) };
    let no_cluster = || StepError::failed(format!("{} has no Cluster", title(object)));
    let key = cluster_key(object).ok_or_else(no_cluster)?;
    let machines = machines(context, object, &key)?;
    let mut all = sets(context, object, &key)?;
    if object.is_being_deleted() {
        leave(context, object, after, (&all, &machines), step);
        return Ok(());
    }
    let cluster = cluster.ok_or_else(no_cluster)?;
    own(&mut after, &cluster);
    let templates = SetTemplates::for_object(context, &after)?;
    templates.own(&cluster, step);
    for set in &mut all {
        set_label(&mut set.after, label::MACHINE_DEPLOYMENT_NAME, object.name());
    }
    let planned = plan(context, &mut after, &templates, all.clone(), step);
    let PlannedSets { new, old } = step.collect_error(planned)?.unwrap_or(PlannedSets { new: None, old: all });
    let drafts: Vec<SetDraft> = new.into_iter().chain(old.iter().cloned()).collect();
    write(&drafts, step);
    let held: Vec<String> = templates.missing().into_iter().collect();
    put_status(context, &mut after, (&drafts, &machines), &held, step);
    put_deleting(&mut after, "", context.now);
    observe(&mut after, &step.errors);
    clean_up(object, after, &old, step);
    Ok(())
}

/// The machines that a deployment selects (MA-20.1).
fn machines(
    context: &StepContext<'_>,
    deployment: &Object,
    cluster: &ObjectKey,
) -> Result<Vec<Arc<Object>>, StepError> {
    let selector = selector(deployment)?;
    let mut machines = Vec::new();
    for machine in context.of_cluster(&GroupKind::core("Machine"), cluster)? {
        if selector.selects(&machine)? {
            machines.push(machine);
        }
    }
    Ok(machines)
}

/// Deletes the sets of a deployment that is being deleted, and removes the finalizer when none is left (MA-20.5).
fn leave(
    context: &StepContext<'_>,
    object: &Arc<Object>,
    mut after: Object,
    (sets, machines): (&[SetDraft], &[Arc<Object>]),
    step: &mut Reconciliation,
) {
    if sets.is_empty() {
        remove_finalizer(&mut after, FINALIZER);
    }
    let waits_for = match sets {
        [] => "Deletion completed".to_owned(),
        sets => format!("MachineSets are being deleted: {}", names(sets.iter().map(|set| &set.after))),
    };
    put_status(context, &mut after, (sets, machines), &[], step);
    put_deleting(&mut after, &waits_for, context.now);
    observe(&mut after, &step.errors);
    step.update(object, after);
    for set in sets.iter().filter_map(|set| set.before.as_ref()).filter(|set| !set.is_being_deleted()) {
        step.event("SuccessfulDelete", format!("Deleted MachineSet {}", set.name()));
        step.delete(set);
    }
}

/// Label and owner of a deployment (MA-20.2).
fn own(after: &mut Object, cluster: &Object) {
    set_label(after, label::CLUSTER_NAME, cluster.name());
    let is_owned = has_owner(after, cluster);
    if !is_owned {
        set_owner(after, owner(cluster, false), cluster);
    }
}

/// The desired state of the sets.
struct PlannedSets {
    new: Option<SetDraft>,
    old: Vec<SetDraft>,
}

/// Computes templates and replicas of all sets.
fn plan(
    context: &StepContext<'_>,
    after: &mut Object,
    templates: &SetTemplates,
    mut old: Vec<SetDraft>,
    step: &mut Reconciliation,
) -> Result<PlannedSets, StepError> {
    let replicas = replicas(after)?;
    let strategy = ReplacementStrategy::for_deployment(after)?;
    let limits = RolloutLimits::for_deployment(after, replicas)?;
    let rollout_after = time(after, paths::worker::ROLLOUT_AFTER);
    if let Some(wait) = rollout_after.and_then(|at| until(at, context.now)) {
        step.requeue_after(wait);
    }
    let is_paused = after.is_paused();
    let handed_down = hand_down(after);
    let deployment = after.clone();
    let surge = if strategy == ReplacementStrategy::RollingUpdate { limits.surge } else { 0 };
    let is_on_delete = strategy == ReplacementStrategy::OnDelete;
    let shape = SetTemplate { deployment: &deployment, handed_down, replicas, surge, is_on_delete };
    let annotated: Vec<(String, Option<i64>, Option<i64>)> = old.iter().map(|set| noted(&set.after)).collect();
    let mut new = match choose(&deployment, &mut old, rollout_after, context.now) {
        Ok(mut new) => {
            shape.put_on(&mut new.after, true)?;
            Some(new)
        }
        Err(_) if is_paused => None,
        Err(reason) => Some(create(context, &shape, templates, &reason.to_string(), step)?),
    };
    for set in &mut old {
        shape.put_on(&mut set.after, false)?;
    }
    if let Some(new) = &mut new {
        // Without a new set the deployment keeps its revision (MA-21.11).
        let revision = revise(&mut new.after, &old);
        set_annotation(after, REVISION, &revision);
    }
    let mut planned = PlannedSets { new, old };
    match strategy {
        _ if is_paused => scale_paused(&mut planned, limits, (strategy, surge), &annotated, after)?,
        strategy => roll(&mut planned, limits, strategy, step)?,
    }
    Ok(planned)
}

/// Replacement strategy of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplacementStrategy {
    RollingUpdate,
    OnDelete,
}

impl ReplacementStrategy {
    fn for_deployment(deployment: &Object) -> Result<ReplacementStrategy, StepError> {
        match text(deployment, paths::worker::ROLLOUT_STRATEGY) {
            "" | "RollingUpdate" => Ok(ReplacementStrategy::RollingUpdate),
            "OnDelete" => Ok(ReplacementStrategy::OnDelete),
            other => Err(StepError::failed(format!("{}: unknown rollout strategy {other:?}", title(deployment)))),
        }
    }
}

fn until(at: Moment, now: Moment) -> Option<core::time::Duration> {
    let nanos = at.since(now).and_then(|nanos| u64::try_from(nanos).ok()).filter(|nanos| *nanos > 0)?;
    remaining(now, core::time::Duration::from_nanos(nanos), now)
}

/// The name of a set, and the replica counts in its annotations.
fn noted(set: &Object) -> (String, Option<i64>, Option<i64>) {
    let read = |name: &str| set.annotation(name).and_then(|text| text.parse().ok());
    (set.name().to_owned(), read(DESIRED), read(MAX))
}

/// Creates a set; both templates must exist (MA-21.5).
fn create(
    context: &StepContext<'_>,
    shape: &SetTemplate<'_>,
    templates: &SetTemplates,
    reason: &str,
    step: &mut Reconciliation,
) -> Result<SetDraft, StepError> {
    if let Some(missing) = templates.missing() {
        return Err(StepError::failed(format!("{}: cannot create a MachineSet: {missing}", title(shape.deployment))));
    }
    let new = shape.new_set(context)?;
    step.event("SuccessfulCreate", format!("Created MachineSet {}: {reason}", new.after.name()));
    Ok(new)
}

/// One round of a rollout.
fn roll(
    planned: &mut PlannedSets,
    limits: RolloutLimits,
    strategy: ReplacementStrategy,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let Some(new) = &mut planned.new else { return Ok(()) };
    let old = planned.old.iter().map(SetDraft::numbers).collect::<Result<_, _>>()?;
    let mut round = RolloutRound::new(new.numbers()?, old);
    match strategy {
        ReplacementStrategy::RollingUpdate => round.roll(limits),
        ReplacementStrategy::OnDelete => round.on_delete(limits.replicas),
    }
    let RolloutRound { new: number, old } = round;
    resize(new, number.intent, step);
    for set in &mut planned.old {
        let intent = old.iter().find(|one| one.name == set.after.name()).and_then(|one| one.intent);
        resize(set, intent, step);
    }
    Ok(())
}

/// Scales the sets of a paused deployment (MA-24).
fn scale_paused(
    planned: &mut PlannedSets,
    limits: RolloutLimits,
    (strategy, surge): (ReplacementStrategy, i64),
    annotated: &[(String, Option<i64>, Option<i64>)],
    deployment: &Object,
) -> Result<(), StepError> {
    let mut drafts: Vec<(bool, &mut SetDraft)> = planned.new.iter_mut().map(|new| (true, new)).collect();
    drafts.extend(planned.old.iter_mut().map(|old| (false, old)));
    let mut sized = Vec::new();
    for (is_new, draft) in &drafts {
        let known = annotated.iter().find(|(name, _, _)| name == draft.after.name());
        let (desired, max) = known.map_or((None, None), |(_, desired, max)| (*desired, *max));
        sized.push(PausedSet { numbers: draft.numbers()?, is_new: *is_new, desired, max });
    }
    let machines = deployment.status_replicas().unwrap_or_default();
    let limits = RolloutLimits { surge, ..limits };
    paused::scale(&mut sized, limits, strategy == ReplacementStrategy::RollingUpdate, machines);
    for ((_, draft), sized) in drafts.into_iter().zip(sized) {
        set(&mut draft.after, paths::REPLICAS, json!(sized.numbers.wanted()));
    }
    Ok(())
}

/// Sets the replicas of a set.
fn resize(draft: &mut SetDraft, intent: Option<i64>, step: &mut Reconciliation) {
    let Some(intent) = intent else { return };
    let was = draft.after.replicas().unwrap_or_default();
    if draft.before.is_some() && was != intent {
        let message = format!("Scaled MachineSet {} from {was} to {intent} replicas", draft.after.name());
        step.event("SuccessfulScale", message);
    }
    set(&mut draft.after, paths::REPLICAS, json!(intent));
}

/// Writes each set at most once, the new one first (MA-21.12). An old set that cannot be changed does not hold the
/// others.
fn write(drafts: &[SetDraft], step: &mut Reconciliation) {
    for (position, draft) in drafts.iter().enumerate() {
        match &draft.before {
            Some(before) if position > 0 => step.update_other(before, draft.after.clone()),
            Some(before) => step.update(before, draft.after.clone()),
            None => step.create(vec![draft.after.clone()]),
        }
    }
}

/// Counters, phase and conditions (MA-26).
fn put_status(
    context: &StepContext<'_>,
    after: &mut Object,
    (drafts, machines): (&[SetDraft], &[Arc<Object>]),
    held: &[String],
    step: &mut Reconciliation,
) {
    let now = context.now;
    if let Ok(selector) = selector(after) {
        set(after, paths::status::SELECTOR, json!(selector_text(&selector.labels)));
    }
    let sets: Vec<&Object> = drafts.iter().map(|draft| &draft.after).collect();
    let machines: Vec<&Object> = machines.iter().map(|machine| &**machine).collect();
    status::sum(after, &sets);
    let there = i64::try_from(machines.len()).unwrap_or(i64::MAX);
    let wanted = after.replicas();
    status::put_phase(after, wanted, there);
    let limits = wanted.and_then(|wanted| RolloutLimits::for_deployment(after, wanted).ok());
    let is_rolling =
        ReplacementStrategy::for_deployment(after).is_ok_and(|strategy| strategy == ReplacementStrategy::RollingUpdate);
    status::put_available(after, limits, is_rolling, now);
    status::put_rolling_out(after, &machines, now);
    status::put_scale(after, wanted.unwrap_or_default(), there, held, now);
    if let Some(again) = put_machines(after, &machines, now) {
        step.requeue_after(again);
    }
}

/// Writes the deployment, and deletes old sets beyond the history limit (MA-26.6).
fn clean_up(object: &Arc<Object>, after: Object, old: &[SetDraft], step: &mut Reconciliation) {
    let is_seen = object.observed_generation() == object.generation();
    let replicas = after.replicas().filter(|_| is_seen && step.errors.is_empty());
    let unneeded = replicas.map(|replicas| status::unneeded(&after, replicas, old)).unwrap_or_default();
    let unneeded: Vec<Arc<Object>> = unneeded.into_iter().filter_map(|set| set.before.clone()).collect();
    step.update(object, after);
    for set in unneeded {
        step.event("SuccessfulDelete", format!("Deleted MachineSet {}, which has no machines", set.name()));
        step.delete(&set);
    }
}

#[cfg(test)]
mod tests;

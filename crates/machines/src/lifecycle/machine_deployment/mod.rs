//! The step of a MachineDeployment, which replaces machines by way of MachineSets (MA-20).
//!
//! ```text
//! sets.rs: its sets, and the new one (template.rs) ─► shape.rs: what they look like ─► how many replicas each gets ─► status.rs
//!                                                               rollout.rs, paused.rs (limits.rs): numbers alone ─┘
//! ```

mod limits;
mod paused;
mod rollout;
mod sets;
mod shape;
mod status;
mod template;

use std::sync::Arc;

pub(super) use self::template::differences;

use serde_json::json;

use self::limits::Limits;
use self::paused::Sized;
use self::rollout::Round;
use self::sets::{Draft, choose, sets};
use self::shape::{DESIRED, MAX, Shape, hand_down, revise};
use super::begin::begin;
use super::context::{Context, Fault};
use super::fields::{
    cluster_key, cluster_of, flag, has_owner, number, owner, remaining, remove_finalizer, set, set_annotation,
    set_label, set_owner, text, time,
};
use super::machine_set::{
    REVISION, Templates, names, observe, put_deleting, put_machines, replicas, selector, selector_text, selects, title,
};
use super::objects::GroupKind;
use super::step::Step;
use golang::calendar::Moment;
use model::hub::{Object, ObjectKey, label};

/// What keeps a deployment until its sets are gone (MA-1.7). The finalizer for the templates of topologies is that of other
/// controllers, which add it themselves.
const FINALIZER: &str = "cluster.x-k8s.io/machinedeployment";

/// The next step.
///
/// # Errors
/// When a kind is not listed yet, or nothing can be done at all.
pub(super) fn step(context: &Context<'_>, object: &Arc<Object>, step: &mut Step) -> Result<(), Fault> {
    let cluster = cluster_of(context, object)?;
    let Some(mut after) = begin(context, cluster.as_deref(), object, FINALIZER, step) else { return Ok(()) };
    let no_cluster = || Fault::because(format!("{} has no Cluster", title(object)));
    let key = cluster_key(object).ok_or_else(no_cluster)?;
    let machines = machines(context, object, &key)?;
    let mut all = sets(context, object, &key)?;
    if object.is_being_deleted() {
        leave(context, object, after, (&all, &machines), step);
        return Ok(());
    }
    let cluster = cluster.ok_or_else(no_cluster)?;
    own(&mut after, &cluster);
    let templates = Templates::of(context, &after)?;
    templates.own(&cluster, step);
    for set in &mut all {
        set_label(&mut set.after, label::MACHINE_DEPLOYMENT_NAME, object.name());
    }
    let planned = plan(context, &mut after, &templates, all.clone(), step);
    let Planned { new, old } = step.keep(planned)?.unwrap_or(Planned { new: None, old: all });
    let drafts: Vec<Draft> = new.into_iter().chain(old.iter().cloned()).collect();
    write(&drafts, step);
    let held: Vec<String> = templates.missing().into_iter().collect();
    put_status(context, &mut after, (&drafts, &machines), &held, step);
    put_deleting(&mut after, "", context.now);
    observe(&mut after, &step.errors);
    clean_up(object, after, &old, step);
    Ok(())
}

/// The machines that a deployment selects (MA-20.1).
fn machines(context: &Context<'_>, deployment: &Object, cluster: &ObjectKey) -> Result<Vec<Arc<Object>>, Fault> {
    let selector = selector(deployment)?;
    let mut machines = Vec::new();
    for machine in context.of_cluster(&GroupKind::core("Machine"), cluster)? {
        if selects(&selector, &machine)? {
            machines.push(machine);
        }
    }
    Ok(machines)
}

/// Deletes the sets of a deployment that is being deleted, and lets it go when none is left (MA-20.5).
fn leave(
    context: &Context<'_>,
    object: &Arc<Object>,
    mut after: Object,
    (sets, machines): (&[Draft], &[Arc<Object>]),
    step: &mut Step,
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
        step.tell("SuccessfulDelete", format!("Deleted MachineSet {}", set.name()));
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

/// The sets as they shall be.
struct Planned {
    new: Option<Draft>,
    old: Vec<Draft>,
}

/// Gives all sets their shape and their replicas.
fn plan(
    context: &Context<'_>,
    after: &mut Object,
    templates: &Templates,
    mut old: Vec<Draft>,
    step: &mut Step,
) -> Result<Planned, Fault> {
    let replicas = replicas(after)?;
    let strategy = Strategy::of(after)?;
    let limits = Limits::of(after, replicas)?;
    let rollout_after = time(after, "spec.rollout.after");
    if let Some(wait) = rollout_after.and_then(|at| until(at, context.now)) {
        step.look_again(wait);
    }
    let is_paused = flag(after, "spec.paused");
    let handed_down = hand_down(after);
    let deployment = after.clone();
    let surge = if strategy == Strategy::RollingUpdate { limits.surge } else { 0 };
    let is_on_delete = strategy == Strategy::OnDelete;
    let shape = Shape { deployment: &deployment, handed_down, replicas, surge, is_on_delete };
    let annotated: Vec<(String, Option<i64>, Option<i64>)> = old.iter().map(|set| noted(&set.after)).collect();
    let mut new = match choose(&deployment, &mut old, rollout_after, context.now) {
        Ok(mut new) => {
            shape.put_on(&mut new.after, true)?;
            Some(new)
        }
        Err(_) if is_paused => None,
        Err(reason) => Some(create(context, &shape, templates, &reason, step)?),
    };
    for set in &mut old {
        shape.put_on(&mut set.after, false)?;
    }
    if let Some(new) = &mut new {
        // Without a new set the deployment keeps its revision (MA-21.11).
        let revision = revise(&mut new.after, &old);
        set_annotation(after, REVISION, &revision);
    }
    let mut planned = Planned { new, old };
    match strategy {
        _ if is_paused => scale_paused(&mut planned, limits, (strategy, surge), &annotated, after)?,
        strategy => roll(&mut planned, limits, strategy, step)?,
    }
    Ok(planned)
}

/// How machines are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    RollingUpdate,
    OnDelete,
}

impl Strategy {
    fn of(deployment: &Object) -> Result<Strategy, Fault> {
        match text(deployment, "spec.rollout.strategy.type") {
            "" | "RollingUpdate" => Ok(Strategy::RollingUpdate),
            "OnDelete" => Ok(Strategy::OnDelete),
            other => Err(Fault::because(format!("{}: unknown rollout strategy {other:?}", title(deployment)))),
        }
    }
}

fn until(at: Moment, now: Moment) -> Option<core::time::Duration> {
    let nanos = at.since(now).and_then(|nanos| u64::try_from(nanos).ok()).filter(|nanos| *nanos > 0)?;
    remaining(now, core::time::Duration::from_nanos(nanos), now)
}

/// The name of a set, and what its annotations say about replicas.
fn noted(set: &Object) -> (String, Option<i64>, Option<i64>) {
    let read = |name: &str| set.annotation(name).and_then(|text| text.parse().ok());
    (set.name().to_owned(), read(DESIRED), read(MAX))
}

/// A new set; both templates have to exist (MA-21.5).
fn create(
    context: &Context<'_>,
    shape: &Shape<'_>,
    templates: &Templates,
    reason: &str,
    step: &mut Step,
) -> Result<Draft, Fault> {
    if let Some(missing) = templates.missing() {
        return Err(Fault::because(format!("{}: cannot create a MachineSet: {missing}", title(shape.deployment))));
    }
    let new = shape.new_set(context)?;
    step.tell("SuccessfulCreate", format!("Created MachineSet {}: {reason}", new.after.name()));
    Ok(new)
}

/// One round of a rollout.
fn roll(planned: &mut Planned, limits: Limits, strategy: Strategy, step: &mut Step) -> Result<(), Fault> {
    let Some(new) = &mut planned.new else { return Ok(()) };
    let old = planned.old.iter().map(Draft::numbers).collect::<Result<_, _>>()?;
    let mut round = Round::new(new.numbers()?, old);
    match strategy {
        Strategy::RollingUpdate => round.roll(limits),
        Strategy::OnDelete => round.on_delete(limits.replicas),
    }
    let Round { new: number, old } = round;
    resize(new, number.intent, step);
    for set in &mut planned.old {
        let intent = old.iter().find(|one| one.name == set.after.name()).and_then(|one| one.intent);
        resize(set, intent, step);
    }
    Ok(())
}

/// Scales the sets of a paused deployment (MA-24).
fn scale_paused(
    planned: &mut Planned,
    limits: Limits,
    (strategy, surge): (Strategy, i64),
    annotated: &[(String, Option<i64>, Option<i64>)],
    deployment: &Object,
) -> Result<(), Fault> {
    let mut drafts: Vec<(bool, &mut Draft)> = planned.new.iter_mut().map(|new| (true, new)).collect();
    drafts.extend(planned.old.iter_mut().map(|old| (false, old)));
    let mut sized = Vec::new();
    for (is_new, draft) in &drafts {
        let known = annotated.iter().find(|(name, _, _)| name == draft.after.name());
        let (desired, max) = known.map_or((None, None), |(_, desired, max)| (*desired, *max));
        sized.push(Sized { numbers: draft.numbers()?, is_new: *is_new, desired, max });
    }
    let machines = number(deployment, "status.replicas").unwrap_or_default();
    let limits = Limits { surge, ..limits };
    paused::scale(&mut sized, limits, strategy == Strategy::RollingUpdate, machines);
    for ((_, draft), sized) in drafts.into_iter().zip(sized) {
        set(&mut draft.after, "spec.replicas", json!(sized.numbers.wanted()));
    }
    Ok(())
}

/// Gives a set its replicas.
fn resize(draft: &mut Draft, intent: Option<i64>, step: &mut Step) {
    let Some(intent) = intent else { return };
    let was = number(&draft.after, "spec.replicas").unwrap_or_default();
    if draft.before.is_some() && was != intent {
        let message = format!("Scaled MachineSet {} from {was} to {intent} replicas", draft.after.name());
        step.tell("SuccessfulScale", message);
    }
    set(&mut draft.after, "spec.replicas", json!(intent));
}

/// Writes each set at most once, the new one first (MA-21.12).
fn write(drafts: &[Draft], step: &mut Step) {
    for draft in drafts {
        match &draft.before {
            Some(before) => step.update(before, draft.after.clone()),
            None => step.create(vec![draft.after.clone()]),
        }
    }
}

/// Counters, phase and conditions (MA-26).
fn put_status(
    context: &Context<'_>,
    after: &mut Object,
    (drafts, machines): (&[Draft], &[Arc<Object>]),
    held: &[String],
    step: &mut Step,
) {
    let now = context.now;
    if let Ok(selector) = selector(after) {
        set(after, "status.selector", json!(selector_text(&selector)));
    }
    let sets: Vec<&Object> = drafts.iter().map(|draft| &draft.after).collect();
    let machines: Vec<&Object> = machines.iter().map(|machine| &**machine).collect();
    status::sum(after, &sets);
    let there = i64::try_from(machines.len()).unwrap_or(i64::MAX);
    let wanted = number(after, "spec.replicas");
    status::put_phase(after, wanted, there);
    let limits = wanted.and_then(|wanted| Limits::of(after, wanted).ok());
    let is_rolling = Strategy::of(after).is_ok_and(|strategy| strategy == Strategy::RollingUpdate);
    status::put_available(after, limits, is_rolling, now);
    status::put_rolling_out(after, &machines, now);
    status::put_scale(after, wanted.unwrap_or_default(), there, held, now);
    if let Some(again) = put_machines(after, &machines, now) {
        step.look_again(again);
    }
}

/// Writes the deployment, and deletes the old sets that it no longer needs (MA-26.6).
fn clean_up(object: &Arc<Object>, after: Object, old: &[Draft], step: &mut Step) {
    let is_seen = number(object, "status.observedGeneration") == number(object, "metadata.generation");
    let replicas = number(&after, "spec.replicas").filter(|_| is_seen && step.errors.is_empty());
    let unneeded = replicas.map(|replicas| status::unneeded(&after, replicas, old)).unwrap_or_default();
    let unneeded: Vec<Arc<Object>> = unneeded.into_iter().filter_map(|set| set.before.clone()).collect();
    step.update(object, after);
    for set in unneeded {
        step.tell("SuccessfulDelete", format!("Deleted MachineSet {}, which has no machines", set.name()));
        step.delete(&set);
    }
}

#[cfg(test)]
mod tests;

//! The step of a MachineSet, which maintains a number of Machines from one template (MA-15).
//!
//! ```text
//! members.rs: the machines of the set ─────► remediation.rs ─► sync.rs (fields in place) ─► scale.rs ─► status.rs
//!                                               │                                           │
//!                                               └──────────────── preflight.rs ─────────────┤
//!                                                                     order.rs, desired.rs ─┘
//! ```

mod desired;
mod propagation;
mod legacy;
mod members;
mod order;
mod preflight;
mod remediation;
mod scale;
mod status;
mod sync;
mod templates;
#[cfg(test)]
pub(super) mod testing;

use std::sync::Arc;

pub(super) use self::desired::IN_PLACE;
pub(super) use self::members::{replicas, selector, title};
pub use self::preflight::CHECK_FAILED;
pub(super) use self::propagation::{PropagatedMetadata, RECORD};
pub(super) use self::remediation::{REVISION, resolved};
pub(super) use self::scale::DISABLE_CREATE;
pub(super) use self::status::{
    COUNTERS, ReplicaCount, names, observe, put_deleting, put_machines, put_scaling, put_versions, selector_text,
};
pub(super) use self::templates::SetTemplates;

use serde_json::json;

use self::members::{SetMachine, members};
use self::scale::Scaling;
use super::begin::begin;
use super::context::{StepContext, StepError};
use super::fields::{
    cluster_key, cluster_of, owner, owner_name, remove_finalizer, set, set_label, set_owner, set_text,
};
use super::step::{ObjectWrite, Reconciliation};
use model::hub::{Object, ObjectKey, label, paths};

/// Finalizer of a set until its machines are gone (MA-1.7). The finalizer for templates of topologies belongs to other
/// controllers, which add it themselves.
const FINALIZER: &str = "cluster.x-k8s.io/machineset";

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
    if object.is_being_deleted() {
        return leave(context, object, after, &key, step);
    }
    let cluster = cluster.ok_or_else(no_cluster)?;
    own_labels(&mut after, &cluster);
    live(context, object, after, &cluster, step)
}

/// Deletes the machines of a set that is being deleted, and removes the finalizer when none is left (MA-15.6).
fn leave(
    context: &StepContext<'_>,
    object: &Arc<Object>,
    mut after: Object,
    cluster: &ObjectKey,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let members = members(context, object, cluster)?;
    let machines: Vec<&Object> = members.iter().map(|member| &*member.before).collect();
    if machines.is_empty() {
        remove_finalizer(&mut after, FINALIZER);
    }
    let waits_for = match &*machines {
        [] => "Deletion completed".to_owned(),
        machines => format!("Machines are being deleted: {}", names(machines.iter().copied())),
    };
    put_status(context, &mut after, &machines, 0, &[], step);
    put_deleting(&mut after, &waits_for, context.now);
    observe(&mut after, &step.errors);
    step.update(object, after);
    for member in members.iter().filter(|member| !member.is_leaving()) {
        step.event("SuccessfulDelete", format!("Deleted Machine {}", member.before.name()));
        step.delete(&member.before);
    }
    Ok(())
}

/// Owner and labels of a set (MA-15.2).
fn own_labels(after: &mut Object, cluster: &Object) {
    let is_free = ["MachineDeployment", "Cluster"].iter().all(|kind| owner_name(after, kind).is_none());
    if is_free && after.label(label::MACHINE_DEPLOYMENT_NAME).is_none() {
        set_owner(after, owner(cluster, false), cluster);
    }
    set_label(after, label::CLUSTER_NAME, cluster.name());
    for path in [paths::worker::MATCH_LABELS, paths::worker::MACHINE_LABELS] {
        set_text(after, path, label::CLUSTER_NAME, cluster.name());
    }
}

/// Reconciles number and fields of the machines of a set, and its status (MA-15.1).
fn live(
    context: &StepContext<'_>,
    object: &Arc<Object>,
    mut after: Object,
    cluster: &Object,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let deployment = deployment(context, object)?;
    let templates = SetTemplates::for_object(context, &after)?;
    templates.own(cluster, step);
    if let Some(missing) = templates.missing().filter(|_| is_current(&after, deployment.as_deref())) {
        step.errors.push(format!("{}: {missing}", title(object)));
    }
    let mut members = members(context, &after, &cluster.key())?;
    let pair = (&after, deployment.as_deref());
    let remediated = remediation::remediate(context, cluster, pair, &templates, &mut members, step);
    step.collect_error(remediated)?;
    sync::machines(context, &mut after, &mut members, step)?;
    let scaling = scale::replicas_of(context, cluster, &after, &templates, &members, step);
    let Scaling { writes, mut held } = step.collect_error(scaling)?.unwrap_or_default();
    held.extend(templates.missing());
    report(context, object, after, &members, &held, step)?;
    for member in members.iter().filter(|member| member.is_doomed) {
        // A machine is deleted only after its mark, by which the limit of remediations counts it (MA-19.12).
        step.attempt(update(member).into_iter().chain([deletion(member)]));
    }
    step.writes.extend(writes);
    Ok(())
}

/// The update of a machine, if it has changed.
fn update(member: &SetMachine) -> Option<ObjectWrite> {
    let SetMachine { before, after, .. } = member;
    (**before != *after).then(|| ObjectWrite::Update { workload: None, before: before.clone(), after: after.clone() })
}

fn deletion(member: &SetMachine) -> ObjectWrite {
    ObjectWrite::Delete { workload: None, object: member.before.clone() }
}

/// Writes the changed machines, then the set with its status. Machines to delete are written with their deletion.
fn report(
    context: &StepContext<'_>,
    object: &Arc<Object>,
    mut after: Object,
    members: &[SetMachine],
    held: &[String],
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    for member in members.iter().filter(|member| !member.is_doomed) {
        step.update_other(&member.before, member.after.clone());
    }
    let machines: Vec<&Object> = members.iter().map(|member| &member.after).collect();
    let wanted = step.collect_error(replicas(&after))?.unwrap_or_default();
    put_status(context, &mut after, &machines, wanted, held, step);
    put_deleting(&mut after, "", context.now);
    observe(&mut after, &step.errors);
    step.update(object, after);
    Ok(())
}

/// Counters, versions and conditions (MA-18). Each change of a Machine triggers its set, so no polling is needed
/// (MA-18.3).
fn put_status(
    context: &StepContext<'_>,
    after: &mut Object,
    machines: &[&Object],
    wanted: i64,
    held: &[String],
    step: &mut Reconciliation,
) {
    if let Ok(selector) = selector(after) {
        set(after, paths::status::SELECTOR, json!(selector_text(&selector.labels)));
    }
    status::count(after, machines);
    if let Some(again) = legacy::count(context, after, machines) {
        step.requeue_after(again);
    }
    put_versions(after, status::versions(machines));
    let there = i64::try_from(machines.len()).unwrap_or(i64::MAX);
    put_scaling(after, ReplicaCount { wanted, there }, held, context.now);
    if let Some(again) = put_machines(after, machines, context.now) {
        step.requeue_after(again);
    }
}

/// The MachineDeployment of a set, by its label (MA-15.1).
fn deployment(context: &StepContext<'_>, set: &Object) -> Result<Option<Arc<Object>>, StepError> {
    let Some(name) = set.label(label::MACHINE_DEPLOYMENT_NAME) else { return Ok(None) };
    let found = context.core("MachineDeployment", set.namespace(), name)?;
    found.map(Some).ok_or_else(|| StepError::failed(format!("{}: MachineDeployment {name} does not exist", title(set))))
}

/// Whether a set needs its templates: sets of former revisions do not (MA-15.3).
fn is_current(set: &Object, deployment: Option<&Object>) -> bool {
    let revision = |object: &Object| object.annotation(REVISION).map(str::to_owned);
    deployment.is_none_or(|deployment| revision(deployment) == revision(set))
}

#[cfg(test)]
mod tests;

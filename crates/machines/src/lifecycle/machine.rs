//! Machines: from bootstrap data and infrastructure to a Node, and their deletion (MA-3 to MA-11, MA-13).
//!
//! ```text
//! owner and labels ─► bootstrap.rs ─► infrastructure.rs ─► node.rs ─► delete.rs ─► status.rs ─► one update
//!                        └── external.rs ──┘                │            │            └ phase.rs, node_conditions.rs,
//!                                                           │            │              up_to_date.rs
//!                                                  node_fields.rs    drain.rs, volumes.rs (pods.rs, drain_rules.rs)
//! ```
//!
//! Every part runs in every step, and a failure does not stop the others (MA-4.3). The results of the parts are in
//! `reconcile.rs`.

use std::sync::Arc;

use self::reconcile::{DeletionWait, ExternalObject, MachineReconcile, NodeState};
use super::begin::begin;
use super::conditions::observe_generation;
use super::context::{StepContext, StepError};
use super::fields::{cluster_of, owner, owner_name, remove_finalizer, set, set_label, set_owner, stamp};
use super::step::Reconciliation;
use golang::calendar::Moment;
use model::hub::{Object, label, paths};

mod bootstrap;
mod delete;
mod drain;
mod drain_rules;
mod external;
mod guards;
mod infrastructure;
mod node;
mod node_conditions;
mod node_fields;
mod phase;
mod pods;
mod status;
mod up_to_date;
mod volumes;
mod reconcile;

pub use self::phase::{MachinePhase, TRANSITIONS};

const FINALIZER: &str = "machine.cluster.x-k8s.io";
const CERTIFICATES_EXPIRY: &str = "machine.cluster.x-k8s.io/certificates-expiry";
const CONTROL_PLANE_NAME: &str = "cluster.x-k8s.io/control-plane-name";

/// The next step of a Machine (MA-4).
///
/// # Errors
/// When a kind is not listed yet, or the Cluster or owner does not exist.
pub(super) fn step(
    context: &StepContext<'_>,
    object: &Arc<Object>,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let Some(cluster) = cluster_of(context, object)? else {
        let cluster = object.cluster_name();
        return Err(StepError::failed(format!("Cluster {cluster} of Machine {} does not exist", object.key())));
    };
    let Some(after) = begin(context, Some(&cluster), object, FINALIZER, step) else { return Ok(()) };
    let (set, deployment) = owning_set(context, object)?;
    let mut work = MachineReconcile {
        context,
        step,
        cluster,
        before: object.clone(),
        machine: after,
        set,
        deployment,
        bootstrap: ExternalObject::Unread,
        infrastructure: ExternalObject::Unread,
        node: NodeState::NotAsked,
        node_after: None,
        deletion: None,
    };
    run(&mut work)?;
    finish(work);
    Ok(())
}

/// An owner, if it exists.
type OwnerObject = Option<Arc<Object>>;

/// The MachineSet that owns the Machine, and its MachineDeployment (MA-4.2). Not required for a Machine that is being
/// deleted.
fn owning_set(context: &StepContext<'_>, object: &Object) -> Result<(OwnerObject, OwnerObject), StepError> {
    let find = |kind: &str, name: Option<&str>| {
        let Some(name) = name else { return Ok(None) };
        match context.core(kind, object.namespace(), name)? {
            None if !object.is_being_deleted() => {
                let machine = object.key();
                Err(StepError::failed(format!("{kind} {name} of Machine {machine} does not exist")))
            }
            found => Ok(found),
        }
    };
    let set = find("MachineSet", owner_name(object, "MachineSet"))?;
    let name = set.as_ref().and_then(|set| set.label(label::MACHINE_DEPLOYMENT_NAME).map(str::to_owned));
    let deployment = find("MachineDeployment", name.as_deref())?;
    Ok((set, deployment))
}

fn run(work: &mut MachineReconcile<'_, '_>) -> Result<(), StepError> {
    own(work);
    for part in [bootstrap::reconcile, infrastructure::reconcile, node::reconcile, certificates] {
        let outcome = part(work);
        work.step.collect_error(outcome)?;
    }
    if work.is_deleting() {
        let outcome = delete::reconcile(work);
        work.step.collect_error(outcome)?;
    }
    Ok(())
}

/// Writes the changes, also after a failure (MA-4.4). The status reports the completed deletion before the finalizer is
/// removed, so that it is visible (MA-9.13, DEC-6).
fn finish(mut work: MachineReconcile<'_, '_>) {
    let is_complete = work.deletion.as_ref().is_some_and(DeletionWait::is_completed);
    work.write_node();
    if is_complete && delete::says_complete(&work) {
        let mut last = (*work.before).clone();
        remove_finalizer(&mut last, FINALIZER);
        work.step.update(&work.before, last);
        return;
    }
    status::update(&mut work);
    if work.step.errors.is_empty() {
        observe_generation(&mut work.machine);
    }
    work.step.update(&work.before, work.machine);
}

/// Makes the Cluster the owner of a stand-alone Machine (MA-5.1, MA-5.2).
fn own(work: &mut MachineReconcile<'_, '_>) {
    let machine = &mut work.machine;
    let will_be_owned = [label::SET_NAME, label::MACHINE_POOL_NAME, CONTROL_PLANE_NAME];
    let has_owner = machine.controller().is_some()
        || machine.owner_references().iter().any(|owner| owner.get("kind").is_some_and(|kind| kind == "Cluster"));
    if !has_owner && will_be_owned.iter().all(|name| machine.label(name).is_none()) {
        set_owner(machine, owner(&work.cluster, false), &work.cluster);
    }
    if machine.label(label::CLUSTER_NAME) != Some(work.cluster.name()) {
        set_label(machine, label::CLUSTER_NAME, work.cluster.name());
    }
}

/// Expiry of the certificates of a control plane machine (MA-4.5).
fn certificates(work: &mut MachineReconcile<'_, '_>) -> Result<(), StepError> {
    if !work.is_control_plane() {
        return Ok(());
    }
    let config = work.bootstrap.found().and_then(|config| config.annotation(CERTIFICATES_EXPIRY));
    let text = work.machine.annotation(CERTIFICATES_EXPIRY).or(config).map(str::to_owned);
    match text.as_deref().map(|text| Moment::parse(text).ok_or(text)) {
        Some(Ok(time)) => set(&mut work.machine, paths::machine::CERTIFICATES_EXPIRY, stamp(time)),
        Some(Err(text)) => {
            return Err(StepError::failed(format!(
                "annotation {CERTIFICATES_EXPIRY} is {text:?}, which is not a time"
            )));
        }
        None => set(&mut work.machine, paths::machine::CERTIFICATES_EXPIRY, serde_json::Value::Null),
    }
    Ok(())
}

#[cfg(test)]
mod tests;

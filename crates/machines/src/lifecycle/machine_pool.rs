//! Machine pools: bootstrap data, instances and their Nodes (CT-13, and MA-3 to MA-9 as far as they apply).
//!
//! ```text
//! objects.rs: referenced objects ─► nodes.rs: Nodes of the instances ─► report.rs: counters, conditions and phase
//! ```

mod nodes;
mod objects;
mod phase;
mod report;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use core::time::Duration;

use self::nodes::PoolNodes;
use self::objects::PoolObjects;
use super::begin::begin;
use super::conditions::{ConditionState, put};
use super::context::{StepContext, StepError};
use super::fields::{
    cluster_of, items, number, owner, owner_name, remaining, remove_finalizer, set_label, set_owner, time,
};
use super::step::{ObjectWrite, Reconciliation};
use golang::calendar::Moment;
use model::hub::machine_defaults::NODE_DELETION_TIMEOUT_SECONDS;
use model::hub::{Object, label, paths};

/// Finalizer of machine pools until their objects are gone.
const FINALIZER: &str = "machinepool.cluster.x-k8s.io";

/// The next step: finalizer, owner and label, bootstrap data, infrastructure, Nodes, then the status.
///
/// # Errors
/// When a kind is not listed yet, or the Cluster does not exist.
pub(super) fn step(
    context: &StepContext<'_>,
    object: &Arc<Object>,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let cluster = cluster_of(context, object)?;
    let Some(mut after) = begin(context, cluster.as_deref(), object, FINALIZER, step) else { return Ok(()) };
    let Some(cluster) = cluster else {
        let name = object.cluster_name();
        return Err(StepError::failed(format!("MachinePool {}: Cluster {name} was not found", object.key())));
    };
    let parts = PoolObjects::read(context, object)?;
    if object.is_being_deleted() {
        return delete(context, &cluster, object, &parts, after, step);
    }
    belong(&cluster, object, &mut after);
    parts.own(&cluster, object, step);
    let end = parts.take_over(context, &mut after, step);
    let nodes = PoolNodes::read(context, &cluster, &after);
    if let Some(nodes) = &nodes {
        nodes.keep_in_step(&cluster, object, step);
    }
    report::report(context, &parts, nodes.as_ref(), &mut after, end.is_ok(), step);
    step.update(object, after);
    end
}

/// Makes the Cluster the owner of a pool without a controller (MA-5.1), and sets its label (MA-5.2).
fn belong(cluster: &Object, object: &Object, after: &mut Object) {
    if object.controller().is_none() && owner_name(object, "Cluster").is_none() {
        set_owner(after, owner(cluster, false), cluster);
    }
    set_label(after, label::CLUSTER_NAME, cluster.name());
}

/// Deletes infrastructure, bootstrap data and Nodes in this order (MA-9.1).
fn delete(
    context: &StepContext<'_>,
    cluster: &Object,
    object: &Arc<Object>,
    parts: &PoolObjects,
    mut after: Object,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let remains =
        [(&parts.infrastructure, "WaitingForInfrastructureDeletion"), (&parts.config, "WaitingForBootstrapDeletion")];
    let waits = remains.into_iter().find_map(|(part, reason)| Some((part.as_ref()?, reason)));
    let mut end = Ok(());
    if let Some((part, reason)) = waits {
        step.delete(part);
        let message = format!("{} {} is being deleted", part.kind(), part.name());
        put(&mut after, "Deleting", &ConditionState::new(true, reason, message), context.now);
        phase::deleting(&mut after, step);
    } else if after.has_finalizer(FINALIZER) {
        let waits = match delete_nodes(context, cluster, object, step) {
            Ok(waits) => waits,
            Err(error) => {
                let message = error.to_string();
                end = Err(error);
                Some(message)
            }
        };
        if let Some(message) = waits {
            put(&mut after, "Deleting", &ConditionState::new(true, "DeletingNodes", message), context.now);
        } else {
            remove_finalizer(&mut after, FINALIZER);
            step.event("Deleted", "Deleted the instances of the pool");
        }
    }
    step.update(object, after);
    end
}

/// Deletes the Nodes of the pool, and gives up after the timeout (MA-9.12). Returns a message while some are left.
///
/// # Errors
/// While the workload cluster is not connected.
fn delete_nodes(
    context: &StepContext<'_>,
    cluster: &Object,
    object: &Object,
    step: &mut Reconciliation,
) -> Result<Option<String>, StepError> {
    if cluster.is_being_deleted() {
        return Ok(None);
    }
    let left = time_left_for_nodes(object, context.now);
    let waiting = match PoolNodes::read(context, cluster, object) {
        Some(nodes) => {
            let deletions: Vec<ObjectWrite> = nodes.deletions(cluster).collect();
            let number = deletions.len();
            deletions.into_iter().for_each(|deletion| step.attempt([deletion]));
            (number > 0).then(|| Ok(Some(format!("Waiting for {number} Nodes to be deleted"))))
        }
        None if items(object, paths::worker::NODE_REFS).is_empty() => None,
        None => {
            let name = object.key();
            let message = format!("the Nodes of MachinePool {name} cannot be deleted: its cluster is not connected");
            Some(Err(StepError::failed(message)))
        }
    };
    match (waiting, left) {
        (Some(waiting), NodeDeletionTime::Remains(left)) => {
            // The deletion of a Node wakes its pool, and a failed one is retried with backoff.
            left.into_iter().for_each(|left| step.requeue_after(left));
            waiting
        }
        _ => Ok(None),
    }
}

/// The time for the deletion of Nodes.
enum NodeDeletionTime {
    /// What remains of it; `None` without a limit.
    Remains(Option<Duration>),
    IsOver,
}

/// The time that is left for the deletion of the Nodes of a pool. Pools have the default of Machines: Cluster API's
/// webhook sets it.
fn time_left_for_nodes(object: &Object, now: Moment) -> NodeDeletionTime {
    let default = i64::from(NODE_DELETION_TIMEOUT_SECONDS);
    let seconds = number(object, paths::worker::NODE_DELETION_TIMEOUT).unwrap_or(default);
    let Some(seconds) = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0) else {
        return NodeDeletionTime::Remains(None);
    };
    let Some(begun) = time(object, paths::metadata::DELETION_TIMESTAMP) else { return NodeDeletionTime::IsOver };
    match remaining(begun, Duration::from_secs(seconds), now) {
        Some(left) => NodeDeletionTime::Remains(Some(left)),
        None => NodeDeletionTime::IsOver,
    }
}

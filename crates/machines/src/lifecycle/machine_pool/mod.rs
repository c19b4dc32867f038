//! Machine pools: bootstrap data, instances and Nodes of each (CT-13, and MA-3 to MA-9 as far as they apply).
//!
//! ```text
//! parts.rs: what the pool refers to ─► nodes.rs: which Nodes run ─► report.rs: counters, conditions and phase
//! ```

mod nodes;
mod parts;
mod phase;
mod report;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::nodes::Nodes;
use self::parts::Parts;
use super::begin::begin;
use super::conditions::{Condition, put};
use super::context::{Context, Fault};
use super::fields::{
    cluster_of, controller, has_finalizer, owner, owner_name, remove_finalizer, set_label, set_owner, text,
};
use super::step::Step;
use model::hub::{Object, label};

/// On machine pools until their parts are gone.
const FINALIZER: &str = "machinepool.cluster.x-k8s.io";

/// The next step: finalizer, owner and label, bootstrap data, infrastructure, Nodes, then what there is to report.
///
/// # Errors
/// When a kind is not listed yet, or nothing can be done at all.
pub(super) fn step(context: &Context<'_>, object: &Arc<Object>, step: &mut Step) -> Result<(), Fault> {
    let cluster = cluster_of(context, object)?;
    let Some(mut after) = begin(context, cluster.as_deref(), object, FINALIZER, step) else { return Ok(()) };
    let Some(cluster) = cluster else {
        let name = text(object, "spec.clusterName");
        return Err(Fault::because(format!("MachinePool {}: Cluster {name} was not found", object.key())));
    };
    let parts = Parts::read(context, object)?;
    if object.is_being_deleted() {
        delete(context, &cluster, object, &parts, after, step);
        return Ok(());
    }
    belong(&cluster, object, &mut after);
    parts.own(&cluster, object, step);
    let end = parts.take_over(context, &mut after, step);
    let nodes = Nodes::read(context, &cluster, &after);
    nodes.keep_in_step(&cluster, object, step);
    report::report(context, &parts, &nodes, &mut after, end.is_ok(), step);
    step.update(object, after);
    end
}

/// The Cluster owns a pool that nothing else controls (MA-5.1), and its label names the Cluster (MA-5.2).
fn belong(cluster: &Object, object: &Object, after: &mut Object) {
    if controller(object).is_none() && owner_name(object, "Cluster").is_none() {
        set_owner(after, owner(cluster, false), cluster);
    }
    set_label(after, label::CLUSTER_NAME, cluster.name());
}

/// Infrastructure, bootstrap data and Nodes go one after the other (MA-9.1).
fn delete(
    context: &Context<'_>,
    cluster: &Object,
    object: &Arc<Object>,
    parts: &Parts,
    mut after: Object,
    step: &mut Step,
) {
    let remains =
        [(&parts.infrastructure, "WaitingForInfrastructureDeletion"), (&parts.config, "WaitingForBootstrapDeletion")];
    let waits = remains.into_iter().find_map(|(part, reason)| Some((part.as_ref()?, reason)));
    if let Some((part, reason)) = waits {
        step.delete(part);
        let message = format!("{} {} is being deleted", part.kind(), part.name());
        put(&mut after, "Deleting", &Condition::new(true, reason, message), context.now);
        phase::deleting(&mut after, step);
    } else if has_finalizer(&after, FINALIZER) {
        if !cluster.is_being_deleted() {
            Nodes::delete_all(context, cluster, object, step);
        }
        remove_finalizer(&mut after, FINALIZER);
        step.tell("Deleted", "Deleted the instances of the pool");
    }
    step.update(object, after);
}

//! Providers: infrastructure, bootstrap data and control planes (CT-6 to CT-13, CT-18, CT-19).
//!
//! ```text
//! role.rs: reference to the object ───► infrastructure_cluster.rs │ infrastructure_machine.rs │ bootstrap.rs
//!                                       control_plane/            │ infrastructure_pool.rs
//!                                         connection.rs: the workload cluster with its registered objects
//!                                         all of them: context.rs (owner, Cluster, pause, finalizer),
//!                                         delays.rs, failures.rs (injected), virtual_node.rs (Nodes and Pods)
//! flow.rs: flows of infrastructure objects, as drawn in documents
//! adoption.rs: state of other providers, translated for a simulation
//! ```

pub(super) mod adoption;
mod bootstrap;
mod connection;
mod control_plane;
pub(super) mod delays;
mod failures;
pub(super) mod flow;
mod infrastructure_cluster;
mod infrastructure_machine;
pub(super) mod infrastructure_pool;
mod role;
mod context;
#[cfg(test)]
mod tests;
mod virtual_node;

use std::sync::Arc;

use self::role::{OwnerRole, role};
use super::context::{StepContext, StepError};
use super::fields::remove_finalizer;
use super::step::Reconciliation;
use model::hub::Object;
use model::hub::contract::is_template_kind;

/// Finalizers of the roles (CT-15.6).
const FINALIZERS: [&str; 4] = [
    infrastructure_cluster::FINALIZER,
    infrastructure_machine::FINALIZER,
    infrastructure_pool::FINALIZER,
    control_plane::FINALIZER,
];

/// The next step of a provider object, by the role given by its owner (CT-1.1). A status that is lost, for example by
/// moving the object to another cluster, is rewritten from the spec and from existing objects (CT-17.4, CT-18.5).
///
/// # Errors
/// When a kind is not listed yet, or the Cluster does not exist.
pub(super) fn step(
    context: &StepContext<'_>,
    object: &Arc<Object>,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    if is_template_kind(object.kind()) {
        return Ok(());
    }
    match role(context, object)? {
        Some(OwnerRole::InfrastructureCluster(ctx)) => infrastructure_cluster::step(&ctx, step),
        Some(OwnerRole::InfrastructureMachine(ctx, machine)) => {
            infrastructure_machine::step(&ctx, &machine, step)?;
            connection::without_control_plane(&ctx, step)
        }
        Some(OwnerRole::InfrastructurePool(ctx, pool)) => infrastructure_pool::step(&ctx, &pool, step),
        Some(OwnerRole::Bootstrap(ctx, owner)) => bootstrap::step(&ctx, &owner, step),
        Some(OwnerRole::ControlPlane(ctx)) => control_plane::step(&ctx, step),
        None => {
            let_go(object, step);
            Ok(())
        }
    }
}

/// Removes our finalizers from a deleted object that nothing refers to (CT-18.2, CT-19.10).
fn let_go(object: &Arc<Object>, step: &mut Reconciliation) {
    if !object.is_being_deleted() || !FINALIZERS.iter().any(|name| object.has_finalizer(name)) {
        return;
    }
    let mut after = (**object).clone();
    FINALIZERS.iter().for_each(|name| remove_finalizer(&mut after, name));
    step.update(object, after);
}

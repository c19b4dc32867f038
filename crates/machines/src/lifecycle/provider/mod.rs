//! What providers do: infrastructure, bootstrap data and control planes (CT-6 to CT-13, CT-18, CT-19).
//!
//! ```text
//! role.rs: what refers to the object ─► infrastructure_cluster.rs │ infrastructure_machine.rs │ bootstrap.rs
//!                                       control_plane/            │ infrastructure_pool.rs
//!                                         connection.rs: the workload cluster, with what they have registered
//!                                         all of them: scene.rs (owner, Cluster, pause, finalizer),
//!                                         delays.rs (how long), failures.rs (what fails), virtual_node.rs (Nodes and Pods)
//! flow.rs: the steps of infrastructure objects in their order, as documents draw them
//! adopted.rs: what other providers have brought up, for a simulation that goes on from there
//! ```

pub(super) mod adopted;
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
mod scene;
#[cfg(test)]
mod tests;
mod virtual_node;

use std::sync::Arc;

use self::role::{Role, role};
use super::context::{Context, Fault};
use super::fields::{has_finalizer, remove_finalizer};
use super::step::Step;
use model::hub::Object;

/// The finalizers of the roles (CT-15.6).
const FINALIZERS: [&str; 4] = [
    infrastructure_cluster::FINALIZER,
    infrastructure_machine::FINALIZER,
    infrastructure_pool::FINALIZER,
    control_plane::FINALIZER,
];

/// The next step of an object of a provider, by the role that its owner gives it (CT-1.1). A status that is lost, or that was left behind
/// when the object moved to another cluster, is written again from the spec and from what exists (CT-17.4, CT-18.5).
///
/// # Errors
/// When a kind is not listed yet, or nothing can be done at all.
pub(super) fn step(context: &Context<'_>, object: &Arc<Object>, step: &mut Step) -> Result<(), Fault> {
    if object.kind().ends_with("Template") {
        return Ok(());
    }
    match role(context, object)? {
        Some(Role::InfrastructureCluster(scene)) => infrastructure_cluster::step(&scene, step),
        Some(Role::InfrastructureMachine(scene, machine)) => {
            infrastructure_machine::step(&scene, &machine, step)?;
            connection::without_control_plane(&scene, step)
        }
        Some(Role::InfrastructurePool(scene, pool)) => infrastructure_pool::step(&scene, &pool, step),
        Some(Role::Bootstrap(scene, owner)) => bootstrap::step(&scene, &owner, step),
        Some(Role::ControlPlane(scene)) => control_plane::step(&scene, step),
        None => {
            let_go(object, step);
            Ok(())
        }
    }
}

/// An object that is deleted and that nothing refers to loses our finalizers, and that is all (CT-18.2, CT-19.10).
fn let_go(object: &Arc<Object>, step: &mut Step) {
    if !object.is_being_deleted() || !FINALIZERS.iter().any(|name| has_finalizer(object, name)) {
        return;
    }
    let mut after = (**object).clone();
    FINALIZERS.iter().for_each(|name| remove_finalizer(&mut after, name));
    step.update(object, after);
}

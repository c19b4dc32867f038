//! The step of a Cluster (MA-27): it connects infrastructure and control plane, sums up what belongs to the Cluster, and deletes
//! it in order.
//!
//! ```text
//! scene.rs: what belongs to the Cluster ─► references.rs: owner, flags, endpoint ─► deletion.rs: what goes next
//!                                                                  │
//!                        counters.rs, aggregates.rs, report.rs, phase.rs: the status
//! ```
//!
//! `TopologyReconciled`, the upgrade plans in the status and the annotations of hooks are those of the topology controller; the
//! step leaves them alone.

mod aggregates;
mod counters;
mod deletion;
mod phase;
mod references;
mod report;
mod scene;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::deletion::Stage;
pub use self::phase::CLUSTER_TRANSITIONS;
use self::scene::Scene;
use super::begin::begin;
use super::conditions::{observe_generation, reason};
use super::context::{Context, Fault};
use super::fields::{has_finalizer, remove_finalizer};
use super::step::Step;
use model::hub::Object;

/// What keeps a Cluster until everything that belongs to it is gone (MA-1.7).
pub const FINALIZER: &str = "cluster.cluster.x-k8s.io";

/// The next step: finalizer, pause, references, deletion, status (MA-27.1).
///
/// # Errors
/// When a kind is not listed yet, or the ClusterClass does not exist.
pub(super) fn step(context: &Context<'_>, object: &Arc<Object>, step: &mut Step) -> Result<(), Fault> {
    let Some(mut after) = begin(context, Some(object), object, FINALIZER, step) else { return Ok(()) };
    let scene = Scene::gather(context, object);
    let Some(scene) = step.keep(scene)? else {
        // The phase needs no more than the Cluster itself (MA-27.8).
        phase::write(None, &mut after, step);
        step.update(object, after);
        return Ok(());
    };
    let infrastructure = references::infrastructure(&scene, &mut after, step);
    step.keep(infrastructure)?;
    let control_plane = references::control_plane(&scene, &mut after, step);
    step.keep(control_plane)?;
    let stage = object.is_being_deleted().then(|| deletion::go_on(&scene, step));
    if stage.as_ref().is_some_and(|stage| is_known_to_be_over(object, stage)) {
        release(object, step);
        return Ok(());
    }
    let status = write_status(&scene, stage.as_ref(), &mut after, step);
    step.keep(status)?;
    // MA-1.9
    if step.errors.is_empty() {
        observe_generation(&mut after);
    }
    step.update(object, after);
    Ok(())
}

/// Whether nothing is left to delete, and the status has said so already; a status that is written together with the removal of
/// the last finalizer would be too late.
fn is_known_to_be_over(object: &Object, stage: &Stage) -> bool {
    has_finalizer(object, FINALIZER) && stage.is_over() && reason(object, "Deleting") == stage.reason
}

/// Lets the Cluster go (MA-27.15).
fn release(object: &Arc<Object>, step: &mut Step) {
    let mut after = (**object).clone();
    remove_finalizer(&mut after, FINALIZER);
    step.tell("DeletionCompleted", "Everything that belonged to the Cluster is gone");
    step.update(object, after);
}

fn write_status(scene: &Scene<'_>, stage: Option<&Stage>, after: &mut Object, step: &mut Step) -> Result<(), Fault> {
    counters::write(scene, after)?;
    report::own_conditions(scene, after);
    aggregates::write(scene, after, step);
    report::deleting(scene, stage, after);
    report::available(scene, after);
    phase::write(Some(scene), after, step);
    Ok(())
}

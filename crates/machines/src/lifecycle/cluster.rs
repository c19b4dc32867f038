//! The step of a Cluster (MA-27): connects infrastructure and control plane, aggregates the status of its objects, and
//! deletes it in order.
//!
//! ```text
//! context.rs: objects of the Cluster ─► references.rs: owner, flags, endpoint ─► deletion.rs: deletion order
//!                                                                  │
//!                        counters.rs, aggregates.rs, report.rs, phase.rs: the status
//! ```
//!
//! `TopologyReconciled`, the upgrade plans in the status and the annotations of hooks belong to the topology
//! controller; the step does not touch them.

mod aggregates;
mod counters;
mod deletion;
mod phase;
mod references;
mod report;
mod context;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::context::ClusterContext;
use self::deletion::DeletionStage;
pub use self::phase::CLUSTER_TRANSITIONS;
use super::begin::begin;
use super::conditions::{DELETION_COMPLETED, observe_generation, reason};
use super::context::{StepContext, StepError};
use super::fields::remove_finalizer;
use super::step::Reconciliation;
use model::hub::Object;

/// Finalizer of a Cluster until all of its objects are gone (MA-1.7).
pub const FINALIZER: &str = "cluster.cluster.x-k8s.io";

/// The next step: finalizer, pause, references, deletion, status (MA-27.1).
///
/// # Errors
/// When a kind is not listed yet, or the ClusterClass does not exist.
pub(super) fn step(
    context: &StepContext<'_>,
    object: &Arc<Object>,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let Some(mut after) = begin(context, Some(object), object, FINALIZER, step) else { return Ok(()) };
    let ctx = ClusterContext::gather(context, object);
    let Some(ctx) = step.collect_error(ctx)? else {
        // The phase depends on the Cluster alone (MA-27.8).
        phase::write(None, &mut after, step);
        step.update(object, after);
        return Ok(());
    };
    let infrastructure = references::infrastructure(&ctx, &mut after, step);
    step.collect_error(infrastructure)?;
    let control_plane = references::control_plane(&ctx, &mut after, step);
    step.collect_error(control_plane)?;
    let stage = object.is_being_deleted().then(|| deletion::delete_next(&ctx, step));
    if stage.as_ref().is_some_and(|stage| is_known_to_be_over(object, stage)) {
        release(object, step);
        return Ok(());
    }
    let status = write_status(&ctx, stage.as_ref(), &mut after, step);
    step.collect_error(status)?;
    // MA-1.9
    if step.errors.is_empty() {
        observe_generation(&mut after);
    }
    step.update(object, after);
    Ok(())
}

/// Whether nothing is left to delete, and the status has already reported it; a status written together with the
/// removal of the last finalizer would be too late.
fn is_known_to_be_over(object: &Object, stage: &DeletionStage) -> bool {
    object.has_finalizer(FINALIZER) && stage.is_over() && reason(object, "Deleting") == stage.reason
}

/// Removes the finalizer of the Cluster (MA-27.15).
fn release(object: &Arc<Object>, step: &mut Reconciliation) {
    let mut after = (**object).clone();
    remove_finalizer(&mut after, FINALIZER);
    step.event(DELETION_COMPLETED, "Everything that belonged to the Cluster is gone");
    step.update(object, after);
}

fn write_status(
    ctx: &ClusterContext<'_>,
    stage: Option<&DeletionStage>,
    after: &mut Object,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    counters::write(ctx, after)?;
    report::own_conditions(ctx, after);
    aggregates::write(ctx, after, step);
    report::deleting(ctx, stage, after);
    report::available(ctx, after);
    phase::write(Some(ctx), after, step);
    Ok(())
}

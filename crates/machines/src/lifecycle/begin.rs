//! The beginning of a step: finalizer and pause.

use std::sync::Arc;

use super::conditions::put_paused;
use super::context::StepContext;
use super::fields::{add_finalizer, paused};
use super::step::Reconciliation;
use model::hub::Object;

/// A copy of the object for the step to change. `None` if the step ends here, with everything written: the finalizer
/// was added, and the rest follows on the next event (MA-1.8); or the object is paused, or its pause has just ended
/// (CT-15.12).
pub(super) fn begin(
    context: &StepContext<'_>,
    cluster: Option<&Object>,
    object: &Arc<Object>,
    finalizer: &str,
    step: &mut Reconciliation,
) -> Option<Object> {
    let mut after = (**object).clone();
    let ends = add_finalizer(&mut after, finalizer) || {
        let cause = cluster.and_then(|cluster| paused(cluster, object));
        put_paused(&mut after, cause.as_deref(), context.now) || cause.is_some()
    };
    if ends {
        step.update(object, after);
        return None;
    }
    Some(after)
}

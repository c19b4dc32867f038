//! How a step begins: with the finalizer, and with a pause.

use std::sync::Arc;

use super::conditions::put_paused;
use super::context::Context;
use super::fields::{add_finalizer, paused};
use super::step::Step;
use model::hub::Object;

/// The copy of an object that a step changes. `None` if the step ends here, with everything written: the finalizer was added, and the
/// rest happens on the next event (MA-1.8); or the object is paused, or was until now (CT-15.12).
pub(super) fn begin(
    context: &Context<'_>,
    cluster: Option<&Object>,
    object: &Arc<Object>,
    finalizer: &str,
    step: &mut Step,
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

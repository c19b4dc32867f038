//! Conditions for skipping stages of a deletion (MA-9.6, MA-9.8).

use core::time::Duration;

use super::reconcile::{ExternalObject, MachineReconcile};
use crate::lifecycle::fields::is_timeout_over;
use crate::lifecycle::hooks::PRE_TERMINATE_START;

/// Requeue interval of stages that wait for a workload cluster.
pub(super) const PASS: Duration = Duration::from_secs(20);

/// Whether a stage about the Node is skipped: an annotation requests it, pre-terminate hooks have started to wait, the
/// infrastructure is gone or being deleted, or the timeout has passed.
pub(super) fn is_left_out(work: &MachineReconcile<'_, '_>, annotation: &str, timeout: &str, start: &str) -> bool {
    let is_going = match &work.infrastructure {
        ExternalObject::Found(object) => object.is_being_deleted(),
        ExternalObject::Missing | ExternalObject::NoReference => true,
        ExternalObject::Unread => false,
    };
    is_going
        || work.machine.annotation(annotation).is_some()
        || work.machine.at(PRE_TERMINATE_START).is_some()
        || is_timeout_over(&work.machine, timeout, start, work.context.now)
}

//! Conditions for skipping stages of a deletion (MA-9.6, MA-9.8).

use core::time::Duration;

use super::reconcile::{ExternalObject, MachineReconcile};
use crate::lifecycle::fields::{number, remaining, time};
use crate::lifecycle::hooks::PRE_TERMINATE_START;

/// Requeue interval of stages that wait for a workload cluster.
pub(super) const PASS: Duration = Duration::from_secs(20);

/// Whether a timeout of `spec.deletion` is set and has passed since the time at a path; 0 means no timeout.
pub(super) fn is_timeout_over(work: &MachineReconcile<'_, '_>, timeout: &str, start: &str) -> bool {
    let seconds = number(&work.machine, &format!("spec.deletion.{timeout}"));
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
    let (Some(seconds), Some(begun)) = (seconds, time(&work.machine, start)) else { return false };
    remaining(begun, Duration::from_secs(seconds), work.context.now).is_none()
}

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
        || is_timeout_over(work, timeout, start)
}

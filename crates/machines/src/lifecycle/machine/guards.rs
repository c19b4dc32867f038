//! When stages of a deletion are left out (MA-9.6, MA-9.8).

use core::time::Duration;

use super::work::{External, Work};
use crate::lifecycle::fields::{number, remaining, time};
use crate::lifecycle::hooks::PRE_TERMINATE_START;

/// How often stages that wait for a workload cluster are looked at.
pub(super) const PASS: Duration = Duration::from_secs(20);

/// Whether a timeout of `spec.deletion` is set, and has passed since the time at a path; 0 is no limit.
pub(super) fn is_timeout_over(work: &Work<'_, '_>, timeout: &str, start: &str) -> bool {
    let seconds = number(&work.machine, &format!("spec.deletion.{timeout}"));
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
    let (Some(seconds), Some(begun)) = (seconds, time(&work.machine, start)) else { return false };
    remaining(begun, Duration::from_secs(seconds), work.context.now).is_none()
}

/// Whether a stage about the Node is left out: an annotation asks for it, hooks before termination have begun to wait, the
/// infrastructure is gone or going, or the stage took too long.
pub(super) fn is_left_out(work: &Work<'_, '_>, annotation: &str, timeout: &str, start: &str) -> bool {
    let is_going = match &work.infrastructure {
        External::Found(object) => object.is_being_deleted(),
        External::Missing | External::NoReference => true,
        External::Unread => false,
    };
    is_going
        || work.machine.annotation(annotation).is_some()
        || work.machine.at(PRE_TERMINATE_START).is_some()
        || is_timeout_over(work, timeout, start)
}

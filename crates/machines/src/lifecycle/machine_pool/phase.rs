//! The phase of a pool, for people.

use serde_json::json;

use super::parts::{DATA, PROVISIONED};
use crate::lifecycle::conditions::phase;
use crate::lifecycle::fields::{flag, number, set};
use crate::lifecycle::step::Step;
use model::hub::Object;

/// Sets the phase and tells when it changes: like that of a Machine (MA-3.2), and whether instances come or go. `Failed` stays (DEC-6).
pub(super) fn set_phase(after: &mut Object, ready: i64, has_failed: bool, step: &mut Step) {
    let (wanted, there) = (number(after, "spec.replicas").unwrap_or(1), number(after, "status.replicas").unwrap_or(0));
    let next = if has_failed || phase(after) == "Failed" {
        "Failed"
    } else if !flag(after, PROVISIONED) {
        if flag(after, DATA) { "Provisioning" } else { "Pending" }
    } else if there < wanted {
        "ScalingUp"
    } else if there > wanted {
        "ScalingDown"
    } else if ready == wanted {
        "Running"
    } else {
        "Provisioned"
    };
    write(after, next, step);
}

/// The phase of a pool that is deleted.
pub(super) fn deleting(after: &mut Object, step: &mut Step) {
    write(after, "Deleting", step);
}

fn write(after: &mut Object, next: &'static str, step: &mut Step) {
    if phase(after) == next {
        return;
    }
    set(after, "status.phase", json!(next));
    let message = format!("MachinePool is {next}");
    match next {
        "Failed" => step.warn(next, message),
        _ => step.tell(next, message),
    }
}

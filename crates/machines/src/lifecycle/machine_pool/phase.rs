//! The phase of a pool, for display.

use serde_json::json;

use crate::lifecycle::conditions::phase;
use crate::lifecycle::fields::{number, set};
use crate::lifecycle::step::Reconciliation;
use model::hub::{Object, paths};

/// Sets the phase and emits an event on a change: as for a Machine (MA-3.2), and while instances scale. `Failed` is
/// permanent (DEC-6).
pub(super) fn set_phase(after: &mut Object, has_failed: bool, step: &mut Reconciliation) {
    let (wanted, there) = (after.replicas().unwrap_or(1), after.status_replicas().unwrap_or(0));
    let next = if has_failed || phase(after) == "Failed" {
        "Failed"
    } else if !after.is_infrastructure_provisioned() {
        if after.is_bootstrap_data_created() { "Provisioning" } else { "Pending" }
    } else if there < wanted {
        "ScalingUp"
    } else if there > wanted {
        "ScalingDown"
    } else if number(after, paths::status::READY_REPLICAS) == Some(wanted) {
        "Running"
    } else {
        "Provisioned"
    };
    write(after, next, step);
}

/// The phase of a pool that is being deleted.
pub(super) fn deleting(after: &mut Object, step: &mut Reconciliation) {
    write(after, "Deleting", step);
}

fn write(after: &mut Object, next: &'static str, step: &mut Reconciliation) {
    if phase(after) == next {
        return;
    }
    set(after, paths::status::PHASE, json!(next));
    let message = format!("MachinePool is {next}");
    match next {
        "Failed" => step.warn(next, message),
        _ => step.event(next, message),
    }
}

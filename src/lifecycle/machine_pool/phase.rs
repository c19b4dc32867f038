//! The phase of a pool, for people.

use serde_json::json;

use super::parts::{DATA, PROVISIONED};
use crate::hub::Object;
use crate::lifecycle::conditions::phase;
use crate::lifecycle::fields::{flag, number, set, text};

/// The phase: like that of a Machine (MA-3.2), and whether instances come or go. `Failed` stays (DEC-6).
pub(super) fn set_phase(after: &mut Object, ready: i64) {
    let (wanted, there) = (number(after, "spec.replicas").unwrap_or(1), number(after, "status.replicas").unwrap_or(0));
    let next = if !text(after, "status.deprecated.v1beta1.failureReason").is_empty() || phase(after) == "Failed" {
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
    set(after, "status.phase", json!(next));
}

/// The phase of a pool that is deleted.
pub(super) fn deleting(after: &mut Object) {
    set(after, "status.phase", json!("Deleting"));
}

//! The infrastructure of a Machine (MA-7). One that is being deleted gives nothing any more (MA-7.2).

use std::sync::Arc;

use serde_json::json;

use super::bootstrap::MISSING;
use super::external::{fail, look_up};
use super::work::{External, Work};
use crate::lifecycle::context::Fault;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{flag, reference, set};
use model::hub::Object;

/// What is copied as it is, each only if it is there (MA-7.5).
const COPIED: [(&str, &str); 3] = [
    ("status.addresses", "status.addresses"),
    ("spec.failureDomain", "spec.failureDomain"),
    ("status.failureDomain", "status.failureDomain"),
];
pub(super) const PROVISIONED: &str = "status.initialization.infrastructureProvisioned";

/// Takes over the provider id, addresses and failure domain of the infrastructure once it is provisioned.
pub(super) fn reconcile(work: &mut Work<'_, '_>) -> Result<(), Fault> {
    let to = reference(&work.machine, "spec.infrastructureRef");
    work.infrastructure = look_up(work, &to)?;
    match work.infrastructure.clone() {
        External::Found(object) if !object.is_being_deleted() => take(work, &object),
        External::Missing if !work.is_deleting() => missing(work, &to.kind, &to.name),
        _ => Ok(()),
    }
}

/// Infrastructure that is not there (yet), or not any more (MA-7.1).
fn missing(work: &mut Work<'_, '_>, kind: &str, name: &str) -> Result<(), Fault> {
    if !flag(&work.machine, PROVISIONED) {
        work.step.look_again(MISSING);
        return Ok(());
    }
    let message = format!("{kind} {name} was provisioned and does not exist any more");
    fail(work, "InvalidConfiguration", &message);
    Err(Fault::because(message))
}

/// Copies what the provider reports, every time: the provider id follows it (MA-7.6).
fn take(work: &mut Work<'_, '_>, object: &Arc<Object>) -> Result<(), Fault> {
    // Once it was provisioned, the flag of the provider is not asked again (MA-7.3, CT-8.6).
    if !flag(&work.machine, PROVISIONED) && !Flag::Provisioned.read(work.context, object)? {
        return Ok(());
    }
    // The provider sets it some time, which is an event (MA-7.4).
    let Some(id) = object.text("spec.providerID")?.filter(|id| !id.is_empty()) else { return Ok(()) };
    for (from, to) in COPIED {
        if let Some(value) = object.read(from)? {
            set(&mut work.machine, to, value.clone());
        }
    }
    if !flag(&work.machine, PROVISIONED) {
        work.step.tell("InfrastructureProvisioned", format!("{} {} is provisioned", object.kind(), object.name()));
    }
    set(&mut work.machine, "spec.providerID", json!(id));
    set(&mut work.machine, PROVISIONED, json!(true));
    Ok(())
}

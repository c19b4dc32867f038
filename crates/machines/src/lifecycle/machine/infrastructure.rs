//! Infrastructure of a Machine (MA-7). Nothing is copied from one that is being deleted (MA-7.2).

use std::sync::Arc;

use serde_json::json;

use super::bootstrap::MISSING;
use super::external::{fail, look_up};
use super::reconcile::{ExternalObject, MachineReconcile};
use crate::lifecycle::context::StepError;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::set;
use model::hub::{Object, paths};

/// Fields copied unchanged if present (MA-7.5).
const COPIED: [&str; 3] = [paths::status::ADDRESSES, paths::FAILURE_DOMAIN, paths::status::FAILURE_DOMAIN];

/// Copies provider ID, addresses and failure domain of provisioned infrastructure.
pub(super) fn reconcile(work: &mut MachineReconcile<'_, '_>) -> Result<(), StepError> {
    let to = work.machine.infrastructure_ref();
    work.infrastructure = look_up(work, &to)?;
    match work.infrastructure.clone() {
        ExternalObject::Found(object) if !object.is_being_deleted() => take(work, &object),
        ExternalObject::Missing if !work.is_deleting() => missing(work, &to.kind, &to.name),
        _ => Ok(()),
    }
}

/// Infrastructure that does not exist yet, or no longer exists (MA-7.1).
fn missing(work: &mut MachineReconcile<'_, '_>, kind: &str, name: &str) -> Result<(), StepError> {
    if !work.machine.is_infrastructure_provisioned() {
        work.step.requeue_after(MISSING);
        return Ok(());
    }
    let message = format!("{kind} {name} was provisioned and does not exist any more");
    fail(work, "InvalidConfiguration", &message);
    Err(StepError::failed(message))
}

/// Copies the fields reported by the provider on every step: the provider ID follows it (MA-7.6).
fn take(work: &mut MachineReconcile<'_, '_>, object: &Arc<Object>) -> Result<(), StepError> {
    // The flag of the provider is ignored once it was provisioned (MA-7.3, CT-8.6).
    if !work.machine.is_infrastructure_provisioned() && !Flag::Provisioned.read(work.context, object)? {
        return Ok(());
    }
    // The provider sets it later, which is an event (MA-7.4).
    let Some(id) = object.text(paths::PROVIDER_ID)?.filter(|id| !id.is_empty()) else { return Ok(()) };
    for path in COPIED {
        if let Some(value) = object.read(path)? {
            set(&mut work.machine, path, value.clone());
        }
    }
    if !work.machine.is_infrastructure_provisioned() {
        work.step.event("InfrastructureProvisioned", format!("{} {} is provisioned", object.kind(), object.name()));
    }
    set(&mut work.machine, paths::PROVIDER_ID, json!(id));
    set(&mut work.machine, paths::status::INFRASTRUCTURE_PROVISIONED, json!(true));
    Ok(())
}

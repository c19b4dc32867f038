//! Bootstrap data (MA-6): a Secret created by the bootstrap configuration or by the user (DEC-7). The Machine copies
//! its name from the configuration, and the infrastructure waits for it (MA-2.3).

use core::time::Duration;

use serde_json::json;

use super::external::look_up;
use super::reconcile::{ExternalObject, MachineReconcile};
use crate::lifecycle::context::StepError;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{set, text};
use model::hub::paths;

/// Requeue interval for missing objects.
pub(super) const MISSING: Duration = Duration::from_secs(30);

/// Copies the name of the Secret with the bootstrap data. There is nothing to copy without a reference (MA-6.1),
/// without the object (MA-6.2), and while it is being deleted (MA-6.4).
pub(super) fn reconcile(work: &mut MachineReconcile<'_, '_>) -> Result<(), StepError> {
    let config = work.machine.contract_ref_at(paths::machine::BOOTSTRAP_CONFIG_REF);
    work.bootstrap = look_up(work, &config)?;
    // An empty name counts as none (DEC-7). The user's name needs no configuration (MA-2.4).
    if !text(&work.machine, paths::machine::BOOTSTRAP_DATA_SECRET).is_empty() {
        set(&mut work.machine, paths::status::BOOTSTRAP_DATA_CREATED, json!(true));
        return Ok(());
    }
    if work.bootstrap == ExternalObject::Missing && !work.is_deleting() {
        work.step.requeue_after(MISSING);
    }
    let Some(config) = work.bootstrap.found().filter(|config| !config.is_being_deleted()).cloned() else {
        return Ok(());
    };
    match Flag::DataSecretCreated.read(work.context, &config)? {
        true => take(work, config.kind(), config.text(paths::bootstrap::DATA_SECRET)?.unwrap_or_default()),
        false => Ok(()),
    }
}

/// Copies the name reported by the configuration (MA-6.6, CT-12.4).
fn take(work: &mut MachineReconcile<'_, '_>, kind: &str, name: &str) -> Result<(), StepError> {
    if name.is_empty() {
        return Err(StepError::failed(format!("{kind} says that the data Secret is created, and does not name it")));
    }
    set(&mut work.machine, paths::machine::BOOTSTRAP_DATA_SECRET, json!(name));
    if !work.machine.is_bootstrap_data_created() {
        work.step.event("BootstrapDataCreated", format!("Bootstrap data is in Secret {name}"));
    }
    set(&mut work.machine, paths::status::BOOTSTRAP_DATA_CREATED, json!(true));
    Ok(())
}

//! Bootstrap data (MA-6): a Secret that the bootstrap configuration makes, or the user (DEC-7). The configuration reports its name, the
//! Machine takes it over, and the infrastructure waits for it (MA-2.3).

use core::time::Duration;

use serde_json::json;

use super::external::look_up;
use super::work::{External, Work};
use crate::lifecycle::context::Fault;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{flag, reference, set, text};

/// How soon an object that is missing is looked up again.
pub(super) const MISSING: Duration = Duration::from_secs(30);
const NAME: &str = "spec.bootstrap.dataSecretName";
const CREATED: &str = "status.initialization.bootstrapDataSecretCreated";

/// Takes over the name of the Secret with the bootstrap data. Without a reference (MA-6.1), without the object (MA-6.2), and while it
/// is being deleted (MA-6.4), there is nothing to take.
pub(super) fn reconcile(work: &mut Work<'_, '_>) -> Result<(), Fault> {
    let config = reference(&work.machine, "spec.bootstrap.configRef");
    work.bootstrap = look_up(work, &config)?;
    // An empty name counts as none (DEC-7). The user's name needs no configuration (MA-2.4).
    if !text(&work.machine, NAME).is_empty() {
        set(&mut work.machine, CREATED, json!(true));
        return Ok(());
    }
    if work.bootstrap == External::Missing && !work.is_deleting() {
        work.step.look_again(MISSING);
    }
    let Some(config) = work.bootstrap.found().filter(|config| !config.is_being_deleted()).cloned() else {
        return Ok(());
    };
    match Flag::DataSecretCreated.read(work.context, &config)? {
        true => take(work, config.kind(), config.text("status.dataSecretName")?.unwrap_or_default()),
        false => Ok(()),
    }
}

/// Copies the name that the configuration reports (MA-6.6, CT-12.4).
fn take(work: &mut Work<'_, '_>, kind: &str, name: &str) -> Result<(), Fault> {
    if name.is_empty() {
        return Err(Fault::because(format!("{kind} says that the data Secret is created, and does not name it")));
    }
    set(&mut work.machine, NAME, json!(name));
    if !flag(&work.machine, CREATED) {
        work.step.tell("BootstrapDataCreated", format!("Bootstrap data is in Secret {name}"));
    }
    set(&mut work.machine, CREATED, json!(true));
    Ok(())
}

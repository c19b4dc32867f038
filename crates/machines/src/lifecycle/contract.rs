//! Paths of the contract fields in provider objects (CT-5.4). No other fields are read (CT-1.7).

use serde_json::Value;

use super::context::{StepContext, StepError};
use super::fields::set;
use model::hub::contract::Contract;
use model::hub::{Object, condition, paths};

/// A flag that becomes true once and stays true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// Of an infrastructure cluster, machine or pool.
    Provisioned,
    /// Of a bootstrap configuration.
    DataSecretCreated,
    /// Of a control plane.
    ControlPlaneInitialized,
}

impl Flag {
    /// The path of the flag; no other field is read for it (CT-20.3).
    pub const fn path(self, contract: Contract) -> &'static str {
        match (self, contract) {
            (Flag::ControlPlaneInitialized, Contract::V1Beta1) => "status.initialized",
            (_, Contract::V1Beta1) => "status.ready",
            (Flag::Provisioned, Contract::V1Beta2) => "status.initialization.provisioned",
            (Flag::DataSecretCreated, Contract::V1Beta2) => "status.initialization.dataSecretCreated",
            (Flag::ControlPlaneInitialized, Contract::V1Beta2) => paths::status::CONTROL_PLANE_INITIALIZED,
        }
    }

    /// Whether it is set; a missing flag is false.
    ///
    /// # Errors
    /// When it is not a boolean (CT-5.1).
    pub(super) fn read(self, context: &StepContext<'_>, object: &Object) -> Result<bool, StepError> {
        let path = self.path(context.contract(object));
        match object.read(path)? {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(StepError::failed(format!("{} {}: {path} is not a boolean", object.kind(), object.key()))),
        }
    }

    /// Whether the infrastructure of a pool is provisioned: by the flag of either contract, since Cluster API 1.14
    /// reads `status.ready` only (CT-20.3).
    ///
    /// # Errors
    /// When the flag of its contract is not a boolean.
    pub(super) fn read_of_pool(context: &StepContext<'_>, object: &Object) -> Result<bool, StepError> {
        let is_set = |contract| object.at(Flag::Provisioned.path(contract)) == Some(&Value::Bool(true));
        Ok(Flag::Provisioned.read(context, object)? || is_set(Contract::V1Beta1) || is_set(Contract::V1Beta2))
    }

    /// Sets it.
    pub(super) fn raise(self, context: &StepContext<'_>, object: &mut Object) {
        set(object, self.path(context.contract(object)), Value::Bool(true));
    }
}

/// The terminal failure reported by a provider in either contract (CT-5.5): reason and message. Both fit the fields of
/// Machines and Clusters with the object name as a prefix (DEC-64).
pub(super) fn terminal_failure(object: &Object) -> Option<(String, String)> {
    let text = |path: &str, most| {
        condition::message(object.at(path).and_then(Value::as_str).unwrap_or_default(), most).into_owned()
    };
    let (reason, message) = (text(paths::status::FAILURE_REASON, 256), text(paths::status::FAILURE_MESSAGE, 8 << 10));
    (!reason.is_empty() || !message.is_empty()).then_some((reason, message))
}

/// Whether an object has failed permanently, which leads to the phase `Failed`: it reports a failure, and its contract
/// has terminal failures. In the contract v1beta2 they have no effect (CT-6.7, CT-20.2, DEC-6).
pub(super) fn has_failed(context: &StepContext<'_>, object: &Object) -> bool {
    context.contract(object) == Contract::V1Beta1 && terminal_failure(object).is_some()
}

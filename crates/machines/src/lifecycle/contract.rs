//! Where the objects of providers have what their contract asks for (CT-5.4). No other field of theirs is read (CT-1.7).

use serde_json::Value;

use super::context::{Context, Fault};
use super::fields::set;
use model::hub::contract::Contract;
use model::hub::{Object, condition};

/// A flag that turns true once, and stays so.
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
    /// Where it is; no other field is read for it (CT-20.3).
    pub const fn path(self, contract: Contract) -> &'static str {
        match (self, contract) {
            (Flag::ControlPlaneInitialized, Contract::V1Beta1) => "status.initialized",
            (_, Contract::V1Beta1) => "status.ready",
            (Flag::Provisioned, Contract::V1Beta2) => "status.initialization.provisioned",
            (Flag::DataSecretCreated, Contract::V1Beta2) => "status.initialization.dataSecretCreated",
            (Flag::ControlPlaneInitialized, Contract::V1Beta2) => "status.initialization.controlPlaneInitialized",
        }
    }

    /// Whether it is set; one that is missing is not.
    ///
    /// # Errors
    /// When something else is in its place (CT-5.1).
    pub(super) fn read(self, context: &Context<'_>, object: &Object) -> Result<bool, Fault> {
        let path = self.path(context.contract(object));
        match object.read(path)? {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(Fault::because(format!("{} {}: {path} is not a boolean", object.kind(), object.key()))),
        }
    }

    /// Whether the infrastructure of a pool is provisioned: by the flag of either contract, since Cluster API 1.14 reads `status.ready`
    /// alone (CT-20.3).
    ///
    /// # Errors
    /// When something else is in the place of the flag of its contract.
    pub(super) fn read_of_pool(context: &Context<'_>, object: &Object) -> Result<bool, Fault> {
        let is_set = |contract| object.at(Flag::Provisioned.path(contract)) == Some(&Value::Bool(true));
        Ok(Flag::Provisioned.read(context, object)? || is_set(Contract::V1Beta1) || is_set(Contract::V1Beta2))
    }

    /// Sets it.
    pub(super) fn raise(self, context: &Context<'_>, object: &mut Object) {
        set(object, self.path(context.contract(object)), Value::Bool(true));
    }
}

/// What a provider reports as a failure that it does not recover from: reason and message. It is read in either contract (CT-5.5).
/// Both are short enough for the fields of Machines and Clusters, with the name of the object before them (DEC-64).
pub(super) fn terminal_failure(object: &Object) -> Option<(String, String)> {
    let text = |path: &str, most| {
        condition::message(object.at(path).and_then(Value::as_str).unwrap_or_default(), most).into_owned()
    };
    let (reason, message) = (text("status.failureReason", 256), text("status.failureMessage", 8 << 10));
    (!reason.is_empty() || !message.is_empty()).then_some((reason, message))
}

/// Whether an object has failed for good, which ends in the phase `Failed`: it reports a failure, and its contract has such
/// failures. In the contract v1beta2 they have no effect (CT-6.7, CT-20.2, DEC-6).
pub(super) fn has_failed(context: &Context<'_>, object: &Object) -> bool {
    context.contract(object) == Contract::V1Beta1 && terminal_failure(object).is_some()
}

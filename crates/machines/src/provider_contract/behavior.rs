//! Behavior of a provider object over time: checks each change against the rules of the contract.
//!
//! A rule applies when a change concerns it: when a flag changes, or something is created or deleted. A rule is
//! reported as broken only at the change that breaks it.

mod bootstrap;
mod common;
mod control_plane;
mod infrastructure;
mod members;
#[cfg(test)]
mod tests;

use serde_json::Value;

use super::definition::ProviderRole;
use super::finding::{Level, order};
use crate::lifecycle::contract::Flag;
use model::hub::Object;
use model::hub::contract::Contract;

/// Cluster API objects related to a provider object, at the time of its change.
#[derive(Clone, Debug, Default)]
pub struct RelatedObjects {
    /// The Cluster in the label of the object.
    pub cluster: Option<Object>,
    /// The Cluster, Machine or MachinePool that owns the object.
    pub owner: Option<Object>,
    /// The Machines controlled by a control plane, if known.
    pub machines: Option<Vec<Object>>,
    /// Number of infrastructure machines with the labels of a pool that names their kind, if known.
    pub instances: Option<usize>,
    /// The Secret created by a control plane or bootstrap configuration.
    pub secret: Secret,
}

/// A kubeconfig Secret or a bootstrap data Secret.
#[derive(Clone, Debug, Default)]
pub enum Secret {
    /// Its name is unknown, or it may not be read.
    #[default]
    Unknown,
    Absent,
    /// Its metadata, and whether its type is `cluster.x-k8s.io/secret`, if known.
    There {
        metadata: Object,
        is_of_the_type: Option<bool>,
    },
}

/// A change of an object; `None` before creation or after deletion.
#[derive(Clone, Copy, Debug)]
pub struct ObservedChange<'a> {
    pub role: ProviderRole,
    pub contract: Contract,
    pub before: Option<&'a Object>,
    pub after: Option<&'a Object>,
    /// Related objects at the previous change, and now.
    pub surroundings: [&'a RelatedObjects; 2],
}

/// The result of a rule for a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleVerdict {
    /// Id of the contract rule, such as `CT-8.2`.
    pub rule: &'static str,
    /// `None` if the rule is kept.
    pub broken: Option<RuleBreach>,
    /// The observation.
    pub message: String,
}

/// Severity and remediation of a broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleBreach {
    pub level: Level,
    pub remediation: &'static str,
}

/// Rules that a change of an object with a role can show as kept, in order.
pub const fn shown(role: ProviderRole, contract: Contract) -> &'static [&'static str] {
    match (role, contract) {
        (ProviderRole::InfrastructureCluster, Contract::V1Beta1) => {
            &["CT-6.3", "CT-6.5", "CT-6.6", "CT-6.7", "CT-15.6", "CT-15.8", "CT-15.12"]
        }
        (ProviderRole::InfrastructureCluster, Contract::V1Beta2) => {
            &["CT-6.3", "CT-6.5", "CT-6.6", "CT-15.6", "CT-15.8", "CT-15.12"]
        }
        (ProviderRole::InfrastructureMachine, Contract::V1Beta1) => {
            &["CT-6.7", "CT-8.2", "CT-8.3", "CT-8.6", "CT-15.6", "CT-15.8", "CT-15.12", "CT-18.3"]
        }
        (ProviderRole::InfrastructureMachine, Contract::V1Beta2) => {
            &["CT-8.2", "CT-8.3", "CT-8.6", "CT-15.6", "CT-15.8", "CT-15.12", "CT-18.3"]
        }
        (ProviderRole::InfrastructureMachinePool, Contract::V1Beta1) => {
            &["CT-6.7", "CT-8.6", "CT-13.1", "CT-13.2", "CT-15.6", "CT-15.8", "CT-15.12"]
        }
        (ProviderRole::InfrastructureMachinePool, Contract::V1Beta2) => {
            &["CT-8.6", "CT-13.1", "CT-13.2", "CT-15.6", "CT-15.8", "CT-15.12"]
        }
        (ProviderRole::BootstrapConfig, _) => &["CT-12.2", "CT-12.3", "CT-12.7", "CT-15.6", "CT-15.8", "CT-15.12"],
        (ProviderRole::ControlPlane, _) => &[
            "CT-6.3", "CT-10.2", "CT-10.4", "CT-10.9", "CT-10.10", "CT-10.12", "CT-10.14", "CT-10.15", "CT-10.20",
            "CT-15.6", "CT-15.8", "CT-15.12",
        ],
    }
}

/// Rules that a change of an object with a role can only break.
#[cfg(test)]
pub(crate) const fn only_broken(role: ProviderRole, contract: Contract) -> &'static [&'static str] {
    match (role, contract) {
        (ProviderRole::InfrastructureCluster, Contract::V1Beta1) => &["CT-15.13"],
        (ProviderRole::InfrastructureCluster, Contract::V1Beta2) => &["CT-15.13", "CT-20.2"],
        (ProviderRole::InfrastructureMachine | ProviderRole::InfrastructureMachinePool, Contract::V1Beta2) => {
            &["CT-20.2"]
        }
        (ProviderRole::BootstrapConfig, _) => &["CT-12.4"],
        (
            ProviderRole::ControlPlane | ProviderRole::InfrastructureMachine | ProviderRole::InfrastructureMachinePool,
            _,
        ) => &[],
    }
}

/// Checks a change against the rules of the object's role, in order.
pub fn check_change(change: &ObservedChange<'_>) -> Vec<RuleVerdict> {
    let mut verdicts = Vec::new();
    common::judge(change, &mut verdicts);
    match change.role {
        ProviderRole::InfrastructureCluster => infrastructure::cluster(change, &mut verdicts),
        ProviderRole::InfrastructureMachine => infrastructure::machine(change, &mut verdicts),
        ProviderRole::InfrastructureMachinePool => infrastructure::pool(change, &mut verdicts),
        ProviderRole::BootstrapConfig => bootstrap::judge(change, &mut verdicts),
        ProviderRole::ControlPlane => control_plane::judge(change, &mut verdicts),
    }
    verdicts.sort_by_key(|verdict| order(verdict.rule));
    verdicts
}

impl RuleVerdict {
    fn kept(rule: &'static str, message: impl Into<String>) -> Self {
        RuleVerdict { rule, broken: None, message: message.into() }
    }

    fn broken(rule: &'static str, message: impl Into<String>, remediation: &'static str) -> Self {
        RuleVerdict { rule, broken: Some(RuleBreach { level: Level::Error, remediation }), message: message.into() }
    }

    /// A broken recommendation of the contract.
    fn disregarded(rule: &'static str, message: impl Into<String>, remediation: &'static str) -> Self {
        RuleVerdict { rule, broken: Some(RuleBreach { level: Level::Warning, remediation }), message: message.into() }
    }

    /// The errors, or that the rule is kept if there are none.
    fn kept_unless(faults: Vec<RuleVerdict>, rule: &'static str, kept: &str) -> Vec<RuleVerdict> {
        if faults.is_empty() { vec![RuleVerdict::kept(rule, kept)] } else { faults }
    }

    /// A rule that is kept or broken, with a message for each case.
    fn kept_if(is_kept: bool, rule: &'static str, kept: &str, broken: &str, remediation: &'static str) -> Self {
        if is_kept { RuleVerdict::kept(rule, kept) } else { RuleVerdict::broken(rule, broken, remediation) }
    }
}

impl<'a> ObservedChange<'a> {
    /// The flag of the role.
    const fn flag(&self) -> Flag {
        match self.role {
            ProviderRole::BootstrapConfig => Flag::DataSecretCreated,
            ProviderRole::ControlPlane => Flag::ControlPlaneInitialized,
            _ => Flag::Provisioned,
        }
    }

    fn flag_path(&self) -> &'static str {
        self.flag().path(self.contract)
    }

    /// The value at a path before and after; `null` counts as absent.
    fn at(&self, path: &str) -> [Option<&'a Value>; 2] {
        [self.before, self.after]
            .map(|object| object.and_then(|object| object.at(path)).filter(|value| !value.is_null()))
    }

    /// The string at a path before and after; empty if absent.
    fn text(&self, path: &str) -> [&'a str; 2] {
        self.at(path).map(|value| value.and_then(Value::as_str).unwrap_or_default())
    }

    /// The flag of the role, before and after.
    fn flags(&self) -> [bool; 2] {
        self.at(self.flag_path()).map(|value| value == Some(&Value::Bool(true)))
    }

    /// Whether this change sets the flag.
    fn raises_flag(&self) -> bool {
        self.flags() == [false, true]
    }

    fn now(&self) -> &'a RelatedObjects {
        self.surroundings[1]
    }
}

/// Whether a Cluster or another object of Cluster API has a flag.
fn has_flag(object: Option<&Object>, path: &str) -> bool {
    object.and_then(|object| object.at(path)) == Some(&Value::Bool(true))
}

//! What an object of a provider does over time: each change, against the rules of the contract that it keeps or breaks.
//!
//! A rule speaks when a change is about it: when a flag turns, when something appears or goes. A provider breaks a rule at the change
//! that breaks it, and at no change after it.

mod bootstrap;
mod common;
mod control_plane;
mod infrastructure;
mod members;
#[cfg(test)]
mod tests;

use serde_json::Value;

use super::definition::Role;
use super::finding::{Level, order};
use crate::lifecycle::contract::Flag;
use model::hub::Object;
use model::hub::contract::Contract;

/// The objects of Cluster API around an object of a provider, as they were when it changed.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The Cluster that the label of the object names.
    pub cluster: Option<Object>,
    /// The Cluster, Machine or MachinePool that is an owner of the object.
    pub owner: Option<Object>,
    /// The Machines that a control plane controls, if they are known.
    pub machines: Option<Vec<Object>>,
    /// How many infrastructure machines have the labels of a pool that names their kind, if that is known.
    pub instances: Option<usize>,
    /// What a control plane or a bootstrap configuration makes.
    pub secret: Secret,
}

/// The Secret with the kubeconfig of a Cluster, or with bootstrap data.
#[derive(Clone, Debug, Default)]
pub enum Secret {
    /// It has no name yet, or may not be read.
    #[default]
    Unknown,
    Absent,
    /// Its metadata, and whether its type is `cluster.x-k8s.io/secret` if that is known.
    There {
        metadata: Object,
        is_of_the_type: Option<bool>,
    },
}

/// A change of an object; `None` where there is none.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    pub role: Role,
    pub contract: Contract,
    pub before: Option<&'a Object>,
    pub after: Option<&'a Object>,
    /// When the change before this one was seen, and now.
    pub surroundings: [&'a Surroundings; 2],
}

/// What a change says about a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The id of the rule of the contract, such as `CT-8.2`.
    pub rule: &'static str,
    /// Nothing when the rule is kept.
    pub broken: Option<Broken>,
    /// The observation.
    pub message: String,
}

/// How a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub level: Level,
    pub way_out: &'static str,
}

/// The rules that a change of an object of a role can show as kept, in their order.
pub const fn shown(role: Role, contract: Contract) -> &'static [&'static str] {
    match (role, contract) {
        (Role::InfrastructureCluster, Contract::V1Beta1) => {
            &["CT-6.3", "CT-6.5", "CT-6.6", "CT-6.7", "CT-15.6", "CT-15.8", "CT-15.12"]
        }
        (Role::InfrastructureCluster, Contract::V1Beta2) => {
            &["CT-6.3", "CT-6.5", "CT-6.6", "CT-15.6", "CT-15.8", "CT-15.12"]
        }
        (Role::InfrastructureMachine, Contract::V1Beta1) => {
            &["CT-6.7", "CT-8.2", "CT-8.3", "CT-8.6", "CT-15.6", "CT-15.8", "CT-15.12", "CT-18.3"]
        }
        (Role::InfrastructureMachine, Contract::V1Beta2) => {
            &["CT-8.2", "CT-8.3", "CT-8.6", "CT-15.6", "CT-15.8", "CT-15.12", "CT-18.3"]
        }
        (Role::InfrastructureMachinePool, Contract::V1Beta1) => {
            &["CT-6.7", "CT-8.6", "CT-13.1", "CT-13.2", "CT-15.6", "CT-15.8", "CT-15.12"]
        }
        (Role::InfrastructureMachinePool, Contract::V1Beta2) => {
            &["CT-8.6", "CT-13.1", "CT-13.2", "CT-15.6", "CT-15.8", "CT-15.12"]
        }
        (Role::BootstrapConfig, _) => &["CT-12.2", "CT-12.3", "CT-12.7", "CT-15.6", "CT-15.8", "CT-15.12"],
        (Role::ControlPlane, _) => &[
            "CT-6.3", "CT-10.2", "CT-10.4", "CT-10.9", "CT-10.10", "CT-10.12", "CT-10.14", "CT-10.15", "CT-10.20",
            "CT-15.6", "CT-15.8", "CT-15.12",
        ],
    }
}

/// The rules that a change of an object of a role can only break.
#[cfg(test)]
pub(crate) const fn only_broken(role: Role, contract: Contract) -> &'static [&'static str] {
    match (role, contract) {
        (Role::InfrastructureCluster, Contract::V1Beta1) => &["CT-15.13"],
        (Role::InfrastructureCluster, Contract::V1Beta2) => &["CT-15.13", "CT-20.2"],
        (Role::InfrastructureMachine | Role::InfrastructureMachinePool, Contract::V1Beta2) => &["CT-20.2"],
        (Role::BootstrapConfig, _) => &["CT-12.4"],
        (Role::ControlPlane | Role::InfrastructureMachine | Role::InfrastructureMachinePool, _) => &[],
    }
}

/// What a change says about the rules for the role of the object, in their order.
pub fn judge(change: &Change<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    common::judge(change, &mut verdicts);
    match change.role {
        Role::InfrastructureCluster => infrastructure::cluster(change, &mut verdicts),
        Role::InfrastructureMachine => infrastructure::machine(change, &mut verdicts),
        Role::InfrastructureMachinePool => infrastructure::pool(change, &mut verdicts),
        Role::BootstrapConfig => bootstrap::judge(change, &mut verdicts),
        Role::ControlPlane => control_plane::judge(change, &mut verdicts),
    }
    verdicts.sort_by_key(|verdict| order(verdict.rule));
    verdicts
}

impl Verdict {
    fn kept(rule: &'static str, message: impl Into<String>) -> Self {
        Verdict { rule, broken: None, message: message.into() }
    }

    fn broken(rule: &'static str, message: impl Into<String>, way_out: &'static str) -> Self {
        Verdict { rule, broken: Some(Broken { level: Level::Error, way_out }), message: message.into() }
    }

    /// Something that the contract recommends.
    fn disregarded(rule: &'static str, message: impl Into<String>, way_out: &'static str) -> Self {
        Verdict { rule, broken: Some(Broken { level: Level::Warning, way_out }), message: message.into() }
    }

    /// What is wrong, or that the rule is kept if nothing is.
    fn kept_unless(faults: Vec<Verdict>, rule: &'static str, kept: &str) -> Vec<Verdict> {
        if faults.is_empty() { vec![Verdict::kept(rule, kept)] } else { faults }
    }

    /// One message when a rule is kept, and another when it is not.
    fn of(is_kept: bool, rule: &'static str, kept: &str, broken: &str, way_out: &'static str) -> Self {
        if is_kept { Verdict::kept(rule, kept) } else { Verdict::broken(rule, broken, way_out) }
    }
}

impl<'a> Change<'a> {
    /// The flag of the role.
    const fn flag(&self) -> Flag {
        match self.role {
            Role::BootstrapConfig => Flag::DataSecretCreated,
            Role::ControlPlane => Flag::ControlPlaneInitialized,
            _ => Flag::Provisioned,
        }
    }

    fn flag_path(&self) -> &'static str {
        self.flag().path(self.contract)
    }

    /// What is at a path, before and after; `None` for `null` too.
    fn at(&self, path: &str) -> [Option<&'a Value>; 2] {
        [self.before, self.after]
            .map(|object| object.and_then(|object| object.at(path)).filter(|value| !value.is_null()))
    }

    /// A text before and after; empty where there is none.
    fn text(&self, path: &str) -> [&'a str; 2] {
        self.at(path).map(|value| value.and_then(Value::as_str).unwrap_or_default())
    }

    /// The flag of the role, before and after.
    fn flags(&self) -> [bool; 2] {
        self.at(self.flag_path()).map(|value| value == Some(&Value::Bool(true)))
    }

    /// Whether the flag turns true with this change.
    fn raises_flag(&self) -> bool {
        self.flags() == [false, true]
    }

    fn now(&self) -> &'a Surroundings {
        self.surroundings[1]
    }
}

/// Whether a Cluster or another object of Cluster API has a flag.
fn has_flag(object: Option<&Object>, path: &str) -> bool {
    object.and_then(|object| object.at(path)) == Some(&Value::Bool(true))
}

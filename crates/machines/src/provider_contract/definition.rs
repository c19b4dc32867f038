//! A CustomResourceDefinition, and the role that its kind plays.

use std::collections::BTreeMap;

use serde_json::Value;

use model::hub::contract::Contract;
use model::hub::contract::{chosen, names_contracts};

/// Which field of Cluster API's objects refers to objects of a kind, or to what is made from its templates (CT-1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    InfrastructureCluster,
    InfrastructureMachine,
    InfrastructureMachinePool,
    BootstrapConfig,
    ControlPlane,
}

impl Role {
    /// As messages call it.
    pub const fn name(self) -> &'static str {
        match self {
            Role::InfrastructureCluster => "infrastructure cluster",
            Role::InfrastructureMachine => "infrastructure machine",
            Role::InfrastructureMachinePool => "infrastructure machine pool",
            Role::BootstrapConfig => "bootstrap configuration",
            Role::ControlPlane => "control plane",
        }
    }

    /// The rule that lists what objects of the role must have.
    pub(super) const fn mandatory(self) -> &'static str {
        match self {
            Role::InfrastructureCluster => "CT-6.1",
            Role::InfrastructureMachine => "CT-8.1",
            Role::InfrastructureMachinePool => "CT-13.1",
            Role::BootstrapConfig => "CT-12.1",
            Role::ControlPlane => "CT-10.1",
        }
    }

    /// The role of a kind by its group and the end of its name: definitions do not say it.
    pub fn of(group: &str, kind: &str) -> Option<Self> {
        let family = family_of(group);
        match kind {
            _ if group == model::hub::GROUP => None,
            kind if kind.ends_with("ControlPlane") => Some(Role::ControlPlane),
            kind if family == "bootstrap" && kind.ends_with("Config") => Some(Role::BootstrapConfig),
            _ if ["bootstrap", "controlplane"].contains(&family) => None,
            kind if kind.ends_with("MachinePool") => Some(Role::InfrastructureMachinePool),
            kind if kind.ends_with("Machine") => Some(Role::InfrastructureMachine),
            kind if kind.ends_with("Cluster") => Some(Role::InfrastructureCluster),
            _ => None,
        }
    }
}

/// How the groups of providers begin.
const FAMILIES: [&str; 3] = ["infrastructure", "bootstrap", "controlplane"];

fn family_of(group: &str) -> &str {
    group.split('.').next().unwrap_or_default()
}

/// A version of a kind.
#[derive(Debug)]
pub(super) struct Version<'a> {
    pub name: &'a str,
    pub is_served: bool,
    /// The `openAPIV3Schema`.
    pub schema: Option<&'a Value>,
    pub subresources: Option<&'a Value>,
}

/// What a CustomResourceDefinition says.
#[derive(Debug)]
pub(super) struct Definition<'a> {
    pub name: &'a str,
    pub group: &'a str,
    pub kind: &'a str,
    pub role: Option<Role>,
    pub labels: BTreeMap<String, String>,
    /// The definition as it is.
    pub manifest: &'a Value,
    pub versions: Vec<Version<'a>>,
}

/// A text of a manifest; empty when there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl<'a> Definition<'a> {
    /// Reads a definition; nothing for an object of another kind.
    pub(super) fn of(manifest: &'a Value) -> Option<Self> {
        if text(manifest, "/kind") != "CustomResourceDefinition" {
            return None;
        }
        let labels = manifest.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        let versions = manifest.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        let labels: BTreeMap<String, String> = labels.collect();
        let (group, kind) = (text(manifest, "/spec/group"), text(manifest, "/spec/names/kind"));
        Some(Definition {
            name: text(manifest, "/metadata/name"),
            group,
            kind,
            // Kinds of other groups may have such a name as well.
            role: Role::of(group, kind.strip_suffix("Template").unwrap_or(kind))
                .filter(|_| FAMILIES.contains(&family_of(group)) || names_contracts(&labels)),
            labels,
            manifest,
            versions: versions.map(version).collect(),
        })
    }

    /// The kind that is made from it, if it is a template (CT-1.2).
    pub(super) fn template_of(&self) -> Option<String> {
        self.kind.strip_suffix("Template").map(str::to_owned)
    }

    /// The contract that is used, and the version in which objects are read then (CT-3.5).
    pub(super) fn choice(&self) -> Option<(&'static str, &str)> {
        chosen(&self.labels)
    }

    /// A version by its name.
    pub(super) fn version(&self, name: &str) -> Option<&Version<'a>> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The version in which objects are read, and the contract that they follow there.
    pub(super) fn read(&self) -> Option<(Contract, &Version<'a>)> {
        let (contract, version) = self.choice()?;
        let contract = if contract == "v1beta1" { Contract::V1Beta1 } else { Contract::V1Beta2 };
        Some((contract, self.version(version)?))
    }
}

fn version(value: &Value) -> Version<'_> {
    Version {
        name: text(value, "/name"),
        is_served: value.get("served").and_then(Value::as_bool).unwrap_or_default(),
        schema: value.pointer("/schema/openAPIV3Schema"),
        subresources: value.get("subresources"),
    }
}

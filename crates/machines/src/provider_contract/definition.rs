//! CustomResourceDefinitions of providers, and the roles of their kinds.

use std::collections::BTreeMap;

use serde_json::Value;

use super::field_types::{FieldLookup, find};
use model::hub::contract::{
    CONTRACTS, Contract, assumed_contract, chosen, cloned_kind, compare_versions, names_contracts, object_kind,
};

/// The role of a kind: the field of Cluster API's objects that refers to its objects or templates (CT-1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderRole {
    InfrastructureCluster,
    InfrastructureMachine,
    InfrastructureMachinePool,
    BootstrapConfig,
    ControlPlane,
}

impl ProviderRole {
    /// Name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            ProviderRole::InfrastructureCluster => "infrastructure cluster",
            ProviderRole::InfrastructureMachine => "infrastructure machine",
            ProviderRole::InfrastructureMachinePool => "infrastructure machine pool",
            ProviderRole::BootstrapConfig => "bootstrap configuration",
            ProviderRole::ControlPlane => "control plane",
        }
    }

    /// The rule that lists the mandatory fields of the role.
    pub(super) const fn mandatory(self) -> &'static str {
        match self {
            ProviderRole::InfrastructureCluster => "CT-6.1",
            ProviderRole::InfrastructureMachine => "CT-8.1",
            ProviderRole::InfrastructureMachinePool => "CT-13.1",
            ProviderRole::BootstrapConfig => "CT-12.1",
            ProviderRole::ControlPlane => "CT-10.1",
        }
    }

    /// The role of a kind, by its group and name suffix: definitions do not state it.
    pub fn for_kind(group: &str, kind: &str) -> Option<Self> {
        let family = family_of(group);
        match kind {
            _ if group == model::hub::GROUP => None,
            kind if kind.ends_with("ControlPlane") => Some(ProviderRole::ControlPlane),
            kind if family == "bootstrap" && kind.ends_with("Config") => Some(ProviderRole::BootstrapConfig),
            _ if ["bootstrap", "controlplane"].contains(&family) => None,
            kind if kind.ends_with("MachinePool") => Some(ProviderRole::InfrastructureMachinePool),
            kind if kind.ends_with("Machine") => Some(ProviderRole::InfrastructureMachine),
            kind if kind.ends_with("Cluster") => Some(ProviderRole::InfrastructureCluster),
            _ => None,
        }
    }
}

/// Prefixes of provider groups.
const FAMILIES: [&str; 3] = ["infrastructure", "bootstrap", "controlplane"];

fn family_of(group: &str) -> &str {
    group.split('.').next().unwrap_or_default()
}

/// A version of a kind.
#[derive(Debug)]
pub(super) struct DefinitionVersion<'a> {
    pub name: &'a str,
    pub is_served: bool,
    /// The `openAPIV3Schema`.
    pub schema: Option<&'a Value>,
    pub subresources: Option<&'a Value>,
}

/// The labels that a kustomization adds to definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kustomization {
    pub file: String,
    pub labels: BTreeMap<String, String>,
}

/// A CustomResourceDefinition.
#[derive(Debug)]
pub(super) struct ProviderDefinition<'a> {
    pub name: &'a str,
    pub group: &'a str,
    pub kind: &'a str,
    pub role: Option<ProviderRole>,
    pub labels: BTreeMap<String, String>,
    /// The kustomization that the labels of contracts are from, if the manifest has none.
    pub kustomization: Option<&'a Kustomization>,
    /// The contract and the version that follow from the schema, if no label says so.
    pub assumed: Option<(&'static str, &'a str)>,
    /// The definition as JSON.
    pub manifest: &'a Value,
    pub versions: Vec<DefinitionVersion<'a>>,
}

/// A string of a manifest; empty if absent.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl<'a> ProviderDefinition<'a> {
    /// Reads a definition; `None` for other kinds.
    pub(super) fn from_manifest(manifest: &'a Value, kustomization: Option<&'a Kustomization>) -> Option<Self> {
        if text(manifest, "/kind") != "CustomResourceDefinition" {
            return None;
        }
        let labels = manifest.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        let versions = manifest.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        let mut labels: BTreeMap<String, String> = labels.collect();
        let kustomization = kustomization.filter(|added| !names_contracts(&labels) && names_contracts(&added.labels));
        labels.extend(kustomization.into_iter().flat_map(|added| added.labels.clone()));
        let (group, kind) = (text(manifest, "/spec/group"), text(manifest, "/spec/names/kind"));
        Some(ProviderDefinition {
            name: text(manifest, "/metadata/name"),
            group,
            kind,
            // Kinds of other groups may have the same name.
            role: ProviderRole::for_kind(group, object_kind(kind))
                .filter(|_| FAMILIES.contains(&family_of(group)) || names_contracts(&labels)),
            labels,
            kustomization,
            assumed: None,
            manifest,
            versions: versions.map(version).collect(),
        })
    }

    /// The kind cloned from it, if it is a template (CT-1.2).
    pub(super) fn template_of(&self) -> Option<String> {
        cloned_kind(self.kind).map(str::to_owned)
    }

    /// The contract in use, and the version in which objects are read (CT-3.5).
    pub(super) fn choice(&self) -> Option<(&'static str, &str)> {
        chosen(&self.labels).or(self.assumed)
    }

    /// Whether the labels of its manifest name a contract.
    pub(super) fn is_labelled(&self) -> bool {
        self.kustomization.is_none() && names_contracts(&self.labels)
    }

    /// Whether it was read from an API server, where no kustomization adds labels any more.
    fn is_stored(&self) -> bool {
        !text(self.manifest, "/metadata/uid").is_empty()
    }

    /// The newest version that is served.
    pub(super) fn newest_version(&self) -> Option<&'a str> {
        let served = self.versions.iter().filter(|version| version.is_served).map(|version| version.name);
        served.max_by(|a, b| compare_versions(a, b))
    }

    /// The contract and the version of a definition without labels, as in the sources of a provider: the fields of the
    /// status show the contract, those of a template's objects if it is one.
    pub(super) fn assumption(&self, all: &[ProviderDefinition<'a>]) -> Option<(&'static str, &'a str)> {
        if self.role.is_none() || self.is_stored() || names_contracts(&self.labels) {
            return None;
        }
        let version = self.newest_version()?;
        let is_object =
            |other: &&ProviderDefinition<'a>| (other.group, other.kind) == (self.group, object_kind(self.kind));
        let of_group = |other: &&ProviderDefinition<'a>| other.group == self.group;
        let mut near = all.iter().filter(is_object).chain(all.iter().filter(of_group));
        let shown = near.find_map(|other| other.shown_contract(version));
        Some((shown.unwrap_or_else(|| assumed_contract(self.group, object_kind(self.kind), version)), version))
    }

    /// The contract that the status of a version shows (CT-20.2).
    fn shown_contract(&self, version: &str) -> Option<&'static str> {
        let schema = self.version(version)?.schema?;
        let has = |field: &str| matches!(find(schema, field), FieldLookup::Known(_));
        let [newer, older] = CONTRACTS;
        match () {
            () if has("status.initialization") => Some(newer),
            () if has("status.ready") => Some(older),
            () => None,
        }
    }

    /// A version by name.
    pub(super) fn version(&self, name: &str) -> Option<&DefinitionVersion<'a>> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The version in which objects are read, and its contract.
    pub(super) fn read(&self) -> Option<(Contract, &DefinitionVersion<'a>)> {
        let (contract, version) = self.choice()?;
        let contract = if contract == "v1beta1" { Contract::V1Beta1 } else { Contract::V1Beta2 };
        Some((contract, self.version(version)?))
    }
}

fn version(value: &Value) -> DefinitionVersion<'_> {
    DefinitionVersion {
        name: text(value, "/name"),
        is_served: value.get("served").and_then(Value::as_bool).unwrap_or_default(),
        schema: value.pointer("/schema/openAPIV3Schema"),
        subresources: value.get("subresources"),
    }
}

//! Requests of hooks as extensions receive them. Unknown fields are ignored (RH-4.10).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Settings of the ExtensionConfig, overridden by those of the patch (RH-5.6).
pub type Settings = BTreeMap<String, String>;

/// A request with settings only.
#[derive(Debug, Deserialize)]
pub(super) struct SettingsOnly {
    #[serde(default)]
    pub(super) settings: Settings,
}

/// The request of GeneratePatches and of ValidateTopology (RH-10.1, RH-15.1).
#[derive(Clone, Debug, Deserialize)]
pub struct PatchRequest {
    #[serde(default)]
    pub settings: Settings,
    /// Variables that are the same for all items.
    #[serde(default)]
    pub variables: Vec<Variable>,
    #[serde(default)]
    pub items: Vec<Item>,
}

/// A template of the topology (RH-10.3).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// Empty in requests of ValidateTopology.
    #[serde(default)]
    pub uid: String,
    /// The object of the topology that refers to the object of this template.
    pub holder_reference: HolderReference,
    /// The template.
    pub object: Value,
    /// Overrides of the variables, and `builtin`.
    #[serde(default)]
    pub variables: Vec<Variable>,
}

/// The reference to the object of a template, and its field. Compare kind and path rather than the version (RH-10.4).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub struct HolderReference {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// Field path such as `spec.template.spec.infrastructureRef`.
    pub field_path: String,
}

/// A variable and its value.
#[derive(Clone, Debug, Deserialize)]
pub struct Variable {
    pub name: String,
    #[serde(default)]
    pub value: Value,
}

impl PatchRequest {
    /// The variables of an item: item variables override those of the request, and `builtin` is merged member by member
    /// (RH-11.5).
    pub fn variables_of(&self, item: &Item) -> Map<String, Value> {
        let mut all: Map<String, Value> =
            self.variables.iter().map(|variable| (variable.name.clone(), variable.value.clone())).collect();
        for Variable { name, value } in &item.variables {
            match all.get_mut(name).filter(|_| name == "builtin") {
                Some(builtin) => merge(builtin, value),
                None => drop(all.insert(name.clone(), value.clone())),
            }
        }
        all
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => from.clone_into(into),
    }
}

/// The request of a lifecycle hook (RH-18.1, RH-18.2). Fields that a hook does not use are empty.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleRequest {
    #[serde(default)]
    pub settings: Settings,
    /// The Cluster without its status.
    pub cluster: Value,
    #[serde(default)]
    pub kubernetes_version: String,
    #[serde(default)]
    pub from_kubernetes_version: String,
    #[serde(default)]
    pub to_kubernetes_version: String,
}

/// The request of GenerateUpgradePlan (RH-21.3).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradePlanRequest {
    #[serde(default)]
    pub settings: Settings,
    /// The Cluster without its status.
    pub cluster: Value,
    #[serde(default)]
    pub from_control_plane_kubernetes_version: String,
    /// Empty without workers.
    #[serde(default)]
    pub from_workers_kubernetes_version: String,
    #[serde(default)]
    pub to_kubernetes_version: String,
}

/// The decision of a lifecycle hook (RH-5.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Proceed,
    /// Call again after this time. The message is part of a condition of the Cluster, so it should be stable between
    /// calls.
    Wait {
        seconds: u32,
        message: String,
    },
}

impl Decision {
    /// Wait for a number of seconds, at least one.
    pub fn wait(seconds: u32, message: impl Into<String>) -> Self {
        Decision::Wait { seconds: seconds.max(1), message: message.into() }
    }

    pub(super) fn into_members(self) -> Value {
        match self {
            Decision::Proceed => json!({}),
            Decision::Wait { seconds, message } => {
                let seconds = i32::try_from(seconds.max(1)).unwrap_or(i32::MAX);
                json!({"retryAfterSeconds": seconds, "message": message})
            }
        }
    }
}

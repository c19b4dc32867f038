//! Building blocks that occur in several places (`F-…` of the API types).

use std::fmt;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

use golang::json::{List, Rare, RawJson, StringMap, lenient};

lenient! {
    /// Labels and annotations that are handed down to generated objects (F-META).
    pub struct TopologyMetadata {
        pub labels: StringMap,
        pub annotations: StringMap,
    }

    /// A node taint (F-TAINT).
    pub struct Taint {
        pub key: String,
        pub value: String,
        pub effect: String,
        pub propagation: String,
    }

    /// A readiness or availability gate (F-GATE).
    pub struct Gate {
        pub condition_type: String,
        pub polarity: String,
    }

    /// How machines are deleted (F-DEL).
    pub struct Deletion {
        pub order: String,
        pub node_drain_timeout_seconds: Option<i32>,
        pub node_volume_detach_timeout_seconds: Option<i32>,
        pub node_deletion_timeout_seconds: Option<i32>,
    }

    /// A machine health check (F-HC).
    pub struct HealthCheck {
        pub enabled: Option<bool>,
        pub checks: HealthChecks,
        pub remediation: Remediation,
    }

    /// When a machine counts as unhealthy.
    pub struct HealthChecks {
        pub node_startup_timeout_seconds: Option<i32>,
        pub unhealthy_node_conditions: List<UnhealthyCondition>,
        pub unhealthy_machine_conditions: List<UnhealthyCondition>,
    }

    /// A condition that makes a machine unhealthy once it has lasted.
    pub struct UnhealthyCondition {
        pub r#type: String,
        pub status: String,
        pub timeout_seconds: Option<i32>,
    }

    /// What happens to unhealthy machines.
    pub struct Remediation {
        pub max_in_flight: Option<IntOrString>,
        pub trigger_if: RemediationTrigger,
        pub template_ref: TemplateRef,
    }

    /// How many unhealthy machines remediation still acts upon.
    pub struct RemediationTrigger {
        pub unhealthy_less_than_or_equal_to: Option<IntOrString>,
        pub unhealthy_in_range: String,
    }

    /// A rollout of machines: when, and how.
    pub struct Rollout {
        pub after: String,
        pub strategy: RolloutStrategy,
    }

    /// How machines are replaced.
    pub struct RolloutStrategy {
        pub r#type: String,
        pub rolling_update: RollingUpdate,
    }

    /// The bounds of a rolling update.
    pub struct RollingUpdate {
        pub max_unavailable: Option<IntOrString>,
        pub max_surge: Option<IntOrString>,
    }

    /// A reference to a template (F-TREF).
    pub struct TemplateRef {
        pub api_version: String,
        pub kind: String,
        pub name: String,
    }

    /// An object that holds nothing but a template reference.
    pub struct TemplateHolder {
        pub template_ref: TemplateRef,
    }

    /// A template for the names of generated objects.
    pub struct Naming {
        pub template: String,
    }

    /// A reference whose API version follows from the contract (F-CREF).
    pub struct ContractRef {
        pub api_group: String,
        pub kind: String,
        pub name: String,
    }

    /// A variable value (F-VAR).
    pub struct VariableValue {
        pub name: String,
        pub value: Option<RawJson>,
    }

    /// Variable values that hold for one part of the topology only.
    pub struct VariableOverrides {
        pub overrides: List<VariableValue>,
    }

    /// A condition of a status, as far as it is read.
    pub struct Condition {
        pub r#type: String,
        pub status: String,
        pub reason: String,
        pub message: String,
    }
}

lenient! {
    /// A control plane's health check as written: there is no `maxInFlight`.
    pub struct WrittenControlPlaneHealthCheck {
        pub enabled: Option<bool>,
        pub checks: HealthChecks,
        pub remediation: WrittenControlPlaneRemediation,
    }

    /// The remediation of control plane machines as written.
    pub struct WrittenControlPlaneRemediation {
        pub trigger_if: RemediationTrigger,
        pub template_ref: TemplateRef,
    }
}

/// The health check of a control plane: one in which `remediation.maxInFlight` has no meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ControlPlaneHealthCheck(Rare<HealthCheck>);

impl std::ops::Deref for ControlPlaneHealthCheck {
    type Target = HealthCheck;

    fn deref(&self) -> &HealthCheck {
        &self.0
    }
}

impl<'de> serde::Deserialize<'de> for ControlPlaneHealthCheck {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = <WrittenControlPlaneHealthCheck as serde::Deserialize>::deserialize(deserializer)?;
        let WrittenControlPlaneRemediation { trigger_if, template_ref } = written.remediation;
        let remediation = Remediation { max_in_flight: None, trigger_if, template_ref };
        let check = HealthCheck { enabled: written.enabled, checks: written.checks, remediation };
        Ok(ControlPlaneHealthCheck(check.into()))
    }
}

impl HealthCheck {
    /// Whether the checks or the remediation have any content; `enabled` alone does not define a health check.
    pub fn is_defined(&self) -> bool {
        self.checks != HealthChecks::default() || self.remediation != Remediation::default()
    }
}

impl TemplateRef {
    /// Whether any of the three fields is set.
    pub fn is_defined(&self) -> bool {
        !(self.api_version.is_empty() && self.kind.is_empty() && self.name.is_empty())
    }

    /// The API group; empty for a reference without one and for an `apiVersion` that is malformed (CMP-001).
    pub fn group(&self) -> &str {
        match self.api_version.split_once('/') {
            Some((group, version)) if !version.contains('/') => group,
            _ => "",
        }
    }
}

impl ContractRef {
    /// Whether any of the three fields is set (CT-4.3).
    pub fn is_defined(&self) -> bool {
        !(self.api_group.is_empty() && self.kind.is_empty() && self.name.is_empty())
    }
}

impl From<&ContractRef> for serde_json::Value {
    fn from(reference: &ContractRef) -> Self {
        let ContractRef { api_group, kind, name } = reference;
        serde_json::json!({"apiGroup": api_group, "kind": kind, "name": name})
    }
}

/// A JSON integer or a JSON string.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IntOrString {
    Int(i32),
    String(String),
}

impl From<&IntOrString> for serde_json::Value {
    fn from(value: &IntOrString) -> Self {
        match value {
            IntOrString::Int(number) => (*number).into(),
            IntOrString::String(text) => text.as_str().into(),
        }
    }
}

impl<'de> serde::Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntOrStringVisitor)
    }
}

struct IntOrStringVisitor;

impl Visitor<'_> for IntOrStringVisitor {
    type Value = IntOrString;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a 32-bit integer or a string")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<IntOrString, E> {
        i32::try_from(number).map(IntOrString::Int).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<IntOrString, E> {
        i32::try_from(number).map(IntOrString::Int).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<IntOrString, E> {
        Ok(IntOrString::String(text.to_owned()))
    }
}

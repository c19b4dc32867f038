//! Types shared by several kinds (`F-…` of the API types).

use std::fmt;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

use golang::json::{List, Rare, RawJson, StringMap, lenient};

lenient! {
    /// Labels and annotations that are copied to generated objects (F-META).
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
    pub struct MachineGate {
        pub condition_type: String,
        pub polarity: String,
    }

    /// Deletion order and timeouts of machines (F-DEL).
    pub struct MachineDeletion {
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

    /// Conditions under which a machine is unhealthy.
    pub struct HealthChecks {
        pub node_startup_timeout_seconds: Option<i32>,
        pub unhealthy_node_conditions: List<UnhealthyCondition>,
        pub unhealthy_machine_conditions: List<UnhealthyCondition>,
    }

    /// A condition that makes a machine unhealthy after its timeout.
    pub struct UnhealthyCondition {
        pub r#type: String,
        pub status: String,
        pub timeout_seconds: Option<i32>,
    }

    /// Remediation of unhealthy machines.
    pub struct Remediation {
        pub max_in_flight: Option<IntOrString>,
        pub trigger_if: RemediationTrigger,
        pub template_ref: TemplateRef,
    }

    /// Maximum number of unhealthy machines for which remediation is triggered.
    pub struct RemediationTrigger {
        pub unhealthy_less_than_or_equal_to: Option<IntOrString>,
        pub unhealthy_in_range: String,
    }

    /// Time and strategy of a rollout of machines.
    pub struct RolloutSpec {
        pub after: String,
        pub strategy: RolloutStrategy,
    }

    /// Strategy of replacing machines.
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

    /// An object with a template reference only.
    pub struct TemplateHolder {
        pub template_ref: TemplateRef,
    }

    /// A template for the names of generated objects.
    pub struct Naming {
        pub template: String,
    }

    /// A reference whose API version is determined by the contract (F-CREF).
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

    /// Variable values for one part of the topology.
    pub struct VariableOverrides {
        pub overrides: List<VariableValue>,
    }

    /// A condition of a status, reduced to the fields that are read.
    pub struct Condition {
        pub r#type: String,
        pub status: String,
        pub reason: String,
        pub message: String,
        pub observed_generation: i64,
    }
}

lenient! {
    /// The health check of a control plane as written: without `maxInFlight`.
    pub struct RawControlPlaneHealthCheck {
        pub enabled: Option<bool>,
        pub checks: HealthChecks,
        pub remediation: RawControlPlaneRemediation,
    }

    /// The remediation of a control plane as written.
    pub struct RawControlPlaneRemediation {
        pub trigger_if: RemediationTrigger,
        pub template_ref: TemplateRef,
    }
}

/// The health check of a control plane, in which `remediation.maxInFlight` has no meaning.
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
        let written = <RawControlPlaneHealthCheck as serde::Deserialize>::deserialize(deserializer)?;
        let RawControlPlaneRemediation { trigger_if, template_ref } = written.remediation;
        let remediation = Remediation { max_in_flight: None, trigger_if, template_ref };
        let check = HealthCheck { enabled: written.enabled, checks: written.checks, remediation };
        Ok(ControlPlaneHealthCheck(check.into()))
    }
}

impl HealthCheck {
    /// Whether checks or remediation are not empty; `enabled` alone does not define a health check.
    pub fn is_defined(&self) -> bool {
        self.checks != HealthChecks::default() || self.remediation != Remediation::default()
    }
}

impl TemplateRef {
    /// Whether any of the three fields is set.
    pub fn is_defined(&self) -> bool {
        !(self.api_version.is_empty() && self.kind.is_empty() && self.name.is_empty())
    }

    /// The API group; empty without a group or with a malformed `apiVersion` (CMP-001).
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

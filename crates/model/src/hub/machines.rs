//! Machines, MachineSets, MachineDeployments and MachineHealthChecks, with the fields that admission reads (MA-1).

use super::naming::{label_key_faults, label_value_faults};
use super::{
    ContractRef, HealthChecks, MachineDeletion, Metadata, Naming, Remediation, RolloutSpec, Taint, TopologyMetadata,
};
use golang::json::{List, StringMap, lenient};

/// Fields of `status.nodeInfo` in Nodes and Machines.
pub const NODE_INFO: [&str; 10] = [
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
];

lenient! {
    /// A Machine.
    pub struct Machine {
        pub metadata: Metadata,
        pub spec: MachineSpec,
    }

    /// The desired state of a Machine.
    pub struct MachineSpec {
        pub cluster_name: String,
        pub bootstrap: Bootstrap,
        pub version: String,
        pub deletion: MachineDeletion,
        pub taints: List<Taint>,
    }

    /// The source of a machine's bootstrap data; an empty name counts as absent (DEC-7).
    pub struct Bootstrap {
        pub config_ref: ContractRef,
        pub data_secret_name: String,
    }

    /// A scalable group of machines: a MachineDeployment or a MachineSet.
    pub struct MachineGroup {
        pub metadata: Metadata,
        pub spec: MachineGroupSpec,
    }

    /// The spec of a machine group; only MachineDeployments have `rollout`.
    pub struct MachineGroupSpec {
        pub cluster_name: String,
        pub replicas: Option<i32>,
        pub selector: LabelSelector,
        pub template: MachineTemplate,
        pub machine_naming: Naming,
        pub rollout: RolloutSpec,
    }

    /// The template of the machines of a group.
    pub struct MachineTemplate {
        pub metadata: TopologyMetadata,
        pub spec: MachineSpec,
    }

    /// A MachineHealthCheck.
    pub struct MachineHealthCheck {
        pub metadata: Metadata,
        pub spec: MachineHealthCheckSpec,
    }

    /// The checked machines and the checks.
    pub struct MachineHealthCheckSpec {
        pub cluster_name: String,
        pub checks: HealthChecks,
        pub remediation: Remediation,
    }

    /// A label selector.
    pub struct LabelSelector {
        pub match_labels: StringMap,
        pub match_expressions: List<LabelExpression>,
    }

    /// A label selector requirement.
    pub struct LabelExpression {
        pub key: String,
        pub operator: String,
        pub values: List<String>,
    }
}

impl LabelSelector {
    /// Whether the selector is empty, which selects everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.iter().next().is_none() && self.match_expressions.is_empty()
    }

    /// Checks its keys, values and operators, as Kubernetes does before it uses a selector.
    ///
    /// # Errors
    /// For the first invalid requirement; names it.
    pub fn check(&self) -> Result<(), String> {
        for (key, value) in self.match_labels.iter() {
            check_requirement(key, [value])?;
        }
        for LabelExpression { key, operator, values } in &*self.match_expressions {
            let values = if operator == "In" || operator == "NotIn" { &**values } else { &[] };
            check_requirement(key, values.iter().map(String::as_str))?;
        }
        self.matches(&StringMap::default()).map(drop)
    }

    /// Whether the selector matches these labels.
    ///
    /// # Errors
    /// When an expression is invalid; names it.
    pub fn matches(&self, labels: &StringMap) -> Result<bool, String> {
        let mut all = self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value));
        for expression in &*self.match_expressions {
            all &= expression.holds(labels.get(&expression.key))?;
        }
        Ok(all)
    }
}

fn check_requirement<'a>(key: &str, values: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    if let Some(fault) = label_key_faults(key).into_iter().next() {
        return Err(format!("the key {key:?}: {fault}"));
    }
    let invalid = values.into_iter().find_map(|value| Some((value, label_value_faults(value).into_iter().next()?)));
    invalid.map_or(Ok(()), |(value, fault)| Err(format!("the value {value:?} of {key}: {fault}")))
}

impl LabelExpression {
    /// Whether the expression holds for a label value.
    fn holds(&self, value: Option<&str>) -> Result<bool, String> {
        let LabelExpression { key, operator, values } = self;
        let is_listed = || value.is_some_and(|value| values.iter().any(|listed| listed == value));
        match &**operator {
            "In" | "NotIn" if values.is_empty() => Err(format!("{key} {operator} needs values")),
            "Exists" | "DoesNotExist" if !values.is_empty() => Err(format!("{key} {operator} takes no values")),
            "In" => Ok(is_listed()),
            "NotIn" => Ok(!is_listed()),
            "Exists" => Ok(value.is_some()),
            "DoesNotExist" => Ok(value.is_none()),
            _ => Err(format!("{operator:?} is not an operator; use In, NotIn, Exists or DoesNotExist")),
        }
    }
}

impl AsRef<Metadata> for Machine {
    fn as_ref(&self) -> &Metadata {
        &self.metadata
    }
}

impl AsRef<Metadata> for MachineGroup {
    fn as_ref(&self) -> &Metadata {
        &self.metadata
    }
}

impl AsRef<Metadata> for MachineHealthCheck {
    fn as_ref(&self) -> &Metadata {
        &self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_selector_requires_all_its_labels() {
        let labels: StringMap = serde_json::from_value(json!({"a": "1", "empty": ""})).unwrap();
        let expression = |key: &str, operator: &str, values: Value| {
            json!({"matchExpressions": [{"key": key,
                "operator": operator, "values": values}]})
        };
        for (selector, want) in [
            (json!({}), Some(true)),
            (json!({"matchLabels": {"a": "1", "empty": ""}}), Some(true)),
            (json!({"matchLabels": {"a": "2"}}), Some(false)),
            (json!({"matchLabels": {"b": ""}}), Some(false)),
            (expression("a", "In", json!(["2", "1"])), Some(true)),
            (expression("b", "In", json!(["1"])), Some(false)),
            (expression("b", "NotIn", json!(["1"])), Some(true)),
            (expression("a", "NotIn", json!(["1"])), Some(false)),
            (expression("empty", "Exists", json!([])), Some(true)),
            (expression("empty", "DoesNotExist", json!([])), Some(false)),
            (expression("a", "In", json!([])), None),
            (expression("a", "Exists", json!(["1"])), None),
            (expression("a", "Gt", json!(["1"])), None),
        ] {
            let decoded: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(decoded.matches(&labels).ok(), want, "{selector}");
            assert_eq!(decoded.is_empty(), selector == json!({}), "{selector}");
        }
    }
}

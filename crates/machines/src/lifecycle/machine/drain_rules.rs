//! MachineDrainRules: which Pods a drain evicts, skips or waits for, and in which order (MA-10.4).

use serde_json::{Value, json};

use super::reconcile::MachineReconcile;
use crate::lifecycle::context::StepError;
use crate::lifecycle::fields::{items, number, text};
use crate::lifecycle::objects::{GroupKind, WorkloadObjects};
use model::hub::{LabelSelector, Object, ObjectKey, paths};

/// The behavior of a rule for the selected Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behavior {
    Drain { order: i64 },
    Skip,
    WaitCompleted,
}

/// A rule that applies to the Machine.
#[derive(Clone, Debug)]
pub(super) struct DrainRule {
    pub(super) behavior: Behavior,
    name: String,
    /// Pairs of Pod and namespace selectors, any of which may match; no pairs select all Pods.
    pods: Vec<Value>,
}

/// The rules of the namespace that apply to the Machine, sorted by name.
pub(super) fn applicable(work: &MachineReconcile<'_, '_>) -> Result<Vec<DrainRule>, StepError> {
    let objects = work.context.in_namespace(&GroupKind::core("MachineDrainRule"), work.machine.namespace())?;
    let mut rules = Vec::new();
    for object in &objects {
        if applies(work, object)? {
            rules.push(read(object)?);
        }
    }
    rules.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(rules)
}

fn read(object: &Object) -> Result<DrainRule, StepError> {
    let behavior = match text(object, paths::drain_rule::BEHAVIOR) {
        "Drain" => Behavior::Drain { order: number(object, paths::drain_rule::ORDER).unwrap_or_default() },
        "Skip" => Behavior::Skip,
        "WaitCompleted" => Behavior::WaitCompleted,
        other => {
            return Err(StepError::failed(format!("MachineDrainRule {}: unknown behavior {other:?}", object.key())));
        }
    };
    Ok(DrainRule { behavior, name: object.name().to_owned(), pods: items(object, paths::drain_rule::PODS).to_vec() })
}

/// Whether any pair of Machine and Cluster selectors matches; no pairs match all.
fn applies(work: &MachineReconcile<'_, '_>, rule: &Object) -> Result<bool, StepError> {
    let pairs = items(rule, paths::drain_rule::MACHINES);
    for pair in pairs {
        if matches(rule.name(), pair.get("selector"), &work.machine)?
            && matches(rule.name(), pair.get("clusterSelector"), &work.cluster)?
        {
            return Ok(true);
        }
    }
    Ok(pairs.is_empty())
}

impl DrainRule {
    /// Whether the rule selects a Pod.
    pub(super) fn selects(&self, pod: &Object, workload: &WorkloadObjects) -> Result<bool, StepError> {
        for pair in &self.pods {
            if matches(&self.name, pair.get("selector"), pod)? && self.selects_namespace(pair, pod, workload)? {
                return Ok(true);
            }
        }
        Ok(self.pods.is_empty())
    }

    fn selects_namespace(&self, pair: &Value, pod: &Object, workload: &WorkloadObjects) -> Result<bool, StepError> {
        let Some(selector) = pair.get("namespaceSelector") else { return Ok(true) };
        let kind = GroupKind::new("", "Namespace");
        let Some(namespace) = workload.get(&kind, &ObjectKey::new("", pod.namespace())) else {
            return Err(StepError::failed(format!("Namespace {} of Pod {} is not known", pod.namespace(), pod.name())));
        };
        matches(&self.name, Some(selector), namespace)
    }
}

/// Whether a selector matches the labels of an object; a missing selector matches all.
fn matches(rule: &str, selector: Option<&Value>, object: &Object) -> Result<bool, StepError> {
    let invalid = |why: String| StepError::failed(format!("MachineDrainRule {rule} has an invalid selector: {why}"));
    let Some(selector) = selector else { return Ok(true) };
    let selector: LabelSelector =
        serde_json::from_value(selector.clone()).map_err(|error| invalid(error.to_string()))?;
    let labels = object.at(paths::metadata::LABELS).cloned().unwrap_or_else(|| json!({}));
    let labels = serde_json::from_value(labels).map_err(|error| invalid(error.to_string()))?;
    selector.matches(&labels).map_err(invalid)
}

//! Health checks that call healthy machines unhealthy: their machines are replaced again and again (ROLL-17).

use serde_json::Value;

use super::{PlanStep, StepAction, TopologyPart};
use crate::topology::worker::WorkerKind;

/// Conditions that are true on every healthy Node or Machine; conditions that end with `Pressure` are false.
const TRUE_IF_HEALTHY: [&str; 6] =
    ["Ready", "Available", "NodeReady", "NodeHealthy", "InfrastructureReady", "BootstrapConfigReady"];
const FALSE_IF_HEALTHY: [&str; 4] = ["NetworkUnavailable", "Paused", "Deleting", "Remediating"];

/// The slot whose healthy machines a changed health check remediates, and the reason.
pub(super) fn called_unhealthy(step: &PlanStep) -> Option<(TopologyPart, String)> {
    let part = match &step.part {
        TopologyPart::ControlPlaneHealthCheck => TopologyPart::ControlPlane,
        TopologyPart::WorkerHealthCheck(name) => TopologyPart::Worker(WorkerKind::MachineDeployment, name.clone()),
        _ => return None,
    };
    let mut changes = step.changes.iter().filter(|_| step.action != StepAction::Delete);
    let (kind, status) = changes.find_map(|change| new_in(change.from.as_ref(), change.to.as_ref()?, &change.path))?;
    Some((part, format!("it remediates healthy machines, whose condition {kind} is {status}")))
}

/// The first unhealthy condition that healthy machines have and that was not in the old list.
fn new_in(from: Option<&Value>, to: &Value, path: &str) -> Option<(String, String)> {
    match to {
        Value::Array(conditions) if path.contains("unhealthy") => {
            let old = from.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let same =
                |one: &Value, other: &Value| (&one["type"], &one["status"]) == (&other["type"], &other["status"]);
            let mut new = conditions.iter().filter(|condition| !old.iter().any(|old| same(old, condition)));
            new.find_map(|condition| {
                let (kind, status) = (condition["type"].as_str()?, condition["status"].as_str()?);
                is_healthy(kind, status).then(|| (kind.to_owned(), status.to_owned()))
            })
        }
        Value::Object(members) => members
            .iter()
            .find_map(|(name, to)| new_in(from.and_then(|from| from.get(name)), to, &format!("{path}.{name}"))),
        _ => None,
    }
}

/// Whether healthy Nodes or Machines have this condition.
fn is_healthy(kind: &str, status: &str) -> bool {
    match status {
        "True" => TRUE_IF_HEALTHY.contains(&kind),
        "False" => FALSE_IF_HEALTHY.contains(&kind) || kind.ends_with("Pressure"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_new_conditions_of_healthy_machines_count() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "timeoutSeconds": 300});
        let list = |all: &[(&str, &str)]| {
            Value::from(all.iter().map(|(kind, status)| condition(kind, status)).collect::<Vec<_>>())
        };
        let path = "spec.checks.unhealthyNodeConditions";
        for (from, to, want) in [
            (&[][..], &[("Ready", "False"), ("Ready", "Unknown")][..], None),
            (&[], &[("Ready", "False"), ("Ready", "True")], Some("Ready")),
            (&[("Ready", "True")], &[("Ready", "True")], None),
            (&[], &[("MemoryPressure", "True")], None),
            (&[], &[("MemoryPressure", "False")], Some("MemoryPressure")),
            (&[], &[("MyOwn", "True")], None),
        ] {
            let found = new_in(Some(&list(from)), &list(to), path).map(|(kind, _)| kind);
            assert_eq!(found.as_deref(), want, "{from:?} {to:?}");
        }
        let nested = json!({"checks": {"unhealthyNodeConditions": list(&[("Ready", "True")])}});
        assert!(new_in(None, &nested, "spec").is_some(), "a new health check");
    }
}

//! What admission gives a machine deployment instead of a strategy that is not asked for any more (MA-28.2.3).

use serde_json::{Value, json};

use super::{Part, Step};
use crate::hub::Object;
use crate::topology::worker::WorkerKind;

const ROLLOUT: &str = "spec.rollout";

/// Says what takes the place of the parts of a strategy that go; what stays as it was by default is no change.
pub(super) fn default_strategies(steps: &mut [Step]) {
    for step in steps.iter_mut().filter(|step| matches!(step.part, Part::Worker(WorkerKind::MachineDeployment, _))) {
        let Some(defaults) = step.sent.as_ref().map(|sent| defaults(sent)) else { continue };
        for change in step.changes.iter_mut().filter(|change| change.to.is_none()) {
            let below = change.path.strip_prefix(ROLLOUT).map(|rest| rest.replace('.', "/"));
            change.to = below.and_then(|pointer| defaults.pointer(&pointer).cloned());
        }
        step.changes.retain(|change| change.from != change.to);
    }
}

/// `spec.rollout` of a machine deployment that asks for nothing but the type of its strategy.
fn defaults(sent: &Object) -> Value {
    match sent.at("spec.rollout.strategy.type").and_then(Value::as_str) {
        Some("RollingUpdate") | None => {
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}})
        }
        Some(_) => json!({}),
    }
}

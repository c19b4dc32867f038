//! Defaults of admission for a removed strategy of a machine deployment (MA-28.2.3).

use serde_json::{Value, json};

use super::{PlanStep, TopologyPart};
use crate::topology::worker::WorkerKind;
use model::hub::machine_defaults::{MAX_SURGE, MAX_UNAVAILABLE, ROLLING_UPDATE};
use model::hub::{Object, paths};

const ROLLOUT: &str = paths::worker::ROLLOUT;

/// Adds the defaults that replace removed parts of a strategy; a value that equals its default is no change.
pub(super) fn default_strategies(steps: &mut [PlanStep]) {
    for step in
        steps.iter_mut().filter(|step| matches!(step.part, TopologyPart::Worker(WorkerKind::MachineDeployment, _)))
    {
        let Some(defaults) = step.applied.as_ref().map(|sent| defaults(sent)) else { continue };
        for change in step.changes.iter_mut().filter(|change| change.to.is_none()) {
            let below = change.path.strip_prefix(ROLLOUT).map(|rest| rest.replace('.', "/"));
            let default = below.and_then(|pointer| defaults.pointer(&pointer).cloned());
            change.to = default.zip(change.from.as_ref()).map(|(default, from)| in_place_of(from, default));
        }
        step.changes.retain(|change| change.from != change.to);
    }
}

/// The defaults of the old object. Whether other defaults are new depends on earlier strategies of the object.
fn in_place_of(from: &Value, default: Value) -> Value {
    match (from, default) {
        (Value::Object(from), Value::Object(members)) => {
            let there = members.into_iter().filter_map(|(name, value)| Some((from.get(&name)?, name, value)));
            there.map(|(from, name, value)| (name, in_place_of(from, value))).collect()
        }
        (_, default) => default,
    }
}

/// `spec.rollout` of a machine deployment that only sets the type of its strategy.
fn defaults(sent: &Object) -> Value {
    match sent.at(paths::worker::ROLLOUT_STRATEGY).and_then(Value::as_str) {
        Some(ROLLING_UPDATE) | None => {
            let bounds = json!({"maxSurge": MAX_SURGE, "maxUnavailable": MAX_UNAVAILABLE});
            json!({"strategy": {"type": ROLLING_UPDATE, "rollingUpdate": bounds}})
        }
        Some(_) => json!({}),
    }
}

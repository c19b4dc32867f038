//! Reasons why a Cluster is not in its desired state when a simulation ends.

use std::sync::Arc;

use serde_json::Value;

use super::{Simulation, cluster_id};
use machines::lifecycle::conditions::{self, ConditionState, ConditionStatus};
use machines::lifecycle::dependents::is_paused;
use machines::lifecycle::hooks::{self, HoldingHook};
use machines::lifecycle::{GroupKind, MachineCache, ObjectId, owner_name};
use model::hub::deletion_hold::is_pause;
use model::hub::{Object, ObjectKey, annotation};

/// Maximum number of machines in a simulation: each change of one is a step over all machines of its set.
const MOST_MACHINES: i64 = 10_000;

/// Message about a Cluster whose simulation was stopped.
pub const STOPPED: &str = "its simulation was stopped before the end";

impl Simulation {
    /// The reason why a Cluster is not in its desired state, if it is not.
    pub(super) fn why_stuck(&self, key: &ObjectKey) -> Option<String> {
        if let Some(wanted) = self.too_many {
            return Some(format!("it asks for {wanted} machines, and a simulation follows {MOST_MACHINES} at most"));
        }
        if let Some(endless) = self.endless.get(key) {
            return Some(endless.clone());
        }
        if self.is_stopped {
            return Some(STOPPED.to_owned());
        }
        let symptom = self.exhausted().or_else(|| self.symptom(key))?;
        // A hold on an upgrade is often caused by a machine, whose message is more specific.
        let is_cause = self.is_exhausted || self.failures.contains_key(key) || self.is_paused(key);
        Some(if is_cause { symptom } else { self.bad_machine(key).unwrap_or(symptom) })
    }

    fn is_paused(&self, key: &ObjectKey) -> bool {
        let cluster = self.machines.objects.get(&cluster_id(key));
        cluster
            .is_some_and(|cluster| is_paused(cluster) || cluster.annotation(annotation::PAUSED).is_some_and(is_pause))
    }

    fn symptom(&self, key: &ObjectKey) -> Option<String> {
        if let Some(failure) = self.failures.get(key) {
            return Some(failure.clone());
        }
        if let Some(held) = self.held.get(key).and_then(|held| held.first()) {
            return Some(format!("{} {}: {}", held.kind, held.name, held.reason));
        }
        let id = cluster_id(key);
        let cluster = self.machines.objects.get(&id)?;
        let of_cluster = self.machines.objects.everything_of(key);
        let ids = of_cluster.iter().map(|object| ObjectId::for_object(object)).chain([id.clone()]);
        for id in ids {
            if let Some(failure) = self.machines.failure(&id) {
                return Some(format!("{id}: {failure}"));
            }
        }
        let condition = |name: &str| conditions::get(cluster, name);
        let names = ["TopologyReconciled", "Available"];
        let missing = || ConditionState::new(ConditionStatus::Unknown, "NotYetReported", "it was never reported");
        let mut bad = names.iter().map(|name| (name, condition(name).unwrap_or_else(missing)));
        let bad = bad.find(|(_, found)| found.status != ConditionStatus::True);
        let bad =
            bad.map(|(name, found)| format!("{name} is {}: {}", found.status.name(), in_one_line(&found.message)));
        // A Cluster with enough other machines is available without this one.
        bad.or_else(|| self.bad_machine(key))
    }

    /// A machine of a Cluster that does not run, with the hook that blocks its deletion, or the message of its provider
    /// or conditions. Machines whose provider waits for others come last.
    fn bad_machine(&self, key: &ObjectKey) -> Option<String> {
        let machines = self.machines.objects.of_cluster(&GroupKind::core("Machine"), key);
        let is_bad = |machine: &&Arc<Object>| !conditions::is_true(machine, "Ready");
        let said = |machine: &Arc<Object>| {
            let deprecated = machine.at("status.deprecated.v1beta1.failureMessage").and_then(Value::as_str);
            let ready =
                || conditions::get(machine, "Ready").map(|condition| reported(&in_one_line(&condition.message)));
            let said = deprecated.map(in_one_line).or_else(ready).filter(|text| !text.is_empty());
            format!("Machine {}: {}", machine.name(), said.unwrap_or_else(|| conditions::phase(machine).to_owned()))
        };
        let rank = |machine: &&Arc<Object>| match hooks::holding(machine) {
            Some(hook) if hook.annotation == hooks::CLEANUP => 2,
            Some(_) => 0,
            None => 1,
        };
        let bad = machines.iter().filter(is_bad).min_by_key(rank)?;
        Some(hooks::holding(bad).map_or_else(|| said(bad), |hook| held(bad, &hook)))
    }
}

/// Message about a machine whose deletion is blocked by a hook: who removes the hook, and since when it blocks.
fn held(machine: &Object, hook: &HoldingHook<'_>) -> String {
    let HoldingHook { annotation, controller, since } = hook;
    let since = if since.is_empty() { String::new() } else { format!(" since {since}") };
    let holds = format!("Machine {}: the annotation {annotation} holds its deletion{since}", machine.name());
    match (*annotation, *controller) {
        (hooks::CLEANUP, _) => {
            format!("{holds}; its KubeadmControlPlane removes it once enough of its other Machines run")
        }
        (_, "") => format!("{holds}; the controller that has set it has to remove it"),
        (_, controller) => format!("{holds}; {controller:?} has to remove it"),
    }
}

/// The number of desired machines, if it exceeds the limit of a simulation.
pub(super) fn too_many_machines(objects: &MachineCache) -> Option<i64> {
    let asks = |kind: &&GroupKind| {
        let is_worker_set = ["MachineDeployment", "MachinePool", "MachineSet"].iter().any(|name| kind.is_core(name));
        is_worker_set || kind.kind.ends_with("ControlPlane")
    };
    let all = objects.kinds().filter(asks).flat_map(|kind| objects.all(kind));
    let all = all.filter(|object| object.kind() != "MachineSet" || owner_name(object, "MachineDeployment").is_none());
    let wanted = all.filter_map(|object| object.at("spec.replicas")?.as_i64()).fold(0, i64::saturating_add);
    (wanted > MOST_MACHINES).then_some(wanted)
}

/// The parts of a message that are more specific than that nothing is reported yet; the whole message if there are
/// none.
fn reported(message: &str) -> String {
    let parts: Vec<&str> = message.split("; ").filter(|part| !part.ends_with("not yet reported")).collect();
    if parts.is_empty() { message.to_owned() } else { parts.join("; ") }
}

/// The message of a condition on one line.
fn in_one_line(message: &str) -> String {
    let lines = message.lines().map(|line| line.trim().trim_start_matches("* ")).filter(|line| !line.is_empty());
    let mut text = String::new();
    for line in lines {
        let separator = match text.chars().last() {
            None => "",
            Some(':') => " ",
            Some(_) => "; ",
        };
        text += separator;
        text += line;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_several_lines_become_one_line() {
        for (message, want) in [
            ("", ""),
            ("not ready", "not ready"),
            ("* InfrastructureReady: no\n* NodeHealthy: waits", "InfrastructureReady: no; NodeHealthy: waits"),
            ("* Machines a, b:\n  * Ready: no", "Machines a, b: Ready: no"),
        ] {
            assert_eq!(in_one_line(message), want);
        }
    }
}

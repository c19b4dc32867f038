//! Reasons why a Cluster is not in its desired state when a simulation ends.

use std::sync::Arc;

use serde_json::Value;

use super::reasons::{MOST_MACHINES, StuckReason};
use super::{Simulation, cluster_id};
use machines::lifecycle::conditions::{self, ConditionState, ConditionStatus, NOT_YET_REPORTED};
use machines::lifecycle::dependents::is_paused;
use machines::lifecycle::hooks::{self, HoldingHook};
use machines::lifecycle::{GroupKind, MachineCache, ObjectId, owner_name};
use model::hub::deletion_hold::is_pause;
use model::hub::{Object, ObjectKey, annotation, paths};

impl Simulation {
    /// The reason why a Cluster is not in its desired state, if it is not.
    pub(super) fn why_stuck(&self, key: &ObjectKey) -> Option<StuckReason> {
        if let Some(wanted) = self.too_many {
            return Some(StuckReason::TooManyMachines { wanted });
        }
        if let Some(endless) = self.endless.get(key) {
            return Some(endless.clone());
        }
        if self.is_stopped {
            return Some(StuckReason::Stopped);
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

    fn symptom(&self, key: &ObjectKey) -> Option<StuckReason> {
        if let Some(failure) = self.failures.get(key) {
            return Some(StuckReason::Topology(failure.clone()));
        }
        if let Some(held) = self.held.get(key).and_then(|held| held.first()) {
            return Some(StuckReason::Held(held.clone()));
        }
        let id = cluster_id(key);
        let cluster = self.machines.objects.get(&id)?;
        let of_cluster = self.machines.objects.everything_of(key);
        let ids = of_cluster.iter().map(|object| ObjectId::for_object(object)).chain([id.clone()]);
        for id in ids {
            if let Some(failure) = self.machines.failure(&id) {
                let failure = failure.to_owned();
                return Some(StuckReason::Step { id, failure });
            }
        }
        let condition = |name: &str| conditions::get(cluster, name);
        let names = ["TopologyReconciled", "Available"];
        let missing = || ConditionState::new(ConditionStatus::Unknown, "NotYetReported", "it was never reported");
        let mut bad = names.iter().map(|name| (name, condition(name).unwrap_or_else(missing)));
        let bad = bad.find(|(_, found)| found.status != ConditionStatus::True);
        let bad = bad.map(|(name, found)| StuckReason::Condition {
            name,
            status: found.status,
            message: in_one_line(&found.message),
        });
        // A Cluster with enough others is available without the machine.
        bad.or_else(|| self.bad_machine(key))
    }

    /// A machine of a Cluster that does not run, with the hook that holds its deletion, or with the message of its
    /// provider or its conditions. Machines whose provider waits before it removes its hook come last.
    fn bad_machine(&self, key: &ObjectKey) -> Option<StuckReason> {
        let machines = self.machines.objects.of_cluster(&GroupKind::core("Machine"), key);
        let is_bad = |machine: &&Arc<Object>| !conditions::is_true(machine, "Ready");
        let reported_by = |machine: &Arc<Object>| {
            let deprecated = machine.at(paths::status::DEPRECATED_FAILURE_MESSAGE).and_then(Value::as_str);
            let ready = || conditions::get(machine, "Ready").map(|condition| reported(&condition.message));
            let message = deprecated.map(in_one_line).or_else(ready).filter(|text| !text.is_empty());
            let message = message.unwrap_or_else(|| conditions::phase(machine).to_owned());
            StuckReason::Machine { name: machine.name().to_owned(), message }
        };
        let rank = |machine: &&Arc<Object>| match hooks::holding(machine) {
            Some(hook) if hook.annotation == hooks::CLEANUP => 2,
            Some(_) => 0,
            None => 1,
        };
        let bad = machines.iter().filter(is_bad).min_by_key(rank)?;
        Some(hooks::holding(bad).map_or_else(|| reported_by(bad), |hook| held(bad, &hook)))
    }
}

/// A machine whose deletion a hook holds.
fn held(machine: &Object, hook: &HoldingHook<'_>) -> StuckReason {
    StuckReason::DeletionHook {
        machine: machine.name().to_owned(),
        annotation: hook.annotation.to_owned(),
        controller: hook.controller.to_owned(),
        since: hook.since.to_owned(),
    }
}

/// The number of desired machines, if it exceeds the limit of a simulation.
pub(super) fn too_many_machines(objects: &MachineCache) -> Option<i64> {
    let has_replicas = |kind: &&GroupKind| {
        let is_worker_set = ["MachineDeployment", "MachinePool", "MachineSet"].iter().any(|name| kind.is_core(name));
        is_worker_set || kind.kind.ends_with("ControlPlane")
    };
    let all = objects.kinds().filter(has_replicas).flat_map(|kind| objects.all(kind));
    let all = all.filter(|object| object.kind() != "MachineSet" || owner_name(object, "MachineDeployment").is_none());
    let wanted = all.filter_map(|object| object.replicas()).fold(0, i64::saturating_add);
    (wanted > MOST_MACHINES).then_some(wanted)
}

/// The parts of a message that are more specific than that nothing is reported yet; the whole message if there are
/// none.
fn reported(message: &str) -> String {
    let parts = parts(message);
    let reported: Vec<&str> =
        parts.iter().map(String::as_str).filter(|part| !part.ends_with(NOT_YET_REPORTED)).collect();
    if reported.is_empty() { parts.join("; ") } else { reported.join("; ") }
}

/// The message of a condition on one line.
fn in_one_line(message: &str) -> String {
    parts(message).join("; ")
}

/// The parts of the message of a condition: its lines, where a line that ends in a colon continues in the next line.
fn parts(message: &str) -> Vec<String> {
    let lines = message.lines().map(|line| line.trim().trim_start_matches("* ")).filter(|line| !line.is_empty());
    let mut parts: Vec<String> = Vec::new();
    for line in lines {
        match parts.last_mut().filter(|part| part.ends_with(':')) {
            Some(part) => {
                part.push(' ');
                part.push_str(line);
            }
            None => parts.push(line.to_owned()),
        }
    }
    parts
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

    #[test]
    fn parts_that_are_not_reported_yet_are_left_out_beside_others() {
        for (message, want) in [
            ("* A: Condition A not yet reported\n* B: waits; for it", "B: waits; for it"),
            ("* A:\n  * Node.Ready: Condition not yet reported\n* B: no", "B: no"),
            ("* A: Condition A not yet reported", "A: Condition A not yet reported"),
        ] {
            assert_eq!(reported(message), want);
        }
    }
}

//! Status of a MachineDeployment, and cleanup of its old sets (MA-26).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::limits::RolloutLimits;
use super::sets::SetDraft;
use crate::lifecycle::conditions::{ConditionState, ConditionStatus, is_false, message, put};
use crate::lifecycle::fields::{created, items, number, set};
use crate::lifecycle::machine_set::{COUNTERS, ReplicaCount, put_scaling, put_versions};
use golang::calendar::Moment;
use model::hub::{Object, paths};

/// Counters and versions, summed over the sets (MA-26.1).
pub(super) fn sum(after: &mut Object, sets: &[&Object]) {
    for name in COUNTERS {
        let path = format!("status.{name}");
        let sum: i64 = sets.iter().map(|set| number(set, &path).unwrap_or_default()).sum();
        set(after, &path, json!(sum));
    }
    let versions = sets.iter().flat_map(|set| items(set, paths::status::VERSIONS)).filter_map(|entry| {
        let version = entry.get("version")?.as_str()?.to_owned();
        Some((version, entry.get("replicas").and_then(Value::as_i64)?))
    });
    let versions: Vec<(String, i64)> = versions.collect();
    put_versions(after, versions);
}

/// `status.phase` (MA-26.2): `wanted` is `None` if it cannot be read.
pub(super) fn put_phase(after: &mut Object, wanted: Option<i64>, there: i64) {
    let phase = match wanted {
        _ if after.is_being_deleted() => "ScalingDown",
        None => "Unknown",
        Some(wanted) if wanted > there => "ScalingUp",
        Some(wanted) if wanted < there => "ScalingDown",
        Some(_) => "Running",
    };
    set(after, paths::status::PHASE, json!(phase));
}

/// The condition `Available` (MA-26.3).
pub(super) fn put_available(after: &mut Object, limits: Option<RolloutLimits>, is_rolling: bool, now: Moment) {
    let available = number(after, paths::status::AVAILABLE_REPLICAS);
    let condition = match (limits, available) {
        (Some(limits), Some(available)) => {
            let least = if is_rolling { limits.min_available() } else { limits.replicas };
            let text = format!("{available} available replicas, at least {least} required");
            match available >= least {
                true => ConditionState::new(true, "Available", ""),
                false => ConditionState::new(false, "NotAvailable", text),
            }
        }
        _ => ConditionState::new(
            ConditionStatus::Unknown,
            "AvailableUnknown",
            "The number of available replicas is not known",
        ),
    };
    put(after, "Available", &condition, now);
}

/// The condition `RollingOut`: number of outdated machines, and reasons (MA-26.4).
pub(super) fn put_rolling_out(after: &mut Object, machines: &[&Object], now: Moment) {
    let outdated: Vec<&Object> = machines.iter().copied().filter(|machine| is_false(machine, "UpToDate")).collect();
    let condition = if outdated.is_empty() {
        ConditionState::new(false, "NotRollingOut", "")
    } else {
        let messages: BTreeSet<&str> = outdated.iter().map(|machine| message(machine, "UpToDate")).collect();
        let mut reasons: Vec<&str> = messages.into_iter().flat_map(str::lines).collect();
        reasons.sort_by_key(|line| (!line.starts_with("* Version "), *line));
        reasons.dedup();
        let head = format!("Rolling out {} not up-to-date replicas", outdated.len());
        let lines: Vec<&str> = [&*head].into_iter().chain(reasons).collect();
        ConditionState::new(true, "RollingOut", lines.join("\n"))
    };
    put(after, "RollingOut", &condition, now);
}

/// The conditions `ScalingUp` and `ScalingDown` (MA-26.5).
pub(super) fn put_scale(after: &mut Object, wanted: i64, there: i64, held: &[String], now: Moment) {
    let wanted = if after.is_being_deleted() { 0 } else { wanted };
    put_scaling(after, ReplicaCount { wanted, there }, held, now);
}

/// Old sets beyond the history limit of a complete deployment, oldest first (MA-26.6).
pub(super) fn unneeded<'a>(deployment: &Object, replicas: i64, old: &'a [SetDraft]) -> Vec<&'a SetDraft> {
    let is_complete = ["replicas", "upToDateReplicas", "availableReplicas"]
        .iter()
        .all(|name| number(deployment, &format!("status.{name}")) == Some(replicas));
    if !is_complete || !is_observed(deployment) {
        return Vec::new();
    }
    let is_empty = |set: &Object| set.replicas() == Some(0) && set.status_replicas().unwrap_or_default() == 0;
    let is_unneeded = |draft: &&SetDraft| {
        let before = draft.before.as_deref();
        before.is_some_and(|set| !set.is_being_deleted() && is_empty(set) && is_observed(set)) && is_empty(&draft.after)
    };
    let mut unneeded: Vec<&SetDraft> = old.iter().filter(is_unneeded).collect();
    unneeded.sort_by_key(|set| (created(&set.after), set.after.name().to_owned()));
    unneeded
}

fn is_observed(object: &Object) -> bool {
    object.observed_generation() == object.generation()
}

//! The status of a MachineDeployment, and which sets it no longer needs (MA-26).

use serde_json::{Value, json};

use super::limits::Limits;
use super::sets::Draft;
use crate::lifecycle::conditions::{Condition, Status, get, is_false, put};
use crate::lifecycle::fields::{created, items, number, set, text};
use crate::lifecycle::machine_set::{COUNTERS, Scale, put_scaling, put_versions};
use golang::calendar::Moment;
use model::hub::Object;

/// Counters and versions: sums over the sets (MA-26.1).
pub(super) fn sum(after: &mut Object, sets: &[&Object]) {
    for name in COUNTERS {
        let path = format!("status.{name}");
        let sum: i64 = sets.iter().map(|set| number(set, &path).unwrap_or_default()).sum();
        set(after, &path, json!(sum));
    }
    let versions = sets.iter().flat_map(|set| items(set, "status.versions")).filter_map(|entry| {
        let version = entry.get("version")?.as_str()?.to_owned();
        Some((version, entry.get("replicas").and_then(Value::as_i64)?))
    });
    let versions: Vec<(String, i64)> = versions.collect();
    put_versions(after, versions);
}

/// `status.phase` (MA-26.2): `wanted` is absent when it cannot be read.
pub(super) fn put_phase(after: &mut Object, wanted: Option<i64>, there: i64) {
    let phase = match wanted {
        _ if after.is_being_deleted() => "ScalingDown",
        None => "Unknown",
        Some(wanted) if wanted > there => "ScalingUp",
        Some(wanted) if wanted < there => "ScalingDown",
        Some(_) => "Running",
    };
    set(after, "status.phase", json!(phase));
}

/// The condition `Available` (MA-26.3).
pub(super) fn put_available(after: &mut Object, limits: Option<Limits>, is_rolling: bool, now: Moment) {
    let available = number(after, "status.availableReplicas");
    let condition = match (limits, available) {
        (Some(limits), Some(available)) => {
            let least = if is_rolling { limits.min_available() } else { limits.replicas };
            let text = format!("{available} available replicas, at least {least} required");
            match available >= least {
                true => Condition::new(true, "Available", ""),
                false => Condition::new(false, "NotAvailable", text),
            }
        }
        _ => Condition::new(Status::Unknown, "AvailableUnknown", "The number of available replicas is not known"),
    };
    put(after, "Available", &condition, now);
}

/// The condition `RollingOut`: how many machines are outdated, and why (MA-26.4).
pub(super) fn put_rolling_out(after: &mut Object, machines: &[&Object], now: Moment) {
    let outdated: Vec<Condition> = machines
        .iter()
        .filter(|machine| is_false(machine, "UpToDate"))
        .filter_map(|machine| get(machine, "UpToDate"))
        .collect();
    let condition = if outdated.is_empty() {
        Condition::new(false, "NotRollingOut", "")
    } else {
        let mut reasons: Vec<&str> = outdated.iter().flat_map(|condition| condition.message.lines()).collect();
        reasons.sort_by_key(|line| (!line.starts_with("* Version "), *line));
        reasons.dedup();
        let head = format!("Rolling out {} not up-to-date replicas", outdated.len());
        let lines: Vec<&str> = [&*head].into_iter().chain(reasons).collect();
        Condition::new(true, "RollingOut", lines.join("\n"))
    };
    put(after, "RollingOut", &condition, now);
}

/// The conditions `ScalingUp` and `ScalingDown` (MA-26.5).
pub(super) fn put_scale(after: &mut Object, wanted: i64, there: i64, held: &[String], now: Moment) {
    let wanted = if after.is_being_deleted() { 0 } else { wanted };
    put_scaling(after, Scale { wanted, there }, held, now);
}

/// The old sets that a complete deployment no longer needs, the oldest first (MA-26.6).
pub(super) fn unneeded<'a>(deployment: &Object, replicas: i64, old: &'a [Draft]) -> Vec<&'a Draft> {
    let is_complete = ["replicas", "upToDateReplicas", "availableReplicas"]
        .iter()
        .all(|name| number(deployment, &format!("status.{name}")) == Some(replicas));
    if !is_complete || !is_observed(deployment) {
        return Vec::new();
    }
    let is_empty = |set: &Object| {
        number(set, "spec.replicas") == Some(0) && number(set, "status.replicas").unwrap_or_default() == 0
    };
    let is_unneeded = |draft: &&Draft| {
        let before = draft.before.as_deref();
        before.is_some_and(|set| !set.is_being_deleted() && is_empty(set) && is_observed(set)) && is_empty(&draft.after)
    };
    let mut unneeded: Vec<&Draft> = old.iter().filter(is_unneeded).collect();
    unneeded.sort_by_key(|set| (created(&set.after), text(&set.after, "metadata.name").to_owned()));
    unneeded
}

fn is_observed(object: &Object) -> bool {
    number(object, "status.observedGeneration") == number(object, "metadata.generation")
}

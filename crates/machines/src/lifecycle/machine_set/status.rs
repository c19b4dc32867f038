//! Common parts of the status of MachineSets and MachineDeployments (MA-18).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use core::time::Duration;

use serde_json::{Value, json};

use crate::lifecycle::conditions::{ConditionState, Reasons, aggregate, is_true, observe_generation, put, status};
use crate::lifecycle::fields::{created, remaining, set};
use golang::calendar::Moment;
use golang::version::KubeVersion;
use model::hub::{LabelSelector, Object, paths};

use super::remediation;

/// Maximum age of a machine without the condition `UpToDate` (MA-18.4).
const TIME_TO_REPORT: Duration = Duration::from_secs(10);

/// Counters of existing machines in the status (MA-18.1).
pub(in crate::lifecycle) const COUNTERS: [&str; 4] =
    ["replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"];

/// Counts the machines of a set (MA-18.1).
pub(super) fn count(after: &mut Object, machines: &[&Object]) {
    let count = |name: &str| machines.iter().filter(|machine| is_true(machine, name)).count();
    let numbers = [machines.len(), count("Ready"), count("Available"), count("UpToDate")];
    for (name, number) in COUNTERS.into_iter().zip(numbers) {
        set(after, &format!("status.{name}"), json!(number));
    }
}

/// Number of machines per version, lowest version first (MA-18.2).
pub(super) fn versions(machines: &[&Object]) -> Vec<(String, i64)> {
    let mut all: Vec<(&str, &Object)> = machines.iter().map(|machine| (version(machine), *machine)).collect();
    all.retain(|(version, _)| !version.is_empty());
    if all.iter().any(|(version, _)| all.first().is_some_and(|(first, _)| version != first)) {
        all.sort_by_cached_key(|(_, machine)| (created(machine), machine.name()));
    }
    let mut counted: Vec<(String, i64)> = Vec::new();
    for (version, _) in all {
        match counted.iter_mut().find(|(known, _)| known == version) {
            Some((_, count)) => *count += 1,
            None => counted.push((version.to_owned(), 1)),
        }
    }
    counted
}

/// The kubelet's version, else the desired one.
fn version(machine: &Object) -> &str {
    match machine.kubelet_version() {
        "" => machine.version(),
        version => version,
    }
}

/// Sorts and merges versions, and writes them to the status; incomparable ones keep their order.
pub(in crate::lifecycle) fn put_versions(after: &mut Object, counted: impl IntoIterator<Item = (String, i64)>) {
    let mut merged: Vec<(String, i64)> = Vec::new();
    for (version, count) in counted {
        match merged.iter_mut().find(|(known, _)| *known == version) {
            Some((_, known)) => *known += count,
            None => merged.push((version, count)),
        }
    }
    merged.sort_by(|(a, _), (b, _)| precedence(a, b));
    let entries: Vec<Value> =
        merged.into_iter().map(|(version, replicas)| json!({"version": version, "replicas": replicas})).collect();
    let value = if entries.is_empty() { Value::Null } else { Value::Array(entries) };
    set(after, paths::status::VERSIONS, value);
}

fn precedence(a: &str, b: &str) -> Ordering {
    match (KubeVersion::parse_tolerant(a), KubeVersion::parse_tolerant(b)) {
        (Ok(a), Ok(b)) => a.precedence(&b),
        _ => Ordering::Equal,
    }
}

/// A selector as text, for the scale subresource.
pub(in crate::lifecycle) fn selector_text(selector: &LabelSelector) -> String {
    let labels: BTreeMap<&str, &str> = selector.match_labels.iter().collect();
    let mut parts: Vec<String> = labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    for expression in &*selector.match_expressions {
        let key = &expression.key;
        let values = || expression.values.iter().map(|value| &**value).collect::<Vec<_>>().join(",");
        parts.push(match &*expression.operator {
            "In" => format!("{key} in ({})", values()),
            "NotIn" => format!("{key} notin ({})", values()),
            "DoesNotExist" => format!("!{key}"),
            _ => key.clone(),
        });
    }
    parts.join(",")
}

/// Existing and desired number of machines.
#[derive(Clone, Copy, Debug)]
pub(in crate::lifecycle) struct ReplicaCount {
    pub(in crate::lifecycle) wanted: i64,
    pub(in crate::lifecycle) there: i64,
}

/// The conditions `ScalingUp` and `ScalingDown` (MA-18.4, MA-26.5). `held` are reasons for not creating machines.
pub(in crate::lifecycle) fn put_scaling(after: &mut Object, scale: ReplicaCount, held: &[String], now: Moment) {
    let ReplicaCount { wanted, there } = scale;
    let lines: Vec<String> = held.iter().map(|line| format!("* {line}")).collect();
    let up = if there < wanted {
        let change = format!("Scaling up from {there} to {wanted} replicas");
        let text =
            if lines.is_empty() { change } else { format!("{change} is blocked because:\n{}", lines.join("\n")) };
        ConditionState::new(true, "ScalingUp", text)
    } else {
        let text = if lines.is_empty() {
            String::new()
        } else {
            format!("Scaling up would be blocked because:\n{}", lines.join("\n"))
        };
        ConditionState::new(false, "NotScalingUp", text)
    };
    let down = match there > wanted {
        true => ConditionState::new(true, "ScalingDown", format!("Scaling down from {there} to {wanted} replicas")),
        false => ConditionState::new(false, "NotScalingDown", ""),
    };
    put(after, "ScalingUp", &up, now);
    put(after, "ScalingDown", &down, now);
}

/// The conditions aggregated over machines: `MachinesReady`, `MachinesUpToDate` and `Remediating`; returns when the
/// next ignored machine will count (MA-18.4).
pub(in crate::lifecycle) fn put_machines(after: &mut Object, machines: &[&Object], now: Moment) -> Option<Duration> {
    let too_young = |machine: &Object| match status(machine, "UpToDate") {
        Some(_) => None,
        None => created(machine).and_then(|created| remaining(created, TIME_TO_REPORT, now)),
    };
    let ready = merged(machines, "Ready", ["NotReady", "ReadyUnknown", "Ready"]);
    let mut again: Option<Duration> = None;
    let mut has_grown = |machine: &&Object| {
        let left = too_young(machine);
        again = again.into_iter().chain(left).min();
        left.is_none()
    };
    let grown: Vec<&Object> = machines.iter().copied().filter(&mut has_grown).collect();
    let up_to_date = merged(&grown, "UpToDate", ["NotUpToDate", "UpToDateUnknown", "UpToDate"]);
    put(after, "MachinesReady", &ready, now);
    put(after, "MachinesUpToDate", &up_to_date, now);
    put(after, "Remediating", &remediation::condition(machines.iter().copied()), now);
    again
}

fn merged(machines: &[&Object], source: &str, reasons: Reasons<'_>) -> ConditionState {
    match machines {
        [] => ConditionState::new(true, "NoReplicas", ""),
        machines => aggregate(machines.iter().copied(), source, false, reasons),
    }
}

/// The condition `Deleting` with what the deletion waits for.
pub(in crate::lifecycle) fn put_deleting(after: &mut Object, waits_for: &str, now: Moment) {
    let condition = match after.is_being_deleted() {
        true => ConditionState::new(true, "Deleting", waits_for),
        false => ConditionState::new(false, "NotDeleting", ""),
    };
    put(after, "Deleting", &condition, now);
}

/// Records the observed generation if nothing failed (MA-1.9).
pub(in crate::lifecycle) fn observe(after: &mut Object, errors: &[String]) {
    if errors.is_empty() {
        observe_generation(after);
    }
}

/// A list of at most three names.
pub(in crate::lifecycle) fn names<'a>(all: impl IntoIterator<Item = &'a Object>) -> String {
    const SHOWN: usize = 3;
    let names: Vec<&str> = all.into_iter().map(Object::name).collect();
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}, ... ({more} more)"),
    }
}

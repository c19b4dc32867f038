//! Conditions: setting, mirroring from other objects, and merging (MA-13, MA-14, CT-15.8 to CT-15.11).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde_json::{Value, json};

pub use super::condition_status::ConditionStatus;
use super::condition_status::type_of;
use super::digest::digest;
use super::fields::{list_mut, set, stamp};
use golang::calendar::Moment;
use model::hub::{Object, condition, paths};

/// Order of the first conditions of an object (MA-13.2).
const FIRST: [&str; 35] = [
    "Available",
    "Ready",
    "UpToDate",
    "RemoteConnectionProbe",
    "BootstrapConfigReady",
    "InfrastructureReady",
    "ControlPlaneInitialized",
    "ControlPlaneAvailable",
    "WorkersAvailable",
    "CertificatesAvailable",
    "Initialized",
    "EtcdClusterHealthy",
    "ControlPlaneComponentsHealthy",
    "NodeHealthy",
    "NodeReady",
    "NodeKubeadmLabelsAndTaintsSet",
    "EtcdPodHealthy",
    "EtcdMemberHealthy",
    "APIServerPodHealthy",
    "ControllerManagerPodHealthy",
    "SchedulerPodHealthy",
    "HealthCheckSucceeded",
    "OwnerRemediated",
    "TopologyReconciled",
    "Updating",
    "RollingOut",
    "Remediating",
    "ScalingDown",
    "ScalingUp",
    "MachinesReady",
    "ControlPlaneMachinesReady",
    "WorkerMachinesReady",
    "MachinesUpToDate",
    "ControlPlaneMachinesUpToDate",
    "WorkerMachinesUpToDate",
];
/// Order of the last conditions.
const LAST: [&str; 2] = ["Paused", "Deleting"];
/// The end of the message of a condition that another object does not have yet.
pub const NOT_YET_REPORTED: &str = "not yet reported";
/// Reason of the condition `Deleting` when only the finalizer of a Cluster or a Machine is left, and of the event then.
pub(super) const DELETION_COMPLETED: &str = "DeletionCompleted";
/// How many different messages an aggregate shows, and how many names with each (MA-14.5).
const SHOWN: usize = 3;

/// A condition without its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionState {
    pub status: ConditionStatus,
    pub reason: String,
    pub message: String,
    /// Time of the last transition as reported by another object; `None` means now.
    pub since: Option<String>,
}

impl ConditionState {
    /// A condition with a transition now.
    pub fn new(status: impl Into<ConditionStatus>, reason: impl Into<String>, message: impl Into<String>) -> Self {
        ConditionState { status: status.into(), reason: reason.into(), message: message.into(), since: None }
    }

    /// The condition with texts that an API server accepts. Texts from providers, Nodes and errors are arbitrary
    /// (DEC-64).
    fn storable(&self) -> Cow<'_, ConditionState> {
        let (reason, message) =
            (condition::reason(&self.reason), condition::message(&self.message, condition::MESSAGE));
        if reason == self.reason && message == self.message {
            return Cow::Borrowed(self);
        }
        Cow::Owned(ConditionState { reason: reason.to_owned(), message: message.into_owned(), ..self.clone() })
    }

    fn read(entry: &Value) -> Option<ConditionState> {
        Some(ConditionState {
            status: ConditionStatus::from_value(entry.get("status"))?,
            reason: text_of(entry, "reason").to_owned(),
            message: text_of(entry, "message").to_owned(),
            since: Some(text_of(entry, "lastTransitionTime").to_owned()).filter(|text| !text.is_empty()),
        })
    }
}

/// The entry of a condition in the v1beta2 form.
fn entry<'a>(object: &'a Object, name: &str) -> Option<&'a Value> {
    digest(object).entry(object, name)
}

/// The same without a digest, which the next change would drop.
fn listed<'a>(object: &'a Object, name: &str) -> Option<&'a Value> {
    object.conditions().iter().find(|entry| type_of(entry) == Some(name))
}

/// A string member of an entry; empty if absent.
fn text_of<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether an entry equals the one that [`put`] would write: with its transition time, since its status is unchanged.
fn is_as_written(entry: &Value, wanted: &ConditionState, generation: Option<&Value>) -> bool {
    let has = |name: &str, text: &str| entry.get(name).is_some_and(|known| known == text);
    let members = 5 + usize::from(generation.is_some());
    entry.as_object().is_some_and(|entry| entry.len() == members)
        && has("status", wanted.status.name())
        && has("reason", &wanted.reason)
        && has("message", &wanted.message)
        && entry.get("observedGeneration") == generation
        && entry.get("lastTransitionTime").and_then(Value::as_str).is_some_and(|time| !time.is_empty())
}

/// A condition of an object in the v1beta2 form.
pub fn get(object: &Object, name: &str) -> Option<ConditionState> {
    ConditionState::read(entry(object, name)?)
}

/// The status of a condition, if present.
pub fn status(object: &Object, name: &str) -> Option<ConditionStatus> {
    digest(object).status(object, name)
}

/// Whether a condition is true.
pub fn is_true(object: &Object, name: &str) -> bool {
    status(object, name) == Some(ConditionStatus::True)
}

/// Whether a condition is false.
pub fn is_false(object: &Object, name: &str) -> bool {
    status(object, name) == Some(ConditionStatus::False)
}

/// The reason of a condition; empty if absent.
pub fn reason(object: &Object, name: &str) -> String {
    get(object, name).map(|condition| condition.reason).unwrap_or_default()
}

/// The message of a condition; empty if absent.
pub(super) fn message<'a>(object: &'a Object, name: &str) -> &'a str {
    entry(object, name).map(|entry| text_of(entry, "message")).unwrap_or_default()
}

/// The last transition time of a condition.
pub fn since(object: &Object, name: &str) -> Option<Moment> {
    let entry = entry(object, name)?;
    ConditionStatus::from_value(entry.get("status"))?;
    Moment::parse(text_of(entry, "lastTransitionTime"))
}

/// Sets a condition, keeping its transition time if the status is unchanged, and sorts all conditions (MA-13.1,
/// MA-13.2). Texts that an API server would reject are adapted (DEC-64).
pub fn put(object: &mut Object, name: &str, wanted: &ConditionState, now: Moment) {
    let wanted = &*wanted.storable();
    if listed(object, name).is_some_and(|entry| is_as_written(entry, wanted, object.at(paths::metadata::GENERATION))) {
        return;
    }
    let generation = object.at(paths::metadata::GENERATION).cloned();
    let same =
        listed(object, name).filter(|known| ConditionStatus::from_value(known.get("status")) == Some(wanted.status));
    let same = same.map(|known| text_of(known, "lastTransitionTime")).filter(|time| !time.is_empty());
    let given = || wanted.since.as_deref().and_then(Moment::parse);
    let since = same.map_or_else(|| stamp(given().unwrap_or(now)), Value::from);
    let mut entry = json!({
        "type": name,
        "status": wanted.status.name(),
        "reason": wanted.reason,
        "message": wanted.message,
        "lastTransitionTime": since,
    });
    if let Some(generation) = generation {
        entry["observedGeneration"] = generation;
    }
    let all = list_mut(object, "status", "conditions");
    match all.iter_mut().find(|one| type_of(one) == Some(name)) {
        Some(known) => *known = entry,
        None => all.push(entry),
    }
    if !all.is_sorted_by_key(rank) {
        all.sort_by(|one, other| rank(one).cmp(&rank(other)));
    }
}

/// Removes a condition.
pub fn remove(object: &mut Object, name: &str) {
    if status(object, name).is_some() {
        list_mut(object, "status", "conditions").retain(|one| type_of(one) != Some(name));
    }
}

/// The sort key of a condition.
fn rank(entry: &Value) -> (usize, &str) {
    static PLACES: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
        let last = LAST.into_iter().enumerate().map(|(at, name)| (name, FIRST.len() + 1 + at));
        FIRST.into_iter().enumerate().map(|(at, name)| (name, at)).chain(last).collect()
    });
    let name = type_of(entry).unwrap_or_default();
    (PLACES.get(name).copied().unwrap_or(FIRST.len()), name)
}

/// Values of a mirrored condition if the source does not have it (CT-15.10).
#[derive(Clone, Copy, Debug)]
pub struct Fallback<'a> {
    /// The flag of the contract.
    pub flag: bool,
    /// The path of the flag in the newer contract.
    pub path: &'a str,
    /// Reasons of a true and of a false condition.
    pub reasons: (&'a str, &'a str),
}

/// A condition of another object, mirrored in this one (CT-15.8 to CT-15.11).
pub fn mirror(source: &Object, name: &str, fallback: Fallback<'_>) -> ConditionState {
    let Fallback { flag, path, reasons: (good, bad) } = fallback;
    let newer = source.at(paths::status::V1BETA2_CONDITIONS);
    let list = match newer.or_else(|| source.at(paths::status::CONDITIONS)) {
        None => &[],
        Some(Value::Array(list)) => list.as_slice(),
        Some(_) => return invalid(source),
    };
    let is_readable =
        |entry: &Value| type_of(entry).is_some() && ConditionStatus::from_value(entry.get("status")).is_some();
    if !list.iter().all(is_readable) {
        return invalid(source);
    }
    let Some(entry) = list.iter().find(|entry| type_of(entry) == Some(name)) else {
        let message = if flag { String::new() } else { format!("{} {path} is false", source.kind()) };
        return ConditionState::new(flag, if flag { good } else { bad }, message);
    };
    let Some(mut found) = ConditionState::read(entry) else { return invalid(source) };
    if found.reason.is_empty() {
        found.reason = if found.status == ConditionStatus::True { good } else { "NoReasonReported" }.to_owned();
    }
    found
}

fn invalid(source: &Object) -> ConditionState {
    let message = format!("{} {} reports conditions that cannot be read", source.kind(), source.name());
    ConditionState::new(ConditionStatus::Unknown, "InvalidConditionReported", message)
}

/// A condition of a summary.
#[derive(Clone, Copy, Debug)]
pub struct SummaryPart<'a> {
    pub name: &'a str,
    /// Whether true is bad.
    pub is_negative: bool,
    /// Whether a missing condition is ignored.
    pub is_ignorable: bool,
}

impl<'a> SummaryPart<'a> {
    /// A condition that should be true.
    pub const fn positive(name: &'a str) -> Self {
        SummaryPart { name, is_negative: false, is_ignorable: false }
    }

    /// A condition that should be false.
    pub const fn negative(name: &'a str) -> Self {
        SummaryPart { name, is_negative: true, is_ignorable: false }
    }

    /// Ignores the condition if it is missing.
    #[must_use]
    pub(crate) const fn ignorable(self) -> Self {
        SummaryPart { is_ignorable: true, ..self }
    }
}

/// Severity of a condition (MA-14.1), worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    Issue,
    Unknown,
    Info,
}

fn priority(status: ConditionStatus, is_negative: bool) -> Priority {
    match (status, is_negative) {
        (ConditionStatus::Unknown, _) => Priority::Unknown,
        (ConditionStatus::False, false) | (ConditionStatus::True, true) => Priority::Issue,
        _ => Priority::Info,
    }
}

/// The status of a merged condition (MA-14.2).
fn merged(worst: Priority, is_negative: bool) -> ConditionStatus {
    match (worst, is_negative) {
        (Priority::Unknown, _) => ConditionStatus::Unknown,
        (Priority::Issue, false) | (Priority::Info, true) => ConditionStatus::False,
        (Priority::Info, false) | (Priority::Issue, true) => ConditionStatus::True,
    }
}

/// Reasons of a merged condition by its worst part: issue, unknown, info (MA-14.3).
pub type Reasons<'a> = [&'a str; 3];

/// Default reasons of merged conditions (MA-14.3).
pub(crate) const REPORTED: Reasons<'static> = ["IssuesReported", "UnknownReported", "InfoReported"];

const fn pick(reasons: Reasons<'_>, worst: Priority) -> &str {
    let [issue, unknown, info] = reasons;
    match worst {
        Priority::Issue => issue,
        Priority::Unknown => unknown,
        Priority::Info => info,
    }
}

/// Merges several conditions of an object (MA-14.4). `change` may adjust priority and message of a part before it is
/// merged.
pub fn summary(
    object: &Object,
    parts: &[SummaryPart<'_>],
    reasons: Reasons<'_>,
    change: impl Fn(&str, &mut ConditionState, &mut Priority),
) -> ConditionState {
    let mut found: Vec<(&str, Priority, ConditionState)> = Vec::new();
    for part in parts {
        let known = get(object, part.name);
        if known.is_none() && part.is_ignorable {
            continue;
        }
        let missing = || {
            let message = format!("Condition {} {NOT_YET_REPORTED}", part.name);
            ConditionState::new(ConditionStatus::Unknown, "NotYetReported", message)
        };
        let mut condition = known.unwrap_or_else(missing);
        let mut priority = priority(condition.status, part.is_negative);
        change(part.name, &mut condition, &mut priority);
        found.push((part.name, priority, condition));
    }
    let worst = found.iter().map(|(_, priority, _)| *priority).min().unwrap_or(Priority::Info);
    let status = merged(worst, false);
    let is_shown = |priority: Priority, condition: &ConditionState| match priority {
        Priority::Info => status == ConditionStatus::True && !condition.message.is_empty(),
        _ => true,
    };
    let lines = found.iter().filter(|(_, priority, condition)| is_shown(*priority, condition));
    let lines = lines.map(|(name, _, condition)| {
        let text = if condition.message.is_empty() { &condition.reason } else { &condition.message };
        bullet(name, text)
    });
    ConditionState::new(status, pick(reasons, worst), lines.collect::<Vec<_>>().join("\n"))
}

/// `* name: text`; a text with several lines or bullets is indented below the name (MA-14.6).
pub(crate) fn bullet(name: &str, text: &str) -> String {
    if !text.contains('\n') && !text.starts_with("* ") {
        return format!("* {name}: {text}");
    }
    let has_bullets = text.lines().any(|line| line.trim_start().starts_with("* "));
    let line = |line: &str| match has_bullets && !line.trim_start().starts_with("* ") {
        true => format!("  * {line}"),
        false => format!("  {line}"),
    };
    let lines: Vec<String> = text.lines().map(line).collect();
    format!("* {name}:\n{}", lines.join("\n"))
}

/// Merges a condition of many objects (MA-14.5): `source` of each object, whose meaning may be negative. A missing
/// condition counts as unknown.
pub fn aggregate<'a>(
    objects: impl IntoIterator<Item = &'a Object>,
    source: &str,
    is_negative: bool,
    reasons: Reasons<'_>,
) -> ConditionState {
    let missing = format!("Condition {source} {NOT_YET_REPORTED}");
    let mut messages: BTreeMap<(&str, &str), Reporters<'_>> = BTreeMap::new();
    let mut worst = Priority::Info;
    for object in objects {
        let status = status(object, source);
        let priority = priority(status.unwrap_or(ConditionStatus::Unknown), is_negative);
        worst = worst.min(priority);
        let has_message = digest(object).has_message(object, source);
        let text = match status {
            None => &missing,
            // It is never shown, and nearly all objects are like this.
            Some(_) if !has_message && priority == Priority::Info => continue,
            Some(_) => {
                let member = if has_message { "message" } else { "reason" };
                entry(object, source).map(|entry| text_of(entry, member)).unwrap_or_default()
            }
        };
        let entry = messages.entry((object.kind(), text)).or_insert_with(|| Reporters::new(priority));
        entry.add(object, priority);
    }
    messages.values_mut().for_each(|reporters| reporters.names.sort_unstable());
    let status = merged(worst, is_negative);
    let is_shown = |message: &str, reporters: &Reporters<'_>| match reporters.priority {
        Priority::Info => worst == Priority::Info && !message.is_empty(),
        _ => true,
    };
    let mut shown: Vec<(&(&str, &str), &Reporters<'_>)> =
        messages.iter().filter(|((_, message), reporters)| is_shown(message, reporters)).collect();
    shown.sort_by_cached_key(|((kind, _), reporters)| (*kind, reporters.order()));
    let mut lines: Vec<String> =
        shown.iter().take(SHOWN).map(|((kind, message), reporters)| bullet(&reporters.names(kind), message)).collect();
    lines.extend(left_over(shown.get(SHOWN..).unwrap_or_default(), source));
    ConditionState::new(status, pick(reasons, worst), lines.join("\n"))
}

/// Lines that count the objects whose messages are not shown, by severity.
fn left_over(hidden: &[(&(&str, &str), &Reporters<'_>)], source: &str) -> Vec<String> {
    let count = |priority: Priority| -> usize {
        hidden.iter().filter(|(_, it)| it.priority == priority).map(|(_, it)| it.names.len()).sum()
    };
    let line = |(priority, what): (Priority, &str)| {
        let count = count(priority);
        (count > 0).then(|| format!("And {count} more objects with {what} {source}"))
    };
    [(Priority::Issue, "issues in"), (Priority::Unknown, "unknown"), (Priority::Info, "info in")]
        .into_iter()
        .filter_map(line)
        .collect()
}

/// Objects with the same message.
struct Reporters<'a> {
    priority: Priority,
    /// Whether each is not a control plane machine, and its name, so that control plane machines sort first.
    names: Vec<(bool, &'a str)>,
}

impl<'a> Reporters<'a> {
    fn new(priority: Priority) -> Self {
        Reporters { priority, names: Vec::new() }
    }

    fn add(&mut self, object: &'a Object, priority: Priority) {
        let is_worker = !digest(object).is_of_control_plane(object);
        self.priority = self.priority.min(priority);
        self.names.push((is_worker, object.name()));
    }

    /// Sort key: control plane machines first, then severity, number, and name.
    fn order(&self) -> (bool, Priority, std::cmp::Reverse<usize>, String) {
        let names: Vec<&str> = self.names.iter().map(|(_, name)| *name).collect();
        let is_worker = self.names.first().is_none_or(|(is_worker, _)| *is_worker);
        (is_worker, self.priority, std::cmp::Reverse(names.len()), names.join(","))
    }

    fn names(&self, kind: &str) -> String {
        let shown: Vec<&str> = self.names.iter().take(SHOWN).map(|(_, name)| *name).collect();
        let plural = if self.names.len() > 1 { "s" } else { "" };
        let more = match self.names.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(", ... ({more} more)"),
        };
        format!("{kind}{plural} {}{more}", shown.join(", "))
    }
}

/// Records the observed generation of a successful step (MA-1.9).
pub(crate) fn observe_generation(object: &mut Object) {
    if let Some(generation) = object.at(paths::metadata::GENERATION).cloned() {
        set(object, paths::status::OBSERVED_GENERATION, generation);
    }
}

/// Sets the condition `Paused` (CT-15.12); returns whether its status changed, in which case the step ends.
pub(crate) fn put_paused(object: &mut Object, cause: Option<&str>, now: Moment) -> bool {
    let before = status(object, "Paused");
    let wanted = match cause {
        Some(cause) => ConditionState::new(true, "Paused", cause),
        None => ConditionState::new(false, "NotPaused", ""),
    };
    put(object, "Paused", &wanted, now);
    before != Some(wanted.status)
}

/// The value of `status.phase`, for display.
pub fn phase(object: &Object) -> &str {
    object.phase()
}

#[cfg(test)]
mod tests;

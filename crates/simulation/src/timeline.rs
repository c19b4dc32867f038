//! Timeline of a simulation: events, and numbers of machines.

use std::collections::BTreeMap;
use std::fmt;

use engine::topology::holds::HeldPart;
use engine::topology::plan::{PlanStep, StepAction, TopologyPart};
use golang::calendar::{Moment, SECOND};
use machines::lifecycle::conditions::{self, ConditionStatus};
use machines::lifecycle::objects::cluster_of;
use machines::lifecycle::simulator::StoredChange;
use machines::lifecycle::{PoolInstance, instances};
use model::hub::{Object, ObjectKey, paths};

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineEvent {
    /// Seconds since the beginning.
    pub t: i64,
    pub kind: String,
    pub name: String,
    pub change: TimelineChange,
    /// The reason; empty if it follows from earlier events.
    pub because: String,
}

/// The change of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimelineChange {
    Created,
    Changed,
    /// A template is replaced by a new one.
    Replaced,
    /// A plan deletes the object.
    Deleted,
    /// A change of the object is held.
    Waits,
    /// The object no longer exists.
    Gone,
    Running,
    Failed,
    Deleting,
    /// Another phase.
    Phase(String),
}

impl TimelineChange {
    /// The change to a phase.
    fn from_phase(phase: &str) -> Self {
        match phase {
            "Running" => TimelineChange::Running,
            "Failed" => TimelineChange::Failed,
            "Deleting" => TimelineChange::Deleting,
            other => TimelineChange::Phase(other.to_owned()),
        }
    }
}

impl From<StepAction> for TimelineChange {
    fn from(action: StepAction) -> Self {
        match action {
            StepAction::Create => TimelineChange::Created,
            StepAction::Apply => TimelineChange::Changed,
            StepAction::Rotate => TimelineChange::Replaced,
            StepAction::Delete => TimelineChange::Deleted,
        }
    }
}

impl fmt::Display for TimelineChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimelineChange::Created => "created",
            TimelineChange::Changed => "changed",
            TimelineChange::Replaced => "replaced",
            TimelineChange::Deleted => "deleted",
            TimelineChange::Waits => "waits",
            TimelineChange::Gone => "gone",
            TimelineChange::Running => "Running",
            TimelineChange::Failed => "Failed",
            TimelineChange::Deleting => "Deleting",
            TimelineChange::Phase(phase) => phase,
        })
    }
}

/// Lifetime of a machine, in seconds since the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSpan {
    pub version: String,
    /// Topology name of its machine deployment or pool, or the name of its owner.
    pub owner: String,
    pub is_control_plane: bool,
    /// `None` if the machine existed at the beginning.
    pub made: Option<i64>,
    /// 0 if the machine was already running at the beginning.
    pub running: Option<i64>,
    pub gone: Option<i64>,
}

/// The timeline of one Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterTimeline {
    pub events: Vec<TimelineEvent>,
    pub machines: BTreeMap<String, MachineSpan>,
    /// Number of machines it has ever had, including before the beginning: the highest number that an injected failure
    /// can refer to.
    pub machines_ever: usize,
    pub current_machines: usize,
    pub peak_machines: usize,
    /// Held changes with start and end.
    pub holds: Vec<HeldSpan>,
    /// Time of the last event.
    pub last: i64,
    /// Whether the Cluster has been deleted.
    pub is_gone: bool,
}

/// A period in which a change was held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSpan {
    pub kind: String,
    pub name: String,
    pub reason: String,
    pub from: i64,
    pub until: Option<i64>,
}

/// The timelines of all Clusters.
#[derive(Clone, Debug)]
pub struct Timeline {
    began: Moment,
    pub clusters: BTreeMap<ObjectKey, ClusterTimeline>,
    /// Current and maximum number of machines of all Clusters.
    current_machines: usize,
    pub peak_machines: usize,
}

impl Timeline {
    /// An empty timeline that starts at a time.
    pub fn new(began: Moment) -> Self {
        Timeline { began, clusters: BTreeMap::new(), current_machines: 0, peak_machines: 0 }
    }

    /// Merges the timelines of Clusters that were simulated separately, with the same beginning.
    pub fn merge(clusters: BTreeMap<ObjectKey, ClusterTimeline>) -> Self {
        let mut changes: BTreeMap<i64, (usize, usize)> = BTreeMap::new();
        for machine in clusters.values().flat_map(|cluster| cluster.machines.values()) {
            changes.entry(machine.made.unwrap_or(0)).or_default().1 += 1;
            if let Some(gone) = machine.gone {
                changes.entry(gone).or_default().0 += 1;
            }
        }
        // A deleted machine makes room for one created in the same second.
        let (mut now, mut peak) = (0_usize, 0);
        for (gone, made) in changes.into_values() {
            now = now.saturating_sub(gone) + made;
            peak = peak.max(now);
        }
        let peak = clusters.values().map(|cluster| cluster.peak_machines).fold(peak, usize::max);
        Timeline { began: Moment { seconds: 0, nanos: 0 }, clusters, current_machines: now, peak_machines: peak }
    }

    /// Resets the counts.
    pub fn restart(&mut self, now: Moment) {
        self.began = now;
        self.peak_machines = self.current_machines;
        // A deleted Cluster has no machines and no further events.
        self.clusters.retain(|_, timeline| !timeline.is_gone);
        for timeline in self.clusters.values_mut() {
            let (current, ever) = (timeline.current_machines, timeline.machines_ever);
            let mut machines = std::mem::take(&mut timeline.machines);
            machines.retain(|_, machine| machine.gone.is_none());
            for machine in machines.values_mut() {
                machine.made = None;
                machine.running = machine.running.map(|_| 0);
            }
            *timeline = ClusterTimeline {
                machines,
                machines_ever: ever,
                current_machines: current,
                peak_machines: current,
                ..ClusterTimeline::default()
            };
        }
    }

    /// Seconds since the beginning.
    pub fn seconds(&self, now: Moment) -> i64 {
        now.since(self.began).map_or(0, |nanos| nanos / SECOND)
    }

    pub(super) fn note(&mut self, change: &StoredChange, now: Moment) {
        let t = self.seconds(now);
        let StoredChange { id, before, after } = change;
        let Some(object) = after.as_ref().or(before.as_ref()) else { return };
        if id.workload.is_some() {
            return;
        }
        if id.kind.is_core("Cluster") {
            self.clusters.entry(id.key.clone()).or_default().note_phase(t, before.as_deref(), after.as_deref());
        } else if id.kind.is_core("Machine")
            && let Some(cluster) = cluster_of(object)
        {
            let timeline = self.clusters.entry(cluster).or_default();
            timeline.note_machine(t, before.as_deref(), after.as_deref());
            match (before, after) {
                (None, Some(_)) => self.current_machines += 1,
                (Some(_), None) => self.current_machines = self.current_machines.saturating_sub(1),
                _ => {}
            }
            self.peak_machines = self.peak_machines.max(self.current_machines);
        } else {
            self.note_instances(t, object, [before.as_deref(), after.as_deref()]);
        }
    }

    /// Instances of a pool, which have no Machines.
    fn note_instances(&mut self, t: i64, pool: &Object, [before, after]: [Option<&Object>; 2]) {
        let of = |object: Option<&Object>| object.map(instances).unwrap_or_default();
        let (before, after) = (of(before), of(after));
        if before == after {
            return;
        }
        let Some(cluster) = cluster_of(pool) else { return };
        self.clusters.entry(cluster).or_default().note_instances(t, &owner_of(pool), &before, &after);
        self.current_machines = (self.current_machines + after.len()).saturating_sub(before.len());
        self.peak_machines = self.peak_machines.max(self.current_machines);
    }

    pub(super) fn note_step(&mut self, cluster: &ObjectKey, step: &PlanStep, now: Moment) {
        let t = self.seconds(now);
        if step.part == TopologyPart::Cluster {
            return;
        }
        let (kind, name) = (step.object.kind.clone(), step.object.key.name.clone());
        let timeline = self.clusters.entry(cluster.clone()).or_default();
        timeline.push(TimelineEvent { t, kind, name, change: step.action.into(), because: reason_of(step) });
    }

    pub(super) fn note_held(&mut self, cluster: &ObjectKey, held: &[HeldPart], now: Moment) {
        let t = self.seconds(now);
        let timeline = self.clusters.entry(cluster.clone()).or_default();
        let held: Vec<HeldSpan> = held.iter().map(|one| HeldSpan::since(t, one)).collect();
        let is_same = |span: &HeldSpan, one: &HeldSpan| {
            (&span.kind, &span.name, &span.reason) == (&one.kind, &one.name, &one.reason)
        };
        for span in timeline.holds.iter_mut().filter(|span| span.until.is_none()) {
            if !held.iter().any(|one| is_same(span, one)) {
                span.until = Some(t);
            }
        }
        for one in held {
            if timeline.holds.iter().any(|span| span.until.is_none() && is_same(span, &one)) {
                continue;
            }
            timeline.push(TimelineEvent {
                t,
                kind: one.kind.clone(),
                name: one.name.clone(),
                change: TimelineChange::Waits,
                because: one.reason.clone(),
            });
            timeline.holds.push(one);
        }
    }
}

impl HeldSpan {
    /// A part that is held back from now on.
    fn since(from: i64, held: &HeldPart) -> Self {
        let HeldPart { kind, name, reason } = held;
        HeldSpan { kind: kind.clone(), name: name.clone(), reason: reason.to_string(), from, until: None }
    }
}

impl ClusterTimeline {
    fn push(&mut self, entry: TimelineEvent) {
        self.last = self.last.max(entry.t);
        self.events.push(entry);
    }

    fn note_phase(&mut self, t: i64, before: Option<&Object>, after: Option<&Object>) {
        let phase =
            |object: Option<&Object>| object.map(|object| conditions::phase(object).to_owned()).unwrap_or_default();
        let (was, is) = (phase(before), phase(after));
        let Some(object) = after.or(before) else { return };
        let change = match (before, after) {
            (Some(_), None) => {
                self.is_gone = true;
                self.holds.iter_mut().for_each(|span| span.until = span.until.or(Some(t)));
                TimelineChange::Gone
            }
            _ if was != is && !is.is_empty() => TimelineChange::from_phase(&is),
            _ => return,
        };
        let (kind, name) = ("Cluster".to_owned(), object.name().to_owned());
        self.push(TimelineEvent { t, kind, name, change, because: String::new() });
    }

    fn note_instances(&mut self, t: i64, owner: &str, before: &[PoolInstance], after: &[PoolInstance]) {
        let find = |all: &[PoolInstance], name: &str| all.iter().find(|one| one.name == name).cloned();
        for PoolInstance { name, version, runs } in after {
            let was = find(before, name);
            if was.is_none() {
                self.current_machines += 1;
                let span = MachineSpan {
                    version: version.clone(),
                    owner: owner.to_owned(),
                    made: Some(t),
                    ..MachineSpan::default()
                };
                self.machines.insert(name.clone(), span);
                self.push_machine(t, name, TimelineChange::Created, version);
            }
            if *runs && !was.is_some_and(|was| was.runs) {
                if let Some(span) = self.machines.get_mut(name) {
                    span.running.get_or_insert(t);
                }
                self.push_machine(t, name, TimelineChange::Running, "");
            }
        }
        for PoolInstance { name, .. } in before.iter().filter(|one| find(after, &one.name).is_none()) {
            self.current_machines = self.current_machines.saturating_sub(1);
            if let Some(span) = self.machines.get_mut(name) {
                span.gone = Some(t);
            }
            self.push_machine(t, name, TimelineChange::Gone, "");
        }
        self.peak_machines = self.peak_machines.max(self.current_machines);
    }

    fn push_machine(&mut self, t: i64, name: &str, change: TimelineChange, because: &str) {
        let (kind, name) = ("Machine".to_owned(), name.to_owned());
        self.push(TimelineEvent { t, kind, name, change, because: because.to_owned() });
    }

    fn note_machine(&mut self, t: i64, before: Option<&Object>, after: Option<&Object>) {
        let Some(object) = after.or(before) else { return };
        let phase =
            |object: Option<&Object>| object.map(|object| conditions::phase(object).to_owned()).unwrap_or_default();
        let (was, is) = (phase(before), phase(after));
        let name = object.name().to_owned();
        if before.is_none() {
            self.machines_ever += 1;
            self.current_machines += 1;
            self.peak_machines = self.peak_machines.max(self.current_machines);
            let version = object.version().to_owned();
            let span = MachineSpan {
                version: version.clone(),
                owner: owner_of(object),
                is_control_plane: object.label(model::hub::label::CONTROL_PLANE).is_some(),
                made: Some(t),
                ..MachineSpan::default()
            };
            self.machines.insert(name.clone(), span);
            self.push_machine(t, &name, TimelineChange::Created, &version);
        }
        let span = self.machines.entry(name.clone()).or_default();
        let change = match after {
            None => {
                self.current_machines = self.current_machines.saturating_sub(1);
                span.gone = Some(t);
                TimelineChange::Gone
            }
            Some(_) if was != is && !is.is_empty() => {
                if is == "Running" {
                    span.running.get_or_insert(t);
                }
                TimelineChange::from_phase(&is)
            }
            Some(_) => return,
        };
        // The Node of a machine is deleted with it, which makes the machine unhealthy too: the reason of the deletion
        // counts.
        let began =
            || self.events.iter().rev().find(|event| event.name == name && event.change == TimelineChange::Deleting);
        let because = match change {
            TimelineChange::Deleting => sickness(object).unwrap_or_default(),
            TimelineChange::Gone => began().map(|event| event.because.clone()).unwrap_or_default(),
            _ => String::new(),
        };
        self.push_machine(t, &name, change, &because);
    }
}

/// Message of a health check about an unhealthy machine.
fn sickness(machine: &Object) -> Option<String> {
    let found =
        conditions::get(machine, "HealthCheckSucceeded").filter(|found| found.status == ConditionStatus::False)?;
    Some(format!("unhealthy: {}", found.message.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// Maximum number of named changed fields.
const FIELDS: usize = 3;

/// The reason of a step; for a change in place, the version or the changed fields. Other values may be secret (DEC-34).
fn reason_of(step: &PlanStep) -> String {
    let text = |value: &Option<serde_json::Value>| value.as_ref().and_then(|it| it.as_str().map(str::to_owned));
    let version = step.changes.iter().find(|change| change.path.ends_with(paths::VERSION) && !change.is_sensitive);
    if let Some((from, to)) = version.and_then(|change| Some((text(&change.from)?, text(&change.to)?))) {
        return format!("version {from} → {to}");
    }
    if step.action != StepAction::Apply || step.changes.is_empty() {
        return step.reason.clone();
    }
    let mut fields: Vec<&str> = step.changes.iter().map(|change| &*change.path).collect();
    fields.dedup();
    let more = fields.len().saturating_sub(FIELDS);
    fields.truncate(FIELDS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", fields.join(", "))
}

/// Owner of a machine: its worker set in the topology, its machine deployment, or its controller.
pub(super) fn owner_of(machine: &Object) -> String {
    use model::hub::label::{DEPLOYMENT_NAME, MACHINE_DEPLOYMENT_NAME, POOL_NAME};
    let named =
        [DEPLOYMENT_NAME, POOL_NAME, MACHINE_DEPLOYMENT_NAME].into_iter().find_map(|label| machine.label(label));
    let mut owners = machine.owner_references().iter();
    let controller = owners.find_map(|owner| owner.get("name")?.as_str());
    named.or(controller).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use engine::topology::holds::HeldReason;
    use machines::lifecycle::ObjectId;

    const START: Moment = Moment { seconds: 1_000, nanos: 0 };

    fn at(t: i64) -> Moment {
        Moment { seconds: 1_000 + t, nanos: 0 }
    }

    fn machine(name: &str, phase: &str) -> Object {
        let labels =
            json!({"cluster.x-k8s.io/cluster-name": "blue", "topology.cluster.x-k8s.io/deployment-name": "workers"});
        let machine = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"namespace": "default", "name": name, "labels": labels},
            "spec": {"version": "v1.34.0"},
            "status": {"phase": phase},
        });
        Object::try_from(machine).unwrap()
    }

    fn note(timeline: &mut Timeline, t: i64, before: Option<Object>, after: Option<Object>) {
        let id = ObjectId::for_object(after.as_ref().or(before.as_ref()).unwrap());
        timeline.note(&StoredChange { id, before: before.map(Arc::new), after: after.map(Arc::new) }, at(t));
    }

    fn held(reason: &str) -> HeldPart {
        let reason = HeldReason::Condition { message: reason.to_owned() };
        HeldPart { kind: "MachineDeployment".to_owned(), name: "workers".to_owned(), reason }
    }

    fn key() -> ObjectKey {
        ObjectKey::new("default", "blue")
    }

    #[test]
    fn a_machine_is_made_runs_and_goes() {
        let mut timeline = Timeline::new(START);
        note(&mut timeline, 2, None, Some(machine("one", "")));
        note(&mut timeline, 5, Some(machine("one", "")), Some(machine("one", "Pending")));
        note(&mut timeline, 9, Some(machine("one", "Pending")), Some(machine("one", "Running")));
        note(&mut timeline, 30, Some(machine("one", "Running")), None);
        let cluster = &timeline.clusters[&key()];
        let want = MachineSpan {
            version: "v1.34.0".to_owned(),
            owner: "workers".to_owned(),
            is_control_plane: false,
            made: Some(2),
            running: Some(9),
            gone: Some(30),
        };
        assert_eq!(cluster.machines["one"], want);
        let events = cluster.events.iter().map(|event| format!("{} {}", event.t, event.change));
        assert_eq!(events.collect::<Vec<_>>(), ["2 created", "5 Pending", "9 Running", "30 gone"]);
        assert_eq!((cluster.last, cluster.current_machines), (30, 0));
    }

    #[test]
    fn the_peak_is_the_most_machines_at_one_time() {
        let mut timeline = Timeline::new(START);
        note(&mut timeline, 0, None, Some(machine("one", "")));
        note(&mut timeline, 1, None, Some(machine("two", "")));
        note(&mut timeline, 2, Some(machine("one", "")), None);
        note(&mut timeline, 3, None, Some(machine("three", "")));
        let mut other = machine("four", "");
        machines::lifecycle::set_field(
            &mut other,
            "metadata.labels",
            json!({"cluster.x-k8s.io/cluster-name": "green"}),
        );
        note(&mut timeline, 4, None, Some(other));
        assert_eq!(timeline.clusters[&key()].peak_machines, 2);
        assert_eq!(timeline.peak_machines, 3, "of all Clusters together");
    }

    #[test]
    fn a_wait_ends_when_it_is_not_held_any_more() {
        let mut timeline = Timeline::new(START);
        timeline.note_held(&key(), &[held("one")], at(1));
        timeline.note_held(&key(), &[held("one"), held("two")], at(4));
        timeline.note_held(&key(), &[held("two")], at(6));
        timeline.note_held(&key(), &[], at(9));
        timeline.note_held(&key(), &[held("one")], at(12));
        let spans = timeline.clusters[&key()].holds.iter().map(|span| (&*span.reason, span.from, span.until));
        assert_eq!(spans.collect::<Vec<_>>(), [("one", 1, Some(6)), ("two", 4, Some(9)), ("one", 12, None)]);
        let waits =
            timeline.clusters[&key()].events.iter().filter(|event| event.change == TimelineChange::Waits).count();
        assert_eq!(waits, 3, "one event for each wait");
    }

    #[test]
    fn timelines_of_clusters_that_were_simulated_apart_have_one_peak() {
        let cluster = |spans: &[(Option<i64>, Option<i64>)]| {
            let machine = |(i, (made, gone)): (usize, &(Option<i64>, Option<i64>))| {
                (i.to_string(), MachineSpan { made: *made, gone: *gone, ..MachineSpan::default() })
            };
            ClusterTimeline { machines: spans.iter().enumerate().map(machine).collect(), ..ClusterTimeline::default() }
        };
        let blue = cluster(&[(None, Some(10)), (Some(10), None)]);
        let green = cluster(&[(Some(5), Some(8)), (Some(6), None)]);
        let clusters = [("blue", blue), ("green", green)].map(|(name, one)| (ObjectKey::new("default", name), one));
        assert_eq!(Timeline::merge(clusters.into()).peak_machines, 3);
    }

    #[test]
    fn after_a_restart_machines_have_been_there_before() {
        let mut timeline = Timeline::new(START);
        note(&mut timeline, 0, None, Some(machine("one", "")));
        note(&mut timeline, 0, None, Some(machine("two", "")));
        note(&mut timeline, 3, Some(machine("one", "")), Some(machine("one", "Running")));
        note(&mut timeline, 4, Some(machine("two", "")), None);
        timeline.restart(at(10));
        note(&mut timeline, 15, Some(machine("one", "Running")), None);
        let cluster = &timeline.clusters[&key()];
        assert_eq!(cluster.machines.len(), 1);
        let MachineSpan { made, running, gone, .. } = cluster.machines["one"];
        assert_eq!((made, running, gone), (None, Some(0), Some(5)));
        assert_eq!((cluster.peak_machines, timeline.peak_machines, cluster.events.len()), (1, 1, 1));
        assert_eq!(cluster.machines_ever, 2, "those that are gone count too");
    }
}

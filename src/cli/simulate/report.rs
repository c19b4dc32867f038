//! The result of a simulation: totals, and groups of Clusters with the same timeline (DEC-48).

use std::collections::BTreeMap;

use engine::object_names::{NameBoundary, ObjectNames};
use model::hub::ObjectKey;
use simulation::StuckReason;
use simulation::timeline::{ClusterTimeline, HeldSpan, Timeline, TimelineChange};

/// The result of a simulation.
pub(super) struct SimulationReport<'a> {
    pub timeline: &'a Timeline,
    /// Most Clusters first; those that are stuck come before all others.
    pub groups: Vec<TimelineGroup<'a>>,
    pub seconds: i64,
    pub stuck: usize,
}

/// Clusters whose timelines are the same, apart from the names of objects.
pub(super) struct TimelineGroup<'a> {
    pub clusters: Vec<&'a ObjectKey>,
    /// The timeline of the first Cluster.
    pub timeline: &'a ClusterTimeline,
    /// Why its first Cluster is stuck, if it is.
    pub reason: Option<&'a StuckReason>,
    /// The same for each Cluster.
    pub reasons: BTreeMap<&'a ObjectKey, &'a StuckReason>,
    /// The remediation for the user, if it is known.
    pub way_out: Option<&'static str>,
}

/// The end of a Cluster that does not reach the state of its topology.
pub(super) struct Stuck {
    pub reason: StuckReason,
    /// Whether the time of --limit was over.
    pub ran_out: bool,
}

impl<'a> SimulationReport<'a> {
    /// The report of a simulation; `fails` says whether failures were injected.
    pub(super) fn from_timeline(timeline: &'a Timeline, stuck: &'a BTreeMap<ObjectKey, Stuck>, fails: bool) -> Self {
        let mut groups: BTreeMap<TimelineShape, TimelineGroup<'a>> = BTreeMap::new();
        for (key, cluster) in &timeline.clusters {
            let stuck = stuck.get(key);
            let reason = stuck.map(|stuck| &stuck.reason);
            let way_out = stuck.and_then(|stuck| stuck.remediation(fails));
            let new =
                || TimelineGroup { clusters: Vec::new(), timeline: cluster, reason, reasons: BTreeMap::new(), way_out };
            let group = groups.entry(TimelineShape::for_cluster(key, cluster, reason)).or_insert_with(new);
            group.clusters.push(key);
            group.reasons.extend(reason.map(|reason| (key, reason)));
        }
        let mut groups: Vec<TimelineGroup<'a>> = groups.into_values().collect();
        groups.sort_by_key(|group| {
            (group.reason.is_none(), std::cmp::Reverse(group.clusters.len()), group.clusters.first().copied())
        });
        let seconds = timeline.clusters.values().map(|cluster| cluster.last).max().unwrap_or_default();
        let stuck = groups.iter().filter(|group| group.reason.is_some()).map(|group| group.clusters.len()).sum();
        SimulationReport { timeline, groups, seconds, stuck }
    }

    /// Whether nothing happens to any Cluster, and all are as their topologies ask for.
    pub(super) fn has_nothing_to_do(&self) -> bool {
        self.stuck == 0 && self.timeline.clusters.values().all(|cluster| cluster.events.is_empty())
    }

    /// Spans in which something waited, of the first Cluster of each group, with how many Clusters they are about.
    /// Spans of one kind with the same reason and times are one.
    pub(super) fn waits(&self) -> Vec<StuckWait<'a>> {
        let mut waits: Vec<StuckWait<'a>> = Vec::new();
        for group in &self.groups {
            let names = group.clusters.first().map(|key| names(key, group.timeline));
            for wait in waits_of(group.timeline) {
                // Objects of other Clusters have other names.
                let nameless = names.as_ref().map_or_else(|| wait.reason.clone(), |names| names.replace(&wait.reason));
                let is_same = |one: &&mut StuckWait<'_>| one.times() == wait.times() && one.nameless == nameless;
                if let Some(known) = waits.iter_mut().find(is_same) {
                    known.clusters += group.clusters.len();
                    known.reason.clone_from(&known.nameless);
                    continue;
                }
                let clusters = group.clusters.len();
                let reason = if clusters > 1 { nameless.clone() } else { wait.reason };
                waits.push(StuckWait { clusters, reason, nameless, ..wait });
            }
        }
        waits.sort_by_key(|wait| (wait.span.from, wait.span.until.unwrap_or(i64::MAX)));
        waits
    }
}

/// Objects of one kind that waited at the same time for the same reason.
#[derive(Clone, Debug)]
pub(super) struct StuckWait<'a> {
    pub span: &'a HeldSpan,
    pub names: Vec<&'a str>,
    pub clusters: usize,
    /// Without the names of objects where it is about several Clusters.
    pub reason: String,
    nameless: String,
}

/// How many names of objects a text has.
const NAMES: usize = 3;

impl StuckWait<'_> {
    /// The first names, and how many there are besides.
    pub(super) fn few_names(&self) -> String {
        let shown = self.names.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
        match self.names.len().checked_sub(NAMES) {
            Some(more @ 1..) => format!("{shown} and {more} more"),
            _ => shown,
        }
    }

    fn times(&self) -> (&str, i64, Option<i64>) {
        (&self.span.kind, self.span.from, self.span.until)
    }
}

/// What waited in one Cluster. A wait that ended in the second in which it began is left out.
pub(super) fn waits_of(timeline: &ClusterTimeline) -> Vec<StuckWait<'_>> {
    let mut waits: Vec<StuckWait<'_>> = Vec::new();
    for span in timeline.holds.iter().filter(|span| span.until != Some(span.from)) {
        let reason = span.reason.clone();
        let new = StuckWait { span, names: vec![&span.name], clusters: 1, nameless: reason.clone(), reason };
        match waits.iter_mut().find(|one| one.times() == new.times() && one.reason == new.reason) {
            Some(known) => known.names.push(&span.name),
            None => waits.push(new),
        }
    }
    waits
}

impl Stuck {
    /// What a user can do about it; `fails` says whether failures were injected.
    fn remediation(&self, fails: bool) -> Option<&'static str> {
        let injected = (fails && self.reason.is_of_a_machine())
            .then_some("the file of --timings makes machines fail; remove its failures to see the rollout end");
        let ran_out = self.ran_out.then_some("the time of --limit is over; a longer one may be enough");
        self.reason.remediation().or(injected).or(ran_out)
    }
}

/// A timeline without the names of objects, and without the order of what happens in the same second.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct TimelineShape {
    reason: Option<String>,
    peak_machines: usize,
    events: Vec<(i64, String, TimelineChange, String)>,
    /// What happened to each machine, for each owner of machines.
    machines: Vec<Vec<Vec<(i64, TimelineChange, String)>>>,
    held: Vec<(String, String, i64, Option<i64>)>,
}

impl TimelineShape {
    fn for_cluster(key: &ObjectKey, timeline: &ClusterTimeline, reason: Option<&StuckReason>) -> Self {
        let names = names(key, timeline);
        let nameless = |text: &str| names.replace(text);
        let mut lives: BTreeMap<&str, Vec<(i64, TimelineChange, String)>> = BTreeMap::new();
        let mut events = Vec::new();
        for event in &timeline.events {
            let because = nameless(&event.because);
            match timeline.machines.contains_key(&event.name) && event.kind == "Machine" {
                true => lives.entry(&event.name).or_default().push((event.t, event.change.clone(), because)),
                false => events.push((event.t, event.kind.clone(), event.change.clone(), because)),
            }
        }
        let mut owners: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (name, machine) in &timeline.machines {
            let life = lives.remove(&**name).unwrap_or_default();
            owners.entry(&machine.owner).or_default().push(life);
        }
        let mut machines: Vec<_> = owners.into_values().collect();
        machines.iter_mut().for_each(|lives| lives.sort());
        machines.sort();
        events.sort();
        let held = timeline.holds.iter();
        let mut held: Vec<_> =
            held.map(|span| (span.kind.clone(), nameless(&span.reason), span.from, span.until)).collect();
        held.sort();
        let reason = reason.map(|reason| nameless(&reason.to_string()));
        TimelineShape { reason, peak_machines: timeline.peak_machines, events, machines, held }
    }
}

/// The names of a Cluster and of its objects; generated names end in five characters that follow from other names.
fn names(key: &ObjectKey, timeline: &ClusterTimeline) -> ObjectNames<&'static str> {
    let events = timeline.events.iter().map(|event| &*event.name);
    let held = timeline.holds.iter().map(|span| &*span.name);
    let machines = timeline.machines.iter().flat_map(|(name, machine)| [&**name, &*machine.owner]);
    let all = events.chain(held).chain(machines).chain([&*key.name, &*key.namespace]);
    ObjectNames::new(NameBoundary::GeneratedName, all.map(|name| (name.to_owned(), "…")))
}

/// A time as people write it: `1h02m03s`.
pub(super) fn span(seconds: i64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds:02}s"),
        _ => format!("{hours}h{minutes:02}m{seconds:02}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulation::timeline::{MachineSpan, TimelineEvent};

    fn timeline(cluster: &str, set: &str, running: i64) -> ClusterTimeline {
        let machine = format!("{cluster}-{set}-abcde");
        let event = |t, kind: &str, name: &str, change, because: &str| TimelineEvent {
            t,
            kind: kind.to_owned(),
            name: name.to_owned(),
            change,
            because: because.to_owned(),
        };
        ClusterTimeline {
            events: vec![
                event(
                    0,
                    "MachineDeployment",
                    &format!("{cluster}-{set}-xyz12"),
                    TimelineChange::Created,
                    &format!("{set} is new"),
                ),
                event(0, "Machine", &machine, TimelineChange::Created, "v1.33.0"),
                event(running, "Machine", &machine, TimelineChange::Running, ""),
            ],
            machines: [(machine, MachineSpan { owner: set.to_owned(), ..MachineSpan::default() })].into(),
            ..ClusterTimeline::default()
        }
    }

    #[test]
    fn timelines_that_differ_in_names_alone_have_one_shape() {
        let shape = |cluster: &str, set: &str, running| {
            let key = ObjectKey::new("default", cluster);
            let reason = StuckReason::Machine { name: format!("{cluster}-{set}-abcde"), message: "no Node".to_owned() };
            TimelineShape::for_cluster(&key, &timeline(cluster, set, running), Some(&reason))
        };
        let one = shape("blue", "small", 30);
        assert!(one == shape("green", "large", 30));
        assert!(one != shape("green", "large", 31), "another time is another shape");
    }

    #[test]
    fn times_read_as_people_write_them() {
        for (seconds, want) in [(0, "0s"), (59, "59s"), (60, "1m00s"), (3_723, "1h02m03s"), (90_000, "25h00m00s")] {
            assert_eq!(span(seconds), want);
        }
    }
}

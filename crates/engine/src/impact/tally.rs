//! Sums of the impact on machines.

use std::collections::{BTreeMap, BTreeSet};

use crate::topology::plan::Roll;
use model::hub::ObjectKey;

/// The impact of an edit on one Cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterImpact {
    pub cluster: ObjectKey,
    /// The position of its group among those that are compared.
    pub position: usize,
    /// The rolls of all steps until the rollout is complete.
    pub rolls: Vec<Roll>,
    /// The topology could be computed before the edit, but not after it.
    pub fails: bool,
    /// Whether both sides could be computed.
    pub is_known: bool,
    /// The failure of a side.
    pub failure: Option<String>,
    /// The Cluster is resumed, and the inputs of its objects have changed during the pause.
    pub was_edited_in_pause: bool,
    /// The `certificatesExpiryDays` of its control plane that exceed the validity of certificates, and that validity in
    /// days.
    pub endless: Option<(i64, i64)>,
    /// The maximum number of machines of the Cluster and of those equal to it.
    pub machines: i64,
    /// The extension that was not called, so that the impact may be greater.
    pub incomplete: Option<String>,
}

impl ClusterImpact {
    /// No impact: the Cluster stays as it was rolled out.
    pub(super) fn none(cluster: ObjectKey) -> Self {
        ClusterImpact {
            cluster,
            position: 0,
            rolls: Vec::new(),
            fails: false,
            is_known: true,
            failure: None,
            was_edited_in_pause: false,
            endless: None,
            machines: 0,
            incomplete: None,
        }
    }
}

/// Numbers of machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImpactCounts {
    pub replaced: i64,
    pub removed: i64,
    pub added: i64,
    /// Machines that stay outdated until a user deletes them (ROLL-11).
    pub outdated: i64,
    /// Some numbers of replaced machines are unknown; `replaced` is a minimum.
    pub is_least: bool,
    /// Some numbers of removed machines are unknown; `removed` is a minimum.
    pub removed_is_least: bool,
}

impl ImpactCounts {
    fn from_rolls(rolls: &[Roll]) -> Self {
        let mut count = ImpactCounts::default();
        for machines in rolls.iter().map(|roll| roll.machines) {
            let replaced = machines.replaced.unwrap_or(machines.at_least);
            count.replaced = count.replaced.saturating_add(replaced);
            count.removed = count.removed.saturating_add(machines.removed.unwrap_or_default());
            count.added = count.added.saturating_add(machines.added.unwrap_or_default());
            count.outdated = count.outdated.saturating_add(machines.outdated_until_deleted.unwrap_or_default());
            count.is_least |= machines.replaced.is_none();
            count.removed_is_least |= machines.removed.is_none();
        }
        count
    }

    fn add(&mut self, other: ImpactCounts, times: i64) {
        let add = |sum: &mut i64, one: i64| *sum = sum.saturating_add(one.saturating_mul(times));
        add(&mut self.replaced, other.replaced);
        add(&mut self.removed, other.removed);
        add(&mut self.added, other.added);
        add(&mut self.outdated, other.outdated);
        self.is_least |= other.is_least;
        self.removed_is_least |= other.removed_is_least;
    }

    /// Machines that are replaced or removed.
    pub fn gone(&self) -> i64 {
        self.replaced.saturating_add(self.removed)
    }

    /// Whether machines are replaced, removed or outdated.
    fn affects(&self) -> bool {
        self.gone() > 0 || self.outdated > 0 || self.is_least || self.removed_is_least
    }
}

/// Clusters with machines that are replaced for the same reasons (DEC-48).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImpactGroup {
    pub clusters: usize,
    /// An example Cluster.
    pub example: ObjectKey,
    pub machines: ImpactCounts,
    /// The kinds of objects that replace machines, with reasons.
    pub reasons: BTreeSet<(String, String)>,
}

/// The sums of an [`ImpactGroup`].
#[derive(Clone, Debug, Default)]
struct GroupSums {
    clusters: usize,
    example: First<ObjectKey>,
    machines: ImpactCounts,
}

/// An example from the first of the groups that have one, which may be compared in any order.
#[derive(Clone, Debug)]
struct First<T>(Option<(usize, T)>);

impl<T> Default for First<T> {
    fn default() -> Self {
        First(None)
    }
}

impl<T> First<T> {
    fn note(&mut self, position: usize, value: T) {
        if self.0.as_ref().is_none_or(|(first, _)| position < *first) {
            self.0 = Some((position, value));
        }
    }

    fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|(_, value)| value)
    }
}

/// The intermediate sums of an impact.
#[derive(Clone, Debug)]
pub struct Tally {
    subject: String,
    /// The number of affected Clusters.
    clusters: usize,
    /// The maximum number of their machines.
    all_machines: i64,
    compared: usize,
    /// The maximum number of machines of the compared Clusters.
    compared_machines: i64,
    /// Machines of compared Clusters that may also be replaced or removed but are not counted.
    uncounted: i64,
    /// The reasons for uncounted machines: a failure, and others.
    failure: First<Uncounted>,
    uncounted_because: First<Uncounted>,
    affected: usize,
    machines: ImpactCounts,
    /// By the kinds of objects that replace machines, with reasons.
    groups: BTreeMap<BTreeSet<(String, String)>, GroupSums>,
    failing: usize,
    fails: First<ObjectKey>,
    unknown: usize,
    /// The reason of the edit, or that of a Cluster.
    incomplete: Option<String>,
    incomplete_cluster: First<String>,
    in_place: First<String>,
    endless: First<(i64, i64)>,
}

/// The reason for uncounted machines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Uncounted {
    #[error("the topology of Cluster {cluster} cannot be computed: {reason}")]
    Failure { cluster: ObjectKey, reason: String },
    #[error("Cluster {0}, its class or their templates were edited while it was paused")]
    Pause(ObjectKey),
    #[error("the number of machines of some worker sets is not known")]
    Sizes,
    #[error("only {0} of {1} Clusters were computed in time")]
    Time(usize, usize),
    #[error("{0}")]
    Other(String),
}

/// The completeness of an impact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    Complete,
    /// An extension was not called, or the impact may be greater for another reason.
    Incomplete,
    /// The sums are extrapolated from a part of the Clusters.
    Estimated,
    /// Machines of some Clusters are not counted, with an upper bound for them.
    Bound,
}

/// The impact of an edit on machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impact {
    /// The edited object.
    pub subject: String,
    /// The number of affected Clusters.
    pub clusters: usize,
    /// The number of compared Clusters; if not all were compared, all sums are estimates.
    pub compared: usize,
    /// Clusters whose machines are replaced, removed or outdated.
    pub affected: usize,
    pub machines: ImpactCounts,
    /// Machines of compared Clusters that are certainly replaced or removed.
    pub certain: i64,
    /// The maximum number of replaced or removed machines: the certain ones, and all machines of unknown Clusters
    /// (DEC-59).
    pub at_most: i64,
    /// The reason for which `at_most` exceeds `certain`.
    pub uncounted: Option<Uncounted>,
    /// In descending order of machines.
    pub groups: Vec<ImpactGroup>,
    /// The number of Clusters whose topology can no longer be computed, and an example.
    pub failing: usize,
    pub fails: Option<ObjectKey>,
    /// Clusters whose topology could not be computed before.
    pub unknown: usize,
    /// The extension that was not called, or another reason for which the impact may be greater.
    pub incomplete: Option<String>,
    /// The extension that may update machines in place instead.
    pub in_place: Option<String>,
    /// The `certificatesExpiryDays` that exceed the validity of certificates, so that machines of a control plane are
    /// replaced again and again, and that validity in days.
    pub endless: Option<(i64, i64)>,
}

impl Tally {
    /// An empty tally for a number of Clusters and their maximum number of machines.
    pub(super) fn new(subject: String, (clusters, machines): (usize, i64), incomplete: Option<String>) -> Self {
        Tally {
            subject,
            clusters,
            all_machines: machines,
            compared: 0,
            compared_machines: 0,
            uncounted: 0,
            failure: First::default(),
            uncounted_because: First::default(),
            affected: 0,
            machines: ImpactCounts::default(),
            groups: BTreeMap::new(),
            failing: 0,
            fails: First::default(),
            unknown: 0,
            incomplete,
            incomplete_cluster: First::default(),
            in_place: First::default(),
            endless: First::default(),
        }
    }

    /// Adds the impact on a Cluster and on equal ones.
    pub fn add(&mut self, clusters: usize, change: ClusterImpact) {
        let position = change.position;
        self.compared += clusters;
        self.compared_machines = self.compared_machines.saturating_add(change.machines);
        if let Some(reason) = change.failure {
            self.uncounted = self.uncounted.saturating_add(change.machines);
            self.failure.note(position, Uncounted::Failure { cluster: change.cluster.clone(), reason });
        }
        if change.fails {
            self.failing += clusters;
            self.fails.note(position, change.cluster);
            return;
        }
        if !change.is_known {
            self.unknown += clusters;
            return;
        }
        if let Some(reason) = change.incomplete {
            self.incomplete_cluster.note(position, reason);
        }
        let count = ImpactCounts::from_rolls(&change.rolls);
        let times = i64::try_from(clusters).unwrap_or(i64::MAX);
        self.machines.add(count, times);
        if let Some(endless) = change.endless {
            self.endless.note(position, endless);
        }
        if change.was_edited_in_pause {
            let more = change.machines.saturating_sub(count.gone().saturating_mul(times)).max(0);
            self.uncounted = self.uncounted.saturating_add(more);
            self.uncounted_because.note(position, Uncounted::Pause(change.cluster));
            return;
        }
        if count.is_least || count.removed_is_least {
            let more = change.machines.saturating_sub(count.gone().saturating_mul(times)).max(0);
            self.uncounted = self.uncounted.saturating_add(more);
            self.uncounted_because.note(position, Uncounted::Sizes);
        }
        if !count.affects() {
            return;
        }
        self.affected += clusters;
        if let Some(updater) = change.rolls.iter().find_map(|roll| roll.in_place.clone()) {
            self.in_place.note(position, updater);
        }
        let gone = change.rolls.iter().filter(|roll| ImpactCounts::from_rolls(std::slice::from_ref(*roll)).affects());
        let reasons: BTreeSet<_> = gone.map(|roll| (roll.kind.clone(), roll.reason.clone())).collect();
        let sums = self.groups.entry(reasons).or_default();
        sums.clusters += clusters;
        sums.machines.add(count, times);
        sums.example.note(position, change.cluster);
    }

    /// The known impact; Clusters that were not compared count like the average of the others.
    pub fn impact(&self) -> Impact {
        let scale = |sum: i64| match self.compared {
            0 => 0,
            compared => {
                let (all, compared) = (self.clusters as i128, compared as i128);
                i64::try_from((i128::from(sum) * all + compared / 2) / compared).unwrap_or(i64::MAX)
            }
        };
        let number = |sum: usize| usize::try_from(scale(i64::try_from(sum).unwrap_or(i64::MAX))).unwrap_or(usize::MAX);
        let count = |of: ImpactCounts| ImpactCounts {
            replaced: scale(of.replaced),
            removed: scale(of.removed),
            added: scale(of.added),
            outdated: scale(of.outdated),
            ..of
        };
        let groups = self.groups.iter().filter_map(|(reasons, sums)| {
            Some(ImpactGroup {
                clusters: number(sums.clusters),
                example: sums.example.get()?.clone(),
                machines: count(sums.machines),
                reasons: reasons.clone(),
            })
        });
        let mut groups: Vec<ImpactGroup> = groups.collect();
        groups.sort_by(|one, other| {
            other.machines.gone().cmp(&one.machines.gone()).then_with(|| one.example.cmp(&other.example))
        });
        let certain = self.machines.gone();
        let left = self.all_machines.saturating_sub(self.compared_machines).max(0);
        let late = (self.compared < self.clusters).then_some(Uncounted::Time(self.compared, self.clusters));
        Impact {
            subject: self.subject.clone(),
            clusters: self.clusters,
            at_most: certain.saturating_add(self.uncounted).saturating_add(left),
            uncounted: self.failure.get().or(self.uncounted_because.get()).cloned().or(late),
            compared: self.compared,
            affected: number(self.affected),
            machines: count(self.machines),
            certain,
            groups,
            failing: number(self.failing),
            fails: self.fails.get().cloned(),
            unknown: number(self.unknown),
            incomplete: self.incomplete.as_ref().or(self.incomplete_cluster.get()).cloned(),
            in_place: self.in_place.get().cloned(),
            endless: self.endless.get().copied(),
        }
    }
}

impl Impact {
    /// An unknown impact on a number of Clusters and their machines.
    pub fn unknown(subject: String, (clusters, machines): (usize, i64), reason: String) -> Self {
        let mut tally = Tally::new(subject, (clusters, machines), None);
        tally.uncounted_because.note(0, Uncounted::Other(reason));
        tally.impact()
    }

    /// The completeness of the impact.
    pub fn completeness(&self) -> Completeness {
        match self.uncounted {
            Some(Uncounted::Time(..)) => Completeness::Estimated,
            Some(_) => Completeness::Bound,
            None if self.incomplete.is_some() => Completeness::Incomplete,
            None => Completeness::Complete,
        }
    }

    /// Whether the sums are extrapolated from a part of the Clusters.
    pub(crate) fn is_estimate(&self) -> bool {
        self.compared < self.clusters
    }
}

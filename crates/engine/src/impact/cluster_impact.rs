//! The effect of an edit on the machines of one Cluster.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;

use super::bound::machines;
use super::inputs::ImpactInputs;
use super::released_machines::{Resumed, add, discount, is_as_rolled_out, put_states, upgrades};
use super::size::ClassSizes;
use super::tally::{ClusterImpact, Tally};
use crate::topology::inspection::InspectedObjects;
use crate::topology::name_independence::{has_short_names, is_name_independent, is_read_as_text};
use crate::topology::plan::{Roll, TopologySimulator, mark, outlasts_certificates, uid};
use crate::topology::refusals::Checks;
use crate::topology::{Failure, Options};
use golang::json::StringMap;
use model::hub::{
    ApiEndpoint, Cluster, ClusterStatus, ContractRef, GROUP, ObjectKey, ReplicaCounts, ResourceDefinition,
};
use model::world::{Facts, Found, Record, WorkerSet, WorkerState};
use schema::budget::{SharedLease, Stop};
use schema::field::{ErrorKind, enumerated};

/// Clusters with equal inputs: the first represents all.
type EqualClusters<'a> = Vec<&'a Arc<Cluster>>;

/// The groups of equal Clusters of an edit, in the order in which they are compared.
#[derive(Debug)]
pub struct ClusterGroups<'a> {
    groups: Vec<EqualClusters<'a>>,
    /// The sizes of their classes before and after the edit.
    sizes: [ClassSizes; 2],
    /// The position of the next group to compare.
    next: AtomicUsize,
}

/// The groups that a thread compares.
#[derive(Clone, Copy, Debug)]
pub struct GroupQueue<'g, 'a> {
    groups: &'g ClusterGroups<'a>,
    /// The number of last groups that are left to the other threads; zero if this thread may compare all.
    left_out: usize,
}

impl<'a> ClusterGroups<'a> {
    /// The number of groups, compared or not.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is no Cluster to compare.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// All groups that are left, for the thread that waits for memory and for the end.
    pub fn all(&self) -> GroupQueue<'_, 'a> {
        GroupQueue { groups: self, left_out: 0 }
    }

    /// The groups for a helping thread, which may be slow: without the last `left_out` ones, and only as long as much
    /// memory is free.
    pub fn for_helper(&self, left_out: NonZero<usize>) -> GroupQueue<'_, 'a> {
        GroupQueue { groups: self, left_out: left_out.get() }
    }

    /// Ends the comparisons: no group is left.
    pub fn stop(&self) {
        self.next.store(self.groups.len(), Ordering::Relaxed);
    }
}

impl<'g, 'a> GroupQueue<'g, 'a> {
    /// Takes the next group, with its position.
    fn next_group(self) -> Option<(usize, &'g EqualClusters<'a>)> {
        let end = self.groups.len().saturating_sub(self.left_out);
        let advance = |next: usize| (next < end).then_some(next + 1);
        let position = self.groups.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance).ok()?;
        Some((position, self.groups.groups.get(position)?))
    }

    const fn is_for_helper(self) -> bool {
        self.left_out > 0
    }
}

/// Problems of the objects of a Cluster.
#[derive(Debug, Default)]
pub struct Inspection {
    /// Fields that the schemas of definitions reject.
    pub checks: Checks,
    /// The `certificatesExpiryDays` of the control plane that exceed the validity of certificates, and that validity in
    /// days.
    pub endless: Option<(i64, i64)>,
}

/// The watched states of the machines of a Cluster: its worker sets in their order, and its control plane.
type WatchedStates = (Vec<Option<WorkerState>>, ReplicaCounts);

impl ImpactInputs {
    /// Compares Cluster after Cluster, until `stop` is due; `add` gets each result immediately, with the number of
    /// Clusters that it represents. Groups of equal Clusters are compared first, in descending order of size.
    pub fn compare(&self, options: Options, now: Timestamp, stop: &Stop, add: impl FnMut(usize, ClusterImpact)) {
        self.compare_groups(self.groups().all(), options, now, stop, add);
    }

    /// Compares the Clusters of a queue as [`ImpactInputs::compare`] does. Several threads may do so with queues of the
    /// same groups.
    pub fn compare_groups(
        &self,
        queue: GroupQueue<'_, '_>,
        options: Options,
        now: Timestamp,
        stop: &Stop,
        mut add: impl FnMut(usize, ClusterImpact),
    ) {
        let [before, after] = [&self.before, &self.after].map(|facts| {
            TopologySimulator::new(facts.clone(), options).without_managed_fields().at(now).until(stop.clone())
        });
        while let Some((position, twins)) = queue.next_group() {
            if stop.is_due() {
                return;
            }
            let key = twins[0].metadata.key();
            let Some(lease) = self.lease(&queue.groups.sizes, &key, stop) else { return };
            let mut change = compare(&key, &before.clone().leasing(lease.clone()), &after.clone().leasing(lease));
            // An interrupted computation has no result.
            if stop.has_stopped() {
                return;
            }
            if let Some(updater) = &self.updater {
                mark(&mut change.rolls, updater);
            }
            change.position = position;
            change.machines = twins.iter().map(|cluster| self.machines(cluster)).fold(0, i64::saturating_add);
            add(twins.len(), change);
            // Comparisons of other threads may need more memory than they took.
            if queue.is_for_helper() && self.memory.as_ref().is_some_and(|memory| memory.used() > memory.capacity() / 2)
            {
                return;
            }
        }
    }

    /// The sizes of its classes before and after the edit.
    fn sizes(&self) -> [ClassSizes; 2] {
        [&self.before, &self.after].map(|facts| ClassSizes::for_classes(facts, self.classes()))
    }

    /// Leases the memory to compute a Cluster on both sides; `None` if `stop` is due before it is free. A topology that
    /// is too large is not computed and needs no memory.
    fn lease(&self, sizes: &[ClassSizes; 2], key: &ObjectKey, stop: &Stop) -> Option<SharedLease> {
        let Some(memory) = &self.memory else { return Some(SharedLease::default()) };
        let [before, after] = sizes;
        let bytes =
            [before.topology_size(&self.before, key), after.topology_size(&self.after, key)].map(|size| size.memory());
        let most = bytes.into_iter().filter(|bytes| *bytes <= memory.capacity()).max();
        memory.take(most.unwrap_or_default(), stop).map(SharedLease::new)
    }

    /// Fields of the edited Cluster's objects that the schemas of definitions reject; none if its topology cannot be
    /// computed, or `stop` is due before.
    pub fn checks(&self, options: Options, stop: &Stop) -> Checks {
        if self.schemas.is_empty() {
            return Checks::default();
        }
        self.inspect(options, stop).unwrap_or_default().checks
    }

    /// Problems of the edited Cluster's objects; `None` if its topology cannot be computed, or `stop` is due before.
    pub fn inspect(&self, options: Options, stop: &Stop) -> Option<Inspection> {
        let cluster = self.clusters.first()?;
        let lease = self.lease(&self.sizes(), &cluster.metadata.key(), stop)?;
        let mut fold = TopologySimulator::new(self.after.clone(), options).until(stop.clone()).leasing(lease);
        if let Some(objects) = fold.facts_mut().objects_mut() {
            for (name, schemas) in &self.schemas {
                let mut definition = ResourceDefinition::clone(schemas);
                if let Found::Yes(read) = objects.definition(name) {
                    definition.labels.clone_from(&read.labels);
                }
                objects.put_definition(name.clone(), Arc::new(definition));
            }
        }
        let key = cluster.metadata.key();
        as_written(&mut fold, &key);
        let computation = fold.compute(&key).ok()?;
        let endless = outlasts_certificates(&computation.desired.control_plane.control_plane.object);
        let checks = InspectedObjects::from_computation(computation, fold.facts())
            .map(|inspected| inspected.checks)
            .unwrap_or_default();
        Some(Inspection { checks, endless })
    }

    /// An empty tally for these inputs.
    pub fn tally(&self) -> Tally {
        let machines = self.clusters.iter().map(|cluster| self.machines(cluster)).fold(0, i64::saturating_add);
        Tally::new(self.subject.clone(), (self.clusters.len(), machines), self.incomplete.clone())
    }

    /// The maximum number of machines of a Cluster.
    fn machines(&self, cluster: &Cluster) -> i64 {
        match self.before.cluster(&cluster.metadata.key()) {
            Found::Yes(old) => machines(&old, cluster, &self.before),
            _ => 0,
        }
    }

    /// The Clusters to compare.
    pub fn groups(&self) -> ClusterGroups<'_> {
        ClusterGroups { groups: self.equal_clusters(), sizes: self.sizes(), next: AtomicUsize::new(0) }
    }

    fn equal_clusters(&self) -> Vec<EqualClusters<'_>> {
        let nameless = self.nameless_classes();
        let (mut groups, mut known) =
            (Vec::<EqualClusters<'_>>::new(), HashMap::<(Cluster, WatchedStates), usize>::new());
        for cluster in &self.clusters {
            let stands_for_others = is_read_as_text(&cluster.metadata.name)
                && has_short_names(cluster)
                && cluster.class_key().is_some_and(|class| nameless.contains(&class));
            if !stands_for_others {
                groups.push(vec![cluster]);
                continue;
            }
            let at = *known.entry((without_name(cluster), self.states(cluster))).or_insert(groups.len());
            match groups.get_mut(at) {
                Some(twins) => twins.push(cluster),
                None => groups.push(vec![cluster]),
            }
        }
        // The Clusters that are compared in time are a sample of all namespaces and names.
        groups.sort_by_cached_key(|twins| (Reverse(twins.len()), scattered(&twins[0].metadata.key())));
        groups
    }

    /// The watched states of the machines of a Cluster.
    fn states(&self, cluster: &Cluster) -> WatchedStates {
        let sets = cluster.topology().into_iter().flat_map(|topology| topology.workers.machine_deployments.iter());
        let key = cluster.metadata.key();
        let sets = sets.map(|set| {
            let state = self.before.worker_state(&WorkerSet { cluster: key.clone(), name: set.name.clone() })?;
            // The topology sets the number of replicas, and all machines are up to date.
            let is_plain =
                set.replicas.is_some() && state.outdated == Some(0) && *state.version == *cluster.spec.topology.version;
            (!is_plain).then(|| state.clone())
        });
        (sets.collect(), cluster.status.control_plane.clone())
    }

    /// The classes that ignore names on both sides.
    fn nameless_classes(&self) -> BTreeSet<ObjectKey> {
        let is_nameless = |facts: &Facts, key: &ObjectKey| match facts.class(key) {
            Found::Yes(class) => is_name_independent(&class),
            _ => false,
        };
        let keys: BTreeSet<ObjectKey> = self.clusters.iter().filter_map(|cluster| cluster.class_key()).collect();
        keys.into_iter().filter(|key| is_nameless(&self.before, key) && is_nameless(&self.after, key)).collect()
    }
}

/// A hash that orders keys pseudorandomly and reproducibly.
fn scattered(key: &ObjectKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Compares both sides as if the old one had just been rolled out.
fn compare(key: &ObjectKey, before: &TopologySimulator, after: &TopologySimulator) -> ClusterImpact {
    let mut old = before.clone();
    let mut new = after.clone();
    as_written(&mut old, key);
    as_written(&mut new, key);
    let resumed = Resumed::between(&mut old, &new, key);
    let settled = old.settle(key);
    put_states(&mut old, key);
    new.take_over(key, &old);
    let rollout = new.roll_out(key);
    let not_asked = match &rollout.failure {
        Some(Failure::PlanNotAsked { extension }) => {
            Some(format!("the upgrade plan of extension {extension} is not known"))
        }
        _ => None,
    };
    // The edit restores the last rolled-out state.
    if settled.failure.is_some() && rollout.failure.is_none() && is_as_rolled_out(&new, key) {
        return ClusterImpact::none(key.clone());
    }
    // A topology that cannot be computed on either side is no consequence of the edit, nor is an extension that was not
    // called.
    let is_interrupted =
        [&settled.failure, &rollout.failure].into_iter().flatten().any(|one| matches!(one, Failure::Interrupted(_)));
    let fails = rollout.failure.is_some() && settled.failure.is_none() && not_asked.is_none() && !is_interrupted;
    let is_known = settled.failure.is_none() && (rollout.failure.is_none() || not_asked.is_some());
    let not_called = rollout.trace.not_asked.first().map(ToString::to_string);
    let incomplete = not_asked.or(not_called).or_else(|| resumed.unknown());
    let was_edited_in_pause = resumed.was_edited(&new, key);
    // For a resumed Cluster, only its record shows that machines are replaced: `clusterctl move` resumes all Clusters.
    let failure = settled.failure.or(rollout.failure).filter(|_| (fails || !is_known) && resumed == Resumed::No);
    let failure = failure.map(|failure| text(&failure));
    let endless = endless(&new, key).filter(|now| endless(&old, key).is_none_or(|before| before.0 != now.0));
    let mut rolls: Vec<Roll> = rollout.rounds.into_iter().flat_map(|round| round.rolls).collect();
    if let (Found::Yes(was), Found::Yes(is)) = (before.facts().cluster(key), after.facts().cluster(key)) {
        discount(&mut rolls, &old, &was);
        if is_known && !is.is_paused() {
            add(&mut rolls, upgrades(&was, &is, before.facts()));
        }
    }
    ClusterImpact {
        rolls,
        fails,
        is_known,
        failure,
        was_edited_in_pause,
        endless,
        incomplete,
        ..ClusterImpact::none(key.clone())
    }
}

/// The `certificatesExpiryDays` of a control plane that exceed the validity of certificates, and that validity in days.
fn endless(fold: &TopologySimulator, key: &ObjectKey) -> Option<(i64, i64)> {
    let mut objects = fold.facts().objects()?.of_cluster(key);
    objects.find_map(|object| outlasts_certificates(object))
}

/// The message of a failure, without values of variables (DEC-34).
fn text(failure: &Failure) -> String {
    let Failure::InvalidCluster(errors) = failure else { return failure.to_string() };
    let texts = errors.iter().map(|error| match error.kind {
        ErrorKind::Required => format!("{}: {}", error.path, error.message()),
        kind => format!("{}: {}", error.path, kind.words()),
    });
    format!("the variables of the Cluster are not valid for its ClusterClass: {}", enumerated(texts))
}

/// Resets the Cluster to the user's fields, so that current objects have no effect.
fn as_written(fold: &mut TopologySimulator, key: &ObjectKey) {
    let Found::Yes(stored) = fold.facts().cluster(key) else { return };
    let mut cluster = Cluster::clone(&stored);
    cluster.spec.infrastructure_ref = ContractRef::default();
    cluster.spec.control_plane_ref = ContractRef::default();
    if cluster.metadata.uid.is_empty() {
        cluster.metadata.uid = uid(GROUP, "Cluster", key);
    }
    fold.facts_mut().put_cluster(key.clone(), Record::readable(cluster));
}

/// The inputs of a computation apart from names.
fn without_name(cluster: &Cluster) -> Cluster {
    let mut cluster = cluster.clone();
    cluster.metadata.name.clear();
    cluster.metadata.uid.clear();
    cluster.metadata.resource_version.clear();
    cluster.metadata.generation = 0;
    // A class that ignores names also ignores labels and annotations, but annotations of Cluster API affect rollouts.
    cluster.metadata.labels = StringMap::default();
    let mut annotations = cluster.metadata.annotations.to_map();
    annotations.retain(|name, _| name.contains("cluster.x-k8s.io/"));
    cluster.metadata.annotations = annotations.into();
    cluster.spec.infrastructure_ref = ContractRef::default();
    cluster.spec.control_plane_ref = ContractRef::default();
    cluster.spec.control_plane_endpoint = ApiEndpoint::default();
    cluster.status = ClusterStatus::default();
    cluster
}

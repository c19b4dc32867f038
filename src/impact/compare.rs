//! What becomes of the machines of one Cluster.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::case::Case;
use super::tally::{Change, Tally};
use crate::budget::Stop;
use crate::hub::{Cluster, ClusterStatus, ContractRef, Definition, Endpoint, GROUP, Object, ObjectKey, label};
use crate::json::StringMap;
use crate::topology::inspection::Inspected;
use crate::topology::nameless::{has_no_names, has_short_names, is_read_as_text};
use crate::topology::plan::{Fold, mark, uid};
use crate::topology::refusals::Checks;
use crate::topology::{Failure, Options};
use crate::world::{Facts, Found, Record, WorkerSet};

const REPLICAS: &str = "spec.replicas";

/// Clusters with equal inputs: the first stands for all.
type Twins<'a> = Vec<&'a Arc<Cluster>>;

impl Case {
    /// Compares Cluster after Cluster, until `stop` is due; `add` gets each result at once, with the number of Clusters that it
    /// stands for. Groups of equal Clusters come first, the largest of them before the others.
    pub fn compare(&self, options: Options, now: Timestamp, stop: &Stop, mut add: impl FnMut(usize, Change)) {
        let [before, after] = [&self.before, &self.after].map(|facts| Fold::new(facts.clone(), options).at(now));
        for twins in self.twins() {
            if stop.is_due() {
                return;
            }
            let key = twins[0].metadata.key();
            let mut change = compare(&key, &before, &after);
            if let Some(updater) = &self.updater {
                mark(&mut change.rolls, updater);
            }
            add(twins.len(), change);
        }
    }

    /// What the schemas of definitions refuse of the objects of the edited Cluster; nothing if its topology cannot be computed.
    pub fn checks(&self, options: Options) -> Checks {
        let Some(cluster) = self.clusters.first().filter(|_| !self.schemas.is_empty()) else {
            return Checks::default();
        };
        let mut fold = Fold::new(self.after.clone(), options);
        if let Some(objects) = fold.facts_mut().objects_mut() {
            for (name, schemas) in &self.schemas {
                let mut definition = Definition::clone(schemas);
                if let Found::Yes(read) = objects.definition(name) {
                    definition.labels.clone_from(&read.labels);
                }
                objects.put_definition(name.clone(), Arc::new(definition));
            }
        }
        let key = cluster.metadata.key();
        as_written(&mut fold, &key);
        let inspected = fold.compute(&key).and_then(|computation| Inspected::of(computation, fold.facts()));
        inspected.map(|inspected| inspected.checks).unwrap_or_default()
    }

    /// An empty tally of this case.
    pub fn tally(&self) -> Tally {
        Tally::of(self.subject.clone(), self.clusters.len(), self.incomplete.clone())
    }

    fn twins(&self) -> Vec<Twins<'_>> {
        let nameless = self.nameless_classes();
        let (mut groups, mut known) = (Vec::<Twins<'_>>::new(), HashMap::<(Cluster, Vec<Option<i64>>), usize>::new());
        for cluster in &self.clusters {
            let stands_for_others = is_read_as_text(&cluster.metadata.name)
                && has_short_names(cluster)
                && cluster.class_key().is_some_and(|class| nameless.contains(&class));
            if !stands_for_others {
                groups.push(vec![cluster]);
                continue;
            }
            let at = *known.entry((without_name(cluster), self.sizes(cluster))).or_insert(groups.len());
            match groups.get_mut(at) {
                Some(twins) => twins.push(cluster),
                None => groups.push(vec![cluster]),
            }
        }
        // What is compared in time is a sample of all namespaces and names.
        groups.sort_by_cached_key(|twins| (Reverse(twins.len()), scattered(&twins[0].metadata.key())));
        groups
    }

    /// What is known of the sizes of sets whose number of machines the topology does not say.
    fn sizes(&self, cluster: &Cluster) -> Vec<Option<i64>> {
        let sets = cluster.topology().into_iter().flat_map(|topology| topology.workers.machine_deployments.iter());
        let key = cluster.metadata.key();
        let of = |name: &str| WorkerSet { cluster: key.clone(), name: name.to_owned() };
        sets.filter(|set| set.replicas.is_none()).map(|set| self.before.worker_size(&of(&set.name))).collect()
    }

    /// The classes that look at no names on either side.
    fn nameless_classes(&self) -> BTreeSet<ObjectKey> {
        let is_nameless = |facts: &Facts, key: &ObjectKey| match facts.class(key) {
            Found::Yes(class) => has_no_names(&class),
            _ => false,
        };
        let keys: BTreeSet<ObjectKey> = self.clusters.iter().filter_map(|cluster| cluster.class_key()).collect();
        keys.into_iter().filter(|key| is_nameless(&self.before, key) && is_nameless(&self.after, key)).collect()
    }
}

/// A number by which keys have no order that means anything, and always the same one.
fn scattered(key: &ObjectKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// What both sides come to, as if the old one had been rolled out just now.
fn compare(key: &ObjectKey, before: &Fold, after: &Fold) -> Change {
    let mut old = before.clone();
    let mut new = after.clone();
    as_written(&mut old, key);
    as_written(&mut new, key);
    let settled = old.settle(key);
    put_sizes(&mut old, key);
    new.take_over(key, &old);
    let rollout = new.roll_out(key);
    let not_asked = match &rollout.failure {
        Some(Failure::PlanNotAsked { extension }) => {
            Some(format!("the upgrade plan of extension {extension} is not known"))
        }
        _ => None,
    };
    // What cannot be computed on either side is no consequence of the edit, nor is an extension that was not asked.
    let fails = rollout.failure.is_some() && settled.failure.is_none() && not_asked.is_none();
    let is_known = settled.failure.is_none() && (rollout.failure.is_none() || not_asked.is_some());
    let not_called = rollout.trace.not_asked.first().map(ToString::to_string);
    let incomplete = not_asked.or(not_called);
    let rolls = rollout.rounds.into_iter().flat_map(|round| round.rolls).collect();
    Change { cluster: key.clone(), rolls, fails, is_known, incomplete }
}

/// Gives MachineDeployments whose number of machines the topology does not say the number that they have (DEC-53).
fn put_sizes(old: &mut Fold, cluster: &ObjectKey) {
    let facts = old.facts().clone();
    let Some(objects) = old.facts_mut().objects_mut() else { return };
    let unsized_ones = |object: &&Arc<Object>| object.kind() == "MachineDeployment" && object.at(REPLICAS).is_none();
    let deployments: Vec<_> = objects.of_cluster(cluster).filter(unsized_ones).cloned().collect();
    for mut deployment in deployments {
        let Some(name) = deployment.label(label::DEPLOYMENT_NAME).map(str::to_owned) else { continue };
        let Some(size) = facts.worker_size(&WorkerSet { cluster: cluster.clone(), name }) else { continue };
        if Arc::make_mut(&mut deployment).set(REPLICAS, size.into()).is_ok() {
            objects.put(deployment);
        }
    }
}

/// The Cluster as its user wrote it: current objects play no part.
fn as_written(fold: &mut Fold, key: &ObjectKey) {
    let Found::Yes(stored) = fold.facts().cluster(key) else { return };
    let mut cluster = Cluster::clone(&stored);
    cluster.spec.infrastructure_ref = ContractRef::default();
    cluster.spec.control_plane_ref = ContractRef::default();
    if cluster.metadata.uid.is_empty() {
        cluster.metadata.uid = uid(GROUP, "Cluster", key);
    }
    fold.facts_mut().put_cluster(key.clone(), Record::readable(cluster));
}

/// What the computation looks at, apart from names.
fn without_name(cluster: &Cluster) -> Cluster {
    let mut cluster = cluster.clone();
    cluster.metadata.name.clear();
    cluster.metadata.uid.clear();
    cluster.metadata.resource_version.clear();
    cluster.metadata.generation = 0;
    // A class that looks at no names looks at no labels and annotations either, but annotations of Cluster API steer rollouts.
    cluster.metadata.labels = StringMap::default();
    let mut annotations = cluster.metadata.annotations.to_map();
    annotations.retain(|name, _| name.contains("cluster.x-k8s.io/"));
    cluster.metadata.annotations = annotations.into();
    cluster.spec.infrastructure_ref = ContractRef::default();
    cluster.spec.control_plane_ref = ContractRef::default();
    cluster.spec.control_plane_endpoint = Endpoint::default();
    cluster.status = ClusterStatus::default();
    cluster
}

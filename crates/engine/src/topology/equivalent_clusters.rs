//! Clusters that only differ in their names: one of them is planned, and the others are counted with it.
//!
//! Clusters are only grouped if their plans are certainly equal apart from names:
//!
//! * both sides have the same topology, and no object exists yet: the Cluster has no references, no object has its
//!   label, and no object has the prefix of its generated names;
//! * its classes ignore names. Patches only read builtin variables of a known list without names, and may insert the
//!   unchanged name of the Cluster into a value. There are no naming templates and no Runtime Extensions;
//! * its name is short, so that no generated name is truncated, and YAML reads it as a string where its class writes it;
//! * the plan does not contain the name as a word of its texts.
//!
//! If Clusters are listed one by one, each is planned.

use std::collections::{BTreeSet, HashMap};

use super::name_independence::{has_short_names, is_name_independent, is_read_as_text, prefixes_name, starts_text};
use super::plan::TopologySimulator;
use model::hub::label::CLUSTER_NAME;
use model::hub::{Cluster, ObjectKey};
use model::world::{Facts, Found, ObjectSet};

/// A Cluster to plan, and the others with an equal plan.
#[derive(Debug)]
pub struct EquivalentClusters {
    pub first: ObjectKey,
    pub others: Vec<ObjectKey>,
}

/// The inputs of a Cluster's plans, apart from its name.
type PlanInputs = [Presence; 2];

/// A Cluster on one side.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Presence {
    /// Without its name.
    Present(Box<Cluster>),
    Absent,
}

/// All Clusters, grouped by their inputs, in the order of the first Cluster of each group.
pub fn grouped(
    clusters: Vec<ObjectKey>,
    before: &TopologySimulator,
    after: &TopologySimulator,
) -> Vec<EquivalentClusters> {
    let sides = [before, after].map(|fold| SideIndex::new(fold.facts()));
    let mut all: Vec<EquivalentClusters> = Vec::new();
    let mut known: HashMap<PlanInputs, usize> = HashMap::new();
    for cluster in clusters {
        let input = input(&cluster, &sides);
        let same = input.as_ref().and_then(|input| known.get(input)).and_then(|at| all.get_mut(*at));
        if let Some(known) = same {
            known.others.push(cluster);
            continue;
        }
        known.extend(input.map(|input| (input, all.len())));
        all.push(EquivalentClusters { first: cluster, others: Vec::new() });
    }
    all
}

/// One group for each Cluster.
pub fn ungrouped(clusters: Vec<ObjectKey>) -> Vec<EquivalentClusters> {
    clusters.into_iter().map(|first| EquivalentClusters { first, others: Vec::new() }).collect()
}

/// The inputs of a Cluster's plan; `None` if it may depend on the name or on objects.
fn input(key: &ObjectKey, sides: &[SideIndex<'_>; 2]) -> Option<PlanInputs> {
    if !starts_text(&key.name) {
        return None;
    }
    let [before, after] = sides;
    Some([before.input(key)?, after.input(key)?])
}

/// The facts of a side with indexes for all Clusters.
struct SideIndex<'a> {
    facts: &'a Facts,
    /// Classes that ignore names.
    classes: BTreeSet<&'a ObjectKey>,
    /// Classes that may write names into numbers, behind what begins them.
    prefixing: BTreeSet<&'a ObjectKey>,
    /// Namespace and name of all objects.
    names: BTreeSet<(&'a str, &'a str)>,
    /// Namespaces and names of Clusters in labels of objects.
    labelled: BTreeSet<(&'a str, &'a str)>,
    has_nodes: bool,
}

impl<'a> SideIndex<'a> {
    fn new(facts: &'a Facts) -> Self {
        let is_nameless =
            |key: &&ObjectKey| matches!(facts.class(key), Found::Yes(class) if is_name_independent(&class));
        let is_prefixing = |key: &&ObjectKey| matches!(facts.class(key), Found::Yes(class) if prefixes_name(&class));
        let objects = || facts.objects().into_iter().flat_map(ObjectSet::iter);
        let labelled = objects().filter_map(|object| Some((object.namespace(), object.label(CLUSTER_NAME)?)));
        SideIndex {
            facts,
            classes: facts.class_keys().filter(is_nameless).collect(),
            prefixing: facts.class_keys().filter(is_prefixing).collect(),
            names: objects().map(|object| (object.namespace(), object.name())).collect(),
            labelled: labelled.collect(),
            has_nodes: objects().any(|object| object.kind() == "Node"),
        }
    }

    /// The Cluster without its name, if it exists; `None` if its plan may depend on the name or on objects.
    fn input(&self, key: &ObjectKey) -> Option<Presence> {
        if self.has_objects(key) {
            return None;
        }
        let cluster = match self.facts.cluster(key) {
            Found::Yes(cluster) => cluster,
            Found::Absent => return Some(Presence::Absent),
            Found::Unreadable(_) | Found::NotAsked => return None,
        };
        let is_new = !cluster.spec.infrastructure_ref.is_defined() && !cluster.spec.control_plane_ref.is_defined();
        let class = cluster.class_key()?;
        let has_class =
            self.classes.contains(&class) && (is_read_as_text(&key.name) || !self.prefixing.contains(&class));
        (is_new && has_short_names(&cluster) && has_class).then(|| Presence::Present(Box::new(nameless(&cluster))))
    }

    /// Whether objects of the Cluster exist, or others with the prefix of its generated names.
    fn has_objects(&self, ObjectKey { namespace, name }: &ObjectKey) -> bool {
        let begins = format!("{name}-");
        let mut near = self.names.range((&**namespace, &*begins)..);
        let is_near = near.next().is_some_and(|(other, object)| other == namespace && object.starts_with(&begins));
        let key = (&**namespace, &**name);
        is_near || self.has_nodes || self.labelled.contains(&key) || self.names.contains(&key)
    }
}

fn nameless(cluster: &Cluster) -> Cluster {
    let mut cluster = cluster.clone();
    cluster.metadata.name.clear();
    cluster.metadata.uid.clear();
    cluster
}

//! Clusters that differ in nothing but their names: one of them is planned, and the others are counted with it.
//!
//! That is done only where it is certain that a plan of each would say the same once names are left out:
//!
//! * both sides ask for the same, and nothing has been made yet: the Cluster has no references, no object has its
//!   label, and no object has a name that begins like those that its topology makes;
//! * its classes do not look at names. Patches read builtin variables of a known list, which has no name; they may
//!   write the name of the Cluster into a value as it is. There are no naming templates and no Runtime Extensions;
//! * its name is short, so that no name that is made of it is cut, and is read as a text in every position of YAML;
//! * the name is in nothing that the plan says, apart from where it is recognized as the name.
//!
//! Where Clusters are listed one by one, each is planned.

use std::collections::{BTreeSet, HashMap};

use super::name_independence::{has_short_names, is_name_independent, is_read_as_text};
use super::plan::TopologySimulator;
use model::hub::label::CLUSTER_NAME;
use model::hub::{Cluster, ObjectKey};
use model::world::{Facts, Found, ObjectSet};

/// A Cluster to plan, and the others for which the plan holds as well.
#[derive(Debug)]
pub struct EquivalentClusters {
    pub first: ObjectKey,
    pub others: Vec<ObjectKey>,
}

/// What plans of a Cluster follow from, apart from its name.
type PlanInputs = [Presence; 2];

/// A Cluster on one side.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Presence {
    /// Without its name.
    Present(Box<Cluster>),
    Absent,
}

/// All Clusters, those with the same input together, in the order of the first of each.
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

/// Every Cluster by itself.
pub fn ungrouped(clusters: Vec<ObjectKey>) -> Vec<EquivalentClusters> {
    clusters.into_iter().map(|first| EquivalentClusters { first, others: Vec::new() }).collect()
}

/// What a plan of a Cluster follows from; `None` where it may follow from the name or from objects.
fn input(key: &ObjectKey, sides: &[SideIndex<'_>; 2]) -> Option<PlanInputs> {
    if !is_read_as_text(&key.name) {
        return None;
    }
    let [before, after] = sides;
    Some([before.input(key)?, after.input(key)?])
}

/// The facts of a side, and what every Cluster needs of them.
struct SideIndex<'a> {
    facts: &'a Facts,
    /// Classes that do not look at names.
    classes: BTreeSet<&'a ObjectKey>,
    /// Namespace and name of all objects.
    names: BTreeSet<(&'a str, &'a str)>,
    /// Namespaces and names of Clusters that objects have the label of.
    labelled: BTreeSet<(&'a str, &'a str)>,
    has_nodes: bool,
}

impl<'a> SideIndex<'a> {
    fn new(facts: &'a Facts) -> Self {
        let is_nameless =
            |key: &&ObjectKey| matches!(facts.class(key), Found::Yes(class) if is_name_independent(&class));
        let objects = || facts.objects().into_iter().flat_map(ObjectSet::iter);
        let labelled = objects().filter_map(|object| Some((object.namespace(), object.label(CLUSTER_NAME)?)));
        SideIndex {
            facts,
            classes: facts.class_keys().filter(is_nameless).collect(),
            names: objects().map(|object| (object.namespace(), object.name())).collect(),
            labelled: labelled.collect(),
            has_nodes: objects().any(|object| object.kind() == "Node"),
        }
    }

    /// The Cluster without its name, if it is there; `None` where its plan may follow from the name or from objects.
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
        let has_class = self.classes.contains(&cluster.class_key()?);
        (is_new && has_short_names(&cluster) && has_class).then(|| Presence::Present(Box::new(nameless(&cluster))))
    }

    /// Whether objects of the Cluster are there, or others with names that its own may get.
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

//! A snapshot of facts about the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use super::Scope;
use super::key_index::{KeyIndex, add, remove};
use super::worker_states::{WorkerSet, WorkerState, WorkerStates};
use super::{Class, Found, ObjectSet};
use crate::hub::{Cluster, ClusterClass, ObjectKey};
use crate::variables::ClassCache;

/// Kinds of the facts, as named in gaps.
pub const CLASSES: &str = "ClusterClasses";
/// See [`CLASSES`].
pub const CLUSTERS: &str = "Clusters";

/// Clusters and ClusterClasses of all namespaces, indexed by class.
///
/// The maps are persistent: a clone shares all data and costs O(1), a change costs O(log n). So a review takes a
/// snapshot while watch events are applied.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    classes: RedBlackTreeMapSync<ObjectKey, Record<Class>>,
    clusters: RedBlackTreeMapSync<ObjectKey, Record<Cluster>>,
    users: ClusterIndex,
    /// The Clusters that refer to an infrastructure cluster or a control plane of this name; only beside objects.
    referring: Option<ClusterIndex>,
    gaps: Vec<&'static str>,
    sizes: WorkerStates,
    /// Objects of other kinds, if all of them are known.
    objects: Option<ObjectSet>,
    library: Arc<ClassCache>,
    scope: Arc<Scope>,
    /// Numbers of unreadable ClusterClasses and Clusters.
    unreadable: UnreadableCounts,
    /// Changed objects, if changes are tracked.
    changed: Option<FactChanges>,
}

/// The keys of Clusters, by a key.
type ClusterIndex = KeyIndex<ObjectKey, ObjectKey>;

/// Keys of objects that were added, changed or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactChanges {
    pub classes: BTreeSet<ObjectKey>,
    pub clusters: BTreeSet<ObjectKey>,
}

#[derive(Clone, Copy, Debug, Default)]
struct UnreadableCounts {
    classes: usize,
    clusters: usize,
}

/// An object, or the reason why it is unreadable.
#[derive(Clone, Debug)]
pub enum Record<T> {
    Readable(Arc<T>),
    /// The object exists and does not decode.
    Unreadable {
        reason: Arc<str>,
        /// The class of a Cluster, as far as it can be read.
        class: Option<ObjectKey>,
    },
}

impl Facts {
    /// Complete facts with exactly these objects.
    pub fn complete(
        clusters: impl IntoIterator<Item = Cluster>,
        classes: impl IntoIterator<Item = ClusterClass>,
    ) -> Self {
        let mut facts = Facts::default();
        for class in classes {
            facts.put_class(class.metadata.key(), Record::readable(class));
        }
        for cluster in clusters {
            facts.put_cluster(cluster.metadata.key(), Record::readable(cluster));
        }
        facts
    }

    /// Empty facts: every lookup reports that the `kinds` have not been listed.
    pub fn not_listed(kinds: &[&'static str]) -> Self {
        Facts { gaps: kinds.to_vec(), ..Facts::default() }
    }

    /// Restricts the facts to `scope`: objects outside are unknown (DEC-37).
    #[must_use]
    pub fn within(self, scope: Scope) -> Self {
        Facts { scope: Arc::new(scope), ..self }
    }

    /// Adds the complete set of objects of other kinds.
    #[must_use]
    pub fn with_objects(self, objects: ObjectSet) -> Self {
        let mut referring = ClusterIndex::default();
        for (key, record) in &self.clusters {
            names_referred_to(key, record).for_each(|name| add(&mut referring, name, key.clone()));
        }
        Facts { objects: Some(objects), referring: Some(referring), ..self }
    }

    /// Objects of other kinds, if all of them are known.
    pub fn objects(&self) -> Option<&ObjectSet> {
        self.objects.as_ref()
    }

    /// Objects of other kinds, mutable.
    pub fn objects_mut(&mut self) -> Option<&mut ObjectSet> {
        self.objects.as_mut()
    }

    /// Starts to track changes.
    #[must_use]
    pub fn tracking_changes(self) -> Self {
        Facts { changed: Some(FactChanges::default()), ..self }
    }

    /// The tracked changes, if any; tracking ends.
    pub fn take_changes(&mut self) -> FactChanges {
        self.changed.take().unwrap_or_default()
    }

    /// The scope of the facts.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Records that all objects of `kind` are known.
    pub fn listed(&mut self, kind: &'static str) {
        self.gaps.retain(|gap| *gap != kind);
    }

    /// The kinds that have not been listed yet.
    pub fn gaps(&self) -> &[&'static str] {
        &self.gaps
    }

    /// Adds or replaces a ClusterClass.
    pub fn put_class(&mut self, key: ObjectKey, record: Record<ClusterClass>) {
        let record = match record {
            Record::Readable(class) => self.compile(Arc::unwrap_or_clone(class)),
            Record::Unreadable { reason, class } => Record::Unreadable { reason, class },
        };
        self.put_compiled(key, record);
    }

    /// The class with everything compiled that reviews need; unreadable if it exceeds the limits of a class (DEC-44).
    ///
    /// Compiling can take a second, so a watch does it before it locks the facts.
    pub fn compile(&self, class: ClusterClass) -> Record<Class> {
        match Class::compile(class, &self.library) {
            Ok(class) => Record::readable(class),
            Err(error) => Record::Unreadable { reason: error.to_string().into(), class: None },
        }
    }

    /// Sets the capacity of the cache of compiled classes, in bytes (DEC-44).
    #[must_use]
    pub fn with_cache_capacity(self, bytes: usize) -> Self {
        Facts { library: Arc::new(ClassCache::with_capacity(bytes)), ..self }
    }

    /// Adds or replaces a compiled ClusterClass.
    pub fn put_compiled(&mut self, key: ObjectKey, record: Record<Class>) {
        self.remove_class(&key);
        self.unreadable.classes += usize::from(record.is_unreadable());
        self.classes.insert_mut(key, record);
    }

    /// Number of unreadable ClusterClasses.
    pub fn unreadable_classes(&self) -> usize {
        self.unreadable.classes
    }

    /// Number of unreadable Clusters.
    pub fn unreadable_clusters(&self) -> usize {
        self.unreadable.clusters
    }

    /// Removes a ClusterClass.
    pub fn remove_class(&mut self, key: &ObjectKey) {
        self.unreadable.classes -= usize::from(self.classes.get(key).is_some_and(Record::is_unreadable));
        self.classes.remove_mut(key);
        if let Some(changed) = &mut self.changed {
            changed.classes.insert(key.clone());
        }
    }

    /// Adds or replaces a Cluster.
    pub fn put_cluster(&mut self, key: ObjectKey, record: Record<Cluster>) {
        self.remove_cluster(&key);
        if let Some(class) = record.class_key() {
            add(&mut self.users, class, key.clone());
        }
        if let Some(referring) = &mut self.referring {
            names_referred_to(&key, &record).for_each(|name| add(referring, name, key.clone()));
        }
        self.unreadable.clusters += usize::from(record.is_unreadable());
        self.clusters.insert_mut(key, record);
    }

    /// Removes a Cluster.
    pub fn remove_cluster(&mut self, key: &ObjectKey) {
        if let Some(changed) = &mut self.changed {
            changed.clusters.insert(key.clone());
        }
        self.unreadable.clusters -= usize::from(self.clusters.get(key).is_some_and(Record::is_unreadable));
        let Some(record) = self.clusters.get(key).cloned() else { return };
        self.clusters.remove_mut(key);
        if let Some(class) = record.class_key() {
            remove(&mut self.users, class, key);
        }
        if let Some(referring) = &mut self.referring {
            names_referred_to(key, &record).for_each(|name| remove(referring, name, key));
        }
    }

    /// Records the state of the MachineDeployment of a worker set.
    pub fn put_worker_state(&mut self, deployment: ObjectKey, set: WorkerSet, state: WorkerState) {
        self.sizes.put(deployment, set, state);
    }

    /// Removes the state of a MachineDeployment.
    pub fn remove_worker_state(&mut self, deployment: &ObjectKey) {
        self.sizes.remove(deployment);
    }

    /// Replicas of the MachineDeployment of a worker set, if known.
    pub fn worker_size(&self, set: &WorkerSet) -> Option<i64> {
        self.worker_state(set).map(|state| state.replicas)
    }

    /// The state of the MachineDeployment of a worker set, if known.
    pub fn worker_state(&self, set: &WorkerSet) -> Option<&WorkerState> {
        self.sizes.state(set)
    }

    /// The worker set of a MachineDeployment with known replicas.
    pub fn sized_set(&self, deployment: &ObjectKey) -> Option<&WorkerSet> {
        self.sizes.worker_set(deployment)
    }

    /// MachineDeployments with known replicas.
    pub fn sized_deployments(&self) -> impl Iterator<Item = &ObjectKey> {
        self.sizes.deployments()
    }

    /// The keys of all known ClusterClasses.
    pub fn class_keys(&self) -> impl ExactSizeIterator<Item = &ObjectKey> {
        self.classes.keys()
    }

    /// The keys of the known ClusterClasses of a namespace.
    pub fn class_keys_in(&self, namespace: &str) -> impl Iterator<Item = &ObjectKey> {
        let classes = self.classes.range(ObjectKey::new(namespace, "")..).map(|(key, _)| key);
        classes.take_while(move |key| key.namespace == namespace)
    }

    /// The keys of all known Clusters.
    pub fn cluster_keys(&self) -> impl ExactSizeIterator<Item = &ObjectKey> {
        self.clusters.keys()
    }

    /// The keys of the known Clusters of a namespace.
    fn cluster_keys_in(&self, namespace: &str) -> impl Iterator<Item = &ObjectKey> {
        let clusters = self.clusters.range(ObjectKey::new(namespace, "")..).map(|(key, _)| key);
        clusters.take_while(move |key| key.namespace == namespace)
    }

    /// The keys of the Clusters that may have a part of this name: those that refer to one, and all that use a class
    /// which `shares_names` between Clusters.
    pub(super) fn keys_of_possible_owners(
        &self,
        object: &ObjectKey,
        shares_names: impl Fn(&Class) -> bool,
    ) -> BTreeSet<&ObjectKey> {
        let Some(referring) = &self.referring else { return self.cluster_keys_in(&object.namespace).collect() };
        let sharing = self.classes.iter().filter(|(_, class)| match class {
            Record::Readable(class) => shares_names(class),
            Record::Unreadable { .. } => false,
        });
        let users =
            sharing.flat_map(|(class, _)| self.user_keys(class)).filter(|key| key.namespace == object.namespace);
        referring.get(object).into_iter().flat_map(RedBlackTreeSetSync::iter).chain(users).collect()
    }

    /// The keys of the Clusters that use a class.
    pub fn user_keys(&self, class: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.users.get(class).into_iter().flat_map(RedBlackTreeSetSync::iter)
    }

    /// The ClusterClass with that key.
    pub fn class(&self, key: &ObjectKey) -> Found<Arc<Class>> {
        match self.classes.get(key) {
            Some(Record::Readable(class)) => Found::Yes(class.clone()),
            Some(Record::Unreadable { reason, .. }) => {
                Found::Unreadable(format!("ClusterClass {key} cannot be read: {reason}"))
            }
            None if !self.scope.has_namespace(&key.namespace) => {
                Found::Unreadable(format!("ClusterClass {key} is outside the namespaces that topologist watches"))
            }
            None if self.gaps.contains(&CLASSES) => Found::Unreadable(not_listed(CLASSES)),
            None => Found::Absent,
        }
    }

    /// Whether a stored ClusterClass is unreadable.
    pub fn is_unreadable(&self, key: &ObjectKey) -> bool {
        self.classes.get(key).is_some_and(Record::is_unreadable)
    }

    /// The Cluster with that key.
    pub fn cluster(&self, key: &ObjectKey) -> Found<Arc<Cluster>> {
        match self.clusters.get(key) {
            Some(record) => record.object(key).map_or_else(|error| Found::Unreadable(error.to_string()), Found::Yes),
            None if self.gaps.contains(&CLUSTERS) => Found::Unreadable(not_listed(CLUSTERS)),
            None => Found::Absent,
        }
    }

    /// The cache of compiled classes.
    pub(super) fn library(&self) -> &ClassCache {
        &self.library
    }

    /// The Clusters that use a class, sorted by namespace and name.
    pub(super) fn clusters_of(&self, class: &ObjectKey) -> Result<Vec<Arc<Cluster>>, ClusterListError> {
        if self.gaps.contains(&CLUSTERS) {
            return Err(ClusterListError::NotListed);
        }
        let Some(users) = self.users.get(class) else { return Ok(Vec::new()) };
        users
            .iter()
            .filter_map(|key| Some((key, self.clusters.get(key)?)))
            .map(|(key, record)| record.object(key))
            .collect()
    }
}

/// The names of the objects that a Cluster refers to, in its namespace.
fn names_referred_to(key: &ObjectKey, record: &Record<Cluster>) -> impl Iterator<Item = ObjectKey> {
    let cluster = match record {
        Record::Readable(cluster) => Some(cluster.clone()),
        Record::Unreadable { .. } => None,
    };
    let references = cluster.into_iter().flat_map(|cluster| {
        [&cluster.spec.infrastructure_ref, &cluster.spec.control_plane_ref].map(|reference| reference.name.clone())
    });
    references.filter(|name| !name.is_empty()).map(|name| ObjectKey::new(&key.namespace, name))
}

/// The reason for which the Clusters of a class are unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterListError {
    #[error("{}", not_listed(CLUSTERS))]
    NotListed,
    #[error("Cluster {cluster} cannot be read: {reason}")]
    Unreadable { cluster: ObjectKey, reason: String },
}

fn not_listed(kind: &str) -> String {
    format!("{kind} are not listed yet")
}

impl<T> Record<T> {
    /// Whether the object is unreadable.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Record::Unreadable { .. })
    }

    /// A decoded object.
    pub fn readable(object: T) -> Self {
        Record::Readable(Arc::new(object))
    }
}

impl Record<Cluster> {
    fn class_key(&self) -> Option<ObjectKey> {
        match self {
            Record::Readable(cluster) => cluster.class_key(),
            Record::Unreadable { class, .. } => class.clone(),
        }
    }

    fn object(&self, key: &ObjectKey) -> Result<Arc<Cluster>, ClusterListError> {
        match self {
            Record::Readable(cluster) => Ok(cluster.clone()),
            Record::Unreadable { reason, .. } => {
                Err(ClusterListError::Unreadable { cluster: key.clone(), reason: reason.to_string() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, class: Option<&str>) -> Cluster {
        let topology = class.map(|class| json!({"classRef": {"name": class}}));
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name}, "spec": {"topology": topology}}))
            .unwrap()
    }

    fn put(facts: &mut Facts, cluster: Cluster) {
        facts.put_cluster(cluster.metadata.key(), Record::Readable(Arc::new(cluster)));
    }

    fn users(facts: &Facts, class: &str) -> Vec<String> {
        let class = ObjectKey::new("ns", class);
        facts.clusters_of(&class).unwrap().iter().map(|cluster| cluster.metadata.name.clone()).collect()
    }

    #[test]
    fn owners_of_a_name_are_those_that_refer_to_it_or_share_names() {
        // DEC-36
        let referring = |name: &str, class: &str, to: &str| {
            let mut cluster = cluster(name, Some(class));
            cluster.spec.infrastructure_ref.name = to.to_owned();
            cluster
        };
        let classes = ["x", "y"].map(|name| {
            let class = json!({"metadata": {"namespace": "ns", "name": name}, "spec": {}});
            serde_json::from_value::<ClusterClass>(class).unwrap()
        });
        let clusters = [referring("a", "x", "n"), referring("b", "x", "m"), referring("c", "y", "")];
        let mut facts = Facts::complete(clusters, classes).with_objects(ObjectSet::default());
        let owners = |facts: &Facts, sharing: &str| -> Vec<String> {
            let shares_names = |class: &Class| class.metadata.name == sharing;
            let keys = facts.keys_of_possible_owners(&ObjectKey::new("ns", "n"), shares_names);
            keys.into_iter().map(|key| key.name.clone()).collect()
        };
        assert_eq!(owners(&facts, ""), ["a"]);
        assert_eq!(owners(&facts, "y"), ["a", "c"]);
        put(&mut facts, referring("b", "x", "n"));
        put(&mut facts, referring("a", "x", "m"));
        assert_eq!(owners(&facts, ""), ["b"]);
        facts.remove_cluster(&ObjectKey::new("ns", "b"));
        assert_eq!(owners(&facts, ""), [""; 0]);
        assert_eq!(owners(&facts, "x"), ["a"]);
    }

    #[test]
    fn the_index_follows_every_change_of_a_cluster() {
        // CC-V-100
        let mut facts = Facts::complete([cluster("b", Some("x")), cluster("a", Some("x")), cluster("c", None)], []);
        assert_eq!(users(&facts, "x"), ["a", "b"]);
        let before = facts.clone();
        put(&mut facts, cluster("a", Some("y")));
        put(&mut facts, cluster("c", Some("y")));
        assert_eq!((users(&facts, "x"), users(&facts, "y")), (vec!["b".into()], vec!["a".into(), "c".into()]));
        facts.remove_cluster(&ObjectKey::new("ns", "b"));
        put(&mut facts, cluster("c", None));
        assert_eq!((users(&facts, "x"), users(&facts, "y")), (vec![], vec!["a".into()]));
        assert_eq!(users(&before, "x"), ["a", "b"], "a snapshot does not move");
    }

    #[test]
    fn the_classes_of_a_namespace_are_found_among_those_of_others() {
        let mut facts = Facts::default();
        for (namespace, name) in [("ns", "b"), ("nr", "z"), ("ns-1", "a"), ("ns", "a"), ("", "a"), ("nt", "")] {
            let broken = Record::Unreadable { reason: "no".into(), class: None };
            facts.put_class(ObjectKey::new(namespace, name), broken);
        }
        let names = |namespace| facts.class_keys_in(namespace).map(|key| key.name.as_str()).collect::<Vec<_>>();
        assert_eq!((names("ns"), names("ns-1"), names("nr")), (vec!["a", "b"], vec!["a"], vec!["z"]));
        assert_eq!((names("n"), names("")), (vec![], vec!["a"]));
    }

    #[test]
    fn objects_that_cannot_be_read_are_counted_for_as_long_as_they_are_there() {
        // DEC-44
        let mut facts = Facts::complete([cluster("a", Some("x"))], []);
        let key = |name: &str| ObjectKey::new("ns", name);
        let broken = || Record::Unreadable { reason: "no".into(), class: None };
        for _ in 0..2 {
            facts.put_class(key("x"), broken());
            facts.put_cluster(key("a"), Record::Unreadable { reason: "no".into(), class: None });
            assert_eq!((facts.unreadable_classes(), facts.unreadable_clusters()), (1, 1));
        }
        assert!(facts.is_unreadable(&key("x")) && !facts.is_unreadable(&key("y")));
        facts.remove_class(&key("x"));
        put(&mut facts, cluster("a", None));
        assert_eq!((facts.unreadable_classes(), facts.unreadable_clusters()), (0, 0));
        facts.remove_class(&key("x"));
        assert_eq!(facts.unreadable_classes(), 0);
    }

    #[test]
    fn an_unreadable_cluster_spoils_only_the_list_of_its_class() {
        let mut facts = Facts::complete([cluster("a", Some("x")), cluster("b", Some("y"))], []);
        let broken = Record::Unreadable { reason: "spec.paused: no".into(), class: Some(ObjectKey::new("ns", "y")) };
        facts.put_cluster(ObjectKey::new("ns", "broken"), broken);
        assert_eq!(users(&facts, "x"), ["a"]);
        let error = facts.clusters_of(&ObjectKey::new("ns", "y")).unwrap_err();
        assert_eq!(error.to_string(), "Cluster ns/broken cannot be read: spec.paused: no");
    }

    #[test]
    fn an_object_is_absent_only_when_its_kind_is_listed() {
        let mut facts = Facts::not_listed(&[CLASSES, CLUSTERS]);
        let key = ObjectKey::new("ns", "x");
        assert_eq!(facts.class(&key), Found::Unreadable("ClusterClasses are not listed yet".into()));
        facts.listed(CLASSES);
        assert_eq!(facts.class(&key), Found::Absent);
        assert_eq!(facts.clusters_of(&key).unwrap_err().to_string(), "Clusters are not listed yet");
        facts.listed(CLUSTERS);
        assert!(facts.clusters_of(&key).unwrap().is_empty());
    }
}

//! The facts about the cluster at one moment.

use std::collections::BTreeSet;
use std::sync::Arc;

use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use super::Scope;
use super::sizes::{Sizes, WorkerSet, WorkerState};
use super::{Class, Found, Objects};
use crate::hub::{Cluster, ClusterClass, ObjectKey};
use crate::variables::Library;

/// The kinds that facts are about, as gaps name them.
pub const CLASSES: &str = "ClusterClasses";
/// See [`CLASSES`].
pub const CLUSTERS: &str = "Clusters";

/// Clusters and ClusterClasses of all namespaces, with an index from class to Clusters.
///
/// The maps are persistent: a clone shares everything with its original and costs O(1), a change costs O(log n). So a
/// review takes a snapshot for itself while watch events go on.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    classes: RedBlackTreeMapSync<ObjectKey, Record<Class>>,
    clusters: RedBlackTreeMapSync<ObjectKey, Record<Cluster>>,
    users: RedBlackTreeMapSync<ObjectKey, RedBlackTreeSetSync<ObjectKey>>,
    gaps: Vec<&'static str>,
    sizes: Sizes,
    /// Objects of other kinds, where all that there are are known.
    objects: Option<Objects>,
    library: Arc<Library>,
    scope: Arc<Scope>,
    /// How many ClusterClasses and how many Clusters cannot be read.
    unreadable: Unreadable,
    /// Added and removed objects, where they are noted.
    changed: Option<Changed>,
}

/// The keys of objects that came, changed or went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    pub classes: BTreeSet<ObjectKey>,
    pub clusters: BTreeSet<ObjectKey>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Unreadable {
    classes: usize,
    clusters: usize,
}

/// An object, or why it cannot be read.
#[derive(Clone, Debug)]
pub enum Record<T> {
    Readable(Arc<T>),
    /// The object exists and does not decode.
    Unreadable {
        reason: Arc<str>,
        /// The class it seems to use, for a Cluster.
        class: Option<ObjectKey>,
    },
}

impl Facts {
    /// Complete facts of these objects and no others.
    pub fn of(clusters: impl IntoIterator<Item = Cluster>, classes: impl IntoIterator<Item = ClusterClass>) -> Self {
        let mut facts = Facts::default();
        for class in classes {
            facts.put_class(class.metadata.key(), Record::readable(class));
        }
        for cluster in clusters {
            facts.put_cluster(cluster.metadata.key(), Record::readable(cluster));
        }
        facts
    }

    /// Facts of which nothing is known yet: every lookup says that the `kinds` have not been listed.
    pub fn not_listed(kinds: &[&'static str]) -> Self {
        Facts { gaps: kinds.to_vec(), ..Facts::default() }
    }

    /// The same facts, of which only those in `scope` were asked for: outside of it nothing is known (DEC-37).
    #[must_use]
    pub fn within(self, scope: Scope) -> Self {
        Facts { scope: Arc::new(scope), ..self }
    }

    /// The same facts, and these objects of other kinds: there are no others.
    #[must_use]
    pub fn with_objects(self, objects: Objects) -> Self {
        Facts { objects: Some(objects), ..self }
    }

    /// Objects of other kinds, where all that there are are known.
    pub fn objects(&self) -> Option<&Objects> {
        self.objects.as_ref()
    }

    /// Objects of other kinds, to change them.
    pub fn objects_mut(&mut self) -> Option<&mut Objects> {
        self.objects.as_mut()
    }

    /// The same facts, which from now on note what changes in them.
    #[must_use]
    pub fn noting_changes(self) -> Self {
        Facts { changed: Some(Changed::default()), ..self }
    }

    /// What has changed, if it was noted; it is not noted any more.
    pub fn take_changes(&mut self) -> Changed {
        self.changed.take().unwrap_or_default()
    }

    /// The requested needs.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Notes that all objects of `kind` are known now.
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

    /// The class with all compiled that reviews ask of it; unreadable when that takes more than a class may (DEC-44).
    ///
    /// Compiling can take a second, so a watch does it before it takes its turn to change the facts.
    pub fn compile(&self, class: ClusterClass) -> Record<Class> {
        match Class::compile(class, &self.library) {
            Ok(class) => Record::readable(class),
            Err(error) => Record::Unreadable { reason: error.to_string().into(), class: None },
        }
    }

    /// The same facts; of what is compiled at most so many bytes are kept (DEC-44).
    #[must_use]
    pub fn keeping(self, bytes: usize) -> Self {
        Facts { library: Arc::new(Library::with_capacity(bytes)), ..self }
    }

    /// Adds or replaces a ClusterClass that is compiled.
    pub fn put_compiled(&mut self, key: ObjectKey, record: Record<Class>) {
        self.remove_class(&key);
        self.unreadable.classes += usize::from(record.is_unreadable());
        self.classes.insert_mut(key, record);
    }

    /// How many ClusterClasses cannot be read.
    pub fn unreadable_classes(&self) -> usize {
        self.unreadable.classes
    }

    /// How many Clusters cannot be read.
    pub fn unreadable_clusters(&self) -> usize {
        self.unreadable.clusters
    }

    /// Forgets a ClusterClass.
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
            let mut users = self.users.get(&class).cloned().unwrap_or_default();
            users.insert_mut(key.clone());
            self.users.insert_mut(class, users);
        }
        self.unreadable.clusters += usize::from(record.is_unreadable());
        self.clusters.insert_mut(key, record);
    }

    /// Forgets a Cluster.
    pub fn remove_cluster(&mut self, key: &ObjectKey) {
        if let Some(changed) = &mut self.changed {
            changed.clusters.insert(key.clone());
        }
        self.unreadable.clusters -= usize::from(self.clusters.get(key).is_some_and(Record::is_unreadable));
        let Some(class) = self.clusters.get(key).and_then(Record::class_key) else {
            self.clusters.remove_mut(key);
            return;
        };
        self.clusters.remove_mut(key);
        if let Some(users) = self.users.get(&class) {
            let left = users.remove(key);
            if left.is_empty() {
                self.users.remove_mut(&class);
            } else {
                self.users.insert_mut(class, left);
            }
        }
    }

    /// Notes the state of the MachineDeployment of a worker set.
    pub fn put_worker_state(&mut self, deployment: ObjectKey, set: WorkerSet, state: WorkerState) {
        self.sizes.put(deployment, set, state);
    }

    /// Forgets a MachineDeployment.
    pub fn remove_worker_state(&mut self, deployment: &ObjectKey) {
        self.sizes.remove(deployment);
    }

    /// How many replicas the MachineDeployment of a worker set has, if there is one and it is known.
    pub fn worker_size(&self, set: &WorkerSet) -> Option<i64> {
        self.worker_state(set).map(|state| state.replicas)
    }

    /// The state of the MachineDeployment of a worker set, if there is one and it is known.
    pub fn worker_state(&self, set: &WorkerSet) -> Option<&WorkerState> {
        self.sizes.of(set)
    }

    /// The worker set that a MachineDeployment is, if its replicas are known.
    pub fn sized_set(&self, deployment: &ObjectKey) -> Option<&WorkerSet> {
        self.sizes.set_of(deployment)
    }

    /// The MachineDeployments whose replicas are known.
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
    pub(crate) fn cluster_keys_in(&self, namespace: &str) -> impl Iterator<Item = &ObjectKey> {
        let clusters = self.clusters.range(ObjectKey::new(namespace, "")..).map(|(key, _)| key);
        clusters.take_while(move |key| key.namespace == namespace)
    }

    /// The keys of the Clusters that use a class.
    pub fn user_keys(&self, class: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.users.get(class).into_iter().flat_map(RedBlackTreeSetSync::iter)
    }

    /// The ClusterClass of that name.
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

    /// Whether a ClusterClass is stored that cannot be read.
    pub fn is_unreadable(&self, key: &ObjectKey) -> bool {
        self.classes.get(key).is_some_and(Record::is_unreadable)
    }

    /// The Cluster of that name.
    pub fn cluster(&self, key: &ObjectKey) -> Found<Arc<Cluster>> {
        match self.clusters.get(key) {
            Some(record) => record.object(key).map_or_else(Found::Unreadable, Found::Yes),
            None if self.gaps.contains(&CLUSTERS) => Found::Unreadable(not_listed(CLUSTERS)),
            None => Found::Absent,
        }
    }

    /// What is compiled of the classes.
    pub(super) fn library(&self) -> &Library {
        &self.library
    }

    /// The Clusters that use a class, by namespace and name.
    pub(super) fn clusters_of(&self, class: &ObjectKey) -> Result<Vec<Arc<Cluster>>, String> {
        if self.gaps.contains(&CLUSTERS) {
            return Err(not_listed(CLUSTERS));
        }
        let Some(users) = self.users.get(class) else { return Ok(Vec::new()) };
        users
            .iter()
            .filter_map(|key| Some((key, self.clusters.get(key)?)))
            .map(|(key, record)| record.object(key))
            .collect()
    }
}

fn not_listed(kind: &str) -> String {
    format!("{kind} are not listed yet")
}

impl<T> Record<T> {
    /// Whether there is an object that cannot be read.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Record::Unreadable { .. })
    }

    /// An object that decodes.
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

    fn object(&self, key: &ObjectKey) -> Result<Arc<Cluster>, String> {
        match self {
            Record::Readable(cluster) => Ok(cluster.clone()),
            Record::Unreadable { reason, .. } => Err(format!("Cluster {key} cannot be read: {reason}")),
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
    fn the_index_follows_every_change_of_a_cluster() {
        // CC-V-100
        let mut facts = Facts::of([cluster("b", Some("x")), cluster("a", Some("x")), cluster("c", None)], []);
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
        let mut facts = Facts::of([cluster("a", Some("x"))], []);
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
        let mut facts = Facts::of([cluster("a", Some("x")), cluster("b", Some("y"))], []);
        let broken = Record::Unreadable { reason: "spec.paused: no".into(), class: Some(ObjectKey::new("ns", "y")) };
        facts.put_cluster(ObjectKey::new("ns", "broken"), broken);
        assert_eq!(users(&facts, "x"), ["a"]);
        let error = facts.clusters_of(&ObjectKey::new("ns", "y")).unwrap_err();
        assert_eq!(error, "Cluster ns/broken cannot be read: spec.paused: no");
    }

    #[test]
    fn an_object_is_absent_only_when_its_kind_is_listed() {
        let mut facts = Facts::not_listed(&[CLASSES, CLUSTERS]);
        let key = ObjectKey::new("ns", "x");
        assert_eq!(facts.class(&key), Found::Unreadable("ClusterClasses are not listed yet".into()));
        facts.listed(CLASSES);
        assert_eq!(facts.class(&key), Found::Absent);
        assert_eq!(facts.clusters_of(&key).unwrap_err(), "Clusters are not listed yet");
        facts.listed(CLUSTERS);
        assert!(facts.clusters_of(&key).unwrap().is_empty());
    }
}

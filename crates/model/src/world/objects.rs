//! Objects of any kind, from files or caches.

use std::collections::BTreeMap;
use std::sync::Arc;

use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use super::key_index::{KeyIndex, add, remove};
use super::{Assumptions, Found, Nodes, Selection};
use crate::hub::label::{CLUSTER_NAME, DEPLOYMENT_NAME};
use crate::hub::{GROUP, Kind, Object, ObjectKey, ObjectRef, ResourceDefinition, group_of};

/// Identifies, with the annotation [`CLUSTER_NAME`], the workload cluster of a Node.
const CLUSTER_NAMESPACE: &str = "cluster.x-k8s.io/cluster-namespace";
const NODE: &str = "Node";

/// A complete set of objects of any kind, with indexes.
///
/// The maps are persistent, like those of [`super::Facts`].
#[derive(Clone, Debug, Default)]
pub struct ObjectSet {
    objects: RedBlackTreeMapSync<ObjectIdentity, Arc<Object>>,
    /// Further versions of objects, as converted by an API server.
    conversions: RedBlackTreeMapSync<ObjectIdentity, BTreeMap<String, Arc<Object>>>,
    /// Objects known to be missing on an API server.
    missing: RedBlackTreeSetSync<ObjectIdentity>,
    /// Names of the objects of a Cluster, by kind.
    of_clusters: KeyIndex<ClusterKindKey, String>,
    /// Names of the Machines of a Cluster, by the label of their worker set.
    of_sets: KeyIndex<(ClusterKindKey, String), String>,
    /// Nodes of the workload cluster of a Cluster.
    nodes: KeyIndex<ObjectKey, ObjectKey>,
    definitions: RedBlackTreeMapSync<String, Arc<ResourceDefinition>>,
    included: Option<IncludedDefinitions>,
    assumptions: Arc<Assumptions>,
}

/// Definitions that are included in the program, by their names.
type IncludedDefinitions = fn(&str) -> Option<Arc<ResourceDefinition>>;

/// Identifies an object in any version.
type ObjectIdentity = (String, String, ObjectKey);
/// Namespace, Cluster, group and kind.
type ClusterKindKey = (String, String, String, String);

impl ObjectSet {
    /// Adds or replaces an object.
    pub fn put(&mut self, object: Arc<Object>) {
        let id = (object.group().to_owned(), object.kind().to_owned(), object.key());
        self.take(&id);
        if let Some(group) = group(&id, &object) {
            if let Some(set) = set_of_machine(&id, &object) {
                add(&mut self.of_sets, (group.clone(), set.to_owned()), id.2.name.clone());
            }
            add(&mut self.of_clusters, group, id.2.name.clone());
        }
        if let Some(cluster) = cluster_of_node(&id, &object) {
            add(&mut self.nodes, cluster, id.2.clone());
        }
        self.objects.insert_mut(id, object);
    }

    /// Adds a further version of an existing object, for lookups in that version. The next change of the object removes
    /// it.
    pub fn put_conversion(&mut self, object: Arc<Object>) {
        let id = (object.group().to_owned(), object.kind().to_owned(), object.key());
        if self.objects.contains_key(&id) {
            let mut versions = self.conversions.get(&id).cloned().unwrap_or_default();
            versions.insert(object.api_version().to_owned(), object);
            self.conversions.insert_mut(id, versions);
        }
    }

    /// Adds or replaces all objects of a Cluster except itself, with their further versions.
    pub fn take_over(&mut self, cluster: &ObjectKey, from: &ObjectSet) {
        let is_itself = |object: &Object| (object.group(), object.kind()) == (GROUP, Kind::Cluster.name());
        for object in from.of_cluster(cluster).filter(|object| !is_itself(object)) {
            let id = (object.group().to_owned(), object.kind().to_owned(), object.key());
            let versions = from.conversions.get(&id);
            self.put(object.clone());
            versions.into_iter().flat_map(BTreeMap::values).for_each(|one| self.put_conversion(one.clone()));
        }
    }

    /// Records that an API server lacks this object, which files cannot tell.
    pub fn put_missing(&mut self, reference: &ObjectRef) {
        self.missing.insert_mut((reference.group().to_owned(), reference.kind.clone(), reference.key.clone()));
    }

    /// Whether an API server lacks this object.
    pub fn is_missing(&self, reference: &ObjectRef) -> bool {
        let id = (reference.group().to_owned(), reference.kind.clone(), reference.key.clone());
        self.missing.contains(&id) && !self.objects.contains_key(&id)
    }

    /// Removes an object in any version.
    pub fn remove(&mut self, reference: &ObjectRef) {
        self.take(&(reference.group().to_owned(), reference.kind.clone(), reference.key.clone()));
    }

    fn take(&mut self, id: &ObjectIdentity) {
        let Some(old) = self.objects.get(id).cloned() else { return };
        self.objects.remove_mut(id);
        self.conversions.remove_mut(id);
        if let Some(group) = group(id, &old) {
            if let Some(set) = set_of_machine(id, &old) {
                remove(&mut self.of_sets, (group.clone(), set.to_owned()), &id.2.name);
            }
            remove(&mut self.of_clusters, group, &id.2.name);
        }
        if let Some(cluster) = cluster_of_node(id, &old) {
            remove(&mut self.nodes, cluster, &id.2);
        }
    }

    /// Adds or replaces a definition.
    pub fn put_definition(&mut self, name: String, definition: Arc<ResourceDefinition>) {
        self.definitions.insert_mut(name, definition);
    }

    /// The definition with that name.
    pub fn definition(&self, name: &str) -> Found<Arc<ResourceDefinition>> {
        self.definitions.get(name).cloned().map_or(Found::Absent, Found::Yes)
    }

    /// Sets the definitions by which objects are checked if they have no other definition.
    pub fn include_definitions(&mut self, included: IncludedDefinitions) {
        self.included = Some(included);
    }

    /// Sets what webhooks are assumed to add to objects.
    pub fn assume(&mut self, assumptions: Arc<Assumptions>) {
        self.assumptions = assumptions;
    }

    /// What webhooks are assumed to add to objects.
    pub fn assumptions(&self) -> &Assumptions {
        &self.assumptions
    }

    /// The definition by which objects are checked: unlike that of [`ObjectSet::definition`], it may be included in the
    /// program, and then says nothing about what a cluster has installed.
    pub fn definition_for_checks(&self, name: &str) -> Option<Arc<ResourceDefinition>> {
        self.definitions.get(name).cloned().or_else(|| self.included.and_then(|included| included(name)))
    }

    /// An object. One that exists in other versions only is unreadable, since it cannot be converted.
    pub fn object(&self, reference: &ObjectRef) -> Found<Arc<Object>> {
        let id = (reference.group().to_owned(), reference.kind.clone(), reference.key.clone());
        match self.objects.get(&id) {
            None => Found::Absent,
            Some(object) if object.api_version() == reference.api_version => Found::Yes(object.clone()),
            Some(object) => {
                let converted = self.conversions.get(&id).and_then(|versions| versions.get(&reference.api_version));
                converted.map_or_else(|| unconverted(reference, object), |one| Found::Yes(one.clone()))
            }
        }
    }

    /// The objects of a selection, sorted by name, in their stored versions.
    pub fn list(&self, selection: &Selection) -> Vec<Arc<Object>> {
        let group = group_of(&selection.api_version).to_owned();
        let has = |object: &Object| selection.labels.iter().all(|(name, value)| object.label(name) == Some(value));
        if let Some(cluster) = selection.labels.get(CLUSTER_NAME) {
            let key = (selection.namespace.clone(), cluster.clone(), group.clone(), selection.kind.clone());
            let set = selection.labels.get(DEPLOYMENT_NAME).filter(|_| is_machine(&group, &selection.kind));
            let names = match set {
                Some(set) => self.of_sets.get(&(key, set.clone())),
                None => self.of_clusters.get(&key),
            };
            let names = names.into_iter().flat_map(RedBlackTreeSetSync::iter);
            let id = |name: &String| {
                (group.clone(), selection.kind.clone(), ObjectKey::new(&selection.namespace, name.clone()))
            };
            return names.filter_map(|name| self.objects.get(&id(name))).filter(|one| has(one)).cloned().collect();
        }
        let first = (group.clone(), selection.kind.clone(), ObjectKey::new(&selection.namespace, ""));
        let belongs =
            |id: &ObjectIdentity| id.0 == group && id.1 == selection.kind && id.2.namespace == selection.namespace;
        let all = self.objects.range(first..).take_while(|(id, _)| belongs(id));
        all.filter(|(_, object)| has(object)).map(|(_, object)| object.clone()).collect()
    }

    /// The objects labelled with a Cluster, sorted by group, kind and name.
    pub fn of_cluster(&self, cluster: &ObjectKey) -> impl Iterator<Item = &Arc<Object>> {
        let first = (cluster.namespace.clone(), cluster.name.clone(), String::new(), String::new());
        let groups = self.of_clusters.range(first..);
        let groups = groups.take_while(|(group, _)| (&group.0, &group.1) == (&cluster.namespace, &cluster.name));
        groups.flat_map(move |((namespace, _, group, kind), names)| {
            let id = move |name: &String| (group.clone(), kind.clone(), ObjectKey::new(namespace, name.clone()));
            names.iter().filter_map(move |name| self.objects.get(&id(name)))
        })
    }

    /// An object in any version.
    pub fn in_any_version(&self, group: &str, kind: &str, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.objects.get(&(group.to_owned(), kind.to_owned(), key.clone()))
    }

    /// The Nodes of the workload cluster of a Cluster, by their annotations.
    pub fn nodes(&self, cluster: &ObjectKey) -> Nodes {
        let keys = self.nodes.get(cluster).into_iter().flat_map(RedBlackTreeSetSync::iter);
        let node = |key: &ObjectKey| self.objects.get(&(String::new(), NODE.to_owned(), key.clone())).cloned();
        keys.filter_map(|key| Some((key.name.clone(), node(key)?))).collect()
    }

    /// All objects, sorted by group, kind, namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }
}

fn unconverted(reference: &ObjectRef, object: &Object) -> Found<Arc<Object>> {
    Found::Unreadable(format!(
        "{reference} is available as {} but was requested as {}; only an API server can convert it",
        object.api_version(),
        reference.api_version
    ))
}

fn cluster_of_node(id: &ObjectIdentity, object: &Object) -> Option<ObjectKey> {
    if !id.0.is_empty() || id.1 != NODE {
        return None;
    }
    Some(ObjectKey::new(object.annotation(CLUSTER_NAMESPACE)?, object.annotation(CLUSTER_NAME)?))
}

fn is_machine(group: &str, kind: &str) -> bool {
    (group, kind) == (GROUP, "Machine")
}

fn set_of_machine<'a>(id: &ObjectIdentity, object: &'a Object) -> Option<&'a str> {
    if is_machine(&id.0, &id.1) { object.label(DEPLOYMENT_NAME) } else { None }
}

fn group(id: &ObjectIdentity, object: &Object) -> Option<ClusterKindKey> {
    let cluster = object.label(CLUSTER_NAME)?;
    Some((id.2.namespace.clone(), cluster.to_owned(), id.0.clone(), id.1.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(name: &str, cluster: &str, set: &str) -> Arc<Object> {
        let labels = json!({CLUSTER_NAME: cluster, "set": set});
        let metadata = json!({"namespace": "ns", "name": name, "labels": labels});
        let object = json!({"apiVersion": "g/v1", "kind": "Machine", "metadata": metadata});
        Arc::new(Object::try_from(object).unwrap())
    }

    fn names(objects: &ObjectSet, labels: &[(&str, &str)]) -> Vec<String> {
        let selection = Selection {
            api_version: "g/v1".to_owned(),
            kind: "Machine".to_owned(),
            namespace: "ns".to_owned(),
            labels: labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        };
        objects.list(&selection).iter().map(|object| object.name().to_owned()).collect()
    }

    #[test]
    fn a_list_contains_the_objects_with_all_labels() {
        let mut objects = ObjectSet::default();
        for (name, cluster, set) in [("b", "x", "1"), ("a", "x", "1"), ("c", "x", "2"), ("d", "y", "1")] {
            objects.put(machine(name, cluster, set));
        }
        assert_eq!(names(&objects, &[]), ["a", "b", "c", "d"]);
        assert_eq!(names(&objects, &[("set", "1")]), ["a", "b", "d"]);
        assert_eq!(names(&objects, &[(CLUSTER_NAME, "x"), ("set", "1")]), ["a", "b"]);
        objects.put(machine("a", "y", "1"));
        assert_eq!(names(&objects, &[(CLUSTER_NAME, "x"), ("set", "1")]), ["b"]);
        assert_eq!(names(&objects, &[(CLUSTER_NAME, "y")]), ["a", "d"]);
        objects.remove(&machine("d", "y", "1").reference());
        assert_eq!(names(&objects, &[(CLUSTER_NAME, "y")]), ["a"]);
        assert_eq!(names(&objects, &[(CLUSTER_NAME, "z")]), [""; 0]);
    }

    #[test]
    fn machines_are_found_by_their_worker_set() {
        let machine = |name: &str, cluster: &str, set: &str| {
            let labels = json!({CLUSTER_NAME: cluster, DEPLOYMENT_NAME: set});
            let metadata = json!({"namespace": "ns", "name": name, "labels": labels});
            let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": metadata});
            Arc::new(Object::try_from(object).unwrap())
        };
        let mut objects = ObjectSet::default();
        for (name, cluster, set) in [("b", "x", "1"), ("a", "x", "1"), ("c", "x", "2"), ("d", "y", "1")] {
            objects.put(machine(name, cluster, set));
        }
        let names = |objects: &ObjectSet, cluster: &str, set: &str| {
            let labels = [(CLUSTER_NAME, cluster), (DEPLOYMENT_NAME, set)];
            let selection = Selection {
                api_version: "cluster.x-k8s.io/v1beta2".to_owned(),
                kind: "Machine".to_owned(),
                namespace: "ns".to_owned(),
                labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            };
            objects.list(&selection).iter().map(|object| object.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&objects, "x", "1"), ["a", "b"]);
        assert_eq!(names(&objects, "y", "1"), ["d"]);
        objects.put(machine("a", "x", "2"));
        objects.remove(&machine("d", "y", "1").reference());
        assert_eq!(names(&objects, "x", "1"), ["b"]);
        assert_eq!(names(&objects, "x", "2"), ["a", "c"]);
        assert_eq!(names(&objects, "y", "1"), [""; 0]);
    }

    #[test]
    fn a_node_belongs_to_the_cluster_that_its_annotations_name() {
        let mut objects = ObjectSet::default();
        let node = |name: &str, cluster: &str, namespace: &str| {
            let annotations = json!({CLUSTER_NAME: cluster, CLUSTER_NAMESPACE: namespace});
            let node =
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": annotations}});
            Arc::new(Object::try_from(node).unwrap())
        };
        for (name, cluster, namespace) in [("n1", "x", "ns"), ("n2", "x", "other"), ("n3", "y", "ns")] {
            objects.put(node(name, cluster, namespace));
        }
        objects.put(machine("n1", "x", "1"));
        let names = |objects: &ObjectSet, cluster: &str| {
            objects.nodes(&ObjectKey::new("ns", cluster)).into_keys().collect::<Vec<_>>()
        };
        assert_eq!((names(&objects, "x"), names(&objects, "y")), (vec!["n1".to_owned()], vec!["n3".to_owned()]));
        objects.put(node("n1", "y", "ns"));
        assert_eq!((names(&objects, "x"), names(&objects, "y")), (vec![], vec!["n1".to_owned(), "n3".to_owned()]));
        objects.remove(&node("n3", "y", "ns").reference());
        assert_eq!(names(&objects, "y"), ["n1"]);
    }

    #[test]
    fn an_object_of_another_version_cannot_be_read() {
        let mut objects = ObjectSet::default();
        objects.put(machine("a", "x", "1"));
        let reference = |version: &str, name: &str| ObjectRef::new(version, "Machine", ObjectKey::new("ns", name));
        assert!(matches!(objects.object(&reference("g/v1", "a")), Found::Yes(_)));
        assert!(matches!(objects.object(&reference("g/v2", "a")), Found::Unreadable(_)));
        assert_eq!(objects.object(&reference("g/v1", "b")), Found::Absent);
        let mut newer = (*machine("a", "x", "1")).clone();
        newer.set("apiVersion", "g/v2".into()).unwrap();
        objects.put_conversion(Arc::new(newer.clone()));
        assert!(matches!(objects.object(&reference("g/v2", "a")), Found::Yes(one) if one.api_version() == "g/v2"));
        assert!(matches!(objects.object(&reference("g/v3", "a")), Found::Unreadable(_)));
        assert_eq!((names(&objects, &[]), objects.iter().count()), (vec!["a".to_owned()], 1));
        objects.put(machine("a", "x", "2"));
        assert!(matches!(objects.object(&reference("g/v2", "a")), Found::Unreadable(_)), "it was converted before");
        objects.remove(&reference("g/v1", "a"));
        objects.put_conversion(Arc::new(newer));
        assert_eq!(objects.object(&reference("g/v2", "a")), Found::Absent, "it is not there");
        objects.put_definition(
            "machines.g".to_owned(),
            Arc::new(ResourceDefinition { labels: BTreeMap::new(), ..ResourceDefinition::default() }),
        );
        assert!(matches!(objects.definition("machines.g"), Found::Yes(_)));
        assert_eq!(objects.definition("others.g"), Found::Absent);
    }
}

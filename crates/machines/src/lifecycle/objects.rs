//! Objects for steps: those of the management cluster by kind, and those of workload clusters.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock};

use golang::calendar::Moment;
use model::hub::contract::Contract;
use model::hub::{ContractRef, GROUP, Object, ObjectKey, label};

/// Group and kind of an object, regardless of its version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// Empty for the core group.
    pub group: Arc<str>,
    pub kind: Arc<str>,
}

impl GroupKind {
    /// A kind of a group.
    pub fn new(group: &str, kind: &str) -> Self {
        GroupKind { group: group.into(), kind: kind.into() }
    }

    /// A kind of Cluster API itself.
    pub fn core(kind: &str) -> Self {
        static SHARED: LazyLock<[GroupKind; 6]> = LazyLock::new(|| {
            ["Machine", "Cluster", "MachineSet", "MachineDeployment", "MachinePool", "MachineHealthCheck"]
                .map(|kind| GroupKind::new(GROUP, kind))
        });
        let shared = SHARED.iter().find(|shared| &*shared.kind == kind);
        shared.cloned().unwrap_or_else(|| GroupKind::new(GROUP, kind))
    }

    /// The kind of an object.
    pub fn for_object(object: &Object) -> Self {
        GroupKind::new(object.group(), object.kind())
    }

    /// The kind of a reference.
    pub fn for_reference(reference: &ContractRef) -> Self {
        GroupKind::new(&reference.api_group, &reference.kind)
    }

    /// Whether it is this kind of Cluster API itself.
    pub fn is_core(&self, kind: &str) -> bool {
        &*self.group == GROUP && &*self.kind == kind
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.group)
    }
}

/// Identifies an object in the management cluster or a workload cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The Cluster whose workload cluster contains the object; `None` for the management cluster.
    pub workload: Option<ObjectKey>,
    pub kind: GroupKind,
    pub key: ObjectKey,
}

impl ObjectId {
    /// An object of the management cluster.
    pub fn new(kind: GroupKind, key: ObjectKey) -> Self {
        ObjectId { workload: None, kind, key }
    }

    /// An object of the management cluster.
    pub fn for_object(object: &Object) -> Self {
        ObjectId::new(GroupKind::for_object(object), object.key())
    }

    /// An object of Cluster API itself.
    pub fn core(kind: &str, namespace: &str, name: &str) -> Self {
        ObjectId::new(GroupKind::core(kind), ObjectKey::new(namespace, name))
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.key.namespace {
            "" => write!(f, "{} {}", self.kind.kind, self.key.name)?,
            _ => write!(f, "{} {}", self.kind.kind, self.key)?,
        }
        self.workload.iter().try_for_each(|cluster| write!(f, " of the workload cluster {cluster}"))
    }
}

/// The objects of one kind.
#[derive(Clone, Debug, Default)]
struct KindObjects {
    /// Whether all objects of the kind are present.
    is_listed: bool,
    /// The contract of the version in which they are read; `None` for kinds without one.
    contract: Option<Contract>,
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// Objects by the Cluster in their label, and by name.
    by_cluster: HashMap<ObjectKey, BTreeMap<String, Arc<Object>>>,
}

/// The objects of a workload cluster.
#[derive(Clone, Debug, Default)]
pub struct WorkloadObjects {
    /// Whether its API server responds.
    pub is_reachable: bool,
    /// Whether it is connected by the Secret `<cluster>-kubeconfig` because its control plane is external (MA-2.6).
    pub is_followed: bool,
    /// The reason why it is not connected, if known.
    pub problem: Option<String>,
    kinds: BTreeMap<GroupKind, BTreeMap<ObjectKey, Arc<Object>>>,
    nodes: NodeIndex,
    /// The last refused evictions of Pods (MA-10.6).
    refusals: BTreeMap<ObjectKey, RefusedEviction>,
}

/// An eviction that the API server of a workload cluster refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedEviction {
    pub reason: String,
    pub at: Moment,
}

/// The Nodes of a workload cluster, indexed for the steps of its Machines.
#[derive(Clone, Debug, Default)]
struct NodeIndex {
    by_name: HashMap<String, Arc<Object>>,
    /// Names by provider ID.
    by_provider_id: HashMap<String, BTreeSet<String>>,
}

impl NodeIndex {
    fn put(&mut self, name: &str, node: &Arc<Object>) {
        let before = self.by_name.get(name).map(|known| provider_id(known));
        if before != Some(provider_id(node)) {
            self.remove(name);
            self.by_provider_id.entry(provider_id(node).to_owned()).or_default().insert(name.to_owned());
        }
        self.by_name.insert(name.to_owned(), node.clone());
    }

    fn remove(&mut self, name: &str) {
        let Some(gone) = self.by_name.remove(name) else { return };
        if let Some(names) = self.by_provider_id.get_mut(provider_id(&gone)) {
            names.remove(name);
            if names.is_empty() {
                self.by_provider_id.remove(provider_id(&gone));
            }
        }
    }
}

/// `spec.providerID` of a Node; empty if absent.
fn provider_id(node: &Object) -> &str {
    node.provider_id()
}

fn is_node(kind: &GroupKind) -> bool {
    (&*kind.group, &*kind.kind) == ("", "Node")
}

impl WorkloadObjects {
    /// The last refused eviction of a Pod.
    pub fn refusal(&self, pod: &ObjectKey) -> Option<&RefusedEviction> {
        self.refusals.get(pod)
    }

    /// The objects of a kind, sorted by namespace and name.
    pub fn all(&self, kind: &GroupKind) -> impl Iterator<Item = &Arc<Object>> {
        self.kinds.get(kind).into_iter().flat_map(BTreeMap::values)
    }

    /// One object.
    pub fn get(&self, kind: &GroupKind, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.kinds.get(kind)?.get(key)
    }

    /// A Node.
    pub fn node(&self, name: &str) -> Option<&Arc<Object>> {
        self.nodes.by_name.get(name)
    }

    /// The Nodes with exactly this provider ID, sorted by name (MA-8.3).
    pub(crate) fn nodes_with_provider_id<'a>(&'a self, id: &str) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        self.nodes.by_provider_id.get(id).into_iter().flatten().filter_map(|name| self.node(name))
    }

    fn put(&mut self, id: &ObjectId, object: Arc<Object>) -> Option<Arc<Object>> {
        if is_node(&id.kind) {
            self.nodes.put(&id.key.name, &object);
        }
        self.kinds.entry(id.kind.clone()).or_default().insert(id.key.clone(), object)
    }

    fn remove(&mut self, id: &ObjectId) -> Option<Arc<Object>> {
        if is_node(&id.kind) {
            self.nodes.remove(&id.key.name);
        }
        if &*id.kind.kind == "Pod" {
            self.refusals.remove(&id.key);
        }
        self.kinds.get_mut(&id.kind)?.remove(&id.key)
    }
}

/// The known objects.
#[derive(Clone, Debug, Default)]
pub struct MachineCache {
    kinds: HashMap<GroupKind, KindObjects>,
    workloads: BTreeMap<ObjectKey, WorkloadObjects>,
    /// Identities of owned objects, by uid of the owner.
    owned: HashMap<String, BTreeSet<ObjectId>>,
}

impl MachineCache {
    /// Marks a kind as listed: absent objects do not exist.
    pub fn set_listed(&mut self, kind: &GroupKind, contract: Option<Contract>) {
        let collection = self.kinds.entry(kind.clone()).or_default();
        collection.is_listed = true;
        collection.contract = contract;
    }

    /// Whether a kind is listed.
    pub fn is_listed(&self, kind: &GroupKind) -> bool {
        self.kinds.get(kind).is_some_and(|collection| collection.is_listed)
    }

    /// The contract of the objects of a kind.
    pub fn contract(&self, kind: &GroupKind) -> Option<Contract> {
        self.kinds.get(kind)?.contract
    }

    /// One object.
    pub fn get(&self, id: &ObjectId) -> Option<&Arc<Object>> {
        match &id.workload {
            Some(cluster) => self.workloads.get(cluster)?.get(&id.kind, &id.key),
            None => self.find(&id.kind, &id.key),
        }
    }

    /// One object of the management cluster.
    pub fn find(&self, kind: &GroupKind, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.kinds.get(kind)?.objects.get(key)
    }

    /// The objects of a kind, sorted by namespace and name.
    pub fn all(&self, kind: &GroupKind) -> impl Iterator<Item = &Arc<Object>> {
        self.kinds.get(kind).into_iter().flat_map(|collection| collection.objects.values())
    }

    /// Kinds with objects.
    pub fn kinds(&self) -> impl Iterator<Item = &GroupKind> {
        self.kinds.keys()
    }

    /// The objects of a kind with the label of a Cluster, sorted by name.
    pub fn of_cluster(&self, kind: &GroupKind, cluster: &ObjectKey) -> Vec<Arc<Object>> {
        let Some(collection) = self.kinds.get(kind) else { return Vec::new() };
        collection.by_cluster.get(cluster).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// All objects of the management cluster with the label of a Cluster.
    pub fn everything_of(&self, cluster: &ObjectKey) -> Vec<Arc<Object>> {
        let mut kinds: Vec<&GroupKind> = self.kinds.keys().collect();
        kinds.sort();
        kinds.into_iter().flat_map(|kind| self.of_cluster(kind, cluster)).collect()
    }

    /// The objects with this owner, sorted by kind and name.
    pub fn owned_by<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a ObjectId> + use<'a> {
        self.owned.get(uid).into_iter().flatten()
    }

    /// The workload cluster, if known.
    pub fn workload(&self, cluster: &ObjectKey) -> Option<&WorkloadObjects> {
        self.workloads.get(cluster)
    }

    /// The workload cluster, mutable.
    pub fn workload_mut(&mut self, cluster: &ObjectKey) -> &mut WorkloadObjects {
        self.workloads.entry(cluster.clone()).or_default()
    }

    /// Removes the objects of a connected workload cluster whose API server is unavailable.
    pub fn disconnect(&mut self, cluster: &ObjectKey, problem: Option<String>) {
        let followed = WorkloadObjects { is_followed: true, problem, ..WorkloadObjects::default() };
        self.workloads.insert(cluster.clone(), followed);
    }

    /// Removes a workload cluster with all objects.
    pub fn forget_workload(&mut self, cluster: &ObjectKey) {
        self.workloads.remove(cluster);
    }

    /// Stores an object; returns its previous state.
    pub fn put(&mut self, id: &ObjectId, object: Arc<Object>) -> Option<Arc<Object>> {
        if let Some(cluster) = &id.workload {
            return self.workload_mut(cluster).put(id, object);
        }
        let before = self.get(id).cloned();
        if !before.as_deref().is_some_and(|before| belong_to_the_same(before, &object)) {
            if let Some(before) = &before {
                self.unindex(id, before);
            }
            self.index_owners(id, &object);
        }
        self.index_cluster(id, &object);
        self.kinds.entry(id.kind.clone()).or_default().objects.insert(id.key.clone(), object);
        before
    }

    /// Records the result of evicting an existing Pod: success, or a refusal (MA-10.6).
    pub fn note_eviction(&mut self, cluster: &ObjectKey, pod: &ObjectKey, refusal: Option<RefusedEviction>) {
        let workload = self.workload_mut(cluster);
        match refusal.filter(|_| workload.get(&GroupKind::new("", "Pod"), pod).is_some()) {
            Some(refusal) => workload.refusals.insert(pod.clone(), refusal),
            None => workload.refusals.remove(pod),
        };
    }

    /// Removes an object, and returns it.
    pub fn remove(&mut self, id: &ObjectId) -> Option<Arc<Object>> {
        if let Some(cluster) = &id.workload {
            return self.workloads.get_mut(cluster)?.remove(id);
        }
        let gone = self.kinds.get_mut(&id.kind)?.objects.remove(&id.key)?;
        self.unindex(id, &gone);
        Some(gone)
    }

    fn index_cluster(&mut self, id: &ObjectId, object: &Arc<Object>) {
        if let Some(cluster) = cluster_of(object) {
            let collection = self.kinds.entry(id.kind.clone()).or_default();
            collection.by_cluster.entry(cluster).or_default().insert(id.key.name.clone(), object.clone());
        }
    }

    fn index_owners(&mut self, id: &ObjectId, object: &Object) {
        for uid in owner_uids(object) {
            self.owned.entry(uid.to_owned()).or_default().insert(id.clone());
        }
    }

    fn unindex(&mut self, id: &ObjectId, object: &Object) {
        if let (Some(cluster), Some(collection)) = (cluster_of(object), self.kinds.get_mut(&id.kind))
            && let Some(all) = collection.by_cluster.get_mut(&cluster)
        {
            all.remove(&id.key.name);
            if all.is_empty() {
                collection.by_cluster.remove(&cluster);
            }
        }
        for uid in owner_uids(object) {
            if let Some(ids) = self.owned.get_mut(uid) {
                ids.remove(id);
                if ids.is_empty() {
                    self.owned.remove(uid);
                }
            }
        }
    }
}

/// Whether two states of an object have the same owners and Cluster.
fn belong_to_the_same(before: &Object, after: &Object) -> bool {
    before.label(label::CLUSTER_NAME) == after.label(label::CLUSTER_NAME) && owner_uids(before).eq(owner_uids(after))
}

/// The Cluster in the label of an object.
pub fn cluster_of(object: &Object) -> Option<ObjectKey> {
    Some(ObjectKey::new(object.namespace(), object.label(label::CLUSTER_NAME)?))
}

/// The uids of the owners of an object.
pub(crate) fn owner_uids(object: &Object) -> impl Iterator<Item = &str> {
    object.owner_references().iter().filter_map(|owner| owner.get("uid")?.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_are_found_by_the_provider_id_that_they_have_now() {
        // MA-8.3
        let cluster = ObjectKey::new("default", "demo");
        let node = |name: &str, provider: Option<&str>| {
            let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                "spec": {"providerID": provider}});
            let object = Object::try_from(object).unwrap();
            (ObjectId { workload: Some(cluster.clone()), ..ObjectId::for_object(&object) }, Arc::new(object))
        };
        let mut objects = MachineCache::default();
        let found = |objects: &MachineCache, provider: &str| -> Vec<String> {
            let workload = objects.workload(&cluster).unwrap();
            workload.nodes_with_provider_id(provider).map(|node| node.name().to_owned()).collect()
        };
        for (name, provider) in [("b", Some("x")), ("a", Some("x")), ("c", None)] {
            let (id, object) = node(name, provider);
            objects.put(&id, object);
        }
        assert_eq!(found(&objects, "x"), ["a", "b"]);
        let (id, moved) = node("a", Some("y"));
        objects.put(&id, moved.clone());
        assert_eq!((found(&objects, "x"), found(&objects, "y")), (vec!["b".to_owned()], vec!["a".to_owned()]));
        assert_eq!(objects.workload(&cluster).unwrap().node("a"), Some(&moved));
        objects.remove(&id);
        assert_eq!(found(&objects, "y"), Vec::<String>::new());
        assert_eq!(objects.workload(&cluster).unwrap().node("a"), None);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "namespace": "x"}});
        let pod = Object::try_from(pod).unwrap();
        objects.remove(&ObjectId { workload: Some(cluster.clone()), ..ObjectId::for_object(&pod) });
        assert_eq!(found(&objects, "x"), ["b"], "a Pod of the same name is no Node");
    }
}

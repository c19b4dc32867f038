//! The objects of one kind, in compact form.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;

use engine::topology::plan::MANAGER;
use model::hub::{Object, ObjectKey, label, paths};
use model::world::Selection;

/// Objects by key, and which of them belong to which Cluster.
#[derive(Debug, Default)]
pub(super) struct ObjectStore(RwLock<StoreContents>);

#[derive(Debug, Default)]
struct StoreContents {
    objects: BTreeMap<ObjectKey, CompactObject>,
    /// The names of the objects of a Cluster, by its key.
    by_cluster: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// The newest resourceVersion that the API server has shown.
    newest: u64,
}

/// An object that was removed from the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RemovedObject {
    /// The name of the Cluster that it belonged to.
    pub cluster: Option<String>,
}

/// An object as JSON text; a tree takes seven times as much memory.
#[derive(Clone, Debug)]
struct CompactObject {
    version: Box<str>,
    /// The value of the label that names the Cluster.
    cluster: Option<Box<str>>,
    /// Everything but the resourceVersion.
    text: Box<[u8]>,
}

impl ObjectStore {
    /// Keeps an object; returns whether anything but its version and the records of other field managers is different
    /// (RS-01, PERF-06).
    pub(super) fn put(&self, object: Object) -> bool {
        let key = object.key();
        let (compact, mut contents) = (CompactObject::from_object(object), self.write());
        contents.note(&compact.version);
        let contents = &mut *contents;
        if let Some(before) = contents.objects.get(&key) {
            let is_same = before.text == compact.text;
            let (was, is) = (before.cluster.clone(), compact.cluster.clone());
            if was != is {
                contents.forget(&key, was.as_deref());
                contents.remember(&key, is.as_deref());
            }
            contents.objects.insert(key, compact);
            return !is_same;
        }
        contents.remember(&key, compact.cluster.as_deref());
        contents.objects.insert(key, compact);
        true
    }

    /// Drops an object, of which `version` is the last that was shown; returns the Cluster that it belonged to if it
    /// was here.
    pub(super) fn remove(&self, key: &ObjectKey, version: Option<&str>) -> Option<RemovedObject> {
        let mut contents = self.write();
        version.into_iter().for_each(|version| contents.note(version));
        let gone = contents.objects.remove(key)?;
        contents.forget(key, gone.cluster.as_deref());
        Some(RemovedObject { cluster: gone.cluster.map(String::from) })
    }

    /// An object, decoded.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        // Decoded outside of the lock.
        let compact = self.read().objects.get(key).cloned()?;
        compact.decode()
    }

    /// The objects of a selection, by name. Those of a Cluster are found without looking at any other.
    pub(super) fn list(&self, selection: &Selection) -> Vec<Arc<Object>> {
        let Selection { namespace, labels, .. } = selection;
        let candidates: Vec<CompactObject> = {
            let contents = self.read();
            let of = |name: &String| contents.objects.get(&ObjectKey::new(namespace, name)).cloned();
            if let Some(cluster) = labels.get(label::CLUSTER_NAME) {
                let names = contents.by_cluster.get(&ObjectKey::new(namespace, cluster));
                names.into_iter().flatten().filter_map(of).collect()
            } else {
                let all = contents.objects.range(ObjectKey::new(namespace, "")..);
                all.take_while(|(key, _)| key.namespace == *namespace).map(|(_, compact)| compact.clone()).collect()
            }
        };
        let fits = |object: &Arc<Object>| labels.iter().all(|(name, value)| object.label(name) == Some(value));
        candidates.iter().filter_map(CompactObject::decode).filter(fits).collect()
    }

    /// The keys of all objects.
    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        self.read().objects.keys().cloned().collect()
    }

    /// How many objects are here, and how many bytes they take.
    pub(super) fn size(&self) -> (usize, usize) {
        let contents = self.read();
        (contents.objects.len(), contents.objects.values().map(|compact| compact.text.len()).sum())
    }

    /// Whether everything up to a resourceVersion has been shown.
    pub(super) fn has_seen(&self, version: &str) -> bool {
        version.parse().map_or(true, |version: u64| self.read().newest >= version)
    }

    fn read(&self) -> RwLockReadGuard<'_, StoreContents> {
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, StoreContents> {
        self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl StoreContents {
    fn note(&mut self, version: &str) {
        self.newest = self.newest.max(version.parse().unwrap_or_default());
    }

    fn remember(&mut self, key: &ObjectKey, cluster: Option<&str>) {
        if let Some(cluster) = cluster {
            let names = self.by_cluster.entry(ObjectKey::new(&key.namespace, cluster)).or_default();
            names.insert(key.name.clone());
        }
    }

    fn forget(&mut self, key: &ObjectKey, cluster: Option<&str>) {
        let Some(cluster) = cluster else { return };
        let cluster = ObjectKey::new(&key.namespace, cluster);
        if let Some(names) = self.by_cluster.get_mut(&cluster) {
            names.remove(&key.name);
            if names.is_empty() {
                self.by_cluster.remove(&cluster);
            }
        }
    }
}

impl CompactObject {
    fn from_object(mut object: Object) -> Self {
        slim(&mut object);
        let version = object.remove(paths::metadata::RESOURCE_VERSION);
        let version = version.as_ref().and_then(Value::as_str).unwrap_or_default().into();
        let cluster = object.label(label::CLUSTER_NAME).map(Into::into);
        let text = object.as_ref().to_string().into_bytes().into_boxed_slice();
        CompactObject { version, cluster, text }
    }

    /// `None` never happens: the text was written from an object.
    fn decode(&self) -> Option<Arc<Object>> {
        let value: Value = serde_json::from_slice(&self.text).ok()?;
        let mut object = Object::try_from(value).ok()?;
        object.set(paths::metadata::RESOURCE_VERSION, (*self.version).into()).ok()?;
        Some(Arc::new(object))
    }
}

/// Leaves of the record of field managers what topologies look at: the entry of what they applied (SSA-11), and one
/// that says that all others were lost (SSA-20). Without any, the others are not missed, but that there were some must
/// show.
pub(in crate::kubernetes) fn slim(object: &mut Object) {
    let Some(Value::Array(mut entries)) = object.remove(paths::metadata::MANAGED_FIELDS) else { return };
    if entries.is_empty() {
        return;
    }
    let text = |entry: &Value, name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let matters = |entry: &Value| match &*text(entry, "manager") {
        MANAGER => text(entry, "subresource").is_empty(),
        manager => manager == "before-first-apply",
    };
    if entries.iter().any(matters) {
        entries.retain(matters);
    } else {
        entries.truncate(1);
        if let Some(other) = entries.first_mut().and_then(Value::as_object_mut) {
            other.remove("fieldsV1");
            other.remove("time");
        }
    }
    // It was there a moment ago.
    let _ = object.set(paths::metadata::MANAGED_FIELDS, Value::Array(entries));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn object(name: &str, cluster: &str, version: &str, spec: Value) -> Object {
        let labels = json!({label::CLUSTER_NAME: cluster, "x": name});
        let ours = json!({"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {}}});
        let theirs = json!({"manager": "provider", "operation": "Update", "fieldsV1": {"f:spec": {}}, "time": version});
        let metadata = json!({
            "namespace": "ns", "name": name, "resourceVersion": version, "labels": labels,
            "managedFields": [theirs, ours],
        });
        Object::try_from(json!({"apiVersion": "a/v1", "kind": "Thing", "metadata": metadata, "spec": spec})).unwrap()
    }

    fn selection(labels: &[(&str, &str)]) -> Selection {
        let labels: BTreeMap<_, _> = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Selection { api_version: "a/v1".into(), kind: "Thing".into(), namespace: "ns".into(), labels }
    }

    fn names(object_store: &ObjectStore, labels: &[(&str, &str)]) -> Vec<String> {
        object_store.list(&selection(labels)).iter().map(|object| object.name().to_owned()).collect()
    }

    #[test]
    fn objects_come_back_with_their_version_and_our_record_alone() {
        let object_store = ObjectStore::default();
        assert!(object_store.put(object("a", "c", "7", json!({"n": 1.5, "z": null}))));
        let found = object_store.get(&ObjectKey::new("ns", "a")).unwrap();
        assert_eq!(found.at("metadata.resourceVersion"), Some(&json!("7")));
        assert_eq!(found.at("spec"), Some(&json!({"n": 1.5, "z": null})));
        let ours = json!([{"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {}}}]);
        assert_eq!(found.at(paths::metadata::MANAGED_FIELDS), Some(&ours));
        assert_eq!(object_store.get(&ObjectKey::new("ns", "b")), None);
    }

    #[test]
    fn writes_of_other_managers_are_visible_without_their_fields() {
        // SSA-22: no managedFields at all is another case
        let object_store = ObjectStore::default();
        let mut plain = object("a", "c", "7", json!({}));
        plain
            .set(paths::metadata::MANAGED_FIELDS, json!([{"manager": "b", "fieldsV1": {"f:x": {}}}, {"manager": "c"}]))
            .unwrap();
        object_store.put(plain.clone());
        let fields = |object_store: &ObjectStore| {
            object_store.get(&ObjectKey::new("ns", "a")).unwrap().at(paths::metadata::MANAGED_FIELDS).cloned()
        };
        assert_eq!(fields(&object_store), Some(json!([{"manager": "b"}])));
        plain.remove(paths::metadata::MANAGED_FIELDS);
        object_store.put(plain.clone());
        assert_eq!(fields(&object_store), None);
        let lost = json!([{"manager": "before-first-apply", "fieldsV1": {"f:x": {}}}]);
        plain.set(paths::metadata::MANAGED_FIELDS, lost.clone()).unwrap();
        object_store.put(plain);
        assert_eq!(fields(&object_store), Some(lost));
    }

    #[test]
    fn a_change_is_what_differs_in_more_than_versions_and_other_managers() {
        // RS-01, PERF-06
        let object_store = ObjectStore::default();
        assert!(object_store.put(object("a", "c", "1", json!({"x": 1}))));
        assert!(!object_store.put(object("a", "c", "2", json!({"x": 1}))));
        assert!(object_store.put(object("a", "c", "3", json!({"x": 2}))));
        let found = object_store.get(&ObjectKey::new("ns", "a")).unwrap();
        assert_eq!(found.at("metadata.resourceVersion"), Some(&json!("3")));
    }

    #[test]
    fn objects_are_found_by_their_cluster_and_by_other_labels() {
        let object_store = ObjectStore::default();
        for (name, cluster) in [("b", "c"), ("a", "c"), ("z", "d")] {
            object_store.put(object(name, cluster, "1", json!({})));
        }
        assert_eq!(names(&object_store, &[(label::CLUSTER_NAME, "c")]), ["a", "b"]);
        assert_eq!(names(&object_store, &[(label::CLUSTER_NAME, "c"), ("x", "b")]), ["b"]);
        assert_eq!(names(&object_store, &[("x", "z")]), ["z"]);
        for namespace in ["nr", "ns-1", "nt"] {
            let mut other = object("z", "c", "1", json!({}));
            other.set("metadata.namespace", json!(namespace)).unwrap();
            object_store.put(other);
        }
        assert_eq!(names(&object_store, &[]), ["a", "b", "z"], "nothing of other namespaces");
        object_store.put(object("a", "d", "2", json!({})));
        assert_eq!(names(&object_store, &[(label::CLUSTER_NAME, "c")]), ["b"]);
        assert_eq!(names(&object_store, &[(label::CLUSTER_NAME, "d")]), ["a", "z"]);
        assert_eq!(
            object_store.remove(&ObjectKey::new("ns", "a"), Some("5")),
            Some(RemovedObject { cluster: Some("d".to_owned()) })
        );
        assert_eq!(object_store.remove(&ObjectKey::new("ns", "a"), None), None);
        assert_eq!(names(&object_store, &[(label::CLUSTER_NAME, "d")]), ["z"]);
        assert_eq!(object_store.size().0, 5);
    }

    #[test]
    fn objects_that_were_seen_are_known_by_their_version() {
        // RS-11
        let object_store = ObjectStore::default();
        object_store.put(object("a", "c", "9", json!({})));
        object_store.put(object("b", "c", "10", json!({})));
        assert!(object_store.has_seen("10") && !object_store.has_seen("11"));
        object_store.remove(&ObjectKey::new("ns", "b"), Some("12"));
        assert!(object_store.has_seen("12"));
        assert!(object_store.has_seen("no number"), "a version that is not a number delays no run");
    }
}

//! Follows one kind, in the management cluster or in a workload cluster, and keeps the store current.
//!
//! ```text
//! list, watch ─► KindWatch ─► apiVersion and kind set, large parts dropped, size checked ─► store
//!                    └──────► Report: listed, failed, alive, too large
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{Stream, StreamExt};
use kube::api::{Api, ApiResource, ObjectMeta};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::store::{LifecycleStore, number};
use crate::kubernetes::address::Resource;
use crate::kubernetes::observations::{self, Observation, WatchedKind};
use crate::kubernetes::{SMALL_PAGE, WatchSelection};
use crate::telemetry::metrics::Metrics;
use golang::json::PlainValue;
use machines::lifecycle::{GroupKind, ObjectId, set_field};
use model::hub::contract::Contract;
use model::hub::{Object, ObjectKey, paths};

/// Maximum size of the objects of one limited workload cluster, in bytes of JSON.
pub(super) const MOST: usize = 256 * 1024 * 1024;
/// Large fields that no step reads.
const LARGE: [&str; 6] = [
    paths::metadata::MANAGED_FIELDS,
    "spec.containers",
    "spec.initContainers",
    "status.containerStatuses",
    "status.initContainerStatuses",
    "status.images",
];

/// Progress of the watch of a kind.
#[derive(Debug)]
pub(super) enum WatchProgress {
    /// All objects of the kind are in the store.
    Listed,
    /// The list or the watch failed; the reason is fit for the status of an object (DEC-40).
    Failed(String),
    /// The API server answered.
    Alive,
    /// The objects of the workload cluster exceed [`MOST`].
    TooMuch,
}

/// The watch of one kind.
pub(super) struct KindWatch {
    pub store: Arc<LifecycleStore>,
    /// The Cluster whose workload cluster is followed; `None` for the management cluster.
    pub workload: Option<ObjectKey>,
    pub kind: GroupKind,
    pub contract: Option<Contract>,
    /// Limits the size of objects; `None` for API servers that the tenant does not control.
    pub sizes: Option<ObjectSizes>,
}

impl KindWatch {
    /// Follows the kind; ends only when the API server does not serve it.
    pub(super) fn follow(
        mut self,
        api: Api<FullObject>,
        resource: &Resource,
        watched: WatchedKind,
        metrics: Arc<Metrics>,
    ) -> impl Stream<Item = WatchProgress> + Send + use<> {
        let resource = resource.as_api().clone();
        // The API server of a tenant has a limit for each response.
        let page = self.sizes.is_some().then_some(SMALL_PAGE);
        let selection = WatchSelection { page, ..WatchSelection::default() };
        let seen = observations::follow(api, selection, watched, metrics);
        seen.map(move |seen| self.take(seen, &resource))
    }

    /// Applies an observation to the store.
    fn take(&mut self, seen: Observation<FullObject>, resource: &ApiResource) -> WatchProgress {
        match seen {
            Observation::There { object, .. } => return self.put(object, resource),
            Observation::Gone(object) => {
                let id = self.id(&object);
                if let Some(sizes) = &mut self.sizes {
                    sizes.take(&id.key, 0);
                }
                self.store.removed(&id, Some(object.object.uid()));
            }
            Observation::Listed { keys, version, .. } => {
                if let Some(sizes) = &mut self.sizes {
                    sizes.retain(|key| keys.contains(key));
                }
                self.store.listed(self.workload.as_ref(), &self.kind, self.contract, &keys, number(&version));
                return WatchProgress::Listed;
            }
            Observation::Failed(fault) => return WatchProgress::Failed(fault.status(&format!("{}s", self.kind.kind))),
            Observation::Alive => {}
        }
        WatchProgress::Alive
    }

    fn put(&mut self, whole: FullObject, resource: &ApiResource) -> WatchProgress {
        let id = self.id(&whole);
        let mut object = whole.object;
        // The items of a list of a built-in kind have no type. Without it, no request can be made from the stored
        // object.
        set_field(&mut object, "apiVersion", resource.api_version.as_str().into());
        set_field(&mut object, "kind", resource.kind.as_str().into());
        if let Some(sizes) = &mut self.sizes {
            LARGE.iter().for_each(|path| drop(object.remove(path)));
            let size = serde_json::to_vec(&object.members()).map_or(0, |text| text.len());
            if !sizes.take(&id.key, size) {
                return WatchProgress::TooMuch;
            }
        }
        self.store.seen(&id, object);
        WatchProgress::Alive
    }

    fn id(&self, object: &FullObject) -> ObjectId {
        ObjectId { workload: self.workload.clone(), kind: self.kind.clone(), key: observations::key_of(object) }
    }
}

/// The sizes of the objects of a kind, and the sum over all kinds of a cluster.
pub(super) struct ObjectSizes {
    by_object: HashMap<ObjectKey, usize>,
    sum: Arc<AtomicUsize>,
}

impl ObjectSizes {
    /// No object of this kind yet. `sum` is shared by all kinds of a cluster.
    pub(super) fn new(sum: Arc<AtomicUsize>) -> Self {
        ObjectSizes { by_object: HashMap::new(), sum }
    }

    /// Notes the size of an object, 0 if it was deleted; returns whether the sum stays within [`MOST`].
    fn take(&mut self, key: &ObjectKey, size: usize) -> bool {
        let before = match size {
            0 => self.by_object.remove(key),
            size => self.by_object.insert(key.clone(), size),
        };
        let before = before.unwrap_or_default();
        let sum = self.sum.fetch_add(size, Ordering::Relaxed) + size;
        self.sum.fetch_sub(before, Ordering::Relaxed);
        sum - before <= MOST
    }

    fn retain(&mut self, is_there: impl Fn(&ObjectKey) -> bool) {
        let gone: Vec<ObjectKey> = self.by_object.keys().filter(|key| !is_there(key)).cloned().collect();
        for key in gone {
            self.take(&key, 0);
        }
    }
}

/// A whole object of any kind.
#[derive(Clone, Debug)]
pub(super) struct FullObject {
    metadata: ObjectMeta,
    pub(super) object: Object,
}

impl<'de> Deserialize<'de> for FullObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let PlainValue(mut value) = Deserialize::deserialize(deserializer)?;
        let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
        let metadata = metadata.ok_or_else(|| D::Error::custom("the object has no metadata"))?;
        metadata.remove("managedFields");
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).map(str::to_owned);
        // Watches look at nothing else of it.
        let metadata = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        let object = Object::try_from(value).map_err(D::Error::custom)?;
        Ok(FullObject { metadata, object })
    }
}

impl kube::Resource for FullObject {
    type DynamicType = ApiResource;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        (&*resource.kind).into()
    }

    fn group(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        (&*resource.group).into()
    }

    fn version(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        (&*resource.version).into()
    }

    fn plural(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        (&*resource.plural).into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    /// The watch of a kind, its store and the identity of one object.
    struct Watched {
        watch: KindWatch,
        resource: Resource,
        store: Arc<LifecycleStore>,
        id: ObjectId,
    }

    impl Watched {
        fn new(
            workload: Option<&ObjectKey>,
            (group, kind): (&'static str, &'static str),
            sizes: Option<ObjectSizes>,
        ) -> Self {
            let (store, kind_of) = (Arc::new(LifecycleStore::new(Arc::default()).0), GroupKind::new(group, kind));
            let id = ObjectId { workload: workload.cloned(), kind: kind_of.clone(), key: ObjectKey::new("d", "p") };
            let watch =
                KindWatch { store: store.clone(), workload: workload.cloned(), kind: kind_of, contract: None, sizes };
            Watched { watch, resource: Resource::known(group, "v1", kind), store, id }
        }

        fn list(&mut self, objects: &[&Value]) {
            for object in objects {
                self.watch.take(Observation::There { object: whole(object), in_list: true }, self.resource.as_api());
            }
            let keys: BTreeSet<ObjectKey> = objects.iter().map(|object| observations::key_of(&whole(object))).collect();
            let version = "1".to_owned();
            self.watch.take(Observation::Listed { keys, is_first: false, version }, self.resource.as_api());
        }

        fn stored(&self) -> Option<Value> {
            self.store.with(|objects| objects.get(&self.id).map(|object| Value::Object(object.members().clone())))
        }
    }

    fn whole(object: &Value) -> FullObject {
        serde_json::from_value(object.clone()).unwrap()
    }

    /// A Pod as it is among the items of a list.
    fn item() -> Value {
        json!({"metadata": {"name": "p", "namespace": "d", "uid": "1", "resourceVersion": "1"},
            "spec": {"nodeName": "n"}})
    }

    fn places() -> [(Option<ObjectKey>, Option<ObjectSizes>); 3] {
        let cluster = Some(ObjectKey::new("ns", "c"));
        [(None, None), (cluster.clone(), None), (cluster, Some(ObjectSizes::new(Arc::default())))]
    }

    #[test]
    fn items_of_lists_get_their_type_even_if_they_come_before_the_answer_to_the_write() {
        for (workload, sizes) in places() {
            for (group, kind, api_version) in [("", "Pod", "v1"), ("apps", "DaemonSet", "apps/v1")] {
                let sizes = sizes.as_ref().map(|_| ObjectSizes::new(Arc::default()));
                let mut watched = Watched::new(workload.as_ref(), (group, kind), sizes);
                watched.list(&[&item()]);
                let mut answer = item();
                (answer["apiVersion"], answer["kind"]) = (json!(api_version), json!(kind));
                // The same version: what the watch has shown stays.
                watched.store.wrote(&watched.id, Object::try_from(answer.clone()).unwrap());
                assert_eq!(watched.stored(), Some(answer), "{kind} in {workload:?}");
            }
        }
    }

    #[test]
    fn a_list_removes_what_was_deleted_in_a_gap() {
        for (workload, sizes) in places() {
            let mut watched = Watched::new(workload.as_ref(), ("", "Pod"), sizes);
            watched.list(&[&item()]);
            assert!(watched.stored().is_some());
            watched.list(&[]);
            assert_eq!(watched.stored(), None, "{workload:?}");
        }
    }

    #[test]
    fn objects_of_limited_clusters_lose_large_fields_that_no_step_reads() {
        let cluster = ObjectKey::new("ns", "c");
        for (sizes, is_trimmed) in [(None, false), (Some(ObjectSizes::new(Arc::default())), true)] {
            let mut watched = Watched::new(Some(&cluster), ("", "Pod"), sizes);
            let mut pod = item();
            pod["spec"]["containers"] = json!([{"env": []}]);
            watched.list(&[&pod]);
            assert_eq!(watched.stored().unwrap()["spec"].get("containers").is_none(), is_trimmed);
        }
    }

    #[test]
    fn the_objects_of_a_cluster_have_a_sum() {
        let mut sizes = ObjectSizes::new(Arc::default());
        let [a, b] = ["a", "b"].map(|name| ObjectKey::new("", name));
        assert!(sizes.take(&a, MOST - 1) && sizes.take(&a, MOST));
        assert!(!sizes.take(&b, 1), "there is no room");
        assert!(sizes.take(&a, 0) && sizes.take(&b, MOST - 1));
        sizes.retain(|_| false);
        assert_eq!(sizes.sum.load(Ordering::Relaxed), 0);
    }
}

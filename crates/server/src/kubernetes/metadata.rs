//! Watches that store only the metadata of objects.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use kube::api::{Api, ApiResource, DynamicObject, ObjectMeta};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};

use super::WatchSelection;
use super::observations::{Mirror, Observation, StoreChange, WatchedKind};
use crate::telemetry::metrics::Metrics;
use model::hub::annotation;
use model::hub::{ObjectKey, label};

/// The metadata of an object of any kind.
pub type ObjectMetadata = PartialObjectMeta<DynamicObject>;

/// The Cluster of an object, by the label that topologies set.
pub(crate) fn cluster_of(object: &ObjectMetadata) -> Option<ObjectKey> {
    let name = object.metadata.labels.as_ref()?.get(label::CLUSTER_NAME)?;
    Some(ObjectKey::new(object.metadata.namespace.clone().unwrap_or_default(), name))
}

/// A store of the metadata of the objects of a kind, indexed by Cluster.
#[derive(Clone, Debug)]
pub(crate) struct MetadataStore {
    store: Store<ObjectMetadata>,
    resource: ApiResource,
    /// The names of objects by their Cluster. Some may be gone, or belong to another Cluster by now.
    names: Arc<Mutex<HashMap<ObjectKey, BTreeSet<String>>>>,
}

impl MetadataStore {
    /// All objects.
    pub(crate) fn store(&self) -> &Store<ObjectMetadata> {
        &self.store
    }

    /// The objects of a Cluster, by name.
    pub(crate) fn in_cluster(&self, cluster: &ObjectKey) -> Vec<Arc<ObjectMetadata>> {
        let mut names = self.names();
        let Some(known) = names.get_mut(cluster) else { return Vec::new() };
        let mut found = Vec::new();
        known.retain(|name| {
            let reference = ObjectRef::new_with(name, self.resource.clone()).within(&cluster.namespace);
            let object = self.store.get(&reference).filter(|object| cluster_of(object).as_ref() == Some(cluster));
            let is_there = object.is_some();
            found.extend(object);
            is_there
        });
        if known.is_empty() {
            names.remove(cluster);
        }
        found
    }

    fn note(&self, object: &ObjectMetadata) {
        if let (Some(cluster), Some(name)) = (cluster_of(object), &object.metadata.name) {
            self.names().entry(cluster).or_default().insert(name.clone());
        }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<ObjectKey, BTreeSet<String>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a store of metadata current, and reports each change after it is in the store; ends only when the kind is not
/// served.
///
/// It keeps only what controllers and reviews read: names, labels, owners, versions, generations, finalizers, and
/// whether objects are paused or being deleted.
pub(crate) fn follow(
    api: Api<ObjectMetadata>,
    resource: ApiResource,
    selection: WatchSelection,
    kind: WatchedKind,
    metrics: Arc<Metrics>,
    changed: impl Fn(StoreChange<'_, ObjectMetadata>) + Send,
) -> (MetadataStore, impl Future<Output = ()> + Send) {
    let mut mirror = Mirror::for_resource(resource.clone());
    let objects = MetadataStore { store: mirror.store().clone(), resource, names: Arc::default() };
    let index = objects.clone();
    let selection = WatchSelection { only_metadata: true, ..selection };
    let follow = async move {
        let mut seen = super::observations::follow(api, selection, kind, metrics);
        while let Some(mut seen) = seen.next().await {
            if let Observation::There { object, .. } = &mut seen {
                prune(object);
                index.note(object);
            }
            mirror.take(seen, &changed);
        }
    };
    (objects, follow)
}

fn prune(object: &mut ObjectMetadata) {
    let full = std::mem::take(&mut object.metadata);
    object.metadata = ObjectMeta {
        name: full.name,
        namespace: full.namespace,
        uid: full.uid,
        generation: full.generation,
        resource_version: full.resource_version,
        labels: full.labels,
        owner_references: full.owner_references,
        deletion_timestamp: full.deletion_timestamp,
        finalizers: full.finalizers,
        annotations: full.annotations.and_then(paused),
        ..ObjectMeta::default()
    };
}

/// The only annotation that controllers read.
fn paused(mut annotations: BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    annotations.retain(|name, _| name == annotation::PAUSED);
    Some(annotations).filter(|annotations| !annotations.is_empty())
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use kube::runtime::reflector::store::Writer;
    use kube::runtime::watcher::Event;

    use super::*;

    #[tokio::test]
    async fn nothing_but_metadata_is_requested() {
        let accepted: Arc<Mutex<Vec<(bool, String)>>> = Arc::default();
        let noted = accepted.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let is_watch = request.uri().query().unwrap_or_default().contains("watch=true");
            let accept = request.headers()[http::header::ACCEPT].to_str().unwrap().to_owned();
            noted.lock().unwrap().push((is_watch, accept));
            async move {
                if is_watch {
                    std::future::pending::<()>().await;
                }
                let list = axum::body::Body::from(r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#);
                Ok::<_, std::convert::Infallible>(http::Response::new(list))
            }
        });
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        let api = Api::all_with(kube::Client::new(service, "default"), &resource);
        let kind = WatchedKind::own("ConfigMap", "v1");
        let (_, follow) = follow(api, resource, WatchSelection::default(), kind, Arc::default(), |_| ());
        let is_watching = async {
            while accepted.lock().unwrap().len() < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! { () = follow => {}, () = is_watching => {} }
        let accepted = accepted.lock().unwrap();
        assert!(accepted[0].1.contains("as=PartialObjectMetadataList") && !accepted[0].0, "{accepted:?}");
        assert!(accepted[1].1.contains("as=PartialObjectMetadata;") && accepted[1].0, "{accepted:?}");
    }

    #[test]
    fn objects_are_found_by_their_cluster_as_long_as_they_belong_to_it() {
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        let mut writer = Writer::new(resource.clone());
        let objects = MetadataStore { store: writer.as_reader(), resource, names: Arc::default() };
        let object = |name: &str, cluster: &str| {
            let labels = BTreeMap::from([(label::CLUSTER_NAME.to_owned(), cluster.to_owned())]);
            let (name, namespace) = (Some(name.to_owned()), Some("ns".to_owned()));
            let metadata = ObjectMeta { name, namespace, labels: Some(labels), ..ObjectMeta::default() };
            ObjectMetadata { types: None, metadata, _phantom: PhantomData }
        };
        let mut apply = |event: Event<ObjectMetadata>| {
            writer.apply_watcher_event(&event);
            if let Event::Apply(object) = &event {
                objects.note(object);
            }
        };
        let of = |cluster: &str| -> Vec<String> {
            let found = objects.in_cluster(&ObjectKey::new("ns", cluster));
            found.iter().map(|object| object.metadata.name.clone().unwrap()).collect()
        };
        for (name, cluster) in [("b", "one"), ("a", "one"), ("c", "two")] {
            apply(Event::Apply(object(name, cluster)));
        }
        assert_eq!((of("one"), of("two"), of("three")), (vec!["a".into(), "b".into()], vec!["c".into()], vec![]));
        apply(Event::Delete(object("a", "one")));
        apply(Event::Apply(object("b", "two")));
        assert_eq!((of("one"), of("two")), (vec![], vec!["b".to_owned(), "c".to_owned()]));
        assert_eq!(objects.names().len(), 1, "nothing is kept of a Cluster without objects");
    }
}

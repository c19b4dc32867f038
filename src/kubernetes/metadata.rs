//! Watches that keep the metadata of objects and nothing else of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use kube::api::{Api, ApiResource, DynamicObject, ObjectMeta, Resource};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;
use tracing::{debug, info, warn};

use super::{Selection, events};
use crate::hub::annotation;
use crate::hub::{ObjectKey, label};
use crate::telemetry::metrics::{self, Metrics};

/// The metadata of an object of any kind.
pub type Metadata = PartialObjectMeta<DynamicObject>;

/// Namespace and name of an object.
pub(crate) fn key_of(object: &Metadata) -> ObjectKey {
    let metadata = &object.metadata;
    ObjectKey::new(metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// The Cluster that an object belongs to; topologies write its name on everything.
pub(crate) fn cluster_of(object: &Metadata) -> Option<ObjectKey> {
    let name = object.metadata.labels.as_ref()?.get(label::CLUSTER_NAME)?;
    Some(ObjectKey::new(object.metadata.namespace.clone().unwrap_or_default(), name))
}

/// The metadata of the objects of a kind, also by the Cluster that they belong to.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    store: Store<Metadata>,
    resource: ApiResource,
    /// The names of objects by their Cluster. Some may be gone, or belong to another Cluster by now.
    names: Arc<Mutex<HashMap<ObjectKey, BTreeSet<String>>>>,
}

impl Objects {
    /// All of them.
    pub(crate) fn store(&self) -> &Store<Metadata> {
        &self.store
    }

    /// Those that belong to a Cluster, by name.
    pub(crate) fn of_cluster(&self, cluster: &ObjectKey) -> Vec<Arc<Metadata>> {
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

    fn note(&self, object: &Metadata) {
        if let (Some(cluster), Some(name)) = (cluster_of(object), &object.metadata.name) {
            self.names().entry(cluster).or_default().insert(name.clone());
        }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<ObjectKey, BTreeSet<String>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became different in a store.
#[derive(Debug)]
pub enum Change<'a> {
    /// This object was created, changed or deleted.
    One(&'a Metadata),
    /// The list was read for the first time.
    All,
}

/// What becomes of a watch whose first list is answered with 404.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfUnserved {
    /// The kind belongs to the installation, and is about to be served.
    Retry,
    /// The watch ends; who needs the kind asks again.
    End,
}

/// Keeps a store of metadata current, for ever, and tells of each change after it is in the store.
///
/// `kind` is what logs and metrics call the kind. Only what controllers look at is kept: names, labels, owners,
/// versions, finalizers, and whether they are paused or being deleted.
pub(crate) fn follow(
    api: Api<Metadata>,
    resource: ApiResource,
    selection: Selection,
    kind: &'static str,
    metrics: Arc<Metrics>,
    if_unserved: IfUnserved,
    changed: impl Fn(Change<'_>) + Send,
) -> (Objects, impl Future<Output = ()> + Send) {
    let mut writer = Writer::new(resource.clone());
    let store = writer.as_reader();
    let objects = Objects { store: store.clone(), resource: resource.clone(), names: Arc::default() };
    let (reader, index) = (store, objects.clone());
    let follow = async move {
        let mut listed = false;
        let mut events = pin!(events(api, selection));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let event = event.modify(prune);
                    let before = matches!(event, Event::InitDone).then(|| reader.state());
                    writer.apply_watcher_event(&event);
                    match &event {
                        Event::Apply(object) => index.note(object),
                        Event::InitDone => reader.state().iter().for_each(|object| index.note(object)),
                        _ => {}
                    }
                    match &event {
                        Event::Apply(object) | Event::Delete(object) => changed(Change::One(object)),
                        Event::InitDone if !listed => {
                            info!(kind = resource.kind, version = resource.api_version, "Listed objects");
                            listed = true;
                            changed(Change::All);
                        }
                        Event::InitDone => {
                            let different = differences(&before.unwrap_or_default(), &reader.state());
                            different.iter().for_each(|object| changed(Change::One(object)));
                        }
                        Event::Init | Event::InitApply(_) => {}
                    }
                }
                Err(error) if !listed && if_unserved == IfUnserved::End && error.is_not_found() => {
                    debug!(kind = resource.kind, version = resource.api_version, "API server does not serve this kind");
                    return;
                }
                Err(error) => {
                    metrics.watch_errors.get_or_create(&metrics::Kind { kind }).inc();
                    warn!(kind = resource.kind, version = resource.api_version, %error, "Watch failed, trying again");
                }
            }
        }
    };
    (objects, follow)
}

/// The objects of two lists that are in one alone or differ in their versions.
pub(crate) fn differences<K>(before: &[Arc<K>], after: &[Arc<K>]) -> Vec<Arc<K>>
where
    K: Resource,
{
    fn name<K: Resource>(object: &K) -> (Option<&str>, Option<&str>) {
        (object.meta().namespace.as_deref(), object.meta().name.as_deref())
    }
    fn by_name<K: Resource>(list: &[Arc<K>]) -> BTreeMap<(Option<&str>, Option<&str>), &Arc<K>> {
        list.iter().map(|object| (name(&**object), object)).collect()
    }
    let (before, mut after) = (by_name(before), by_name(after));
    let mut different = Vec::new();
    for (name, old) in before {
        match after.remove(&name) {
            Some(new) if new.meta().resource_version == old.meta().resource_version => {}
            Some(new) => different.push(new.clone()),
            None => different.push(old.clone()),
        }
    }
    different.extend(after.into_values().cloned());
    different
}

fn prune(object: &mut Metadata) {
    let full = std::mem::take(&mut object.metadata);
    object.metadata = ObjectMeta {
        name: full.name,
        namespace: full.namespace,
        uid: full.uid,
        resource_version: full.resource_version,
        labels: full.labels,
        owner_references: full.owner_references,
        deletion_timestamp: full.deletion_timestamp,
        finalizers: full.finalizers,
        annotations: full.annotations.and_then(paused),
        ..ObjectMeta::default()
    };
}

/// The one annotation that controllers look at.
fn paused(mut annotations: BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    annotations.retain(|name, _| name == annotation::PAUSED);
    Some(annotations).filter(|annotations| !annotations.is_empty())
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use super::*;

    fn list(objects: &[(&str, &str)]) -> Vec<Arc<Metadata>> {
        let object = |(name, version): &(&str, &str)| {
            let metadata = ObjectMeta {
                name: Some((*name).to_owned()),
                resource_version: Some((*version).to_owned()),
                ..ObjectMeta::default()
            };
            Arc::new(Metadata { types: None, metadata, _phantom: PhantomData })
        };
        objects.iter().map(object).collect()
    }

    #[test]
    fn lists_differ_in_what_came_changed_and_went() {
        let before = list(&[("same", "1"), ("changed", "1"), ("gone", "1")]);
        let after = list(&[("changed", "2"), ("same", "1"), ("new", "3")]);
        let names: Vec<_> = differences(&before, &after).iter().map(|o| o.metadata.name.clone().unwrap()).collect();
        assert_eq!(names, ["changed", "gone", "new"]);
        assert!(differences(&after, &after).is_empty());
    }

    #[test]
    fn objects_are_found_by_their_cluster_as_long_as_they_belong_to_it() {
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        let mut writer = Writer::new(resource.clone());
        let objects = Objects { store: writer.as_reader(), resource, names: Arc::default() };
        let object = |name: &str, cluster: &str| {
            let labels = BTreeMap::from([(label::CLUSTER_NAME.to_owned(), cluster.to_owned())]);
            let (name, namespace) = (Some(name.to_owned()), Some("ns".to_owned()));
            let metadata = ObjectMeta { name, namespace, labels: Some(labels), ..ObjectMeta::default() };
            Metadata { types: None, metadata, _phantom: PhantomData }
        };
        let mut apply = |event: Event<Metadata>| {
            writer.apply_watcher_event(&event);
            if let Event::Apply(object) = &event {
                objects.note(object);
            }
        };
        let of = |cluster: &str| -> Vec<String> {
            let found = objects.of_cluster(&ObjectKey::new("ns", cluster));
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

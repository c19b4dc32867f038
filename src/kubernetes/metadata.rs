//! Watches that keep the metadata of objects and nothing else of them.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use kube::api::{Api, ApiResource, DynamicObject, ObjectMeta, Resource};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
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
) -> (Store<Metadata>, impl Future<Output = ()> + Send) {
    let mut writer = Writer::new(resource.clone());
    let store = writer.as_reader();
    let reader = store.clone();
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
    (store, follow)
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
}

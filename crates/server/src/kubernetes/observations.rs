//! The observations of a watch for its consumers: existing objects, deleted objects, and complete lists. Faults are
//! counted and logged here, and retried.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use kube::api::{Api, Resource};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{Lookup, ObjectRef, Store};
use kube::runtime::watcher::Event;
use serde::de::DeserializeOwned;
use tracing::{debug, info, warn};

use super::list_watch::{Fault, ListWatchEvent, WatchSelection, list_watch};
use crate::telemetry::metrics::{self, Metrics};
use model::hub::ObjectKey;
use schema::field::shortened;

/// An observation of a watch.
#[derive(Debug)]
pub(crate) enum Observation<K> {
    /// An object that is there; `in_list` if it did not have to come or change for that.
    There { object: K, in_list: bool },
    /// The last state of an object that was deleted.
    Gone(K),
    /// A list is complete: objects with other keys were gone at this resourceVersion.
    Listed { keys: BTreeSet<ObjectKey>, is_first: bool, version: String },
    /// The API server has answered, and there is no news.
    Alive,
    /// The list or the watch failed, and is tried again.
    Failed(Fault),
}

/// The names of a kind in logs and metrics.
#[derive(Clone, Debug)]
pub(crate) struct WatchedKind {
    /// The label of metrics, which have no names that come from outside.
    pub metric: &'static str,
    /// Kind and API version of log lines.
    pub kind: String,
    pub version: String,
    /// Whether the watch ends if the first list is answered with 404, because nothing serves the kind. Otherwise the
    /// kind belongs to the installation, and is about to be served.
    pub ends_if_unserved: bool,
}

impl WatchedKind {
    /// A kind that belongs to the installation.
    pub(crate) fn own(kind: &'static str, version: &str) -> Self {
        WatchedKind { metric: kind, kind: kind.to_owned(), version: version.to_owned(), ends_if_unserved: false }
    }

    /// Logs the first complete list. A kind without events is listed again every few minutes, which is not logged.
    fn note<K>(&self, seen: &Observation<K>) {
        let WatchedKind { kind, version, .. } = self;
        match seen {
            Observation::Listed { keys, is_first: true, .. } => {
                info!(kind, version, objects = keys.len(), "Listed objects");
            }
            Observation::Listed { keys, .. } => debug!(kind, version, objects = keys.len(), "Listed objects again"),
            _ => {}
        }
    }
}

/// Watches the objects of a kind; ends only when the kind is not served.
pub(crate) fn follow<K>(
    api: Api<K>,
    selection: WatchSelection,
    kind: WatchedKind,
    metrics: Arc<Metrics>,
) -> BoxStream<'static, Observation<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    seen(list_watch(api, selection), kind, metrics).boxed()
}

fn seen<K: Resource + 'static>(
    reports: impl Stream<Item = Result<ListWatchEvent<K>, Fault>> + Send + 'static,
    kind: WatchedKind,
    metrics: Arc<Metrics>,
) -> impl Stream<Item = Observation<K>> + Send {
    let start = (Box::pin(reports), ListProgress::default(), kind, metrics, None);
    stream::unfold(start, async |(mut reports, mut lists, kind, metrics, shown)| {
        // The consumer asks for more once it has taken over what it was given.
        let newest = metrics.watch_version.get_or_create(&metrics::Kind { kind: kind.metric }).clone();
        shown.into_iter().for_each(|shown| {
            newest.set(newest.get().max(shown));
        });
        let seen = match reports.next().await? {
            Ok(ListWatchEvent::Bookmark | ListWatchEvent::Reopened) => Observation::Alive,
            Ok(ListWatchEvent::Event(event)) => lists.seen(event),
            Ok(ListWatchEvent::Listed { version }) => lists.listed(version),
            Err(fault) if kind.ends_if_unserved && !lists.has_listed && fault.is_not_found() => {
                debug!(kind = kind.kind, version = kind.version, "The API server does not serve this kind");
                return None;
            }
            Err(fault) => {
                if matches!(fault, Fault::WentBack(..)) {
                    // Versions of the history that is lost are newer than those to come.
                    newest.set(0);
                }
                metrics.watch_errors.get_or_create(&metrics::Kind { kind: kind.metric }).inc();
                warn!(kind = kind.kind, version = kind.version, error = %shortened(&fault.to_string()),
                    "Watch failed, retrying");
                Observation::Failed(fault)
            }
        };
        kind.note(&seen);
        let shown = version_of(&seen).or(shown);
        Some((seen, (reports, lists, kind, metrics, shown)))
    })
}

/// The resourceVersion up to which an observation shows the objects of a kind.
fn version_of<K: Resource>(seen: &Observation<K>) -> Option<i64> {
    let version = match seen {
        Observation::There { object, in_list: false } | Observation::Gone(object) => {
            object.meta().resource_version.as_deref()
        }
        Observation::Listed { version, .. } => Some(&**version),
        Observation::There { in_list: true, .. } | Observation::Alive | Observation::Failed(_) => None,
    };
    version?.parse().ok()
}

/// The list in progress: objects arrive one by one, and objects that did not arrive are deleted at its end.
#[derive(Debug, Default)]
pub(super) struct ListProgress {
    keys: BTreeSet<ObjectKey>,
    has_listed: bool,
}

impl ListProgress {
    pub(super) fn seen<K: Resource>(&mut self, event: Event<K>) -> Observation<K> {
        match event {
            Event::Init => {
                self.keys.clear();
                Observation::Alive
            }
            Event::InitApply(object) => {
                self.keys.insert(key_of(&object));
                Observation::There { object, in_list: true }
            }
            // This event has no version; lists of the API server end with `listed`.
            Event::InitDone => self.listed(String::new()),
            Event::Apply(object) => Observation::There { object, in_list: false },
            Event::Delete(object) => Observation::Gone(object),
        }
    }

    fn listed<K>(&mut self, version: String) -> Observation<K> {
        let is_first = !std::mem::replace(&mut self.has_listed, true);
        Observation::Listed { keys: std::mem::take(&mut self.keys), is_first, version }
    }
}

/// Namespace and name of an object.
pub(crate) fn key_of<K: Resource>(object: &K) -> ObjectKey {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    ObjectKey::new(part(&object.meta().namespace), part(&object.meta().name))
}

/// A change of a store.
#[derive(Debug)]
pub(crate) enum StoreChange<'a, K> {
    /// This object was created, changed or deleted.
    One(&'a K),
    /// The list was read for the first time.
    All,
}

/// A store with the current objects of a watch.
#[derive(Debug)]
pub(crate) struct Mirror<K>
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    writer: Writer<K>,
    store: Store<K>,
    resource: K::DynamicType,
    has_listed: bool,
}

impl<K> Mirror<K>
where
    K: Resource + Lookup<DynamicType = <K as Resource>::DynamicType> + Clone + 'static,
    <K as Resource>::DynamicType: Eq + Hash + Clone,
{
    pub(crate) fn for_resource(resource: <K as Resource>::DynamicType) -> Self {
        let writer = Writer::new(resource.clone());
        Mirror { store: writer.as_reader(), writer, resource, has_listed: false }
    }

    pub(crate) fn store(&self) -> &Store<K> {
        &self.store
    }

    /// Applies an observation, and reports each change after it is in the store. The store is empty until the first
    /// list is complete.
    pub(crate) fn take(&mut self, seen: Observation<K>, mut changed: impl FnMut(StoreChange<'_, K>)) {
        match seen {
            Observation::There { object, .. } if !self.has_listed => {
                self.writer.apply_watcher_event(&Event::InitApply(object));
            }
            Observation::There { object, .. } => {
                let before = self.store.get(&self.reference(&object));
                let version = |object: &K| object.meta().resource_version.clone();
                let is_same = before.is_some_and(|before| version(&before) == version(&object));
                let event = Event::Apply(object);
                self.writer.apply_watcher_event(&event);
                if let Event::Apply(object) = &event
                    && !is_same
                {
                    changed(StoreChange::One(object));
                }
            }
            Observation::Gone(object) => self.remove(object, changed),
            Observation::Listed { keys, is_first, .. } => {
                if is_first {
                    self.writer.apply_watcher_event(&Event::InitDone);
                    self.has_listed = true;
                }
                for gone in self.store.state().iter().filter(|object| !keys.contains(&key_of(&***object))) {
                    self.remove(K::clone(gone), |change| {
                        if !is_first {
                            changed(change);
                        }
                    });
                }
                if is_first {
                    changed(StoreChange::All);
                }
            }
            Observation::Alive | Observation::Failed(_) => {}
        }
    }

    fn remove(&mut self, object: K, mut changed: impl FnMut(StoreChange<'_, K>)) {
        let event = Event::Delete(object);
        self.writer.apply_watcher_event(&event);
        if let Event::Delete(object) = &event {
            changed(StoreChange::One(object));
        }
    }

    fn reference(&self, object: &K) -> ObjectRef<K> {
        ObjectRef::from_obj_with(object, self.resource.clone())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::kubernetes::scripted::{Script, ScriptedAnswer};

    const PATH: &str = "/api/v1/configmaps";

    fn object(name: &str, version: &str) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": name, "resourceVersion": version}})).unwrap()
    }

    /// A mirror, and what it has told.
    struct Seen(ListProgress, Mirror<ConfigMap>);

    impl Seen {
        fn new() -> Self {
            Seen(ListProgress::default(), Mirror::for_resource(()))
        }

        fn take(&mut self, events: Vec<Event<ConfigMap>>) -> Vec<String> {
            let mut changed = Vec::new();
            for event in events {
                let seen = self.0.seen(event);
                self.1.take(seen, |change| match change {
                    StoreChange::One(object) => changed.push(object.metadata.name.clone().unwrap()),
                    StoreChange::All => changed.push("all".to_owned()),
                });
            }
            changed
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<_> =
                self.1.store().state().iter().map(|one| one.metadata.name.clone().unwrap()).collect();
            names.sort();
            names
        }
    }

    fn list(objects: &[(&str, &str)]) -> Vec<Event<ConfigMap>> {
        let all = objects.iter().map(|(name, version)| Event::InitApply(object(name, version)));
        std::iter::once(Event::Init).chain(all).chain([Event::InitDone]).collect()
    }

    #[test]
    fn a_new_list_gives_the_added_changed_and_deleted_objects() {
        let mut seen = Seen::new();
        let mut first = list(&[("same", "1"), ("changed", "1"), ("gone", "1")]);
        let end = first.pop().unwrap();
        assert_eq!((seen.take(first), seen.names().len()), (vec![], 0), "the first list is not complete");
        assert_eq!(seen.take(vec![end]), ["all"]);
        assert_eq!(seen.take(list(&[("changed", "2"), ("same", "1"), ("new", "3")])), ["changed", "new", "gone"]);
        assert_eq!(seen.names(), ["changed", "new", "same"]);
        assert_eq!(
            seen.take(vec![Event::Apply(object("same", "4")), Event::Delete(object("new", "5"))]),
            ["same", "new"]
        );
        assert_eq!(seen.names(), ["changed", "same"]);
    }

    #[test]
    fn objects_deleted_before_the_first_list_was_complete_are_not_kept() {
        let mut seen = Seen::new();
        let broken_off = vec![Event::Init, Event::InitApply(object("gone", "1"))];
        assert_eq!(seen.take(broken_off), Vec::<String>::new());
        assert_eq!(seen.take(list(&[("a", "2")])), ["all"]);
        assert_eq!(seen.names(), ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn faults_are_counted_and_watches_of_unserved_kinds_end() {
        let unserved = || ScriptedAnswer::error(404, "the server could not find the requested resource");
        for (ends_if_unserved, errors) in [(true, 0), (false, 1)] {
            let (script, metrics) = (Script::default(), Arc::new(Metrics::default()));
            script.get(PATH, &[], unserved());
            script.get(PATH, &[], ScriptedAnswer::ok(json!({"metadata": {"resourceVersion": "1"}, "items": []})));
            let kind = WatchedKind { ends_if_unserved, ..WatchedKind::own("ConfigMap", "v1") };
            let mut seen =
                follow::<ConfigMap>(Api::all(script.client()), WatchSelection::default(), kind, metrics.clone());
            match seen.next().await {
                None => assert!(ends_if_unserved),
                Some(Observation::Failed(fault)) => assert!(!ends_if_unserved && fault.is_not_found()),
                Some(other) => panic!("{other:?}"),
            }
            let counted = metrics.watch_errors.get_or_create(&metrics::Kind { kind: "ConfigMap" }).get();
            assert_eq!(counted, errors);
        }
    }
}

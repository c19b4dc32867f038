//! The store of objects, with their owners and recent changes.
//!
//! ```text
//! put, remove ─► version, indexes, log ─► watchers                collect.rs: what follows from it, until nothing does
//!                         │
//! snapshot ◄── persistent maps: lists are read without holding the lock
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;
use rpds::RedBlackTreeMapSync;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Retention;
use super::expiry::Expiry;
use super::index::ByCluster;
use super::log::ChangeLog;
use super::registry::{KindRegistry, ServedResource};
use super::stored::StoredEntry;
use crate::ApiOptions;

/// Objects of one kind by `namespace/name`, or by name.
pub(crate) type StoredObjects = RedBlackTreeMapSync<Arc<str>, Arc<StoredEntry>>;

/// The objects from a key on, sorted.
pub(crate) fn from<'o, 'k>(
    objects: &'o StoredObjects,
    key: &'k str,
) -> impl Iterator<Item = (&'o Arc<str>, &'o Arc<StoredEntry>)> + use<'o, 'k> {
    objects.range::<str, _>((Bound::Included(key), Bound::Unbounded))
}

/// The objects with a key prefix, sorted.
pub(crate) fn within<'o, 'k>(
    objects: &'o StoredObjects,
    prefix: &'k str,
) -> impl Iterator<Item = (&'o Arc<str>, &'o Arc<StoredEntry>)> + use<'o, 'k> {
    from(objects, prefix).take_while(move |(key, _)| key.starts_with(prefix))
}

/// Location of an object: the store name of its kind, and its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StoreKey {
    pub kind: Arc<str>,
    pub key: Arc<str>,
}

impl StoreKey {
    pub(crate) fn new(resource: &ServedResource, namespace: &str, name: &str) -> Self {
        StoreKey { kind: resource.store_name().into(), key: key(namespace, name) }
    }

    /// Empty for cluster-scoped objects.
    pub(crate) fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }
}

/// The key of an object within its kind.
pub(crate) fn key(namespace: &str, name: &str) -> Arc<str> {
    if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}").into() }
}

/// The range of objects of a kind that a request concerns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRange<'a> {
    /// Namespace and slash; empty for all.
    pub prefix: &'a str,
    /// The Cluster in their label; `None` for any.
    pub cluster: Option<&'a str>,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub(crate) struct WatchEvent {
    pub version: u64,
    pub key: Arc<str>,
    pub before: Option<Arc<StoredEntry>>,
    /// `None` if the object was removed.
    pub after: Option<Arc<StoredEntry>>,
}

/// The objects of a kind.
#[derive(Debug)]
pub(super) struct StoredKind {
    pub objects: StoredObjects,
    by_cluster: ByCluster,
    log: ChangeLog<WatchEvent>,
    news: watch::Sender<u64>,
}

impl StoredKind {
    fn new(version: u64, forgotten: u64) -> Self {
        StoredKind {
            objects: StoredObjects::new_sync(),
            by_cluster: ByCluster::default(),
            log: ChangeLog::since(forgotten),
            news: watch::Sender::new(version),
        }
    }

    /// Stores an object; returns the previous one.
    fn insert(&mut self, key: &Arc<str>, after: &Arc<StoredEntry>) -> Option<Arc<StoredEntry>> {
        let before = self.objects.get(key).cloned();
        self.by_cluster.note(key, before.as_ref().and_then(|before| before.cluster()), after.cluster());
        self.objects.insert_mut(key.clone(), after.clone());
        before
    }

    /// Removes an existing object.
    fn take(&mut self, key: &Arc<str>, before: &StoredEntry) {
        self.by_cluster.note(key, before.cluster(), None);
        self.objects.remove_mut(key);
    }
}

/// Changes after a version; `None` if they are not available any more.
#[derive(Debug)]
pub(crate) struct EventBatch {
    pub events: Option<Vec<WatchEvent>>,
    /// The version up to which this is complete.
    pub version: u64,
}

/// Whether all objects of a terminating namespace or kind have been deleted, apart from those with finalizers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sweep {
    #[default]
    Due,
    Done,
}

/// The contents of the store.
#[derive(Debug)]
pub(crate) struct StoreState {
    options: ApiOptions,
    retention: Retention,
    /// Time of the last search for outdated changes.
    swept: Timestamp,
    /// Version of the last write.
    pub version: u64,
    pub registry: Arc<KindRegistry>,
    pub(super) collections: BTreeMap<Arc<str>, StoredKind>,
    /// Objects by uid.
    places: HashMap<Arc<str>, StoreKey>,
    /// Objects by the uids of their owners.
    dependents: HashMap<Arc<str>, BTreeSet<StoreKey>>,
    /// Changes whose consequences are not processed yet.
    pub(super) pending: VecDeque<StoreKey>,
    /// Namespaces that are being deleted.
    pub(super) terminating: BTreeMap<String, Sweep>,
    /// Definitions that are being deleted, by name.
    pub(super) withdrawn: BTreeMap<String, Sweep>,
    expiry: Expiry<StoreKey>,
}

impl StoreState {
    pub(crate) fn new(registry: Arc<KindRegistry>, options: ApiOptions, retention: Retention) -> Self {
        let swept = (options.clock)();
        StoreState {
            options,
            retention,
            swept,
            version: 1,
            registry,
            collections: BTreeMap::new(),
            places: HashMap::new(),
            dependents: HashMap::new(),
            pending: VecDeque::new(),
            terminating: BTreeMap::new(),
            withdrawn: BTreeMap::new(),
            expiry: Expiry::default(),
        }
    }

    pub(crate) fn get(&self, place: &StoreKey) -> Option<&Arc<StoredEntry>> {
        self.collections.get(&place.kind)?.objects.get(&place.key)
    }

    /// The current objects of a kind.
    pub(crate) fn objects(&self, kind: &str) -> StoredObjects {
        self.collections.get(kind).map_or_else(StoredObjects::new_sync, |collection| collection.objects.clone())
    }

    /// The current objects of a kind in a range, possibly with others.
    pub(crate) fn objects_of(&self, kind: &str, part: KeyRange<'_>) -> StoredObjects {
        let (Some(cluster), Some(collection)) = (part.cluster, self.collections.get(kind)) else {
            return self.objects(kind);
        };
        let mut objects = StoredObjects::new_sync();
        for key in collection.by_cluster.keys(cluster, part.prefix) {
            if let Some(object) = collection.objects.get(key) {
                objects.insert_mut(key.clone(), object.clone());
            }
        }
        objects
    }

    pub(crate) fn has_namespace(&self, name: &str) -> bool {
        self.collections.get("namespaces").is_some_and(|namespaces| namespaces.objects.contains_key(name))
    }

    pub(crate) fn is_being_emptied(&self, namespace: &str) -> bool {
        let namespaces = self.collections.get("namespaces");
        let found = namespaces.and_then(|namespaces| namespaces.objects.get(namespace));
        found.is_some_and(|namespace| namespace.holds.is_being_deleted)
    }

    /// Location of the object with a uid.
    pub(super) fn place_of(&self, uid: &str) -> Option<&StoreKey> {
        self.places.get(uid)
    }

    /// Objects with this owner.
    pub(super) fn dependents_of(&self, uid: &str) -> Vec<StoreKey> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    fn collection(&mut self, kind: &Arc<str>) -> &mut StoredKind {
        let version = self.version;
        self.collections.entry(kind.clone()).or_insert_with(|| StoredKind::new(version, 0))
    }

    /// Stores an object with a new version.
    pub(crate) fn put(&mut self, place: &StoreKey, mut value: Value) -> Arc<StoredEntry> {
        self.version += 1;
        let version = self.version;
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        let after = Arc::new(StoredEntry::new(&value, version));
        let before = self.collection(&place.kind).insert(&place.key, &after);
        self.record(
            &place.kind,
            WatchEvent { version, key: place.key.clone(), before: before.clone(), after: Some(after.clone()) },
        );
        if before.as_ref().is_none_or(|before| before.uid != after.uid || before.owners != after.owners) {
            self.unlink(place, before.as_deref());
            self.link(place, &after);
        }
        self.pending.push_back(place.clone());
        after
    }

    /// Removes an object; returns it with the version of its removal.
    pub(crate) fn remove(&mut self, place: &StoreKey) -> Option<Arc<StoredEntry>> {
        let before = self.get(place)?.clone();
        self.version += 1;
        let version = self.version;
        self.collection(&place.kind).take(&place.key, &before);
        self.expiry.forget(place);
        self.record(
            &place.kind,
            WatchEvent { version, key: place.key.clone(), before: Some(before.clone()), after: None },
        );
        self.unlink(place, Some(&before));
        self.places.remove(&*before.uid);
        self.pending.push_back(place.clone());
        // Its dependents may have to be deleted, and objects that waited for it may continue.
        self.pending.extend(self.dependents_of(&before.uid));
        self.pending.extend(owners_of(&before).filter_map(|uid| self.places.get(uid).cloned()));
        Some(before)
    }

    /// Records a write of an Event, and removes expired ones.
    pub(crate) fn note_event(&mut self, place: &StoreKey, now: Timestamp) {
        if let Some((version, bytes)) = self.get(place).map(|event| (event.version, event.bytes())) {
            self.expiry.note(place.clone(), version, bytes, now);
        }
        self.expire(now);
    }

    /// Removes expired Events.
    fn expire(&mut self, now: Timestamp) {
        while let Some(place) = self.expiry.next(now, &self.retention) {
            self.remove(&place);
        }
    }

    /// Drops outdated changes and Events. Writes do this as well; this is for an idle API.
    pub(crate) fn sweep(&mut self, now: Timestamp) {
        self.expire(now);
        self.forget_changes(now);
    }

    /// Drops outdated changes of all kinds.
    fn forget_changes(&mut self, now: Timestamp) {
        let (number, since) = (self.retention.changes, self.retention.oldest_change(now));
        self.swept = now;
        self.collections.values_mut().for_each(|collection| collection.log.keep(number, since));
    }

    /// Records a change, and drops the oldest ones above the limits.
    fn record(&mut self, kind: &Arc<str>, event: WatchEvent) {
        let (now, retention) = ((self.options.clock)(), self.retention.clone());
        let since = retention.oldest_change(now);
        let version = event.version;
        let bytes = event.before.as_ref().map_or(0, |before| before.bytes());
        let collection = self.collection(kind);
        collection.log.push(event, version, bytes, now);
        collection.log.keep(retention.changes, since);
        collection.news.send_replace(version);
        if self.swept < since {
            self.forget_changes(now);
        }
        let mut bytes: usize = self.collections.values().map(|collection| collection.log.bytes()).sum();
        while bytes > retention.change_bytes {
            let largest = self.collections.values_mut().max_by_key(|collection| collection.log.bytes());
            let Some(largest) = largest else { break };
            bytes -= largest.log.bytes();
            if !largest.log.drop_oldest() {
                break;
            }
            bytes += largest.log.bytes();
        }
    }

    fn link(&mut self, place: &StoreKey, object: &StoredEntry) {
        if !object.uid.is_empty() {
            self.places.insert((*object.uid).into(), place.clone());
        }
        for uid in owners_of(object) {
            self.dependents.entry(uid.into()).or_default().insert(place.clone());
        }
    }

    fn unlink(&mut self, place: &StoreKey, object: Option<&StoredEntry>) {
        let Some(object) = object else { return };
        for uid in owners_of(object) {
            if let Some(dependents) = self.dependents.get_mut(uid) {
                dependents.remove(place);
                if dependents.is_empty() {
                    self.dependents.remove(uid);
                }
            }
            self.pending.extend(self.places.get(uid).cloned());
        }
    }

    /// Replaces the form of an object without a new version or a watch event, after a change of its schema.
    pub(super) fn reread(&mut self, kind: &Arc<str>, reread: impl Fn(&Value) -> Value) {
        let Some(collection) = self.collections.get_mut(kind) else { return };
        let all: Vec<_> = collection.objects.iter().map(|(key, object)| (key.clone(), object.clone())).collect();
        for (key, object) in all {
            let stored = object.decode();
            let value = reread(&stored);
            if value != stored {
                collection.insert(&key, &Arc::new(StoredEntry::new(&value, object.version)));
            }
        }
    }

    /// Removes all data of a kind that is no longer served; its watches end.
    pub(super) fn forget_kind(&mut self, kind: &Arc<str>) {
        let version = self.version;
        self.collections.insert(kind.clone(), StoredKind::new(version, version));
    }

    /// Subscribes to changes of a kind.
    pub(crate) fn follow(&mut self, kind: &Arc<str>) -> watch::Receiver<u64> {
        self.collection(kind).news.subscribe()
    }

    /// Changes of a kind after a version.
    pub(crate) fn news(&self, kind: &str, since: u64) -> EventBatch {
        let nothing = || EventBatch { events: Some(Vec::new()), version: self.version };
        let Some(collection) = self.collections.get(kind) else { return nothing() };
        if since < collection.log.forgotten() {
            return EventBatch { events: None, version: self.version };
        }
        EventBatch { events: Some(collection.log.after(since).cloned().collect()), version: self.version }
    }

    /// The oldest version from which a kind can be watched.
    pub(crate) fn oldest(&self, kind: &str) -> u64 {
        self.collections.get(kind).map_or(0, |collection| collection.log.forgotten())
    }

    /// The objects of a kind at a version; `None` if it is not available any more.
    pub(crate) fn objects_at(&self, kind: &str, version: u64) -> Option<StoredObjects> {
        let Some(collection) = self.collections.get(kind) else { return Some(StoredObjects::new_sync()) };
        if version < collection.log.forgotten() {
            return None;
        }
        let mut objects = collection.objects.clone();
        for event in collection.log.after(version).rev() {
            match &event.before {
                Some(before) => objects.insert_mut(event.key.clone(), before.clone()),
                None => drop(objects.remove_mut(&event.key)),
            }
        }
        Some(objects)
    }
}

/// The uids of owners.
fn owners_of(object: &StoredEntry) -> impl Iterator<Item = &str> {
    object.owners.iter().map(|owner| &*owner.uid).filter(|uid| !uid.is_empty())
}

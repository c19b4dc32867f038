//! The store of objects, with their owners and the latest events.
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
use super::log::Log;
use super::registry::{Registry, Resource};
use super::stored::Stored;
use crate::Options;

/// Objects of one kind by `namespace/name`, or by name.
pub(crate) type Objects = RedBlackTreeMapSync<Arc<str>, Arc<Stored>>;

/// The objects from a key on, in their order.
pub(crate) fn from<'o, 'k>(
    objects: &'o Objects,
    key: &'k str,
) -> impl Iterator<Item = (&'o Arc<str>, &'o Arc<Stored>)> + use<'o, 'k> {
    objects.range::<str, _>((Bound::Included(key), Bound::Unbounded))
}

/// The objects whose key begins with a prefix, in their order.
pub(crate) fn within<'o, 'k>(
    objects: &'o Objects,
    prefix: &'k str,
) -> impl Iterator<Item = (&'o Arc<str>, &'o Arc<Stored>)> + use<'o, 'k> {
    from(objects, prefix).take_while(move |(key, _)| key.starts_with(prefix))
}

/// Where an object is: its kind as the store names it, and its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StoreKey {
    pub kind: Arc<str>,
    pub key: Arc<str>,
}

impl StoreKey {
    pub(crate) fn of(resource: &Resource, namespace: &str, name: &str) -> Self {
        StoreKey { kind: resource.store_name().into(), key: key(namespace, name) }
    }

    /// Empty for objects without one.
    pub(crate) fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }
}

/// The key of an object within its kind.
pub(crate) fn key(namespace: &str, name: &str) -> Arc<str> {
    if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}").into() }
}

/// The part of the objects of a kind that a request is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    /// The namespace and a slash; empty for all.
    pub prefix: &'a str,
    /// The Cluster that their label names; none when it does not matter.
    pub cluster: Option<&'a str>,
}

/// What happened to an object.
#[derive(Clone, Debug)]
pub(crate) struct Happening {
    pub version: u64,
    pub key: Arc<str>,
    pub before: Option<Arc<Stored>>,
    /// None when the object was removed.
    pub after: Option<Arc<Stored>>,
}

/// The objects of a kind.
#[derive(Debug)]
pub(super) struct Collection {
    pub objects: Objects,
    by_cluster: ByCluster,
    log: Log<Happening>,
    news: watch::Sender<u64>,
}

impl Collection {
    fn new(version: u64, forgotten: u64) -> Self {
        Collection {
            objects: Objects::new_sync(),
            by_cluster: ByCluster::default(),
            log: Log::since(forgotten),
            news: watch::Sender::new(version),
        }
    }

    /// Puts an object in place of the one that there was, which is returned.
    fn insert(&mut self, key: &Arc<str>, after: &Arc<Stored>) -> Option<Arc<Stored>> {
        let before = self.objects.get(key).cloned();
        self.by_cluster.note(key, before.as_ref().and_then(|before| before.cluster()), after.cluster());
        self.objects.insert_mut(key.clone(), after.clone());
        before
    }

    /// Takes an object away that there was.
    fn take(&mut self, key: &Arc<str>, before: &Stored) {
        self.by_cluster.note(key, before.cluster(), None);
        self.objects.remove_mut(key);
    }
}

/// What happened after a version; none when it is not known any more.
#[derive(Debug)]
pub(crate) struct News {
    pub happenings: Option<Vec<Happening>>,
    /// Up to which version this is all.
    pub version: u64,
}

/// Whether all objects of a namespace or a kind that goes have been deleted, so that only those that something holds
/// are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sweep {
    #[default]
    Due,
    Done,
}

/// Everything there is.
#[derive(Debug)]
pub(crate) struct State {
    options: Options,
    kept: Retention,
    /// When the changes of all kinds were looked through for old ones.
    swept: Timestamp,
    /// The version of the last write.
    pub version: u64,
    pub registry: Arc<Registry>,
    pub(super) collections: BTreeMap<Arc<str>, Collection>,
    /// Where the object with a uid is.
    places: HashMap<Arc<str>, StoreKey>,
    /// Who names a uid among its owners.
    dependents: HashMap<Arc<str>, BTreeSet<StoreKey>>,
    /// Changes whose consequences are not processed yet.
    pub(super) pending: VecDeque<StoreKey>,
    /// Namespaces that are being deleted.
    pub(super) terminating: BTreeMap<String, Sweep>,
    /// Definitions of kinds that are being deleted, by name.
    pub(super) withdrawn: BTreeMap<String, Sweep>,
    expiry: Expiry<StoreKey>,
}

impl State {
    pub(crate) fn new(registry: Arc<Registry>, options: Options, kept: Retention) -> Self {
        let swept = (options.clock)();
        State {
            options,
            kept,
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

    pub(crate) fn get(&self, place: &StoreKey) -> Option<&Arc<Stored>> {
        self.collections.get(&place.kind)?.objects.get(&place.key)
    }

    /// The objects of a kind as they are now.
    pub(crate) fn objects(&self, kind: &str) -> Objects {
        self.collections.get(kind).map_or_else(Objects::new_sync, |collection| collection.objects.clone())
    }

    /// Those objects of a kind, as they are now, that can be in a part of it; others may be there as well.
    pub(crate) fn objects_of(&self, kind: &str, part: Part<'_>) -> Objects {
        let (Some(cluster), Some(collection)) = (part.cluster, self.collections.get(kind)) else {
            return self.objects(kind);
        };
        let mut objects = Objects::new_sync();
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

    /// Where the object with a uid is.
    pub(super) fn place_of(&self, uid: &str) -> Option<&StoreKey> {
        self.places.get(uid)
    }

    /// Who names a uid among its owners.
    pub(super) fn dependents_of(&self, uid: &str) -> Vec<StoreKey> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    fn collection(&mut self, kind: &Arc<str>) -> &mut Collection {
        let version = self.version;
        self.collections.entry(kind.clone()).or_insert_with(|| Collection::new(version, 0))
    }

    /// Stores an object, and gives it its version.
    pub(crate) fn put(&mut self, place: &StoreKey, mut value: Value) -> Arc<Stored> {
        self.version += 1;
        let version = self.version;
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        let after = Arc::new(Stored::new(&value, version));
        let before = self.collection(&place.kind).insert(&place.key, &after);
        self.record(
            &place.kind,
            Happening { version, key: place.key.clone(), before: before.clone(), after: Some(after.clone()) },
        );
        if before.as_ref().is_none_or(|before| before.uid != after.uid || before.owners != after.owners) {
            self.unlink(place, before.as_deref());
            self.link(place, &after);
        }
        self.pending.push_back(place.clone());
        after
    }

    /// Removes an object; returns it with the version in which it is gone.
    pub(crate) fn remove(&mut self, place: &StoreKey) -> Option<Arc<Stored>> {
        let before = self.get(place)?.clone();
        self.version += 1;
        let version = self.version;
        self.collection(&place.kind).take(&place.key, &before);
        self.expiry.forget(place);
        self.record(
            &place.kind,
            Happening { version, key: place.key.clone(), before: Some(before.clone()), after: None },
        );
        self.unlink(place, Some(&before));
        self.places.remove(&*before.uid);
        self.pending.push_back(place.clone());
        // Those that it owned may have to follow, and those that waited for it may go on.
        self.pending.extend(self.dependents_of(&before.uid));
        self.pending.extend(owners_of(&before).filter_map(|uid| self.places.get(uid).cloned()));
        Some(before)
    }

    /// Notes that an Event was written, and removes those that have to go.
    pub(crate) fn note_event(&mut self, place: &StoreKey, now: Timestamp) {
        if let Some((version, bytes)) = self.get(place).map(|event| (event.version, event.bytes())) {
            self.expiry.note(place.clone(), version, bytes, now);
        }
        self.expire(now);
    }

    /// Removes the Events that have to go.
    fn expire(&mut self, now: Timestamp) {
        while let Some(place) = self.expiry.next(now, &self.kept) {
            self.remove(&place);
        }
    }

    /// Drops changes and Events that are too old. Writes do this as well; this is for an API without any.
    pub(crate) fn sweep(&mut self, now: Timestamp) {
        self.expire(now);
        self.forget_changes(now);
    }

    /// Drops the changes of all kinds that are too old.
    fn forget_changes(&mut self, now: Timestamp) {
        let (number, since) = (self.kept.changes, self.kept.oldest_change(now));
        self.swept = now;
        self.collections.values_mut().for_each(|collection| collection.log.keep(number, since));
    }

    /// Notes a change, and drops the oldest ones of which there are too many, which are too old, or which take too much
    /// memory.
    fn record(&mut self, kind: &Arc<str>, happening: Happening) {
        let (now, kept) = ((self.options.clock)(), self.kept.clone());
        let since = kept.oldest_change(now);
        let version = happening.version;
        let bytes = happening.before.as_ref().map_or(0, |before| before.bytes());
        let collection = self.collection(kind);
        collection.log.push(happening, version, bytes, now);
        collection.log.keep(kept.changes, since);
        collection.news.send_replace(version);
        if self.swept < since {
            self.forget_changes(now);
        }
        let mut bytes: usize = self.collections.values().map(|collection| collection.log.bytes()).sum();
        while bytes > kept.change_bytes {
            let largest = self.collections.values_mut().max_by_key(|collection| collection.log.bytes());
            let Some(largest) = largest else { break };
            bytes -= largest.log.bytes();
            if !largest.log.drop_oldest() {
                break;
            }
            bytes += largest.log.bytes();
        }
    }

    fn link(&mut self, place: &StoreKey, object: &Stored) {
        if !object.uid.is_empty() {
            self.places.insert((*object.uid).into(), place.clone());
        }
        for uid in owners_of(object) {
            self.dependents.entry(uid.into()).or_default().insert(place.clone());
        }
    }

    fn unlink(&mut self, place: &StoreKey, object: Option<&Stored>) {
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

    /// Puts another form of an object in place of it, without a new version and without a watch event: what a new
    /// schema makes of what is stored.
    pub(super) fn reread(&mut self, kind: &Arc<str>, reread: impl Fn(&Value) -> Value) {
        let Some(collection) = self.collections.get_mut(kind) else { return };
        let all: Vec<_> = collection.objects.iter().map(|(key, object)| (key.clone(), object.clone())).collect();
        for (key, object) in all {
            let stored = object.decode();
            let value = reread(&stored);
            if value != stored {
                collection.insert(&key, &Arc::new(Stored::new(&value, object.version)));
            }
        }
    }

    /// Forgets everything about a kind that is not served any more; its watches are ended.
    pub(super) fn forget_kind(&mut self, kind: &Arc<str>) {
        let version = self.version;
        self.collections.insert(kind.clone(), Collection::new(version, version));
    }

    /// Follows a kind: says when there is news of it.
    pub(crate) fn follow(&mut self, kind: &Arc<str>) -> watch::Receiver<u64> {
        self.collection(kind).news.subscribe()
    }

    /// What happened to objects of a kind after a version.
    pub(crate) fn news(&self, kind: &str, since: u64) -> News {
        let nothing = || News { happenings: Some(Vec::new()), version: self.version };
        let Some(collection) = self.collections.get(kind) else { return nothing() };
        if since < collection.log.forgotten() {
            return News { happenings: None, version: self.version };
        }
        News { happenings: Some(collection.log.after(since).cloned().collect()), version: self.version }
    }

    /// The oldest version from which a kind can be watched.
    pub(crate) fn oldest(&self, kind: &str) -> u64 {
        self.collections.get(kind).map_or(0, |collection| collection.log.forgotten())
    }

    /// The objects of a kind as they were at a version; none when that is not known any more.
    pub(crate) fn objects_at(&self, kind: &str, version: u64) -> Option<Objects> {
        let Some(collection) = self.collections.get(kind) else { return Some(Objects::new_sync()) };
        if version < collection.log.forgotten() {
            return None;
        }
        let mut objects = collection.objects.clone();
        for happening in collection.log.after(version).rev() {
            match &happening.before {
                Some(before) => objects.insert_mut(happening.key.clone(), before.clone()),
                None => drop(objects.remove_mut(&happening.key)),
            }
        }
        Some(objects)
    }
}

/// The uids of owners.
fn owners_of(object: &Stored) -> impl Iterator<Item = &str> {
    object.owners.iter().map(|owner| &*owner.uid).filter(|uid| !uid.is_empty())
}

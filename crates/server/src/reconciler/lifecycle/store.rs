//! The objects of watches and of responses to writes, and the queue of the objects that are due.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures::channel::mpsc;
use kube::runtime::scheduler::ScheduleRequest;
use tokio::time::Instant;

use super::controller_name;
use crate::reconciler::due::DueObjects;
use crate::telemetry::metrics::{self, Metrics};
use machines::lifecycle::dependents::dependents;
use machines::lifecycle::{GroupKind, MachineCache, ObjectId, RefusedEviction};
use model::hub::contract::Contract;
use model::hub::{Object, ObjectKey, paths};

/// Time for which a late response to a write does not restore a deleted object. Requests take less.
const FRESH: Duration = Duration::from_mins(1);

/// A change of the connection to a followed workload cluster.
pub(super) enum ConnectionChange {
    Begins,
    /// Its API server answers, and its objects are here.
    Connected,
    /// Its API server is not connected, and why.
    Disconnected(String),
    Ends,
}

/// The objects, and the queue of the objects that are due.
pub(super) struct LifecycleStore {
    objects: RwLock<MachineCache>,
    queue: mpsc::UnboundedSender<ScheduleRequest<ObjectId>>,
    /// Objects whose step waits until a kind is listed.
    waiting: Mutex<HashMap<GroupKind, BTreeSet<ObjectId>>>,
    /// The resourceVersion of the last list of each kind, by workload cluster; locked while `objects` is.
    lists: Mutex<HashMap<Option<ObjectKey>, HashMap<GroupKind, u64>>>,
    /// The uids of objects that are gone; locked while `objects` is.
    gone: Mutex<RecentKeys<String>>,
    /// The objects whose step is due or in progress.
    pub due: DueObjects<ObjectId>,
    metrics: Arc<Metrics>,
}

impl LifecycleStore {
    /// An empty store, and the receiver of the queue.
    pub(super) fn new(metrics: Arc<Metrics>) -> (Self, mpsc::UnboundedReceiver<ScheduleRequest<ObjectId>>) {
        let (queue, due) = mpsc::unbounded();
        let store = LifecycleStore {
            objects: RwLock::default(),
            queue,
            waiting: Mutex::default(),
            lists: Mutex::default(),
            gone: Mutex::default(),
            due: DueObjects::new(metrics.clone(), controller_name),
            metrics,
        };
        (store, due)
    }

    /// Calls `look` with the locked objects.
    pub(super) fn with<T>(&self, look: impl FnOnce(&MachineCache) -> T) -> T {
        look(&self.objects.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn with_mut<T>(&self, change: impl FnOnce(&mut MachineCache) -> T) -> T {
        // A panic in a step leaves nothing half done: changes are single insertions and removals.
        change(&mut self.objects.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Queues a step of an object after this time.
    pub(super) fn wake_after(&self, id: &ObjectId, after: Duration) {
        self.due.queue(id, after);
        let request = ScheduleRequest { message: id.clone(), run_at: Instant::now() + after };
        // The receiver is gone when this process no longer leads.
        let _ = self.queue.unbounded_send(request);
    }

    fn wake(&self, ids: impl IntoIterator<Item = ObjectId>) {
        ids.into_iter().for_each(|id| self.wake_after(&id, Duration::ZERO));
    }

    /// Queues a step of an object when these kinds are listed.
    pub(super) fn wait_for(&self, id: &ObjectId, kinds: &BTreeSet<GroupKind>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in kinds {
            waiting.entry(kind.clone()).or_default().insert(id.clone());
        }
        drop(waiting);
        // One of them may have been listed meanwhile.
        if kinds.iter().all(|kind| self.with(|objects| objects.is_listed(kind))) {
            self.wake_after(id, Duration::ZERO);
        }
    }

    /// Notes a complete list of a kind, in the management cluster or in a workload cluster. Other objects did not exist
    /// at this resourceVersion: one of them exists only if this process has written it since.
    pub(super) fn listed(
        &self,
        workload: Option<&ObjectKey>,
        kind: &GroupKind,
        contract: Option<Contract>,
        keys: &BTreeSet<ObjectKey>,
        version: u64,
    ) {
        let id = |object: &Arc<Object>| ObjectId { workload: workload.cloned(), kind: kind.clone(), key: object.key() };
        let ids = |objects: &MachineCache| -> Vec<ObjectId> {
            match workload {
                None => objects.all(kind).map(id).collect(),
                Some(cluster) => {
                    objects.workload(cluster).into_iter().flat_map(|known| known.all(kind)).map(id).collect()
                }
            }
        };
        let known = self.with_mut(|objects| {
            self.lists().entry(workload.cloned()).or_default().insert(kind.clone(), version);
            ids(objects)
        });
        known.iter().filter(|id| !keys.contains(&id.key)).for_each(|id| self.not_listed(id, version));
        if workload.is_none() {
            self.with_mut(|objects| objects.set_listed(kind, contract));
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(kind);
            self.wake(waiting.into_iter().flatten());
            self.wake(self.with(ids));
        }
    }

    fn lists(&self) -> MutexGuard<'_, HashMap<Option<ObjectKey>, HashMap<GroupKind, u64>>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes an object that is not in a list of this resourceVersion, unless it is newer than the list.
    fn not_listed(&self, id: &ObjectId, version: u64) {
        let gone = self.with_mut(|objects| {
            let known = objects.get(id).filter(|known| version_of(known) <= version)?;
            self.gone.lock().unwrap_or_else(PoisonError::into_inner).note(known.uid().to_owned());
            objects.remove(id)
        });
        self.note_removed(id, gone);
    }

    /// Stores the response to a write of this process. If a newer list does not contain the object, it was deleted
    /// meanwhile.
    pub(super) fn wrote(&self, id: &ObjectId, object: Object) {
        self.put(id, object, |known, version| {
            known.is_some() || self.last_list(id).is_none_or(|listed| listed < version)
        });
    }

    /// The resourceVersion of the last list that would have contained an object.
    fn last_list(&self, id: &ObjectId) -> Option<u64> {
        self.lists().get(&id.workload)?.get(&id.kind).copied()
    }

    /// Stores an observed object, unless a newer version is stored or it was deleted: the response to a write may
    /// arrive after the watch has shown that another controller removed the last finalizer.
    pub(super) fn seen(&self, id: &ObjectId, object: Object) {
        self.put(id, object, |_, _| true);
    }

    /// Stores an object if it exists, by the stored object of its name and by its resourceVersion.
    fn put(&self, id: &ObjectId, mut object: Object, is_there: impl FnOnce(Option<&Object>, u64) -> bool) {
        object.remove(paths::metadata::MANAGED_FIELDS);
        let object = Arc::new(object);
        let before = self.with_mut(|objects| {
            if self.gone.lock().unwrap_or_else(PoisonError::into_inner).has(object.uid()) {
                return None;
            }
            let (known, version) = (objects.get(id), version_of(&object));
            let is_newer = known.is_none_or(|known| known.uid() != object.uid() || version_of(known) < version);
            (is_newer && is_there(known.map(|known| &**known), version)).then(|| objects.put(id, object.clone()))
        });
        let Some(before) = before else { return };
        self.note_phase(id, before.as_deref(), Some(&object));
        self.wake_dependents(id, before.as_deref(), Some(&object));
    }

    /// Removes a deleted object; with `uid` only if it has that uid.
    pub(super) fn removed(&self, id: &ObjectId, uid: Option<&str>) {
        let gone = self.with_mut(|objects| {
            let known = objects.get(id).map(|known| known.uid().to_owned());
            let uid = uid.map(str::to_owned).or_else(|| known.clone())?;
            let is_it = known.is_some_and(|known| known == uid);
            self.gone.lock().unwrap_or_else(PoisonError::into_inner).note(uid);
            if is_it { objects.remove(id) } else { None }
        });
        self.note_removed(id, gone);
    }

    fn note_removed(&self, id: &ObjectId, gone: Option<Arc<Object>>) {
        if let Some(gone) = gone {
            self.note_phase(id, Some(&gone), None);
            self.wake_dependents(id, Some(&gone), None);
        }
    }

    fn wake_dependents(&self, id: &ObjectId, before: Option<&Object>, after: Option<&Object>) {
        self.wake(self.with(|objects| dependents(objects, id, before, after)));
        // The workload cluster of a Cluster that is gone is forgotten.
        if id.workload.is_none() && (after.is_some() || id.kind.is_core("Cluster")) {
            self.wake_after(id, Duration::ZERO);
        }
    }

    /// Notes the result of the eviction of a Pod.
    pub(super) fn note_eviction(&self, cluster: &ObjectKey, pod: &ObjectKey, refusal: Option<RefusedEviction>) {
        self.with_mut(|objects| objects.note_eviction(cluster, pod, refusal));
    }

    /// Notes that a workload cluster is connected or deleted.
    pub(super) fn connected(&self, cluster: &ObjectKey, up: bool) {
        let ids = self.with_mut(|objects| {
            match up {
                true => objects.workload_mut(cluster).is_reachable = true,
                false => self.forget_workload(objects, cluster),
            }
            objects.everything_of(cluster)
        });
        self.wake(ids.iter().map(|object| ObjectId::for_object(object)));
        self.wake([ObjectId::core("Cluster", &cluster.namespace, &cluster.name)]);
    }

    fn forget_workload(&self, objects: &mut MachineCache, cluster: &ObjectKey) {
        objects.forget_workload(cluster);
        self.lists().remove(&Some(cluster.clone()));
    }

    /// Applies a change of the connection to a followed workload cluster.
    pub(super) fn followed(&self, cluster: &ObjectKey, now: ConnectionChange) {
        let cluster_id = ObjectId::core("Cluster", &cluster.namespace, &cluster.name);
        let woken = self.with_mut(|objects| {
            let known = objects.workload(cluster).filter(|workload| workload.is_followed);
            let (was_connected, problem) = match (known, &now) {
                (Some(known), _) => (known.is_reachable, known.problem.clone()),
                (None, ConnectionChange::Begins) => (objects.workload(cluster).is_some(), None),
                (None, _) => return Vec::new(),
            };
            let is_news = match now {
                ConnectionChange::Begins => {
                    // Its API server may be another one, whose versions are not those of the last.
                    self.lists().remove(&Some(cluster.clone()));
                    objects.disconnect(cluster, None);
                    was_connected
                }
                ConnectionChange::Connected => {
                    let workload = objects.workload_mut(cluster);
                    (workload.is_reachable, workload.problem) = (true, None);
                    !was_connected
                }
                ConnectionChange::Disconnected(because) => {
                    if !was_connected && problem.as_ref() == Some(&because) {
                        return Vec::new();
                    }
                    self.lists().remove(&Some(cluster.clone()));
                    objects.disconnect(cluster, Some(because));
                    was_connected
                }
                ConnectionChange::Ends => {
                    self.forget_workload(objects, cluster);
                    true
                }
            };
            let all = if is_news { objects.everything_of(cluster) } else { Vec::new() };
            all.iter().map(|object| ObjectId::for_object(object)).chain([cluster_id]).collect()
        });
        self.wake(woken);
    }

    /// Counts the phases of Machines.
    fn note_phase(&self, id: &ObjectId, before: Option<&Object>, after: Option<&Object>) {
        if !id.kind.is_core("Machine") {
            return;
        }
        let gauge = |object: &Object| {
            let phase = machines::lifecycle::conditions::phase(object);
            self.metrics.machines.get_or_create(&metrics::Phase { phase: known_phase(phase) }).clone()
        };
        if let Some(before) = before {
            gauge(before).dec();
        }
        if let Some(after) = after {
            gauge(after).inc();
        }
    }
}

/// A set of keys that were added in the last minute.
struct RecentKeys<K> {
    at: HashMap<K, Instant>,
    /// How many there may be before the old ones are dropped, so that each costs the same however many there are.
    most: usize,
}

impl<K> Default for RecentKeys<K> {
    fn default() -> Self {
        RecentKeys { at: HashMap::new(), most: 0 }
    }
}

impl<K: Eq + Hash> RecentKeys<K> {
    fn note(&mut self, key: K) {
        self.at.insert(key, Instant::now());
        if self.at.len() > self.most {
            self.at.retain(|_, at| at.elapsed() < FRESH);
            self.most = 2 * self.at.len().max(512);
        }
    }

    fn has<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.at.get(key).is_some_and(|at| at.elapsed() < FRESH)
    }
}

impl Drop for LifecycleStore {
    fn drop(&mut self) {
        // Another process counts from now on.
        self.metrics.machines.clear();
    }
}

/// The metric label of a phase, from a fixed set. A Machine without a phase is about to get its first.
fn known_phase(phase: &str) -> &'static str {
    let phase = if phase.is_empty() { "Pending" } else { phase };
    metrics::PHASES.into_iter().find(|known| *known == phase).unwrap_or("Unknown")
}

/// The resourceVersion as a number; API servers count upwards.
fn version_of(object: &Object) -> u64 {
    number(object.resource_version())
}

/// A resourceVersion as a number.
pub(super) fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(uid: &str, version: &str) -> Object {
        let metadata = json!({"namespace": "default", "name": "one", "uid": uid, "resourceVersion": version});
        let api_version = "cluster.x-k8s.io/v1beta2";
        Object::try_from(json!({"apiVersion": api_version, "kind": "MachineSet", "metadata": metadata})).unwrap()
    }

    #[test]
    fn a_list_removes_what_this_process_wrote_before_it_and_nothing_newer() {
        // MA-10.4
        let (store, _due) = LifecycleStore::new(Arc::default());
        let (id, kind) = (ObjectId::for_object(&set("a", "1")), GroupKind::core("MachineSet"));
        let there = || store.with(|objects| objects.get(&id).map(|object| object.uid().to_owned()));
        let list = |version| store.listed(None, &kind, None, &BTreeSet::new(), version);
        store.wrote(&id, set("a", "5"));
        list(4);
        assert_eq!(there().as_deref(), Some("a"), "the list is older than the write");
        list(5);
        assert_eq!(there(), None, "another controller has deleted it while the watch had a gap");
        store.wrote(&id, set("a", "6"));
        assert_eq!(there(), None);
        store.wrote(&id, set("b", "5"));
        assert_eq!(there(), None, "the list would have had it: it came and went before");
        store.wrote(&id, set("b", "7"));
        assert_eq!(there().as_deref(), Some("b"));
        store.seen(&id, set("c", "8"));
        list(9);
        assert_eq!(there(), None);
        store.seen(&id, set("d", "9"));
        assert_eq!(there().as_deref(), Some("d"), "the API server was asked for it after the list");
    }

    #[test]
    fn versions_of_a_workload_cluster_begin_anew_with_another_api_server() {
        let (store, _due) = LifecycleStore::new(Arc::default());
        let (cluster, kind) = (ObjectKey::new("default", "c"), GroupKind::core("MachineSet"));
        let id = ObjectId { workload: Some(cluster.clone()), ..ObjectId::for_object(&set("a", "1")) };
        let there = || store.with(|objects| objects.get(&id).is_some());
        for forget in [
            (|store, cluster| LifecycleStore::connected(store, cluster, false)) as fn(&LifecycleStore, &ObjectKey),
            |store, cluster| store.followed(cluster, ConnectionChange::Begins),
            |store, cluster| store.followed(cluster, ConnectionChange::Ends),
        ] {
            store.listed(Some(&cluster), &kind, None, &BTreeSet::new(), 100);
            store.wrote(&id, set("a", "2"));
            assert!(!there());
            forget(&store, &cluster);
            store.wrote(&id, set("a", "2"));
            assert!(there());
            store.removed(&id, None);
            *store.gone.lock().unwrap() = RecentKeys::default();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_gone_does_not_come_back_with_a_late_answer() {
        let (store, _due) = LifecycleStore::new(Arc::default());
        let id = ObjectId::for_object(&set("a", "1"));
        let there = || store.with(|objects| objects.get(&id).map(|object| object.uid().to_owned()));
        store.seen(&id, set("a", "1"));
        assert_eq!(there().as_deref(), Some("a"));
        store.removed(&id, Some("a"));
        store.wrote(&id, set("a", "2"));
        assert_eq!(there(), None, "this process has written it, and another one has removed its last finalizer");
        store.seen(&id, set("b", "3"));
        assert_eq!(there().as_deref(), Some("b"), "it is another object of the same name");
        store.removed(&id, Some("a"));
        assert_eq!(there().as_deref(), Some("b"));
        store.removed(&id, None);
        store.wrote(&id, set("b", "4"));
        assert_eq!(there(), None);
        // An object that came and went before the answer to its creation.
        store.removed(&id, Some("c"));
        store.wrote(&id, set("c", "5"));
        assert_eq!(there(), None);
        tokio::time::advance(FRESH).await;
        assert!(!store.gone.lock().unwrap().has("c"), "it is forgotten");
    }
}

//! The current facts, shared by all readers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use model::world::{FactChanges, Facts};

/// The health of the watch of a kind.
#[derive(Debug, Default)]
struct Pulse {
    heard: Option<Instant>,
    trouble: Option<String>,
}

/// Facts that watch events change. Readers take a snapshot in O(1); writers are serialized.
pub struct Cache {
    facts: ArcSwap<Facts>,
    turn: Mutex<()>,
    pulses: Mutex<BTreeMap<&'static str, Pulse>>,
    changes: watch::Sender<()>,
    followers: Mutex<Vec<Weak<Pending>>>,
}

/// Receives the changes of a cache; changes of the same key between two reads are merged.
#[derive(Debug)]
pub struct CacheFollower(Arc<Pending>);

#[derive(Debug, Default)]
struct Pending {
    changed: Mutex<FactChanges>,
    arrived: Notify,
}

impl CacheFollower {
    /// The changes since the last call; waits for a change.
    pub async fn next(&mut self) -> FactChanges {
        loop {
            let changed = std::mem::take(&mut *self.0.changed.lock().unwrap_or_else(PoisonError::into_inner));
            if changed != FactChanges::default() {
                return changed;
            }
            self.0.arrived.notified().await;
        }
    }
}

impl Cache {
    /// A cache that starts with these facts.
    pub fn new(facts: Facts) -> Self {
        Cache {
            facts: ArcSwap::from_pointee(facts),
            turn: Mutex::new(()),
            pulses: Mutex::default(),
            changes: watch::Sender::new(()),
            followers: Mutex::default(),
        }
    }

    /// A snapshot of the facts.
    pub fn facts(&self) -> Arc<Facts> {
        self.facts.load_full()
    }

    /// Changes the facts, and notifies those who wait for a change.
    pub fn update(&self, change: impl FnOnce(&mut Facts)) {
        {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            let mut facts = Facts::clone(&self.facts.load()).tracking_changes();
            change(&mut facts);
            let changed = facts.take_changes();
            self.facts.store(Arc::new(facts));
            self.notify(&changed);
        }
        self.changes.send_replace(());
    }

    /// Sends changes to the followers; dropped followers are removed.
    fn notify(&self, changed: &FactChanges) {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner).retain(|follower| {
            let Some(pending) = follower.upgrade() else { return false };
            let mut all = pending.changed.lock().unwrap_or_else(PoisonError::into_inner);
            all.classes.extend(changed.classes.iter().cloned());
            all.clusters.extend(changed.clusters.iter().cloned());
            drop(all);
            pending.arrived.notify_one();
            true
        });
    }

    /// Follows the changes after this call. A caller that reads the facts afterwards misses no change.
    pub fn follow(&self) -> CacheFollower {
        let pending = Arc::new(Pending::default());
        self.followers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&pending));
        CacheFollower(pending)
    }

    /// Notes that the API server has just reported a kind, so its facts are current.
    pub(crate) fn note_alive(&self, kind: &'static str) {
        *self.pulses().entry(kind).or_default() = Pulse { heard: Some(Instant::now()), trouble: None };
    }

    /// Notes why a kind cannot be watched at the moment.
    pub(crate) fn note_trouble(&self, kind: &'static str, reason: String) {
        self.pulses().entry(kind).or_default().trouble = Some(reason);
    }

    /// Why a kind cannot be watched at the moment; `None` if it is watched.
    pub fn trouble(&self, kind: &str) -> Option<String> {
        self.pulses().get(kind)?.trouble.clone()
    }

    /// Time since the last report of the API server about each watched kind.
    pub fn ages(&self) -> Vec<(&'static str, Duration)> {
        let pulses = self.pulses();
        pulses.iter().filter_map(|(kind, pulse)| Some((*kind, pulse.heard?.elapsed()))).collect()
    }

    fn pulses(&self) -> MutexGuard<'_, BTreeMap<&'static str, Pulse>> {
        self.pulses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every watched kind has been listed once.
    pub async fn listed(&self) {
        let mut changes = self.changes();
        while !self.facts().gaps().is_empty() {
            // The cache is borrowed, so its changes do not end.
            let _ = changes.changed().await;
        }
    }

    /// A receiver that is notified when the facts change after this call.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.facts();
        let (classes, clusters) = (facts.class_keys().len(), facts.cluster_keys().len());
        f.debug_struct("Cache").field("classes", &classes).field("clusters", &clusters).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use model::hub::ObjectKey;
    use model::world::Record;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    #[test]
    fn a_follower_gets_each_change_once_and_no_earlier_ones() {
        let cache = Cache::new(Facts::default());
        let put = |name: &str| {
            cache.update(|facts| facts.put_cluster(key(name), Record::Readable(Arc::default())));
        };
        put("before");
        let (mut one, mut other) = (cache.follow(), cache.follow());
        assert_eq!(one.next().now_or_never(), None);
        put("a");
        put("a");
        cache.update(|facts| facts.remove_cluster(&key("before")));
        cache.update(|facts| facts.put_class(key("c"), Record::Readable(Arc::default())));
        let want = FactChanges { classes: [key("c")].into(), clusters: [key("a"), key("before")].into() };
        assert_eq!(one.next().now_or_never(), Some(want.clone()));
        assert_eq!(one.next().now_or_never(), None);
        drop(one);
        put("b");
        let both = FactChanges { clusters: [key("a"), key("b"), key("before")].into(), ..want };
        assert_eq!(other.next().now_or_never(), Some(both));
        assert_eq!(cache.followers.lock().unwrap().len(), 1, "who is gone is forgotten");
    }
}

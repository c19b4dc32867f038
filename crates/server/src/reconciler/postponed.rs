//! Objects whose runs wait for caches that are not listed yet (DEC-100).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use tracing::{info, warn};

use crate::kubernetes::unlisted::Unlisted;
use model::hub::ObjectKey;

/// The objects of a controller that wait, by cache.
#[derive(Debug)]
pub(super) struct Postponed {
    controller: &'static str,
    waiting: Mutex<BTreeMap<Unlisted, BTreeSet<ObjectKey>>>,
}

impl Postponed {
    /// No waiting objects. Log lines name the controller.
    pub(super) fn new(controller: &'static str) -> Self {
        Postponed { controller, waiting: Mutex::default() }
    }

    /// Adds a waiting object. Only the first object that waits for a cache is logged.
    pub(super) fn add(&self, object: &ObjectKey, unlisted: &BTreeSet<Unlisted>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for cache in unlisted {
            waiting
                .entry(cache.clone())
                .or_insert_with_key(|cache| {
                    warn!(controller = self.controller, reason = %cache, "Postponed reconciling");
                    BTreeSet::new()
                })
                .insert(object.clone());
        }
    }

    /// Removes and returns the objects that wait for a cache for which `has` returns `true`.
    pub(super) fn take(&self, has: impl Fn(&Unlisted) -> bool) -> BTreeSet<ObjectKey> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ready = BTreeSet::new();
        waiting.retain(|cache, objects| {
            let is_ready = has(cache);
            if is_ready {
                info!(controller = self.controller, cache = ?cache, objects = objects.len(), "Resumed reconciling");
                ready.append(objects);
            }
            !is_ready
        });
        ready
    }

    /// Drops an object that does not exist any more.
    pub(super) fn forget(&self, object: &ObjectKey) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for objects in waiting.values_mut() {
            objects.remove(object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::Lines;

    #[test]
    fn thousands_of_clusters_wait_for_a_kind_with_one_warning() {
        // DEC-100
        let ((lines, _guard), postponed) = (Lines::collect(), Postponed::new("test"));
        let both = BTreeSet::from([Unlisted::Definitions, Unlisted::ExtensionConfigs]);
        let keys: BTreeSet<ObjectKey> = (0..5_000).map(|number| ObjectKey::new("ns", format!("c{number}"))).collect();
        keys.iter().for_each(|key| postponed.add(key, &both));
        assert_eq!(lines.text().matches("WARN").count(), 2, "{}", lines.text());
        postponed.forget(&ObjectKey::new("ns", "c0"));
        assert_eq!(postponed.take(|_| false).len(), 0);
        let woken = postponed.take(|cache| *cache == Unlisted::Definitions);
        assert_eq!((woken.len(), woken.contains(&ObjectKey::new("ns", "c0"))), (4_999, false));
        assert_eq!(postponed.take(|cache| *cache == Unlisted::Definitions).len(), 0, "once for each cache");
        assert_eq!(postponed.take(|_| true).len(), 4_999);
    }
}

//! A cache with a lifetime and a size limit: the least recently used values are evicted.

use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

/// A cache of values by key, limited by the sum of their sizes.
#[derive(Debug)]
pub(super) struct ExpiringCache<K: Hash + Eq, V> {
    lifetime: Duration,
    limit: usize,
    inner: Mutex<CacheInner<K, V>>,
}

#[derive(Debug)]
struct CacheInner<K: Hash + Eq, V> {
    values: LruCache<K, CachedValue<V>>,
    size: usize,
}

#[derive(Debug)]
struct CachedValue<V> {
    value: V,
    until: Instant,
    size: usize,
}

impl<K: Hash + Eq, V: Clone> ExpiringCache<K, V> {
    /// A cache of values of together at most `limit`, each for at most `lifetime`.
    pub(super) fn new(lifetime: Duration, limit: usize) -> Self {
        ExpiringCache { lifetime, limit, inner: Mutex::new(CacheInner { values: LruCache::unbounded(), size: 0 }) }
    }

    /// The value of a key, if it is still cached.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let mut inner = self.inner();
        match inner.values.get(key) {
            Some(kept) if kept.until > Instant::now() => return Some(kept.value.clone()),
            Some(_) => inner.remove(key),
            None => {}
        }
        None
    }

    /// Caches a value, unless it is larger than the limit.
    pub(super) fn put(&self, key: K, value: V, size: usize) {
        let mut inner = self.inner();
        inner.remove(&key);
        if size > self.limit {
            return;
        }
        inner.size += size;
        inner.values.put(key, CachedValue { value, until: Instant::now() + self.lifetime, size });
        while inner.size > self.limit {
            let Some((_, oldest)) = inner.values.pop_lru() else { return };
            inner.size -= oldest.size;
        }
    }

    /// Drops the value of a key.
    pub(super) fn remove(&self, key: &K) {
        self.inner().remove(key);
    }

    fn inner(&self) -> MutexGuard<'_, CacheInner<K, V>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq, V> CacheInner<K, V> {
    fn remove(&mut self, key: &K) {
        if let Some(gone) = self.values.pop(key) {
            self.size -= gone.size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_value_is_kept_for_its_time_and_while_there_is_room() {
        let kept = ExpiringCache::new(Duration::from_secs(10), 10);
        kept.put("a", 1, 4);
        kept.put("b", 2, 4);
        assert_eq!((kept.get(&"a"), kept.get(&"b"), kept.get(&"c")), (Some(1), Some(2), None));
        kept.get(&"a");
        kept.put("c", 3, 4);
        assert_eq!(
            (kept.get(&"a"), kept.get(&"b"), kept.get(&"c")),
            (Some(1), None, Some(3)),
            "b was used longest ago"
        );
        kept.put("a", 5, 11);
        assert_eq!(kept.get(&"a"), None, "it is larger than all may be");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(kept.get(&"c"), None);
        kept.put("d", 4, 10);
        assert_eq!(kept.get(&"d"), Some(4), "what is over takes no room");
    }
}

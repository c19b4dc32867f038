//! Indexes from a key to several values.

use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

/// An index. It is persistent: a clone shares all data.
pub(super) type KeyIndex<K, V> = RedBlackTreeMapSync<K, RedBlackTreeSetSync<V>>;

/// Adds a value to those of a key.
pub(super) fn add<K: Ord, V: Ord>(index: &mut KeyIndex<K, V>, key: K, value: V) {
    let mut values = index.get(&key).cloned().unwrap_or_default();
    values.insert_mut(value);
    index.insert_mut(key, values);
}

/// Removes a value from those of a key, and the key with its last one.
pub(super) fn remove<K: Ord, V: Ord>(index: &mut KeyIndex<K, V>, key: K, value: &V) {
    let Some(values) = index.get(&key) else { return };
    let left = values.remove(value);
    if left.is_empty() {
        index.remove_mut(&key);
    } else {
        index.insert_mut(key, left);
    }
}

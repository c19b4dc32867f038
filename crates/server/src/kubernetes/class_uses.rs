//! The references of all ClusterClasses of a cache.

use std::collections::{BTreeMap, BTreeSet};

use super::cache::{Cache, CacheFollower};
use model::hub::{ClusterClass, ObjectKey};
use model::world::Found;

/// The references of each class, and the number of classes that have each reference.
#[derive(Debug)]
pub(super) struct ClassUses<T> {
    of_class: BTreeMap<ObjectKey, BTreeSet<T>>,
    counts: BTreeMap<T, usize>,
    of: fn(&ClusterClass) -> BTreeSet<T>,
}

/// The references that a change of a class added and removed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UseChange<T> {
    /// All references of the class.
    pub used: BTreeSet<T>,
    /// References that no class has any more.
    pub unused: BTreeSet<T>,
}

impl<T: Ord + Clone> ClassUses<T> {
    /// No classes yet; `of` returns the references of a class.
    pub(super) fn new(of: fn(&ClusterClass) -> BTreeSet<T>) -> Self {
        ClassUses { of_class: BTreeMap::new(), counts: BTreeMap::new(), of }
    }

    /// Updates a class from the cache. A class that is deleted or does not decode has no references.
    pub(super) fn update(&mut self, cache: &Cache, class: &ObjectKey) -> UseChange<T> {
        let used = match cache.facts().class(class) {
            Found::Yes(class) => (self.of)(&class),
            _ => BTreeSet::new(),
        };
        self.replace(class, used)
    }

    fn replace(&mut self, class: &ObjectKey, used: BTreeSet<T>) -> UseChange<T> {
        for one in &used {
            *self.counts.entry(one.clone()).or_default() += 1;
        }
        let before = match used.is_empty() {
            true => self.of_class.remove(class),
            false => self.of_class.insert(class.clone(), used.clone()),
        };
        let mut unused = BTreeSet::new();
        for one in before.into_iter().flatten() {
            let Some(count) = self.counts.get_mut(&one) else { continue };
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&one);
                unused.insert(one);
            }
        }
        UseChange { used, unused }
    }

    /// The references of all classes.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.counts.keys()
    }
}

/// The next classes that change; waits for a change.
pub(super) async fn next_classes(follower: &mut CacheFollower) -> BTreeSet<ObjectKey> {
    loop {
        let classes = follower.next().await.classes;
        if !classes.is_empty() {
            return classes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_unused_once_no_class_has_it() {
        let mut uses: ClassUses<u8> = ClassUses::new(|_| BTreeSet::new());
        let mut put = |class: &str, used: &[u8]| {
            let change = uses.replace(&ObjectKey::new("ns", class), used.iter().copied().collect());
            (change.unused.into_iter().collect::<Vec<_>>(), uses.all().copied().collect::<Vec<_>>())
        };
        assert_eq!(put("a", &[1, 2]), (vec![], vec![1, 2]));
        assert_eq!(put("b", &[2, 3]), (vec![], vec![1, 2, 3]));
        assert_eq!(put("a", &[1, 2]), (vec![], vec![1, 2, 3]), "nothing has changed");
        assert_eq!(put("a", &[4]), (vec![1], vec![2, 3, 4]));
        assert_eq!(put("b", &[]), (vec![2, 3], vec![4]));
        assert_eq!(put("c", &[]), (vec![], vec![4]));
    }
}

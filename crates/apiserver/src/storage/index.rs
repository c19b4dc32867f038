//! Index of the objects of a kind by Cluster, so that listing those of one Cluster reads no others.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// Keys of objects by the Cluster in their label; objects without the label are not indexed.
#[derive(Debug, Default)]
pub(super) struct ByCluster(HashMap<Arc<str>, BTreeSet<Arc<str>>>);

impl ByCluster {
    /// Updates the Cluster of an object.
    pub(super) fn note(&mut self, key: &Arc<str>, was: Option<&str>, is: Option<&str>) {
        if was == is {
            return;
        }
        if let Some(was) = was
            && let Some(keys) = self.0.get_mut(was)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.0.remove(was);
            }
        }
        if let Some(is) = is {
            match self.0.get_mut(is) {
                Some(keys) => drop(keys.insert(key.clone())),
                None => drop(self.0.insert(is.into(), BTreeSet::from([key.clone()]))),
            }
        }
    }

    /// The keys of the objects of a Cluster with a prefix, sorted.
    pub(super) fn keys<'a>(&'a self, cluster: &str, prefix: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        let keys = self.0.get(cluster).map(|keys| keys.range::<str, _>((Bound::Included(prefix), Bound::Unbounded)));
        keys.into_iter().flatten().take_while(move |key| key.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys<'a>(index: &'a ByCluster, cluster: &str, prefix: &'a str) -> Vec<&'a str> {
        index.keys(cluster, prefix).map(|key| &**key).collect()
    }

    #[test]
    fn an_object_is_found_by_the_label_that_it_has_now() {
        let (one, other) = (Some("one"), Some("other"));
        let mut index = ByCluster::default();
        for key in ["ns/b", "ns/a", "far/c", "ns2/a"] {
            index.note(&key.into(), None, one);
        }
        assert_eq!(keys(&index, "one", ""), ["far/c", "ns/a", "ns/b", "ns2/a"]);
        assert_eq!(keys(&index, "one", "ns/"), ["ns/a", "ns/b"]);
        index.note(&"ns/a".into(), one, other);
        assert_eq!((keys(&index, "one", "ns/"), keys(&index, "other", "ns/")), (vec!["ns/b"], vec!["ns/a"]));
        index.note(&"ns/a".into(), other, None);
        index.note(&"ns/b".into(), one, None);
        assert!(keys(&index, "one", "ns/").is_empty() && keys(&index, "other", "").is_empty());
        index.note(&"ns/a".into(), None, one);
        assert_eq!(keys(&index, "one", ""), ["far/c", "ns/a", "ns2/a"]);
        assert_eq!(index.0.len(), 1, "nothing is kept of a Cluster without objects");
    }
}

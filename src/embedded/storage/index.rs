//! Which objects of a kind belong to which Cluster, so that a list of those of one Cluster looks at no others.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::store::Stored;
use crate::hub::label::CLUSTER_NAME;

/// The keys of objects by the Cluster that their label names; those without the label are not here.
#[derive(Debug, Default)]
pub(super) struct ByCluster(HashMap<Arc<str>, BTreeSet<Arc<str>>>);

impl ByCluster {
    /// Notes what has become of an object: it came, changed or went.
    pub(super) fn note(&mut self, key: &Arc<str>, before: Option<&Stored>, after: Option<&Stored>) {
        let (was, is) = (before.and_then(cluster_of), after.and_then(cluster_of));
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

    /// The keys that begin with a prefix of the objects of a Cluster, in their order.
    pub(super) fn keys<'a>(&'a self, cluster: &str, prefix: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        let keys = self.0.get(cluster).map(|keys| keys.range::<str, _>((Bound::Included(prefix), Bound::Unbounded)));
        keys.into_iter().flatten().take_while(move |key| key.starts_with(prefix))
    }
}

fn cluster_of(object: &Stored) -> Option<&str> {
    object.value.get("metadata")?.get("labels")?.get(CLUSTER_NAME)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(label: &str, value: &str) -> Stored {
        Stored { value: json!({"metadata": {"labels": {label: value}}}), version: 1 }
    }

    fn keys<'a>(index: &'a ByCluster, cluster: &str, prefix: &'a str) -> Vec<&'a str> {
        index.keys(cluster, prefix).map(|key| &**key).collect()
    }

    #[test]
    fn an_object_is_found_by_the_label_that_it_has_now() {
        let (one, other, none) = (stored(CLUSTER_NAME, "one"), stored(CLUSTER_NAME, "other"), stored("tier", "one"));
        let mut index = ByCluster::default();
        for key in ["ns/b", "ns/a", "far/c", "ns2/a"] {
            index.note(&key.into(), None, Some(&one));
        }
        assert_eq!(keys(&index, "one", ""), ["far/c", "ns/a", "ns/b", "ns2/a"]);
        assert_eq!(keys(&index, "one", "ns/"), ["ns/a", "ns/b"]);
        index.note(&"ns/a".into(), Some(&one), Some(&other));
        assert_eq!((keys(&index, "one", "ns/"), keys(&index, "other", "ns/")), (vec!["ns/b"], vec!["ns/a"]));
        index.note(&"ns/a".into(), Some(&other), Some(&none));
        index.note(&"ns/b".into(), Some(&one), None);
        assert!(keys(&index, "one", "ns/").is_empty() && keys(&index, "other", "").is_empty());
        index.note(&"ns/a".into(), Some(&none), Some(&one));
        assert_eq!(keys(&index, "one", ""), ["far/c", "ns/a", "ns2/a"]);
        assert_eq!(index.0.len(), 1, "nothing is kept of a Cluster without objects");
    }
}

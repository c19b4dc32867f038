//! The suffixes of generated names in a live run (NAM-04 to NAM-06).
//!
//! A suffix cannot be predicted without the uid of the Cluster. It is the same when a run is repeated after a crash:
//! objects that the last run created and did not refer to yet are found again by their names (RS-13), so that nothing
//! is left over or created twice. Writes of topologies to the Cluster (references, hooks, defaults) change no name. A
//! template that replaces another gets another suffix.

use ring::digest::{SHA256, digest};

use model::hub::names::{Names, suffix_from_hash};
use model::hub::{Cluster, ClusterClass, ObjectKey};

/// The suffixes of one run.
#[derive(Clone, Debug)]
pub struct LiveNames {
    /// The Cluster and its class, and what they ask for.
    seed: String,
}

impl LiveNames {
    /// The names for the current state of a Cluster, with the defaults of its variables, and of its class.
    pub fn for_cluster(cluster: &Cluster, class: &ClusterClass) -> Self {
        let (of_cluster, of_class) = (&cluster.metadata, &class.metadata);
        let topology = digest(&SHA256, format!("{:?}", cluster.spec.topology).as_bytes());
        LiveNames { seed: format!("{}/{}/{}/{topology:?}", of_cluster.uid, of_class.uid, of_class.generation) }
    }
}

impl Names for LiveNames {
    fn suffix(&mut self, cluster: &ObjectKey, slot: &str) -> String {
        let hash = digest(&SHA256, format!("{}/{cluster}/{slot}", self.seed).as_bytes());
        let (start, _) = hash.as_ref().split_at(8);
        suffix_from_hash(start.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use model::hub::names::{ALPHABET, LENGTH};

    fn cluster(generation: i64, version: &str) -> Cluster {
        let spec = json!({"topology": {"version": version}});
        serde_json::from_value(json!({"metadata": {"uid": "u", "generation": generation}, "spec": spec})).unwrap()
    }

    fn class(generation: i64) -> ClusterClass {
        serde_json::from_value(json!({"metadata": {"uid": "c", "generation": generation}})).unwrap()
    }

    fn end(cluster: &Cluster, class: &ClusterClass, slot: &str) -> String {
        LiveNames::for_cluster(cluster, class).suffix(&ObjectKey::new("ns", "blue"), slot)
    }

    #[test]
    fn name_suffixes_differ_only_if_another_name_is_needed() {
        // NAM-04, NAM-06
        let plain = || cluster(1, "v1");
        let ends: Vec<String> = (0..500).map(|slot| end(&plain(), &class(1), &slot.to_string())).collect();
        assert!(ends.iter().all(|end| end.len() == LENGTH && end.bytes().all(|byte| ALPHABET.contains(&byte))));
        let letters: BTreeSet<u8> = ends.iter().flat_map(|end| end.bytes()).collect();
        assert_eq!(letters.len(), ALPHABET.len(), "every character comes up");
        assert!(ends.iter().collect::<BTreeSet<_>>().len() > 490);
        assert_eq!(ends[0], end(&plain(), &class(1), "0"));
        assert_ne!(ends[0], end(&cluster(1, "v2"), &class(1), "0"));
        assert_ne!(ends[0], end(&plain(), &class(2), "0"));
        let mut other = plain();
        other.metadata.uid = "v".to_owned();
        assert_ne!(ends[0], end(&other, &class(1), "0"));
    }

    #[test]
    fn a_repeated_run_gives_the_same_names_after_writes_to_the_cluster() {
        let mut after = cluster(3, "v1");
        after.spec.infrastructure_ref.name = "written".to_owned();
        assert_eq!(end(&cluster(1, "v1"), &class(1), "x"), end(&after, &class(1), "x"));
    }
}

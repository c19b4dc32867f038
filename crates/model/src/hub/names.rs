//! Random suffixes of generated names.

use super::ObjectKey;
pub use super::prefixed_name as prefixed;

/// Alphabet of the suffixes (NAM-04).
pub const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of a suffix.
pub const LENGTH: usize = 5;

/// Generator of name suffixes.
pub trait Names {
    /// Five characters of [`ALPHABET`] for the object in `slot` of a Cluster.
    fn suffix(&mut self, cluster: &ObjectKey, slot: &str) -> String;
}

/// Suffixes computed from Cluster and slot, so that the same input gives the same names (DEC-41).
#[derive(Clone, Copy, Debug, Default)]
pub struct DeterministicNames;

impl Names for DeterministicNames {
    fn suffix(&mut self, cluster: &ObjectKey, slot: &str) -> String {
        let bytes = cluster.namespace.bytes().chain([0]).chain(cluster.name.bytes()).chain([0]).chain(slot.bytes());
        suffix_from_hash(golang::fnv::hash64(bytes))
    }
}

/// The suffix for a hash.
pub fn suffix_from_hash(mut hash: u64) -> String {
    let base = ALPHABET.len() as u64;
    let character = |_| {
        let at = usize::try_from(hash % base).unwrap_or_default();
        hash /= base;
        ALPHABET.get(at).map_or('x', |byte| char::from(*byte))
    };
    (0..LENGTH).map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_ends_follow_from_cluster_and_slot() {
        // DEC-41, NAM-04
        let end = |name: &str, slot: &str| DeterministicNames.suffix(&ObjectKey::new("ns", name), slot);
        assert_eq!(end("a", "x"), end("a", "x"));
        assert_ne!(end("a", "x"), end("b", "x"));
        assert_ne!(end("a", "x"), end("a", "y"));
        assert_eq!(end("a", "x").len(), LENGTH);
        assert!(end("a", "x").bytes().all(|byte| ALPHABET.contains(&byte)));
    }
}

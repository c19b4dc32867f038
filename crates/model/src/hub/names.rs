//! The random suffixes of generated names.

use super::ObjectKey;
pub use super::prefixed_name as prefixed;

/// What the random part of a name is drawn from (NAM-04).
pub const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many characters it has.
pub const LENGTH: usize = 5;

/// Gives new names their ends.
pub trait Names {
    /// Five characters of [`ALPHABET`] for the object that is to fill `slot` of a Cluster.
    fn end(&mut self, cluster: &ObjectKey, slot: &str) -> String;
}

/// Ends that follow from Cluster and slot, so that the same input gives the same names (DEC-41).
#[derive(Clone, Copy, Debug, Default)]
pub struct Derived;

impl Names for Derived {
    fn end(&mut self, cluster: &ObjectKey, slot: &str) -> String {
        let bytes = cluster.namespace.bytes().chain([0]).chain(cluster.name.bytes()).chain([0]).chain(slot.bytes());
        end_of(golang::fnv::hash64(bytes))
    }
}

/// The end of a name that a hash gives.
pub fn end_of(mut hash: u64) -> String {
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
        let end = |name: &str, slot: &str| Derived.end(&ObjectKey::new("ns", name), slot);
        assert_eq!(end("a", "x"), end("a", "x"));
        assert_ne!(end("a", "x"), end("b", "x"));
        assert_ne!(end("a", "x"), end("a", "y"));
        assert_eq!(end("a", "x").len(), LENGTH);
        assert!(end("a", "x").bytes().all(|byte| ALPHABET.contains(&byte)));
    }
}

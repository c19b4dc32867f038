//! Random ends of names (NAM-04 to NAM-06).

use std::collections::BTreeMap;
use std::fmt;

use ring::rand::{SecureRandom, SystemRandom};

use crate::hub::ObjectKey;
use crate::topology::names::{ALPHABET, LENGTH, Names};

/// Random ends for one run. A plan is computed several times until all that it needs is known, so that a slot keeps the end
/// that it was given first.
pub struct RandomNames {
    random: SystemRandom,
    given: BTreeMap<(ObjectKey, String), String>,
}

impl fmt::Debug for RandomNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RandomNames").field("given", &self.given).finish_non_exhaustive()
    }
}

impl Default for RandomNames {
    fn default() -> Self {
        RandomNames { random: SystemRandom::new(), given: BTreeMap::new() }
    }
}

impl Names for RandomNames {
    fn end(&mut self, cluster: &ObjectKey, slot: &str) -> String {
        let random = &self.random;
        self.given.entry((cluster.clone(), slot.to_owned())).or_insert_with(|| end(random)).clone()
    }
}

/// Characters of the alphabet, each as likely as any other.
fn end(random: &SystemRandom) -> String {
    const CHARACTERS: u8 = ALPHABET.len() as u8;
    /// From here on bytes would prefer the first characters.
    const BIASED: u8 = u8::MAX - u8::MAX % CHARACTERS;
    let mut end = String::with_capacity(LENGTH);
    while end.len() < LENGTH {
        let mut bytes = [0; 2 * LENGTH];
        // Without random bytes no name is given, and a run without a name ends.
        if random.fill(&mut bytes).is_err() {
            return end;
        }
        let fair = bytes.iter().filter(|byte| **byte < BIASED);
        let characters = fair.filter_map(|byte| ALPHABET.get(usize::from(byte % CHARACTERS)));
        let missing = LENGTH - end.len();
        end.extend(characters.take(missing).map(|byte| char::from(*byte)));
    }
    end
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ends_are_random_and_stay_for_a_run() {
        // NAM-04, NAM-06
        let cluster = ObjectKey::new("ns", "blue");
        let mut names = RandomNames::default();
        let ends: Vec<String> = (0..500).map(|slot| names.end(&cluster, &slot.to_string())).collect();
        let again: Vec<String> = (0..500).map(|slot| names.end(&cluster, &slot.to_string())).collect();
        assert_eq!(ends, again);
        assert!(ends.iter().all(|end| end.len() == LENGTH && end.bytes().all(|byte| ALPHABET.contains(&byte))));
        let letters: BTreeSet<u8> = ends.iter().flat_map(|end| end.bytes()).collect();
        assert_eq!(letters.len(), ALPHABET.len(), "every character comes up");
        assert!(ends.iter().collect::<BTreeSet<_>>().len() > 490);
        assert_ne!(names.end(&ObjectKey::new("ns", "red"), "0"), ends[0]);
        assert_ne!(RandomNames::default().end(&cluster, "0"), ends[0]);
    }
}

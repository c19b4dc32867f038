//! Generated names: suffixes follow from purpose and time, so that the same input gives the same names (MA-30.6).

use serde_json::Value;

use super::context::{StepContext, StepError};
use super::objects::GroupKind;
use golang::calendar::Moment;
use golang::fnv;
use model::hub::names::{LENGTH, suffix_from_hash};
use model::hub::{NameSubject, Object, ObjectKey, default_name, label, name_from, paths};

/// The suffix of the object with index `number` among those that `owner` creates at a time (CT-14.3).
pub(super) fn name_suffix(owner: &Object, purpose: &str, number: usize, now: Moment) -> String {
    let text = format!("{}/{purpose}/{number}/{}/{}", owner.uid(), now.seconds, now.nanos);
    let end = suffix_from_hash(hash(&text));
    debug_assert_eq!(end.len(), LENGTH, "every end is equally long");
    end
}

/// Maximum number of attempts to find an unused name.
pub(super) const ATTEMPTS: usize = 10;

/// An unused name for a Machine of a MachineSet or control plane: by the template at `path` of the owner, else its name
/// with a random suffix (MA-15.9).
///
/// # Errors
/// When the template cannot be rendered, or gives no unused name.
pub(super) fn machine_name(
    context: &StepContext<'_>,
    owner: &Object,
    named: NameSubject<'_>,
    path: &str,
    mut end: impl FnMut() -> String,
) -> Result<String, StepError> {
    let cluster = owner.label(label::CLUSTER_NAME).unwrap_or_default();
    let cluster = owner.at(paths::CLUSTER_NAME).and_then(Value::as_str).unwrap_or(cluster);
    let failed = |why: &str| StepError::failed(format!("{} {}: {why}", owner.kind(), owner.key()));
    for _ in 0..ATTEMPTS {
        let name = match owner.at(path).and_then(Value::as_str).unwrap_or_default() {
            "" => default_name(cluster, named, &mut end),
            template => {
                name_from(template, cluster, named, &mut end).map_err(|error| failed(&format!("{path}: {error}")))?
            }
        };
        if context.get(&GroupKind::core("Machine"), &ObjectKey::new(owner.namespace(), &*name))?.is_none() {
            return Ok(name);
        }
    }
    Err(failed("found no free name for a Machine"))
}

/// A fraction from 0 to 1 derived from a text, for varying delays.
pub(super) fn fraction(text: &str) -> f64 {
    f64::from(u32::try_from(hash(text) >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

/// FNV-1a with 64 bits and a final mix, since similar texts would have similar suffixes otherwise.
fn hash(text: &str) -> u64 {
    let hash = fnv::hash64(text.bytes());
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

/// FNV-1a with 32 bits, as in the label of a MachineSet (MA-21.6).
pub(super) fn short_hash(text: &str) -> u32 {
    fnv::hash32(text.bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use model::hub::names::ALPHABET;

    #[test]
    fn ends_have_five_characters_of_the_alphabet_and_follow_from_their_purpose() {
        // CT-14.3, MA-30.6
        let owner = Object::try_from(json!({"metadata": {"uid": "u"}})).unwrap();
        let now = Moment { seconds: 1, nanos: 0 };
        let ends: std::collections::BTreeSet<String> =
            (0..100).map(|number| name_suffix(&owner, "machine", number, now)).collect();
        assert_eq!(ends.len(), 100, "they differ");
        assert!(ends.iter().all(|end| end.len() == 5 && end.bytes().all(|byte| ALPHABET.contains(&byte))), "{ends:?}");
        assert_eq!(name_suffix(&owner, "machine", 7, now), name_suffix(&owner, "machine", 7, now));
        assert_ne!(name_suffix(&owner, "machine", 7, now), name_suffix(&owner, "set", 7, now));
    }
}

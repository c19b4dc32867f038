//! Labels and annotations that an object propagates to the objects that it creates.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lifecycle::fields::{TextMap, remove_text, set_annotation, set_text};
use model::hub::{Object, paths};

/// Annotation with the names of propagated labels and annotations.
pub(in crate::lifecycle) const RECORD: &str = "lifecycle.topologist.dev/handed-down";

#[derive(Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(default)]
struct PropagatedNames {
    labels: BTreeSet<String>,
    annotations: BTreeSet<String>,
}

/// Propagated metadata. Names that were propagated before and no longer are get removed; names of other writers are
/// kept (MA-15.11).
#[derive(Debug, Hash)]
pub(in crate::lifecycle) struct PropagatedMetadata {
    labels: TextMap,
    annotations: TextMap,
    gone: PropagatedNames,
}

impl PropagatedMetadata {
    /// The metadata to propagate from now on. The annotation records the names, so that a later step can detect removed
    /// ones; it must be written after all objects are updated.
    pub(in crate::lifecycle) fn from_owner(owner: &mut Object, labels: TextMap, annotations: TextMap) -> Self {
        let record = owner.annotation(RECORD).unwrap_or_default().to_owned();
        let known: PropagatedNames = serde_json::from_str(&record).unwrap_or_default();
        let names = PropagatedNames {
            labels: labels.keys().cloned().collect(),
            annotations: annotations.keys().cloned().collect(),
        };
        let gone = PropagatedNames {
            labels: known.labels.difference(&names.labels).cloned().collect(),
            annotations: known.annotations.difference(&names.annotations).cloned().collect(),
        };
        if known != names {
            set_annotation(owner, RECORD, &serde_json::to_string(&names).unwrap_or_default());
        }
        PropagatedMetadata { labels, annotations, gone }
    }

    /// Updates one object.
    pub(in crate::lifecycle) fn apply(&self, object: &mut Object) {
        apply(object, paths::metadata::LABELS, &self.labels, &self.gone.labels);
        apply(object, paths::metadata::ANNOTATIONS, &self.annotations, &self.gone.annotations);
    }
}

fn apply(object: &mut Object, path: &str, wanted: &TextMap, gone: &BTreeSet<String>) {
    let known = object.at(path).and_then(Value::as_object);
    let has = |name: &str, text: &str| known.and_then(|known| known.get(name)).is_some_and(|value| value == text);
    let has_gone = |name: &String| known.is_some_and(|known| known.contains_key(name));
    if wanted.iter().all(|(name, text)| has(name, text)) && !gone.iter().any(has_gone) {
        return;
    }
    gone.iter().for_each(|name| remove_text(object, path, name));
    wanted.iter().for_each(|(name, value)| set_text(object, path, name, value));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_longer_handed_down_is_removed_and_what_others_wrote_stays() {
        // MA-15.11
        let texts = |all: &[&str]| -> TextMap { all.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect() };
        let mut owner = Object::try_from(json!({"metadata": {}})).unwrap();
        let mut object = Object::try_from(json!({"metadata": {"labels": {"theirs": "x"}}})).unwrap();
        PropagatedMetadata::from_owner(&mut owner, texts(&["a", "b"]), texts(&["c"])).apply(&mut object);
        assert_eq!(
            object.at("metadata"),
            Some(&json!({"labels": {"theirs": "x", "a": "1", "b": "1"}, "annotations": {"c": "1"}}))
        );
        let before = owner.clone();
        PropagatedMetadata::from_owner(&mut owner, texts(&["a", "b"]), texts(&["c"])).apply(&mut object);
        assert_eq!(owner, before, "the record stays while the names do");
        PropagatedMetadata::from_owner(&mut owner, texts(&["b"]), texts(&[])).apply(&mut object);
        assert_eq!(object.at("metadata"), Some(&json!({"labels": {"theirs": "x", "b": "1"}, "annotations": {}})));
    }
}

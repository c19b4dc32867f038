//! Labels and annotations that an object hands down to the objects that it makes, again and again.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lifecycle::fields::{remove_text, set_annotation, set_text};
use model::hub::Object;

/// On an object that hands down labels and annotations: their names.
pub(in crate::lifecycle) const RECORD: &str = "lifecycle.topologist.dev/handed-down";

type Texts = BTreeMap<String, String>;

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Names {
    labels: BTreeSet<String>,
    annotations: BTreeSet<String>,
}

/// What an object hands down. Names that it handed down before and no longer does are removed; names of other writers stay
/// (MA-15.11).
#[derive(Debug)]
pub(in crate::lifecycle) struct HandedDown {
    labels: Texts,
    annotations: Texts,
    gone: Names,
}

impl HandedDown {
    /// What an object hands down from now on. Its annotation records the names, so that a later step can tell which are gone; the
    /// record has to be written after all objects that get the labels.
    pub(in crate::lifecycle) fn of(owner: &mut Object, labels: Texts, annotations: Texts) -> Self {
        let record = owner.annotation(RECORD).unwrap_or_default().to_owned();
        let known: Names = serde_json::from_str(&record).unwrap_or_default();
        let names =
            Names { labels: labels.keys().cloned().collect(), annotations: annotations.keys().cloned().collect() };
        let gone = Names {
            labels: known.labels.difference(&names.labels).cloned().collect(),
            annotations: known.annotations.difference(&names.annotations).cloned().collect(),
        };
        if known != names {
            set_annotation(owner, RECORD, &serde_json::to_string(&names).unwrap_or_default());
        }
        HandedDown { labels, annotations, gone }
    }

    /// Hands down to one object.
    pub(in crate::lifecycle) fn apply(&self, object: &mut Object) {
        apply(object, "metadata.labels", &self.labels, &self.gone.labels);
        apply(object, "metadata.annotations", &self.annotations, &self.gone.annotations);
    }
}

fn apply(object: &mut Object, path: &str, wanted: &Texts, gone: &BTreeSet<String>) {
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
        let texts = |all: &[&str]| -> Texts { all.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect() };
        let mut owner = Object::try_from(json!({"metadata": {}})).unwrap();
        let mut object = Object::try_from(json!({"metadata": {"labels": {"theirs": "x"}}})).unwrap();
        HandedDown::of(&mut owner, texts(&["a", "b"]), texts(&["c"])).apply(&mut object);
        assert_eq!(
            object.at("metadata"),
            Some(&json!({"labels": {"theirs": "x", "a": "1", "b": "1"}, "annotations": {"c": "1"}}))
        );
        let before = owner.clone();
        HandedDown::of(&mut owner, texts(&["a", "b"]), texts(&["c"])).apply(&mut object);
        assert_eq!(owner, before, "the record stays while the names do");
        HandedDown::of(&mut owner, texts(&["b"]), texts(&[])).apply(&mut object);
        assert_eq!(object.at("metadata"), Some(&json!({"labels": {"theirs": "x", "b": "1"}, "annotations": {}})));
    }
}

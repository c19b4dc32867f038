//! Edits of a raw object at paths whose parents may be missing.

use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation};
use serde_json::{Map, Value};

use super::add;

/// Builder for a patch, with the patched object.
pub(in crate::admission) struct PatchBuilder {
    object: Value,
    patch: Vec<PatchOperation>,
}

impl PatchBuilder {
    /// An empty patch of an object.
    pub(in crate::admission) fn new(object: Value) -> Self {
        PatchBuilder { object, patch: Vec::new() }
    }

    /// Sets a member, and creates its missing or null parents.
    pub(in crate::admission) fn set(&mut self, path: &[&str], value: impl Into<Value>) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut node = &mut self.object;
        let mut value = value.into();
        for (depth, name) in parents.iter().enumerate() {
            let Some(members) = node.as_object_mut() else { return };
            if members.get(*name).is_none_or(Value::is_null) {
                value = path.iter().skip(depth + 1).rev().fold(value, |inner, name| wrapped(name, inner));
                members.insert((*name).to_owned(), value.clone());
                self.patch.push(add(&PointerBuf::from_tokens(path.iter().take(depth + 1).copied()), value));
                return;
            }
            node = members.entry(*name).or_insert(Value::Null);
        }
        let Some(members) = node.as_object_mut() else { return };
        members.insert((*last).to_owned(), value.clone());
        self.patch.push(add(&PointerBuf::from_tokens(path.iter().copied()), value));
    }

    /// The edits as a patch.
    pub(in crate::admission) fn into_patch(self) -> Patch {
        Patch(self.patch)
    }
}

fn wrapped(name: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), value)]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_creates_missing_parents_and_changes_nothing_else() {
        let object = json!({"metadata": {"name": "x", "labels": null}, "spec": {"other": [1]}});
        let mut edits = PatchBuilder::new(object.clone());
        edits.set(&["metadata", "labels", "a/b~c"], "1");
        edits.set(&["metadata", "labels", "second"], "2");
        edits.set(&["spec", "deep", "deeper", "deepest"], 3);
        edits.set(&["spec", "deep", "deeper", "too"], 4);
        let patch = edits.into_patch();
        let mut patched = object;
        json_patch::patch(&mut patched, &patch).unwrap();
        assert_eq!(
            patched,
            json!({"metadata": {"name": "x", "labels": {"a/b~c": "1", "second": "2"}},
                "spec": {"other": [1], "deep": {"deeper": {"deepest": 3, "too": 4}}}})
        );
        assert_eq!(patch.0.len(), 4);
    }
}

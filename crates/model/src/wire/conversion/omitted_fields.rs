//! Fields of the newer versions that are left out when they are empty (CONV-015).
//!
//! Cluster API's Go types write no empty value of a field that is no pointer, and the schemas of the newer versions
//! refuse most of these values. The list is generated from the types; `tests/kubernetes/reference/answers` writes it,
//! and a test compares.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

const LIST: &str = include_str!("omitted_fields.txt");

/// Admission distinguishes a patch with an empty list from one without a list (PAT-005).
const KEPT: &str = "spec.patches[].definitions";

static KINDS: LazyLock<BTreeMap<&'static str, Field>> = LazyLock::new(|| {
    let mut kinds: BTreeMap<_, Field> = BTreeMap::new();
    for line in LIST.lines() {
        let Some((kind, field)) = line.split_once(' ') else { continue };
        let root = kinds.entry(kind).or_default();
        if let Some((path, outer)) = field.split_once(" = ") {
            root.insert(path).same_as = Some(outer);
        } else if let Some((path, form)) = field.split_once(' ')
            && path != KEPT
        {
            root.insert(path).form = Some(form);
        }
    }
    kinds
});

/// A field, or the entries of a list (`[]`) or map (`{}`).
#[derive(Default)]
struct Field {
    /// The JSON type of a field that is left out when it is empty, or `any`.
    form: Option<&'static str>,
    /// The path of the outer field with the same fields.
    same_as: Option<&'static str>,
    fields: BTreeMap<&'static str, Field>,
}

impl Field {
    /// The field at a path, inserted where it is missing.
    fn insert(&mut self, path: &'static str) -> &mut Field {
        steps(path).fold(self, |field, step| field.fields.entry(step).or_default())
    }

    fn at(&self, path: &'static str) -> Option<&Field> {
        steps(path).try_fold(self, |field, step| field.fields.get(step))
    }

    fn omits(&self, value: &Value) -> bool {
        self.form.is_some_and(|form| match value {
            Value::Null => true,
            Value::Bool(is_true) => form == "boolean" && !is_true,
            Value::Number(number) => form == "integer" && number.as_i64() == Some(0),
            Value::String(text) => form == "string" && text.is_empty(),
            Value::Array(entries) => form == "array" && entries.is_empty(),
            Value::Object(members) => form == "object" && members.is_empty(),
        })
    }

    /// Removes empty fields below a value of this field, inner ones first; `root` is the object.
    fn remove_empty(&self, value: &mut Value, root: &Field) {
        let outer = self.same_as.and_then(|path| root.at(path));
        let fields = &outer.unwrap_or(self).fields;
        match value {
            Value::Array(entries) => {
                let Some(each) = fields.get("[]") else { return };
                entries.iter_mut().for_each(|entry| each.remove_empty(entry, root));
            }
            Value::Object(members) => {
                if let Some(each) = fields.get("{}") {
                    members.values_mut().for_each(|member| each.remove_empty(member, root));
                    return;
                }
                members.retain(|name, member| {
                    let Some(field) = fields.get(name.as_str()) else { return true };
                    field.remove_empty(member, root);
                    !field.omits(member)
                });
            }
            _ => {}
        }
    }
}

/// `a.b[].c` as `a`, `b`, `[]`, `c`.
fn steps(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('.').flat_map(|step| {
        let name = step.trim_end_matches(['[', ']', '{', '}']);
        let (name, mut entries) = step.split_at(name.len());
        let entries = std::iter::from_fn(move || {
            let (entry, rest) = entries.split_at_checked(2)?;
            entries = rest;
            Some(entry)
        });
        std::iter::once(name).chain(entries)
    })
}

/// Removes the empty fields of an object of a newer version.
pub(super) fn remove_empty(kind: &str, object: &mut Value) {
    if let Some(fields) = KINDS.get(kind) {
        fields.remove_empty(object, fields);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_separate_entries_from_their_list() {
        let all: Vec<&str> = steps("spec.a[].b[]{}").collect();
        assert_eq!(all, ["spec", "a", "[]", "b", "[]", "{}"]);
    }

    #[test]
    fn every_line_is_read() {
        let mut lines = 0;
        for line in LIST.lines() {
            let (kind, field) = line.split_once(' ').unwrap();
            let (path, form) = field.split_once(' ').unwrap();
            let found = KINDS[kind].at(path).unwrap();
            match form.strip_prefix("= ") {
                Some(outer) => assert!(KINDS[kind].at(outer).is_some() && found.same_as == Some(outer), "{line}"),
                None => assert!(path == KEPT || found.form == Some(form), "{line}"),
            }
            lines += 1;
        }
        assert!(lines > 300, "{lines}");
    }

    #[test]
    fn schemas_lose_empty_fields_at_every_depth_and_keep_their_values() {
        // CONV-015
        let schema =
            |inner: Value| json!({"spec": {"variables": [{"name": "v", "schema": {"openAPIV3Schema": inner}}]}});
        let free = json!({"default": {"a": "", "b": []}, "example": "", "enum": ["", 0, false, null]});
        let with = |extra: Value| {
            let mut node = free.clone();
            node.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            node
        };
        let empty = json!({"description": "", "required": [], "maximum": 0, "x-metadata": {"labels": {}}});
        let kept = json!({"maximum": 0});
        let nested =
            |inner: Value| json!({"properties": {"type": {"items": inner.clone(), "not": {"allOf": [inner]}}}});
        let mut object = schema(nested(with(empty)));
        remove_empty("ClusterClass", &mut object);
        assert_eq!(object, schema(nested(with(kept))));
    }
}

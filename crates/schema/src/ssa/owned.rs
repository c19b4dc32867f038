//! The fields of a configuration.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::fast_path::names;
use super::schema::{ListMerge, ListType, MapType, MergeSchema, MergeType, ValueShape};
use super::set::FieldNode;
use super::validate::entries;
use super::{FieldSet, PathElement};

/// The set of fields of a value, which a manager owns by applying it (SSA-01).
///
/// Includes fields that identify an object and are never owned, such as its name.
pub fn field_set(value: &Value, schema: &MergeSchema) -> FieldSet {
    node(value, &schema.0).below
}

/// Whether a value has all these fields.
pub fn has_fields(value: &Value, fields: &FieldSet) -> bool {
    fields.nodes().all(|(step, node)| match value {
        Value::Object(members) => match step {
            PathElement::Field(name) => members.get(name).is_some_and(|value| has_fields(value, &node.below)),
            _ => false,
        },
        Value::Array(items) => items.iter().any(|item| names(step, item) && has_fields(item, &node.below)),
        _ => false,
    })
}

/// The node of a value: itself, or its descendants.
fn node(value: &Value, of: &MergeType) -> FieldNode {
    let whole = || FieldNode { member: true, ..FieldNode::default() };
    let parts = |below| FieldNode { member: false, below };
    match (of.shape(Some(value)), value) {
        (ValueShape::Scalar(_), _) => whole(),
        (ValueShape::Map(of), _) if of.atomic => whole(),
        (ValueShape::List(of), _) if of.merge == ListMerge::Atomic => whole(),
        (ValueShape::Map(of), Value::Object(members)) => parts(map(members, of)),
        (ValueShape::List(of), Value::Array(items)) => match entries(items, of) {
            Some(steps) => parts(list(items, steps, of)),
            None => whole(),
        },
        _ => FieldNode::default(),
    }
}

/// Fields declared by the schema are owned through their descendants; others are owned themselves as well.
fn map(members: &Map<String, Value>, of: &MapType) -> FieldSet {
    let mut set = FieldSet::default();
    for (name, value) in members {
        let mut node = node(value, of.field(name).unwrap_or(&MergeType::Deduced));
        let is_bare = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        node.member |= is_bare || !of.fields.contains_key(name);
        set.put(PathElement::field(name), node);
    }
    set
}

/// Repeated entries are owned together, without their descendants.
fn list(items: &[Value], steps: Vec<PathElement>, of: &ListType) -> FieldSet {
    let mut seen = BTreeSet::new();
    let repeated: BTreeSet<PathElement> = steps.iter().filter(|step| !seen.insert(*step)).cloned().collect();
    let mut set = FieldSet::default();
    for (item, step) in items.iter().zip(steps) {
        let node = if repeated.contains(&step) { FieldNode::default() } else { node(item, &of.items) };
        set.put(step, FieldNode { member: true, ..node });
    }
    set
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_has_the_fields_that_its_version_names() {
        let object = json!({"spec": {"a": 1, "zones": [{"name": "x", "weight": 2}], "set": ["p"]}});
        for (fields, want) in [
            (json!({}), true),
            (json!({"f:spec": {"f:a": {}}}), true),
            (
                json!({"f:spec": {"f:zones": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}}},
                    "f:set": {"v:\"p\"": {}}}}),
                true,
            ),
            (json!({"f:spec": {"f:b": {}}}), false),
            (json!({"f:spec": {"f:a": {"f:b": {}}}}), false),
            (json!({"f:spec": {"f:zones": {"k:{\"name\":\"y\"}": {}}}}), false),
            (json!({"f:spec": {"f:set": {"v:\"q\"": {}}}}), false),
        ] {
            assert_eq!(has_fields(&object, &FieldSet::parse(&fields).unwrap()), want, "{fields}");
        }
    }
}

//! The fields that a configuration consists of.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::fast_path::names;
use super::schema::{ListMerge, ListType, MapType, Schema, Shape, Type};
use super::set::Node;
use super::validate::entries;
use super::{Element, FieldSet};

/// The set of fields that a value has: what a manager owns by applying it (SSA-01).
///
/// What identifies an object and is never owned, such as its name, is in the set like everything else.
pub fn field_set(value: &Value, schema: &Schema) -> FieldSet {
    node(value, &schema.0).below
}

/// Whether a value has all these fields.
pub fn has_fields(value: &Value, fields: &FieldSet) -> bool {
    fields.nodes().all(|(step, node)| match value {
        Value::Object(members) => match step {
            Element::Field(name) => members.get(name).is_some_and(|value| has_fields(value, &node.below)),
            _ => false,
        },
        Value::Array(items) => items.iter().any(|item| names(step, item) && has_fields(item, &node.below)),
        _ => false,
    })
}

/// What the value contributes: itself, or what is in it.
fn node(value: &Value, of: &Type) -> Node {
    let whole = || Node { member: true, ..Node::default() };
    let parts = |below| Node { member: false, below };
    match (of.shape(Some(value)), value) {
        (Shape::Scalar(_), _) => whole(),
        (Shape::Map(of), _) if of.atomic => whole(),
        (Shape::List(of), _) if of.merge == ListMerge::Atomic => whole(),
        (Shape::Map(of), Value::Object(members)) => parts(map(members, of)),
        (Shape::List(of), Value::Array(items)) => match entries(items, of) {
            Some(steps) => parts(list(items, steps, of)),
            None => whole(),
        },
        _ => Node::default(),
    }
}

/// Fields that the schema declares by name are owned through what is in them; others are owned themselves as well.
fn map(members: &Map<String, Value>, of: &MapType) -> FieldSet {
    let mut set = FieldSet::default();
    for (name, value) in members {
        let mut node = node(value, of.field(name).unwrap_or(&Type::Deduced));
        let is_bare = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        node.member |= is_bare || !of.fields.contains_key(name);
        set.put(Element::field(name), node);
    }
    set
}

/// Entries that repeat are owned together, without what is in them.
fn list(items: &[Value], steps: Vec<Element>, of: &ListType) -> FieldSet {
    let mut seen = BTreeSet::new();
    let repeated: BTreeSet<Element> = steps.iter().filter(|step| !seen.insert(*step)).cloned().collect();
    let mut set = FieldSet::default();
    for (item, step) in items.iter().zip(steps) {
        let node = if repeated.contains(&step) { Node::default() } else { node(item, &of.items) };
        set.put(step, Node { member: true, ..node });
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
                json!({"f:spec": {"f:zones": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}}}, "f:set": {"v:\"p\"": {}}}}),
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

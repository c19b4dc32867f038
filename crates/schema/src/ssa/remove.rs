//! An object without some of its fields.

use serde_json::{Map, Value};

use super::schema::{ListMerge, ListType, MapType, MergeType, ValueShape};
use super::validate::entry;
use super::{FieldSet, PathElement};

/// The value without the fields and list entries of the set; null if a map or list becomes empty.
pub(super) fn removed(value: &Value, fields: &FieldSet, of: &MergeType) -> Value {
    let left = match (of.shape(Some(value)), value) {
        (ValueShape::Map(of), Value::Object(members)) if !of.atomic => map(members, fields, of),
        (ValueShape::List(of), Value::Array(items)) if of.merge != ListMerge::Atomic => list(items, fields, of),
        (ValueShape::Scalar(_), value) => Some(value.clone()),
        _ => None,
    };
    left.unwrap_or(Value::Null)
}

fn map(members: &Map<String, Value>, fields: &FieldSet, of: &MapType) -> Option<Value> {
    let left: Map<String, Value> = members
        .iter()
        .filter_map(|(name, value)| {
            let of = of.field(name).unwrap_or(&MergeType::Deduced);
            Some((name.clone(), kept(value, &PathElement::field(name), fields, of)?))
        })
        .collect();
    (!left.is_empty()).then_some(Value::Object(left))
}

fn list(items: &[Value], fields: &FieldSet, of: &ListType) -> Option<Value> {
    let left: Vec<Value> = items
        .iter()
        .filter_map(|item| match entry(item, of) {
            Ok(step) => kept(item, &step, fields, &of.items),
            Err(_) => Some(item.clone()),
        })
        .collect();
    (!left.is_empty()).then_some(Value::Array(left))
}

/// The retained part of the value at a step.
fn kept(value: &Value, step: &PathElement, fields: &FieldSet, of: &MergeType) -> Option<Value> {
    if fields.has(std::slice::from_ref(step)) {
        return None;
    }
    Some(match fields.below(step) {
        Some(fields) => removed(value, fields, of),
        None => value.clone(),
    })
}

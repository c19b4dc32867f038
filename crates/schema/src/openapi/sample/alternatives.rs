//! Other values of a sample: each entry of `enum`, both booleans, and something for what is empty.

use std::cell::{Cell, RefCell};

use serde_json::Value;

use super::{Breadth, EFFORT, SampleBuilder, SampleNode};
use crate::openapi::kind::ValueType;
use crate::openapi::{Schema, SchemaDefinition};

/// Maximum number of alternatives of one value.
const MOST: usize = 64;

/// A value that differs from another one in one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// Path inside the value: empty for the value itself, else `.key` or `.key[0]`.
    pub place: String,
    /// What is at that place.
    pub part: Value,
    /// The whole value.
    pub value: Value,
    /// Whether the schema lists what is at the place.
    pub is_listed: bool,
}

impl Schema {
    /// The valid values that differ from `value` in one place: another entry of an `enum`, another boolean, or a value where an
    /// empty one, zero or none is. `definition` is the source of the schema. There are at most 64, and of each list the first
    /// entry is looked at.
    pub fn alternatives(&self, definition: &SchemaDefinition, value: &Value) -> Vec<Alternative> {
        let root = SampleNode { written: definition, schema: self };
        let mut places = Vec::new();
        choices(root, value, &mut String::new(), &mut String::new(), &mut places);
        let changed = |Choice { place, pointer, part, is_listed }: Choice| {
            let mut changed = value.clone();
            *changed.pointer_mut(&pointer)? = part.clone();
            let alternative = Alternative { place, part, value: changed, is_listed };
            super::fault(&[root], &alternative.value).is_none().then_some(alternative)
        };
        places.into_iter().take(MOST).filter_map(changed).collect()
    }
}

/// Another value at a place.
struct Choice {
    place: String,
    /// The place as a JSON pointer.
    pointer: String,
    part: Value,
    is_listed: bool,
}

/// Whether a value is what programs take for none.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// A value of a node that is not zero.
fn filled(node: SampleNode<'_>) -> Option<Value> {
    let maker = SampleBuilder { breadth: Breadth::Whole, left: Cell::new(EFFORT), failure: RefCell::default() };
    maker.values(&[node], 3, "").into_iter().find(|value| !is_zero(value))
}

/// Adds the other values of a node and of the nodes below it.
fn choices(node: SampleNode<'_>, value: &Value, place: &mut String, pointer: &mut String, all: &mut Vec<Choice>) {
    if all.len() >= MOST {
        return;
    }
    let Schema { values, kind, .. } = node.schema;
    let entries = match kind {
        Some(ValueType::Boolean) if values.is_empty() => vec![Value::from(false), Value::from(true)],
        _ => values.iter().cloned().collect(),
    };
    let is_listed = !entries.is_empty();
    let invented = (!is_listed && is_zero(value)).then(|| filled(node)).flatten();
    let others = entries.into_iter().filter(|entry| entry != value).chain(invented);
    all.extend(others.map(|part| Choice { place: place.clone(), pointer: pointer.clone(), part, is_listed }));
    let mut below = |member: Option<SampleNode<'_>>, value, name: &str, step: &str| {
        let Some(member) = member else { return };
        let lengths = (place.len(), pointer.len());
        place.push_str(name);
        pointer.push_str(step);
        choices(member, value, place, pointer, all);
        place.truncate(lengths.0);
        pointer.truncate(lengths.1);
    };
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let step = name.replace('~', "~0").replace('/', "~1");
                below(node.member(name), value, &format!(".{name}"), &format!("/{step}"));
            }
        }
        Value::Array(elements) => {
            elements.iter().take(1).for_each(|value| below(node.element(), value, "[0]", "/0"));
        }
        _ => {}
    }
}

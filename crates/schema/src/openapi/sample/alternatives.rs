//! Other values of a sample: each entry of `enum`, both booleans, and something for what is empty.

use std::cell::{Cell, RefCell};

use serde_json::Value;

use super::{Breadth, SampleBuilder, SampleNode};
use crate::openapi::kind::ValueType;
use crate::openapi::{Schema, SchemaDefinition};

/// Maximum number of alternatives of one value.
const MOST: usize = 64;
/// Maximum number of places in a value that are looked at.
const PLACES: usize = 1_000;
/// Maximum number of nodes and candidates for something in an empty place.
const EFFORT: usize = 2_000;

/// A value that differs from another one in one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// Path inside the value: empty for the value itself, else `.key` or `.key[0]`.
    pub place: String,
    /// What is at that place.
    pub part: Value,
    /// The whole value.
    pub value: Value,
    /// Whether the schema lists what is at the place: as an entry of an `enum`, or as one of two booleans.
    pub is_listed: bool,
}

impl Schema {
    /// The valid values that differ from `value` in one place: another entry of an `enum`, another boolean, or a value where an
    /// empty one, zero or none is. `definition` is the source of the schema. There are at most 64, and of a list only the first
    /// element is changed.
    pub fn alternatives(&self, definition: &SchemaDefinition, value: &Value) -> Vec<Alternative> {
        let root = SampleNode { written: definition, schema: self };
        let mut choices = Choices { all: Vec::new(), left: PLACES, place: String::new(), pointer: String::new() };
        choices.add(root, value);
        let changed = |Choice { place, pointer, part, is_listed }: Choice| {
            let mut changed = value.clone();
            *changed.pointer_mut(&pointer)? = part.clone();
            let alternative = Alternative { place, part, value: changed, is_listed };
            super::fault(&[root], &alternative.value).is_none().then_some(alternative)
        };
        choices.all.into_iter().take(MOST).filter_map(changed).collect()
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

/// The other values of a value, with the place that is looked at.
struct Choices {
    all: Vec<Choice>,
    /// How many places may still be looked at.
    left: usize,
    place: String,
    pointer: String,
}

impl Choices {
    /// Adds the other values of a node and of the nodes below it.
    fn add(&mut self, node: SampleNode<'_>, value: &Value) {
        if self.all.len() >= MOST || self.left == 0 {
            return;
        }
        self.left -= 1;
        let Schema { values, kind, .. } = node.schema;
        let entries = match kind {
            Some(ValueType::Boolean) if values.is_empty() => vec![Value::from(false), Value::from(true)],
            _ => values.iter().filter(|entry| *entry != value).take(MOST).cloned().collect(),
        };
        let is_listed = !values.is_empty() || !entries.is_empty();
        let invented = (!is_listed && is_zero(value)).then(|| filled(node)).flatten();
        for part in entries.into_iter().filter(|entry| entry != value).chain(invented) {
            let (place, pointer) = (self.place.clone(), self.pointer.clone());
            self.all.push(Choice { place, pointer, part, is_listed });
        }
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    let step = name.replace('~', "~0").replace('/', "~1");
                    self.below(node.member(name), value, &format!(".{name}"), &format!("/{step}"));
                }
            }
            Value::Array(elements) => {
                elements.iter().take(1).for_each(|value| self.below(node.element(), value, "[0]", "/0"));
            }
            _ => {}
        }
    }

    fn below(&mut self, member: Option<SampleNode<'_>>, value: &Value, name: &str, step: &str) {
        let Some(member) = member else { return };
        let lengths = (self.place.len(), self.pointer.len());
        self.place.push_str(name);
        self.pointer.push_str(step);
        self.add(member, value);
        self.place.truncate(lengths.0);
        self.pointer.truncate(lengths.1);
    }
}

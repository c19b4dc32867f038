//! A small language for OpenAPI v3
//! [structural schemas](https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema),
//! worded like the tables of the API documentation.
//!
//! ```text
//! list(string().len(1..=43)).items(1..=100).atomic()
//! object().props(1..).required("name", string().matches(LABEL)).optional("value", any_json())
//! ```
//!
//! Every constructor sets a type (or the extension that stands for one), so what comes out is structural.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use serde_json::{Map, Value, json};

use crate::wire::Shape;

/// One node: its keywords, and the fields it has when it is an object.
pub(super) struct Schema {
    keywords: Map<String, Value>,
    fields: BTreeMap<&'static str, Field>,
}

struct Field {
    required: bool,
    schema: Schema,
}

pub(super) fn object() -> Schema {
    typed("object")
}

/// An object with free keys.
pub(super) fn map_of(values: Schema) -> Schema {
    object().keyword("additionalProperties", values)
}

pub(super) fn list(entries: Schema) -> Schema {
    typed("array").keyword("items", entries)
}

pub(super) fn string() -> Schema {
    typed("string")
}

/// Bytes in base64.
pub(super) fn byte() -> Schema {
    string().keyword("format", "byte")
}

pub(super) fn date_time() -> Schema {
    string().keyword("format", "date-time")
}

pub(super) fn boolean() -> Schema {
    typed("boolean")
}

pub(super) fn int32() -> Schema {
    typed("integer").keyword("format", "int32")
}

pub(super) fn int64() -> Schema {
    typed("integer").keyword("format", "int64")
}

pub(super) fn int_or_string() -> Schema {
    untyped()
        .keyword("anyOf", json!([{"type": "integer"}, {"type": "string"}]))
        .keyword("x-kubernetes-int-or-string", true)
}

pub(super) fn any_json() -> Schema {
    untyped().keyword("x-kubernetes-preserve-unknown-fields", true)
}

/// Constraints.
impl Schema {
    /// The number of characters.
    pub(super) fn len(self, range: impl RangeBounds<u32>) -> Self {
        self.size("minLength", "maxLength", &range)
    }

    /// The number of list entries.
    pub(super) fn items(self, range: impl RangeBounds<u32>) -> Self {
        self.size("minItems", "maxItems", &range)
    }

    /// The number of keys of an object.
    pub(super) fn props(self, range: impl RangeBounds<u32>) -> Self {
        self.size("minProperties", "maxProperties", &range)
    }

    /// The value of a number.
    pub(super) fn value(self, range: impl RangeBounds<u32>) -> Self {
        self.bound("minimum", lowest(&range)).bound("maximum", highest(&range))
    }

    pub(super) fn matches(self, pattern: &'static str) -> Self {
        self.keyword("pattern", pattern)
    }

    pub(super) fn one_of(self, values: &[&str]) -> Self {
        self.keyword("enum", json!(values))
    }

    /// An object that is empty where it is absent.
    pub(super) fn default_to_empty(self) -> Self {
        self.keyword("default", json!({}))
    }

    pub(super) fn default_to_number(self, value: i32) -> Self {
        self.keyword("default", value)
    }

    pub(super) fn default_to(self, value: &'static str) -> Self {
        self.keyword("default", value)
    }

    /// A CEL expression that has to hold.
    pub(super) fn rule(self, rule: &'static str, message: &'static str) -> Self {
        self.keyword("x-kubernetes-validations", json!([{"rule": rule, "message": message}]))
    }

    /// A list that is replaced as a whole.
    pub(super) fn atomic(self) -> Self {
        self.keyword("x-kubernetes-list-type", "atomic")
    }

    /// An object that is replaced as a whole.
    pub(super) fn atomic_map(self) -> Self {
        self.keyword("x-kubernetes-map-type", "atomic")
    }

    /// A list whose entries are unique by these keys.
    pub(super) fn map_by(self, keys: &[&str]) -> Self {
        self.keyword("x-kubernetes-list-type", "map").keyword("x-kubernetes-list-map-keys", json!(keys))
    }
}

/// Fields, and what the versions do not share.
impl Schema {
    pub(super) fn required(self, name: &'static str, schema: Schema) -> Self {
        self.field(name, true, schema)
    }

    pub(super) fn optional(self, name: &'static str, schema: Schema) -> Self {
        self.field(name, false, schema)
    }

    /// A field that v1beta1 does not insist on.
    pub(super) fn required_in_v1beta2(self, version: Shape, name: &'static str, schema: Schema) -> Self {
        self.field(name, version == Shape::V1Beta2, schema)
    }

    /// What only v1beta2 has, constraints or fields.
    pub(super) fn in_v1beta2(self, version: Shape, add: impl FnOnce(Self) -> Self) -> Self {
        if version == Shape::V1Beta2 { add(self) } else { self }
    }

    /// What only v1beta1 has.
    pub(super) fn in_v1beta1(self, version: Shape, add: impl FnOnce(Self) -> Self) -> Self {
        if version == Shape::V1Beta1 { add(self) } else { self }
    }

    /// The fields of another object, next to the own ones.
    pub(super) fn with(mut self, other: Schema) -> Self {
        self.fields.extend(other.fields);
        self
    }

    fn field(mut self, name: &'static str, required: bool, schema: Schema) -> Self {
        self.fields.insert(name, Field { required, schema });
        self
    }
}

impl Schema {
    fn keyword(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.keywords.insert(name.to_owned(), value.into());
        self
    }

    fn bound(self, name: &str, bound: Option<u32>) -> Self {
        match bound {
            Some(bound) => self.keyword(name, bound),
            None => self,
        }
    }

    /// Sizes are never negative, so a lower bound of zero says nothing and is left out.
    fn size(self, min: &str, max: &str, range: &impl RangeBounds<u32>) -> Self {
        self.bound(min, lowest(range).filter(|lowest| *lowest > 0)).bound(max, highest(range))
    }
}

impl From<Schema> for Value {
    fn from(schema: Schema) -> Value {
        let Schema { mut keywords, fields } = schema;
        let required: Vec<_> = fields.iter().filter(|(_, field)| field.required).map(|(name, _)| *name).collect();
        if !required.is_empty() {
            keywords.insert("required".to_owned(), required.into());
        }
        if !fields.is_empty() {
            let properties: Map<_, _> =
                fields.into_iter().map(|(name, field)| (name.to_owned(), field.schema.into())).collect();
            keywords.insert("properties".to_owned(), properties.into());
        }
        Value::Object(keywords)
    }
}

fn typed(kind: &str) -> Schema {
    untyped().keyword("type", kind)
}

fn untyped() -> Schema {
    Schema { keywords: Map::new(), fields: BTreeMap::new() }
}

fn lowest(range: &impl RangeBounds<u32>) -> Option<u32> {
    match range.start_bound() {
        Bound::Included(bound) => Some(*bound),
        Bound::Excluded(bound) => Some(bound.saturating_add(1)),
        Bound::Unbounded => None,
    }
}

fn highest(range: &impl RangeBounds<u32>) -> Option<u32> {
    match range.end_bound() {
        Bound::Included(bound) => Some(*bound),
        Bound::Excluded(bound) => Some(bound.saturating_sub(1)),
        Bound::Unbounded => None,
    }
}

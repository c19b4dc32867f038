//! Builder for OpenAPI v3
//! [structural schemas](https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema),
//! in the terms of the tables of the API documentation.
//!
//! ```text
//! list(string().len(1..=43)).items(1..=100).atomic()
//! object().props(1..).required("name", string().matches(LABEL)).optional("value", any_json())
//! ```
//!
//! Every constructor sets a type (or the equivalent extension), so the result is structural.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use serde_json::{Map, Value, json};

use crate::wire::SchemaVersion;

/// A schema node: its keywords, and the fields of an object.
pub(super) struct SchemaBuilder {
    keywords: Map<String, Value>,
    fields: BTreeMap<&'static str, SchemaField>,
}

struct SchemaField {
    required: bool,
    schema: SchemaBuilder,
}

pub(super) fn object() -> SchemaBuilder {
    typed("object")
}

/// An object with arbitrary keys.
pub(super) fn map_of(values: SchemaBuilder) -> SchemaBuilder {
    object().keyword("additionalProperties", values)
}

pub(super) fn list(entries: SchemaBuilder) -> SchemaBuilder {
    typed("array").keyword("items", entries)
}

pub(super) fn string() -> SchemaBuilder {
    typed("string")
}

/// Bytes in base64.
pub(super) fn byte() -> SchemaBuilder {
    string().keyword("format", "byte")
}

pub(super) fn date_time() -> SchemaBuilder {
    string().keyword("format", "date-time")
}

pub(super) fn boolean() -> SchemaBuilder {
    typed("boolean")
}

pub(super) fn int32() -> SchemaBuilder {
    typed("integer").keyword("format", "int32")
}

pub(super) fn int64() -> SchemaBuilder {
    typed("integer").keyword("format", "int64")
}

pub(super) fn int_or_string() -> SchemaBuilder {
    untyped()
        .keyword("anyOf", json!([{"type": "integer"}, {"type": "string"}]))
        .keyword("x-kubernetes-int-or-string", true)
}

pub(super) fn any_json() -> SchemaBuilder {
    untyped().keyword("x-kubernetes-preserve-unknown-fields", true)
}

/// Constraints.
impl SchemaBuilder {
    /// Bounds the number of characters.
    pub(super) fn len(self, range: impl RangeBounds<u32>) -> Self {
        self.size("minLength", "maxLength", &range)
    }

    /// Bounds the number of list entries.
    pub(super) fn items(self, range: impl RangeBounds<u32>) -> Self {
        self.size("minItems", "maxItems", &range)
    }

    /// Bounds the number of keys of an object.
    pub(super) fn props(self, range: impl RangeBounds<u32>) -> Self {
        self.size("minProperties", "maxProperties", &range)
    }

    /// Bounds the value of a number.
    pub(super) fn value(self, range: impl RangeBounds<u32>) -> Self {
        self.bound("minimum", lowest(&range)).bound("maximum", highest(&range))
    }

    pub(super) fn matches(self, pattern: &'static str) -> Self {
        self.keyword("pattern", pattern)
    }

    pub(super) fn one_of(self, values: &[&str]) -> Self {
        self.keyword("enum", json!(values))
    }

    /// Defaults to an empty object.
    pub(super) fn default_to_empty(self) -> Self {
        self.keyword("default", json!({}))
    }

    pub(super) fn default_to_number(self, value: i32) -> Self {
        self.keyword("default", value)
    }

    pub(super) fn default_to(self, value: &'static str) -> Self {
        self.keyword("default", value)
    }

    /// Adds a CEL rule.
    pub(super) fn rule(self, rule: &'static str, message: &'static str) -> Self {
        self.keyword("x-kubernetes-validations", json!([{"rule": rule, "message": message}]))
    }

    /// Makes a list atomic.
    pub(super) fn atomic(self) -> Self {
        self.keyword("x-kubernetes-list-type", "atomic")
    }

    /// Makes an object atomic.
    pub(super) fn atomic_map(self) -> Self {
        self.keyword("x-kubernetes-map-type", "atomic")
    }

    /// Makes a list a map with these keys.
    pub(super) fn map_by(self, keys: &[&str]) -> Self {
        self.keyword("x-kubernetes-list-type", "map").keyword("x-kubernetes-list-map-keys", json!(keys))
    }
}

/// Fields, and differences between the versions.
impl SchemaBuilder {
    pub(super) fn required(self, name: &'static str, schema: SchemaBuilder) -> Self {
        self.field(name, true, schema)
    }

    pub(super) fn optional(self, name: &'static str, schema: SchemaBuilder) -> Self {
        self.field(name, false, schema)
    }

    /// Adds a field that is required in v1beta2 only.
    pub(super) fn required_in_v1beta2(self, version: SchemaVersion, name: &'static str, schema: SchemaBuilder) -> Self {
        self.field(name, version == SchemaVersion::V1Beta2, schema)
    }

    /// Adds constraints or fields in v1beta2 only.
    pub(super) fn in_v1beta2(self, version: SchemaVersion, add: impl FnOnce(Self) -> Self) -> Self {
        if version == SchemaVersion::V1Beta2 { add(self) } else { self }
    }

    /// Adds constraints or fields in v1beta1 only.
    pub(super) fn in_v1beta1(self, version: SchemaVersion, add: impl FnOnce(Self) -> Self) -> Self {
        if version == SchemaVersion::V1Beta1 { add(self) } else { self }
    }

    /// Adds the fields of another object.
    pub(super) fn with(mut self, other: SchemaBuilder) -> Self {
        self.fields.extend(other.fields);
        self
    }

    fn field(mut self, name: &'static str, required: bool, schema: SchemaBuilder) -> Self {
        self.fields.insert(name, SchemaField { required, schema });
        self
    }
}

impl SchemaBuilder {
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

    /// Adds size bounds; a lower bound of zero is omitted.
    fn size(self, min: &str, max: &str, range: &impl RangeBounds<u32>) -> Self {
        self.bound(min, lowest(range).filter(|lowest| *lowest > 0)).bound(max, highest(range))
    }
}

impl From<SchemaBuilder> for Value {
    fn from(schema: SchemaBuilder) -> Value {
        let SchemaBuilder { mut keywords, fields } = schema;
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

fn typed(kind: &str) -> SchemaBuilder {
    untyped().keyword("type", kind)
}

fn untyped() -> SchemaBuilder {
    SchemaBuilder { keywords: Map::new(), fields: BTreeMap::new() }
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

//! The schema of a kind: pruning, defaulting and validation by the `openAPIV3Schema` of a version.
//!
//! ```text
//! object ─► prune: unknown fields go ─► complete: defaults ─► nulls of typed fields go ─► violations
//! ```
//!
//! Types, bounds, patterns, enums and CEL rules are checked as for any value. Added here are the properties of
//! resources: nulls that count as absent, embedded objects, lists that are sets or maps, and existing errors that an
//! update may keep. Reasons and places of errors match a server; the text of a cause may differ.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{DefaultsBudget, Schema, SchemaAllowance, SchemaDefinition, SchemaError, ValidationEffort, Violation};
use crate::budget::{Exceeded, Stop};
use crate::field::{ErrorKind, ErrorValue};

/// The schema of a kind, as written and compiled.
#[derive(Debug)]
pub struct ResourceSchema {
    /// The `openAPIV3Schema` of the definition.
    pub openapi: Arc<Value>,
    compiled: Schema,
}

/// One error of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectFault {
    pub kind: ErrorKind,
    /// Path such as `spec.list[0].name`.
    pub field: String,
    pub value: ErrorValue,
    pub detail: String,
}

impl ObjectFault {
    fn keeps_rules_from_running(&self) -> bool {
        let kinds = [
            ErrorKind::NotSupported,
            ErrorKind::Required,
            ErrorKind::TooLong,
            ErrorKind::TooMany,
            ErrorKind::TypeInvalid,
        ];
        kinds.contains(&self.kind)
    }
}

/// A schema of a resource that cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum ResourceSchemaError {
    /// It is not a schema.
    #[error(transparent)]
    Undecodable(#[from] serde_json::Error),
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

impl ResourceSchema {
    /// Compiles a trusted schema.
    ///
    /// # Errors
    /// When it is not a schema, or a pattern is invalid.
    pub fn compile(openapi: Arc<Value>) -> Result<Self, ResourceSchemaError> {
        ResourceSchema::compile_within(openapi, &mut SchemaAllowance::unlimited())
    }

    /// Compiles a schema within an allowance (DEC-44).
    ///
    /// # Errors
    /// When it is not a schema, a pattern is invalid, or the allowance does not suffice.
    pub fn compile_within(openapi: Arc<Value>, allowance: &mut SchemaAllowance) -> Result<Self, ResourceSchemaError> {
        let mut checked = Value::clone(&openapi);
        prepare(&mut checked, true);
        let definition: SchemaDefinition = serde_json::from_value(checked)?;
        Ok(ResourceSchema { openapi, compiled: Schema::compile_within(&definition, allowance)? })
    }

    /// Whether a value is valid for the field at a path of property names. Any value is, for a field that is not
    /// declared.
    pub fn accepts(&self, path: &[&str], value: &Value) -> bool {
        let node = path.iter().try_fold(&self.compiled, |node, name| node.properties.get(name));
        node.is_none_or(|node| node.violations(value).is_empty())
    }

    /// Drops unknown fields; returns their paths, as `spec.list[0].name`.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut pruner = Pruner::default();
        pruner.prune(object, &self.openapi, PrunedNode::Root);
        pruner.dropped.sort();
        pruner.dropped
    }

    /// Fills in defaults, and drops nulls of fields that may not be null.
    pub fn complete(&self, object: &mut Value) {
        // An unlimited budget is never exceeded.
        let _ = self.complete_within(object, &mut DefaultsBudget::unlimited());
    }

    /// Fills in defaults and drops nulls, within a budget (DEC-44).
    ///
    /// # Errors
    /// When defaults exceed the budget; the object is then incomplete.
    pub fn complete_within(&self, object: &mut Value, growth: &mut DefaultsBudget) -> Result<(), Exceeded> {
        let mut nulls = Vec::new();
        nullable_nulls(object, &self.openapi, &mut String::new(), &mut nulls);
        let completed = self.compiled.complete_within(object, growth);
        for pointer in nulls {
            if let Some(value) = object.pointer_mut(&pointer) {
                *value = Value::Null;
            }
        }
        drop_nulls(object, &self.openapi);
        completed.map(drop)
    }

    /// Errors of an object. In an update, only changed parts are checked.
    pub fn faults(&self, object: &Value, old: Option<&Value>) -> Vec<ObjectFault> {
        let violations = self.violations_within(object, old, &ValidationEffort::unlimited(&Stop::never()));
        violations.into_iter().map(|violation| fault(object, violation)).collect()
    }

    /// Errors of an object within an effort (DEC-44): places without values.
    pub fn violations_within(&self, object: &Value, old: Option<&Value>, effort: &ValidationEffort) -> Vec<Violation> {
        let mut nulls = Vec::new();
        nullable_nulls(object, &self.openapi, &mut String::new(), &mut nulls);
        let mut violations = self.compiled.violations_within(object, effort);
        violations.retain(|found| !(found.kind == ErrorKind::TypeInvalid && nulls.contains(&found.pointer)));
        lists(object, &self.openapi, &mut String::new(), &mut String::new(), &mut violations);
        violations.retain(|violation| old.is_none_or(|old| changed(old, object, violation)));
        violations
    }

    /// Rules that an otherwise valid object violates.
    pub fn rule_violations(&self, object: &Value, old: Option<&Value>) -> Vec<Violation> {
        let mut violations = match self.compiled.has_rules() {
            true => self.compiled.rule_violations(object, old),
            false => Vec::new(),
        };
        violations.retain(|violation| old.is_none_or(|old| changed(old, object, violation)));
        violations
    }

    /// The known field that an unknown one most likely misspells.
    pub fn meant_by(&self, object: &Value, unknown: &str) -> Option<String> {
        self.compiled.meant_by(object, &[unknown.to_owned()]).into_iter().next()
    }

    /// Rules that an object violates, unless another error prevents their evaluation.
    pub fn broken_rules(&self, object: &Value, old: Option<&Value>, faults: &[ObjectFault]) -> Vec<ObjectFault> {
        if !self.compiled.has_rules() {
            return Vec::new();
        }
        if faults.iter().any(ObjectFault::keeps_rules_from_running) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing \
                          errors to complete validation";
            return vec![ObjectFault {
                kind: ErrorKind::Invalid,
                field: String::new(),
                value: ErrorValue::NOTHING,
                detail: detail.to_owned(),
            }];
        }
        self.rule_violations(object, old).into_iter().map(|violation| fault(object, violation)).collect()
    }
}

/// Whether a violation concerns a part that an update has changed.
fn changed(old: &Value, new: &Value, violation: &Violation) -> bool {
    // A missing field concerns the object that lacks it.
    let pointer = match violation.kind {
        ErrorKind::Required => violation.pointer.rsplit_once('/').map_or("", |(parent, _)| parent),
        _ => &violation.pointer,
    };
    // List entries have no identity, so equal positions are compared.
    pointer.is_empty() || old.pointer(pointer) != new.pointer(pointer)
}

fn fault(object: &Value, violation: Violation) -> ObjectFault {
    let value = match violation.kind {
        ErrorKind::Required => ErrorValue::NOTHING,
        _ => object.pointer(&violation.pointer).map_or(ErrorValue::NOTHING, ErrorValue::bounded),
    };
    let field = violation.place.trim_start_matches('.').to_owned();
    ObjectFault { kind: violation.kind, field, value, detail: violation.detail }
}

/// Rewrites formats and junctors, whose errors are reported at the whole value, as keywords whose errors are reported
/// at the field; and declares the fields of every object, so that rules can refer to them.
fn prepare(schema: &mut Value, is_resource: bool) {
    if schema.get("format").is_some_and(|format| format == "int32") {
        schema["minimum"] = schema.get("minimum").cloned().unwrap_or_else(|| i32::MIN.into());
        schema["maximum"] = schema.get("maximum").cloned().unwrap_or_else(|| i32::MAX.into());
    }
    if is(schema, "x-kubernetes-int-or-string") {
        schema.as_object_mut().map(|keywords| keywords.remove("anyOf"));
    }
    let is_embedded = is(schema, "x-kubernetes-embedded-resource");
    if (is_resource || is_embedded) && schema.is_object() {
        let text = json!({"type": "string"});
        if !schema["properties"].is_object() {
            schema["properties"] = json!({});
        }
        let own = schema["properties"]["metadata"]["properties"].take();
        schema["properties"]["apiVersion"] = text.clone();
        schema["properties"]["kind"] = text.clone();
        let mut metadata = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"name": text, "generateName": text}});
        for (name, node) in own.as_object().into_iter().flatten() {
            metadata["properties"][name] = node.clone();
        }
        schema["properties"]["metadata"] = metadata;
    }
    if is_embedded {
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let more = ["apiVersion", "kind"].map(Value::from).into_iter().filter(|name| !required.contains(name));
        schema["required"] = required.iter().cloned().chain(more).collect();
    }
    let nodes = schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
    nodes.for_each(|(_, node)| prepare(node, false));
    for keyword in ["items", "additionalProperties", "not"] {
        if let Some(node) = schema.get_mut(keyword).filter(|node| node.is_object()) {
            prepare(node, false);
        }
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let nodes = schema.get_mut(keyword).and_then(Value::as_array_mut).into_iter().flatten();
        nodes.for_each(|node| prepare(node, false));
    }
    if schema.get("additionalProperties").is_some_and(Value::is_boolean) {
        schema.as_object_mut().map(|keywords| keywords.remove("additionalProperties"));
    }
}

/// The schema without documentation.
pub fn without_descriptions(schema: &Value) -> Value {
    let Value::Object(keywords) = schema else { return schema.clone() };
    let documentation = ["description", "title", "example", "externalDocs"];
    let kept = keywords.iter().filter(|(name, _)| !documentation.contains(&name.as_str()));
    let each = kept.map(|(name, value)| {
        let value = match (name.as_str(), value) {
            ("properties", Value::Object(nodes)) => {
                nodes.iter().map(|(name, node)| (name.clone(), without_descriptions(node))).collect()
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(nodes)) => nodes.iter().map(without_descriptions).collect(),
            ("items" | "additionalProperties" | "not", node) => without_descriptions(node),
            (_, value) => value.clone(),
        };
        (name.clone(), value)
    });
    Value::Object(each.collect())
}

fn is(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword) == Some(&Value::Bool(true))
}

/// The node of a member.
fn node_of<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(name));
    named.or_else(|| schema.get("additionalProperties").filter(|node| node.is_object()))
}

/// Appends a step to a path.
fn step(place: &mut String, name: &str) {
    if !place.is_empty() {
        place.push('.');
    }
    place.push_str(name);
}

/// Appends a step to a JSON pointer.
fn point(pointer: &mut String, name: &str) {
    pointer.push('/');
    match name.contains(['~', '/']) {
        true => pointer.push_str(&name.replace('~', "~0").replace('/', "~1")),
        false => pointer.push_str(name),
    }
}

/// The position of a node that is pruned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrunedNode {
    Root,
    Member,
    /// An element of an array that preserves unknown fields.
    PreservedElement,
}

/// Drops unknown fields.
#[derive(Default)]
struct Pruner {
    /// The path of the current node.
    place: String,
    /// The paths of the dropped fields.
    dropped: Vec<String>,
}

impl Pruner {
    fn prune(&mut self, value: &mut Value, schema: &Value, node: PrunedNode) {
        let keeps = node == PrunedNode::PreservedElement || is(schema, "x-kubernetes-preserve-unknown-fields");
        let is_resource = node == PrunedNode::Root || is(schema, "x-kubernetes-embedded-resource");
        let open = schema.get("additionalProperties") == Some(&Value::Bool(true));
        let length = self.place.len();
        match value {
            Value::Object(members) => members.retain(|name, member| {
                if is_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    return true;
                }
                step(&mut self.place, name);
                let is_kept = match node_of(schema, name) {
                    Some(node) => {
                        self.prune(member, node, PrunedNode::Member);
                        true
                    }
                    None if keeps || open => true,
                    None => {
                        self.dropped.push(self.place.clone());
                        false
                    }
                };
                self.place.truncate(length);
                is_kept
            }),
            Value::Array(elements) => {
                let Some(node) = schema.get("items") else { return };
                let position = if keeps { PrunedNode::PreservedElement } else { PrunedNode::Member };
                for (i, element) in elements.iter_mut().enumerate() {
                    self.place.push_str(&format!("[{i}]"));
                    self.prune(element, node, position);
                    self.place.truncate(length);
                }
            }
            _ => {}
        }
    }
}

/// Pointers to nulls that are allowed.
fn nullable_nulls(value: &Value, schema: &Value, pointer: &mut String, found: &mut Vec<String>) {
    let length = pointer.len();
    match value {
        Value::Null if is(schema, "nullable") => found.push(pointer.clone()),
        Value::Object(members) => {
            for (name, member) in members {
                let Some(node) = node_of(schema, name) else { continue };
                point(pointer, name);
                nullable_nulls(member, node, pointer, found);
                pointer.truncate(length);
            }
        }
        Value::Array(elements) => {
            let Some(node) = schema.get("items") else { return };
            for (i, element) in elements.iter().enumerate() {
                point(pointer, &i.to_string());
                nullable_nulls(element, node, pointer, found);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

/// A null in a field that is not nullable counts as absent.
fn drop_nulls(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| {
                !member.is_null() || node_of(schema, name).is_none_or(|node| is(node, "nullable"))
            });
            for (name, member) in members {
                if let Some(node) = node_of(schema, name) {
                    drop_nulls(member, node);
                }
            }
        }
        Value::Array(elements) => {
            if let Some(node) = schema.get("items") {
                elements.iter_mut().for_each(|element| drop_nulls(element, node));
            }
        }
        _ => {}
    }
}

/// Checks that entries of a set are distinct, and entries of a map distinct by key.
fn lists(value: &Value, schema: &Value, place: &mut String, pointer: &mut String, found: &mut Vec<Violation>) {
    let (length, pointer_length) = (place.len(), pointer.len());
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let Some(node) = node_of(schema, name) else { continue };
                match schema.get("properties").is_some_and(|properties| properties.get(name).is_some()) {
                    true => step(place, name),
                    false => place.push_str(&format!("[{name}]")),
                }
                point(pointer, name);
                lists(member, node, place, pointer, found);
                place.truncate(length);
                pointer.truncate(pointer_length);
            }
        }
        Value::Array(elements) => {
            let mut seen = BTreeSet::new();
            for (i, element) in elements.iter().enumerate() {
                place.push_str(&format!("[{i}]"));
                point(pointer, &i.to_string());
                if let Some(identity) = identity(element, schema)
                    && !seen.insert(identity)
                {
                    found.push(Violation {
                        rule: "DEC-32",
                        kind: ErrorKind::Duplicate,
                        place: place.clone(),
                        pointer: pointer.clone(),
                        detail: String::new(),
                    });
                }
                if let Some(node) = schema.get("items") {
                    lists(element, node, place, pointer, found);
                }
                place.truncate(length);
                pointer.truncate(pointer_length);
            }
        }
        _ => {}
    }
}

/// The identity of an entry within its list; `None` if entries may repeat.
fn identity(element: &Value, schema: &Value) -> Option<String> {
    match schema.get("x-kubernetes-list-type")?.as_str()? {
        "set" => Some(element.to_string()),
        "map" => {
            let names = schema.get("x-kubernetes-list-map-keys")?.as_array()?.iter().filter_map(Value::as_str);
            let key: Map<String, Value> =
                names.filter_map(|name| Some((name.to_owned(), element.get(name)?.clone()))).collect();
            Some(Value::Object(key).to_string())
        }
        _ => None,
    }
}

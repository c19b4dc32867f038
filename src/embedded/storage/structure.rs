//! The schema of a kind: pruning, defaulting and validation by the `openAPIV3Schema` of a version.
//!
//! ```text
//! object ─► prune: unknown fields go ─► complete: defaults ─► nulls of typed fields go ─► violations
//! ```
//!
//! Types, bounds, patterns, enums and CEL rules are judged by `schema`; here stands what a resource has besides: nulls
//! that count as absent, objects within objects, lists that are sets or maps, and what an update may leave as wrong as
//! it was. Reasons and places of errors are a server's; the text of a cause may differ from it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::field::{ErrorKind, Shown};
use crate::schema::{Definition, Schema, Violation};
use crate::ssa;

/// A schema as it is written and in the forms in which it is used.
#[derive(Debug)]
pub struct Structure {
    /// The `openAPIV3Schema` as it is in the definition.
    pub openapi: Value,
    /// How objects are merged.
    pub merging: ssa::Schema,
    compiled: Schema,
}

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::embedded) struct Fault {
    pub kind: ErrorKind,
    /// Such as `spec.list[0].name`.
    pub field: String,
    pub value: Shown,
    pub detail: String,
}

impl Fault {
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

impl Structure {
    /// Compiles a schema.
    ///
    /// # Errors
    /// When it has not the shape of a schema, or a pattern cannot be used.
    pub fn compile(openapi: Value) -> Result<Self, String> {
        let mut checked = openapi.clone();
        prepare(&mut checked, true);
        let definition: Definition = serde_json::from_value(checked).map_err(|error| error.to_string())?;
        let compiled = Schema::compile(&definition).map_err(|error| error.to_string())?;
        Ok(Structure { merging: ssa::Schema::of_definition(&openapi), compiled, openapi })
    }

    /// Drops fields that the schema does not know; returns where they were, as `spec.list[0].name`.
    pub(super) fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        prune(object, &self.openapi, true, false, &mut String::new(), &mut dropped);
        dropped.sort();
        dropped
    }

    /// Fills in defaults, and drops nulls of fields that may not be null.
    pub(super) fn complete(&self, object: &mut Value) {
        let mut nulls = Vec::new();
        nullable_nulls(object, &self.openapi, &mut String::new(), &mut nulls);
        self.compiled.complete(object);
        for pointer in nulls {
            if let Some(value) = object.pointer_mut(&pointer) {
                *value = Value::Null;
            }
        }
        drop_nulls(object, &self.openapi);
    }

    /// What is wrong with an object. Of an existing object that is changed, only what has changed can be wrong.
    pub(in crate::embedded) fn faults(&self, object: &Value, old: Option<&Value>) -> Vec<Fault> {
        let mut nulls = Vec::new();
        nullable_nulls(object, &self.openapi, &mut String::new(), &mut nulls);
        let mut violations = self.compiled.violations(object);
        violations.retain(|found| !(found.kind == ErrorKind::TypeInvalid && nulls.contains(&found.pointer)));
        lists(object, &self.openapi, &mut String::new(), &mut String::new(), &mut violations);
        let is_new = |violation: &Violation| old.is_none_or(|old| changed(old, object, violation));
        violations.into_iter().filter(is_new).map(|violation| fault(object, violation)).collect()
    }

    /// Which rules an object breaks, unless something else is wrong with it that keeps them from being looked at.
    pub(in crate::embedded) fn broken_rules(
        &self,
        object: &Value,
        old: Option<&Value>,
        faults: &[Fault],
    ) -> Vec<Fault> {
        if !self.compiled.has_rules() {
            return Vec::new();
        }
        if faults.iter().any(Fault::keeps_rules_from_running) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing \
                          errors to complete validation";
            return vec![Fault {
                kind: ErrorKind::Invalid,
                field: String::new(),
                value: Shown::NOTHING,
                detail: detail.to_owned(),
            }];
        }
        let violations = self.compiled.rule_violations(object, old);
        let is_new = |violation: &Violation| old.is_none_or(|old| changed(old, object, violation));
        violations.into_iter().filter(is_new).map(|violation| fault(object, violation)).collect()
    }
}

/// Whether a violation is of something that an update has changed.
fn changed(old: &Value, new: &Value, violation: &Violation) -> bool {
    // What is missing is a matter of the object that lacks it.
    let pointer = match violation.kind {
        ErrorKind::Required => violation.pointer.rsplit_once('/').map_or("", |(parent, _)| parent),
        _ => &violation.pointer,
    };
    // Entries of lists have no identity, so that only equal positions are compared.
    pointer.is_empty() || old.pointer(pointer) != new.pointer(pointer)
}

fn fault(object: &Value, violation: Violation) -> Fault {
    let value = match violation.kind {
        ErrorKind::Required => Shown::NOTHING,
        _ => object.pointer(&violation.pointer).map_or(Shown::NOTHING, Shown::bounded),
    };
    let field = violation.place.trim_start_matches('.').to_owned();
    Fault { kind: violation.kind, field, value, detail: violation.detail }
}

/// Says with keywords whose errors stand at the field what is said with a format or a junctor, whose errors stand at the
/// whole value; and declares what every object has, so that rules may speak of it.
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

fn is(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword) == Some(&Value::Bool(true))
}

/// The node of a member.
fn node_of<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(name));
    named.or_else(|| schema.get("additionalProperties").filter(|node| node.is_object()))
}

/// Appends a step to a place.
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

/// `keeps` says that an array above keeps unknown fields.
fn prune(value: &mut Value, schema: &Value, is_root: bool, keeps: bool, place: &mut String, dropped: &mut Vec<String>) {
    let keeps = keeps || is(schema, "x-kubernetes-preserve-unknown-fields");
    let is_resource = is_root || is(schema, "x-kubernetes-embedded-resource");
    let open = schema.get("additionalProperties") == Some(&Value::Bool(true));
    let length = place.len();
    match value {
        Value::Object(members) => members.retain(|name, member| {
            if is_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            step(place, name);
            let kept = match node_of(schema, name) {
                Some(node) => {
                    prune(member, node, false, false, place, dropped);
                    true
                }
                None if keeps || open => true,
                None => {
                    dropped.push(place.clone());
                    false
                }
            };
            place.truncate(length);
            kept
        }),
        Value::Array(elements) => {
            let Some(node) = schema.get("items") else { return };
            for (i, element) in elements.iter_mut().enumerate() {
                place.push_str(&format!("[{i}]"));
                prune(element, node, false, keeps, place, dropped);
                place.truncate(length);
            }
        }
        _ => {}
    }
}

/// Where the value is null and may be.
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

/// A null in the place of a field that may not be null counts as absent.
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

/// Entries of a list that is a set differ, and those of one that is a map differ in their keys.
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

/// In what an entry differs from all others of its list; none when it need not.
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

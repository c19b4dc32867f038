//! Deprecated nodes of a schema, and the parts of a value that they describe.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::validate::{STEPS_OF_NODE, ValuePath};
use super::{Schema, SchemaAllowance, SchemaDefinition, SchemaError, ValidationEffort};

/// Annotation in `x-metadata` that marks a node as deprecated. Its text names the replacement.
pub const DEPRECATED: &str = "topologist.dev/deprecated";

/// Maximum length of the text, in characters.
const MOST_CHARS: usize = 120;

/// Placeholder for the position of an element, which changes when elements are added or removed.
const ELEMENT: &str = "[]";

/// A part of a value whose node is deprecated.
#[derive(Debug)]
pub struct DeprecatedPart<'a> {
    place: &'a ValuePath<'a>,
    /// The annotation as one line, possibly empty.
    pub text: &'a str,
    /// Equal for parts at the same place of two values, regardless of positions in lists.
    pub identity: u64,
}

impl DeprecatedPart<'_> {
    /// Path inside the value: empty for the value itself, else `.key`, `.key[0]` or `.[0]`.
    pub fn place(&self) -> String {
        self.place.render()
    }
}

/// The identity of the member `name`.
fn below(identity: u64, name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (identity, name).hash(&mut hasher);
    hasher.finish()
}

impl SchemaDefinition {
    /// Whether this node or one below it is deprecated. Nodes below `not` describe no value.
    pub fn has_deprecated(&self) -> bool {
        let below = [&self.additional_properties, &self.items].into_iter().flatten().map(|node| &**node);
        let mut nodes = below
            .chain(self.each_property().map(|(_, node)| node))
            .chain(self.all_of.iter().chain(&self.any_of).chain(&self.one_of));
        self.metadata.annotations.contains_key(DEPRECATED) || nodes.any(SchemaDefinition::has_deprecated)
    }

    /// The annotation as one line, cut if it is long; `None` if the node is not deprecated.
    pub(super) fn deprecation(&self, allowance: &mut SchemaAllowance) -> Result<Option<Box<str>>, SchemaError> {
        let Some(text) = self.metadata.annotations.get(DEPRECATED) else { return Ok(None) };
        let line = one_line(text);
        allowance.compile(line.len())?;
        Ok(Some(line.into()))
    }
}

/// A text without line breaks and other control characters, which a warning header cannot contain.
fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MOST_CHARS {
        return line;
    }
    line.chars().take(MOST_CHARS - 1).chain(['…']).collect()
}

impl Schema {
    /// Whether a part of a value may be deprecated.
    pub fn has_deprecated(&self) -> bool {
        self.has_deprecated
    }

    /// Whether this node or one below it is deprecated.
    pub(super) fn holds_deprecated(&self) -> bool {
        let below = [&self.additional_properties, &self.items].into_iter().flatten().map(|node| &**node);
        let mut nodes =
            below.chain(self.properties.values()).chain(&self.all_of).chain(&self.any_of).chain(&self.one_of);
        self.deprecated.is_some() || nodes.any(Schema::has_deprecated)
    }

    /// Reports the deprecated parts of a value, outermost first. Parts that are `null` or equal their default are not
    /// reported. Of `anyOf` and `oneOf`, the entries that the value satisfies count. Ends when the effort is used up.
    ///
    /// `name` identifies the value in the identity of its parts.
    pub fn deprecated_parts(
        &self,
        name: &str,
        value: &Value,
        effort: &ValidationEffort,
        report: &mut dyn FnMut(DeprecatedPart<'_>),
    ) {
        DeprecationWalk { effort, report }.node(self, value, &ValuePath::Root, below(0, name));
    }

    /// Whether `value` is the default of this node, including nested defaults.
    fn is_filled_in(&self, value: &Value, effort: &ValidationEffort) -> bool {
        self.default.as_ref().is_some_and(|default| self.completes(default, value, effort))
    }

    /// Whether `value` is `written` with nested defaults filled in.
    fn completes(&self, written: &Value, value: &Value, effort: &ValidationEffort) -> bool {
        if !effort.take(STEPS_OF_NODE) {
            return false;
        }
        match (written, value) {
            (Value::Object(before), Value::Object(after)) => {
                before.iter().all(|(name, written)| written.is_null() || after.contains_key(name))
                    && after.iter().all(|(name, member)| {
                        let node = self.member(name);
                        match (before.get(name).filter(|written| !written.is_null()), node) {
                            (Some(written), Some(node)) => node.completes(written, member, effort),
                            (Some(written), None) => is_same(written, member),
                            (None, Some(node)) => member.is_null() || node.is_filled_in(member, effort),
                            (None, None) => member.is_null(),
                        }
                    })
            }
            (Value::Array(before), Value::Array(after)) => {
                let mut pairs = before.iter().zip(after);
                before.len() == after.len()
                    && pairs.all(|(written, element)| match &self.items {
                        Some(node) if written.is_null() => element.is_null() || node.is_filled_in(element, effort),
                        Some(node) => node.completes(written, element, effort),
                        None => is_same(written, element),
                    })
            }
            _ => is_same(written, value),
        }
    }

    /// The node of a member of an object.
    fn member(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or(self.additional_properties.as_deref())
    }
}

/// Whether two values are equal; an API server stores `1.0` as `1`.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

/// State of the walk through a value.
struct DeprecationWalk<'a> {
    effort: &'a ValidationEffort,
    report: &'a mut dyn FnMut(DeprecatedPart<'_>),
}

impl DeprecationWalk<'_> {
    fn node(&mut self, node: &Schema, value: &Value, place: &ValuePath<'_>, identity: u64) {
        let is_set = node.has_deprecated && !value.is_null() && !node.is_filled_in(value, self.effort);
        if !is_set || !self.effort.take(STEPS_OF_NODE) {
            return;
        }
        if let Some(text) = &node.deprecated {
            (self.report)(DeprecatedPart { place, text, identity });
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let Some(node) = node.member(name) else { continue };
                    self.node(node, member, &ValuePath::Member(place, name), below(identity, name));
                }
            }
            Value::Array(elements) => {
                let Some(node) = &node.items else { return };
                let identity = below(identity, ELEMENT);
                for (i, element) in elements.iter().enumerate() {
                    self.node(node, element, &ValuePath::Element(place, i), identity);
                }
            }
            _ => {}
        }
        self.junctors(node, value, place, identity);
    }

    /// Entries of junctors describe the same value.
    fn junctors(&mut self, node: &Schema, value: &Value, place: &ValuePath<'_>, identity: u64) {
        for entry in &node.all_of {
            self.node(entry, value, place, identity);
        }
        for entry in node.any_of.iter().chain(&node.one_of).filter(|entry| entry.has_deprecated) {
            if entry.violations_within(value, self.effort).is_empty() {
                self.node(entry, value, place, identity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::budget::Stop;

    fn schema(schema: Value) -> (SchemaDefinition, Schema) {
        let definition: SchemaDefinition = serde_json::from_value(schema).unwrap();
        let compiled = Schema::compile(&definition).unwrap();
        assert_eq!(definition.has_deprecated(), compiled.has_deprecated());
        (definition, compiled)
    }

    fn parts(schema: &Schema, value: &Value) -> Vec<(String, String, u64)> {
        let mut parts = Vec::new();
        let effort = ValidationEffort::unlimited(&Stop::never());
        schema.deprecated_parts("v", value, &effort, &mut |part| {
            parts.push((part.place(), part.text.to_owned(), part.identity));
        });
        parts
    }

    fn places(schema: &Schema, value: &Value) -> Vec<String> {
        parts(schema, value).into_iter().map(|(place, ..)| place).collect()
    }

    /// A deprecated node of this type.
    fn old(r#type: &str) -> Value {
        json!({"type": r#type, "x-metadata": {"annotations": {DEPRECATED: "use new"}}})
    }

    /// A deprecated node of this type with further keywords.
    fn old_with(r#type: &str, keywords: Value) -> Value {
        let mut node = old(r#type);
        node.as_object_mut().unwrap().extend(keywords.as_object().unwrap().clone());
        node
    }

    #[test]
    fn every_node_may_be_deprecated() {
        for (case, node, value, want) in [
            ("the value", old("string"), json!("x"), vec![""]),
            ("an empty text", old("string"), json!(""), vec![""]),
            ("null", old("string"), json!(null), vec![]),
            (
                "a property",
                json!({"type": "object", "properties": {"a": old("string"), "b": {"type": "string"}}}),
                json!({"a": "x", "b": "y", "c": 1}),
                vec![".a"],
            ),
            (
                "a property that is not set",
                json!({"type": "object", "properties": {"a": old("string")}}),
                json!({"b": 1}),
                vec![],
            ),
            (
                "members of a map",
                json!({"type": "object", "additionalProperties": old("string")}),
                json!({"a": "x", "b": "y"}),
                vec![".a", ".b"],
            ),
            (
                "elements",
                json!({"type": "object", "properties": {"l": {"type": "array", "items": old("string")}}}),
                json!({"l": ["x", null, "y"]}),
                vec![".l[0]", ".l[2]"],
            ),
            ("elements of the value", json!({"type": "array", "items": old("string")}), json!(["x"]), vec![".[0]"]),
            (
                "a node and one below",
                old_with("object", json!({"properties": {"a": old("string")}})),
                json!({"a": "x"}),
                vec!["", ".a"],
            ),
            (
                "all of several",
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "allOf": [{"properties": {"a": old("string")}}]}),
                json!({"a": "x"}),
                vec![".a"],
            ),
            (
                "the one that fits",
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, old("string")]}),
                json!("x"),
                vec![""],
            ),
            (
                "one that does not fit",
                json!({"x-kubernetes-int-or-string": true, "oneOf": [{"type": "integer"}, old("string")]}),
                json!(1),
                vec![],
            ),
        ] {
            let (definition, schema) = schema(node);
            assert!(definition.has_deprecated(), "{case}");
            assert_eq!(places(&schema, &value), want, "{case}");
        }
        assert!(!schema(json!({"type": "string", "not": old("string")})).0.has_deprecated());
        let label = json!({"type": "string", "x-metadata": {"labels": {DEPRECATED: ""}, "annotations": {"other": ""}}});
        assert!(!schema(label).0.has_deprecated());
    }

    #[test]
    fn what_defaulting_fills_in_is_not_set() {
        let nested = json!({"type": "object", "properties": {"a": old_with("object", json!({
            "default": {}, "properties": {"b": {"type": "string", "default": "x"},
                "c": {"type": "number", "default": 1.0}}}))}});
        let list =
            json!({"type": "array", "default": [{}, null], "items": old_with("object", json!({"default": {"b": 1}}))});
        for (node, written, want) in [
            (old_with("string", json!({"default": "x"})), json!(null), vec![]),
            (old_with("string", json!({"default": "x"})), json!("y"), vec![""]),
            (nested.clone(), json!({}), vec![]),
            (nested.clone(), json!({"a": {}}), vec![]),
            (nested.clone(), json!({"a": {"c": 2}}), vec![".a"]),
            (nested.clone(), json!({"a": {"d": 2}}), vec![".a"]),
            (list.clone(), json!(null), vec![]),
            (list.clone(), json!([{"b": 1}, {}]), vec![".[1]"]),
            (json!({"type": "object", "default": {"a": "x"}, "properties": {"a": old("string")}}), json!(null), vec![]),
            (
                json!({"type": "object", "default": {"a": "x"}, "properties": {"a": old("string")}}),
                json!({"a": "x", "b": 1}),
                vec![".a"],
            ),
        ] {
            let (_, schema) = schema(node);
            let mut value = written.clone();
            schema.complete(&mut value);
            assert_eq!(places(&schema, &value), want, "{written} became {value}");
        }
        // An API server writes numbers without a fraction as integers.
        let (_, schema) = schema(nested);
        assert_eq!(places(&schema, &json!({"a": {"b": "x", "c": 1}})), [""; 0]);
    }

    #[test]
    fn parts_at_one_place_of_two_values_are_the_same() {
        let (_, schema) = schema(json!({"type": "object", "properties": {
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": old("string")}}},
            "list": {"type": "array", "items": {"type": "object",
                "properties": {"a": old("string"), "b": old("string")}}}}}));
        let identities = |value: &Value| -> Vec<u64> { parts(&schema, value).iter().map(|part| part.2).collect() };
        let one = |value: Value| identities(&value)[0];
        let element = one(json!({"list": [{"a": "x"}]}));
        assert_eq!(element, one(json!({"list": [{}, {"a": "y"}]})));
        assert_ne!(element, one(json!({"list": [{"b": "x"}]})));
        let member = one(json!({"map": {"k": {"a": "x"}}}));
        assert_eq!(member, one(json!({"map": {"k": {"a": "y"}}})));
        assert_ne!(member, one(json!({"map": {"l": {"a": "x"}}})));
        let mut other = 0;
        let value = json!({"list": [{"a": "x"}]});
        let effort = ValidationEffort::unlimited(&Stop::never());
        schema.deprecated_parts("w", &value, &effort, &mut |part| other = part.identity);
        assert_ne!(element, other, "another value");
    }

    #[test]
    fn a_text_is_one_line_of_120_characters() {
        assert_eq!(one_line(" use\nregistries\r\n\u{7}instead\t"), "use registries instead");
        assert_eq!(one_line(" \n"), "");
        let (fits, long) = ("é".repeat(120), "é".repeat(121));
        assert_eq!(one_line(&fits), fits);
        assert_eq!(one_line(&long), "é".repeat(119) + "…");
        let annotated = json!({"type": "string", "x-metadata": {"annotations": {DEPRECATED: long}}});
        assert_eq!(parts(&schema(annotated).1, &json!("x"))[0].1.chars().count(), 120);
    }

    #[test]
    fn the_report_ends_where_the_effort_does() {
        // DEC-44
        let (_, schema) = schema(json!({"type": "array", "items": old("string")}));
        let value = Value::from(vec!["x"; 1000]);
        let effort = ValidationEffort::with_steps(100 * STEPS_OF_NODE);
        let mut count = 0;
        schema.deprecated_parts("v", &value, &effort, &mut |_| count += 1);
        assert_eq!((count, effort.exceeded().is_some()), (99, true));
    }
}

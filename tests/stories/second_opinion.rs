//! A second opinion on schemas: where a keyword means the same in JSON Schema, the `jsonschema` crate must agree
//! (DEC-63).
//!
//! Schemas and values are generated, always the same ones. Left out is what Kubernetes does in its own way: `null`,
//! `x-kubernetes-…`, formats, numbers in enums, floats without a fraction. For numbers there is a table at the end.

use serde_json::{Map, Value, json};
use topologist::field::{Findings, Path};
use topologist::openapi::{Schema, SchemaAllowance, SchemaDefinition, check};

const SCHEMAS: usize = 500;
const VALUES_PER_SCHEMA: usize = 4;
/// How deep schemas and values nest.
const DEPTH: u32 = 3;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const TEXTS: [&str; 8] = ["", "a", "b", "ab", "abc", "ä", "b1", "42"];
const PATTERNS: [&str; 8] = ["^a", "b$", "[0-9]+", "a|b", "^(ab)*c?$", "^.{2}$", "[^a]", "^[a-c]{1,2}$"];
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// A linear congruential generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    /// True once in so many throws.
    fn once_in(&mut self, throws: usize) -> bool {
        self.below(throws) == 0
    }

    fn around_zero(&mut self) -> i32 {
        i32::try_from(self.below(13)).unwrap() - 4
    }

    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    /// Some of the words, at least one, in order.
    fn some_of(&mut self, words: &[&str]) -> Vec<Value> {
        let mut chosen: Vec<Value> = words.iter().filter(|_| self.once_in(3)).map(|word| json!(word)).collect();
        if chosen.is_empty() {
            chosen.push(self.one_of(words).into());
        }
        chosen
    }

    fn schema(&mut self, depth: u32) -> Value {
        let mut node = Map::new();
        let kind = self.one_of(&TYPES);
        if !self.once_in(4) {
            node.insert("type".into(), kind.into());
        }
        // Mostly keywords that apply, and now and then others, which must do nothing.
        for subject in TYPES {
            if subject == kind || self.once_in(8) {
                self.keywords(subject, depth, &mut node);
            }
        }
        if depth > 0 && self.once_in(3) {
            let junctor = self.one_of(&["allOf", "anyOf", "oneOf", "not"]);
            let below = match junctor {
                "not" => self.schema(depth - 1),
                _ => (0..=self.below(3)).map(|_| self.schema(depth - 1)).collect(),
            };
            node.insert(junctor.into(), below);
        }
        node.into()
    }

    /// Keywords about values of a type.
    fn keywords(&mut self, kind: &str, depth: u32, node: &mut Map<String, Value>) {
        match kind {
            "array" => {
                self.bounds(["minItems", "maxItems"], node);
                if self.once_in(4) {
                    node.insert("uniqueItems".into(), true.into());
                }
                if depth > 0 && !self.once_in(3) {
                    node.insert("items".into(), self.schema(depth - 1));
                }
            }
            "object" => {
                self.bounds(["minProperties", "maxProperties"], node);
                if self.once_in(3) {
                    node.insert("required".into(), self.some_of(&NAMES).into());
                }
                if depth > 0 && !self.once_in(3) {
                    let names = self.some_of(&NAMES);
                    let properties = names.iter().map(|name| (name.as_str().unwrap(), self.schema(depth - 1)));
                    let properties: Map<String, Value> =
                        properties.map(|(name, node)| (name.to_owned(), node)).collect();
                    node.insert("properties".into(), properties.into());
                }
                if depth > 0 && self.once_in(3) {
                    node.insert("additionalProperties".into(), self.schema(depth - 1));
                }
            }
            "string" => {
                self.bounds(["minLength", "maxLength"], node);
                if self.once_in(4) {
                    node.insert("pattern".into(), self.one_of(&PATTERNS).into());
                }
                if self.once_in(6) {
                    node.insert("enum".into(), self.some_of(&TEXTS).into());
                }
            }
            "integer" | "number" => {
                for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
                    if self.once_in(3) {
                        node.insert(bound.into(), self.around_zero().into());
                        node.insert(exclusive.into(), self.once_in(2).into());
                    }
                }
            }
            _ => {}
        }
    }

    /// Each of two bounds now and then; they may contradict each other.
    fn bounds(&mut self, keywords: [&str; 2], node: &mut Map<String, Value>) {
        for (keyword, least) in keywords.into_iter().zip([0, 1]) {
            if self.once_in(4) {
                node.insert(keyword.into(), (least + self.below(3)).into());
            }
        }
    }

    /// A value that the schema more or less asks for.
    fn value(&mut self, schema: &Value, depth: u32) -> Value {
        let wanted = schema["type"].as_str().unwrap_or("");
        let kind = if wanted.is_empty() || self.once_in(8) { self.one_of(&TYPES) } else { wanted };
        let length = if depth > 0 { self.below(4) } else { 0 };
        match kind {
            "array" => (0..length).map(|_| self.value(&schema["items"], depth - 1)).collect(),
            "boolean" => self.once_in(2).into(),
            "integer" => self.around_zero().into(),
            "number" => (f64::from(self.around_zero()) + 0.5).into(),
            "object" => {
                let mut members = Map::new();
                for name in NAMES {
                    let is_required = schema["required"].as_array().is_some_and(|names| names.contains(&json!(name)));
                    if depth > 0 && (self.once_in(3) || (is_required && !self.once_in(4))) {
                        let node = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
                        members.insert(name.to_owned(), self.value(node, depth - 1));
                    }
                }
                members.into()
            }
            _ => match schema["enum"].as_array().filter(|_| !self.once_in(3)) {
                Some(entries) => entries[self.below(entries.len())].clone(),
                None => self.one_of(&TEXTS).into(),
            },
        }
    }
}

fn definition(schema: &str) -> SchemaDefinition {
    serde_json::from_str(schema).unwrap()
}

#[test]
fn json_schema_agrees_on_the_keywords_of_both() {
    let mut dice = Dice(1);
    let (mut valid, mut invalid) = (0, 0);
    for _ in 0..SCHEMAS {
        let schema = dice.schema(DEPTH);
        let ours = Schema::compile(&definition(&schema.to_string())).unwrap();
        let theirs = jsonschema::draft4::new(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
        for _ in 0..VALUES_PER_SCHEMA {
            let value = dice.value(&schema, DEPTH);
            let violations = ours.violations(&value);
            let is_valid = theirs.is_valid(&value);
            assert_eq!(violations.is_empty(), is_valid, "schema {schema}\nvalue {value}\n{violations:?}");
            *if is_valid { &mut valid } else { &mut invalid } += 1;
        }
    }
    // Agreement means something only if both answers are frequent.
    assert!(valid > 500 && invalid > 500, "{valid} valid, {invalid} invalid");
}

#[test]
fn a_definition_that_passes_every_check_can_be_used_and_no_other() {
    // VAR-S-047
    let mut dice = Dice(2);
    let (mut usable, mut refused) = (0, 0);
    for _ in 0..SCHEMAS {
        let schema = dice.schema(1);
        let (definition, mut found) = (definition(&schema.to_string()), Findings::default());
        let compiled = check(&definition, &Path::new("schema"), &mut SchemaAllowance::unlimited(), &mut found);
        assert_eq!(compiled.is_some(), found.error_count() == 0, "{schema}");
        if compiled.is_some() {
            assert!(Schema::compile(&definition).is_ok(), "{schema}");
        }
        *if compiled.is_some() { &mut usable } else { &mut refused } += 1;
    }
    assert!(usable > 50 && refused > 50, "{usable} usable, {refused} refused");
}

#[test]
fn floats_without_a_fraction_are_integers_up_to_a_point() {
    for (schema, value, is_valid) in [
        // 16.4, VAR-V-023
        (r#"{"type":"integer"}"#, "3.0", true),
        (r#"{"type":"integer"}"#, "3.5", false),
        (r#"{"type":"integer","enum":[1]}"#, "1.0", true),
        (r#"{"type":"integer"}"#, "9007199254740991.0", true),
        (r#"{"type":"integer"}"#, "9007199254740992.0", false),
        (r#"{"type":"integer"}"#, "9007199254740992", true),
        (r#"{"type":"integer"}"#, "-9007199254740992.0", false),
        (r#"{"type":"integer"}"#, "1e3", true),
        (r#"{"type":"integer"}"#, "-0.0", true),
        (r#"{"type":"integer","format":"int32"}"#, "2147483647.0", true),
        (r#"{"type":"integer","format":"int32"}"#, "2147483648.0", false),
        // VAR-V-026
        (r#"{"x-kubernetes-int-or-string":true}"#, "5.0", true),
        (r#"{"x-kubernetes-int-or-string":true}"#, "5.5", false),
        // VAR-V-025: the value is converted to the kind of the entry.
        (r#"{"type":"number","enum":[1.0]}"#, "1", true),
        (r#"{"type":"number","enum":[1.0]}"#, "1.5", false),
        (r#"{"type":"number","enum":[-1]}"#, "-1.5", true),
        // VAR-V-022
        (r#"{"type":"number","maximum":2,"exclusiveMaximum":true}"#, "2.0", false),
    ] {
        let schema_of = Schema::compile(&definition(schema)).unwrap();
        let violations = schema_of.violations(&serde_json::from_str(value).unwrap());
        assert_eq!(violations.is_empty(), is_valid, "{schema} {value}: {violations:?}");
    }
}

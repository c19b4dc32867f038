//! Values that the fast check accepts pass the full check.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, json};

use super::*;
use crate::budget::Stop;
use crate::openapi::SchemaDefinition;

fn compiled(schema: &Value) -> Schema {
    let definition: SchemaDefinition = serde_json::from_value(schema.clone()).unwrap();
    Schema::compile(&definition).unwrap()
}

fn accepts(schema: &Schema, text: &str) -> bool {
    schema.fast_check(text, &ValidationEffort::unlimited(&Stop::never())) == FastVerdict::Whole
}

/// Whether the full check finds no error after defaults are filled in.
fn is_faultless_when_complete(schema: &Schema, text: &str) -> bool {
    let Ok(mut value) = json::value(text) else { return false };
    json::with_integers(&mut value);
    schema.complete(&mut value);
    schema.violations(&value).is_empty() && schema.unknown_fields(&value).is_empty()
}

/// Whether the full check finds no error and changes nothing.
fn is_faultless(schema: &Schema, text: &str) -> bool {
    let Ok(mut value) = json::value(text) else { return false };
    json::with_integers(&mut value);
    let mut completed = value.clone();
    let changes = schema.complete(&mut completed);
    assert_eq!(changes, completed != value, "{text}");
    !changes && schema.violations(&value).is_empty() && schema.unknown_fields(&value).is_empty()
}

/// Schemas with every keyword, including contradictory ones.
fn schema() -> impl Strategy<Value = Value> {
    let keyword = select(vec![
        json!({"minLength": 1}),
        json!({"maxLength": 2}),
        json!({"pattern": "^a"}),
        json!({"format": "ipv4"}),
        json!({"format": "int32"}),
        json!({"minimum": 1}),
        json!({"maximum": 5, "exclusiveMaximum": true}),
        json!({"enum": ["a", 1, 1.5, true, [], {"a": 1}]}),
        json!({"default": "a"}),
        json!({"default": {}}),
        json!({"x-kubernetes-preserve-unknown-fields": true}),
        json!({"x-kubernetes-int-or-string": true}),
        json!({"uniqueItems": true}),
        json!({"minItems": 1}),
        json!({"maxItems": 1}),
        json!({"minProperties": 1}),
        json!({"minProperties": 2}),
        json!({"maxProperties": 1}),
        json!({"required": ["a"]}),
        json!({"required": ["z"]}),
        json!({"anyOf": [{"minimum": 1}, {"pattern": "b"}]}),
        json!({"allOf": [{"required": ["b"]}]}),
        json!({"oneOf": [{"maxLength": 1}, {"minItems": 1}]}),
        json!({"not": {"enum": ["ab", 5, [], {}]}}),
    ]);
    let keywords = prop::collection::vec(keyword, 0..3).boxed();
    let kinds = select(vec!["string", "string", "integer", "number", "boolean", "object", "array", "", "unheard-of"]);
    let leaf = (kinds, keywords.clone()).prop_map(|(kind, keywords)| node(kind, keywords, []));
    leaf.prop_recursive(3, 24, 4, move |inner| {
        let properties = prop::collection::btree_map(select(vec!["a", "b", "c", "d"]), inner.clone(), 1..4)
            .prop_map(|properties| json!(properties));
        let keywords = keywords.clone();
        prop_oneof![
            (properties, keywords.clone()).prop_map(|(below, more)| node("object", more, [("properties", below)])),
            (inner.clone(), keywords.clone()).prop_map(|(below, more)| node(
                "object",
                more,
                [("additionalProperties", below)]
            )),
            (inner.clone(), keywords.clone()).prop_map(|(below, more)| node("array", more, [("items", below)])),
            (inner, keywords).prop_map(|(below, more)| node("", more, [("items", below)])),
        ]
    })
}

fn node<const N: usize>(kind: &str, keywords: Vec<Value>, below: [(&str, Value); N]) -> Value {
    let mut node = Map::new();
    node.insert("type".into(), kind.into());
    keywords.into_iter().for_each(|keyword| node.extend(keyword.as_object().cloned().unwrap()));
    node.extend(below.map(|(name, below)| (name.to_owned(), below)));
    node.into()
}

/// Texts that mostly fit a schema, in every JSON notation and some invalid ones.
fn text_for(schema: &Value) -> BoxedStrategy<String> {
    let list = |texts: Vec<String>| texts.join(", ");
    let any = select(vec!["null", "true", "1", "\"a\"", "[]", "{}", "{\"a\": null}", "[null]", "{\"x\": 1}", "1e999"]);
    let deep = Just(format!("{}1{}", "[".repeat(130), "]".repeat(130)));
    let private = Just(r#"{"$serde_json::private::RawValue": "1"}"#.to_owned());
    let noise = prop_oneof![20 => any.prop_map(str::to_owned), 1 => deep, 1 => private].boxed();
    let fitting = match schema["type"].as_str().unwrap_or_default() {
        "string" => select(vec![r#""""#, r#""a""#, r#""ab""#, r#""\u0061b""#, r#""1.2.3.4""#, r#""é""#, r#""\ud800""#])
            .prop_map(str::to_owned)
            .boxed(),
        "integer" | "number" => {
            let texts = ["0", "1", "5", "-1", "1.0", "2e0", "1.5", "9007199254740993", "18446744073709551615", "1e999"];
            select(texts.to_vec()).prop_map(str::to_owned).boxed()
        }
        "boolean" => select(vec!["true", "false"]).prop_map(str::to_owned).boxed(),
        "object" => {
            let mut members: Vec<BoxedStrategy<Vec<String>>> = Vec::new();
            for (name, node) in schema["properties"].as_object().into_iter().flatten() {
                let member = text_for(node).prop_map({
                    let name = name.clone();
                    move |text| format!("\"{name}\":{text}")
                });
                let count = prop_oneof![2 => Just(0..1_usize), 8 => Just(1..2), 1 => Just(2..3)];
                members.push(count.prop_flat_map(move |count| prop::collection::vec(member.clone(), count)).boxed());
            }
            if schema["additionalProperties"].is_object() || members.is_empty() {
                let names = select(vec!["a", "b", "\\u0061", "z"]);
                let member = (names, text_for(&schema["additionalProperties"]));
                let member = member.prop_map(|(name, text)| format!("\"{name}\": {text}"));
                members.push(prop::collection::vec(member, 0..3).boxed());
            }
            let unknown = prop::collection::vec(noise.clone().prop_map(|text| format!("\"y\":{text}")), 0..2);
            members.push(prop_oneof![9 => Just(Vec::new()), 1 => unknown].boxed());
            members.prop_map(move |members| format!("{{{}}}", list(members.concat()))).boxed()
        }
        _ if schema["items"].is_object() => prop::collection::vec(text_for(&schema["items"]), 0..3)
            .prop_map(move |texts| format!("[ {} ]", list(texts)))
            .boxed(),
        _ => noise.clone(),
    };
    prop_oneof![14 => fitting, 1 => noise].boxed()
}

fn case() -> impl Strategy<Value = (Value, String)> {
    schema().prop_flat_map(|schema| {
        let text = text_for(&schema);
        (Just(schema), text)
    })
}

proptest! {
    #![proptest_config(testing::cases(4096))]

    #[test]
    fn values_that_the_fast_check_accepts_are_valid((schema, text) in case()) {
        let compiled = compiled(&schema);
        match compiled.fast_check(&text, &ValidationEffort::unlimited(&Stop::never())) {
            FastVerdict::Whole => prop_assert!(is_faultless(&compiled, &text), "{schema}\n{text}"),
            FastVerdict::LacksDefaults => prop_assert!(is_faultless_when_complete(&compiled, &text), "{schema}\n{text}"),
            FastVerdict::Unclear => {}
        }
    }
}

#[test]
fn the_fast_check_accepts_most_valid_values() {
    let mut runner = TestRunner::deterministic();
    let (mut faultless, mut accepted) = (0, 0);
    for _ in 0..4000 {
        let (schema, text) = case().new_tree(&mut runner).unwrap().current();
        let schema = compiled(&schema);
        faultless += usize::from(is_faultless(&schema, &text));
        accepted += usize::from(accepts(&schema, &text));
    }
    assert!(faultless > 400, "{faultless} values have no fault");
    assert!(accepted * 10 > faultless * 6, "{accepted} of {faultless} are accepted");
}

#[test]
fn the_fast_check_leaves_unclear_values_to_the_full_check() {
    let object = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "size": {"type": "integer", "minimum": 1},
        "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "tags": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "list": {"type": "array", "maxItems": 2, "items": {"type": "number"}},
    }});
    for (text, accepted) in [
        (r#"{"mode":"slow","name":"a"}"#, true),
        (
            r#"{"name":"a","mode":"fast","size":1.0,"port":"http","tags":{"b":""},"free":{"x":[null,{}]},"list":[1,2.5]}"#,
            true,
        ),
        (r#"{"mode":"slow","name":"A","name":"a"}"#, false),
        (r#"{"mode":"slow","name":"a"} "#, true),
        (r#"{"mode":"slow","name":"a"}, 1"#, false),
        (r#"{"name":"a"}"#, false),
        (r#"{"mode":null,"name":"a"}"#, false),
        (r#"{"mode":"slow"}"#, false),
        (r#"{"mode":"slow","name":"A"}"#, false),
        (r#"{"mode":"other","name":"a"}"#, false),
        (r#"{"mode":"slow","name":"a","size":0}"#, false),
        (r#"{"mode":"slow","name":"a","size":1.5}"#, false),
        (r#"{"mode":"slow","name":"a","port":true}"#, false),
        (r#"{"mode":"slow","name":"a","tags":{"a":"","b":"","c":""}}"#, false),
        (r#"{"mode":"slow","name":"a","tags":{"a":null}}"#, false),
        (r#"{"mode":"slow","name":"a","free":{"x":1e999}}"#, false),
        (r#"{"mode":"slow","name":"a","list":[1,2,3]}"#, false),
        (r#"{"mode":"slow","name":"a","list":{}}"#, false),
        (r#"{"mode":"slow","name":"a","other":1}"#, false),
        ("null", false),
        ("[]", false),
        ("", false),
    ] {
        let schema = compiled(&object);
        assert_eq!(accepts(&schema, text), accepted, "{text}");
        assert!(!accepted || is_faultless(&schema, text), "{text}");
    }
}

#[test]
fn repeated_keys_and_elements_count_once() {
    let unique = json!({"type": "array", "uniqueItems": true, "items": {"type": "integer"}});
    let two = json!({"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}});
    let known = json!({"type": "object", "minProperties": 2,
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}});
    for (schema, text, accepted) in [
        (&unique, "[1, 1.0]", false),
        (&two, r#"{"a":1,"a":2}"#, false),
        (&two, r#"{"a":1,"\u0061":2}"#, false),
        (&known, r#"{"a":1,"a":2}"#, false),
        (&known, r#"{"a":1,"a":2,"b":3}"#, true),
    ] {
        let schema = compiled(schema);
        assert_eq!(accepts(&schema, text), accepted, "{text}");
        assert_eq!(is_faultless(&schema, text), accepted, "{text}");
    }
}

#[test]
fn objects_with_more_properties_than_the_fast_check_counts_need_the_full_check() {
    for (count, accepted) in [(64, true), (65, false)] {
        let node = json!({"type": "integer", "default": 1});
        let properties: Map<String, Value> = (0..count).map(|i| (format!("p{i:02}"), node.clone())).collect();
        let value: Map<String, Value> = properties.keys().map(|name| (name.clone(), json!(2))).collect();
        let schema = compiled(&json!({"type": "object", "properties": properties}));
        let text = json!(value).to_string();
        assert_eq!(accepts(&schema, &text), accepted, "{count}");
        assert!(!accepts(&schema, &text.replace("\"p63\":2", "\"p63\":null")), "{count}");
    }
}

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Schema, SchemaDefinition};
use super::{Breadth, NoSample};

fn sample(schema: &Value) -> Result<Value, NoSample> {
    sample_of(schema, Breadth::Least)
}

fn sample_of(schema: &Value, breadth: Breadth) -> Result<Value, NoSample> {
    let definition: SchemaDefinition = serde_json::from_value(schema.clone()).unwrap();
    Schema::compile(&definition).unwrap().sample(&definition, breadth)
}

/// The violations of a value with its defaults.
fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let definition: SchemaDefinition = serde_json::from_value(schema.clone()).unwrap();
    let schema = Schema::compile(&definition).unwrap();
    let mut value = value.clone();
    schema.complete(&mut value);
    let violations = schema.violations(&value).into_iter().chain(schema.rule_violations(&value, None));
    violations.map(|violation| format!("{violation:?}")).chain(schema.unknown_fields(&value)).collect()
}

#[test]
fn a_sample_is_the_smallest_valid_value() {
    for (schema, want) in [
        (json!({"type": "string"}), json!("")),
        (json!({"type": "string", "default": "d", "example": "e", "enum": ["d", "e"]}), json!("d")),
        (json!({"type": "string", "example": "e", "enum": ["d", "e"]}), json!("e")),
        (json!({"type": "string", "example": "too long", "maxLength": 3}), json!("")),
        (json!({"type": "string", "enum": ["large", "small"]}), json!("large")),
        (json!({"type": "string", "minLength": 3}), json!("aaa")),
        (json!({"type": "string", "pattern": "^[a-z]+-[0-9]{2}$", "minLength": 6}), json!("aaa-00")),
        (json!({"type": "string", "format": "ipv4"}), json!("192.0.2.1")),
        (json!({"type": "string", "format": "cidr", "pattern": "/16$"}), json!("10.0.0.0/16")),
        (json!({"type": "string", "format": "password", "minLength": 2}), json!("aa")),
        (json!({"type": "string", "format": "uri", "minLength": 12}), json!("https://example.com/a")),
        (json!({"type": "integer"}), json!(0)),
        (json!({"type": "integer", "minimum": 3, "maximum": 5}), json!(3)),
        (json!({"type": "integer", "minimum": 3, "exclusiveMinimum": true}), json!(4)),
        (json!({"type": "integer", "maximum": -3}), json!(-3)),
        (json!({"type": "integer", "not": {"enum": [0]}}), json!(1)),
        (
            json!({"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 1, "exclusiveMaximum": true}),
            json!(0.5),
        ),
        (json!({"type": "boolean"}), json!(false)),
        (json!({"type": "boolean", "enum": [true]}), json!(true)),
        (json!({"type": "array", "items": {"type": "string"}}), json!([])),
        (json!({"type": "array", "minItems": 2, "items": {"type": "integer", "minimum": 7}}), json!([7, 7])),
        (
            json!({"type": "array", "minItems": 3, "uniqueItems": true,
                "items": {"type": "string", "pattern": "^[a-z]$"}}),
            json!(["a", "b", "c"]),
        ),
        (
            json!({"type": "array", "minItems": 2, "uniqueItems": true,
                "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}}),
            json!([{"a": 0}, {"a": 1}]),
        ),
        (json!({"type": "object", "properties": {"a": {"type": "string"}}}), json!({})),
        (
            json!({"type": "object", "required": ["b"],
                "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}),
            json!({"b": 0}),
        ),
        (
            json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "integer", "default": 7}}}),
            json!({}),
        ),
        (
            json!({"type": "object", "minProperties": 2, "properties": {"a": {"type": "string"}},
                "additionalProperties": {"type": "integer"}}),
            json!({"a": "", "key1": 0}),
        ),
        (
            json!({"type": "object", "minProperties": 1, "x-kubernetes-preserve-unknown-fields": true}),
            json!({"key1": "a"}),
        ),
        (json!({"x-kubernetes-int-or-string": true}), json!(0)),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": "^[0-9]+%$"}),
            json!(0),
        ),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), json!({})),
    ] {
        assert_eq!(sample(&schema), Ok(want), "{schema}");
    }
}

#[test]
fn a_whole_value_has_every_property_that_it_may_have() {
    let text = json!({"type": "string"});
    let inner = json!({"type": "object", "properties": {"c": text, "d": {"type": "integer", "default": 1}}});
    let schema = json!({"type": "object", "properties": {"a": text, "b": inner}});
    assert_eq!(sample_of(&schema, Breadth::Whole), Ok(json!({"a": "", "b": {"c": ""}})));
    let narrow = json!({"type": "object", "maxProperties": 1, "properties": {"a": text, "b": inner}});
    assert_eq!(sample_of(&narrow, Breadth::Whole), Ok(json!({"a": ""})));
}

#[test]
fn junctors_are_kept() {
    let members = |more: Value| {
        let mut schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    for (schema, want) in [
        (members(json!({"oneOf": [{"required": ["b"]}, {"required": ["a"]}]})), json!({"b": 0})),
        (
            members(json!({"anyOf": [{"required": ["a"], "properties": {"a": {"enum": ["x"]}}}, {"required": ["b"]}]})),
            json!({"a": "x"}),
        ),
        (members(json!({"not": {"required": ["a"]}, "minProperties": 1})), json!({"b": 0})),
        (members(json!({"allOf": [{"required": ["a"]}, {"properties": {"a": {"minLength": 2}}}]})), json!({"a": "aa"})),
        (json!({"type": "integer", "oneOf": [{"minimum": 0}, {"maximum": 5}]}), json!(6)),
        (json!({"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "b$"}, {"minLength": 3}]}), json!("aab")),
    ] {
        assert_eq!(sample(&schema), Ok(want), "{schema}");
    }
}

#[test]
fn samples_satisfy_simple_rules() {
    for (schema, want) in [
        (json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self >= 100"}]}), Some(json!(100))),
        (json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 1"}]}), Some(json!(1))),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "self in ['small', 'large']"}]}),
            Some(json!("small")),
        ),
        (
            json!({"type": "array", "items": {"type": "string"},
                "x-kubernetes-validations": [{"rule": "size(self) > 1"}]}),
            Some(json!(["", ""])),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "x-kubernetes-validations": [{"rule": "has(self.b)"}]}),
            Some(json!({"b": ""})),
        ),
        (json!({"type": "string", "x-kubernetes-validations": [{"rule": "self.size() * self.size() == 1849"}]}), None),
    ] {
        let made = sample(&schema);
        assert_eq!(made.clone().ok(), want, "{schema}");
        if let Err(NoSample { place, reason }) = made {
            assert!(place.is_empty() && reason.contains("1849"), "{place}: {reason}");
        }
    }
}

#[test]
fn the_place_without_a_valid_sample_is_named() {
    let pattern = |pattern: &str| {
        json!({"type": "object", "required": ["sizes"], "properties": {"sizes": {"type": "array", "minItems": 1,
            "items": {"type": "string", "maxLength": 3, "pattern": pattern}}}})
    };
    let failed = sample(&pattern("^[a-z]{4}$")).unwrap_err();
    assert_eq!((&*failed.place, &*failed.reason), (".sizes[0]", "no value could be made from the schema"));
    assert_eq!(sample(&pattern("^[a-z]{3}$")), Ok(json!({"sizes": ["aaa"]})));
    let secret = json!({"type": "string", "format": "password", "enum": ["hunter2"], "minLength": 9});
    let failed = sample(&secret).unwrap_err();
    assert_eq!(failed.reason, "rule VAR-V-022 does not hold", "DEC-34");
}

#[test]
fn hostile_schemas_have_no_sample() {
    let mut schema = json!({"type": "string", "pattern": "^(a|b)*a(a|b){12}$", "maxLength": 5});
    for _ in 0..8 {
        schema = json!({"type": "object", "required": ["a", "b"], "properties": {"a": schema.clone(), "b": schema},
            "anyOf": [{"minProperties": 3}, {"minProperties": 4}, {"minProperties": 5}]});
    }
    assert!(sample(&schema).is_err());
}

/// Schemas without rules that have a valid value.
fn schemas() -> impl Strategy<Value = Value> {
    leaves().prop_recursive(3, 24, 4, |inner| {
        let list = (inner.clone(), 0..3usize, any::<bool>()).prop_map(|(items, least, is_bounded)| {
            let mut list = json!({"type": "array", "items": items, "minItems": least});
            if is_bounded {
                list["maxItems"] = json!(least + 1);
            }
            list
        });
        let map = (inner.clone(), 0..4usize).prop_map(
            |(values, least)| json!({"type": "object", "additionalProperties": values, "minProperties": least}),
        );
        let object = (prop::collection::btree_map("[a-e]", (inner.clone(), any::<bool>()), 1..4), 0..4usize).prop_map(
            |(properties, least)| {
                let required: Vec<&String> =
                    properties.iter().filter(|(_, (_, is_required))| *is_required).map(|(name, _)| name).collect();
                let least = least.min(properties.len());
                let nodes: serde_json::Map<String, Value> =
                    properties.iter().map(|(name, (node, _))| (name.clone(), node.clone())).collect();
                json!({"type": "object", "properties": nodes, "required": required, "minProperties": least})
            },
        );
        let chosen = (prop::collection::btree_map("[a-e]", inner, 2..4), any::<bool>()).prop_map(|(nodes, is_one)| {
            let branches: Vec<Value> = nodes.keys().map(|name| json!({"required": [name]})).collect();
            let nodes: serde_json::Map<String, Value> =
                nodes.into_iter().filter(|(_, node)| node.get("default").is_none()).collect();
            let branches: Vec<Value> = branches
                .into_iter()
                .filter(|branch| branch["required"][0].as_str().is_some_and(|name| nodes.contains_key(name)))
                .collect();
            let junctor = if is_one { "oneOf" } else { "anyOf" };
            let mut object = json!({"type": "object", "properties": nodes});
            if !branches.is_empty() {
                object[junctor] = json!(branches);
            }
            object
        });
        prop_oneof![list, map, object, chosen]
    })
}

fn leaves() -> impl Strategy<Value = Value> {
    let patterns = [
        "^[a-z]+$",
        "^[A-Z][a-z]{2,5}$",
        r"^\d+(\.\d+)?$",
        "^(small|medium|large)$",
        "x",
        r"^v1\.\d+\.\d+$",
        r"^\S+@\S+$",
    ];
    let formats: Vec<&str> =
        super::super::format::names().filter(|name| !["int32", "int64", "float", "double"].contains(name)).collect();
    let integers = (-50..50i64, 0..20i64, any::<(bool, bool, bool, bool)>()).prop_map(
        |(low, span, (has_low, has_high, opens_low, opens_high))| {
            let mut node = json!({"type": "integer"});
            if has_low {
                node["minimum"] = json!(low);
                node["exclusiveMinimum"] = json!(opens_low);
            }
            if has_high {
                node["maximum"] = json!(low + span + 2);
                node["exclusiveMaximum"] = json!(opens_high);
            }
            node
        },
    );
    prop_oneof![
        integers.clone(),
        integers.prop_map(|mut node| {
            node["type"] = json!("number");
            node
        }),
        (-5..5i64)
            .prop_map(|low| json!({"type": "number", "minimum": low, "exclusiveMinimum": true, "maximum": low + 1,
            "exclusiveMaximum": true})),
        Just(json!({"type": "boolean"})),
        (0..20i64, 0..20i64).prop_map(|(least, more)| json!({"type": "string", "minLength": least,
            "maxLength": least + more})),
        prop::sample::select(patterns.to_vec()).prop_map(|pattern| json!({"type": "string", "pattern": pattern})),
        prop::sample::select(formats).prop_map(|format| json!({"type": "string", "format": format})),
        (0..5i64).prop_map(|out| json!({"type": "integer", "minimum": out, "not": {"enum": [out]}})),
        "[a-z]{0,3}".prop_map(|text| json!({"type": "string", "enum": [text, "other"]})),
        "[a-z]{0,3}".prop_map(|text| json!({"type": "string", "default": text})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        (0..9i64, 0..9i64).prop_map(|(a, b)| json!({"type": "integer", "allOf": [{"minimum": a}, {"minimum": b}]})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn samples_are_valid(schema in schemas()) {
        for breadth in [Breadth::Least, Breadth::Whole] {
            let value = sample_of(&schema, breadth);
            prop_assert!(value.is_ok(), "{value:?}: {schema}");
            let faults = faults(&schema, &value.unwrap());
            prop_assert!(faults.is_empty(), "{faults:?}: {schema}");
        }
    }
}

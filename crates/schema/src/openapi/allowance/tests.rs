//! Limits on sets of schemas (DEC-44).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::field::Findings;
use crate::openapi::{FastVerdict, Schema, SchemaDefinition, check};
use golang::json::in_memory;

fn definition(schema: &Value) -> SchemaDefinition {
    serde_json::from_value(schema.clone()).unwrap()
}

/// The place where a set of schemas exceeds its allowance; other errors fail the test.
fn breach(schemas: &[Value]) -> Option<String> {
    let (mut allowance, mut found) = (SchemaAllowance::new(Stop::never()), Findings::default());
    for (i, schema) in schemas.iter().enumerate() {
        if let Err(exceeded) = allowance.next_schema() {
            allowance.note_breach(Path::new("all"), exceeded);
        }
        check(&definition(schema), &Path::new("v").index(i), &mut allowance, &mut found);
    }
    if let Err(exceeded) = allowance.next_schema() {
        allowance.note_breach(Path::new("all"), exceeded);
    }
    let errors = found.into_parts().0;
    assert!(errors.is_empty(), "{errors:?}");
    allowance.breach().map(|breach| format!("{}: {}", breach.path, breach.exceeded))
}

/// Arrays in arrays, `depth` of them, each with a default of ten empty objects.
fn nested(depth: usize, elements: usize) -> Value {
    let below = json!({"type": "string"});
    (0..depth).fold(below, |below, _| {
        let default: Vec<Value> = vec![json!({}); elements];
        json!({"type": "array", "default": default, "items": {"type": "object", "properties": {"p": below}}})
    })
}

#[test]
fn defaults_below_defaults_are_counted_before_they_are_made() {
    // DEC-44: 7 levels of 10 are 10,000,000 objects; of 3 they are 1,000.
    let schema =
        |depth, elements| json!({"type": "object", "properties": {"a": nested(depth, elements)}, "default": {}});
    let found = breach(&[schema(7, 10)]).unwrap();
    assert!(
        found.ends_with("default: exceeds the limit of 10000 values in the expanded defaults of one variable"),
        "{found}"
    );
    assert_eq!(breach(&[schema(3, 10)]), None);
    // Variant: few large values, and a map instead of arrays.
    let text = "x".repeat(300_000);
    let wide = json!({"type": "object", "default": {"a": {}, "b": {}, "c": {}, "d": {}}, "additionalProperties":
        {"type": "object", "properties": {"p": {"type": "string", "default": text}}}});
    let found = breach(std::slice::from_ref(&wide)).unwrap();
    assert!(found.ends_with("exceeds the limit of 1048576 bytes in the expanded defaults of one variable"), "{found}");
}

#[test]
fn the_defaults_of_all_schemas_have_a_sum() {
    // DEC-44
    let large = json!({"type": "string", "default": "x".repeat(1_000_000)});
    assert_eq!(breach(&vec![large.clone(); 4]), None);
    let found = breach(&vec![large; 5]).unwrap();
    assert!(found.ends_with("exceeds the limit of 4194304 bytes in the expanded defaults of all variables"), "{found}");
}

#[test]
fn compiled_patterns_have_a_sum() {
    // DEC-44: each takes some 134 KB, of which 131 are the caches of a search.
    let many: Vec<String> = (0..300).map(|i| format!("(x+x+)+y{i}")).collect();
    let alone: Vec<Value> = many.iter().map(|text| json!({"type": "string", "pattern": text})).collect();
    let end = "exceeds the limit of 33554432 bytes of compiled schemas, patterns, rules and templates";
    let found = breach(&alone).unwrap();
    assert!(found.starts_with("v[24") && found.ends_with(end), "{found}");
    assert_eq!(breach(&alone[..230]), None);
    // Variants: in one variable, below a junctor, and in rules.
    let below: Vec<Value> = many.iter().map(|text| json!({"pattern": text})).collect();
    let found = breach(&[json!({"type": "string", "anyOf": below})]).unwrap();
    assert!(found.starts_with("v[0].anyOf[24") && found.ends_with(end), "{found}");
    let rules: Vec<Value> = many.iter().map(|text| json!({"rule": format!("self.matches('{text}')")})).collect();
    let found = breach(&[json!({"type": "string", "maxLength": 10, "x-kubernetes-validations": rules})]).unwrap();
    assert!(found.starts_with("v[0].x-kubernetes-validations[2") && found.ends_with(end), "{found}");
}

#[test]
fn equal_patterns_are_compiled_once_and_counted_each_time() {
    // DEC-44: the outcome does not depend on cached patterns.
    let same = json!({"type": "string", "pattern": r"\pL{25}"});
    assert!(breach(&vec![same; 9]).unwrap().starts_with("v[5]"));
}

#[test]
fn nodes_and_declarations_of_rules_have_a_sum() {
    // DEC-44: a node has a few bytes as text and several hundred compiled.
    let properties = |count: usize| -> Value {
        (0..count).map(|i| (format!("p{i}"), json!({"type": "integer"}))).collect::<serde_json::Map<_, _>>().into()
    };
    let flat = |count| json!({"type": "object", "properties": properties(count)});
    assert_eq!(breach(&[flat(10_000)]), None);
    assert!(breach(&[flat(100_000)]).unwrap().contains("bytes of compiled schemas"));
    // A variant: a rule at each of many levels declares all that is below it.
    let rule = json!([{"rule": "true"}]);
    let levels = (0..25).fold(
        flat(6000),
        |below, _| json!({"type": "object", "properties": {"p": below}, "x-kubernetes-validations": rule}),
    );
    assert!(breach(&[levels]).unwrap().contains("bytes of compiled schemas"));
}

#[test]
fn literals_share_one_budget_of_cel_cost() {
    // DEC-44: each entry costs about 600,000 units.
    let rule = json!([{"rule": "self.all(x, self.all(y, x == x && y == y && x <= y || x > y))"}]);
    let list = |seed: usize| -> Value { (0..150).map(|i| json!(i + seed)).collect() };
    let entries = |count: usize| -> Vec<Value> { (0..count).map(list).collect() };
    let schema = |count| {
        json!({"type": "array", "maxItems": 150, "items": {"type": "integer"}, "enum": entries(count),
            "x-kubernetes-validations": rule})
    };
    assert_eq!(breach(&[schema(4)]), None);
    let found = breach(&vec![schema(20); 4]).unwrap();
    assert!(
        found.contains(".enum[") && found.ends_with("10000000 CEL cost units of defaults, examples and enum entries"),
        "{found}"
    );
}

#[test]
fn cached_schemas_count_as_much_as_new_ones() {
    // DEC-44
    let schema = definition(&json!({"type": "object", "default": {}, "properties": {"a": nested(2, 10),
        "b": {"type": "string", "pattern": "^[a-z]+$"}}}));
    let mut first = SchemaAllowance::new(Stop::never());
    Schema::compile_within(&schema, &mut first).unwrap();
    let footprint = first.measure(0);
    let mut second = SchemaAllowance::new(Stop::never());
    second.take(footprint).unwrap();
    assert_eq!(second.measure(0), footprint);
    assert!(footprint.bytes() > 0 && footprint.default_nodes > 100 && footprint.states > STATES_OF_PATTERN);
}

#[test]
fn patterns_that_take_long_to_compile_have_a_sum() {
    // DEC-44: each of these has some 7,500 states and takes 14 ms, at any position.
    let letters = json!({"type": "string", "pattern": r"\pL{25}"});
    let searched = json!({"type": "string", "x-kubernetes-validations": [{"rule": r"self.matches('\\pL{25}')"}]});
    // The rules of a root are compiled twice.
    let searched = json!({"type": "array", "maxItems": 9, "items": searched});
    let small = json!({"type": "string", "pattern": "[^a]$"});
    for schema in [letters, searched] {
        assert_eq!(breach(&vec![schema.clone(); 5]), None);
        let found = breach(&vec![schema; 6]).unwrap();
        assert!(found.contains("exceeds the limit of 40000 states of compiled patterns"), "{found}");
    }
    assert_eq!(breach(&vec![small; 200]), None);
}

#[test]
fn compiling_ends_when_the_time_is_over() {
    // DEC-44
    let mut allowance = SchemaAllowance::new(Stop::when(|| true));
    let schema = definition(&json!({"type": "string", "pattern": "a"}));
    assert!(matches!(Schema::compile_within(&schema, &mut allowance), Err(SchemaError::Stopped)));
    let mut found = Findings::default();
    assert!(check(&schema, &Path::new("v"), &mut allowance, &mut found).is_none());
    assert!(found.error_count() == 0 && allowance.breach().is_none() && allowance.stop().has_stopped());
    let value: Value = (0..100_000).collect();
    let list = Schema::compile(&definition(&json!({"type": "array", "items": {"type": "string"}}))).unwrap();
    let (polls, stop) = (Arc::new(AtomicUsize::new(0)), Stop::default());
    let effort = ValidationEffort::for_object(&stop);
    list.violations_within(&value, &effort);
    let all = effort.taken();
    let stop = Stop::when({
        let polls = polls.clone();
        move || polls.fetch_add(1, Ordering::Relaxed) == 1
    });
    let effort = ValidationEffort::for_object(&stop);
    list.violations_within(&value, &effort);
    assert!(stop.has_stopped() && effort.exceeded().is_none());
    assert!(all > 800_000 && polls.load(Ordering::Relaxed) == 2, "nothing is looked at after the deadline");
}

#[test]
fn the_counted_memory_is_at_least_the_used_memory() {
    // DEC-44: a compiled expression takes more than its text, and less than is counted.
    let list = vec!["self"; 800].join(",");
    let rule = format!("[{list}].all(x, x == 0)");
    assert!(rule.len() < 4096);
    let schema = json!({"type": "integer", "x-kubernetes-validations": [{"rule": rule}]});
    let mut allowance = SchemaAllowance::new(Stop::never());
    Schema::compile_within(&definition(&schema), &mut allowance).unwrap();
    // Each element of the list is a node of some hundred bytes.
    assert!(allowance.compiled_bytes() > 800 * 128);
}

#[test]
fn literals_are_counted_as_they_are_in_memory() {
    // DEC-44: an object of seven bytes takes several hundred.
    let small: Vec<Value> = (0..50_000).map(|i| json!({"": i})).collect();
    let untyped =
        |keyword: &str, literal: Value| json!({"x-kubernetes-preserve-unknown-fields": true, keyword: literal});
    let default = untyped("default", json!({"a": small[..4500].to_vec()}));
    for literals in [vec![untyped("enum", json!(small))], vec![default; 6]] {
        let found = breach(&literals).unwrap();
        assert!(found.contains("bytes of compiled schemas"), "{found}");
    }
    let names: Vec<String> = (0..750_000).map(|i| i.to_string()).collect();
    let required = json!({"type": "object", "required": names});
    assert!(breach(&[required]).unwrap().contains("bytes of compiled schemas"));
    // An example is checked and not kept.
    let zeros = untyped("example", json!(vec![0; 200_000]));
    let mut allowance = SchemaAllowance::new(Stop::never());
    Schema::compile_within(&definition(&zeros), &mut allowance).unwrap();
    assert!(allowance.compiled_bytes() < 2000 && breach(&vec![zeros; 8]).is_none());
    assert!(in_memory(&json!({"": 0})) > 640 && in_memory(&json!(vec![0; 1000])) >= 32_000);
}

#[test]
fn declarations_of_long_names_are_counted_at_each_level() {
    // DEC-44: "/" is "__slash__" to expressions.
    let rule = json!([{"rule": "true"}]);
    let named = |name: String| json!({"type": "object", "properties": {name: {"type": "string"}}});
    let chain = |name: String| {
        (0..100).fold(
            named(name),
            |below, _| json!({"type": "array", "maxItems": 1, "items": below, "x-kubernetes-validations": rule}),
        )
    };
    assert!(
        breach(&[json!({"type": "object", "properties": {"a": chain("/".repeat(150_000))}})])
            .unwrap()
            .contains("bytes of compiled schemas")
    );
    assert_eq!(breach(&[json!({"type": "object", "properties": {"a": chain("/".repeat(15))}})]), None);
}

#[test]
fn many_required_names_are_looked_up() {
    // DEC-44: properties times required names were 400 million comparisons.
    let names: Vec<String> = (0..20_000).map(|i| format!("a-property-with-a-name-{i}")).collect();
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "required": names, "properties": properties,
        "x-kubernetes-validations": [{"rule": "true"}]});
    let (_, taken) = testing::timed(|| Schema::compile(&definition(&schema)).unwrap());
    assert!(taken < Duration::from_secs(5), "{taken:?}");
}

#[test]
fn patterns_that_are_rejected_count_as_well() {
    // DEC-44: they were compiled to their limit, or kept, and counted nothing.
    let too_large = |i: usize| json!({"type": "string", "pattern": format!(r"\pL{{1000}}N{i}")});
    let of_failing = |i: usize| json!({"pattern": format!(r"\pL{{200}}N{i}"), "properties": {"a": {}}});
    for schemas in [(0..8).map(too_large).collect::<Vec<_>>(), (0..8).map(of_failing).collect()] {
        let (mut allowance, mut found) = (SchemaAllowance::new(Stop::never()), Findings::default());
        for schema in &schemas {
            check(&definition(schema), &Path::new("v"), &mut allowance, &mut found);
        }
        let exceeded = allowance.breach().unwrap().exceeded.to_string();
        assert!(exceeded.contains("states of compiled patterns") && found.error_count() < 8, "{exceeded}");
    }
}

#[test]
fn paths_of_a_class_are_short_and_made_one_at_a_time() {
    // DEC-44: below names of a kilobyte each, every property had a path of 58 KB, all of them at once.
    let wide: serde_json::Map<String, Value> =
        (0..4000).map(|i| (format!("p{i}"), json!({"nullable": true}))).collect();
    let bottom = json!({"type": "object", "properties": wide});
    let deep = (0..58).fold(bottom, |below, _| json!({"type": "object", "properties": {"n".repeat(1000): below}}));
    let mut found = Findings::default();
    assert!(check(&definition(&deep), &Path::new("v"), &mut SchemaAllowance::new(Stop::never()), &mut found).is_none());
    assert_eq!(found.error_count(), 4000);
    let errors = found.into_parts().0;
    let text: usize = errors.iter().map(|error| error.to_string().len()).sum();
    assert!(errors.len() < 2000 && text < 6 << 20, "{} {text}", errors.len());
    assert!(errors.iter().all(|error| error.path.as_str().len() <= 4096));
}

#[test]
fn violations_have_a_sum() {
    // DEC-44: each alternative had a thousand, and each of those had a place of a hundred kilobytes.
    let bounded = |violations: &[Violation]| {
        let bytes: usize =
            violations.iter().map(|found| found.place.len() + found.pointer.len() + found.detail.len()).sum();
        assert!(!violations.is_empty() && violations.len() <= 1000 && bytes < 5 << 20, "{} {bytes}", violations.len());
    };
    let compiled = |schema: &Value| Schema::compile(&definition(schema)).unwrap();
    let item = json!({"items": {"minimum": 1}});
    for junctor in ["allOf", "anyOf", "oneOf"] {
        let flat = json!({"type": "array", junctor: vec![item.clone(); 20]});
        bounded(&compiled(&flat).violations(&json!(vec![0; 1100])));
        // A variant: alternatives in alternatives.
        let nested = (0..6).fold(item.clone(), |below, _| json!({junctor: [below.clone(), item, below]}));
        bounded(&compiled(&nested).violations(&json!(vec![0; 300])));
    }
    let names = |value: Value| (0..58).fold(value, |below, _| json!({"~".repeat(1000): below}));
    let node = |leaf: Value| (0..58).fold(leaf, |below, _| json!({"type": "object", "additionalProperties": below}));
    bounded(
        &compiled(&node(json!({"type": "array", "items": {"type": "string"}})))
            .violations(&names(json!(vec![0; 2000]))),
    );
    let rule = json!({"type": "array",
        "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "false", "message": "x".repeat(2000)}]}});
    let violations = compiled(&node(rule)).rule_violations(&names(json!(vec![0; 2000])), None);
    bounded(&violations);
    assert_eq!(violations[0].rule, "CEL-022");
    // A pointer that would be too long leads to something around the place.
    let value = names(json!([0]));
    assert!(value.pointer(&violations[0].pointer).is_some_and(Value::is_object));
}

#[test]
fn validating_values_takes_a_bounded_effort() {
    // DEC-44: the sum of all values of an object, deterministic, and an error of the value.
    let compiled = |schema: &Value| Schema::compile(&definition(schema)).unwrap();
    let enough = |schema: &Value, value: &Value, steps: usize| {
        let (schema, effort) = (compiled(schema), ValidationEffort::new(steps, &Stop::never()));
        let answer = schema.fast_check(&value.to_string(), &effort);
        let effort = ValidationEffort::new(steps, &Stop::never());
        let violations = schema.violations_within(value, &effort);
        let is_refused = violations.iter().any(|violation| violation.rule == "DEC-44");
        assert!(!is_refused || (violations.len() == 1 && answer == FastVerdict::Unclear), "{violations:?}");
        assert_eq!(is_refused, effort.exceeded().is_some());
        !is_refused
    };
    let many = json!({"type": "array", "anyOf": vec![json!({"items": {"minimum": 1}}); 1000]});
    assert!(!enough(&many, &json!(vec![0; 1000]), 1_000_000) && enough(&many, &json!([0, 1]), 1_000_000));
    // Where automata give up, each byte visits each state of a pattern.
    let slow = json!({"type": "string", "pattern": format!("{}[^a]$", "a{0,1000}".repeat(20))});
    let label = json!({"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"});
    assert!(
        !enough(&slow, &json!("a".repeat(60_000)), STEPS_OF_OBJECT)
            && enough(&slow, &json!("a".repeat(500)), STEPS_OF_OBJECT)
    );
    assert!(enough(&json!({"type": "array", "items": label}), &json!(vec!["a".repeat(60); 1000]), STEPS_OF_OBJECT));
    // Texts are looked up; others are compared.
    let words: Vec<String> = (0..4000).map(|i| format!("word-{i}")).collect();
    assert!(enough(&json!({"type": "array", "items": {"type": "string", "enum": words}}), &json!(words), 200_000));
    let numbers: Vec<usize> = (0..4000).collect();
    assert!(!enough(
        &json!({"type": "array", "items": {"type": "integer", "enum": numbers}}),
        &json!(numbers),
        1_000_000
    ));
    let fresh = json!({"type": "array", "uniqueItems": true, "items": {"type": "integer"}, "anyOf": vec![json!({"uniqueItems": true}); 100]});
    assert!(!enough(&fresh, &json!((1000..3000).collect::<Vec<_>>()), 1_000_000));
    // The fast check ends when the time is over.
    let (schema, stop) = (compiled(&json!({"type": "array", "items": {"type": "integer"}})), Stop::when(|| true));
    assert_eq!(
        schema.fast_check(&json!(vec![0; 10_000]).to_string(), &ValidationEffort::for_object(&stop)),
        FastVerdict::Unclear
    );
    assert!(stop.has_stopped());
}

#[test]
fn the_effort_of_a_class_is_the_same_when_it_is_compiled_already() {
    // DEC-44
    let schema = definition(&json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^.{0,200}$",
            "default": "x".repeat(100)}}}));
    let mut first = SchemaAllowance::new(Stop::never());
    Schema::compile_within(&schema, &mut first).unwrap();
    assert!(first.effort.taken() > 10_000);
    let mut second = SchemaAllowance::new(Stop::never());
    second.take(first.measure(0)).unwrap();
    assert_eq!(first.effort.taken(), second.effort.taken());
    let footprint = Footprint { steps: STEPS_OF_OBJECT, ..Footprint::default() };
    assert!(second.take(footprint).unwrap_err().to_string().contains("steps of holding values against schemas"));
}

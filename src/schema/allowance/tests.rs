//! What a set of schemas may take together (DEC-44).

use serde_json::{Value, json};

use super::*;
use crate::field::Findings;
use crate::schema::{Definition, Schema, check};

fn definition(schema: &Value) -> Definition {
    serde_json::from_value(schema.clone()).unwrap()
}

/// Where the schemas of a set exceed their allowance, if they do; errors of another kind fail the test.
fn breach(schemas: &[Value]) -> Option<String> {
    let (mut allowance, mut found) = (Allowance::new(Stop::never()), Findings::default());
    for (i, schema) in schemas.iter().enumerate() {
        if let Err(exceeded) = allowance.next_schema() {
            allowance.note_breach(Path::of("all"), exceeded);
        }
        check(&definition(schema), &Path::of("v").index(i), &mut allowance, &mut found);
    }
    if let Err(exceeded) = allowance.next_schema() {
        allowance.note_breach(Path::of("all"), exceeded);
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
    // A variant: few and large values, and a map instead of arrays.
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
    // DEC-44: each takes some 10 MB.
    let pattern = |text: String| json!({"type": "string", "pattern": text});
    let many: Vec<Value> = (0..300).map(|i| pattern(format!(r"\pL{{200}}N{i}"))).collect();
    let found = breach(&many).unwrap();
    assert_eq!(
        found,
        "v[3].pattern: exceeds the limit of 33554432 bytes of compiled schemas, patterns, rules and templates"
    );
    assert_eq!(breach(&many[..3]), None);
    // Variants: in one variable, below a junctor, and in a rule, where it is no keyword.
    let inside = json!({"type": "string", "anyOf": many.iter().map(|one| json!({"pattern": one["pattern"]})).collect::<Vec<_>>()});
    assert!(breach(&[inside]).unwrap().starts_with("v[0].anyOf[3].pattern: "));
    let search = |i: usize| format!(r"self.matches('\\pL{{200}}N{i}')");
    let rule = json!({"type": "string", "maxLength": 10, "x-kubernetes-validations":
        [{"rule": (0..20).map(search).collect::<Vec<_>>().join(" || ")}]});
    let found = breach(&[rule]).unwrap();
    assert!(found.starts_with("v[0].x-kubernetes-validations[0]: exceeds the limit of 33554432 bytes"), "{found}");
}

#[test]
fn equal_patterns_are_compiled_once_and_counted_each_time() {
    // DEC-44: the outcome does not depend on what is known already.
    let same = json!({"type": "string", "pattern": r"\pL{200}N"});
    assert!(breach(&vec![same; 5]).unwrap().starts_with("v[3]"));
}

#[test]
fn nodes_and_what_rules_declare_have_a_sum() {
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
fn an_allowance_counts_what_is_compiled_already_alike() {
    // DEC-44
    let schema = definition(&json!({"type": "object", "default": {}, "properties": {"a": nested(2, 10)}}));
    let mut first = Allowance::new(Stop::never());
    Schema::compile_within(&schema, &mut first).unwrap();
    let footprint = first.measure(0);
    let mut second = Allowance::new(Stop::never());
    second.take(footprint).unwrap();
    assert_eq!(second.measure(0), footprint);
    assert!(footprint.bytes() > 0 && footprint.default_nodes > 100);
}

#[test]
fn compiling_ends_when_the_time_is_over() {
    // DEC-44
    let mut allowance = Allowance::new(Stop::when(|| true));
    let schema = definition(&json!({"type": "string", "pattern": "a"}));
    assert!(matches!(Schema::compile_within(&schema, &mut allowance), Err(Unusable::Stopped)));
    let mut found = Findings::default();
    assert!(check(&schema, &Path::of("v"), &mut allowance, &mut found).is_none());
    assert!(found.error_count() == 0 && allowance.breach().is_none() && allowance.stop().has_stopped());
    let value: Value = (0..100_000).collect();
    let list = Schema::compile(&definition(&json!({"type": "array", "items": {"type": "string"}}))).unwrap();
    assert!(list.violations_until(&value, &Stop::when(|| true)).len() < 300);
}

#[test]
fn what_is_taken_is_at_least_what_memory_is_used() {
    // DEC-44: a compiled expression takes more than its text, and less than is counted.
    let list = vec!["self"; 800].join(",");
    let rule = format!("[{list}].all(x, x == 0)");
    assert!(rule.len() < 4096);
    let schema = json!({"type": "integer", "x-kubernetes-validations": [{"rule": rule}]});
    let mut allowance = Allowance::new(Stop::never());
    Schema::compile_within(&definition(&schema), &mut allowance).unwrap();
    // Each element of the list is a node of some hundred bytes.
    assert!(allowance.compiled_bytes() > 800 * 128);
}

//! Comparison with recorded vectors: the same verdicts, costs and results as Kubernetes.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use super::pattern_of;
use crate::cel::{Decl, PER_RULE, Program, ProgramError, ResultType};
use crate::field::{Findings, Path};
use crate::openapi::{self, Schema, SchemaAllowance, SchemaDefinition};

/// A rule with the result of kube-apiserver's libraries.
#[derive(Deserialize)]
struct RuleVector {
    schema: Value,
    rule: String,
    #[serde(default)]
    values: Vec<Value>,
    old: Option<Value>,
    /// The compile error.
    error: Option<String>,
    cost: Option<u64>,
    #[serde(default)]
    results: Vec<String>,
}

fn vectors() -> Vec<RuleVector> {
    let text = std::fs::read_to_string(testing::fixture("cel/rules.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn with_rule(schema: &Value, rule: &str) -> Schema {
    let mut schema = schema.clone();
    schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
    Schema::compile(&serde_json::from_value::<SchemaDefinition>(schema).unwrap()).unwrap()
}

fn compile(rule: &str, decl: &Decl) -> Result<Program, ProgramError> {
    let mut allowance = SchemaAllowance::unlimited();
    Program::compile(rule, decl, ResultType::Bool, &mut |pattern| pattern_of(pattern, &mut allowance))
}

#[test]
fn rules_compile_exactly_where_kubernetes_compiles_them() {
    // CEL-006 to CEL-009
    let mut differences = String::new();
    for vector in vectors() {
        let definition: SchemaDefinition = serde_json::from_value(vector.schema).unwrap();
        let ours =
            Decl::for_node(&definition).ok_or(ProgramError::NoType).and_then(|decl| compile(&vector.rule, &decl));
        if ours.is_err() != vector.error.is_some() {
            let _ = writeln!(differences, "{}: {:?}, want {:?}", vector.rule, ours.err(), vector.error);
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

#[test]
fn results_are_those_of_kubernetes() {
    // CEL-020 to CEL-025
    let mut differences = String::new();
    for vector in vectors().into_iter().filter(|vector| vector.error.is_none()) {
        let schema = with_rule(&vector.schema, &vector.rule);
        for (value, want) in vector.values.iter().zip(&vector.results) {
            let violations = schema.rule_violations(value, vector.old.as_ref());
            let ours = violations.first().map_or("true", |violation| match violation.rule {
                "CEL-022" => "false",
                _ => "error",
            });
            if ours != want.split(':').next().unwrap_or_default() {
                let _ = writeln!(differences, "{}: {ours} {violations:?}, want {want}", vector.rule);
            }
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

#[test]
fn estimates_accept_and_refuse_the_rules_that_kubernetes_does() {
    // CEL-011, CEL-014, CEL-015, CEL-028
    let mut differences = String::new();
    for vector in vectors().into_iter().filter(|vector| vector.error.is_none()) {
        let definition: SchemaDefinition = serde_json::from_value(vector.schema).unwrap();
        let decl = Decl::for_node(&definition).unwrap();
        let ours = compile(&vector.rule, &decl).unwrap().cost;
        let theirs = vector.cost.unwrap();
        let is_higher = ours > theirs.saturating_add(theirs / 10).saturating_add(2);
        if is_higher || (ours > PER_RULE) != (theirs > PER_RULE) {
            let _ = writeln!(differences, "{}: {ours}, want {theirs}", vector.rule);
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

/// A schema with the answer of kube-apiserver to a CustomResourceDefinition with it.
#[derive(Deserialize)]
struct CostVector {
    schema: Value,
    code: u16,
}

#[test]
fn schemas_are_refused_for_their_cost_where_kubernetes_refuses_them() {
    // CEL-011, CEL-012, CEL-028
    let text = std::fs::read_to_string(testing::fixture("cel/costs.jsonl")).unwrap();
    let mut differences = String::new();
    let (mut accepted, mut refused) = (0, 0);
    for line in text.lines() {
        let CostVector { schema, code } = serde_json::from_str(line).unwrap();
        let definition: SchemaDefinition = serde_json::from_value(schema.clone()).unwrap();
        let mut found = Findings::default();
        openapi::check(&definition, &Path::ROOT, &mut SchemaAllowance::unlimited(), &mut found);
        let is_accepted = found.error_count() == 0;
        if is_accepted {
            accepted += 1;
        } else {
            refused += 1;
        }
        if is_accepted != (code == 201) {
            let _ = writeln!(differences, "{schema}: want {code}, {found:?}");
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
    assert!(accepted > 100 && refused > 100, "{accepted}, {refused}");
}

#[test]
fn a_refusal_names_the_function_whose_result_has_no_maximum_size() {
    // CEL-028
    for (message, want) in [
        ("'is ' + string(self.n)", Some("string")),
        ("self.a.lowerAscii() + string(self.n)", Some("string")),
        ("(self.n > 1 ? self.a : self.a.lowerAscii().charAt(0)) + 'x'", Some("charAt")),
        ("string(self.n).substring(1) + self.a.trim()", Some("string")),
        ("[self.a].map(x, self.u.map(y, y + y).join(x)).join('')", None),
        ("self.a.lowerAscii() + self.a.trim()", None),
    ] {
        let definition: SchemaDefinition = serde_json::from_value(json!({"type": "object", "properties": {
            "n": {"type": "integer"}, "a": {"type": "string", "maxLength": 20},
            "u": {"type": "array", "items": {"type": "string"}}}}))
        .unwrap();
        let decl = Decl::for_node(&definition).unwrap();
        let mut allowance = SchemaAllowance::unlimited();
        let program =
            Program::compile(message, &decl, ResultType::Text, &mut |pattern| pattern_of(pattern, &mut allowance));
        assert_eq!(program.unwrap().unbounded, want, "{message}");
    }
}

#[test]
fn a_transition_rule_compares_by_key_and_only_with_old_values() {
    // CEL-021
    let schema: SchemaDefinition = serde_json::from_value(json!({"type": "object",
        "properties": {"a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]},
            "l": {"type": "array", "items": {"type": "integer"},
                "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
            "m": {"type": "object", "additionalProperties":
                {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}}}}))
    .unwrap();
    let schema = Schema::compile(&schema).unwrap();
    let new = json!({"a": 1, "l": [1], "m": {"x": 1, "y": 1}});
    for (old, want) in [
        (None, &[][..]),
        (Some(json!(null)), &[][..]),
        (Some(json!({})), &[][..]),
        (Some(json!("text")), &[][..]),
        (Some(new.clone()), &[][..]),
        (Some(json!({"a": 2, "l": [2], "m": {"x": 2, "z": 2}})), &["[x]", ".a", ".l"][..]),
    ] {
        let violations = schema.rule_violations(&new, old.as_ref());
        let places: Vec<&str> = violations.iter().map(|violation| violation.place.trim_start_matches(".m")).collect();
        let mut sorted = places.clone();
        sorted.sort_unstable();
        let mut want = want.to_vec();
        want.sort_unstable();
        assert_eq!(sorted, want, "{old:?}");
    }
}

#[test]
fn numbers_durations_and_bytes_have_the_types_of_the_schema() {
    // CEL-007, CEL-027
    for (node, rule, value) in [
        (json!({"type": "integer"}), "type(self) == int", json!(3)),
        (json!({"type": "number"}), "type(self) == double && self == 3.0", json!(3)),
        (json!({"x-kubernetes-int-or-string": true}), "type(self) == int", json!(3)),
        (json!({"x-kubernetes-int-or-string": true}), "type(self) == string", json!("3")),
        (json!({"type": "string", "format": "byte"}), "self == b'ab'", json!("YWI=")),
        (json!({"type": "string", "format": "duration"}), "self == duration('36h')", json!("1 day 12 hours")),
        (json!({"type": "string", "format": "date"}), "self == timestamp('2024-02-29T00:00:00Z')", json!("2024-02-29")),
        (json!({"type": "string", "format": "datetime"}), "type(self) == string", json!("2024-02-29T00:00:00Z")),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}},
                "x-kubernetes-preserve-unknown-fields": true}),
            "self == self && !has(self.a)",
            json!({"b": {"c": 1}}),
        ),
    ] {
        assert_eq!(with_rule(&node, rule).rule_violations(&value, None), [], "{rule}");
    }
}

#[test]
fn a_value_of_another_type_fails_a_rule_that_uses_it() {
    // CEL-025
    for (node, value) in [
        (json!({"type": "integer"}), json!(3.0)),
        (json!({"type": "string"}), json!(3)),
        (json!({"type": "boolean"}), json!("true")),
        (json!({"type": "array", "items": {"type": "string"}}), json!({})),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), json!([])),
        (json!({"x-kubernetes-int-or-string": true}), json!(true)),
    ] {
        let violations = with_rule(&node, "self == self").rule_violations(&value, None);
        assert_eq!(
            violations.iter().map(|violation| violation.rule).collect::<Vec<_>>(),
            ["CEL-025"],
            "{node} {value}"
        );
        assert_eq!(with_rule(&node, "true || self == self").rule_violations(&value, None), [], "{node} {value}");
    }
}

#[test]
fn a_budget_is_for_one_value() {
    // CEL-026
    let rule = "self.all(a, self.all(b, a <= b || a > b))";
    let numbers: Vec<u32> = (0..300).collect();
    let many = vec![json!({"rule": rule}); 30];
    let schema: SchemaDefinition = serde_json::from_value(json!({"type": "array", "items": {"type": "integer"},
        "x-kubernetes-validations": many}))
    .unwrap();
    let schema = Schema::compile(&schema).unwrap();
    for _ in 0..2 {
        let violations = schema.rule_violations(&json!(numbers), None);
        assert!(matches!(violations.as_slice(), [only] if only.rule == "CEL-026"), "{violations:?}");
    }
    assert_eq!(schema.rule_violations(&json!([1, 2]), None), []);
}

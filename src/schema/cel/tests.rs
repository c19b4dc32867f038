//! The same verdicts, costs and results as Kubernetes, on recorded vectors.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use super::check::{Wanted, compile};
use super::cost::estimate;
use super::types::Decl;
use crate::schema::{Definition, Schema};

/// A rule with what kube-apiserver's libraries made of it.
#[derive(Deserialize)]
struct Vector {
    schema: Value,
    rule: String,
    #[serde(default)]
    values: Vec<Value>,
    old: Option<Value>,
    /// Why it does not compile.
    error: Option<String>,
    cost: Option<u64>,
    #[serde(default)]
    results: Vec<String>,
}

fn vectors() -> Vec<Vector> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/cel/rules.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn with_rule(schema: &Value, rule: &str) -> Schema {
    let mut schema = schema.clone();
    schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
    Schema::compile(&serde_json::from_value::<Definition>(schema).unwrap()).unwrap()
}

#[test]
fn rules_compile_exactly_where_kubernetes_compiles_them() {
    // CEL-006 to CEL-009
    let mut differences = String::new();
    for vector in vectors() {
        let definition: Definition = serde_json::from_value(vector.schema).unwrap();
        let ours = Decl::of(&definition)
            .ok_or_else(|| "no type".to_owned())
            .and_then(|decl| compile(&vector.rule, &decl, Wanted::Bool).map_err(|mistake| mistake.shown(&vector.rule)));
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
fn estimates_are_no_higher_than_those_of_kubernetes_and_refuse_what_has_no_bounds() {
    // CEL-011, CEL-014, CEL-015
    let mut differences = String::new();
    for vector in vectors().into_iter().filter(|vector| vector.error.is_none()) {
        let definition: Definition = serde_json::from_value(vector.schema).unwrap();
        let decl = Decl::of(&definition).unwrap();
        let ours = estimate(&compile(&vector.rule, &decl, Wanted::Bool).unwrap().root, &decl);
        let theirs = vector.cost.unwrap();
        let is_higher = ours > theirs.saturating_add(theirs / 10).saturating_add(2);
        // What Kubernetes cannot estimate it refuses; here that passes, and the budget of the evaluation decides.
        let is_unknown = theirs > u64::MAX / 20;
        let passes = ours <= super::PER_RULE && theirs > super::PER_RULE && !is_unknown;
        if is_higher || passes {
            let _ = writeln!(differences, "{}: {ours}, want {theirs}", vector.rule);
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

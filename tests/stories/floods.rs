//! Classes with thousands of mistakes: an answer that can be read, soon, whatever is wrong thousands of times.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::verdicts::errors_of_class;

const MANY: usize = 10_000;

/// Without optimisation and next to other tests; by itself each takes about a second.
const PATIENCE: Duration = Duration::from_secs(30);

fn variables(count: usize) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "string"}});
    (0..count).map(|i| json!({"name": format!("variable{i}"), "required": false, "schema": schema})).collect()
}

fn patches(selector: &Value, json_patches: &Value) -> Value {
    json!([{"name": "p", "definitions": [{"selector": selector, "jsonPatches": json_patches}]}])
}

fn infrastructure() -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevClusterTemplate",
        "matchResources": {"infrastructureCluster": true}})
}

fn many(value_from: impl Fn(usize) -> Value) -> Value {
    (0..MANY).map(|i| json!({"op": "add", "path": "/spec/a", "valueFrom": value_from(i)})).collect()
}

#[test]
fn templates_of_a_class_have_a_sum() {
    // DEC-44: each template is as long as it may be, and made of actions alone.
    let template = "{{ . }}".repeat(1460);
    assert!(template.len() <= 10_240);
    let class = |count: usize| {
        let templates: Vec<Value> =
            (0..count).map(|_| json!({"op": "add", "path": "/spec/a", "valueFrom": {"template": template}})).collect();
        json!({"patches": patches(&infrastructure(), &templates.into())})
    };
    assert_eq!(errors_of_class(&class(20)), []);
    let errors = errors_of_class(&class(60));
    let (rule, place) = errors.first().unwrap();
    assert_eq!((&**rule, errors.len()), ("DEC-44", 1));
    assert!(
        place.starts_with("spec.patches[0].definitions[0].jsonPatches[") && place.ends_with(".valueFrom.template"),
        "{place}"
    );
}

#[test]
fn a_flood_of_mistakes_is_answered_in_time() {
    let class = |variables: Value, json_patches: Value| {
        json!({"variables": variables,
            "patches": patches(&infrastructure(), &json_patches)})
    };
    let rules: Value = (0..MANY).map(|i| json!({"rule": format!("self.startsWit{i}('a')")})).collect();
    let names: Value = (0..MANY).map(|i| json!(format!("worker-{i}"))).collect();
    let pickers =
        json!({"apiVersion": "a/b", "kind": "C", "matchResources": {"machineDeploymentClass": {"names": names}}});
    let template = |i: usize| json!({"template": format!("{{{{ .variabel{i} }}}}")});
    for (case, rule, parts) in [
        (
            "undefined variables",
            "PAT-021",
            class(variables(1000), many(|i| json!({"variable": format!("variabel{i}")}))),
        ),
        (
            "builtin variables",
            "PAT-019",
            class(json!([]), many(|i| json!({"variable": format!("builtin.clster.{i}")}))),
        ),
        ("functions", "PAT-018", class(variables(1000), many(|_| json!({"template": "{{ relpace }}"})))),
        ("undefined variables of templates", "", class(variables(1000), many(template))),
        ("selectors", "PAT-033", json!({"patches": patches(&pickers, &json!([{"op": "remove", "path": "/spec/a"}]))})),
        (
            "rules",
            "CEL-009",
            json!({"variables": [{"name": "v", "required": false, "schema": {"openAPIV3Schema":
            {"type": "string", "x-kubernetes-validations": rules}}}]}),
        ),
    ] {
        let begun = Instant::now();
        let errors = errors_of_class(&parts);
        assert!(begun.elapsed() < PATIENCE, "{case} took {:?}", begun.elapsed());
        assert!(errors.iter().all(|error| error.0 == rule), "{case}: {:?}", errors.first());
        assert_eq!(errors.len(), if rule.is_empty() { 0 } else { 2000 }, "{case}: what is kept");
    }
}

//! The cost of CEL rules: a server accepts and refuses a schema exactly where [`topologist::openapi::check`] does
//! (CEL-011, CEL-012, CEL-028).
//!
//! Each schema is sent as that of a CustomResourceDefinition, in a dry run: recorded schemas, whose recorded answers
//! must still be those of the server, and schemas with rules composed from a seed.

use std::fmt::Write as _;

use futures::{StreamExt, stream};
use http::Request;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use topologist::field::{Findings, Path};
use topologist::openapi::{self, SchemaAllowance, SchemaDefinition};

use crate::harness::chance::Chance;
use crate::harness::kubernetes::Kubernetes;

const RECORDED: &str = include_str!("../../fixtures/cel/costs.jsonl");

/// The number of composed schemas.
const COMPOSED: u64 = 400;

/// Requests at the same time.
const CONCURRENCY: usize = 6;

#[derive(Deserialize)]
struct RecordedSchema {
    schema: Value,
    code: u16,
}

#[tokio::test]
async fn recorded_schemas_are_accepted_and_refused_as_recorded() {
    let client = Kubernetes::shared().client();
    let schemas: Vec<RecordedSchema> = RECORDED.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answers = answers(&client, schemas.iter().map(|recorded| &recorded.schema)).await;
    let mut differences = String::new();
    for (RecordedSchema { schema, code }, answer) in schemas.iter().zip(answers) {
        if answer.is_ok() != (*code == 201) {
            let _ = writeln!(differences, "{schema}: {answer:?}, recorded {code}");
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

#[tokio::test]
async fn composed_rules_are_accepted_and_refused_as_by_the_server() {
    let client = Kubernetes::shared().client();
    let schemas: Vec<Value> = (0..COMPOSED).map(|seed| Composer(Chance(seed)).schema()).collect();
    let answers = answers(&client, schemas.iter()).await;
    let (mut differences, mut refused) = (String::new(), 0);
    for (schema, answer) in schemas.iter().zip(answers) {
        refused += usize::from(answer.is_err());
        let definition: SchemaDefinition = serde_json::from_value(schema.clone()).unwrap();
        let mut found = Findings::default();
        openapi::check(&definition, &Path::ROOT, &mut SchemaAllowance::unlimited(), &mut found);
        if answer.is_ok() != (found.error_count() == 0) {
            let (errors, _) = found.into_parts();
            let rules = &schema["x-kubernetes-validations"];
            let _ = writeln!(differences, "{rules}: {answer:?}, computed {errors:?}");
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
    let refused = refused * 100 / schemas.len();
    assert!(
        (15..=85).contains(&refused),
        "{refused} % are refused: the rules are too plain or too expensive to compare"
    );
}

/// The answers of the server: the causes of a refusal.
async fn answers(client: &Client, schemas: impl Iterator<Item = &Value>) -> Vec<Result<(), String>> {
    let requests: Vec<_> = schemas.map(|schema| answer(client, schema)).collect();
    stream::iter(requests).buffered(CONCURRENCY).collect().await
}

async fn answer(client: &Client, schema: &Value) -> Result<(), String> {
    let root = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"value": schema}}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": root}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "costs.cel.topologist.dev"},
        "spec": {"group": "cel.topologist.dev", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "costs", "singular": "cost", "kind": "Cost", "listKind": "CostList"}},
    });
    let request = Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All")
        .header("content-type", "application/json")
        .body(definition.to_string().into_bytes())
        .unwrap();
    match client.request::<Value>(request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 422 => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            Err(causes.map(|cause| cause.message.clone()).collect::<Vec<_>>().join("; "))
        }
        Err(error) => panic!("{schema}: {error}"),
    }
}

/// Composes rules over an object with bounded and unbounded fields.
struct Composer(Chance);

impl Composer {
    fn schema(&mut self) -> Value {
        let rule = self.truth(3);
        let validation = if self.0.below(3) == 0 {
            json!({"rule": "true", "messageExpression": self.text(3)})
        } else {
            json!({"rule": rule})
        };
        let short = json!({"type": "string", "maxLength": 8});
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 20},
                "free": {"type": "string"},
                "mode": {"type": "string", "enum": ["fast", "slow"]},
                "count": {"type": "integer"},
                "ratio": {"type": "number"},
                "tags": {"type": "array", "maxItems": 10, "items": short},
                "open": {"type": "array", "items": {"type": "string"}},
                "numbers": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
                "labels": {"type": "object", "maxProperties": 5, "additionalProperties": short},
            },
            "x-kubernetes-validations": [validation],
        });
        // Also as the items of a list, so that the rule runs many times.
        match self.0.below(4) {
            0 => json!({"type": "array", "maxItems": 50, "items": schema}),
            _ => schema,
        }
    }

    fn truth(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.0.pick(&["self.count > 3", "has(self.name)", "self.mode == 'fast'"]).to_owned();
        }
        let below = depth - 1;
        match self.0.below(13) {
            0 => format!("{} == {}", self.text(below), self.text(below)),
            1 => format!("{} < {}", self.number(below), self.number(below)),
            2 => format!("{} in {}", self.text(below), self.texts(below)),
            3 => format!("{}.exists(x, x == {})", self.texts(below), self.text(below)),
            4 => format!("{}.all(x, x.size() < {})", self.texts(below), self.number(below)),
            5 => format!("{}.matches('[a-z]+')", self.text(below)),
            6 => format!("{}.contains({})", self.text(below), self.text(below)),
            7 => format!("{}.startsWith({})", self.text(below), self.text(below)),
            8 => format!("{} && {}", self.truth(below), self.truth(below)),
            9 => format!("{}.isSorted()", self.texts(below)),
            10 => format!("sets.contains({}, {})", self.texts(below), self.texts(below)),
            11 => format!("self.labels.all(k, self.labels[k] != {})", self.text(below)),
            _ => format!("({} ? {} : {}) != ''", self.truth(below), self.text(below), self.text(below)),
        }
    }

    fn number(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.0.pick(&["3", "self.count", "self.numbers[0]"]).to_owned();
        }
        let below = depth - 1;
        match self.0.below(4) {
            0 => format!("{}.size()", self.text(below)),
            1 => format!("{}.size()", self.texts(below)),
            2 => format!("{}.indexOf({})", self.text(below), self.text(below)),
            _ => format!("{} + {}", self.number(below), self.number(below)),
        }
    }

    fn text(&mut self, depth: usize) -> String {
        if depth == 0 {
            let plain = ["self.name", "self.free", "self.mode", "'abc'", "self.tags[0]", "self.labels['k']"];
            return self.0.pick(&plain).to_owned();
        }
        let below = depth - 1;
        match self.0.below(14) {
            0 => format!("string({})", self.number(below)),
            1 | 2 => format!("({} + {})", self.text(below), self.text(below)),
            3 => format!("{}.substring(1)", self.text(below)),
            4 => format!("{}.replace('a', {})", self.text(below), self.text(below)),
            5 => format!("{}.lowerAscii()", self.text(below)),
            6 => format!("{}.charAt(0)", self.text(below)),
            7 => format!("{}.join(',')", self.texts(below)),
            8 => format!("({} ? {} : {})", self.truth(below), self.text(below), self.text(below)),
            9 => format!("{}[0]", self.texts(below)),
            10 => format!("'%s-%d'.format([{}, {}])", self.text(below), self.number(below)),
            11 => format!("{}.max()", self.texts(below)),
            12 => format!("self.?free.orValue({})", self.text(below)),
            _ => format!("{}.find('[a-z]')", self.text(below)),
        }
    }

    fn texts(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.0.pick(&["self.tags", "self.open", "['a', 'b']"]).to_owned();
        }
        let below = depth - 1;
        match self.0.below(6) {
            0 => format!("{}.split(',')", self.text(below)),
            1 => format!("{}.map(x, x + {})", self.texts(below), self.text(below)),
            2 => format!("{}.filter(x, x != {})", self.texts(below), self.text(below)),
            3 => format!("({} + {})", self.texts(below), self.texts(below)),
            4 => format!("[{}, {}]", self.text(below), self.text(below)),
            _ => format!("{}.findAll('a')", self.text(below)),
        }
    }
}

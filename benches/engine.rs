//! What the guard computes, without TLS and on one thread: reviews, compiled classes, re-checks, and growth.
//!
//! Budgets are those of the design. Times are the shortest of many rounds.
//! `cargo bench --profile dist --bench engine -- [PART…]`; exit code 1 when a budget is missed by more than the
//! tolerance.

#![allow(clippy::unwrap_used, clippy::disallowed_macros, unreachable_pub, reason = "a benchmark")]
#![allow(clippy::cast_precision_loss, reason = "counts and times are small")]

mod support {
    pub mod budgets;
    pub mod fleet;
}

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::Request as HttpRequest;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use support::budgets::{Budget, Budgets, micros, millis, shortest};
use support::fleet::{self, Written};
use topologist::admission::{AdmissionSettings, DecodedRequest, Operation, Phase, RawRequest, Verdict};
use topologist::hub::{Cluster, ClusterClass, Kind, ObjectKey};
use topologist::kubernetes::cache::Cache;
use topologist::kubernetes::gather::Gatherer;
use topologist::openapi::SchemaAllowance;
use topologist::telemetry::metrics::Metrics;
use topologist::variables::{ClassCache, ClassSlot, CompiledVariables};
use topologist::webhook::limits::ReviewLimits;
use topologist::webhook::review::ReviewHandler;
use topologist::webhook::routes::router;
use topologist::wire::WireVersion;
use topologist::world::{Facts, Found};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MUTATE: &str = "/mutate-cluster-x-k8s-io-v1beta2-cluster";
const VALIDATE: &str = "/validate-cluster-x-k8s-io-v1beta2-cluster";

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let parts: [(&str, Part); 4] =
        [("reviews", reviews), ("classes", classes), ("rechecks", rechecks), ("growth", growth)];
    let mut budgets =
        Budgets::titled("The engine on one thread; reviews are of a 20 KB Cluster with a class of 20 variables");
    for (_, part) in parts.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name)) {
        part(&mut budgets);
    }
    budgets.finish();
}

/// A part of the benchmark.
type Part = fn(&mut Budgets);

/// A class as the watch delivers it.
fn class(i: usize) -> ClusterClass {
    serde_json::from_value(fleet::class(i)).unwrap()
}

fn cluster(i: usize, written: Written) -> Cluster {
    serde_json::from_value(fleet::cluster(i, 0, written)).unwrap()
}

/// The HTTP handler, in a world of one class: of a server, only TLS and sockets are missing.
fn handler(class: Value) -> Router {
    let cache = Arc::new(Cache::new(Facts::complete([], [serde_json::from_value(class).unwrap()])));
    let handler = ReviewHandler::new(
        Gatherer::new(cache),
        AdmissionSettings::default(),
        ReviewLimits::default(),
        Arc::new(Metrics::default()),
    );
    router(Arc::new(handler))
}

/// Reviews of Clusters.
fn reviews(budgets: &mut Budgets) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (router, with_rules) = (handler(fleet::class(0)), handler(fleet::class_with_rules(0)));
    let post = |path: &str, body: &Bytes| runtime.block_on(post(&router, path, body.clone()));
    let (mut together, mut tree) = (Duration::ZERO, Duration::ZERO);
    for (written, what) in [(Written::ByHand, "as written by hand"), (Written::Completely, "with nothing to default")] {
        let object = fleet::cluster(7, 0, written);
        let body = Bytes::from(fleet::review(&object));
        let answer = |path: &str| String::from_utf8(post(path, &body).to_vec()).unwrap();
        assert_eq!(answer(MUTATE).contains("JSONPatch"), written == Written::ByHand);
        let object = format!("{:.1} KB, {what}", object.to_string().len() as f64 / 1024.0);
        for (path, phase) in [(MUTATE, "defaulted and its variables validated"), (VALIDATE, "validated")] {
            assert!(answer(path).contains("\"allowed\":true"), "{}", answer(path));
            let time = shortest(400, || drop(black_box(post(path, &body))));
            budgets.note(&format!("{phase} ({object})"), "µs", Budget::AtMost(80.0), micros(time));
            if written == Written::ByHand {
                together += time;
            }
        }
        tree = shortest(400, || drop(black_box(serde_json::from_slice::<Value>(&body).unwrap())));
    }
    budgets.note("both, one after the other (as written by hand)", "µs", Budget::None, micros(together));
    let body = Bytes::from(fleet::review(&fleet::cluster(7, 0, Written::Completely)));
    let post = || runtime.block_on(self::post(&with_rules, MUTATE, body.clone()));
    assert!(post().starts_with(b"{\"apiVersion\"") && String::from_utf8_lossy(&post()).contains("\"allowed\":true"));
    let time = shortest(400, || drop(black_box(post())));
    budgets.note("defaulted, and 20 CEL rules run on 9 variables", "µs", Budget::None, micros(time));
    budgets.note("for comparison: the same body as a tree of JSON values", "µs", Budget::None, micros(tree));
}

async fn post(router: &Router, path: &str, body: Bytes) -> Bytes {
    let request = HttpRequest::post(path).body(Body::from(body)).unwrap();
    router.clone().oneshot(request).await.unwrap().into_body().collect().await.unwrap().to_bytes()
}

/// Classes are compiled once per content, and not by reviews (DEC-39).
fn classes(budgets: &mut Budgets) {
    let facts = Facts::complete([], (0..50).map(|i| with_name(class(0), i)));
    let compiled = |i: usize| match facts.class(&ObjectKey::new(fleet::NAMESPACE, format!("class-{i}"))) {
        Found::Yes(class) => class.variables().unwrap().clone(),
        _ => unreachable!("it was put in"),
    };
    let first = compiled(0);
    let is_other = |variables: &CompiledVariables| {
        variables.iter().zip(first.iter()).any(|(one, other)| !std::ptr::eq(one, other))
    };
    let others = (0..50).filter(|i| is_other(&compiled(*i))).count();
    budgets.note("50 classes of equal content: compiled", "times", Budget::AtMost(1.0), 1.0 + others as f64);
    let object = class(0);
    let definitions = object.status.variables.clone();
    let cold =
        shortest(20, || drop(black_box(CompiledVariables::compile(&definitions, &mut SchemaAllowance::unlimited()))));
    budgets.note("compiling the 20 variables of a class", "ms", Budget::None, millis(cold));
    let library = Arc::new(ClassCache::default());
    let slot = ClassSlot::new(&library);
    slot.compile(&definitions, &mut SchemaAllowance::unlimited()).unwrap();
    let hot = shortest(20, || drop(black_box(library.look_up(&definitions, &mut SchemaAllowance::unlimited()))));
    budgets.note("finding them compiled", "ms", Budget::None, millis(hot));
    let (large, facts) = (fleet::large_class().to_string(), Arc::new(Facts::default()));
    let admit = || judge(Kind::ClusterClass, Phase::Validate, &large, None, &facts);
    assert!(admit().is_allowed(), "{:?}", admit().errors());
    let time = shortest(50, || drop(black_box(admit())));
    budgets.note(
        "admitting a class of 50 variables, 100 patches and 20 CEL rules",
        "ms",
        Budget::AtMost(5.0),
        millis(time),
    );
}

fn with_name(mut class: ClusterClass, i: usize) -> ClusterClass {
    class.metadata.name = format!("class-{i}");
    class
}

const CLUSTERS: usize = 2000;

type Edit<'a> = &'a dyn Fn(&mut Value);

/// What a change of a class means for the Clusters that use it (DEC-1).
fn rechecks(budgets: &mut Budgets) {
    let clusters = (0..CLUSTERS).map(|i| cluster(i, Written::Completely));
    let facts = Arc::new(Facts::complete(clusters, [class(0)]));
    let old = fleet::class(0);
    let schema = |class: &mut Value, name: &str, keyword: &str, value: Value| {
        let variables = class["spec"]["variables"].as_array_mut().unwrap();
        let variable = variables.iter_mut().find(|variable| variable["name"] == name).unwrap();
        variable["schema"]["openAPIV3Schema"][keyword] = value;
    };
    let all = |class: &mut Value| {
        for variable in class["spec"]["variables"].as_array_mut().unwrap() {
            variable["schema"]["openAPIV3Schema"]["description"] = json!("explained at last");
        }
    };
    let edits: [(&str, bool, Edit<'_>); 6] = [
        ("no variable changes", true, &|class| {
            class["spec"]["workers"]["machineDeployments"][0]["minReadySeconds"] = json!(5);
        }),
        ("one variable changes", true, &|class| schema(class, "etcdQuotaGiB", "maximum", json!(128))),
        ("all 20 variables change", true, &all),
        ("all 20 variables change, one gets a default", true, &|class| {
            all(class);
            schema(
                class,
                "oidc",
                "properties",
                json!({
                "issuer": {"type": "string"}, "clientID": {"type": "string"}, "usernameClaim": {"type": "string"},
                "groupsClaim": {"type": "string"}, "prefix": {"type": "string", "default": "oidc:"}}),
            );
        }),
        ("one variable changes, and no Cluster fits", false, &|class| schema(class, "region", "enum", json!(["mars"]))),
        ("all 20 variables change, and no Cluster fits", false, &|class| {
            all(class);
            schema(class, "region", "enum", json!(["mars"]));
        }),
    ];
    for (what, allowed, edit) in edits {
        let mut new = old.clone();
        edit(&mut new);
        new["metadata"]["generation"] = json!(2);
        let (new, old) = (new.to_string(), old.to_string());
        let verdict = || judge(Kind::ClusterClass, Phase::Validate, &new, Some(&old), &facts);
        assert_eq!(verdict().is_allowed(), allowed, "{what}: {:?}", verdict().errors().first());
        let time = shortest(8, || drop(black_box(verdict())));
        budgets.note(&format!("{CLUSTERS} Clusters re-checked: {what}"), "ms", Budget::AtMost(200.0), millis(time));
    }
}

fn judge(kind: Kind, phase: Phase, new: &str, old: Option<&str>, facts: &Arc<Facts>) -> Verdict {
    let request = RawRequest {
        phase,
        kind,
        version: WireVersion::V1Beta2,
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        name: "bench",
        object: Some(new),
        old_object: old,
        old_version: WireVersion::V1Beta2,
    };
    match DecodedRequest::decode(&request) {
        Ok(question) => question.settle(facts, &AdmissionSettings::default()),
        Err(verdict) => *verdict,
    }
}

/// Four times the size may cost this many times as much: more than 4, as larger things are in slower memory,
/// and far less than the 16 of quadratic growth.
const GROWTH: f64 = 8.0;

/// A class and a Cluster of a size.
type Shape = fn(usize) -> (Value, Value);

/// Whether time grows with size, whatever it is that grows.
fn growth(budgets: &mut Budgets) {
    let shapes: [(&str, usize, Shape); 12] = [
        ("variables of a class and of a Cluster", 1000, many_variables),
        ("variables that the class does not define", 8000, |n| {
            (wide_class(1000), with_values(n, |i| (format!("u{i}"), json!(1))))
        }),
        ("values with the same name", 8000, |n| (wide_class(1), with_values(n, |_| ("v0".into(), json!("x"))))),
        ("required variables that are missing", 1000, |n| {
            (required_class(n), with_values(1, |_| ("v0".into(), json!("x"))))
        }),
        ("machine deployments with overrides", 2000, many_deployments),
        ("machine deployments whose overrides are wrong", 2000, wrong_deployments),
        ("elements of a list", 100_000, |n| {
            one_value((0..n).map(|i| json!({"name": format!("n{i}"), "size": i})).collect())
        }),
        ("elements of a list without their defaults", 20_000, |n| {
            one_value((0..n).map(|i| json!({"name": format!("n{i}")})).collect())
        }),
        ("wrong elements of a list", 20_000, |n| one_value((0..n).map(|_| json!({"name": 5, "size": "x"})).collect())),
        ("unknown fields under a long name", 20_000, |n| {
            let fields: serde_json::Map<String, Value> = (0..n).map(|i| (format!("u{i}"), json!(1))).collect();
            map_value(json!({"x".repeat(20 * n): fields}))
        }),
        ("wrong fields under a long name", 20_000, |n| {
            let fields: Vec<Value> = (0..n).map(|_| json!({"size": "x"})).collect();
            map_value(json!({"x".repeat(20 * n): {"list": fields}}))
        }),
        ("levels of nesting", 120, |n| tree_value((0..n).fold(json!({"size": 1}), |below, _| json!({"down": below})))),
    ];
    for (what, size, shape) in shapes {
        let measure = |size: usize| {
            let (class, cluster) = shape(size);
            let facts = Arc::new(Facts::complete([], [serde_json::from_value::<ClusterClass>(class).unwrap()]));
            let text = cluster.to_string();
            let both = || {
                for phase in [Phase::Default, Phase::Validate] {
                    drop(black_box(judge(Kind::Cluster, phase, &text, None, &facts)));
                }
            };
            (shortest(5, both), text.len())
        };
        let ((small, _), (large, bytes)) = (measure(size / 4), measure(size));
        let what = format!("{size} {what} ({} KB, {:.1} ms), against a quarter of them", bytes / 1024, millis(large));
        budgets.note(&what, "×", Budget::AtMost(GROWTH), large.as_secs_f64() / small.as_secs_f64());
    }
}

fn class_of(variables: Vec<Value>) -> Value {
    let mut class = fleet::class(0);
    class["spec"]["variables"] = variables.into();
    class["status"] = json!({});
    class
}

fn wide_class(count: usize) -> Value {
    class_of((0..count).map(|i| definition(&format!("v{i}"), false, json!({"type": "string"}))).collect())
}

fn required_class(count: usize) -> Value {
    class_of((0..count).map(|i| definition(&format!("v{i}"), true, json!({"type": "string"}))).collect())
}

fn definition(name: &str, required: bool, schema: Value) -> Value {
    json!({"name": name, "required": required, "schema": {"openAPIV3Schema": schema}})
}

/// A Cluster with these variables.
fn with_values(count: usize, value: impl Fn(usize) -> (String, Value)) -> Value {
    let mut cluster = fleet::cluster(0, 0, Written::ByHand);
    let values: Vec<Value> = (0..count).map(value).map(|(name, value)| json!({"name": name, "value": value})).collect();
    let topology = &mut cluster["spec"]["topology"];
    topology["variables"] = values.into();
    topology["controlPlane"] = json!({"replicas": 3});
    topology["workers"] = json!({"machineDeployments": []});
    cluster
}

fn many_variables(count: usize) -> (Value, Value) {
    let schema = json!({"type": "object", "properties": {"size": {"type": "integer", "default": 1}}});
    let class = class_of((0..count).map(|i| definition(&format!("v{i}"), true, schema.clone())).collect());
    (class, with_values(count, |i| (format!("v{i}"), if i % 2 == 0 { json!({"size": i}) } else { json!({}) })))
}

fn many_deployments(count: usize) -> (Value, Value) {
    let (class, mut cluster) = one_value(vec![]);
    let deployments: Vec<Value> = (0..count)
        .map(|i| {
            json!({"class": "general", "name": format!("md-{i}"), "metadata": {"labels": {"example.com/pool": "a"}},
                "variables": {"overrides": [{"name": "v0", "value": [{"name": "a", "size": i}]}]}})
        })
        .collect();
    cluster["spec"]["topology"]["workers"]["machineDeployments"] = deployments.into();
    (class, cluster)
}

fn wrong_deployments(count: usize) -> (Value, Value) {
    let (_, mut cluster) = many_deployments(count);
    for deployment in cluster["spec"]["topology"]["workers"]["machineDeployments"].as_array_mut().unwrap() {
        deployment["class"] = json!("unheard-of");
        deployment["variables"]["overrides"][0]["name"] = json!("unheard-of");
    }
    (wide_class(1000), cluster)
}

/// A class of one variable, a list of objects, and a Cluster that sets it.
fn one_value(elements: Vec<Value>) -> (Value, Value) {
    let element = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "pattern": "^[a-z]"}, "size": {"type": "integer", "default": 1}}});
    let class = class_of(vec![definition("v0", false, json!({"type": "array", "items": element}))]);
    (class, with_values(1, |_| ("v0".into(), elements.clone().into())))
}

/// A class of one variable, a map of objects, and a Cluster that sets it.
fn map_value(value: Value) -> (Value, Value) {
    let leaf = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let entry = json!({"type": "object", "properties": {"list": {"type": "array", "items": leaf}}});
    let class = class_of(vec![definition("v0", false, json!({"type": "object", "additionalProperties": entry}))]);
    (class, with_values(1, |_| ("v0".into(), value.clone())))
}

/// A class of one variable, maps in maps, and a Cluster that sets it.
fn tree_value(value: Value) -> (Value, Value) {
    let leaf = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let tree = (0..130).fold(leaf, |below, _| json!({"type": "object", "additionalProperties": below}));
    (class_of(vec![definition("v0", false, tree)]), with_values(1, |_| ("v0".into(), value.clone())))
}

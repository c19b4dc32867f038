//! The in-memory API and a real kube-apiserver are sent the same requests; where their answers differ, ours is wrong.
//!
//! Compared are codes, reasons, details, warnings and whole bodies, after uids, versions, times and generated names
//! have been replaced by what they are. The text behind a field error is not compared, its reason and its field are.

use std::collections::BTreeMap;

use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use serde_json::{Value, json};
use topologist::embedded::{ApiOptions, Embedded};

use crate::harness::kubernetes::Kubernetes;
use crate::harness::wait;
use crate::harness::wait::SOON;

const GROUP: &str = "embedded.topologist.dev";

/// One of the two servers, and what it said last.
struct Side {
    client: Client,
    /// What placeholders stand for: `$RV`, `$UID`, `$CONTINUE`, and what was noted.
    memory: BTreeMap<String, String>,
}

/// An answer as it is compared.
#[derive(Debug, PartialEq)]
struct Answered {
    code: u16,
    warnings: Vec<String>,
    body: Value,
}

impl Side {
    fn new(client: Client) -> Self {
        Side { client, memory: BTreeMap::new() }
    }

    fn filled(&self, text: &str) -> String {
        // Longer names first: one may begin with another.
        self.memory.iter().rev().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    async fn send(&mut self, step: &Step) -> Answered {
        let content_type = match step.content_type {
            "" => "application/json".to_owned(),
            patch => format!("application/{patch}"),
        };
        let request = Request::builder().method(step.method).uri(self.filled(&step.path));
        let request = request.header("Content-Type", content_type).header("Accept", step.accept);
        let request = request.header("User-Agent", "tester/1.0");
        let body = self.filled(&step.body).into_bytes();
        let response = self.client.send(request.body(body.into()).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let mut warnings: Vec<String> =
            response.headers().get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect();
        warnings.sort();
        let bytes = match step.method == "GET" && step.path.contains("watch=") {
            true => self.events(response).await,
            false => response.into_body().collect_bytes().await.unwrap().to_vec(),
        };
        let text = String::from_utf8(bytes).unwrap();
        let mut body: Value = serde_json::from_str(&text).unwrap_or_else(|_| json!(text));
        self.remember(&body, &step.note);
        self.normalise(&mut body, "");
        Answered { code, warnings, body }
    }

    /// The events of a watch, until it ends.
    async fn events(&self, response: http::Response<kube::client::Body>) -> Vec<u8> {
        let text = String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        // When bookmarks are sent is a server's own business.
        let events: Vec<Value> = events
            .into_iter()
            .filter(|event| {
                event["type"] != "BOOKMARK"
                    || event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"
            })
            .collect();
        json!(events).to_string().into_bytes()
    }

    fn remember(&mut self, body: &Value, note: &str) {
        let metadata = &body["metadata"];
        for (name, value) in
            [("$RV", &metadata["resourceVersion"]), ("$UID", &metadata["uid"]), ("$CONTINUE", &metadata["continue"])]
        {
            if let Some(value) = value.as_str() {
                self.memory.insert(name.to_owned(), value.to_owned());
                if !note.is_empty() {
                    self.memory.insert(format!("{name}_{note}"), value.to_owned());
                }
            }
        }
    }

    fn normalise(&self, value: &mut Value, name: &str) {
        match value {
            Value::Object(members) => {
                if members.get("kind").is_some_and(|kind| kind == "Status") {
                    self.normalise_status(members);
                }
                if members.contains_key("generateName") {
                    members.insert("name".to_owned(), json!("<generated>"));
                }
                for (name, member) in members.iter_mut() {
                    self.normalise(member, name);
                }
            }
            Value::Array(elements) => {
                elements.iter_mut().for_each(|element| self.normalise(element, name));
                // They are sorted by time first, so that their order depends on when a second ends.
                if name == "managedFields" {
                    elements.sort_by_key(Value::to_string);
                }
            }
            Value::String(text) => {
                if let Some(shown) = match name {
                    "uid" => Some("<uid>"),
                    "resourceVersion" => Some("<version>"),
                    "creationTimestamp" | "deletionTimestamp" | "time" | "lastTransitionTime" => Some("<time>"),
                    "continue" => Some("<continue>"),
                    _ => None,
                } {
                    shown.clone_into(text);
                }
            }
            _ => {}
        }
    }

    /// The text of field errors is not compared; uids and versions within others are placeholders again.
    fn normalise_status(&self, status: &mut serde_json::Map<String, Value>) {
        let reason = status.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(Value::String(message)) = status.get_mut("message") {
            for (name, value) in &self.memory {
                if name.starts_with("$UID") {
                    *message = message.replace(value.as_str(), "<remembered>");
                } else if name.starts_with("$RV") {
                    *message = message.replace(&format!("({value})"), "(<remembered>)");
                }
            }
            if reason == "Invalid"
                && let Some((before, _)) = message.split_once(" is invalid: ")
            {
                *message = format!("{before} is invalid");
            }
        }
        if let Some(Value::Array(causes)) = status.get_mut("details").and_then(|details| details.get_mut("causes")) {
            for cause in causes.iter_mut().filter(|_| reason == "Invalid") {
                cause["message"] = json!("<text>");
            }
            causes.sort_by_key(Value::to_string);
        }
    }
}

/// A request to both.
#[derive(Clone, Default)]
struct Step {
    method: &'static str,
    path: String,
    content_type: &'static str,
    accept: &'static str,
    body: String,
    /// Under which name the version and the uid of the answer are kept.
    note: String,
    /// Only the code and the reason are compared: the words are those of a decoder.
    loosely: bool,
}

impl Step {
    fn note(mut self, name: &str) -> Self {
        name.clone_into(&mut self.note);
        self
    }

    fn accept(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    fn loosely(mut self) -> Self {
        self.loosely = true;
        self
    }
}

/// Both servers, and where their answers differ.
struct Differential {
    sides: [Side; 2],
    namespace: String,
    differing: Vec<String>,
    compared: usize,
}

impl Differential {
    async fn new(name: &str) -> Self {
        let kubernetes = Kubernetes::shared();
        let namespace = kubernetes.namespace(name).await;
        let embedded = Embedded::new(ApiOptions::default());
        let ours = Side::new(embedded.client());
        let mut both = Differential {
            sides: [ours, Side::new(kubernetes.client())],
            namespace: namespace.clone(),
            differing: Vec::new(),
            compared: 0,
        };
        let made = post(
            "/api/v1/namespaces",
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        );
        let answer = both.sides[0].send(&made).await;
        assert_eq!(answer.code, 201, "{answer:?}");
        both
    }

    /// Serves a kind on both; tests share the real server, and the first of them makes the kind there.
    async fn define(&mut self, definition: &Value) {
        Kubernetes::shared().apply_yaml(&definition.to_string()).await;
        let made = post(DEFINITIONS, definition);
        let answer = self.sides[0].send(&made).await;
        assert_eq!(answer.code, 201, "{answer:?}");
    }

    /// Waits until the real server has done what ours does at once.
    async fn settled(&mut self, step: &Step, is_settled: impl Fn(&Answered) -> bool) {
        let fact = format!("{} {} settles", step.method, step.path);
        let real = &mut self.sides[1];
        wait::until_async(&fact, SOON, async || is_settled(&real.send(step).await), wait::nothing).await;
        self.sides[0].send(step).await;
    }

    async fn step(&mut self, mut step: Step) -> Value {
        step.path = step.path.replace("$NS", &self.namespace);
        step.body = step.body.replace("$NS", &self.namespace);
        let [ours, real] = &mut self.sides;
        let (mut ours, mut real) = (ours.send(&step).await, real.send(&step).await);
        if step.loosely {
            for answer in [&mut ours, &mut real] {
                answer.body = json!({"reason": answer.body["reason"]});
                answer.warnings.clear();
            }
        }
        self.compared += 1;
        if ours != real {
            let difference = json_patch::diff(&ours.body, &real.body);
            self.differing.push(format!(
                "{} {} {}\n  codes (ours, real) {} {}\n  warnings {:?} {:?}\n  from ours to real: {}",
                step.method,
                step.path,
                step.body,
                ours.code,
                real.code,
                ours.warnings,
                real.warnings,
                json!(difference)
            ));
        }
        real.body
    }

    async fn steps(&mut self, steps: Vec<Step>) {
        for step in steps {
            self.step(step).await;
        }
    }

    fn finish(self) {
        assert!(
            self.differing.is_empty(),
            "{} of {} answers differ:\n{}",
            self.differing.len(),
            self.compared,
            self.differing.join("\n")
        );
    }
}

fn request(method: &'static str, path: &str, content_type: &'static str, body: &Value) -> Step {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Step { method, path: path.to_owned(), content_type, accept: "application/json", body, ..Step::default() }
}

fn get(path: &str) -> Step {
    request("GET", path, "", &Value::Null)
}

fn post(path: &str, body: &Value) -> Step {
    request("POST", path, "", body)
}

fn put(path: &str, body: &Value) -> Step {
    request("PUT", path, "", body)
}

fn merge(path: &str, body: &Value) -> Step {
    request("PATCH", path, "merge-patch+json", body)
}

fn apply(path: &str, body: &Value) -> Step {
    request("PATCH", path, "apply-patch+yaml", body)
}

fn delete(path: &str, body: &Value) -> Step {
    request("DELETE", path, "", body)
}

/// A kind with everything that the server does to objects: subresources, keyed lists, defaults, rules.
fn definition() -> Value {
    let text = json!({"type": "string"});
    let port = json!({"type": "object", "required": ["port"], "properties": {"port": {"type": "integer", "format": "int32"},
        "protocol": {"type": "string", "default": "TCP"}, "note": text}});
    let spec = json!({"type": "object", "required": ["color"], "properties": {
        "color": {"type": "string", "enum": ["red", "green", "blue"]},
        "size": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
        "name": {"type": "string", "maxLength": 5, "pattern": "^[a-z]*$"},
        "replicas": {"type": "integer", "format": "int32"},
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"], "items": port},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "list": {"type": "array", "items": text, "maxItems": 3},
        "texts": {"type": "object", "additionalProperties": text},
        "maybe": {"type": "string", "nullable": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "either": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}]},
    }, "x-kubernetes-validations": [{"rule": "!has(self.replicas) || self.replicas <= self.size * 10", "message": "too many replicas"}]});
    let status =
        json!({"type": "object", "properties": {"phase": text, "replicas": {"type": "integer"}, "selector": text}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
            "selectableFields": [{"jsonPath": ".spec.color"}],
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wg"], "categories": ["all"]},
            "versions": [version("v1", true), version("v1beta1", false)]}})
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ALL: &str = "/apis/embedded.topologist.dev/v1/namespaces/$NS/widgets";

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

fn one(name: &str) -> String {
    format!("{ALL}/{name}")
}

#[tokio::test]
async fn custom_objects_are_created_read_and_updated_alike() {
    let mut both = Differential::new("embedded").await;
    both.define(&definition()).await;
    let red = widget("a", json!({"color": "red", "ports": [{"port": 80}], "maybe": null, "size": null}));
    let labelled = |name: &str, metadata: Value| {
        let mut object = widget(name, json!({"color": "red"}));
        json_patch::merge(&mut object["metadata"], &metadata);
        object
    };
    both.steps(vec![
        get(ALL),
        get(&one("a")),
        post(ALL, &red),
        post(ALL, &red),
        get(&one("a")).note("first"),
        get(&format!("{}/status", one("a"))),
        get("/apis/embedded.topologist.dev/v1beta1/namespaces/$NS/widgets/a"),
        get("/apis/embedded.topologist.dev/v1/widgets?fieldSelector=metadata.namespace=$NS"),
        get("/apis/embedded.topologist.dev/v2/namespaces/$NS/widgets/a"),
        get("/apis/embedded.topologist.dev/v1/namespaces/$NS/widgets"),
        post("/apis/embedded.topologist.dev/v1/namespaces/absent-one/widgets", &red),
        get("/apis/embedded.topologist.dev/v1/namespaces/absent-one/widgets"),
        // What cannot be created.
        post(ALL, &json!({"metadata": {"name": "x"}})).loosely(),
        post(ALL, &json!({"apiVersion": "embedded.topologist.dev/v3", "kind": "Widget", "metadata": {"name": "x"}})).loosely(),
        post(ALL, &json!({"apiVersion": "embedded.topologist.dev/v1", "kind": "Widget", "metadata": {"name": "x"}})),
        post(ALL, &json!([])).loosely(),
        Step { body: "{".to_owned(), ..post(ALL, &Value::Null) }.loosely(),
        post(&one("a"), &red),
        post(ALL, &widget("", json!({"color": "red"}))),
        post(ALL, &widget("UPPER", json!({"color": "red"}))),
        post(ALL, &widget("b", json!({}))),
        post(ALL, &widget("b", json!({"color": "pink", "size": 11, "name": "toolong", "list": ["a", "b", "c", "d"]}))),
        post(ALL, &widget("b", json!({"color": "red", "name": "A1", "replicas": "x"}))),
        post(ALL, &widget("b", json!({"color": "red", "tags": ["a", "a"], "ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}))),
        post(ALL, &widget("b", json!({"color": "red", "replicas": 100}))),
        post(ALL, &labelled("b", json!({"namespace": "other"}))),
        post(ALL, &labelled("b", json!({"labels": {"a b": "c d"}, "annotations": {"x y": "z"}}))),
        post(ALL, &labelled("b", json!({"labels": {"n": 5}}))).loosely(),
        post(ALL, &labelled("b", json!({"labels": "n"}))).loosely(),
        post(ALL, &labelled("b", json!({"finalizers": ["x"], "ownerReferences": [{"name": "x"}]}))),
        post(ALL, &labelled("b", json!({"resourceVersion": "5"}))),
        // Unknown and repeated fields.
        post(ALL, &widget("unknown", json!({"color": "red", "colour": "red", "free": {"any": 1}, "ports": [{"port": 1, "x": 2}]}))),
        post(&format!("{ALL}?fieldValidation=Ignore"), &widget("ignored", json!({"color": "red", "colour": "red"}))),
        post(&format!("{ALL}?fieldValidation=Strict"), &widget("strict", json!({"color": "red", "colour": "red"}))),
        post(&format!("{ALL}?fieldValidation=Other"), &widget("strict", json!({"color": "red"}))),
        post(&format!("{ALL}?fieldValidation=Strict"), &labelled("strict", json!({"unknown": 1}))),
        Step {
            body: r#"{"apiVersion":"embedded.topologist.dev/v1","kind":"Widget","metadata":{"name":"twice"},
                "spec":{"color":"red","color":"green"}}"#
                .to_owned(),
            ..post(ALL, &Value::Null)
        },
        Step {
            body: r#"{"apiVersion":"embedded.topologist.dev/v1","kind":"Widget","metadata":{"name":"twice"},
                "spec":{"color":"red","color":"green"}}"#
                .to_owned(),
            ..post(&format!("{ALL}?fieldValidation=Strict"), &Value::Null)
        },
        // Dry runs and generated names.
        post(&format!("{ALL}?dryRun=All"), &widget("dry", json!({"color": "red"}))),
        post(&format!("{ALL}?dryRun=Some"), &widget("dry", json!({"color": "red"}))),
        get(&one("dry")),
        post(ALL, &json!({"apiVersion": "embedded.topologist.dev/v1", "kind": "Widget", "metadata": {"generateName": "gen-"}, "spec": {"color": "red"}})),
        post(&format!("{ALL}?fieldManager=me"), &labelled("managed", json!({"labels": {"l": "1"}, "generation": 7, "uid": "x", "creationTimestamp": "2020-01-01T00:00:00Z"}))),
        // Updates.
        get(&one("a")),
        put(&one("a"), &widget("a", json!({"color": "green"}))),
        put(&one("absent"), &labelled("absent", json!({"resourceVersion": "1"}))),
        put(&one("a"), &labelled("b", json!({"resourceVersion": "$RV"}))),
        put(&one("a"), &labelled("a", json!({"resourceVersion": "1"}))),
        put(&one("a"), &labelled("a", json!({"resourceVersion": "$RV", "uid": "other"}))),
        put(&one("a"), &labelled("a", json!({"resourceVersion": "$RV", "labels": {"a": "1"}}))),
        get(&one("a")),
        put(&one("a"), &labelled("a", json!({"resourceVersion": "$RV", "labels": {"a": "1"}}))),
        get(&one("a")),
        put(&one("a"), &{
            let mut object = widget("a", json!({"color": "green", "fixed": "x"}));
            object["metadata"]["resourceVersion"] = json!("$RV");
            object["status"] = json!({"phase": "sent"});
            object
        }),
        get(&one("a")),
        put(&one("a"), &{
            let mut object = widget("a", json!({"color": "green", "fixed": "y"}));
            object["metadata"]["resourceVersion"] = json!("$RV");
            object
        }),
        put(&format!("{}?dryRun=All", one("a")), &{
            let mut object = widget("a", json!({"color": "blue", "fixed": "x"}));
            object["metadata"]["resourceVersion"] = json!("$RV");
            object
        }),
        get(&one("a")),
        put(&one("a"), &labelled("a", json!({"resourceVersion": "$RV_first"}))),
        put(&one("a"), &labelled("a", json!({"resourceVersion": "$RV", "creationTimestamp": "2020-01-01T00:00:00Z"}))),
    ])
    .await;
    both.finish();
}

#[tokio::test]
async fn custom_objects_are_applied_patched_and_scaled_alike() {
    let mut both = Differential::new("embedded").await;
    both.define(&definition()).await;
    let config = |spec: Value| widget("a", spec);
    let apply_as = |manager: &str, spec: Value| apply(&format!("{}?fieldManager={manager}", one("a")), &config(spec));
    let forced =
        |manager: &str, spec: Value| apply(&format!("{}?fieldManager={manager}&force=true", one("a")), &config(spec));
    let with_metadata = |metadata: Value, spec: Value| {
        let mut config = widget("a", spec);
        json_patch::merge(&mut config["metadata"], &metadata);
        config
    };
    let by = |manager: &str| format!("{}?fieldManager={manager}", one("a"));
    both.steps(vec![
        apply(&one("a"), &config(json!({"color": "red"}))),
        apply(&format!("{}?fieldManager=ann&dryRun=All", one("a")), &config(json!({"color": "red"}))),
        apply(&by("ann"), &with_metadata(json!({"uid": "some"}), json!({"color": "red"}))),
        apply_as("ann", json!({})),
        apply_as("ann", json!({"color": "red", "ports": [{"port": 80, "note": "x"}], "tags": ["a"], "texts": {"k": "1"}})),
        apply_as("ann", json!({"color": "red", "ports": [{"port": 80, "note": "x"}], "tags": ["a"], "texts": {"k": "1"}})),
        get(&one("a")),
        apply_as("bob", json!({"color": "green", "ports": [{"port": 80, "note": "y"}, {"port": 81}], "tags": ["b"]})),
        apply_as("bob", json!({"color": "red", "ports": [{"port": 81}], "tags": ["b"], "texts": {"l": "2"}})),
        forced("bob", json!({"color": "green", "ports": [{"port": 80, "note": "y"}]})),
        apply_as("ann", json!({"color": "green", "tags": ["c"]})),
        apply_as("bob", json!({"color": "green"})),
        get(&one("a")),
        apply_as("ann", json!({"color": "green", "unknown": 1})),
        apply_as("ann", json!({"color": "green", "tags": ["a", "a"]})),
        apply_as("ann", json!({"color": "purple"})),
        apply(&by("ann"), &with_metadata(json!({"managedFields": [{"manager": "x"}]}), json!({"color": "green"}))),
        apply(&by("ann"), &with_metadata(json!({"labels": {"a": "1"}, "finalizers": ["x/y"]}), json!({"color": "green"}))),
        apply(&by("ann"), &with_metadata(json!({"resourceVersion": "1"}), json!({"color": "green"}))),
        apply(&by("ann"), &with_metadata(json!({"uid": "other"}), json!({"color": "green"}))),
        apply(&by("ann"), &with_metadata(json!({"name": "b"}), json!({"color": "green"}))),
        apply(&by("ann"), &json!({"apiVersion": "embedded.topologist.dev/v2", "kind": "Widget", "metadata": {"name": "a"}})).loosely(),
        apply(&by("ann"), &json!({"apiVersion": "embedded.topologist.dev/v1", "kind": "Widget", "metadata": {"name": "a"}})).loosely(),
        apply(&by("ann"), &json!({"metadata": {"name": "a"}})).loosely(),
        apply("/apis/embedded.topologist.dev/v1beta1/namespaces/$NS/widgets/a?fieldManager=ann", &json!({
            "apiVersion": "embedded.topologist.dev/v1beta1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"color": "green", "name": "x"}})),
        apply(&by("ann"), &with_metadata(json!({"labels": {"a": "1"}}), json!({"color": "green"}))),
        Step { body: "apiVersion: embedded.topologist.dev/v1\nkind: Widget\nmetadata: {name: yaml}\nspec: {color: red}\n".to_owned(), ..apply(&format!("{}?fieldManager=ann", one("yaml")), &Value::Null) },
        Step { body: "{{".to_owned(), ..apply(&by("ann"), &Value::Null) }.loosely(),
        // Status.
        apply(&format!("{}/status?fieldManager=ctl", one("a")), &json!({"apiVersion": "embedded.topologist.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "status": {"phase": "Ready"}})),
        apply(&format!("{}/status?fieldManager=ctl", one("absent")), &json!({"apiVersion": "embedded.topologist.dev/v1", "kind": "Widget", "metadata": {"name": "absent"}, "status": {"phase": "Ready"}})),
        merge(&format!("{}/status", one("a")), &json!({"status": {"replicas": 2, "selector": "a=b"}, "spec": {"color": "blue"}, "metadata": {"labels": {"by": "status"}}})),
        get(&one("a")),
        put(&format!("{}/status", one("a")), &json!({"apiVersion": "embedded.topologist.dev/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "$RV"}, "spec": {"color": "blue"}, "status": {"phase": "Put"}})),
        put(&format!("{}/status", one("a")), &json!({"apiVersion": "embedded.topologist.dev/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "1"}, "status": {"phase": "Put"}})),
        put(&format!("{}/status", one("a")), &json!({"apiVersion": "embedded.topologist.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "status": {"phase": "Put"}})),
        merge(&format!("{}/status", one("a")), &json!({"status": {"phase": 5}})),
        merge(&format!("{}/status", one("a")), &json!({"status": null})),
        merge(&format!("{}/status", one("a")), &json!({"status": {"replicas": 2, "selector": "a=b"}})),
        // Other patches.
        merge(&one("a"), &json!({"spec": {"color": "blue", "name": null, "list": ["x"]}, "status": {"phase": "no"}})),
        merge(&one("a"), &json!({"spec": {"color": "blue"}})),
        merge(&format!("{}?dryRun=All&fieldManager=eve", one("a")), &json!({"spec": {"color": "red"}})),
        merge(&one("a"), &json!({"spec": {"colour": "blue"}})),
        merge(&format!("{}?fieldValidation=Strict", one("a")), &json!({"spec": {"colour": "blue"}})),
        merge(&one("a"), &json!({"metadata": {"resourceVersion": "1"}, "spec": {"color": "red"}})),
        merge(&one("a"), &json!({"metadata": {"name": "b"}})),
        merge(&one("a"), &json!({"metadata": {"uid": "b"}})),
        merge(&one("a"), &json!({"metadata": {"creationTimestamp": null, "generation": 77}})),
        merge(&one("a"), &json!({"kind": "Widget"})),
        merge(&one("a"), &json!({"spec": null})),
        merge(&one("a"), &json!({"metadata": {"annotations": {"x": null}, "labels": null}})),
        merge(&one("absent"), &json!({"spec": {"color": "red"}})),
        merge(&format!("{}?force=true", one("a")), &json!({"spec": {"color": "red"}})),
        Step { body: "[]".to_owned(), ..merge(&one("a"), &Value::Null) }.loosely(),
        Step { body: "{".to_owned(), ..merge(&one("a"), &Value::Null) }.loosely(),
        request("PATCH", &one("a"), "json-patch+json", &json!([{"op": "test", "path": "/spec/color", "value": "blue"}, {"op": "replace", "path": "/spec/color", "value": "red"}, {"op": "add", "path": "/spec/list/-", "value": "y"}])),
        request("PATCH", &one("a"), "json-patch+json", &json!([{"op": "test", "path": "/spec/color", "value": "blue"}])),
        // `null` stands for a missing value, but not below a missing object (DEC-118).
        request("PATCH", &one("a"), "json-patch+json", &json!([{"op": "test", "path": "/spec/absent", "value": null}])),
        request("PATCH", &one("a"), "json-patch+json", &json!([{"op": "test", "path": "/spec/color", "value": null}])).loosely(),
        request("PATCH", &one("a"), "json-patch+json", &json!([{"op": "test", "path": "/absent/x", "value": null}])).loosely(),
        request("PATCH", &one("a"), "json-patch+json", &json!([{"op": "test", "path": "/spec/list/7", "value": null}])).loosely(),
        request("PATCH", &one("a"), "json-patch+json", &json!([{"op": "remove", "path": "/spec/absent"}])).loosely(),
        request("PATCH", &one("a"), "json-patch+json", &json!({"op": "remove"})).loosely(),
        request("PATCH", &one("a"), "json-patch+json", &json!([])),
        request("PATCH", &one("a"), "strategic-merge-patch+json", &json!({"spec": {"color": "red"}})),
        request("PATCH", &one("a"), "json", &json!({"spec": {"color": "red"}})),
        // Scale.
        get(&format!("{}/scale", one("a"))),
        merge(&one("a"), &json!({"spec": {"replicas": 4}})),
        get(&format!("{}/scale", one("a"))),
        merge(&format!("{}/scale", one("a")), &json!({"spec": {"replicas": 5}})),
        put(&format!("{}/scale", one("a")), &json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", "namespace": "$NS"}, "spec": {"replicas": 6}})),
        get(&one("a")),
        get(&format!("{}/other", one("a"))),
        merge(&one("a"), &json!({"spec": {"replicas": -1}})),
        merge(&one("a"), &json!({"spec": {"replicas": 99}})),
    ])
    .await;
    both.finish();
}

#[tokio::test]
async fn custom_objects_are_deleted_listed_and_watched_alike() {
    let mut both = Differential::new("embedded").await;
    both.define(&definition()).await;
    let labelled = |name: &str, color: &str, label: &str| {
        let mut object = widget(name, json!({"color": color}));
        object["metadata"]["labels"] = json!({"l": label});
        object
    };
    let held = |name: &str| {
        let mut object = widget(name, json!({"color": "red"}));
        object["metadata"]["finalizers"] = json!(["x/y"]);
        object
    };
    let list = |query: &str| get(&format!("{ALL}?{query}"));
    let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    both.steps(vec![
        get(ALL).note("start"),
        post(ALL, &labelled("a", "red", "1")),
        post(ALL, &labelled("b", "green", "2")),
        post(ALL, &labelled("c", "red", "3")),
        post(ALL, &held("d")),
        list(""),
        list("labelSelector=l%3D1"),
        list("labelSelector=l+in+%281%2C3%29"),
        list("labelSelector=l+notin+%281%2C3%29"),
        list("labelSelector=%21l"),
        list("labelSelector=l,l!%3D2"),
        list("labelSelector=%3D%3D").loosely(),
        list("fieldSelector=metadata.name%3Db"),
        list("fieldSelector=metadata.name!%3Db"),
        list("fieldSelector=metadata.namespace%3Dnone"),
        list("fieldSelector=spec.color%3Dred"),
        list("fieldSelector=spec.size%3D3"),
        list("limit=2").note("page"),
        list("limit=2&continue=$CONTINUE_page"),
        list("limit=2&labelSelector=l"),
        list("limit=10"),
        list("continue=nonsense").loosely(),
        list("resourceVersion=0"),
        list("resourceVersion=$RV_page&resourceVersionMatch=Exact"),
        list("resourceVersion=x").loosely(),
        get(ALL).accept(partial),
        get(&one("a")).accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
        // Deletions.
        delete(&format!("{}?dryRun=All", one("a")), &Value::Null),
        get(&one("a")),
        delete(&one("a"), &json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}})),
        delete(&one("a"), &json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": "1"}})),
        delete(&one("a"), &json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Sideways"})),
        delete(&one("a"), &json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "$UID", "resourceVersion": "$RV"}})),
        delete(&one("a"), &Value::Null),
        delete(&one("d"), &Value::Null),
        delete(&one("d"), &Value::Null),
        delete(&format!("{}?propagationPolicy=Foreground", one("d")), &Value::Null),
        delete(&format!("{}?propagationPolicy=Background", one("d")), &Value::Null),
        get(&one("d")),
        merge(&one("d"), &json!({"metadata": {"finalizers": ["x/y", "new/one"]}})),
        merge(&one("d"), &json!({"metadata": {"deletionTimestamp": null}})),
        merge(&one("d"), &json!({"spec": {"color": "green"}})),
        merge(&one("d"), &json!({"metadata": {"finalizers": null}})),
        get(&one("d")),
        delete(&one("d"), &Value::Null),
        delete(&format!("{ALL}?labelSelector=l%3D2"), &Value::Null),
        get(ALL),
        // What was seen.
        list("watch=1&timeoutSeconds=1&resourceVersion=$RV_start"),
        list("watch=1&timeoutSeconds=1&resourceVersion=$RV_start&labelSelector=l%3D2"),
        list("watch=1&timeoutSeconds=1&resourceVersion=$RV_start&fieldSelector=spec.color%3Dgreen"),
        list("watch=1&timeoutSeconds=1&resourceVersion=$RV_start&fieldSelector=metadata.name%3Dd"),
        list("watch=1&timeoutSeconds=1"),
        list("watch=1&timeoutSeconds=1&resourceVersionMatch=NotOlderThan"),
        request("POST", ALL, "xml", &json!({})),
        list("watch=1&timeoutSeconds=1&resourceVersion=$RV_start&labelSelector=l%3D2")
            .accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
        delete(ALL, &Value::Null),
    ])
    .await;
    both.finish();
}

#[tokio::test]
async fn objects_of_a_servers_own_kinds_are_handled_alike() {
    let mut both = Differential::new("embedded").await;
    let secrets = "/api/v1/namespaces/$NS/secrets";
    let secret = |name: &str, more: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        json_patch::merge(&mut object, &more);
        object
    };
    let maps = "/api/v1/namespaces/$NS/configmaps";
    let map = |name: &str, more: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        json_patch::merge(&mut object, &more);
        object
    };
    let leases = "/apis/coordination.k8s.io/v1/namespaces/$NS/leases";
    let lease = |name: &str, holder: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2030-01-02T03:04:05.000000Z"}})
    };
    both.steps(vec![
        post(secrets, &secret("a", json!({"stringData": {"k": "v"}, "data": {"l": "dw=="}}))),
        post(secrets, &secret("b", json!({"data": {"l": "not base64!"}}))).loosely(),
        post(secrets, &secret("b", json!({"unknown": 1, "data": {"l": "dw=="}}))),
        post(&format!("{secrets}?fieldValidation=Strict"), &secret("c", json!({"unknown": 1}))),
        post(secrets, &secret("c", json!({"type": 5}))).loosely(),
        get(&format!("{secrets}/a")),
        get(secrets),
        get(&format!("{secrets}?fieldSelector=type%3DOpaque")),
        put(&format!("{secrets}/a"), &secret("a", json!({"data": {"l": "eA=="}}))),
        put(&format!("{secrets}/a"), &secret("a", json!({"type": "other", "data": {"l": "eA=="}}))),
        put(&format!("{secrets}/absent"), &secret("absent", json!({}))),
        // No bytes are bytes.
        post(secrets, &secret("empty", json!({"data": {"value": ""}}))),
        merge(&format!("{secrets}/empty"), &json!({"data": {"value": "dw==", "other": ""}})),
        merge(&format!("{secrets}/empty"), &json!({"data": {"value": ""}})),
        get(&format!("{secrets}/empty")),
        delete(&format!("{secrets}/empty"), &Value::Null),
        merge(&format!("{secrets}/a"), &json!({"immutable": true})),
        merge(&format!("{secrets}/a"), &json!({"data": {"l": "eg=="}})),
        merge(&format!("{secrets}/a"), &json!({"immutable": false})),
        apply(&format!("{secrets}/d?fieldManager=ann"), &secret("d", json!({"data": {"l": "dw=="}, "type": "cluster.x-k8s.io/secret"}))),
        apply(&format!("{secrets}/d?fieldManager=ann"), &secret("d", json!({"data": {"m": "dw=="}, "type": "cluster.x-k8s.io/secret"}))),
        apply(&format!("{secrets}/d?fieldManager=bob"), &secret("d", json!({"data": {"m": "eA=="}}))),
        post(&format!("{secrets}/a"), &secret("a", json!({}))),
        delete(&format!("{secrets}/a"), &Value::Null),
        delete(secrets, &Value::Null),
        post(maps, &map("a", json!({"data": {"k": "v"}, "immutable": false}))),
        post(maps, &map("b", json!({"data": {"k": 5}}))).loosely(),
        request("PATCH", &format!("{maps}/a"), "strategic-merge-patch+json", &json!({"data": {"l": "w", "k": null}, "metadata": {"labels": {"x": "y"}}})),
        get(&format!("{maps}/a")),
        post(leases, &lease("a", "one")),
        put(&format!("{leases}/a"), &lease("a", "two")),
        put(&format!("{leases}/new"), &lease("new", "two")),
        get(&format!("{leases}/a")),
        put(&format!("{leases}/a"), &{
            let mut object = lease("a", "three");
            object["metadata"]["resourceVersion"] = json!("$RV");
            object
        }),
        put(&format!("{leases}/a"), &{
            let mut object = lease("a", "four");
            object["metadata"]["resourceVersion"] = json!("1");
            object
        }),
        delete(&format!("{leases}/a"), &Value::Null),
        post("/api/v1/namespaces/$NS/serviceaccounts", &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}})),
        delete("/api/v1/namespaces/$NS/serviceaccounts/a", &Value::Null),
        post("/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$NS-x"}})),
        get("/api/v1/namespaces/$NS-x"),
        merge("/api/v1/namespaces/$NS-x", &json!({"metadata": {"labels": {"a": "b"}}})),
        merge("/api/v1/namespaces/$NS-x", &json!({"metadata": {"finalizers": ["x/y"]}, "spec": {"finalizers": null}})),
        delete("/api/v1/namespaces/$NS-x", &Value::Null),
        post("/api/v1/namespaces/$NS-x/secrets", &secret("late", json!({}))),
        get("/api/v1/namespaces/absent-one"),
        post("/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$NS"}})),
        post("/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a.b"}})),
        post("/api/v1/namespaces?dryRun=All", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dry-$NS"}})),
        delete("/api/v1/namespaces/default", &Value::Null),
        post("/api/v1/namespaces/$NS/events", &json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
            "involvedObject": {"kind": "Widget", "name": "a", "namespace": "$NS"}, "reason": "Tested", "message": "hello", "type": "Normal",
            "firstTimestamp": "2030-01-02T03:04:05Z", "lastTimestamp": "2030-01-02T03:04:05Z", "count": 1, "source": {"component": "tester"}})),
        get("/api/v1/namespaces/$NS/events?fieldSelector=involvedObject.name%3Da,type%3DNormal"),
        get("/api/v1/namespaces/$NS/events?fieldSelector=involvedObject.name%3Db"),
        get("/apis/events.k8s.io/v1/namespaces/$NS/events/e"),
        get("/api/v1/unknown"),
        get("/apis/unknown.example.com/v1/things"),
        request("POST", "/api/v1/namespaces/$NS/secrets", "xml", &json!({})),
    ])
    .await;
    both.finish();
}

#[tokio::test]
async fn definitions_are_served_changed_and_withdrawn_alike() {
    let mut both = Differential::new("embedded").await;
    // A definition is not in a namespace: its name has to be one of its own.
    let group = format!("{}.topologist.dev", both.namespace);
    let one = format!("{DEFINITIONS}/widgets.{group}");
    let all = format!("/apis/{group}/v1/namespaces/$NS/widgets");
    let version = |name: &str, storage: bool, spec: Value| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}}})
    };
    let widgets = |versions: Value| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"}, "versions": versions}})
    };
    let size = json!({"size": {"type": "integer"}});
    let mut misnamed = widgets(json!([version("v1", true, size.clone())]));
    misnamed["metadata"]["name"] = json!("other");
    let widget =
        json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}});
    both.steps(vec![
        get(&one),
        get(&all),
        post(DEFINITIONS, &misnamed),
        post(DEFINITIONS, &widgets(json!([version("v1", false, size.clone())]))),
        post(DEFINITIONS, &widgets(json!([{"name": "v1", "served": true, "storage": true}]))),
        post(DEFINITIONS, &widgets(json!([version("v1", true, size.clone())]))),
    ])
    .await;
    let is_established = |answer: &Answered| {
        let conditions = answer.body["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    };
    both.settled(&get(&one), is_established).await;
    let mut listed = get(&all);
    listed.path = listed.path.replace("$NS", &both.namespace);
    both.settled(&listed, |answer| answer.code == 200).await;
    both.steps(vec![
        get(&one),
        post(DEFINITIONS, &widgets(json!([version("v1", true, size.clone())]))),
        post(&all, &widget),
        // Without a subresource the status is a field like others, if the schema knows it.
        merge(&format!("{all}/a"), &json!({"spec": {"size": 2}, "status": {"phase": "x"}})),
        get(&format!("{all}/a/status")),
        get(&format!("{all}/a/scale")),
        merge(&one, &json!({"spec": {"versions": [version("v1", true, json!({"size": {"type": "integer"}, "color": {"type": "string", "default": "red"}}))]}})),
    ])
    .await;
    let mut changed = get(&format!("{all}/a"));
    changed.path = changed.path.replace("$NS", &both.namespace);
    both.settled(&changed, |answer| answer.body["spec"]["color"] == "red").await;
    both.steps(vec![get(&format!("{all}/a")), get(&one), delete(&one, &Value::Null)]).await;
    both.settled(&get(&one), |answer| answer.code == 404).await;
    both.settled(&listed, |answer| answer.code == 404).await;
    both.steps(vec![get(&one), get(&all)]).await;

    // Without namespaces.
    let mut wide = widgets(json!([version("v1", true, size)]));
    json_patch::merge(
        &mut wide,
        &json!({"metadata": {"name": format!("widgets.{group}")}, "spec": {"scope": "Cluster", "names": {"kind": "Widget", "plural": "widgets"}}}),
    );
    both.define(&wide).await;
    let widgets = format!("/apis/{group}/v1/widgets");
    let widget = |metadata: Value| json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": metadata, "spec": {"size": 1}});
    both.steps(vec![
        post(&widgets, &widget(json!({"name": "a"}))),
        post(&widgets, &widget(json!({"name": "b", "namespace": "$NS"}))),
        get(&format!("{widgets}/a")),
        get(&format!("/apis/{group}/v1/namespaces/$NS/widgets/a")).loosely(),
        apply(&format!("{widgets}/c?fieldManager=ann"), &widget(json!({"name": "c"}))),
        get(&widgets),
        delete(&format!("{widgets}/a"), &Value::Null),
        delete(&widgets, &Value::Null),
        get(&widgets),
    ])
    .await;
    both.finish();
}

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::Request;
use http_body_util::BodyExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::storage::store::KeyRange;
use super::{
    Admission, AdmissionAttributes, AdmissionPhase, ApiOptions, Embedded, Retention, ReviewCallError, Webhook,
};
use model::hub::label::CLUSTER_NAME;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server and a client.
struct TestClient(Embedded);

impl TestClient {
    fn new() -> Self {
        TestClient(Embedded::new(ApiOptions::default()))
    }

    async fn send(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.0.call(request.body(Body::from(body)).unwrap()).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, Value::Null).await
    }

    /// Creates a ConfigMap and returns it.
    async fn map(&self, namespace: &str, name: &str, metadata: Value) -> Value {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        json_patch::merge(&mut object["metadata"], &metadata);
        let (code, object) = self.send("POST", &format!("/api/v1/namespaces/{namespace}/configmaps"), object).await;
        assert_eq!(code, 201, "{object}");
        object
    }

    /// The names of the ConfigMaps in the default namespace.
    async fn names(&self) -> Vec<String> {
        let (_, list) = self.get(MAPS).await;
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(name).collect()
    }

    async fn delete(&self, path: &str, policy: &str) -> Value {
        let (code, answer) = self.send("DELETE", &format!("{path}?propagationPolicy={policy}"), Value::Null).await;
        assert_eq!(code, 200, "{answer}");
        answer
    }
}

fn owner(object: &Value) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "blockOwnerDeletion": true})
}

fn owned_by(owners: &[&Value]) -> Value {
    json!({"ownerReferences": owners.iter().map(|object| owner(object)).collect::<Vec<_>>()})
}

#[tokio::test]
async fn owned_objects_are_deleted_after_their_owner() {
    let server = TestClient::new();
    let root = server.map("default", "root", json!({})).await;
    let other = server.map("default", "other", json!({})).await;
    let middle = server.map("default", "middle", owned_by(&[&root])).await;
    server.map("default", "leaf", owned_by(&[&middle])).await;
    server.map("default", "shared", owned_by(&[&root, &other])).await;
    server.delete(&format!("{MAPS}/root"), "Background").await;
    assert_eq!(server.names().await, ["other", "shared"]);
    let (_, shared) = server.get(&format!("{MAPS}/shared")).await;
    assert_eq!(shared["metadata"]["ownerReferences"], json!([owner(&other)]));
}

#[tokio::test]
async fn owners_of_other_namespaces_and_unknown_owners_count_as_absent() {
    let server = TestClient::new();
    server
        .send(
            "POST",
            "/api/v1/namespaces",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}}),
        )
        .await;
    let far = server.map("far", "far", json!({})).await;
    server.map("default", "a", owned_by(&[&far])).await;
    let mut never = far.clone();
    never["metadata"]["uid"] = json!("never");
    server.map("default", "b", owned_by(&[&never])).await;
    let mut unknown = far.clone();
    unknown["kind"] = json!("Unknown");
    server.map("default", "c", owned_by(&[&unknown])).await;
    let near = server.map("default", "near", json!({})).await;
    let mut renamed = near.clone();
    renamed["metadata"]["name"] = json!("renamed");
    server.map("default", "d", owned_by(&[&renamed])).await;
    // This is unknown for a kind that is not served.
    assert_eq!(server.names().await, ["c", "near"]);
}

#[tokio::test]
async fn an_owner_waits_for_those_that_block_its_deletion() {
    let server = TestClient::new();
    let root = server.map("default", "root", json!({})).await;
    let mut held = owned_by(&[&root]);
    held["finalizers"] = json!(["x/y"]);
    server.map("default", "held", held.clone()).await;
    server.map("default", "free", owned_by(&[&root])).await;
    let answer = server.delete(&format!("{MAPS}/root"), "Foreground").await;
    assert_eq!(answer["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(server.names().await, ["held", "root"]);
    let (_, now) = server.get(&format!("{MAPS}/held")).await;
    assert!(now["metadata"]["deletionTimestamp"].is_string());
    server.send("PATCH", &format!("{MAPS}/held"), json!({"metadata": {"finalizers": null}})).await;
    assert!(server.names().await.is_empty());

    let root = server.map("default", "root", json!({})).await;
    held["ownerReferences"] = json!([owner(&root)]);
    held["ownerReferences"][0]["blockOwnerDeletion"] = json!(false);
    server.map("default", "held", held).await;
    server.delete(&format!("{MAPS}/root"), "Foreground").await;
    assert_eq!(server.names().await, ["held"]);
}

#[tokio::test]
async fn objects_deleted_as_orphans_stay() {
    let server = TestClient::new();
    let root = server.map("default", "root", json!({"finalizers": ["x/y"]})).await;
    server.map("default", "child", owned_by(&[&root])).await;
    server.delete(&format!("{MAPS}/root"), "Orphan").await;
    let (_, root) = server.get(&format!("{MAPS}/root")).await;
    assert_eq!(root["metadata"]["finalizers"], json!(["x/y"]));
    server.send("PATCH", &format!("{MAPS}/root"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(server.names().await, ["child"]);
    let (_, child) = server.get(&format!("{MAPS}/child")).await;
    assert!(child["metadata"].get("ownerReferences").is_none(), "{child}");
}

#[tokio::test]
async fn events_go_an_hour_after_their_last_write() {
    let minutes = Arc::new(AtomicI64::new(0));
    let clock = {
        let minutes = minutes.clone();
        Arc::new(move || Timestamp::from_second(60 * minutes.load(Ordering::Relaxed)).unwrap())
    };
    let server = TestClient(Embedded::new(ApiOptions { clock, ..ApiOptions::default() }));
    let events = "/api/v1/namespaces/default/events";
    let write = async |name: &str, minute: i64| {
        minutes.store(minute, Ordering::Relaxed);
        let about = json!({"kind": "ConfigMap", "namespace": "default", "name": "x"});
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": about});
        let (code, answer) = server.send("POST", events, event).await;
        assert_eq!(code, 201, "{answer}");
    };
    let names = async || -> Vec<String> {
        let (_, list) = server.get(events).await;
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(name).collect()
    };
    write("first", 0).await;
    write("second", 1).await;
    minutes.store(30, Ordering::Relaxed);
    server.send("PATCH", &format!("{events}/first"), json!({"count": 2})).await;
    write("third", 60).await;
    assert_eq!(names().await, ["first", "second", "third"]);
    write("fourth", 61).await;
    assert_eq!(names().await, ["first", "fourth", "third"], "the first has been written again");
    write("fifth", 90).await;
    assert_eq!(names().await, ["fifth", "fourth", "third"]);
    server.map("default", "kept", json!({})).await;
    write("last", 9_000).await;
    assert_eq!((names().await, server.names().await), (vec!["last".to_owned()], vec!["kept".to_owned()]));
}

#[tokio::test]
async fn a_namespace_is_deleted_after_its_objects() {
    let server = TestClient::new();
    let namespace = "/api/v1/namespaces/n";
    let maps = "/api/v1/namespaces/n/configmaps";
    server
        .send("POST", "/api/v1/namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}))
        .await;
    server.map("n", "free", json!({})).await;
    server.map("n", "held", json!({"finalizers": ["x/y"]})).await;
    let (code, answer) = server.send("DELETE", namespace, Value::Null).await;
    assert_eq!((code, &answer["status"]["phase"]), (200, &json!("Terminating")));
    assert_eq!(server.get(maps).await.1["items"].as_array().unwrap().len(), 1);
    let refused =
        server.send("POST", maps, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}})).await;
    assert_eq!((refused.0, &refused.1["details"]["causes"][0]["reason"]), (403, &json!("NamespaceTerminating")));
    server.send("PATCH", &format!("{maps}/held"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(server.get(namespace).await.0, 404);
    assert_eq!(
        server.send("POST", maps, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})).await.0,
        404
    );
}

#[tokio::test]
async fn objects_created_in_a_namespace_or_kind_that_is_being_deleted_are_deleted_at_once() {
    let server = TestClient::new();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    server.send("POST", "/api/v1/namespaces", namespace).await;
    server.map("n", "held", json!({"finalizers": ["x/y"]})).await;
    server.send("DELETE", "/api/v1/namespaces/n", Value::Null).await;
    // An update creates a Lease, and so passes where a creation does not.
    let path = "/apis/coordination.k8s.io/v1/namespaces/n/leases/late";
    let lease = |finalizers: Value| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "late", "finalizers": finalizers}});
    assert_eq!(server.send("PUT", path, lease(json!([]))).await.0, 201);
    assert_eq!(server.get(path).await.0, 404);
    server.send("PUT", path, lease(json!(["x/y"]))).await;
    assert!(server.get(path).await.1["metadata"]["deletionTimestamp"].is_string());
    server.send("PATCH", "/api/v1/namespaces/n/configmaps/held", json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(server.get("/api/v1/namespaces/n").await.0, 200, "the lease is still there");
    server.send("PATCH", path, json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(server.get("/api/v1/namespaces/n").await.0, 404);

    server.send("POST", DEFINITIONS, definition(&["v1"])).await;
    let mut held = thing("held");
    held["metadata"]["finalizers"] = json!(["x/y"]);
    server.send("POST", THINGS, held).await;
    let definition = format!("{DEFINITIONS}/things.t.dev");
    server.send("DELETE", &definition, Value::Null).await;
    let late = format!("{THINGS}/late?fieldManager=m");
    let applied = Request::patch(&late).header("content-type", "application/apply-patch+yaml");
    let response = server.0.call(applied.body(Body::from(thing("late").to_string())).unwrap()).await;
    assert_eq!(response.status(), 201);
    assert_eq!(server.get(&format!("{THINGS}/late")).await.0, 404);
    assert_eq!(server.get(&format!("{THINGS}/held")).await.0, 200);
    server.send("PATCH", &format!("{THINGS}/held"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(server.get(&definition).await.0, 404);
}

fn definition(versions: &[&str]) -> Value {
    let version = |(i, name): (usize, &&str)| {
        let spec = json!({"type": "object", "properties": {"size": {"type": "integer", "default": i + 1}}});
        json!({"name": name, "served": true, "storage": i == 0, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.t.dev"},
        "spec": {"group": "t.dev", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
            "versions": versions.iter().enumerate().map(version).collect::<Vec<_>>()}})
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/t.dev/v1/namespaces/default/things";

fn thing(name: &str) -> Value {
    json!({"apiVersion": "t.dev/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {}})
}

#[tokio::test]
async fn a_definition_is_served_at_once_and_takes_its_objects_with_it() {
    let server = TestClient::new();
    assert_eq!(server.send("POST", DEFINITIONS, definition(&["v1", "v2"])).await.0, 201);
    let (_, made) = server.get(&format!("{DEFINITIONS}/things.t.dev")).await;
    let conditions = made["status"]["conditions"].as_array().unwrap();
    let is_true =
        |name: &str| conditions.iter().any(|condition| condition["type"] == name && condition["status"] == "True");
    assert!(is_true("NamesAccepted") && is_true("Established"), "{made}");
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(made["status"]["acceptedNames"]["listKind"], "ThingList");

    let mut held = thing("a");
    held["metadata"]["finalizers"] = json!(["x/y"]);
    let (code, made) = server.send("POST", THINGS, held).await;
    assert_eq!((code, &made["spec"]["size"]), (201, &json!(1)));
    let (_, other) = server.get("/apis/t.dev/v2/namespaces/default/things/a").await;
    assert_eq!((&other["apiVersion"], &other["spec"]["size"]), (&json!("t.dev/v2"), &json!(1)));

    // A new schema applies to stored objects.
    let mut changed = definition(&["v1", "v2"]);
    let properties =
        &mut changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    *properties = json!({"color": {"type": "string", "default": "red"}});
    let (code, answer) =
        server.send("PATCH", &format!("{DEFINITIONS}/things.t.dev"), json!({"spec": changed["spec"]})).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(server.get(&format!("{THINGS}/a")).await.1["spec"], json!({"color": "red"}));

    let (code, going) = server.send("DELETE", &format!("{DEFINITIONS}/things.t.dev"), Value::Null).await;
    assert!(code == 200 && going["metadata"]["deletionTimestamp"].is_string(), "{going}");
    assert_eq!(server.send("POST", THINGS, thing("b")).await.0, 405);
    server.send("PATCH", &format!("{THINGS}/a"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(server.get(&format!("{DEFINITIONS}/things.t.dev")).await.0, 404);
    assert_eq!(server.get(THINGS).await.0, 404);
    assert!(server.0.registry().group("t.dev").next().is_none());
}

/// The response of a webhook to a request.
type WebhookHandler = dyn Fn(&Webhook, &Value) -> Value + Send + Sync;

/// Webhooks implemented by a function, which record requests.
struct ScriptedWebhooks {
    answer: Box<WebhookHandler>,
    requests: Mutex<Vec<Value>>,
}

impl std::fmt::Debug for ScriptedWebhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

impl Admission for ScriptedWebhooks {
    fn webhooks(&self, phase: AdmissionPhase, attributes: &AdmissionAttributes<'_>) -> Vec<Webhook> {
        let name = match phase {
            AdmissionPhase::Mutating => "mutate.t.dev",
            AdmissionPhase::Validating => "validate.t.dev",
        };
        let is_called = attributes.resource == "configmaps";
        let webhook = Webhook { name: name.to_owned(), path: String::new(), ignores_failure: false };
        is_called.then_some(webhook).into_iter().collect()
    }

    fn review<'a>(&'a self, webhook: &'a Webhook, review: Value) -> BoxFuture<'a, Result<Value, ReviewCallError>> {
        Box::pin(async move {
            let answer = (self.answer)(webhook, &review["request"]);
            self.requests.lock().unwrap().push(review["request"].clone());
            Ok(json!({"response": answer}))
        })
    }
}

fn scripted(
    server: &TestClient,
    answer: impl Fn(&Webhook, &Value) -> Value + Send + Sync + 'static,
) -> Arc<ScriptedWebhooks> {
    let scripted = Arc::new(ScriptedWebhooks { answer: Box::new(answer), requests: Mutex::default() });
    server.0.set_admission(scripted.clone());
    scripted
}

#[tokio::test]
async fn webhooks_change_warn_and_deny() {
    let server = TestClient::new();
    let scripted = scripted(&server, |webhook, request| {
        let patch = json!([{"op": "add", "path": "/data", "value": {"by": "webhook"}}]).to_string();
        match (webhook.name.as_str(), request["name"].as_str().unwrap()) {
            ("mutate.t.dev", _) if request["operation"] == "DELETE" => json!({"allowed": true}),
            ("mutate.t.dev", _) => {
                json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch), "warnings": ["careful"]})
            }
            (_, "bad") => json!({"allowed": false, "status": {"code": 422, "reason": "Invalid", "message": "it is bad",
                "details": {"causes": [{"field": "data", "message": "m", "reason": "FieldValueInvalid"}]}}}),
            (_, "worse") => json!({"allowed": false}),
            _ => json!({"allowed": true}),
        }
    });
    let good = server.map("default", "good", json!({})).await;
    assert_eq!(good["data"], json!({"by": "webhook"}));
    let body = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let (code, denied) = server.send("POST", &format!("{MAPS}?dryRun=All"), body("bad")).await;
    assert_eq!(
        (code, &denied["reason"], &denied["details"]["causes"][0]["field"]),
        (422, &json!("Invalid"), &json!("data"))
    );
    assert_eq!(denied["message"], "admission webhook \"validate.t.dev\" denied the request: it is bad");
    let (code, denied) = server.send("POST", MAPS, body("worse")).await;
    assert_eq!(
        (code, &denied["message"]),
        (400, &json!("admission webhook \"validate.t.dev\" denied the request without explanation"))
    );
    assert_eq!(server.names().await, ["good"]);
    server.delete(&format!("{MAPS}/good"), "Background").await;

    let requests = scripted.requests.lock().unwrap();
    assert_eq!(
        (&requests[1]["object"]["data"]["by"], &requests[1]["operation"]),
        (&json!("webhook"), &json!("CREATE"))
    );
    assert_eq!((&requests[2]["dryRun"], &requests[0]["dryRun"]), (&json!(true), &json!(false)));
    let last = requests.last().unwrap();
    assert_eq!(
        (&last["operation"], &last["object"], &last["oldObject"]["metadata"]["name"]),
        (&json!("DELETE"), &Value::Null, &json!("good"))
    );
}

#[tokio::test]
async fn a_write_is_retried_when_the_object_changes_during_admission() {
    let server = TestClient::new();
    let object = server.map("default", "a", json!({})).await;
    let embedded = server.0.clone();
    let moves = Mutex::new(20);
    scripted(&server, move |webhook, _| {
        let mut left = moves.lock().unwrap();
        if webhook.name == "validate.t.dev" && *left > 0 {
            // A patch is retried.
            *left -= 1;
            let place = super::storage::store::StoreKey { kind: "configmaps".into(), key: "default/a".into() };
            let mut state = embedded.state();
            let mut value = state.get(&place).unwrap().decode();
            value["data"] = json!({"moved": left.to_string()});
            state.put(&place, value);
        }
        json!({"allowed": true})
    });
    let (code, patched) = server.send("PATCH", &format!("{MAPS}/a"), json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!(
        (code, &patched["data"], &patched["metadata"]["labels"]["x"]),
        (200, &json!({"moved": "0"}), &json!("y"))
    );
    // A conditional update is rejected.
    let (code, refused) = server.send("PUT", &format!("{MAPS}/a"), object).await;
    assert_eq!((code, &refused["reason"]), (409, &json!("Conflict")));
}

#[tokio::test(start_paused = true)]
async fn a_watch_sends_existing_objects_then_bookmarks_and_times_out() {
    let server = TestClient::new();
    server.map("default", "a", json!({})).await;
    let query =
        "watch=1&timeoutSeconds=90&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let request = Request::get(format!("{MAPS}?{query}")).body(Body::empty()).unwrap();
    let response = server.0.call(request).await;
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(text.lines().all(|line| line.starts_with("{\"type\":\"")), "{text}");
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["ADDED", "BOOKMARK", "BOOKMARK", "BOOKMARK"]);
    assert_eq!(events[1]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

#[tokio::test]
async fn pages_and_watches_of_forgotten_versions_are_expired() {
    let retention = Retention { changes: 3, ..Retention::default() };
    let server = TestClient(Embedded::new(ApiOptions { retention, ..ApiOptions::default() }));
    let first = server.map("default", "a", json!({})).await;
    let (_, page) = server.get("/api/v1/configmaps?limit=1").await;
    assert!(page["metadata"].get("continue").is_none(), "{page}");
    server.map("default", "b", json!({})).await;
    let (_, page) = server.get("/api/v1/configmaps?limit=1").await;
    let next = page["metadata"]["continue"].as_str().unwrap();
    server.map("default", "aa", json!({})).await;
    let (_, rest) = server.get(&format!("/api/v1/configmaps?limit=1&continue={next}")).await;
    assert_eq!(
        (&rest["items"][0]["metadata"]["name"], &rest["metadata"]["resourceVersion"]),
        (&json!("b"), &page["metadata"]["resourceVersion"])
    );
    for name in ["c", "d", "e", "f"] {
        server.map("default", name, json!({})).await;
    }
    let version = first["metadata"]["resourceVersion"].as_str().unwrap();
    let (code, event) = server.get(&format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={version}")).await;
    assert_eq!(
        (code, &event["type"], &event["object"]["code"], &event["object"]["reason"]),
        (200, &json!("ERROR"), &json!(410), &json!("Expired"))
    );
    let (code, expired) = server.get(&format!("/api/v1/configmaps?limit=1&continue={next}")).await;
    assert_eq!((code, &expired["reason"]), (410, &json!("Expired")));
    let again = expired["metadata"]["continue"].as_str().unwrap();
    let (code, rest) = server.get(&format!("/api/v1/configmaps?continue={again}")).await;
    assert_eq!((code, rest["items"].as_array().unwrap().len()), (200, 6));
}

/// An API whose clock the test sets, in seconds.
fn with_clock(retention: Retention) -> (TestClient, Arc<AtomicI64>) {
    let seconds = Arc::new(AtomicI64::new(1_000_000));
    let clock = {
        let seconds = seconds.clone();
        Arc::new(move || Timestamp::from_second(seconds.load(Ordering::Relaxed)).unwrap())
    };
    (TestClient(Embedded::new(ApiOptions { clock, retention })), seconds)
}

/// Status code of a watch of ConfigMaps from a version.
async fn watched_from(server: &TestClient, object: &Value) -> Value {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap();
    let (_, event) = server.get(&format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={version}")).await;
    event["object"]["code"].clone()
}

#[tokio::test]
async fn changes_are_forgotten_when_they_take_much_memory_or_are_old() {
    // Changes of a large object are dropped, and those of small objects of other kinds are not.
    let (server, _) = with_clock(Retention { change_bytes: 300_000, ..Retention::default() });
    let small = server.map("default", "small", json!({"annotations": {"a": "b"}})).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "large"}});
    server.send("POST", "/api/v1/namespaces/default/secrets", secret).await;
    for number in 0..10 {
        let annotations = json!({"n": number.to_string(), "large": "x".repeat(60_000)});
        let patch = json!({"metadata": {"annotations": annotations}});
        let (code, patched) = server.send("PATCH", "/api/v1/namespaces/default/secrets/large", patch).await;
        assert_eq!(code, 200, "{patched}");
    }
    server.map("default", "other", json!({})).await;
    assert_eq!(watched_from(&server, &small).await, Value::Null, "small changes are not forgotten for large ones");
    assert!(server.0.state().oldest("secrets") > 0, "most of the large ones are");

    let (server, seconds) = with_clock(Retention::default());
    let first = server.map("default", "first", json!({})).await;
    server.map("default", "second", json!({})).await;
    assert_eq!(watched_from(&server, &first).await, Value::Null);
    seconds.fetch_add(31, Ordering::Relaxed);
    // A write of another kind suffices.
    server
        .send("POST", "/api/v1/namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}))
        .await;
    assert_eq!(watched_from(&server, &first).await, json!(410));
}

#[tokio::test]
async fn old_changes_and_events_go_without_a_write() {
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    let (server, seconds) = with_clock(Retention::default());
    let first = server.map("default", "first", json!({})).await;
    server.map("default", "second", json!({})).await;
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
        "involvedObject": {"namespace": "default"}});
    assert_eq!(server.send("POST", EVENTS, event).await.0, 201);
    server.0.sweep();
    assert_eq!(watched_from(&server, &first).await, Value::Null);
    seconds.fetch_add(31, Ordering::Relaxed);
    server.0.sweep();
    assert_eq!(watched_from(&server, &first).await, json!(410));
    assert_eq!(listed(&server.get(EVENTS).await.1), ["e"]);
    seconds.fetch_add(3_600, Ordering::Relaxed);
    server.0.sweep();
    assert_eq!(listed(&server.get(EVENTS).await.1), [""; 0]);
    assert_eq!(server.names().await, ["first", "second"]);
}

#[tokio::test]
async fn objects_that_are_nested_too_deeply_are_refused() {
    const FREE: &str = "/apis/x.dev/v1/namespaces/default/frees/f";
    let server = TestClient::new();
    let nested = |levels: usize| (0..levels).fold(json!({}), |inside, _| json!({"a": inside}));
    let free = json!({"apiVersion": "x.dev/v1", "kind": "Free", "metadata": {"name": "f", "namespace": "default"}, "spec": nested(80)});
    server.0.load(vec![free]).unwrap();
    // Each patch is within the nesting limit, and their combination is not.
    for (levels, want) in [(10, 200), (100, 400)] {
        let deepest = format!("/spec{}", "/a".repeat(80));
        let patch = json!([{"op": "add", "path": deepest, "value": nested(levels)}]);
        let request = Request::patch(FREE).header("content-type", "application/json-patch+json");
        let response = server.0.call(request.body(Body::from(patch.to_string())).unwrap()).await;
        assert_eq!(response.status().as_u16(), want, "{levels} more");
    }
    let (code, object) = server.get(FREE).await;
    assert_eq!((code, &object["spec"]), (200, &nested(90)));
}

#[tokio::test]
async fn there_is_a_bounded_number_of_events() {
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    let (server, _) = with_clock(Retention { events: 3, ..Retention::default() });
    for number in 0..10 {
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e{number}")},
            "involvedObject": {"namespace": "default"}});
        let (code, made) = server.send("POST", EVENTS, event).await;
        assert_eq!(code, 201, "{made}");
    }
    assert_eq!(listed(&server.get(EVENTS).await.1), ["e7", "e8", "e9"]);
}

/// The names in a list.
fn listed(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_objects_of_a_cluster_are_listed_by_the_label_that_they_have_now() {
    let server = TestClient::new();
    let label = |cluster: &str| json!({"labels": {CLUSTER_NAME: cluster}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}});
    server.send("POST", "/api/v1/namespaces", namespace).await;
    for (namespace, name, cluster) in
        [("default", "c", "x"), ("default", "a", "x"), ("far", "b", "x"), ("default", "b", "x"), ("default", "d", "y")]
    {
        server.map(namespace, name, label(cluster)).await;
    }
    server.map("default", "none", json!({})).await;
    let of = |cluster: &str| format!("labelSelector=cluster.x-k8s.io%2Fcluster-name%3D{cluster}");
    let list = async |path: &str, query: &str| {
        let (code, list) = server.get(&format!("{path}?{query}")).await;
        assert_eq!(code, 200, "{list}");
        list
    };
    assert_eq!(listed(&list(MAPS, &of("x")).await), ["a", "b", "c"]);
    assert_eq!(listed(&list("/api/v1/configmaps", &of("x")).await), ["a", "b", "c", "b"]);
    assert_eq!(listed(&list(MAPS, &format!("{}%2Ctier", of("x"))).await), [""; 0]);

    let first = list(MAPS, &format!("{}&limit=2", of("x"))).await;
    assert_eq!(listed(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], Value::Null);
    server.send("PATCH", &format!("{MAPS}/c"), json!({"metadata": label("y")})).await;
    server.send("PATCH", &format!("{MAPS}/none"), json!({"metadata": label("x")})).await;
    server.delete(&format!("{MAPS}/b"), "Background").await;
    let next = format!("{}&limit=2&continue={}", of("x"), first["metadata"]["continue"].as_str().unwrap());
    let second = list(MAPS, &next).await;
    assert_eq!(listed(&second), ["c"], "as it was when the first page was read");
    assert_eq!(listed(&list(MAPS, &of("x")).await), ["a", "none"]);
    assert_eq!(listed(&list(MAPS, &of("y")).await), ["c", "d"]);
    let past =
        format!("{}&resourceVersionMatch=Exact&resourceVersion={}", of("x"), &second["metadata"]["resourceVersion"]);
    assert_eq!(listed(&list(MAPS, &past.replace('"', "")).await), ["a", "b", "c"]);

    let watch = format!("{MAPS}?watch=1&{}", of("y"));
    let request = Request::get(&watch).body(Body::empty()).unwrap();
    let mut lines = server.0.call(request).await.into_body().into_data_stream();
    let chunk = String::from_utf8(lines.next().await.unwrap().unwrap().to_vec()).unwrap();
    let names =
        chunk.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["object"]["metadata"]["name"].take());
    assert_eq!(names.collect::<Vec<_>>(), ["c", "d"]);

    let (_, deleted) = server.send("DELETE", &format!("{MAPS}?{}", of("y")), Value::Null).await;
    assert_eq!(listed(&deleted), ["c", "d"]);
    assert_eq!(server.names().await, ["a", "none"]);
}

#[tokio::test]
async fn a_list_of_the_objects_of_a_cluster_looks_at_no_others() {
    let server = TestClient::new();
    for i in 0..20 {
        server.map("default", &format!("m{i}"), json!({"labels": {CLUSTER_NAME: format!("c{}", i % 4)}})).await;
    }
    let size = |cluster| server.0.state().objects_of("configmaps", KeyRange { prefix: "default/", cluster }).size();
    assert_eq!((size(Some("c1")), size(Some("c9")), size(None)), (5, 0, 20));
}

#[tokio::test]
async fn future_resource_versions_are_rejected() {
    let server = TestClient::new();
    for query in ["resourceVersion=999999", "watch=1&resourceVersion=999999"] {
        let (code, answer) = server.get(&format!("{MAPS}?{query}")).await;
        assert_eq!((code, &answer["reason"]), (504, &json!("Timeout")), "{answer}");
        assert_eq!(answer["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    }
}

#[tokio::test]
async fn the_ordinary_client_works_on_it() {
    let server = TestClient::new();
    server.0.load(vec![definition(&["v1"]), thing("loaded")]).unwrap();
    let client = server.0.client();
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("t.dev", "v1", "Thing"), "things");
    let things: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
    let events = kube::runtime::watcher(things.clone(), kube::runtime::watcher::Config::default());
    let mut events = Box::pin(events);
    let mut seen = Vec::new();
    let applied = things.patch("b", &PatchParams::apply("me").force(), &Patch::Apply(thing("b"))).await.unwrap();
    assert_eq!(applied.data["spec"]["size"], 1);
    things.delete("loaded", &DeleteParams::default()).await.unwrap();
    assert!(things.get_opt("loaded").await.unwrap().is_none());
    things.patch("b", &PatchParams::default(), &Patch::Merge(json!({"spec": {"size": 7}}))).await.unwrap();
    while seen.len() < 2 {
        match tokio::time::timeout(Duration::from_secs(10), events.next()).await.unwrap().unwrap().unwrap() {
            Event::InitApply(object) | Event::Apply(object) => seen.push(object.data["spec"]["size"].clone()),
            Event::InitDone => {
                things.patch("b", &PatchParams::default(), &Patch::Merge(json!({"spec": {"size": 8}}))).await.unwrap();
            }
            _ => {}
        }
    }
    assert_eq!(seen, [json!(7), json!(8)]);
    let secrets: Api<Secret> = Api::default_namespaced(client);
    let secret = Secret { string_data: Some([("k".to_owned(), "v".to_owned())].into()), ..Secret::default() };
    let mut secret = secret;
    secret.metadata.name = Some("s".to_owned());
    let made = secrets.create(&kube::api::PostParams::default(), &secret).await.unwrap();
    assert_eq!(made.data.unwrap()["k"].0, b"v");
    assert_eq!(secrets.list(&kube::api::ListParams::default()).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn names_that_cannot_be_part_of_a_path_are_rejected_and_not_found() {
    // DEC-45
    let server = TestClient::new();
    for (pointer, value, field) in [
        ("/spec/group", "T.dev", "spec.group"),
        ("/spec/names/plural", "things.x", "spec.names.plural"),
        ("/spec/names/plural", "things%2Fx", "spec.names.plural"),
        ("/spec/names/kind", "Thing/../Secret", "spec.names.kind"),
        ("/spec/versions/0/name", "v1%2Fnamespaces", "spec.versions[0].name"),
        ("/spec/versions/0/name", "..", "spec.versions[0].name"),
    ] {
        let mut odd = definition(&["v1"]);
        *odd.pointer_mut(pointer).unwrap() = json!(value);
        let name =
            format!("{}.{}", odd["spec"]["names"]["plural"].as_str().unwrap(), odd["spec"]["group"].as_str().unwrap());
        odd["metadata"]["name"] = json!(name);
        let (code, status) = server.send("POST", DEFINITIONS, odd).await;
        assert_eq!(code, 422, "{status}");
        assert!(
            status["message"].as_str().unwrap().contains(&format!("{field}: Invalid value: {value:?}")),
            "{status}"
        );
    }
    server.map("default", "prod", json!({})).await;
    for path in [
        "/api/v1/namespaces/other%2F..%2Fdefault/configmaps/prod",
        "/api/v1/namespaces/other/../default/configmaps/prod",
        "/api/v1/namespaces/default/configmaps/%2e%2e%2fprod",
        "/api/v1%2Fnamespaces%2Fdefault%2Fconfigmaps%2Fprod",
    ] {
        assert_eq!(server.get(path).await.0, 404, "{path}");
    }
    assert_eq!(server.get("/api/v1/namespaces/default/configmaps/prod").await.0, 200);
}

#[tokio::test]
async fn a_schema_restricts_the_name_in_metadata_and_nothing_else() {
    let server = TestClient::new();
    let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
    let name = json!({"name": {"type": "string", "maxLength": 20}});
    let described = json!({"type": "object", "description": "Its name."});
    for (case, metadata, is_accepted) in [
        ("a type", json!({"type": "object"}), true),
        ("a name", json!({"type": "object", "properties": name}), true),
        ("an empty description", json!({"type": "object", "description": ""}), true),
        ("a description", described.clone(), false),
        ("labels", json!({"type": "object", "properties": {"labels": {"type": "object"}}}), false),
        ("a name that is required", json!({"type": "object", "properties": name, "required": ["name"]}), false),
    ] {
        let mut definition = definition(&["v1"]);
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["metadata"] = metadata;
        let (code, status) = server.send("POST", &format!("{DEFINITIONS}?dryRun=All"), definition).await;
        assert_eq!(code, if is_accepted { 201 } else { 422 }, "{case}: {status}");
        if !is_accepted {
            let field = "spec.validation.openAPIV3Schema.properties[metadata]";
            let cause =
                json!({"reason": "FieldValueForbidden", "message": format!("Forbidden: {why}"), "field": field});
            assert_eq!(status["details"]["causes"], json!([cause]), "{case}: {status}");
        }
    }
    // Schemas that differ are reported per version.
    let mut definition = definition(&["v1", "v2"]);
    definition["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["metadata"] = described;
    let (_, status) = server.send("POST", DEFINITIONS, definition).await;
    let field = "spec.versions[1].schema.openAPIV3Schema.properties[metadata]";
    assert_eq!(status["details"]["causes"][0]["field"], field, "{status}");
    assert_eq!(status["details"]["causes"].as_array().unwrap().len(), 1, "{status}");
}

#[test]
fn files_are_loaded_with_kinds_and_namespaces_and_mistakes_are_named() {
    let embedded = Embedded::new(ApiOptions::default());
    let free = json!({"apiVersion": "x.dev/v1beta1", "kind": "FreePolicy", "metadata": {"name": "f", "namespace": "made"},
        "spec": {"any": [1]}, "status": {"kept": true}});
    embedded.load(vec![free, thing("a"), definition(&["v1"])]).unwrap();
    let registry = embedded.registry();
    let assumed = registry.get("x.dev", "v1beta1", "freepolicies").unwrap();
    assert!(assumed.is_namespaced && assumed.has_status && assumed.schema.is_none());
    let state = embedded.state();
    let place = super::storage::store::StoreKey { kind: "freepolicies.x.dev".into(), key: "made/f".into() };
    assert_eq!(state.get(&place).unwrap().decode()["status"], json!({"kept": true}));
    assert!(state.has_namespace("made"));
    drop(state);
    let mut wrong = thing("b");
    wrong["spec"]["size"] = json!("large");
    for (object, want) in [
        (wrong, "Thing b: Thing.t.dev \"b\" is invalid: spec.size: "),
        (thing("a"), "Thing a: things.t.dev \"a\" already exists"),
        (json!({"metadata": {"name": "x"}}), "object without a kind x: apiVersion or kind is missing"),
        (
            json!({"apiVersion": "t.dev/v9", "kind": "Thing", "metadata": {"name": "x"}}),
            "Thing x: Thing is served as t.dev/v1",
        ),
        (
            json!({"apiVersion": "x.dev/v1%2Fa", "kind": "Odd", "metadata": {"name": "x"}}),
            "Odd x: apiVersion \"x.dev/v1%2Fa\": the version must",
        ),
        (
            json!({"apiVersion": "x.dev/v1", "kind": "Odd/../Secret", "metadata": {"name": "x"}}),
            "Odd/../Secret x: kind \"Odd/../Secret\": must",
        ),
        (json!([]), "object without a kind"),
    ] {
        let error = embedded.load(vec![object]).unwrap_err().to_string();
        assert!(error.starts_with(want), "{error}");
    }
}

#[tokio::test]
async fn malformed_requests_get_an_error() {
    let server = TestClient::new();
    server.0.load(vec![definition(&["v1"])]).unwrap();
    assert_eq!(server.send("POST", MAPS, json!("x".repeat(3 * 1024 * 1024))).await.0, 413);
    let bodies = [
        json!(null),
        json!(5),
        json!([]),
        json!({}),
        json!({"metadata": 5}),
        json!({"apiVersion": 1, "kind": []}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": {}, "ownerReferences": [5]}}),
        json!({"apiVersion": "t.dev/v1", "kind": "Thing", "metadata": null, "spec": 5}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": [], "data": 5}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": []}, "spec": 5, "status": 5}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "x.y"}, "spec": 5}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "x.y"},
            "spec": {"names": 5, "versions": [5, {"name": 5, "schema": {"openAPIV3Schema": 5}}]}, "status": 5}),
        json!({"propagationPolicy": 5, "preconditions": 5}),
    ];
    let paths = [
        "/",
        "//",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/t.dev/v1",
        "/openapi/v3",
        MAPS,
        "/api/v1/namespaces",
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/default/configmaps/a",
        "/api/v1/namespaces/default/secrets",
        "/api/v1/namespaces/default/status",
        DEFINITIONS,
        THINGS,
        "/apis/t.dev/v1/namespaces/default/things/a/scale",
        "/apis/t.dev/v1/things/a",
        "/api/v1/namespaces/%00/configmaps/%ff",
        "/api/v1/configmaps?limit=-1&continue=%00",
        "/api/v1/configmaps?fieldSelector=,=,!",
    ];
    for path in paths {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] {
            for body in &bodies {
                let (code, _) = server.send(method, path, body.clone()).await;
                assert!((200..=504).contains(&code), "{method} {path} {body}");
            }
        }
    }
}

use axum::body::Body;
use futures::StreamExt;
use http::header::AUTHORIZATION;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{EvictParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/kube-system/pods";

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn workloads() -> WorkloadApis {
    WorkloadApis::new(ApiOptions::default()).unwrap()
}

fn node(name: &str, more: Value) -> Value {
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    json_patch::merge(&mut node, &more);
    node
}

fn pod(name: &str, more: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "example.com/a:1"}]}});
    json_patch::merge(&mut pod, &more);
    pod
}

/// An in-process request to an API.
async fn send(api: &WorkloadApi, method: &str, path: &str, content_type: &str, body: Value) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = api.embedded.call(request.body(Body::from(body)).unwrap()).await;
    let code = answer.status().as_u16();
    (code, serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap_or_default())
}

async fn make(api: &WorkloadApi, path: &str, object: Value) -> Value {
    let (code, object) = send(api, "POST", path, "application/json", object).await;
    assert_eq!(code, 201, "{object}");
    object
}

async fn names(api: &WorkloadApi, path: &str) -> Vec<String> {
    let (code, list) = send(api, "GET", path, "", Value::Null).await;
    assert_eq!(code, 200, "{list}");
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The cells of a table, without wide columns and without the age, which depends on the duration of the test.
async fn table(api: &WorkloadApi, path: &str) -> (Vec<String>, Vec<Value>) {
    let request = Request::get(path).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let answer = api.embedded.call(request.body(Body::empty()).unwrap()).await;
    let table: Value = serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
    let columns = table["columnDefinitions"].as_array().unwrap();
    let narrow: Vec<usize> =
        (0..columns.len()).filter(|i| columns[*i]["priority"] == 0 && columns[*i]["name"] != "Age").collect();
    let row = |row: &Value| narrow.iter().map(|i| row["cells"][i].clone()).collect();
    let rows = table["rows"].as_array().unwrap().iter().map(row).collect();
    (narrow.iter().map(|i| columns[*i]["name"].as_str().unwrap().to_owned()).collect(), rows)
}

#[tokio::test]
async fn an_api_has_the_kinds_and_namespaces_of_a_workload_cluster() {
    // CT-19.2, CT-19.11
    let api = workloads().open(&key("one")).unwrap();
    assert_eq!(names(&api, "/api/v1/namespaces").await, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let kinds: Vec<String> = api.embedded.registry().iter().map(|kind| kind.qualified()).collect();
    let want = [
        "configmaps",
        "events",
        "namespaces",
        "nodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "secrets",
        "serviceaccounts",
        "services",
        "daemonsets.apps",
        "deployments.apps",
        "leases.coordination.k8s.io",
        "events.events.k8s.io",
        "volumeattachments.storage.k8s.io",
    ];
    assert_eq!(kinds, want);
    let (_, core) = send(&api, "GET", "/api/v1", "", Value::Null).await;
    let eviction = core["resources"].as_array().unwrap().iter().find(|kind| kind["name"] == "pods/eviction").unwrap();
    assert_eq!(
        (&eviction["group"], &eviction["version"], &eviction["kind"], &eviction["verbs"]),
        (&json!("policy"), &json!("v1"), &json!("Eviction"), &json!(["create"]))
    );
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(&api, "GET", definitions, "", Value::Null).await.0, 404, "no other kinds can be defined");
}

#[tokio::test]
async fn nodes_are_reported_cordoned_and_selected() {
    let api = workloads().open(&key("one")).unwrap();
    let ready = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}, "spec": {"providerID": "a://1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "nodeInfo": {"kubeletVersion": "v1.33.0"}}});
    make(&api, NODES, node("a", ready)).await;
    make(&api, NODES, node("b", json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}))).await;
    make(&api, NODES, node("c", json!({}))).await;
    let cordon = json!({"spec": {"unschedulable": true}});
    let merge = "application/strategic-merge-patch+json";
    assert_eq!(send(&api, "PATCH", "/api/v1/nodes/a", merge, cordon).await.0, 200);
    let (columns, rows) = table(&api, NODES).await;
    assert_eq!(columns, ["Name", "Status", "Roles", "Version"]);
    assert_eq!(rows[0], json!(["a", "Ready,SchedulingDisabled", "control-plane", "v1.33.0"]));
    assert_eq!(rows[1], json!(["b", "NotReady", "<none>", ""]));
    assert_eq!(rows[2], json!(["c", "Unknown", "<none>", ""]));
    for (selector, want) in [
        ("spec.unschedulable=true", vec!["a"]),
        ("spec.unschedulable=false", vec!["b", "c"]),
        ("spec.unschedulable!=true,metadata.name=c", vec!["c"]),
    ] {
        assert_eq!(names(&api, &format!("{NODES}?fieldSelector={selector}")).await, want, "{selector}");
    }
    let other = json!({"spec": {"providerID": "a://2"}});
    let (code, refused) = send(&api, "PATCH", "/api/v1/nodes/a", merge, other).await;
    assert_eq!((code, &refused["details"]["causes"][0]["field"]), (422, &json!("spec.providerID")));
}

#[tokio::test]
async fn conditions_addresses_and_containers_are_merged_by_their_keys_and_taints_are_replaced() {
    let api = workloads().open(&key("one")).unwrap();
    let nodes: Api<Node> = Api::all(api.embedded.client());
    let first = node("a", json!({"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}}));
    nodes.patch("a", &PatchParams::apply("kubelet"), &Patch::Apply(first)).await.unwrap();
    for (manager, kind) in [("kubelet", "Ready"), ("detector", "KernelDeadlock")] {
        let status = node(
            "a",
            json!({"status": {"conditions": [{"type": kind, "status": "True"}],
            "addresses": [{"type": kind, "address": manager}]}}),
        );
        nodes.patch_status("a", &PatchParams::apply(manager), &Patch::Apply(status)).await.unwrap();
    }
    let status = nodes.get("a").await.unwrap().status.unwrap();
    assert_eq!((status.conditions.unwrap().len(), status.addresses.unwrap().len()), (2, 2));
    let taints = node("a", json!({"spec": {"taints": [{"key": "y", "effect": "NoExecute"}]}}));
    nodes.patch("a", &PatchParams::apply("other").force(), &Patch::Apply(taints)).await.unwrap();
    let taints = nodes.get("a").await.unwrap().spec.unwrap().taints.unwrap();
    assert_eq!(taints.iter().map(|taint| &*taint.key).collect::<Vec<_>>(), ["y"], "the list is one value");

    let pods: Api<Pod> = Api::namespaced(api.embedded.client(), "kube-system");
    for (manager, name) in [("one", "main"), ("other", "side")] {
        let mut applied = pod("p", json!({}));
        applied["spec"]["containers"][0]["name"] = json!(name);
        pods.patch("p", &PatchParams::apply(manager), &Patch::Apply(applied)).await.unwrap();
    }
    let containers = pods.get("p").await.unwrap().spec.unwrap().containers;
    assert_eq!(containers.iter().map(|container| &*container.name).collect::<Vec<_>>(), ["main", "side"]);
}

#[tokio::test]
async fn pods_are_selected_by_node_and_phase_and_shown_as_kubectl_does() {
    // MA-10.3
    let api = workloads().open(&key("one")).unwrap();
    for (name, on) in [("a", "n1"), ("b", "n2"), ("c", "n1")] {
        let made = make(&api, PODS, pod(name, json!({"spec": {"nodeName": on}, "status": {"phase": "Running"}}))).await;
        assert_eq!(made["status"]["phase"], "Pending", "the status of a new Pod is not the caller's");
    }
    let running = json!({"status": {"phase": "Running", "containerStatuses": [{"name": "main", "ready": true, "restartCount": 2,
        "state": {"running": {}}}]}});
    let crashing = json!({"status": {"phase": "Running", "containerStatuses": [{"name": "main", "ready": false,
        "restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
    for (name, status) in [("a", running), ("b", crashing)] {
        let path = format!("{PODS}/{name}/status");
        assert_eq!(send(&api, "PATCH", &path, "application/merge-patch+json", status).await.0, 200);
    }
    for (selector, want) in [
        ("spec.nodeName=n1", vec!["a", "c"]),
        ("spec.nodeName=n1,status.phase!=Running", vec!["c"]),
        ("spec.hostNetwork=false,status.phase=Running", vec!["a", "b"]),
    ] {
        assert_eq!(names(&api, &format!("/api/v1/pods?fieldSelector={selector}")).await, want, "{selector}");
    }
    let (columns, rows) = table(&api, PODS).await;
    assert_eq!(columns, ["Name", "Ready", "Status", "Restarts"]);
    assert_eq!(rows[0], json!(["a", "1/1", "Running", "2"]));
    assert_eq!(rows[1], json!(["b", "0/1", "CrashLoopBackOff", "5"]));
    assert_eq!(rows[2], json!(["c", "0/1", "Pending", "0"]));
}

#[tokio::test]
async fn an_eviction_deletes_a_pod_at_once_unless_it_is_a_dry_run() {
    // CT-19.11
    let api = workloads().open(&key("one")).unwrap();
    let pods: Api<Pod> = Api::namespaced(api.embedded.client(), "kube-system");
    make(&api, PODS, pod("a", json!({}))).await;
    let dry =
        EvictParams { post_options: PostParams { dry_run: true, ..PostParams::default() }, ..EvictParams::default() };
    pods.evict("a", &dry).await.unwrap();
    let eviction = |more: Value| {
        let mut eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
        json_patch::merge(&mut eviction, &more);
        eviction
    };
    let path = format!("{PODS}/a/eviction");
    for (case, method, body, code) in [
        ("dry run in the body", "POST", eviction(json!({"deleteOptions": {"dryRun": ["All"]}})), 201),
        ("another Pod", "POST", eviction(json!({"metadata": {"name": "b"}})), 400),
        ("another kind", "POST", eviction(json!({"kind": "Pod"})), 400),
        ("replaced since", "POST", eviction(json!({"deleteOptions": {"preconditions": {"uid": "x"}}})), 409),
        ("not created", "PUT", eviction(json!({})), 405),
    ] {
        assert_eq!(send(&api, method, &path, "application/json", body).await.0, code, "{case}");
        assert!(pods.get_opt("a").await.unwrap().is_some(), "{case}");
    }
    pods.evict("a", &EvictParams::default()).await.unwrap();
    assert!(pods.get_opt("a").await.unwrap().is_none());
    assert_eq!(send(&api, "POST", &path, "application/json", eviction(json!({}))).await.0, 404);
    let nodes = send(&api, "POST", "/api/v1/nodes/a/eviction", "application/json", eviction(json!({}))).await;
    assert_eq!(nodes.0, 404, "only Pods are evicted");
}

/// A request on the listener.
async fn ask(router: &Router, path: &str, token: Option<&str>) -> Response {
    let mut request = Request::get(path);
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_token_opens_the_api_of_its_cluster_only() {
    // DEC-54
    let workloads = workloads();
    let (one, two) = (workloads.open(&key("one")).unwrap(), workloads.open(&key("two")).unwrap());
    let router = workloads.router(CancellationToken::new());
    let (one_token, two_token) = (one.token.reveal(), two.token.reveal());
    make(&one, NODES, node("a", json!({}))).await;
    for (path, token, code) in [
        ("/clusters/ns/one/api/v1/nodes/a", Some(one_token), 200),
        ("/clusters/ns/two/api/v1/nodes/a", Some(two_token), 404),
        ("/clusters/ns/one/version", Some(one_token), 200),
        ("/clusters/ns/one", Some(one_token), 404),
        ("/clusters/ns/one/api/v1/nodes/a", Some(two_token), 401),
        ("/clusters/ns/one/api/v1/nodes/a", None, 401),
        ("/clusters/ns/three/api/v1/nodes", Some(one_token), 401),
        ("/clusters/ns/three/api/v1/nodes", None, 401),
        ("/clusters/ns/../ns/one/api/v1/nodes", Some(two_token), 401),
        ("/api/v1/nodes", Some(one_token), 401),
        ("/", None, 401),
    ] {
        let answer = ask(&router, path, token).await;
        assert_eq!(answer.status().as_u16(), code, "{path} {token:?}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        if code == 401 {
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!((&body["kind"], &body["message"]), (&json!("Status"), &json!("Unauthorized")), "{path}");
        }
    }
    let selected = ask(&router, "/clusters/ns/one/api/v1/nodes?fieldSelector=metadata.name%3Db", Some(one_token)).await;
    let list: Value = serde_json::from_slice(&selected.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(list["items"], json!([]), "the query is part of the request");
}

#[tokio::test]
async fn a_cluster_that_is_forgotten_ends_its_watches_and_has_a_new_credential_when_it_comes_back() {
    // CT-19.1
    ends_for_good(|workloads| workloads.forget(&key("one"))).await;
    ends_for_good(WorkloadApis::forget_all).await;
}

async fn ends_for_good(forget: impl Fn(&WorkloadApis)) {
    let workloads = workloads();
    let api = workloads.open(&key("one")).unwrap();
    let router = workloads.router(CancellationToken::new());
    assert_eq!(workloads.open(&key("one")).unwrap().token.reveal(), api.token.reveal(), "the same API");
    let path = "/clusters/ns/one/api/v1/namespaces";
    let watch = ask(&router, &format!("{path}?watch=true"), Some(api.token.reveal())).await;
    let mut events = watch.into_body().into_data_stream();
    assert!(events.next().await.unwrap().unwrap().starts_with(b"{\"type\":\"ADDED\""));
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(api.embedded.client());
    let within = namespaces.watch(&kube::api::WatchParams::default(), "0").await.unwrap();
    forget(&workloads);
    assert!(events.next().await.is_none(), "a clean end");
    within.collect::<Vec<_>>().await;
    let refused = namespaces.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 503));
    assert!(workloads.get(&key("one")).is_none() && workloads.is_empty());

    assert_eq!(ask(&router, path, Some(api.token.reveal())).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(ask(&router, path, Some("abc.def")).await.status(), StatusCode::UNAUTHORIZED);
    let again = workloads.open(&key("one")).unwrap();
    assert_eq!(ask(&router, path, Some(api.token.reveal())).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(ask(&router, path, Some(again.token.reveal())).await.status(), StatusCode::OK);
}

#[test]
fn all_apis_share_their_kinds() {
    let workloads = workloads();
    let (one, two) = (workloads.open(&key("one")).unwrap(), workloads.open(&key("two")).unwrap());
    assert!(Arc::ptr_eq(&one.embedded.registry(), &two.embedded.registry()));
    assert_eq!(workloads.len(), 2);
}

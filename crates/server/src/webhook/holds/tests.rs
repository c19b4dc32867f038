use http::Method;

use super::*;
use crate::kubernetes::scripted::{Script, ScriptedAnswer};

const PATH: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters/c";

/// Holds, where ExtensionConfigs are not listed yet: any hook may block.
fn holds(script: &Script) -> Holds {
    let client = script.client();
    let hooks = Arc::new(DeletionHooks::new(client.clone(), Arc::default()));
    Holds::new(client, hooks)
}

fn cluster(metadata: Value) -> Value {
    let mut all = json!({"metadata": {"name": "c", "namespace": "ns", "uid": "u-1", "resourceVersion": "7"},
        "spec": {"topology": {"classRef": {"name": "k"}, "version": "v1.31.0"}}});
    json_patch::merge(&mut all["metadata"], &metadata);
    all
}

fn decoded(cluster: &Value) -> Cluster {
    Cluster::decode(WireVersion::V1Beta2, &cluster.to_string()).unwrap()
}

async fn hold(script: &Script, reviewed: &Value) -> Result<(), HoldError> {
    holds(script).hold(&decoded(reviewed), Instant::now() + Duration::from_secs(5)).await
}

#[tokio::test]
async fn a_hold_is_written_onto_the_version_that_was_reviewed() {
    // DEC-56
    let script = Script::default();
    let words =
        ["\"resourceVersion\":\"7\"", "topologist.dev/before-cluster-delete uid=u-1 since=", "fieldManager=topologist"];
    script.expect(&Method::PATCH, PATH, &words, ScriptedAnswer::ok(cluster(json!({}))));
    hold(&script, &cluster(json!({}))).await.unwrap();
    assert_eq!(script.left(), 0);
}

#[tokio::test]
async fn after_a_conflict_the_stored_cluster_decides() {
    // DEC-56
    let held = DeletionHold::new("u-1", moment()).to_string();
    for (case, stored, writes_again) in [
        ("another write", cluster(json!({"resourceVersion": "9"})), true),
        ("held by another replica", cluster(json!({"annotations": {annotation::PAUSED: held}})), false),
        ("paused by a user", cluster(json!({"annotations": {annotation::PAUSED: ""}})), false),
        ("another Cluster of the name", cluster(json!({"uid": "u-2"})), false),
    ] {
        let script = Script::default();
        script.expect(&Method::PATCH, PATH, &["\"resourceVersion\":\"7\""], ScriptedAnswer::error(409, "Conflict"));
        script.get(PATH, &[], ScriptedAnswer::ok(stored.clone()));
        if writes_again {
            script.expect(&Method::PATCH, PATH, &["\"resourceVersion\":\"9\""], ScriptedAnswer::ok(stored));
        }
        hold(&script, &cluster(json!({}))).await.unwrap();
        assert_eq!(script.left(), 0, "{case}");
    }
}

#[tokio::test]
async fn a_deletion_is_refused_if_its_hold_cannot_be_written() {
    // DEC-56
    let script = Script::default();
    script.expect(&Method::PATCH, PATH, &[], ScriptedAnswer::error(403, "Forbidden"));
    let error = hold(&script, &cluster(json!({}))).await.unwrap_err().to_string();
    assert_eq!(error, "cannot hold the deletion until the hooks BeforeClusterDelete have passed: scripted Forbidden");
    let script = Script::default();
    for _ in 0..ATTEMPTS {
        script.expect(&Method::PATCH, PATH, &[], ScriptedAnswer::error(409, "Conflict"));
        script.get(PATH, &[], ScriptedAnswer::ok(cluster(json!({}))));
    }
    let error = hold(&script, &cluster(json!({}))).await.unwrap_err();
    assert!(matches!(error, HoldError::Conflicts), "{error}");
    let script = Script::default();
    script.expect(&Method::PATCH, PATH, &[], ScriptedAnswer::error(404, "NotFound"));
    hold(&script, &cluster(json!({}))).await.unwrap();
}

#[tokio::test]
async fn nothing_is_written_where_nothing_is_waited_for() {
    // DEC-56
    let held = DeletionHold::new("u-1", moment()).to_string();
    let mut without_topology = cluster(json!({}));
    without_topology["spec"] = json!({"infrastructureRef": {"kind": "A", "name": "a"}});
    for reviewed in [
        without_topology,
        cluster(json!({"annotations": {annotation::PAUSED: held}})),
        cluster(json!({"annotations": {annotation::PAUSED: "by me"}})),
        cluster(json!({"annotations": {annotation::OK_TO_DELETE: ""}})),
        cluster(json!({"annotations": {annotation::SKIP_DELETE_HOOKS: ""}})),
    ] {
        // A request fails the test.
        hold(&Script::default(), &reviewed).await.unwrap();
    }
}

#[tokio::test]
async fn an_update_cannot_take_the_hold_from_a_cluster_that_is_being_deleted() {
    // DEC-56
    let leaving = json!({"deletionTimestamp": "2030-01-01T00:00:00Z"});
    let held = DeletionHold::new("u-1", moment()).to_string();
    let with = |annotations: Value| {
        let mut all = leaving.clone();
        all["annotations"] = annotations;
        cluster(all)
    };
    let mut replaced = cluster(json!({"annotations": {"mine": ""}}));
    replaced["metadata"].as_object_mut().unwrap().retain(|name, _| name == "name" || name == "annotations");
    let unpaused = cluster(leaving.clone());
    let paths = |old: &Value, new: &Value| {
        let review = json!({"uid": "u", "kind": {"group": GROUP, "version": "v1beta2", "kind": "Cluster"}, "operation": "UPDATE",
            "oldObject": old, "object": new})
        .to_string();
        async move {
            let review: AdmissionRequest<'_> = serde_json::from_str(&review).unwrap();
            let operations = holds(&Script::default()).restored(&review, Instant::now()).await;
            let mut patched = json::value(review.object.unwrap().get()).unwrap();
            json_patch::patch(&mut patched, &operations).unwrap();
            let value = patched["metadata"]["annotations"][annotation::PAUSED].as_str().map(str::to_owned);
            (operations.len(), value.is_some_and(|value| value.contains("uid=u-1")))
        }
    };
    let before = with(json!({annotation::PAUSED: held}));
    for (case, new, want) in [
        ("removed", with(json!({"other": ""})), (1, true)),
        ("the last annotation", unpaused, (2, true)),
        ("null", with(json!(null)), (2, true)),
        ("kubectl replace", replaced, (1, true)),
        ("kept", before.clone(), (0, true)),
        ("paused by a user", with(json!({annotation::PAUSED: "by me"})), (0, false)),
        ("released", with(json!({annotation::OK_TO_DELETE: ""})), (0, false)),
        ("skipped", with(json!({annotation::SKIP_DELETE_HOOKS: ""})), (0, false)),
    ] {
        assert_eq!(paths(&before, &new).await, want, "{case}");
    }
    let stays = cluster(json!({"annotations": {annotation::PAUSED: DeletionHold::new("u-1", moment()).to_string()}}));
    assert_eq!(paths(&stays, &cluster(json!({}))).await, (0, false), "it is not being deleted");
}

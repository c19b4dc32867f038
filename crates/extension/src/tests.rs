use anyhow::Context as _;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tower::ServiceExt;

use super::*;

fn patching() -> Extension {
    Extension::new()
        .generate_patches("paint", |request, patches| {
            for item in &request.items {
                let colour =
                    request.variables_of(item).get("colour").cloned().ok_or("the variable colour is missing")?;
                patches.change(item, |object| object["spec"]["colour"] = colour);
                patches.merge(item, &json!({"metadata": {"labels": {"painted": "yes"}}}));
            }
            Ok(())
        })
        .timeout_seconds(3)
        .ignoring_failures()
        .validate_topology("check", |request| match request.items.is_empty() {
            true => Err("there is nothing to check".into()),
            false => Ok(()),
        })
        .lifecycle(Hook::BeforeClusterUpgrade, "gate", |request| match &*request.to_kubernetes_version {
            "v1.34.0" => Ok(Decision::wait(0, "not yet")),
            "" => panic!("no version"),
            _ => Ok(Decision::Proceed),
        })
}

async fn call(extension: Extension, path: &str, body: &str) -> (StatusCode, Value) {
    let request = Request::post(format!("/{GROUP}/{VERSION}/{path}?timeout=10s")).body(Body::from(body.to_owned()));
    let response = extension.router().unwrap().oneshot(request.unwrap()).await.unwrap();
    let code = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

async fn answer(path: &str, body: &Value) -> Value {
    let (code, answer) = call(patching(), path, &body.to_string()).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    answer
}

fn patch_of(item: &Value) -> Value {
    serde_json::from_slice(&STANDARD.decode(item["patch"].as_str().unwrap()).unwrap()).unwrap()
}

#[tokio::test]
async fn discovery_lists_the_handlers() {
    // RH-6.2, RH-6.3, RH-23.1, RH-23.3
    let answer = answer("discovery", &json!({})).await;
    assert_eq!((&answer["kind"], &answer["status"]), (&json!("DiscoveryResponse"), &json!("Success")));
    let hook = |hook: &str| json!({"apiVersion": format!("{GROUP}/{VERSION}"), "hook": hook});
    let want = json!([
        {"name": "paint", "requestHook": hook("GeneratePatches"), "failurePolicy": "Ignore", "timeoutSeconds": 3},
        {"name": "check", "requestHook": hook("ValidateTopology"), "failurePolicy": "Fail"},
        {"name": "gate", "requestHook": hook("BeforeClusterUpgrade"), "failurePolicy": "Fail"},
    ]);
    assert_eq!(answer["handlers"], want);
    let raw = serde_json::value::to_raw_value(&answer).unwrap();
    assert!(
        engine::extensions::Registration::from_discovery("own", &raw, BTreeMap::new()).is_ok(),
        "it can be registered"
    );
}

#[tokio::test]
async fn patches_are_the_difference_and_nothing_is_no_patch() {
    // RH-11.5, RH-12.1, RH-23.6
    let item = |uid: &str, object: Value, variables: Value| {
        json!({"uid": uid, "holderReference": {"kind": "Cluster"},
            "object": object, "variables": variables})
    };
    let painted = json!({"metadata": {"labels": {"painted": "yes"}}, "spec": {"colour": "blue"}});
    let own = json!([{"name": "colour", "value": "red"}]);
    let items = json!([
        item("a", json!({"spec": {}}), json!([])),
        item("b", painted, json!([])),
        item("c", json!({"spec": {}}), own)
    ]);
    let request = json!({"variables": [{"name": "colour", "value": "blue"}], "items": items});
    let answer = answer("generatepatches/paint", &request).await;
    let items = answer["items"].as_array().unwrap();
    let shown: Vec<_> = items.iter().map(|item| (item["uid"].as_str().unwrap(), patch_of(item))).collect();
    let add = |colour: &str| json!([{"op": "add", "path": "/spec/colour", "value": colour}]);
    let merge = json!({"metadata": {"labels": {"painted": "yes"}}});
    assert_eq!(shown, [("a", add("blue")), ("a", merge.clone()), ("c", add("red")), ("c", merge)]);
    assert_eq!((&items[0]["patchType"], &items[1]["patchType"]), (&json!("JSONPatch"), &json!("JSONMergePatch")));
}

#[tokio::test]
async fn every_failure_is_an_answer() {
    // RH-23.2 to RH-23.4
    let failed = async |path: &str, body: &str| {
        let (code, answer) = call(patching(), path, body).await;
        assert_eq!((code, &answer["status"]), (StatusCode::OK, &json!("Failure")), "{answer}");
        answer["message"].as_str().unwrap().to_owned()
    };
    assert!(failed("generatepatches/paint", "{").await.starts_with("the request is invalid: "));
    let item = r#"{"items": [{"holderReference": {}, "object": {}}]}"#;
    assert_eq!(failed("generatepatches/paint", item).await, "the variable colour is missing");
    assert_eq!(failed("validatetopology/check", "{}").await, "there is nothing to check");
    assert_eq!(failed("beforeclusterupgrade/gate", r#"{"cluster": {}}"#).await, "the handler panicked");
    let large = " ".repeat(MAX_BODY + 1);
    assert!(failed("validatetopology/check", &large).await.starts_with("the request cannot be read: "));
    let (code, _) = call(patching(), "generatepatches/other", "{}").await;
    assert_eq!(code, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_decision_to_wait_has_at_least_a_second() {
    // RH-5.5
    let gate = async |version: &str| {
        answer("beforeclusterupgrade/gate", &json!({"cluster": {}, "toKubernetesVersion": version})).await
    };
    let held = gate("v1.34.0").await;
    assert_eq!((&held["retryAfterSeconds"], &held["message"]), (&json!(1), &json!("not yet")));
    assert_eq!(gate("v1.35.0").await["retryAfterSeconds"], Value::Null);
}

#[test]
fn builtin_variables_are_merged_and_others_replaced() {
    // RH-11.5
    let request: PatchRequest = serde_json::from_value(json!({
        "variables": [{"name": "a", "value": {"x": 1}},
            {"name": "builtin", "value": {"cluster": {"name": "c", "n": 1}}}],
        "items": [{"holderReference": {}, "object": {}, "variables": [{"name": "a", "value": {"y": 2}},
            {"name": "builtin", "value": {"cluster": {"n": 2}, "controlPlane": {"replicas": 3}}}]}],
    }))
    .unwrap();
    let merged = request.variables_of(&request.items[0]);
    let builtin = json!({"cluster": {"name": "c", "n": 2}, "controlPlane": {"replicas": 3}});
    assert_eq!((&merged["a"], &merged["builtin"]), (&json!({"y": 2}), &builtin));
}

#[test]
fn an_extension_that_cannot_be_registered_is_refused() {
    // RH-6.4
    let extension = Extension::new()
        .validate_topology("Check", |_| Ok(()))
        .lifecycle(Hook::BeforeClusterCreate, "gate", |_| Ok(Decision::Proceed))
        .lifecycle(Hook::BeforeClusterDelete, "gate", |_| Ok(Decision::Proceed))
        .timeout_seconds(31);
    let error = extension.router().unwrap_err().to_string();
    for words in [
        "handler \"Check\" must consist of",
        "the handlers of BeforeClusterCreate and BeforeClusterDelete are both called \"gate\"",
        "the timeout of handler \"gate\" is more than 30 s",
    ] {
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn the_message_of_a_failure_has_those_of_its_sources() {
    // RH-23.4
    let failing = Extension::new().validate_topology("check", |_| {
        let size = "many".parse::<u32>().context("the variable size is not a number")?;
        Err(format!("{size}").into())
    });
    let (_, answer) = call(failing, "validatetopology/check", &json!({"items": []}).to_string()).await;
    let want = "the variable size is not a number: invalid digit found in string";
    assert_eq!((&answer["status"], &answer["message"]), (&json!("Failure"), &json!(want)));
}

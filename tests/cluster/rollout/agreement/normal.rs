//! A provider that makes of values what it likes better: defaults, another spelling, another order.
//!
//! On a real kube-apiserver it is a mutating webhook, which sees every write. In memory it is a controller with a field
//! manager of its own, which sets what is absent.

use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::super::site::{MADE, api, text};
use crate::harness::kubernetes::Kubernetes;
use crate::harness::webhook;

/// The label of namespaces whose provider normalises values.
pub(super) const NORMALISES: &str = "normalises";
/// What the controller sets on templates.
pub(super) const DEFAULTS: &[&str] =
    &["spec.template.spec.format", "spec.template.spec.backend.inMemory.vm.provisioning.startupJitter"];
/// How often the controller looks at objects.
const PACE: Duration = Duration::from_millis(200);

/// The webhook; it belongs to the runtime that started it.
pub(super) struct Normaliser;

impl Normaliser {
    pub(super) async fn start(kubernetes: &Kubernetes) -> Self {
        let (address, authority) = webhook::serve(Router::new().fallback(review)).await;
        let rule = json!({"apiGroups": ["infrastructure.topologist.dev", "bootstrap.topologist.dev",
            "controlplane.topologist.dev"], "apiVersions": ["*"], "resources": ["*"],
            "operations": ["CREATE", "UPDATE"]});
        let owned = json!({"matchExpressions": [{"key": "topology.cluster.x-k8s.io/owned", "operator": "Exists"}]});
        let webhook = json!({"name": "normaliser.example.test", "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": format!("https://{address}/"), "caBundle": STANDARD.encode(authority)},
            "namespaceSelector": {"matchLabels": {NORMALISES: "true"}}, "objectSelector": owned, "rules": [rule]});
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "normaliser"}, "webhooks": [webhook]});
        kubernetes.apply_yaml(&configuration.to_string()).await;
        Normaliser
    }
}

async fn review(body: Bytes) -> impl IntoResponse {
    let mut review: Value = serde_json::from_slice(&body).unwrap();
    let mut request = review["request"].take();
    let mut object = request["object"].take();
    let mut response = json!({"uid": request["uid"], "allowed": true});
    let before = object["spec"].clone();
    normalise(&mut object);
    if object["spec"] != before {
        let patch = json!([{"op": "replace", "path": "/spec", "value": object["spec"]}]);
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(STANDARD.encode(patch.to_string()));
    }
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    ([("content-type", "application/json")], answer.to_string())
}

/// The part of an object that describes machines or a cluster.
fn subject(object: &mut Value) -> &mut Value {
    let kind = text(object, "/kind");
    match kind.ends_with("Template") {
        true => &mut object["spec"]["template"]["spec"],
        false if kind == "EmbeddedControlPlane" => &mut object["spec"]["bootstrap"],
        false => &mut object["spec"],
    }
}

fn normalise(object: &mut Value) {
    set_defaults(object);
    let spec = subject(object);
    for list in ["files", "kubeletExtraArgs", "failureDomains"] {
        let Some(list) = spec.get_mut(list).and_then(Value::as_array_mut) else { continue };
        list.sort_by_key(|item| (text(item, "/path"), text(item, "/name")));
        for file in list.iter_mut().filter(|item| item["path"].is_string() && item["permissions"].is_null()) {
            file["permissions"] = json!("0644");
        }
    }
    spell(spec);
}

/// Durations in milliseconds: `2s` becomes `2000ms`.
fn spell(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_str().and_then(|text| text.strip_suffix('s')) {
                    Some(seconds) if name == "startupDuration" && seconds.parse::<u32>().is_ok() => {
                        *value = json!(format!("{seconds}000ms"));
                    }
                    _ => spell(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(spell),
        _ => {}
    }
}

/// Sets what is absent, and nobody edits to the same value.
fn set_defaults(object: &mut Value) {
    let kind = text(object, "/kind");
    let spec = subject(object);
    if kind.contains("MachineTemplate") || kind.contains("MachinePool") {
        let provisioning = spec.pointer_mut("/backend/inMemory/vm/provisioning").and_then(Value::as_object_mut);
        if let Some(provisioning) = provisioning {
            provisioning.entry("startupJitter").or_insert_with(|| json!("0.1"));
        }
    }
    if kind.starts_with("EmbeddedConfig") && spec["format"].is_null() {
        spec["format"] = json!("ignition");
    }
    if kind == "EmbeddedControlPlane" && spec["kubeletExtraArgs"].is_null() {
        spec["kubeletExtraArgs"] = json!([{"name": "v", "value": "0"}]);
    }
}

/// Sets what is absent in these namespaces, until dropped.
pub(super) async fn keep_defaults(client: kube::Client, namespaces: Vec<String>) {
    let params = PatchParams { field_manager: Some("a-provider".to_owned()), ..PatchParams::default() };
    loop {
        for (api_version, kind) in MADE.into_iter().filter(|(_, kind)| kind.starts_with("Embedded")) {
            let Ok(list) = api(&client, "", api_version, kind).list(&ListParams::default()).await else { continue };
            for item in list.items {
                let mut object = serde_json::to_value(item).unwrap();
                let namespace = text(&object, "/metadata/namespace");
                let is_owned = object["metadata"]["labels"]["topology.cluster.x-k8s.io/owned"].is_string();
                if !is_owned || !namespaces.contains(&namespace) {
                    continue;
                }
                object["kind"] = json!(kind);
                let (name, before) = (text(&object, "/metadata/name"), object["spec"].clone());
                set_defaults(&mut object);
                if object["spec"] != before {
                    let version = object["metadata"]["resourceVersion"].clone();
                    let patch = json!({"metadata": {"resourceVersion": version}, "spec": object["spec"]});
                    // It may be gone, or another by now.
                    let _ =
                        api(&client, &namespace, api_version, kind).patch(&name, &params, &Patch::Merge(patch)).await;
                }
            }
        }
        tokio::time::sleep(PACE).await;
    }
}

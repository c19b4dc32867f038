//! The definitions that the program includes refuse what those of Cluster API refuse on a kube-apiserver.

use std::fs;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};
use topologist::yaml;

use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::stream;
use crate::harness::programs;
use crate::harness::server::command;

const CONFIG: &str = "KubeadmConfigTemplate";
const CONTROL_PLANE: &str = "KubeadmControlPlaneTemplate";

/// Edits of templates: kind, pointer, value, and whether the rendered objects are refused.
fn edits() -> Vec<(&'static str, &'static str, Value, bool)> {
    let spec = "/spec/template/spec";
    let kubeadm = "/spec/template/spec/kubeadmConfigSpec";
    let at = |parent: &str, field: &str| -> &'static str { format!("{parent}/{field}").leak() };
    vec![
        (CONFIG, at(spec, "format"), json!("cloud-config"), false),
        (CONFIG, at(spec, "format"), json!("script"), true),
        (CONFIG, at(spec, "formt"), json!("ignition"), true),
        (CONFIG, at(spec, "files"), json!([]), true),
        (CONFIG, at(spec, "files"), json!([{"path": "/a", "content": "b"}]), false),
        (CONFIG, at(spec, "files"), json!([{"path": "/a", "permissions": 644}]), true),
        (CONFIG, spec, json!({}), true),
        (CONTROL_PLANE, at(kubeadm, "users"), json!([{"name": "a", "sudo": "ALL"}]), false),
        (CONTROL_PLANE, at(kubeadm, "users"), json!([{"sudo": "ALL"}]), false), // A webhook might add the name.
        (CONTROL_PLANE, at(kubeadm, "verbosity"), json!("high"), true),
        (CONTROL_PLANE, at(spec, "rollout"), json!({"before": {"certificatesExpiryDays": 3}}), true),
        (CONTROL_PLANE, at(spec, "remediation"), json!({"maxRetry": 3, "retryPeriodSeconds": 60}), false),
    ]
}

/// Kubeadm's definitions on a server of their own.
async fn server() -> Kubernetes {
    let kubernetes = Kubernetes::start();
    let mut definitions = Vec::new();
    for part in ["bootstrap", "control-plane"] {
        let folder = programs::folder("reference").join(format!("{part}.config/crd/bases"));
        for file in fs::read_dir(folder).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            let mut definition = yaml::documents(&text).remove(0).unwrap().value;
            definition["spec"].as_object_mut().unwrap().remove("conversion");
            definitions.push(definition);
        }
    }
    kubernetes.apply_yaml(&stream(&definitions)).await;
    kubernetes
}

/// The Kubeadm objects of a bundle that `render` prints, and the fields that it refuses.
fn rendered(bundle: &[Value]) -> (Vec<Value>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bundle.yaml");
    fs::write(&path, stream(bundle)).unwrap();
    let output = command(&["render", "--findings", "json"]).arg(path).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    // The note about other kinds comes behind the report.
    let report: Value = serde_json::Deserializer::from_str(&err).into_iter().next().unwrap().unwrap();
    let findings = report["findings"].as_array().unwrap();
    let errors = findings.iter().filter(|finding| finding["severity"] == "error").map(Value::to_string).collect();
    let objects = yaml::documents(&out).into_iter().map(|document| document.unwrap().value);
    let is_kubeadm = |object: &Value| object["kind"].as_str().is_some_and(|kind| kind.starts_with("Kubeadm"));
    (objects.filter(is_kubeadm).collect(), errors)
}

/// Why a server refuses an object; `None` if it takes it.
async fn refusal(kubernetes: &Kubernetes, object: &Value) -> Option<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").split_once('/').unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
    let api: Api<DynamicObject> = Api::namespaced_with(kubernetes.client(), text("/metadata/namespace"), &resource);
    let strict = PatchParams::apply("capi-topology").force().validation_strict().dry_run();
    api.patch(text("/metadata/name"), &strict, &Patch::Apply(object)).await.err().map(|error| error.to_string())
}

#[tokio::test]
async fn refuse_what_a_server_refuses() {
    // DEC-32
    let kubernetes = server().await;
    let bundle = fs::read_to_string("fixtures/providers/in-memory/bundle.yaml").unwrap();
    let bundle: Vec<Value> = yaml::documents(&bundle).into_iter().map(|document| document.unwrap().value).collect();
    for (kind, pointer, value, is_refused) in edits() {
        let case = format!("{kind} {pointer}: {value}");
        let mut edited = bundle.clone();
        let template = edited.iter_mut().find(|object| object["kind"] == kind).unwrap();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        template.pointer_mut(parent).unwrap()[field] = value;
        let (objects, errors) = rendered(&edited);
        assert_eq!(errors.is_empty(), !is_refused, "{case}: {errors:?}");
        let made = kind.trim_end_matches("Template");
        assert!(objects.iter().any(|object| object["kind"].as_str().unwrap().starts_with(made)), "{case}");
        let mut refusals = Vec::new();
        for object in &objects {
            refusals.extend(refusal(&kubernetes, object).await);
        }
        let needs_webhook = case.contains("users") && refusals.iter().all(|refusal| refusal.contains("Required value"));
        assert_eq!(refusals.is_empty() || needs_webhook, !is_refused, "{case}: {refusals:?}");
    }
}

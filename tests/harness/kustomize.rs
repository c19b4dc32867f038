//! Manifests as `kubectl apply -k` would send them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use topologist::yaml;

use super::programs;

/// The overlays, by the names of their folders.
pub const OVERLAYS: [&str; 5] = ["alone", "beside", "cert-manager", "namespaced", "take-over"];

/// The user of topologist: the ServiceAccount of the manifests.
pub const USER: &str = "system:serviceaccount:topologist-system:topologist";

/// The objects of a folder below `manifests/`, in the order in which they are sent.
pub fn render(folder: &str) -> Vec<Value> {
    build(&manifests().join(folder))
}

/// The objects of a folder that has a kustomization.
pub fn render_folder(folder: &Path) -> Vec<Value> {
    build(folder)
}

/// The objects of an overlay.
pub fn overlay(name: &str) -> Vec<Value> {
    render(&format!("overlays/{name}"))
}

/// The objects of an overlay with components of `manifests/components/` on top, in this order.
pub fn overlay_with(name: &str, components: &[&str], files: &[(&str, &str)]) -> Vec<Value> {
    let mut text = format!("resources:\n- manifests/overlays/{name}\n");
    files.iter().for_each(|(name, _)| text.push_str(&format!("- {name}\n")));
    text.push_str("components:\n");
    components.iter().for_each(|component| text.push_str(&format!("- manifests/components/{component}\n")));
    render_own(&text, files)
}

/// The file that names the namespace of the component `namespaced`.
pub fn scope(namespace: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"namespace": namespace},
        "metadata": {"name": "scope", "annotations": {"config.kubernetes.io/local-config": "true"}},
    })
    .to_string()
}

/// The variables of the one container of the Deployment; the address of the pod is that of this machine.
pub fn variables(objects: &[Value]) -> BTreeMap<String, String> {
    let deployment = find(objects, "Deployment", "topologist");
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entries = containers[0]["env"].as_array().unwrap();
    let value = |entry: &Value| match &entry["valueFrom"]["fieldRef"]["fieldPath"] {
        Value::Null => text(&entry["value"]),
        path => {
            assert_eq!(path, "status.podIP");
            "127.0.0.1".to_owned()
        }
    };
    entries.iter().map(|entry| (text(&entry["name"]), value(entry))).collect()
}

/// The objects of somebody's own kustomization and its files; `manifests/` in it is the folder of that name.
pub fn render_own(kustomization: &str, files: &[(&str, &str)]) -> Vec<Value> {
    // kustomize takes relative paths only.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let up = "../".repeat(fs::canonicalize(folder.path()).unwrap().components().count() - 1);
    let manifests = fs::canonicalize(manifests()).unwrap();
    let manifests = format!("{up}{}/", manifests.strip_prefix("/").unwrap().display());
    fs::write(folder.path().join("kustomization.yaml"), kustomization.replace("manifests/", &manifests)).unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    build(folder.path())
}

/// The webhooks of `certs/` with this address, and the authority of a folder.
pub fn render_by_address(host: &str, authority: &Path) -> Vec<Value> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let certs = folder.path().join("certs");
    fs::create_dir_all(certs.join("dev")).unwrap();
    std::os::unix::fs::symlink(manifests(), folder.path().join("manifests")).unwrap();
    let original = manifests().with_file_name("certs");
    for name in ["kustomization.yaml", "by-address.yaml"] {
        let text = fs::read_to_string(original.join(name)).unwrap();
        fs::write(certs.join(name), text.replace("my-host.example:9443", host)).unwrap();
    }
    fs::copy(authority.join("ca.crt"), certs.join("dev/ca.crt")).unwrap();
    build(&certs)
}

/// The one object of a kind and name.
pub fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    let mut found = objects.iter().filter(is_it);
    let object = found.next().unwrap_or_else(|| panic!("there is no {kind} {name}"));
    assert!(found.next().is_none(), "there is more than one {kind} {name}");
    object
}

/// The objects as one YAML stream.
pub fn stream(objects: &[Value]) -> String {
    objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n")
}

/// The definitions of an installation, and what grants its ServiceAccount its permissions.
pub fn definitions_and_permissions(objects: Vec<Value>) -> Vec<Value> {
    let is_definition = |object: &&Value| object["kind"] == "CustomResourceDefinition";
    let mut all: Vec<Value> = objects.iter().filter(is_definition).cloned().collect();
    all.extend(permissions(objects));
    all
}

/// Those objects that say who may do what.
pub fn permissions(objects: Vec<Value>) -> Vec<Value> {
    let is_one = |kind: &str| kind.ends_with("Role") || kind.ends_with("RoleBinding");
    let is_wanted = |kind: &str| is_one(kind) || kind == "Namespace" || kind == "ServiceAccount";
    objects.into_iter().filter(|object| is_wanted(object["kind"].as_str().unwrap())).collect()
}

/// Those objects that are webhook configurations, with an address instead of the Service: there is nothing behind
/// Services where only an API server runs.
pub fn webhooks_at(objects: Vec<Value>, address: &str, authority: &[u8]) -> Vec<Value> {
    let bundle = STANDARD.encode(authority);
    let is_wanted = |object: &Value| object["kind"].as_str().unwrap().ends_with("WebhookConfiguration");
    let mut configurations: Vec<_> = objects.into_iter().filter(is_wanted).collect();
    for webhook in configurations.iter_mut().flat_map(|object| object["webhooks"].as_array_mut().unwrap()) {
        let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap().to_owned();
        webhook["clientConfig"] = json!({"url": format!("https://{address}{path}"), "caBundle": bundle});
    }
    configurations
}

/// Those objects that are definitions, with an address instead of the Service that converts.
pub fn definitions_at(objects: Vec<Value>, address: &str, authority: &[u8]) -> Vec<Value> {
    let is_wanted = |object: &Value| object["kind"] == "CustomResourceDefinition";
    let mut definitions: Vec<_> = objects.into_iter().filter(is_wanted).collect();
    for definition in definitions.iter_mut().filter(|definition| definition["spec"].get("conversion").is_some()) {
        let client = &mut definition["spec"]["conversion"]["webhook"]["clientConfig"];
        let path = client["service"]["path"].as_str().unwrap().to_owned();
        *client = json!({"url": format!("https://{address}{path}"), "caBundle": STANDARD.encode(authority)});
    }
    definitions
}

/// The folder with the manifests.
pub fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests")
}

fn build(folder: &Path) -> Vec<Value> {
    let mut command = Command::new(program());
    // It ends before it has used much memory: garbage collection would take a quarter of its time.
    let output = command.arg("build").arg(folder).env("GOGC", "off").stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && err.is_empty(), "kustomize build {}: {err}", folder.display());
    let objects: Vec<_> = yaml::documents(&out).into_iter().map(|document| document.unwrap().value).collect();
    assert!(!objects.is_empty(), "{} has no objects", folder.display());
    objects
}

/// kustomize, built if need be.
fn program() -> PathBuf {
    programs::folder("kustomize").join("kustomize")
}

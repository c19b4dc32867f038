//! Forecasts of `plan` and `simulate` that depend on more than the change itself: on time, on extensions, and on what a
//! definition allows.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use topologist::yaml;

use crate::harness::server::command;
use crate::plans::plan;

/// The class of the embedded provider with a Cluster that a test changes, and more objects.
fn world(change: impl FnOnce(&mut Value), more: &[Value]) -> String {
    let read = |file: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/embedded").join(file);
        let text = fs::read_to_string(path).unwrap();
        yaml::documents(&text).into_iter().map(|document| document.unwrap().value).collect::<Vec<Value>>()
    };
    let mut cluster = read("cluster.yaml").remove(0);
    let workers = json!({"machineDeployments": [{"class": "default-worker", "name": "blue", "replicas": 2}]});
    cluster["spec"]["topology"]["workers"] = workers;
    change(&mut cluster);
    let all = read("class.yaml").into_iter().chain([cluster]).chain(more.iter().cloned());
    all.map(|object| format!("---\n{object}\n")).collect()
}

fn blue(cluster: &mut Value) -> &mut Value {
    &mut cluster["spec"]["topology"]["workers"]["machineDeployments"][0]
}

fn slower(cluster: &mut Value) {
    blue(cluster)["variables"] = json!({"overrides": [{"name": "workerStartup", "value": "7s"}]});
}

#[test]
fn a_rollout_in_the_future_replaces_machines_from_then_on() {
    // ROLL-10
    let later = |cluster: &mut Value| blue(cluster)["rollout"] = json!({"after": "2999-01-01T08:49:27Z"});
    let (code, out) = plan(&world(|_| {}, &[]), &world(later, &[]), &[]);
    assert_eq!(code, 4, "{out}");
    assert!(out.contains(": 2 replaced from 2999-01-01T08:49:27Z on, 1 at a time, since spec.rollout"), "{out}");
    let (_, out) = plan(&world(|_| {}, &[]), &world(later, &[]), &["-o", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    for rolls in [&report["clusters"][0]["rolls"], &report["groups"][0]["rolls"]] {
        assert_eq!(rolls[0]["from"], "2999-01-01T08:49:27Z");
    }
}

#[test]
fn an_extension_may_update_machines_in_place() {
    let handlers = json!([{"name": "update.lab", "requestHook": {"apiVersion": "runtime.cluster.x-k8s.io/v1alpha1",
        "hook": "CanUpdateMachineSet"}}]);
    let lab = json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
        "metadata": {"name": "lab"}, "status": {"handlers": handlers}});
    let [before, after] = [world(|_| {}, std::slice::from_ref(&lab)), world(slower, std::slice::from_ref(&lab))];
    let (code, out) = plan(&before, &after, &[]);
    assert_eq!(code, 4, "{out}");
    assert!(out.contains("2 replaced, 1 at a time, or updated in place, if the extension lab agrees, since "), "{out}");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), before).unwrap();
    fs::write(folder.path().join("b.yaml"), after).unwrap();
    let output = command(&["simulate", "a.yaml", "--to", "b.yaml"]).current_dir(folder.path()).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("the extension lab may update machines in place"), "{message}");
}

#[test]
fn a_template_that_its_definition_makes_immutable_cannot_be_replaced() {
    // CT-9.2
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "it is immutable"}]});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "embeddedmachinetemplates.infrastructure.topologist.dev",
            "labels": {"cluster.x-k8s.io/v1beta2": "v1beta1"}},
        "spec": {
            "group": "infrastructure.topologist.dev", "scope": "Namespaced",
            "names": {"kind": "EmbeddedMachineTemplate", "plural": "embeddedmachinetemplates"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let folder = tempfile::tempdir().unwrap();
    let crds = folder.path().join("crds.yaml");
    fs::write(&crds, definition.to_string()).unwrap();
    let [before, after] = [world(|_| {}, &[]), world(slower, &[])];
    let want = "cannot be replaced: the definition of EmbeddedMachineTemplate makes spec immutable";
    let (code, out) = plan(&before, &after, &["--crds", crds.to_str().unwrap()]);
    assert!(code == 1 && out.contains(want) && !out.contains("replaced, "), "{code}: {out}");
    fs::write(folder.path().join("a.yaml"), before).unwrap();
    fs::write(folder.path().join("b.yaml"), after).unwrap();
    let arguments = ["simulate", "a.yaml", "--to", "b.yaml", "--crds", "crds.yaml", "-o", "json"];
    let output = command(&arguments).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let reason = report["clusters"][0]["reason"].as_str().unwrap();
    assert!(reason.contains(want), "{reason}");
}

//! Passwords in variables are never told (DEC-34): not in denials, warnings, audit annotations, or patches that are
//! printed.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use topologist::admission::{AdmissionSettings, DecodedRequest, Operation, Phase, RawRequest, Verdict};
use topologist::hub::{ClusterClass, Kind};
use topologist::wire::{Decode, WireVersion};
use topologist::world::Facts;

use crate::harness::server::command;

/// Part of every password here.
const SECRET: &str = "hunter2";

fn class(variables: &Value) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"name": "class", "namespace": "ns"},
        "spec": {
            "infrastructure": {"templateRef":
                {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevClusterTemplate", "name": "t"}},
            "controlPlane": {"templateRef":
                {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlaneTemplate",
                    "name": "t"}},
            "variables": variables}})
}

fn cluster(variables: &Value) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "one", "namespace": "ns"},
        "spec": {"topology": {"classRef": {"name": "class"}, "version": "v1.34.0", "variables": variables}}})
}

fn variable(name: &str, schema: &Value) -> Value {
    json!({"name": name, "required": false, "schema": {"openAPIV3Schema": schema}})
}

/// A password, and an object that has one.
fn definitions() -> Value {
    json!([
        variable("token", &json!({"type": "string", "format": "password", "minLength": 20})),
        variable(
            "login",
            &json!({"type": "object", "properties": {
                "user": {"type": "string", "pattern": "^.{0,8}$"},
                "port": {"type": "integer"},
                "password": {"type": "string", "format": "password", "maxLength": 30}},
            "x-kubernetes-validations": [
                {"rule": "!has(self.user) || self.user != 'root'", "messageExpression": "'not with ' + self.password"},
                {"rule": "!has(self.user) || self.user != 'crash' || duration(self.password) > duration('1s')"}]})
        ),
    ])
}

/// Everything that `validate` prints of these objects, as a text and as JSON, and its exit code.
fn printed(new: &[Value], old: &[Value], flags: &[&str]) -> (String, Vec<Value>, i32) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, objects: &[Value]| {
        fs::write(folder.path().join(name), json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string())
    };
    write("new.json", new).unwrap();
    write("old.json", old).unwrap();
    let run = |output: &str| {
        let mut command = command(&["validate", "-o", output, "--format-version", "1", "new.json"]);
        command.current_dir(folder.path()).args(flags);
        if !old.is_empty() {
            command.args(["--old", "old.json"]);
        }
        let output = command.output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap(), output.status.code())
    };
    let ((text, complaints, code), (json, _, _)) = (run("text"), run("json"));
    let default = command(&["default", "new.json"]).current_dir(folder.path()).output().unwrap();
    let rows = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}{complaints}"));
    // What `default` prints is applied, so passwords stay in it; what it says of objects that are denied is not.
    let message = String::from_utf8(default.stderr).unwrap();
    (format!("{text}{complaints}{json}{message}"), rows, code.unwrap())
}

#[test]
fn no_denial_of_a_value_shows_a_password() {
    let login = |login: Value| json!([{"name": "login", "value": login}]);
    let token = |value: Value| json!([{"name": "token", "value": value}]);
    for (rule, values) in [
        ("VAR-V-020", token(json!({"a": SECRET}))),
        ("VAR-V-022", token(json!(SECRET))),
        ("VAR-V-001", json!([{"name": "token", "value": SECRET}, {"name": "token", "value": SECRET}])),
        ("VAR-V-004", json!([{"name": "tokn", "value": SECRET}])),
        ("VAR-V-001", json!([{"name": "tokn", "value": SECRET}, {"name": "tokn", "value": SECRET}])),
        ("VAR-V-020", login(json!({"port": "x", "password": SECRET}))),
        ("VAR-V-022", login(json!({"user": "somebody-else", "password": SECRET}))),
        ("VAR-V-030", login(json!({"usr": "me", "password": SECRET}))),
        ("CEL-022", login(json!({"user": "root", "password": SECRET}))),
        ("CEL-025", login(json!({"user": "crash", "password": SECRET}))),
        ("VAR-V-020", json!([{"name": "login", "value": SECRET}])),
        ("ADM-003", json!(SECRET)),
        ("ADM-003", json!([SECRET])),
        ("ADM-003", json!({"token": SECRET})),
    ] {
        let (all, rows, code) = printed(&[class(&definitions()), cluster(&values)], &[], &[]);
        assert!(!all.contains(SECRET), "{rule}: {all}");
        let errors = rows[1]["errors"].as_array().unwrap();
        assert!(errors.iter().any(|error| error["rule"] == rule), "{rule}: {errors:?}");
        assert_eq!(code, 1);
        if rule != "VAR-V-004" && rule != "ADM-003" && !values.to_string().contains("tokn") {
            assert!(all.contains("(sensitive)"), "{rule}: {all}");
        }
    }
}

#[test]
fn no_denial_of_a_definition_shows_a_password() {
    let password = |more: Value| {
        let mut schema = json!({"type": "string", "format": "password"});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        variable("token", &schema)
    };
    let object = |default: Value| {
        variable(
            "login",
            &json!({"type": "object", "default": default,
                "properties": {"p": {"type": "string", "format": "password"}}}),
        )
    };
    for (rule, variable) in [
        ("VAR-V-022", password(json!({"default": SECRET, "minLength": 20}))),
        ("VAR-V-022", password(json!({"example": SECRET, "minLength": 20}))),
        ("VAR-V-022", password(json!({"enum": [SECRET], "minLength": 20}))),
        ("VAR-S-030", object(json!({"p": SECRET, "q": SECRET}))),
        ("VAR-V-020", object(json!({"p": {"a": SECRET}}))),
        ("CEL-022", password(json!({"default": SECRET, "x-kubernetes-validations": [{"rule": "self == ''"}]}))),
        (
            "CEL-022",
            password(json!({"example": SECRET, "x-kubernetes-validations":
            [{"rule": "self == ''", "messageExpression": "'not ' + self"}]})),
        ),
    ] {
        let (all, rows, _) = printed(&[class(&json!([variable]))], &[], &[]);
        assert!(!all.contains(SECRET) && all.contains("(sensitive)"), "{rule}: {all}");
        assert!(rows[0]["errors"].as_array().unwrap().iter().any(|error| error["rule"] == rule), "{rule}: {rows:?}");
    }
}

#[test]
fn clusters_that_no_longer_fit_are_named_and_their_passwords_are_not() {
    // DEC-1
    let old = class(&json!([variable("token", &json!({"type": "string", "format": "password"}))]));
    let new = class(&json!([variable("token", &json!({"type": "string", "format": "password", "minLength": 20}))]));
    let user = cluster(&json!([{"name": "token", "value": SECRET}]));
    for flags in [&[][..], &["--dependents=warn"][..]] {
        let (all, rows, _) = printed(&[new.clone(), user.clone()], &[old.clone(), user.clone()], flags);
        assert!(!all.contains(SECRET), "{all}");
        let of_class = &rows[0];
        let message = if flags.is_empty() { &of_class["errors"] } else { &of_class["warnings"] };
        assert!(message.to_string().contains("one"), "{of_class}");
    }
}

#[test]
fn a_patch_is_printed_without_passwords_and_answered_with_them() {
    let schema = json!({"type": "object", "default": {},
        "properties": {"password": {"type": "string", "format": "password",
        "default": SECRET}, "user": {"type": "string"}}});
    let plain = json!({"type": "string", "default": "plain"});
    let definitions = json!([variable("login", &schema), variable("note", &plain)]);
    let with = |variables: Value| cluster(&variables);
    let without = {
        let mut cluster = cluster(&json!([]));
        cluster["spec"]["topology"].as_object_mut().unwrap().remove("variables");
        cluster
    };
    for (cluster, want) in [
        (
            without,
            json!([{"op": "add", "path": "/spec/topology/variables",
            "value": [{"name": "login", "value": "(sensitive)"}, {"name": "note", "value": "plain"}]}]),
        ),
        (
            with(json!([{"name": "note", "value": "mine"}])),
            json!([{"op": "add", "path": "/spec/topology/variables/-",
            "value": {"name": "login", "value": "(sensitive)"}}]),
        ),
        (
            with(json!([{"name": "note", "value": "mine"}, {"name": "login", "value": {"user": "me"}}])),
            json!([{"op": "add", "path": "/spec/topology/variables/1/value", "value": "(sensitive)"}]),
        ),
    ] {
        let class = class(&definitions);
        let (all, rows, code) = printed(&[class.clone(), cluster.clone()], &[], &[]);
        assert_eq!((&rows[1]["patch"], code), (&want, 0), "{all}");
        assert!(!all.replace(&class.to_string(), "").contains(SECRET), "{all}");
        let verdict = defaulted(&class, &cluster);
        assert!(serde_json::to_string(&verdict.patch).unwrap().contains(SECRET), "what is answered is meant");
        let mut real = cluster.clone();
        json_patch::patch(&mut real, &verdict.patch).unwrap();
        assert!(real.to_string().contains(SECRET));
    }
}

/// What the mutating end point says of a new Cluster of this class.
fn defaulted(class: &Value, cluster: &Value) -> Verdict {
    let class = ClusterClass::decode(WireVersion::V1Beta2, &class.to_string()).unwrap();
    let cluster = cluster.to_string();
    let request = RawRequest {
        phase: Phase::Default,
        kind: Kind::Cluster,
        version: WireVersion::V1Beta2,
        operation: Operation::Create,
        name: "one",
        object: Some(&cluster),
        old_object: None,
        old_version: WireVersion::V1Beta2,
    };
    let question = DecodedRequest::decode(&request).unwrap();
    question.settle(&Arc::new(Facts::complete(Vec::new(), vec![class])), &AdmissionSettings::default())
}

#[test]
fn warnings_and_audit_annotations_show_no_password() {
    // DEC-38
    let values = json!([{"name": "token", "value": SECRET},
        {"name": "login", "value": {"user": "root", "password": SECRET}},
        {"name": "tokn", "value": SECRET}]);
    let verdict = defaulted(&class(&definitions()), &cluster(&values)).softened();
    let answer = serde_json::to_string(&verdict.response("uid").unwrap().into_review()).unwrap();
    assert!(verdict.warnings.len() > 2 && answer.contains("would-deny"), "{answer}");
    assert!(!answer.contains(SECRET), "{answer}");
}

#[test]
fn defaulted_manifests_keep_their_passwords() {
    let folder = tempfile::tempdir().unwrap();
    let schema = json!({"type": "string", "format": "password", "default": SECRET});
    let objects = [class(&json!([variable("token", &schema)])), cluster(&json!([]))];
    fs::write(
        folder.path().join("all.json"),
        json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string(),
    )
    .unwrap();
    let output = command(&["default", "all.json"]).current_dir(folder.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let of_cluster = text.split("kind: Cluster\n").nth(1).unwrap_or_else(|| panic!("{text}"));
    assert!(of_cluster.contains(SECRET) && !text.contains("(sensitive)"), "{text}");
}

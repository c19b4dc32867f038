//! The embedded API as people use it: with kubectl, over HTTPS, from the binary.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::kubectl_client::{Kubectl, Outcome};
use crate::process::{SOON, Topologist};

/// A server with its kubectl.
struct Served {
    topologist: Topologist,
    kubectl: Kubectl,
    folder: tempfile::TempDir,
}

fn quick_start() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quick-start")
}

/// A server on the objects of the quick start. Its controllers rest, so that nobody writes but the test.
fn serve() -> Served {
    let folder = tempfile::tempdir().unwrap();
    let (state, load) = (folder.path().join("state"), quick_start());
    let (state_text, load) = (state.display().to_string(), load.display().to_string());
    let arguments = ["--embedded", "--controllers=none", "--load", &load, "--state-dir", &state_text];
    let topologist = Topologist::serve(&arguments);
    topologist.wait_until_ready();
    Served { topologist, kubectl: Kubectl::new(state.join("kubeconfig")), folder }
}

/// A server that also knows gadgets.
fn serve_gadgets() -> Served {
    let served = serve();
    served.kubectl.with_input(&gadgets().to_string(), &["create", "-f", "-"]).unwrap();
    served.kubectl.out(&["wait", "--for=condition=Established", "crd/gadgets.example.com", "--timeout=20s"]);
    served
}

fn gadgets() -> Value {
    let part = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "count": {"type": "integer", "default": 1}}});
    let schema = json!({"type": "object", "description": "A gadget, for whatever it is good.", "properties": {
        "spec": {"type": "object", "description": "What is wanted.", "properties": {
            "replicas": {"type": "integer", "description": "How many of them."},
            "color": {"type": "string", "enum": ["red", "green", "blue"]},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": part},
        }},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"replicas": {"type": "integer"}}},
    }});
    let columns = json!([
        {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1},
    ]);
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "shortNames": ["gd"], "categories": ["toys"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "additionalPrinterColumns": columns}]}})
}

fn gadget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec})
}

impl Served {
    /// `kubectl … -f -` with an object, which has to succeed.
    #[track_caller]
    fn give(&self, object: &Value, arguments: &[&str]) -> String {
        self.try_give(object, arguments).unwrap()
    }

    fn try_give(&self, object: &Value, arguments: &[&str]) -> Outcome {
        self.kubectl.with_input(&object.to_string(), &[arguments, &["-f", "-"]].concat())
    }

    /// A field of an object by its JSON path.
    fn field(&self, object: &str, path: &str) -> String {
        self.kubectl.out(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
    }
}

/// The words of each line.
fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn objects_are_shown_in_the_columns_of_their_kind_and_in_every_form() {
    let served = serve_gadgets();
    served.give(&gadget("a", json!({"color": "red", "replicas": 3})), &["apply"]);
    let kubectl = &served.kubectl;
    let table = kubectl.out(&["get", "gadgets"]);
    assert_eq!(words(&table)[0], ["NAME", "COLOR", "READY"], "{table}");
    assert_eq!(words(&table)[1], ["a", "red"], "{table}");
    let wide = kubectl.out(&["get", "gd", "-o", "wide"]);
    assert_eq!((words(&wide)[0].last(), words(&wide)[1].last()), (Some(&"REPLICAS"), Some(&"3")), "{wide}");
    let status = r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    kubectl.out(&["patch", "gadget", "a", "--subresource=status", "--type=merge", "-p", status]);
    assert_eq!(words(&kubectl.out(&["get", "toys", "--no-headers"])), [["a", "red", "True"]], "by category");
    let yaml = kubectl.out(&["get", "gadget/a", "-o", "yaml"]);
    assert!(yaml.contains("  color: red\n") && !yaml.contains("managedFields"), "{yaml}");
    assert!(kubectl.out(&["get", "gadget/a", "-o", "yaml", "--show-managed-fields"]).contains("f:color: {}"));
    assert_eq!(kubectl.out(&["get", "gadgets", "-o", "jsonpath={.items[*].spec.replicas}"]), "3");
    assert_eq!(kubectl.out(&["get", "gadgets", "-o", "name"]), "gadget.example.com/a\n");
    let columns = kubectl.out(&["get", "gd", "--no-headers", "-o", "custom-columns=N:.metadata.name,C:.spec.color"]);
    assert_eq!(words(&columns), [["a", "red"]]);
    assert_eq!(kubectl.out(&["get", "gadgets", "-l", "x=y"]), "");
    assert!(kubectl.err(&["get", "gadget", "b"]).contains("gadgets.example.com \"b\" not found"));
    assert!(kubectl.err(&["get", "gizmos"]).contains("the server doesn't have a resource type \"gizmos\""));

    // What the program itself brings, and what it was given.
    let clusters = kubectl.out(&["get", "clusters", "-A"]);
    let header: Vec<&str> = words(&clusters)[0].clone();
    assert_eq!(header[..5], ["NAMESPACE", "NAME", "CLUSTERCLASS", "AVAILABLE", "CP"], "{clusters}");
    assert_eq!(words(&clusters)[1][..3], ["default", "demo", "quick-start"], "{clusters}");
    assert_eq!(words(&clusters)[1].last(), Some(&"v1.33.0"), "{clusters}");
    for (kind, columns) in [
        ("namespaces", "NAME STATUS AGE"),
        ("customresourcedefinitions", "NAME CREATED AT"),
        ("leases -A", "NAMESPACE NAME HOLDER AGE"),
    ] {
        let arguments: Vec<&str> = ["get"].into_iter().chain(kind.split(' ')).collect();
        let table = kubectl.out(&arguments);
        let header: Vec<&str> = columns.split(' ').collect();
        assert!(table.is_empty() || words(&table)[0] == header, "{table}");
    }
}

#[test]
fn applied_objects_are_created_changed_and_left_alone() {
    let served = serve_gadgets();
    let kubectl = &served.kubectl;
    let parts = |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
    let plain = gadget("b", json!({"color": "red"}));
    assert_eq!(served.give(&plain, &["apply"]), "gadget.example.com/b created\n");
    assert_eq!(served.give(&plain, &["apply"]), "gadget.example.com/b unchanged\n");
    let first = gadget("a", json!({"color": "red", "parts": parts(&["x", "y"])}));
    served.give(&first, &["apply"]);
    assert_eq!(served.field("gadget/a", ".spec.parts[*].count"), "1 1", "defaults are filled in");
    let before = served.field("gadget/a", ".metadata.resourceVersion");
    served.give(&first, &["apply"]);
    assert_eq!(served.field("gadget/a", ".metadata.resourceVersion"), before, "a write without a change is none");
    let second = gadget("a", json!({"color": "blue", "parts": parts(&["x"])}));
    let diff = served.try_give(&second, &["diff"]);
    assert_eq!(diff.code, 1, "{diff:?}");
    assert!(diff.out.contains("-  color: red") && diff.out.contains("+  color: blue"), "{}", diff.out);
    assert_eq!(
        served.give(&second, &["apply", "--dry-run=server"]),
        "gadget.example.com/a configured (server dry run)\n"
    );
    assert_eq!(served.give(&second, &["apply", "--dry-run=client"]), "gadget.example.com/a configured (dry run)\n");
    assert_eq!(served.field("gadget/a", ".spec.color"), "red", "nothing was kept");
    assert_eq!(served.give(&second, &["apply"]), "gadget.example.com/a configured\n");
    assert_eq!(served.field("gadget/a", ".spec.parts[*].name"), "x");
    assert_eq!(served.try_give(&second, &["diff"]).code, 0);

    // Kinds that kubectl has types for are patched in its own way.
    let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
    served.give(&map(json!({"a": "1", "b": "2"})), &["apply"]);
    assert_eq!(served.give(&map(json!({"a": "3"})), &["apply"]), "configmap/m configured\n");
    assert_eq!(served.field("configmap/m", ".data"), r#"{"a":"3"}"#);
    let table = kubectl.out(&["get", "configmaps"]);
    assert_eq!(words(&table)[0], ["NAME", "DATA", "AGE"]);
}

#[test]
fn whoever_applies_what_another_owns_is_told_so_until_it_insists() {
    let served = serve_gadgets();
    let apply = |color: &str, manager: &str, more: &[&str]| {
        let manager = format!("--field-manager={manager}");
        served.try_give(&gadget("a", json!({"color": color})), &[&["apply", "--server-side", &manager], more].concat())
    };
    assert_eq!(apply("red", "one", &[]).unwrap(), "gadget.example.com/a serverside-applied\n");
    let refused = apply("blue", "two", &[]);
    assert_eq!(refused.code, 1);
    for part in ["Apply failed with 1 conflict: conflict with \"one\": .spec.color", "--force-conflicts"] {
        assert!(refused.err.contains(part), "{}", refused.err);
    }
    apply("blue", "two", &["--force-conflicts"]).unwrap();
    assert_eq!(served.field("gadget/a", ".spec.color"), "blue");
    assert_eq!(
        apply("green", "two", &["--dry-run=server"]).unwrap(),
        "gadget.example.com/a serverside-applied (server dry run)\n"
    );
    assert_eq!(served.field("gadget/a", ".spec.color"), "blue");
}

#[test]
fn objects_are_patched_in_each_of_three_ways() {
    let served = serve_gadgets();
    let kubectl = &served.kubectl;
    served.give(&gadget("a", json!({"color": "red", "parts": [{"name": "x"}]})), &["create"]);
    kubectl.out(&["patch", "gadget", "a", "--type=merge", "-p", r#"{"spec":{"color":"blue","replicas":2}}"#]);
    let patch = r#"[{"op":"test","path":"/spec/color","value":"blue"},{"op":"remove","path":"/spec/replicas"}]"#;
    kubectl.out(&["patch", "gadget", "a", "--type=json", "-p", patch]);
    assert_eq!(served.field("gadget/a", ".spec"), r#"{"color":"blue","parts":[{"count":1,"name":"x"}]}"#);
    let refused = kubectl.err(&["patch", "gadget", "a", "--type=json", "-p", patch]);
    assert!(refused.contains("The request is invalid"), "there is nothing to remove: {refused}");
    let refused = kubectl.err(&["patch", "gadget", "a", "-p", r#"{"spec":{"color":"red"}}"#]);
    assert!(refused.contains("application/strategic-merge-patch+json is not supported"), "{refused}");
    kubectl.out(&["create", "secret", "generic", "s", "--from-literal=a=1", "--from-literal=b=2"]);
    kubectl.out(&["patch", "secret", "s", "-p", r#"{"data":{"a":null}}"#]);
    assert_eq!(served.field("secret/s", ".data"), r#"{"b":"Mg=="}"#);
    assert!(words(&kubectl.out(&["get", "secrets"]))[1].starts_with(&["s", "Opaque", "1"]));
}

#[test]
fn labels_annotations_and_replicas_have_commands_of_their_own() {
    let served = serve_gadgets();
    let kubectl = &served.kubectl;
    served.give(&gadget("a", json!({"replicas": 1})), &["create"]);
    kubectl.out(&["label", "gadget", "a", "team=blue", "tier=x"]);
    kubectl.out(&["label", "gadgets", "--all", "team=red", "--overwrite"]);
    kubectl.out(&["label", "gadget", "a", "tier-"]);
    kubectl.out(&["annotate", "gadget", "a", "example.com/note=hello world"]);
    assert_eq!(served.field("gadget/a", ".metadata.labels"), r#"{"team":"red"}"#);
    assert_eq!(served.field("gadget/a", r".metadata.annotations.example\.com/note"), "hello world");
    assert_eq!(kubectl.out(&["get", "gadgets", "-l", "team in (red),!tier", "-o", "name"]), "gadget.example.com/a\n");
    assert_eq!(kubectl.out(&["scale", "gadget/a", "--replicas=5"]), "gadget.example.com/a scaled\n");
    assert_eq!(served.field("gadget/a", ".spec.replicas"), "5");
    let stale = kubectl.err(&["scale", "gadget/a", "--replicas=6", "--current-replicas=4"]);
    assert!(stale.contains("Expected replicas to be 4, was 5"), "{stale}");
}

#[test]
fn what_is_there_is_not_created_again_and_may_be_replaced() {
    let served = serve_gadgets();
    let kubectl = &served.kubectl;
    served.give(&gadget("a", json!({"color": "red"})), &["create"]);
    let again = served.try_give(&gadget("a", json!({})), &["create"]);
    assert!(
        again.err.contains("(AlreadyExists)") && again.err.contains("gadgets.example.com \"a\" already exists"),
        "{again:?}"
    );
    assert_eq!(served.give(&gadget("a", json!({"color": "blue"})), &["replace"]), "gadget.example.com/a replaced\n");
    assert_eq!(served.field("gadget/a", ".spec"), r#"{"color":"blue"}"#);
    let mut stale = gadget("a", json!({"color": "green"}));
    stale["metadata"]["resourceVersion"] = json!("1");
    let refused = served.try_give(&stale, &["replace"]);
    assert!(refused.err.contains("the object has been modified"), "{refused:?}");
    assert_eq!(kubectl.out(&["create", "namespace", "n"]), "namespace/n created\n");
    kubectl.out(&["create", "configmap", "m", "-n", "n", "--from-literal=a=1"]);
    assert!(
        served
            .try_give(&gadget("a", json!({})), &["create", "-n", "nowhere"])
            .err
            .contains("namespaces \"nowhere\" not found")
    );
    kubectl.out(&["delete", "namespace", "n", "--timeout=20s"]);
    assert!(kubectl.err(&["get", "configmap", "m", "-n", "n"]).contains("not found"));
}

#[test]
fn kubectl_waits_for_conditions_values_and_ends() {
    let served = serve_gadgets();
    let kubectl = &served.kubectl;
    served.give(&gadget("a", json!({})), &["create"]);
    let waits = |arguments: &[&str]| {
        let mut command = kubectl.command(&[&["wait", "gadget/a", "--timeout=30s"], arguments].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let (ready, replicas) = (waits(&["--for=condition=Ready"]), waits(&["--for=jsonpath={.status.replicas}=2"]));
    let (gone, mut watch) = (waits(&["--for=delete"]), Watch::start(kubectl, &["get", "gadgets", "-w"]));
    assert_eq!(words(&watch.line())[0], ["NAME", "COLOR", "READY"]);
    assert_eq!(words(&watch.line())[0], ["a"]);
    let status = r#"{"status":{"replicas":2,"conditions":[{"type":"Ready","status":"True"}]}}"#;
    kubectl.out(&["patch", "gadget", "a", "--subresource=status", "--type=merge", "-p", status]);
    for waiting in [ready, replicas] {
        assert!(
            Outcome::from(waiting.wait_with_output().unwrap()).unwrap().contains("gadget.example.com/a condition met")
        );
    }
    assert_eq!(words(&watch.line())[0], ["a", "True"]);
    let late = kubectl.err(&["wait", "gadget/a", "--for=condition=Never", "--timeout=1s"]);
    assert!(late.contains("timed out waiting for the condition"), "{late}");

    // A finalizer keeps the object, and those who wait for its end.
    kubectl.out(&["patch", "gadget", "a", "--type=merge", "-p", r#"{"metadata":{"finalizers":["example.com/f"]}}"#]);
    let deletion =
        kubectl.command(&["delete", "gadget", "a", "--wait", "--timeout=30s"]).stdout(Stdio::piped()).spawn().unwrap();
    kubectl.out(&["wait", "gadget/a", "--for=jsonpath={.metadata.deletionTimestamp}", "--timeout=20s"]);
    kubectl.out(&["patch", "gadget", "a", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    assert!(Outcome::from(deletion.wait_with_output().unwrap()).unwrap().contains("gadget.example.com \"a\" deleted"));
    Outcome::from(gone.wait_with_output().unwrap()).unwrap();
    assert!(kubectl.err(&["get", "gadget", "a"]).contains("not found"));
}

/// A command that goes on, read line by line.
struct Watch {
    child: std::process::Child,
    lines: mpsc::Receiver<String>,
}

impl Watch {
    fn start(kubectl: &Kubectl, arguments: &[&str]) -> Self {
        let mut child = kubectl.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Watch { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.recv_timeout(SOON).expect("the watch tells something")
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn kinds_are_listed_and_explained_as_soon_as_they_are_defined() {
    let served = serve_gadgets();
    let kubectl = &served.kubectl;
    let resources = kubectl.out(&["api-resources", "--no-headers"]);
    let rows = words(&resources);
    assert!(rows.contains(&vec!["gadgets", "gd", "example.com/v1", "true", "Gadget"]), "{resources}");
    assert!(
        rows.iter().any(|row| row[..2] == ["clusters", "cl"] && row[2] == "cluster.x-k8s.io/v1beta2"),
        "{resources}"
    );
    let versions = kubectl.out(&["api-versions"]);
    for version in
        ["v1", "example.com/v1", "cluster.x-k8s.io/v1beta1", "apiextensions.k8s.io/v1", "coordination.k8s.io/v1"]
    {
        assert!(versions.lines().any(|line| line == version), "{version}: {versions}");
    }
    let explained = kubectl.out(&["explain", "gadget.spec"]);
    for part in
        ["KIND:       Gadget", "What is wanted.", "replicas\t<integer>", "How many of them.", "enum: red, green, blue"]
    {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    assert!(kubectl.out(&["explain", "gd.metadata.ownerReferences"]).contains("blockOwnerDeletion"));
    let explained = kubectl.out(&["explain", "cluster.spec.topology"]);
    for part in ["VERSION:    v1beta2", "classRef\t<Object> -required-", "variables\t<[]Object>"] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    let older =
        kubectl.out(&["explain", "cluster.spec.topology", "--api-version=cluster.x-k8s.io/v1beta1", "--recursive"]);
    assert!(older.contains("class\t<string> -required-") && older.contains("machineDeployments"), "{older}");
    assert!(kubectl.out(&["explain", "secret.data"]).contains("FIELD: data"));
    assert!(kubectl.err(&["explain", "gadget.spec.nothing"]).contains("field \"nothing\" does not exist"));
}

#[test]
fn unknown_fields_are_refused_warned_of_or_dropped_as_kubectl_is_told() {
    let served = serve_gadgets();
    let odd = gadget("a", json!({"color": "red", "colour": "blue"}));
    for command in [&["apply"][..], &["create"], &["apply", "--server-side"]] {
        let refused = served.try_give(&odd, &[command, &["--validate=strict"]].concat());
        assert_ne!(refused.code, 0, "{command:?}: {refused:?}");
        let wanted = if command.len() == 1 { "unknown field \"spec.colour\"" } else { "field not declared in schema" };
        assert!(refused.err.contains(wanted), "{command:?}: {refused:?}");
    }
    let warned = served.try_give(&odd, &["apply", "--validate=warn"]);
    assert!(warned.err.contains("Warning: unknown field \"spec.colour\""), "{warned:?}");
    warned.unwrap();
    assert_eq!(served.field("gadget/a", ".spec"), r#"{"color":"red"}"#);
    let ignored = served.try_give(&odd, &["apply", "--validate=ignore"]);
    assert_eq!(ignored.err, "");
    let wrong = served.try_give(&gadget("a", json!({"color": "pink"})), &["apply"]);
    assert!(
        wrong.err.contains("spec.color: Unsupported value: \"pink\": supported values: \"red\", \"green\", \"blue\""),
        "{wrong:?}"
    );
}

#[test]
fn an_editor_and_a_description_work_on_any_object() {
    let served = serve_gadgets();
    let kubectl = &served.kubectl;
    served.give(&gadget("a", json!({"color": "red"})), &["apply"]);
    let script = served.folder.path().join("editor");
    fs::write(&script, "#!/bin/sh\nsed -i 's/color: red/color: green/' \"$1\"\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut edit = kubectl.command(&["edit", "gadget", "a"]);
    edit.env("KUBE_EDITOR", &script);
    assert_eq!(Outcome::of(edit).unwrap(), "gadget.example.com/a edited\n");
    assert_eq!(served.field("gadget/a", ".spec.color"), "green");
    let uid = served.field("gadget/a", ".metadata.uid");
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "type": "Warning",
        "reason": "Squeaks", "message": "it squeaks", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 2,
        "involvedObject": {"apiVersion": "example.com/v1", "kind": "Gadget", "namespace": "default", "name": "a", "uid": uid}});
    served.give(&event, &["create"]);
    let described = kubectl.out(&["describe", "gadget", "a"]);
    for part in ["Name:         a", "Color:  green", "Warning  Squeaks", "it squeaks"] {
        assert!(described.contains(part), "{part}: {described}");
    }
    let events = kubectl.out(&["events", "--for", "gadget/a"]);
    assert!(events.contains("it squeaks"), "{events}");
    let table = kubectl.out(&["get", "events", "--field-selector", "reason=Squeaks"]);
    assert_eq!(words(&table)[0], ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    assert_eq!(words(&table)[1][1..4], ["Warning", "Squeaks", "gadget/a"], "{table}");
    for kind in ["namespace/default", "secret", "cluster/demo", "clusterclass/quick-start", "crd/gadgets.example.com"] {
        kubectl.out(&["describe", kind]);
    }
}

#[test]
fn a_cluster_that_breaks_a_rule_is_denied_with_the_words_of_the_rule() {
    let served = serve();
    let kubectl = &served.kubectl;
    let file = quick_start().join("cluster.yaml");
    let cluster: Value =
        serde_json::from_str(&kubectl.out(&["create", "--dry-run=client", "-o", "json", "-f", file.to_str().unwrap()]))
            .unwrap();
    let with = |name: &str, version: &str| {
        let mut cluster = cluster.clone();
        cluster["metadata"]["name"] = json!(name);
        cluster["spec"]["topology"]["version"] = json!(version);
        cluster
    };
    let denied = served.try_give(&with("other", "v1.35.0"), &["apply"]);
    for part in [
        "The Cluster \"other\" is invalid: spec.topology.version: Invalid value: \"v1.35.0\"",
        "ClusterClass default/quick-start offers v1.32.0, v1.32.9, v1.33.0, v1.33.5, v1.34.0, v1.34.2",
    ] {
        assert!(denied.err.contains(part), "{part}: {denied:?}");
    }
    let mut without_class = with("third", "v1.33.0");
    without_class["spec"]["topology"]["classRef"]["name"] = json!("absent");
    let warned = served.try_give(&without_class, &["apply", "--dry-run=server"]);
    assert!(warned.err.contains("Warning: ") && warned.err.contains("default/absent does not exist"), "{warned:?}");

    served.give(&with("other", "1.33.0"), &["apply"]);
    assert_eq!(served.field("cluster/other", ".spec.topology.version"), "v1.33.0", "defaults are filled in");
    assert_eq!(
        served.field("cluster/other", ".spec.topology.variables[?(@.name==\"imageRepository\")].value"),
        "docker.io/kindest"
    );

    // What was just created is known: the class is in use.
    kubectl.out(&["delete", "cluster", "demo"]);
    let denied = kubectl.err(&["delete", "clusterclass", "quick-start"]);
    let why = "admission webhook \"validation.clusterclass.topologist.dev\" denied the request: ClusterClass \
               default/quick-start cannot be deleted because it is used by default/other";
    assert!(denied.contains(why), "{denied}");
    kubectl.out(&["delete", "cluster", "other"]);
    let gone = kubectl.run(&["delete", "clusterclass", "quick-start"]);
    assert_eq!(gone.code, 0, "{gone:?}");
}

/// What a terminal shows in a document, from a command on: its lines, and what is printed.
fn shown(document: &str, command: &str) -> (String, String) {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(document)).unwrap();
    let (_, rest) = text.split_once(&format!("\n$ {command}")).unwrap_or_else(|| panic!("{command} is in {document}"));
    let (line, rest) = rest.split_once('\n').unwrap();
    let printed = rest.split("```").next().unwrap().split("\n$ ").next().unwrap();
    (format!("{command}{line}"), printed.to_owned())
}

#[test]
fn the_examples_for_newcomers_say_what_happens() {
    let served = serve();
    let sh = |line: &str| {
        let (program, arguments) = line.split_once(' ').unwrap();
        assert_eq!(program, "kubectl");
        // kubectl with its arguments, which a shell takes apart.
        let kubectl = served.kubectl.command(&[]);
        let start: Vec<String> = [kubectl.get_program()]
            .into_iter()
            .chain(kubectl.get_args())
            .map(|part| part.to_str().unwrap().to_owned())
            .collect();
        let mut shell = std::process::Command::new("bash");
        shell.arg("-c").arg(format!("\"$0\" \"$@\" {arguments}")).args(start);
        shell
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .envs(kubectl.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Outcome::of(shell)
    };
    let (line, printed) = shown("README.md", "kubectl patch cluster demo");
    assert_eq!(sh(&line).err, printed);
    let announced = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let lines: Vec<&str> = announced.lines().filter_map(|line| line.strip_prefix("  kubectl ")).collect();
    assert_eq!(lines.len(), 3);
    for line in lines {
        sh(&format!("kubectl {line}")).unwrap();
    }
}

#[test]
fn both_versions_of_a_cluster_are_served_and_kept_as_one() {
    let served = serve();
    let older = "clusters.v1beta1.cluster.x-k8s.io";
    let out = |path: &str| served.kubectl.out(&["get", older, "demo", "-o", &format!("jsonpath={{{path}}}")]);
    assert_eq!(out(".spec.topology.class"), "quick-start");
    assert_eq!(words(&served.kubectl.out(&["get", older]))[1][1], "quick-start");
    let written = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": {"name": "older"},
        "spec": {"topology": {"class": "quick-start", "version": "v1.33.0",
            "controlPlane": {"replicas": 1, "nodeDrainTimeout": "5m0s"}}}});
    let applied = served.try_give(&written, &["apply", "--server-side"]);
    assert!(applied.err.contains("cluster.x-k8s.io/v1beta1 Cluster is deprecated"), "{applied:?}");
    applied.unwrap();
    assert_eq!(served.field("cluster/older", ".spec.topology.classRef.name"), "quick-start");
    assert_eq!(served.field("cluster/older", ".spec.topology.controlPlane.deletion.nodeDrainTimeoutSeconds"), "300");
    served.give(&written, &["apply", "--server-side"]);
    assert_eq!(served.field(&format!("{older}/older"), ".spec.topology.controlPlane.nodeDrainTimeout"), "5m0s");
    let mut odd = written;
    odd["spec"]["topology"]["controlPlane"]["nodeDrainTimeout"] = json!("soon");
    let refused = served.try_give(&odd, &["apply", "--server-side"]);
    assert!(refused.err.contains("nodeDrainTimeout") && refused.err.contains("soon"), "{refused:?}");
}

#[test]
fn only_the_kubeconfig_opens_the_api() {
    let served = serve();
    use std::os::unix::fs::PermissionsExt;
    let path = served.folder.path().join("state/kubeconfig");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let refused = served.kubectl.err(&["get", "namespaces", "--token=wrong"]);
    assert!(refused.contains("You must be logged in to the server"), "{refused}");
    let other = serve();
    let text = fs::read_to_string(&path).unwrap();
    let address = |served: &Served| format!("https://{}", served.topologist.api);
    assert!(text.contains(&address(&served)));
    fs::write(&path, text.replace(&address(&served), &address(&other))).unwrap();
    let refused = served.kubectl.err(&["get", "namespaces"]);
    assert!(refused.contains("certificate signed by unknown authority"), "{refused}");
}

#[test]
fn the_server_stops_in_good_order_with_watches_open() {
    let mut served = serve();
    let mut watch = Watch::start(&served.kubectl, &["get", "clusters", "-w", "--no-headers"]);
    assert!(watch.line().starts_with("demo"));
    served.topologist.signal("INT");
    assert_eq!(served.topologist.wait().code(), Some(0));
    let log = served.topologist.log_text();
    assert!(log.contains("Stopped") && !log.contains("Closing connections that did not finish in time"), "{log}");
}

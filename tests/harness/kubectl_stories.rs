//! What kubectl does with objects of a custom kind, whatever API server answers: stories that are told to the embedded
//! API and to a real one.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;

use serde_json::{Value, json};

use super::kubectl::{Kubectl, Outcome};
use super::wait::SOON;

/// A test for each story, with the kubectl that `$start` makes.
macro_rules! stories {
    ($start:expr) => {
        $crate::harness::kubectl_stories::stories!($start => discovery_describes_a_kind_as_every_server_does,
            kinds_that_every_server_has_show_their_own_columns,
            objects_are_shown_in_the_columns_of_their_kind_and_in_every_form,
            applied_objects_are_created_changed_and_left_alone,
            an_apply_of_fields_of_another_manager_conflicts_until_it_is_forced,
            objects_are_patched_in_each_of_three_ways,
            labels_annotations_and_replicas_have_commands_of_their_own,
            what_is_there_is_not_created_again_and_may_be_replaced,
            kubectl_waits_for_conditions_values_and_ends,
            kinds_are_listed_and_explained_as_soon_as_they_are_defined,
            unknown_fields_are_refused_warned_of_or_dropped_as_requested,
            a_definition_that_describes_metadata_is_refused,
            an_editor_and_a_description_work_on_any_object);
    };
    ($start:expr => $($story:ident),*) => {
        $(#[test]
        fn $story() {
            $crate::harness::kubectl_stories::$story(&$start());
        })*
    };
}
pub(crate) use stories;

/// The definition of gadgets.
pub fn gadgets() -> Value {
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

pub fn gadget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec})
}

/// The words of each line.
pub fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

pub fn discovery_describes_a_kind_as_every_server_does(kubectl: &Kubectl) {
    let raw = |path: &str| -> Value { serde_json::from_str(&kubectl.eventually(&["get", "--raw", path])).unwrap() };
    let mut list = raw("/apis/example.com/v1");
    for resource in list["resources"].as_array_mut().unwrap() {
        resource.as_object_mut().unwrap().remove("storageVersionHash");
    }
    list["resources"].as_array_mut().unwrap().sort_by_key(|resource| resource["name"].to_string());
    let verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    let few = ["get", "patch", "update"];
    let want = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "example.com/v1", "resources": [
        {"name": "gadgets", "singularName": "gadget", "namespaced": true, "kind": "Gadget", "verbs": verbs,
            "shortNames": ["gd"], "categories": ["toys"]},
        {"name": "gadgets/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
            "kind": "Scale", "verbs": few},
        {"name": "gadgets/status", "singularName": "", "namespaced": true, "kind": "Gadget", "verbs": few},
    ]});
    assert_eq!(list, want);
    let version = json!({"groupVersion": "example.com/v1", "version": "v1"});
    let want = json!({"kind": "APIGroup", "apiVersion": "v1", "name": "example.com", "versions": [version],
        "preferredVersion": version});
    assert_eq!(raw("/apis/example.com"), want);
    assert_eq!(raw("/version")["minor"], "33");
    let document = raw("/openapi/v3/apis/example.com/v1");
    let path = "/apis/example.com/v1/namespaces/{namespace}/gadgets/{name}";
    let operations = |item: &Value| -> Vec<String> {
        item.as_object().unwrap().keys().filter(|key| *key != "parameters").cloned().collect()
    };
    assert_eq!(operations(&document["paths"][path]), ["delete", "get", "patch", "put"]);
    let paths: Vec<&String> =
        document["paths"].as_object().unwrap().keys().filter(|path| path.contains("gadgets")).collect();
    let want = [
        "/apis/example.com/v1/gadgets",
        "/apis/example.com/v1/namespaces/{namespace}/gadgets",
        "/apis/example.com/v1/namespaces/{namespace}/gadgets/{name}",
        "/apis/example.com/v1/namespaces/{namespace}/gadgets/{name}/scale",
        "/apis/example.com/v1/namespaces/{namespace}/gadgets/{name}/status",
    ];
    assert_eq!(paths, want);
    let changing = &document["paths"][path]["patch"];
    assert_eq!(changing["x-kubernetes-action"], "patch");
    let mut parameters: Vec<&str> =
        changing["parameters"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    parameters.retain(|name| *name != "pretty");
    parameters.sort_unstable();
    assert_eq!(parameters, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let schema = &document["components"]["schemas"]["com.example.v1.Gadget"];
    assert_eq!(
        schema["properties"]["spec"],
        gadgets()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    );
    let meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(schema["properties"]["metadata"]["allOf"][0]["$ref"], meta);
}

pub fn kinds_that_every_server_has_show_their_own_columns(kubectl: &Kubectl) {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"holderIdentity": "me"}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "type": "Normal", "reason": "Is",
        "message": "it is", "involvedObject": {"kind": "Gadget", "namespace": kubectl.namespace, "name": "g"},
        "source": {"component": "us", "host": "here"}});
    for object in [lease, account, event] {
        kubectl.give(&object, &["create"]);
    }
    kubectl.out(&["create", "secret", "generic", "s", "--from-literal=a=1"]);
    kubectl.out(&["create", "configmap", "m", "--from-literal=a=1"]);
    let webhooks = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": kubectl.namespace}, "webhooks": []});
    kubectl.give(&webhooks, &["create"]);
    for (what, header, row) in [
        (format!("namespace/{}", kubectl.namespace), "NAME STATUS AGE", format!("{} Active", kubectl.namespace)),
        ("secret/s".to_owned(), "NAME TYPE DATA AGE", "s Opaque 1".to_owned()),
        ("configmap/m".to_owned(), "NAME DATA AGE", "m 1".to_owned()),
        ("lease/l".to_owned(), "NAME HOLDER AGE", "l me".to_owned()),
        ("serviceaccount/a".to_owned(), "NAME SECRETS AGE", "a 0".to_owned()),
        (
            "event/e".to_owned(),
            "LAST SEEN TYPE REASON OBJECT SUBOBJECT SOURCE MESSAGE FIRST SEEN COUNT NAME",
            "<unknown> Normal Is gadget/g us, here it is <unknown> 1 e".to_owned(),
        ),
        ("crd/gadgets.example.com".to_owned(), "NAME CREATED AT", "gadgets.example.com 2".to_owned()),
        (
            format!("validatingwebhookconfiguration/{}", kubectl.namespace),
            "NAME WEBHOOKS AGE",
            format!("{} 0", kubectl.namespace),
        ),
    ] {
        let table = kubectl.out(&["get", &what, "-o", "wide"]);
        let lines: Vec<String> = words(&table).iter().map(|line| line.join(" ")).collect();
        assert_eq!(lines[0], header, "{what}");
        assert!(lines[1].starts_with(&row), "{what}: {table}");
    }
}

pub fn objects_are_shown_in_the_columns_of_their_kind_and_in_every_form(kubectl: &Kubectl) {
    kubectl.give(&gadget("a", json!({"color": "red", "replicas": 3})), &["apply"]);
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
}

pub fn applied_objects_are_created_changed_and_left_alone(kubectl: &Kubectl) {
    let parts = |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
    let plain = gadget("b", json!({"color": "red"}));
    assert_eq!(kubectl.give(&plain, &["apply"]), "gadget.example.com/b created\n");
    assert_eq!(kubectl.give(&plain, &["apply"]), "gadget.example.com/b unchanged\n");
    let first = gadget("a", json!({"color": "red", "parts": parts(&["x", "y"])}));
    kubectl.give(&first, &["apply"]);
    assert_eq!(kubectl.field("gadget/a", ".spec.parts[*].count"), "1 1", "defaults are filled in");
    let before = kubectl.field("gadget/a", ".metadata.resourceVersion");
    kubectl.give(&first, &["apply"]);
    assert_eq!(kubectl.field("gadget/a", ".metadata.resourceVersion"), before, "a write without a change is none");
    let second = gadget("a", json!({"color": "blue", "parts": parts(&["x"])}));
    let diff = kubectl.try_give(&second, &["diff"]);
    assert_eq!(diff.code, 1, "{diff:?}");
    assert!(diff.out.contains("-  color: red") && diff.out.contains("+  color: blue"), "{}", diff.out);
    assert_eq!(
        kubectl.give(&second, &["apply", "--dry-run=server"]),
        "gadget.example.com/a configured (server dry run)\n"
    );
    assert_eq!(kubectl.give(&second, &["apply", "--dry-run=client"]), "gadget.example.com/a configured (dry run)\n");
    assert_eq!(kubectl.field("gadget/a", ".spec.color"), "red", "nothing was kept");
    assert_eq!(kubectl.give(&second, &["apply"]), "gadget.example.com/a configured\n");
    assert_eq!(kubectl.field("gadget/a", ".spec.parts[*].name"), "x");
    assert_eq!(kubectl.try_give(&second, &["diff"]).code, 0);

    // Kinds that kubectl has types for are patched in its own way.
    let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
    kubectl.give(&map(json!({"a": "1", "b": "2"})), &["apply"]);
    assert_eq!(kubectl.give(&map(json!({"a": "3"})), &["apply"]), "configmap/m configured\n");
    assert_eq!(kubectl.field("configmap/m", ".data"), r#"{"a":"3"}"#);
    let table = kubectl.out(&["get", "configmaps"]);
    assert_eq!(words(&table)[0], ["NAME", "DATA", "AGE"]);
}

pub fn an_apply_of_fields_of_another_manager_conflicts_until_it_is_forced(kubectl: &Kubectl) {
    let apply = |color: &str, manager: &str, more: &[&str]| {
        let manager = format!("--field-manager={manager}");
        kubectl.try_give(&gadget("a", json!({"color": color})), &[&["apply", "--server-side", &manager], more].concat())
    };
    assert_eq!(apply("red", "one", &[]).unwrap(), "gadget.example.com/a serverside-applied\n");
    let refused = apply("blue", "two", &[]);
    assert_eq!(refused.code, 1);
    for part in ["Apply failed with 1 conflict: conflict with \"one\": .spec.color", "--force-conflicts"] {
        assert!(refused.err.contains(part), "{}", refused.err);
    }
    apply("blue", "two", &["--force-conflicts"]).unwrap();
    assert_eq!(kubectl.field("gadget/a", ".spec.color"), "blue");
    assert_eq!(
        apply("green", "two", &["--dry-run=server"]).unwrap(),
        "gadget.example.com/a serverside-applied (server dry run)\n"
    );
    assert_eq!(kubectl.field("gadget/a", ".spec.color"), "blue");
}

pub fn objects_are_patched_in_each_of_three_ways(kubectl: &Kubectl) {
    kubectl.give(&gadget("a", json!({"color": "red", "parts": [{"name": "x"}]})), &["create"]);
    kubectl.out(&["patch", "gadget", "a", "--type=merge", "-p", r#"{"spec":{"color":"blue","replicas":2}}"#]);
    let patch = r#"[{"op":"test","path":"/spec/color","value":"blue"},{"op":"remove","path":"/spec/replicas"}]"#;
    kubectl.out(&["patch", "gadget", "a", "--type=json", "-p", patch]);
    assert_eq!(kubectl.field("gadget/a", ".spec"), r#"{"color":"blue","parts":[{"count":1,"name":"x"}]}"#);
    let refused = kubectl.err(&["patch", "gadget", "a", "--type=json", "-p", patch]);
    assert!(refused.contains("The request is invalid"), "there is nothing to remove: {refused}");
    let refused = kubectl.err(&["patch", "gadget", "a", "-p", r#"{"spec":{"color":"red"}}"#]);
    assert!(refused.contains("application/strategic-merge-patch+json is not supported"), "{refused}");
    kubectl.out(&["create", "secret", "generic", "s", "--from-literal=a=1", "--from-literal=b=2"]);
    kubectl.out(&["patch", "secret", "s", "-p", r#"{"data":{"a":null}}"#]);
    assert_eq!(kubectl.field("secret/s", ".data"), r#"{"b":"Mg=="}"#);
    assert!(words(&kubectl.out(&["get", "secrets"]))[1].starts_with(&["s", "Opaque", "1"]));
}

pub fn labels_annotations_and_replicas_have_commands_of_their_own(kubectl: &Kubectl) {
    kubectl.give(&gadget("a", json!({"replicas": 1})), &["create"]);
    kubectl.out(&["label", "gadget", "a", "team=blue", "tier=x"]);
    kubectl.out(&["label", "gadgets", "--all", "team=red", "--overwrite"]);
    kubectl.out(&["label", "gadget", "a", "tier-"]);
    kubectl.out(&["annotate", "gadget", "a", "example.com/note=hello world"]);
    assert_eq!(kubectl.field("gadget/a", ".metadata.labels"), r#"{"team":"red"}"#);
    assert_eq!(kubectl.field("gadget/a", r".metadata.annotations.example\.com/note"), "hello world");
    assert_eq!(kubectl.out(&["get", "gadgets", "-l", "team in (red),!tier", "-o", "name"]), "gadget.example.com/a\n");
    assert_eq!(kubectl.out(&["scale", "gadget/a", "--replicas=5"]), "gadget.example.com/a scaled\n");
    assert_eq!(kubectl.field("gadget/a", ".spec.replicas"), "5");
    let stale = kubectl.err(&["scale", "gadget/a", "--replicas=6", "--current-replicas=4"]);
    assert!(stale.contains("Expected replicas to be 4, was 5"), "{stale}");
}

pub fn what_is_there_is_not_created_again_and_may_be_replaced(kubectl: &Kubectl) {
    kubectl.give(&gadget("a", json!({"color": "red"})), &["create"]);
    let again = kubectl.try_give(&gadget("a", json!({})), &["create"]);
    assert!(
        again.err.contains("(AlreadyExists)") && again.err.contains("gadgets.example.com \"a\" already exists"),
        "{again:?}"
    );
    assert_eq!(kubectl.give(&gadget("a", json!({"color": "blue"})), &["replace"]), "gadget.example.com/a replaced\n");
    assert_eq!(kubectl.field("gadget/a", ".spec"), r#"{"color":"blue"}"#);
    let mut stale = gadget("a", json!({"color": "green"}));
    stale["metadata"]["resourceVersion"] = json!("1");
    let refused = kubectl.try_give(&stale, &["replace"]);
    assert!(refused.err.contains("the object has been modified"), "{refused:?}");
    let another = format!("{}-more", kubectl.namespace);
    assert_eq!(kubectl.out(&["create", "namespace", &another]), format!("namespace/{another} created\n"));
    kubectl.out(&["create", "configmap", "m", "-n", &another, "--from-literal=a=1"]);
    assert!(
        kubectl
            .try_give(&gadget("a", json!({})), &["create", "-n", "nowhere"])
            .err
            .contains("namespaces \"nowhere\" not found")
    );
}

pub fn kubectl_waits_for_conditions_values_and_ends(kubectl: &Kubectl) {
    kubectl.give(&gadget("a", json!({})), &["create"]);
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
pub struct Watch {
    child: std::process::Child,
    lines: mpsc::Receiver<String>,
}

impl Watch {
    pub fn start(kubectl: &Kubectl, arguments: &[&str]) -> Self {
        let mut child = kubectl.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Watch { child, lines }
    }

    pub fn line(&mut self) -> String {
        self.lines.recv_timeout(SOON).expect("the watch tells something")
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn kinds_are_listed_and_explained_as_soon_as_they_are_defined(kubectl: &Kubectl) {
    let resources = kubectl.out(&["api-resources", "--no-headers"]);
    let rows = words(&resources);
    assert!(rows.contains(&vec!["gadgets", "gd", "example.com/v1", "true", "Gadget"]), "{resources}");
    let versions = kubectl.out(&["api-versions"]);
    for version in ["v1", "example.com/v1", "apiextensions.k8s.io/v1", "coordination.k8s.io/v1"] {
        assert!(versions.lines().any(|line| line == version), "{version}: {versions}");
    }
    // A server may take a moment to publish a schema.
    let explained = kubectl.eventually(&["explain", "gadget.spec"]);
    for part in
        ["KIND:       Gadget", "What is wanted.", "replicas\t<integer>", "How many of them.", "enum: red, green, blue"]
    {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    assert!(kubectl.out(&["explain", "gd.metadata.ownerReferences"]).contains("blockOwnerDeletion"));
    assert!(kubectl.out(&["explain", "secret.data"]).contains("FIELD: data"));
    assert!(kubectl.err(&["explain", "gadget.spec.nothing"]).contains("field \"nothing\" does not exist"));
}

pub fn a_definition_that_describes_metadata_is_refused(kubectl: &Kubectl) {
    let mut definition = gadgets();
    definition["metadata"]["name"] = json!("widgets.example.com");
    definition["spec"]["names"] = json!({"kind": "Widget", "plural": "widgets"});
    let properties = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    properties["metadata"] = json!({"type": "object", "description": "Its name and more."});
    let refused = kubectl.try_give(&definition, &["create", "--dry-run=server"]);
    let why = "The CustomResourceDefinition \"widgets.example.com\" is invalid: \
               spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name \
               and generateName, but metadata is implicitly specified\n";
    assert_eq!(refused.err, why);
    let properties = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    properties["metadata"] = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}}});
    kubectl.give(&definition, &["create", "--dry-run=server"]);
}

pub fn unknown_fields_are_refused_warned_of_or_dropped_as_requested(kubectl: &Kubectl) {
    let odd = gadget("a", json!({"color": "red", "colour": "blue"}));
    for command in [&["apply"][..], &["create"], &["apply", "--server-side"]] {
        let refused = kubectl.try_give(&odd, &[command, &["--validate=strict"]].concat());
        assert_ne!(refused.code, 0, "{command:?}: {refused:?}");
        let wanted = if command.len() == 1 { "unknown field \"spec.colour\"" } else { "field not declared in schema" };
        assert!(refused.err.contains(wanted), "{command:?}: {refused:?}");
    }
    let warned = kubectl.try_give(&odd, &["apply", "--validate=warn"]);
    assert!(warned.err.contains("Warning: unknown field \"spec.colour\""), "{warned:?}");
    warned.unwrap();
    assert_eq!(kubectl.field("gadget/a", ".spec"), r#"{"color":"red"}"#);
    let ignored = kubectl.try_give(&odd, &["apply", "--validate=ignore"]);
    assert_eq!(ignored.err, "");
    let wrong = kubectl.try_give(&gadget("a", json!({"color": "pink"})), &["apply"]);
    assert!(
        wrong.err.contains("spec.color: Unsupported value: \"pink\": supported values: \"red\", \"green\", \"blue\""),
        "{wrong:?}"
    );
}

pub fn an_editor_and_a_description_work_on_any_object(kubectl: &Kubectl) {
    kubectl.give(&gadget("a", json!({"color": "red"})), &["apply"]);
    let script = kubectl.folder.path().join("editor");
    fs::write(&script, "#!/bin/sh\nsed -i 's/color: red/color: green/' \"$1\"\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut edit = kubectl.command(&["edit", "gadget", "a"]);
    edit.env("KUBE_EDITOR", &script);
    assert_eq!(Outcome::of(edit).unwrap(), "gadget.example.com/a edited\n");
    assert_eq!(kubectl.field("gadget/a", ".spec.color"), "green");
    let uid = kubectl.field("gadget/a", ".metadata.uid");
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "type": "Warning",
        "reason": "Squeaks", "message": "it squeaks", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 2,
        "involvedObject": {"apiVersion": "example.com/v1", "kind": "Gadget", "namespace": kubectl.namespace,
            "name": "a", "uid": uid}});
    kubectl.give(&event, &["create"]);
    let described = kubectl.out(&["describe", "gadget", "a"]);
    for part in ["Name:         a", "Color:  green", "Warning  Squeaks", "it squeaks"] {
        assert!(described.contains(part), "{part}: {described}");
    }
    let events = kubectl.out(&["events", "--for", "gadget/a"]);
    assert!(events.contains("it squeaks"), "{events}");
    let table = kubectl.out(&["get", "events", "--field-selector", "reason=Squeaks"]);
    assert_eq!(words(&table)[0], ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    assert_eq!(words(&table)[1][1..4], ["Warning", "Squeaks", "gadget/a"], "{table}");
}

//! Who gave a patched field its value.

use serde_json::{Value, json};

use crate::topology::desired::DesiredObject;
use crate::topology::origin::{Origin, PatchOrigin};
use crate::topology::patches::SkipReason;
use crate::topology::patches::testing::{case, control_plane, infrastructure, machines, patch};
use model::hub::label;
use model::world::{Found, ItemPatch, PatchAnswer};

/// The patch that decided a field, in words; otherwise what else did.
fn decided(object: &DesiredObject, path: &str) -> String {
    object.origins.decisive(path).map(ToString::to_string).unwrap_or_default()
}

fn patched<'o>(object: &'o DesiredObject, path: &str) -> &'o PatchOrigin {
    match object.origins.decisive(path) {
        Some(Origin::Patch(origin)) => origin,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn every_operation_is_noted_where_its_field_ended_up() {
    let operations = json!([
        {"op": "add", "path": "/spec/template/spec/a", "value": 1},
        {"op": "add", "path": "/spec/template/spec/b", "valueFrom": {"variable": "v.x"}},
        {"op": "add", "path": "/spec/template/spec/c",
            "valueFrom": {"template": "{{ .v }}{{ .builtin.cluster.name }}{{ .w }}"}},
        {"op": "remove", "path": "/spec/template/spec/from"},
        {"op": "add", "path": "/spec/template/spec/list/-", "value": "c"},
        {"op": "add", "path": "/spec/template/metadata/labels/example.com~1x", "value": "l"},
        {"op": "add", "path": "/spec/other", "value": 1},
    ]);
    let case = case().with("v", json!({"x": 1})).with("w", json!(2));
    let outcome = case.clone().patches(json!([patch(infrastructure(), operations.clone())])).run().unwrap();
    let object = &outcome.desired.infrastructure;
    for (path, want) in [
        ("spec.a", "patch \"p\" definitions[0].jsonPatches[0]"),
        ("spec.b", "patch \"p\" definitions[0].jsonPatches[1] with v"),
        ("spec.c", "patch \"p\" definitions[0].jsonPatches[2] with builtin.cluster.name, v, w"),
        ("spec.from", "patch \"p\" definitions[0].jsonPatches[3]"),
        ("spec.list[2]", "patch \"p\" definitions[0].jsonPatches[4]"),
        ("spec.list[1]", "FooClusterTemplate cluster"),
        ("metadata.labels[example.com/x]", "patch \"p\" definitions[0].jsonPatches[5]"),
        ("metadata.labels.of", "the topology itself"),
        ("spec.other", "FooClusterTemplate cluster"),
        ("spec.map", "FooClusterTemplate cluster"),
    ] {
        assert_eq!(decided(object, path), want, "{path}");
    }
    let outcome = case.patches(json!([patch(machines(), operations)])).run().unwrap();
    let object = &outcome.desired.machine_deployments[1].infrastructure;
    assert_eq!(decided(object, "spec.template.spec.a"), "patch \"p\" definitions[0].jsonPatches[0]");
    let label = "spec.template.metadata.labels[example.com/x]";
    assert_eq!(decided(object, label), "patch \"p\" definitions[0].jsonPatches[5]");
    assert_eq!(decided(&outcome.desired.infrastructure, "spec.a"), "FooClusterTemplate cluster");
}

#[test]
fn replacing_an_object_sets_the_origin_of_everything_below() {
    let template = json!({"metadata": {"labels": {"l": "1"}}, "spec": {"x": 1}});
    let operations = json!([{"op": "replace", "path": "/spec/template", "value": template}]);
    let outcome = case().patches(json!([patch(infrastructure(), operations)])).run().unwrap();
    let object = &outcome.desired.infrastructure;
    for path in ["spec.x", "spec", "metadata.labels.l"] {
        assert_eq!(patched(object, path).operation, 0, "{path}");
    }
    // The template has no annotations any more, so those of the object stay (PE-28), and so does their origin.
    assert_eq!(decided(object, "metadata.annotations.a"), "FooClusterTemplate cluster");
}

#[test]
fn elements_keep_their_origins_when_they_move() {
    let operations = json!([
        {"op": "add", "path": "/spec/template/spec/list/-", "value": {"z": 1}},
        {"op": "add", "path": "/spec/template/spec/list/2/y", "value": 1},
        {"op": "add", "path": "/spec/template/spec/list/0", "value": "first"},
        {"op": "add", "path": "/spec/template/spec/list/1", "value": "second"},
        {"op": "remove", "path": "/spec/template/spec/list/2"},
    ]);
    let outcome = case().patches(json!([patch(infrastructure(), operations)])).run().unwrap();
    let object = &outcome.desired.infrastructure;
    assert_eq!(object.object.at("spec.list"), Some(&json!(["first", "second", "b", {"z": 1, "y": 1}])));
    for (path, operation) in [("spec.list[0]", 2), ("spec.list[1]", 3), ("spec.list[3].z", 0), ("spec.list[3].y", 1)] {
        assert_eq!(patched(object, path).operation, operation, "{path}");
    }
    assert_eq!(decided(object, "spec.list[2]"), "FooClusterTemplate cluster");
}

#[test]
fn fields_that_do_not_change_keep_their_origin() {
    // PE-24, PE-27
    let operations = json!([
        {"op": "replace", "path": "/spec/template/spec", "value": {"version": "v0", "mine": 1}},
        {"op": "replace", "path": "/spec/template/metadata/labels", "value": {"mine": "1"}},
    ]);
    let outcome = case().patches(json!([patch(control_plane(), operations)])).run().unwrap();
    let object = &outcome.desired.control_plane.control_plane;
    assert_eq!(object.object.at("spec.version"), Some(&json!("v1.33.0")));
    assert_eq!(object.origins.decisive("spec.version"), Some(&Origin::Topology));
    let owned = format!("metadata.labels[{}]", label::OWNED);
    assert_eq!(object.origins.decisive(&owned), Some(&Origin::Topology));
    assert_eq!((patched(object, "spec.mine").operation, patched(object, "metadata.labels.mine").operation), (0, 1));
}

#[test]
fn a_field_made_from_a_secret_is_sensitive() {
    // DEC-34
    let secret = json!({"type": "object", "properties": {
        "user": {"type": "string"}, "password": {"type": "string", "format": "password"}}});
    let value = json!({"user": "u", "password": "hunter2"});
    let case = case().defined("login", secret).set("login", value).with("plain", json!("x"));
    for (source, is_sensitive) in [
        (json!({"value": "x"}), false),
        (json!({"valueFrom": {"variable": "plain"}}), false),
        (json!({"valueFrom": {"variable": "builtin.cluster.name"}}), false),
        (json!({"valueFrom": {"template": "{{ .plain }}"}}), false),
        (json!({"valueFrom": {"variable": "login"}}), true),
        (json!({"valueFrom": {"variable": "login.password"}}), true),
        (json!({"valueFrom": {"template": "{{ .login.password }}"}}), true),
        (json!({"valueFrom": {"template": "{{ with .login }}{{ .password }}{{ end }}"}}), true),
        (json!({"valueFrom": {"template": "{{ toJson . }}"}}), true),
        (json!({"valueFrom": {"template": "{{ range $k, $v := . }}{{ $k }}{{ end }}"}}), true),
        (json!({"valueFrom": {"template": "{{ index . .plain }}"}}), true),
        (json!({"valueFrom": {"template": "{{ $v := . }}{{ $v.login.user }}"}}), true),
        (json!({"valueFrom": {"template": "{{ define \"t\" }}{{ .plain }}{{ end }}{{ template \"t\" . }}"}}), false),
    ] {
        let mut operation = json!({"op": "add", "path": "/spec/template/spec/v"});
        operation.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        let outcome = case.clone().operation(infrastructure(), operation).run().unwrap();
        let origin = patched(&outcome.desired.infrastructure, "spec.v");
        assert_eq!(origin.is_sensitive, is_sensitive, "{source}");
    }
}

#[test]
fn neither_errors_nor_traces_show_a_secret() {
    // DEC-34
    let secret = json!({"type": "string", "format": "password"});
    let case = case().defined("password", secret).set("password", json!("hunter2"));
    for template in ["\n{{ fail .password }}", "\n{{ fail (printf \"%v\" .) }}", "a: b: {{ .password }}"] {
        let operation = json!({"op": "add", "path": "/spec/template/spec/v", "valueFrom": {"template": template}});
        let failure = case.clone().operation(infrastructure(), operation).failure();
        assert!(!failure.contains("hunter2") && failure.contains("may contain a secret"), "{failure}");
        if template.starts_with('\n') {
            assert!(failure.contains("valueFrom.template: template:2:3: failed"), "{failure}");
        }
    }
    let mut patch = patch(infrastructure(), json!([]));
    patch["enabledIf"] = json!("{{ .password }}");
    let trace = case.patches(json!([patch])).run().unwrap().trace;
    assert!(!format!("{trace:?}").contains("hunter2"));
    let rendered = SkipReason::Disabled { rendered: "(sensitive)".into() };
    assert!(trace.skipped.iter().any(|skipped| skipped.reason == rendered));
}

fn answered(patches: Value, patch_type: &str, patch: &str) -> crate::topology::patches::testing::Case {
    let patch = ItemPatch { item: 0, patch_type: patch_type.to_owned(), patch: patch.as_bytes().to_vec() };
    case().patches(patches).answering([Found::Yes(PatchAnswer::Patches([patch].into()))])
}

#[test]
fn changes_by_extensions_have_an_origin_too() {
    let external = json!([{"name": "x", "external": {"generatePatchesExtension": "g.ext"}}]);
    let operations = r#"[{"op":"add","path":"/spec/template/spec/a","value":1},{"op":"test","path":"/spec/template/spec/a","value":1},
        {"op":"move","from":"/spec/template/spec/a","path":"/spec/template/spec/b"}]"#;
    let outcome = answered(external.clone(), "JSONPatch", operations).run().unwrap();
    let object = &outcome.desired.infrastructure;
    let origin = patched(object, "spec.b");
    assert_eq!((&*origin.patch, origin.definition, origin.operation), ("x", None, 2));
    assert_eq!((patched(object, "spec.a").operation, origin.is_sensitive), (2, false));
    let merge = r#"{"metadata":{"name":"x"},"spec":{"template":{"spec":{"map":{"x":null,"n":2},"e":{}}}}}"#;
    let outcome = answered(external, "JSONMergePatch", merge).run().unwrap();
    let object = &outcome.desired.infrastructure;
    for path in ["spec.map.x", "spec.map.n", "spec.e"] {
        assert_eq!(&*patched(object, path).patch, "x", "{path}");
    }
    assert_eq!(decided(object, "spec.map.y"), "FooClusterTemplate cluster");
}

#[test]
fn fields_that_an_extension_moves_keep_their_origin() {
    let append = json!({"op": "add", "path": "/spec/template/spec/list/-", "value": "c"});
    let external = json!({"name": "x", "external": {"generatePatchesExtension": "g.ext"}});
    let patches = json!([patch(infrastructure(), json!([append])), external]);
    let operations = r#"[{"op":"add","path":"/spec/template/spec/list/0","value":"first"},
        {"op":"add","path":"/metadata/name","value":"other"},{"op":"remove","path":"/spec/template/spec/list/1"}]"#;
    let outcome = answered(patches, "JSONPatch", operations).run().unwrap();
    let object = &outcome.desired.infrastructure;
    assert_eq!(object.object.at("spec.list"), Some(&json!(["first", "b", "c"])));
    assert_eq!((&*patched(object, "spec.list[0]").patch, &*patched(object, "spec.list[2]").patch), ("x", "p"));
    assert_eq!(decided(object, "spec.list[1]"), "FooClusterTemplate cluster");
    assert_eq!(decided(object, "metadata.name"), "FooClusterTemplate cluster");
}

#[test]
fn an_extension_that_may_know_a_secret_makes_sensitive_fields() {
    // DEC-34
    let secret = json!({"type": "string", "format": "password"});
    let external = json!({"name": "x", "external": {"generatePatchesExtension": "g.ext"}});
    let copies = json!({"op": "add", "path": "/spec/template/spec/v", "valueFrom": {"variable": "password"}});
    let inline = patch(infrastructure(), json!([copies]));
    let sent = r#"[{"op":"add","path":"/spec/template/spec/a","value":1}]"#;
    let is_sensitive = |patches: Value, from: &str| {
        let case = answered(patches, "JSONPatch", sent).defined_by(from, "password", secret.clone());
        let outcome = case.set("password", json!("hunter2")).run().unwrap();
        patched(&outcome.desired.infrastructure, "spec.a").is_sensitive
    };
    assert!(is_sensitive(json!([external]), "x"), "it is among its variables");
    assert!(is_sensitive(json!([inline, external]), "inline"), "an earlier patch wrote it to a template");
    assert!(!is_sensitive(json!([external]), "inline"));
}

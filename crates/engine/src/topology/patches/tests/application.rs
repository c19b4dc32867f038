//! How operations change items (PE-19 to PE-22), besides what `json-patch` itself does.

use serde_json::{Value, json};

use crate::topology::patches::testing::{Patched, case, infrastructure, machines, patch};

fn applied(operations: Value) -> Result<Patched, String> {
    case().patches(json!([patch(infrastructure(), operations)])).run().map_err(|failure| failure.to_string())
}

/// The spec of the infrastructure cluster afterwards.
fn spec(operations: Value) -> Value {
    applied(operations).unwrap().infrastructure().at("spec").unwrap().clone()
}

#[test]
fn operations_add_replace_and_remove() {
    // PE-20
    let unchanged = json!({"from": "cluster", "list": ["a", "b"], "map": {"x": 1, "y": {"z": true}}});
    let at = |path: &str| format!("/spec/template/spec{path}");
    for (operation, pointer, want) in [
        (json!({"op": "add", "path": at("/new"), "value": [1]}), "/new", json!([1])),
        (json!({"op": "add", "path": at("/from"), "value": "x"}), "/from", json!("x")),
        (json!({"op": "add", "path": at("/list/0"), "value": "x"}), "/list", json!(["x", "a", "b"])),
        (json!({"op": "add", "path": at("/list/1"), "value": "x"}), "/list", json!(["a", "x", "b"])),
        (json!({"op": "add", "path": at("/list/-"), "value": "x"}), "/list", json!(["a", "b", "x"])),
        (json!({"op": "replace", "path": at("/list/1"), "value": "x"}), "/list", json!(["a", "x"])),
        (json!({"op": "replace", "path": at("/map/y"), "value": 0}), "/map/y", json!(0)),
        (json!({"op": "remove", "path": at("/map/y/z")}), "/map/y", json!({})),
        (json!({"op": "remove", "path": at("/list/0")}), "/list", json!(["b"])),
        (json!({"op": "add", "path": at("/map/a~1b~0c"), "value": 1}), "/map/a~1b~0c", json!(1)),
        // DEC-27
        (json!({"op": "add", "path": at("/map/a~b~"), "value": 1}), "/map/a~0b~0", json!(1)),
    ] {
        let spec = spec(json!([operation]));
        assert_eq!(spec.pointer(pointer), Some(&want), "{operation}");
        let others = |value: &Value| {
            let first = pointer.split('/').nth(1).unwrap().to_owned();
            let mut members = value.as_object().unwrap().clone();
            members.remove(&first);
            members
        };
        assert_eq!(others(&spec), others(&unchanged), "{operation}");
    }
}

#[test]
fn an_operation_that_fails_describes_the_existing_value() {
    // PE-20
    for (op, path, want) in [
        ("add", "/spec/template/spec/no/b", "/spec/template/spec has no \"no\""),
        ("add", "/spec/template/spec/from/b", "/spec/template/spec/from is a string, and has no \"b\""),
        ("add", "/spec/template/spec/list/3", "/spec/template/spec/list is a list of 2, and has no element 3"),
        (
            "add",
            "/spec/template/spec/list/x",
            "/spec/template/spec/list is a list of 2, and \"x\" is not an index of it",
        ),
        ("replace", "/spec/template/spec/no", "/spec/template/spec has no \"no\""),
        ("replace", "/spec/template/spec/From", "/spec/template/spec has no \"From\", but \"from\""),
        (
            "replace",
            "/spec/template/spec/list/-",
            "/spec/template/spec/list is a list of 2, and \"-\" is the position after the last element, which only add \
             can use",
        ),
        ("remove", "/spec/template/spec/map/y/no", "/spec/template/spec/map/y has no \"no\""),
        ("remove", "/nothing", "the template has no \"nothing\""),
    ] {
        let failure = applied(json!([{"op": op, "path": path, "value": 1}])).unwrap_err();
        assert!(failure.contains(&format!("jsonPatches[0]): {op} {path}: {want} (for")), "{failure}");
    }
    let failure = applied(json!([{"op": "add", "path": "spec/x", "value": 1}])).unwrap_err();
    assert!(failure.contains("path \"spec/x\" does not start with \"/\""), "{failure}");
}

#[test]
fn only_spec_labels_and_annotations_are_taken_back() {
    // PE-21: what the next patch sees tells what stayed.
    let first = patch(
        machines(),
        json!([
            {"op": "add", "path": "/metadata/name", "value": "other"},
            {"op": "add", "path": "/metadata/finalizers", "value": ["x"]},
            {"op": "replace", "path": "/kind", "value": "Other"},
            {"op": "add", "path": "/specification", "value": 1},
            {"op": "add", "path": "/metadata/labels/new", "value": "l"},
            {"op": "add", "path": "/metadata/annotations/new", "value": "a"},
            {"op": "add", "path": "/spec/template/spec/new", "value": "s"},
        ]),
    );
    let machine = |second: Value| {
        let mut second = patch(machines(), json!([second]));
        second["name"] = json!("second");
        case().patches(json!([first, second])).run()
    };
    let outcome = machine(json!({"op": "add", "path": "/spec/template/spec/second", "value": 1})).unwrap();
    let object = outcome.machines(0);
    assert_eq!((object.kind(), object.name()), ("FooMachineTemplate", "one-md-1-machine"));
    assert_eq!((object.label("new"), object.annotation("new")), (Some("l"), Some("a")));
    assert_eq!(object.at("spec.template.spec.new"), Some(&json!("s")));
    assert_eq!(object.members().keys().collect::<Vec<_>>(), ["apiVersion", "kind", "metadata", "spec"]);
    for gone in ["/metadata/finalizers", "/specification"] {
        assert!(machine(json!({"op": "remove", "path": gone})).is_err(), "{gone}");
    }
}

#[test]
fn removing_a_whole_part_of_a_template_has_no_effect() {
    // PE-21, PE-28
    for (path, is_template) in [("/spec", false), ("/metadata/labels", true), ("/metadata/annotations", true)] {
        let selector = if is_template { machines() } else { infrastructure() };
        let operations = json!([{"op": "remove", "path": path}]);
        let outcome = case().patches(json!([patch(selector, operations)])).run().unwrap();
        assert!(outcome.changed().is_empty(), "{path}: {:?}", outcome.changed());
    }
    let twice = json!([
        {"op": "remove", "path": "/spec"},
        {"op": "add", "path": "/spec", "value": {"template": {"spec": {"a": 1}}}},
    ]);
    assert_eq!(spec(twice), json!({"a": 1}));
}

#[test]
fn every_item_is_a_copy_of_its_own() {
    // PE-05
    let operation = json!({"op": "add", "path": "/spec/template/spec/name",
        "valueFrom": {"variable": "builtin.machineDeployment.topologyName"}});
    let outcome = case().operation(machines(), operation).run().unwrap();
    for (position, name) in ["md-1", "md-2"].into_iter().enumerate() {
        assert_eq!(outcome.machines(position).at("spec.template.spec.name"), Some(&json!(name)));
    }
    assert_eq!(outcome.changed(), ["one-md-1-machine", "one-md-2-machine"]);
}

#[test]
fn no_document_becomes_too_deep() {
    // PE-22: what walks over documents recurses, and a stack overflow cannot be caught.
    let mut value = json!(1);
    for _ in 0..100 {
        value = json!([value]);
    }
    let mut operations = vec![json!({"op": "add", "path": "/spec/template/spec/deep", "value": value})];
    let mut path = "/spec/template/spec/deep".to_owned();
    for _ in 0..2 {
        path.push_str(&"/0".repeat(100));
        operations.push(json!({"op": "replace", "path": path, "value": value}));
    }
    assert!(applied(json!(operations[..2])).is_ok());
    let failure = applied(json!(operations)).unwrap_err();
    assert!(failure.contains("jsonPatches[2]): the value would nest the template deeper than 256"), "{failure}");
}

//! Where the values of operations come from (PE-08 to PE-10, PE-15, PE-17, PE-18, TV).

use serde_json::{Value, json};

use crate::topology::patches::testing::{Case, case, control_plane, infrastructure, machines, patch};

/// The value that an operation of the infrastructure cluster gets.
fn value(case: Case, source: Value) -> Result<Value, String> {
    let mut operation = json!({"op": "add", "path": "/spec/template/spec/value"});
    operation.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    let outcome = case.operation(infrastructure(), operation).run().map_err(|failure| failure.to_string())?;
    let spec = outcome.infrastructure().at("spec").unwrap();
    Ok(spec.get("value").expect("it was added").clone())
}

fn template(text: &str) -> Value {
    json!({"valueFrom": {"template": text}})
}

fn variable(path: &str) -> Value {
    json!({"valueFrom": {"variable": path}})
}

#[test]
fn a_value_is_raw_or_from_a_variable_or_rendered() {
    // PE-17, TV-01, TV-06, TV-10 to TV-13
    let case = case()
        .with("text", json!("a"))
        .with("big", json!(123_456_789))
        .with("whole", json!(1.0))
        .with("with-dash", json!("d"))
        .with("object", json!({"list": [{"x": null}, 2], "none": null}));
    for (source, want) in [
        (json!({"value": {"a": [1, 1.0, "x", null]}}), json!({"a": [1, 1.0, "x", null]})),
        (json!({"value": false}), json!(false)),
        (variable("text"), json!("a")),
        (variable("whole"), json!(1.0)),
        (variable("object"), json!({"list": [{"x": null}, 2], "none": null})),
        (variable("object.list[1]"), json!(2)),
        (variable("object.list[0].x"), json!(null)),
        (variable("builtin.cluster.name"), json!("one")),
        (variable("builtin.cluster.network.pods"), json!(["10.1.0.0/16", "fd00::/64"])),
        (template("{{ .text }}-{{ .object.list | len }}"), json!("a-2")),
        (template("{{ .big }}"), json!(123_456_789)),
        (template("n{{ .big }}"), json!("n1.23456789e+08")),
        (template("{{ index . \"with-dash\" }}"), json!("d")),
        (template("a: {{ .text }}\nb: [1, {{ .whole }},]"), json!({"a": "a", "b": [1, 1]})),
        (template("---\nfirst\n---\nsecond"), json!("first")),
        (template("{{ .missing }}"), json!("<no value>")),
        (template("{{ .missing.too }}"), json!("<no value>")),
        (template("{{ if .missing }}x{{ end }}"), json!(null)),
        (template("yes"), json!(true)),
        (template("\"{{ .big }}\""), json!("1.23456789e+08")),
        (template("0777"), json!(511)),
        (template("{{ range .object.list }}{{ $.text }}{{ end }}"), json!("aa")),
    ] {
        assert_eq!(value(case.clone(), source.clone()), Ok(want), "{source}");
    }
}

#[test]
fn an_operation_without_one_clear_value_is_wrong() {
    // PE-17, TV-02, TV-07, TV-10, PE-32
    let at = "patch \"p\" (spec.patches[0].definitions[0].jsonPatches[0]): ";
    for (source, want) in [
        (json!({}), "neither value nor valueFrom is set; null does not count as a value"),
        (json!({"value": null}), "neither value nor valueFrom is set; null does not count as a value"),
        (json!({"value": 1, "valueFrom": {"variable": "x"}}), "both value and valueFrom are set"),
        (json!({"valueFrom": {}}), "valueFrom has neither variable nor template"),
        (json!({"valueFrom": {"variable": "a", "template": "b"}}), "valueFrom has both variable and template"),
        (variable("missing"), "valueFrom.variable: missing was not found"),
        (variable("builtin.controlPlane.name"), "valueFrom.variable: builtin.controlPlane was not found"),
        (variable("builtin.machineDeployment.class"), "valueFrom.variable: builtin.machineDeployment was not found"),
        (variable("text[0]"), "valueFrom.variable: text is not a list, so it has no element 0"),
        (variable("text["), "valueFrom.variable: \"text[\" is not a variable path: a bracket is not closed"),
        (template("{{ .text"), "valueFrom.template: template:1:8: unclosed action"),
        (
            template("\n  {{ .text.x }}"),
            "valueFrom.template: template:2:10: executing \"template\" at <.text.x>: can't evaluate field x in type \
             interface {}",
        ),
        (template("a: b: c"), "valueFrom.template: template: output is not YAML: 1:5: "),
        (template("{{ randAlpha 3 }}"), "valueFrom.template: template:1:3: function \"randAlpha\" not defined"),
        (template("{{ shuffle .text }}"), "shuffle is not deterministic and cannot be rendered"),
    ] {
        let failure = value(case().with("text", json!("a")), source.clone()).unwrap_err();
        assert!(failure.contains(at) && failure.contains(want), "{source}: {failure}");
        assert!(failure.ends_with("(for FooClusterTemplate cluster)"), "{failure}");
    }
}

#[test]
fn only_three_operations_are_known() {
    // PE-17
    for op in ["test", "move", "copy", "", "Add"] {
        let operation = json!({"op": op, "path": "/spec/template/spec/from", "value": "cluster"});
        let failure = case().operation(infrastructure(), operation).failure();
        assert!(failure.contains(&format!("unknown operation {op:?}: use add, remove or replace")), "{failure}");
    }
}

#[test]
fn a_removal_needs_no_value() {
    // PE-17
    let operation = json!({"op": "remove", "path": "/spec/template/spec/from", "valueFrom": {"variable": "missing"}});
    let outcome = case().operation(infrastructure(), operation).run().unwrap();
    assert_eq!(outcome.infrastructure().at("spec.from"), None);
}

#[test]
fn an_inline_patch_sees_variables_of_the_class_itself_only() {
    // PE-08
    let any = json!({"x-kubernetes-preserve-unknown-fields": true});
    let case = case()
        .defined_by("p", "theirs", any.clone())
        .set("theirs", json!(1))
        .defined_by("p", "both", any.clone())
        .defined("both", any)
        .set("both", json!(2))
        .set("undefined", json!(3));
    assert_eq!(value(case.clone(), variable("both")), Ok(json!(2)));
    for name in ["theirs", "undefined"] {
        assert!(value(case.clone(), variable(name)).unwrap_err().contains(&format!("{name} was not found")));
        assert_eq!(value(case.clone(), template(&format!("{{{{ .{name} }}}}"))), Ok(json!("<no value>")));
    }
}

#[test]
fn a_variable_called_builtin_is_not_passed_on() {
    // PE-09, BV-07
    let wrong = json!({"cluster": {"name": "wrong"}, "mine": 1});
    let case = case().with("builtin", wrong.clone()).overridden("/controlPlane", "builtin", wrong);
    assert_eq!(value(case.clone(), variable("builtin.cluster.name")), Ok(json!("one")));
    assert!(value(case.clone(), variable("builtin.mine")).is_err());
    let operation = json!({"op": "add", "path": "/spec/template/spec/v", "valueFrom": {"variable": "builtin"}});
    let outcome = case.operation(control_plane(), operation).run().unwrap();
    let builtin = outcome.control_plane().at("spec.v").unwrap();
    assert_eq!((builtin.get("mine"), &builtin["cluster"]["name"]), (None, &json!("one")));
}

#[test]
fn an_override_replaces_the_variable_as_a_whole_for_its_part() {
    // PE-10, PE-15
    let case = case().with("v", json!({"a": 1, "b": 2})).overridden("/controlPlane", "v", json!({"a": 3})).overridden(
        "/workers/machineDeployments/1",
        "v",
        json!({"a": 4}),
    );
    let template = "{{ toJson .v }} {{ .builtin.cluster.name }}";
    let definition = |selector: Value| {
        let operation =
            json!({"op": "add", "path": "/spec/template/spec/v", "valueFrom": {"template": format!("'{template}'")}});
        json!({"selector": selector, "jsonPatches": [operation]})
    };
    let definitions = json!([definition(infrastructure()), definition(control_plane()), definition(machines())]);
    let outcome = case.patches(json!([{"name": "p", "definitions": definitions}])).run().unwrap();
    let shown = |object: &model::hub::Object, path: &str| object.at(path).unwrap().as_str().unwrap().to_owned();
    assert_eq!(shown(outcome.infrastructure(), "spec.v"), r#"{"a":1,"b":2} one"#);
    assert_eq!(shown(outcome.control_plane(), "spec.v"), r#"{"a":3} one"#);
    assert_eq!(shown(outcome.machines(0), "spec.template.spec.v"), r#"{"a":1,"b":2} one"#);
    assert_eq!(shown(outcome.machines(1), "spec.template.spec.v"), r#"{"a":4} one"#);
}

#[test]
fn templates_that_depend_on_the_item_are_recognized() {
    // PE-15: each of these reaches the name of the worker by another way.
    let case = case().with("key", json!("machineDeployment")).with("keys", json!(["builtin"]));
    for text in [
        "{{ .builtin.machineDeployment.topologyName }}",
        "{{ (index .builtin .key).topologyName }}",
        "{{ with .builtin }}{{ .machineDeployment.topologyName }}{{ end }}",
        "{{ $b := .builtin }}{{ $b.machineDeployment.topologyName }}",
        "{{ $all := . }}{{ $all.builtin.machineDeployment.topologyName }}",
        "{{ define \"t\" }}{{ .builtin.machineDeployment.topologyName }}{{ end }}{{ template \"t\" . }}",
        "{{ define \"t\" }}{{ .machineDeployment.topologyName }}{{ end }}{{ template \"t\" .builtin }}",
        "{{ range .keys }}{{ (index $ .).machineDeployment.topologyName }}{{ end }}",
        "{{ (get . \"builtin\").machineDeployment.topologyName }}",
        "{{ dig \"builtin\" \"machineDeployment\" \"topologyName\" \"none\" . }}",
        "{{ range $k, $v := . }}{{ if eq $k \"builtin\" }}{{ $v.machineDeployment.topologyName }}{{ end }}{{ end }}",
        "{{ (pick . \"builtin\").builtin.machineDeployment.topologyName | quote }}",
        "{{ (fromJson (toJson .)).builtin.machineDeployment.topologyName }}",
    ] {
        let operation = json!({"op": "add", "path": "/spec/template/spec/v", "valueFrom": {"template": text}});
        let outcome = case.clone().operation(machines(), operation).run().unwrap();
        for (position, name) in ["md-1", "md-2"].into_iter().enumerate() {
            assert_eq!(outcome.machines(position).at("spec.template.spec.v"), Some(&json!(name)), "{text}");
        }
    }
}

#[test]
fn errors_are_collected_over_items_and_definitions() {
    // PE-18
    let operation = |path: &str| json!({"op": "add", "path": "/spec/template/spec/v", "valueFrom": {"variable": path}});
    let patches = json!([
        {"name": "p", "definitions": [
            {"selector": infrastructure(), "jsonPatches": [operation("one"), operation("builtin.cluster.name"),
                operation("two")]},
            {"selector": machines(), "jsonPatches": [operation("three")]},
        ]},
        patch(infrastructure(), json!([operation("never")])),
    ]);
    assert_eq!(
        case().patches(patches).failure(),
        "the patches of ClusterClass ns/class cannot be applied: patch \"p\" \
         (spec.patches[0].definitions[0].jsonPatches[0]): valueFrom.variable: one was not found (for \
         FooClusterTemplate cluster); patch \"p\" (spec.patches[0].definitions[0].jsonPatches[2]): valueFrom.variable: \
         two was not found (for FooClusterTemplate cluster); patch \"p\" \
         (spec.patches[0].definitions[1].jsonPatches[0]): valueFrom.variable: three was not found (for \
         FooMachineTemplate worker-machine of MachineDeployment \"md-1\", FooMachineTemplate worker-machine of \
         MachineDeployment \"md-2\")"
    );
}

#[test]
fn an_undefined_variable_in_a_template_is_remembered_once() {
    // DEC-5
    let mut patch = patch(
        machines(),
        json!([{"op": "add", "path": "/spec/template/spec/v", "valueFrom": {"template": "x{{ .missing }}"}}]),
    );
    patch["enabledIf"] = json!("{{ if eq \"{{ .missing }}\" \"x\" }}{{ end }}true # {{ .missing }}");
    let trace = case().patches(json!([patch])).run().unwrap().trace;
    let reported: Vec<String> = trace.undefined.iter().map(ToString::to_string).collect();
    assert_eq!(
        reported,
        [
            "patch \"p\" enabledIf rendered \"<no value>\" for FooMachineTemplate worker-machine of MachineDeployment \
             \"md-1\": a variable that it refers to is not set",
            "patch \"p\" definitions[0].jsonPatches[0].valueFrom.template rendered \"<no value>\" for \
             FooMachineTemplate worker-machine of MachineDeployment \"md-1\": a variable that it refers to is not set",
        ]
    );
}

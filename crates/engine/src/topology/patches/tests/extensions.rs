//! External patches (PE-11, PE-19, PE-20, PE-23, PE-29, RH-10 to RH-15).

use serde_json::{Value, json};

use crate::topology::patches::testing::{Case, case, infrastructure, patch};
use crate::topology::patches::{SkipReason, Trace};
use model::hub::contract::Contract;
use model::hub::{annotation, label};
use model::world::{Found, ItemPatch, PatchAnswer, PatchHook};

fn external(extension: Value) -> Value {
    json!({"name": "x", "external": extension})
}

fn generating() -> Value {
    external(json!({"generatePatchesExtension": "generate.ext"}))
}

/// An answer of patches: item, type, patch.
fn answer(patches: &[(usize, &str, &str)]) -> Found<PatchAnswer> {
    let patches = patches.iter().map(|(item, patch_type, patch)| ItemPatch {
        item: *item,
        patch_type: (*patch_type).to_owned(),
        patch: patch.as_bytes().to_vec(),
    });
    Found::Yes(PatchAnswer::Patches(patches.collect()))
}

fn valid() -> Found<PatchAnswer> {
    Found::Yes(PatchAnswer::Valid)
}

fn generated(patch_type: &str, patch: &str) -> Case {
    case().patches(json!([generating()])).answering([answer(&[(0, patch_type, patch)])])
}

#[test]
fn the_items_of_a_request_are_the_templates_with_their_holders() {
    // PE-03, PE-05, PE-06, RH-10.1, RH-10.3, RH-10.9
    let mut case = case().patches(json!([generating()])).answering([answer(&[])]);
    let request = case.run().unwrap().requests.remove(0);
    assert_eq!(request["apiVersion"], "hooks.runtime.cluster.x-k8s.io/v1alpha1");
    assert_eq!((&request["kind"], request.get("settings")), (&json!("GeneratePatchesRequest"), None));
    let items = request["items"].as_array().unwrap();
    let shown: Vec<String> = items
        .iter()
        .map(|item| {
            let holder = &item["holderReference"];
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            assert_eq!(holder["namespace"], "ns");
            [
                &item["object"]["metadata"]["name"],
                &holder["apiVersion"],
                &holder["kind"],
                &holder["name"],
                &holder["fieldPath"],
            ]
            .map(text)
            .join(" ")
        })
        .collect();
    let core = "cluster.x-k8s.io/v1beta2";
    let bootstrap = "spec.template.spec.bootstrap.configRef";
    let reference = "spec.template.spec.infrastructureRef";
    let machines = "spec.machineTemplate.spec.infrastructureRef";
    let want = [
        format!("cluster {core} Cluster one spec.infrastructureRef"),
        format!("cp {core} Cluster one spec.controlPlaneRef"),
        format!("cp-machine controlplane.example.com/v1 FooControlPlane one-cp {machines}"),
        format!("worker-config {core} MachineDeployment one-md-1 {bootstrap}"),
        format!("worker-machine {core} MachineDeployment one-md-1 {reference}"),
        format!("worker-config {core} MachineDeployment one-md-2 {bootstrap}"),
        format!("worker-machine {core} MachineDeployment one-md-2 {reference}"),
        format!("pool-config {core} MachinePool one-mp-1 {bootstrap}"),
        format!("pool-machine {core} MachinePool one-mp-1 {reference}"),
    ];
    assert_eq!(shown, want);

    let cluster = &items[0]["object"];
    assert_eq!(cluster["metadata"], json!({"namespace": "ns", "name": "cluster", "labels": {"of": "template"}}));
    let labels = json!({label::CLUSTER_NAME: "one", label::OWNED: "", "of": "product"});
    let annotations = json!({annotation::CLONED_FROM_NAME: "cluster",
        annotation::CLONED_FROM_KIND: "FooClusterTemplate.infrastructure.example.com"});
    assert_eq!(cluster["spec"]["template"]["metadata"], json!({"labels": labels, "annotations": annotations}));
    assert_eq!(cluster["spec"]["template"]["spec"]["from"], "cluster");

    let machine = &items[4]["object"];
    let labels =
        json!({label::CLUSTER_NAME: "one", label::OWNED: "", label::DEPLOYMENT_NAME: "md-1", "of": "template"});
    assert_eq!(machine["metadata"]["labels"], labels);
    assert_eq!(machine["metadata"]["annotations"][annotation::CLONED_FROM_NAME], "worker-machine");
    assert_eq!(machine["spec"]["template"]["metadata"], json!({"labels": {"of": "product"}}));
    assert_eq!(items[7]["object"]["spec"]["template"]["metadata"]["labels"][label::POOL_NAME], "mp-1");

    case.contract = Contract::V1Beta1;
    let request = case.run().unwrap().requests.remove(0);
    assert_eq!(request["items"][2]["holderReference"]["fieldPath"], "spec.machineTemplate.infrastructureRef");
}

#[test]
fn items_lack_annotations_of_kubectl_and_conversion() {
    // PE-06: also where the desired object still has it.
    let case = case().patches(json!([generating()])).answering([answer(&[])]);
    let outcome = case.run_on(|desired| {
        let object = &mut desired.machine_deployments[0].infrastructure.object;
        object.set("metadata.annotations", json!({annotation::CONVERSION_DATA: "{}"})).unwrap();
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.requests[0]["items"][4]["object"]["metadata"].get("annotations"), None);
    assert_eq!(outcome.machines(0).annotation(annotation::CONVERSION_DATA), Some("{}"), "and nobody touched it");
}

#[test]
fn a_request_has_the_variables_that_the_patch_defines() {
    // PE-08, PE-09, PE-10, RH-11.1, RH-11.2
    let any = json!({"x-kubernetes-preserve-unknown-fields": true});
    let case = case()
        .defined_by("x", "b", any.clone())
        .defined_by("x", "a", any.clone())
        .defined("inline", any.clone())
        .defined_by("y", "other", any)
        .set("b", json!({"c": 1.0}))
        .set("inline", json!(1))
        .set("a", json!(2))
        .set("other", json!(3))
        .overridden("/controlPlane", "a", json!(4))
        .overridden("/controlPlane", "inline", json!(5))
        .overridden("/workers/machineDeployments/1", "b", json!(6))
        .overridden("/workers/machinePools/0", "b", json!(7));
    let case = case.patches(json!([generating()])).answering([answer(&[])]);
    let request = case.run().unwrap().requests.remove(0);
    let names = |variables: &Value| -> Vec<String> {
        let name = |variable: &Value| {
            let value = &variable["value"];
            let shown = if value.is_object() && variable["name"] == "builtin" {
                value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(",")
            } else {
                value.to_string()
            };
            format!("{}={shown}", variable["name"].as_str().unwrap())
        };
        variables.as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(names(&request["variables"]), [r#"b={"c":1.0}"#, "a=2", "builtin=cluster"]);
    let items: Vec<Vec<String>> =
        request["items"].as_array().unwrap().iter().map(|item| names(&item["variables"])).collect();
    let none: [&str; 0] = [];
    assert_eq!(items[0], none);
    for item in [1, 2] {
        assert_eq!(items[item], ["a=4", "builtin=controlPlane"]);
    }
    for item in [3, 4] {
        assert_eq!(items[item], ["builtin=machineDeployment"]);
    }
    for item in [5, 6] {
        assert_eq!(items[item], ["b=6", "builtin=machineDeployment"]);
    }
    for item in [7, 8] {
        assert_eq!(items[item], ["b=7", "builtin=machinePool"]);
    }
}

#[test]
fn each_patch_has_settings_of_its_own_and_sees_what_earlier_ones_did() {
    // PE-07, PE-23, RH-10.10
    let first = external(json!({"generatePatchesExtension": "one.ext", "settings": {"a": "1"}}));
    let mut second = external(json!({"generatePatchesExtension": "two.ext"}));
    second["name"] = json!("y");
    let inline = patch(infrastructure(), json!([{"op": "add", "path": "/spec/template/spec/inline", "value": 1}]));
    let sent = r#"[{"op": "add", "path": "/spec/template/spec/external", "value": 2}]"#;
    let case =
        case().patches(json!([inline, first, second])).answering([answer(&[(0, "JSONPatch", sent)]), answer(&[])]);
    let outcome = case.run().unwrap();
    let settings: Vec<_> = outcome.requests.iter().map(|request| request.get("settings").cloned()).collect();
    assert_eq!(settings, [Some(json!({"a": "1"})), None]);
    let seen = |request: &Value| {
        let spec = &request["items"][0]["object"]["spec"]["template"]["spec"];
        (spec.get("inline").cloned(), spec.get("external").cloned())
    };
    assert_eq!(seen(&outcome.requests[0]), (Some(json!(1)), None));
    assert_eq!(seen(&outcome.requests[1]), (Some(json!(1)), Some(json!(2))));
    assert_eq!(outcome.infrastructure().at("spec.external"), Some(&json!(2)));
}

#[test]
fn answers_are_patches_of_two_types() {
    // PE-20, RH-12.2 to RH-12.5
    for (patch_type, patch, pointer, want) in [
        ("JSONPatch", r#"[{"op":"add","path":"/spec/template/spec/a","value":null}]"#, "/a", Some(json!(null))),
        (
            "JSONPatch",
            r#"[{"op":"test","path":"/spec/template/spec/from","value":"cluster"},{"op":"remove","path":"/spec/template/spec/from"}]"#,
            "/from",
            None,
        ),
        (
            "JSONPatch",
            r#"[{"op":"move","from":"/spec/template/spec/list/0","path":"/spec/template/spec/list/1"}]"#,
            "/list",
            Some(json!(["b", "a"])),
        ),
        (
            "JSONPatch",
            r#"[{"op":"copy","from":"/spec/template/spec/map","path":"/spec/template/spec/map/x"}]"#,
            "/map/x/y/z",
            Some(json!(true)),
        ),
        (
            "JSONPatch",
            r#"[{"op":"copy","from":"/spec/template/spec/from","path":"/metadata/labels/of"}]"#,
            "/from",
            Some(json!("cluster")),
        ),
        ("JSONPatch", "[]", "/from", Some(json!("cluster"))),
        (
            "JSONMergePatch",
            r#"{"spec":{"template":{"spec":{"from":null,"map":{"x":[2]}}}}}"#,
            "/map/x",
            Some(json!([2])),
        ),
        ("JSONMergePatch", r#"{"spec":{"template":{"spec":{"from":null}}}}"#, "/from", None),
        ("JSONMergePatch", r#"{"spec":null}"#, "/from", Some(json!("cluster"))),
        ("JSONMergePatch", "{}", "/from", Some(json!("cluster"))),
        ("JSONMergePatch", "", "/from", Some(json!("cluster"))),
    ] {
        let outcome = generated(patch_type, patch).run().unwrap();
        let spec = outcome.infrastructure().at("spec").unwrap();
        assert_eq!(spec.pointer(pointer), want.as_ref(), "{patch}");
    }
    for patch in ["[]", r#"[{"op":"test","path":"/kind","value":"FooClusterTemplate"}]"#] {
        assert!(generated("JSONPatch", patch).run().unwrap().changed().is_empty(), "{patch}");
    }
}

#[test]
fn a_label_that_an_extension_adds_to_a_template_without_spec_removes_no_other() {
    // PE-05, PE-21, PE-25
    for (patch_type, patch) in [
        ("JSONMergePatch", r#"{"spec":{"template":{"metadata":{"labels":{"new":"l"}}}}}"#),
        ("JSONPatch", r#"[{"op":"add","path":"/spec/template/metadata/labels/new","value":"l"}]"#),
    ] {
        for item in [0, 1] {
            let mut case = case().patches(json!([generating()])).answering([answer(&[(item, patch_type, patch)])]);
            for template in &mut case.templates {
                if ["cluster", "cp"].contains(&template["metadata"]["name"].as_str().unwrap()) {
                    template.as_object_mut().unwrap().remove("spec");
                }
            }
            let outcome = case.run().unwrap();
            let pairs = [
                (&outcome.before.infrastructure.object, outcome.infrastructure()),
                (&outcome.before.control_plane.control_plane.object, outcome.control_plane()),
            ];
            let (before, after) = pairs[item];
            let mut want = before.clone();
            want.set("metadata.labels.new", json!("l")).unwrap();
            assert_eq!(after, &want, "{patch_type}");
            assert!(after.label(label::CLUSTER_NAME).is_some() && after.label(label::OWNED).is_some());
        }
    }
}

/// The messages about changes without effect of an answer.
fn ineffective(patches: &[(usize, &str, &str)]) -> Vec<String> {
    let outcome = case().patches(json!([generating()])).answering([answer(patches)]).run().unwrap();
    outcome.trace.ineffective.iter().map(ToString::to_string).collect()
}

#[test]
fn changes_of_fields_that_are_not_used_are_listed() {
    // PE-21, PE-25, PE-26
    let message = |paths: &str, template: &str, metadata: &str| {
        format!(
            "patch \"x\" changes {paths} of {template}, which has no effect: only changes in spec.template.spec and of \
             labels and annotations in {metadata} are used"
        )
    };
    let cluster = |paths: &str| message(paths, "FooClusterTemplate cluster", "spec.template.metadata");
    let machine = |paths: &str| message(paths, "FooMachineTemplate cp-machine", "metadata and spec.template.metadata");
    let patch = r#"{"kind":"Other","metadata":{"labels":{"a":"b"}},
        "spec":{"other":1,"template":{"metadata":{"labels":{"a":"b"}},"spec":{"used":1}}}}"#;
    assert_eq!(
        ineffective(&[(0, "JSONMergePatch", patch), (2, "JSONMergePatch", patch)]),
        [cluster(r#""kind", "spec.other", "metadata.labels.a""#), machine(r#""kind", "spec.other""#)]
    );
    for (patch, paths) in [
        (r#"[{"op":"add","path":"/metadata/finalizers","value":["x"]}]"#, r#""metadata.finalizers""#),
        (r#"[{"op":"remove","path":"/spec/template/spec"}]"#, r#""spec.template.spec""#),
        (r#"[{"op":"remove","path":"/spec"}]"#, r#""spec""#),
        (
            r#"[{"op":"add","path":"/spec/template","value":{"spec":{},"metadata":{"name":"n"},"other":1}}]"#,
            r#""spec.template.other", "spec.template.metadata.name""#,
        ),
    ] {
        assert_eq!(ineffective(&[(2, "JSONPatch", patch)]), [machine(paths)], "{patch}");
    }
    // One message for all items of a template, with a few paths.
    let operation = r#"[{"op":"add","path":"/spec/other","value":1}]"#;
    assert_eq!(ineffective(&[(4, "JSONPatch", operation), (6, "JSONPatch", operation)]).len(), 1);
    let many: Vec<Value> =
        (0..50).map(|at| json!({"op": "add", "path": format!("/spec/field{at}"), "value": at})).collect();
    let many = ineffective(&[(0, "JSONPatch", &json!(many).to_string())]);
    assert!(many.len() == 1 && many[0].contains(r#""spec.field12" and others of"#), "{many:?}");
}

#[test]
fn what_stays_as_it_was_is_no_change_without_effect() {
    // PE-21, PE-25, PE-26
    let whole = r#"{"apiVersion":"infrastructure.example.com/v1","kind":"FooClusterTemplate","spec":{"template":{"spec":{"a":1}}}}"#;
    let template = case().templates.iter().find(|one| one["kind"] == "FooClusterTemplate").unwrap().clone();
    let whole = whole.replace("infrastructure.example.com/v1", template["apiVersion"].as_str().unwrap());
    for (patch_type, patch) in [
        ("JSONMergePatch", &*whole),
        ("JSONPatch", r#"[{"op":"replace","path":"/kind","value":"FooClusterTemplate"}]"#),
        ("JSONPatch", r#"[{"op":"test","path":"/kind","value":"FooClusterTemplate"}]"#),
        ("JSONPatch", r#"[{"op":"add","path":"/spec/tmp","value":1},{"op":"remove","path":"/spec/tmp"}]"#),
    ] {
        assert_eq!(ineffective(&[(0, patch_type, patch)]), [""; 0], "{patch}");
    }
}

#[test]
fn an_answer_that_cannot_be_applied_says_where() {
    // PE-20, PE-22, RH-12.2 to RH-12.4
    let spec = "/spec/template/spec";
    for (patch_type, patch, want) in [
        ("", "[]", "patchType is \"\", and must be \"JSONPatch\" or \"JSONMergePatch\""),
        ("jsonpatch", "[]", "patchType is \"jsonpatch\", and must be \"JSONPatch\" or \"JSONMergePatch\""),
        ("JSONPatch", "", "is not JSON: EOF while parsing a value"),
        ("JSONPatch", "{}", "a JSONPatch must be a list of operations, but this is an object"),
        ("JSONPatch", "[1]", "operation 0: is no object"),
        ("JSONPatch", r#"[{"op":"add"}]"#, "operation 0: path is missing"),
        ("JSONPatch", r#"[{"op":1,"path":""}]"#, "operation 0: op must be a string, but is a number"),
        ("JSONPatch", r#"[{"op":"put","path":""}]"#, "operation 0: \"put\" is not a JSON patch operation"),
        ("JSONPatch", r#"[{"op":"add","path":"/spec"}]"#, "operation 0: value is missing"),
        ("JSONPatch", r#"[{"op":"move","path":"/spec"}]"#, "operation 0: from is missing"),
        (
            "JSONPatch",
            r#"[{"op":"test","path":"/kind","value":"FooClusterTemplate"},{"op":"test","path":"/kind","value":"x"}]"#,
            "operation 1: test /kind: value did not match",
        ),
        (
            "JSONPatch",
            r#"[{"op":"copy","from":"/no","path":"/spec/x"}]"#,
            "operation 0: copy from /no: the template has no \"no\"",
        ),
        (
            "JSONPatch",
            r#"[{"op":"move","from":"/spec","path":"/spec/template"}]"#,
            "operation 0: move from /spec: /spec/template is inside of it",
        ),
        ("JSONPatch", r#"[{"op":"remove","path":""}]"#, "operation 0: remove : path is invalid"),
        ("JSONMergePatch", "[]", "a JSONMergePatch must be an object, but this is a list"),
        ("JSONMergePatch", "{", "is not JSON: EOF while parsing an object"),
    ] {
        let failure = generated(patch_type, patch).failure();
        let start = "patch \"x\" (spec.patches[0].external.generatePatchesExtension): items[0] of the answer of \
                     generate.ext";
        assert!(failure.contains(start) && failure.contains(want), "{patch}: {failure}");
        assert!(failure.ends_with("(for FooClusterTemplate cluster)"), "{failure}");
    }
    let not_text = Found::Yes(PatchAnswer::Patches(
        [ItemPatch { item: 0, patch_type: "JSONPatch".to_owned(), patch: vec![0xff] }].into(),
    ));
    let failure = case().patches(json!([generating()])).answering([not_text]).failure();
    assert!(failure.contains("is not UTF-8"), "{failure}");
    // Each copy doubles the template.
    let mut doubling = vec![json!({"op": "copy", "from": spec, "path": format!("{spec}/a")})];
    let mut paths = vec![format!("{spec}/a")];
    for _ in 0..40 {
        let path = format!("{}b", paths.last().unwrap());
        doubling.push(json!({"op": "copy", "from": spec, "path": path}));
        paths.push(path);
    }
    let failure = generated("JSONPatch", &json!(doubling).to_string()).failure();
    assert!(failure.contains("patches of extensions take more than 32 MiB"), "{failure}");
}

#[test]
fn all_patches_of_a_cluster_share_what_they_may_take() {
    // DEC-44
    let copies = |times: usize| {
        let spec = "/spec/template/spec";
        let mut operations =
            vec![json!({"op": "add", "path": format!("{spec}/a"), "value": vec![json!({"a": 1}); 1000]})];
        operations.extend(
            (0..times).map(|at| json!({"op": "copy", "from": format!("{spec}/a"), "path": format!("{spec}/b{at}")})),
        );
        json!(operations).to_string()
    };
    let (few, many) = (copies(10), copies(30));
    let answered = |patches: &[(usize, &str, &str)]| case().patches(json!([generating()])).answering([answer(patches)]);
    answered(&[(0, "JSONPatch", &many)]).run().unwrap();
    let twice = [(0, "JSONPatch", &*many), (4, "JSONPatch", &many)];
    let failure = answered(&twice).failure();
    let want = "items[1] of the answer of generate.ext, operation ";
    assert!(failure.contains(want) && failure.contains("patches of extensions take more than 32 MiB"), "{failure}");
    // Those of several extensions as well.
    let both = json!([generating(), json!({"name": "y", "external": {"generatePatchesExtension": "other.ext"}})]);
    let failure = case().patches(both.clone()).answering([answer(&twice[..1]), answer(&twice[..1])]).failure();
    assert!(failure.contains("patch \"y\"") && failure.contains("more than 32 MiB"), "{failure}");
    case()
        .patches(both)
        .answering([answer(&[(0, "JSONPatch", &few)]), answer(&[(0, "JSONPatch", &few)])])
        .run()
        .unwrap();
    // A list of small objects takes more memory than text.
    let list = json!({"spec": {"template": {"spec": {"a": vec![json!({"a": 1}); 60_000]}}}}).to_string();
    let failure = answered(&[(0, "JSONMergePatch", &list)]).failure();
    assert!(failure.contains("patches of extensions take more than 32 MiB"), "{failure}");
    // Each insertion moves what is behind it.
    let insert = json!({"op": "add", "path": "/spec/template/spec/a/0", "value": 1});
    let mut inserts = vec![json!({"op": "add", "path": "/spec/template/spec/a", "value": []})];
    inserts.extend(vec![insert; 20_000]);
    let failure = answered(&[(0, "JSONPatch", &json!(inserts).to_string())]).failure();
    assert!(failure.contains("patches of extensions have more than 20000 operations"), "{failure}");
    // Patches that change other places are applied to a copy of the template.
    let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    let labels = vec![(0, "JSONMergePatch", label); 5_000];
    let failure = answered(&labels).failure();
    assert!(failure.contains("too many patches of extensions change something outside of spec"), "{failure}");
    // What an error quotes is cut.
    let failure = answered(&[(0, &"x".repeat(1 << 20), "")]).failure();
    assert!(failure.len() < 2000 && failure.contains("(1048"), "{}", failure.len());
}

#[test]
fn answers_are_applied_in_their_order_each_to_its_item() {
    // PE-19, RH-12.1
    let operation = |value: u8| format!(r#"[{{"op":"add","path":"/spec/template/spec/a","value":{value}}}]"#);
    let (one, two, three) = (operation(1), operation(2), operation(3));
    let patches = [(4, "JSONPatch", &*one), (0, "JSONPatch", &two), (0, "JSONPatch", &three)];
    let outcome = case().patches(json!([generating()])).answering([answer(&patches)]).run().unwrap();
    assert_eq!(outcome.infrastructure().at("spec.a"), Some(&json!(3)));
    assert_eq!(outcome.machines(0).at("spec.template.spec.a"), Some(&json!(1)));
    assert_eq!(outcome.changed(), ["one-cluster", "one-md-1-machine"]);
    let failure = case().patches(json!([generating()])).answering([answer(&[(9, "JSONPatch", &one)])]).failure();
    assert!(failure.contains("items[0] of the answer of generate.ext: is for item 9 of 9"), "{failure}");
}

#[test]
fn an_extension_that_fails_ends_the_computation() {
    // PE-23, RH-12.7
    for (answer, want) in [
        (Found::Yes(PatchAnswer::Failure("no quota".to_owned())), "answered Failure: no quota"),
        (Found::Unreadable("connection refused".to_owned()), "connection refused"),
        (valid(), "returned something other than patches"),
    ] {
        let failure = case().patches(json!([generating()])).answering([answer]).failure();
        assert_eq!(
            failure,
            format!(
                "the patches of ClusterClass ns/class cannot be applied: patch \"x\" \
                 (spec.patches[0].external.generatePatchesExtension): GeneratePatches of generate.ext: {want}"
            )
        );
    }
}

#[test]
fn a_topology_is_validated_after_all_patches() {
    // PE-29, RH-15.1, RH-15.2, RH-15.5
    let any = json!({"x-kubernetes-preserve-unknown-fields": true});
    let validating = external(json!({"validateTopologyExtension": "validate.ext", "settings": {"a": "1"}}));
    let inline = patch(infrastructure(), json!([{"op": "add", "path": "/spec/template/spec/inline", "value": 1}]));
    let case = case()
        .defined_by("x", "mine", any.clone())
        .set("mine", json!(1))
        .with("inline", json!(2))
        .patches(json!([validating, inline]));
    let outcome = case.clone().answering([valid()]).run().unwrap();
    let request = &outcome.requests[0];
    assert_eq!(request["kind"], "ValidateTopologyRequest");
    assert_eq!(request["settings"], json!({"a": "1"}));
    assert_eq!(request["items"][0]["object"]["spec"]["template"]["spec"]["inline"], 1);
    let names: Vec<_> = request["variables"].as_array().unwrap().iter().map(|variable| &variable["name"]).collect();
    assert_eq!(names, ["mine", "builtin"], "its own, and not those of the last patch");
    assert!(outcome.trace.skipped.iter().any(|skipped| skipped.reason == SkipReason::OnlyValidates), "PE-11, RH-14.6");
    assert_eq!(outcome.changed(), ["one-cluster"]);

    let refusal = Found::Yes(PatchAnswer::Failure("too small".to_owned()));
    let failure = case.answering([refusal]).failure();
    assert!(
        failure.ends_with(
            "patch \"x\" (spec.patches[0].external.validateTopologyExtension): ValidateTopology of validate.ext: \
             answered Failure: too small"
        ),
        "{failure}"
    );
}

#[test]
fn generated_patches_are_validated_too() {
    // PE-29
    let both = external(json!({"generatePatchesExtension": "g.ext", "validateTopologyExtension": "v.ext"}));
    let sent = r#"[{"op":"add","path":"/spec/template/spec/a","value":1}]"#;
    let outcome = case().patches(json!([both])).answering([answer(&[(0, "JSONPatch", sent)]), valid()]).run().unwrap();
    assert_eq!(outcome.requests[1]["items"][0]["object"]["spec"]["template"]["spec"]["a"], 1);
}

#[test]
fn external_patches_need_the_gate_and_something_to_do() {
    // PE-11, RH-14.7
    for (patch, has_extensions, want) in [
        (generating(), false, "external patches need the feature gate RuntimeSDK"),
        (
            external(json!({"validateTopologyExtension": "validate.ext"})),
            false,
            "external patches need the feature gate RuntimeSDK",
        ),
        (
            external(json!({"discoverVariablesExtension": "discover.ext"})),
            true,
            "it has neither definitions nor a generate or validate extension",
        ),
        (json!({"name": "x"}), true, "it has neither definitions nor a generate or validate extension"),
    ] {
        let failure = Case { has_extensions, ..case().patches(json!([patch])) }.failure();
        assert!(failure.ends_with(&format!("patch \"x\" (spec.patches[0]): {want}")), "{failure}");
    }
    let inline = patch(infrastructure(), json!([]));
    assert!(Case { has_extensions: false, ..case().patches(json!([inline])) }.run().is_ok());
}

#[test]
fn conditions_are_for_inline_patches() {
    // RH-14.4
    let mut patch = generating();
    patch["enabledIf"] = json!("false");
    let sent = r#"[{"op":"add","path":"/spec/template/spec/a","value":1}]"#;
    let outcome = case().patches(json!([patch])).answering([answer(&[(0, "JSONPatch", sent)])]).run().unwrap();
    assert_eq!(outcome.changed(), ["one-cluster"]);
}

#[test]
fn an_extension_that_cannot_be_called_is_skipped_and_reported() {
    let both = external(json!({"generatePatchesExtension": "g.ext", "validateTopologyExtension": "v.ext"}));
    let inline = patch(infrastructure(), json!([{"op": "add", "path": "/spec/template/spec/a", "value": 1}]));
    let outcome = Case { is_offline: true, ..case().patches(json!([both, inline])) }.run().unwrap();
    assert_eq!(outcome.changed(), ["one-cluster"]);
    let Trace { not_asked, skipped, .. } = &outcome.trace;
    let hooks: Vec<_> = not_asked.iter().map(|not_asked| (not_asked.hook, &*not_asked.extension)).collect();
    assert_eq!(hooks, [(PatchHook::GeneratePatches, "g.ext"), (PatchHook::ValidateTopology, "v.ext")]);
    let reported: Vec<String> = not_asked.iter().map(ToString::to_string).collect();
    let want = [
        "patch \"x\": GeneratePatches of g.ext could not be called",
        "patch \"x\": ValidateTopology of v.ext could not be called",
    ];
    assert_eq!(reported, want);
    assert!(!outcome.trace.not_asked.is_empty());
    assert!(skipped.iter().any(|skipped| skipped.reason == SkipReason::NotAsked));
}

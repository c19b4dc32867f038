//! What patches leave on the objects of the topology (PE-24 to PE-28).

use serde_json::{Value, json};

use crate::topology::field_path::{self, FieldPath};
use crate::topology::patches::SkipReason;
use crate::topology::patches::testing::{Patched, case, control_plane, infrastructure, machines, patch, pool_configs};
use model::hub::contract::Contract;
use model::hub::{Object, annotation, label, paths};

fn applied(selector: Value, operations: Value) -> Patched {
    case().patches(json!([patch(selector, operations)])).run().unwrap()
}

#[test]
fn an_object_gets_spec_and_metadata_from_below_the_template() {
    // PE-25
    for (selector, object) in [
        (infrastructure(), Patched::infrastructure as fn(&Patched) -> &Object),
        (control_plane(), Patched::control_plane),
        (pool_configs(), Patched::pool_config),
    ] {
        let outcome = applied(
            selector,
            json!([
                {"op": "add", "path": "/spec/template/spec/new", "value": 1},
                {"op": "add", "path": "/spec/template/metadata/labels/new", "value": "l"},
                {"op": "add", "path": "/spec/template/metadata/annotations/new", "value": "a"},
                {"op": "add", "path": "/spec/template/metadata/name", "value": "other"},
                {"op": "add", "path": "/spec/other", "value": "x"},
                {"op": "add", "path": "/metadata/labels/outer", "value": "x"},
            ]),
        );
        let object = object(&outcome);
        assert_eq!(object.at("spec.new"), Some(&json!(1)));
        assert_eq!(
            (object.label("new"), object.annotation("new"), object.label("outer")),
            (Some("l"), Some("a"), None)
        );
        assert!(object.name().starts_with("one-"), "{}", object.name());
        assert_eq!((object.at("spec.other"), object.at("spec.template")), (None, None));
        assert_eq!(outcome.changed().len(), 1);
    }
}

#[test]
fn a_template_gets_five_places() {
    // PE-26
    let outcome = applied(
        machines(),
        json!([
            {"op": "add", "path": "/spec/template/spec/new", "value": 1},
            {"op": "add", "path": "/spec/template/metadata/labels/inner", "value": "l"},
            {"op": "add", "path": "/spec/template/metadata/annotations", "value": {"inner": "a"}},
            {"op": "add", "path": "/metadata/labels/outer", "value": "l"},
            {"op": "add", "path": "/metadata/annotations/outer", "value": "a"},
            {"op": "add", "path": "/spec/other", "value": "x"},
            {"op": "add", "path": "/spec/template/other", "value": "x"},
        ]),
    );
    let object = outcome.machines(0);
    assert_eq!(object.at("spec.template.spec.new"), Some(&json!(1)));
    assert_eq!(
        object.at("spec.template.metadata"),
        Some(&json!({"labels": {"of": "product", "inner": "l"},
        "annotations": {"inner": "a"}}))
    );
    assert_eq!((object.label("outer"), object.annotation("outer")), (Some("l"), Some("a")));
    assert_eq!((object.at("spec.other"), object.at("spec.template.other")), (None, None));
}

#[test]
fn reserved_metadata_keeps_its_computed_value() {
    // PE-24, PE-28
    for whole in [false, true] {
        let labels = [label::CLUSTER_NAME, label::OWNED, label::DEPLOYMENT_NAME];
        let annotations = [annotation::CLONED_FROM_NAME, annotation::CLONED_FROM_KIND];
        let operations = if whole {
            json!([
                {"op": "replace", "path": "/metadata/labels", "value": {label::OWNED: "x", "new": "l"}},
                {"op": "replace", "path": "/metadata/annotations", "value": {"new": "a"}},
            ])
        } else {
            let one = |map: &str, name: &str| {
                let path = format!("/metadata/{map}/{}", name.replace('/', "~1"));
                json!({"op": "replace", "path": path, "value": "x"})
            };
            let remove = |path: &str| json!({"op": "remove", "path": path});
            let all = labels.iter().map(|name| one("labels", name));
            let all = all.chain(annotations.iter().map(|name| one("annotations", name)));
            json!(all.chain([remove("/metadata/labels/of")]).collect::<Vec<_>>())
        };
        let outcome = applied(machines(), operations);
        let before = &outcome.before.machine_deployments[0].infrastructure.object;
        let object = outcome.machines(0);
        for name in labels {
            assert_eq!(object.label(name), before.label(name), "{name}");
            assert!(object.label(name).is_some(), "{name}");
        }
        for name in annotations {
            assert_eq!(object.annotation(name), before.annotation(name), "{name}");
            assert!(object.annotation(name).is_some(), "{name}");
        }
        // Other keys come and go.
        assert_eq!((object.label("of"), object.label("new")), (None, whole.then_some("l")));
        assert_eq!(object.annotation("new"), whole.then_some("a"));
    }
}

#[test]
fn reserved_metadata_that_is_not_computed_can_be_set() {
    // PE-24
    let operations = json!([{"op": "add", "path": "/spec/template/metadata/labels/topology.cluster.x-k8s.io~1pool-name",
        "value": "x"}]);
    let outcome = applied(infrastructure(), operations);
    assert_eq!(outcome.infrastructure().label(label::POOL_NAME), Some("x"));
}

#[test]
fn the_control_plane_keeps_what_is_computed_for_it() {
    // PE-27
    let both = |path: FieldPath| [path.at(Contract::V1Beta1), path.at(Contract::V1Beta2)];
    let fields = [
        field_path::INFRASTRUCTURE_REF,
        field_path::READINESS_GATES,
        field_path::TAINTS,
        field_path::DRAIN_TIMEOUT,
        field_path::DETACH_TIMEOUT,
        field_path::DELETION_TIMEOUT,
    ];
    let all = [paths::REPLICAS, paths::VERSION, paths::worker::ROLLOUT_AFTER, field_path::MACHINE_METADATA];
    for path in all.into_iter().chain(fields.into_iter().flat_map(both)) {
        let mut parents: Vec<&str> = path.split('.').collect();
        let last = parents.pop().unwrap();
        let value = parents.iter().skip(1).rev().fold(json!({last: "patched"}), |value, name| json!({*name: value}));
        let operations: Vec<Value> = value
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| json!({"op": "add", "path": format!("/spec/template/spec/{name}"), "value": value}))
            .collect();
        let case = case().patches(json!([patch(control_plane(), json!(operations))]));
        let kept = case.run_on(|desired| {
            desired.control_plane.control_plane.object.set(path, json!("computed")).unwrap();
        });
        let kept = kept.unwrap();
        assert_eq!(kept.control_plane().at(path), Some(&json!("computed")), "{path}");
        let without = case.run_on(|desired| {
            desired.control_plane.control_plane.object.remove(path);
        });
        // Where nothing is computed, a patch may say what it wants.
        assert_eq!(without.unwrap().control_plane().at(path), Some(&json!("patched")), "{path}");
    }
}

#[test]
fn the_trace_names_patches_of_what_is_kept() {
    let operations = json!([
        {"op": "add", "path": "/spec/template/spec/version", "value": "v1.0.0"},
        {"op": "add", "path": "/spec/template/spec/other", "value": 1},
    ]);
    let outcome = applied(control_plane(), operations);
    let kept: Vec<String> = outcome
        .trace
        .skipped
        .iter()
        .filter(|skipped| matches!(skipped.reason, SkipReason::Kept { .. }))
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        kept,
        ["patch \"p\" definitions[0] did not change FooControlPlaneTemplate cp: the topology itself decides \
             spec.version"]
    );
}

#[test]
fn only_control_planes_keep_fields_of_the_spec() {
    // PE-27
    let operations = json!([{"op": "add", "path": "/spec/template/spec/from", "value": "patched"}]);
    let outcome = case().patches(json!([patch(infrastructure(), operations)])).run_on(|desired| {
        desired.infrastructure.object.set("spec.version", json!("computed")).unwrap();
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.infrastructure().at("spec.version"), None);
    assert_eq!(outcome.infrastructure().at("spec.from"), Some(&json!("patched")));
}

#[test]
fn removed_maps_stay_and_removed_keys_are_removed() {
    // PE-28
    let remove = |path: &str| json!([{"op": "remove", "path": path}]);
    for path in ["/spec/template/spec", "/spec/template/metadata/labels", "/spec/template", "/spec/template/metadata"] {
        assert!(applied(infrastructure(), remove(path)).changed().is_empty(), "{path}");
    }
    let outcome = applied(infrastructure(), remove("/spec/template/metadata/labels/of"));
    assert_eq!(outcome.infrastructure().label("of"), None);
    let outcome = applied(infrastructure(), remove("/spec/template/spec/map/x"));
    assert_eq!(outcome.infrastructure().at("spec.map"), Some(&json!({"y": {"z": true}})));
}

#[test]
fn unpatched_fields_keep_their_computed_values() {
    // RH-13.8: the computed object need not equal its template.
    let outcome = case().patches(json!([patch(infrastructure(), json!([]))])).run_on(|desired| {
        desired.infrastructure.object.set("spec", json!({"computed": true})).unwrap();
    });
    assert!(outcome.unwrap().changed().is_empty());
}

#[test]
fn a_field_that_is_kept_needs_its_place() {
    let operations = json!([{"op": "add", "path": "/spec/template/spec/machineTemplate", "value": "text"}]);
    let failure = case().patches(json!([patch(control_plane(), operations)])).failure();
    assert!(failure.contains("spec.machineTemplate"), "{failure}");
}

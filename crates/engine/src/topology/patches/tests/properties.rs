//! Properties of all patches.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::topology::patches::testing::{
    Case, case, control_plane, infrastructure, machines, objects, patch, pool_configs,
};
use model::hub::Object;

fn path() -> impl Strategy<Value = String> {
    let place = prop::sample::select(vec![
        "/spec",
        "/spec/template",
        "/spec/template/spec",
        "/spec/template/metadata/labels",
        "/metadata/labels",
        "/metadata/annotations",
        "/metadata",
        "/kind",
        "",
    ]);
    let name = prop::sample::select(vec!["from", "list", "map", "x", "y", "0", "-", "version", "replicas", "name"]);
    (place, vec(name, 0..3))
        .prop_map(|(place, names)| names.into_iter().fold(place.to_owned(), |path, name| format!("{path}/{name}")))
}

/// Operations that mostly fit.
fn operation() -> impl Strategy<Value = Value> {
    prop_oneof![5 => fitting_operation(), 1 => any_operation()]
}

fn fitting_operation() -> impl Strategy<Value = Value> {
    let value = prop::sample::select(vec![
        json!({"value": "text"}),
        json!({"value": {"x": {"y": 1}}}),
        json!({"valueFrom": {"variable": "builtin.cluster.name"}}),
        json!({"valueFrom": {"template": "{{ .builtin.machineDeployment.topologyName }}"}}),
        json!({"valueFrom": {"template": "{x: {{ .builtin.controlPlane.replicas }}}"}}),
    ]);
    let path = prop::sample::select(vec![
        "/spec/template/spec/from",
        "/spec/template/spec/list/-",
        "/spec/template/spec/list/0",
        "/spec/template/spec/map/x",
        "/spec/template/spec/map/y/new",
        "/spec/template/spec/version",
        "/spec/template/metadata/labels/new",
        "/spec/template/metadata/labels/cluster.x-k8s.io~1cluster-name",
        "/metadata/labels/topology.cluster.x-k8s.io~1owned",
        "/metadata/name",
        "/spec/other",
        "/status",
    ]);
    (path, value).prop_map(|(path, value)| {
        let mut operation = json!({"op": "add", "path": path});
        operation.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        operation
    })
}

fn any_operation() -> impl Strategy<Value = Value> {
    let op = prop::sample::select(vec!["add", "add", "replace", "remove"]);
    let value = prop::sample::select(vec![
        json!({"value": "text"}),
        json!({"value": {"x": {"y": 1}}}),
        json!({"value": [1, 2]}),
        json!({"valueFrom": {"variable": "builtin.cluster.name"}}),
        json!({"valueFrom": {"template": "{{ .builtin.machineDeployment.topologyName }}"}}),
        json!({"valueFrom": {"template": "{x: {{ .builtin.controlPlane.replicas }}}"}}),
    ]);
    (op, path(), value).prop_map(|(op, path, value)| {
        let mut operation = json!({"op": op, "path": path});
        operation.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        operation
    })
}

fn selector() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![infrastructure(), control_plane(), machines(), pool_configs()])
}

fn patches() -> impl Strategy<Value = Value> {
    vec((selector(), vec(operation(), 1..3)), 1..4).prop_map(|patches| {
        let patches = patches.into_iter().map(|(selector, operations)| patch(selector, json!(operations)));
        json!(patches.collect::<Vec<_>>())
    })
}

/// An object without what patches can change.
fn frame(object: &Object) -> Value {
    let mut object = object.clone();
    for path in ["spec", "metadata.labels", "metadata.annotations"] {
        object.remove(path);
    }
    object.into()
}

/// The same with workers in the opposite order.
fn reversed(case: &Case) -> Case {
    let mut case = case.clone();
    let workers = &mut case.cluster["spec"]["topology"]["workers"]["machineDeployments"];
    workers.as_array_mut().unwrap().reverse();
    case
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn patches_change_nothing_but_spec_labels_and_annotations(patches in patches()) {
        // PE-21, PE-25, PE-26
        if let Ok(outcome) = case().patches(patches).run() {
            for (before, after) in objects(&outcome.before).into_iter().zip(objects(&outcome.desired)) {
                prop_assert_eq!(frame(&before.object), frame(&after.object));
            }
            let workers = |desired: &crate::topology::desired::Desired| -> Vec<Object> {
                desired.machine_deployments.iter().map(|worker| worker.worker.object.clone()).collect()
            };
            prop_assert_eq!(workers(&outcome.before), workers(&outcome.desired));
            prop_assert_eq!(outcome.before.cluster, outcome.desired.cluster);
        }
    }

    #[test]
    fn every_changed_field_names_its_patch(patches in patches()) {
        if let Ok(outcome) = case().patches(patches).run() {
            for (before, after) in objects(&outcome.before).into_iter().zip(objects(&outcome.desired)) {
                for path in ["spec", "metadata.labels", "metadata.annotations"] {
                    if before.object.at(path) != after.object.at(path) {
                        prop_assert!(after.origins.marks().len() > before.origins.marks().len(), "{}", path);
                    }
                }
            }
        }
    }

    #[test]
    fn the_order_of_workers_does_not_change_patches(patches in patches()) {
        // PE-32: neither do other items.
        let case = case().patches(patches);
        match (case.run(), reversed(&case).run()) {
            (Ok(one), Ok(other)) => {
                let mut others = other.desired.machine_deployments;
                others.reverse();
                prop_assert_eq!(one.desired.machine_deployments, others);
                prop_assert_eq!(one.desired.control_plane, other.desired.control_plane);
            }
            (one, other) => prop_assert_eq!(one.is_ok(), other.is_ok()),
        }
    }

    #[test]
    fn patches_do_the_same_each_time(patches in patches()) {
        // PE-32, DEC-12
        let case = case().patches(patches);
        match (case.run(), case.run()) {
            (Ok(one), Ok(other)) => prop_assert!(one.desired == other.desired && one.trace == other.trace),
            (one, other) => prop_assert_eq!(one.unwrap_err(), other.unwrap_err()),
        }
    }
}

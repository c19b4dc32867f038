//! Which patches and definitions apply to which items (PE-01 to PE-16).

use serde_json::{Value, json};

use crate::topology::patches::testing::{
    BOOTSTRAP, CONTROL_PLANE, Case, INFRASTRUCTURE, case, control_plane, infrastructure, machines, patch, selector,
};
use crate::topology::patches::{SkipReason, Trace};

/// Sets a field of each selected template.
fn touch(selector: Value) -> Case {
    case().operation(selector, json!({"op": "add", "path": "/spec/template/spec/touched", "value": true}))
}

fn changed(case: &Case) -> Vec<String> {
    case.run().unwrap().changed().into_iter().map(str::to_owned).collect()
}

#[test]
fn a_class_without_patches_changes_nothing() {
    // PE-01
    let outcome = case().patches(json!([])).run().unwrap();
    assert_eq!(outcome.before, outcome.desired);
    assert_eq!(outcome.trace, Trace::default());
}

#[test]
fn patches_do_not_see_what_is_computed() {
    // PE-02: the control plane has spec.version, its template does not.
    let replace = json!({"op": "replace", "path": "/spec/template/spec/version", "value": "v1"});
    let failure = case().operation(control_plane(), replace).failure();
    assert_eq!(
        failure,
        "the patches of ClusterClass ns/class cannot be applied: patch \"p\" \
         (spec.patches[0].definitions[0].jsonPatches[0]): replace /spec/template/spec/version: /spec/template/spec has \
         no \"version\" (for FooControlPlaneTemplate cp)"
    );
}

#[test]
fn a_selector_is_about_a_kind_in_a_version_and_its_uses() {
    // PE-13
    let all = json!({"infrastructureCluster": true, "controlPlane": true,
        "machineDeploymentClass": {"names": ["*"]}, "machinePoolClass": {"names": ["*"]}});
    let deployments = json!({"machineDeploymentClass": {"names": ["worker"]}});
    let pools = json!({"machinePoolClass": {"names": ["pool"]}});
    let machines_of_both = json!({"controlPlane": true, "machineDeploymentClass": {"names": ["worker"]}});
    let other_version = "infrastructure.example.com/v2";
    for (api_version, kind, uses, want) in [
        (INFRASTRUCTURE, "FooClusterTemplate", json!({"infrastructureCluster": true}), &["one-cluster"][..]),
        (INFRASTRUCTURE, "FooClusterTemplate", json!({"infrastructureCluster": false}), &[]),
        (INFRASTRUCTURE, "FooClusterTemplate", json!({"controlPlane": true}), &[]),
        (INFRASTRUCTURE, "FooClusterTemplate", all.clone(), &["one-cluster"]),
        (other_version, "FooClusterTemplate", all.clone(), &[]),
        (CONTROL_PLANE, "FooControlPlaneTemplate", json!({"controlPlane": true}), &["one-cp"]),
        (CONTROL_PLANE, "FooControlPlaneTemplate", json!({"infrastructureCluster": true}), &[]),
        (INFRASTRUCTURE, "FooMachineTemplate", json!({"controlPlane": true}), &["one-cp-machine"]),
        (INFRASTRUCTURE, "FooMachineTemplate", deployments.clone(), &["one-md-1-machine", "one-md-2-machine"]),
        (
            INFRASTRUCTURE,
            "FooMachineTemplate",
            machines_of_both,
            &["one-cp-machine", "one-md-1-machine", "one-md-2-machine"],
        ),
        (INFRASTRUCTURE, "FooMachineTemplate", pools.clone(), &[]),
        (BOOTSTRAP, "FooConfigTemplate", deployments, &["one-md-1-config", "one-md-2-config"]),
        (BOOTSTRAP, "FooConfigTemplate", pools.clone(), &["one-mp-1-config"]),
        (BOOTSTRAP, "FooConfigTemplate", all, &["one-md-1-config", "one-md-2-config", "one-mp-1-config"]),
        (INFRASTRUCTURE, "FooMachinePoolTemplate", pools, &["one-mp-1-machine"]),
        (INFRASTRUCTURE, "FooMachinePoolTemplate", json!({}), &[]),
    ] {
        assert_eq!(changed(&touch(selector(api_version, kind, uses.clone()))), want, "{api_version} {kind} {uses}");
    }
}

#[test]
fn names_of_worker_classes_have_a_star_at_either_end() {
    // PE-14
    for (name, is_selected) in [
        ("worker", true),
        ("*", true),
        ("wor*", true),
        ("*ker", true),
        ("worker*", true),
        ("*worker", true),
        ("work", false),
        ("wor*er", false),
        ("*wor", false),
        ("ker*", false),
        ("Worker", false),
        ("", false),
    ] {
        let uses = json!({"machineDeploymentClass": {"names": ["other", name]}});
        let changed = changed(&touch(selector(INFRASTRUCTURE, "FooMachineTemplate", uses)));
        assert_eq!(!changed.is_empty(), is_selected, "{name}");
    }
}

#[test]
fn enabled_if_is_not_rendered_for_unselected_items() {
    // PE-12
    let mut nowhere = patch(selector("g/v1", "Other", json!({"controlPlane": true})), json!([]));
    nowhere["enabledIf"] = json!("{{ fail \"evaluated\" }}");
    let outcome = case().patches(json!([nowhere])).run().unwrap();
    assert!(outcome.trace.skipped.iter().any(|skipped| skipped.reason == SkipReason::SelectsNothing));
    let mut somewhere = patch(infrastructure(), json!([]));
    somewhere["enabledIf"] = json!("{{ fail \"evaluated\" }}");
    let failure = case().patches(json!([somewhere])).failure();
    assert!(
        failure.ends_with(
            "patch \"p\" (spec.patches[0].enabledIf): template: enabledIf:1:3: executing \"enabledIf\" at <fail \
         \"evaluated\">: error calling fail: evaluated (for FooClusterTemplate cluster)"
        ),
        "{failure}"
    );
}

#[test]
fn a_patch_is_enabled_by_exactly_true() {
    // PE-16, TV-10, TV-11, TV-12, TV-14
    for (condition, is_enabled) in [
        ("", true),
        ("true", true),
        (" yes \n", true),
        ("{{ .on }}", true),
        ("{{ eq .name \"x\" }}", true),
        ("{{ if .on }}true{{ end }}", true),
        ("{{ .missing }}", false),
        ("{{ not .missing }}", true),
        ("{{ if .missing }}true{{ end }}", false),
        ("\"true\"", false),
        ("1", false),
        (" ", false),
        ("null", false),
        ("[true]", false),
        ("{{ .off }}", false),
    ] {
        let mut patch = patch(infrastructure(), json!([{"op": "remove", "path": "/spec/template/spec/map"}]));
        patch["enabledIf"] = json!(condition);
        let case = case().with("on", json!(true)).with("off", json!(false)).with("name", json!("x"));
        let outcome = case.patches(json!([patch])).run().unwrap();
        assert_eq!(outcome.changed().len(), usize::from(is_enabled), "{condition}");
        let disabled = outcome
            .trace
            .skipped
            .iter()
            .filter(|skipped| matches!(skipped.reason, SkipReason::Disabled { .. }))
            .count();
        assert_eq!(disabled, usize::from(!is_enabled), "{condition}");
    }
}

#[test]
fn a_patch_may_be_enabled_for_some_items_only() {
    // PE-16, PE-31: conditions see the variables of each item.
    let mut patch = patch(machines(), json!([{"op": "remove", "path": "/spec/template/spec/map"}]));
    patch["enabledIf"] = json!("{{ eq .builtin.machineDeployment.topologyName \"md-2\" }}");
    let outcome = case().patches(json!([patch])).run().unwrap();
    assert_eq!(outcome.changed(), ["one-md-2-machine"]);
    let disabled = outcome.trace.skipped.iter().find(|skipped| matches!(skipped.reason, SkipReason::Disabled { .. }));
    assert_eq!(
        disabled.unwrap().to_string(),
        "patch \"p\" definitions[0] did not change FooMachineTemplate worker-machine of MachineDeployment \"md-1\": \
         enabledIf rendered false"
    );
}

#[test]
fn overrides_enable_a_patch_for_their_part_alone() {
    // PE-10, PE-15, PE-16
    let mut patch = patch(machines(), json!([{"op": "remove", "path": "/spec/template/spec/map"}]));
    patch["enabledIf"] = json!("{{ .on }}");
    let case = case().patches(json!([patch])).with("on", json!(true));
    let case = case.overridden("/workers/machineDeployments/0", "on", json!(false));
    assert_eq!(changed(&case), ["one-md-2-machine"]);
}

#[test]
fn patches_run_in_their_order_and_see_what_earlier_ones_did() {
    // PE-07
    let first = patch(infrastructure(), json!([{"op": "add", "path": "/spec/template/spec/a", "value": {}}]));
    let mut second = patch(infrastructure(), json!([{"op": "add", "path": "/spec/template/spec/a/b", "value": 1}]));
    second["name"] = json!("q");
    let outcome = case().patches(json!([first, second])).run().unwrap();
    assert_eq!(outcome.infrastructure().at("spec.a"), Some(&json!({"b": 1})));
    let failure = case().patches(json!([second, first])).failure();
    assert!(failure.contains("patch \"q\"") && failure.contains("/spec/template/spec has no \"a\""), "{failure}");
}

#[test]
fn every_skipped_definition_says_why() {
    let patches = json!([patch(machines(), json!([]))]);
    let trace = case().patches(patches).run().unwrap().trace;
    let not_selected: Vec<String> = trace
        .skipped
        .iter()
        .filter(|skipped| skipped.reason == SkipReason::NotSelected)
        .map(|skipped| skipped.item.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(
        not_selected,
        [
            "FooClusterTemplate cluster",
            "FooControlPlaneTemplate cp",
            "FooMachineTemplate cp-machine",
            "FooConfigTemplate worker-config of MachineDeployment \"md-1\"",
            "FooConfigTemplate worker-config of MachineDeployment \"md-2\"",
            "FooConfigTemplate pool-config of MachinePool \"mp-1\"",
            "FooMachinePoolTemplate pool-machine of MachinePool \"mp-1\"",
        ]
    );
}

#[test]
fn the_machines_of_a_control_plane_are_an_item_only_where_there_are_some() {
    // PE-03
    let mut without = touch(selector(INFRASTRUCTURE, "FooMachineTemplate", json!({"controlPlane": true})));
    without.class["spec"]["controlPlane"].as_object_mut().unwrap().remove("machineInfrastructure");
    let outcome = without.run().unwrap();
    assert!(outcome.desired.control_plane.machines.is_none() && outcome.changed().is_empty());
}

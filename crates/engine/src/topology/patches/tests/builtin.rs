//! Builtin variables (BV).

use serde_json::{Value, json};

use crate::topology::patches::testing::{
    BOOTSTRAP, Case, INFRASTRUCTURE, case, control_plane, infrastructure, machines, pool_configs, selector,
};
use model::hub::{Object, annotation, label};

/// Writes all that is builtin to where a selector leads.
fn shown(case: Case, selector: Value) -> crate::topology::patches::testing::Patched {
    let operation = json!({"op": "add", "path": "/spec/template/spec/v", "valueFrom": {"variable": "builtin"}});
    case.operation(selector, operation).run().unwrap()
}

fn of_object(object: &Object) -> &Value {
    object.at("spec.v").unwrap()
}

fn of_template(object: &Object) -> &Value {
    object.at("spec.template.spec.v").unwrap()
}

fn cluster() -> Value {
    json!({
        "name": "one", "namespace": "ns", "uid": "uid-one",
        // BV-04: the step of the upgrade is visible, and what tools left is not.
        "metadata": {"labels": {"team": "a", label::OWNED: ""}, "annotations": {annotation::UPGRADE_STEP: "v1.32.0"}},
        "topology": {
            "version": "v1.33.0", "classRef": {"name": "class", "namespace": "ns"},
            "class": "class", "classNamespace": "ns",
        },
        "network": {"serviceDomain": "cluster.local", "services": ["10.0.0.0/16"],
            "pods": ["10.1.0.0/16", "fd00::/64"]},
    })
}

#[test]
fn the_infrastructure_cluster_sees_the_cluster_alone() {
    // BV-02, BV-03, BV-05
    assert_eq!(of_object(shown(case(), infrastructure()).infrastructure()), &json!({"cluster": cluster()}));
}

#[test]
fn the_control_plane_and_its_machines_see_the_control_plane() {
    // BV-02, BV-05, BV-08
    let outcome = shown(case(), control_plane());
    let labels = json!({label::CLUSTER_NAME: "one", label::OWNED: "", "of": "product"});
    let annotations = json!({annotation::CLONED_FROM_NAME: "cp",
        annotation::CLONED_FROM_KIND: "FooControlPlaneTemplate.controlplane.example.com"});
    let want = json!({"cluster": cluster(), "controlPlane": {
        "name": "one-cp", "version": "v1.33.0", "replicas": 3,
        "metadata": {"labels": labels, "annotations": annotations},
        "machineTemplate": {"infrastructureRef": {"name": "one-cp-machine"}},
    }});
    assert_eq!(of_object(outcome.control_plane()), &want);
    let uses = json!({"controlPlane": true});
    let outcome = shown(case(), selector(INFRASTRUCTURE, "FooMachineTemplate", uses));
    assert_eq!(of_template(&outcome.desired.control_plane.machines.as_ref().unwrap().object), &want);
}

#[test]
fn workers_see_themselves() {
    // BV-02, BV-05, BV-08
    let worker = |kind: &str, name: &str, class: &str, label: &str| {
        json!({
            "version": "v1.33.0", "class": class, "name": format!("one-{name}"), "topologyName": name,
            "metadata": {"labels": {label: name}},
            "bootstrap": {"configRef": {"name": format!("one-{name}-config")}},
            "infrastructureRef": {"name": format!("one-{name}-machine")}, "kind": kind,
        })
    };
    let mut want = worker("MachineDeployment", "md-2", "worker", label::DEPLOYMENT_NAME);
    want["replicas"] = json!(2);
    want.as_object_mut().unwrap().remove("kind");
    let want = json!({"cluster": cluster(), "machineDeployment": want});
    let outcome = shown(case(), machines());
    assert_eq!(of_template(outcome.machines(1)), &want);
    let uses = json!({"machineDeploymentClass": {"names": ["worker"]}});
    let outcome = shown(case(), selector(BOOTSTRAP, "FooConfigTemplate", uses));
    assert_eq!(of_template(&outcome.desired.machine_deployments[1].bootstrap.object), &want);

    let mut want = worker("MachinePool", "mp-1", "pool", label::POOL_NAME);
    want.as_object_mut().unwrap().remove("kind");
    let want = json!({"cluster": cluster(), "machinePool": want});
    assert_eq!(of_object(shown(case(), pool_configs()).pool_config()), &want);
}

#[test]
fn a_member_without_a_value_is_absent() {
    // BV-01, BV-03
    let mut bare = case();
    bare.cluster = json!({
        "metadata": {"namespace": "ns", "name": "one"},
        "spec": {"topology": {"classRef": {"name": "class", "namespace": "ns"}, "version": "v1.33.0"}},
    });
    bare.class["spec"]["controlPlane"].as_object_mut().unwrap().remove("machineInfrastructure");
    let operation = json!({"op": "add", "path": "/spec/template/spec/v", "valueFrom": {"variable": "builtin"}});
    let bare = bare.operation(control_plane(), operation);
    let outcome = bare
        .run_on(|desired| {
            desired.cluster.labels.clear();
            desired.cluster.annotations.clear();
            // The template says so, and not the topology.
            desired.control_plane.control_plane.object.set("spec.replicas", json!(5)).unwrap();
            desired.control_plane.control_plane.object.remove("metadata.annotations");
        })
        .unwrap();
    let labels = json!({label::CLUSTER_NAME: "one", label::OWNED: "", "of": "product"});
    let class = json!({"name": "class", "namespace": "ns"});
    let want = json!({
        "cluster": {"name": "one", "namespace": "ns",
            "topology": {"version": "v1.33.0", "classRef": class, "class": "class", "classNamespace": "ns"}},
        "controlPlane": {"name": "one-cp", "version": "v1.33.0", "metadata": {"labels": labels}},
    });
    assert_eq!(of_object(outcome.control_plane()), &want);
}

#[test]
fn each_worker_sees_its_own_version() {
    // PE-31, BV-05
    let operation = json!({"op": "add", "path": "/spec/template/spec/v",
        "valueFrom": {"template": "{{ .builtin.machineDeployment.version }} of {{ .builtin.cluster.topology.version }}"}});
    let outcome = case()
        .operation(machines(), operation)
        .run_on(|desired| {
            let frozen = &mut desired.machine_deployments[0].worker.object;
            frozen.set("spec.template.spec.version", json!("v1.32.0")).unwrap();
        })
        .unwrap();
    assert_eq!(of_template(outcome.machines(0)), "v1.32.0 of v1.33.0");
    assert_eq!(of_template(outcome.machines(1)), "v1.33.0 of v1.33.0");
}

//! Clusters for tests.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::lifecycle::conditions::{ConditionState, ConditionStatus, get};
use crate::lifecycle::fields::set;
use crate::lifecycle::objects::ObjectId;
use crate::lifecycle::settings::{MachineSettings, ProvidedKinds};
use crate::lifecycle::simulator::MachineSimulator;
use crate::lifecycle::testing::{CLUSTER, core, fold_with, object};
use model::hub::Object;

pub(super) const INFRA: &str = "infra.example.com";
pub(super) const CONTROL_PLANES: &str = "cp.example.com";

/// A simulator in which only Clusters have a controller.
pub(super) fn alone() -> MachineSimulator {
    let external = ["Machine", "MachineSet", "MachineDeployment", "MachinePool", "MachineHealthCheck"];
    let external = external.into_iter().map(str::to_owned).collect();
    fold_with(MachineSettings { provides: ProvidedKinds::Embedded, external, ..MachineSettings::default() })
}

/// A Cluster with a spec, after its first steps.
pub(super) fn cluster(spec: Value) -> MachineSimulator {
    let mut simulator = alone();
    simulator.make(core("Cluster", CLUSTER, spec));
    simulator.settle(50);
    simulator
}

/// References to infrastructure and control plane.
pub(super) fn references() -> Value {
    json!({
        "infrastructureRef": {"apiGroup": INFRA, "kind": "FooCluster", "name": "i"},
        "controlPlaneRef": {"apiGroup": CONTROL_PLANES, "kind": "FooControlPlane", "name": "c"},
    })
}

pub(super) fn infra_cluster(spec: Value, status: Value) -> Object {
    with_status(object("infra.example.com/v1", "FooCluster", "i", spec), status)
}

pub(super) fn control_plane(spec: Value, status: Value) -> Object {
    with_status(object("cp.example.com/v1", "FooControlPlane", "c", spec), status)
}

pub(super) fn with_status(mut object: Object, status: Value) -> Object {
    set(&mut object, "status", status);
    object
}

pub(super) fn with(mut object: Object, path: &str, value: Value) -> Object {
    set(&mut object, path, value);
    object
}

/// The Cluster after all steps; checks that one more step changes nothing.
pub(super) fn settled(simulator: &mut MachineSimulator) -> Arc<Object> {
    assert!(simulator.settle(200), "the Cluster does not settle");
    let cluster = simulator.core("Cluster", CLUSTER);
    simulator.take(&ObjectId::for_object(&cluster));
    assert_eq!(simulator.core("Cluster", CLUSTER), cluster, "a step that has nothing to do writes");
    cluster
}

pub(super) fn condition(object: &Object, name: &str) -> (ConditionStatus, String) {
    let ConditionState { status, reason, .. } = get(object, name).unwrap_or_else(|| panic!("no {name}"));
    (status, reason)
}

pub(super) fn yes(reason: &str) -> (ConditionStatus, String) {
    (ConditionStatus::True, reason.to_owned())
}

pub(super) fn no(reason: &str) -> (ConditionStatus, String) {
    (ConditionStatus::False, reason.to_owned())
}

pub(super) fn unknown(reason: &str) -> (ConditionStatus, String) {
    (ConditionStatus::Unknown, reason.to_owned())
}

pub(super) fn conditions(list: &[(&str, &str)]) -> Value {
    let one = |(name, status): &(&str, &str)| {
        let since = "2030-01-01T00:00:00Z";
        json!({"type": name, "status": status, "reason": "R", "message": "", "lastTransitionTime": since})
    };
    json!({"conditions": list.iter().map(one).collect::<Vec<_>>()})
}

pub(super) fn reasons(simulator: &MachineSimulator) -> Vec<&'static str> {
    simulator.events.iter().map(|(_, _, event)| event.reason).collect()
}

pub(super) const GOOD_INFRA: fn() -> Object = || {
    let spec = json!({"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}});
    let domains = json!([{"name": "b", "controlPlane": true, "attributes": {"x": "y"}}, {"name": "a"}]);
    infra_cluster(spec, json!({"initialization": {"provisioned": true}, "failureDomains": domains}))
};
pub(super) const GOOD_CONTROL_PLANE: fn() -> Object =
    || control_plane(json!({"replicas": 3}), json!({"initialization": {"controlPlaneInitialized": true}}));

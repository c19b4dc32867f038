//! A small Cluster on a virtual clock, for tests of steps.

use std::sync::Arc;

use serde_json::{Value, json};

use super::objects::{GroupKind, ObjectId};
use super::settings::MachineSettings;
use super::simulator::MachineSimulator;
use golang::calendar::Moment;
use model::hub::contract::Contract;
use model::hub::{Object, ObjectKey};

/// The namespace of all objects.
pub(super) const NAMESPACE: &str = "ns";
/// The name of the Cluster.
pub(super) const CLUSTER: &str = "demo";

/// A simulator starting on 1 January 2030.
pub(super) fn fold_with(settings: MachineSettings) -> MachineSimulator {
    let mut simulator = MachineSimulator::new(settings, Moment::parse("2030-01-01T00:00:00Z").unwrap());
    simulator.assumed = Some(Contract::V1Beta2);
    simulator
}

/// An object of a kind of Cluster API, with `spec` and the label of the Cluster.
pub(super) fn core(kind: &str, name: &str, spec: Value) -> Object {
    object("cluster.x-k8s.io/v1beta2", kind, name, spec)
}

/// An object in the namespace, with the label of the Cluster.
pub(super) fn object(api_version: &str, kind: &str, name: &str, spec: Value) -> Object {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": spec,
    });
    if kind != "Cluster" {
        object["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": CLUSTER});
    }
    Object::try_from(object).unwrap()
}

/// The Cluster.
pub(super) fn cluster_key() -> ObjectKey {
    ObjectKey::new(NAMESPACE, CLUSTER)
}

impl MachineSimulator {
    /// Creates an object; panics if its name exists.
    pub(super) fn make(&mut self, object: Object) -> Arc<Object> {
        self.create(None, object).unwrap()
    }

    /// The current state of an object of Cluster API.
    pub(super) fn core(&self, kind: &str, name: &str) -> Arc<Object> {
        self.find(&GroupKind::core(kind), name).unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    /// The current state of an object.
    pub(super) fn find(&self, kind: &GroupKind, name: &str) -> Option<Arc<Object>> {
        self.objects.get(&ObjectId::new(kind.clone(), ObjectKey::new(NAMESPACE, name))).cloned()
    }

    /// The current objects of a kind.
    pub(super) fn all(&self, kind: &GroupKind) -> Vec<Arc<Object>> {
        self.objects.all(kind).cloned().collect()
    }

    /// Changes an object like a user.
    pub(super) fn edit(&mut self, object: &Object, change: impl FnOnce(&mut Object)) {
        let known = self.objects.get(&ObjectId::for_object(object)).cloned().unwrap();
        let mut after = (*known).clone();
        change(&mut after);
        self.update(None, &known, after).unwrap();
    }
}

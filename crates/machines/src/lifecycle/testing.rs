//! Scenes for tests of steps: objects of a small Cluster on a virtual clock.

use std::sync::Arc;

use serde_json::{Value, json};

use super::fold::Fold;
use super::objects::{GroupKind, ObjectId};
use super::settings::Settings;
use golang::calendar::Moment;
use model::hub::contract::Contract;
use model::hub::{Object, ObjectKey};

/// The namespace of everything.
pub(super) const NAMESPACE: &str = "ns";
/// The name of the Cluster.
pub(super) const CLUSTER: &str = "demo";

/// A fold that begins on 1 January 2030.
pub(super) fn fold_with(settings: Settings) -> Fold {
    let mut fold = Fold::new(settings, Moment::parse("2030-01-01T00:00:00Z").unwrap());
    fold.assumed = Some(Contract::V1Beta2);
    fold
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

impl Fold {
    /// Makes an object and panics when there is one of its name.
    pub(super) fn make(&mut self, object: Object) -> Arc<Object> {
        self.create(None, object).unwrap()
    }

    /// An object of Cluster API as it is now.
    pub(super) fn core(&self, kind: &str, name: &str) -> Arc<Object> {
        self.find(&GroupKind::core(kind), name).unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    /// An object as it is now.
    pub(super) fn find(&self, kind: &GroupKind, name: &str) -> Option<Arc<Object>> {
        self.objects.get(&ObjectId::new(kind.clone(), ObjectKey::new(NAMESPACE, name))).cloned()
    }

    /// All objects of a kind as they are now.
    pub(super) fn all(&self, kind: &GroupKind) -> Vec<Arc<Object>> {
        self.objects.all(kind).cloned().collect()
    }

    /// Changes an object as a user would.
    pub(super) fn edit(&mut self, object: &Object, change: impl FnOnce(&mut Object)) {
        let known = self.objects.get(&ObjectId::of(object)).cloned().unwrap();
        let mut after = (*known).clone();
        change(&mut after);
        self.update(None, &known, after).unwrap();
    }
}

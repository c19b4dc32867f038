//! Machines on a virtual clock, with a provider of each contract and a workload cluster.

use core::time::Duration;

use serde_json::{Value, json};

use crate::lifecycle::conditions::{self, Status};
use crate::lifecycle::fields::{self, items, set, text};
use crate::lifecycle::fold::Fold;
use crate::lifecycle::objects::{GroupKind, ObjectId};
use crate::lifecycle::settings::{Provides, Settings, Timings};
use crate::lifecycle::testing::{CLUSTER, NAMESPACE, cluster_key, core, fold_with, object};
use model::hub::contract::Contract;
use model::hub::{Object, ObjectKey};

mod deleting;
mod nodes;
mod phases;
mod starting;

const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io/v1beta2";
const ID: &str = "test://m1";

/// A fold with a Cluster that is up, and nothing else in it.
fn scene() -> Fold {
    timings(Timings::NONE)
}

fn with_cluster(mut fold: Fold) -> Fold {
    let cluster = fold.make(core("Cluster", CLUSTER, json!({})));
    fold.edit(&cluster, |cluster| {
        set(cluster, "status.initialization.infrastructureProvisioned", json!(true));
        put(cluster, "ControlPlaneInitialized", "True");
    });
    fold.objects.workload_mut(&cluster_key()).is_reachable = true;
    fold
}

/// Sets a condition as another controller would.
fn put(object: &mut Object, name: &str, status: &str) {
    let status = match status {
        "True" => Status::True,
        "False" => Status::False,
        _ => Status::Unknown,
    };
    let now = golang::calendar::Moment::parse("2030-01-01T00:00:00Z").unwrap();
    conditions::put(object, name, &conditions::Condition::new(status, "Test", ""), now);
}

fn machine(name: &str) -> Object {
    core(
        "Machine",
        name,
        json!({
            "clusterName": CLUSTER,
            "version": "v1.34.0",
            "bootstrap": {"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "TestConfig", "name": name}},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "TestMachine", "name": name},
        }),
    )
}

/// An object without the label of the Cluster, as a provider's template gives it.
fn external(api_version: &str, kind: &str, name: &str) -> Object {
    let mut made = object(api_version, kind, name, json!({}));
    made.remove("metadata.labels");
    // What its provider cleans up.
    set(&mut made, "metadata.finalizers", json!(["test/finalizer"]));
    made
}

fn infrastructure() -> GroupKind {
    GroupKind::new("infrastructure.cluster.x-k8s.io", "TestMachine")
}

fn config() -> GroupKind {
    GroupKind::new("bootstrap.cluster.x-k8s.io", "TestConfig")
}

fn node(name: &str, id: &str) -> Object {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name},
        "spec": {"providerID": id},
        "status": {"nodeInfo": {"kubeletVersion": "v1.34.0", "swap": {"capacity": 1}}},
    });
    let mut node = Object::try_from(node).unwrap();
    for pressure in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
        put(&mut node, pressure, "False");
    }
    put(&mut node, "Ready", "True");
    node
}

fn node_id(name: &str) -> ObjectId {
    ObjectId { workload: Some(cluster_key()), kind: GroupKind::new("", "Node"), key: ObjectKey::new("", name) }
}

fn node_now(fold: &Fold, name: &str) -> Option<std::sync::Arc<Object>> {
    fold.objects.get(&node_id(name)).cloned()
}

fn edit_workload(fold: &mut Fold, id: &ObjectId, change: impl FnOnce(&mut Object)) {
    let known = fold.objects.get(id).cloned().unwrap();
    let mut after = (*known).clone();
    change(&mut after);
    fold.update(id.workload.as_ref(), &known, after).unwrap();
}

fn edit(fold: &mut Fold, kind: &GroupKind, name: &str, change: impl FnOnce(&mut Object)) {
    let known = fold.find(kind, name).unwrap();
    fold.edit(&known, change);
}

fn settle(fold: &mut Fold) {
    assert!(fold.settle(200), "steps go on for ever");
}

/// Makes a Machine with a configuration and infrastructure that are not ready.
fn begin(fold: &mut Fold) {
    fold.make(external(INFRASTRUCTURE, "TestMachine", "m1"));
    fold.make(external(BOOTSTRAP, "TestConfig", "m1"));
    fold.make(machine("m1"));
    settle(fold);
}

fn bootstrap(fold: &mut Fold) {
    edit(fold, &config(), "m1", |config| {
        set(config, "status.dataSecretName", json!("m1-data"));
        set(config, "status.initialization.dataSecretCreated", json!(true));
    });
    settle(fold);
}

fn provision(fold: &mut Fold) {
    edit(fold, &infrastructure(), "m1", |object| {
        set(object, "spec.providerID", json!(ID));
        set(object, "status.initialization.provisioned", json!(true));
    });
    settle(fold);
}

/// A Machine with a Node that is ready.
fn running() -> Fold {
    running_in(scene())
}

fn running_in(mut fold: Fold) -> Fold {
    begin(&mut fold);
    bootstrap(&mut fold);
    provision(&mut fold);
    fold.create(Some(&cluster_key()), node("n1", ID)).unwrap();
    settle(&mut fold);
    fold
}

fn field(fold: &Fold, path: &str) -> String {
    text(&fold.core("Machine", "m1"), path).to_owned()
}

fn phase(fold: &Fold) -> String {
    field(fold, "status.phase")
}

/// Status and reason of a condition of the Machine.
fn condition(fold: &Fold, name: &str) -> (&'static str, String) {
    let found = conditions::get(&fold.core("Machine", "m1"), name).unwrap_or_else(|| panic!("there is no {name}"));
    (found.status.name(), found.reason)
}

fn message(fold: &Fold, name: &str) -> String {
    conditions::get(&fold.core("Machine", "m1"), name).unwrap().message
}

fn failure(fold: &Fold) -> &str {
    fold.failure(&ObjectId::core("Machine", NAMESPACE, "m1")).unwrap_or_default()
}

fn is_there(fold: &Fold) -> bool {
    fold.find(&GroupKind::core("Machine"), "m1").is_some()
}

/// Deletes the Machine, as a user does.
fn delete(fold: &mut Fold) {
    fold.delete(&ObjectId::core("Machine", NAMESPACE, "m1"));
    settle(fold);
}

/// What the provider does when its object is deleted.
fn release(fold: &mut Fold, kind: &GroupKind) {
    edit(fold, kind, "m1", |object| set(object, "metadata.finalizers", json!([])));
    settle(fold);
}

fn pass(fold: &mut Fold, seconds: u64) {
    fold.run(Duration::from_secs(seconds));
}

fn annotate(fold: &mut Fold, name: &str, value: &str) {
    edit(fold, &GroupKind::core("Machine"), "m1", |machine| fields::set_annotation(machine, name, value));
    settle(fold);
}

/// A fold in which only Machines have a controller, and a Cluster that is up.
fn timings(timings: Timings) -> Fold {
    let external = ["Cluster", "MachineSet", "MachineDeployment"].into_iter().map(str::to_owned).collect();
    with_cluster(fold_with(Settings { timings, external, provides: Provides::Embedded, ..Settings::default() }))
}

//! Machines on a virtual clock, with a provider of each contract and a workload cluster.

use core::time::Duration;

use serde_json::{Value, json};

use crate::lifecycle::conditions::{self, ConditionStatus};
use crate::lifecycle::fields::{self, items, set, text};
use crate::lifecycle::objects::{GroupKind, ObjectId};
use crate::lifecycle::settings::{MachineSettings, ProvidedKinds, Timings};
use crate::lifecycle::simulator::MachineSimulator;
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

/// A simulator with a running Cluster, and nothing else.
fn setup() -> MachineSimulator {
    timings(Timings::NONE)
}

fn with_cluster(mut simulator: MachineSimulator) -> MachineSimulator {
    let cluster = simulator.make(core("Cluster", CLUSTER, json!({})));
    simulator.edit(&cluster, |cluster| {
        set(cluster, "status.initialization.infrastructureProvisioned", json!(true));
        put(cluster, "ControlPlaneInitialized", "True");
    });
    simulator.objects.workload_mut(&cluster_key()).is_reachable = true;
    simulator
}

/// Sets a condition like another controller.
fn put(object: &mut Object, name: &str, status: &str) {
    let status = match status {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    };
    let now = golang::calendar::Moment::parse("2030-01-01T00:00:00Z").unwrap();
    conditions::put(object, name, &conditions::ConditionState::new(status, "Test", ""), now);
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

/// An object without the label of the Cluster, as cloned from a provider's template.
fn external(api_version: &str, kind: &str, name: &str) -> Object {
    let mut made = object(api_version, kind, name, json!({}));
    made.remove("metadata.labels");
    // The provider removes it after its cleanup.
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

fn node_now(simulator: &MachineSimulator, name: &str) -> Option<std::sync::Arc<Object>> {
    simulator.objects.get(&node_id(name)).cloned()
}

fn edit_workload(simulator: &mut MachineSimulator, id: &ObjectId, change: impl FnOnce(&mut Object)) {
    let known = simulator.objects.get(id).cloned().unwrap();
    let mut after = (*known).clone();
    change(&mut after);
    simulator.update(id.workload.as_ref(), &known, after).unwrap();
}

fn edit(simulator: &mut MachineSimulator, kind: &GroupKind, name: &str, change: impl FnOnce(&mut Object)) {
    let known = simulator.find(kind, name).unwrap();
    simulator.edit(&known, change);
}

fn settle(simulator: &mut MachineSimulator) {
    assert!(simulator.settle(200), "steps go on for ever");
}

/// Creates a Machine with a bootstrap configuration and infrastructure that are not ready.
fn begin(simulator: &mut MachineSimulator) {
    simulator.make(external(INFRASTRUCTURE, "TestMachine", "m1"));
    simulator.make(external(BOOTSTRAP, "TestConfig", "m1"));
    simulator.make(machine("m1"));
    settle(simulator);
}

fn bootstrap(simulator: &mut MachineSimulator) {
    edit(simulator, &config(), "m1", |config| {
        set(config, "status.dataSecretName", json!("m1-data"));
        set(config, "status.initialization.dataSecretCreated", json!(true));
    });
    settle(simulator);
}

fn provision(simulator: &mut MachineSimulator) {
    edit(simulator, &infrastructure(), "m1", |object| {
        set(object, "spec.providerID", json!(ID));
        set(object, "status.initialization.provisioned", json!(true));
    });
    settle(simulator);
}

/// A Machine with a ready Node.
fn running() -> MachineSimulator {
    running_in(setup())
}

fn running_in(mut simulator: MachineSimulator) -> MachineSimulator {
    begin(&mut simulator);
    bootstrap(&mut simulator);
    provision(&mut simulator);
    simulator.create(Some(&cluster_key()), node("n1", ID)).unwrap();
    settle(&mut simulator);
    simulator
}

fn field(simulator: &MachineSimulator, path: &str) -> String {
    text(&simulator.core("Machine", "m1"), path).to_owned()
}

fn phase(simulator: &MachineSimulator) -> String {
    field(simulator, "status.phase")
}

/// Status and reason of a condition of the Machine.
fn condition(simulator: &MachineSimulator, name: &str) -> (&'static str, String) {
    let found = conditions::get(&simulator.core("Machine", "m1"), name).unwrap_or_else(|| panic!("there is no {name}"));
    (found.status.name(), found.reason)
}

fn message(simulator: &MachineSimulator, name: &str) -> String {
    conditions::get(&simulator.core("Machine", "m1"), name).unwrap().message
}

fn failure(simulator: &MachineSimulator) -> &str {
    simulator.failure(&ObjectId::core("Machine", NAMESPACE, "m1")).unwrap_or_default()
}

fn is_there(simulator: &MachineSimulator) -> bool {
    simulator.find(&GroupKind::core("Machine"), "m1").is_some()
}

/// Deletes the Machine like a user.
fn delete(simulator: &mut MachineSimulator) {
    simulator.delete(&ObjectId::core("Machine", NAMESPACE, "m1"));
    settle(simulator);
}

/// The provider's reaction to the deletion of its object.
fn release(simulator: &mut MachineSimulator, kind: &GroupKind) {
    edit(simulator, kind, "m1", |object| set(object, "metadata.finalizers", json!([])));
    settle(simulator);
}

fn pass(simulator: &mut MachineSimulator, seconds: u64) {
    simulator.run(Duration::from_secs(seconds));
}

fn annotate(simulator: &mut MachineSimulator, name: &str, value: &str) {
    edit(simulator, &GroupKind::core("Machine"), "m1", |machine| fields::set_annotation(machine, name, value));
    settle(simulator);
}

/// A simulator in which only Machines have a controller, with a running Cluster.
fn timings(timings: Timings) -> MachineSimulator {
    let external = ["Cluster", "MachineSet", "MachineDeployment"].into_iter().map(str::to_owned).collect();
    with_cluster(fold_with(MachineSettings {
        timings,
        external,
        provides: ProvidedKinds::Embedded,
        ..MachineSettings::default()
    }))
}

//! A Cluster with templates, and machines controlled by the test: no other steps run.

use serde_json::{Value, json};

use crate::lifecycle::conditions::{ConditionState, put};
use crate::lifecycle::fields::set;
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::settings::{MachineSettings, ProvidedKinds, Timings};
use crate::lifecycle::simulator::MachineSimulator;
use crate::lifecycle::testing::{CLUSTER, core, fold_with, object};
use golang::calendar::Moment;
use model::hub::Object;

pub(in crate::lifecycle) const INFRASTRUCTURE: &str = "infrastructure.example.com";
pub(in crate::lifecycle) const BOOTSTRAP: &str = "bootstrap.example.com";

/// A Cluster with two templates; only MachineSets and MachineDeployments have controllers.
pub(in crate::lifecycle) fn setup() -> MachineSimulator {
    let external = ["Cluster", "Machine", "MachineHealthCheck"].map(str::to_owned).into();
    let mut simulator = fold_with(MachineSettings {
        timings: Timings::NONE,
        external,
        provides: ProvidedKinds::Embedded,
        ..MachineSettings::default()
    });
    simulator.make(core("Cluster", CLUSTER, json!({})));
    for name in ["a", "b"] {
        simulator.make(infrastructure(name));
        let spec = json!({"template": {"spec": {}}});
        simulator.make(object(&format!("{BOOTSTRAP}/v1"), "FooConfigTemplate", name, spec));
    }
    simulator
}

pub(in crate::lifecycle) fn infrastructure(name: &str) -> Object {
    let spec = json!({"template": {"metadata": {"labels": {"of": "template"}}, "spec": {"size": 3}}});
    object(&format!("{INFRASTRUCTURE}/v1"), "FooMachineTemplate", name, spec)
}

/// The spec of a machine template with templates of this name.
pub(in crate::lifecycle) fn machine_spec(template: &str) -> Value {
    json!({
        "clusterName": CLUSTER, "version": "v1.31.0",
        "bootstrap": {"configRef": {"apiGroup": BOOTSTRAP, "kind": "FooConfigTemplate", "name": template}},
        "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "FooMachineTemplate", "name": template},
    })
}

/// A MachineSet or a MachineDeployment.
pub(in crate::lifecycle) fn group(kind: &str, name: &str, replicas: i64) -> Object {
    core(
        kind,
        name,
        json!({
            "clusterName": CLUSTER, "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": machine_spec("a")},
        }),
    )
}

/// The kind of infrastructure machines.
pub(in crate::lifecycle) fn foo_machine() -> GroupKind {
    GroupKind::new(INFRASTRUCTURE, "FooMachine")
}

/// The kind of bootstrap configurations.
pub(in crate::lifecycle) fn foo_config() -> GroupKind {
    GroupKind::new(BOOTSTRAP, "FooConfig")
}

/// Machines by name.
pub(in crate::lifecycle) fn machines(simulator: &MachineSimulator) -> Vec<std::sync::Arc<Object>> {
    simulator.all(&GroupKind::core("Machine"))
}

/// Sets a condition of a machine.
pub(in crate::lifecycle) fn mark(
    simulator: &mut MachineSimulator,
    machine: &Object,
    name: &str,
    is_true: bool,
    reason: &str,
) {
    let now = simulator.now();
    simulator.edit(machine, |machine| put(machine, name, &ConditionState::new(is_true, reason, ""), now));
}

/// Plays the Machine controller: machines become available, and machines being deleted are removed.
pub(in crate::lifecycle) fn drive(simulator: &mut MachineSimulator) {
    for machine in machines(simulator) {
        if machine.is_being_deleted() {
            simulator.edit(&machine, |machine| {
                machine.remove("metadata.finalizers");
            });
            continue;
        }
        let now = simulator.now();
        simulator.edit(&machine, |machine| be_available(machine, now));
    }
    assert!(simulator.settle(1_000), "steps go on for ever: {:?}", simulator.events.last());
}

fn be_available(machine: &mut Object, now: Moment) {
    let node = machine.name().to_owned();
    set(machine, "status.nodeRef.name", json!(node));
    for name in ["Ready", "Available", "UpToDate", "NodeHealthy"] {
        put(machine, name, &ConditionState::new(true, name, ""), now);
    }
}

/// Settles and makes all machines available, until nothing changes.
pub(in crate::lifecycle) fn finish(simulator: &mut MachineSimulator) {
    for _ in 0..100 {
        assert!(simulator.settle(1_000), "steps go on for ever: {:?}", simulator.events.last());
        let before: Vec<_> =
            machines(simulator).iter().map(|machine| machine.at("metadata.resourceVersion").cloned()).collect();
        drive(simulator);
        let after: Vec<_> =
            machines(simulator).iter().map(|machine| machine.at("metadata.resourceVersion").cloned()).collect();
        if before == after {
            return;
        }
    }
    panic!("machines go on for ever");
}

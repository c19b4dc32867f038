//! A Cluster with templates, and machines that tests drive by hand: no other step looks after them.

use serde_json::{Value, json};

use crate::lifecycle::conditions::{Condition, put};
use crate::lifecycle::fields::set;
use crate::lifecycle::fold::Fold;
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::settings::{Provides, Settings, Timings};
use crate::lifecycle::testing::{CLUSTER, core, fold_with, object};
use golang::calendar::Moment;
use model::hub::Object;

pub(in crate::lifecycle) const INFRASTRUCTURE: &str = "infrastructure.example.com";
pub(in crate::lifecycle) const BOOTSTRAP: &str = "bootstrap.example.com";

/// A Cluster with two templates; only steps of MachineSets and MachineDeployments are made.
pub(in crate::lifecycle) fn scene() -> Fold {
    let external = ["Cluster", "Machine", "MachineHealthCheck"].map(str::to_owned).into();
    let mut fold =
        fold_with(Settings { timings: Timings::NONE, external, provides: Provides::Embedded, ..Settings::default() });
    fold.make(core("Cluster", CLUSTER, json!({})));
    for name in ["a", "b"] {
        fold.make(infrastructure(name));
        let spec = json!({"template": {"spec": {}}});
        fold.make(object(&format!("{BOOTSTRAP}/v1"), "FooConfigTemplate", name, spec));
    }
    fold
}

pub(in crate::lifecycle) fn infrastructure(name: &str) -> Object {
    let spec = json!({"template": {"metadata": {"labels": {"of": "template"}}, "spec": {"size": 3}}});
    object(&format!("{INFRASTRUCTURE}/v1"), "FooMachineTemplate", name, spec)
}

/// The spec of a machine template whose templates have this name.
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
pub(in crate::lifecycle) fn machines(fold: &Fold) -> Vec<std::sync::Arc<Object>> {
    fold.all(&GroupKind::core("Machine"))
}

/// Puts a condition on a machine.
pub(in crate::lifecycle) fn mark(fold: &mut Fold, machine: &Object, name: &str, is_true: bool, reason: &str) {
    let now = fold.now();
    fold.edit(machine, |machine| put(machine, name, &Condition::new(is_true, reason, ""), now));
}

/// What the Machine controller does at once: machines become available, and machines that are being deleted go.
pub(in crate::lifecycle) fn drive(fold: &mut Fold) {
    for machine in machines(fold) {
        if machine.is_being_deleted() {
            fold.edit(&machine, |machine| {
                machine.remove("metadata.finalizers");
            });
            continue;
        }
        let now = fold.now();
        fold.edit(&machine, |machine| be_available(machine, now));
    }
    assert!(fold.settle(1_000), "steps go on for ever: {:?}", fold.events.last());
}

fn be_available(machine: &mut Object, now: Moment) {
    let node = machine.name().to_owned();
    set(machine, "status.nodeRef.name", json!(node));
    for name in ["Ready", "Available", "UpToDate", "NodeHealthy"] {
        put(machine, name, &Condition::new(true, name, ""), now);
    }
}

/// Settles, and makes all machines available, until nothing changes.
pub(in crate::lifecycle) fn finish(fold: &mut Fold) {
    for _ in 0..100 {
        assert!(fold.settle(1_000), "steps go on for ever: {:?}", fold.events.last());
        let before: Vec<_> =
            machines(fold).iter().map(|machine| machine.at("metadata.resourceVersion").cloned()).collect();
        drive(fold);
        let after: Vec<_> =
            machines(fold).iter().map(|machine| machine.at("metadata.resourceVersion").cloned()).collect();
        if before == after {
            return;
        }
    }
    panic!("machines go on for ever");
}

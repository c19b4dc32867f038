//! Runtime Extensions that may update machines in place instead of replacing them (RH-1.2). Their answers are unknown.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Certainty, Roll, TopologyPart};
use crate::topology::worker::WorkerKind;
use model::hub::paths;
use model::world::{ObjectSet, Selection};

/// The hooks of updates in place.
const HOOKS: [&str; 3] = ["CanUpdateMachine", "CanUpdateMachineSet", "UpdateMachine"];
const API_VERSION: &str = "runtime.cluster.x-k8s.io/v1beta2";
const KIND: &str = "ExtensionConfig";

/// The first ExtensionConfig whose extension has registered a handler of these hooks.
pub fn updater(objects: &ObjectSet) -> Option<String> {
    // Objects from files have a namespace, even if their kind is cluster-scoped.
    let configs = ["", "default"].map(|namespace| {
        objects.list(&Selection {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            namespace: namespace.to_owned(),
            labels: BTreeMap::new(),
        })
    });
    let mut configs = configs.iter().flatten();
    configs
        .find(|config| updates_in_place(config.at(paths::extension_config::HANDLERS)))
        .map(|config| config.name().to_owned())
}

/// Whether `status.handlers` of an ExtensionConfig has a handler of these hooks.
pub fn updates_in_place(handlers: Option<&Value>) -> bool {
    let mut handlers = handlers.and_then(Value::as_array).into_iter().flatten();
    handlers.any(|handler| {
        let hook = handler.pointer("/requestHook/hook").and_then(Value::as_str);
        hook.is_some_and(|hook| HOOKS.contains(&hook))
    })
}

/// Records the extension that may update machines in place in all rolls that replace machines.
pub fn mark(rolls: &mut [Roll], updater: &str) {
    let is_asked = |roll: &&mut Roll| {
        let of_deployment = matches!(roll.part, TopologyPart::Worker(WorkerKind::MachineDeployment, _));
        (of_deployment || roll.part == TopologyPart::ControlPlane) && roll.machines.replaced != Some(0)
    };
    for roll in rolls.iter_mut().filter(is_asked) {
        roll.certainty = Certainty::Provider;
        roll.in_place = Some(updater.to_owned());
    }
}

//! Variables of classes in files that the extensions of their patches define (RH-16.1, RH-17.1), as the class
//! controller discovers them in a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use engine::admission::usable_variables;
use engine::topology::class_status;
use engine::topology::class_variables::{Discovered, VariableDiscoveryError};
use engine::topology::plan::ExtensionServer;
use golang::json;
use model::hub::{ClusterClass, Kind, ObjectKey};
use model::wire::{Decode, WireVersion, as_hub_json};
use model::world::Found;

/// Calls extensions of files, also for variables.
pub(super) trait VariableServer: ExtensionServer {
    /// The variables that a handler defines for a class; absent if its extension cannot be called. Equal calls have
    /// equal answers.
    fn variables(&self, class: &ObjectKey, name: &str, settings: &BTreeMap<String, String>) -> Found<Arc<[Value]>>;

    /// Notes why the variables of a class cannot be used.
    fn refuse(&self, problem: String);
}

/// The class as its controller would leave it; `None` if no extension defines variables, or if they are not known.
pub(super) fn class(version: WireVersion, text: &str, server: &dyn VariableServer) -> Option<ClusterClass> {
    let class = ClusterClass::decode(version, text).ok()?;
    let mut discovered = Vec::new();
    for (patch, external) in class.spec.discovering_patches() {
        let name = &external.discover_variables_extension;
        let variables = match server.variables(&class.metadata.key(), name, &external.settings.to_map()) {
            Found::Yes(variables) => {
                usable_variables(name, variables).map_err(VariableDiscoveryError::InvalidVariables)
            }
            Found::Unreadable(problem) => Err(VariableDiscoveryError::NoAnswer(problem)),
            Found::Absent | Found::NotAsked => return None,
        };
        discovered.push(Discovered { patch: patch.name.clone(), variables });
    }
    if discovered.is_empty() {
        return None;
    }
    let value = as_hub_json(version, text, Kind::ClusterClass).or_else(|| json::value(text).ok())?;
    match class_status::with_discovered_status(value, &discovered) {
        Ok(value) => ClusterClass::decode(WireVersion::V1Beta2, &value.to_string()).ok(),
        Err(problem) => {
            server.refuse(format!("ClusterClass {}: {problem}", class.metadata.key()));
            None
        }
    }
}

//! Paths of the fields of control planes by contract (DS-21) and of the references of workers, and readers for
//! references.

use super::Failure;
use model::hub::contract::Contract;
use model::hub::{ContractRef, Object, group_of, paths};

/// The path of a field in each contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldPath {
    v1beta1: &'static str,
    v1beta2: &'static str,
}

impl FieldPath {
    const fn new(v1beta1: &'static str, v1beta2: &'static str) -> Self {
        FieldPath { v1beta1, v1beta2 }
    }

    /// The dotted path in a contract.
    pub(super) const fn at(self, contract: Contract) -> &'static str {
        match contract {
            Contract::V1Beta1 => self.v1beta1,
            Contract::V1Beta2 => self.v1beta2,
        }
    }
}

/// The reference to the template of the machines.
pub(super) const INFRASTRUCTURE_REF: FieldPath = FieldPath::new(
    paths::control_plane::MACHINE_INFRASTRUCTURE_REF_V1BETA1,
    paths::control_plane::MACHINE_INFRASTRUCTURE_REF,
);
/// Labels and annotations of the machines.
pub(super) const MACHINE_METADATA: &str = "spec.machineTemplate.metadata";
/// Readiness gates of the machines.
pub(super) const READINESS_GATES: FieldPath =
    FieldPath::new("spec.machineTemplate.readinessGates", "spec.machineTemplate.spec.readinessGates");
/// Taints of the machines.
pub(super) const TAINTS: FieldPath = FieldPath::new("spec.machineTemplate.taints", "spec.machineTemplate.spec.taints");
/// Timeout for draining a node.
pub(super) const DRAIN_TIMEOUT: FieldPath = FieldPath::new(
    "spec.machineTemplate.nodeDrainTimeout",
    "spec.machineTemplate.spec.deletion.nodeDrainTimeoutSeconds",
);
/// Timeout for detaching the volumes of a node.
pub(super) const DETACH_TIMEOUT: FieldPath = FieldPath::new(
    "spec.machineTemplate.nodeVolumeDetachTimeout",
    "spec.machineTemplate.spec.deletion.nodeVolumeDetachTimeoutSeconds",
);
/// Timeout for deleting a node.
pub(super) const DELETION_TIMEOUT: FieldPath = FieldPath::new(
    "spec.machineTemplate.nodeDeletionTimeout",
    "spec.machineTemplate.spec.deletion.nodeDeletionTimeoutSeconds",
);

/// The reference without a version at a path; all its members must be set.
pub(super) fn contract_ref(object: &Object, path: &'static str) -> Result<ContractRef, Failure> {
    let member = |name: &str| object.text(&format!("{path}.{name}"));
    match (member("apiGroup")?, member("kind")?, member("name")?) {
        (Some(api_group), Some(kind), Some(name)) if !kind.is_empty() && !name.is_empty() => {
            Ok(ContractRef { api_group: api_group.to_owned(), kind: kind.to_owned(), name: name.to_owned() })
        }
        _ => Err(Failure::NoReference { object: object.reference(), path }),
    }
}

/// The classic reference at a path, without its version and namespace; all its members must be set (CS-04).
pub(super) fn classic_ref(object: &Object, path: &'static str) -> Result<ContractRef, Failure> {
    let member = |name: &str| object.text(&format!("{path}.{name}"));
    match (member("apiVersion")?, member("kind")?, member("name")?, member("namespace")?) {
        (Some(api_version), Some(kind), Some(name), Some(_)) => Ok(ContractRef {
            api_group: group_of(api_version).to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        }),
        _ => Err(Failure::NoReference { object: object.reference(), path }),
    }
}

//! What a topology is to be: one function for each object.

use std::collections::BTreeMap;

use super::origin::Origins;
use super::worker::WorkerKind;
use crate::hub::{ContractRef, Object};

/// The objects that a topology asks for (DS-01).
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    pub infrastructure: DesiredObject,
    pub control_plane: DesiredControlPlane,
    pub cluster: DesiredCluster,
    /// In the order of the topology.
    pub machine_deployments: Vec<DesiredWorker>,
    /// In the order of the topology.
    pub machine_pools: Vec<DesiredWorker>,
}

/// An object as it is to be applied, and where its fields come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredObject {
    pub object: Object,
    pub origins: Origins,
}

/// The control plane and what comes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredControlPlane {
    pub control_plane: DesiredObject,
    /// The template of its machines.
    pub machines: Option<DesiredObject>,
    pub health_check: Option<DesiredObject>,
}

/// What the engine decides of the Cluster itself (DS-22, RS-23).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredCluster {
    /// All labels of the Cluster, with the two of the engine.
    pub labels: BTreeMap<String, String>,
    /// All annotations of the Cluster, with or without the step of the upgrade.
    pub annotations: BTreeMap<String, String>,
    pub infrastructure_ref: ContractRef,
    pub control_plane_ref: ContractRef,
}

/// A machine deployment with its templates, or a machine pool with its objects.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredWorker {
    pub kind: WorkerKind,
    /// The name in the topology.
    pub topology_name: String,
    pub class: String,
    pub worker: DesiredObject,
    pub bootstrap: DesiredObject,
    pub infrastructure: DesiredObject,
    /// Of machine deployments only.
    pub health_check: Option<DesiredObject>,
}

impl Desired {
    /// The workers of a kind, in the order of the topology.
    pub fn workers(&self, kind: WorkerKind) -> &[DesiredWorker] {
        match kind {
            WorkerKind::MachineDeployment => &self.machine_deployments,
            WorkerKind::MachinePool => &self.machine_pools,
        }
    }
}

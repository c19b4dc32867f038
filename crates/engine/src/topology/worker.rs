//! The two kinds of workers, and their few differences.

use model::hub::{MachineDeploymentTopology, MachinePoolTopology, Topology, TopologyMetadata, label};

/// The version in which Cluster API's own kinds are read and written.
pub const API_VERSION: &str = "cluster.x-k8s.io/v1beta2";

/// A kind of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkerKind {
    MachineDeployment,
    MachinePool,
}

impl WorkerKind {
    /// Both, in the order in which they are computed and written.
    pub const ALL: [WorkerKind; 2] = [WorkerKind::MachineDeployment, WorkerKind::MachinePool];

    /// `MachineDeployment`, `MachinePool`.
    pub const fn name(self) -> &'static str {
        match self {
            WorkerKind::MachineDeployment => "MachineDeployment",
            WorkerKind::MachinePool => "MachinePool",
        }
    }

    /// The label that holds the name in the topology.
    pub const fn label(self) -> &'static str {
        match self {
            WorkerKind::MachineDeployment => label::DEPLOYMENT_NAME,
            WorkerKind::MachinePool => label::POOL_NAME,
        }
    }

    /// The workers of this kind in a topology, in their order: name, class and metadata.
    pub fn entries(self, topology: &Topology) -> Vec<WorkerEntry<'_>> {
        let workers = &topology.workers;
        match self {
            WorkerKind::MachineDeployment => workers.machine_deployments.iter().map(WorkerEntry::from).collect(),
            WorkerKind::MachinePool => workers.machine_pools.iter().map(WorkerEntry::from).collect(),
        }
    }
}

/// The fields of a worker in a topology, common to both kinds.
#[derive(Clone, Copy, Debug)]
pub struct WorkerEntry<'a> {
    pub name: &'a str,
    pub class: &'a str,
    pub metadata: &'a TopologyMetadata,
}

impl<'a> From<&'a MachineDeploymentTopology> for WorkerEntry<'a> {
    fn from(worker: &'a MachineDeploymentTopology) -> Self {
        let MachineDeploymentTopology { name, class, metadata, .. } = worker;
        WorkerEntry { name, class, metadata }
    }
}

impl<'a> From<&'a MachinePoolTopology> for WorkerEntry<'a> {
    fn from(worker: &'a MachinePoolTopology) -> Self {
        let MachinePoolTopology { name, class, metadata, .. } = worker;
        WorkerEntry { name, class, metadata }
    }
}

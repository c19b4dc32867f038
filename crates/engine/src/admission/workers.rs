//! The workers of a topology and of a class: machine deployments and machine pools in one sequence.

use model::hub::{Taint, TopologyMetadata, VariableOverrides, WorkersClass, WorkersTopology, paths};
use schema::field::Path;

/// A list of workers, which topologies and classes have under the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WorkerList {
    MachineDeployments,
    MachinePools,
}

impl WorkerList {
    /// The path of the list in a Cluster.
    pub(super) const fn in_topology(self) -> &'static str {
        match self {
            WorkerList::MachineDeployments => paths::cluster::TOPOLOGY_MACHINE_DEPLOYMENTS,
            WorkerList::MachinePools => paths::cluster::TOPOLOGY_MACHINE_POOLS,
        }
    }

    /// The path of the list in a ClusterClass.
    pub(super) const fn in_class(self) -> &'static str {
        match self {
            WorkerList::MachineDeployments => paths::cluster_class::MACHINE_DEPLOYMENTS,
            WorkerList::MachinePools => paths::cluster_class::MACHINE_POOLS,
        }
    }
}

/// The identity of a worker set in a topology, or of a worker class in a class: its list and its name.
pub(super) type WorkerKey<'a> = (WorkerList, &'a str);

/// The fields of a worker set of a topology that both kinds have.
#[derive(Clone, Copy)]
pub(super) struct WorkerSet<'a> {
    pub list: WorkerList,
    pub position: usize,
    pub name: &'a str,
    pub class: &'a str,
    pub metadata: &'a TopologyMetadata,
    pub taints: &'a [Taint],
    pub replicas: Option<i32>,
    pub variables: &'a VariableOverrides,
}

impl<'a> WorkerSet<'a> {
    pub(super) fn key(&self) -> WorkerKey<'a> {
        (self.list, self.name)
    }

    /// The path of the set in a Cluster.
    pub(super) fn path(&self) -> Path {
        Path::new(self.list.in_topology()).key(self.name)
    }

    /// The JSON pointer of the set in a Cluster.
    pub(super) fn pointer(&self) -> String {
        format!("/{}/{}", self.list.in_topology().replace('.', "/"), self.position)
    }
}

/// The worker sets of a topology: machine deployments, then machine pools, in their order.
pub(super) fn worker_sets(workers: &WorkersTopology) -> impl Iterator<Item = WorkerSet<'_>> {
    let deployments = workers.machine_deployments.iter().enumerate().map(|(position, set)| WorkerSet {
        list: WorkerList::MachineDeployments,
        position,
        name: &set.name,
        class: &set.class,
        metadata: &set.metadata,
        taints: &set.taints,
        replicas: set.replicas,
        variables: &set.variables,
    });
    let pools = workers.machine_pools.iter().enumerate().map(|(position, set)| WorkerSet {
        list: WorkerList::MachinePools,
        position,
        name: &set.name,
        class: &set.class,
        metadata: &set.metadata,
        taints: &set.taints,
        replicas: set.replicas,
        variables: &set.variables,
    });
    deployments.chain(pools)
}

/// The fields of a worker class that both kinds have.
#[derive(Clone, Copy)]
pub(super) struct WorkerClass<'a> {
    pub list: WorkerList,
    pub name: &'a str,
    pub metadata: &'a TopologyMetadata,
    pub taints: &'a [Taint],
}

impl<'a> WorkerClass<'a> {
    pub(super) fn key(&self) -> WorkerKey<'a> {
        (self.list, self.name)
    }

    /// The path of the worker class in a ClusterClass.
    pub(super) fn path(&self) -> Path {
        Path::new(self.list.in_class()).key(self.name)
    }
}

/// The worker classes of a class: of machine deployments, then of machine pools, in their order.
pub(super) fn worker_classes(workers: &WorkersClass) -> impl Iterator<Item = WorkerClass<'_>> {
    let deployments = workers.machine_deployments.iter().map(|class| WorkerClass {
        list: WorkerList::MachineDeployments,
        name: &class.class,
        metadata: &class.metadata,
        taints: &class.taints,
    });
    let pools = workers.machine_pools.iter().map(|class| WorkerClass {
        list: WorkerList::MachinePools,
        name: &class.class,
        metadata: &class.metadata,
        taints: &class.taints,
    });
    deployments.chain(pools)
}

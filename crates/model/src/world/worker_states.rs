//! Watched states of the MachineDeployments of worker sets: their replicas, which a topology may leave to an autoscaler
//! (DEC-53), and their outdated machines (DEC-59).

use rpds::RedBlackTreeMapSync;

use crate::hub::ObjectKey;

/// A worker set of a topology.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerSet {
    pub cluster: ObjectKey,
    /// Its name in the topology.
    pub name: String,
}

/// The watched state of the MachineDeployment of a worker set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerState {
    pub replicas: i64,
    /// Number of outdated machines; `None` until its controller has observed its last change.
    pub outdated: Option<i64>,
    /// The Kubernetes version of its template; empty if it has none.
    pub version: Box<str>,
}

/// The states of MachineDeployments of topologies. A clone costs O(1), a change O(log n).
#[derive(Clone, Debug, Default)]
pub(super) struct WorkerStates {
    /// The worker set of each MachineDeployment.
    sets: RedBlackTreeMapSync<ObjectKey, WorkerSet>,
    states: RedBlackTreeMapSync<WorkerSet, WorkerState>,
}

impl WorkerStates {
    pub(super) fn put(&mut self, deployment: ObjectKey, set: WorkerSet, state: WorkerState) {
        self.remove(&deployment);
        self.sets.insert_mut(deployment, set.clone());
        self.states.insert_mut(set, state);
    }

    pub(super) fn remove(&mut self, deployment: &ObjectKey) {
        if let Some(set) = self.sets.get(deployment) {
            self.states.remove_mut(set);
            self.sets.remove_mut(deployment);
        }
    }

    pub(super) fn state(&self, set: &WorkerSet) -> Option<&WorkerState> {
        self.states.get(set)
    }

    pub(super) fn worker_set(&self, deployment: &ObjectKey) -> Option<&WorkerSet> {
        self.sets.get(deployment)
    }

    pub(super) fn deployments(&self) -> impl Iterator<Item = &ObjectKey> {
        self.sets.keys()
    }
}

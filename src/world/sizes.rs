//! How many machines worker sets have where their topology leaves the number to an autoscaler (DEC-53).

use rpds::RedBlackTreeMapSync;

use crate::hub::ObjectKey;

/// A worker set of a topology.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerSet {
    pub cluster: ObjectKey,
    /// Its name in the topology.
    pub name: String,
}

/// The replicas of MachineDeployments that belong to topologies. A clone costs O(1), a change O(log n).
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    /// Which set a MachineDeployment is.
    sets: RedBlackTreeMapSync<ObjectKey, WorkerSet>,
    replicas: RedBlackTreeMapSync<WorkerSet, i64>,
}

impl Sizes {
    pub(super) fn put(&mut self, deployment: ObjectKey, set: WorkerSet, replicas: i64) {
        self.remove(&deployment);
        self.sets.insert_mut(deployment, set.clone());
        self.replicas.insert_mut(set, replicas);
    }

    pub(super) fn remove(&mut self, deployment: &ObjectKey) {
        if let Some(set) = self.sets.get(deployment) {
            self.replicas.remove_mut(set);
            self.sets.remove_mut(deployment);
        }
    }

    pub(super) fn of(&self, set: &WorkerSet) -> Option<i64> {
        self.replicas.get(set).copied()
    }

    pub(super) fn set_of(&self, deployment: &ObjectKey) -> Option<&WorkerSet> {
        self.sets.get(deployment)
    }

    pub(super) fn deployments(&self) -> impl Iterator<Item = &ObjectKey> {
        self.sets.keys()
    }
}

//! An upper bound on the machines that an edit can replace or remove, for edits whose impact is not computed (DEC-59).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::edit::{Edit, changes_spec, classes_with, users};
use crate::topology::name_independence::is_name_independent;
use model::hub::{Cluster, ObjectKey, TopologyMetadata, annotation};
use model::world::{Facts, Found, WorkerSet};

/// The Clusters that an edit affects, and their classes. Nothing is compiled or read for it.
#[derive(Debug, Default)]
pub struct AffectedClusters {
    /// By namespace and name.
    pub(super) clusters: Vec<Arc<Cluster>>,
    /// The classes of these Clusters, on both sides of the edit.
    pub(super) classes: BTreeSet<ObjectKey>,
}

impl AffectedClusters {
    /// The stored Clusters and classes that an edit affects; `None` for an edit that cannot affect machines.
    pub fn for_edit(edit: &Edit, stored: &Facts) -> Option<Self> {
        if !edit.matters() {
            return None;
        }
        let mut classes = BTreeSet::new();
        let clusters = match edit {
            Edit::Class { new, .. } => {
                classes.insert(new.metadata.key());
                users(stored, &new.metadata.key())
            }
            Edit::Cluster { old, new } => {
                classes.extend([old, new].into_iter().filter_map(|cluster| cluster.class_key()));
                vec![new.clone()]
            }
            Edit::NewCluster(new) => {
                classes.extend(new.class_key());
                vec![new.clone()]
            }
            Edit::Template { new, .. } | Edit::NewTemplate(new) => {
                classes.extend(classes_with(stored, new.group(), new.kind(), &new.key()));
                classes.iter().flat_map(|class| users(stored, class)).collect()
            }
        };
        let is_managed = |cluster: &Arc<Cluster>| cluster.topology().is_some() && !cluster.metadata.is_being_deleted();
        let clusters: Vec<_> = clusters.into_iter().filter(is_managed).collect();
        (!clusters.is_empty() && !only_changes_metadata(edit, &classes, stored))
            .then_some(AffectedClusters { clusters, classes })
    }

    /// The number of affected Clusters.
    pub fn clusters(&self) -> usize {
        self.clusters.len()
    }

    /// The maximum number of machines of these Clusters, which bounds the machines that the edit can replace or remove.
    pub fn machines(&self, edit: &Edit, stored: &Facts) -> i64 {
        let machines = self.clusters.iter().map(|cluster| match edit {
            Edit::Cluster { old, .. } => machines(old, cluster, stored),
            _ => machines(cluster, cluster, stored),
        });
        machines.fold(0, i64::saturating_add)
    }
}

/// Whether an edit only changes labels and annotations, and the classes ignore names and metadata.
fn only_changes_metadata(edit: &Edit, classes: &BTreeSet<ObjectKey>, stored: &Facts) -> bool {
    let Edit::Cluster { old, new } = edit else { return false };
    let is_nameless = |key| matches!(stored.class(key), Found::Yes(class) if is_name_independent(&class));
    !changes_spec(old, new) && classes.iter().all(is_nameless)
}

/// The maximum number of machines of a Cluster, by its topology and by the watched objects: zero before its first
/// rollout and while it is paused (ROLL-18).
pub(super) fn machines(old: &Cluster, new: &Cluster, facts: &Facts) -> i64 {
    let is_rolled_out = [&old.spec.infrastructure_ref, &old.spec.control_plane_ref].iter().any(|one| one.is_defined());
    let Some(topology) = old.topology().filter(|_| is_rolled_out && !new.is_paused()) else { return 0 };
    let key = old.metadata.key();
    let class = old.class_key().map(|class| facts.class(&class));
    let class = if let Some(Found::Yes(class)) = &class { Some(class) } else { None };
    let desired = topology.control_plane.replicas.map(i64::from);
    let seen = old.status.control_plane.replicas;
    // A control plane without machine templates has no machines (ROLL-14).
    let has_machines = class.is_none_or(|class| class.spec.has_control_plane_machines());
    let control_plane = desired.max(seen.map(i64::from)).unwrap_or(i64::from(has_machines));
    let deployments = topology.workers.machine_deployments.iter().map(|set| {
        let name = set.name.clone();
        let seen = facts.worker_size(&WorkerSet { cluster: key.clone(), name });
        let of_class =
            class.and_then(|class| class.spec.workers.machine_deployments.iter().find(|one| one.class == set.class));
        most(set.replicas, seen, &set.metadata, of_class.map(|class| &class.metadata))
    });
    let pools = topology.workers.machine_pools.iter().map(|pool| {
        let of_class =
            class.and_then(|class| class.spec.workers.machine_pools.iter().find(|one| one.class == pool.class));
        most(pool.replicas, None, &pool.metadata, of_class.map(|class| &class.metadata))
    });
    deployments.chain(pools).fold(control_plane.max(0), |sum, machines| sum.saturating_add(machines.max(0)))
}

/// The maximum number of machines of a worker set: the greater of its desired and current number, else the maximum of
/// its autoscaler.
fn most(desired: Option<i32>, seen: Option<i64>, own: &TopologyMetadata, of_class: Option<&TopologyMetadata>) -> i64 {
    let maximum = |metadata: &TopologyMetadata| metadata.annotations.get(annotation::AUTOSCALER_MAX_SIZE)?.parse().ok();
    let known = desired.map(i64::from).max(seen);
    known.or_else(|| maximum(own)).or_else(|| of_class.and_then(maximum)).unwrap_or(1)
}

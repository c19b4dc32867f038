//! Nodes of a pool.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::lifecycle::context::StepContext;
use crate::lifecycle::fields::{items, list_mut, set, set_annotation};
use crate::lifecycle::step::{ObjectWrite, Reconciliation};
use model::hub::{Object, paths};

/// Taint of Nodes before the first synchronisation (CT-12.6).
const UNINITIALIZED: &str = "node.cluster.x-k8s.io/uninitialized";

/// The Nodes of a pool in the workload cluster.
pub(super) struct PoolNodes {
    /// By provider ID, in the order of the list.
    pub(super) ours: Vec<Arc<Object>>,
    /// Nodes whose instances no longer exist.
    gone: Vec<Arc<Object>>,
}

impl PoolNodes {
    /// The Nodes of the instances of `pool`, and those in its status without an instance (CT-13.1); `None` while its
    /// workload cluster is not connected.
    pub(super) fn read(context: &StepContext<'_>, cluster: &Object, pool: &Object) -> Option<PoolNodes> {
        let workload = context.workload(&cluster.key())?;
        let ids = pool.provider_id_list();
        let of = |id: &Value| workload.nodes_with_provider_id(id.as_str()?).next().cloned();
        let ours: Vec<Arc<Object>> = ids.iter().filter_map(of).collect();
        let refs = items(pool, paths::worker::NODE_REFS).iter().filter_map(|node| node.get("name")?.as_str());
        let gone = refs
            .filter_map(|name| workload.node(name))
            .filter(|node| !ours.iter().any(|our| our.name() == node.name()))
            .cloned()
            .collect();
        Some(PoolNodes { ours, gone })
    }

    /// Deletes Nodes without an instance; annotates the others and removes their initial taint (MA-8.5, MA-8.8).
    pub(super) fn keep_in_step(&self, cluster: &Object, pool: &Object, step: &mut Reconciliation) {
        let workload = Some(cluster.key());
        for node in self.gone.iter().filter(|node| !node.is_being_deleted()) {
            step.attempt([ObjectWrite::Delete { workload: workload.clone(), object: node.clone() }]);
        }
        for node in &self.ours {
            let mut after = (**node).clone();
            for (name, value) in [
                ("cluster.x-k8s.io/cluster-name", cluster.name()),
                ("cluster.x-k8s.io/cluster-namespace", cluster.namespace()),
                ("cluster.x-k8s.io/owner-kind", "MachinePool"),
                ("cluster.x-k8s.io/owner-name", pool.name()),
            ] {
                set_annotation(&mut after, name, value);
            }
            let is_new = |taint: &Value| taint.get("key").is_some_and(|key| key == UNINITIALIZED);
            if node.taints().iter().any(is_new) {
                list_mut(&mut after, "spec", "taints").retain(|taint| !is_new(taint));
            }
            if **node != after {
                step.attempt([ObjectWrite::Update { workload: workload.clone(), before: node.clone(), after }]);
            }
        }
    }

    /// The deletions of all Nodes, for a pool that is deleted.
    pub(super) fn deletions(self, cluster: &Object) -> impl Iterator<Item = ObjectWrite> {
        let nodes = self.ours.into_iter().chain(self.gone).filter(|node| !node.is_being_deleted());
        nodes.map(|object| ObjectWrite::Delete { workload: Some(cluster.key()), object })
    }

    /// Number of ready Nodes.
    pub(super) fn ready(&self) -> usize {
        let is_ready = |node: &&Arc<Object>| {
            let conditions = node.conditions();
            conditions.iter().any(|one| {
                one.get("type").is_some_and(|it| it == "Ready") && one.get("status").is_some_and(|it| it == "True")
            })
        };
        self.ours.iter().filter(is_ready).count()
    }

    /// Number of Nodes with a version.
    pub(super) fn of_version(&self, version: &str) -> usize {
        let running = |node: &&Arc<Object>| node.kubelet_version() == version;
        self.ours.iter().filter(|node| version.is_empty() || running(node)).count()
    }

    /// `status.nodeRefs`.
    pub(super) fn write_refs(&self, pool: &mut Object) {
        let reference = |node: &Arc<Object>| json!({"apiVersion": "v1", "kind": "Node", "name": node.name()});
        match self.ours.is_empty() {
            true => drop(pool.remove(paths::worker::NODE_REFS)),
            false => set(pool, paths::worker::NODE_REFS, Value::Array(self.ours.iter().map(reference).collect())),
        }
    }
}

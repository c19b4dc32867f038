//! The Nodes of a pool.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::lifecycle::context::Context;
use crate::lifecycle::fields::{items, list_mut, set, set_annotation, text};
use crate::lifecycle::step::{Step, Write};
use model::hub::Object;

/// The taint of Nodes whose pool has not looked at them yet (CT-12.6).
const UNINITIALIZED: &str = "node.cluster.x-k8s.io/uninitialized";

/// The Nodes of the workload cluster that are of a pool.
pub(super) struct Nodes {
    /// By provider id, in the order of the list.
    pub(super) ours: Vec<Arc<Object>>,
    /// Those whose instances are gone.
    gone: Vec<Arc<Object>>,
}

impl Nodes {
    /// The Nodes of the instances of `pool`, and those that are in its status and have no instance any more (CT-13.1).
    pub(super) fn read(context: &Context<'_>, cluster: &Object, pool: &Object) -> Nodes {
        let Some(workload) = context.workload(&cluster.key()) else {
            return Nodes { ours: Vec::new(), gone: Vec::new() };
        };
        let ids = items(pool, "spec.providerIDList");
        let of = |id: &Value| workload.nodes_with_provider_id(id.as_str()?).next().cloned();
        let ours: Vec<Arc<Object>> = ids.iter().filter_map(of).collect();
        let refs = items(pool, "status.nodeRefs").iter().filter_map(|node| node.get("name")?.as_str());
        let gone = refs
            .filter_map(|name| workload.node(name))
            .filter(|node| !ours.iter().any(|our| our.name() == node.name()))
            .cloned()
            .collect();
        Nodes { ours, gone }
    }

    /// Nodes of instances that are gone go; the others say whose they are, and lose the taint of new Nodes (MA-8.5, MA-8.8).
    pub(super) fn keep_in_step(&self, cluster: &Object, pool: &Object, step: &mut Step) {
        let workload = Some(cluster.key());
        for node in self.gone.iter().filter(|node| !node.is_being_deleted()) {
            step.writes.push(Write::Delete { workload: workload.clone(), object: node.clone() });
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
            if items(node, "spec.taints").iter().any(is_new) {
                list_mut(&mut after, "spec", "taints").retain(|taint| !is_new(taint));
            }
            if **node != after {
                step.writes.push(Write::Update { workload: workload.clone(), before: node.clone(), after });
            }
        }
    }

    /// Deletes the Nodes of a pool that is gone.
    pub(super) fn delete_all(context: &Context<'_>, cluster: &Object, pool: &Object, step: &mut Step) {
        let Nodes { ours, gone } = Nodes::read(context, cluster, pool);
        for node in ours.into_iter().chain(gone).filter(|node| !node.is_being_deleted()) {
            step.writes.push(Write::Delete { workload: Some(cluster.key()), object: node });
        }
    }

    /// How many of the Nodes are ready.
    pub(super) fn ready(&self) -> usize {
        let is_ready = |node: &&Arc<Object>| {
            let conditions = items(node, "status.conditions");
            conditions.iter().any(|one| {
                one.get("type").is_some_and(|it| it == "Ready") && one.get("status").is_some_and(|it| it == "True")
            })
        };
        self.ours.iter().filter(is_ready).count()
    }

    /// How many of the Nodes run a version.
    pub(super) fn of_version(&self, version: &str) -> usize {
        let running = |node: &&Arc<Object>| text(node, "status.nodeInfo.kubeletVersion") == version;
        self.ours.iter().filter(|node| version.is_empty() || running(node)).count()
    }

    /// `status.nodeRefs`.
    pub(super) fn write_refs(&self, pool: &mut Object) {
        let reference = |node: &Arc<Object>| json!({"apiVersion": "v1", "kind": "Node", "name": node.name()});
        match self.ours.is_empty() {
            true => drop(pool.remove("status.nodeRefs")),
            false => set(pool, "status.nodeRefs", Value::Array(self.ours.iter().map(reference).collect())),
        }
    }
}

//! The Node of a Machine (MA-8.1 to MA-8.4).

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::node_fields;
use super::reconcile::{MachineReconcile, NodeState};
use crate::lifecycle::conditions;
use crate::lifecycle::context::StepError;
use crate::lifecycle::fields::set;
use model::hub::{NODE_INFO, Object, paths};

/// Finds the Node by provider ID, records it, and synchronises the fields that it has from the Machine.
pub(super) fn reconcile(work: &mut MachineReconcile<'_, '_>) -> Result<(), StepError> {
    let id = work.machine.provider_id().to_owned();
    if id.is_empty() {
        return Ok(());
    }
    let Some(workload) = work.workload() else { return not_connected(work) };
    let nodes: Vec<Arc<Object>> = workload.nodes_with_provider_id(&id).cloned().collect();
    match &nodes[..] {
        [] => missing(work),
        [node] => {
            found(work, node);
            node_fields::keep_in_step(work);
            Ok(())
        }
        _ => {
            work.node = NodeState::Ambiguous;
            let names: Vec<&str> = nodes.iter().map(|node| node.name()).collect();
            Err(StepError::failed(format!("several Nodes have the provider ID {id}: {}", names.join(", "))))
        }
    }
}

/// A missing connection is an error only if the control plane is initialized (MA-8.1, MA-8.2).
fn not_connected(work: &mut MachineReconcile<'_, '_>) -> Result<(), StepError> {
    work.node = NodeState::NotConnected;
    let is_expected = conditions::is_true(&work.cluster, "ControlPlaneInitialized") && !work.cluster.is_being_deleted();
    if !is_expected {
        return Ok(());
    }
    let key = work.cluster.key();
    let problem = work.context.problem(&key).map(|problem| format!(": {problem}")).unwrap_or_default();
    Err(StepError::failed(format!("workload cluster {key} is not connected{problem}")))
}

fn missing(work: &mut MachineReconcile<'_, '_>) -> Result<(), StepError> {
    work.node = NodeState::Missing;
    let known = work.machine.node_name();
    if known.is_empty() || work.is_deleting() {
        return Ok(());
    }
    Err(StepError::failed(format!("Node {known} of Machine {} does not exist any more", work.machine.key())))
}

/// Records the name of the Node once, and its node info on every step (MA-8.4).
fn found(work: &mut MachineReconcile<'_, '_>, node: &Arc<Object>) {
    work.node = NodeState::Found(node.clone());
    if work.machine.node_name().is_empty() {
        set(&mut work.machine, paths::machine::NODE_NAME, json!(node.name()));
        work.step.event("NodeFound", format!("Node {} has the provider ID of the Machine", node.name()));
    }
    let info = node.at(paths::machine::NODE_INFO).and_then(Value::as_object);
    let known = |name: &str| Some((name.to_owned(), info?.get(name)?.clone()));
    let info: Map<String, Value> = NODE_INFO.into_iter().filter_map(known).collect();
    if !info.is_empty() {
        set(&mut work.machine, paths::machine::NODE_INFO, Value::Object(info));
    }
}

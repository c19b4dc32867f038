//! The Node of a Machine (MA-8.1 to MA-8.4).

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::node_fields;
use super::work::{NodeState, Work};
use crate::lifecycle::conditions;
use crate::lifecycle::context::Fault;
use crate::lifecycle::fields::{set, text};
use model::hub::{NODE_INFO, Object};

pub(super) const NODE_REF: &str = "status.nodeRef.name";

/// Finds the Node by its provider id, notes it, and keeps what it has of the Machine in step.
pub(super) fn reconcile(work: &mut Work<'_, '_>) -> Result<(), Fault> {
    let id = text(&work.machine, "spec.providerID").to_owned();
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
            Err(Fault::because(format!("several Nodes have the provider ID {id}: {}", names.join(", "))))
        }
    }
}

/// That there is no connection is an error only where there should be one (MA-8.1, MA-8.2).
fn not_connected(work: &mut Work<'_, '_>) -> Result<(), Fault> {
    work.node = NodeState::NotConnected;
    let is_expected = conditions::is_true(&work.cluster, "ControlPlaneInitialized") && !work.cluster.is_being_deleted();
    if !is_expected {
        return Ok(());
    }
    let key = work.cluster.key();
    let problem = work.context.problem(&key).map(|problem| format!(": {problem}")).unwrap_or_default();
    Err(Fault::because(format!("workload cluster {key} is not connected{problem}")))
}

fn missing(work: &mut Work<'_, '_>) -> Result<(), Fault> {
    work.node = NodeState::Missing;
    let known = text(&work.machine, NODE_REF);
    if known.is_empty() || work.is_deleting() {
        return Ok(());
    }
    Err(Fault::because(format!("Node {known} of Machine {} does not exist any more", work.machine.key())))
}

/// Notes the name of the Node once, and what the Node says about itself each time (MA-8.4).
fn found(work: &mut Work<'_, '_>, node: &Arc<Object>) {
    work.node = NodeState::Found(node.clone());
    if text(&work.machine, NODE_REF).is_empty() {
        set(&mut work.machine, NODE_REF, json!(node.name()));
        work.step.tell("NodeFound", format!("Node {} has the provider ID of the Machine", node.name()));
    }
    let info = node.at("status.nodeInfo").and_then(Value::as_object);
    let known = |name: &str| Some((name.to_owned(), info?.get(name)?.clone()));
    let info: Map<String, Value> = NODE_INFO.into_iter().filter_map(known).collect();
    if !info.is_empty() {
        set(&mut work.machine, "status.nodeInfo", Value::Object(info));
    }
}

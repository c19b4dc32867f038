//! What one step of a Machine works on.

use std::sync::Arc;

use crate::lifecycle::context::Context;
use crate::lifecycle::objects::Workload;
use crate::lifecycle::step::{Step, Write};
use model::hub::{Object, label};

/// The object of a reference of a Machine: its bootstrap configuration, or its infrastructure.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum External {
    /// It could not be looked up.
    Unread,
    NoReference,
    Missing,
    Found(Arc<Object>),
}

impl External {
    /// The object, if it is there.
    pub(super) fn found(&self) -> Option<&Arc<Object>> {
        match self {
            External::Found(object) => Some(object),
            _ => None,
        }
    }
}

/// What is known about the Node of a Machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NodeState {
    /// The Machine has no provider id to look for.
    NotAsked,
    NotConnected,
    /// Several Nodes have the provider id.
    Ambiguous,
    Missing,
    Found(Arc<Object>),
}

impl NodeState {
    /// The Node, if there is one.
    pub(super) fn found(&self) -> Option<&Arc<Object>> {
        match self {
            NodeState::Found(node) => Some(node),
            _ => None,
        }
    }
}

/// What a deletion waits for: the reason and the message of the condition `Deleting`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Stage {
    /// The reason of the last stage.
    pub(super) const COMPLETED: &str = "DeletionCompleted";

    /// Nothing is left of the Machine but its finalizer.
    pub(super) fn completed() -> Self {
        Stage::new(Stage::COMPLETED, "Deletion completed")
    }

    pub(super) fn is_completed(&self) -> bool {
        self.reason == Stage::COMPLETED
    }

    pub(super) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Stage { reason, message: message.into() }
    }
}

/// A Machine in the course of a step, and what the step has found so far.
#[derive(Debug)]
pub(super) struct Work<'a, 'o> {
    pub(super) context: &'a Context<'o>,
    pub(super) step: &'a mut Step,
    pub(super) cluster: Arc<Object>,
    /// As it was when the step began.
    pub(super) before: Arc<Object>,
    /// As it will be.
    pub(super) machine: Object,
    pub(super) set: Option<Arc<Object>>,
    pub(super) deployment: Option<Arc<Object>>,
    pub(super) bootstrap: External,
    pub(super) infrastructure: External,
    pub(super) node: NodeState,
    /// The Node as it will be, where it changes.
    pub(super) node_after: Option<Object>,
    /// How far the deletion is; `None` for a Machine that stays.
    pub(super) deletion: Option<Stage>,
}

impl<'o> Work<'_, 'o> {
    /// Whether the Machine is being deleted.
    pub(super) fn is_deleting(&self) -> bool {
        self.before.is_being_deleted()
    }

    /// Whether the Machine belongs to a control plane.
    pub(super) fn is_control_plane(&self) -> bool {
        self.before.label(label::CONTROL_PLANE).is_some()
    }

    /// The workload cluster, if it is connected.
    pub(super) fn workload(&self) -> Option<&'o Workload> {
        self.context.workload(&self.cluster.key())
    }

    /// The Node to change; nothing if there is none.
    pub(super) fn node_mut(&mut self) -> Option<&mut Object> {
        let node = self.node.found()?;
        Some(self.node_after.get_or_insert_with(|| (**node).clone()))
    }

    /// Writes what has changed of the Node (MA-8.10). The Node must not be changed any more afterwards.
    pub(super) fn write_node(&mut self) {
        let (Some(before), Some(after)) = (self.node.found().cloned(), self.node_after.take()) else { return };
        if *before != after {
            self.step.writes.push(Write::Update { workload: Some(self.cluster.key()), before, after });
        }
    }
}

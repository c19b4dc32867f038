//! State of one step of a Machine.

use std::sync::Arc;

use crate::lifecycle::conditions::DELETION_COMPLETED;
use crate::lifecycle::context::StepContext;
use crate::lifecycle::objects::WorkloadObjects;
use crate::lifecycle::step::{ObjectWrite, Reconciliation};
use model::hub::{Object, label};

/// A referenced object of a Machine: bootstrap configuration or infrastructure.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ExternalObject {
    /// The lookup failed.
    Unread,
    NoReference,
    Missing,
    Found(Arc<Object>),
}

impl ExternalObject {
    /// The object, if it exists.
    pub(super) fn found(&self) -> Option<&Arc<Object>> {
        match self {
            ExternalObject::Found(object) => Some(object),
            _ => None,
        }
    }
}

/// Result of looking up the Node of a Machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NodeState {
    /// The Machine has no provider ID.
    NotAsked,
    NotConnected,
    /// Several Nodes have the provider id.
    Ambiguous,
    Missing,
    Found(Arc<Object>),
}

impl NodeState {
    /// The Node, if it exists.
    pub(super) fn found(&self) -> Option<&Arc<Object>> {
        match self {
            NodeState::Found(node) => Some(node),
            _ => None,
        }
    }
}

/// What a deletion waits for: reason and message of the condition `Deleting`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeletionWait {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl DeletionWait {
    /// Only the finalizer of the Machine is left.
    pub(super) fn completed() -> Self {
        DeletionWait::new(DELETION_COMPLETED, "Deletion completed")
    }

    pub(super) fn is_completed(&self) -> bool {
        self.reason == DELETION_COMPLETED
    }

    pub(super) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        DeletionWait { reason, message: message.into() }
    }
}

/// A Machine during a step, with the results so far.
#[derive(Debug)]
pub(super) struct MachineReconcile<'a, 'o> {
    pub(super) context: &'a StepContext<'o>,
    pub(super) step: &'a mut Reconciliation,
    pub(super) cluster: Arc<Object>,
    /// The Machine at the start of the step.
    pub(super) before: Arc<Object>,
    /// The Machine at the end of the step.
    pub(super) machine: Object,
    pub(super) set: Option<Arc<Object>>,
    pub(super) deployment: Option<Arc<Object>>,
    pub(super) bootstrap: ExternalObject,
    pub(super) infrastructure: ExternalObject,
    pub(super) node: NodeState,
    /// The Node at the end of the step, if it changes.
    pub(super) node_after: Option<Object>,
    /// Stage of the deletion; `None` if the Machine is not being deleted.
    pub(super) deletion: Option<DeletionWait>,
}

impl<'o> MachineReconcile<'_, 'o> {
    /// Whether the Machine is being deleted.
    pub(super) fn is_deleting(&self) -> bool {
        self.before.is_being_deleted()
    }

    /// Whether the Machine belongs to a control plane.
    pub(super) fn is_control_plane(&self) -> bool {
        self.before.label(label::CONTROL_PLANE).is_some()
    }

    /// The workload cluster, if it is connected.
    pub(super) fn workload(&self) -> Option<&'o WorkloadObjects> {
        self.context.workload(&self.cluster.key())
    }

    /// The Node, mutable; `None` if it does not exist.
    pub(super) fn node_mut(&mut self) -> Option<&mut Object> {
        let node = self.node.found()?;
        Some(self.node_after.get_or_insert_with(|| (**node).clone()))
    }

    /// Writes the changes of the Node (MA-8.10). The Node must not be changed afterwards.
    pub(super) fn write_node(&mut self) {
        let write = self.take_node_write();
        write.into_iter().for_each(|write| self.step.attempt([write]));
    }

    /// The write of the changes of the Node. The Node must not be changed afterwards.
    pub(super) fn take_node_write(&mut self) -> Option<ObjectWrite> {
        let (before, after) = (self.node.found().cloned()?, self.node_after.take()?);
        (*before != after).then(|| ObjectWrite::Update { workload: Some(self.cluster.key()), before, after })
    }
}

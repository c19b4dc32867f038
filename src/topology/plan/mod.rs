//! The steps from the current to the desired state of a topology.
//!
//! ```text
//! current ─┐
//!          ├─► steps.rs (what is created, applied, rotated, deleted, in order) ─► Plan ─► fold.rs ─► the world after it
//! desired ─┘        └─ difference.rs (which fields change, and why)                └─► rolls.rs (machines replaced)
//! ```
//!
//! The previous desired fields tell which fields are removed: `before.rs` notes it for objects that exist, a fold for what it writes.
//!
//! A Plan is data: the reconciler carries it out, `plan` prints it, a fold makes it true and plans again.

mod before;
mod defaults;
mod difference;
mod fold;
mod lost;
mod rolls;
mod steps;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

pub use difference::{MANAGER, sent};
pub use fold::{DryRunServer, Fold, Rollout, Round, uid};
pub use rolls::{Machines, Roll};

use super::Failure;
use super::origin::{Origin, Origins};
use super::shim::Shim;
use super::upgrade::Held;
use super::worker::WorkerKind;
use crate::hub::{Object, ObjectKey, ObjectRef};

/// Ordered steps, and what is held back (RS-12).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub steps: Vec<Step>,
    pub held: Vec<Held>,
    /// What keeps the plan from going on after its steps (RS-12): they are carried out all the same, for what comes first in a
    /// topology does not wait for what comes last.
    pub failure: Option<Failure>,
    /// What becomes of the ConfigMap that is the owner until the Cluster is. It is no part of the topology, and so no step.
    pub shim: Shim,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub action: Action,
    pub part: Part,
    /// What is written. A rotation writes an object of a new name.
    pub object: ObjectRef,
    /// The uid of what is there already, and changes or goes.
    pub uid: Option<String>,
    /// The name that the object of a rotation takes the place of.
    pub replaces: Option<String>,
    /// What is sent; nothing for a deletion. Of the Cluster, all labels, annotations and references in their desired state: what is
    /// written of it are the `changes`.
    pub sent: Option<Arc<Object>>,
    /// Where the fields of what is sent come from.
    pub origins: Arc<Origins>,
    pub changes: Vec<Change>,
    pub reason: String,
    pub certainty: Certainty,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    Create,
    /// Changes an object in place.
    Apply,
    /// Puts a new template in the place of one (ROT-05).
    Rotate,
    Delete,
}

/// How sure a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    Exact,
    /// It follows from assumptions without a server or a definition (DEC-15, DEC-17).
    Assumed,
    /// The provider decides.
    Provider,
}

/// The part of a topology that an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Infrastructure,
    ControlPlane,
    ControlPlaneMachines,
    ControlPlaneHealthCheck,
    Cluster,
    Worker(WorkerKind, String),
    Bootstrap(WorkerKind, String),
    WorkerInfrastructure(WorkerKind, String),
    WorkerHealthCheck(String),
}

/// A field that a step changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// As Kubernetes writes paths: `spec.template.spec.replicas`.
    pub path: String,
    /// `None` for a field that is new.
    pub from: Option<Value>,
    /// `None` for a field that goes.
    pub to: Option<Value>,
    /// What gave the field its new value; `None` when nothing sets it any more.
    pub because: Option<Origin>,
    /// What gave it the value that was asked for before, if that is known.
    pub was: Option<Origin>,
    /// Whether one of the values is made from a secret, so that neither is shown (DEC-34).
    pub is_sensitive: bool,
}

impl Change {
    /// Whether the Kubernetes version of a control plane or of workers changes.
    fn is_version(&self) -> bool {
        self.path.ends_with("spec.version")
    }
}

/// The previous desired state, by group, kind and key: of objects that do not say who owns their fields it tells a field
/// that a topology does not ask for any more from one that others have set (DEC-43).
#[derive(Clone, Debug, Default)]
pub struct Applied(BTreeMap<Id, Sent>);

/// Group, kind and key.
type Id = (String, String, ObjectKey);

/// The previous desired state of one object.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    object: Arc<Object>,
    origins: Arc<Origins>,
    /// Whether the object has reached the desired state, as far as its server let it.
    is_rolled_out: bool,
}

impl Applied {
    /// The fields that were applied to an object the last time.
    fn get(&self, object: &ObjectRef) -> Option<&Sent> {
        self.0.get(&id(object))
    }

    fn put(&mut self, object: &ObjectRef, sent: Sent) {
        self.0.insert(id(object), sent);
    }

    fn remove(&mut self, object: &ObjectRef) {
        self.0.remove(&id(object));
    }
}

fn id(object: &ObjectRef) -> Id {
    (object.group().to_owned(), object.kind.clone(), object.key.clone())
}

impl Action {
    /// `create`, `apply`, `rotate`, `delete`.
    pub const fn name(self) -> &'static str {
        match self {
            Action::Create => "create",
            Action::Apply => "apply",
            Action::Rotate => "rotate",
            Action::Delete => "delete",
        }
    }
}

impl Certainty {
    /// `exact`, `assumed`, `provider`.
    pub const fn name(self) -> &'static str {
        match self {
            Certainty::Exact => "exact",
            Certainty::Assumed => "assumed",
            Certainty::Provider => "provider",
        }
    }
}

impl fmt::Display for Part {
    /// A name for the slot that does not depend on the name of its object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Infrastructure => f.write_str("infrastructure"),
            Part::ControlPlane => f.write_str("controlPlane"),
            Part::ControlPlaneMachines => f.write_str("controlPlane/machines"),
            Part::ControlPlaneHealthCheck => f.write_str("controlPlane/healthCheck"),
            Part::Cluster => f.write_str("cluster"),
            Part::Worker(kind, name) => write!(f, "{}/{name}", kind.name()),
            Part::Bootstrap(kind, name) => write!(f, "{}/{name}/bootstrap", kind.name()),
            Part::WorkerInfrastructure(kind, name) => write!(f, "{}/{name}/infrastructure", kind.name()),
            Part::WorkerHealthCheck(name) => write!(f, "MachineDeployment/{name}/healthCheck"),
        }
    }
}

#[cfg(test)]
mod tests;

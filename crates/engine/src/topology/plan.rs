//! The steps from the current to the desired state of a topology.
//!
//! ```text
//! current ─┐
//!          ├─► steps.rs (what is created, applied, rotated, deleted, in order) ─► Plan ─► simulator.rs ─► the world after it
//! desired ─┘        ├─ difference.rs (which fields change, and why)                └─► rolls.rs (machines replaced)
//!                   └─ transition_rules.rs (changes that a schema denies)
//! ```
//!
//! A field is removed if the previous desired object had it: `last_applied.rs` records this for existing objects, and
//! the simulator for the objects that it writes.
//!
//! A Plan is data: the reconciler executes it, `plan` prints it, and the simulator applies it to its facts and plans
//! again; `rounds.rs` combines the plans of workers that take the same step one after the other.

mod rounds;
mod last_applied;
mod defaults;
mod difference;
mod simulator;
mod health_checks;
mod transition_rules;
mod in_place_updates;
mod lost_fields;
mod outdated_machines;
mod postponed_replacements;
mod rolls;
mod steps;
mod writes;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use serde_json::Value;

pub use difference::{FINALIZERS_FIELD, MANAGER, sent};
pub use in_place_updates::{mark, updater, updates_in_place};
pub use outdated_machines::{outlasts_certificates, seconds};
pub use rolls::{MachineCounts, Roll};
pub use simulator::{DryRunServer, ExtensionServer, Rollout, Round, TopologySimulator, uid};

use super::Failure;
use super::holds::HeldPart;
use super::origin::{Origin, Origins};
use super::ownership::Claimant;
use super::shim::Shim;
use super::worker::WorkerKind;
use model::hub::{Object, ObjectKey, ObjectRef, paths};

/// Ordered steps, and the objects that are held back (RS-12).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub steps: Vec<PlanStep>,
    pub held: Vec<HeldPart>,
    /// Why the plan stops after its steps (RS-12). The steps are still executed, so that the first objects of a
    /// topology do not wait for the last ones.
    pub failure: Option<Failure>,
    /// Whether the shim is created, kept or deleted. It is not part of the topology, so it is not a step.
    pub shim: Shim,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanStep {
    pub action: StepAction,
    pub part: TopologyPart,
    /// The object that is written. A rotation writes an object with a new name.
    pub object: ObjectRef,
    /// The uid of the existing object that is changed or deleted.
    pub uid: Option<String>,
    /// The existing object of an API server that is changed, as it was when the plan was made.
    pub current: Option<Arc<Object>>,
    /// The name of the template that a rotation replaces.
    pub replaces: Option<String>,
    /// The applied object; none for a deletion. For the Cluster, it has all desired labels, annotations and references,
    /// but only the `changes` are written.
    pub applied: Option<Arc<Object>>,
    /// The origins of the fields in the applied object.
    pub origins: Arc<Origins>,
    pub changes: Vec<ChangedField>,
    pub reason: String,
    pub certainty: Certainty,
}

/// The action of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepAction {
    Create,
    /// Changes an object in place.
    Apply,
    /// Replaces a template by one with a new name (ROT-05).
    Rotate,
    Delete,
}

/// The certainty of a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    Exact,
    /// Computed from assumptions, without a server or a definition (DEC-15, DEC-17).
    Assumed,
    /// The provider decides.
    Provider,
}

/// The slot of an object in a topology.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopologyPart {
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
pub struct ChangedField {
    /// A path in the form of Kubernetes: `spec.template.spec.replicas`.
    pub path: String,
    /// `None` for a field that is new.
    pub from: Option<Value>,
    /// `None` for a field that is removed.
    pub to: Option<Value>,
    /// The origin of the new value; `None` when nothing sets the field anymore.
    pub because: Option<Origin>,
    /// The origin of the previous desired value, if it is known.
    pub was: Option<Origin>,
    /// Whether one of the values contains a secret, so that neither is shown (DEC-34).
    pub is_sensitive: bool,
}

impl ChangedField {
    /// Whether the Kubernetes version of a control plane or of workers changes.
    fn is_version(&self) -> bool {
        self.path.ends_with(paths::VERSION)
    }
}

/// The previous desired state, by group, kind and key. For objects without `managedFields`, it distinguishes fields
/// that a topology no longer sets from fields that others have set (DEC-43).
#[derive(Clone, Debug, Default)]
pub struct AppliedState(BTreeMap<AppliedKey, LastApplied>);

/// Metadata that a server adds to applied objects.
const OF_SERVER: &[&str] = &["uid", "managedFields"];

/// Group, kind and key.
type AppliedKey = (String, String, ObjectKey);

/// The previous desired state of one object.
#[derive(Clone, Debug)]
pub(super) struct LastApplied {
    object: Arc<Object>,
    origins: Arc<Origins>,
    /// Whether the object has reached the desired state, as far as its server allowed.
    is_rolled_out: bool,
    /// The object as it was stored by applying `object`, and changed by the provider. It is not kept if the simulator
    /// has another one.
    stored: Weak<Object>,
}

impl AppliedState {
    /// The fields that were applied to an object the last time.
    fn get(&self, object: &ObjectRef) -> Option<&LastApplied> {
        self.0.get(&id(object))
    }

    fn put(&mut self, object: &ObjectRef, sent: LastApplied) {
        self.0.insert(id(object), sent);
    }

    /// Notes the object that is stored since it was applied the last time.
    fn note_stored(&mut self, object: &Arc<Object>) {
        if let Some(applied) = self.0.get_mut(&id(&object.reference())) {
            applied.stored = Arc::downgrade(object);
        }
    }

    /// The fields that were applied to an object the last time, if nothing else has changed the object since.
    fn of_unchanged(&self, current: &Object) -> Option<&LastApplied> {
        self.get(&current.reference()).filter(|applied| std::ptr::eq(applied.stored.as_ptr(), current))
    }

    fn remove(&mut self, object: &ObjectRef) {
        self.0.remove(&id(object));
    }
}

fn id(object: &ObjectRef) -> AppliedKey {
    (object.group().to_owned(), object.kind.clone(), object.key.clone())
}

impl StepAction {
    /// `create`, `apply`, `rotate`, `delete`.
    pub const fn name(self) -> &'static str {
        match self {
            StepAction::Create => "create",
            StepAction::Apply => "apply",
            StepAction::Rotate => "rotate",
            StepAction::Delete => "delete",
        }
    }
}

impl TopologyPart {
    /// The worker set of the slot, by its name in the topology.
    pub fn worker(&self) -> Option<(WorkerKind, &str)> {
        match self {
            TopologyPart::Worker(kind, name)
            | TopologyPart::Bootstrap(kind, name)
            | TopologyPart::WorkerInfrastructure(kind, name) => Some((*kind, name)),
            TopologyPart::WorkerHealthCheck(name) => Some((WorkerKind::MachineDeployment, name)),
            TopologyPart::Infrastructure
            | TopologyPart::ControlPlane
            | TopologyPart::ControlPlaneMachines
            | TopologyPart::ControlPlaneHealthCheck
            | TopologyPart::Cluster => None,
        }
    }

    /// The claimant of the objects of this slot, in the topology of a Cluster.
    pub fn claimant(&self, cluster: &str) -> Claimant {
        match self.worker() {
            Some((kind, name)) => Claimant::worker(cluster, kind, name),
            None => Claimant::cluster(cluster),
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

impl fmt::Display for TopologyPart {
    /// The name of the slot, which does not depend on the name of its object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopologyPart::Infrastructure => f.write_str("infrastructure"),
            TopologyPart::ControlPlane => f.write_str("controlPlane"),
            TopologyPart::ControlPlaneMachines => f.write_str("controlPlane/machines"),
            TopologyPart::ControlPlaneHealthCheck => f.write_str("controlPlane/healthCheck"),
            TopologyPart::Cluster => f.write_str("cluster"),
            TopologyPart::Worker(kind, name) => write!(f, "{}/{name}", kind.name()),
            TopologyPart::Bootstrap(kind, name) => write!(f, "{}/{name}/bootstrap", kind.name()),
            TopologyPart::WorkerInfrastructure(kind, name) => write!(f, "{}/{name}/infrastructure", kind.name()),
            TopologyPart::WorkerHealthCheck(name) => write!(f, "MachineDeployment/{name}/healthCheck"),
        }
    }
}

#[cfg(test)]
mod tests;

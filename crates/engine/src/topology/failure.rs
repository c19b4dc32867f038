//! Why a topology could not be computed.

use std::fmt;

use super::hooks::HookTracker;
use super::ownership::{SameName, Unavailable};
use super::patches::{PatchError, summary};
use super::size::TopologyTooLarge;
use super::upgrade::PlanError;
use model::hub::control_plane::UnclearVersion;
use model::hub::{Hook, ObjectKey, ObjectRef, WrongType};
use model::world::Unsettled;
use schema::budget::Stop;
use schema::field::FieldError;

/// Why a topology could not be computed; nothing is written then. Objects that admission would reject may exist
/// nevertheless, and fail here (BP-14).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// A fact has not been gathered: the result is discarded, and the needs of the world list the missing facts.
    #[error("a fact has not been gathered yet")]
    NotAsked,
    /// Facts were still missing after the last round of gathering.
    #[error(transparent)]
    Unsettled(#[from] Unsettled),
    /// An object that may exist cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// A request names a Cluster that does not exist.
    #[error("Cluster {0} was not found")]
    NoCluster(ObjectKey),
    /// BP-01.
    #[error("ClusterClass {0} was not found")]
    NoClass(ObjectKey),
    /// BP-02.
    #[error("ClusterClass {class} is not ready: {expected}")]
    ClassNotReady { class: ObjectKey, expected: String },
    /// BP-03: a variable does not fit the class.
    #[error("the variables of the Cluster are not valid for its ClusterClass: {}", schema::field::join(.0))]
    InvalidCluster(Vec<FieldError>),
    /// BP-07, CS-02 to CS-12.
    #[error("{what} {object} was not found")]
    NotFound { what: &'static str, object: ObjectRef },
    /// CS-13.
    #[error(
        "{object} has no label topology.cluster.x-k8s.io/owned, so the topology does not own it; resolve this manually"
    )]
    Foreign { object: ObjectRef },
    /// CS-04, CS-10, CS-12, DS-11, DS-14.
    #[error("{object} has an incomplete reference at {path}")]
    NoReference { object: ObjectRef, path: &'static str },
    /// CS-09, CS-12.
    #[error("{object} has no label {label}")]
    NoTopologyName { object: ObjectRef, label: &'static str },
    /// CS-09, CS-12.
    #[error("{kind}s {first} and {second} both have the topology name {topology_name:?}")]
    SameTopologyName { kind: &'static str, first: String, second: String, topology_name: String },
    /// CS-10, DS-24.
    #[error("the class {class:?} of {kind} {topology_name:?} is not one of the {kind} classes of the ClusterClass")]
    NoWorkerClass { kind: &'static str, topology_name: String, class: String },
    /// NAM-01.
    #[error("the naming template at {path} of the ClusterClass cannot generate a name: {reason}")]
    Naming { path: String, reason: String },
    /// DEC-36.
    #[error(transparent)]
    SameName(#[from] Box<SameName>),
    /// DEC-36.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// CT-4.6.
    #[error("CustomResourceDefinition {definition} was not found")]
    NoDefinition { definition: String },
    /// CS-08.
    #[error(
        "CustomResourceDefinition {definition} has no label cluster.x-k8s.io/<contract> that lists version {version}"
    )]
    NoContract { definition: String, version: String },
    /// CS-08.
    #[error("CustomResourceDefinition {definition} has no label with versions for contract v1beta2 or v1beta1")]
    NoVersion { definition: String },
    /// RS-25, ROT-03.
    #[error("{current} cannot become {desired}: the group, kind, namespace and name of an object cannot change")]
    Incompatible { current: Box<ObjectRef>, desired: Box<ObjectRef> },
    /// CT-9.2, CT-9.5, CT-13.3.
    #[error(
        "{object} cannot be {change}: the definition of {} makes {place} immutable{}",
        .object.kind, .change.explanation()
    )]
    Immutable { object: Box<ObjectRef>, place: String, change: DeniedChange },
    /// DEC-35.
    #[error(
        "{object} is replaced in every run because {path} differs each time; check for a patch that uses a generated \
         name"
    )]
    Fighting { object: Box<ObjectRef>, path: String },
    /// DEC-35, for a template that is deleted each time (ROT-13).
    #[error("{object} was deleted although it is in use, and so were its predecessors; find out what deletes them")]
    KeepsVanishing { object: Box<ObjectRef> },
    /// DEC-58: nothing was computed, or only a part.
    #[error("{0}, see spec.topology.workers")]
    TooLarge(#[from] TopologyTooLarge),
    /// The computation was interrupted and may succeed later (DEC-58).
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A rollout without an end.
    #[error("the rollout of Cluster {cluster} did not complete within {rounds} plans")]
    Endless { cluster: ObjectKey, rounds: usize },
    /// UP-03, UP-06, UP-07.
    #[error(transparent)]
    UnclearVersion(#[from] UnclearVersion),
    /// UP-13 to UP-18.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// UP-15.
    #[error("extension {extension} of the ClusterClass failed to plan the upgrade: {reason}")]
    PlanExtension { extension: String, reason: String },
    /// UP-15, where extensions are not called.
    #[error("the upgrade plan of extension {extension} is not known; call the extension with --extension")]
    PlanNotAsked { extension: String },
    /// UP-24, UP-32.
    #[error("{kind} {name} is at {version}, and the upgrade plan has no step to {target} for it")]
    NoStep { kind: String, name: String, version: String, target: String },
    /// UP-21.
    #[error("cannot convert the selector of {object} to a label selector")]
    Selector { object: ObjectRef },
    /// UP-21.
    #[error("{machine} has no spec.version to compare with the version of {owner}")]
    NoMachineVersion { machine: Box<ObjectRef>, owner: Box<ObjectRef> },
    /// UP-22.
    #[error("Node {node} of {pool} was not found in the workload cluster")]
    NoNode { node: String, pool: ObjectRef },
    /// HK-04, HK-07.
    #[error("hook {hook} failed: {reason}")]
    Hook { hook: Hook, reason: String },
    /// PE-11 to PE-29: all errors of one patch.
    #[error("{}", summary(.0))]
    Patches(Vec<PatchError>),
    /// HK-11: not an error, but nothing may be created yet.
    #[error("{}", .0.message("Cluster topology creation").unwrap_or_default())]
    CreationWaits(Box<HookTracker>),
    /// CT-5.1.
    #[error(transparent)]
    WrongType(#[from] WrongType),
}

/// The cause of an interrupted computation that may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Interrupted {
    /// A timeout, or the caller has disconnected.
    #[error("the computation was stopped before it was complete")]
    Stopped,
    /// Other computations use the memory that they share.
    #[error("other computations use the memory that this one needs")]
    NoMemory,
}

impl Interrupted {
    /// Interrupts a computation that should stop.
    ///
    /// # Errors
    /// When `stop` is due.
    pub(super) fn unless(stop: &Stop) -> Result<(), Interrupted> {
        if stop.is_due() { Err(Interrupted::Stopped) } else { Ok(()) }
    }
}

/// The kind of change that a schema denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeniedChange {
    /// The object is changed in place.
    Update,
    /// A template is replaced if a dry run reports a changed spec.
    Replace,
}

impl DeniedChange {
    const fn explanation(self) -> &'static str {
        match self {
            DeniedChange::Update => "",
            DeniedChange::Replace => ", also in the dry run that decides whether to replace a template (CT-9.2)",
        }
    }
}

impl fmt::Display for DeniedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeniedChange::Update => "changed",
            DeniedChange::Replace => "replaced",
        })
    }
}

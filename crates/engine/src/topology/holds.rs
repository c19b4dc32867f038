//! Parts that a topology holds back, with reasons.

use std::fmt;

use super::Failure;
use super::worker::WorkerKind;
use golang::version::VersionText;
use model::hub::{Hook, ObjectRef, annotation};

/// A part of a topology, or a whole Cluster, that is held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldPart {
    pub kind: String,
    /// The name of the object, or the name in the topology for a new worker.
    pub name: String,
    pub reason: HeldReason,
}

/// Why something is held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldReason {
    /// `spec.paused` of the Cluster (RS-05).
    SpecPaused,
    /// The pause annotation of the Cluster (RS-05).
    PauseAnnotation,
    /// The Cluster is being deleted (RS-05).
    ClusterDeletion,
    /// The part waits for its turn in an upgrade.
    Upgrade(Hold),
    /// A worker that is being deleted still has the generated name of a new one (DEC-36).
    NameInUse { kind: WorkerKind, holder: String },
    /// The machines of a paused object would be replaced (ROLL-18).
    PausedMachines { paused: PausedBy, replaced: Option<i64>, cause: String },
    /// The template is replaced again and again (DEC-35).
    Rotation(FightingTemplate),
    /// Hooks block the deletion of the Cluster, with the message of its condition (DEL-01).
    DeletionHooks { message: String },
    /// The message of a condition of the object, which is about other objects.
    Condition { message: String },
}

/// The object whose pause holds machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PausedBy {
    Cluster,
    /// The owner of the machines.
    Owner,
}

/// The reason for which an upgrade does not change a part yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The control plane has no version yet.
    StillProvisioning,
    /// The machines of the control plane do not have its version yet.
    StillUpgrading {
        version: VersionText,
    },
    /// These workers have to reach this version before the next step.
    WorkersFirst {
        names: Vec<String>,
        version: VersionText,
    },
    /// Machines of these workers do not have the version of their workers yet.
    WorkersUpgrading {
        names: Vec<String>,
    },
    /// The control plane has to have this version first.
    ControlPlaneFirst {
        version: VersionText,
    },
    /// The upgrade concurrency is used up by these workers.
    Concurrency {
        limit: usize,
        names: Vec<String>,
    },
    /// Its own machines do not have its version yet.
    OwnMachines {
        version: VersionText,
    },
    /// An annotation in the metadata of a worker topology.
    Deferred {
        annotation: &'static str,
        on: String,
    },
    Hook {
        hook: Hook,
        message: String,
    },
}

/// A template that is no longer replaced, because it was replaced repeatedly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FightingTemplate {
    /// The current template.
    pub object: ObjectRef,
    /// The first field that differs each time; empty if the template is deleted each time.
    pub path: String,
    /// Whether this is the first plan that holds it, so that it is logged.
    pub is_new: bool,
}

impl HeldReason {
    /// The known remediation for users.
    pub fn remediation(&self) -> Option<&'static str> {
        match self {
            HeldReason::SpecPaused => Some("remove spec.paused from the Cluster"),
            HeldReason::PauseAnnotation => Some("remove the annotation from the Cluster"),
            HeldReason::Upgrade(Hold::Deferred { .. }) => Some("remove the annotation to upgrade the workers"),
            HeldReason::Upgrade(_)
            | HeldReason::ClusterDeletion
            | HeldReason::NameInUse { .. }
            | HeldReason::PausedMachines { .. }
            | HeldReason::Rotation(_)
            | HeldReason::DeletionHooks { .. }
            | HeldReason::Condition { .. } => None,
        }
    }
}

impl fmt::Display for HeldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeldReason::SpecPaused => f.write_str("spec.paused is true"),
            HeldReason::PauseAnnotation => write!(f, "it has the annotation {}", annotation::PAUSED),
            HeldReason::ClusterDeletion => f.write_str("it is being deleted"),
            HeldReason::Upgrade(hold) => hold.fmt(f),
            HeldReason::NameInUse { kind, holder } => {
                write!(f, "waits until {} {holder:?}, which has the same generated name, is deleted", kind.name())
            }
            HeldReason::PausedMachines { paused, replaced, cause } => {
                f.write_str(match paused {
                    PausedBy::Cluster => "its Cluster is paused; ",
                    PausedBy::Owner => "it is paused; ",
                })?;
                match replaced {
                    Some(1) => f.write_str("1 machine")?,
                    Some(machines) => write!(f, "{machines} machines")?,
                    None => f.write_str("its machines")?,
                }
                write!(f, " would be replaced, since {cause}")
            }
            HeldReason::Rotation(fighting) => fighting.fmt(f),
            HeldReason::DeletionHooks { message } | HeldReason::Condition { message } => f.write_str(message),
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hold::StillProvisioning => f.write_str("the control plane is still provisioning"),
            Hold::StillUpgrading { version } => write!(f, "the control plane is still upgrading to {version}"),
            Hold::WorkersFirst { names, version } => {
                write!(f, "waits for workers {} to reach {version}", names.join(", "))
            }
            Hold::WorkersUpgrading { names } => write!(f, "waits for the machines of workers {}", names.join(", ")),
            Hold::ControlPlaneFirst { version } => write!(f, "waits for the control plane to reach {version}"),
            Hold::Concurrency { limit, names } => {
                write!(f, "upgrade concurrency {limit} is used up by {}", names.join(", "))
            }
            Hold::OwnMachines { version } => write!(f, "its machines are still upgrading to {version}"),
            Hold::Deferred { annotation, on } => write!(f, "deferred by annotation {annotation} on {on}"),
            Hold::Hook { hook, message } if message.is_empty() => write!(f, "hook {hook}"),
            Hold::Hook { hook, message } => write!(f, "hook {hook}: {message}"),
        }
    }
}

impl FightingTemplate {
    /// The failure of the topology to reach its desired state.
    pub fn failure(&self) -> Failure {
        let object = Box::new(self.object.clone());
        match self.path.is_empty() {
            true => Failure::KeepsVanishing { object },
            false => Failure::Fighting { object, path: self.path.clone() },
        }
    }
}

impl fmt::Display for FightingTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure().fmt(f)
    }
}

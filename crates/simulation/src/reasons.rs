//! Why Clusters are stuck when a simulation ends.

use std::fmt;

use engine::topology::Failure;
use engine::topology::holds::HeldPart;
use golang::calendar::format_seconds;
use machines::lifecycle::ObjectId;
use machines::lifecycle::conditions::ConditionStatus;
use machines::lifecycle::hooks;
use machines::lifecycle::simulator::StoreError;
use model::hub::ObjectRef;

/// Maximum number of machines in a simulation: each change of one is a step over all machines of its set.
pub(super) const MOST_MACHINES: i64 = 10_000;

/// Why a Cluster does not reach the state of its topology.
#[derive(Clone, Debug, PartialEq)]
pub enum StuckReason {
    /// The Cluster wants more machines than a simulation follows.
    TooManyMachines { wanted: i64 },
    /// The machines of an owner are replaced again and again, with this mean interval.
    EndlessReplacement { owner: String, seconds: i64 },
    /// The run was stopped from outside.
    Stopped,
    /// The run has taken too many steps.
    Exhausted { steps: u64 },
    /// The topology could not be computed or written.
    Topology(RunError),
    /// The topology holds a part back.
    Held(HeldPart),
    /// A step of an object fails.
    Step { id: ObjectId, failure: String },
    /// A condition of the Cluster is not true.
    Condition { name: &'static str, status: ConditionStatus, message: String },
    /// A Machine does not run; the message is that of its provider or of its conditions.
    Machine { name: String, message: String },
    /// A hook holds the deletion of a Machine. The controller that has set it is empty where it is not known, and so is
    /// the time.
    DeletionHook { machine: String, annotation: String, controller: String, since: String },
}

/// Why a run of a topology ends before its steps are written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Topology(#[from] Failure),
    #[error("{0} was not written")]
    NotWritten(ObjectRef),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StuckReason {
    /// What a user can do about it, where that is known.
    pub fn remediation(&self) -> Option<&'static str> {
        match self {
            StuckReason::TooManyMachines { .. } => {
                Some("simulate the Cluster with fewer replicas: the order of the steps is the same")
            }
            StuckReason::EndlessReplacement { .. } => Some(
                "look at health checks that no machine passes, at certificatesExpiryDays, and at failures in the file \
                 of --timings",
            ),
            StuckReason::Stopped => Some("the time of --time-limit is over; a longer one may be enough"),
            StuckReason::Exhausted { .. } => {
                Some("look at templates and naming that differ in each run, and at extensions whose answers differ")
            }
            StuckReason::Topology(RunError::Topology(Failure::NoClass(_))) => {
                Some("add the ClusterClass to the files, or correct spec.topology.classRef")
            }
            StuckReason::Held(held) => held.reason.remediation(),
            StuckReason::DeletionHook { .. } => {
                Some("see that the controller that removes the annotation runs; what it waits for is not simulated")
            }
            StuckReason::Topology(_)
            | StuckReason::Step { .. }
            | StuckReason::Condition { .. }
            | StuckReason::Machine { .. } => None,
        }
    }

    /// Whether a Machine does not get on, which an injected failure can be the cause of.
    pub fn is_of_a_machine(&self) -> bool {
        match self {
            StuckReason::Machine { .. } | StuckReason::DeletionHook { .. } => true,
            StuckReason::Step { id, .. } => &*id.kind.kind == "Machine",
            _ => false,
        }
    }
}

impl fmt::Display for StuckReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StuckReason::TooManyMachines { wanted } => {
                write!(f, "it asks for {wanted} machines, and a simulation follows {MOST_MACHINES} at most")
            }
            StuckReason::EndlessReplacement { owner, seconds: 0 } => {
                write!(f, "the machines of {owner} are replaced at once, without end")
            }
            StuckReason::EndlessReplacement { owner, seconds } => {
                write!(f, "the machines of {owner} are replaced every {}, without end", format_seconds(*seconds))
            }
            StuckReason::Stopped => f.write_str("its simulation was stopped before the end"),
            StuckReason::Exhausted { steps } => {
                write!(f, "its objects change without end: the controllers have taken {steps} steps")
            }
            StuckReason::Topology(error) => error.fmt(f),
            StuckReason::Held(HeldPart { kind, name, reason }) => write!(f, "{kind} {name}: {reason}"),
            StuckReason::Step { id, failure } => write!(f, "{id}: {failure}"),
            StuckReason::Condition { name, status, message } => write!(f, "{name} is {}: {message}", status.name()),
            StuckReason::Machine { name, message } => write!(f, "Machine {name}: {message}"),
            StuckReason::DeletionHook { machine, annotation, controller, since } => {
                write!(f, "Machine {machine}: the annotation {annotation} holds its deletion")?;
                if !since.is_empty() {
                    write!(f, " since {since}")?;
                }
                match (&**annotation, &**controller) {
                    (hooks::CLEANUP, _) => {
                        f.write_str("; its KubeadmControlPlane removes it once enough of its other Machines run")
                    }
                    (_, "") => f.write_str("; the controller that has set it has to remove it"),
                    (_, controller) => write!(f, "; {controller:?} has to remove it"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::topology::holds::{HeldReason, Hold};
    use model::hub::{ObjectKey, annotation};

    #[test]
    fn reasons_have_their_texts_and_what_to_do() {
        let held = |reason| StuckReason::Held(HeldPart { kind: "Cluster".to_owned(), name: "blue".to_owned(), reason });
        let hook = |annotation: &str, controller: &str, since: &str| StuckReason::DeletionHook {
            machine: "m".to_owned(),
            annotation: annotation.to_owned(),
            controller: controller.to_owned(),
            since: since.to_owned(),
        };
        let deferred = Hold::Deferred { annotation: annotation::DEFER_UPGRADE, on: "md".to_owned() };
        let no_class = Failure::NoClass(ObjectKey::new("default", "small"));
        let endless = |seconds| StuckReason::EndlessReplacement { owner: "md".to_owned(), seconds };
        for (reason, text, remediation) in [
            (
                held(HeldReason::SpecPaused),
                "Cluster blue: spec.paused is true",
                Some("remove spec.paused from the Cluster"),
            ),
            (
                held(HeldReason::PauseAnnotation),
                "Cluster blue: it has the annotation cluster.x-k8s.io/paused",
                Some("remove the annotation from the Cluster"),
            ),
            (
                held(HeldReason::Upgrade(deferred)),
                "Cluster blue: deferred by annotation topology.cluster.x-k8s.io/defer-upgrade on md",
                Some("remove the annotation to upgrade the workers"),
            ),
            (
                held(HeldReason::Condition { message: "spec.paused is true".to_owned() }),
                "Cluster blue: spec.paused is true",
                None,
            ),
            (
                StuckReason::Topology(no_class.into()),
                "ClusterClass default/small was not found",
                Some("add the ClusterClass to the files, or correct spec.topology.classRef"),
            ),
            (
                hook(hooks::CLEANUP, "", "noon"),
                "Machine m: the annotation pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup holds its \
                 deletion since noon; its KubeadmControlPlane removes it once enough of its other Machines run",
                Some("see that the controller that removes the annotation runs; what it waits for is not simulated"),
            ),
            (
                hook("mine", "me", ""),
                "Machine m: the annotation mine holds its deletion; \"me\" has to remove it",
                Some("see that the controller that removes the annotation runs; what it waits for is not simulated"),
            ),
            (
                endless(0),
                "the machines of md are replaced at once, without end",
                Some(
                    "look at health checks that no machine passes, at certificatesExpiryDays, and at failures in the \
                     file of --timings",
                ),
            ),
            (
                StuckReason::Machine { name: "m".to_owned(), message: "spec.paused is true".to_owned() },
                "Machine m: spec.paused is true",
                None,
            ),
        ] {
            assert_eq!((&*reason.to_string(), reason.remediation()), (text, remediation));
        }
        assert_eq!(endless(90).to_string(), "the machines of md are replaced every 1m30s, without end");
    }
}

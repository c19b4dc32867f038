//! Flows of infrastructure objects in step order, as drawn in documents (CT-18.1 to CT-18.4). A test follows them.

/// A question of a step, the answer at which the step ends, and its last action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowQuestion {
    pub asks: &'static str,
    pub ends_at: FlowAnswer,
    pub then: &'static str,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowAnswer {
    Yes,
    No,
}

impl FlowAnswer {
    /// The label in diagrams.
    pub const fn name(self) -> &'static str {
        match self {
            FlowAnswer::Yes => "yes",
            FlowAnswer::No => "no",
        }
    }

    /// The opposite answer.
    pub const fn other(self) -> FlowAnswer {
        match self {
            FlowAnswer::Yes => FlowAnswer::No,
            FlowAnswer::No => FlowAnswer::Yes,
        }
    }
}

/// The flow of an object, run on every change of it or of an object around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub begins: &'static str,
    pub questions: &'static [FlowQuestion],
    /// The action if no question has ended the step.
    pub ends: &'static str,
}

const fn ask(asks: &'static str, ends_at: FlowAnswer, then: &'static str) -> FlowQuestion {
    FlowQuestion { asks, ends_at, then }
}

const PAUSED: FlowQuestion = ask("Is it or its Cluster paused?", FlowAnswer::Yes, "set the condition Paused, stop");
const FINALIZER: FlowQuestion =
    ask("Is it deleted, or has it the finalizer?", FlowAnswer::No, "add the finalizer, stop");

/// The flow of an infrastructure cluster (CT-18.1, CT-18.2).
pub const CLUSTER_FLOW: Flow = Flow {
    begins: "an infrastructure cluster, or its Cluster, has changed",
    questions: &[
        ask("Does a Cluster own it?", FlowAnswer::No, "if it is deleted, remove the finalizer, then stop"),
        ask("Has it the annotation managed-by?", FlowAnswer::Yes, "stop"),
        PAUSED,
        FINALIZER,
        ask("Is it deleted?", FlowAnswer::Yes, "delete the infrastructure, and once it is gone, remove the finalizer"),
        ask("Is the infrastructure there?", FlowAnswer::No, "create it, set the reason Provisioning, look again later"),
    ],
    ends: "set the endpoint unless the Cluster has one, the failure domains, then the flag",
};

/// The flow of an infrastructure machine (CT-18.3, CT-18.4).
pub const MACHINE_FLOW: Flow = Flow {
    begins: "an infrastructure machine, its Machine or its Cluster has changed",
    questions: &[
        ask(
            "Does a Machine with a Cluster own it?",
            FlowAnswer::No,
            "if it is deleted, remove the finalizer, then stop",
        ),
        PAUSED,
        FINALIZER,
        ask(
            "Is it deleted?",
            FlowAnswer::Yes,
            "delete Node and instance, and once they are gone, remove the finalizer",
        ),
        ask(
            "Is the infrastructure of the Cluster provisioned?",
            FlowAnswer::No,
            "set the reason WaitingForClusterInfrastructure, stop",
        ),
        ask(
            "Is it a control plane machine, or is there data, or is the control plane initialized?",
            FlowAnswer::No,
            "set the reason WaitingForControlPlaneInitialized, stop",
        ),
        ask("Does the Machine name bootstrap data?", FlowAnswer::No, "set the reason WaitingForBootstrapData, stop"),
        ask("Does the instance run?", FlowAnswer::No, "create it, set the reason Provisioning, look again later"),
    ],
    ends: "set the provider ID, the addresses and the failure domain, then the flag",
};

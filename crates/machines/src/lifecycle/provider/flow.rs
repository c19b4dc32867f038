//! The flows of infrastructure objects in the order of their steps, as documents draw them (CT-18.1 to CT-18.4). A test walks through them.

/// A question that a step asks, the answer at which it ends, and what it does before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    pub asks: &'static str,
    pub ends_at: Answer,
    pub then: &'static str,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
}

impl Answer {
    /// As pictures have it.
    pub const fn name(self) -> &'static str {
        match self {
            Answer::Yes => "yes",
            Answer::No => "no",
        }
    }

    /// The other one.
    pub const fn other(self) -> Answer {
        match self {
            Answer::Yes => Answer::No,
            Answer::No => Answer::Yes,
        }
    }
}

/// What an object goes through whenever it or an object around it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub begins: &'static str,
    pub questions: &'static [Question],
    /// What is written when no question has ended the step.
    pub ends: &'static str,
}

const fn ask(asks: &'static str, ends_at: Answer, then: &'static str) -> Question {
    Question { asks, ends_at, then }
}

const PAUSED: Question = ask("Is it or its Cluster paused?", Answer::Yes, "set the condition Paused, stop");
const FINALIZER: Question = ask("Is it deleted, or has it the finalizer?", Answer::No, "add the finalizer, stop");

/// The flow of an infrastructure cluster (CT-18.1, CT-18.2).
pub const CLUSTER_FLOW: Flow = Flow {
    begins: "an infrastructure cluster, or its Cluster, has changed",
    questions: &[
        ask("Does a Cluster own it?", Answer::No, "if it is deleted, remove the finalizer, then stop"),
        ask("Has it the annotation managed-by?", Answer::Yes, "stop"),
        PAUSED,
        FINALIZER,
        ask("Is it deleted?", Answer::Yes, "delete the infrastructure, and once it is gone, remove the finalizer"),
        ask("Is the infrastructure there?", Answer::No, "create it, set the reason Provisioning, look again later"),
    ],
    ends: "set the endpoint unless the Cluster has one, the failure domains, then the flag",
};

/// The flow of an infrastructure machine (CT-18.3, CT-18.4).
pub const MACHINE_FLOW: Flow = Flow {
    begins: "an infrastructure machine, its Machine or its Cluster has changed",
    questions: &[
        ask("Does a Machine with a Cluster own it?", Answer::No, "if it is deleted, remove the finalizer, then stop"),
        PAUSED,
        FINALIZER,
        ask("Is it deleted?", Answer::Yes, "delete Node and instance, and once they are gone, remove the finalizer"),
        ask(
            "Is the infrastructure of the Cluster provisioned?",
            Answer::No,
            "set the reason WaitingForClusterInfrastructure, stop",
        ),
        ask(
            "Is it a control plane machine, or is there data, or is the control plane initialized?",
            Answer::No,
            "set the reason WaitingForControlPlaneInitialized, stop",
        ),
        ask("Does the Machine name bootstrap data?", Answer::No, "set the reason WaitingForBootstrapData, stop"),
        ask("Does the instance run?", Answer::No, "create it, set the reason Provisioning, look again later"),
    ],
    ends: "set the provider ID, the addresses and the failure domain, then the flag",
};

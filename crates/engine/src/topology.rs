//! The computations of topologies and classes: reconcilers write the results, and commands print them.
//!
//! The API is that of Cluster API's
//! [ClusterClass](https://cluster-api.sigs.k8s.io/tasks/experimental-features/cluster-class/).
//!
//! ```text
//! ClusterClass ─► class_references.rs: its templates, and whether their versions are the newest ─┐
//!              └► class_variables.rs ─► class_status.rs ────────────────────────────────────────────────┴─► status
//!
//! Cluster ─► blueprint.rs (class, templates) ─► current.rs (existing objects) ─► upgrade/ (versions) ─► desired/ (one function
//!            for each object) ─► patches/ ─► plan/ (steps, the machines that they replace, folds) ─► rotations.rs (holds
//!            templates that are replaced again and again)
//! holds.rs: parts that are held back, with reasons
//! refusals.rs: what the schemas of definitions refuse of the objects that are written
//! inspection.rs: what they refuse of a whole topology
//! mitigation.rs: repair of managedFields that were lost
//! claims.rs: whether the names of new objects are free
//! ownership.rs: whether an existing object belongs to another Cluster or to another part of the topology
//! size.rs: how large a topology is, before it is computed
//! name_independence.rs, equivalent_clusters.rs: Clusters with equal plans apart from names
//! explanations.rs: failures and gaps of computations in words, with hints
//! ```
//!
//! All functions are pure: facts, new names and switches are arguments.

pub mod blueprint;
mod claims;
pub mod class_references;
pub mod class_status;
pub mod class_variables;
mod compute;
pub(crate) mod conditions;
mod contract;
mod current;
pub mod desired;
pub mod equivalent_clusters;
pub mod explanations;
mod failure;
mod field_path;
pub mod holds;
pub mod hooks;
pub mod inspection;
pub mod mitigation;
pub mod name_independence;
pub mod origin;
pub mod ownership;
pub mod patches;
pub mod plan;
pub mod problems;
pub mod refusals;
pub mod rollout_record;
pub mod rotations;
pub mod shim;
pub mod size;
pub mod status;
pub mod templates_in_use;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod upgrade;
pub mod worker;

pub use compute::{Computation, ObservedState};
pub use failure::{Failure, Interrupted};
pub use size::{SizeLimit, TopologySize};

/// Switches and bounds of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether Runtime Extensions are enabled (feature gate `RuntimeSDK`). Without them no hook is called or awaited
    /// (HK-01), and a class with external patches cannot be used (PE-11).
    pub runtime_sdk: bool,
    /// The limit on the size of the topology (DEC-58).
    pub limit: SizeLimit,
}

impl Options {
    /// Options without a limit.
    pub const fn new(runtime_sdk: bool) -> Self {
        Options { runtime_sdk, limit: SizeLimit::NONE }
    }

    /// Sets a limit on the size of the topology.
    #[must_use]
    pub const fn within(self, limit: SizeLimit) -> Self {
        Options { limit, ..self }
    }
}

//! What topologies and their classes come to: the computations that reconcilers carry out and commands show.
//!
//! ```text
//! ClusterClass ─► class_references.rs: which templates, and are their versions the newest ─┐
//!              └► class_status.rs: which variables ────────────────────────────────────────┴─► status
//!
//! Cluster ─► blueprint.rs (class, templates) ─► current.rs (what there is) ─► upgrade/ (versions) ─► desired/ (one function
//!            for each object) ─► patches/ ─► plan/ (steps, the machines that they replace, folds) ─► rotations.rs (one too
//!            many is held)
//! mitigation.rs: records of field owners that got lost
//! nameless.rs: whether the plan for one Cluster holds for others
//! ```
//!
//! All of it is pure: what varies (facts, fresh names, switches) is an argument.

pub mod blueprint;
pub mod class_references;
pub mod class_status;
mod compute;
mod conditions;
pub mod contract;
mod current;
pub mod desired;
mod failure;
mod field_path;
pub mod hooks;
pub mod mitigation;
pub mod nameless;
pub mod names;
pub mod origin;
pub mod patches;
pub mod plan;
pub mod rotations;
pub mod shim;
pub mod status;
pub mod templates_in_use;
#[cfg(test)]
pub(crate) mod testing;
pub mod upgrade;
pub mod worker;

pub use compute::{Computation, Observed};
pub use failure::Failure;

/// Switches of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether Runtime Extensions take part (feature gate `RuntimeSDK`): without it no hook is called or waited for
    /// (HK-01), and a class with external patches cannot be used (PE-11).
    pub runtime_sdk: bool,
}

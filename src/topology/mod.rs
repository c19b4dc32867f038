//! What topologies and their classes come to: the computations that reconcilers carry out and commands show.
//!
//! ```text
//! ClusterClass ─► class_references.rs: which templates, and are their versions the newest ─┐
//!              └► class_status.rs: which variables ────────────────────────────────────────┴─► status
//!
//! Cluster, class, templates ─► desired/: objects ─► patches/: what the class has patches do to them
//! ```

pub mod blueprint;
pub mod class_references;
pub mod class_status;
pub mod contract;
pub mod current;
pub mod desired;
mod failure;
pub mod field_path;
pub mod names;
pub mod origin;
pub mod patches;
pub mod upgrade;
pub mod worker;

pub use failure::Failure;

/// Switches of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether Runtime Extensions take part (feature gate `RuntimeSDK`): without it no hook is called or waited for
    /// (HK-01), and a class with external patches cannot be used (PE-11).
    pub runtime_sdk: bool,
}

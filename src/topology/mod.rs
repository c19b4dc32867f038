//! What topologies and their classes come to: the computations that reconcilers carry out and commands show.
//!
//! ```text
//! ClusterClass ─► class_references.rs: which templates, and are their versions the newest ─┐
//!              └► class_status.rs: which variables ────────────────────────────────────────┴─► status
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
pub mod worker;

pub use failure::Failure;

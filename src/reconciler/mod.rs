//! Reconcilers: what one leading process writes to the API server.
//!
//! ```text
//! lease.rs: who leads ─► Leadership ─► every write asks may_write() first
//!                            │
//!                            ├─► controller.rs: watches and queue of ClusterClasses ─► class.rs: one run
//!                            ├─► topology/: watches and queue of Clusters ─► one run
//!                            └─► templates/: watches and queues of MachineDeployments and MachineSets ─► one run
//! ```

mod class;
pub mod controller;
pub mod incumbent;
pub mod lease;
pub mod names;
pub mod owners;
mod pace;
mod raw;
pub mod templates;
#[cfg(test)]
mod testing;
pub mod topology;

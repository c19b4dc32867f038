//! Reconcilers: what one leading process writes to the API server.
//!
//! ```text
//! kubernetes::lease: who leads ─► Leadership ─► every write asks may_write() first
//!                                    │
//!                                    ├─► controller.rs: watches and queue of ClusterClasses ─► class.rs: one run
//!                                    ├─► topology/: watches and queue of Clusters ─► one run
//!                                    ├─► templates/: watches and queues of MachineDeployments and MachineSets ─► one run
//!                                    └─► owners.rs: what the Cluster owns, where nobody else sees to it
//! ```

use k8s_openapi::jiff::Timestamp;

mod class;
pub mod controller;
pub mod names;
pub mod owners;
mod pace;
mod raw;
mod runs;
pub mod templates;
pub mod topology;

/// The present moment, as conditions have it.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

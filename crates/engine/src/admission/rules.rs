//! The rules, one file per subject.
//!
//! ```text
//! cluster.rs   a Cluster by itself, and the order of everything below
//!   ├─ topology.rs   its topology, alone and against the class
//!   ├─ generated_names.rs  names of its parts
//!   ├─ deprecation.rs values that the class deprecates
//!   ├─ version.rs    version changes
//!   │    └─ upgrade.rs    whether the running cluster is ready for one
//!   └─ rebase.rs     class changes
//! class.rs     a ClusterClass by itself
//!   ├─ names.rs        its naming templates
//!   ├─ definitions.rs  its variables
//!   ├─ patches.rs      its patches
//!   ├─ dependents.rs   a class against the Clusters that use it
//!   └─ breakage.rs     whether their variables still fit
//! references.rs  what becomes part of a URL
//! machine.rs, machine_group.rs, machine_health_check.rs   machines, where they are driven here
//! class_change.rs, topology_change.rs  what the rules of both are about
//! shared.rs    checks that several rules use
//! ```

mod breakage;
pub(super) mod class;
mod class_change;
pub(super) mod cluster;
mod definitions;
mod dependents;
mod deprecation;
mod generated_names;
mod hints;
pub(super) mod machine;
pub(super) mod machine_group;
pub(super) mod machine_health_check;
mod names;
mod patches;
mod rebase;
mod references;
pub(super) mod shared;
pub(super) mod topology;
mod topology_change;
mod upgrade;
mod version;

pub use breakage::clusters_that_break;
pub use definitions::{usable_variables, variable_problem};

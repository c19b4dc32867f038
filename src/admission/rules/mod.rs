//! The rules, one file per subject.
//!
//! ```text
//! cluster.rs   a Cluster by itself, and the order of everything below
//!   ├─ topology.rs   its topology, alone and against the class
//!   ├─ version.rs    version changes
//!   └─ rebase.rs     class changes
//! class.rs     a ClusterClass by itself
//!   └─ dependents.rs  a class against the Clusters that use it
//! shared.rs    checks that several rules use
//! ```

pub(super) mod class;
pub(super) mod cluster;
mod dependents;
mod rebase;
mod shared;
mod topology;
mod version;

use super::Listed;
use crate::hub::{Kind, compatibility};

/// Every rule that can deny or warn; shared checks last.
pub(super) fn catalogue() -> Vec<Listed> {
    let defaults = [("CL-D-002", "version_starts_with_v"), ("CL-D-003", "class_is_named")];
    let defaults = defaults.into_iter().map(|(id, name)| Listed { id, name, kind: Some(Kind::Cluster) });
    let shared = shared::LISTED.iter().chain(compatibility::LISTED).map(|(id, name)| Listed { id, name, kind: None });
    defaults.chain(cluster::listed_rules()).chain(class::listed_rules()).chain(shared).collect()
}

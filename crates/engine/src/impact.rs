//! The impact of an edit of a ClusterClass, a Cluster or a template on machines, before it is stored.
//!
//! ```text
//! Edit ─► ImpactInputs: facts before and after, affected Clusters ─► cluster_impact.rs, Cluster by Cluster ─► Tally
//!                                                                                                              │
//!                           warnings and audit annotation (warnings.rs) ◄── Impact (totals, groups) ◄──────────┘
//! ```
//!
//! The objects of one edited or new Cluster are also checked against the known schemas of their definitions.
//!
//! What cannot be computed has an upper bound (bound.rs), and machines that are outdated before the edit count only if
//! it releases them (released_machines.rs).
//!
//! Topologies that are too large to compute are found by their size alone (size.rs).
//!
//! A ceiling (ceiling.rs), which is opt-in, turns an impact into a denial unless the edited object approves of it.
//!
//! Both sides are desired states, computed and compared as `plan --from --to` does; machines are never read. A
//! review has little time, so the work can end at any Cluster: the sums so far are scaled up then, and the
//! impact says that it is an estimate.

mod bound;
mod inputs;
mod ceiling;
mod cluster_impact;
mod edit;
mod released_machines;
mod size;
mod tally;
mod warnings;
mod worker_states;

pub use bound::AffectedClusters;
pub use ceiling::{APPROVED_IMPACT, Ceiling, MAX_REPLACED_MACHINES, UnknownImpact, endless, endless_template};
pub use cluster_impact::{ClusterGroups, GroupQueue, Inspection};
pub use edit::{Edit, EditId, classes_with, is_of_a_class};
pub use inputs::{ImpactInputs, UnreadableFact};
pub use size::{Breaking, SizeRules, SizeVerdict};
pub use tally::{Completeness, Impact, ImpactCounts, ImpactGroup, Tally};
pub use warnings::with_refusals;
pub use worker_states::worker_state;

#[cfg(test)]
mod tests;

//! What an edit of a ClusterClass, a Cluster or a template does to machines, before it is stored.
//!
//! ```text
//! Edit ─► Case: the facts before and after, the Clusters it concerns ─► compare.rs, Cluster by Cluster ─► Tally
//!                                                                                                       │
//!                        warnings and audit annotation (words.rs) ◄── Impact (totals, groups) ◄─────────┘
//! ```
//!
//! The objects of one edited or new Cluster are also checked against the schemas of their definitions, as far as these are known.
//!
//! What cannot be computed has an upper bound (bound.rs), and machines that are outdated before the edit count only if it releases
//! them (released.rs).
//!
//! Topologies that are too large to compute are found by their size alone (size.rs).
//!
//! A ceiling (ceiling.rs), which is opt-in, turns an impact into a denial unless the edited object approves of it.
//!
//! Both sides are desired states, computed and compared as `plan --from --to` does; machines are never read. A
//! review has little time, so the work can end at any Cluster: the sums so far are scaled up then, and the
//! impact says that it is an estimate.

mod bound;
mod case;
mod ceiling;
mod compare;
mod edit;
mod released;
mod size;
mod tally;
mod words;

pub use bound::Extent;
pub use case::Case;
pub use ceiling::{APPROVED_IMPACT, Ceiling, MAX_REPLACED_MACHINES, UnknownImpact, endless, endless_template};
pub use compare::Inspection;
pub use edit::{Edit, EditId, classes_with, is_of_a_class};
pub use size::{Breaking, SizeRules, SizeVerdict};
pub use tally::{Completeness, Count, Group, Impact, Tally};
pub use words::with_refusals;

#[cfg(test)]
mod tests;

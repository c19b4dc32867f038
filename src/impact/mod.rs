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
//! A ceiling (ceiling.rs), which is opt-in, turns an impact into a denial unless the edited object approves of it.
//!
//! Both sides are desired states, computed and compared as `plan --from --to` does; current objects are never read. A
//! review has little time, so the work can end at any Cluster: the sums so far are scaled up then, and the
//! impact says that it is an estimate.

mod case;
mod ceiling;
mod compare;
mod tally;
mod words;

pub use case::{Case, Edit, classes_with, is_of_a_class};
pub use ceiling::{APPROVED_IMPACT, Ceiling, MAX_REPLACED_MACHINES};
pub use tally::{Count, Group, Impact, Tally};
pub use words::with_refusals;

#[cfg(test)]
mod tests;

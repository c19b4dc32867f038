//! Admission of Clusters and ClusterClasses: their defaults, and the rules that decide whether they may be stored. The same for
//! machines, if topologist runs their lifecycle.
//!
//! ```text
//! request ─► Question (decoded once) ─► answer(World, Settings) ─► Verdict
//!                 router: kind × phase ─► defaults/<kind>.rs, rules/<kind>.rs
//! ```
//!
//! Everything here is a function of its arguments. A rule is one function. Its name is a fact that is true for valid objects. The
//! tables in `rules/` pair it with its id, and [`catalogue`] lists all rules.

mod catalogue;
mod defaults;
mod lists;
mod oversize;
mod router;
mod rule;
mod rules;
mod settings;
mod unexamined;
mod unreadable;
mod verdict;

pub use catalogue::catalogue;
pub use oversize::Oversize;
pub use router::{END_POINTS, Edited, EndPoint, Hook, MACHINE_END_POINTS, Operation, Phase, Question, Request, hooks};
pub use rule::Listed;
pub use rules::{clusters_that_break, usable_variables, variable_problem};
pub use settings::{Dependents, Deprecated, Enforce, FeatureGates, Settings, UnknownGate};
pub use verdict::{Outcome, Verdict};

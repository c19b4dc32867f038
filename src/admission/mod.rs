//! What a Cluster or ClusterClass must be like to be stored, and what their machines where these are driven here.
//!
//! ```text
//! request ─► Question (decoded once) ─► answer(World, Settings) ─► Verdict
//!                 router: kind × phase ─► defaults/<kind>.rs, rules/<kind>.rs
//! ```
//!
//! Everything here is a function of its arguments. A rule is one function named after the fact that holds for good
//! objects; the tables in `rules/` pair it with its id, and [`catalogue`] lists them all.

mod catalogue;
mod defaults;
mod lists;
mod oversize;
mod router;
mod rule;
mod rules;
mod settings;
mod verdict;

pub use catalogue::catalogue;
pub use oversize::Oversize;
pub use router::{END_POINTS, Edited, EndPoint, Hook, MACHINE_END_POINTS, Operation, Phase, Question, Request, hooks};
pub use rule::Listed;
pub use settings::{Dependents, Deprecated, Enforce, FeatureGates, Settings, UnknownGate};
pub use verdict::{Outcome, Verdict};

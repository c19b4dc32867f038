//! Admission of Clusters and ClusterClasses: their defaults, and the rules that decide whether they may be stored. The
//! same for machines, if topologist runs their lifecycle.
//!
//! ```text
//! RawRequest ─► DecodedRequest ─► answer(World, AdmissionSettings) ─► Verdict
//!                 router: kind × phase ─► defaults/<kind>.rs, rules/<kind>.rs
//! ```
//!
//! Everything here is a function of its arguments. A rule is one function. Its name is a fact that is true for valid
//! objects. The tables in `rules/` pair it with its id, and [`catalogue`] lists all rules.

mod catalogue;
mod defaults;
mod lists;
mod oversize;
mod router;
mod rule;
mod rules;
mod settings;
mod exemptions;
mod undecodable_clusters;
mod verdict;
mod workers;

pub use catalogue::catalogue;
pub use oversize::Oversize;
pub use router::{
    DecodedRequest, END_POINTS, EditedObject, EndPoint, MACHINE_END_POINTS, Operation, Phase, RawRequest, WebhookRules,
    WrongReview, webhook_rules,
};
pub use rule::ListedRule;
pub use rules::{clusters_that_break, usable_variables, variable_problem};
pub use settings::{AdmissionSettings, Dependents, Deprecated, Enforce, FeatureGates, UnknownGate};
pub use verdict::{AdmissionOutcome, Verdict};

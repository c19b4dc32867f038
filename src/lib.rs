//! Guards and rolls out Cluster API managed topologies.
//!
//! ```text
//!  request, file or watch event
//!       │ decode
//!       ▼
//!      hub ─────► World ◄── gather ◄── Needs        facts first: from the API server or from files
//!       │                                │
//!       ├─ admission   defaults → rules ─┴───────────► Verdict ─► response   (webhook; `validate`)
//!       ├─ topology    blueprint → desired → patches → plan ► Plan ──► apply     (reconciler)
//!       │                                                       └────► print     (`plan`)
//!       └─ impact      both sides of an edit, folded ───► Impact ────► warnings  (webhook)
//! ```
//!
//! Leaves hold nothing of Cluster API. The pure core turns a World into a Verdict or a Plan without IO, clock or randomness.
//! The edges own sockets, files and time. Where there is no API server, `embedded` is one, in memory. Modules use only those
//! that stand above them; `tests/stories/layering.rs` has a row for each.

// Leaves: nothing of Cluster API in them.
pub mod field;
pub mod json;
pub mod budget;
pub mod calendar;
pub mod version;
pub mod goregex;
pub mod yaml;
pub mod gotemplate;
pub mod cel;
pub mod schema;
pub mod ssa;

// Pure core.
pub mod hub;
pub mod wire;
pub mod crd;
pub mod variables;
pub mod world;
pub mod rollouts;
pub mod admission;
pub mod topology;
pub mod impact;

// Edges: async, sockets, files, clock, randomness.
pub mod kubernetes;
pub mod certificates;
pub mod embedded;
pub mod webhook;
pub mod reconciler;
pub mod telemetry;
pub mod cli;

#[cfg(test)]
mod testing;

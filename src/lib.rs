//! Guards and rolls out Cluster API managed topologies.
//!
//! ```text
//!  request, file or watch event
//!       │ decode
//!       ▼
//!      hub ─────► World ◄── gather ◄── Needs        facts first: from the API server or from files
//!       │                                │
//!       └─ admission   defaults → rules ─┴───────────► Verdict ─► response   (webhook; `validate`)
//! ```
//!
//! Leaves know nothing of Cluster API; the pure core turns a World into a Verdict without IO, clock or randomness; the
//! edges own sockets, files and time. Where there is no API server, `embedded` is one, in memory.

// Leaves.
pub mod budget;
pub mod calendar;
pub mod cel;
pub mod field;
pub mod goregex;
pub mod gotemplate;
pub mod json;
pub mod schema;
pub mod ssa;
pub mod version;
pub mod yaml;

// Pure core.
pub mod admission;
pub mod crd;
pub mod hub;
pub mod rollouts;
pub mod topology;
pub mod variables;
pub mod wire;
pub mod world;

// Edges: async, sockets, files, clock, randomness.
pub mod certificates;
pub mod cli;
pub mod embedded;
pub mod kubernetes;
pub mod reconciler;
pub mod telemetry;
pub mod webhook;

#[cfg(test)]
mod testing;

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
//! Leaves contain nothing specific to Cluster API. The pure core turns a World into a Verdict or a Plan without IO, clock or
//! randomness. The edges have the sockets, files and time. `embedded` is an API server in memory, for use without a cluster. A module
//! uses only modules that are listed before it; `tests/stories/layering.rs` has a row for each.

// Leaves: nothing specific to Cluster API.

// Pure core.
pub mod hub;
pub mod wire;
pub mod crd;
pub mod variables;
pub mod world;
pub mod rollouts;
pub mod admission;
pub mod topology;
pub mod lifecycle;
pub mod simulation;
pub mod provider_contract;
pub mod impact;
pub mod extensions;

// Edges: async, sockets, files, clock, randomness.
pub mod extension_client;
pub mod kubernetes;
pub mod certificates;
pub mod extension;
pub mod embedded;
pub mod webhook;
pub mod reconciler;
pub mod telemetry;
pub mod cli;

pub use golang::{calendar, json, regexp, template, version, yaml};
pub use schema::{budget, cel, field, openapi, ssa};

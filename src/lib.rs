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

// Edges: async, sockets, files, clock, randomness.
pub mod cli;

pub use apiserver as embedded;
pub use engine::{admission, extensions, impact, topology};
pub use extension;
pub use golang::{calendar, json, regexp, template, version, yaml};
pub use machines::{lifecycle, provider_contract};
pub use model::{crd, hub, rollouts, variables, wire, world};
pub use schema::{budget, cel, field, openapi, ssa};
pub use server::{certificates, extension_client, kubernetes, reconciler, telemetry, webhook};
pub use simulation;
pub use tls;

//! Guards and rolls out Cluster API managed topologies.
//!
//! ```text
//!  cli ──► server ──────────────┬──► engine ──► model ──► schema ──► golang
//!   │        webhook            │      ▲
//!   │        reconciler ──► machines   │
//!   ├──► simulation ────────────┴──────┘
//!   └──► apiserver                            the API server in memory
//! ```
//!
//! This package is the program: what a user types. The libraries are in `crates/`, and each of them says what it is and
//! what it may not know. They are exported here as modules.

pub mod cli;

pub use apiserver as embedded;
pub use engine::{admission, extensions, impact, topology};
pub use golang::{calendar, json, regexp, template, version, yaml};
pub use machines::{lifecycle, provider_contract};
pub use model::{crd, garbage, hub, rollouts, variables, wire, world};
pub use schema::{budget, cel, field, openapi, ssa};
pub use server::{certificates, extension_client, kubernetes, reconciler, telemetry, webhook};
pub use simulation;
pub use tls;

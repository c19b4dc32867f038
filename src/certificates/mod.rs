//! Certificates: those that the server presents, and those of clients that it accepts (X.509 v3,
//! [RFC 5280](https://www.rfc-editor.org/rfc/rfc5280)).
//!
//! ```text
//! files ──► pair.rs (read and checked) ──► tls.rs (swapped while serving) ◄── callers.rs (accepted client certificates)
//!                                             ▲
//!              ┌──────────────────────────────┘
//! Secret ─► self_managed.rs ─► rotation.rs (what to do next) ─► authority.rs (keys and signatures)
//!              └─► bundles.rs (the CAs that the API server trusts: webhook configurations, definitions)
//! ```

pub mod authority;
pub mod bundles;
mod disputes;
mod registrations;
pub mod callers;
pub mod pair;
pub mod rotation;
pub mod self_managed;
pub mod tls;

//! Certificates: those that the server presents, and those of clients that it accepts (X.509 v3,
//! [RFC 5280](https://www.rfc-editor.org/rfc/rfc5280)).
//!
//! ```text
//! files ──► tls::pair (read and checked) ──► tls::identity (swapped while serving) ◄── tls::callers (accepted client certificates)
//!                                             ▲
//!              ┌──────────────────────────────┘
//! Secret ─► self_managed.rs ─► rotation.rs (the next step) ───► tls::authority (keys and signatures)
//!              └─► bundles.rs (the CAs that the API server trusts: webhook configurations, definitions)
//! ```

pub mod bundles;
mod disputes;
mod registrations;
pub mod rotation;
pub mod self_managed;

//! Certificates: those that are shown and those that are accepted.
//!
//! ```text
//! files ──► pair.rs (read and checked) ──► tls.rs (swapped while serving) ◄── callers.rs (accepted client certificates)
//!                                             ▲
//!              ┌──────────────────────────────┘
//! Secret ─► self_managed.rs ─► rotation.rs (what to do next) ─► authority.rs (keys and signatures)
//!              └─► bundles.rs (whom the API server trusts: webhook configurations, definitions)
//! ```

pub mod authority;
pub mod bundles;
pub mod callers;
pub mod pair;
pub mod rotation;
pub mod self_managed;
pub mod tls;

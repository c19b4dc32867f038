//! Certificate and key files, and the identity that a server presents with them.
//!
//! ```text
//!  files ─► pair ─► identity ─► rustls::ServerConfig of the next handshake
//!           callers ──┘          the certificates that clients have to show
//! ```
//!
//! The server and the library for Runtime Extensions load files in the same way. Nothing here depends on Kubernetes.

#[cfg(any(test, feature = "authority"))]
pub mod authority;
pub mod callers;
pub mod identity;
pub mod pair;

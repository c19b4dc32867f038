//! Certificate and key files, and the identity that a server presents with them.
//!
//! ```text
//!  files ─► pair ─► identity ─► rustls::ServerConfig of the next handshake
//!           callers ──┘          the certificates that clients have to show
//! ```
//!
//! The server and the library for Runtime Extensions read the same files in the same way. Kubernetes is not known here.

#[cfg(any(test, feature = "authority"))]
pub mod authority;
pub mod callers;
pub mod identity;
pub mod pair;

//! The HTTPS service that kube-apiserver calls.
//!
//! ```text
//! socket ─► server.rs (limits, TLS handshake, HTTP/1.1 and HTTP/2) ─► handler.rs ─► admission
//!              ├─ tls.rs (certificates, swapped while serving)     │     ├─ kubernetes::gather
//!              └─ callers.rs (whose client certificates            │     └─ queue.rs (whose turn it is)
//!                 are accepted)                                    │     turns.rs (whose turn it is at the threads)
//!                                                                  └─► conversion.rs ─► wire
//! embedded API ─► in_process.rs ─► handler.rs
//! ```

pub mod authority;
mod body;
pub mod bundles;
pub mod callers;
mod connection;
pub mod conversion;
pub mod handler;
pub mod in_process;
mod places;
mod queue;
pub mod rotation;
pub mod self_managed;
pub mod server;
pub mod tls;
mod turns;

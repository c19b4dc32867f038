//! The HTTPS service that kube-apiserver calls.
//!
//! ```text
//! socket ─► server.rs (limits, TLS handshake, HTTP/1.1 and HTTP/2) ─► review.rs ──► admission
//!              └─ certificates::tls                                │     ├─ kubernetes::gather
//!                                                                  │     └─ queue.rs (whose turn it is)
//!                                                                  │     turns.rs (whose turn it is at the threads)
//!                                                                  └─► conversion.rs ─► wire
//! impact.rs: what an allowed edit does to machines, as warnings
//! templates.rs: reviews of the templates of classes, for their impact alone
//! probes.rs: whether this process is alive and ready, on a port of its own
//! ```

mod asked;
mod body;
mod connection;
pub mod conversion;
mod impact;
pub mod limits;
mod places;
pub mod probes;
mod queue;
mod refusal;
pub mod review;
pub mod server;
pub mod templates;
mod turns;
mod warned;

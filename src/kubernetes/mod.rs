//! Facts from a Kubernetes API server.
//!
//! ```text
//! watch events ─► cache.rs (Facts, swapped whole) ─► World
//!                    └─ changes ─► gather.rs (Needs answered, with patience)
//! ```

pub mod cache;
pub mod gather;
pub mod watch;

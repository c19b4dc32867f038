//! Reconcilers: what one leading process writes to the API server.
//!
//! ```text
//! lease.rs: who leads ─► Leadership ─► every write asks may_write() first
//! ```

pub mod lease;
#[cfg(test)]
mod testing;

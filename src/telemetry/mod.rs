//! What operators see: logs, metrics, and the probes on a port of their own.

pub mod log;
pub mod metrics;
pub mod probes;

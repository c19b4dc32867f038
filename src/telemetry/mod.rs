//! What operators see: logs and metrics.

pub mod log;
pub mod metrics;

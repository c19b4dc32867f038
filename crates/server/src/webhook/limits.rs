//! Limits of reviews: size, time and number.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::impact::UnknownImpact;

/// Limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewLimits {
    /// The largest body in bytes: two objects of 3 MiB and their envelope.
    pub body: usize,
    /// How long a body may take to arrive, and how long a caller waits who does not say so.
    pub time: Duration,
    /// How many reviews may be in work at a time, waiting for a class included.
    pub in_flight: usize,
    /// How many reviews may wait until they are taken into work.
    pub queue: usize,
    /// How many threads may do work that takes over a millisecond: reviews of ClusterClasses, and of large objects.
    pub blocking: usize,
    /// How many reviews in work may wait for such a thread.
    pub aside_queue: usize,
    /// How long the impact of one edit may take to compute; zero switches it off.
    pub impact: Duration,
    /// How many machines one edit may replace or remove, unless it is approved (DEC-53).
    pub max_replaced_machines: Option<u32>,
    /// How machines count whose number is not known (DEC-59).
    pub unknown_impact: UnknownImpact,
    /// How many bytes of bodies may be held at a time.
    pub held: usize,
}

impl Default for ReviewLimits {
    fn default() -> Self {
        // One core stays with the reviews of Clusters.
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        ReviewLimits {
            body: 7 * 1024 * 1024,
            time: Duration::from_secs(10),
            in_flight: 512,
            queue: 2048,
            blocking: cores.saturating_sub(1).max(1),
            aside_queue: 256,
            impact: Duration::from_millis(300),
            max_replaced_machines: None,
            unknown_impact: UnknownImpact::default(),
            held: 256 * 1024 * 1024,
        }
    }
}

/// Reviews of Clusters with a larger object run on blocking threads as well (DEC-44).
pub(super) const INLINE: usize = 64 * 1024;

/// Maximum time of a review on a blocking thread: the other reviews have to be answered within the timeouts of their
/// callers. Without optimization everything takes many times as long.
pub(super) const TURN_TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 45 } else { 3 });

/// Maximum time of a review on an async thread; a longer one starts again on a blocking thread.
pub(super) const INLINE_TIME: Duration = Duration::from_millis(10);

/// Seconds after which clients retry a write that was rejected because of overload.
pub(super) const RETRY_AFTER: u32 = 1;

/// Time between the response and the timeout of the caller.
const HEAD_START: Duration = Duration::from_millis(500);

/// Time that is left for the last evaluation after the last facts.
pub(super) const LAST_ROUND: Duration = Duration::from_millis(100);

/// The time for a response: the timeout of the caller (`timeout=10s` in the query) less [`HEAD_START`].
pub(super) fn patience(query: Option<&str>, otherwise: Duration) -> Duration {
    let parameters = query.into_iter().flat_map(|query| query.split('&'));
    let timeout = parameters.filter_map(|parameter| parameter.strip_prefix("timeout=")).find_map(|text| {
        let seconds = text.strip_suffix('s')?.parse::<u64>().ok()?;
        Some(Duration::from_secs(seconds.min(60)))
    });
    timeout.unwrap_or(otherwise).saturating_sub(HEAD_START)
}

/// A flag that is set on drop, when the client has disconnected, so that the work for it stops.
#[derive(Debug, Default)]
pub(super) struct Disconnected(pub(super) Arc<AtomicBool>);

impl Drop for Disconnected {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_timeout_bounds_ours() {
        let otherwise = Duration::from_secs(10);
        for (query, want) in [
            (None, 9_500),
            (Some("timeout=3s"), 2_500),
            (Some("a=b&timeout=1s"), 500),
            (Some("timeout=0s"), 0),
            (Some("timeout=x"), 9_500),
            (Some("timeout=9999s"), 59_500),
        ] {
            assert_eq!(patience(query, otherwise), Duration::from_millis(want), "{query:?}");
        }
    }
}

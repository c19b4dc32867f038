//! Limits the concurrent writes of this process. The limit follows the latency of renewals of the Lease, so that the
//! writes of a large rollout do not delay the renewal until the Lease is lost (DEC-101).
//!
//! The latency of writes is not used: a slow admission webhook of one kind would slow down the writes of all kinds.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::telemetry::metrics::Metrics;

/// The initial and highest limit.
const HIGHEST: usize = 128;
/// The lowest limit.
const LOWEST: usize = 4;
/// The increase of the limit after a fast renewal.
const STEP: usize = 8;
/// Divisors of the Lease's duration: the maximum time of a fast renewal, and the minimum of a slow one; 0.5 s and 1 s
/// of 15 s.
const FAST: u32 = 30;
const SLOW: u32 = 15;

/// A limit of concurrent writes that follows the latency of the API server.
#[derive(Debug)]
pub(super) struct WriteLimiter {
    duration: Duration,
    permits: Semaphore,
    state: Mutex<LimiterState>,
}

#[derive(Debug)]
struct LimiterState {
    limit: usize,
    /// Permits to take away once they are given back.
    surplus: usize,
}

/// The permission to send one write.
#[derive(Debug)]
pub(super) struct WritePermit<'p> {
    pace: &'p WriteLimiter,
    permit: Option<SemaphorePermit<'p>>,
}

impl Drop for WritePermit<'_> {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let mut state = self.pace.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = state.surplus.checked_sub(1) {
            state.surplus = left;
            permit.forget();
        }
    }
}

impl WriteLimiter {
    /// A limiter for a Lease of this duration.
    pub(super) fn new(duration: Duration) -> Self {
        let state = Mutex::new(LimiterState { limit: HIGHEST, surplus: 0 });
        WriteLimiter { duration, permits: Semaphore::new(HIGHEST), state }
    }

    /// Waits until one more write may be sent.
    pub(super) async fn acquire(&self) -> WritePermit<'_> {
        // The semaphore is never closed.
        let permit = self.permits.acquire().await.ok();
        WritePermit { pace: self, permit }
    }

    /// Changes the limit after a renewal with this latency, or after a failed one.
    pub(super) fn renewed(&self, latency: Option<Duration>, metrics: &Metrics) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = match latency {
            Some(latency) if latency <= self.duration / FAST => (state.limit + STEP).min(HIGHEST),
            Some(latency) if latency < self.duration / SLOW => state.limit,
            _ => (state.limit / 2).max(LOWEST),
        };
        if wanted > state.limit {
            let more = wanted - state.limit;
            let kept = more.min(state.surplus);
            state.surplus -= kept;
            self.permits.add_permits(more - kept);
        } else {
            let fewer = state.limit - wanted;
            state.surplus += fewer - self.permits.forget_permits(fewer);
        }
        state.limit = wanted;
        metrics.write_limit.set(i64::try_from(wanted).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn turns(pace: &WriteLimiter) -> Vec<WritePermit<'_>> {
        // Without the budget of a task, which is as large as the highest limit.
        std::iter::from_fn(|| tokio::task::unconstrained(pace.acquire()).now_or_never()).collect()
    }

    #[tokio::test]
    async fn slow_renewals_halve_the_writes_and_fast_ones_raise_them_again() {
        // DEC-101
        let (pace, metrics) = (WriteLimiter::new(LEASE), Metrics::default());
        let running = turns(&pace);
        assert_eq!(running.len(), HIGHEST);
        for (latency, want) in [
            (Some(Duration::from_millis(700)), 128),
            (Some(Duration::from_secs(1)), 64),
            (None, 32),
            (Some(Duration::from_secs(3)), 16),
            (Some(Duration::from_secs(3)), 8),
            (Some(Duration::from_secs(3)), 4),
            (Some(Duration::from_secs(3)), 4),
            (Some(Duration::from_millis(500)), 12),
        ] {
            pace.renewed(latency, &metrics);
            assert_eq!(metrics.write_limit.get(), want, "{latency:?}");
            assert!(
                tokio::task::unconstrained(pace.acquire()).now_or_never().is_none(),
                "those that run are not stopped"
            );
        }
        drop(running);
        assert_eq!(turns(&pace).len(), 12);
        pace.renewed(None, &metrics);
        assert_eq!(turns(&pace).len(), 6);
        for _ in 0..20 {
            pace.renewed(Some(Duration::ZERO), &metrics);
        }
        assert_eq!(turns(&pace).len(), HIGHEST, "no permit is lost");
    }
}

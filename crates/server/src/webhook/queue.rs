//! The limit of concurrent reviews, with a short queue.
//!
//! kube-apiserver does not retry a review: a rejected review is a failed write. So a review waits for its place as long
//! as its caller does, and is rejected only then, or when the queue is full.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::telemetry::metrics::GaugeGuard;

/// Why a review is rejected without a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Overloaded {
    /// Too many reviews wait already.
    #[error("too many reviews are waiting; try again")]
    Full,
    /// No place became free while the caller could still be answered.
    #[error("the review waited in the queue longer than the caller's timeout; try again")]
    Late,
    /// The work began, and did not end while the caller could still be answered.
    #[error("the review took longer than the caller's timeout")]
    Unfinished,
}

impl Overloaded {
    /// The metric label.
    pub(super) fn label(self) -> &'static str {
        match self {
            Overloaded::Full => "queue_full",
            Overloaded::Late => "no_turn",
            Overloaded::Unfinished => "unfinished",
        }
    }
}

/// Limits concurrent reviews; waiting reviews are served in the order of arrival.
#[derive(Debug)]
pub(super) struct ReviewQueue {
    places: Arc<Semaphore>,
    room: Semaphore,
    waiting: Gauge,
}

impl ReviewQueue {
    /// Limits concurrent reviews to `places`, with a queue of `room`; `waiting` counts the queued reviews.
    pub(super) fn new(places: usize, room: usize, waiting: Gauge) -> Self {
        ReviewQueue { places: Arc::new(Semaphore::new(places)), room: Semaphore::new(room), waiting }
    }

    /// Waits for a place, until `deadline`; dropping the permit frees the place.
    pub(super) async fn acquire(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, Overloaded> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Ok(place);
        }
        let _room = self.room.try_acquire().map_err(|_| Overloaded::Full)?;
        let _counted = GaugeGuard::new(&self.waiting);
        match timeout_at(deadline, self.places.clone().acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(Overloaded::Late),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn places_go_to_those_who_wait_in_their_order_until_their_deadline() {
        let waiting = Gauge::default();
        let queue = ReviewQueue::new(1, 2, waiting.clone());
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let held = queue.acquire(start).await.unwrap();
        let (patient, hasty) = (queue.acquire(after(9)), queue.acquire(after(3)));
        let third = async {
            tokio::task::yield_now().await;
            assert_eq!((queue.acquire(after(9)).await.err(), waiting.get()), (Some(Overloaded::Full), 2));
            tokio::time::sleep_until(after(5)).await;
            drop(held);
        };
        let (patient, hasty, ()) = tokio::join!(patient, hasty, third);
        assert_eq!(hasty.err(), Some(Overloaded::Late));
        assert_eq!(start.elapsed(), Duration::from_secs(5), "as soon as the place was free");
        assert_eq!(waiting.get(), 0);
        drop(patient.unwrap());
        assert!(queue.acquire(start).await.is_ok(), "a free place is taken even after the deadline");
    }
}

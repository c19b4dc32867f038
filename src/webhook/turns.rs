//! Turns at the threads for long work, shared fairly between namespaces (DEC-44).
//!
//! One namespace with many expensive reviews waits for itself: a turn that becomes free goes to the namespaces that wait, one
//! after the other, and when too many reviews wait, the namespace with most of them loses its latest.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::queue::Shed;
use crate::telemetry::metrics::Raised;

/// A fixed number of turns.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    shared: Arc<Mutex<State>>,
    /// How many reviews may wait.
    room: usize,
    waiting: Gauge,
}

/// A turn; it is free again when this is dropped.
pub(super) struct Turn(Turns);

type Waiter = oneshot::Sender<Result<Turn, Shed>>;

/// Free turns, and the reviews that wait for one; none waits while a turn is free.
struct State {
    free: usize,
    count: usize,
    waiting: BTreeMap<String, VecDeque<Waiter>>,
    /// The namespaces that wait, in the order of their next turns.
    order: VecDeque<String>,
}

impl Turns {
    /// That many turns, and room for so many who wait; `waiting` counts those.
    pub(super) fn new(turns: usize, room: usize, waiting: Gauge) -> Self {
        let state = State { free: turns, count: 0, waiting: BTreeMap::new(), order: VecDeque::new() };
        Turns { shared: Arc::new(Mutex::new(state)), room, waiting }
    }

    /// A turn for a review of a namespace, at `deadline` at the latest.
    pub(super) async fn turn(&self, namespace: &str, deadline: Instant) -> Result<Turn, Shed> {
        let Some(turn) = self.with(|state| state.enter(namespace, self.room)) else { return Ok(Turn(self.clone())) };
        let _counted = Raised::new(&self.waiting);
        match timeout_at(deadline, turn?).await {
            Ok(Ok(turn)) => turn,
            Ok(Err(_)) | Err(_) => Err(Shed::Late),
        }
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    /// Takes a free turn, which gives nothing to wait for; otherwise what is waited for, or the reason why not.
    fn enter(&mut self, namespace: &str, room: usize) -> Option<Result<oneshot::Receiver<Result<Turn, Shed>>, Shed>> {
        if self.free > 0 {
            self.free -= 1;
            return None;
        }
        if self.count >= room && !self.make_room(namespace) {
            return Some(Err(Shed::Full));
        }
        let (waiter, turn) = oneshot::channel();
        let own = self.waiting.entry(namespace.to_owned()).or_default();
        if own.is_empty() {
            self.order.push_back(namespace.to_owned());
        }
        own.push_back(waiter);
        self.count += 1;
        Some(Ok(turn))
    }

    /// Sends away the latest review of the namespace that has most of them waiting; says whether there is room now.
    fn make_room(&mut self, namespace: &str) -> bool {
        self.forget_gone();
        let own = self.waiting.get(namespace).map_or(0, VecDeque::len);
        let longest = self.waiting.iter().max_by_key(|(_, waiters)| waiters.len()).map(|(name, _)| name.clone());
        let Some(longest) = longest else { return true };
        let Some(waiters) = self.waiting.get_mut(&longest).filter(|waiters| waiters.len() > own + 1) else {
            return false;
        };
        if let Some(waiter) = waiters.pop_back() {
            self.count -= 1;
            // It may have gone meanwhile.
            let _ = waiter.send(Err(Shed::Full));
        }
        true
    }

    /// Forgets reviews whose callers have gone.
    fn forget_gone(&mut self) {
        for waiters in self.waiting.values_mut() {
            waiters.retain(|waiter| !waiter.is_closed());
        }
        self.waiting.retain(|_, waiters| !waiters.is_empty());
        self.order.retain(|namespace| self.waiting.contains_key(namespace));
        self.count = self.waiting.values().map(VecDeque::len).sum();
    }

    /// The review whose turn is next; if none waits, the turn is free.
    fn next(&mut self) -> Option<Waiter> {
        while let Some(namespace) = self.order.pop_front() {
            let Some(waiters) = self.waiting.get_mut(&namespace) else { continue };
            let waiter = waiters.pop_front();
            if waiters.is_empty() {
                self.waiting.remove(&namespace);
            } else {
                self.order.push_back(namespace);
            }
            if let Some(waiter) = waiter {
                self.count -= 1;
                return Some(waiter);
            }
        }
        self.free += 1;
        None
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(waiter) = self.0.with(State::next) {
            // A turn that does not reach anybody is dropped, and so goes to the next.
            let _ = waiter.send(Ok(Turn(self.0.clone())));
        }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("free", &self.free).field("waiting", &self.count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::future::join_all;

    use super::*;

    /// Each turn takes a second; says in which order the reviews were done, and at which second.
    async fn done(turns: &Turns, reviews: &[&'static str]) -> Vec<(&'static str, u64)> {
        let start = Instant::now();
        let order = Arc::new(Mutex::new(Vec::new()));
        join_all(reviews.iter().map(|namespace| async {
            if let Ok(_turn) = turns.turn(namespace, start + Duration::from_secs(100)).await {
                tokio::time::sleep(Duration::from_secs(1)).await;
                order.lock().unwrap().push((*namespace, start.elapsed().as_secs()));
            }
        }))
        .await;
        Arc::into_inner(order).unwrap().into_inner().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_with_many_reviews_waits_for_itself() {
        // DEC-44
        let turns = Turns::new(1, 100, Gauge::default());
        let reviews = ["a", "a", "a", "a", "b", "c", "a", "b"];
        let want = [("a", 1), ("a", 2), ("b", 3), ("c", 4), ("a", 5), ("b", 6), ("a", 7), ("a", 8)];
        assert_eq!(done(&turns, &reviews).await, want);
        assert_eq!(done(&Turns::new(2, 100, Gauge::default()), &["a", "a", "a", "b"]).await.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_room_has_room_for_those_who_are_few() {
        // DEC-44
        let waiting = Gauge::default();
        let turns = Turns::new(1, 3, waiting.clone());
        let got = done(&turns, &["a", "a", "a", "a", "a", "b", "c"]).await;
        assert_eq!(got, [("a", 1), ("a", 2), ("b", 3), ("c", 4)], "of the three that wait two make room");
        assert_eq!(waiting.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn whose_time_is_over_holds_up_nobody() {
        let turns = Turns::new(1, 10, Gauge::default());
        let now = Instant::now();
        let held = turns.turn("a", now).await.ok().unwrap();
        assert_eq!(turns.turn("a", now + Duration::from_secs(1)).await.err(), Some(Shed::Late));
        let waits = turns.turn("b", now + Duration::from_secs(9));
        let frees = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(held);
        };
        let (turn, ()) = tokio::join!(waits, frees);
        drop(turn.ok().unwrap());
        assert!(turns.turn("c", now).await.is_ok(), "a free turn is taken even after the deadline");
    }
}

//! A queue for blocking threads that is fair between callers, and for each caller between namespaces (DEC-44).
//!
//! One namespace with many expensive reviews delays only itself: free permits go round-robin to the waiting callers,
//! and there to their namespaces. When the queue is full, the caller with most waiting reviews loses the latest one of
//! its namespace with most of them.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::queue::Overloaded;
use crate::telemetry::metrics::GaugeGuard;

/// The identity of a caller: the address of a peer, or the name of a user.
pub(super) trait Caller: Ord + Clone {}

impl<C: Ord + Clone> Caller for C {}

/// Limits concurrent work on blocking threads.
#[derive(Clone, Debug)]
pub(super) struct FairQueue<C: Caller = CallerAddress> {
    shared: Arc<Mutex<FairQueueState<C>>>,
    /// How many reviews may wait.
    room: usize,
    waiting: Gauge,
}

/// The address of a caller, if it is not this process.
pub(super) type CallerAddress = Option<IpAddr>;

/// The permission to use a thread; dropping it frees the thread.
pub(super) struct QueuePermit<C: Caller = CallerAddress>(FairQueue<C>);

type Waiter<C> = oneshot::Sender<Result<QueuePermit<C>, Overloaded>>;

/// The caller and namespace of a review. Permits are shared between callers first, since a caller may invent
/// namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Requester<'a, C = CallerAddress> {
    pub(super) peer: C,
    pub(super) namespace: &'a str,
}

/// Free permits, and the reviews that wait for one; none waits while a permit is free.
struct FairQueueState<C: Caller> {
    free: usize,
    count: usize,
    peers: BTreeMap<C, CallerQueue<C>>,
    /// The peers that wait, in the order of their next turns.
    order: VecDeque<C>,
}

/// The waiting reviews of a caller.
struct CallerQueue<C: Caller> {
    count: usize,
    namespaces: BTreeMap<String, VecDeque<Waiter<C>>>,
    /// The namespaces that wait, in the order of their next turns.
    order: VecDeque<String>,
}

impl<C: Caller> FairQueue<C> {
    /// Limits concurrent work to `turns`, with a queue of `room`; `waiting` counts the queued reviews.
    pub(super) fn new(turns: usize, room: usize, waiting: Gauge) -> Self {
        let state = FairQueueState { free: turns, count: 0, peers: BTreeMap::new(), order: VecDeque::new() };
        FairQueue { shared: Arc::new(Mutex::new(state)), room, waiting }
    }

    /// Waits for a permit, until `deadline`.
    pub(super) async fn acquire(
        &self,
        owner: Requester<'_, C>,
        deadline: Instant,
    ) -> Result<QueuePermit<C>, Overloaded> {
        let Some(turn) = self.with(|state| state.enter(owner, self.room)) else { return Ok(QueuePermit(self.clone())) };
        let _counted = GaugeGuard::new(&self.waiting);
        match timeout_at(deadline, turn?).await {
            Ok(Ok(turn)) => turn,
            Ok(Err(_)) | Err(_) => Err(Overloaded::Late),
        }
    }

    fn with<R>(&self, act: impl FnOnce(&mut FairQueueState<C>) -> R) -> R {
        act(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<C: Caller> FairQueueState<C> {
    /// Takes a free permit, or queues the review and returns the receiver of its permit.
    #[expect(clippy::type_complexity, reason = "it is used once")]
    fn enter(
        &mut self,
        owner: Requester<'_, C>,
        room: usize,
    ) -> Option<Result<oneshot::Receiver<Result<QueuePermit<C>, Overloaded>>, Overloaded>> {
        if self.free > 0 {
            self.free -= 1;
            return None;
        }
        if self.count >= room && !self.make_room(&owner) {
            return Some(Err(Overloaded::Full));
        }
        let (waiter, turn) = oneshot::channel();
        let own = self.peers.entry(owner.peer.clone()).or_default();
        if own.count == 0 {
            self.order.push_back(owner.peer);
        }
        own.push(owner.namespace, waiter);
        self.count += 1;
        Some(Ok(turn))
    }

    /// Rejects the latest review of the caller with most waiting reviews, in its namespace with most of them; returns
    /// whether there is room now.
    fn make_room(&mut self, owner: &Requester<'_, C>) -> bool {
        self.remove_disconnected();
        let own = self.peers.get(&owner.peer).map_or(0, |waiting| waiting.count);
        let most = self.peers.iter().max_by_key(|(_, waiting)| waiting.count);
        let Some((most, count)) = most.map(|(peer, waiting)| (peer.clone(), waiting.count)) else { return true };
        // One of its reviews in another namespace is rejected.
        let peer = if count > own + 1 { most } else { owner.peer.clone() };
        let least = if peer == owner.peer { self.waiting(owner) + 1 } else { 0 };
        let waiter = self.peers.get_mut(&peer).and_then(|waiting| waiting.pop_longest(least));
        let Some(waiter) = waiter else { return false };
        self.count -= 1;
        // It may have gone meanwhile.
        let _ = waiter.send(Err(Overloaded::Full));
        true
    }

    /// The number of waiting reviews of this caller and namespace.
    fn waiting(&self, owner: &Requester<'_, C>) -> usize {
        let own = self.peers.get(&owner.peer).and_then(|waiting| waiting.namespaces.get(owner.namespace));
        own.map_or(0, VecDeque::len)
    }

    /// Removes reviews whose callers have closed the connection.
    fn remove_disconnected(&mut self) {
        self.peers.values_mut().for_each(CallerQueue::forget_gone);
        self.peers.retain(|_, waiting| waiting.count > 0);
        self.order.retain(|peer| self.peers.contains_key(peer));
        self.count = self.peers.values().map(|waiting| waiting.count).sum();
    }

    /// Removes the next review from the queue; frees the permit if none waits.
    fn next(&mut self) -> Option<Waiter<C>> {
        while let Some(peer) = self.order.pop_front() {
            let Some(waiting) = self.peers.get_mut(&peer) else { continue };
            let waiter = waiting.next();
            if waiting.count == 0 {
                self.peers.remove(&peer);
            } else {
                self.order.push_back(peer);
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

impl<C: Caller> Default for CallerQueue<C> {
    fn default() -> Self {
        CallerQueue { count: 0, namespaces: BTreeMap::new(), order: VecDeque::new() }
    }
}

impl<C: Caller> CallerQueue<C> {
    fn push(&mut self, namespace: &str, waiter: Waiter<C>) {
        let own = self.namespaces.entry(namespace.to_owned()).or_default();
        if own.is_empty() {
            self.order.push_back(namespace.to_owned());
        }
        own.push_back(waiter);
        self.count += 1;
    }

    /// The latest review of the namespace with most of them, if they are more than `least`.
    fn pop_longest(&mut self, least: usize) -> Option<Waiter<C>> {
        let longest = self.namespaces.iter().max_by_key(|(_, waiters)| waiters.len());
        let longest = longest.filter(|(_, waiters)| waiters.len() > least)?.0.clone();
        let waiters = self.namespaces.get_mut(&longest)?;
        let waiter = waiters.pop_back()?;
        self.count -= 1;
        if waiters.is_empty() {
            self.namespaces.remove(&longest);
            self.order.retain(|namespace| *namespace != longest);
        }
        Some(waiter)
    }

    fn forget_gone(&mut self) {
        for waiters in self.namespaces.values_mut() {
            waiters.retain(|waiter| !waiter.is_closed());
        }
        self.namespaces.retain(|_, waiters| !waiters.is_empty());
        self.order.retain(|namespace| self.namespaces.contains_key(namespace));
        self.count = self.namespaces.values().map(VecDeque::len).sum();
    }

    fn next(&mut self) -> Option<Waiter<C>> {
        while let Some(namespace) = self.order.pop_front() {
            let Some(waiters) = self.namespaces.get_mut(&namespace) else { continue };
            let waiter = waiters.pop_front();
            if waiters.is_empty() {
                self.namespaces.remove(&namespace);
            } else {
                self.order.push_back(namespace);
            }
            if waiter.is_some() {
                self.count -= 1;
                return waiter;
            }
        }
        None
    }
}

impl<C: Caller> Drop for QueuePermit<C> {
    fn drop(&mut self) {
        if let Some(waiter) = self.0.with(FairQueueState::next) {
            // A turn whose receiver is gone is dropped, and so goes to the next.
            let _ = waiter.send(Ok(QueuePermit(self.0.clone())));
        }
    }
}

impl<C: Caller> fmt::Debug for FairQueueState<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("free", &self.free).field("waiting", &self.count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::future::join_all;

    use super::*;

    fn own(namespace: &str) -> Requester<'_> {
        Requester { peer: None, namespace }
    }

    fn of(last: u8, namespace: &str) -> Requester<'_> {
        Requester { peer: Some(IpAddr::from([127, 0, 0, last])), namespace }
    }

    /// Each turn takes a second; says in which order the reviews were done, and at which second.
    async fn done(turns: &FairQueue, reviews: &[&'static str]) -> Vec<(&'static str, u64)> {
        let start = Instant::now();
        let order = Arc::new(Mutex::new(Vec::new()));
        join_all(reviews.iter().map(|namespace| async {
            if let Ok(_turn) = turns.acquire(own(namespace), start + Duration::from_secs(100)).await {
                tokio::time::sleep(Duration::from_secs(1)).await;
                order.lock().unwrap().push((*namespace, start.elapsed().as_secs()));
            }
        }))
        .await;
        Arc::into_inner(order).unwrap().into_inner().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_with_many_reviews_delays_only_itself() {
        // DEC-44
        let turns = FairQueue::new(1, 100, Gauge::default());
        let reviews = ["a", "a", "a", "a", "b", "c", "a", "b"];
        let want = [("a", 1), ("a", 2), ("b", 3), ("c", 4), ("a", 5), ("b", 6), ("a", 7), ("a", 8)];
        assert_eq!(done(&turns, &reviews).await, want);
        assert_eq!(done(&FairQueue::new(2, 100, Gauge::default()), &["a", "a", "a", "b"]).await.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_accepts_callers_with_few_requests() {
        // DEC-44
        let waiting = Gauge::default();
        let turns = FairQueue::new(1, 3, waiting.clone());
        let got = done(&turns, &["a", "a", "a", "a", "a", "b", "c"]).await;
        assert_eq!(got, [("a", 1), ("a", 2), ("b", 3), ("c", 4)], "of the three that wait two make room");
        assert_eq!(waiting.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_past_their_deadline_do_not_delay_others() {
        let turns = FairQueue::new(1, 10, Gauge::default());
        let now = Instant::now();
        let held = turns.acquire(own("a"), now).await.ok().unwrap();
        assert_eq!(turns.acquire(own("a"), now + Duration::from_secs(1)).await.err(), Some(Overloaded::Late));
        let waits = turns.acquire(own("b"), now + Duration::from_secs(9));
        let frees = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(held);
        };
        let (turn, ()) = tokio::join!(waits, frees);
        drop(turn.ok().unwrap());
        assert!(turns.acquire(own("c"), now).await.is_ok(), "a free turn is taken even after the deadline");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_invents_namespaces_delays_only_itself() {
        let turns = FairQueue::new(1, 8, Gauge::default());
        let (start, order) = (Instant::now(), Mutex::new(Vec::new()));
        let names: Vec<String> = (0..30).map(|index| format!("forged{index}")).collect();
        let forged = names.iter().map(|name| of(2, name));
        let honest = ["tenant", "other", "tenant"].map(|name| of(1, name));
        let shed = join_all(forged.chain(honest).map(|owner| {
            let (turns, order) = (&turns, &order);
            async move {
                let Ok(_turn) = turns.acquire(owner, start + Duration::from_secs(100)).await else { return 1 };
                tokio::time::sleep(Duration::from_secs(1)).await;
                order.lock().unwrap().push(owner);
                0
            }
        }))
        .await;
        let honest: Vec<(usize, &str)> = order
            .lock()
            .unwrap()
            .iter()
            .enumerate()
            .filter(|(_, owner)| !owner.namespace.starts_with("forged"))
            .map(|(index, owner)| (index, owner.namespace))
            .collect();
        assert_eq!(honest, [(2, "tenant"), (4, "other"), (6, "tenant")]);
        assert_eq!(shed.into_iter().sum::<usize>(), 24);
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_with_many_edits_delays_only_their_own() {
        // DEC-59
        let turns = FairQueue::<String>::new(1, 100, Gauge::default());
        let (start, order) = (Instant::now(), Mutex::new(Vec::new()));
        let edits = ["tenant", "tenant", "tenant", "tenant", "admin"].map(|user| (user.to_owned(), "ns"));
        join_all(edits.map(|(user, namespace)| {
            let (turns, order) = (&turns, &order);
            async move {
                let owner = Requester { peer: user.clone(), namespace };
                let Ok(_turn) = turns.acquire(owner, start + Duration::from_secs(100)).await else { return };
                tokio::time::sleep(Duration::from_secs(1)).await;
                order.lock().unwrap().push(user);
            }
        }))
        .await;
        assert_eq!(order.into_inner().unwrap(), ["tenant", "tenant", "admin", "tenant", "tenant"]);
    }
}

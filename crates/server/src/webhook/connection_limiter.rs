//! The limit of connections, and which connection is closed at the limit.
//!
//! Connections without a request are closed first, then those with a slow request body or an unread response, then idle
//! ones; each time of the peer with most of them, and there the one that has been in this state longest. A connection
//! with a request in progress is closed only for a peer with fewer connections. So one peer cannot keep others out.
//! (DEC-46)

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::connection::{Activity, EvictionReason};
use crate::telemetry::metrics::Reason;

/// Interval in which a new connection looks again while all others have requests in progress.
const LOOK: Duration = Duration::from_millis(100);

/// Time after which a connection with a request in progress is closed for a new one.
const BUSY: Duration = Duration::from_millis(500);

/// Limits the connections, and the requests on all of them.
#[derive(Debug)]
pub(super) struct ConnectionLimiter {
    limit: usize,
    /// How many requests may be open on all connections.
    requests: usize,
    open_requests: AtomicUsize,
    taken: Mutex<TakenSlots>,
    /// How many places have been given back.
    freed: watch::Sender<u64>,
    closed: Family<Reason, Counter>,
}

#[derive(Debug, Default)]
struct TakenSlots {
    next: u64,
    /// Connections that have not been told to close.
    open: BTreeMap<u64, OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    peer: IpAddr,
    activity: Activity,
    close: CancellationToken,
}

/// The slot of one connection; dropping it frees the slot.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    places: Arc<ConnectionLimiter>,
    number: u64,
    peer: IpAddr,
    close: CancellationToken,
}

/// The slot of one request; dropping it frees the slot.
#[derive(Debug)]
pub(super) struct RequestSlot(Arc<ConnectionLimiter>);

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.0.open_requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ConnectionSlot {
    /// The peer of the connection.
    pub(super) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Counts a request. When there are too many, the connection with most of them is closed, of the peer with most of
    /// them.
    pub(super) fn request(&self) -> RequestSlot {
        if self.places.open_requests.fetch_add(1, Ordering::Relaxed) >= self.places.requests {
            self.places.close_fullest();
        }
        RequestSlot(self.places.clone())
    }

    /// Cancelled when the connection has to make room for another.
    pub(super) fn close(&self) -> &CancellationToken {
        &self.close
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.places.taken().open.remove(&self.number);
        self.places.freed.send_modify(|count| *count += 1);
    }
}

impl ConnectionLimiter {
    /// Limits connections to `limit` and requests to `requests`; `closed` counts the connections that are closed to
    /// make room.
    pub(super) fn new(limit: usize, requests: usize, closed: Family<Reason, Counter>) -> Self {
        let (open_requests, freed) = (AtomicUsize::new(0), watch::Sender::new(0));
        ConnectionLimiter { limit, requests, open_requests, taken: Mutex::default(), freed, closed }
    }

    fn taken(&self) -> MutexGuard<'_, TakenSlots> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a connection of this peer, once one is free or another connection is closed; `None` if the peer has
    /// more than half of them and no connection can be closed.
    pub(super) async fn take(self: &Arc<Self>, peer: IpAddr, activity: &Activity) -> Option<ConnectionSlot> {
        let (began, mut freed) = (Instant::now(), self.freed.subscribe());
        loop {
            if let Some(place) = self.try_take(peer, activity) {
                return Some(place);
            }
            if self.close_one(false) {
                continue;
            }
            if began.elapsed() >= BUSY {
                if self.close_for(peer) || self.close_one(true) {
                    continue;
                }
                if self.has_most(peer) {
                    return None;
                }
            }
            let _ = timeout(LOOK, freed.changed()).await;
        }
    }

    /// Closes a connection, if there is a reason to, and waits until it has ended.
    pub(super) async fn make_room(&self) -> bool {
        let mut freed = self.freed.subscribe();
        self.close_one(true) && timeout(LOOK, freed.changed()).await.is_ok()
    }

    fn has_most(&self, peer: IpAddr) -> bool {
        let taken = self.taken();
        taken.open.values().filter(|open| open.peer == peer).count() * 2 > self.limit
    }

    /// Closes the oldest connection of the peer with most of them, if this peer has fewer.
    fn close_for(&self, peer: IpAddr) -> bool {
        let mut taken = self.taken();
        let Some((most, count)) = taken.most(|_| 1) else { return false };
        if taken.open.values().filter(|open| open.peer == peer).count() + 1 >= count {
            return false;
        }
        let of_most = taken.open.iter().filter(|(_, open)| open.peer == most);
        let oldest = of_most.min_by_key(|(_, open)| open.activity.opened()).map(|(number, _)| *number);
        oldest.is_some_and(|number| self.close(&mut taken, number, EvictionReason::Busy))
    }

    /// Closes the connection with most requests, of the peer with most requests.
    fn close_fullest(&self) {
        let mut taken = self.taken();
        // Those that were told to close have not done so yet.
        let open: usize = taken.open.values().map(|open| open.activity.open()).sum();
        let Some((most, _)) = taken.most(|open| open.activity.open()).filter(|_| open >= self.requests) else { return };
        let of_most = taken.open.iter().filter(|(_, open)| open.peer == most);
        let fullest = of_most.max_by_key(|(_, open)| open.activity.open()).map(|(number, _)| *number);
        if let Some(number) = fullest {
            self.close(&mut taken, number, EvictionReason::Busy);
        }
    }

    fn close(&self, taken: &mut TakenSlots, number: u64, spare: EvictionReason) -> bool {
        let Some(open) = taken.open.remove(&number) else { return false };
        debug!(peer = %open.peer, reason = spare.label(), "Closing a connection to accept another");
        self.closed.get_or_create(&Reason { reason: spare.label() }).inc();
        open.close.cancel();
        true
    }

    fn try_take(self: &Arc<Self>, peer: IpAddr, activity: &Activity) -> Option<ConnectionSlot> {
        let mut taken = self.taken();
        if taken.open.len() >= self.limit {
            return None;
        }
        let (number, close) = (taken.next, CancellationToken::new());
        taken.next += 1;
        taken.open.insert(number, OpenConnection { peer, activity: activity.clone(), close: close.clone() });
        Some(ConnectionSlot { places: self.clone(), number, peer, close })
    }

    /// Closes the connection with the best reason; returns `false` if all have requests in progress. Idle ones of peers
    /// with few connections are closed only with `any`.
    fn close_one(&self, any: bool) -> bool {
        let now = Instant::now();
        let mut taken = self.taken();
        let of_all = taken.count_by_peer(|_| 1);
        let most = of_all.values().copied().max().unwrap_or_default();
        let spare: Vec<(u64, IpAddr, EvictionReason, Instant)> = taken
            .open
            .iter()
            .filter_map(|(number, open)| {
                let (spare, since) = open.activity.spare(now)?;
                let is_one_of_few = of_all.get(&open.peer).is_some_and(|count| count * 2 < most);
                if spare == EvictionReason::Idle && is_one_of_few && !any {
                    return None;
                }
                Some((*number, open.peer, spare, since))
            })
            .collect();
        let Some(first) = spare.iter().map(|(_, _, spare, _)| *spare).min() else { return false };
        let same = spare.iter().filter(|(_, _, spare, _)| *spare == first);
        let mut of_peer: HashMap<IpAddr, usize> = HashMap::new();
        for (_, peer, ..) in same.clone() {
            *of_peer.entry(*peer).or_default() += 1;
        }
        let chosen = same.min_by_key(|(number, peer, _, since)| {
            let count = of_peer.get(peer).copied().unwrap_or_default();
            (std::cmp::Reverse(count), *since, *number)
        });
        let number = chosen.map(|(number, ..)| *number);
        number.is_some_and(|number| self.close(&mut taken, number, first))
    }
}

impl TakenSlots {
    /// The sum of `count` over the connections of each peer.
    fn count_by_peer(&self, count: impl Fn(&OpenConnection) -> usize) -> HashMap<IpAddr, usize> {
        let mut of_peers: HashMap<IpAddr, usize> = HashMap::new();
        for open in self.open.values() {
            *of_peers.entry(open.peer).or_default() += count(open);
        }
        of_peers
    }

    /// The peer with the most connections, and their number.
    fn most(&self, count: impl Fn(&OpenConnection) -> usize) -> Option<(IpAddr, usize)> {
        self.count_by_peer(count).into_iter().max_by_key(|(_, count)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    fn places(limit: usize) -> Arc<ConnectionLimiter> {
        Arc::new(ConnectionLimiter::new(limit, 8, Family::default()))
    }

    async fn after(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    fn idle() -> Activity {
        let activity = Activity::new();
        drop(activity.answering());
        activity
    }

    #[tokio::test(start_paused = true)]
    async fn silent_connections_are_closed_before_idle_ones_and_the_oldest_of_the_largest_peer_first() {
        let places = places(6);
        let mut all = Vec::new();
        // The oldest connection belongs to a peer with few connections, and one has been silent for a short time.
        for (name, last, activity) in [
            ("few, idle for longest", 1, idle as fn() -> Activity),
            ("many, idle for long", 2, idle),
            ("many, idle for a short time", 2, idle),
            ("few, silent for longest", 1, Activity::new),
            ("many, silent for long", 3, Activity::new),
            ("many, silent for a short time", 3, Activity::new),
        ] {
            let activity = activity();
            all.push((name, places.take(peer(last), &activity).await.unwrap(), activity));
            after(1).await;
        }
        let mut order = Vec::new();
        while places.close_one(false) {
            let closed = all.iter().position(|(_, place, _)| place.close().is_cancelled()).unwrap();
            order.push(all.remove(closed).0);
        }
        let want = [
            "many, silent for long",
            "few, silent for longest",
            "many, silent for a short time",
            "many, idle for long",
            "few, idle for longest",
            "many, idle for a short time",
        ];
        assert_eq!(order, want, "of peers with as many connections the one that waits for longest");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_answering_is_never_closed_and_a_new_one_waits() {
        let places = places(1);
        let busy = Activity::new();
        let answering = busy.answering();
        let place = places.take(peer(1), &busy).await.unwrap();
        after(1000).await;
        assert!(!places.close_one(false));
        let new = Activity::new();
        assert!(timeout(Duration::from_secs(1000), places.take(peer(2), &new)).await.is_err());
        drop(answering);
        let taken = timeout(Duration::from_millis(1), places.take(peer(2), &new)).await;
        assert!(taken.is_ok() && place.close().is_cancelled(), "it is idle now");
        drop(place);
        assert_eq!(places.taken().open.len(), 1, "a place is given back once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_a_slow_client_can_be_closed_for_another() {
        let places = places(2);
        let (slow, idle) = (Activity::new(), idle());
        let request = slow.answering();
        request.waits_for_peer();
        let (place, _idle) = (places.take(peer(1), &slow).await.unwrap(), places.take(peer(2), &idle).await.unwrap());
        after(2).await;
        request.waits_for_us();
        let next = slow.answering();
        assert_eq!(slow.spare(Instant::now()), None, "it has arrived");
        next.answers();
        request.answers();
        after(2).await;
        assert!(places.close_one(false) && place.close().is_cancelled(), "before one that is idle");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_with_busy_connections_does_not_keep_other_peers_out() {
        let places = places(3);
        let busy: Vec<_> = (0..4).map(|_| Activity::new()).collect();
        let _answering: Vec<_> = busy.iter().map(Activity::answering).collect();
        let mut all = Vec::new();
        for activity in &busy[..3] {
            all.push(places.take(peer(1), activity).await.unwrap());
            after(1).await;
        }
        assert!(places.take(peer(1), &busy[3]).await.is_none(), "its next one does not keep others waiting");
        let started = Instant::now();
        let other = places.take(peer(2), &busy[3]).await.unwrap();
        assert!(started.elapsed() <= BUSY + LOOK && all[0].close().is_cancelled());
        assert_eq!(other.peer(), peer(2));
    }

    #[tokio::test(start_paused = true)]
    async fn of_too_many_requests_those_of_the_connection_with_most_are_aborted() {
        let places = places(3);
        let activities = [Activity::new(), Activity::new(), Activity::new()];
        let mut taken = Vec::new();
        for (activity, last) in activities.iter().zip([1, 1, 2]) {
            taken.push(places.take(peer(last), activity).await.unwrap());
        }
        let mut open = Vec::new();
        for index in [0, 1, 1, 1, 0, 2, 2, 2] {
            open.push((activities[index].answering(), taken[index].request()));
        }
        assert!(taken.iter().all(|place| !place.close().is_cancelled()));
        open.push((activities[2].answering(), taken[2].request()));
        let closed: Vec<bool> = taken.iter().map(|place| place.close().is_cancelled()).collect();
        assert_eq!(closed, [false, true, false]);
        drop(open);
        assert_eq!(places.open_requests.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_free_only_after_its_connection_has_ended() {
        let places = places(2);
        let (one, two) = (idle(), idle());
        let (first, second) = (places.take(peer(1), &one).await.unwrap(), places.take(peer(1), &two).await.unwrap());
        drop(first);
        let started = Instant::now();
        assert!(!places.make_room().await && second.close().is_cancelled());
        assert_eq!(started.elapsed(), LOOK, "the one that was closed has not ended");
    }
}

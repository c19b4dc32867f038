//! Places for connections, and which connection is closed when all of them are taken.
//!
//! A connection that is answering is never closed. Of the others, those without a request go first, then idle ones, then
//! those whose request bodies take long to arrive; each time one of the peer that has most of them, and of these the one
//! that has been so for the longest time. So one peer cannot keep others out. (DEC-46)

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::connection::{Activity, Spare};
use crate::telemetry::metrics::Reason;

/// How often a new connection looks again when all others are answering.
const LOOK: Duration = Duration::from_millis(100);

/// A limited number of places.
#[derive(Debug)]
pub(super) struct Places {
    limit: usize,
    taken: Mutex<Taken>,
    freed: Notify,
    closed: Family<Reason, Counter>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// Connections that have not been told to close.
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    peer: IpAddr,
    activity: Activity,
    close: CancellationToken,
}

/// The place of one connection; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    close: CancellationToken,
}

impl Place {
    /// Is cancelled when the connection has to make room for another.
    pub(super) fn close(&self) -> &CancellationToken {
        &self.close
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().open.remove(&self.number);
        self.places.freed.notify_one();
    }
}

impl Places {
    /// That many places; `closed` counts the connections that are closed to make room.
    pub(super) fn new(limit: usize, closed: Family<Reason, Counter>) -> Self {
        Places { limit, taken: Mutex::default(), freed: Notify::new(), closed }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection of this peer, once one is free or another connection could be closed.
    pub(super) async fn take(self: &Arc<Self>, peer: IpAddr, activity: &Activity) -> Place {
        loop {
            if let Some(place) = self.try_take(peer, activity) {
                return place;
            }
            if !self.close_one() {
                let _ = timeout(LOOK, self.freed.notified()).await;
            }
        }
    }

    /// Closes a connection, if one can be spared, and waits until it has ended.
    pub(super) async fn make_room(&self) -> bool {
        let ends = self.freed.notified();
        self.close_one() && timeout(LOOK, ends).await.is_ok()
    }

    fn try_take(self: &Arc<Self>, peer: IpAddr, activity: &Activity) -> Option<Place> {
        let mut taken = self.taken();
        if taken.open.len() >= self.limit {
            return None;
        }
        let (number, close) = (taken.next, CancellationToken::new());
        taken.next += 1;
        taken.open.insert(number, Open { peer, activity: activity.clone(), close: close.clone() });
        Some(Place { places: self.clone(), number, close })
    }

    /// Closes the connection that can be spared most; false if all are answering.
    fn close_one(&self) -> bool {
        let now = Instant::now();
        let mut taken = self.taken();
        let spare: Vec<(u64, IpAddr, Spare, Instant)> = taken
            .open
            .iter()
            .filter_map(|(number, open)| {
                let (spare, since) = open.activity.spare(now)?;
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
        let Some(open) = chosen.and_then(|(number, ..)| taken.open.remove(number)) else { return false };
        drop(taken);
        debug!(peer = %open.peer, reason = first.label(), "Closed a connection to make room");
        self.closed.get_or_create(&Reason { reason: first.label() }).inc();
        open.close.cancel();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    fn places(limit: usize) -> Arc<Places> {
        Arc::new(Places::new(limit, Family::default()))
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
    async fn silent_connections_go_before_idle_ones_and_the_longest_of_the_largest_peer_first() {
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
            all.push((name, places.take(peer(last), &activity).await, activity));
            after(1).await;
        }
        let mut order = Vec::new();
        while places.close_one() {
            let told = all.iter().position(|(_, place, _)| place.close().is_cancelled()).unwrap();
            order.push(all.remove(told).0);
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
        let place = places.take(peer(1), &busy).await;
        after(1000).await;
        assert!(!places.close_one());
        let new = Activity::new();
        assert!(timeout(Duration::from_secs(1000), places.take(peer(2), &new)).await.is_err());
        drop(answering);
        let taken = timeout(Duration::from_millis(1), places.take(peer(2), &new)).await;
        assert!(taken.is_ok() && place.close().is_cancelled(), "it is idle now");
        drop(place);
        assert_eq!(places.taken().open.len(), 1, "a place is given back once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_takes_long_to_arrive_does_not_protect_its_connection() {
        let places = places(1);
        let slow = Activity::new();
        let answering = slow.answering();
        let arriving = slow.arriving();
        let place = places.take(peer(1), &slow).await;
        assert!(!places.close_one());
        after(2).await;
        drop(arriving);
        assert!(!places.close_one(), "it has arrived");
        let _next = slow.answering();
        let _arriving = slow.arriving();
        after(2).await;
        assert!(!places.close_one(), "another request is answered");
        drop(answering);
        assert!(!places.close_one(), "until a moment ago");
        after(2).await;
        assert!(places.close_one() && place.close().is_cancelled());
    }
}

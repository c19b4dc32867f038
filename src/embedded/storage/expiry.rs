//! When Events are removed: some time after their last write, as kube-apiserver does (`--event-ttl`).

use std::collections::VecDeque;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// The default of kube-apiserver.
const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);

/// What goes, in order: when, where it is, and in which version.
#[derive(Debug)]
pub(super) struct Expiry<P>(VecDeque<(Timestamp, P, u64)>);

impl<P> Default for Expiry<P> {
    fn default() -> Self {
        Expiry(VecDeque::new())
    }
}

impl<P> Expiry<P> {
    /// Notes a write.
    pub(super) fn note(&mut self, place: P, version: u64, now: Timestamp) {
        // A time that cannot be represented is far away.
        if let Ok(until) = now.checked_add(EVENT_TTL) {
            self.0.push_back((until, place, version));
        }
    }

    /// The next one whose time is over. If it is in another version now, it has been written again.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<(P, u64)> {
        let (until, ..) = self.0.front()?;
        if *until > now {
            return None;
        }
        self.0.pop_front().map(|(_, place, version)| (place, version))
    }
}

//! Events are removed some time after their last write, as kube-apiserver does (`--event-ttl`).

use std::collections::VecDeque;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::store::{State, StoreKey};

/// The default of kube-apiserver.
const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);

/// The Events in the order in which they go: when, where, and in which version.
#[derive(Debug, Default)]
pub(super) struct Expiry(VecDeque<(Timestamp, StoreKey, u64)>);

impl State {
    /// Notes that an Event was written, and removes those whose time is over. One that was written again has a later time.
    pub(in crate::embedded) fn note_event(&mut self, place: &StoreKey, version: u64, now: Timestamp) {
        while let Some((until, ..)) = self.expiry.0.front()
            && *until <= now
            && let Some((_, place, version)) = self.expiry.0.pop_front()
        {
            if self.get(&place).is_some_and(|event| event.version == version) {
                self.remove(&place);
            }
        }
        // A time that cannot be represented is far away.
        if let Ok(until) = now.checked_add(EVENT_TTL) {
            self.expiry.0.push_back((until, place.clone(), version));
        }
    }
}

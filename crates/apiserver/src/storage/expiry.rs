//! Expiry of Events: a fixed time after their last write, as in kube-apiserver (`--event-ttl`), and earlier above a
//! number or memory limit.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use jiff::{SignedDuration, Timestamp};

use super::Retention;

/// The default of kube-apiserver.
const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);

/// Events in the order of their last writes.
#[derive(Debug)]
pub(super) struct Expiry<P> {
    events: BTreeMap<u64, TrackedEvent<P>>,
    /// The version of each Event.
    versions: HashMap<P, u64>,
    bytes: usize,
}

#[derive(Debug)]
struct TrackedEvent<P> {
    place: P,
    written: Timestamp,
    bytes: usize,
}

impl<P> Default for Expiry<P> {
    fn default() -> Self {
        Expiry { events: BTreeMap::new(), versions: HashMap::new(), bytes: 0 }
    }
}

impl<P: Clone + Eq + Hash> Expiry<P> {
    /// Records a write of an Event with its current size.
    pub(super) fn note(&mut self, place: P, version: u64, bytes: usize, now: Timestamp) {
        self.forget(&place);
        self.versions.insert(place.clone(), version);
        self.events.insert(version, TrackedEvent { place, written: now, bytes });
        self.bytes += bytes;
    }

    /// Records the removal of an Event.
    pub(super) fn forget(&mut self, place: &P) {
        if let Some(event) = self.versions.remove(place).and_then(|version| self.events.remove(&version)) {
            self.bytes -= event.bytes;
        }
    }

    /// Removes and returns the next Event to expire, if any.
    pub(super) fn next(&mut self, now: Timestamp, retention: &Retention) -> Option<P> {
        let (_, oldest) = self.events.first_key_value()?;
        let is_old = oldest.written.checked_add(EVENT_TTL).is_ok_and(|until| until <= now);
        if !is_old && self.events.len() <= retention.events && self.bytes <= retention.event_bytes {
            return None;
        }
        let place = oldest.place.clone();
        self.forget(&place);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(expiry: &mut Expiry<&'static str>, now: Timestamp, retention: &Retention) -> Vec<&'static str> {
        std::iter::from_fn(|| expiry.next(now, retention)).collect()
    }

    #[test]
    fn events_go_when_they_are_old_many_or_large() {
        let retention = Retention { events: 3, event_bytes: 100, ..Retention::default() };
        let (mut expiry, start) = (Expiry::default(), Timestamp::UNIX_EPOCH);
        let after = |minutes| start.checked_add(SignedDuration::from_mins(minutes)).unwrap();
        for (version, place) in ["a", "b", "c"].into_iter().enumerate() {
            expiry.note(place, version as u64, 10, after(0));
        }
        assert_eq!(gone(&mut expiry, after(59), &retention), [""; 0]);
        expiry.note("a", 3, 20, after(30));
        expiry.note("d", 4, 10, after(31));
        assert_eq!(gone(&mut expiry, after(31), &retention), ["b"], "one too many, and a was written since");
        expiry.note("e", 5, 81, after(32));
        assert_eq!(gone(&mut expiry, after(32), &retention), ["c", "a"], "they took 121 bytes");
        expiry.forget(&"d");
        assert_eq!(gone(&mut expiry, after(91), &retention), [""; 0]);
        assert_eq!(gone(&mut expiry, after(92), &retention), ["e"]);
        assert_eq!((expiry.bytes, expiry.events.len(), expiry.versions.len()), (0, 0, 0));
    }
}

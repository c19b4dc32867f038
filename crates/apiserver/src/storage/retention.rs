//! How much an API keeps of what it could also forget.

use jiff::{SignedDuration, Timestamp};

/// Bounds on the history of an API, and on its Events.
#[derive(Clone, Debug)]
pub struct Retention {
    /// How many changes of a kind are kept for watches that begin in the past and for lists of pages.
    pub changes: usize,
    /// About how many bytes the changes of all kinds take together.
    pub change_bytes: usize,
    /// For how long a change is kept.
    pub change_age: SignedDuration,
    /// How many Events there are at most; the oldest go.
    pub events: usize,
    /// About how many bytes they take together.
    pub event_bytes: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Retention {
            changes: 2_000,
            change_bytes: 16 << 20,
            change_age: SignedDuration::from_secs(30),
            events: 2_000,
            event_bytes: 4 << 20,
        }
    }
}

impl Retention {
    /// The moment before which changes are too old.
    pub(super) fn oldest_change(&self, now: Timestamp) -> Timestamp {
        now.checked_sub(self.change_age).unwrap_or(Timestamp::MIN)
    }

    /// That of a workload cluster.
    pub(crate) fn of_workload(&self) -> Self {
        let part = |bytes: usize| bytes / 32;
        Retention {
            change_bytes: part(self.change_bytes),
            events: part(self.events).max(1),
            event_bytes: part(self.event_bytes),
            ..self.clone()
        }
    }
}

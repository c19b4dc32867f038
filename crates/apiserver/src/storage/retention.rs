//! Limits on the history that an API keeps.

use jiff::{SignedDuration, Timestamp};

/// Limits on the history and the Events of an API.
#[derive(Clone, Debug)]
pub struct Retention {
    /// Maximum number of changes per kind, for watches and paged lists that start in the past.
    pub changes: usize,
    /// Approximate maximum bytes of the changes of all kinds.
    pub change_bytes: usize,
    /// Maximum age of a change.
    pub change_age: SignedDuration,
    /// Maximum number of Events; the oldest are removed.
    pub events: usize,
    /// Approximate maximum bytes of Events.
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
    /// The time before which changes are dropped.
    pub(super) fn oldest_change(&self, now: Timestamp) -> Timestamp {
        now.checked_sub(self.change_age).unwrap_or(Timestamp::MIN)
    }

    /// Limits of a workload cluster.
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

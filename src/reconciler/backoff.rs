//! The delay before the next run of an object.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::hub::ObjectKey;

/// No wait is longer.
const LONGEST: Duration = Duration::from_secs(1000);
/// So many writes in a row are nothing unusual: one is answered by a run that finds nothing to write.
const WRITES: u32 = 5;

/// What has to be remembered of objects that fail or that are written again and again.
#[derive(Debug)]
pub(super) struct Backoff<K = ObjectKey> {
    objects: Mutex<HashMap<K, State>>,
    hashes: RandomState,
}

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Backoff { objects: Mutex::default(), hashes: RandomState::default() }
    }
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    reason: String,
    /// Writes since the last run that had nothing to write.
    writes: u32,
    written: Option<Instant>,
    /// The hash of the status after the last write.
    status: Option<u64>,
    /// The version that the last write has made an old one.
    replaced: Option<String>,
}

/// The next write of an object is delayed, because many writes followed each other.
#[derive(Debug, thiserror::Error)]
#[error("{cause}; delaying the next write")]
pub(super) struct Held {
    pub wait: Duration,
    cause: Cause,
}

/// Why an object is written many times in a row.
#[derive(Debug, PartialEq, Eq)]
enum Cause {
    /// The status is not as it was written last.
    OtherClient,
    /// The object, or something that its status depends on, keeps changing.
    Changes,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::OtherClient => f.write_str("another client keeps changing the status"),
            Cause::Changes => write!(f, "more than {WRITES} changes of the status in a row"),
        }
    }
}

impl<K: Clone + Eq + Hash> Backoff<K> {
    /// When to try again after a failure (RS-09), and whether its reason is new.
    pub(super) fn failed(&self, key: &K, reason: &str) -> (Duration, bool) {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let state = objects.entry(key.clone()).or_default();
        state.failures = state.failures.saturating_add(1);
        let is_new = state.reason != reason;
        state.reason = reason.to_owned();
        let step = Duration::from_millis(5).saturating_mul(2_u32.saturating_pow(state.failures));
        (step.saturating_add(Duration::from_secs(1)).min(LONGEST), is_new)
    }

    /// A run had nothing to complain of.
    pub(super) fn succeeded(&self, key: &K) {
        self.change(key, |state| (state.failures, state.reason) = (0, String::new()));
    }

    /// A run had nothing to write.
    pub(super) fn rested(&self, key: &K) {
        self.change(key, |state| state.writes = 0);
    }

    /// The object is gone.
    pub(super) fn forget(&self, key: &K) {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Counts a write of an object with this status, unless there were many in a row just now.
    pub(super) fn before_write(&self, key: &K, status: Option<&Value>) -> Result<(), Held> {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let state = objects.entry(key.clone()).or_default();
        if let Some(beyond) = state.writes.checked_sub(WRITES) {
            let pause = Duration::from_secs(1).saturating_mul(2_u32.saturating_pow(beyond)).min(LONGEST);
            let wait = pause.saturating_sub(state.written.map_or(pause, |written| written.elapsed()));
            if !wait.is_zero() {
                let is_reverted = state.status.is_some_and(|written| written != self.hashes.hash_one(status));
                let cause = match is_reverted {
                    true => Cause::OtherClient,
                    false => Cause::Changes,
                };
                return Err(Held { wait, cause });
            }
        }
        state.writes = state.writes.saturating_add(1);
        state.written = Some(Instant::now());
        Ok(())
    }

    /// The object has this status after a write.
    pub(super) fn wrote(&self, key: &K, status: Option<&Value>) {
        self.change(key, |state| state.status = Some(self.hashes.hash_one(status)));
    }

    /// A write has taken the place of this version.
    pub(super) fn replaced(&self, key: &K, version: &str) {
        self.change(key, |state| state.replaced = Some(version.to_owned()));
    }

    /// Whether this version is older than our own last write, so that a newer one is on its way (RS-11).
    pub(super) fn is_stale(&self, key: &K, version: &str) -> bool {
        let objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.get(key).is_some_and(|state| state.replaced.as_deref() == Some(version))
    }

    fn change(&self, key: &K, change: impl FnOnce(&mut State)) {
        if let Some(state) = self.objects.lock().unwrap_or_else(PoisonError::into_inner).get_mut(key) {
            change(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_back_off_until_a_run_succeeds() {
        // RS-09
        let (backoff, key) = (Backoff::default(), ObjectKey::new("ns", "c"));
        assert_eq!(backoff.failed(&key, "a"), (Duration::from_millis(1010), true));
        assert_eq!(backoff.failed(&key, "a"), (Duration::from_millis(1020), false));
        assert_eq!(backoff.failed(&key, "b"), (Duration::from_millis(1040), true));
        for _ in 0..40 {
            backoff.failed(&key, "b");
        }
        assert_eq!(backoff.failed(&key, "b"), (LONGEST, false));
        assert_eq!(backoff.failed(&ObjectKey::new("ns", "d"), "a"), (Duration::from_millis(1010), true));
        backoff.succeeded(&key);
        assert_eq!(backoff.failed(&key, "b"), (Duration::from_millis(1010), true));
    }

    #[tokio::test(start_paused = true)]
    async fn two_controllers_that_revert_each_other_slow_down() {
        let (backoff, key) = (Backoff::default(), ObjectKey::new("ns", "c"));
        for _ in 0..WRITES {
            assert!(backoff.before_write(&key, None).is_ok());
        }
        for wait in [1, 2, 4] {
            let held = backoff.before_write(&key, None).unwrap_err();
            assert_eq!(held.wait, Duration::from_secs(wait));
            tokio::time::advance(held.wait).await;
            assert!(backoff.before_write(&key, None).is_ok());
        }
        backoff.rested(&key);
        assert!(backoff.before_write(&key, None).is_ok());
        assert!(backoff.before_write(&ObjectKey::new("ns", "d"), None).is_ok());
    }
}

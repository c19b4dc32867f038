//! The delay before the next run of an object.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::kubernetes::overload::ApiOverload;
use model::hub::ObjectKey;

/// Maximum delay.
const LONGEST: Duration = Duration::from_secs(1000);
/// Interval in which a failure with the same reason is logged again, and its condition is updated.
const LOGGED_AGAIN: Duration = Duration::from_mins(5);
/// A failure is persistent after this many runs in a row, and after this time since the first of them.
const PERSISTENT: (u32, Duration) = (5, Duration::from_secs(20));
/// Minimum time between Events about a persistent failure. Some reasons differ each time: they contain generated names.
const REPORTED_AGAIN: Duration = Duration::from_hours(1);
/// Number of consecutive writes without a delay. Usually, the run after a write has nothing to write.
const WRITES: u32 = 5;

/// The state of objects that fail or that are written repeatedly.
#[derive(Debug)]
pub(super) struct Backoff<K = ObjectKey> {
    objects: Mutex<HashMap<K, FailureState>>,
    hashes: RandomState,
}

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Backoff { objects: Mutex::default(), hashes: RandomState::default() }
    }
}

#[derive(Debug, Default)]
struct FailureState {
    failures: u32,
    /// When the first of these failures happened, and when the last one was logged.
    since: Option<Instant>,
    logged: Option<Instant>,
    reason: String,
    /// When the condition was written last.
    shown: Option<Instant>,
    /// The reason of the last Event, and when it was written.
    reported: Option<(String, Instant)>,
    /// Until when the next run waits even if a change asks for it.
    damped: Option<Instant>,
    /// Conflicts since the last run without one.
    conflicts: u32,
    /// Writes since the last run that had nothing to write.
    writes: u32,
    written: Option<Instant>,
    /// The hash of the status after the last write.
    status: Option<u64>,
    /// The version that the last write has made an old one.
    replaced: Option<String>,
}

/// A failed run, with its consequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FailedRun {
    /// The delay before the next run.
    pub wait: Duration,
    /// How many runs failed in a row.
    pub failures: u32,
    /// Whether it is logged: its reason is new, or was logged minutes ago.
    pub is_logged: bool,
    /// Whether its condition is brought up to date now: once it has failed for long enough, and every few minutes
    /// (DEC-60).
    pub is_shown: bool,
    /// Whether an Event reports it now: once, and once more if the reason changes after an hour.
    pub is_reported: bool,
}

/// The delay of a write after many consecutive writes.
#[derive(Debug, thiserror::Error)]
#[error("{cause}; delaying the next write")]
pub(super) struct DelayedWrite {
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
    /// Counts a failure, and returns its consequences (RS-09).
    pub(super) fn failed(&self, key: &K, reason: &str) -> FailedRun {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, now) = (objects.entry(key.clone()).or_default(), Instant::now());
        state.failures = state.failures.saturating_add(1);
        let since = *state.since.get_or_insert(now);
        let is_new = state.reason != reason;
        state.reason = reason.to_owned();
        let is_logged = is_new || state.logged.is_none_or(|logged| now - logged >= LOGGED_AGAIN);
        if is_logged {
            state.logged = Some(now);
        }
        let is_persistent = is_persistent(state.failures, now - since);
        let is_shown = is_persistent && state.shown.is_none_or(|shown| now - shown >= LOGGED_AGAIN);
        if is_shown {
            state.shown = Some(now);
        }
        let is_reported = is_persistent
            && state.reported.as_ref().is_none_or(|(known, at)| known != reason && now - *at >= REPORTED_AGAIN);
        if is_reported {
            state.reported = Some((reason.to_owned(), now));
        }
        let step = Duration::from_millis(5).saturating_mul(2_u32.saturating_pow(state.failures));
        FailedRun {
            wait: step.saturating_add(Duration::from_secs(1)).min(LONGEST),
            failures: state.failures,
            is_logged,
            is_shown,
            is_reported,
        }
    }

    /// Whether the last run failed.
    pub(super) fn has_failed(&self, key: &K) -> bool {
        let objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.get(key).is_some_and(|state| state.failures > 0)
    }

    /// Whether a failure of the current run would be persistent, given the failures before it (DEC-60).
    pub(super) fn would_last(&self, key: &K) -> bool {
        let objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.get(key).is_some_and(|state| {
            state.since.is_some_and(|since| is_persistent(state.failures.saturating_add(1), since.elapsed()))
        })
    }

    /// Whether the status of an object does not report the failure of its current run, because the API server has been
    /// busy only for a short time (DEC-106).
    pub(super) fn is_silent_about(&self, key: &K, overload: Option<&ApiOverload>) -> bool {
        overload.is_some() && !self.would_last(key)
    }

    /// Delays the next run of an object, even if a change queues it.
    pub(super) fn damp(&self, key: &K, wait: Duration) {
        self.change(key, |state| state.damped = Some(Instant::now() + wait));
    }

    /// Remaining delay of a run that a change queues.
    pub(super) fn damped(&self, key: &K) -> Option<Duration> {
        let objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let left = objects.get(key)?.damped?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Counts a write conflict; returns the number of consecutive ones.
    pub(super) fn conflicted(&self, key: &K) -> u32 {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let state = objects.entry(key.clone()).or_default();
        state.conflicts = state.conflicts.saturating_add(1);
        state.conflicts
    }

    /// Notes a run without failure.
    pub(super) fn succeeded(&self, key: &K) {
        self.change(key, |state| {
            (state.failures, state.conflicts) = (0, 0);
            (state.since, state.logged) = (None, None);
            (state.shown, state.reported, state.damped) = (None, None, None);
            state.reason = String::new();
        });
    }

    /// Notes a run without a write.
    pub(super) fn rested(&self, key: &K) {
        self.change(key, |state| state.writes = 0);
    }

    /// Drops the state of a deleted object.
    pub(super) fn forget(&self, key: &K) {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Counts a write of an object with this status, unless there were many consecutive writes just now.
    pub(super) fn before_write(&self, key: &K, status: Option<&Value>) -> Result<(), DelayedWrite> {
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
                return Err(DelayedWrite { wait, cause });
            }
        }
        state.writes = state.writes.saturating_add(1);
        state.written = Some(Instant::now());
        Ok(())
    }

    /// Notes the status of the object after a write.
    pub(super) fn wrote(&self, key: &K, status: Option<&Value>) {
        self.change(key, |state| state.status = Some(self.hashes.hash_one(status)));
    }

    /// Notes that a write replaced this version.
    pub(super) fn replaced(&self, key: &K, version: &str) {
        self.change(key, |state| state.replaced = Some(version.to_owned()));
    }

    /// Whether this version is older than the last write of this process, so the watch has not shown that write yet
    /// (RS-11).
    pub(super) fn is_stale(&self, key: &K, version: &str) -> bool {
        let objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.get(key).is_some_and(|state| state.replaced.as_deref() == Some(version))
    }

    fn change(&self, key: &K, change: impl FnOnce(&mut FailureState)) {
        if let Some(state) = self.objects.lock().unwrap_or_else(PoisonError::into_inner).get_mut(key) {
            change(state);
        }
    }
}

/// Whether a failure is persistent, by the number of failed runs in a row and the time since the first of them.
fn is_persistent(failures: u32, since_first: Duration) -> bool {
    let (most, age) = PERSISTENT;
    failures >= most && since_first >= age
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_back_off_until_a_run_succeeds() {
        // RS-09
        let (backoff, key) = (Backoff::default(), ObjectKey::new("ns", "c"));
        let failed = |key: &ObjectKey, reason: &str| {
            let run = backoff.failed(key, reason);
            (run.wait, run.is_logged)
        };
        assert_eq!(failed(&key, "a"), (Duration::from_millis(1010), true));
        assert_eq!(failed(&key, "a"), (Duration::from_millis(1020), false));
        assert_eq!(failed(&key, "b"), (Duration::from_millis(1040), true));
        for _ in 0..40 {
            backoff.failed(&key, "b");
        }
        assert_eq!(failed(&key, "b"), (LONGEST, false));
        assert_eq!(failed(&ObjectKey::new("ns", "d"), "a"), (Duration::from_millis(1010), true));
        backoff.succeeded(&key);
        assert_eq!(failed(&key, "b"), (Duration::from_millis(1010), true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_goes_on_is_reported_once_and_logged_every_few_minutes() {
        // DEC-60
        let (backoff, key) = (Backoff::default(), ObjectKey::new("ns", "c"));
        let began = Instant::now();
        let (mut logged, mut shown, mut reported) = (Vec::new(), Vec::new(), Vec::new());
        while began.elapsed() < Duration::from_hours(2) {
            let would_last = backoff.would_last(&key);
            let (at, run) = (began.elapsed().as_secs(), backoff.failed(&key, "why"));
            assert_eq!(
                would_last,
                !shown.is_empty() || run.is_shown,
                "the failure that is shown first is one that lasts"
            );
            for (all, is_so) in
                [(&mut logged, run.is_logged), (&mut shown, run.is_shown), (&mut reported, run.is_reported)]
            {
                all.extend(is_so.then_some(at));
            }
            tokio::time::advance(run.wait).await;
        }
        assert!((20..40).contains(&shown[0]), "{shown:?}");
        assert_eq!(reported, shown[..1]);
        for all in [&logged, &shown] {
            let gaps: Vec<u64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(gaps.len() > 4 && gaps.iter().all(|gap| (300..=1000).contains(gap)), "{gaps:?}");
        }
        let other = |reason: &str| {
            let run = backoff.failed(&key, reason);
            (run.is_shown, run.is_reported)
        };
        assert_eq!((other("b"), other("c")), ((true, true), (false, false)), "reasons that differ each time");
        tokio::time::advance(LOGGED_AGAIN).await;
        assert_eq!((other("d"), other("e")), ((true, false), (false, false)));
        backoff.succeeded(&key);
        assert_eq!(other("why"), (false, false));
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

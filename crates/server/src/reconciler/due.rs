//! Counts the objects with a run in progress or due soon: `topologist_reconciles_due`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;

use crate::telemetry::metrics::{Controller, Metrics};

/// Runs that are due within this time count.
const DUE_WITHIN: Duration = Duration::from_secs(1);

/// The objects whose run is in progress or due within a second, counted by controller.
///
/// A run that is due later is a resync, or a retry of something that keeps failing, and does not count.
pub(super) struct DueObjects<K> {
    states: Mutex<HashMap<K, DueState>>,
    controller: Box<dyn Fn(&K) -> &'static str + Send + Sync>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct DueState {
    is_queued: bool,
    is_running: bool,
}

impl<K> fmt::Debug for DueObjects<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DueObjects")
    }
}

impl<K: Clone + Eq + Hash> DueObjects<K> {
    /// No objects yet. `controller` returns the metric label of the controller of an object.
    pub(super) fn new(
        metrics: Arc<Metrics>,
        controller: impl Fn(&K) -> &'static str + Send + Sync + 'static,
    ) -> DueObjects<K> {
        DueObjects { states: Mutex::default(), controller: Box::new(controller), metrics }
    }

    /// Notes that a run of an object is due after a time.
    pub(super) fn queue(&self, object: &K, after: Duration) {
        if after <= DUE_WITHIN {
            self.change(object, |state| state.is_queued = true);
        }
    }

    /// Notes that a run of an object begins.
    pub(super) fn begin(&self, object: &K) {
        self.change(object, |state| *state = DueState { is_queued: false, is_running: true });
    }

    /// Notes that a run of an object has ended.
    pub(super) fn end(&self, object: &K) {
        self.change(object, |state| state.is_running = false);
    }

    /// Notes that a queued object is deleted, so its run does not begin.
    pub(super) fn skip(&self, object: &K) {
        self.change(object, |state| state.is_queued = false);
    }

    fn change(&self, object: &K, change: impl FnOnce(&mut DueState)) {
        let mut states = self.states();
        match states.entry(object.clone()) {
            Entry::Occupied(mut known) => {
                change(known.get_mut());
                if !known.get().is_due() {
                    known.remove();
                    self.gauge(object).dec();
                }
            }
            Entry::Vacant(unknown) => {
                let mut state = DueState::default();
                change(&mut state);
                if state.is_due() {
                    unknown.insert(state);
                    self.gauge(object).inc();
                }
            }
        }
    }

    fn gauge(&self, object: &K) -> Gauge {
        let controller = (self.controller)(object);
        self.metrics.reconciles_due.get_or_create(&Controller { controller }).clone()
    }
}

impl<K> DueObjects<K> {
    fn states(&self) -> MutexGuard<'_, HashMap<K, DueState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DueState {
    fn is_due(&self) -> bool {
        self.is_queued || self.is_running
    }
}

/// A process that no longer leads reconciles nothing.
impl<K> Drop for DueObjects<K> {
    fn drop(&mut self) {
        for (object, _) in self.states().drain() {
            let controller = (self.controller)(&object);
            self.metrics.reconciles_due.get_or_create(&Controller { controller }).dec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_count_from_the_event_that_queues_them_to_the_end_of_their_last_run() {
        let metrics = Arc::<Metrics>::default();
        let due = DueObjects::new(metrics.clone(), |_: &&str| "machine");
        let count = || metrics.reconciles_due.get_or_create(&Controller { controller: "machine" }).get();
        due.queue(&"a", Duration::ZERO);
        due.queue(&"a", DUE_WITHIN);
        due.queue(&"later", DUE_WITHIN * 2);
        assert_eq!(count(), 1);
        due.begin(&"a");
        due.queue(&"b", Duration::ZERO);
        assert_eq!(count(), 2, "one runs, one is queued");
        due.queue(&"a", Duration::ZERO);
        due.end(&"a");
        assert_eq!(count(), 2, "an event came during the run");
        due.begin(&"a");
        due.end(&"a");
        due.skip(&"b");
        assert_eq!(count(), 0);
        due.begin(&"resync");
        assert_eq!(count(), 1, "a timer began the run");
        drop(due);
        assert_eq!(count(), 0, "this process leads no longer");
    }
}

//! The loop of every controller: it runs queued objects, and measures the runs.

use std::convert::Infallible;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use kube::runtime::applier;
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::backoff::Backoff;
use crate::hub::ObjectKey;
use crate::telemetry::metrics::{Controller, Metrics, Reconcile};

/// When to look again at what is about to change.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunOutcome {
    /// Nothing had to be written.
    Unchanged,
    /// Something was written.
    Changed,
    /// The object is paused, is being deleted, or is not ours.
    LeftAlone,
}

impl RunOutcome {
    /// Its name in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            RunOutcome::Unchanged => "unchanged",
            RunOutcome::Changed => "changed",
            RunOutcome::LeftAlone => "left-alone",
        }
    }
}

/// Reconciles queued known objects, one run at a time for each object and `workers` side by side.
pub(super) async fn run_woken<K, R>(
    known: Store<K>,
    woken: impl Stream<Item = ObjectRef<K>>,
    workers: u16,
    run: impl Fn(Arc<K>) -> R,
) where
    K: kube::Resource<DynamicType: fmt::Debug + Clone + Eq + Hash + Unpin> + Clone + 'static,
    R: Future<Output = Action>,
{
    let run = |object, _| Box::pin(run(object).map(Ok::<_, Infallible>));
    // Errors are dealt with where they arise; an object that is gone is no error.
    let again = |_: Arc<K>, never: &Infallible, _: Arc<()>| match *never {};
    let config = Config::default().concurrency(workers);
    let runs = applier(run, again, Arc::default(), known, woken.map(Ok::<_, Infallible>), config);
    runs.for_each(|_| std::future::ready(())).await;
}

/// What the failure of a run means for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Another process leads, and does it.
    NotLeading,
    /// The run was in vain and nothing is wrong: the next one is due after a while; with the name of that outcome in metrics.
    Again(Duration, &'static str),
    /// As long as nothing else keeps writing.
    Held(Duration),
    /// It is tried again after a while that grows.
    Failed,
}

/// Why a run of a controller did not finish.
pub(super) trait RunFailure: fmt::Display {
    /// What that means for the next run.
    fn verdict(&self) -> Verdict;
}

/// What follows from the end of a run (RS-08, RS-09): when the next one is due if nothing wakes the object before, and the name of
/// the outcome in metrics. `trouble` is what logs call a failure.
pub(super) fn conclude<E: RunFailure>(
    key: &ObjectKey,
    outcome: Result<(Action, &'static str), E>,
    backoff: &Backoff,
    trouble: &'static str,
) -> (Action, &'static str) {
    let error = match outcome {
        Ok(done) => {
            backoff.succeeded(key);
            return done;
        }
        Err(error) => error,
    };
    match error.verdict() {
        Verdict::NotLeading => {
            debug!(%error, "Skipped because this process is not the leader");
            (Action::await_change(), "not-leading")
        }
        Verdict::Again(after, name) => (Action::requeue(after), name),
        Verdict::Held(wait) => {
            if backoff.failed(key, &error.to_string()).1 {
                warn!(%error, ?wait, "{trouble}");
            }
            (Action::requeue(wait), "held")
        }
        Verdict::Failed => {
            let (again, is_new) = backoff.failed(key, &error.to_string());
            if is_new {
                warn!(%error, ?again, "{trouble}");
            } else {
                debug!(%error, ?again, "{trouble} again");
            }
            (Action::requeue(again), "failed")
        }
    }
}

/// Counts a finished run of a controller.
pub(super) fn count(metrics: &Metrics, controller: &'static str, outcome: &'static str, started: Instant) {
    metrics.reconciles.get_or_create(&Reconcile { controller, outcome }).inc();
    let elapsed = started.elapsed().as_secs_f64();
    metrics.reconcile_duration.get_or_create(&Controller { controller }).observe(elapsed);
}

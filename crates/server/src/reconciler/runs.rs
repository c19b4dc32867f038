//! The loop of every controller: it runs queued objects, and measures the runs.

use std::convert::Infallible;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use kube::runtime::applier;
use kube::runtime::controller::{self, Config};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::backoff::Backoff;
use super::due::DueObjects;
use crate::kubernetes::events::{EventReason, QueuedEvent, Recorder};
use crate::kubernetes::managed::REFUSED;
use crate::kubernetes::observations::key_of;
use crate::kubernetes::overload::ApiOverload;
use crate::telemetry::metrics::{Controller, Metrics, Reconcile};
use model::hub::{self, ObjectKey};

/// Delay of the next run when a change is expected soon.
pub(super) const SHORT_REQUEUE: Duration = Duration::from_secs(1);

/// The event of a persistent failure.
pub(super) const RECONCILE_FAILED: EventReason = EventReason::warning("ReconcileFailed");
/// Number of consecutive runs without effect after which the next one counts as a failure.
const IN_VAIN: u32 = 30;
/// Maximum time without a run of an object.
const RESYNC: Duration = Duration::from_mins(10);

/// The outcome of a run.
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
    /// The metric label.
    pub(super) fn name(self) -> &'static str {
        match self {
            RunOutcome::Unchanged => "unchanged",
            RunOutcome::Changed => "changed",
            RunOutcome::LeftAlone => "left-alone",
        }
    }
}

/// When the next run of an object is due if no event queues it before.
///
/// Unlike `Action` of kube, it exposes the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NextRun {
    requeue_after: Option<Duration>,
}

impl NextRun {
    /// A run after this time.
    pub(super) const fn requeue(after: Duration) -> Self {
        NextRun { requeue_after: Some(after) }
    }

    /// No run before the next event.
    pub(super) const fn await_change() -> Self {
        NextRun { requeue_after: None }
    }
}

impl From<NextRun> for controller::Action {
    fn from(action: NextRun) -> Self {
        action.requeue_after.map_or_else(Self::await_change, Self::requeue)
    }
}

/// Reconciles queued known objects, one run at a time for each object and `workers` concurrently.
pub(super) async fn run_woken<K, R>(
    (controller, metrics): (&'static str, &Arc<Metrics>),
    known: Store<K>,
    woken: impl Stream<Item = ObjectRef<K>>,
    workers: u16,
    run: impl Fn(Arc<K>) -> R,
) where
    K: kube::Resource<DynamicType: fmt::Debug + Clone + Eq + Hash + Unpin> + Clone + 'static,
    R: Future<Output = NextRun>,
{
    let due = DueObjects::new(metrics.clone(), move |_| controller);
    let run = |object: Arc<K>, _| {
        let (key, due) = (key_of(&*object), &due);
        due.begin(&key);
        let run = run(object).map(move |action| {
            action.requeue_after.into_iter().for_each(|after| due.queue(&key, after));
            due.end(&key);
            Ok::<_, Infallible>(action.into())
        });
        Box::pin(run)
    };
    // Runs handle their errors; a deleted object is no error.
    let again = |_: Arc<K>, never: &Infallible, _: Arc<()>| match *never {};
    let config = Config::default().concurrency(workers);
    let named = |name: &str, namespace: &Option<String>| ObjectKey::new(namespace.as_deref().unwrap_or(""), name);
    let woken = woken.inspect(|woken| due.queue(&named(&woken.name, &woken.namespace), Duration::ZERO));
    let runs = applier(run, again, Arc::default(), known, woken.map(Ok::<_, Infallible>), config);
    let note_gone = async |outcome| {
        if let Err(controller::Error::ObjectNotFound(gone)) = outcome {
            due.skip(&named(&gone.name, &gone.namespace));
        }
    };
    runs.for_each(note_gone).await;
}

/// When to run again after a failed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// The lease was not renewed in time. It may still be renewed: then the run is due.
    NotLeading,
    /// The run had no effect, which counts as a failure only if it is repeated. The next run is due after this time.
    /// The metric label of the outcome.
    Again(Duration, &'static str),
    /// A cache is not listed yet; its list queues the object. A list that the API server refuses becomes a result after
    /// a while, without a notification.
    Postponed,
    /// As long as nothing else keeps writing.
    Held(Duration),
    /// The run is retried with exponential backoff.
    Failed,
    /// The same, and not sooner than the API server requests.
    Overloaded(Duration),
}

impl RetryDecision {
    /// The decision for a failure, with the overload of the API server that caused it, if any (DEC-106).
    pub(super) fn for_failure(overload: Option<&ApiOverload>) -> Self {
        overload.map_or(RetryDecision::Failed, |overload| RetryDecision::Overloaded(overload.retry_after))
    }
}

/// Why a run of a controller did not finish.
pub(super) trait RunFailure: fmt::Display {
    /// The decision about the next run.
    fn verdict(&self) -> RetryDecision;
}

/// The end of a run (RS-08, RS-09).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conclusion {
    /// When the next run is due if nothing queues the object before.
    pub action: NextRun,
    /// The name of the outcome in metrics.
    pub outcome: &'static str,
    /// A persistent failure, which an Event of the object reports (DEC-60).
    pub report: Option<String>,
}

impl Conclusion {
    fn new(action: NextRun, outcome: &'static str) -> Self {
        Conclusion { action, outcome, report: None }
    }
}

/// Concludes a run. `trouble` is the log message of a failure.
pub(super) fn conclude<E: RunFailure>(
    key: &ObjectKey,
    outcome: Result<(NextRun, &'static str), E>,
    backoff: &Backoff,
    trouble: &'static str,
) -> Conclusion {
    let error = match outcome {
        Ok((action, outcome)) => {
            backoff.succeeded(key);
            return Conclusion::new(action, outcome);
        }
        Err(error) => error,
    };
    match error.verdict() {
        // The lease may only be renewed late. If the term ends, this queue ends with it.
        RetryDecision::NotLeading => {
            debug!(%error, "Postponed because the lease has not been renewed");
            Conclusion::new(NextRun::requeue(SHORT_REQUEUE), "not-leading")
        }
        RetryDecision::Postponed => {
            debug!(%error, "Postponed because a cache is not ready");
            Conclusion::new(NextRun::requeue(REFUSED), "postponed")
        }
        RetryDecision::Again(after, name) if backoff.conflicted(key) <= IN_VAIN => {
            Conclusion::new(NextRun::requeue(after), name)
        }
        RetryDecision::Held(wait) => {
            let run = backoff.failed(key, &error.to_string());
            if run.is_logged {
                warn!(%error, ?wait, failures = run.failures, "{trouble}");
            }
            Conclusion::new(NextRun::requeue(wait), "held")
        }
        verdict @ (RetryDecision::Failed | RetryDecision::Overloaded(_) | RetryDecision::Again(..)) => {
            let run = backoff.failed(key, &error.to_string());
            let wait = if let RetryDecision::Overloaded(least) = verdict { run.wait.max(least) } else { run.wait };
            if run.is_logged {
                warn!(%error, ?wait, failures = run.failures, "{trouble}");
            } else {
                debug!(%error, ?wait, failures = run.failures, "{trouble} again");
            }
            let report = run.is_reported.then(|| failing(run.failures, &error.to_string()));
            Conclusion { action: NextRun::requeue(wait), outcome: "failed", report }
        }
    }
}

/// Reports a persistent failure, if there is one, in an Event of the object of the run.
pub(super) async fn report(events: &Recorder, object: &hub::ObjectRef, uid: &str, message: Option<String>) {
    if let Some(message) = message {
        events.write(vec![QueuedEvent::now(object, uid, RECONCILE_FAILED, message)]).await;
    }
}

/// The message of a persistent failure.
pub(super) fn failing(failures: u32, error: &str) -> String {
    format!("failed {failures} times in a row: {error}")
}

/// The delay of a run that nothing queued: ten minutes, and up to one more minute by a hash of the object, so that not
/// all objects are queued at once (RS-02, DEC-60).
pub(super) fn resync<K: Hash>(object: &K) -> Duration {
    let mut hasher = DefaultHasher::new();
    object.hash(&mut hasher);
    RESYNC + Duration::from_millis(hasher.finish() % 60_000)
}

/// Counts a finished run of a controller.
pub(super) fn count(metrics: &Metrics, controller: &'static str, outcome: &'static str, started: Instant) {
    metrics.reconciles.get_or_create(&Reconcile { controller, outcome }).inc();
    let elapsed = started.elapsed().as_secs_f64();
    metrics.reconcile_duration.get_or_create(&Controller { controller }).observe(elapsed);
}

//! How every controller runs what is woken, and measures its runs.

use std::convert::Infallible;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use futures::{FutureExt, Stream, StreamExt};
use kube::runtime::applier;
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::time::Instant;

use crate::telemetry::metrics::{Controller, Metrics, Reconcile};

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing had to be written.
    Unchanged,
    /// Something was written.
    Changed,
    /// The object is paused, is being deleted, or is somebody else's.
    LeftAlone,
}

impl Outcome {
    /// Its name in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Outcome::Unchanged => "unchanged",
            Outcome::Changed => "changed",
            Outcome::LeftAlone => "left-alone",
        }
    }
}

/// Runs whatever is woken of the known objects, one at a time for each object and `workers` side by side.
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

/// Counts a run of a controller that has come to an end.
pub(super) fn count(metrics: &Metrics, controller: &'static str, outcome: &'static str, started: Instant) {
    metrics.reconciles.get_or_create(&Reconcile { controller, outcome }).inc();
    let elapsed = started.elapsed().as_secs_f64();
    metrics.reconcile_duration.get_or_create(&Controller { controller }).observe(elapsed);
}

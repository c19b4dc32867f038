//! The Cluster topology controller: which events queue a Cluster, and when it is retried.
//!
//! ```text
//! Clusters, objects of topologies ┐
//! ClusterClasses ─────────────────┼─► queue.rs ─► run.rs ─► a retry, or the next event
//! templates of classes ───────────┘       history.rs: not too soon, and not before the watches show the last writes
//! ```

mod defaulted;
mod deletions;
mod history;
mod queue;
mod run;
mod write;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::channel::mpsc;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, info_span};

pub use self::deletions::Deletions;
use self::history::RunHistory;
use self::queue::{ClusterName, ClusterQueue};
use self::run::{TopologyOutcome, TopologyReconciler, TopologyRunError};
use super::backoff::Backoff;
use super::postponed::Postponed;
use super::runs::{self, Conclusion, NextRun, RetryDecision, RunFailure, conclude, count, resync, run_woken};
use super::setup::Setup;
use crate::kubernetes::apply::Applier;
use crate::kubernetes::cache::Cache;
use crate::kubernetes::contract::Definitions;
use crate::kubernetes::events::Recorder;
use crate::kubernetes::managed::{ManagedObjects, ObjectChange};
use crate::kubernetes::topology_gatherer::TopologyGatherer;
use engine::topology::Options;
use engine::topology::class_references::references;
use model::hub::{GROUP, Kind, ObjectKey, TemplateRef};
use schema::budget::MemoryPool;

use model::world::{Facts, Found};

/// The name of the controller in metrics.
const NAME: &str = "topology/cluster";
/// The reporting controller of events.
const REPORTER: &str = "topology/cluster-controller";
/// Timeout of a run (RS-10).
const RUN_LIMIT: Duration = Duration::from_mins(1);
/// Delay before a run is retried for which the watches were outdated (RS-11).
const STALE: Duration = Duration::from_millis(100);

/// The Cluster topology controller. It reconciles the Clusters in the scope of the cached facts.
#[derive(Debug)]
pub struct TopologyController {
    pub setup: Setup,
    pub options: Options,
    /// How many Clusters are reconciled at a time (RS-10).
    pub workers: u16,
    /// Whether the controllers of machines run beside it. Then a Cluster has their finalizer before anything is made
    /// for it: it would otherwise be gone at once when it is deleted, and its machine deployments, which it does not
    /// own yet, would stay (MA-27.15).
    pub awaits_finalizer: bool,
    /// Whether the controllers of templates run beside it, which remove the finalizer of MachineDeployments.
    pub has_template_controllers: bool,
    pub deletions: Deletions,
    /// The memory of computations.
    pub memory: Arc<MemoryPool>,
}

impl TopologyController {
    /// Watches and reconciles until dropped.
    pub async fn run(self: Arc<Self>, definitions: Definitions) {
        let Setup { client, leadership, cache, metrics, .. } = &self.setup;
        let (queue, woken) = ClusterQueue::new();
        let queue = Arc::new(queue);
        let scope = cache.facts().scope().clone();
        let wake = {
            let (queue, cache) = (queue.clone(), cache.clone());
            move |changed: ObjectChange<'_>| wake(&queue, &cache, &changed)
        };
        let managed = Arc::new(ManagedObjects::new(client.clone(), scope.only_namespace(), metrics.clone(), wake));
        let writer = self.setup.writer();
        let applier = Applier::new(writer.clone()).only_while({
            let managed = managed.clone();
            move |key, uid| managed.cluster(key).is_some_and(|raw| raw.uid() == uid && !raw.is_being_deleted())
        });
        let applier = if self.has_template_controllers { applier.with_finalizers(scope.clone()) } else { applier };
        let reconciler = Arc::new(TopologyReconciler {
            leadership: leadership.clone(),
            cache: cache.clone(),
            gatherer: TopologyGatherer::new(
                client.clone(),
                writer.clone(),
                managed.clone(),
                definitions,
                self.setup.extensions.clone(),
                metrics.clone(),
            ),
            applier,
            writer,
            managed: managed.clone(),
            events: Recorder::new(self.setup.writer(), REPORTER),
            options: self.options,
            awaits_finalizer: self.awaits_finalizer,
            deletions: self.deletions,
            history: RunHistory::default(),
            backoff: Backoff::default(),
            postponed: Postponed::new(NAME),
            rotations: Mutex::default(),
            memory: self.memory.clone(),
            turns: Semaphore::new(std::thread::available_parallelism().map_or(2, NonZero::get)),
            began: Instant::now(),
            metrics: metrics.clone(),
        });
        let runs = self.runs(&reconciler, &queue, woken);
        // A class is not reported as missing until classes are listed, and neither is an extension.
        cache.listed().await;
        if let Some(extensions) = &self.setup.extensions {
            extensions.settled().await;
        }
        let begin = async {
            managed.clusters().await.iter().for_each(|key| queue.wake(key));
            std::future::pending::<()>().await;
        };
        let follow_classes = follow_classes(cache, &queue);
        let follow_listings = reconciler.gatherer.follow_listings(|| resume(&reconciler, &queue));
        tokio::select! {
            () = runs => {}
            () = begin => {}
            () = follow_classes => {}
            () = follow_listings => {}
        }
    }

    /// Reconciles queued Clusters, one run at a time for each Cluster.
    async fn runs(
        &self,
        reconciler: &Arc<TopologyReconciler>,
        queue: &Arc<ClusterQueue>,
        woken: mpsc::UnboundedReceiver<ObjectRef<ClusterName>>,
    ) {
        let run = |named: Arc<ClusterName>| {
            let (reconciler, queue) = (reconciler.clone(), queue.clone());
            let span = info_span!("reconcile", cluster = %named.key());
            async move { run(&named.key(), &reconciler, &queue).await }.instrument(span)
        };
        run_woken((NAME, &self.setup.metrics), queue.names(), woken, self.workers, run).await;
    }
}

/// Queues the Clusters that waited for caches which are listed by now.
fn resume(reconciler: &TopologyReconciler, queue: &ClusterQueue) {
    let woken = reconciler.postponed.take(|unlisted| reconciler.gatherer.has(unlisted));
    woken.iter().for_each(|key| queue.wake(key));
}

/// Queues the dependents of a change (RS-02, DEC-29).
fn wake(queue: &ClusterQueue, cache: &Cache, changed: &ObjectChange<'_>) {
    let ObjectChange { kind, key, cluster } = changed;
    match cluster {
        _ if kind.group == GROUP && kind.kind == Kind::Cluster.name() => queue.wake(key),
        // Machines come and go with the machine deployment that has them, which is watched.
        Some(_) if kind.group == GROUP && kind.kind == "Machine" => {}
        Some(cluster) => queue.wake(&ObjectKey::new(&key.namespace, *cluster)),
        None => {
            let facts = cache.facts();
            let refers = |reference: &&TemplateRef| {
                let version = reference.api_version.split_once('/');
                version == Some((&kind.group, &kind.version))
                    && reference.kind == kind.kind
                    && reference.name == key.name
            };
            for class in facts.class_keys_in(&key.namespace) {
                if let Found::Yes(found) = facts.class(class)
                    && references(&found.spec).iter().any(refers)
                {
                    wake_users(queue, &facts, class);
                }
            }
        }
    }
}

fn wake_users(queue: &ClusterQueue, facts: &Facts, class: &ObjectKey) {
    facts.user_keys(class).for_each(|key| queue.wake(key));
}

/// Queues the Clusters of changed classes (RS-02, CCR-13); never ends.
async fn follow_classes(cache: &Cache, queue: &ClusterQueue) {
    let mut follower = cache.follow();
    let facts = cache.facts();
    let mut known: BTreeMap<ObjectKey, String> =
        facts.class_keys().filter_map(|class| Some((class.clone(), version(&facts, class)?))).collect();
    loop {
        let changed = follower.next().await;
        let facts = cache.facts();
        for class in changed.classes {
            let now = version(&facts, &class);
            let before = match now.clone() {
                Some(now) => known.insert(class.clone(), now),
                None => known.remove(&class),
            };
            // A list brings what is known once more.
            if before != now {
                wake_users(queue, &facts, &class);
            }
        }
    }
}

/// The version of a class; empty if it cannot be read, and `None` if it does not exist.
fn version(facts: &Facts, class: &ObjectKey) -> Option<String> {
    match facts.class(class) {
        Found::Yes(found) => Some(found.metadata.resource_version.clone()),
        Found::Unreadable(_) => Some(String::new()),
        Found::Absent | Found::NotAsked => None,
    }
}

/// Runs once; returns when the next run is due if nothing queues the Cluster before.
async fn run(key: &ObjectKey, reconciler: &TopologyReconciler, queue: &ClusterQueue) -> NextRun {
    // Runs that are put off are not counted (PERF-09).
    if reconciler.stale(key) {
        return NextRun::requeue(STALE);
    }
    if let Err(wait) = reconciler.history.start(key) {
        return NextRun::requeue(wait);
    }
    let started = Instant::now();
    let outcome = timeout(RUN_LIMIT, reconciler.run(key)).await.unwrap_or(Err(TopologyRunError::Late));
    if matches!(outcome, Ok(TopologyOutcome::Gone)) && queue.forget(key, || reconciler.managed.cluster(key).is_none()) {
        reconciler.forget(key);
    }
    if let Err(TopologyRunError::Unlisted(unlisted)) = &outcome {
        reconciler.postponed.add(key, unlisted);
        // It may have become ready before the Cluster was noted.
        resume(reconciler, queue);
    }
    let Conclusion { action, outcome, report } = concluded(key, outcome, &reconciler.backoff);
    count(&reconciler.metrics, NAME, outcome, started);
    if let Some(raw) = reconciler.managed.cluster(key) {
        runs::report(&reconciler.events, &raw.reference(), raw.uid(), report).await;
    }
    action
}

fn concluded(key: &ObjectKey, outcome: Result<TopologyOutcome, TopologyRunError>, backoff: &Backoff) -> Conclusion {
    conclude(key, outcome.map(|outcome| done(key, &outcome)), backoff, "Failed to reconcile topology")
}

/// When the next run is due after a completed one (RS-08), and the metric label of its outcome.
fn done(key: &ObjectKey, outcome: &TopologyOutcome) -> (NextRun, &'static str) {
    match *outcome {
        TopologyOutcome::Gone => (NextRun::await_change(), "gone"),
        TopologyOutcome::LeftAlone => (NextRun::requeue(resync(key)), "left-alone"),
        TopologyOutcome::Done { changed, again } => {
            let name = if changed { "changed" } else { "unchanged" };
            (NextRun::requeue(again.map_or_else(|| resync(key), |again| again.max(history::APART))), name)
        }
    }
}

impl RunFailure for TopologyRunError {
    fn verdict(&self) -> RetryDecision {
        match self {
            TopologyRunError::NotLeading(_) => RetryDecision::NotLeading,
            // An event with the newer version is on its way.
            TopologyRunError::Conflict => RetryDecision::Again(history::APART, "conflict"),
            // Runs that wait for memory begin in the order of arrival.
            TopologyRunError::Interrupted(_) => RetryDecision::Again(history::APART, "no-memory"),
            TopologyRunError::Unlisted(_) => RetryDecision::Postponed,
            TopologyRunError::Overloaded(overload) => RetryDecision::for_failure(Some(overload)),
            TopologyRunError::Status(error) => RetryDecision::for_failure(error.overload().as_ref()),
            _ => RetryDecision::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::lease::NotLeading;
    use crate::kubernetes::overload::ApiOverload;

    fn concluded(outcome: Result<TopologyOutcome, TopologyRunError>, backoff: &Backoff) -> (NextRun, &'static str) {
        let Conclusion { action, outcome, .. } = super::concluded(&ObjectKey::new("ns", "c"), outcome, backoff);
        (action, outcome)
    }

    #[test]
    fn the_next_run_starts_when_a_hook_asks_for_it_or_after_ten_minutes() {
        // RS-08, RS-10
        let (backoff, key) = (Backoff::default(), ObjectKey::new("ns", "c"));
        let done = |again| Ok(TopologyOutcome::Done { changed: false, again });
        let after = |seconds| (NextRun::requeue(Duration::from_secs(seconds)), "unchanged");
        assert_eq!(concluded(done(Some(Duration::from_secs(30))), &backoff), after(30));
        assert_eq!(concluded(done(Some(Duration::from_millis(1))), &backoff), after(1));
        assert_eq!(concluded(done(None), &backoff), (NextRun::requeue(resync(&key)), "unchanged"));
        assert!((Duration::from_mins(10)..Duration::from_mins(11)).contains(&resync(&key)));
        assert_ne!(resync(&key), resync(&ObjectKey::new("ns", "d")));
        assert_eq!(concluded(Ok(TopologyOutcome::Done { changed: true, again: None }), &backoff).1, "changed");
    }

    #[test]
    fn failures_back_off_and_conflicts_do_not() {
        // RS-09
        let backoff = Backoff::default();
        let failed = || Err(TopologyRunError::Failed("why".to_owned()));
        assert_eq!(concluded(failed(), &backoff), (NextRun::requeue(Duration::from_millis(1010)), "failed"));
        assert_eq!(concluded(failed(), &backoff), (NextRun::requeue(Duration::from_millis(1020)), "failed"));
        assert_eq!(
            concluded(Err(TopologyRunError::Conflict), &backoff),
            (NextRun::requeue(Duration::from_secs(1)), "conflict")
        );
        let left_alone = (NextRun::requeue(resync(&ObjectKey::new("ns", "c"))), "left-alone");
        assert_eq!(concluded(Ok(TopologyOutcome::LeftAlone), &backoff), left_alone);
        assert_eq!(concluded(failed(), &backoff), (NextRun::requeue(Duration::from_millis(1010)), "failed"));
        assert_eq!(concluded(Ok(TopologyOutcome::Gone), &backoff), (NextRun::await_change(), "gone"));
        // DEC-106
        let overloaded = |seconds| {
            Err(TopologyRunError::Overloaded(ApiOverload {
                reason: "busy".to_owned(),
                retry_after: Duration::from_secs(seconds),
            }))
        };
        assert_eq!(concluded(overloaded(0), &backoff), (NextRun::requeue(Duration::from_millis(1010)), "failed"));
        assert_eq!(concluded(overloaded(30), &backoff), (NextRun::requeue(Duration::from_secs(30)), "failed"));
        assert_eq!(concluded(Ok(TopologyOutcome::Gone), &backoff).1, "gone");
        // DEC-60
        let not_leading = || Err(TopologyRunError::NotLeading(NotLeading::Overdue));
        assert_eq!(concluded(not_leading(), &backoff), (NextRun::requeue(Duration::from_secs(1)), "not-leading"));
        for _ in 1..30 {
            assert_eq!(concluded(Err(TopologyRunError::Conflict), &backoff).1, "conflict");
        }
        concluded(Err(TopologyRunError::Conflict), &backoff);
        assert_eq!(concluded(Err(TopologyRunError::Conflict), &backoff).1, "failed", "each write meets a conflict");
    }
}

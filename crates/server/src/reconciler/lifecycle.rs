//! Machines: executes the steps of [`machines::lifecycle`] on an API server.
//!
//! ```text
//! watches.rs: a watch for each kind that a step needs ───► store.rs: objects, and the steps that are due ─► queue
//!                                                             ▲                                        │
//!                      writes.rs: requests; their answers go into the store at once ◄── next(id) ◄─────┘
//! workloads.rs: the API servers of workload clusters in this process
//! external_clusters.rs: those of other control planes
//! ```
//!
//! A step sees the responses to the writes of the steps before it, so that nothing is created twice while a watch lags.

mod failures;
mod external_clusters;
mod kind_watch;
mod store;
mod watches;
pub mod workloads;
mod writes;

use std::collections::{BTreeSet, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::runtime::scheduler::{ScheduleRequest, scheduler};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, debug, info_span, warn};

use self::external_clusters::ExternalClusters;
use self::store::LifecycleStore;
use self::watches::KindWatches;
use self::workloads::WorkloadClusters;
use self::writes::{WriteError, Writer};
use super::backoff::Backoff;
use super::runs::{SHORT_REQUEUE, resync};
use super::setup::Setup;
use crate::kubernetes::contract::Definitions;
use crate::kubernetes::events::{EventReason, QueuedEvent, Recorder};
use crate::kubernetes::moment;
use crate::telemetry::metrics::Metrics;
use machines::lifecycle::{
    GroupKind, MachineCache, MachineSettings, ObjectId, Reconciliation, StepContext, StepEvent, StepOutcome,
    cluster_key, next,
};
use model::hub::Object;
use model::world::Scope;

/// Number of concurrent steps.
const WORKERS: usize = 32;
/// Time after which a running step is logged.
const SLOW: Duration = Duration::from_mins(1);
/// Time for which a step waits for the first list of a kind before it looks for problems.
const WAITING: Duration = Duration::from_secs(10);
/// Number of consecutive conflicts after which the object is read from the API server.
const OUTDATED: u32 = 3;
/// Number of consecutive conflicts after which the next one counts as a failure.
const IN_VAIN: u32 = 10;
/// Number of consecutive failures after which a queued step waits up to `DAMPED` after the last one. The failure itself
/// may have queued it: by objects that it created, and deleted because another one could not be created.
const UNDAMPED: u32 = 5;
const DAMPED: Duration = Duration::from_secs(10);
/// The kinds of Cluster API that have steps.
const KINDS: [&str; 6] = ["Cluster", "MachineDeployment", "MachineSet", "Machine", "MachinePool", "MachineHealthCheck"];
/// The reporting controller of events.
const REPORTER: &str = "topologist-machines";

/// The controllers of machines.
#[derive(Debug)]
pub struct LifecycleController {
    pub setup: Setup,
    pub settings: MachineSettings,
    pub workloads: Arc<dyn WorkloadClusters>,
}

/// The dependencies of all steps.
struct Runner {
    store: Arc<LifecycleStore>,
    watches: KindWatches,
    writer: Writer,
    settings: MachineSettings,
    recorder: Recorder,
    backoff: Backoff<ObjectId>,
    metrics: Arc<Metrics>,
    scope: Scope,
}

impl LifecycleController {
    /// Watches and executes steps until dropped.
    ///
    /// Workload clusters are created again: their content may be older than the last writes of another leader.
    pub async fn run(self: Arc<Self>, definitions: Definitions) {
        self.workloads.forget_all();
        let Setup { client, cache, metrics, .. } = &self.setup;
        // A process that runs alone reviews these writes itself. It cannot do so before it knows the classes.
        cache.listed().await;
        let (store, queue) = LifecycleStore::new(metrics.clone());
        let store = Arc::new(store);
        let scope = cache.facts().scope().clone();
        let watches = KindWatches::new(client.clone(), scope.clone(), definitions, store.clone(), metrics.clone());
        for kind in KINDS {
            watches.want(&GroupKind::core(kind));
        }
        let writer = self.setup.writer();
        let followed =
            ExternalClusters::new(client.clone(), self.setup.leadership.clone(), store.clone(), metrics.clone());
        let runner = Runner {
            writer: Writer::new(writer.clone(), store.clone(), self.workloads.clone(), followed, metrics.clone()),
            recorder: Recorder::new(writer, REPORTER),
            settings: self.settings.clone(),
            backoff: Backoff::default(),
            metrics: metrics.clone(),
            store,
            watches,
            scope,
        };
        Arc::new(runner).run(queue).await;
    }
}

impl Runner {
    /// Runs the steps that are due, one at a time for each object. Steps are computed on all processors; dropping this
    /// future ends them.
    async fn run(self: Arc<Self>, queue: impl Stream<Item = ScheduleRequest<ObjectId>> + Send + Unpin) {
        let mut due = pin!(scheduler(queue));
        let mut runs = JoinSet::new();
        let mut running: HashSet<ObjectId> = HashSet::new();
        loop {
            tokio::select! {
                next = async { due.as_mut().hold_unless(|id| !running.contains(id)).next().await }, if runs.len() < WORKERS => {
                    let Some(id) = next else { return };
                    running.insert(id.clone());
                    self.store.due.begin(&id);
                    let (span, runner) = (info_span!("step", object = %id), Arc::clone(&self));
                    runs.spawn(async move { noticed(&id, runner.step(&id)).await; id }.instrument(span));
                }
                Some(id) = runs.join_next() => {
                    let id = id.expect("steps do not panic, and end before this future");
                    running.remove(&id);
                    self.store.due.end(&id);
                }
            }
        }
    }

    /// One step of an object.
    async fn step(&self, id: &ObjectId) {
        let started = Instant::now();
        if let Some(left) = self.backoff.damped(id) {
            self.store.wake_after(id, left);
            return;
        }
        if let Some(object) = self.store.with(|objects| objects.get(id).cloned())
            && let Err(error) = self.writer.settle(&object).await
        {
            let outcome = self.failed(id, Some(&object), &error.to_string(), None).await;
            super::runs::count(&self.metrics, controller_name(id), outcome, started);
            return;
        }
        let (outcome, object) = self.store.with(|objects| {
            let object = objects.get(id).cloned();
            let outcome = match is_in_scope(&self.scope, objects, id) {
                Some(true) => next(StepContext::new(objects, &self.settings, moment()), id),
                Some(false) => StepOutcome::Done(Reconciliation::default()),
                None => StepOutcome::Needs([GroupKind::core("Cluster")].into()),
            };
            (outcome, object)
        });
        if object.is_none() {
            self.backoff.forget(id);
            if id.kind.is_core("Cluster") {
                self.writer.forget_cluster(&id.key);
            }
        }
        let outcome = match outcome {
            StepOutcome::Needs(kinds) => self.wait_for(id, object.as_deref(), &kinds).await,
            StepOutcome::Done(step) => self.carry_out(id, object.as_deref(), step).await,
        };
        super::runs::count(&self.metrics, controller_name(id), outcome, started);
    }

    /// Postpones a step until these kinds are listed. A kind that cannot be watched is a failure.
    async fn wait_for(&self, id: &ObjectId, object: Option<&Object>, kinds: &BTreeSet<GroupKind>) -> &'static str {
        self.store.wait_for(id, kinds);
        kinds.iter().for_each(|kind| self.watches.want(kind));
        // An owner of a kind that is not watched may be no object of a provider.
        if object.is_none() {
            return "waiting";
        }
        let problems = self.watches.problems(kinds);
        if problems.is_empty() {
            // Unless they are listed before, to see whether there is a problem.
            self.store.wake_after(id, WAITING);
            return "waiting";
        }
        self.failed(id, object, &problems.join("; "), None).await
    }

    /// Executes the result of a step; returns the outcome for metrics.
    async fn carry_out(&self, id: &ObjectId, object: Option<&Object>, step: Reconciliation) -> &'static str {
        let Reconciliation { writes, events, requeue_after: again, mut errors } = step;
        let has_writes = !writes.is_empty();
        match self.writer.write(writes).await {
            Ok(()) => {}
            // The lease may only be renewed late. If the term ends, all runs end.
            Err(WriteError::NotLeading) => {
                self.store.wake_after(id, SHORT_REQUEUE);
                return "not-leading";
            }
            Err(WriteError::Conflict { id: outdated, reason }) => {
                debug!(%reason, "An object has changed meanwhile");
                let conflicts = self.backoff.conflicted(id);
                if conflicts.is_multiple_of(OUTDATED) {
                    self.refresh(&outdated).await;
                }
                if conflicts <= IN_VAIN {
                    self.store.wake_after(id, SHORT_REQUEUE / 10);
                    return "conflict";
                }
                errors.push(reason);
            }
            Err(error) => errors.push(error.to_string()),
        }
        if let Some(object) = object {
            self.write_events(object, events).await;
        }
        if !errors.is_empty() {
            return self.failed(id, object, &errors.join("; "), again).await;
        }
        self.backoff.succeeded(id);
        if let Some(object) = object {
            self.clear_failure(id, object).await;
            let resync = resync(id);
            self.store.wake_after(id, again.map_or(resync, |again| again.min(resync)));
        }
        if has_writes { "changed" } else { "unchanged" }
    }

    /// Reads an object again after repeated conflicts with its stored state: its watch may have missed a change.
    async fn refresh(&self, outdated: &ObjectId) {
        if let Err(error) = self.writer.refresh(outdated).await {
            debug!(object = %outdated, %error, "Cannot read an object again");
        }
    }

    /// Retries a step that failed, with exponential backoff.
    async fn failed(
        &self,
        id: &ObjectId,
        object: Option<&Object>,
        error: &str,
        again: Option<Duration>,
    ) -> &'static str {
        let run = self.backoff.failed(id, error);
        if run.is_logged {
            warn!(object = %id, error, wait = ?run.wait, failures = run.failures, "Failed to reconcile");
        }
        if let Some(object) = object {
            self.report_failure(id, object, run, error).await;
        }
        let wait = again.map_or(run.wait, |again| again.min(run.wait));
        if run.failures > UNDAMPED {
            self.backoff.damp(id, wait.min(DAMPED));
        }
        self.store.wake_after(id, wait);
        "failed"
    }

    /// Writes the events of a step.
    async fn write_events(&self, object: &Object, events: Vec<StepEvent>) {
        if events.is_empty() {
            return;
        }
        let reference = object.reference();
        let queued = events.into_iter().map(|event| {
            let reason = EventReason { name: event.reason, is_warning: event.is_warning };
            QueuedEvent::now(&reference, object.uid(), reason, event.message)
        });
        self.recorder.write(queued.collect()).await;
    }
}

/// Runs a step, and logs it while it does not end: its object has no other step meanwhile.
async fn noticed(id: &ObjectId, step: impl Future<Output = ()>) {
    let (mut step, started) = (pin!(step), Instant::now());
    while timeout(SLOW, step.as_mut()).await.is_err() {
        warn!(object = %id, elapsed = ?started.elapsed(), "Still waiting for the requests of a step");
    }
}

/// Whether an object is in the scope of this installation: by its namespace, and by the label of its Cluster, or its
/// own label if it belongs to no Cluster (CT-15.14, DEC-37). `None` while the Clusters are not listed.
fn is_in_scope(scope: &Scope, objects: &MachineCache, id: &ObjectId) -> Option<bool> {
    if !scope.has_namespace(&id.key.namespace) {
        return Some(false);
    }
    let Some(object) = objects.get(id).filter(|_| scope.filters_labels()) else { return Some(true) };
    let clusters = GroupKind::core("Cluster");
    if !objects.is_listed(&clusters) {
        return None;
    }
    let cluster = cluster_key(object).and_then(|key| objects.get(&ObjectId::new(clusters, key)));
    Some(scope.has_label(|name| cluster.unwrap_or(object).label(name)))
}

/// The metric label of the controller of an object.
fn controller_name(id: &ObjectId) -> &'static str {
    match &*id.kind.kind {
        _ if &*id.kind.group != model::hub::GROUP => "provider",
        "Cluster" => "cluster",
        "MachineDeployment" => "machinedeployment",
        "MachineSet" => "machineset",
        "Machine" => "machine",
        "MachinePool" => "machinepool",
        _ => "machinehealthcheck",
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::kubernetes::cache::Cache;
    use crate::kubernetes::lease::{Candidacy, Election};
    use crate::kubernetes::scripted::{Script, ScriptedAnswer};
    use crate::kubernetes::watch::WATCHED;
    use crate::reconciler::lifecycle::workloads::{WorkloadCluster, WorkloadOpenError};
    use model::hub::ObjectKey;
    use model::world::Facts;

    #[derive(Debug)]
    struct NoneAtAll;

    impl WorkloadClusters for NoneAtAll {
        fn open(&self, cluster: &ObjectKey) -> Result<WorkloadCluster, WorkloadOpenError> {
            Err(WorkloadOpenError::NotCreated(format!("{cluster} was opened").into()))
        }

        fn get(&self, _: &ObjectKey) -> Option<WorkloadCluster> {
            None
        }

        fn forget(&self, _: &ObjectKey) {}

        fn forget_all(&self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_asked_for_before_classes_and_clusters_are_listed() {
        let script = Script::default();
        let item = json!({"metadata": {"name": "clusters.cluster.x-k8s.io", "resourceVersion": "1"}});
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": [item]});
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        script.get(path, &[], ScriptedAnswer::ok(list)).get(path, &["watch=true"], ScriptedAnswer::Silence);
        let clusters = script.get("/apis/cluster.x-k8s.io/v1beta2/clusters", &[], ScriptedAnswer::Silence);
        let (cache, metrics) = (Arc::new(Cache::new(Facts::not_listed(&WATCHED))), Arc::new(Metrics::default()));
        let client = script.client();
        let candidacy = Candidacy::new("default", "topologist", Duration::from_secs(15));
        let (_election, leadership) = Election::new(client.clone(), candidacy, metrics.clone());
        let (definitions, follow) = Definitions::follow(client.clone(), metrics.clone());
        let setup = Setup { client, leadership, cache: cache.clone(), extensions: None, metrics };
        let controller =
            LifecycleController { setup, settings: MachineSettings::default(), workloads: Arc::new(NoneAtAll) };
        let running = [tokio::spawn(follow), tokio::spawn(Arc::new(controller).run(definitions))];
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(clusters.left(), 1, "the Clusters are listed before they can be reviewed");
        cache.update(|facts| WATCHED.iter().for_each(|kind| facts.listed(kind)));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(clusters.left(), 0, "the controller does not begin");
        running.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[test]
    fn objects_of_other_installations_are_left_alone() {
        // CT-15.14, DEC-37
        let mut objects = MachineCache::default();
        let mut put = |kind: &str, namespace: &str, name: &str, labels: Value| {
            let object = json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
                "metadata": {"namespace": namespace, "name": name, "labels": labels},
            });
            let object = Object::try_from(object).unwrap();
            let id = ObjectId::for_object(&object);
            objects.put(&id, Arc::new(object));
            id
        };
        let (filter, of) = ("cluster.x-k8s.io/watch-filter", "cluster.x-k8s.io/cluster-name");
        let ours = put("Cluster", "a", "ours", json!({filter: "us"}));
        let theirs = put("Cluster", "a", "theirs", json!({filter: "them"}));
        let machine = put("Machine", "a", "m", json!({of: "ours"}));
        let other = put("Machine", "a", "n", json!({of: "theirs", filter: "us"}));
        let orphan = put("Machine", "a", "o", json!({of: "gone", filter: "us"}));
        let elsewhere = put("Machine", "b", "m", json!({}));
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let filtered = Scope::new(&[], Some("us".to_owned())).unwrap();
        assert_eq!(is_in_scope(&filtered, &objects, &machine), None, "the Clusters are not listed yet");
        objects.set_listed(&GroupKind::core("Cluster"), None);
        for (id, want) in [(&ours, true), (&theirs, false), (&machine, true), (&other, false), (&orphan, true)] {
            assert_eq!(is_in_scope(&filtered, &objects, id), Some(want), "{id}");
        }
        let within = Scope::new(&names(&["a", "c"]), None).unwrap();
        assert_eq!(is_in_scope(&within, &objects, &machine), Some(true));
        assert_eq!(is_in_scope(&within, &objects, &elsewhere), Some(false));
    }

    /// What runs steps in a process that does not lead, and the requests to run them.
    fn follower() -> (Runner, impl Stream<Item = ScheduleRequest<ObjectId>> + Unpin) {
        let (client, metrics) = (Script::default().client(), Arc::new(Metrics::default()));
        let candidacy = Candidacy::new("default", "topologist", Duration::from_secs(15));
        let (_, leadership) = Election::new(client.clone(), candidacy, metrics.clone());
        let (definitions, _) = Definitions::follow(client.clone(), metrics.clone());
        let (store, due) = LifecycleStore::new(metrics.clone());
        let (store, writer) = (Arc::new(store), leadership.writer(client.clone()));
        let watches = KindWatches::new(client, Scope::default(), definitions, store.clone(), metrics.clone());
        let workloads = Arc::new(NoneAtAll);
        let runner = Runner {
            writer: Writer::new(
                writer.clone(),
                store.clone(),
                workloads,
                ExternalClusters::none(&store),
                metrics.clone(),
            ),
            recorder: Recorder::new(writer, REPORTER),
            settings: MachineSettings::default(),
            backoff: Backoff::default(),
            metrics,
            store,
            watches,
            scope: Scope::default(),
        };
        (runner, due)
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_may_not_write_is_repeated() {
        // DEC-60
        let (runner, mut due) = follower();
        let (id, store) = (ObjectId::core("Cluster", "ns", "c"), &runner.store);
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"namespace": "ns", "name": "c", "uid": "u", "resourceVersion": "1"}, "spec": {}});
        store.seen(&id, Object::try_from(cluster).unwrap());
        while let StepOutcome::Needs(kinds) =
            store.with(|objects| next(StepContext::new(objects, &runner.settings, moment()), &id))
        {
            let keys = BTreeSet::from([id.key.clone()]);
            kinds.iter().for_each(|kind| store.listed(None, kind, None, &keys, 1));
        }
        while due.next().now_or_never().is_some() {}
        runner.step(&id).await;
        let request = due.next().now_or_never().flatten().expect("the step is repeated");
        assert_eq!((request.message, request.run_at - Instant::now()), (id.clone(), SHORT_REQUEUE));
    }

    #[tokio::test(start_paused = true)]
    async fn changes_do_not_hurry_a_step_that_keeps_failing() {
        // DEC-60
        let (runner, mut due) = follower();
        let id = ObjectId::core("MachineSet", "ns", "s");
        for (failures, postponed) in [(5, None), (6, Some(1_320)), (12, Some(10_000)), (20, Some(10_000))] {
            for _ in 0..failures {
                runner.failed(&id, None, "refused", None).await;
            }
            while due.next().now_or_never().is_some() {}
            runner.step(&id).await;
            let request = due.next().now_or_never().flatten();
            let wait = request.map(|request| request.run_at - Instant::now());
            assert_eq!(wait, postponed.map(Duration::from_millis), "{failures}");
            tokio::time::advance(DAMPED).await;
            runner.step(&id).await;
            assert!(due.next().now_or_never().is_none(), "the step was run");
        }
        runner.failed(&id, None, "refused", Some(SHORT_REQUEUE)).await;
        runner.backoff.succeeded(&id);
        while due.next().now_or_never().is_some() {}
        runner.step(&id).await;
        assert!(due.next().now_or_never().is_none());
    }
}

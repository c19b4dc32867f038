//! One run for a Cluster: its desired state, the writes, and the status at the end.
//!
//! ```text
//! as it was read ─┬─ paused, deleting ─────────────────────────────────────────────────────┐
//!                 └─ observe ─► managedFields repaired? ─► compute ─► plan ─► apply ───────┴─► status and defaults written
//!                      ▲  │ needs                           ▲  │       ▲  │ dry runs
//!                      └──┴─────────── leader.rs ───────────┴──┴───────┴──┘
//! ```

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::deletions::{DeletionChange, Deletions, HoldStanding};
use super::history::RunHistory;
use super::write::StatusWrite;
use super::{RUN_LIMIT, write};
use crate::kubernetes::apply::{self, Applier};
use crate::kubernetes::cache::Cache;
use crate::kubernetes::events::Recorder;
use crate::kubernetes::lease::{Leadership, NotLeading};
use crate::kubernetes::managed::ManagedObjects;
use crate::kubernetes::mitigation::mitigate;
use crate::kubernetes::moment;
use crate::kubernetes::overload::ApiOverload;
use crate::kubernetes::topology_gatherer::{TopologyGatherer, Unanswered};
use crate::kubernetes::unlisted::{self, Unlisted};
use crate::kubernetes::untyped::ApiRequestError;
use crate::reconciler::backoff::Backoff;
use crate::reconciler::names::LiveNames;
use crate::reconciler::now;
use crate::reconciler::postponed::Postponed;
use crate::telemetry::metrics::{self, Metrics};
use engine::topology::blueprint::Blueprint;
use engine::topology::hooks::{Deletion, HookCaller, HookTracker};
use engine::topology::plan::{AppliedState, ChangedField, Plan, PlanStep, StepAction, TopologyPart};
use engine::topology::rollout_record;
use engine::topology::rotations::{Generations, Rotations};
use engine::topology::shim::Shim;
use engine::topology::upgrade::Tracker;
use engine::topology::worker::API_VERSION;
use engine::topology::{Computation, Failure, Interrupted, ObservedState, Options, status};
use machines::lifecycle::CLUSTER_FINALIZER;
use model::hub::{Cluster, Object, ObjectKey, ObjectRef, annotation, paths};
use model::wire::{Decode, WireVersion};
use model::world::{Class, ComputeResult, Found, Unsettled, World, settle};
use schema::budget::{Lease, MemoryPool, SharedLease, Stop};

/// Maximum time in which the facts of one computation are gathered. No call of an extension begins later; one in
/// progress may use the timeout of its handler, until the run is over (RS-10).
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval in which a run that waits for memory looks again.
const MEMORY_LOOK: Duration = Duration::from_millis(20);
/// Divisor of the memory that a run keeps while it writes: the current objects and the plan.
const WRITING: usize = 2;
/// The time between a run that repaired `managedFields` and the next run (SSA-23).
const REPAIRED: Duration = Duration::from_secs(1);

/// The number of runs in a row that may end in a write conflict before the condition says so.
const SILENT_CONFLICTS: u32 = 10;

/// The dependencies of all runs.
pub(super) struct TopologyReconciler {
    pub leadership: Leadership,
    /// Writes only while this process leads.
    pub writer: kube::Client,
    pub cache: Arc<Cache>,
    pub managed: Arc<ManagedObjects>,
    pub gatherer: TopologyGatherer,
    pub applier: Applier,
    pub events: Recorder,
    pub options: Options,
    pub awaits_finalizer: bool,
    pub deletions: Deletions,
    pub history: RunHistory,
    pub backoff: Backoff,
    pub postponed: Postponed,
    pub rotations: Mutex<Rotations>,
    /// How many computations run at a time.
    pub turns: Semaphore,
    /// The memory that they share with those of reviews (DEC-58).
    pub memory: Arc<MemoryPool>,
    /// The instant from which times are counted.
    pub began: Instant,
    pub metrics: Arc<Metrics>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TopologyOutcome {
    /// The Cluster does not exist any more.
    Gone,
    /// The Cluster has no topology, or is not in scope (RS-01, RS-04).
    LeftAlone,
    /// Whether anything was written, and when the next run starts without an event.
    Done { changed: bool, again: Option<Duration> },
}

/// Why a run did not finish.
#[derive(Debug, thiserror::Error)]
pub(super) enum TopologyRunError {
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    #[error("the Cluster cannot be read: {0}")]
    Unreadable(String),
    /// The condition of the Cluster reports this failure.
    #[error("{0}")]
    Failed(String),
    /// Nothing is concluded without these caches (DEC-100).
    #[error("{}", unlisted::join(.0))]
    Unlisted(BTreeSet<Unlisted>),
    /// The API server is busy. The condition of the Cluster reports it once it lasts (DEC-106).
    #[error(transparent)]
    Overloaded(ApiOverload),
    /// Nothing is concluded of a computation that was not complete (DEC-58).
    #[error(transparent)]
    Interrupted(Interrupted),
    /// Another client wrote the Cluster since it was read.
    #[error("the Cluster has changed since it was read")]
    Conflict,
    #[error("the status cannot be written: {0}")]
    Status(#[source] ApiRequestError),
    #[error("timed out after a minute")]
    Late,
}

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
enum Interruption {
    #[error(transparent)]
    Failure(#[from] Failure),
    #[error("{}", unlisted::join(.0))]
    Unlisted(BTreeSet<Unlisted>),
    #[error(transparent)]
    Overloaded(ApiOverload),
}

impl From<Unsettled> for Interruption {
    fn from(unsettled: Unsettled) -> Self {
        Interruption::Failure(unsettled.into())
    }
}

impl From<Unanswered> for Interruption {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Unlisted(unlisted) => Interruption::Unlisted(unlisted),
            Unanswered::Overload(overload) => Interruption::Overloaded(overload),
        }
    }
}

/// The results of a run, from which the status is written at its end (RS-06).
struct RunFindings {
    /// The Cluster as the last write left it.
    raw: Arc<Object>,
    class: Option<Arc<Class>>,
    tracker: Tracker,
    /// The inputs of the computation. Their Cluster has the defaults of its variables.
    observed: Option<Arc<ObservedState>>,
    error: Option<String>,
    /// Whether this is a write conflict.
    conflict: bool,
    /// The overload of the API server because of which the run ended.
    overload: Option<ApiOverload>,
    /// Whether the run ended before anything was computed, so that the condition does not change (ST-17).
    is_silent: bool,
    /// The caches that the run waits for. Nothing is concluded without them.
    unlisted: BTreeSet<Unlisted>,
    /// Why the computation was not complete. Nothing is concluded then.
    interrupted: Option<Interrupted>,
    /// Whether the error is that the topology is too large (DEC-58).
    is_too_large: bool,
    deletion: DeletionChange,
    /// The record of what the objects are made from, if nothing is left to do.
    rolled_out: Option<String>,
    changed: bool,
    again: Option<Duration>,
}

impl TopologyReconciler {
    /// Reconciles the topology of a Cluster (RS-05 to RS-08).
    pub(super) async fn run(&self, key: &ObjectKey) -> Result<TopologyOutcome, TopologyRunError> {
        self.leadership.may_write()?;
        let Some(raw) = self.managed.cluster(key) else { return Ok(TopologyOutcome::Gone) };
        let text = Object::as_ref(&raw).to_string();
        let cluster = Cluster::decode(WireVersion::V1Beta2, &text).map_err(TopologyRunError::Unreadable)?;
        if cluster.topology().is_none() || !self.cache.facts().scope().has(&cluster.metadata) {
            return Ok(TopologyOutcome::LeftAlone);
        }
        if self.is_too_early(&raw, &cluster) {
            return Ok(TopologyOutcome::LeftAlone);
        }
        let cluster = Arc::new(cluster);
        // Paused comes before anything else, deletion before the rest (RS-05).
        let findings = if cluster.is_paused() {
            debug!("Skipped a paused Cluster");
            RunFindings::none(&cluster, raw)
        } else if cluster.metadata.is_being_deleted() {
            self.history.clear_writes(key);
            self.ask_to_delete(&cluster, raw).await
        } else {
            self.roll_out(&cluster, raw).await
        };
        let findings = findings.with(self.deletions.standing(&cluster, moment()));
        // A failure because another process leads is not a failure of the Cluster.
        self.leadership.may_write()?;
        self.conclude(key, &cluster, findings).await
    }

    /// Whether the controllers of machines have not seen the Cluster yet. The finalizer that they add queues it again
    /// (MA-1.8). Without its class nothing is created, and no finalizer can be added (CL-V-054).
    fn is_too_early(&self, raw: &Object, cluster: &Cluster) -> bool {
        let has_class =
            || cluster.class_key().is_some_and(|key| matches!(self.cache.facts().class(&key), Found::Yes(_)));
        self.awaits_finalizer && !raw.is_being_deleted() && !raw.has_finalizer(CLUSTER_FINALIZER) && has_class()
    }

    /// Calls the hook that may block the deletion of a Cluster (DEL-01, HK-22).
    async fn ask_to_delete(&self, cluster: &Arc<Cluster>, raw: Arc<Object>) -> RunFindings {
        let (deleted, options) = (cluster.clone(), self.options);
        let computation = self.gathered(World::new(self.cache.facts()), move |world| {
            let mut tracker = HookTracker::for_cluster(&deleted);
            let deletion = HookCaller::new(&deleted, world, &options).before_cluster_delete(&mut tracker)?;
            Ok((deletion, tracker))
        });
        let findings =
            RunFindings { deletion: self.deletions.missing_hold(cluster, moment()), ..RunFindings::none(cluster, raw) };
        match computation.await {
            Ok(((answer, hooks), _)) => RunFindings {
                deletion: match answer {
                    Deletion::Permit => DeletionChange::Permit,
                    Deletion::Free => DeletionChange::DropHold,
                    Deletion::Blocked => findings.deletion,
                },
                again: retry(&hooks),
                tracker: Tracker { hooks, ..findings.tracker },
                ..findings
            },
            Err(interruption) => findings.interrupted(interruption),
        }
    }

    /// Reads the inputs, repairs `managedFields`, computes, plans and writes (RS-07).
    async fn roll_out(&self, cluster: &Arc<Cluster>, raw: Arc<Object>) -> RunFindings {
        let mut findings = RunFindings::none(cluster, raw);
        if let Found::Yes(class) = self.cache.facts().class(&cluster.class_key().unwrap_or_default()) {
            findings.class = Some(class);
        }
        let RunInputs { observed, world, lease, memory } = match self.observed(cluster).await {
            Ok(inputs) => inputs,
            Err(interruption) => return findings.interrupted(interruption),
        };
        match mitigate(&self.writer, &findings.raw, observed.current.objects().map(|object| &**object)).await {
            Ok(false) => {}
            Ok(true) => return RunFindings { is_silent: true, changed: true, again: Some(REPAIRED), ..findings },
            Err(error) => return findings.failed_to_write(&error),
        }
        let PlannedTopology { mut plan, tracker } = match self.planned(world, &observed).await {
            Ok(planned) => planned,
            Err(interruption) => return findings.interrupted(interruption),
        };
        lease.shrink_to(memory / WRITING);
        let generations = Generations::from_blueprint(&observed.blueprint);
        plan.shim = self.history.shim(&cluster.metadata.key(), plan.shim);
        let held = self.hold_endless_rotations(cluster, &mut plan, &generations).await;
        let is_settled = plan.steps.is_empty() && plan.failure.is_none() && held.is_none() && !tracker.is_upgrading();
        let rolled_out = is_settled.then(|| rollout_record::record(&observed.blueprint));
        if held.is_none() && !tracker.is_upgrading() {
            record_creation(&mut plan, &findings.raw, &observed.blueprint);
        }
        let written = self.write(cluster, &findings.raw, &plan, &generations).await;
        // The plan is about the former spec, and so would be defaults, record and condition.
        let is_edited = written.cluster.as_ref().is_some_and(|after| is_edited(&findings.raw, after));
        if is_edited && written.error.is_none() {
            let changed = apply::ApplyError::Changed { object: Box::new(findings.raw.reference()) };
            return RunFindings { changed: true, ..findings.failed_to_write(&changed) };
        }
        let findings = RunFindings {
            again: retry(&tracker.hooks),
            tracker,
            observed: Some(observed).filter(|_| !is_edited),
            rolled_out: rolled_out.filter(|_| written.error.is_none()),
            changed: written.changed,
            raw: written.cluster.filter(|_| !is_edited).map_or(findings.raw, Arc::new),
            ..findings
        };
        match written.error {
            Some(error) => findings.failed_to_write(&error),
            None => RunFindings { error: plan.failure.map(|failure| failure.to_string()).or(held), ..findings },
        }
    }

    /// Removes rotations from a plan that would repeat in every run. Records an event, and returns the message of the
    /// condition (DEC-35). They come from names in templates, or from webhooks with changing defaults (CT-9.3).
    async fn hold_endless_rotations(
        &self,
        cluster: &Cluster,
        plan: &mut Plan,
        generations: &Generations,
    ) -> Option<String> {
        let key = cluster.metadata.key();
        let now = self.began.elapsed().as_secs();
        let held = self.rotations().hold(&key, plan, generations, now);
        for fighting in held.iter().filter(|fighting| fighting.is_new) {
            self.metrics.rotations_held.inc();
            warn!(object = %fighting.object, path = fighting.path,
                "Stopped replacing a template that changes in every run");
            self.applier.report_held_rotation(&key, &cluster.metadata.uid, fighting.to_string()).await;
        }
        held.first().map(ToString::to_string)
    }

    fn rotations(&self) -> MutexGuard<'_, Rotations> {
        self.rotations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The inputs, and the world with their facts. Its answers stay the same for the rest of the run. The memory of the
    /// computation is taken before the first object of the topology is read (DEC-58).
    async fn observed(&self, cluster: &Arc<Cluster>) -> Result<RunInputs, Interruption> {
        let ends = std::time::Instant::now() + RUN_LIMIT;
        let stop = Stop::when(move || std::time::Instant::now() >= ends);
        let world = World::new(self.cache.facts()).until(stop);
        // After a failure a dry run shows whether an object would be denied, before templates are created for it.
        let world = match self.backoff.has_failed(&cluster.metadata.key()) {
            true => world,
            false => world.without_certain_dry_runs(),
        };
        let cluster = cluster.clone();
        let (blueprint, world) = self.gathered(world, move |world| Blueprint::read(&cluster, world)).await?;
        let size = blueprint.size();
        self.options.limit.check(size).map_err(Failure::from)?;
        let lease = SharedLease::new(self.lease(size.memory()).await?);
        let world = world.leasing(lease.clone());
        let blueprint = Arc::new(blueprint);
        let current = {
            let blueprint = blueprint.clone();
            move |world: &World| ObservedState::current(&blueprint, world)
        };
        let (current, world) = self.gathered(world, current).await?;
        let observed = Arc::new(ObservedState { blueprint: Arc::unwrap_or_clone(blueprint), current });
        Ok(RunInputs { observed, world, lease, memory: size.memory() })
    }

    /// The memory of a run, once it is free.
    async fn lease(&self, bytes: usize) -> Result<Lease, Interruption> {
        let mut request = self.memory.request(bytes);
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(lease) = request.try_take() {
                return Ok(lease);
            }
            if Instant::now() >= deadline {
                return Err(Failure::from(Interrupted::NoMemory).into());
            }
            tokio::time::sleep(MEMORY_LOOK).await;
        }
    }

    /// The desired state and the plan. The desired state is computed once, also if dry runs need several rounds.
    async fn planned(&self, world: World, observed: &Arc<ObservedState>) -> Result<PlannedTopology, Interruption> {
        let Blueprint { cluster, class, .. } = &observed.blueprint;
        let (observed, options, mut names) = (observed.clone(), self.options, LiveNames::for_cluster(cluster, class));
        let mut computed: Option<Computation> = None;
        let plan = move |world: &World| {
            let computation = Computation::get_or_compute(&mut computed, &observed, world, &mut names, &options)?;
            let plan = Plan::from_computation(computation, world, &AppliedState::default(), &mut names)?;
            Ok(PlannedTopology { plan, tracker: computation.tracker.clone() })
        };
        self.gathered(world, plan).await.map(|(planned, _)| planned)
    }

    /// Computes until no fact is missing; returns the world with all answers, which stay valid for the rest of the run.
    async fn gathered<T, F>(&self, world: World, compute: F) -> Result<(T, World), Interruption>
    where
        T: Send + 'static,
        F: FnMut(&World) -> Result<T, Failure> + Send + 'static,
    {
        let deadline = Instant::now() + PATIENCE;
        let gather = async |needs| Ok(self.gatherer.gather_all(needs, deadline).await?);
        let compute_in_turn = |world, compute| self.on_blocking_thread(world, compute);
        let (result, world) = settle(world, Box::new(compute), compute_in_turn, gather).await?;
        Ok((result?, world))
    }

    /// Computes once, on a blocking thread, and waits for a free one.
    async fn on_blocking_thread<T, F>(&self, world: World, mut compute: F) -> ComputeResult<T, F, Interruption>
    where
        T: Send + 'static,
        F: FnMut(&World) -> T + Send + 'static,
    {
        // Limit parallel computations: more threads are not faster, and each one keeps its own memory.
        let _turn = self.turns.acquire().await.map_err(|error| Failure::Unreadable(error.to_string()))?;
        let work = tokio::task::spawn_blocking(move || (compute(&world), world, compute));
        work.await.map_err(|error| Failure::Unreadable(error.to_string()).into())
    }

    /// Executes a plan (RS-12).
    async fn write(&self, cluster: &Cluster, raw: &Object, plan: &Plan, generations: &Generations) -> PlanWrites {
        if plan.steps.is_empty() && plan.shim == Shim::Keep {
            return PlanWrites::default();
        }
        let key = cluster.metadata.key();
        // If this run ends early, the next one does not know what it has written.
        let (shim, known_workers) = (self.history.shim_uid(&key), self.history.take_known_workers(&key, raw.uid()));
        let run =
            apply::PlanRun { cluster: &key, base: raw, plan, shim: shim.as_deref(), known_workers: &known_workers };
        let outcome = self.applier.apply(run).await;
        let is_uncertain = outcome.error.as_ref().is_some_and(apply::ApplyError::may_have_written);
        if !is_uncertain {
            self.history.knows_workers(&key, raw.uid(), outcome.known_workers);
        }
        if let Some(uid) = outcome.shim {
            self.history.made_shim(&key, uid);
        }
        if outcome.has_deleted_shim {
            self.history.dropped_shim(&key);
        }
        let changed = !outcome.written.is_empty();
        let now = self.began.elapsed().as_secs();
        self.rotations().note(&key, plan, &outcome.rotated, generations, now);
        self.history.wrote(&key, outcome.written.into_iter().map(|written| (written.object, written.version)));
        PlanWrites { changed, cluster: outcome.cluster, error: outcome.error }
    }

    /// Writes the Cluster at the end of a run: defaults of its variables, and its status (RS-06, ST-01).
    async fn conclude(
        &self,
        key: &ObjectKey,
        cluster: &Cluster,
        findings: RunFindings,
    ) -> Result<TopologyOutcome, TopologyRunError> {
        let RunFindings {
            class,
            tracker,
            observed,
            error,
            conflict,
            overload,
            deletion,
            rolled_out,
            again,
            unlisted,
            interrupted,
            is_too_large,
            ..
        } = findings;
        // The next run computes anew, so a conflict is not worth a condition unless the runs never get past it.
        let conflicts = self.history.conflicts(key, conflict);
        let is_silent = findings.is_silent
            || !unlisted.is_empty()
            || interrupted.is_some()
            || (1..=SILENT_CONFLICTS).contains(&conflicts)
            || self.backoff.is_silent_about(key, overload.as_ref());
        // The API server would refuse the writes to a Cluster that was deleted during the run.
        let is_gone = || self.managed.cluster(key).is_none_or(|current| current.uid() != cluster.metadata.uid);
        if unlisted.is_empty() && is_gone() {
            return Ok(TopologyOutcome::Gone);
        }
        let (mut raw, mut changed) = (findings.raw, findings.changed);
        let defaulted = observed.as_ref().map(|observed| &observed.blueprint.cluster);
        let patch = write::cluster_patch(&raw, cluster, defaulted, &deletion, rolled_out.as_deref());
        if !patch.is_empty() {
            let written = write::patch(&self.writer, key, &patch).await;
            raw = Arc::new(written.map_err(unwritten)?);
            self.note_written(key, &raw);
            changed = true;
        }
        if !is_silent {
            let class = class.as_deref().map(|class| &**class);
            let error = error.as_deref();
            let run = status::ReconcileOutcome {
                cluster,
                class,
                tracker: &tracker,
                error,
                is_too_large,
                guard: self.deletions.guard,
            };
            // Other clients may have written the status since the run began.
            let base = self.managed.cluster(key).filter(|shown| write::is_newer_status(shown, &raw)).unwrap_or(raw);
            let wanted = |cluster: &Object| status::reconciled(cluster.as_ref(), &run, &now());
            match write::write_status(&self.writer, base, wanted).await.map_err(unwritten)? {
                StatusWrite::Unchanged => {}
                StatusWrite::Conflict => return Err(TopologyRunError::Conflict),
                StatusWrite::Written(written) => {
                    self.note_written(key, &written);
                    changed = true;
                }
            }
        }
        if !unlisted.is_empty() {
            return Err(TopologyRunError::Unlisted(unlisted));
        }
        if let Some(interrupted) = interrupted {
            return Err(TopologyRunError::Interrupted(interrupted));
        }
        match error {
            Some(_) if conflict => Err(TopologyRunError::Conflict),
            Some(error) => Err(overload.map_or(TopologyRunError::Failed(error), TopologyRunError::Overloaded)),
            None => Ok(TopologyOutcome::Done { changed, again }),
        }
    }

    /// Records a write of a Cluster.
    fn note_written(&self, key: &ObjectKey, written: &Object) {
        let version = written.resource_version().to_owned();
        self.history.wrote(key, [(ObjectRef::new(API_VERSION, "Cluster", key.clone()), version)]);
    }

    /// Drops all data about a Cluster that does not exist any more.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.history.forget(key);
        self.backoff.forget(key);
        self.postponed.forget(key);
        self.gatherer.forget(key);
        self.rotations().forget(key);
    }

    /// Whether a watch lags behind the writes for a Cluster (RS-11, PERF-02).
    pub(super) fn stale(&self, key: &ObjectKey) -> bool {
        let unseen = self
            .history
            .unseen(key, |write| self.managed.has_seen(&write.object.api_version, &write.object.kind, &write.version));
        for kind in &unseen {
            let kind = ["Cluster", "MachineDeployment", "MachinePool"].into_iter().find(|name| name == kind);
            self.metrics.stale_cache_skips.get_or_create(&metrics::Kind { kind: kind.unwrap_or("other") }).inc();
        }
        !unseen.is_empty()
    }
}

/// The inputs of a computation.
struct RunInputs {
    observed: Arc<ObservedState>,
    world: World,
    /// The memory of the run.
    lease: SharedLease,
    /// The bytes that the computation and its plan take.
    memory: usize,
}

/// A plan, and the data for the status.
struct PlannedTopology {
    plan: Plan,
    tracker: Tracker,
}

/// The result of executing a plan.
#[derive(Default)]
struct PlanWrites {
    changed: bool,
    /// The Cluster, if it was written.
    cluster: Option<Object>,
    error: Option<apply::ApplyError>,
}

impl RunFindings {
    /// Results with nothing but the Cluster itself.
    fn none(cluster: &Cluster, raw: Arc<Object>) -> Self {
        RunFindings {
            raw,
            class: None,
            tracker: Tracker { hooks: HookTracker::for_cluster(cluster), ..Tracker::default() },
            observed: None,
            error: None,
            conflict: false,
            overload: None,
            is_silent: false,
            unlisted: BTreeSet::new(),
            interrupted: None,
            is_too_large: false,
            rolled_out: None,
            deletion: DeletionChange::None,
            changed: false,
            again: None,
        }
    }

    /// The same with the requirements of a hold on a Cluster that is not being deleted.
    fn with(self, standing: HoldStanding) -> Self {
        match standing {
            HoldStanding::None => self,
            HoldStanding::Over => RunFindings { deletion: DeletionChange::DropHold, ..self },
            HoldStanding::Until(left) => {
                RunFindings { again: Some(self.again.map_or(left, |again| again.min(left))), ..self }
            }
        }
    }

    /// Results of a run that wrote nothing. A hook that blocks the creation is not an error (HK-11).
    fn interrupted(self, interruption: Interruption) -> Self {
        match interruption {
            Interruption::Failure(Failure::CreationWaits(hooks)) => {
                RunFindings { again: retry(&hooks), tracker: Tracker { hooks: *hooks, ..self.tracker }, ..self }
            }
            Interruption::Failure(Failure::Interrupted(interrupted)) => {
                RunFindings { interrupted: Some(interrupted), ..self }
            }
            Interruption::Failure(failure) => RunFindings {
                error: Some(failure.to_string()),
                is_too_large: matches!(failure, Failure::TooLarge(_)),
                ..self
            },
            Interruption::Unlisted(unlisted) => RunFindings { unlisted, ..self },
            Interruption::Overloaded(overload) => {
                RunFindings { error: Some(overload.to_string()), overload: Some(overload), ..self }
            }
        }
    }

    fn failed_to_write(self, error: &apply::ApplyError) -> Self {
        let conflict = error.is_conflict();
        if conflict {
            debug!(error = %error, "Write conflict");
        }
        let reason = error.to_string();
        let overload = error.overload().map(|overload| ApiOverload { reason: reason.clone(), ..overload });
        RunFindings { conflict, overload, error: Some(reason), ..self }
    }
}

/// The error of a run whose Cluster was not written.
fn unwritten(error: ApiRequestError) -> TopologyRunError {
    if error.is_conflict() || error.is_not_found() {
        TopologyRunError::Conflict
    } else {
        TopologyRunError::Status(error)
    }
}

/// Whether another client has changed what a topology is computed from.
fn is_edited(before: &Object, after: &Object) -> bool {
    ["spec.topology", "spec.clusterNetwork", "spec.paused"].iter().any(|path| before.at(path) != after.at(path))
}

/// Adds the record of the inputs of a topology to the plan that creates all of its objects, since then none of them is
/// made from anything else (DEC-59). The Cluster is written anyway, with its references.
fn record_creation(plan: &mut Plan, raw: &Object, blueprint: &Blueprint) {
    let creates = |step: &PlanStep| step.part == TopologyPart::Cluster || step.action == StepAction::Create;
    let has_infrastructure = plan.steps.iter().any(|step| step.part == TopologyPart::Infrastructure);
    if plan.failure.is_some() || !has_infrastructure || !plan.steps.iter().all(creates) {
        return;
    }
    let Some(step) = plan.steps.iter_mut().find(|step| step.part == TopologyPart::Cluster) else { return };
    step.changes.push(ChangedField {
        path: format!("{}[{}]", paths::metadata::ANNOTATIONS, annotation::ROLLED_OUT),
        from: raw.annotation(annotation::ROLLED_OUT).map(|record| json!(record)),
        to: Some(json!(rollout_record::record(blueprint))),
        because: None,
        was: None,
        is_sensitive: false,
    });
}

/// When to call a blocking hook again (HK-09).
fn retry(hooks: &HookTracker) -> Option<Duration> {
    hooks.requeue_after_seconds().map(|seconds| Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests;

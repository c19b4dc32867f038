//! The impact of an allowed edit, computed in little time and on blocking threads: it does not delay other reviews. It
//! denies an edit only if the user has set a ceiling (DEC-42, DEC-53). A ceiling counts all machines of Clusters that
//! cannot be computed (DEC-59).

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::Utf8Error;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, timeout_at};

use super::fair_queue::{FairQueue, QueuePermit, Requester};
use super::impact_events::{ImpactEvent, ImpactEventWriter};
use super::limits::{Disconnected, LAST_ROUND, ReviewLimits};
use crate::kubernetes::gather::Gatherer;
use crate::kubernetes::impact_facts::ImpactFacts;
use crate::telemetry::metrics::{self, Metrics};
use engine::admission::{AdmissionOutcome, AdmissionSettings, Dependents, EditedObject, Verdict};
use engine::impact::{
    AffectedClusters, Breaking, Ceiling, ClusterGroups, Completeness, Edit, EditId, GroupQueue, Impact, ImpactCounts,
    ImpactInputs, Inspection, SizeRules, SizeVerdict, Tally, UnknownImpact, UnreadableFact, endless, with_refusals,
};
use engine::topology::refusals::Checks;
use engine::topology::{Options, SizeLimit};
use model::hub::{Object, ObjectRef, label};
use model::wire::review::AdmissionRequest;
use model::world::{Answer, Facts, Found, Need};
use schema::budget::{MemoryPool, Stop};
use schema::field::{FieldError, Warning, shortened};

/// Maximum number of worker sets of a Cluster whose size is summed up on an async thread, in less than a millisecond.
const FEW_SETS: usize = 500;

/// How much the nice value of helping threads is above that of others: they get a tenth of the processor time of others
/// that want to run.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// The greatest nice value.
#[cfg(target_os = "linux")]
const LOWEST: i32 = 19;

/// Minimum number of groups of Clusters for each helping thread.
const MANY_GROUPS: usize = 16;

/// Number of remembered edits, so that none is counted twice.
const LATEST: usize = 256;

/// Computes impacts, a few at a time.
#[derive(Debug)]
pub(super) struct Assessor {
    options: Options,
    /// The memory of computations, which the controllers share (DEC-58).
    memory: Arc<MemoryPool>,
    breaking: Breaking,
    /// How long one edit may take, waiting for its turn included; zero switches impacts off.
    time: Duration,
    max_replaced_machines: Option<u32>,
    unknown: UnknownImpact,
    /// Shared fairly by users, and for each user by namespaces.
    threads: FairQueue<String>,
    /// The number of other threads that help with an edit of many Clusters.
    helpers: usize,
    /// The latest edits that were counted.
    latest: Mutex<VecDeque<EditId>>,
    metrics: Arc<Metrics>,
    /// Writes events on classes, where there is an API server.
    announcer: Option<Arc<ImpactEventWriter>>,
}

/// The assessment of the machines that an edit replaces or removes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Assessment {
    pub warnings: Vec<Warning>,
    /// For the audit log.
    pub summary: Option<String>,
    /// Why the edit is denied.
    pub denial: Option<FieldError>,
    /// For the edited class, once it is stored.
    event: Option<ImpactEvent>,
    machines: ImpactCounts,
    id: EditId,
}

/// Why there is no impact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum ImpactError {
    #[error("other edits are being computed; try again, or run topologist plan")]
    Busy,
    #[error("the time was over before one Cluster was computed; run topologist plan")]
    Late,
    #[error("cannot read {0}")]
    Template(#[from] UndecodableTemplate),
    #[error("cannot read {0}")]
    Fact(#[from] UnreadableFact),
    #[error("an internal error; the log has the details")]
    Panicked,
}

/// An edited template that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UndecodableTemplate {
    #[error(transparent)]
    Utf8(#[from] Utf8Error),
    #[error("the template: {0}")]
    InvalidJson(String),
    #[error("the template: it is {found}")]
    NotObject { found: &'static str },
}

/// An edit that may affect machines, with the facts for its impact.
struct PreparedEdit {
    edit: Edit,
    case: ImpactInputs,
    ceiling: Option<Ceiling>,
    /// About templates that are not watched.
    warnings: Vec<Warning>,
}

/// The results for an edit.
struct AssessedEdit {
    id: EditId,
    impact: Impact,
    checks: Checks,
    denial: Option<FieldError>,
    /// About templates that are not watched.
    warnings: Vec<Warning>,
}

impl Assessment {
    /// An edit that is denied before its impact is computed.
    pub(super) fn denied(error: FieldError) -> Self {
        Assessment { denial: Some(error), ..Assessment::default() }
    }
}

impl Assessor {
    pub(super) fn new(settings: &AdmissionSettings, limits: &ReviewLimits, metrics: Arc<Metrics>) -> Self {
        let limit = SizeLimit::for_text(settings.computation_limit);
        let breaking = breaking(settings.dependents);
        let (threads, helpers) = threads();
        let waiting = metrics.waiting.get_or_create(&metrics::Queue { queue: "impacts" }).clone();
        Assessor {
            options: Options::new(settings.gates.runtime_sdk).within(limit),
            memory: Arc::new(MemoryPool::unlimited()),
            breaking,
            time: limits.impact,
            max_replaced_machines: limits.max_replaced_machines,
            unknown: limits.unknown_impact,
            threads: FairQueue::new(threads, limits.aside_queue, waiting),
            helpers,
            latest: Mutex::default(),
            metrics,
            announcer: None,
        }
    }

    /// The same, whose computations share this memory.
    #[must_use]
    pub(super) fn with_memory(self, memory: Arc<MemoryPool>) -> Self {
        let options = self.options.within(self.options.limit.with_memory(memory.capacity()));
        Assessor { options, memory, ..self }
    }

    /// The same, with events on the classes whose edits are stored.
    #[must_use]
    pub(super) fn with_events(self, announcer: ImpactEventWriter) -> Self {
        Assessor { announcer: Some(Arc::new(announcer)), ..self }
    }

    /// The verdict on an edit, with its effect on machines.
    pub(super) async fn judge(
        &self,
        mut verdict: Verdict,
        edited: EditedObject,
        gatherer: &Gatherer,
        (review, deadline): (&AdmissionRequest<'_>, Instant),
    ) -> Verdict {
        let (owner, is_dry_run) = (owner(review), review.dry_run == Some(true));
        let edit = edit(edited);
        if !edit.matters() {
            return verdict;
        }
        let SizeVerdict { denial, warnings } = if edit.worker_sets().is_some_and(|sets| sets <= FEW_SETS) {
            let sizer = self.sizer(gatherer);
            catch_unwind(AssertUnwindSafe(|| sizer(&edit))).unwrap_or_default()
        } else {
            let sized = edit.clone();
            self.sized(move || Ok(sized), gatherer, deadline).await
        };
        verdict.warnings.extend(warnings);
        if let Some(error) = denial {
            verdict.outcome = AdmissionOutcome::Invalid(vec![error]);
            return verdict;
        }
        if let Edit::NewCluster(_) = edit {
            let found = self.inspected(edit.clone(), gatherer, (owner, deadline)).await.unwrap_or_default();
            verdict.warnings = with_refusals(verdict.warnings, &found.checks);
            if let Some(error) = endless(&edit, found.endless) {
                verdict.outcome = AdmissionOutcome::Invalid(vec![error]);
            }
            return verdict;
        }
        let class = if let Edit::Class { new, .. } = &edit { Some(new.clone()) } else { None };
        let assessment = self.assess(move || Ok(edit.clone()), gatherer, (owner, deadline)).await;
        let counts = self.count(&assessment, verdict.kind.name(), is_dry_run);
        let Assessment { warnings, summary, denial, event, .. } = assessment;
        if let (Some(class), Some(event), Some(announcer), true) = (class, event, &self.announcer, counts) {
            announcer.write_when_stored(class, event);
        }
        verdict.warnings.extend(warnings);
        verdict.impact = summary;
        if let Some(error) = denial {
            verdict.outcome = AdmissionOutcome::Invalid(vec![error]);
        }
        verdict
    }

    /// Whether an edit makes topologies too large (DEC-58). Unknown and late facts do not deny an edit: the controllers
    /// do not compute oversized topologies either.
    pub(super) async fn sized(
        &self,
        decode: impl FnOnce() -> Result<Edit, UndecodableTemplate> + Send + 'static,
        gatherer: &Gatherer,
        deadline: Instant,
    ) -> SizeVerdict {
        let sizer = self.sizer(gatherer);
        let judge = move || decode().map(|edit| sizer(&edit)).unwrap_or_default();
        let ends = deadline.checked_sub(LAST_ROUND).unwrap_or(deadline);
        timeout_at(ends, tokio::task::spawn_blocking(judge)).await.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// The function that judges whether an edit makes topologies too large.
    fn sizer(&self, gatherer: &Gatherer) -> impl Fn(&Edit) -> SizeVerdict + Send + 'static {
        let (stored, known) = (gatherer.cache().facts(), gatherer.impact_facts());
        let rules = SizeRules { limit: self.options.limit, breaking: self.breaking };
        move |edit| SizeVerdict::for_edit(edit, &stored, |reference| known_template(&known, reference), rules)
    }

    /// The effect of an edit on machines; `decode` is called on a blocking thread.
    pub(super) async fn assess(
        &self,
        decode: impl Fn() -> Result<Edit, UndecodableTemplate> + Clone + Send + 'static,
        gatherer: &Gatherer,
        (owner, deadline): (Requester<'_, String>, Instant),
    ) -> Assessment {
        if self.time.is_zero() {
            return Assessment::default();
        }
        let started = Instant::now();
        let outcome = match Box::pin(self.impact(decode.clone(), gatherer, (owner, deadline))).await {
            Err(unknown) => Box::pin(self.bounded(decode, gatherer, &unknown, deadline)).await.ok_or(unknown),
            outcome => outcome,
        };
        self.note(&outcome, started);
        match outcome {
            Ok(None) => Assessment::default(),
            Ok(Some(AssessedEdit { id, impact, checks, denial, warnings })) => Assessment {
                warnings: with_refusals([impact.warnings(), warnings].concat(), &checks),
                summary: impact.summary(),
                denial,
                event: ImpactEvent::from_impact(&impact),
                machines: impact.machines,
                id,
            },
            Err(unknown) => {
                let text = shortened(&format!("the number of replaced machines is not known: {unknown}")).into_owned();
                Assessment { warnings: vec![Warning::new("DEC-42", text)], ..Assessment::default() }
            }
        }
    }

    /// The verdict of a ceiling on an edit with unknown impact: all machines of its Clusters count (DEC-59). `None`
    /// without a ceiling, and for an edit that cannot be decoded.
    async fn bounded(
        &self,
        decode: impl FnOnce() -> Result<Edit, UndecodableTemplate> + Send + 'static,
        gatherer: &Gatherer,
        unknown: &ImpactError,
        deadline: Instant,
    ) -> Option<Option<AssessedEdit>> {
        let facts = gatherer.cache().facts();
        if !Ceiling::is_set(&facts, self.max_replaced_machines) {
            return None;
        }
        // The threads for impacts may be busy, and only the largest templates take longer than a millisecond.
        let edit = timeout_at(deadline, tokio::task::spawn_blocking(decode)).await.ok()?.ok()?.ok()?;
        let Some(extent) = AffectedClusters::for_edit(&edit, &facts) else { return Some(None) };
        let machines = extent.machines(&edit, &facts);
        let impact = Impact::unknown(edit.subject(), (extent.clusters(), machines), unknown.to_string());
        let ceiling = Ceiling::for_edit(&edit, &extent, &facts, self.max_replaced_machines)?;
        let denial = ceiling.with_unknown(self.unknown).denies(&edit, &impact);
        Some(Some(AssessedEdit { id: edit.id(), impact, checks: Checks::default(), denial, warnings: Vec::new() }))
    }

    fn note(&self, outcome: &Result<Option<AssessedEdit>, ImpactError>, started: Instant) {
        let outcome = match outcome {
            Ok(None) => return,
            Ok(Some(assessed)) if assessed.denial.is_some() => "held",
            Ok(Some(assessed)) => match assessed.impact.completeness() {
                Completeness::Complete => "complete",
                Completeness::Incomplete => "incomplete",
                Completeness::Estimated => "estimated",
                Completeness::Bound => "bound",
            },
            Err(_) => "unknown",
        };
        self.metrics.impacts.get_or_create(&metrics::Outcome { outcome }).inc();
        self.metrics.impact_duration.observe(started.elapsed().as_secs_f64());
    }

    /// Counts a denied edit, or the machines that a stored edit replaces or removes. Returns whether the edit counts:
    /// one that the API server repeats after a conflict counts once.
    pub(super) fn count(&self, assessment: &Assessment, kind: &'static str, is_dry_run: bool) -> bool {
        if assessment.denial.is_some() {
            self.metrics.held_edits.get_or_create(&metrics::Kind { kind }).inc();
            return false;
        }
        if is_dry_run || !self.is_new(&assessment.id) {
            return false;
        }
        let ImpactCounts { replaced, removed, .. } = assessment.machines;
        for (action, machines) in [("replaced", replaced), ("removed", removed)] {
            let machines = u64::try_from(machines).unwrap_or_default();
            self.metrics.announced_machines.get_or_create(&metrics::Action { action }).inc_by(machines);
        }
        true
    }

    /// Whether an edit is not among the latest ones. Adds it to them.
    fn is_new(&self, id: &EditId) -> bool {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !latest.contains(id);
        if is_new {
            latest.truncate(LATEST - 1);
            latest.push_front(id.clone());
        }
        is_new
    }

    async fn impact(
        &self,
        decode: impl FnOnce() -> Result<Edit, UndecodableTemplate> + Send + 'static,
        gatherer: &Gatherer,
        (owner, deadline): (Requester<'_, String>, Instant),
    ) -> Result<Option<AssessedEdit>, ImpactError> {
        let last = deadline.checked_sub(LAST_ROUND).unwrap_or(deadline);
        let soon = (Instant::now() + self.time).min(last);
        // A number that may decide is worth more time.
        let by = if Ceiling::is_set(&gatherer.cache().facts(), self.max_replaced_machines) { last } else { soon };
        let turn = Arc::new(self.threads.acquire(owner, by).await.map_err(|_| ImpactError::Busy)?);
        let Some(prepared) = self.prepared(decode, gatherer, &turn, by).await? else { return Ok(None) };
        let ends = if prepared.ceiling.is_some() { last } else { soon };
        let prepared = Arc::new(prepared);
        let (impact, checks) = self.compared(&prepared, turn, ends).await?;
        if impact.compared == 0 {
            return Err(ImpactError::Late);
        }
        let ceiling = prepared.ceiling.clone().map(|ceiling| ceiling.with_unknown(self.unknown));
        let held = || ceiling.and_then(|ceiling| ceiling.denies(&prepared.edit, &impact));
        let denial = endless(&prepared.edit, impact.endless).or_else(held);
        let warnings = prepared.warnings.clone();
        Ok(Some(AssessedEdit { id: prepared.edit.id(), impact, checks, denial, warnings }))
    }

    /// The problems of the objects of a new Cluster, as far as templates and schemas are known and there is time.
    /// Without templates it costs next to nothing.
    async fn inspected(
        &self,
        edit: Edit,
        gatherer: &Gatherer,
        (owner, deadline): (Requester<'_, String>, Instant),
    ) -> Option<Inspection> {
        let ends = (Instant::now() + self.time).min(deadline.checked_sub(LAST_ROUND).unwrap_or(deadline));
        let (facts, known) = (gatherer.cache().facts(), gatherer.impact_facts());
        let kinds = edit.created_kinds(&facts);
        let is_computable = || edit.templates(&facts).iter().all(|one| known_template(&known, one).is_some());
        if self.time.is_zero() || kinds.is_empty() || !is_computable() {
            return None;
        }
        let schemas = known.schemas(&kinds);
        let turn = self.threads.acquire(owner, ends).await.ok()?;
        let (options, memory) = (self.options, self.memory.clone());
        let (_gone, stop) = stop_at(ends);
        let inspect = move || {
            let case = ImpactInputs::for_edit(&edit, &facts)?.with_memory(memory);
            let answers = known.answers(case.needs());
            case.with(&edit, answers).ok()?.with_schemas(schemas).inspect(options, &stop)
        };
        timeout_at(ends, on_thread(Arc::new(turn), inspect)).await.ok()?.ok()?
    }

    async fn prepared(
        &self,
        decode: impl FnOnce() -> Result<Edit, UndecodableTemplate> + Send + 'static,
        gatherer: &Gatherer,
        turn: &Arc<QueuePermit<String>>,
        ends: Instant,
    ) -> Result<Option<PreparedEdit>, ImpactError> {
        let (stored, known) = (gatherer.cache().facts(), gatherer.impact_facts());
        let (limit, memory) = (self.max_replaced_machines, self.memory.clone());
        // Variables of an edited class are compiled, and templates are decoded.
        let prepare = on_thread(turn.clone(), move || -> Result<_, ImpactError> {
            let prepared = prepare(decode()?, &stored, &known, limit)?;
            Ok(prepared.map(|prepared| PreparedEdit { case: prepared.case.with_memory(memory), ..prepared }))
        });
        timeout_at(ends, prepare).await.map_err(|_| ImpactError::Late)??
    }

    /// The impact when all Clusters are compared, or the time is over.
    async fn compared(
        &self,
        prepared: &Arc<PreparedEdit>,
        turn: Arc<QueuePermit<String>>,
        ends: Instant,
    ) -> Result<(Impact, Checks), ImpactError> {
        let tally = Arc::new(Mutex::new(prepared.case.tally()));
        let (_gone, stop) = stop_at(ends);
        let compare = {
            let (options, prepared, tally, helpers) = (self.options, prepared.clone(), tally.clone(), self.helpers);
            on_thread(turn, move || {
                let (now, groups) = (Timestamp::now(), prepared.case.groups());
                let compare = |queue: GroupQueue<'_, '_>| {
                    let add = |clusters, change| locked(&tally).add(clusters, change);
                    prepared.case.compare_groups(queue, options, now, &stop, add);
                };
                with_helpers(helpers, &groups, compare);
                if stop.is_due() { Checks::default() } else { prepared.case.checks(options, &stop) }
            })
        };
        // What is known when the time is over counts.
        let checks = timeout_at(ends, compare).await.unwrap_or_else(|_| Ok(Checks::default()))?;
        let impact = locked(&tally).impact();
        Ok((impact, checks))
    }
}

/// How to treat edits that make topologies too large: like those that break variables (DEC-1, DEC-58).
pub fn breaking(dependents: Dependents) -> Breaking {
    match dependents {
        Dependents::Deny => Breaking::Denied,
        Dependents::Warn => Breaking::Warned,
        Dependents::Off => Breaking::Ignored,
    }
}

/// A stop that is set when the time is over, or when the returned guard is dropped because the client has disconnected.
fn stop_at(ends: Instant) -> (Disconnected, Stop) {
    let gone = Disconnected::default();
    let (is_gone, ends) = (gone.0.clone(), ends.into_std());
    (gone, Stop::when(move || is_gone.load(Ordering::Relaxed) || std::time::Instant::now() >= ends))
}

/// An edit with the facts for its impact; `None` for one that cannot affect machines.
fn prepare(
    edit: Edit,
    stored: &Facts,
    known: &ImpactFacts,
    limit: Option<u32>,
) -> Result<Option<PreparedEdit>, UnreadableFact> {
    let Some(case) = ImpactInputs::for_edit(&edit, stored) else { return Ok(None) };
    let kinds = if edit.is_of_cluster() { case.created_kinds() } else { BTreeSet::new() };
    let answers = known.answers(case.needs());
    let warnings = answers.iter().filter_map(|(_, answer)| of_copy(answer)).collect();
    let case = case.with(&edit, answers)?.with_schemas(known.schemas(&kinds)).with_updater(known.updater());
    let ceiling = Ceiling::from_inputs(&case, limit);
    Ok(Some(PreparedEdit { edit, case, ceiling, warnings }))
}

/// The warning about a template of a class that has the label of copies. The watch of templates leaves copies out.
fn of_copy(answer: &Answer) -> Option<Warning> {
    let Answer::Object(Found::Yes(template)) = answer else { return None };
    template.label(label::OWNED)?;
    let (kind, key) = (template.kind(), template.key());
    let text = format!("{kind} {key} has the label {}, so its edits are not watched: remove it", label::OWNED);
    Some(Warning::new("DEC-57", shortened(&text).into_owned()))
}

fn locked(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compares groups of Clusters on this thread, and if there are many, on helping threads of low priority.
fn with_helpers(helpers: usize, groups: &ClusterGroups<'_>, compare: impl Fn(GroupQueue<'_, '_>) + Sync) {
    let helpers = helpers.min(groups.len() / MANY_GROUPS);
    let left_out = NonZero::<usize>::MIN.saturating_add(2 * helpers);
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            let help = || {
                give_way();
                // The panic is passed on when the scope ends.
                let _ends_on_panic = EndsOnPanic(groups);
                compare(groups.for_helper(left_out));
            };
            // Without the help, the comparisons take longer.
            let _ = std::thread::Builder::new().name("impact-helper".to_owned()).spawn_scoped(scope, help);
        }
        compare(groups.all());
    });
}

/// Ends the comparisons of the other threads when one panics.
struct EndsOnPanic<'g, 'a>(&'g ClusterGroups<'a>);

impl Drop for EndsOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

/// The number of threads for impacts, and of the threads that help each of them. Only Linux has threads of a low
/// priority.
fn threads() -> (usize, usize) {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = (cores / 2).max(1);
    let can_give_way = cfg!(target_os = "linux") && !has_quota(cores);
    (threads, if can_give_way { cores / threads - 1 } else { 0 })
}

/// Whether the processor time is limited to less than that of the available processors. A low priority does not protect
/// others then: all threads stop when the time is used up.
#[cfg(target_os = "linux")]
fn has_quota(cores: usize) -> bool {
    let available = rustix::thread::sched_getaffinity(None).map(|set| set.count());
    available.is_ok_and(|available| usize::try_from(available).is_ok_and(|available| available > cores))
}

#[cfg(not(target_os = "linux"))]
fn has_quota(_cores: usize) -> bool {
    false
}

/// Lowers the priority of this thread, so that it takes little time from others, which serve reviews.
#[cfg(target_os = "linux")]
fn give_way() {
    // `None` is the calling thread on Linux. With the usual priority, the work delays others a little more.
    let usual = rustix::process::getpriority_process(None).unwrap_or_default();
    let _ = rustix::process::setpriority_process(None, usual.saturating_add(NICE).min(LOWEST));
}

/// Threads have no separate priority here.
#[cfg(not(target_os = "linux"))]
fn give_way() {}

/// Runs work on a blocking thread, which keeps its permit until the work ends.
async fn on_thread<T: Send + 'static>(
    turn: Arc<QueuePermit<String>>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ImpactError> {
    let work = move || {
        let _turn = turn;
        work()
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| ImpactError::Panicked)
}

/// The user and the namespace of an edit.
pub(super) fn owner<'a>(review: &'a AdmissionRequest<'_>) -> Requester<'a, String> {
    let namespace = review.namespace.as_deref().unwrap_or_default();
    Requester { peer: review.user_info.username.clone().into_owned(), namespace }
}

/// The edit of a review.
fn known_template(known: &ImpactFacts, reference: &ObjectRef) -> Option<Arc<Object>> {
    match known.answers([Need::Object(reference.clone())]).pop() {
        Some((_, Answer::Object(Found::Yes(template)))) => Some(template),
        _ => None,
    }
}

fn edit(edited: EditedObject) -> Edit {
    match edited {
        EditedObject::NewCluster(new) => Edit::NewCluster(Arc::from(new)),
        EditedObject::Class { old, new } => Edit::Class { old: Arc::from(old), new: Arc::from(new) },
        EditedObject::Cluster { old, new } => Edit::Cluster { old: Arc::from(old), new: Arc::from(new) },
    }
}

#[cfg(test)]
mod tests;

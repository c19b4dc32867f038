//! The impact of an allowed edit, computed in little time and on threads of its own: it does not delay the reviews of others, and
//! only a ceiling that was asked for makes it a reason to deny (DEC-42, DEC-53).

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use super::limits::{Gone, LAST_ROUND, Limits};
use crate::admission::{Edited, Outcome, Verdict};
use crate::budget::Stop;
use crate::field::{Warning, shortened};
use crate::impact::{Case, Ceiling, Count, Edit, Impact, Tally};
use crate::kubernetes::gather::Gatherer;
use crate::telemetry::metrics::{self, Metrics};
use crate::topology::Options;

/// Computes impacts, a few at a time.
#[derive(Debug)]
pub(super) struct Assessor {
    options: Options,
    /// How long one edit may take, waiting for its turn included; zero switches impacts off.
    time: Duration,
    max_replaced_machines: Option<u32>,
    threads: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

/// What a review says of the machines that an edit replaces or removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Assessment {
    pub warnings: Vec<Warning>,
    /// For the audit log.
    pub summary: Option<String>,
    /// Why the edit is denied.
    pub denial: Option<String>,
    machines: Count,
}

/// Why there is no impact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Unknown {
    #[error("other edits are being computed; try again, or run topologist plan")]
    Busy,
    #[error("the time was over before one Cluster was computed; run topologist plan")]
    Late,
    #[error("cannot read {0}")]
    Unreadable(String),
    #[error("an internal error; the log has the details")]
    Panicked,
}

/// An edit that may do something to machines, with all that is read for it.
struct Prepared {
    edit: Edit,
    case: Case,
    ceiling: Option<Ceiling>,
}

impl Assessor {
    pub(super) fn new(options: Options, limits: &Limits, metrics: Arc<Metrics>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Assessor {
            options,
            time: limits.impact,
            max_replaced_machines: limits.max_replaced_machines,
            threads: Arc::new(Semaphore::new((cores / 2).max(1))),
            metrics,
        }
    }

    /// The verdict on an edit, with what it does to machines.
    pub(super) async fn judge(
        &self,
        mut verdict: Verdict,
        edited: Edited,
        gatherer: &Gatherer,
        (deadline, is_dry_run): (Instant, bool),
    ) -> Verdict {
        let edit = edit(edited);
        if !edit.matters() {
            return verdict;
        }
        let assessment = self.assess(move || Ok(edit), gatherer, deadline).await;
        self.count(&assessment, verdict.kind.name(), is_dry_run);
        let Assessment { warnings, summary, denial, .. } = assessment;
        verdict.warnings.extend(warnings);
        verdict.impact = summary;
        if let Some(message) = denial {
            verdict.outcome = Outcome::Forbidden { rule: "DEC-53", message, names_object: true };
        }
        verdict
    }

    /// What an edit does to machines; `decode` is called on a thread for such work.
    pub(super) async fn assess(
        &self,
        decode: impl FnOnce() -> Result<Edit, String> + Send + 'static,
        gatherer: &Gatherer,
        deadline: Instant,
    ) -> Assessment {
        if self.time.is_zero() {
            return Assessment::default();
        }
        let started = Instant::now();
        let outcome = self.impact(decode, gatherer, deadline).await;
        self.note(&outcome, started);
        match outcome {
            Ok(None) => Assessment::default(),
            Ok(Some((prepared, impact))) => Assessment {
                warnings: impact.warnings(),
                summary: impact.summary(),
                denial: prepared.ceiling.as_ref().and_then(|ceiling| ceiling.denies(&prepared.edit, &impact)),
                machines: impact.machines,
            },
            Err(unknown) => {
                let text = shortened(&format!("the number of replaced machines is not known: {unknown}")).into_owned();
                Assessment { warnings: vec![Warning { rule: "DEC-42", text }], ..Assessment::default() }
            }
        }
    }

    fn note(&self, outcome: &Result<Option<(Arc<Prepared>, Impact)>, Unknown>, started: Instant) {
        let outcome = match outcome {
            Ok(None) => return,
            Ok(Some((_, impact))) if impact.is_estimate() => "estimated",
            Ok(Some(_)) => "complete",
            Err(_) => "unknown",
        };
        self.metrics.impacts.get_or_create(&metrics::Outcome { outcome }).inc();
        self.metrics.impact_duration.observe(started.elapsed().as_secs_f64());
    }

    /// Counts what a review comes to: machines that go with an edit that is stored, or an edit that is denied.
    pub(super) fn count(&self, assessment: &Assessment, kind: &'static str, is_dry_run: bool) {
        if assessment.denial.is_some() {
            self.metrics.held_edits.get_or_create(&metrics::Kind { kind }).inc();
        } else if !is_dry_run {
            let Count { replaced, removed, .. } = assessment.machines;
            for (action, machines) in [("replaced", replaced), ("removed", removed)] {
                let machines = u64::try_from(machines).unwrap_or_default();
                self.metrics.announced_machines.get_or_create(&metrics::Action { action }).inc_by(machines);
            }
        }
    }

    async fn impact(
        &self,
        decode: impl FnOnce() -> Result<Edit, String> + Send + 'static,
        gatherer: &Gatherer,
        deadline: Instant,
    ) -> Result<Option<(Arc<Prepared>, Impact)>, Unknown> {
        let last = deadline.checked_sub(LAST_ROUND).unwrap_or(deadline);
        let soon = (Instant::now() + self.time).min(last);
        // A number that may decide is worth more time.
        let by = if Ceiling::is_set(&gatherer.cache().facts(), self.max_replaced_machines) { last } else { soon };
        let turn = timeout_at(by, self.threads.clone().acquire_owned()).await;
        let turn = Arc::new(turn.ok().and_then(Result::ok).ok_or(Unknown::Busy)?);
        let Some(prepared) = self.prepared(decode, gatherer, &turn, by).await? else { return Ok(None) };
        let ends = if prepared.ceiling.is_some() { last } else { soon };
        let prepared = Arc::new(prepared);
        let impact = self.compared(&prepared, turn, ends).await?;
        if impact.compared == 0 { Err(Unknown::Late) } else { Ok(Some((prepared, impact))) }
    }

    async fn prepared(
        &self,
        decode: impl FnOnce() -> Result<Edit, String> + Send + 'static,
        gatherer: &Gatherer,
        turn: &Arc<OwnedSemaphorePermit>,
        ends: Instant,
    ) -> Result<Option<Prepared>, Unknown> {
        let facts = gatherer.cache().facts();
        // Variables of an edited class are compiled.
        let case = on_thread(turn.clone(), move || decode().map(|edit| (Case::of(&edit, &facts), edit)));
        let case = timeout_at(ends, case).await.map_err(|_| Unknown::Late)??;
        let (Some(case), edit) = case.map_err(Unknown::Unreadable)? else { return Ok(None) };
        let answers = gatherer.gather_all(case.needs(), ends).await;
        let case = case.with(&edit, answers).map_err(Unknown::Unreadable)?;
        let ceiling = Ceiling::of(&case, self.max_replaced_machines);
        Ok(Some(Prepared { edit, case, ceiling }))
    }

    /// What is known of the impact when all Clusters are compared, or the time is over.
    async fn compared(
        &self,
        prepared: &Arc<Prepared>,
        turn: Arc<OwnedSemaphorePermit>,
        ends: Instant,
    ) -> Result<Impact, Unknown> {
        let tally = Arc::new(Mutex::new(prepared.case.tally()));
        // Dropped when the time is over, or when the caller has gone: work ends after the Cluster that is being computed.
        let gone = Gone::default();
        let stop = {
            let (gone, ends) = (gone.0.clone(), ends.into_std());
            Stop::when(move || gone.load(Ordering::Relaxed) || std::time::Instant::now() >= ends)
        };
        let compare = {
            let (options, prepared, tally) = (self.options, prepared.clone(), tally.clone());
            on_thread(turn, move || {
                let add = |clusters, change| locked(&tally).add(clusters, change);
                prepared.case.compare(options, Timestamp::now(), &stop, add);
            })
        };
        // What is known when the time is over counts.
        timeout_at(ends, compare).await.unwrap_or(Ok(()))?;
        let impact = locked(&tally).impact();
        Ok(impact)
    }
}

fn locked(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does work on a thread of its own, which keeps its turn until the work ends.
async fn on_thread<T: Send + 'static>(
    turn: Arc<OwnedSemaphorePermit>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unknown> {
    let (done, result) = oneshot::channel();
    let work = move || {
        let _turn = turn;
        // The receiver is gone once the time is over.
        let _ = done.send(catch_unwind(AssertUnwindSafe(work)).map_err(|_| Unknown::Panicked));
    };
    std::thread::Builder::new().name("impact".to_owned()).spawn(work).map_err(|_| Unknown::Busy)?;
    result.await.unwrap_or(Err(Unknown::Panicked))
}

/// The edit that a review asks about.
fn edit(edited: Edited) -> Edit {
    match edited {
        Edited::Class { old, new } => Edit::Class { old: Arc::from(old), new: Arc::from(new) },
        Edited::Cluster { old, new } => Edit::Cluster { old: Arc::from(old), new: Arc::from(new) },
    }
}

#[cfg(test)]
mod tests;

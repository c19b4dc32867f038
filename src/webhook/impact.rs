//! The impact of an allowed edit, worked out in little time and on threads of its own: it never delays the reviews of others and
//! never makes a request fail (DEC-42).

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use super::limits::{Gone, LAST_ROUND};
use crate::admission::Edited;
use crate::budget::Stop;
use crate::impact::{Case, Edit, Impact};
use crate::kubernetes::gather::Gatherer;
use crate::topology::Options;

/// Works out impacts, a few at a time.
#[derive(Debug)]
pub(super) struct Assessor {
    options: Options,
    /// How long one edit may take, waiting for its turn included; zero switches impacts off.
    time: Duration,
    threads: Arc<Semaphore>,
}

/// Why there is no impact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unknown {
    #[error("other edits are being computed; try again, or run topologist plan")]
    Busy,
    #[error("the time of {0:?} was over before one Cluster was computed")]
    Late(Duration),
    #[error("cannot read {0}")]
    Unreadable(String),
    #[error("an internal error; the log has the details")]
    Panicked,
}

impl Assessor {
    pub(super) fn new(options: Options, time: Duration) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Assessor { options, time, threads: Arc::new(Semaphore::new((cores / 2).max(1))) }
    }

    /// What an edit does to machines; `None` for an edit that cannot do anything to them.
    ///
    /// # Errors
    /// Why it is not known.
    pub(super) async fn assess(
        &self,
        edit: Edit,
        gatherer: &Gatherer,
        deadline: Instant,
    ) -> Result<Option<Impact>, Unknown> {
        if self.time.is_zero() || !edit.matters() {
            return Ok(None);
        }
        let ends = (Instant::now() + self.time).min(deadline.checked_sub(LAST_ROUND).unwrap_or(deadline));
        let turn = timeout_at(ends, self.threads.clone().acquire_owned()).await;
        let turn = Arc::new(turn.ok().and_then(Result::ok).ok_or(Unknown::Busy)?);
        let facts = gatherer.cache().facts();
        let case = on_thread(turn.clone(), move || (Case::of(&edit, &facts), edit));
        let (case, edit) = timeout_at(ends, case).await.map_err(|_| Unknown::Late(self.time))??;
        let Some(case) = case else { return Ok(None) };
        let answers = gatherer.gather_all(case.needs(), ends).await;
        let case = case.with(&edit, answers).map_err(Unknown::Unreadable)?;
        let tally = Arc::new(Mutex::new(case.tally()));
        // Dropped when the time is over, or when the caller has gone: work ends after the Cluster that is being computed.
        let gone = Gone::default();
        let compare = {
            let (options, tally, gone, ends) = (self.options, tally.clone(), gone.0.clone(), ends.into_std());
            let stop = Stop::when(move || gone.load(Ordering::Relaxed) || std::time::Instant::now() >= ends);
            on_thread(turn, move || {
                case.compare(options, Timestamp::now(), &stop, |clusters, change| {
                    tally.lock().unwrap_or_else(PoisonError::into_inner).add(clusters, change);
                });
            })
        };
        // What is known when the time is over counts.
        timeout_at(ends, compare).await.unwrap_or(Ok(()))?;
        let impact = tally.lock().unwrap_or_else(PoisonError::into_inner).impact();
        drop(gone);
        if impact.compared == 0 { Err(Unknown::Late(self.time)) } else { Ok(Some(impact)) }
    }
}

/// Does work on a thread of its own, which keeps its turn until the work ends.
async fn on_thread<T: Send + 'static>(
    turn: Arc<OwnedSemaphorePermit>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unknown> {
    let (done, result) = oneshot::channel();
    let work = move || {
        let _turn = turn;
        // Nobody listens any more once the time is over.
        let _ = done.send(catch_unwind(AssertUnwindSafe(work)).map_err(|_| Unknown::Panicked));
    };
    std::thread::Builder::new().name("impact".to_owned()).spawn(work).map_err(|_| Unknown::Busy)?;
    result.await.unwrap_or(Err(Unknown::Panicked))
}

/// The edit that a review asks about.
pub(super) fn edit(edited: Edited) -> Edit {
    match edited {
        Edited::Class { old, new } => Edit::Class { old: Arc::from(old), new: Arc::from(new) },
        Edited::Cluster { old, new } => Edit::Cluster { old: Arc::from(old), new: Arc::from(new) },
    }
}

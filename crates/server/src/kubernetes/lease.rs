//! Leader election on a [Lease](https://kubernetes.io/docs/concepts/architecture/leases/) of `coordination.k8s.io/v1`.
//!
//! ```text
//!            ┌────────── Election::run ───────────┐          every holder of a Leadership
//!  Lease ◄───┤ campaign: acquire, renew, retry    ├─ state ─► acquired(), lost(), while_leading()
//!            │ step down before the lease is over │  mandate ► may_write(), writer()
//!            └────────────────────────────────────┘
//! ```
//!
//! A term is suspended when the lease is not renewed in time. Work stays then, and so do its caches, and its writes are
//! refused. If the lease is renewed before another process takes it, the term goes on; otherwise it is over, and the
//! work is dropped.
//!
//! Guarantees, with a lease duration of `D`:
//! * Whether the lease of another process has expired is decided by the renewals seen here and by the local clock.
//!   Times in the Lease are never compared with this clock. A follower takes over `D` after the last renewal that it
//!   saw.
//! * A follower reads the Lease at least once a second, and at the moment at which the lease that it saw is over. So a
//!   process that dies is replaced within `D` and two seconds, of which one is left for the requests.
//! * The clock of a mandate starts before the request that renews it is sent. [`Leadership::may_write`] says no once
//!   half of `D` has passed, and a request of [`Leadership::writer`] takes less than the other half. The clock is
//!   monotonic; the system's clock is looked at besides, since the monotonic one stands still while a machine sleeps.
//! * A clean stop ends the work first and gives the lease back then, so a follower need not wait.
//!
//! Caveat: a Lease does not fence. A process that is held up between the question and the request that follows sends an
//! old request when it goes on, and a proxy may deliver one that was given up. Patches and updates of existing objects
//! therefore contain the resourceVersion that they were computed from, or the values, and the API server refuses them when
//! a newer write was first (SSA-24, DEC-90, DEC-118). Deletions contain the uid.

mod candidacy;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use http::Method;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, PostParams};
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

pub use self::candidacy::Candidacy;
use super::describe;
use super::history::ApiHistory;
use super::list_watch::is_before;
use super::write_limiter::WriteLimiter;
use crate::telemetry::metrics::{Metrics, Outcome};

/// Why nothing may be written now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotLeading {
    #[error("this process is not the leader")]
    NoLease,
    #[error("the lease has not been renewed in time")]
    Overdue,
}

/// Whether this process leads. A term that is over stays over: leading again is another term.
#[derive(Clone, Copy, Debug, Default)]
struct LeaseState {
    leading: bool,
    /// Whether the lease was not renewed in time, and no other process has taken it as far as this one knows.
    suspended: bool,
    term: u64,
}

impl LeaseState {
    /// Whether a term is over.
    fn has_ended(&self, term: u64) -> bool {
        self.term != term || !(self.leading || self.suspended)
    }
}

/// The time of the last certain renewal.
#[derive(Clone, Copy, Debug)]
struct Renewal {
    at: Instant,
    wall: SystemTime,
}

impl Renewal {
    fn now() -> Self {
        Renewal { at: Instant::now(), wall: SystemTime::now() }
    }

    /// The age by the clock that shows more; a system clock that was set forward costs one renewal.
    fn age(&self) -> Duration {
        self.at.elapsed().max(self.wall.elapsed().unwrap_or(Duration::ZERO))
    }
}

/// State shared by an election and its [`Leadership`] handles.
struct ElectionState {
    candidacy: Candidacy,
    state: watch::Sender<LeaseState>,
    renewal: Mutex<Option<Renewal>>,
    /// Work that has to end before the lease is given back.
    work: TaskTracker,
    pace: WriteLimiter,
    metrics: Arc<Metrics>,
}

impl ElectionState {
    fn renewal(&self) -> Option<Renewal> {
        *self.renewal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that this process holds the lease since this moment. If it did not hold it before, a suspended term is
    /// over.
    fn renewed(&self, renewal: Renewal, was_ours: bool) {
        if !was_ours {
            self.end_suspension();
        }
        *self.renewal.lock().unwrap_or_else(PoisonError::into_inner) = Some(renewal);
        if renewal.age() >= self.candidacy.mandate() {
            return;
        }
        let begins = self.state.send_if_modified(|state| {
            let (begins, is_new) = (!state.leading, !state.leading && !state.suspended);
            *state = LeaseState { leading: true, suspended: false, term: state.term + u64::from(is_new) };
            begins
        });
        if begins {
            self.note("acquired");
            self.metrics.leader.set(1);
            info!(lease = %self.lease(), identity = %self.candidacy.identity, "Acquired the Lease");
        }
    }

    /// Notes that this process no longer leads; returns whether it did. The term is suspended, or it is over.
    fn step_down(&self, is_suspended: bool) -> bool {
        *self.renewal.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let mut led = false;
        self.state.send_if_modified(|state| {
            led = std::mem::take(&mut state.leading);
            let suspended = is_suspended && (led || state.suspended);
            let changes = led || suspended != state.suspended;
            state.suspended = suspended;
            changes
        });
        if led {
            self.metrics.leader.set(0);
        }
        led
    }

    /// Ends a suspended term.
    fn end_suspension(&self) {
        self.state.send_if_modified(|state| std::mem::take(&mut state.suspended));
    }

    /// Notes that another process took the lease.
    fn lose(&self) {
        if self.step_down(false) {
            self.note_loss("another process holds it");
        }
    }

    /// Notes that the lease was not renewed in time. As far as is known here, no other process holds it.
    fn suspend(&self) {
        if self.step_down(true) {
            self.note_loss("it could not be renewed in time");
        }
    }

    fn note_loss(&self, reason: &str) {
        self.note("lost");
        warn!(lease = %self.lease(), reason, "Lost the Lease");
    }

    fn note(&self, outcome: &'static str) {
        self.metrics.lease_transitions.get_or_create(&Outcome { outcome }).inc();
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.candidacy.namespace, self.candidacy.name)
    }

    fn may_write(&self) -> Result<(), NotLeading> {
        let age = self.renewal().ok_or(NotLeading::NoLease)?.age();
        if age < self.candidacy.mandate() { Ok(()) } else { Err(NotLeading::Overdue) }
    }
}

/// The leadership of this process; clones follow the same election.
#[derive(Clone)]
pub struct Leadership {
    office: Arc<ElectionState>,
    state: watch::Receiver<LeaseState>,
    /// The term that `acquired` has seen begin.
    term: u64,
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership").field("state", &*self.state.borrow()).finish_non_exhaustive()
    }
}

impl Leadership {
    /// Waits until this process leads; never resolves once the election is over.
    pub async fn acquired(&mut self) {
        let begun = self.state.wait_for(|state| state.leading).await.map(|state| state.term);
        match begun {
            Ok(term) => self.term = term,
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits until the term that [`Self::acquired`] saw begin is over.
    pub async fn lost(&mut self) {
        let term = self.term;
        // An error means that the election is over, and the term with it.
        let _ = self.state.wait_for(|state| !state.leading || state.term != term).await;
    }

    /// Whether a write may start now: this process leads, and the lease outlasts any request of [`Self::writer`].
    ///
    /// # Errors
    /// Says why nothing may be written.
    pub(crate) fn may_write(&self) -> Result<(), NotLeading> {
        self.office.may_write()
    }

    /// A client that writes only while this process leads: other requests than reads fail with [`NotLeading`] inside a
    /// [`kube::Error::Service`] unless [`Self::may_write`], and are given up while the lease still lasts.
    pub fn writer(&self, client: kube::Client) -> kube::Client {
        let namespace = client.default_namespace().to_owned();
        let office = self.office.clone();
        let guarded = tower::service_fn(move |request| {
            let (client, office) = (client.clone(), office.clone());
            async move { office.send(&client, request).await }
        });
        kube::Client::new(guarded, namespace)
    }

    /// Waits until the term that [`Self::acquired`] saw begin is over, also if it is suspended meanwhile.
    async fn ended(&mut self) {
        let term = self.term;
        // An error means that the election is over, and the term with it.
        let _ = self.state.wait_for(|state| state.has_ended(term)).await;
    }

    /// Starts `work` with every term and drops it when the term is over. While the term is suspended, writes are
    /// refused. A clean stop gives the lease back after that. Returns only when `work` ends by itself.
    pub async fn while_leading<F: Future<Output = ()>>(mut self, mut work: impl FnMut() -> F) {
        loop {
            self.acquired().await;
            let _working = self.office.work.token();
            tokio::select! {
                () = self.ended() => {}
                () = work() => return,
            }
        }
    }
}

impl ElectionState {
    async fn send(
        &self,
        client: &kube::Client,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, tower::BoxError> {
        if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
            return Ok(client.send(request).await?);
        }
        self.may_write()?;
        let _turn = self.pace.acquire().await;
        // Waiting for a turn may have taken long.
        self.may_write()?;
        Ok(timeout(self.candidacy.write(), client.send(request)).await??)
    }
}

/// The participation of a process in an election.
pub struct Election {
    office: Arc<ElectionState>,
    leases: Api<Lease>,
    /// The Lease as it was last seen here.
    seen: Option<LeaseSnapshot>,
    /// What went wrong last, so that it is logged once.
    trouble: Option<String>,
    history: Arc<ApiHistory>,
    /// The last resourceVersion of the Lease, also of one that is gone.
    version: String,
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election").field("candidacy", &self.office.candidacy).finish_non_exhaustive()
    }
}

/// The last read Lease, and the time of its last change.
#[derive(Debug)]
struct LeaseSnapshot {
    lease: Lease,
    since: Instant,
}

impl LeaseSnapshot {
    fn spec(&self) -> LeaseSpec {
        self.lease.spec.clone().unwrap_or_default()
    }

    /// The holder of the lease.
    fn holder(&self) -> Option<&str> {
        holder(self.lease.spec.as_ref()?)
    }

    /// Time left for the holder to renew it, as observed here.
    fn left(&self, default: Duration) -> Duration {
        let seconds = self.lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let duration = match seconds.and_then(|seconds| u64::try_from(seconds).ok()) {
            None | Some(0) => default,
            Some(seconds) => Duration::from_secs(seconds),
        };
        duration.saturating_sub(self.since.elapsed())
    }
}

/// The holder that a Lease names, if any.
pub(super) fn holder(spec: &LeaseSpec) -> Option<&str> {
    spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// Why the Lease could not be read or written.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("{}", describe(.0))]
    Api(#[from] kube::Error),
    #[error(
        "timed out after {0:?}, a fifth of the lease duration; if the API server always takes this long, increase \
         --lease-duration"
    )]
    Late(Duration),
}

impl LeaseError {
    /// Whether the stored Lease differs from the last read one, so that it has to be read again.
    fn is_surprise(&self) -> bool {
        matches!(self, LeaseError::Api(kube::Error::Api(status)) if status.code == 404 || status.code == 409)
    }
}

impl Election {
    /// An election that does nothing before it [runs](Self::run), and its state.
    pub fn new(client: kube::Client, candidacy: Candidacy, metrics: Arc<Metrics>) -> (Self, Leadership) {
        let leases = Api::namespaced(client, &candidacy.namespace);
        let (renewal, work) = (Mutex::new(None), TaskTracker::new());
        let pace = WriteLimiter::new(candidacy.duration);
        let office =
            Arc::new(ElectionState { candidacy, state: watch::Sender::default(), renewal, work, pace, metrics });
        let leadership = Leadership { office: office.clone(), state: office.state.subscribe(), term: 0 };
        let election =
            Election { office, leases, seen: None, trouble: None, history: Arc::default(), version: String::new() };
        (election, leadership)
    }

    /// The same; notifies `history` when the API server was restored from an older copy.
    #[must_use]
    pub fn watching(mut self, history: Arc<ApiHistory>) -> Self {
        self.history = history;
        self
    }

    /// Takes part until `stop`, then waits for the work of [`Leadership::while_leading`] to end and gives the lease
    /// back.
    pub async fn run(mut self, stop: CancellationToken) {
        let office = self.office.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.campaign() => {}
            () = office.step_down_in_time() => {}
        }
        self.resign().await;
    }

    async fn campaign(&mut self) {
        loop {
            let started = Instant::now();
            let outcome = self.attempt().await;
            self.office.pace.renewed(outcome.is_ok().then(|| started.elapsed()), &self.office.metrics);
            let pause = self.pause(&outcome);
            self.report(outcome.err());
            sleep(pause).await;
        }
    }

    /// Time until the next attempt. A follower tries at the end of the lease that it saw, never later.
    fn pause(&self, outcome: &Result<(), LeaseError>) -> Duration {
        let candidacy = &self.office.candidacy;
        match (outcome, &self.seen) {
            (Err(_), _) => candidacy.retry(),
            (Ok(()), Some(seen)) if seen.holder() != Some(&*candidacy.identity) => {
                candidacy.look().min(seen.left(candidacy.duration))
            }
            (Ok(()), _) => candidacy.renewal(),
        }
    }

    /// Logs failures when they begin, change and end.
    fn report(&mut self, error: Option<LeaseError>) {
        let error = error.map(|error| error.to_string());
        if let Some(error) = &error {
            self.office.metrics.lease_errors.inc();
            if self.trouble.as_ref() != Some(error) {
                warn!(lease = %self.office.lease(), error, "Failed to read or renew the Lease, retrying");
            }
        } else if self.trouble.is_some() {
            info!(lease = %self.office.lease(), "Read or renewed the Lease again");
        }
        self.trouble = error;
    }

    /// Renews the lease, or takes it if it is free.
    async fn attempt(&mut self) -> Result<(), LeaseError> {
        let is_ours = self.seen.as_ref().is_some_and(|seen| seen.holder() == Some(&*self.office.candidacy.identity));
        if !is_ours {
            self.read_lease().await?;
        }
        match self.take_if_free().await {
            // Another client wrote the Lease: if the holder is unchanged, it is renewed at once.
            Err(error) if error.is_surprise() => {
                self.read_lease().await?;
                self.take_if_free().await
            }
            outcome => outcome,
        }
    }

    /// Reads the Lease and notes when it changes.
    async fn read_lease(&mut self) -> Result<(), LeaseError> {
        let name = self.office.candidacy.name.clone();
        let now = self.answered(self.leases.get_opt(&name)).await?;
        self.note_version(now.as_ref());
        self.seen = now.map(|lease| match self.seen.take() {
            Some(seen) if seen.lease.spec == lease.spec => LeaseSnapshot { lease, since: seen.since },
            former => {
                let next = LeaseSnapshot { lease, since: Instant::now() };
                if former.as_ref().and_then(LeaseSnapshot::holder) != next.holder() {
                    let holder = next.holder().unwrap_or_default();
                    info!(lease = %self.office.lease(), holder, "The holder of the Lease changed");
                }
                next
            }
        });
        Ok(())
    }

    /// The response to a request for the Lease, with a timeout of a fraction of its duration.
    async fn answered<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseError> {
        let limit = self.office.candidacy.request();
        Ok(timeout(limit, request).await.map_err(|_| LeaseError::Late(limit))??)
    }

    /// Compares the version of the Lease with the last one. If it went back, all known objects are outdated: a term
    /// ends, so that controllers and the watches of the process start again.
    fn note_version(&mut self, lease: Option<&Lease>) {
        let Some(version) = lease.and_then(|lease| lease.metadata.resource_version.clone()) else { return };
        if is_before(&version, &self.version) {
            let before = &*self.version;
            warn!(lease = %self.office.lease(), before, now = version,
                "The API server was restored from an older copy; listing everything again");
            self.office.step_down(false);
            self.history.went_back();
        }
        self.version = version;
    }

    /// Writes the Lease, if it is free and unchanged since it was read.
    async fn take_if_free(&mut self) -> Result<(), LeaseError> {
        if !self.is_free() {
            return Ok(());
        }
        let candidacy = &self.office.candidacy;
        let params = PostParams { field_manager: Some("topologist".to_owned()), ..PostParams::default() };
        let was_ours = self.seen.as_ref().and_then(LeaseSnapshot::holder) == Some(&*candidacy.identity);
        let renewal = Renewal::now();
        let lease = match self.seen.as_ref().map(|seen| seen.lease.clone()) {
            None => {
                let lease = candidacy.lease(candidacy.claim(LeaseSpec::default()));
                self.answered(self.leases.create(&params, &lease)).await?
            }
            Some(mut lease) => {
                lease.spec = Some(candidacy.claim(lease.spec.unwrap_or_default()));
                self.answered(self.leases.replace(&candidacy.name, &params, &lease)).await?
            }
        };
        self.note_version(Some(&lease));
        self.seen = Some(LeaseSnapshot { lease, since: renewal.at });
        self.office.renewed(renewal, was_ours);
        Ok(())
    }

    /// Whether this process may renew or take the Lease.
    fn is_free(&self) -> bool {
        let Some(seen) = &self.seen else { return true };
        match seen.holder() {
            Some(holder) if holder != self.office.candidacy.identity => {
                self.office.lose();
                seen.left(self.office.candidacy.duration).is_zero()
            }
            _ => true,
        }
    }

    /// Ends the work and gives the lease back.
    async fn resign(&mut self) {
        let led = self.office.step_down(false);
        self.office.work.close();
        self.office.work.wait().await;
        if !led {
            return;
        }
        match timeout(self.office.candidacy.duration, self.give_back()).await {
            Ok(Ok(())) => {
                self.office.note("released");
                info!(lease = %self.office.lease(), "Released the Lease");
            }
            Ok(Err(error)) => {
                warn!(lease = %self.office.lease(), %error, "Failed to release the Lease; it expires on its own");
            }
            Err(_) => warn!(lease = %self.office.lease(), "Failed to release the Lease; it expires on its own"),
        }
    }

    /// Removes the holder. A renewal may have been in flight at the stop, so the Lease is read first.
    async fn give_back(&mut self) -> Result<(), LeaseError> {
        loop {
            self.read_lease().await?;
            let Some(seen) = &self.seen else { return Ok(()) };
            if seen.holder() != Some(&*self.office.candidacy.identity) {
                return Ok(());
            }
            let mut lease = seen.lease.clone();
            lease.spec = Some(LeaseSpec { holder_identity: Some(String::new()), ..seen.spec() });
            let params = PostParams::default();
            let replace = self.leases.replace(&self.office.candidacy.name, &params, &lease);
            match self.answered(replace).await {
                Err(error) if error.is_surprise() => sleep(self.office.candidacy.retry()).await,
                outcome => return outcome.map(drop),
            }
        }
    }
}

impl Drop for Election {
    fn drop(&mut self) {
        self.office.step_down(false);
    }
}

impl ElectionState {
    /// Suspends each term before the lease is over, regardless of requests in flight.
    async fn step_down_in_time(&self) {
        let mut state = self.state.subscribe();
        while state.wait_for(|state| state.leading).await.is_ok() {
            let Some(renewal) = self.renewal() else { continue };
            let left = self.candidacy.mandate().saturating_sub(renewal.age());
            if left.is_zero() {
                self.suspend();
            } else {
                sleep_until(Instant::now() + left).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;

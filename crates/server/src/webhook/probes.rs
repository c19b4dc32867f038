//! `/healthz`, `/readyz` and `/metrics`, on plain HTTP, with a separate port and runtime.
//!
//! kubelet calls them as [probes](https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/).
//!
//! ```text
//! main runtime ── a beat every second ──► Health ◄── /healthz ── runtime of the probes
//! ```
//!
//! Work that blocks the threads of the main runtime does not make the probes slow. A main runtime that does not run at
//! all makes `/healthz` fail, so that the process is started again.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::time::Instant;

use crate::certificates::self_managed::NoServingCertificate;
use crate::kubernetes::cache::Cache;
use crate::kubernetes::watch;
use crate::telemetry::metrics::{Kind, Metrics};
use schema::budget::MemoryPool;
use tls::identity::CertificateExpired;

/// Silence of the API server after which another replica should answer reviews.
const SILENCE: Duration = Duration::from_mins(5);

/// Standstill of the main runtime after which the process is not healthy.
const STANDSTILL: Duration = Duration::from_secs(30);

/// Interval of the heartbeat of the main runtime.
const BEAT: Duration = Duration::from_secs(1);

/// A condition of readiness besides the caches.
pub type ReadinessCheck = Box<dyn Fn() -> Result<(), UnmetCondition> + Send + Sync>;

/// The main runtime does not make progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the main runtime has not run for {}s", silent.as_secs())]
pub struct Standstill {
    pub silent: Duration,
}

/// The reason for which requests should not be sent to this process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    #[error("not serving")]
    NotServing,
    #[error(transparent)]
    Standstill(#[from] Standstill),
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Unmet(Vec<UnmetCondition>),
}

/// A condition of readiness that is not met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnmetCondition {
    #[error("waiting for the list of {kind}")]
    Unlisted { kind: &'static str },
    #[error("{kind} cannot be listed: {reason}")]
    ListFailed { kind: &'static str, reason: String },
    #[error(
        "{kind} are out of date: no response from the API server for {}s{}",
        silent.as_secs(),
        reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
    )]
    OutOfDate { kind: &'static str, silent: Duration, reason: Option<String> },
    #[error(transparent)]
    Certificate(#[from] CertificateExpired),
    #[error(transparent)]
    NoCertificate(#[from] NoServingCertificate),
}

/// The state that the probes report.
pub struct Health {
    cache: Arc<Cache>,
    metrics: Arc<Metrics>,
    serving: AtomicBool,
    conditions: Vec<ReadinessCheck>,
    /// The memory of computations, if there are any.
    memory: Option<Arc<MemoryPool>>,
    last_beat: Mutex<Instant>,
    standstill: Duration,
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").field("serving", &self.serving).finish_non_exhaustive()
    }
}

impl Health {
    /// A state that is not ready: the sockets are not bound.
    pub fn new(cache: Arc<Cache>, metrics: Arc<Metrics>) -> Self {
        let (serving, last_beat) = (AtomicBool::new(false), Mutex::new(Instant::now()));
        Health { cache, metrics, serving, conditions: Vec::new(), memory: None, last_beat, standstill: STANDSTILL }
    }

    /// Notes every second that the runtime of this task runs; never ends.
    pub async fn beat(self: Arc<Self>) {
        loop {
            *self.last_beat.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            tokio::time::sleep(BEAT).await;
        }
    }

    /// Whether the main runtime makes progress.
    ///
    /// # Errors
    /// Says for how long it has not run.
    pub fn alive(&self) -> Result<(), Standstill> {
        let silent = self.last_beat.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if silent <= self.standstill {
            return Ok(());
        }
        Err(Standstill { silent })
    }

    /// Adds a condition of readiness.
    #[must_use]
    pub fn requiring(mut self, condition: ReadinessCheck) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Adds the used memory of computations to the metrics.
    #[must_use]
    pub fn with_memory(self, memory: Arc<MemoryPool>) -> Self {
        Health { memory: Some(memory), ..self }
    }

    /// Notes that the sockets are bound, or that the process is about to stop.
    pub fn set_serving(&self, serving: bool) {
        self.serving.store(serving, Ordering::Release);
    }

    /// Whether requests should be sent here.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn ready(&self) -> Result<(), NotReady> {
        if !self.serving.load(Ordering::Acquire) {
            return Err(NotReady::NotServing);
        }
        self.alive()?;
        let facts = self.cache.facts();
        let missing = facts.gaps().iter().map(|kind| match self.cache.trouble(kind) {
            Some(reason) => UnmetCondition::ListFailed { kind, reason },
            None => UnmetCondition::Unlisted { kind },
        });
        let silent = self
            .cache
            .ages()
            .into_iter()
            .filter(|(_, age)| *age > SILENCE)
            .map(|(kind, age)| UnmetCondition::OutOfDate { kind, silent: age, reason: self.cache.trouble(kind) });
        let unmet = self.conditions.iter().filter_map(|condition| condition().err());
        let missing: Vec<UnmetCondition> = missing.chain(silent).chain(unmet).collect();
        if missing.is_empty() { Ok(()) } else { Err(NotReady::Unmet(missing)) }
    }

    /// All metrics as text, with the current ages and use of memory.
    fn metrics(&self) -> String {
        for (watched, age) in self.cache.ages() {
            self.metrics.cache_age.get_or_create(&Kind { kind: watch::label(watched) }).set(age.as_secs_f64());
        }
        if let Some(memory) = &self.memory {
            let bytes = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
            let reported = &self.metrics.computation_memory;
            reported.used.set(bytes(memory.used()));
            reported.limit.set(bytes(memory.size()));
            reported.refusals.inner().store(memory.refusals(), Ordering::Relaxed);
        }
        self.metrics.render()
    }
}

/// The probes as a router.
pub fn router(health: Arc<Health>) -> Router {
    Router::new()
        .route("/healthz", get(async |State(health): State<Arc<Health>>| probe(health.alive())))
        .route("/readyz", get(async |State(health): State<Arc<Health>>| probe(health.ready())))
        .route("/metrics", get(metrics))
        .with_state(health)
}

fn probe(outcome: Result<(), impl fmt::Display>) -> Response {
    match outcome {
        Ok(()) => "ok\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn metrics(State(health): State<Arc<Health>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], health.metrics()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::world::{CLASSES, CLUSTERS, Facts};

    #[tokio::test(start_paused = true)]
    async fn a_replica_without_an_answer_of_the_api_server_for_five_minutes_is_not_ready() {
        let cache = Arc::new(Cache::new(Facts::not_listed(&watch::WATCHED)));
        let mut health = Health::new(cache.clone(), Arc::new(Metrics::default()));
        health.standstill = Duration::MAX;
        assert_eq!(health.ready().unwrap_err().to_string(), "not serving");
        health.set_serving(true);
        assert!(health.ready().unwrap_err().to_string().contains("waiting for the list of Clusters"));
        assert!(!health.metrics().contains("topologist_cache_age_seconds{"), "nothing was heard that could be old");
        cache.update(|facts| watch::WATCHED.iter().for_each(|kind| facts.listed(kind)));
        watch::WATCHED.iter().for_each(|kind| cache.note_alive(kind));
        tokio::time::advance(Duration::from_secs(200)).await;
        cache.note_alive(CLUSTERS);
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(health.ready(), Ok(()));
        let text = health.metrics();
        assert!(text.contains("topologist_cache_age_seconds{kind=\"ClusterClass\"} 300.0\n"), "{text}");
        assert!(text.contains("topologist_cache_age_seconds{kind=\"Cluster\"} 100.0\n"), "{text}");
        tokio::time::advance(Duration::from_secs(1)).await;
        cache.note_trouble(CLASSES, "no route to host".to_owned());
        let want = "ClusterClasses are out of date: no response from the API server for 301s: no route to host";
        assert_eq!(health.ready().unwrap_err().to_string(), want);
        cache.note_alive(CLASSES);
        assert_eq!(health.ready(), Ok(()));
    }

    #[tokio::test]
    async fn the_memory_of_computations_is_reported_as_it_is_now() {
        // DEC-58
        let memory = Arc::new(MemoryPool::new(1_600));
        let cache = Arc::new(Cache::new(Facts::complete([], [])));
        let health = Health::new(cache, Arc::new(Metrics::default())).with_memory(memory.clone());
        let reported = |used: usize, refusals: u64| {
            let text = health.metrics();
            for line in [
                format!("topologist_computation_memory_bytes {used}\n"),
                "topologist_computation_memory_limit_bytes 1600\n".to_owned(),
                format!("topologist_computation_memory_refusals_total {refusals}\n"),
            ] {
                assert!(text.contains(&line), "{line}{text}");
            }
        };
        reported(0, 0);
        let lease = memory.request(1_000).try_take().unwrap();
        drop(memory.request(1_000));
        reported(1_000, 1);
        drop(lease);
        reported(0, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_main_runtime_that_does_not_run_for_30_seconds_is_not_healthy() {
        let health = Arc::new(Health::new(Arc::new(Cache::new(Facts::complete([], []))), Arc::new(Metrics::default())));
        health.set_serving(true);
        let beat = tokio::spawn(health.clone().beat());
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert_eq!((health.alive(), health.ready()), (Ok(()), Ok(())));
        beat.abort();
        tokio::time::advance(Duration::from_secs(29)).await;
        assert_eq!(health.alive(), Ok(()));
        tokio::time::advance(Duration::from_secs(2)).await;
        let dead = health.alive().unwrap_err();
        assert!(dead.to_string().starts_with("the main runtime has not run for 3"), "{dead}");
        assert_eq!(health.ready(), Err(dead.into()));
        tokio::spawn(health.clone().beat());
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(health.alive(), Ok(()));
    }

    #[test]
    fn a_blocked_main_runtime_is_reported_at_once_and_only_for_as_long() {
        // Two real runtimes: the one thread of the main one is blocked, as by a computation that does not end.
        let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (main, probes) = (runtime(), runtime());
        let mut health = Health::new(Arc::new(Cache::new(Facts::complete([], []))), Arc::new(Metrics::default()));
        health.standstill = Duration::from_millis(1500);
        let health = Arc::new(health);
        main.spawn(health.clone().beat());
        let (unblock, blocked) = std::sync::mpsc::channel::<()>();
        main.spawn(async move { blocked.recv() });
        let ask = |path: &'static str| {
            let request = axum::extract::Request::get(path).body(axum::body::Body::empty()).unwrap();
            let answer = probes.spawn(tower::ServiceExt::oneshot(router(health.clone()), request));
            let started = std::time::Instant::now();
            let code = probes.block_on(answer).unwrap().unwrap().status().as_u16();
            assert!(started.elapsed() < Duration::from_secs(1), "{path} took {:?}", started.elapsed());
            code
        };
        let wait_for = |code: u16| {
            let deadline = std::time::Instant::now() + Duration::from_secs(30);
            while ask("/healthz") != code {
                assert!(std::time::Instant::now() < deadline, "/healthz does not become {code}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        assert_eq!(ask("/healthz"), 200);
        wait_for(503);
        assert_eq!(ask("/metrics"), 200);
        unblock.send(()).unwrap();
        wait_for(200);
    }
}

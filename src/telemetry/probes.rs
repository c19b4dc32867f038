//! `/healthz`, `/readyz` and `/metrics`, on plain HTTP and a port of their own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::metrics::{Kind, Metrics};
use crate::kubernetes::cache::Cache;
use crate::kubernetes::watch;

/// How long the API server may be silent before verdicts should come from another replica.
const SILENCE: Duration = Duration::from_mins(5);

/// Something besides the caches that has to be there; says what is missing.
pub type Condition = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What the probes look at.
pub struct Health {
    cache: Arc<Cache>,
    metrics: Arc<Metrics>,
    serving: AtomicBool,
    conditions: Vec<Condition>,
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").field("serving", &self.serving).finish_non_exhaustive()
    }
}

impl Health {
    /// Not ready yet: the sockets are not bound.
    pub fn new(cache: Arc<Cache>, metrics: Arc<Metrics>) -> Self {
        Health { cache, metrics, serving: AtomicBool::new(false), conditions: Vec::new() }
    }

    /// Ready only while `condition` holds, too.
    #[must_use]
    pub fn requiring(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// The sockets are bound, or the process is about to stop.
    pub fn set_serving(&self, serving: bool) {
        self.serving.store(serving, Ordering::Release);
    }

    /// Whether requests should be sent here.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn ready(&self) -> Result<(), String> {
        if !self.serving.load(Ordering::Acquire) {
            return Err("not serving".to_owned());
        }
        let facts = self.cache.facts();
        let missing = facts.gaps().iter().map(|kind| match self.cache.trouble(kind) {
            Some(reason) => format!("{kind} cannot be listed: {reason}"),
            None => format!("waiting for the list of {kind}"),
        });
        let silent = self.cache.ages().into_iter().filter(|(_, age)| *age > SILENCE).map(|(kind, age)| {
            let reason = self.cache.trouble(kind).map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{kind} are out of date: nothing heard from the API server for {}s{reason}", age.as_secs())
        });
        let unmet = self.conditions.iter().filter_map(|condition| condition().err());
        let missing: Vec<String> = missing.chain(silent).chain(unmet).collect();
        if missing.is_empty() { Ok(()) } else { Err(missing.join("\n")) }
    }

    /// All metrics as text, with the ages of this moment.
    fn metrics(&self) -> String {
        for (watched, age) in self.cache.ages() {
            self.metrics.cache_age.get_or_create(&Kind { kind: watch::label(watched) }).set(age.as_secs_f64());
        }
        self.metrics.render()
    }
}

/// The probes as a router.
pub fn router(health: Arc<Health>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(health)
}

async fn ready(State(health): State<Arc<Health>>) -> Response {
    match health.ready() {
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
    use crate::world::{CLASSES, CLUSTERS, Facts};

    #[tokio::test(start_paused = true)]
    async fn five_minutes_of_silence_make_a_replica_not_ready_until_the_next_word() {
        let cache = Arc::new(Cache::new(Facts::not_listed(&watch::WATCHED)));
        let health = Health::new(cache.clone(), Arc::new(Metrics::default()));
        assert_eq!(health.ready(), Err("not serving".to_owned()));
        health.set_serving(true);
        assert!(health.ready().unwrap_err().contains("waiting for the list of Clusters"));
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
        let want = "ClusterClasses are out of date: nothing heard from the API server for 301s: no route to host";
        assert_eq!(health.ready(), Err(want.to_owned()));
        cache.note_alive(CLASSES);
        assert_eq!(health.ready(), Ok(()));
    }
}

//! `/healthz`, `/readyz` and `/metrics`, on plain HTTP and a port of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::metrics::Metrics;
use crate::kubernetes::cache::Cache;

/// What the probes look at.
#[derive(Debug)]
pub struct Health {
    cache: Arc<Cache>,
    metrics: Arc<Metrics>,
    serving: AtomicBool,
}

impl Health {
    /// Not ready yet: the sockets are not bound.
    pub fn new(cache: Arc<Cache>, metrics: Arc<Metrics>) -> Self {
        Health { cache, metrics, serving: AtomicBool::new(false) }
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
        let missing: Vec<String> = missing.collect();
        if missing.is_empty() { Ok(()) } else { Err(missing.join("\n")) }
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
    ([(header::CONTENT_TYPE, kind)], health.metrics.render()).into_response()
}

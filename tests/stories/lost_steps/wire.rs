//! The connection between the controllers and an API server: it delays answers and ends watches.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use futures::{StreamExt, TryStreamExt};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyDataStream;
use kube::client;
use serde_json::json;
use tokio::sync::watch;

/// The connection to every API server of a test: that of the management cluster and those of workload clusters.
pub(super) struct Wire {
    /// The delay between a write that is done and its answer.
    delay: Duration,
    /// Whether lists fail and watches have ended.
    gap: watch::Sender<bool>,
    /// A plural of which nothing is created.
    refused: Mutex<Option<&'static str>>,
    /// Requests besides watches, their lists, and those for the Lease.
    requests: Mutex<Vec<String>>,
}

impl Wire {
    pub(super) fn new(delay: Duration) -> Arc<Self> {
        Arc::new(Wire { delay, gap: watch::Sender::new(false), refused: Mutex::default(), requests: Mutex::default() })
    }

    /// Ends every watch. Until [`Self::end_gap`], nothing is listed or watched, and then every watch begins with a new
    /// list.
    pub(super) fn begin_gap(&self) {
        self.gap.send_replace(true);
    }

    pub(super) fn end_gap(&self) {
        self.gap.send_replace(false);
    }

    /// Refuses to create objects of this plural, or of none.
    pub(super) fn refuse(&self, plural: Option<&'static str>) {
        *self.refused.lock().unwrap() = plural;
    }

    /// The requests since the last call, besides watches, their lists, and those for the Lease.
    pub(super) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    /// A client whose requests go over this wire.
    pub(super) fn client(self: &Arc<Self>, inner: &kube::Client) -> kube::Client {
        let (wire, inner) = (self.clone(), inner.clone());
        let namespace = inner.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<client::Body>| {
            let (wire, inner) = (wire.clone(), inner.clone());
            async move { wire.send(&inner, request).await }
        });
        kube::Client::new(service, namespace)
    }

    async fn send(
        &self,
        inner: &kube::Client,
        request: Request<client::Body>,
    ) -> Result<Response<Body>, tower::BoxError> {
        let query = request.uri().query().unwrap_or_default();
        let (is_watch, is_list) = (query.contains("watch="), query.contains("limit="));
        let is_read = *request.method() == Method::GET;
        let is_lease = request.uri().path().contains("/leases");
        if !is_watch && !is_list && !is_lease {
            self.requests.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
        }
        let refused = *self.refused.lock().unwrap();
        if *request.method() == Method::POST && refused.is_some_and(|plural| request.uri().path().ends_with(plural)) {
            return Ok(failure(StatusCode::FORBIDDEN, "Forbidden"));
        }
        let mut gap = self.gap.subscribe();
        if (is_watch || is_list) && *gap.borrow_and_update() {
            return Ok(failure(StatusCode::GONE, "Expired"));
        }
        let answer = inner.send(request).await?;
        if is_watch {
            let until = async move { drop(gap.wait_for(|is_gap| *is_gap).await) };
            let lines = |body| Body::from_stream(BodyDataStream::new(body).into_stream().take_until(until));
            return Ok(answer.map(lines));
        }
        if !is_read {
            tokio::time::sleep(self.delay).await;
        }
        Ok(answer.map(Body::new))
    }
}

/// An answer of the wire instead of the API server's.
fn failure(code: StatusCode, reason: &str) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code.as_u16(),
        "reason": reason, "message": "the wire is broken"});
    let body = Body::from(status.to_string());
    Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

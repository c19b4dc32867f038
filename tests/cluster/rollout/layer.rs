//! The wire between controllers and API server: it remembers writes, and breaks where it is told to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::json;
use tokio::sync::Notify;

/// A request that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub method: Method,
    pub path: String,
    pub is_dry_run: bool,
}

/// What goes wrong on the wire.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Trouble {
    #[default]
    None,
    /// The process dies at a write, which the server has done.
    DiesAt { write: usize },
    /// The first apply to an object of this kind, by its plural, is never answered, and reaches the server this much
    /// later.
    Late { kind: &'static str, by: Duration },
    /// A user changes the first variable of a Cluster just before the controllers first write it.
    Edits,
    /// Lists of all kinds but Clusters, classes and ExtensionConfigs fail for this time, as on an API server that has
    /// just started.
    Lists { fail: Duration },
    /// Dry runs are turned away with this code.
    Overload(StatusCode),
    /// One of five requests fails before or after it is done, or takes its time: which, follows from a number.
    Chaos(u64),
}

/// The wire.
#[derive(Default)]
pub(super) struct Wire {
    /// The first request.
    began: OnceLock<Instant>,
    trouble: Mutex<Trouble>,
    writes: Mutex<Vec<Written>>,
    /// Reads besides watches and their lists, by path.
    reads: Mutex<BTreeMap<String, usize>>,
    chance: Mutex<u64>,
    /// Answers 409.
    conflicts: AtomicUsize,
    /// Requests that were turned away.
    refused: AtomicUsize,
    is_late: AtomicBool,
    late: Arc<Mutex<Option<StatusCode>>>,
    /// The process has died.
    pub died: Notify,
}

impl Wire {
    pub(super) fn new(trouble: Trouble) -> Arc<Self> {
        let seed = if let Trouble::Chaos(seed) = trouble { seed } else { 0 };
        let wire = Wire { chance: Mutex::new(0x9e37_79b9_7f4a_7c15 ^ (seed << 32)), ..Wire::default() };
        *wire.trouble.lock().unwrap() = trouble;
        Arc::new(wire)
    }

    /// Everything that was written besides leases and events, dry runs left out.
    pub(super) fn writes(&self) -> Vec<Written> {
        self.writes.lock().unwrap().iter().filter(|write| !write.is_dry_run).cloned().collect()
    }

    /// Every request, dry runs included; leases, events and watches left out.
    pub(super) fn requests(&self) -> Vec<String> {
        let writes = self.writes.lock().unwrap().clone();
        let writes =
            writes.into_iter().map(|write| format!("{} {} dry run: {}", write.method, write.path, write.is_dry_run));
        let reads = self.reads.lock().unwrap().clone();
        writes.chain(reads.into_iter().map(|(path, times)| format!("GET {path} {times} times"))).collect()
    }

    /// How many requests met a conflict.
    pub(super) fn conflicts(&self) -> usize {
        self.conflicts.load(Ordering::Relaxed)
    }

    /// How many requests were turned away.
    pub(super) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// What the server said to the apply that came late.
    pub(super) fn late(&self) -> Option<StatusCode> {
        *self.late.lock().unwrap()
    }

    /// Goes on without trouble.
    pub(super) fn mend(&self) {
        self.set(Trouble::None);
    }

    /// Goes on with this trouble.
    pub(super) fn set(&self, trouble: Trouble) {
        *self.trouble.lock().unwrap() = trouble;
    }

    /// A client whose requests go over this wire.
    pub(super) fn client(self: &Arc<Self>, inner: &kube::Client) -> kube::Client {
        let (wire, inner) = (self.clone(), inner.clone());
        let namespace = inner.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (wire, inner) = (wire.clone(), inner.clone());
            async move { wire.send(&inner, request).await }
        });
        kube::Client::new(service, namespace)
    }

    async fn send(&self, inner: &kube::Client, request: Request<Body>) -> Result<Response<Body>, tower::BoxError> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let (path, query) = (uri.path().to_owned(), uri.query().unwrap_or_default().to_owned());
        let is_lease = path.contains("/leases");
        let is_watch = query.contains("watch=") || (method == Method::GET && query.contains("limit="));
        let elapsed = self.began.get_or_init(Instant::now).elapsed();
        if let Trouble::Lists { fail } = *self.trouble.lock().unwrap()
            && elapsed < fail
            && query.contains("limit=")
            && !["/clusters", "/clusterclasses", "/extensionconfigs"].iter().any(|end| path.ends_with(end))
        {
            return Ok(unavailable(StatusCode::SERVICE_UNAVAILABLE));
        }
        if is_lease || is_watch {
            return Ok(inner.send(request).await?);
        }
        let is_dry_run = query.contains("dryRun=All");
        let is_read = method == Method::GET;
        let count = if is_read {
            *self.reads.lock().unwrap().entry(path).or_default() += 1;
            0
        } else {
            let mut writes = self.writes.lock().unwrap();
            if !path.contains("/events") {
                writes.push(Written { method, path, is_dry_run });
            }
            writes.iter().filter(|write| !write.is_dry_run).count()
        };
        let trouble = *self.trouble.lock().unwrap();
        let is_real_apply = !is_dry_run && *request.method() == Method::PATCH;
        match trouble {
            Trouble::DiesAt { write } if !is_read && !is_dry_run && count == write => {
                let _ = inner.send(request).await?;
                self.died.notify_one();
                std::future::pending().await
            }
            Trouble::Late { kind, by }
                if is_real_apply && uri.path().contains(kind) && !self.is_late.swap(true, Ordering::Relaxed) =>
            {
                let (late, inner) = (self.late.clone(), inner.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(by).await;
                    let answer = inner.send(request).await.unwrap();
                    *late.lock().unwrap() = Some(answer.status());
                });
                std::future::pending().await
            }
            Trouble::Edits if is_write_of_cluster(&request) && !self.is_late.swap(true, Ordering::Relaxed) => {
                let change = json!([{"op": "replace", "path": "/spec/topology/variables/0/value", "value": "edited"}]);
                let edit = Request::patch(uri.path()).header("content-type", "application/json-patch+json");
                let answer = inner.send(edit.body(change.to_string().into_bytes().into())?).await?;
                assert_eq!(answer.status(), StatusCode::OK);
                Ok(inner.send(request).await?)
            }
            Trouble::DiesAt { write } if count > write => std::future::pending().await,
            Trouble::Overload(code) if is_dry_run => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Ok(unavailable(code))
            }
            Trouble::Chaos(_) => self.chaos(inner, request).await,
            _ => {
                let answer = inner.send(request).await?;
                self.conflicts.fetch_add(usize::from(answer.status() == StatusCode::CONFLICT), Ordering::Relaxed);
                Ok(answer)
            }
        }
    }

    async fn chaos(&self, inner: &kube::Client, request: Request<Body>) -> Result<Response<Body>, tower::BoxError> {
        match self.draw(15) {
            0 => Ok(unavailable(StatusCode::INTERNAL_SERVER_ERROR)),
            1 => {
                let _ = inner.send(request).await?;
                Ok(unavailable(StatusCode::INTERNAL_SERVER_ERROR))
            }
            2 => {
                tokio::time::sleep(Duration::from_millis(self.draw(700))).await;
                Ok(inner.send(request).await?)
            }
            _ => Ok(inner.send(request).await?),
        }
    }

    /// A number below a bound; the same numbers in every test.
    fn draw(&self, bound: u64) -> u64 {
        let mut chance = self.chance.lock().unwrap();
        *chance ^= *chance << 13;
        *chance ^= *chance >> 7;
        *chance ^= *chance << 17;
        *chance % bound
    }
}

/// Whether a request changes a Cluster, but not only its status.
fn is_write_of_cluster(request: &Request<Body>) -> bool {
    let mut segments = request.uri().path().rsplit('/');
    *request.method() == Method::PATCH && segments.nth(1) == Some("clusters")
}

fn unavailable(code: StatusCode) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code.as_u16(),
        "reason": "InternalError", "message": "the wire broke"});
    let body = Body::from(status.to_string().into_bytes());
    Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

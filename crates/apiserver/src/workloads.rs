//! The APIs of workload clusters: one for each Cluster, all behind one listener (DEC-54).
//!
//! ```text
//! /clusters/<namespace>/<name>/api/v1/nodes ─► the token of that Cluster? ─► its API: /api/v1/nodes
//! ```
//!
//! An API holds objects only, and all of them share the compiled schemas of their kinds: one with nothing but its
//! namespaces takes about 20 KB, which a test in `tests/stories/workload_clusters.rs` measures.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use http::{StatusCode, Uri};
use tokio_util::sync::CancellationToken;

use super::http::front::{Front, Issuer, Token, TokenError, refused, router_of, unauthorized};
use super::storage::status::Failure;
use super::{Embedded, Options, kubeconfig};
use model::hub::ObjectKey;

/// Where the paths of all workload clusters begin.
const PREFIX: &str = "/clusters/";

/// The APIs of workload clusters, by the namespace and name of their Cluster; clones are handles of the same ones.
#[derive(Clone)]
pub struct Workloads(Arc<Shared>);

struct Shared {
    options: Options,
    issuer: Issuer,
    apis: Mutex<BTreeMap<ObjectKey, WorkloadApi>>,
}

/// The API of a workload cluster; clones are handles of the same one.
#[derive(Clone)]
pub struct WorkloadApi {
    /// The API itself; its `client` needs no token.
    pub embedded: Embedded,
    /// What clients on the listener show.
    pub token: Token,
}

impl Workloads {
    /// No APIs yet; each will have these options.
    ///
    /// # Errors
    /// When the system has no random numbers to give.
    pub fn new(options: Options) -> Result<Self, TokenError> {
        Ok(Workloads(Arc::new(Shared { options, issuer: Issuer::make()?, apis: Mutex::default() })))
    }

    fn apis(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, WorkloadApi>> {
        // Holders of the lock only look up, insert and remove, so that a panic leaves nothing half done.
        self.0.apis.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The API of a Cluster; made, with a credential of its own, if there is none.
    ///
    /// # Errors
    /// When the system has no random numbers to give.
    pub fn open(&self, cluster: &ObjectKey) -> Result<WorkloadApi, TokenError> {
        let mut apis = self.apis();
        if let Some(api) = apis.get(cluster) {
            return Ok(api.clone());
        }
        let token = self.0.issuer.issue(&path(cluster))?;
        let api = WorkloadApi { embedded: Embedded::workload(self.0.options.clone()), token };
        apis.insert(cluster.clone(), api.clone());
        Ok(api)
    }

    /// The API of a Cluster, if there is one.
    pub fn get(&self, cluster: &ObjectKey) -> Option<WorkloadApi> {
        self.apis().get(cluster).cloned()
    }

    /// Drops the API of a Cluster with all its objects: watches end, clients in the process get 503, others 404.
    pub fn forget(&self, cluster: &ObjectKey) {
        let api = self.apis().remove(cluster);
        if let Some(api) = api {
            api.embedded.close();
        }
    }

    /// Drops all APIs.
    pub fn forget_all(&self) {
        let apis = std::mem::take(&mut *self.apis());
        apis.values().for_each(|api| api.embedded.close());
    }

    /// Drops changes and Events of all APIs that are too old.
    pub fn sweep(&self) {
        let apis: Vec<Embedded> = self.apis().values().map(|api| api.embedded.clone()).collect();
        apis.iter().for_each(Embedded::sweep);
    }

    /// How many APIs there are.
    pub fn len(&self) -> usize {
        self.apis().len()
    }

    /// Whether there are no APIs.
    pub fn is_empty(&self) -> bool {
        self.apis().is_empty()
    }

    /// All APIs as one router, below `/clusters/<namespace>/<name>/`. Watches end when `stop` is cancelled.
    ///
    /// A token opens the API that it was made for, and no other. Only the token of a Cluster whose API is gone is
    /// answered with 404; all others get 401, so that callers cannot find out which Clusters exist.
    pub fn router(&self, stop: CancellationToken) -> Router {
        let workloads = self.clone();
        router_of(move |request: Request| async move { workloads.answer(request, stop).await })
    }

    async fn answer(&self, mut request: Request, stop: CancellationToken) -> Response {
        let Some((cluster, rest)) = split(request.uri()) else { return unauthorized() };
        let Some(WorkloadApi { embedded, token }) = self.get(&cluster) else {
            let was_issued = self.0.issuer.is_shown(&path(&cluster), request.headers());
            return if was_issued { refused(&gone(&cluster)) } else { unauthorized() };
        };
        *request.uri_mut() = rest;
        Front { embedded, token, stop }.answer(request).await
    }

    /// The kubeconfig for the API of a Cluster, if there is one. `address` is that of the listener, `authority` the
    /// certificate in PEM form that vouches for the listener's.
    pub fn kubeconfig(&self, cluster: &ObjectKey, address: SocketAddr, authority: &str) -> Option<String> {
        let api = self.get(cluster)?;
        let server = format!("{}{}", kubeconfig::url(address), path(cluster));
        Some(kubeconfig::text(&cluster.name, &server, authority, &api.token))
    }
}

/// Where the API of a Cluster is on the listener, such as `/clusters/default/demo`. Namespaces and names of Clusters
/// need no escapes.
fn path(cluster: &ObjectKey) -> String {
    format!("{PREFIX}{}/{}", cluster.namespace, cluster.name)
}

/// The Cluster that a URI names, and the URI within its API.
fn split(uri: &Uri) -> Option<(ObjectKey, Uri)> {
    let (namespace, rest) = uri.path().strip_prefix(PREFIX)?.split_once('/')?;
    let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let within = format!("/{rest}{query}").parse().ok()?;
    Some((ObjectKey::new(namespace, name), within))
}

fn gone(cluster: &ObjectKey) -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "NotFound", format!("Cluster {cluster} has no API server"))
}

impl fmt::Debug for Workloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.apis().keys()).finish()
    }
}

impl fmt::Debug for WorkloadApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkloadApi").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

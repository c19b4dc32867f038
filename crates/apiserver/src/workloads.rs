//! APIs of workload clusters: one per Cluster, behind one listener (DEC-54).
//!
//! ```text
//! /clusters/<namespace>/<name>/api/v1/nodes ─► the token of that Cluster? ─► its API: /api/v1/nodes
//! ```
//!
//! The APIs share the compiled schemas of their kinds: an empty one takes about 20 KB, measured by a test in
//! `tests/stories/workload_clusters.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use http::{StatusCode, Uri};
use tokio_util::sync::CancellationToken;

use super::http::front::{ApiFrontend, BearerToken, Issuer, TokenError, refused, router_of, unauthorized};
use super::storage::status::ApiError;
use super::{ApiOptions, Embedded, kubeconfig};
use model::hub::ObjectKey;

/// Path prefix of all workload clusters.
const PREFIX: &str = "/clusters/";

/// The APIs of workload clusters, by Cluster; clones share them.
#[derive(Clone)]
pub struct WorkloadApis(Arc<WorkloadState>);

struct WorkloadState {
    options: ApiOptions,
    issuer: Issuer,
    apis: Mutex<BTreeMap<ObjectKey, WorkloadApi>>,
}

/// The API of a workload cluster; clones share it.
#[derive(Clone)]
pub struct WorkloadApi {
    /// The API; its in-process `client` needs no token.
    pub embedded: Embedded,
    /// The token for clients of the listener.
    pub token: BearerToken,
}

impl WorkloadApis {
    /// Creates an empty set; `options` apply to each API.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new(options: ApiOptions) -> Result<Self, TokenError> {
        Ok(WorkloadApis(Arc::new(WorkloadState { options, issuer: Issuer::make()?, apis: Mutex::default() })))
    }

    fn apis(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, WorkloadApi>> {
        // The lock is only held for lookups, insertions and removals, so a panic leaves consistent data.
        self.0.apis.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The API of a Cluster; created with a new credential if absent.
    ///
    /// # Errors
    /// When the system has no random numbers.
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

    /// The API of a Cluster, if it exists.
    pub fn get(&self, cluster: &ObjectKey) -> Option<WorkloadApi> {
        self.apis().get(cluster).cloned()
    }

    /// Drops the API of a Cluster with all objects: watches end, in-process clients get 503, others 404.
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

    /// Drops outdated changes and Events of all APIs.
    pub fn sweep(&self) {
        let apis: Vec<Embedded> = self.apis().values().map(|api| api.embedded.clone()).collect();
        apis.iter().for_each(Embedded::sweep);
    }

    /// Number of APIs.
    pub fn len(&self) -> usize {
        self.apis().len()
    }

    /// Whether there are no APIs.
    pub fn is_empty(&self) -> bool {
        self.apis().is_empty()
    }

    /// All APIs as one router below `/clusters/<namespace>/<name>/`. Watches end when `stop` is cancelled.
    ///
    /// A token is valid for its API only. The token of a removed Cluster is answered with 404; all others get 401, so
    /// that callers cannot find out which Clusters exist.
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
        ApiFrontend { embedded, token, stop }.answer(request).await
    }

    /// The kubeconfig for the API of a Cluster, if it exists. `address` is that of the listener, `authority` is its CA
    /// certificate in PEM form.
    pub fn kubeconfig(&self, cluster: &ObjectKey, address: SocketAddr, authority: &str) -> Option<String> {
        let api = self.get(cluster)?;
        let server = format!("{}{}", kubeconfig::url(address), path(cluster));
        Some(kubeconfig::text(&cluster.name, &server, authority, &api.token))
    }
}

/// The path of the API of a Cluster on the listener, such as `/clusters/default/demo`. Names of namespaces and Clusters
/// need no escapes.
fn path(cluster: &ObjectKey) -> String {
    format!("{PREFIX}{}/{}", cluster.namespace, cluster.name)
}

/// The Cluster of a URI, and the URI within its API.
fn split(uri: &Uri) -> Option<(ObjectKey, Uri)> {
    let (namespace, rest) = uri.path().strip_prefix(PREFIX)?.split_once('/')?;
    let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let within = format!("/{rest}{query}").parse().ok()?;
    Some((ObjectKey::new(namespace, name), within))
}

fn gone(cluster: &ObjectKey) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "NotFound", format!("Cluster {cluster} has no API server"))
}

impl fmt::Debug for WorkloadApis {
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

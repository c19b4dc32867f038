//! An in-memory Kubernetes API: the REST subset that the program and kubectl need.
//!
//! ```text
//! http request ─► http/: request ─► read, watch ──────────────► answer
//!                         │           ▲ snapshots
//!                         │       storage/: objects, their kinds, and what follows from a write
//!                         │           ▲ commit, or once more if the object has moved
//!                         └─► write ──┴─ decode ─► patch ─► managers ─► admit ─► structure
//! ```
//!
//! [`Embedded`] is a handle; clones share one store. It is for trials, tests and simulations: nothing is persisted.
//! Work of a server's controllers (namespaces, kinds, garbage collection) happens within the write that causes it.
//! Clusters, ClusterClasses and kinds of the embedded provider are converted as by `/convert`, and Events have renamed
//! fields in their newer group; versions of other kinds differ only in `apiVersion`, even if the definition names a
//! converter.
//!
//! Responses match kube-apiserver: `tests/cluster/embedded_api.rs` sends the same requests to both. Known differences:
//! texts of field errors (not their reason and place), webhooks are not called for cascading deletions, and watches
//! from a future version are rejected instead of waiting, so that clients of a restarted process start over.

mod admission;
pub mod http;
pub mod kubeconfig;
mod storage;
pub mod workloads;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

pub use admission::{Admission, AdmissionAttributes, AdmissionPhase, ReviewCallError, Webhook};
pub use storage::{Builtin, KindRegistry, KindSchema, LoadError, PrinterColumn, Retention, ScalePaths, ServedResource};

use storage::{StoreState, make_namespaces, management_registry, workload_registry};

/// Dependencies of an in-memory API.
#[derive(Clone)]
pub struct ApiOptions {
    /// The current time.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub retention: Retention,
}

impl Default for ApiOptions {
    fn default() -> Self {
        ApiOptions { clock: Arc::new(Timestamp::now), retention: Retention::default() }
    }
}

impl fmt::Debug for ApiOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").finish_non_exhaustive()
    }
}

/// An in-memory Kubernetes API; clones share it.
#[derive(Clone, Debug)]
pub struct Embedded(Arc<ApiState>);

#[derive(Debug)]
struct ApiState {
    state: Mutex<StoreState>,
    options: ApiOptions,
    admission: ArcSwapOption<Arc<dyn Admission>>,
    closed: CancellationToken,
}

impl Embedded {
    /// The API of a management cluster: with CustomResourceDefinitions and the initial namespaces of a server.
    pub fn new(options: ApiOptions) -> Self {
        let retention = options.retention.clone();
        Self::serving(management_registry(), options, retention)
    }

    /// The API of a workload cluster: Nodes, Pods and related kinds. All such APIs share compiled schemas. There may be
    /// many, so each keeps less history than the API of a management cluster.
    pub fn workload(options: ApiOptions) -> Self {
        let retention = options.retention.of_workload();
        Self::serving(workload_registry(), options, retention)
    }

    fn serving(registry: Arc<KindRegistry>, options: ApiOptions, retention: Retention) -> Self {
        let state = Mutex::new(StoreState::new(registry, options.clone(), retention));
        let closed = CancellationToken::new();
        let embedded = Embedded(Arc::new(ApiState { state, options, admission: ArcSwapOption::empty(), closed }));
        make_namespaces(&mut embedded.state(), &embedded.now());
        embedded
    }

    /// Ends all watches, and rejects further requests.
    pub fn close(&self) {
        self.0.closed.cancel();
    }

    /// The currently served kinds.
    pub fn registry(&self) -> Arc<KindRegistry> {
        self.state().registry.clone()
    }

    /// Sets the admission webhooks.
    pub fn set_admission(&self, admission: Arc<dyn Admission>) {
        self.0.admission.store(Some(Arc::new(admission)));
    }

    fn admission(&self) -> Option<Arc<dyn Admission>> {
        self.0.admission.load().as_ref().map(|admission| (**admission).clone())
    }

    /// Locks the store; the lock must not be held while waiting.
    fn state(&self) -> MutexGuard<'_, StoreState> {
        // A panic while holding it leaves no partial write: writes are atomic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops outdated changes and Events. Writes do this as well; this is for an idle API.
    pub fn sweep(&self) {
        let now = self.moment();
        self.state().sweep(now);
    }

    fn moment(&self) -> Timestamp {
        (self.0.options.clock)()
    }

    /// The current time: RFC 3339, UTC, seconds.
    fn now(&self) -> String {
        self.moment().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

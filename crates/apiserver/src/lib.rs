//! An in-memory Kubernetes API: the REST subset that the program and kubectl need, in the process itself.
//!
//! ```text
//! http request ─► http/: request ─► read, watch ──────────────► answer
//!                         │           ▲ snapshots
//!                         │       storage/: objects, their kinds, and what follows from a write
//!                         │           ▲ commit, or once more if the object has moved
//!                         └─► write ──┴─ decode ─► patch ─► managers ─► admit ─► structure
//! ```
//!
//! [`Embedded`] is a handle; clones share one store. It is for trying, testing and simulating: nothing outlives the
//! process. What a server leaves to controllers (namespaces, kinds, garbage) happens within the write from which it
//! follows. Clusters, ClusterClasses and kinds of the embedded provider are converted as `/convert` does it, and Events
//! have fields of other names in their newer group; between versions of any other kind nothing changes but
//! `apiVersion`, even if its definition names a converter.
//!
//! Answers are those of kube-apiserver: `tests/cluster/embedded_api.rs` sends both the same requests. Known to differ
//! are the words behind a field error (its reason and its place do not), objects that are deleted as a consequence,
//! which webhooks are not asked about, and watches from a version that is still to come, which are refused instead of
//! waiting for it, so that clients of a process that was started anew begin anew as well.

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

pub use admission::{Admission, Asked, Phase, Webhook};
pub use storage::{Builtin, Column, LoadError, Registry, Resource, Retention, Scale, Structure};

use storage::{State, make_namespaces, management_registry, workload_registry};

/// What an in-memory API needs from outside.
#[derive(Clone)]
pub struct Options {
    /// What time it is.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub kept: Retention,
}

impl Default for Options {
    fn default() -> Self {
        Options { clock: Arc::new(Timestamp::now), kept: Retention::default() }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").finish_non_exhaustive()
    }
}

/// An in-memory Kubernetes API; clones are handles of the same one.
#[derive(Clone, Debug)]
pub struct Embedded(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    options: Options,
    admission: ArcSwapOption<Arc<dyn Admission>>,
    closed: CancellationToken,
}

impl Embedded {
    /// The API of a management cluster: with CustomResourceDefinitions, and with the namespaces that every server has.
    pub fn new(options: Options) -> Self {
        let kept = options.kept.clone();
        Self::serving(management_registry(), options, kept)
    }

    /// The API of a workload cluster: Nodes, Pods and what belongs to them. All such APIs share one set of compiled
    /// schemas. There are many, so each keeps a small part of what the API of a management cluster keeps.
    pub fn workload(options: Options) -> Self {
        let kept = options.kept.of_workload();
        Self::serving(workload_registry(), options, kept)
    }

    fn serving(registry: Arc<Registry>, options: Options, kept: Retention) -> Self {
        let state = Mutex::new(State::new(registry, options.clone(), kept));
        let closed = CancellationToken::new();
        let embedded = Embedded(Arc::new(Shared { state, options, admission: ArcSwapOption::empty(), closed }));
        make_namespaces(&mut embedded.state(), &embedded.now());
        embedded
    }

    /// Ends all watches, and refuses requests from now on.
    pub fn close(&self) {
        self.0.closed.cancel();
    }

    /// Which kinds are served now.
    pub fn registry(&self) -> Arc<Registry> {
        self.state().registry.clone()
    }

    /// From now on every write is shown to these webhooks.
    pub fn set_admission(&self, admission: Arc<dyn Admission>) {
        self.0.admission.store(Some(Arc::new(admission)));
    }

    fn admission(&self) -> Option<Arc<dyn Admission>> {
        self.0.admission.load().as_ref().map(|admission| (**admission).clone())
    }

    /// The store, for a moment: holders of the lock do not wait.
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while holding it leaves no partial write: writes are atomic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops changes and Events that are too old. Writes do this as well; this is for an API without any.
    pub fn sweep(&self) {
        let now = self.moment();
        self.state().sweep(now);
    }

    fn moment(&self) -> Timestamp {
        (self.0.options.clock)()
    }

    /// What time it is: RFC 3339, UTC, seconds.
    fn now(&self) -> String {
        self.moment().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

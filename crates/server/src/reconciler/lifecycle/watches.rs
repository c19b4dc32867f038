//! One watch for each kind that steps read, in the version of its contract (CT-3.5).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::kind_watch::{KindWatch, ObjectSizes, WatchProgress};
use super::store::LifecycleStore;
use crate::kubernetes::address::Resource;
use crate::kubernetes::contract::{DefinitionError, Definitions};
use crate::kubernetes::observations::WatchedKind;
use crate::telemetry::metrics::Metrics;
use machines::lifecycle::GroupKind;
use model::hub::contract::{Contract, listed};
use model::hub::contract::{definition_name, newest_version};
use model::hub::{GROUP, ObjectKey};
use model::world::Scope;

/// Timeout of waiting for a definition, and the delay before the next attempt.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of watched kinds. References name them, and every user who may create a Machine chooses references.
const MOST_KINDS: usize = 512;
/// The kinds of workload clusters that steps read.
pub(super) const OF_WORKLOADS: [(&str, &str); 6] = [
    ("", "Namespace"),
    ("", "Node"),
    ("", "Pod"),
    ("", "PersistentVolume"),
    ("apps", "DaemonSet"),
    ("storage.k8s.io", "VolumeAttachment"),
];

/// The watches. Dropping it ends them.
pub(super) struct KindWatches(Arc<WatchesState>);

struct WatchesState {
    source: WatchSource,
    wanted: Mutex<HashSet<GroupKind>>,
    running: Mutex<JoinSet<()>>,
}

/// The dependencies of watches of the management cluster.
#[derive(Clone)]
struct WatchSource {
    client: kube::Client,
    scope: Scope,
    definitions: Definitions,
    store: Arc<LifecycleStore>,
    metrics: Arc<Metrics>,
    problems: Problems,
}

/// Why kinds are not watched.
type Problems = Arc<Mutex<BTreeMap<GroupKind, String>>>;

impl KindWatches {
    pub(super) fn new(
        client: kube::Client,
        scope: Scope,
        definitions: Definitions,
        store: Arc<LifecycleStore>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let source = WatchSource { client, scope, definitions, store, metrics, problems: Problems::default() };
        KindWatches(Arc::new(WatchesState { source, wanted: Mutex::default(), running: Mutex::default() }))
    }

    /// Why some of these kinds are not watched.
    pub(super) fn problems(&self, kinds: &BTreeSet<GroupKind>) -> Vec<String> {
        let problems = self.0.source.problems.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.iter().filter_map(|kind| problems.get(kind).cloned()).collect()
    }

    /// Starts the watch of a kind.
    pub(super) fn want(&self, kind: &GroupKind) {
        let shared = &self.0;
        let mut wanted = shared.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted.contains(kind) {
            return;
        }
        if wanted.len() >= MOST_KINDS {
            shared.source.note(kind, Some(format!("{MOST_KINDS} kinds are watched already")));
            return;
        }
        wanted.insert(kind.clone());
        drop(wanted);
        let (source, kind) = (shared.source.clone(), kind.clone());
        let watch = async move { source.watch(&kind).await };
        shared.running.lock().unwrap_or_else(PoisonError::into_inner).spawn(watch);
    }
}

impl WatchSource {
    /// Watches a kind; never ends.
    async fn watch(self, kind: &GroupKind) {
        loop {
            match version_of(&self.definitions, kind).await {
                Ok(Some((version, contract))) => match Resource::new(&kind.group, &version, &kind.kind) {
                    Ok(resource) => self.follow(kind, &resource, contract).await,
                    Err(error) => {
                        warn!(%kind, %error, "Cannot watch this kind");
                        self.note(kind, Some(error.to_string()));
                        return;
                    }
                },
                // A kind of Cluster API that is not installed has no objects.
                Ok(None) => {
                    debug!(%kind, "This kind is not installed");
                    self.store.listed(None, kind, None, &BTreeSet::new(), u64::MAX);
                }
                Err(error) => self.note(kind, Some(error.to_string())),
            }
            sleep(PATIENCE).await;
        }
    }

    /// Follows a kind until the API server does not serve it.
    async fn follow(&self, kind: &GroupKind, resource: &Resource, contract: Option<Contract>) {
        let (store, workload) = (self.store.clone(), None);
        let watch = KindWatch { store, workload, kind: kind.clone(), contract, sizes: None };
        let watched = WatchedKind {
            metric: "machines",
            kind: kind.kind.to_string(),
            version: resource.as_api().api_version.clone(),
            ends_if_unserved: true,
        };
        let api = resource.in_scope(self.client.clone(), &self.scope);
        let mut reports = pin!(watch.follow(api, resource, watched, self.metrics.clone()));
        while let Some(report) = reports.next().await {
            match report {
                WatchProgress::Listed => self.note(kind, None),
                WatchProgress::Failed(problem) => self.note(kind, Some(problem)),
                WatchProgress::Alive | WatchProgress::TooMuch => {}
            }
        }
        self.note(kind, Some("the API server does not serve this kind".to_owned()));
    }

    /// Notes why a kind is not watched; `None` if it is.
    fn note(&self, kind: &GroupKind, problem: Option<String>) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        match problem {
            // Those beyond have no text, and their steps wait.
            Some(problem) if problems.len() < 2 * MOST_KINDS => {
                debug!(%kind, problem, "This kind is not watched yet");
                problems.insert(kind.clone(), format!("cannot watch {kind}: {problem}"));
            }
            Some(_) => {}
            None => drop(problems.remove(kind)),
        }
    }
}

/// Why the version of a kind is not known.
#[derive(Debug, thiserror::Error)]
enum KindVersionError {
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error("CustomResourceDefinition {0} has no contract label")]
    NoContract(String),
}

/// The version in which a kind is read, and its contract; `None` for a kind of Cluster API that is not installed.
async fn version_of(
    definitions: &Definitions,
    kind: &GroupKind,
) -> Result<Option<(String, Option<Contract>)>, KindVersionError> {
    if kind.group.is_empty() {
        return Ok(Some(("v1".to_owned(), None)));
    }
    let name = definition_name(&kind.group, &kind.kind);
    let labels = match definitions.labels(&name, Instant::now() + PATIENCE).await {
        Ok(labels) => labels,
        Err(DefinitionError::Missing(_)) if &*kind.group == GROUP => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if &*kind.group == GROUP {
        return Ok(Some(("v1beta2".to_owned(), None)));
    }
    let version = newest_version(&labels).ok_or(KindVersionError::NoContract(name))?;
    Ok(Some((version.to_owned(), listed(&labels, version))))
}

/// Follows the objects of workload clusters.
pub(super) struct WorkloadWatches {
    store: Arc<LifecycleStore>,
    metrics: Arc<Metrics>,
    running: Mutex<HashMap<ObjectKey, JoinSet<()>>>,
}

impl WorkloadWatches {
    pub(super) fn new(store: Arc<LifecycleStore>, metrics: Arc<Metrics>) -> Self {
        WorkloadWatches { store, metrics, running: Mutex::default() }
    }

    /// Follows a workload cluster, unless it is followed already.
    pub(super) fn start(&self, cluster: &ObjectKey, client: &kube::Client) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(cluster) {
            return;
        }
        let mut watches = JoinSet::new();
        for (group, kind) in OF_WORKLOADS {
            let workload_kind = WorkloadKind { group, kind, name: kind.to_owned(), sizes: None };
            let reports = follow_workload(&self.store, &self.metrics, cluster, client.clone(), workload_kind);
            watches.spawn(reports.for_each(async |_| {}));
        }
        running.insert(cluster.clone(), watches);
    }

    /// Whether a workload cluster is followed.
    pub(super) fn has(&self, cluster: &ObjectKey) -> bool {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).contains_key(cluster)
    }

    /// Stops following it.
    pub(super) fn stop(&self, cluster: &ObjectKey) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
    }
}

/// A watched kind of a workload cluster.
pub(super) struct WorkloadKind {
    pub group: &'static str,
    pub kind: &'static str,
    /// The name in logs.
    pub name: String,
    pub sizes: Option<ObjectSizes>,
}

/// Follows a kind of a workload cluster.
pub(super) fn follow_workload(
    store: &Arc<LifecycleStore>,
    metrics: &Arc<Metrics>,
    cluster: &ObjectKey,
    client: kube::Client,
    workload_kind: WorkloadKind,
) -> impl Stream<Item = WatchProgress> + Send + use<> {
    let WorkloadKind { group, kind, name, sizes } = workload_kind;
    let resource = Resource::known(group, "v1", kind);
    let (workload, kind) = (Some(cluster.clone()), GroupKind::new(group, kind));
    let watch = KindWatch { store: store.clone(), workload, kind, contract: None, sizes };
    let watched = WatchedKind { metric: "workloads", kind: name, version: "v1".to_owned(), ends_if_unserved: true };
    watch.follow(resource.anywhere(client), &resource, watched, metrics.clone())
}

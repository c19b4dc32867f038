//! One watch for each kind that steps look at, in the version that its contract asks for (CT-3.5).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::api::{ApiResource, ObjectMeta};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::store::Store;
use crate::hub::contract::{definition_name, newest_version};
use crate::hub::{GROUP, Object, ObjectKey};
use crate::json::Plain;
use crate::kubernetes::Selection;
use crate::kubernetes::address::Resource;
use crate::kubernetes::contract::{DefinitionError, Definitions};
use crate::kubernetes::follow::{self, Observation, WatchedKind};
use crate::lifecycle::{GroupKind, ObjectId};
use crate::telemetry::metrics::Metrics;
use crate::topology::contract::{Contract, listed};
use crate::world::Scope;

/// How long a definition is waited for, and how soon it is looked for again.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many kinds are watched. References choose them, and every user who may create a Machine chooses references.
const MOST_KINDS: usize = 512;
/// The kinds of workload clusters that steps look at.
pub(super) const OF_WORKLOADS: [(&str, &str); 6] = [
    ("", "Namespace"),
    ("", "Node"),
    ("", "Pod"),
    ("", "PersistentVolume"),
    ("apps", "DaemonSet"),
    ("storage.k8s.io", "VolumeAttachment"),
];

/// The watches. They end with this.
pub(super) struct Watches(Arc<Shared>);

struct Shared {
    client: kube::Client,
    scope: Scope,
    definitions: Definitions,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    wanted: Mutex<HashSet<GroupKind>>,
    running: Mutex<JoinSet<()>>,
}

impl Watches {
    pub(super) fn new(
        client: kube::Client,
        scope: Scope,
        definitions: Definitions,
        store: Arc<Store>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (wanted, running) = (Mutex::default(), Mutex::default());
        Watches(Arc::new(Shared { client, scope, definitions, store, metrics, wanted, running }))
    }

    /// Watches a kind from now on.
    pub(super) fn want(&self, kind: &GroupKind) {
        let shared = &self.0;
        let mut wanted = shared.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted.contains(kind) {
            return;
        }
        if wanted.len() >= MOST_KINDS {
            debug!(%kind, "Too many kinds are watched");
            return;
        }
        wanted.insert(kind.clone());
        drop(wanted);
        let (weak, kind) = (Arc::downgrade(shared), kind.clone());
        let watch = async move {
            let Some(shared) = weak.upgrade() else { return };
            let Shared { client, scope, definitions, store, metrics, .. } = &*shared;
            let (client, scope, definitions) = (client.clone(), scope.clone(), definitions.clone());
            let (store, metrics) = (store.clone(), metrics.clone());
            drop(shared);
            watch(client, scope, definitions, store, metrics, &kind).await;
        };
        shared.running.lock().unwrap_or_else(PoisonError::into_inner).spawn(watch);
    }
}

/// Watches a kind for ever.
async fn watch(
    client: kube::Client,
    scope: Scope,
    definitions: Definitions,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    kind: &GroupKind,
) {
    loop {
        match version_of(&definitions, kind).await {
            Ok(Some((version, contract))) => match Resource::new(&kind.group, &version, &kind.kind) {
                Ok(resource) => {
                    follow_kind(&client, &scope, &store, metrics.clone(), kind, &resource, contract).await;
                    debug!(%kind, "The watch of this kind has ended");
                }
                Err(error) => {
                    warn!(%kind, %error, "Cannot watch this kind");
                    return;
                }
            },
            // A kind of Cluster API that is not installed has no objects.
            Ok(None) => {
                debug!(%kind, "This kind is not installed");
                store.listed(kind, None, &std::collections::BTreeSet::new());
            }
            Err(error) => debug!(%kind, error, "Cannot watch this kind yet"),
        }
        sleep(PATIENCE).await;
    }
}

/// The version in which a kind is read, and its contract; nothing for an own kind that is not installed.
async fn version_of(definitions: &Definitions, kind: &GroupKind) -> Result<Option<(String, Option<Contract>)>, String> {
    if kind.group.is_empty() {
        return Ok(Some(("v1".to_owned(), None)));
    }
    let name = definition_name(&kind.group, &kind.kind);
    let labels = match definitions.labels(&name, Instant::now() + PATIENCE).await {
        Ok(labels) => labels,
        Err(DefinitionError::Missing(_)) if &*kind.group == GROUP => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    if &*kind.group == GROUP {
        return Ok(Some(("v1beta2".to_owned(), None)));
    }
    let version =
        newest_version(&labels).ok_or_else(|| format!("CustomResourceDefinition {name} has no contract label"))?;
    Ok(Some((version.to_owned(), listed(&labels, version))))
}

async fn follow_kind(
    client: &kube::Client,
    scope: &Scope,
    store: &Store,
    metrics: Arc<Metrics>,
    kind: &GroupKind,
    resource: &Resource,
    contract: Option<Contract>,
) {
    let api = resource.in_scope::<Whole>(client.clone(), scope);
    let watched = WatchedKind {
        metric: "machines",
        kind: kind.kind.to_string(),
        version: resource.as_api().api_version.clone(),
        ends_if_unserved: true,
    };
    let mut seen = follow::follow(api, Selection::default(), watched, metrics);
    while let Some(seen) = seen.next().await {
        let id = |object: &Whole| ObjectId::new(kind.clone(), follow::key_of(object));
        match seen {
            Observation::There { object, .. } => store.seen(&id(&object), object.object),
            Observation::Gone(object) => store.removed(&id(&object), Some(object.object.uid())),
            Observation::Listed { keys, .. } => store.listed(kind, contract, &keys),
            Observation::Alive | Observation::Failed(_) => {}
        }
    }
}

/// Follows the objects of workload clusters.
pub(super) struct WorkloadWatches {
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    running: Mutex<HashMap<ObjectKey, JoinSet<()>>>,
}

impl WorkloadWatches {
    pub(super) fn new(store: Arc<Store>, metrics: Arc<Metrics>) -> Self {
        WorkloadWatches { store, metrics, running: Mutex::default() }
    }

    /// Follows a workload cluster, unless that is so already.
    pub(super) fn start(&self, cluster: &ObjectKey, client: &kube::Client) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(cluster) {
            return;
        }
        let mut watches = JoinSet::new();
        for (group, kind) in OF_WORKLOADS {
            let watch =
                follow_workload(self.store.clone(), self.metrics.clone(), cluster.clone(), client.clone(), group, kind);
            watches.spawn(watch);
        }
        running.insert(cluster.clone(), watches);
    }

    /// Whether a workload cluster is followed.
    pub(super) fn has(&self, cluster: &ObjectKey) -> bool {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).contains_key(cluster)
    }

    /// Does not follow it any more.
    pub(super) fn stop(&self, cluster: &ObjectKey) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
    }
}

async fn follow_workload(
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    cluster: ObjectKey,
    client: kube::Client,
    group: &'static str,
    kind: &'static str,
) {
    let resource = Resource::known(group, "v1", kind);
    let api = resource.anywhere::<Whole>(client);
    let kind_of = GroupKind::new(group, kind);
    let watched =
        WatchedKind { metric: "workloads", kind: kind.to_owned(), version: "v1".to_owned(), ends_if_unserved: true };
    let mut seen = follow::follow(api, Selection::default(), watched, metrics);
    while let Some(seen) = seen.next().await {
        let id = |object: &Whole| ObjectId {
            workload: Some(cluster.clone()),
            kind: kind_of.clone(),
            key: follow::key_of(object),
        };
        match seen {
            Observation::There { object, .. } => store.seen(&id(&object), object.object),
            Observation::Gone(object) => store.removed(&id(&object), Some(object.object.uid())),
            Observation::Listed { .. } | Observation::Alive | Observation::Failed(_) => {}
        }
    }
}

/// A whole object of any kind.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    metadata: ObjectMeta,
    pub(super) object: Object,
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Plain(mut value) = Deserialize::deserialize(deserializer)?;
        let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
        let metadata = metadata.ok_or_else(|| D::Error::custom("the object has no metadata"))?;
        metadata.remove("managedFields");
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).map(str::to_owned);
        // Watches look at nothing else of it.
        let metadata = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        let object = Object::try_from(value).map_err(D::Error::custom)?;
        Ok(Whole { metadata, object })
    }
}

impl kube::Resource for Whole {
    type DynamicType = ApiResource;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        (&*resource.kind).into()
    }

    fn group(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        (&*resource.group).into()
    }

    fn version(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        (&*resource.version).into()
    }

    fn plural(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        (&*resource.plural).into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

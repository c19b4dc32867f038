//! The metadata of templates, of whatever kinds are asked for.
//!
//! The first question about a kind starts a watch of it. Copies that belong to a Cluster are left out of the watch:
//! there are many, and classes do not refer to them. What the watch does not show is looked up, so an absence is
//! certain.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kube::api::{Api, ApiResource, GroupVersionKind};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::Selection;
use super::metadata::{self, Change, Metadata, key_of};
use crate::hub::{ObjectKey, contract};
use crate::telemetry::metrics::Metrics;

/// Templates that belong to the topology of a Cluster do not interest a class.
const NOT_OWNED: &str = "!topology.cluster.x-k8s.io/owned";

/// A version of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl ObjectKind {
    /// The kind as the API serves it; the plural is the one that the contract prescribes (CT-2.1).
    pub fn resource(&self) -> ApiResource {
        let kind = GroupVersionKind::gvk(&self.group, &self.version, &self.kind);
        ApiResource::from_gvk_with_plural(&kind, &contract::plural(&self.kind))
    }
}

/// Learns of a template, or of a kind of which any template may be different.
type Changed = dyn Fn(&ObjectKind, Option<ObjectKey>) + Send + Sync;

/// The watched kinds.
pub struct Templates {
    client: kube::Client,
    namespace: Option<String>,
    metrics: Arc<Metrics>,
    changed: Arc<Changed>,
    kinds: Mutex<BTreeMap<ObjectKind, Followed>>,
}

struct Followed {
    store: Store<Metadata>,
    _watch: AbortOnDropHandle<()>,
}

impl fmt::Debug for Templates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(kinds.keys()).finish()
    }
}

impl Templates {
    /// Nothing watched yet, and never anything outside of `namespace` if there is one. `changed` learns of a template,
    /// or of a kind of which any template may be different. Dropping the result ends every watch.
    pub fn new(
        client: kube::Client,
        namespace: Option<&str>,
        metrics: Arc<Metrics>,
        changed: impl Fn(&ObjectKind, Option<ObjectKey>) + Send + Sync + 'static,
    ) -> Self {
        let namespace = namespace.map(str::to_owned);
        Templates { client, namespace, metrics, changed: Arc::new(changed), kinds: Mutex::default() }
    }

    /// The metadata of a template, if there is such a template. A watch that has just begun is waited for until
    /// `deadline`.
    ///
    /// # Errors
    /// When the API server cannot be asked.
    pub async fn get(
        &self,
        kind: &ObjectKind,
        key: &ObjectKey,
        deadline: Instant,
    ) -> Result<Option<Arc<Metadata>>, kube::Error> {
        let (store, resource) = (self.store(kind), kind.resource());
        if let Ok(Ok(())) = timeout_at(deadline, store.wait_until_ready()).await
            && let Some(found) = store.get(&ObjectRef::new_with(&key.name, resource).within(&key.namespace))
        {
            return Ok(Some(found));
        }
        self.look_up(kind, key).await
    }

    /// The metadata of a template as the API server has it now.
    ///
    /// # Errors
    /// When the API server cannot be asked.
    pub async fn look_up(&self, kind: &ObjectKind, key: &ObjectKey) -> Result<Option<Arc<Metadata>>, kube::Error> {
        let api: Api<Metadata> = Api::namespaced_with(self.client.clone(), &key.namespace, &kind.resource());
        Ok(api.get_opt(&key.name).await?.map(Arc::new))
    }

    /// Ends the watches of all other kinds.
    pub fn keep_only(&self, kinds: &BTreeSet<ObjectKind>) {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner).retain(|kind, _| kinds.contains(kind));
    }

    fn store(&self, kind: &ObjectKind) -> Store<Metadata> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.entry(kind.clone()).or_insert_with(|| self.follow(kind)).store.clone()
    }

    fn follow(&self, kind: &ObjectKind) -> Followed {
        let resource = kind.resource();
        let api = match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let selection = Selection { labels: Some(NOT_OWNED.to_owned()), fields: None };
        let changed = {
            let (kind, changed) = (kind.clone(), self.changed.clone());
            move |change: Change<'_>| match change {
                Change::One(template) => changed(&kind, Some(key_of(template))),
                Change::All => changed(&kind, None),
            }
        };
        let (store, watch) = metadata::follow(api, resource, selection, "Template", self.metrics.clone(), changed);
        Followed { store, _watch: AbortOnDropHandle::new(tokio::spawn(watch)) }
    }
}

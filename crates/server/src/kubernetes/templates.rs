//! The metadata of templates, of the kinds that are requested.
//!
//! The first request for a kind starts a watch of it. Copies that belong to a Cluster are left out of the watch:
//! there are many, and classes do not refer to them. Objects that the watch leaves out are looked up, so an absence is
//! certain.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use super::WatchSelection;
use super::address::{InvalidSegment, ObjectApi, Resource};
use super::metadata::{self, ObjectMetadata};
use super::observations::{StoreChange, WatchedKind, key_of};
use crate::telemetry::metrics::{self, Metrics};
use model::hub::ObjectKey;

/// Maximum number of watched versions of kinds: the sum over all classes (DEC-45). Objects of others are read one by
/// one.
pub(super) const MOST_KINDS: usize = 128;

/// Selects objects that belong to no topology: classes do not refer to those of a topology.
pub(super) const NOT_OWNED: &str = "!topology.cluster.x-k8s.io/owned";

/// A version of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl ObjectKind {
    /// The resource of the kind, with the plural that the contract prescribes (CT-2.1).
    ///
    /// # Errors
    /// When group, version or kind cannot be a segment of a path (DEC-45).
    pub fn resource(&self) -> Result<Resource, InvalidSegment> {
        Resource::new(&self.group, &self.version, &self.kind)
    }

    /// Logs that templates of this kind are not watched.
    pub(super) fn log_limit(&self) {
        let ObjectKind { group, version, kind } = self;
        warn!(
            group,
            version,
            kind,
            limit = MOST_KINDS,
            "Limit of watched kinds reached; not watching this kind of templates"
        );
    }
}

/// Called with a changed template, or with a kind of which any template may have changed.
type TemplateListener = dyn Fn(&ObjectKind, Option<ObjectKey>) + Send + Sync;

/// The watched kinds.
pub struct Templates {
    client: kube::Client,
    namespace: Option<String>,
    metrics: Arc<Metrics>,
    changed: Arc<TemplateListener>,
    kinds: Mutex<BTreeMap<ObjectKind, TemplateWatch>>,
}

/// The store of the watch of a kind, and whether all is listed.
type WatchedStore = (Store<ObjectMetadata>, watch::Receiver<bool>);

struct TemplateWatch {
    store: Store<ObjectMetadata>,
    /// The store of kube wakes one waiter only.
    is_listed: watch::Receiver<bool>,
    _watch: AbortOnDropHandle<()>,
}

impl fmt::Debug for Templates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(kinds.keys()).finish()
    }
}

impl Templates {
    /// No watches yet, and never one outside of `namespace` if there is one. `changed` is called with a changed
    /// template, or with a kind of which any template may have changed. Dropping the result ends every watch.
    pub fn new(
        client: kube::Client,
        namespace: Option<&str>,
        metrics: Arc<Metrics>,
        changed: impl Fn(&ObjectKind, Option<ObjectKey>) + Send + Sync + 'static,
    ) -> Self {
        let namespace = namespace.map(str::to_owned);
        Templates { client, namespace, metrics, changed: Arc::new(changed), kinds: Mutex::default() }
    }

    /// The metadata of a template, if it exists. Waits for a new watch until `deadline`.
    ///
    /// # Errors
    /// When the request fails, or kind or key cannot be segments of a path.
    pub async fn get(
        &self,
        kind: &ObjectKind,
        key: &ObjectKey,
        deadline: Instant,
    ) -> Result<Option<Arc<ObjectMetadata>>, kube::Error> {
        let resource = kind.resource()?;
        let one = resource.one::<ObjectMetadata>(self.client.clone(), key)?;
        let Some((store, mut is_listed)) = self.store(kind, &resource)? else { return look_up(&one).await };
        match timeout_at(deadline, is_listed.wait_for(|is_listed| *is_listed)).await {
            Ok(Ok(_)) => {
                let key = ObjectRef::new_with(&key.name, resource.as_api().clone()).within(&key.namespace);
                if let Some(found) = store.get(&key) {
                    return Ok(Some(found));
                }
            }
            // The API server does not serve this version of the kind: the watch has ended.
            Ok(Err(_)) => self.change(|kinds| drop(kinds.remove(kind))),
            Err(_) => {}
        }
        look_up(&one).await
    }

    /// The current metadata of a template, read from the API server.
    ///
    /// # Errors
    /// When the request fails, or kind or key cannot be segments of a path.
    pub async fn look_up(
        &self,
        kind: &ObjectKind,
        key: &ObjectKey,
    ) -> Result<Option<Arc<ObjectMetadata>>, kube::Error> {
        look_up(&kind.resource()?.one(self.client.clone(), key)?).await
    }

    /// Ends the watches of all other kinds.
    pub fn keep_only(&self, kinds: &BTreeSet<ObjectKind>) {
        self.change(|followed| followed.retain(|kind, _| kinds.contains(kind)));
    }

    /// The store of the watch of a kind, and whether all is listed; `None` at the limit of watched kinds.
    fn store(&self, kind: &ObjectKind, resource: &Resource) -> Result<Option<WatchedStore>, InvalidSegment> {
        let shown = |followed: &TemplateWatch| Some((followed.store.clone(), followed.is_listed.clone()));
        self.change(|kinds| {
            if let Some(known) = kinds.get(kind) {
                return Ok(shown(known));
            }
            if kinds.len() >= MOST_KINDS {
                kind.log_limit();
                return Ok(None);
            }
            let followed = self.follow(kind, resource)?;
            Ok(shown(kinds.entry(kind.clone()).or_insert(followed)))
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<ObjectKind, TemplateWatch>) -> T) -> T {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut kinds);
        let count = i64::try_from(kinds.len()).unwrap_or(i64::MAX);
        self.metrics.watched_kinds.get_or_create(&metrics::Kind { kind: "Template" }).set(count);
        result
    }

    fn follow(&self, kind: &ObjectKind, resource: &Resource) -> Result<TemplateWatch, InvalidSegment> {
        let api = resource.api(self.client.clone(), self.namespace.as_deref())?;
        let selection = WatchSelection::by_labels(NOT_OWNED);
        let (listed, is_listed) = watch::channel(false);
        let changed = {
            let (kind, changed) = (kind.clone(), self.changed.clone());
            move |change: StoreChange<'_, ObjectMetadata>| match change {
                StoreChange::One(template) => changed(&kind, Some(key_of(template))),
                StoreChange::All => {
                    listed.send_replace(true);
                    changed(&kind, None);
                }
            }
        };
        let (resource, metrics) = (resource.as_api().clone(), self.metrics.clone());
        let watched = WatchedKind {
            metric: "Template",
            kind: kind.kind.clone(),
            version: resource.api_version.clone(),
            ends_if_unserved: true,
        };
        let (objects, following) = metadata::follow(api, resource, selection, watched, metrics, changed);
        let store = objects.store().clone();
        Ok(TemplateWatch { store, is_listed, _watch: AbortOnDropHandle::new(tokio::spawn(following)) })
    }
}

async fn look_up(one: &ObjectApi<ObjectMetadata>) -> Result<Option<Arc<ObjectMetadata>>, kube::Error> {
    Ok(one.get_opt().await?.map(Arc::new))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    /// An API server on which every kind is served in the version `v1` and has no objects, and the paths it was asked
    /// for.
    fn empty() -> (kube::Client, Arc<Mutex<Vec<String>>>) {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let noted = requests.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
            noted.lock().unwrap().push(path.clone());
            async move {
                if query.contains("watch=true") {
                    std::future::pending::<()>().await;
                }
                let (code, body) = match path.contains("/v1/") && query.contains("limit=") {
                    true => (200, json!({"metadata": {"resourceVersion": "1"}, "items": []})),
                    false => (404, crate::kubernetes::scripted::status(404, "NotFound")),
                };
                let response = http::Response::builder().status(code).body(axum::body::Body::from(body.to_string()));
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        (kube::Client::new(service, "default"), requests)
    }

    fn kind(version: &str, number: usize) -> ObjectKind {
        ObjectKind { group: "g.io".to_owned(), version: version.to_owned(), kind: format!("T{number}Template") }
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_watched_kinds_is_limited_and_others_are_read() {
        // DEC-45
        let (client, requests) = empty();
        let metrics = Arc::new(Metrics::default());
        let templates = Templates::new(client, None, metrics.clone(), |_, _| {});
        let get = async |kind: &ObjectKind| {
            let deadline = Instant::now() + Duration::from_secs(5);
            templates.get(kind, &ObjectKey::new("ns", "one"), deadline).await.unwrap()
        };
        let watched = || metrics.watched_kinds.get_or_create(&metrics::Kind { kind: "Template" }).get();
        for version in 2..=203 {
            assert!(get(&kind(&format!("v{version}"), 0)).await.is_none());
        }
        assert_eq!(watched(), 0, "versions that are not served");
        for number in 0..MOST_KINDS {
            assert!(get(&kind("v1", number)).await.is_none());
        }
        assert_eq!(usize::try_from(watched()), Ok(MOST_KINDS));
        requests.lock().unwrap().clear();
        assert!(get(&kind("v1", MOST_KINDS)).await.is_none());
        let path = format!("/apis/g.io/v1/namespaces/ns/t{MOST_KINDS}templates/one");
        assert_eq!(std::mem::take(&mut *requests.lock().unwrap()), [path], "one request, and no watch");
        assert_eq!(usize::try_from(watched()), Ok(MOST_KINDS));
        templates.keep_only(&BTreeSet::from([kind("v1", 7)]));
        assert!(get(&kind("v1", MOST_KINDS)).await.is_none());
        assert_eq!(watched(), 2, "there is room again");
    }
}

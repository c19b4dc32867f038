//! The leader's caches of the objects of topologies.
//!
//! ```text
//! the first question about a kind ─► its watch ─► object_store.rs (compact, by key and Cluster) ─► object, list
//!                                         └─► changed: whose Cluster to reconcile again
//! ```
//!
//! Kinds of providers are found at run time (RS-03). Templates are watched all of them, since classes refer to some
//! (DEC-29); of other kinds only what belongs to a topology. The caller reads what no watch covers.

mod object_store;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::api::Api;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use self::object_store::ObjectStore;
pub(super) use self::object_store::slim;
use super::WatchSelection as Selected;
use super::address::{self, Resource};
use super::list_watch::Fault;
use super::observations::{self, Observation, WatchedKind};
use super::raw_object::RawObject;
use super::templates::{MOST_KINDS, ObjectKind};
use super::unlisted::Unlisted;
use crate::telemetry::metrics::{self, Metrics};
use model::hub::contract::is_template_kind;
use model::hub::{GROUP, Kind, Object, ObjectKey, ObjectRef, label, version_of};
use model::world::{Found, Selection};

/// A change of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectChange<'a> {
    pub kind: &'a ObjectKind,
    pub key: &'a ObjectKey,
    /// The name of the Cluster that its label names.
    pub cluster: Option<&'a str>,
}

type Listener = dyn Fn(ObjectChange<'_>) + Send + Sync;

/// The objects of the kinds that topologies use. Dropping it ends every watch.
pub struct ManagedObjects {
    client: kube::Client,
    namespace: Option<String>,
    metrics: Arc<Metrics>,
    changed: Arc<Listener>,
    kinds: Mutex<BTreeMap<ObjectKind, FollowedKind>>,
    /// Counts the kinds that became known.
    listings: watch::Sender<u64>,
}

struct FollowedKind {
    object_store: Arc<ObjectStore>,
    state: watch::Receiver<KindState>,
    since: Instant,
    _watch: AbortOnDropHandle<()>,
}

impl FollowedKind {
    fn is_unserved(&self) -> bool {
        *self.state.borrow() == KindState::Unserved
    }
}

/// Gives up the kind that could not be listed for longest. The API server answers "forbidden" for a kind that it does
/// not serve, unless its client may list every kind, so a user who can name kinds could fill all places with such
/// names.
fn make_room(kinds: &mut BTreeMap<ObjectKind, FollowedKind>) -> bool {
    let has_failed = |followed: &FollowedKind| {
        matches!(*followed.state.borrow(), KindState::Refused { .. }) && followed.since.elapsed() >= UNSERVED
    };
    let failed = kinds.iter().filter(|(_, followed)| has_failed(followed));
    let oldest = failed.min_by_key(|(_, followed)| followed.since).map(|(kind, _)| kind.clone());
    oldest.is_some_and(|oldest| kinds.remove(&oldest).is_some())
}

/// The progress of the watch of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KindState {
    /// Nothing is known of the kind yet. The API server may not have answered at all.
    Starting,
    Listed,
    /// Nothing serves the kind. The watch has ended.
    Unserved,
    /// Too many kinds are watched already.
    Unwatched,
    /// The API server does not list the kind, since that instant.
    Refused {
        reason: String,
        since: Instant,
    },
    /// The kind cannot be a part of a path.
    Malformed(String),
}

/// How long it counts that nothing serves a kind.
const UNSERVED: Duration = Duration::from_secs(10);
/// How long the list of a kind that is new is waited for.
const LISTING: Duration = Duration::from_secs(2);
/// How long the API server refuses to list a kind before that is a result. It also refuses while it starts.
pub const REFUSED: Duration = Duration::from_secs(30);

impl fmt::Debug for ManagedObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().iter().map(|(kind, followed)| (kind, followed.object_store.size()))).finish()
    }
}

impl ManagedObjects {
    /// Nothing watched yet, and never anything outside of `namespace` if there is one. `changed` learns of each object
    /// that came, went, or is different in more than its version; of a list that is read for the first time it learns
    /// nothing.
    pub fn new(
        client: kube::Client,
        namespace: Option<&str>,
        metrics: Arc<Metrics>,
        changed: impl Fn(ObjectChange<'_>) + Send + Sync + 'static,
    ) -> Self {
        let namespace = namespace.map(str::to_owned);
        let listings = watch::channel(0).0;
        ManagedObjects { client, namespace, metrics, changed: Arc::new(changed), kinds: Mutex::default(), listings }
    }

    /// An object of which the watch knows; one that it does not know may exist all the same.
    ///
    /// # Errors
    /// When its kind is not listed yet.
    pub async fn object(&self, reference: &ObjectRef, deadline: Instant) -> Result<Found<Arc<Object>>, Unlisted> {
        let (kept, state) = self.ready(&kind_of(&reference.api_version, &reference.kind), deadline).await?;
        Ok(match state {
            KindState::Listed => match kept.get(&reference.key) {
                Some(found) => match address::answers(reference, &found) {
                    Ok(()) => Found::Yes(found),
                    Err(error) => Found::Unreadable(error.to_string()),
                },
                None => Found::Absent,
            },
            KindState::Unserved | KindState::Unwatched => Found::Absent,
            state => Found::Unreadable(refused(&reference.kind, &state)),
        })
    }

    /// The objects of a selection, by name; absent when nothing serves their kind.
    ///
    /// # Errors
    /// When the kind is not listed yet.
    pub async fn list(&self, selection: &Selection, deadline: Instant) -> Result<Found<Vec<Arc<Object>>>, Unlisted> {
        let (kept, state) = self.ready(&kind_of(&selection.api_version, &selection.kind), deadline).await?;
        Ok(match state {
            KindState::Listed => Found::Yes(kept.list(selection)),
            KindState::Unserved => Found::Absent,
            state => Found::Unreadable(refused(&selection.kind, &state)),
        })
    }

    /// Whether questions about a kind do not wait for its list any more.
    pub(crate) fn has_listed(&self, kind: &ObjectKind) -> bool {
        self.lock().get(kind).is_none_or(|followed| followed.state.borrow().is_known())
    }

    /// Tells of each kind that became known.
    pub(crate) fn listings(&self) -> watch::Receiver<u64> {
        self.listings.subscribe()
    }

    /// The Cluster of that name as the watch last showed it.
    pub fn cluster(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.of_clusters().0.get(key)
    }

    /// The keys of all Clusters, once they are listed.
    pub async fn clusters(&self) -> Vec<ObjectKey> {
        let (kept, mut state) = self.of_clusters();
        // An error means that the watch is over, and so is the caller.
        let _ = state.wait_for(|state| *state == KindState::Listed).await;
        kept.keys()
    }

    /// Whether the watch of a kind has shown a version that was written (RS-11); of a kind that is not watched there is
    /// nothing to wait for.
    pub fn has_seen(&self, api_version: &str, kind: &str, version: &str) -> bool {
        let kinds = self.lock();
        let followed = kinds.get(&kind_of(api_version, kind));
        followed.is_none_or(|followed| followed.is_unserved() || followed.object_store.has_seen(version))
    }

    /// How many objects are kept, and how many bytes they take.
    pub fn size(&self) -> (usize, usize) {
        self.lock().values().map(|followed| followed.object_store.size()).fold((0, 0), |(n, m), (a, b)| (n + a, m + b))
    }

    /// The objects of a kind whose state is known. The list is waited for while the kind is new, so that what comes
    /// later does not wait for each of many Clusters.
    async fn ready(&self, kind: &ObjectKind, deadline: Instant) -> Result<(Arc<ObjectStore>, KindState), Unlisted> {
        let resource = match kind.resource() {
            Ok(resource) => resource,
            Err(malformed) => return Ok((Arc::default(), KindState::Malformed(malformed.to_string()))),
        };
        let Some((kept, mut state)) = self.follow_if_new(kind, &resource) else {
            return Ok((Arc::default(), KindState::Unwatched));
        };
        let since = self.lock().get(kind).map_or_else(Instant::now, |followed| followed.since);
        match timeout_at(deadline.min(since + LISTING), state.wait_for(KindState::is_known)).await {
            Ok(Ok(state)) => Ok((kept, state.clone())),
            _ => Err(Unlisted::Kind(kind.clone())),
        }
    }

    /// The Clusters, which are always watched.
    fn of_clusters(&self) -> (Arc<ObjectStore>, watch::Receiver<KindState>) {
        let resource = Resource::known(GROUP, "v1beta2", Kind::Cluster.name());
        let followed = self.follow_if_new(&clusters(), &resource);
        followed.unwrap_or_else(|| (Arc::default(), watch::channel(KindState::Unwatched).1))
    }

    /// What the watch of a kind shows; nothing when too many kinds are watched. The kinds of Cluster API itself do not
    /// count, of which there are a few; nor do those that nothing serves.
    fn follow_if_new(
        &self,
        kind: &ObjectKind,
        resource: &Resource,
    ) -> Option<(Arc<ObjectStore>, watch::Receiver<KindState>)> {
        let mut kinds = self.lock();
        kinds.retain(|_, followed| !followed.is_unserved() || followed.since.elapsed() < UNSERVED);
        if !kinds.contains_key(kind) {
            let counts = |kind: &ObjectKind| kind.group != GROUP;
            let count = kinds.iter().filter(|(kind, followed)| counts(kind) && !followed.is_unserved()).count();
            if counts(kind) && count >= MOST_KINDS && !make_room(&mut kinds) {
                let ObjectKind { group, version, kind } = kind;
                warn!(
                    group,
                    version,
                    kind,
                    limit = MOST_KINDS,
                    "Limit of watched kinds reached; not watching this kind of managed objects"
                );
                return None;
            }
            kinds.insert(kind.clone(), self.follow(kind, resource));
            let watched = kinds.values().filter(|followed| !followed.is_unserved()).count();
            let count = i64::try_from(watched).unwrap_or(i64::MAX);
            self.metrics.watched_kinds.get_or_create(&metrics::Kind { kind: "Managed" }).set(count);
        }
        kinds.get(kind).map(|followed| (followed.object_store.clone(), followed.state.clone()))
    }

    fn follow(&self, kind: &ObjectKind, resource: &Resource) -> FollowedKind {
        let (kept, (report, state)) = (Arc::new(ObjectStore::default()), watch::channel(KindState::Starting));
        let follow = KindFollower {
            kind: kind.clone(),
            object_store: kept.clone(),
            changed: self.changed.clone(),
            metrics: self.metrics.clone(),
            report,
            listings: self.listings.clone(),
        };
        let selected = Selected { labels: selector(kind).map(str::to_owned), ..Selected::default() };
        let (client, namespace, resource) = (self.client.clone(), self.namespace.clone(), resource.clone());
        let watch = async move {
            match resource.api(client, namespace.as_deref()) {
                Ok(api) => follow.run(api, &resource.as_api().api_version, selected).await,
                Err(malformed) => follow.report(KindState::Malformed(malformed.to_string())),
            }
        };
        let watch = AbortOnDropHandle::new(tokio::spawn(watch));
        FollowedKind { object_store: kept, state, since: Instant::now(), _watch: watch }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ObjectKind, FollowedKind>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KindState {
    /// Whether it is a result.
    fn is_known(&self) -> bool {
        match self {
            KindState::Starting => false,
            KindState::Refused { since, .. } => since.elapsed() >= REFUSED,
            _ => true,
        }
    }

    /// The state of a kind that is not listed and whose list fails.
    fn after(&self, fault: &Fault) -> KindState {
        match (self, fault.is_refusal()) {
            (_, false) => KindState::Starting,
            (KindState::Refused { since, .. }, true) => KindState::Refused { reason: fault.to_string(), since: *since },
            (_, true) => KindState::Refused { reason: fault.to_string(), since: Instant::now() },
        }
    }
}

/// Why the objects of a kind are not listed.
fn refused(kind: &str, state: &KindState) -> String {
    match state {
        KindState::Unwatched => {
            format!("{kind}s are not listed: {MOST_KINDS} other kinds are already watched, which is the limit")
        }
        KindState::Refused { reason, .. } | KindState::Malformed(reason) => {
            format!("{kind}s cannot be listed: {reason}")
        }
        KindState::Starting | KindState::Listed | KindState::Unserved => format!("{kind}s are not listed"),
    }
}

/// Clusters, which all have their own entry here.
fn clusters() -> ObjectKind {
    kind_of(&format!("{GROUP}/v1beta2"), Kind::Cluster.name())
}

fn kind_of(api_version: &str, kind: &str) -> ObjectKind {
    let group = model::hub::group_of(api_version).to_owned();
    ObjectKind { group, version: version_of(api_version).to_owned(), kind: kind.to_owned() }
}

/// Which objects of a kind are watched.
fn selector(kind: &ObjectKind) -> Option<&'static str> {
    let is_cluster = kind.group == GROUP && kind.kind == Kind::Cluster.name();
    (!is_cluster && !is_template_kind(&kind.kind)).then_some(label::OWNED)
}

/// One watch.
struct KindFollower {
    kind: ObjectKind,
    object_store: Arc<ObjectStore>,
    changed: Arc<Listener>,
    metrics: Arc<Metrics>,
    report: watch::Sender<KindState>,
    listings: watch::Sender<u64>,
}

impl KindFollower {
    /// The watch has come this far.
    fn report(&self, state: KindState) {
        self.report.send_replace(state);
        self.listings.send_modify(|count| *count += 1);
    }

    async fn run(self, api: Api<RawObject>, version: &str, selected: Selected) {
        let watched = WatchedKind {
            metric: "Managed",
            kind: self.kind.kind.clone(),
            version: version.to_owned(),
            ends_if_unserved: true,
        };
        let mut seen = observations::follow(api, selected, watched, self.metrics.clone());
        while let Some(seen) = seen.next().await {
            self.apply(seen);
        }
        self.report(KindState::Unserved);
    }

    fn apply(&self, seen: Observation<RawObject>) {
        let is_listed = *self.report.borrow() == KindState::Listed;
        match seen {
            Observation::There { object, .. } => self.put(&object, is_listed),
            Observation::Gone(object) => {
                let version = kube::ResourceExt::resource_version(&object);
                self.remove(&object.key(), version.as_deref());
            }
            Observation::Listed { keys, .. } => {
                for key in self.object_store.keys().into_iter().filter(|key| !keys.contains(key)) {
                    self.remove(&key, None);
                }
                if !is_listed {
                    self.report(KindState::Listed);
                }
            }
            // Objects that were listed once stay usable.
            Observation::Failed(fault) if !is_listed => {
                let state = self.report.borrow().after(&fault);
                self.report.send_replace(state);
            }
            Observation::Alive | Observation::Failed(_) => {}
        }
    }

    fn put(&self, object: &RawObject, tells: bool) {
        let read = serde_json::from_str::<Value>(object.text()).map_err(|error| error.to_string());
        match read.and_then(|value| Object::try_from(value).map_err(|found| format!("it is {found}"))) {
            Ok(object) => {
                let (key, cluster) = (object.key(), object.label(label::CLUSTER_NAME).map(str::to_owned));
                if self.object_store.put(object) && tells {
                    (self.changed)(ObjectChange { kind: &self.kind, key: &key, cluster: cluster.as_deref() });
                }
            }
            Err(error) => {
                self.metrics.unreadable_objects.get_or_create(&metrics::Kind { kind: "Managed" }).inc();
                warn!(kind = self.kind.kind, object = %object.key(), error, "Failed to decode an object");
            }
        }
    }

    fn remove(&self, key: &ObjectKey, version: Option<&str>) {
        if let Some(gone) = self.object_store.remove(key, version) {
            (self.changed)(ObjectChange { kind: &self.kind, key, cluster: gone.cluster.as_deref() });
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::kubernetes::scripted::{Script, ScriptedAnswer};

    const THINGS: &str = "/apis/example.com/v1/things";

    fn thing(name: &str, version: &str, size: u32) -> Value {
        let labels = json!({label::CLUSTER_NAME: "c"});
        let metadata = json!({"namespace": "ns", "name": name, "resourceVersion": version, "labels": labels});
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": {"size": size}})
    }

    fn list(version: &str, items: &[Value]) -> ScriptedAnswer {
        ScriptedAnswer::ok(json!({"metadata": {"resourceVersion": version}, "items": items}))
    }

    fn reference(name: &str) -> ObjectRef {
        ObjectRef::new("example.com/v1", "Thing", ObjectKey::new("ns", name))
    }

    type ChangedObjects = Arc<Mutex<Vec<(String, Option<String>)>>>;

    fn managed(script: &Script) -> (ManagedObjects, ChangedObjects) {
        let changed_objects = ChangedObjects::default();
        let note = changed_objects.clone();
        let changed = move |changed: ObjectChange<'_>| {
            note.lock().unwrap().push((changed.key.name.clone(), changed.cluster.map(str::to_owned)));
        };
        (ManagedObjects::new(script.client(), None, Arc::default(), changed), changed_objects)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_is_watched_from_the_first_question_on() {
        // RS-02, RS-03
        let script = Script::default();
        let owned = ["labelSelector=topology.cluster.x-k8s.io%2Fowned"];
        script.get(THINGS, &owned, list("5", &[thing("a", "3", 1), thing("b", "4", 1)]));
        let change = |kind: &str, object: Value| (Duration::from_secs(1), json!({"type": kind, "object": object}));
        let events = vec![
            change("MODIFIED", thing("a", "6", 1)),
            change("MODIFIED", thing("a", "7", 2)),
            change("DELETED", thing("b", "8", 1)),
        ];
        script.expect(&Method::GET, THINGS, &["watch=true", "resourceVersion=5"], ScriptedAnswer::OpenWatch(events));
        let (managed, changed_objects) = managed(&script);
        let Ok(Found::Yes(found)) = managed.object(&reference("a"), soon()).await else { panic!("it is listed") };
        assert_eq!(found.at("spec.size"), Some(&json!(1)));
        assert_eq!(managed.object(&reference("z"), soon()).await, Ok(Found::Absent));
        assert!(changed_objects.lock().unwrap().is_empty(), "a first list is no news");
        assert!(!managed.has_seen("example.com/v1", "Thing", "7"));
        tokio::time::sleep(Duration::from_secs(5)).await;
        let c = || Some("c".to_owned());
        assert_eq!(*changed_objects.lock().unwrap(), [("a".to_owned(), c()), ("b".to_owned(), c())]);
        assert!(managed.has_seen("example.com/v1", "Thing", "8") && managed.has_seen("example.com/v1", "Other", "99"));
        assert_eq!(managed.object(&reference("b"), soon()).await, Ok(Found::Absent));
        assert_eq!(script.left(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_that_cannot_be_listed_give_a_reason_and_unserved_kinds_are_absent() {
        let script = Script::default();
        script.get(THINGS, &[], ScriptedAnswer::error(404, "NotFound"));
        let (unserved, _) = managed(&script);
        assert_eq!(unserved.object(&reference("a"), soon()).await, Ok(Found::Absent));
        let selection = Selection {
            api_version: "example.com/v1".to_owned(),
            kind: "Thing".to_owned(),
            namespace: "ns".to_owned(),
            labels: BTreeMap::new(),
        };
        assert_eq!(unserved.list(&selection, soon()).await, Ok(Found::Absent));
    }

    /// A server that answers each request for Things with this code, or not at all.
    fn refusing(code: Option<u16>) -> kube::Client {
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
            let Some(code) = code else { return std::future::pending().await };
            let body = crate::kubernetes::scripted::status(code, "Refused").to_string();
            let response = http::Response::builder().status(code).body(axum::body::Body::from(body));
            Ok::<_, std::convert::Infallible>(response.unwrap())
        });
        kube::Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_lasting_refusal_to_list_a_kind_is_a_result() {
        // DEC-100
        for (code, lasts) in
            [(Some(403), true), (Some(500), true), (Some(429), false), (Some(503), false), (None, false)]
        {
            let managed = ManagedObjects::new(refusing(code), None, Arc::default(), |_| {});
            let (kind, started) = (kind_of("example.com/v1", "Thing"), Instant::now());
            assert_eq!(managed.object(&reference("a"), soon()).await, Err(Unlisted::Kind(kind.clone())), "{code:?}");
            assert_eq!(started.elapsed(), LISTING, "{code:?}");
            assert_eq!(managed.object(&reference("b"), soon()).await, Err(Unlisted::Kind(kind.clone())), "{code:?}");
            assert_eq!(started.elapsed(), LISTING, "{code:?}: the second one does not wait");
            assert!(!managed.has_listed(&kind));
            tokio::time::sleep(REFUSED).await;
            match managed.object(&reference("a"), soon()).await {
                Ok(Found::Unreadable(reason)) if lasts => {
                    assert!(
                        reason.contains("Things cannot be listed") && reason.contains("scripted Refused"),
                        "{reason}"
                    );
                    assert!(managed.has_listed(&kind), "it is not waited for");
                }
                Err(_) if !lasts => {}
                other => panic!("{code:?}: {other:?}"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_becomes_known_is_reported() {
        // DEC-100
        let script = Script::default();
        script.get(THINGS, &[], ScriptedAnswer::error(503, "Unavailable"));
        script.get(THINGS, &[], list("5", &[thing("a", "3", 1)]));
        script.expect(&Method::GET, THINGS, &["watch=true"], ScriptedAnswer::Silence);
        let (managed, changed_objects) = managed(&script);
        let mut listings = managed.listings();
        let at_once = Instant::now();
        assert!(managed.object(&reference("a"), at_once).await.is_err());
        tokio::time::timeout(Duration::from_secs(20), listings.changed()).await.unwrap().unwrap();
        assert!(matches!(managed.object(&reference("a"), at_once).await, Ok(Found::Yes(_))));
        assert!(changed_objects.lock().unwrap().is_empty(), "a first list is no news of objects");
    }

    #[tokio::test(start_paused = true)]
    async fn unserved_kinds_are_not_watched_and_the_number_of_watched_kinds_is_limited() {
        // DEC-45
        let served = Arc::new(Mutex::new(0_usize));
        let requests = served.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            *requests.lock().unwrap() += 1;
            let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
            async move {
                if query.contains("watch=true") {
                    std::future::pending::<()>().await;
                }
                if path.contains("/forbidden.com/") {
                    let body = crate::kubernetes::scripted::status(403, "Forbidden").to_string();
                    let response = http::Response::builder().status(403).body(axum::body::Body::from(body));
                    return Ok::<_, std::convert::Infallible>(response.unwrap());
                }
                let (code, body) = match path.contains("/v1/") || path.starts_with("/apis/cluster.x-k8s.io/") {
                    true => (200, json!({"metadata": {"resourceVersion": "1"}, "items": []})),
                    false => (404, crate::kubernetes::scripted::status(404, "NotFound")),
                };
                let response = http::Response::builder().status(code).body(axum::body::Body::from(body.to_string()));
                Ok::<_, std::convert::Infallible>(response.unwrap())
            }
        });
        let metrics = Arc::new(Metrics::default());
        let client = kube::Client::new(service, "default");
        let managed = ManagedObjects::new(client.clone(), None, metrics.clone(), |_| {});
        let read = async |api_version: &str, kind: &str| {
            let reference = ObjectRef::new(api_version, kind, ObjectKey::new("ns", "a"));
            managed.object(&reference, soon()).await
        };
        let take = || std::mem::take(&mut *served.lock().unwrap());
        for _ in 0..2 {
            for version in 2..=203 {
                assert_eq!(read(&format!("example.com/v{version}"), "Thing").await, Ok(Found::Absent));
            }
        }
        assert_eq!(take(), 202, "each version is asked for once");
        tokio::time::sleep(UNSERVED * 6).await;
        assert_eq!(take(), 0, "and never by itself");
        assert_eq!(read("example.com/v2", "Thing").await, Ok(Found::Absent));
        assert_eq!((take(), managed.lock().len()), (1, 1), "the others are forgotten");
        for number in 0..MOST_KINDS {
            assert_eq!(read("example.com/v1", &format!("T{number}")).await, Ok(Found::Absent));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        take();
        let Ok(Found::Absent) = read("example.com/v1", "OneMore").await else {
            panic!("it is looked up by those who ask")
        };
        assert_eq!(take(), 0);
        let selection = Selection { api_version: "example.com/v1".to_owned(), kind: "OneMore".to_owned(), ..list_of() };
        let Ok(Found::Unreadable(reason)) = managed.list(&selection, soon()).await else { panic!("it is not watched") };
        assert_eq!(
            reason,
            format!("OneMores are not listed: {MOST_KINDS} other kinds are already watched, which is the limit")
        );
        assert_eq!(read("cluster.x-k8s.io/v1beta2", "Machine").await, Ok(Found::Absent));
        assert!(take() > 0, "Cluster API's own kinds have a place");
        drop(managed);
        let managed = ManagedObjects::new(client, None, metrics.clone(), |_| {});
        let read = async |api_version: &str, kind: &str| {
            let reference = ObjectRef::new(api_version, kind, ObjectKey::new("ns", "a"));
            managed.object(&reference, soon()).await
        };
        for number in 0..MOST_KINDS {
            let reference = ObjectRef::new("forbidden.com/v1", format!("T{number}"), ObjectKey::new("ns", "a"));
            assert!(managed.object(&reference, Instant::now()).await.is_err(), "{number}");
        }
        let Ok(Found::Absent) = read("example.com/v1", "T1").await else { panic!("it is looked up") };
        assert!(!managed.lock().contains_key(&kind_of("example.com/v1", "T1")), "there is no room yet");
        tokio::time::sleep(UNSERVED).await;
        let Ok(Found::Absent) = read("example.com/v1", "T1").await else { panic!("it is listed") };
        assert!(managed.lock().contains_key(&kind_of("example.com/v1", "T1")), "what is forbidden makes room");
        let Ok(Found::Unreadable(reason)) = read("example.com/v%31", "T1").await else { panic!("it is not a version") };
        assert!(reason.contains("the version \"v%31\" must"), "{reason}");
    }

    fn list_of() -> Selection {
        let (api_version, kind, namespace) = (String::new(), String::new(), "ns".to_owned());
        Selection { api_version, kind, namespace, labels: BTreeMap::new() }
    }

    #[test]
    fn all_templates_are_watched_and_of_other_kinds_only_objects_of_topologies() {
        // DEC-29
        let of = |api_version: &str, kind: &str| selector(&kind_of(api_version, kind));
        assert_eq!(of("infrastructure.cluster.x-k8s.io/v1beta1", "DockerMachineTemplate"), None);
        assert_eq!(of("cluster.x-k8s.io/v1beta2", "Cluster"), None);
        assert_eq!(of("infrastructure.cluster.x-k8s.io/v1beta1", "DockerCluster"), Some(label::OWNED));
        assert_eq!(of("infrastructure.example.com/v1", "Cluster"), Some(label::OWNED));
    }
}

//! Nodes of workload clusters (DEC-40).
//!
//! ```text
//! Secret <cluster>-kubeconfig ─► kubeconfig.rs ─► client, kept until the Secret changes
//!                                                    │
//!                     breaker: three times no response ─► no request for half a minute
//! ```
//!
//! The owner of a Cluster controls its kubeconfig, and with it the destination of requests and their responses. So they
//! are reads with the credentials of that file alone, over TLS, bounded in time, number and size, and never redirected;
//! and only the status code of a response is reported, never its body.

use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::core::v1::Secret;
use lru::LruCache;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;
use tracing::warn;

use super::address::{self, InvalidSegment};
use super::{describe, kubeconfig};
use model::hub::{Object, ObjectKey, paths};
use model::world::Nodes;
use schema::field::shortened;

/// How long a workload cluster may take, all its Nodes together.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
/// How many reviews may be waiting for workload clusters at a time, and for one of them: a tenant takes no more turns.
const READERS: usize = 64;
const READERS_OF_ONE: usize = 4;
/// How many Nodes of a cluster are read at a time.
const AT_A_TIME: usize = 8;
/// The largest answer in bytes. A Node with all its images has some ten thousand.
const ANSWER: usize = 1024 * 1024;
/// How many clients are kept.
const KEPT: NonZero<usize> = NonZero::new(256).expect("it is not zero");
/// After how many failures in a row a cluster is not asked any more, and for how long.
pub(super) const FAILURES: u32 = 3;
const REST: Duration = Duration::from_secs(30);

/// Why the Nodes of a workload cluster are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkloadError {
    #[error("Secret {0} does not exist")]
    NoSecret(ObjectKey),
    /// The permission is in an opt-in component of the manifests (DEC-47).
    #[error("permission to read Secret {0} is missing")]
    Forbidden(ObjectKey),
    #[error("Secret {0} cannot be read: {1}")]
    UnreadableSecret(ObjectKey, String),
    #[error("Secret {0} has no data `value`")]
    EmptySecret(ObjectKey),
    #[error("the kubeconfig in Secret {0} is not used: {1}")]
    Refused(ObjectKey, String),
    #[error("it failed {FAILURES} times in a row; the next attempt is in {0} seconds")]
    Resting(u64),
    #[error("it cannot be reached; see the log of topologist")]
    Unreachable,
    #[error("it did not answer in time")]
    TimedOut,
    #[error("it answered {0} to a request for {1}")]
    Answered(StatusCode, String),
    #[error("its response to a request for {0} is not an object, or is too large")]
    NoObject(String),
    #[error("invalid Node name: {0}")]
    Name(InvalidSegment),
    #[error("its kubeconfig Secret cannot be named: {0}")]
    SecretName(InvalidSegment),
    #[error("its response to a request for {0} holds another object")]
    Another(String),
}

impl WorkloadError {
    /// The outcome as metrics name it.
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            WorkloadError::NoSecret(_) | WorkloadError::EmptySecret(_) => "no_kubeconfig",
            WorkloadError::Forbidden(_) => "forbidden",
            WorkloadError::UnreadableSecret(..) | WorkloadError::SecretName(_) => "failed",
            WorkloadError::Refused(..) => "refused",
            WorkloadError::Resting(_) => "resting",
            WorkloadError::Unreachable => "unreachable",
            WorkloadError::TimedOut => "timed_out",
            WorkloadError::Answered(..)
            | WorkloadError::NoObject(_)
            | WorkloadError::Another(_)
            | WorkloadError::Name(_) => "answered",
        }
    }

    /// Whether the kubeconfig must not be used any more: the Secret is gone, or holds another one.
    pub(crate) fn is_about_kubeconfig(&self) -> bool {
        matches!(self, WorkloadError::NoSecret(_) | WorkloadError::EmptySecret(_) | WorkloadError::Refused(..))
    }

    /// Whether nothing was asked, because the cluster has failed several times before.
    pub(crate) fn is_resting(&self) -> bool {
        matches!(self, WorkloadError::Resting(_))
    }

    /// Whether there was no response.
    fn is_silence(&self) -> bool {
        match self {
            WorkloadError::Unreachable | WorkloadError::TimedOut => true,
            WorkloadError::Answered(code, _) => code.is_server_error(),
            _ => false,
        }
    }
}

/// The workload clusters of a management cluster.
pub(crate) struct Workloads {
    management: kube::Client,
    known: Mutex<LruCache<ObjectKey, KnownWorkload>>,
    readers: Semaphore,
}

/// A workload cluster with an open connection.
#[derive(Clone)]
struct KnownWorkload {
    /// Of the Secret that the client was made of.
    resource_version: Option<String>,
    link: WorkloadLink,
    turns: Arc<Semaphore>,
    breaker: Breaker,
}

/// A client, and the kubeconfig that it was made from.
#[derive(Clone)]
pub(crate) struct WorkloadLink {
    pub client: kube::Client,
    /// Another one leads to another server, or with other credentials.
    pub kubeconfig: Arc<[u8]>,
}

/// Limits requests to a cluster that does not respond.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Breaker {
    failures: u32,
    rests_until: Option<Instant>,
}

impl Breaker {
    /// Permits a request, or says how long none is sent. After a pause, one request is sent before the others.
    fn pass(&mut self, now: Instant) -> Result<(), Duration> {
        if let Some(left) =
            self.rests_until.and_then(|until| until.checked_duration_since(now)).filter(|d| !d.is_zero())
        {
            return Err(left);
        }
        self.rests_until = (self.failures >= FAILURES).then(|| now + REST);
        Ok(())
    }

    fn note(&mut self, is_silence: bool, now: Instant) {
        if is_silence {
            self.failures = self.failures.saturating_add(1);
            self.rests_until = (self.failures >= FAILURES).then(|| now + REST);
        } else {
            *self = Breaker::default();
        }
    }
}

impl Workloads {
    /// Workload clusters whose Secrets are in the cluster of `management`; no request has been sent yet.
    pub(super) fn new(management: kube::Client) -> Self {
        Workloads { management, known: Mutex::new(LruCache::new(KEPT)), readers: Semaphore::new(READERS) }
    }

    /// The same for a caller that forgets clusters, and whose number of clusters is its own affair.
    pub(crate) fn unbounded(management: kube::Client) -> Self {
        Workloads { management, known: Mutex::new(LruCache::unbounded()), readers: Semaphore::new(READERS) }
    }

    /// Reads the Secret of a cluster, and asks the cluster whether it answers; the same client until the kubeconfig is
    /// another one.
    pub(crate) async fn probe(&self, cluster: &ObjectKey) -> Result<WorkloadLink, WorkloadError> {
        let deadline = Instant::now() + PATIENCE * 3;
        let read = async {
            let (link, turns) = self.client(cluster).await?;
            let _turn = turns.acquire().await.map_err(|_| WorkloadError::TimedOut)?;
            let _reader = self.readers.acquire().await.map_err(|_| WorkloadError::TimedOut)?;
            self.ask(cluster, link.client.clone(), Vec::new(), deadline).await.map(|_| link)
        };
        timeout_at(deadline, read).await.unwrap_or(Err(WorkloadError::TimedOut))
    }

    /// Forgets all other clusters with their clients, whose connections end.
    pub(super) fn keep_only(&self, is_there: impl Fn(&ObjectKey) -> bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<ObjectKey> = known.iter().map(|(key, _)| key).filter(|key| !is_there(key)).cloned().collect();
        gone.iter().for_each(|key| drop(known.pop(key)));
    }

    /// Forgets a cluster with its client.
    pub(crate) fn forget(&self, cluster: &ObjectKey) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).pop(cluster);
    }

    /// These Nodes of the workload cluster of `cluster`, without those that do not exist; without names, whether the
    /// cluster answers. At `deadline` at the latest.
    pub(super) async fn nodes<'a>(
        &self,
        cluster: &ObjectKey,
        names: impl ExactSizeIterator<Item = &'a String>,
        deadline: Instant,
    ) -> Result<Nodes, WorkloadError> {
        let names: Vec<String> = names.cloned().collect();
        // Invalid names are rejected before a request is sent.
        names.iter().try_for_each(|name| address::nodes(Some(name)).map(drop)).map_err(WorkloadError::Name)?;
        let read = async {
            let (link, turns) = self.client(cluster).await?;
            let _turn = turns.acquire().await.map_err(|_| WorkloadError::TimedOut)?;
            let _reader = self.readers.acquire().await.map_err(|_| WorkloadError::TimedOut)?;
            self.ask(cluster, link.client, names, deadline).await
        };
        timeout_at(deadline, read).await.unwrap_or(Err(WorkloadError::TimedOut))
    }

    /// Asks the cluster for its Nodes, and notes whether it answered.
    async fn ask(
        &self,
        cluster: &ObjectKey,
        client: kube::Client,
        names: Vec<String>,
        deadline: Instant,
    ) -> Result<Nodes, WorkloadError> {
        self.with_breaker(cluster, |breaker| breaker.pass(Instant::now()))
            .unwrap_or(Ok(()))
            .map_err(|left| WorkloadError::Resting(left.as_secs() + 1))?;
        let started = Instant::now();
        let until = deadline.min(started + PATIENCE);
        let outcome = timeout_at(until, nodes(&client, cluster, names)).await.unwrap_or(Err(WorkloadError::TimedOut));
        let is_silence = match &outcome {
            // A caller in a hurry says nothing about the cluster.
            Err(WorkloadError::TimedOut) if started.elapsed() < PATIENCE / 2 => return outcome,
            Err(error) => error.is_silence(),
            Ok(_) => false,
        };
        self.with_breaker(cluster, |breaker| breaker.note(is_silence, Instant::now()));
        outcome
    }

    fn with_breaker<T>(&self, cluster: &ObjectKey, change: impl FnOnce(&mut Breaker) -> T) -> Option<T> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_mut(cluster).map(|known| change(&mut known.breaker))
    }

    /// A client for the cluster and the turns at it, the former ones if its Secret has not changed.
    async fn client(&self, cluster: &ObjectKey) -> Result<(WorkloadLink, Arc<Semaphore>), WorkloadError> {
        let key = ObjectKey::new(&cluster.namespace, format!("{}-kubeconfig", cluster.name));
        let secret = address::one::<Secret>(self.management.clone(), &key).map_err(WorkloadError::SecretName)?;
        let secret = match timeout_at(Instant::now() + PATIENCE, secret.get_opt()).await {
            Ok(Ok(Some(secret))) => secret,
            Ok(Ok(None)) => return Err(WorkloadError::NoSecret(key)),
            Ok(Err(kube::Error::Api(status))) if status.code == StatusCode::FORBIDDEN.as_u16() => {
                return Err(WorkloadError::Forbidden(key));
            }
            Ok(Err(error)) => return Err(WorkloadError::UnreadableSecret(key, describe(&error))),
            Err(_) => {
                return Err(WorkloadError::UnreadableSecret(key, "the API server did not answer in time".to_owned()));
            }
        };
        let resource_version = secret.metadata.resource_version;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(cluster).filter(|known| known.resource_version == resource_version) {
            return Ok((known.link.clone(), known.turns.clone()));
        }
        let value = secret.data.and_then(|mut data| data.remove("value"));
        let value = value.ok_or_else(|| WorkloadError::EmptySecret(key.clone()))?;
        // A Secret with another label leads to the same server.
        if let Some(known) = known.get_mut(cluster).filter(|known| *known.link.kubeconfig == *value.0) {
            (known.resource_version, known.breaker) = (resource_version, Breaker::default());
            return Ok((known.link.clone(), known.turns.clone()));
        }
        let refused = |reason: String| WorkloadError::Refused(key.clone(), reason);
        let mut config = kubeconfig::read(&value.0).map_err(|error| refused(error.to_string()))?;
        // A connection without waiting requests ends too.
        config.connect_timeout = Some(PATIENCE * 2);
        let client = kube::Client::try_from(config)
            .map_err(|_| refused("invalid certificates, key or server name".to_owned()))?;
        let link = WorkloadLink { client, kubeconfig: value.0.into() };
        let (turns, breaker) = (Arc::new(Semaphore::new(READERS_OF_ONE)), Breaker::default());
        known.put(
            cluster.clone(),
            KnownWorkload { resource_version, link: link.clone(), turns: turns.clone(), breaker },
        );
        Ok((link, turns))
    }
}

async fn nodes(client: &kube::Client, cluster: &ObjectKey, names: Vec<String>) -> Result<Nodes, WorkloadError> {
    if names.is_empty() {
        let path = address::nodes(None).map_err(WorkloadError::Name)?;
        get(client, cluster, "Nodes", &format!("{path}?limit=1")).await?;
        return Ok(Nodes::new());
    }
    let node = |name: String| async move {
        let (path, what) = (address::nodes(Some(&name)).map_err(WorkloadError::Name)?, format!("Node {name}"));
        match get(client, cluster, &what, &path).await? {
            Some(node) if node.name() == name && matches!(node.kind(), "Node" | "") => Ok(Some((name, node.into()))),
            Some(_) => Err(WorkloadError::Another(what)),
            None => Ok(None),
        }
    };
    let found = stream::iter(names).map(node).buffer_unordered(AT_A_TIME);
    found.try_filter_map(|node| async move { Ok(node) }).try_collect().await
}

/// The object at a path; nothing when the API server says that there is none.
async fn get(
    client: &kube::Client,
    cluster: &ObjectKey,
    what: &str,
    path: &str,
) -> Result<Option<Object>, WorkloadError> {
    let request = Request::get(path).header(http::header::ACCEPT, "application/json").body(kube::client::Body::empty());
    let request = request.map_err(|_| WorkloadError::NoObject(what.to_owned()))?;
    // The client would log failures as its own errors; they are errors of the owner of the cluster.
    let sent = client.send(request).with_subscriber(NoSubscriber::default()).await;
    let response = sent.map_err(|error| {
        warn!(%cluster, error = %shortened(&describe(&error)), "Cannot reach the workload cluster");
        WorkloadError::Unreachable
    })?;
    let code = response.status();
    let body = Limited::new(response.into_body(), ANSWER).collect().await;
    let bytes = body.map_err(|_| WorkloadError::NoObject(what.to_owned()))?.to_bytes();
    let object = serde_json::from_slice::<Map<String, Value>>(&bytes).ok().map(Object::from);
    match (code, object) {
        (StatusCode::OK, Some(mut object)) => {
            object.remove(paths::metadata::MANAGED_FIELDS);
            object.remove("status.images");
            Ok(Some(object))
        }
        (StatusCode::OK, None) => Err(WorkloadError::NoObject(what.to_owned())),
        (StatusCode::NOT_FOUND, Some(status)) if status.text("reason") == Ok(Some("NotFound")) => Ok(None),
        (code, _) => Err(WorkloadError::Answered(code, what.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::body::Body;
    use axum::extract::State;
    use axum::http::{HeaderMap, Response, Uri};
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;
    use tokio::net::TcpListener;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::kubernetes::scripted::{Script, ScriptedAnswer};
    use crate::telemetry::metrics::Metrics;
    use crate::webhook::server::{ConnectionLimits, HttpServer};
    use testing::Lines;
    use tls::authority::IssuedCertificate;
    use tls::identity::ServerIdentity;
    use tls::pair::CertificateFiles;

    const TOKEN: &str = "s3cret-t0ken";
    const SECRET: &str = "/api/v1/namespaces/ns/secrets/one-kubeconfig";

    /// A workload cluster on loopback: `n1` exists, `moved` is elsewhere, `large` is large, and a client without the
    /// token is unauthorized.
    struct Workload {
        url: String,
        authority: String,
        requests: Arc<AtomicUsize>,
    }

    impl Workload {
        async fn start() -> Self {
            let issued = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap();
            let metrics = Arc::new(Metrics::default());
            let identity = Arc::new(ServerIdentity::new(None, metrics.clone()));
            let files = CertificateFiles { certificate: "tls.crt".into(), key: "tls.key".into() };
            identity.install(&issued.pair(), &files).unwrap();
            let any = "127.0.0.1:0".parse().unwrap();
            let server = HttpServer::bind(any, Some(identity), ConnectionLimits::default(), metrics).await.unwrap();
            let url = format!("https://{}", server.local_address().unwrap());
            let requests = Arc::new(AtomicUsize::new(0));
            let router = Router::new().fallback(node).with_state(requests.clone());
            tokio::spawn(server.serve(router, CancellationToken::new()));
            Workload { url, authority: issued.authority, requests }
        }

        fn kubeconfig(&self) -> Value {
            kubeconfig(&self.url, &self.authority)
        }
    }

    async fn node(State(requests): State<Arc<AtomicUsize>>, uri: Uri, headers: HeaderMap) -> Response<Body> {
        requests.fetch_add(1, Ordering::SeqCst);
        let answer = |code: u16, body: String| Response::builder().status(code).body(Body::from(body)).unwrap();
        if headers.get("authorization").is_none_or(|shown| shown != &format!("Bearer {TOKEN}")) {
            return answer(401, json!({"kind": "Status", "reason": "Unauthorized"}).to_string());
        }
        let node =
            |name: &str| json!({"kind": "Node", "metadata": {"name": name}, "status": {"images": [1]}}).to_string();
        match uri.path() {
            "/api/v1/nodes" => answer(200, json!({"kind": "NodeList", "items": []}).to_string()),
            "/api/v1/nodes/n1" => answer(200, node("n1")),
            "/api/v1/nodes/moved" => {
                let mut moved = answer(302, String::new());
                moved.headers_mut().insert("location", "/api/v1/nodes/n1".parse().unwrap());
                moved
            }
            "/api/v1/nodes/large" => answer(200, format!("{{\"a\":\"{}\"}}", "x".repeat(ANSWER))),
            "/api/v1/nodes/text" => answer(200, "hello".to_owned()),
            "/api/v1/nodes/broken" => answer(500, "stack trace".to_owned()),
            "/api/v1/nodes/lost" => answer(404, "404 page not found".to_owned()),
            _ => answer(404, json!({"kind": "Status", "reason": "NotFound"}).to_string()),
        }
    }

    fn kubeconfig(url: &str, authority: &str) -> Value {
        let cluster = json!({"server": url, "certificate-authority-data": STANDARD.encode(authority)});
        json!({
            "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": cluster}], "users": [{"name": "x", "user": {"token": TOKEN}}],
        })
    }

    /// The Secret of the Cluster `ns/one`.
    fn secret(version: &str, kubeconfig: &Value) -> ScriptedAnswer {
        let metadata = json!({"namespace": "ns", "name": "one-kubeconfig", "resourceVersion": version});
        let data = json!({"value": STANDARD.encode(kubeconfig.to_string())});
        ScriptedAnswer::ok(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}))
    }

    async fn ask(workloads: &Workloads, names: &[&str]) -> Result<Vec<String>, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let deadline = Instant::now() + Duration::from_secs(9);
        let nodes = workloads.nodes(&ObjectKey::new("ns", "one"), names.iter(), deadline).await;
        nodes.map(|nodes| nodes.into_keys().collect()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn nodes_are_read_over_tls_with_the_kubeconfig_of_the_cluster() {
        // DEC-40
        let (script, workload) = (Script::default(), Workload::start().await);
        let workloads = Workloads::new(script.client());
        script.get(SECRET, &[], secret("1", &workload.kubeconfig()));
        assert_eq!(ask(&workloads, &["n1", "absent"]).await, Ok(vec!["n1".to_owned()]));
        script.get(SECRET, &[], secret("1", &json!({})));
        assert_eq!(ask(&workloads, &[]).await, Ok(vec![]), "a Secret that has not changed is not read again");
        script.get(SECRET, &[], secret("2", &json!({})));
        let error = ask(&workloads, &["n1"]).await.unwrap_err();
        assert!(error.starts_with("the kubeconfig in Secret ns/one-kubeconfig is not used: "), "{error}");
        assert_eq!(workload.requests.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_cluster_that_is_gone() {
        let (script, workload) = (Script::default(), Workload::start().await);
        let facts = |names: &[&str]| {
            let cluster = |name: &&str| model::hub::Cluster {
                metadata: model::hub::Metadata { namespace: "ns".into(), name: (*name).into(), ..Default::default() },
                ..Default::default()
            };
            model::world::Facts::complete(names.iter().map(cluster), [])
        };
        let cache = Arc::new(crate::kubernetes::cache::Cache::new(facts(&["one", "two"])));
        let gatherer =
            crate::kubernetes::gather::Gatherer::with_api_server(cache.clone(), script.client(), Arc::default());
        let workloads = gatherer.workloads().unwrap();
        script.get(SECRET, &[], secret("1", &workload.kubeconfig()));
        assert_eq!(ask(&workloads, &["n1"]).await, Ok(vec!["n1".to_owned()]));
        let follow = tokio::spawn(gatherer.follow_clusters());
        tokio::task::yield_now().await;
        let remove = |name: &str| cache.update(|facts| facts.remove_cluster(&ObjectKey::new("ns", name)));
        let kept = || workloads.known.lock().unwrap().len();
        remove("two");
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(kept(), 1, "it is that of another Cluster");
        remove("one");
        let gone = async {
            while kept() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
        follow.abort();
    }

    #[tokio::test]
    async fn an_answer_that_is_no_node_is_reported_by_its_status_only() {
        // DEC-40: no redirects
        let (script, workload) = (Script::default(), Workload::start().await);
        let workloads = Workloads::new(script.client());
        for (name, want) in [
            ("moved", "it answered 302 Found to a request for Node moved"),
            ("large", "its response to a request for Node large is not an object, or is too large"),
            ("text", "its response to a request for Node text is not an object, or is too large"),
            ("broken", "it answered 500 Internal Server Error to a request for Node broken"),
            ("lost", "it answered 404 Not Found to a request for Node lost"),
        ] {
            script.get(SECRET, &[], secret("1", &workload.kubeconfig()));
            assert_eq!(ask(&workloads, &[name]).await, Err(want.to_owned()));
        }
        assert_eq!(workload.requests.load(Ordering::SeqCst), 5, "each was asked for once, and nothing else");
        let mut nobody = workload.kubeconfig();
        nobody["users"][0]["user"]["token"] = json!("another");
        script.get(SECRET, &[], secret("2", &nobody));
        let want = "it answered 401 Unauthorized to a request for Node n1";
        assert_eq!(ask(&workloads, &["n1"]).await, Err(want.to_owned()));
        assert!(ask(&workloads, &["../../secrets"]).await.unwrap_err().contains("the name \"../../secrets\" must"));
    }

    #[tokio::test]
    async fn without_a_usable_secret_no_request_is_sent() {
        // DEC-40
        let (script, workload) = (Script::default(), Workload::start().await);
        let workloads = Workloads::new(script.client());
        let mut exec = workload.kubeconfig();
        exec["users"][0]["user"]["exec"] = json!({"command": "touch", "args": ["/tmp/pwned"]});
        let mut garbled = workload.kubeconfig();
        garbled["clusters"][0]["cluster"]["certificate-authority-data"] =
            json!(STANDARD.encode("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"));
        let empty =
            ScriptedAnswer::ok(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one-kubeconfig"}}));
        for (response, want) in [
            (ScriptedAnswer::error(404, "NotFound"), "Secret ns/one-kubeconfig does not exist"),
            (
                ScriptedAnswer::error(401, "Unauthorized"),
                "Secret ns/one-kubeconfig cannot be read: scripted Unauthorized",
            ),
            (ScriptedAnswer::error(403, "Forbidden"), "permission to read Secret ns/one-kubeconfig is missing"),
            (empty, "Secret ns/one-kubeconfig has no data `value`"),
            (secret("1", &exec), "is not used: exec is not allowed: external programs are not run"),
            (secret("2", &garbled), "is not used: invalid certificates, key or server name"),
        ] {
            script.get(SECRET, &[], response);
            let error = ask(&workloads, &["n1"]).await.unwrap_err();
            assert!(error.ends_with(want), "{error}");
        }
        assert_eq!(workload.requests.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn an_unknown_ca_is_not_trusted_and_no_credentials_are_logged() {
        // DEC-40
        let (lines, _logging) = Lines::collect();
        let (script, workload, other) = (Script::default(), Workload::start().await, Workload::start().await);
        let workloads = Workloads::new(script.client());
        script.get(SECRET, &[], secret("1", &workload.kubeconfig()));
        assert_eq!(ask(&workloads, &["n1"]).await, Ok(vec!["n1".to_owned()]));
        script.get(SECRET, &[], secret("2", &kubeconfig(&workload.url, &other.authority)));
        let error = ask(&workloads, &["n1"]).await.unwrap_err();
        assert_eq!(error, "it cannot be reached; see the log of topologist");
        let text = lines.text();
        let line = text.lines().find(|line| line.contains("Cannot reach the workload cluster")).unwrap_or(&text);
        assert!(line.contains("ns/one") && line.contains("certificate"), "{line}");
        assert!(!text.contains(" ERROR "), "a tenant makes no errors here: {text}");
        for secret in [TOKEN, &*STANDARD.encode(TOKEN), &STANDARD.encode(&workload.authority)] {
            assert!(!text.contains(secret), "{text}");
        }
        assert_eq!(workload.requests.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_does_not_answer_gets_no_requests_for_a_while() {
        // DEC-40
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let accepted = Arc::new(AtomicUsize::new(0));
        let counted = accepted.clone();
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                open.push(stream);
            }
        });
        let authority = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap().authority;
        let script = Script::default();
        let workloads = Workloads::new(script.client());
        let timed_out = Err("it did not answer in time".to_owned());
        let put = async |version| {
            script.get(SECRET, &[], secret(version, &kubeconfig(&url, &authority)));
            let started = Instant::now();
            (ask(&workloads, &["n1"]).await, started.elapsed())
        };
        for _ in 0..FAILURES {
            assert_eq!(put("1").await, (timed_out.clone(), PATIENCE));
        }
        let resting = "it failed 3 times in a row; the next attempt is in 30 seconds".to_owned();
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(put("1").await, (Err(resting), Duration::ZERO));
        tokio::time::advance(REST).await;
        assert_eq!(put("1").await, (timed_out.clone(), PATIENCE), "after the rest it is asked again");
        assert!(put("1").await.0.unwrap_err().contains("the next attempt is in"), "and one failure is enough");
        assert_eq!(put("2").await, (timed_out, PATIENCE), "another kubeconfig may lead elsewhere");
        assert!(accepted.load(Ordering::SeqCst) > 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_management_cluster_that_is_silent_is_not_waited_for() {
        let script = Script::default();
        script.get(SECRET, &[], ScriptedAnswer::Silence);
        let started = Instant::now();
        let error = ask(&Workloads::new(script.client()), &["n1"]).await.unwrap_err();
        let want = "Secret ns/one-kubeconfig cannot be read: the API server did not answer in time";
        assert_eq!((&*error, started.elapsed()), (want, PATIENCE));
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_pause_one_request_is_sent_and_an_answer_ends_the_pause() {
        let mut breaker = Breaker::default();
        for _ in 0..FAILURES {
            assert_eq!(breaker.pass(Instant::now()), Ok(()));
            breaker.note(true, Instant::now());
        }
        assert_eq!(breaker.pass(Instant::now()), Err(REST));
        tokio::time::advance(REST).await;
        assert_eq!(breaker.pass(Instant::now()), Ok(()));
        assert_eq!(breaker.pass(Instant::now()), Err(REST), "the others wait for its outcome");
        breaker.note(false, Instant::now());
        assert_eq!((breaker, breaker.pass(Instant::now())), (Breaker::default(), Ok(())));
    }
}

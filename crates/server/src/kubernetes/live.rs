//! Facts that are not watched, but read on demand.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::core::Status;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use super::address::{self, AnotherObject, InvalidSegment, ObjectRequests, Resource};
use super::describe;
use super::managed::slim;
use super::overload::ApiOverload;
use super::workload::{WorkloadError, Workloads};
use crate::telemetry::metrics::{self, Metrics};
use model::hub::{Hook, Object, ObjectKey, ObjectRef, ResourceDefinition, paths};
use model::world::{Answer, Ask, Found, HookAnswer, Need, NodesOf, Selection};

/// Timeout of one response of the API server.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of attempts on a busy API server, and the delay before each retry.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_millis(500);
const BUSY: [StatusCode; 2] = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
/// Maximum number of concurrent reads.
const READERS: usize = 64;
/// Why extensions have no answer.
const NOT_CALLED: &str = "Runtime Extensions are not called";
/// Objects per page of a list.
const PAGE: u32 = 500;

/// Reads objects from the API server, and Nodes from the workload clusters that it knows.
pub(super) struct LiveReader {
    client: kube::Client,
    workloads: Arc<Workloads>,
    readers: Semaphore,
    /// Whether objects keep the record of their field managers, at which reviews do not look.
    keeps_owners: bool,
    /// Whether the log has said that kubeconfigs may not be read.
    has_warned_of_permission: AtomicBool,
    metrics: Arc<Metrics>,
}

impl fmt::Debug for LiveReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("{}", describe(.0))]
    Api(#[from] kube::Error),
    #[error("the API server did not answer in time")]
    TimedOut,
    #[error(transparent)]
    Malformed(#[from] InvalidSegment),
    #[error(transparent)]
    Another(#[from] AnotherObject),
    #[error("{0:?} is not a valid label")]
    Label(String),
    #[error("the API server returned something other than an object")]
    NoObject,
    #[error("the API server does not serve {kind} in {api_version}")]
    Unserved { kind: String, api_version: String },
    #[error("{NOT_CALLED}")]
    Extensions,
}

impl ReadError {
    fn outcome(&self) -> &'static str {
        match self {
            ReadError::TimedOut => "timed_out",
            _ => "failed",
        }
    }

    /// The overload that caused the error.
    fn overload(&self) -> Option<ApiOverload> {
        match self {
            ReadError::Api(error) => ApiOverload::from_error(error),
            ReadError::TimedOut => Some(ApiOverload::late(self)),
            _ => None,
        }
    }
}

impl LiveReader {
    pub(super) fn new(client: kube::Client, metrics: Arc<Metrics>) -> Self {
        let (workloads, readers) = (Arc::new(Workloads::new(client.clone())), Semaphore::new(READERS));
        LiveReader {
            client,
            workloads,
            readers,
            keeps_owners: false,
            has_warned_of_permission: AtomicBool::new(false),
            metrics,
        }
    }

    /// The same, with the record of field managers of every object (DEC-43).
    pub(super) fn with_owners(self) -> Self {
        LiveReader { keeps_owners: true, ..self }
    }

    /// The workload clusters.
    pub(super) fn workloads(&self) -> Arc<Workloads> {
        self.workloads.clone()
    }

    /// Closes the connections to the workload cluster of a Cluster.
    pub(super) fn forget(&self, cluster: &ObjectKey) {
        self.workloads.forget(cluster);
    }

    /// The answer to a need, at `deadline` at the latest.
    pub(super) async fn answer(&self, need: &Need, deadline: Instant) -> Answer {
        match need {
            Need::Object(reference) => {
                let found = self.found("object", self.object(reference), deadline).await;
                reference.answer(found.map(|object| Arc::new(self.managed_or_not(object))))
            }
            Need::Definition(name) => {
                name.answer(self.found("definition", self.definition(&name.0), deadline).await.map(Arc::new))
            }
            Need::List(selection) => selection.answer(self.found("list", self.list(selection), deadline).await),
            Need::Nodes(request @ NodesOf { cluster, names }) => {
                let nodes = self.workloads.nodes(cluster, names.iter(), deadline).await;
                self.count("nodes", nodes.as_ref().map_or_else(WorkloadError::outcome, |_| "found"));
                request.answer(match nodes {
                    Ok(nodes) => Found::Yes(nodes),
                    Err(error @ WorkloadError::Forbidden(_)) => {
                        if !self.has_warned_of_permission.swap(true, Ordering::Relaxed) {
                            warn!(%cluster, %error, "Cannot read Nodes of the workload cluster");
                        }
                        Found::Absent
                    }
                    Err(error) => Found::Unreadable(error.to_string()),
                })
            }
            Need::Class(_) => need.unanswered("classes are read from the cache only"),
            Need::DryRun(_) => need.unanswered("only the leader makes dry runs"),
            Need::Hook(call) => call.answer(self.found("extensions", self.handlers(call.hook), deadline).await),
            Need::GenerateUpgradePlan(_) | Need::Patch(_) => need.unanswered(NOT_CALLED),
        }
    }

    /// An object with the field manager entries of topologies. While its kind is not served, as for a moment after a
    /// start of the API server, it is unreadable.
    ///
    /// # Errors
    /// When the API server is too busy to answer.
    pub(super) async fn managed_object(
        &self,
        reference: &ObjectRef,
        deadline: Instant,
    ) -> Result<Found<Arc<Object>>, ApiOverload> {
        match self.read("object", self.served_object(reference), deadline).await {
            Ok(found) => Ok(found.map(|mut object| {
                slim(&mut object);
                Arc::new(object)
            })),
            Err(error) => match error.overload() {
                Some(overload) => Err(overload.because(format!("{reference} cannot be read: {error}"))),
                None => Ok(Found::Unreadable(error.to_string())),
            },
        }
    }

    async fn extension_configs(&self) -> Result<Vec<Value>, ReadError> {
        let requests = Resource::known("runtime.cluster.x-k8s.io", "v1beta2", "ExtensionConfig").everywhere();
        let mut list = self.client_answer(requests.list(&ListParams::default())?).await?.unwrap_or_default();
        Ok(list.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default())
    }

    /// `None` when no extension is registered for a hook (HK-04); extensions are not called.
    async fn handlers(&self, hook: Hook) -> Result<Option<HookAnswer>, ReadError> {
        let configs = self.extension_configs().await?;
        let mut handlers = configs.iter().filter_map(|config| config.pointer("/status/handlers")?.as_array()).flatten();
        let is_registered =
            |handler: &Value| handler.pointer("/requestHook/hook").and_then(Value::as_str) == Some(hook.name());
        match handlers.any(is_registered) {
            true => Err(ReadError::Extensions),
            false => Ok(None),
        }
    }

    async fn found<T>(
        &self,
        what: &'static str,
        read: impl Future<Output = Result<Option<T>, ReadError>>,
        deadline: Instant,
    ) -> Found<T> {
        self.read(what, read, deadline).await.unwrap_or_else(|error| Found::Unreadable(error.to_string()))
    }

    /// The result of a read, at `deadline` at the latest; counts it.
    async fn read<T>(
        &self,
        what: &'static str,
        read: impl Future<Output = Result<Option<T>, ReadError>>,
        deadline: Instant,
    ) -> Result<Found<T>, ReadError> {
        let read = async {
            let _reader = self.readers.acquire().await.map_err(|_| ReadError::TimedOut)?;
            timeout_at(Instant::now() + PATIENCE, read).await.unwrap_or(Err(ReadError::TimedOut))
        };
        let answer = timeout_at(deadline, read).await.unwrap_or(Err(ReadError::TimedOut));
        let found = answer.map(|found| found.map_or(Found::Absent, Found::Yes));
        self.count(
            what,
            match &found {
                Ok(Found::Absent) => "absent",
                Ok(_) => "found",
                Err(error) => error.outcome(),
            },
        );
        found
    }

    fn count(&self, what: &'static str, outcome: &'static str) {
        self.metrics.live_reads.get_or_create(&metrics::Read { what, outcome }).inc();
    }

    fn managed_or_not(&self, mut object: Object) -> Object {
        if !self.keeps_owners {
            object.remove(paths::metadata::MANAGED_FIELDS);
        }
        object
    }

    async fn object(&self, reference: &ObjectRef) -> Result<Option<Object>, ReadError> {
        let request = ObjectRequests::to(reference)?.get(&reference.key.name)?;
        let Some(found) = self.client_answer(request).await? else { return Ok(None) };
        Ok(Some(address::answered(reference, object(found)?)?))
    }

    /// The same; fails if the kind is not served.
    async fn served_object(&self, reference: &ObjectRef) -> Result<Option<Object>, ReadError> {
        let request = ObjectRequests::to(reference)?.get(&reference.key.name)?;
        match self.response(request).await? {
            Ok(found) => Ok(Some(address::answered(reference, object(found)?)?)),
            Err(absent) if absent.details.as_ref().is_some_and(|details| details.name == reference.key.name) => {
                Ok(None)
            }
            Err(_) => {
                let ObjectRef { kind, api_version, .. } = reference.clone();
                Err(ReadError::Unserved { kind, api_version })
            }
        }
    }

    /// The objects of a selection by name; `None` when their kind is not served.
    async fn list(&self, selection: &Selection) -> Result<Option<Vec<Arc<Object>>>, ReadError> {
        let requests = ObjectRequests::for_kind(&selection.api_version, &selection.kind, &selection.namespace)?;
        let mut params = ListParams::default().limit(PAGE);
        if !selection.labels.is_empty() {
            params = params.labels(&selector(selection)?);
        }
        let mut all = Vec::new();
        loop {
            let request = requests.list(&params)?;
            let Some(mut page) = self.client_answer(request).await? else { return Ok(None) };
            let items = page.get_mut("items").map(Value::take);
            for item in items.and_then(|items| items.as_array().cloned()).ok_or(ReadError::NoObject)? {
                all.push(Arc::new(self.managed_or_not(requests.checked(object(item)?)?)));
            }
            match page.pointer("/metadata/continue").and_then(Value::as_str).filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token.to_owned()),
                None => break,
            }
        }
        all.sort_by(|one, other| one.name().cmp(other.name()));
        Ok(Some(all))
    }

    /// The labels of a definition. Nothing else of it is requested (CT-2.2).
    async fn definition(&self, name: &str) -> Result<Option<ResourceDefinition>, ReadError> {
        let request = ObjectRequests::cluster_scoped::<CustomResourceDefinition>().get_metadata(name)?;
        let Some(found) = self.client_answer(request).await? else { return Ok(None) };
        let found = address::answered_definition(name, object(found)?)?;
        let labels = found.texts(paths::metadata::LABELS).map_err(|_| ReadError::NoObject)?;
        Ok(Some(ResourceDefinition { labels, ..ResourceDefinition::default() }))
    }

    /// The response of the API server; `None` if it is 404.
    async fn client_answer(&self, request: http::Request<Vec<u8>>) -> Result<Option<Value>, ReadError> {
        Ok(self.response(request).await?.ok())
    }

    /// The response of the API server, or the status of a 404. Retries on a busy server: it is busy for a moment
    /// whenever a kind is new.
    async fn response(&self, request: http::Request<Vec<u8>>) -> Result<Result<Value, Box<Status>>, ReadError> {
        let mut left = ATTEMPTS;
        loop {
            left -= 1;
            match self.client.request(request.clone()).await {
                Ok(value) => return Ok(Ok(value)),
                Err(kube::Error::Api(status)) if status.code == StatusCode::NOT_FOUND.as_u16() => {
                    return Ok(Err(status));
                }
                Err(kube::Error::Api(status)) if left > 0 && BUSY.map(|code| code.as_u16()).contains(&status.code) => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn object(value: Value) -> Result<Object, ReadError> {
    Object::try_from(value).map_err(|_| ReadError::NoObject)
}

/// The labels of a selection in the form of a query. Labels of an object may be unchecked.
pub(super) fn selector(selection: &Selection) -> Result<String, ReadError> {
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
    let label = |(name, value): (&String, &String)| match !name.is_empty() && is_plain(name) && is_plain(value) {
        true => Ok(format!("{name}={value}")),
        false => Err(ReadError::Label(format!("{name}={value}"))),
    };
    Ok(selection.labels.iter().map(label).collect::<Result<Vec<_>, _>>()?.join(","))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::json;

    use super::*;
    use crate::kubernetes::scripted::{Script, ScriptedAnswer};
    use model::hub::ObjectKey;
    use model::world::DefinitionName;

    const OBJECT: &str = "/apis/controlplane.cluster.x-k8s.io/v1beta2/namespaces/ns/kubeadmcontrolplanes/cp";
    const LIST: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines";
    const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";

    fn live(script: &Script) -> LiveReader {
        LiveReader::new(script.client(), Arc::new(Metrics::default()))
    }

    fn object(name: &str) -> Need {
        let key = ObjectKey::new("ns", name);
        Need::Object(ObjectRef::new("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", key))
    }

    fn machines(labels: &[(&str, &str)]) -> Need {
        Need::List(Selection {
            api_version: "cluster.x-k8s.io/v1beta2".to_owned(),
            kind: "Machine".to_owned(),
            namespace: "ns".to_owned(),
            labels: labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        })
    }

    async fn answer(script: &Script, need: &Need) -> Answer {
        live(script).answer(need, Instant::now() + Duration::from_secs(9)).await
    }

    #[tokio::test]
    async fn an_object_is_read_in_the_requested_version() {
        let script = Script::default();
        let metadata = json!({"name": "cp", "namespace": "ns", "managedFields": [{"manager": "m"}]});
        for _ in 0..2 {
            script.get(OBJECT, &[], ScriptedAnswer::ok(json!({"kind": "KubeadmControlPlane", "metadata": metadata})));
        }
        let Answer::Object(Found::Yes(found)) = answer(&script, &object("cp")).await else { panic!("it is there") };
        assert_eq!((found.name(), found.at("metadata.managedFields")), ("cp", None));
        let with_owners = live(&script).with_owners();
        let found = with_owners.answer(&object("cp"), Instant::now() + Duration::from_secs(9)).await;
        let Answer::Object(Found::Yes(found)) = found else { panic!("it is there") };
        assert_eq!(found.at("metadata.managedFields"), Some(&json!([{"manager": "m"}])), "DEC-43");
        script.get(OBJECT, &[], ScriptedAnswer::error(404, "NotFound"));
        assert_eq!(answer(&script, &object("cp")).await, Answer::Object(Found::Absent));
    }

    #[tokio::test(start_paused = true)]
    async fn objects_that_cannot_be_read_give_a_reason() {
        let unreadable = |answer: Answer| match answer {
            Answer::Object(Found::Unreadable(reason)) | Answer::List(Found::Unreadable(reason)) => reason,
            other => panic!("{other:?}"),
        };
        let script = Script::default();
        script.get(OBJECT, &[], ScriptedAnswer::error(403, "Forbidden"));
        assert_eq!(unreadable(answer(&script, &object("cp")).await), "scripted Forbidden");
        script.get(OBJECT, &[], ScriptedAnswer::Silence);
        let started = Instant::now();
        let reason = unreadable(answer(&script, &object("cp")).await);
        assert_eq!((&*reason, started.elapsed()), ("the API server did not answer in time", PATIENCE));
        script.get(LIST, &[], ScriptedAnswer::ok(json!({"kind": "MachineList"})));
        assert!(unreadable(answer(&script, &machines(&[])).await).contains("other than an object"));
        for name in ["", "..", "../secrets", "cp?x=1", "a/b", "a%2Fb"] {
            let reason = unreadable(answer(&script, &object(name)).await);
            assert!(reason.starts_with(&format!("invalid object reference: the name {name:?} must")), "{reason}");
        }
        for (name, value) in [("a", "b,c=d"), ("", "b"), ("a b", "c"), ("a", "!b")] {
            let reason = unreadable(answer(&script, &machines(&[(name, value)])).await);
            assert!(reason.contains("is not a valid label"), "{reason}");
        }
        assert_eq!(script.left(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_to_a_busy_api_server_are_retried() {
        let script = Script::default();
        script.get(OBJECT, &[], ScriptedAnswer::error(429, "TooManyRequests")).get(
            OBJECT,
            &[],
            ScriptedAnswer::error(503, "Unavailable"),
        );
        script.get(OBJECT, &[], ScriptedAnswer::error(404, "NotFound"));
        assert_eq!(answer(&script, &object("cp")).await, Answer::Object(Found::Absent));
        for _ in 0..ATTEMPTS {
            script.get(OBJECT, &[], ScriptedAnswer::error(429, "TooManyRequests"));
        }
        let started = Instant::now();
        let busy = Answer::Object(Found::Unreadable("scripted TooManyRequests".to_owned()));
        assert_eq!((answer(&script, &object("cp")).await, started.elapsed()), (busy, PAUSE * 4));
        // DEC-106: it has not said that there is no such object, nor that it may not be read.
        let Need::Object(reference) = object("cp") else { unreachable!() };
        let managed = async || live(&script).managed_object(&reference, Instant::now() + Duration::from_secs(9)).await;
        for _ in 0..ATTEMPTS {
            script.get(OBJECT, &[], ScriptedAnswer::error(503, "Unavailable"));
        }
        let overload = managed().await.unwrap_err();
        assert_eq!(overload.reason, format!("{reference} cannot be read: scripted Unavailable"));
        script.get(OBJECT, &[], ScriptedAnswer::Silence);
        assert!(managed().await.unwrap_err().reason.ends_with("did not answer in time"));
        script.get(OBJECT, &[], ScriptedAnswer::error(403, "Forbidden"));
        assert_eq!(managed().await, Ok(Found::Unreadable("scripted Forbidden".to_owned())));
    }

    #[tokio::test]
    async fn a_list_is_read_to_its_end_by_all_its_labels() {
        let item = |name: &str| json!({"metadata": {"name": name, "namespace": "ns"}});
        let script = Script::default();
        let words = ["labelSelector=a%3Db%2Cc%2Fd%3D", "limit=500"];
        let first = json!({"metadata": {"continue": "more"}, "items": [item("z"), item("b")]});
        script.get(LIST, &words, ScriptedAnswer::ok(first));
        let second = json!({"metadata": {"continue": ""}, "items": [item("a")]});
        script.get(LIST, &[&words[..], &["continue=more"]].concat(), ScriptedAnswer::ok(second));
        let need = machines(&[("a", "b"), ("c/d", "")]);
        let Answer::List(Found::Yes(found)) = answer(&script, &need).await else { panic!("it is there") };
        assert_eq!(found.iter().map(|object| object.name()).collect::<Vec<_>>(), ["a", "b", "z"]);
        script.get(LIST, &[], ScriptedAnswer::error(404, "NotFound"));
        assert_eq!(answer(&script, &machines(&[])).await, Answer::List(Found::Absent), "the kind is not served");
    }

    #[tokio::test]
    async fn an_answer_about_another_object_is_an_error_and_no_absence() {
        // DEC-45
        let script = Script::default();
        let (api_version, kind) = ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane");
        for (field, other) in [
            ("/apiVersion", "controlplane.cluster.x-k8s.io/v1beta1"),
            ("/apiVersion", "other.x-k8s.io/v1beta2"),
            ("/kind", "Secret"),
            ("/metadata/namespace", "victim"),
            ("/metadata/name", "other"),
        ] {
            let metadata = json!({"namespace": "ns", "name": "cp"});
            let mut response = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
            *response.pointer_mut(field).unwrap() = json!(other);
            script.get(OBJECT, &[], ScriptedAnswer::ok(response.clone())).get(
                OBJECT,
                &[],
                ScriptedAnswer::ok(response),
            );
            let Answer::Object(Found::Unreadable(reason)) = answer(&script, &object("cp")).await else {
                panic!("{field} {other}")
            };
            let mismatch = "instead of KubeadmControlPlane ns/cp of \"controlplane.cluster.x-k8s.io/v1beta2\"";
            assert!(reason.ends_with(mismatch) && reason.contains(other), "{reason}");
            let Need::Object(reference) = object("cp") else { unreachable!() };
            let error = crate::kubernetes::untyped::get(&script.client(), &reference).await.unwrap_err().to_string();
            assert_eq!(error, reason, "those who write see the same");
        }
        let item = json!({"metadata": {"name": "m", "namespace": "victim"}});
        script.get(LIST, &[], ScriptedAnswer::ok(json!({"metadata": {}, "items": [item]})));
        let Answer::List(Found::Unreadable(reason)) = answer(&script, &machines(&[])).await else { panic!("another") };
        assert!(reason.contains("Machine of cluster.x-k8s.io/v1beta2 in namespace \"ns\""), "{reason}");
        let metadata = json!({"name": "others.example.com"});
        let partial = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata});
        script.get(DEFINITION, &[], ScriptedAnswer::ok(partial));
        let need = Need::Definition(DefinitionName("things.example.com".to_owned()));
        let Answer::Definition(Found::Unreadable(reason)) = answer(&script, &need).await else { panic!("another") };
        assert!(reason.contains("CustomResourceDefinition things.example.com"), "{reason}");
        assert_eq!(script.left(), 0);
    }

    #[tokio::test]
    async fn malformed_references_are_never_sent() {
        // DEC-45
        let script = Script::default();
        let (good, key) = ("controlplane.cluster.x-k8s.io/v1beta2", || ObjectKey::new("ns", "cp"));
        let traversal = format!("{good}%2Fnamespaces%2Fvictim%2Fkubeadmcontrolplanes%2Fprod?x=");
        for (api_version, kind, key) in [
            (&*traversal, "KubeadmControlPlane", key()),
            ("controlplane.cluster.x-k8s.io/v1%62eta2", "KubeadmControlPlane", key()),
            ("../api/v1", "KubeadmControlPlane", key()),
            (good, "Secrets/x?y=", key()),
            (good, "../../../../v1/namespaces/victim/Secret", key()),
            (good, "KubeadmControlPlane", ObjectKey::new("ns", "..")),
            (good, "KubeadmControlPlane", ObjectKey::new("ns", "cp%2F..%2Fother")),
            (good, "KubeadmControlPlane", ObjectKey::new("ns?labelSelector=", "cp")),
            (good, "KubeadmControlPlane", ObjectKey::new("", "cp")),
        ] {
            let need = Need::Object(ObjectRef::new(api_version, kind, key));
            let Answer::Object(Found::Unreadable(reason)) = answer(&script, &need).await else { panic!("{need:?}") };
            assert!(reason.starts_with("invalid object reference: the "), "{reason}");
        }
        let need = Need::Definition(DefinitionName("things.example.com/../x".to_owned()));
        assert!(matches!(answer(&script, &need).await, Answer::Definition(Found::Unreadable(_))));
    }

    #[tokio::test]
    async fn only_the_metadata_of_a_definition_is_read() {
        // CT-2.2, UPG-021, PERF-07
        let script = Script::default();
        let metadata = json!({"name": "things.example.com", "labels": {"cluster.x-k8s.io/v1beta2": "v1"}});
        let partial = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata});
        script.get(DEFINITION, &[], ScriptedAnswer::ok(partial)).get(
            DEFINITION,
            &[],
            ScriptedAnswer::error(404, "NotFound"),
        );
        let need = Need::Definition(DefinitionName("things.example.com".to_owned()));
        let labels = BTreeMap::from([("cluster.x-k8s.io/v1beta2".to_owned(), "v1".to_owned())]);
        let want = ResourceDefinition { labels, ..ResourceDefinition::default() };
        assert_eq!(answer(&script, &need).await, Answer::Definition(Found::Yes(Arc::new(want))));
        assert_eq!(answer(&script, &need).await, Answer::Definition(Found::Absent));
    }

    #[tokio::test]
    async fn a_hook_without_extensions_passes_and_one_with_extensions_fails() {
        // HK-04
        let script = Script::default();
        let path = "/apis/runtime.cluster.x-k8s.io/v1beta2/extensionconfigs";
        let need = Need::Hook(model::world::HookCall {
            hook: Hook::BeforeClusterCreate,
            cluster: ObjectKey::new("ns", "c"),
            request: String::new(),
        });
        let handlers = |hook: &str| json!({"status": {"handlers": [{"requestHook": {"hook": hook}}]}});
        let items = |items: &[Value]| ScriptedAnswer::ok(json!({"kind": "ExtensionConfigList", "items": items}));
        script.get(path, &[], ScriptedAnswer::error(404, "NotFound")).get(path, &[], items(&[json!({})]));
        script.get(path, &[], items(&[handlers("BeforeClusterDelete")]));
        for _ in 0..3 {
            assert_eq!(answer(&script, &need).await, Answer::Hook(Found::Absent));
        }
        script.get(path, &[], items(&[json!({}), handlers("BeforeClusterCreate")]));
        assert_eq!(answer(&script, &need).await, Answer::Hook(Found::Unreadable(NOT_CALLED.to_owned())));
    }

    #[tokio::test]
    async fn a_missing_permission_on_secrets_differs_from_other_failures() {
        // DEC-47
        let need = Need::Nodes(NodesOf { cluster: ObjectKey::new("ns", "one"), names: BTreeSet::new() });
        let script = Script::default();
        let live = live(&script);
        let deadline = Instant::now() + Duration::from_secs(9);
        for (code, want) in [(403, true), (401, false), (404, false), (500, false)] {
            script.get("/api/v1/namespaces/ns/secrets/one-kubeconfig", &[], ScriptedAnswer::error(code, "Refused"));
            let answer = live.answer(&need, deadline).await;
            assert_eq!(answer == Answer::Nodes(Found::Absent), want, "{code}: {answer:?}");
        }
        let text = live.metrics.render();
        assert!(text.contains("topologist_live_reads_total{what=\"nodes\",outcome=\"forbidden\"} 1\n"), "{text}");
    }

    #[tokio::test]
    async fn every_read_is_counted() {
        let script = Script::default();
        script.get(OBJECT, &[], ScriptedAnswer::error(404, "NotFound"));
        let live = live(&script);
        live.answer(&object("cp"), Instant::now() + Duration::from_secs(9)).await;
        let text = live.metrics.render();
        assert!(text.contains("topologist_live_reads_total{what=\"object\",outcome=\"absent\"} 1\n"), "{text}");
    }
}

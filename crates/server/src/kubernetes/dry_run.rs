//! Whether applying an object would change it: two dry runs, and a cache of their results.
//!
//! ```text
//!            ┌─ remembered: nothing changes ──────────────────────────────────────► Same
//! DryRunCall ┤                                                            equal ──► Same, remembered
//!            └─ apply what is sent ─┐ both marked, neither ─► cleaned ─► compared ┤
//!               apply what is there ┘ stored                               else ──► Differs
//! ```
//!
//! The existing object is applied as well, so that it gets the current defaults and conversions, and only real
//! differences are left (SSA-10, ROT-07).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use futures::try_join;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::address::{self, Resource};
use super::overload::ApiOverload;
use super::untyped::{self, ApiRequestError};
use crate::telemetry::metrics::{Controller, Metrics};
use engine::topology::plan::{FINALIZERS_FIELD, MANAGER};
use model::hub::{Object, ObjectRef, WrongType, annotation, paths};
use model::world::{Answer, Ask, DryRun, DryRunCall, Found};
use schema::ssa::{ElementPath, FieldSet, InvalidManagedFields, ManagedFields, SENT, reduce, with_managers};

/// Time since the last use for which the result "nothing changes" is cached (PERF-01).
const MEMORY: Duration = Duration::from_mins(30);
/// Interval in which expired entries are dropped.
const SWEEP: Duration = Duration::from_mins(10);
/// Maximum number of concurrent dry runs.
const AT_A_TIME: usize = 32;
/// The metric label of the controller.
const CONTROLLER: Controller = Controller { controller: "topology" };
/// Annotations that are sent or set, and not compared (SSA-11, SSA-18).
const UNCOMPARED: [&str; 2] = [annotation::DRY_RUN, annotation::CONVERSION_DATA];

/// Computes by dry runs of an API server how applying an object would change it.
pub struct DryRuns {
    client: kube::Client,
    metrics: Arc<Metrics>,
    running: Semaphore,
    unchanged: Mutex<UnchangedCalls>,
}

impl fmt::Debug for DryRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DryRuns")
    }
}

/// Why the change cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum DryRunError {
    #[error(transparent)]
    Request(#[from] ApiRequestError),
    #[error(transparent)]
    WrongType(#[from] WrongType),
    #[error(transparent)]
    Unreadable(#[from] InvalidManagedFields),
    #[error("the object to compare is not a JSON object")]
    NoObject,
}

impl DryRunError {
    /// Whether the status is 403: the caller may not apply the object, or an admission webhook denied it.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, DryRunError::Request(error) if error.is_forbidden())
    }

    /// The overload that caused the error.
    fn overload(&self) -> Option<ApiOverload> {
        if let DryRunError::Request(error) = self { error.overload() } else { None }
    }
}

impl DryRuns {
    /// Dry runs with `client` and an empty cache.
    pub fn new(client: kube::Client, metrics: Arc<Metrics>) -> Self {
        let (running, unchanged) = (Semaphore::new(AT_A_TIME), Mutex::default());
        DryRuns { client, metrics, running, unchanged }
    }

    /// The answer to a [`model::world::Need::DryRun`], at `deadline` at the latest (SSA-07 to SSA-14). If the server
    /// rejects the request, the error contains the object to apply, with its name (RS-36).
    ///
    /// # Errors
    /// When the API server is too busy to answer.
    pub async fn answer(&self, call: &DryRunCall, deadline: Instant) -> Result<Answer, ApiOverload> {
        let found = match self.attempt(call, deadline).await {
            Ok(found) => Found::Yes(found),
            Err(error) => {
                let reason = unreadable(&call.object, &error);
                match error.overload() {
                    Some(overload) => return Err(overload.because(reason)),
                    None => Found::Unreadable(reason),
                }
            }
        };
        Ok(call.answer(found))
    }

    /// The changes of applying an object, at `deadline` at the latest (SSA-07 to SSA-14).
    ///
    /// # Errors
    /// When the API server rejects the object to apply, or times out.
    pub async fn attempt(&self, call: &DryRunCall, deadline: Instant) -> Result<DryRun, DryRunError> {
        let key = DryRunKey::for_call(call);
        if self.unchanged().has(&key) {
            self.metrics.ssa_cache_hits.get_or_create(&CONTROLLER).inc();
            return Ok(DryRun::Same);
        }
        self.metrics.ssa_cache_misses.get_or_create(&CONTROLLER).inc();
        let run = async {
            let _running = self.running.acquire().await.map_err(|_| ApiRequestError::TimedOut)?;
            self.run(call).await
        };
        let found = timeout_at(deadline, run).await.unwrap_or(Err(ApiRequestError::TimedOut.into()))?;
        if found == DryRun::Same {
            self.unchanged().put(key);
        }
        Ok(found)
    }

    /// Whether the caller has the permission to apply an object: the status is 403 also when a webhook denies it.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn may_apply(&self, object: &ObjectRef) -> Result<bool, ApiRequestError> {
        let resource = Resource::from_api_version(&object.api_version, &object.kind)?;
        let attributes = ResourceAttributes {
            verb: Some("patch".to_owned()),
            group: Some(object.group().to_owned()),
            version: Some(resource.as_api().version.clone()),
            resource: Some(resource.as_api().plural.clone()),
            namespace: Some(object.key.namespace.clone()),
            name: Some(object.key.name.clone()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), non_resource_attributes: None };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let reviews: Api<SelfSubjectAccessReview> = address::anywhere(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    async fn run(&self, call: &DryRunCall) -> Result<DryRun, DryRunError> {
        let (current, sent) = (object(&call.current)?, object(&call.sent)?);
        let owners = ManagedFields::all_of(current.as_ref())?;
        let (current, sent) = (marked(&current)?, marked(&sent)?);
        let (desired, current) =
            try_join!(untyped::apply(&self.client, &sent, true), untyped::apply(&self.client, &current, true))?;
        let desired_owners = ManagedFields::all_of(desired.as_ref())?;
        // What the dry run of what is there makes of ownership is not what is compared: it is as it was before that.
        let [current, desired] = [(current, owners), (desired, desired_owners)].map(|(one, own)| cleaned(one, own));
        let (current, desired) = (current?, desired?);
        if current == desired {
            return Ok(DryRun::Same);
        }
        Ok(DryRun::Differs { current: Arc::new(current), desired: Arc::new(desired) })
    }

    fn unchanged(&self) -> std::sync::MutexGuard<'_, UnchangedCalls> {
        self.unchanged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason of a missing answer, with the name of the object.
pub fn unreadable(object: &ObjectRef, error: &DryRunError) -> String {
    format!("{object} failed to apply in a dry run: {error}")
}

fn object(text: &str) -> Result<Object, DryRunError> {
    let value = golang::json::value(text).map_err(|_| DryRunError::NoObject)?;
    Object::try_from(value).map_err(|_| DryRunError::NoObject)
}

/// The object to send, marked as a dry run (SSA-02, SSA-08).
fn marked(object: &Object) -> Result<Object, DryRunError> {
    let mut marked = Object::try_from(reduce(&object.to_value(), SENT, &[])).map_err(|_| DryRunError::NoObject)?;
    marked.members_mut_at(paths::metadata::ANNOTATIONS)?.insert(annotation::DRY_RUN.to_owned(), json!(""));
    Ok(marked)
}

/// The compared part of a response: the fields that topologies send, and those that their manager owns (SSA-11).
fn cleaned(mut answer: Object, owners: Vec<ManagedFields>) -> Result<Object, DryRunError> {
    /// The annotations that are not compared, and the finalizers, as fields.
    static FIELDS: LazyLock<FieldSet> = LazyLock::new(|| {
        let annotations = UNCOMPARED.map(|name| ElementPath::from_fields(&["metadata", "annotations", name]));
        let paths: Vec<_> = annotations.into_iter().chain([ElementPath::from_fields(FINALIZERS_FIELD)]).collect();
        FieldSet::from_paths(paths.iter().map(|path| path.0.as_slice()))
    });
    let annotations = answer.members_mut_at(paths::metadata::ANNOTATIONS)?;
    UNCOMPARED.iter().for_each(|name| drop(annotations.remove(*name)));
    if annotations.is_empty() {
        answer.remove(paths::metadata::ANNOTATIONS);
    }
    let own = owners.into_iter().filter(|entry| entry.is_of_applier(MANAGER)).map(|entry| {
        let fields = entry.fields.without(&FIELDS);
        ManagedFields { time: None, fields, ..entry }
    });
    let cleaned = with_managers(reduce(answer.as_ref(), SENT, &[]), &own.collect::<Vec<_>>());
    Object::try_from(cleaned).map_err(|_| DryRunError::NoObject)
}

/// A compact key of a dry run: an object at a version, and the applied fields (SSA-07).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct DryRunKey {
    object: ObjectRef,
    version: String,
    /// Of what is sent, its uid included. With 32 bits, one change in four thousand million would be overlooked for
    /// half an hour; these are 64.
    hash: u64,
}

impl DryRunKey {
    fn for_call(call: &DryRunCall) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, call.sent.as_bytes());
        let hash = digest.as_ref().iter().take(8).fold(0, |hash, byte| (hash << 8) | u64::from(*byte));
        DryRunKey { object: call.object.clone(), version: call.version.clone(), hash }
    }
}

/// Dry runs without changes, and the time of the last request for each (PERF-01).
#[derive(Debug, Default)]
struct UnchangedCalls {
    keys: HashMap<DryRunKey, Instant>,
    swept: Option<Instant>,
}

impl UnchangedCalls {
    fn has(&mut self, key: &DryRunKey) -> bool {
        match self.keys.get_mut(key) {
            Some(used) if used.elapsed() < MEMORY => {
                *used = Instant::now();
                true
            }
            _ => false,
        }
    }

    fn put(&mut self, key: DryRunKey) {
        let now = Instant::now();
        if self.swept.is_none_or(|swept| swept.elapsed() >= SWEEP) {
            self.keys.retain(|_, used| used.elapsed() < MEMORY);
            self.swept = Some(now);
        }
        // Earlier entries are not requested any more.
        self.keys.insert(key, now);
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::Value;

    use super::*;
    use crate::kubernetes::scripted::{Script, ScriptedAnswer};
    use model::hub::ObjectKey;

    const PATH: &str = "/apis/g.io/v1/namespaces/ns/forges/f";

    fn forge(size: &str, owners: &Value) -> Value {
        json!({"apiVersion": "g.io/v1", "kind": "Forge", "spec": {"size": size}, "status": {"a": 1},
            "metadata": {"namespace": "ns", "name": "f", "uid": "u", "resourceVersion": "7", "managedFields": owners,
                "annotations": {"topology.cluster.x-k8s.io/dry-run": "", "cluster.x-k8s.io/conversion-data": size}}})
    }

    fn owners(version: &str, time: &str, fields: &[&str]) -> Value {
        let annotations = json!({"f:topology.cluster.x-k8s.io/dry-run": {}, "f:cluster.x-k8s.io/conversion-data": {}});
        let spec: Value = fields.iter().map(|field| (format!("f:{field}"), json!({}))).collect();
        let entry = |manager: &str, operation: &str, subresource: &str| {
            json!({"manager": manager, "operation": operation, "apiVersion": version, "time": time,
                "subresource": subresource, "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:annotations": annotations}, "f:spec": spec}})
        };
        json!([
            entry("capi-topology", "Apply", ""),
            entry("other", "Update", ""),
            entry("capi-topology", "Apply", "status")
        ])
    }

    fn recorded() -> Value {
        owners("g.io/v1", "2026-01-01T00:00:00Z", &["size"])
    }

    fn call(version: &str, size: &str) -> DryRunCall {
        let mut sent = forge(size, &Value::Null);
        sent["metadata"]
            .as_object_mut()
            .unwrap()
            .retain(|name, _| name == "name" || name == "namespace" || name == "uid");
        DryRunCall {
            object: ObjectRef::new("g.io/v1", "Forge", ObjectKey::new("ns", "f")),
            version: version.to_owned(),
            current: forge("large", &recorded()).to_string(),
            sent: sent.to_string(),
        }
    }

    /// What the server answers to what is sent, and to what is there.
    fn answers(script: &Script, sent: ScriptedAnswer, current: ScriptedAnswer) {
        let words = [
            "dryRun=All",
            "force=true",
            "fieldManager=capi-topology",
            "topology.cluster.x-k8s.io/dry-run",
            "\"uid\":\"u\"",
        ];
        script.expect(&Method::PATCH, PATH, &words, sent).expect(&Method::PATCH, PATH, &words, current);
    }

    fn dry_runs(script: &Script) -> DryRuns {
        DryRuns::new(script.client(), Arc::default())
    }

    async fn attempted(dry_runs: &DryRuns, call: &DryRunCall) -> Result<Answer, ApiOverload> {
        dry_runs.answer(call, Instant::now() + Duration::from_secs(9)).await
    }

    async fn ask(dry_runs: &DryRuns, call: &DryRunCall) -> Found<DryRun> {
        let Ok(Answer::DryRun(answer)) = attempted(dry_runs, call).await else { panic!("it is answered") };
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_server_normalizes_is_the_same_and_remembered() {
        // SSA-07 to SSA-14, SSA-18, PERF-01, CT-9.2: a dry run, and the annotation in the object
        let script = Script::default();
        let dry_runs = dry_runs(&script);
        // The dry run of what is there gives everything to its manager, which says nothing; times and marks say nothing
        // either.
        let normal = || ScriptedAnswer::ok(forge("large", &owners("g.io/v1", "2026-02-02T00:00:00Z", &["size"])));
        let taken =
            || ScriptedAnswer::ok(forge("large", &owners("g.io/v1", "2026-02-02T00:00:00Z", &["size", "theirs"])));
        answers(&script, normal(), taken());
        for _ in 0..2 {
            assert_eq!(ask(&dry_runs, &call("7", "LARGE")).await, Found::Yes(DryRun::Same));
        }
        assert_eq!(script.left(), 0);
        // A request keeps the entry from expiring.
        for _ in 0..3 {
            tokio::time::advance(MEMORY * 2 / 3).await;
            assert_eq!(ask(&dry_runs, &call("7", "LARGE")).await, Found::Yes(DryRun::Same));
        }
        tokio::time::advance(MEMORY).await;
        for other in [call("7", "LARGE"), call("8", "LARGE"), call("7", "Large")] {
            answers(&script, normal(), taken());
            assert_eq!(ask(&dry_runs, &other).await, Found::Yes(DryRun::Same));
            assert_eq!(script.left(), 0);
        }
        tokio::time::advance(MEMORY).await;
        answers(&script, normal(), taken());
        ask(&dry_runs, &call("9", "LARGE")).await;
        assert_eq!(dry_runs.unchanged().keys.len(), 1, "what was forgotten is gone");
        let text = dry_runs.metrics.render();
        for (name, times) in [("hits", 4), ("misses", 5)] {
            let line = format!("topologist_ssa_cache_{name}_total{{controller=\"topology\"}} {times}\n");
            assert!(text.contains(&line), "{line}: {text}");
        }
    }

    #[tokio::test]
    async fn values_owners_and_versions_of_entries_are_differences_which_nobody_remembers() {
        // SSA-11, SSA-13, SSA-14, DEC-15
        let script = Script::default();
        let dry_runs = dry_runs(&script);
        for (size, version, fields, is_value) in [
            ("small", "g.io/v1", &["size"][..], true),
            ("large", "g.io/v1", &["size", "more"][..], false),
            ("large", "g.io/v2", &["size"][..], false),
        ] {
            for _ in 0..2 {
                let sent = forge(size, &owners(version, "2026-02-02T00:00:00Z", fields));
                answers(&script, ScriptedAnswer::ok(sent), ScriptedAnswer::ok(forge("large", &recorded())));
                let found = ask(&dry_runs, &call("7", size)).await;
                let Found::Yes(DryRun::Differs { current, desired }) = found else {
                    panic!("{size} {version} {fields:?}")
                };
                assert_eq!(current.at("spec") != desired.at("spec"), is_value);
                for object in [&current, &desired] {
                    assert_eq!(object.at("metadata.annotations"), None);
                    assert_eq!(object.at("status"), None);
                    assert_eq!(object.at("metadata.managedFields").unwrap().as_array().unwrap().len(), 1);
                    assert!(!format!("{object:?}").contains("dry-run"), "{object:?}");
                }
                assert_eq!(script.left(), 0);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_server_refuses_or_keeps_to_itself_is_reported_with_the_object() {
        // SSA-09, SSA-10, RS-36
        let script = Script::default();
        let dry_runs = dry_runs(&script);
        let unreadable = |found: Found<DryRun>| match found {
            Found::Unreadable(reason) => reason,
            other => panic!("{other:?}"),
        };
        // The second response is not awaited then.
        script.expect(&Method::PATCH, PATH, &[], ScriptedAnswer::error(422, "Invalid"));
        let reason = unreadable(ask(&dry_runs, &call("7", "odd")).await);
        assert_eq!(reason, "Forge ns/f failed to apply in a dry run: scripted Invalid");
        answers(&script, ScriptedAnswer::ok(forge("odd", &recorded())), ScriptedAnswer::error(409, "Conflict"));
        assert!(unreadable(ask(&dry_runs, &call("7", "odd")).await).ends_with("scripted Conflict"));
        let broken = DryRunCall { current: "[]".to_owned(), ..call("7", "odd") };
        assert!(unreadable(ask(&dry_runs, &broken).await).ends_with("is not a JSON object"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_is_busy_has_refused_nothing() {
        // DEC-106
        let script = Script::default();
        let dry_runs = dry_runs(&script);
        script.expect(&Method::PATCH, PATH, &[], ScriptedAnswer::error(503, "ServiceUnavailable"));
        let overload = attempted(&dry_runs, &call("7", "odd")).await.unwrap_err();
        assert_eq!(overload.reason, "Forge ns/f failed to apply in a dry run: scripted ServiceUnavailable");
        answers(&script, ScriptedAnswer::Silence, ScriptedAnswer::Silence);
        let started = Instant::now();
        let overload = attempted(&dry_runs, &call("7", "odd")).await.unwrap_err();
        assert!(overload.reason.ends_with("did not answer in time"), "{overload}");
        assert_eq!(started.elapsed(), Duration::from_secs(9));
    }
}

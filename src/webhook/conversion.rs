//! From a ConversionReview to its answer: objects of one version in the shape of another (CONV).
//!
//! It needs no cache and asks no rule, so it answers as soon as the port is open, whatever this installation looks after:
//! the watches that fill the caches may themselves be waiting for it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::{debug, info, warn};

use super::body::{Bodies, Bounds, Unread};
use super::review::{Gone, PANICKED, patience, refusal};
use crate::budget::Stop;
use crate::hub::{GROUP, Kind};
use crate::json::{self, Size};
use crate::kubernetes::versions::ApiVersions;
use crate::telemetry::metrics::{self, Metrics};
use crate::wire::Version;
use crate::wire::conversion::{self, GroupKind};
use crate::wire::conversion_review::{API_VERSION, ConversionAnswer, ConversionRequest, ConversionReview, KIND, PATH};

/// Bounds of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest body in bytes: a page of a list, 500 objects of 64 KiB.
    pub body: usize,
    /// How long a body may take to arrive.
    pub time: Duration,
    /// How long a caller waits who does not say so.
    pub patience: Duration,
    /// Larger bodies are worked on aside, not on the async threads.
    pub inline: usize,
    /// How many of those are worked on at a time.
    pub aside: usize,
    /// How many smaller ones are, most of which wait for the API server.
    pub in_flight: usize,
    /// How many bytes of bodies may be held at a time.
    pub held: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let (body, held) = (32 * 1024 * 1024, 128 * 1024 * 1024);
        let (time, patience) = (Duration::from_secs(10), Duration::from_secs(30));
        Limits { body, time, patience, inline: 64 * 1024, aside: cores, in_flight: 512, held }
    }
}

/// What is too large to be stored, and so is no object (kube-apiserver takes requests of 3 MiB).
const LARGEST: usize = 3 * 1024 * 1024;

/// How much the text of an object may hold: an object becomes some 650 bytes, another value some 60.
const MOST: Size = Size { objects: 50_000, values: 400_000 };

/// Objects with more than this part of that are converted one at a time.
const PART: usize = 10;

/// How many kinds the objects of a review may refer to.
const KINDS: usize = 64;

/// How many failures a message names; it counts the others.
const NAMED: usize = 5;

/// What converts objects.
#[derive(Debug)]
pub struct Converter {
    versions: ApiVersions,
    limits: Limits,
    /// For bodies that are worked on aside, for the others, and for large objects.
    turns: Arc<Semaphore>,
    in_flight: Arc<Semaphore>,
    large: Semaphore,
    bodies: Bodies,
    metrics: Arc<Metrics>,
}

impl Converter {
    /// A converter that looks up API versions of referenced kinds in `versions`.
    pub fn new(versions: ApiVersions, limits: Limits, metrics: Arc<Metrics>) -> Self {
        let bounds = Bounds { body: limits.body, time: limits.time, held: limits.held };
        let waiting = metrics.waiting.get_or_create(&metrics::Queue { queue: "conversion_memory" }).clone();
        let [turns, in_flight] = [limits.aside, limits.in_flight].map(|count| Arc::new(Semaphore::new(count)));
        let (large, bodies) = (Semaphore::new(1), Bodies::new(bounds, waiting));
        Converter { versions, limits, turns, in_flight, large, bodies, metrics }
    }
}

/// Says where conversions are answered, on a port where they are not.
pub fn elsewhere() -> Router {
    let text = "conversions are answered at --conversion-addr: this port asks for a certificate of the caller, which \
                kube-apiserver does not show for conversions";
    Router::new().route(PATH, any(async move || refusal(StatusCode::NOT_FOUND, text)))
}

/// The end point as a router, the only one of its port.
pub fn router_alone(converter: Arc<Converter>) -> Router {
    let unknown = async |method: Method, uri: Uri| {
        let text = format!("nothing answers {method} {}; conversions go to POST {PATH}", uri.path());
        refusal(StatusCode::NOT_FOUND, &text)
    };
    router(converter).fallback(unknown).method_not_allowed_fallback(unknown)
}

/// The end point as a router.
pub fn router(converter: Arc<Converter>) -> Router {
    let metrics = converter.metrics.clone();
    let answer = async |State(converter): State<Arc<Converter>>, request: HttpRequest| converter.answer(request).await;
    Router::new().route(PATH, post(answer)).with_state(converter).layer(CatchPanicLayer::custom(move |_| {
        metrics.panics.inc();
        refusal(StatusCode::INTERNAL_SERVER_ERROR, PANICKED)
    }))
}

/// Why a request gets an HTTP error instead of a review.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error("the body is not a ConversionReview: {0}")]
    NotAReview(String),
    #[error("the answer could not be written: {0}")]
    Unwritable(#[from] serde_json::Error),
    #[error("the turn of this conversion did not come in the time that its caller waits; try again")]
    Late,
    #[error("the conversion took longer than its caller waits")]
    Unfinished,
    #[error("{PANICKED}")]
    Panicked,
}

impl Refusal {
    fn parts(&self) -> (StatusCode, &'static str) {
        match self {
            Refusal::Unread(unread) => unread.parts(),
            Refusal::NotAReview(_) => (StatusCode::BAD_REQUEST, "not_a_review"),
            Refusal::Unwritable(_) => (StatusCode::INTERNAL_SERVER_ERROR, "unwritable"),
            Refusal::Late => (StatusCode::TOO_MANY_REQUESTS, "no_turn"),
            Refusal::Unfinished => (StatusCode::INTERNAL_SERVER_ERROR, "unfinished"),
            Refusal::Panicked => (StatusCode::INTERNAL_SERVER_ERROR, "panicked"),
        }
    }
}

impl Converter {
    async fn answer(self: Arc<Self>, request: HttpRequest) -> Response {
        let metrics = self.metrics.clone();
        match self.clone().review(request).await {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], self.bodies.answer(body)).into_response(),
            Err(refused) => {
                let (code, reason) = refused.parts();
                metrics.refused_requests.get_or_create(&metrics::Reason { reason }).inc();
                info!(path = PATH, code = code.as_u16(), error = %refused, "Refused request");
                refusal(code, &refused.to_string())
            }
        }
    }

    async fn review(self: Arc<Self>, request: HttpRequest) -> Result<Vec<u8>, Refusal> {
        let deadline = Instant::now() + patience(request.uri().query(), self.limits.patience);
        let body = self.bodies.read(request, deadline).await?;
        let started = Instant::now();
        let is_small = body.len() <= self.limits.inline;
        let turns = if is_small { &self.in_flight } else { &self.turns };
        let turn = timeout_at(deadline, turns.clone().acquire_owned()).await;
        let turn = turn.ok().and_then(Result::ok).ok_or(Refusal::Late)?;
        let answer = if is_small {
            timeout_at(deadline, self.convert(&body, &Stop::never())).await
        } else {
            let (converter, runtime, gone) = (self.clone(), Handle::current(), Gone::default());
            let (is_gone, until) = (gone.0.clone(), deadline.into_std());
            let stop = Stop::when(move || is_gone.load(Ordering::Relaxed) || std::time::Instant::now() >= until);
            let work = tokio::task::spawn_blocking(move || {
                // It ends between objects, and keeps its turn until then, also after its caller has gone.
                let _turn = turn;
                runtime.block_on(converter.convert(&body, &stop))
            });
            let done = timeout_at(deadline, work).await;
            done.map(|done| {
                done.unwrap_or_else(|_| {
                    self.metrics.panics.inc();
                    Err(Refusal::Panicked)
                })
            })
        };
        self.metrics.conversion_duration.observe(started.elapsed().as_secs_f64());
        answer.unwrap_or(Err(Refusal::Unfinished))
    }

    async fn convert(&self, body: &[u8], stop: &Stop) -> Result<Vec<u8>, Refusal> {
        let review: ConversionReview<'_> =
            serde_json::from_slice(body).map_err(|error| Refusal::NotAReview(error.to_string()))?;
        if review.api_version != API_VERSION || review.kind != KIND {
            let what = format!("it is {:?} in {:?}, and {API_VERSION} is understood", review.kind, review.api_version);
            return Err(Refusal::NotAReview(what));
        }
        let request = review.request.ok_or_else(|| Refusal::NotAReview("it has no request".to_owned()))?;
        let outcome = self.all(&request, stop).await?;
        let (uid, objects, desired) = (&*request.uid, request.objects.len(), &*request.desired_api_version);
        match &outcome {
            Ok(_) => debug!(uid, objects, version = desired, "Converted objects"),
            Err(error) => warn!(uid, objects, version = desired, error, "Could not convert objects"),
        }
        Ok(serde_json::to_vec(&ConversionAnswer::new(uid, outcome))?)
    }

    /// Every object of a request in the desired version, or what is wrong with which.
    async fn all(
        &self,
        request: &ConversionRequest<'_>,
        stop: &Stop,
    ) -> Result<Result<Vec<Box<RawValue>>, String>, Refusal> {
        let desired = &*request.desired_api_version;
        let Some(to) = Version::from_api_version(desired) else {
            let known = format!("versions of {GROUP} are v1beta1 and v1beta2");
            return Ok(Err(format!("nothing is converted to {desired:?}; {known}")));
        };
        let (mut converted, mut failures) = (Vec::with_capacity(request.objects.len()), Failures::default());
        let mut kinds = BTreeSet::new();
        for (i, object) in request.objects.iter().enumerate() {
            if stop.has_stopped() {
                return Err(Refusal::Unfinished);
            }
            let (kind, outcome) = self.one(object.get(), to, &mut kinds).await;
            let labels = |outcome| metrics::Conversion { kind: kind.map_or("other", Kind::name), outcome };
            let label = if outcome.is_ok() { "success" } else { "failure" };
            self.metrics.conversions.get_or_create(&labels(label)).inc();
            match outcome {
                Ok(object) => converted.push(object),
                Err(reason) => failures.add(i, &reason),
            }
        }
        Ok(if failures.count == 0 { Ok(converted) } else { Err(failures.to_string()) })
    }

    async fn one(
        &self,
        text: &str,
        to: Version,
        kinds: &mut BTreeSet<GroupKind>,
    ) -> (Option<Kind>, Result<Box<RawValue>, String>) {
        let extent = Extent::of(text);
        if let Some(reason) = extent.excess() {
            return (None, Err(format!("{}: {reason}", glance(text))));
        }
        let _alone = if extent.is_large() { self.large.acquire().await.ok() } else { None };
        let mut object = match json::value(text) {
            Ok(object) => object,
            Err(error) => return (None, Err(error.to_string())),
        };
        let what = describe(&object);
        let Some(kind) = kind_of(&object) else {
            return (None, Err(format!("{what}: only Cluster and ClusterClass of {GROUP} are converted")));
        };
        let needed = conversion::versions_needed(kind, &object, to);
        kinds.extend(needed.iter().cloned());
        if kinds.len() > KINDS {
            return (Some(kind), Err(format!("{what}: the objects of one review refer to more than {KINDS} kinds")));
        }
        let versions = self.versions.find(needed).await;
        let outcome = conversion::convert(kind, &mut object, to, &versions)
            .map_err(|error| format!("{what} cannot be converted to {to}: {error}"))
            .and_then(|()| serde_json::value::to_raw_value(&object).map_err(|error| format!("{what}: {error}")));
        (Some(kind), outcome)
    }
}

/// What is wrong with the objects of a review: some of it, and how much there is.
#[derive(Debug, Default)]
struct Failures {
    named: Vec<String>,
    count: usize,
}

impl Failures {
    fn add(&mut self, index: usize, reason: &str) {
        self.count += 1;
        if self.named.len() < NAMED {
            self.named.push(format!("objects[{index}]: {reason}"));
        }
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.named.join("; "))?;
        match self.count - self.named.len() {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// How much the text of an object holds, counted before it is decoded.
#[derive(Clone, Copy, Debug)]
struct Extent {
    bytes: usize,
    size: Size,
}

impl Extent {
    fn of(text: &str) -> Extent {
        let bytes = text.len();
        // A byte is one value at most, and what is too large needs no count.
        let is_clear = bytes <= MOST.objects / PART || bytes > LARGEST;
        Extent { bytes, size: if is_clear { Size::default() } else { Size::of(text) } }
    }

    fn is_large(self) -> bool {
        self.size.exceeds(Size { objects: MOST.objects / PART, values: MOST.values / PART })
    }

    /// Why it is not decoded.
    fn excess(self) -> Option<String> {
        let Extent { bytes, size: Size { objects, values } } = self;
        let of = |count, what, limit| Some(format!("it has {count} {what}, and the limit is {limit}"));
        match () {
            () if bytes > LARGEST => of(bytes, "bytes", LARGEST),
            () if objects > MOST.objects => of(objects, "JSON objects", MOST.objects),
            () if values > MOST.values => of(values, "JSON values", MOST.values),
            () => None,
        }
    }
}

/// Describes an object without decoding all of it.
fn glance(text: &str) -> String {
    #[derive(Default, serde::Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Glance<'a> {
        #[serde(borrow)]
        api_version: Cow<'a, str>,
        #[serde(borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        metadata: Named<'a>,
    }
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct Named<'a> {
        #[serde(borrow)]
        namespace: Cow<'a, str>,
        #[serde(borrow)]
        name: Cow<'a, str>,
    }
    let Glance { api_version, kind, metadata } = serde_json::from_str(text).unwrap_or_default();
    described(&kind, &metadata.namespace, &metadata.name, &api_version)
}

/// `Cluster default/one (cluster.x-k8s.io/v1beta1)`
fn described(kind: &str, namespace: &str, name: &str, version: &str) -> String {
    // A name that is none must not fill the answer.
    let short = |text: &str| text.chars().take(253).collect::<String>();
    format!("{} {}/{} ({})", short(kind), short(namespace), short(name), short(version))
}

/// The kind of an object, if it is one of ours in a version that we know.
fn kind_of(object: &Value) -> Option<Kind> {
    Version::from_api_version(object["apiVersion"].as_str()?)?;
    Kind::from_name(object["kind"].as_str()?)
}

fn describe(object: &Value) -> String {
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let (kind, version) = (text(&object["kind"]), text(&object["apiVersion"]));
    described(&kind, &text(&metadata["namespace"]), &text(&metadata["name"]), &version)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use bytes::Bytes;
    use http_body_util::BodyExt;
    use serde_json::json;
    use tower::ServiceExt;

    use super::*;
    use crate::embedded::{Embedded, Options};

    fn converter(limits: Limits) -> Arc<Converter> {
        let versions = ApiVersions::of_cluster(Embedded::new(Options::default()).client());
        Arc::new(Converter::new(versions, limits, Arc::new(Metrics::default())))
    }

    async fn post(converter: &Arc<Converter>, body: impl Into<Body>) -> (StatusCode, String) {
        let request = HttpRequest::post(PATH).body(body.into()).unwrap();
        let response = router(converter.clone()).oneshot(request).await.unwrap();
        let code = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    fn review(desired: &str, objects: &[Value]) -> String {
        let request = json!({"uid": "u", "desiredAPIVersion": desired, "objects": objects});
        json!({"apiVersion": API_VERSION, "kind": KIND, "request": request}).to_string()
    }

    async fn response(converter: &Arc<Converter>, desired: &str, objects: &[Value]) -> Value {
        let (code, body) = post(converter, review(desired, objects)).await;
        assert_eq!(code, StatusCode::OK, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&answer["apiVersion"], &answer["kind"]), (&json!(API_VERSION), &json!(KIND)));
        assert_eq!(answer["response"]["uid"], "u");
        answer["response"].clone()
    }

    const NEW: &str = "cluster.x-k8s.io/v1beta2";
    const OLD: &str = "cluster.x-k8s.io/v1beta1";

    fn cluster(name: &str, topology: Value) -> Value {
        json!({"apiVersion": OLD, "kind": "Cluster", "metadata": {"name": name, "namespace": "ns"},
            "spec": {"topology": topology}})
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn many_objects_are_answered_in_their_order_inline_and_aside() {
        for inline in [0, Limits::default().inline] {
            let converter = converter(Limits { inline, ..Limits::default() });
            let objects: Vec<_> = (0..50).map(|i| cluster(&format!("c{i}"), json!({"class": "k"}))).collect();
            let response = response(&converter, NEW, &objects).await;
            assert_eq!(response["result"], json!({"status": "Success"}));
            let got = response["convertedObjects"].as_array().unwrap();
            assert_eq!(got.len(), 50);
            for (i, object) in got.iter().enumerate() {
                assert_eq!((&object["apiVersion"], &object["kind"]), (&json!(NEW), &json!("Cluster")));
                assert_eq!(object["metadata"]["name"], format!("c{i}"));
                assert_eq!(object["spec"], json!({"topology": {"classRef": {"name": "k"}}}));
            }
            let text = converter.metrics.render();
            assert!(text.contains("topologist_conversions_total{kind=\"Cluster\",outcome=\"success\"} 50\n"), "{text}");
            assert!(text.contains("topologist_conversion_duration_seconds_count 1\n"), "{text}");
        }
        assert_eq!(response(&converter(Limits::default()), NEW, &[]).await["convertedObjects"], json!([]));
    }

    #[tokio::test]
    async fn what_cannot_be_converted_is_named_and_nothing_else_is_answered() {
        let slow = |name: &str| cluster(name, json!({"controlPlane": {"nodeDrainTimeout": "soon"}}));
        let fine = cluster("fine", json!({"class": "k"}));
        let error = r#"spec.topology.controlPlane.nodeDrainTimeout: "soon" is not a duration such as 5m30s"#;
        let failure = |i: usize, name: &str| {
            format!(
                "objects[{i}]: Cluster ns/{name} (cluster.x-k8s.io/v1beta1) cannot be converted to v1beta2: {error}"
            )
        };
        let converter = converter(Limits::default());
        for (desired, objects, message) in [
            (NEW, vec![fine.clone(), slow("a")], failure(1, "a")),
            (NEW, vec![slow("a"), fine.clone(), slow("b")], format!("{}; {}", failure(0, "a"), failure(2, "b"))),
            (
                NEW,
                vec![json!({"apiVersion": OLD, "kind": "Machine", "metadata": {"name": "m"}})],
                "objects[0]: Machine /m (cluster.x-k8s.io/v1beta1): only Cluster and ClusterClass of cluster.x-k8s.io are converted".into(),
            ),
            (
                NEW,
                vec![json!({"apiVersion": "v1", "kind": "Cluster"})],
                "objects[0]: Cluster / (v1): only Cluster and ClusterClass of cluster.x-k8s.io are converted".into(),
            ),
            (NEW, vec![json!(5)], "objects[0]:  / (): only Cluster and ClusterClass of cluster.x-k8s.io are converted".into()),
            (
                "cluster.x-k8s.io/v2",
                vec![fine],
                r#"nothing is converted to "cluster.x-k8s.io/v2"; versions of cluster.x-k8s.io are v1beta1 and v1beta2"#.into(),
            ),
            (
                OLD,
                vec![json!({"apiVersion": NEW, "kind": "Cluster", "metadata": {"name": "r", "namespace": "ns"},
                    "spec": {"controlPlaneRef": {"apiGroup": "example.com", "kind": "Third", "name": "t"}}})],
                "objects[0]: Cluster ns/r (cluster.x-k8s.io/v1beta2) cannot be converted to v1beta1: spec.controlPlaneRef: \
                 the API version of Third.example.com is not known: CustomResourceDefinition thirds.example.com does \
                 not exist".into(),
            ),
        ] {
            let response = response(&converter, desired, &objects).await;
            assert_eq!(response["result"], json!({"status": "Failure", "message": message}));
            assert_eq!(response["convertedObjects"], json!([]));
        }
        let many: Vec<_> = (0..8).map(|i| slow(&format!("c{i}"))).collect();
        let message = response(&converter, NEW, &many).await["result"]["message"].as_str().unwrap().to_owned();
        assert!(
            message.ends_with("; and 3 more") && message.contains("ns/c4") && !message.contains("ns/c5"),
            "{message}"
        );
        let text = converter.metrics.render();
        for line in ["kind=\"Cluster\",outcome=\"failure\"} 12\n", "kind=\"other\",outcome=\"failure\"} 3\n"] {
            assert!(text.contains(&format!("topologist_conversions_total{{{line}")), "{line} is not in {text}");
        }
    }

    #[tokio::test]
    async fn what_is_no_review_gets_an_http_error() {
        let good = review(NEW, &[]);
        for (body, code, words) in [
            (String::new(), 400, "EOF"),
            ("[]".into(), 400, "not a ConversionReview"),
            ("{}".into(), 400, "apiextensions.k8s.io/v1 is understood"),
            (good.replace("k8s.io/v1\"", "k8s.io/v1beta1\""), 400, "v1beta1"),
            (good.replace("ConversionReview", "AdmissionReview"), 400, "AdmissionReview"),
            (json!({"apiVersion": API_VERSION, "kind": KIND}).to_string(), 400, "it has no request"),
            (
                json!({"apiVersion": API_VERSION, "kind": KIND, "request": {"uid": "u"}}).to_string(),
                400,
                "missing field",
            ),
            ("x".repeat(2_000), 413, "larger than 1000 bytes"),
        ] {
            let converter = converter(Limits { body: 1000, ..Limits::default() });
            let (got, text) = post(&converter, body).await;
            assert_eq!(got.as_u16(), code, "{text}");
            assert!(text.contains(words), "{text}");
            assert!(converter.metrics.render().contains("topologist_refused_requests_total{"));
        }
    }

    #[tokio::test]
    async fn what_would_take_much_memory_is_named_and_not_decoded() {
        let converter = converter(Limits::default());
        let spec = |filling: &str, count: usize| {
            let filling = vec![filling; count].join(",");
            let text = format!(
                r#"{{"apiVersion":"{NEW}","kind":"Cluster","metadata":{{"name":"c","namespace":"n"}},"spec":{{"x":[{filling}]}}}}"#
            );
            format!(
                r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","request":{{"uid":"u","desiredAPIVersion":"{OLD}","objects":[{text}]}}}}"#
            )
        };
        for (filling, count, words) in [
            (r#"{"":0}"#, 49_000, None),
            (r#"{"":0}"#, 60_000, Some("it has 60003 JSON objects, and the limit is 50000")),
            ("[0]", 210_000, Some("JSON values, and the limit is 400000")),
            ("0", 500_000, Some("values, and the limit is 400000")),
            (r#""{[{[{[{[{[{[{[{[{[{[{[""#, 3_000, None),
            (r#""xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx""#, 70_000, Some("bytes, and the limit is 3145728")),
        ] {
            let (code, body) = post(&converter, spec(filling, count)).await;
            assert_eq!(code, StatusCode::OK);
            let answer: Value = serde_json::from_str(&body).unwrap();
            let message = answer["response"]["result"]["message"].as_str();
            match words {
                None => assert_eq!(message, None),
                Some(words) => {
                    let message = message.unwrap();
                    assert!(message.starts_with("objects[0]: Cluster n/c (cluster.x-k8s.io/v1beta2): "), "{message}");
                    assert!(message.contains(words), "{message}");
                }
            }
        }
    }

    #[tokio::test]
    async fn the_kinds_that_a_review_asks_for_are_counted() {
        let converter = converter(Limits::default());
        let object = |i: usize| {
            json!({"apiVersion": NEW, "kind": "Cluster", "metadata": {"name": format!("c{i}"), "namespace": "ns"},
                "spec": {"controlPlaneRef": {"apiGroup": "example.com", "kind": format!("K{i}"), "name": "t"}}})
        };
        let objects: Vec<_> = (0..KINDS + 10).map(object).collect();
        let message = response(&converter, OLD, &objects).await["result"]["message"].as_str().unwrap().to_owned();
        assert!(message.ends_with(&format!("; and {} more", KINDS + 10 - NAMED)), "{message}");
        let message = response(&converter, OLD, &vec![object(0); 100]).await["result"]["message"].clone();
        assert!(message.as_str().unwrap().contains("does not exist"), "{message}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_conversion_ends_and_gives_its_turn_back_only_when_its_work_has_ended() {
        let limits = Limits { inline: 0, aside: 1, patience: Duration::from_millis(900), ..Limits::default() };
        let converter = converter(limits);
        // Somebody else converts a large object, which this one has to wait for.
        let large = converter.large.acquire().await.unwrap();
        let object = format!(r#"{{"apiVersion":"{NEW}","kind":"Cluster","spec":{{"x":[{}0]}}}}"#, "{},".repeat(6000));
        let text = format!(
            r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","request":{{"uid":"u","desiredAPIVersion":"{OLD}","objects":[{object},{object}]}}}}"#
        );
        let (code, body) = post(&converter, text.clone()).await;
        assert_eq!((code.as_u16(), &*body), (500, "topologist: the conversion took longer than its caller waits\n"));
        assert_eq!(converter.turns.available_permits(), 0, "it still works");
        let (code, _) = post(&converter, text).await;
        assert_eq!(code.as_u16(), 429);
        drop(large);
        let turn = tokio::time::timeout(Duration::from_secs(5), converter.turns.acquire()).await;
        assert!(turn.is_ok(), "it ends");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_is_given_up() {
        let (_sender, receiver) = futures::channel::mpsc::unbounded::<Result<Bytes, std::io::Error>>();
        let (code, _) = post(&converter(Limits::default()), Body::from_stream(receiver)).await;
        assert_eq!(code, StatusCode::REQUEST_TIMEOUT);
    }
}

//! Answers ConversionReviews: converts objects from one version to another (CONV).
//!
//! A conversion needs no cache and no rule, so it is answered as soon as the port is open, for all namespaces and
//! labels. The watches that fill the caches may need conversions themselves.

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

use super::body::{Bodies, BodyLimits};
use super::limits::{Disconnected, patience};
use super::rejection::{PANICKED, Rejection, error_response, request_of};
use crate::kubernetes::versions::ApiVersions;
use crate::telemetry::metrics::{self, Metrics};
use golang::json::{self, JsonSize};
use model::hub::{GROUP, Kind};
use model::wire::WireVersion;
use model::wire::conversion::embedded::{EmbeddedKind, EmbeddedVersion};
use model::wire::conversion::{self, ConversionError, KindKey, KindVersions, extension_config};
use model::wire::conversion_review::{API_VERSION, ConversionAnswer, ConversionRequest, KIND, PATH};
use schema::budget::Stop;

/// Limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversionLimits {
    /// The largest body in bytes: a page of a list, 500 objects of 64 KiB.
    pub body: usize,
    /// How long a body may take to arrive.
    pub time: Duration,
    /// How long a caller waits who does not say so.
    pub patience: Duration,
    /// Larger bodies are worked on blocking, not on the async threads.
    pub inline: usize,
    /// How many of those are worked on at a time.
    pub blocking: usize,
    /// How many smaller ones are, most of which wait for the API server.
    pub in_flight: usize,
    /// How many bytes of bodies may be held at a time.
    pub held: usize,
}

impl Default for ConversionLimits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let (body, held) = (32 * 1024 * 1024, 128 * 1024 * 1024);
        let (time, patience) = (Duration::from_secs(10), Duration::from_secs(30));
        ConversionLimits { body, time, patience, inline: 64 * 1024, blocking: cores, in_flight: 512, held }
    }
}

/// Maximum size of an object (kube-apiserver accepts requests of 3 MiB).
const LARGEST: usize = 3 * 1024 * 1024;

/// Maximum content of the text of an object: in memory, a JSON object takes about 650 bytes, another value about 60.
const MOST: JsonSize = JsonSize { objects: 50_000, values: 400_000 };

/// Objects with more than this fraction of [`MOST`] are converted one at a time.
const PART: usize = 10;

/// Maximum number of kinds that the objects of a review refer to.
const KINDS: usize = 64;

/// Maximum number of failures that a message names; it counts the others.
const NAMED: usize = 5;

/// Converts objects.
#[derive(Debug)]
pub struct Converter {
    versions: ApiVersions,
    limits: ConversionLimits,
    /// For bodies that are worked on blocking, for the others, and for large objects.
    turns: Arc<Semaphore>,
    in_flight: Arc<Semaphore>,
    large: Semaphore,
    bodies: Bodies,
    metrics: Arc<Metrics>,
}

impl Converter {
    /// A converter that looks up API versions of referenced kinds in `versions`.
    pub fn new(versions: ApiVersions, limits: ConversionLimits, metrics: Arc<Metrics>) -> Self {
        let bounds = BodyLimits { body: limits.body, time: limits.time, held: limits.held };
        let waiting = metrics.waiting.get_or_create(&metrics::Queue { queue: "conversion_memory" }).clone();
        let [turns, in_flight] = [limits.blocking, limits.in_flight].map(|count| Arc::new(Semaphore::new(count)));
        let (large, bodies) = (Semaphore::new(1), Bodies::new(bounds, waiting));
        Converter { versions, limits, turns, in_flight, large, bodies, metrics }
    }
}

/// A router that names the port of conversions, for the ports that do not serve them.
pub fn elsewhere() -> Router {
    let text = "conversions are answered at --conversion-addr: this port asks for a certificate of the caller, which \
                kube-apiserver does not show for conversions";
    Router::new().route(PATH, any(async move || error_response(StatusCode::NOT_FOUND, text)))
}

/// The end point as the only router of its port.
pub fn router_alone(converter: Arc<Converter>) -> Router {
    let unknown = async |method: Method, uri: Uri| {
        let text = format!("{method} {} is not served; send conversions to POST {PATH}", uri.path());
        error_response(StatusCode::NOT_FOUND, &text)
    };
    router(converter).fallback(unknown).method_not_allowed_fallback(unknown)
}

/// The end point as a router.
pub fn router(converter: Arc<Converter>) -> Router {
    let metrics = converter.metrics.clone();
    let answer = async |State(converter): State<Arc<Converter>>, request: HttpRequest| converter.answer(request).await;
    Router::new().route(PATH, post(answer)).with_state(converter).layer(CatchPanicLayer::custom(move |_| {
        metrics.panics.inc();
        error_response(StatusCode::INTERNAL_SERVER_ERROR, PANICKED)
    }))
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
                error_response(code, &refused.to_string())
            }
        }
    }

    async fn review(self: Arc<Self>, request: HttpRequest) -> Result<Vec<u8>, Rejection> {
        let deadline = Instant::now() + patience(request.uri().query(), self.limits.patience);
        let body = self.bodies.read(request, deadline).await?;
        let started = Instant::now();
        let is_small = body.len() <= self.limits.inline;
        let turns = if is_small { &self.in_flight } else { &self.turns };
        let turn = timeout_at(deadline, turns.clone().acquire_owned()).await;
        let turn = turn.ok().and_then(Result::ok).ok_or(Rejection::Late)?;
        let answer = if is_small {
            timeout_at(deadline, self.convert(&body, &Stop::never())).await
        } else {
            let (converter, runtime, gone) = (self.clone(), Handle::current(), Disconnected::default());
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
                    Err(Rejection::Panicked)
                })
            })
        };
        self.metrics.conversion_duration.observe(started.elapsed().as_secs_f64());
        answer.unwrap_or(Err(Rejection::Unfinished))
    }

    async fn convert(&self, body: &[u8], stop: &Stop) -> Result<Vec<u8>, Rejection> {
        let request: ConversionRequest<'_> = request_of(body, [API_VERSION, KIND])?;
        let outcome = self.all(&request, stop).await?;
        let (uid, objects, desired) = (&*request.uid, request.objects.len(), &*request.desired_api_version);
        match &outcome {
            Ok(_) => debug!(uid, objects, version = desired, "Converted objects"),
            Err(error) => {
                let error = error.to_string();
                warn!(uid, objects, version = desired, error, "Failed to convert objects");
            }
        }
        Ok(serde_json::to_vec(&ConversionAnswer::new(uid, outcome))?)
    }

    /// Every object of a request in the desired version, or the failures.
    async fn all(
        &self,
        request: &ConversionRequest<'_>,
        stop: &Stop,
    ) -> Result<Result<Vec<Box<RawValue>>, ConversionFailure>, Rejection> {
        let desired = &*request.desired_api_version;
        let Some(to) = TargetVersion::from_api_version(desired) else {
            return Ok(Err(ConversionFailure::UnknownVersion { desired: desired.to_owned() }));
        };
        let (mut converted, mut failures) = (Vec::with_capacity(request.objects.len()), ConversionFailures::default());
        let mut kinds = BTreeSet::new();
        for (i, object) in request.objects.iter().enumerate() {
            if stop.has_stopped() {
                return Err(Rejection::Unfinished);
            }
            let (kind, outcome) = self.one(object.get(), to, &mut kinds).await;
            let labels = |outcome| metrics::Conversion { kind: kind.unwrap_or("other"), outcome };
            let label = if outcome.is_ok() { "success" } else { "failure" };
            self.metrics.conversions.get_or_create(&labels(label)).inc();
            match outcome {
                Ok(object) => converted.push(object),
                Err(reason) => failures.add(i, &reason),
            }
        }
        Ok(if failures.count == 0 { Ok(converted) } else { Err(ConversionFailure::Objects(failures)) })
    }

    /// An object in the desired version; its kind, if that kind is converted.
    async fn one(
        &self,
        text: &str,
        to: TargetVersion<'_>,
        kinds: &mut BTreeSet<KindKey>,
    ) -> (Option<&'static str>, Result<Box<RawValue>, ObjectFailure>) {
        let extent = TextExtent::from_text(text);
        if let Some(reason) = extent.excess() {
            return (None, Err(ObjectFailure::TooLarge { object: identity(text), reason }));
        }
        let _alone = if extent.is_large() { self.large.acquire().await.ok() } else { None };
        let mut object = match json::value(text) {
            Ok(object) => object,
            Err(error) => return (None, Err(error.into())),
        };
        let what = describe(&object);
        let Some(conversion) = Conversion::for_object(&object, to) else {
            return (None, Err(ObjectFailure::OtherKind { object: what, known: to.kinds() }));
        };
        let kind = Some(conversion.kind());
        let needed = conversion.versions_needed(&object);
        kinds.extend(needed.iter().cloned());
        if kinds.len() > KINDS {
            return (kind, Err(ObjectFailure::TooManyKinds { object: what }));
        }
        let versions = self.versions.find(needed).await;
        if let Err(error) = conversion.run(&mut object, &versions) {
            let (to, source) = (to.to_string(), Box::new(error));
            return (kind, Err(ObjectFailure::Conversion { object: what, to, source }));
        }
        let encoded = serde_json::value::to_raw_value(&object);
        (kind, encoded.map_err(|source| ObjectFailure::Encode { object: what, source }))
    }
}

/// The reason for which a request is answered without objects.
#[derive(Debug, thiserror::Error)]
enum ConversionFailure {
    #[error(
        "nothing is converted to {desired:?}; versions of {GROUP} are v1beta1 and v1beta2, those of the embedded \
         provider v1alpha1 and v1beta1, and those of {} v1alpha1 and v1beta2",
        extension_config::GROUP
    )]
    UnknownVersion { desired: String },
    #[error("{0}")]
    Objects(ConversionFailures),
}

/// The reason for which an object is not converted.
#[derive(Debug, thiserror::Error)]
enum ObjectFailure {
    #[error("{object}: {reason}")]
    TooLarge { object: String, reason: String },
    #[error(transparent)]
    NoJson(#[from] serde_json::Error),
    #[error("{object}: only {known} are converted")]
    OtherKind { object: String, known: ConvertedKinds },
    #[error("{object}: the objects of one review refer to more than {KINDS} kinds")]
    TooManyKinds { object: String },
    #[error("{object} cannot be converted to {to}: {source}")]
    Conversion { object: String, to: String, source: Box<ConversionError> },
    #[error("{object}: {source}")]
    Encode { object: String, source: serde_json::Error },
}

/// The desired version of a request.
#[derive(Clone, Copy, Debug)]
enum TargetVersion<'a> {
    ClusterApi(WireVersion),
    Embedded(EmbeddedVersion),
    ExtensionConfig(&'a str),
}

impl<'a> TargetVersion<'a> {
    fn from_api_version(api_version: &'a str) -> Option<Self> {
        let embedded = || EmbeddedVersion::from_api_version(api_version).map(TargetVersion::Embedded);
        let of_extensions =
            || extension_config::is_version(api_version).then_some(TargetVersion::ExtensionConfig(api_version));
        WireVersion::from_api_version(api_version)
            .map(TargetVersion::ClusterApi)
            .or_else(embedded)
            .or_else(of_extensions)
    }

    fn kinds(self) -> ConvertedKinds {
        match self {
            TargetVersion::ClusterApi(_) => ConvertedKinds::ClusterApi,
            TargetVersion::Embedded(_) => ConvertedKinds::Embedded,
            TargetVersion::ExtensionConfig(_) => ConvertedKinds::ExtensionConfig,
        }
    }
}

/// The kinds that are converted to a version.
#[derive(Clone, Copy, Debug)]
enum ConvertedKinds {
    ClusterApi,
    Embedded,
    ExtensionConfig,
}

impl fmt::Display for ConvertedKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConvertedKinds::ClusterApi => write!(f, "Cluster and ClusterClass of {GROUP}"),
            ConvertedKinds::Embedded => f.write_str("kinds of the embedded provider"),
            ConvertedKinds::ExtensionConfig => write!(f, "ExtensionConfigs of {}", extension_config::GROUP),
        }
    }
}

impl fmt::Display for TargetVersion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetVersion::ClusterApi(version) => version.fmt(f),
            TargetVersion::Embedded(version) => version.fmt(f),
            TargetVersion::ExtensionConfig(version) => f.write_str(version),
        }
    }
}

/// How one object is converted.
#[derive(Clone, Copy, Debug)]
enum Conversion<'a> {
    ClusterApi(Kind, WireVersion),
    Embedded(&'static EmbeddedKind, EmbeddedVersion),
    ExtensionConfig(&'a str),
}

impl<'a> Conversion<'a> {
    /// The conversion of an object, if its kind is converted to that version.
    fn for_object(object: &Value, to: TargetVersion<'a>) -> Option<Self> {
        match to {
            TargetVersion::ClusterApi(version) => kind_of(object).map(|kind| Conversion::ClusterApi(kind, version)),
            TargetVersion::Embedded(version) => {
                EmbeddedKind::for_object(object).map(|kind| Conversion::Embedded(kind, version))
            }
            TargetVersion::ExtensionConfig(version) => {
                let from = object["apiVersion"].as_str()?;
                extension_config::is_version(from).then_some(Conversion::ExtensionConfig(version))
            }
        }
    }

    const fn kind(self) -> &'static str {
        match self {
            Conversion::ClusterApi(kind, _) => kind.name(),
            Conversion::Embedded(kind, _) => kind.name,
            Conversion::ExtensionConfig(_) => extension_config::KIND,
        }
    }

    fn versions_needed(self, object: &Value) -> Vec<KindKey> {
        match self {
            Conversion::ClusterApi(kind, to) => conversion::versions_needed(kind, object, to),
            Conversion::Embedded(_, to) => conversion::embedded::versions_needed(object, to),
            Conversion::ExtensionConfig(_) => Vec::new(),
        }
    }

    fn run(self, object: &mut Value, versions: &KindVersions) -> Result<(), ConversionError> {
        match self {
            Conversion::ClusterApi(kind, to) => conversion::convert(kind, object, to, versions),
            Conversion::Embedded(kind, to) => conversion::embedded::convert(kind, object, to, versions),
            Conversion::ExtensionConfig(to) => extension_config::convert(object, to),
        }
    }
}

/// The first failures of the objects of a review, and the number of all.
#[derive(Debug, Default)]
struct ConversionFailures {
    named: Vec<String>,
    count: usize,
}

impl ConversionFailures {
    fn add(&mut self, index: usize, reason: &ObjectFailure) {
        self.count += 1;
        if self.named.len() < NAMED {
            self.named.push(format!("objects[{index}]: {reason}"));
        }
    }
}

impl fmt::Display for ConversionFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.named.join("; "))?;
        match self.count - self.named.len() {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// The content of the text of an object, counted before it is decoded.
#[derive(Clone, Copy, Debug)]
struct TextExtent {
    bytes: usize,
    size: JsonSize,
}

impl TextExtent {
    fn from_text(text: &str) -> TextExtent {
        let bytes = text.len();
        // A byte is one value at most, and what is too large needs no count.
        let is_clear = bytes <= MOST.objects / PART || bytes > LARGEST;
        TextExtent { bytes, size: if is_clear { JsonSize::default() } else { JsonSize::measure(text) } }
    }

    fn is_large(self) -> bool {
        self.size.exceeds(JsonSize { objects: MOST.objects / PART, values: MOST.values / PART })
    }

    /// Why the text is not decoded.
    fn excess(self) -> Option<String> {
        let TextExtent { bytes, size: JsonSize { objects, values } } = self;
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
fn identity(text: &str) -> String {
    #[derive(Default, serde::Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct IdentityFields<'a> {
        #[serde(borrow)]
        api_version: Cow<'a, str>,
        #[serde(borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        metadata: NamedMetadata<'a>,
    }
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct NamedMetadata<'a> {
        #[serde(borrow)]
        namespace: Cow<'a, str>,
        #[serde(borrow)]
        name: Cow<'a, str>,
    }
    let IdentityFields { api_version, kind, metadata } = serde_json::from_str(text).unwrap_or_default();
    described(&kind, &metadata.namespace, &metadata.name, &api_version)
}

/// `Cluster default/one (cluster.x-k8s.io/v1beta1)`
fn described(kind: &str, namespace: &str, name: &str, version: &str) -> String {
    // A name that is none must not fill the answer.
    let short = |text: &str| text.chars().take(253).collect::<String>();
    format!("{} {}/{} ({})", short(kind), short(namespace), short(name), short(version))
}

/// The kind of an object of Cluster API in a known version.
fn kind_of(object: &Value) -> Option<Kind> {
    WireVersion::from_api_version(object["apiVersion"].as_str()?)?;
    Kind::from_name(object["kind"].as_str()?)
}

fn describe(object: &Value) -> String {
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let (kind, version) = (text(&object["kind"]), text(&object["apiVersion"]));
    described(&kind, &text(&metadata["namespace"]), &text(&metadata["name"]), &version)
}

#[cfg(test)]
mod tests;

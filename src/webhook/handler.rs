//! From an AdmissionReview to its answer.
//!
//! The envelope decides how a request is answered: without a readable envelope there is no uid, so the answer is an HTTP
//! error; with one it is always an AdmissionReview, whatever is wrong inside.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::{Instrument, error, info, info_span};

use crate::admission::{END_POINTS, EndPoint, Operation, Outcome, Question, Request, Settings, Verdict};
use crate::field::RuleId;
use crate::hub::GROUP;
use crate::kubernetes::gather::Gatherer;
use crate::telemetry::metrics::{self, Metrics};
use crate::wire::review::{API_VERSION, AdmissionRequest, AdmissionResponse, AdmissionReview, Status};
use crate::world::World;

/// Bounds of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest body in bytes: two objects of 3 MiB and their envelope.
    pub body: usize,
    /// How long a body may take to arrive, and how long a caller waits who does not say so.
    pub time: Duration,
    /// How many reviews may be in work at a time.
    pub in_flight: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { body: 7 * 1024 * 1024, time: Duration::from_secs(10), in_flight: 512 }
    }
}

/// How much earlier than its caller's timeout a request is answered.
const HEAD_START: Duration = Duration::from_millis(500);

/// How often a question is put before its Needs are called endless (design section 2).
const ROUNDS: usize = 16;

/// How a question is answered; a field of the handler so that tests can make it fail.
pub type Evaluate = fn(&Question, &World, &Settings) -> Verdict;

/// What answers reviews.
#[derive(Debug)]
pub struct Handler {
    gatherer: Gatherer,
    settings: Settings,
    limits: Limits,
    places: Semaphore,
    metrics: Arc<Metrics>,
    evaluate: Evaluate,
}

impl Handler {
    /// A handler that asks `gatherer` for facts.
    pub fn new(gatherer: Gatherer, settings: Settings, limits: Limits, metrics: Arc<Metrics>) -> Self {
        let places = Semaphore::new(limits.in_flight);
        Handler { gatherer, settings, limits, places, metrics, evaluate: Question::answer }
    }

    /// The same handler with another way of answering.
    #[must_use]
    pub fn with_evaluate(mut self, evaluate: Evaluate) -> Self {
        self.evaluate = evaluate;
        self
    }
}

/// Every end point as a router.
pub fn router(handler: Arc<Handler>) -> Router {
    let mut router = Router::new();
    for end_point in END_POINTS {
        let answer =
            move |State(handler): State<Arc<Handler>>, request: HttpRequest| handler.answer(end_point, request);
        router = router.route(end_point.path, on(MethodFilter::POST, answer));
    }
    let panics = handler.metrics.clone();
    router.fallback(unknown_path).with_state(handler).layer(CatchPanicLayer::custom(move |_| {
        panics.panics.inc();
        refusal(StatusCode::INTERNAL_SERVER_ERROR, "the request could not be handled; the log of topologist says why")
    }))
}

async fn unknown_path(method: Method, uri: http::Uri) -> Response {
    let paths: Vec<&str> = END_POINTS.iter().map(|end_point| end_point.path).collect();
    refusal(
        StatusCode::NOT_FOUND,
        &format!("nothing answers {method} {}; reviews go to POST {}", uri.path(), paths.join(", ")),
    )
}

/// Why a request gets an HTTP error instead of a review.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the body did not arrive within {0:?}")]
    TooSlow(Duration),
    #[error("the body could not be read: {0}")]
    Broken(String),
    #[error("too many reviews are in work; try again")]
    TooMany,
    #[error("the body is not an AdmissionReview: {0}")]
    NotAReview(String),
}

impl Refusal {
    fn code(&self) -> StatusCode {
        match self {
            Refusal::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::TooSlow(_) => StatusCode::REQUEST_TIMEOUT,
            Refusal::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Refusal::Broken(_) | Refusal::NotAReview(_) => StatusCode::BAD_REQUEST,
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Refusal::TooLarge(_) => "too_large",
            Refusal::TooSlow(_) => "too_slow",
            Refusal::Broken(_) => "broken",
            Refusal::TooMany => "too_many",
            Refusal::NotAReview(_) => "not_a_review",
        }
    }
}

impl Handler {
    async fn answer(self: Arc<Self>, end_point: EndPoint, request: HttpRequest) -> Response {
        let deadline = Instant::now() + patience(request.uri().query(), self.limits.time);
        match self.review(end_point, request.into_body(), deadline).await {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            Err(refused) => {
                self.metrics.refused_requests.get_or_create(&metrics::Reason { reason: refused.label() }).inc();
                info!(path = end_point.path, code = refused.code().as_u16(), error = %refused, "Refused request");
                refusal(refused.code(), &refused.to_string())
            }
        }
    }

    async fn review(&self, end_point: EndPoint, body: Body, deadline: Instant) -> Result<Vec<u8>, Refusal> {
        let _place = self.places.try_acquire().map_err(|_| Refusal::TooMany)?;
        let body = self.read(body).await?;
        let started = Instant::now();
        let review: AdmissionReview<'_> =
            serde_json::from_slice(&body).map_err(|error| Refusal::NotAReview(error.to_string()))?;
        if review.api_version != API_VERSION || review.kind != "AdmissionReview" {
            let what = format!("it is {:?} in {:?}, and {API_VERSION} is understood", review.kind, review.api_version);
            return Err(Refusal::NotAReview(what));
        }
        let request = review.request.ok_or_else(|| Refusal::NotAReview("it has no request".to_owned()))?;
        let span = info_span!("review", uid = &*request.uid);
        async {
            let answer = self.answer_review(end_point, &request, deadline).await;
            self.metrics.admission_duration.observe(started.elapsed().as_secs_f64());
            answer
        }
        .instrument(span)
        .await
    }

    async fn read(&self, body: Body) -> Result<Bytes, Refusal> {
        match tokio::time::timeout(self.limits.time, collect(body, self.limits.body)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Refusal::TooSlow(self.limits.time)),
        }
    }

    async fn answer_review(
        &self,
        end_point: EndPoint,
        review: &AdmissionRequest<'_>,
        deadline: Instant,
    ) -> Result<Vec<u8>, Refusal> {
        let verdict = match request(end_point, review) {
            Err(reason) => return self.misdirected(end_point, review, reason),
            Ok(request) => match Question::decode(&request) {
                Err(verdict) => *verdict,
                Ok(question) => self.settle(&question, deadline).await,
            },
        };
        self.note(&verdict, end_point, review);
        let response = verdict.response(&review.uid).map_err(|error| Refusal::Broken(error.to_string()))?;
        json(response)
    }

    /// A review of another kind, or of an operation that is not admitted: answered under its own uid.
    fn misdirected(
        &self,
        end_point: EndPoint,
        review: &AdmissionRequest<'_>,
        reason: String,
    ) -> Result<Vec<u8>, Refusal> {
        self.count(end_point, operation_label(review), "misdirected");
        let (namespace, name) = (review.namespace.as_deref(), review.name.as_deref());
        info!(
            kind = &*review.kind.kind,
            namespace,
            name,
            operation = &*review.operation,
            allowed = false,
            code = 400,
            error = reason,
            "Answered admission request"
        );
        let status = Some(Status::failure(400, "BadRequest", reason));
        json(AdmissionResponse { uid: &review.uid, status, ..AdmissionResponse::default() })
    }

    /// Puts the question, gathers what it needs, and puts it again until nothing is missing.
    async fn settle(&self, question: &Question, deadline: Instant) -> Verdict {
        let mut world = World::new(self.gatherer.cache().facts());
        for _ in 0..ROUNDS {
            let verdict = self.evaluate(question, &world);
            let needs = world.take_needs();
            if needs.is_empty() {
                return verdict;
            }
            for need in needs {
                let answer = self.gatherer.gather(&need, deadline).await;
                world.pin(need, answer);
            }
        }
        unknown(question, "the question did not come to an end")
    }

    /// One evaluation; a panic becomes the verdict that nothing could be found out (ADM-009).
    fn evaluate(&self, question: &Question, world: &World) -> Verdict {
        catch_unwind(AssertUnwindSafe(|| (self.evaluate)(question, world, &self.settings))).unwrap_or_else(|_| {
            self.metrics.panics.inc();
            error!("Review panicked");
            unknown(question, "the request could not be handled; the log of topologist says why")
        })
    }

    fn note(&self, verdict: &Verdict, end_point: EndPoint, review: &AdmissionRequest<'_>) {
        let outcome = match verdict.outcome {
            Outcome::Allowed => "allowed",
            Outcome::Invalid(_) => "invalid",
            Outcome::Forbidden { .. } => "forbidden",
            Outcome::Undecodable(_) => "undecodable",
            Outcome::Unknown { .. } => "unknown",
        };
        self.count(end_point, operation_label(review), outcome);
        let rules: Vec<RuleId> = verdict.denied_by();
        for rule in &rules {
            self.metrics.rule_rejections.get_or_create(&metrics::Rule { rule }).inc();
        }
        info!(
            kind = end_point.kind.name(),
            namespace = review.namespace.as_deref(),
            name = review.name.as_deref(),
            operation = &*review.operation,
            dry_run = review.dry_run,
            allowed = verdict.is_allowed(),
            code = verdict.code(),
            errors = verdict.errors().len(),
            warnings = verdict.warnings.len(),
            rule = (!rules.is_empty()).then(|| rules.join(",")),
            "Answered admission request"
        );
    }

    fn count(&self, end_point: EndPoint, operation: &'static str, outcome: &'static str) {
        let labels = metrics::Review { kind: end_point.kind.name(), operation, outcome };
        self.metrics.admission_requests.get_or_create(&labels).inc();
    }
}

/// How many times the limit of a body that is too large is still read, so that its sender gets to hear the answer.
const DISCARDED: usize = 4;

/// The whole of a body, if it is not larger than `limit`.
async fn collect(mut body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let (mut whole, mut size) = (Vec::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::Broken(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        size = size.saturating_add(data.len());
        if size <= limit {
            whole.push(data);
        } else if size > limit.saturating_mul(DISCARDED) {
            break;
        }
    }
    match whole.as_slice() {
        _ if size > limit => Err(Refusal::TooLarge(limit)),
        [only] => Ok(only.clone()),
        parts => Ok(parts.concat().into()),
    }
}

/// What a review asks of an end point, whose version says nothing: group, version and kind stand in the review.
fn request<'a>(end_point: EndPoint, review: &'a AdmissionRequest<'_>) -> Result<Request<'a>, String> {
    let version = Request::version_of(end_point.kind, &review.kind)?;
    if let Some(subresource) = review.sub_resource.as_deref().filter(|name| !name.is_empty()) {
        return Err(format!(
            "subresources of {}.{GROUP} are not reviewed, {subresource} included",
            end_point.kind.name()
        ));
    }
    let operation = Operation::from_name(&review.operation)
        .ok_or_else(|| format!("operation {} is not reviewed; CREATE, UPDATE and DELETE are", review.operation))?;
    Ok(Request {
        phase: end_point.phase,
        kind: end_point.kind,
        version,
        operation,
        name: review.name.as_deref().unwrap_or_default(),
        object: review.object.map(serde_json::value::RawValue::get).filter(|text| *text != "null"),
        old_object: review.old_object.map(serde_json::value::RawValue::get).filter(|text| *text != "null"),
    })
}

fn operation_label(review: &AdmissionRequest<'_>) -> &'static str {
    Operation::from_name(&review.operation).map_or("OTHER", Operation::name)
}

/// How long the caller waits (`timeout=10s` in the query), less what it takes to answer in time.
fn patience(query: Option<&str>, otherwise: Duration) -> Duration {
    let parameters = query.into_iter().flat_map(|query| query.split('&'));
    let timeout = parameters.filter_map(|parameter| parameter.strip_prefix("timeout=")).find_map(|text| {
        let seconds = text.strip_suffix('s')?.parse::<u64>().ok()?;
        Some(Duration::from_secs(seconds.min(60)))
    });
    timeout.unwrap_or(otherwise).saturating_sub(HEAD_START)
}

fn unknown(question: &Question, message: &str) -> Verdict {
    let outcome = Outcome::Unknown { rule: "ADM-009", message: message.to_owned() };
    Verdict::plain(question.kind(), question.name(), outcome)
}

fn json(response: AdmissionResponse<'_>) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(&response.into_review()).map_err(|error| Refusal::Broken(error.to_string()))
}

fn refusal(code: StatusCode, message: &str) -> Response {
    (code, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("topologist: {message}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::*;
    use crate::kubernetes::cache::Cache;
    use crate::world::Facts;

    const PATH: &str = "/validate-cluster-x-k8s-io-v1beta2-cluster?timeout=1s";

    fn handler(limits: Limits) -> Handler {
        let cache = Arc::new(Cache::new(Facts::of([], [])));
        Handler::new(Gatherer::new(cache), Settings::default(), limits, Arc::new(Metrics::default()))
    }

    async fn post(handler: Handler, path: &str, body: impl Into<Body>) -> (StatusCode, String) {
        let request = HttpRequest::post(path).body(body.into()).unwrap();
        let response = router(Arc::new(handler)).oneshot(request).await.unwrap();
        let code = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    fn review(request: Value) -> String {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string()
    }

    fn create(object: Value) -> Value {
        json!({"uid": "u", "kind": {"group": "cluster.x-k8s.io", "version": "v1beta2", "kind": "Cluster"},
            "operation": "CREATE", "name": "c", "namespace": "ns", "object": object})
    }

    async fn status(request: Value) -> Value {
        let (code, body) = post(handler(Limits::default()), PATH, review(request)).await;
        assert_eq!(code, StatusCode::OK);
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["response"]["uid"], "u");
        assert_eq!(answer["response"]["allowed"], false);
        answer["response"]["status"].clone()
    }

    #[tokio::test]
    async fn what_is_no_review_gets_an_http_error() {
        for (body, code, words) in [
            (String::new(), 400, "EOF"),
            ("{\"apiVersion\":".into(), 400, "EOF"),
            ("[]".into(), 400, "not an AdmissionReview"),
            ("{}".into(), 400, "admission.k8s.io/v1 is understood"),
            (review(create(json!({}))).replace("admission.k8s.io/v1\"", "admission.k8s.io/v1beta1\""), 400, "v1beta1"),
            (review(Value::Null), 400, "it has no request"),
            (review(json!({"uid": "u"})), 400, "missing field"),
            ("x".repeat(8 * 1024 * 1024), 413, "larger than 7340032 bytes"),
        ] {
            let (got, text) = post(handler(Limits::default()), PATH, body).await;
            assert_eq!(got.as_u16(), code, "{text}");
            assert!(text.contains(words), "{text}");
        }
        let (code, text) = post(handler(Limits::default()), "/validate", "").await;
        assert_eq!(code, StatusCode::NOT_FOUND);
        assert!(text.contains(PATH.split('?').next().unwrap()), "{text}");
    }

    #[tokio::test]
    async fn what_is_wrong_inside_a_review_is_answered_under_its_uid() {
        // ADM-001, ADM-003
        let change = |key: &str, value: Value| {
            let mut request = create(json!({}));
            request[key] = value;
            request
        };
        for (request, words) in [
            (create(json!({"spec": {"paused": "no"}})), "spec.paused: invalid type"),
            (create(json!([])), "expected an object"),
            (create(Value::Null), "the review has no object"),
            (
                change("kind", json!({"group": "cluster.x-k8s.io", "version": "v1beta2", "kind": "ClusterClass"})),
                "about ClusterClass",
            ),
            (
                change("kind", json!({"group": "cluster.x-k8s.io", "version": "v1", "kind": "Cluster"})),
                "cluster.x-k8s.io/v1",
            ),
            (
                change("kind", json!({"group": "example.com", "version": "v1beta2", "kind": "Cluster"})),
                "example.com/v1beta2",
            ),
            (change("operation", json!("CONNECT")), "operation CONNECT is not reviewed"),
            (change("operation", json!("UPDATE")), "the review has no oldObject"),
            (change("subResource", json!("status")), "subresources"),
        ] {
            let status = status(request.clone()).await;
            assert_eq!((&status["code"], &status["reason"]), (&json!(400), &json!("BadRequest")), "{request}");
            assert!(status["message"].as_str().unwrap().contains(words), "{status}");
        }
    }

    #[tokio::test]
    async fn a_panic_ends_one_request_with_code_500_and_is_counted() {
        // ADM-009
        let metrics = Arc::new(Metrics::default());
        let cache = Arc::new(Cache::new(Facts::of([], [])));
        let broken = Handler::new(Gatherer::new(cache), Settings::default(), Limits::default(), metrics.clone())
            .with_evaluate(|_, _, _| panic!("on purpose"));
        let (code, body) = post(broken, PATH, review(create(json!({"metadata": {"name": "c"}})))).await;
        assert_eq!(code, StatusCode::OK);
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["response"]["status"]["code"], 500);
        assert_eq!(answer["response"]["uid"], "u");
        assert_eq!(metrics.panics.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_is_given_up() {
        let (_sender, receiver) = futures::channel::mpsc::unbounded::<Result<Bytes, std::io::Error>>();
        let (code, text) = post(handler(Limits::default()), PATH, Body::from_stream(receiver)).await;
        assert_eq!((code, &*text), (StatusCode::REQUEST_TIMEOUT, "topologist: the body did not arrive within 10s\n"));
    }

    #[tokio::test]
    async fn more_reviews_than_places_are_turned_away() {
        let limits = Limits { in_flight: 0, ..Limits::default() };
        let (code, text) = post(handler(limits), PATH, review(create(json!({})))).await;
        assert_eq!(
            (code, &*text),
            (StatusCode::TOO_MANY_REQUESTS, "topologist: too many reviews are in work; try again\n")
        );
    }

    #[test]
    fn the_callers_timeout_bounds_ours() {
        let otherwise = Duration::from_secs(10);
        for (query, want) in [
            (None, 9_500),
            (Some("timeout=3s"), 2_500),
            (Some("a=b&timeout=1s"), 500),
            (Some("timeout=0s"), 0),
            (Some("timeout=x"), 9_500),
            (Some("timeout=9999s"), 59_500),
        ] {
            assert_eq!(patience(query, otherwise), Duration::from_millis(want), "{query:?}");
        }
    }
}

//! From an AdmissionReview to its answer.
//!
//! The envelope decides how a request is answered: without a readable envelope there is no uid, so the answer is an HTTP
//! error; with one it is always an AdmissionReview, whatever is wrong inside.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::{Instrument, Span, info, info_span};

use super::body::{Bodies, Bounds, Unread};
use super::queue::{Queue, Shed};
use super::server::Peer;
use super::turns::{Owner, Turns};

use crate::admission::{
    END_POINTS, EndPoint, Enforce, MACHINE_END_POINTS, Operation, Outcome, Question, Request, Settings, Verdict,
};
use crate::budget::Stop;
use crate::hub::{GROUP, Kind, Metadata};
use crate::json;
use crate::kubernetes::gather::Gatherer;
use crate::telemetry::metrics::{self, Metrics, Raised};
use crate::wire::Version;
use crate::wire::conversion_review;
use crate::wire::review::{API_VERSION, AdmissionRequest, AdmissionResponse, AdmissionReview, Status, StatusDetails};
use crate::world::{Computed, Scope, Unsettled, World, settle};

/// Bounds of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest body in bytes: two objects of 3 MiB and their envelope.
    pub body: usize,
    /// How long a body may take to arrive, and how long a caller waits who does not say so.
    pub time: Duration,
    /// How many reviews may be in work at a time, waiting for a class included.
    pub in_flight: usize,
    /// How many reviews may wait until they are taken into work.
    pub queue: usize,
    /// How many threads may do work that takes over a millisecond: reviews of ClusterClasses, and of large objects.
    pub aside: usize,
    /// How many reviews in work may wait for such a thread.
    pub aside_queue: usize,
    /// How many bytes of bodies may be held at a time.
    pub held: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // One core stays with the reviews of Clusters.
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Limits {
            body: 7 * 1024 * 1024,
            time: Duration::from_secs(10),
            in_flight: 512,
            queue: 2048,
            aside: cores.saturating_sub(1).max(1),
            aside_queue: 256,
            held: 256 * 1024 * 1024,
        }
    }
}

/// Reviews of Clusters with a larger object leave the async threads too (DEC-44).
const INLINE: usize = 64 * 1024;

/// How long a review may take a turn at the threads for long work, whose other reviews have to be answered within their callers'
/// timeouts. Without optimization everything takes many times as long.
const TURN_TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 45 } else { 3 });

/// How long a review may hold an async thread; one that takes longer begins again on a thread for such work.
const INLINE_TIME: Duration = Duration::from_millis(10);

/// After how many seconds a write that was shed should be tried again; clients do so by themselves.
const RETRY_AFTER: u32 = 1;

/// How much earlier than its caller's timeout a request is answered.
const HEAD_START: Duration = Duration::from_millis(500);

/// How much earlier the last facts have to be there.
const LAST_ROUND: Duration = Duration::from_millis(100);

/// How a question is answered; a field of the handler so that a test can make it fail.
type Evaluate = fn(&Question, &World, &Settings) -> Verdict;

/// What answers reviews.
#[derive(Debug)]
pub struct Handler {
    gatherer: Gatherer,
    settings: Arc<Settings>,
    limits: Limits,
    places: Queue,
    aside: Turns,
    bodies: Bodies,
    metrics: Arc<Metrics>,
    evaluate: Evaluate,
}

impl Handler {
    /// A handler that asks `gatherer` for facts.
    pub fn new(gatherer: Gatherer, settings: Settings, limits: Limits, metrics: Arc<Metrics>) -> Self {
        let waiting = |queue| metrics.waiting.get_or_create(&metrics::Queue { queue }).clone();
        Handler {
            gatherer,
            settings: Arc::new(settings),
            limits,
            places: Queue::new(limits.in_flight, limits.queue, waiting("reviews")),
            aside: Turns::new(limits.aside, limits.aside_queue, waiting("threads")),
            bodies: Bodies::new(Bounds { body: limits.body, time: limits.time, held: limits.held }, waiting("memory")),
            metrics,
            evaluate: Question::answer,
        }
    }
}

/// The end points that are answered; those for machines where machines are driven (MA-28).
fn end_points(settings: &Settings) -> impl Iterator<Item = EndPoint> {
    END_POINTS.into_iter().chain(MACHINE_END_POINTS.into_iter().filter(|_| settings.lifecycle))
}

/// Every end point as a router.
pub fn router(handler: Arc<Handler>) -> Router {
    let mut router = Router::new();
    for end_point in end_points(&handler.settings) {
        let answer =
            move |State(handler): State<Arc<Handler>>, request: HttpRequest| handler.answer(end_point, request);
        router = router.route(end_point.path, on(MethodFilter::POST, answer));
    }
    let router = router.fallback(unknown_path).method_not_allowed_fallback(unknown_path);
    let metrics = handler.metrics.clone();
    router.with_state(handler).layer(CatchPanicLayer::custom(move |_| {
        metrics.panics.inc();
        refusal(StatusCode::INTERNAL_SERVER_ERROR, PANICKED)
    }))
}

pub(super) const PANICKED: &str = "the request could not be handled; the log of topologist says why";

async fn unknown_path(State(handler): State<Arc<Handler>>, method: Method, uri: http::Uri) -> Response {
    let paths = end_points(&handler.settings).map(|end_point| end_point.path);
    let paths: Vec<&str> = paths.chain([conversion_review::PATH]).collect();
    refusal(
        StatusCode::NOT_FOUND,
        &format!("nothing answers {method} {}; reviews go to POST {}", uri.path(), paths.join(", ")),
    )
}

/// Why a request gets an HTTP error instead of a review.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error("the body is not an AdmissionReview: {0}")]
    NotAReview(String),
    #[error("the answer could not be written: {0}")]
    Unwritable(#[from] serde_json::Error),
}

impl Refusal {
    /// The status of the answer, and what metrics call it.
    fn parts(&self) -> (StatusCode, &'static str) {
        match self {
            Refusal::Unread(unread) => unread.parts(),
            Refusal::NotAReview(_) => (StatusCode::BAD_REQUEST, "not_a_review"),
            Refusal::Unwritable(_) => (StatusCode::INTERNAL_SERVER_ERROR, "unwritable"),
        }
    }
}

impl Handler {
    async fn answer(self: Arc<Self>, end_point: EndPoint, request: HttpRequest) -> Response {
        let deadline = Instant::now() + patience(request.uri().query(), self.limits.time);
        let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
        match self.review(end_point, request, peer, deadline).await {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], self.bodies.answer(body)).into_response(),
            Err(refused) => {
                let (code, reason) = refused.parts();
                self.metrics.refused_requests.get_or_create(&metrics::Reason { reason }).inc();
                info!(path = end_point.path, code = code.as_u16(), error = %refused, "Refused request");
                refusal(code, &refused.to_string())
            }
        }
    }

    async fn review(
        &self,
        end_point: EndPoint,
        request: HttpRequest,
        peer: Option<IpAddr>,
        deadline: Instant,
    ) -> Result<Vec<u8>, Refusal> {
        // A place is for work; a body that is still on its way takes none.
        let body = self.bodies.read(request, deadline).await?;
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
            let owner = Owner { peer, namespace: request.namespace.as_deref().unwrap_or_default() };
            let answer = match self.judge(end_point, &request, &body, owner, deadline).await {
                Ok(verdict) => {
                    self.note(&verdict, end_point, &request);
                    serde_json::to_vec(&verdict.response(&request.uid)?.into_review())?
                }
                Err(shed) => {
                    self.note_shed(shed, end_point, &request);
                    serde_json::to_vec(&overload(shed, self.settings.enforce, end_point, &request).into_review())?
                }
            };
            self.metrics.admission_duration.observe(started.elapsed().as_secs_f64());
            Ok(answer)
        }
        .instrument(span)
        .await
    }

    async fn judge(
        &self,
        end_point: EndPoint,
        review: &AdmissionRequest<'_>,
        body: &Bytes,
        owner: Owner<'_>,
        deadline: Instant,
    ) -> Result<Verdict, Shed> {
        if !is_looked_after(review, self.gatherer.cache().facts().scope()) {
            return Ok(Verdict::plain(end_point.kind, "", Outcome::Allowed));
        }
        let _place = self.places.place(deadline).await?;
        let _counted = Raised::new(&self.metrics.in_flight);
        let name = review.name.as_deref().unwrap_or_default();
        let verdict = match Asked::of(end_point, review, body) {
            Err(reason) => Verdict::plain(end_point.kind, name, Outcome::Undecodable(reason)),
            Ok(asked) => {
                let work = Work { pace: asked.pace(), owner, deadline };
                match self.settle(asked, work).await {
                    Ok(verdict) => verdict,
                    Err(Ended::Undecodable(verdict)) => *verdict,
                    Err(Ended::Unsettled(unsettled)) => Verdict::unsettled(end_point.kind, name, &unsettled),
                    // A panic becomes the verdict that nothing could be found out (ADM-009).
                    Err(Ended::Panicked) => self.panicked(end_point.kind, name),
                    Err(Ended::Shed(shed)) => return Err(shed),
                }
            }
        };
        Ok(match self.settings.enforce {
            Enforce::Deny => verdict,
            Enforce::Warn => verdict.softened(),
        })
    }

    /// Puts the question until no fact is missing. It is decoded in the first turn and not before: while reviews wait for it,
    /// they are no more than their text.
    async fn settle(&self, asked: Asked, work: Work<'_>) -> Result<Verdict, Ended> {
        // Facts may come late, and the last answer still has to be given.
        let facts_by = work.deadline.checked_sub(LAST_ROUND).unwrap_or(work.deadline);
        let put = |world, (put, work)| self.put(world, put, work);
        let gather = |needs| self.gatherer.gather_all(needs, facts_by);
        let (verdict, _) = settle(self.gatherer.world(), (Put::AsText(asked), work), put, gather).await?;
        Ok(verdict)
    }

    /// Puts the question once, on a thread for such work if it takes long.
    async fn put<'a>(
        &self,
        mut world: World,
        mut put: Put,
        mut work: Work<'a>,
    ) -> Computed<Verdict, (Put, Work<'a>), Ended> {
        loop {
            let (evaluate, settings, is_aside) = (self.evaluate, self.settings.clone(), work.pace == Pace::Aside);
            let round = move |stop| {
                let (question, world) = (put.question()?, world.until(stop));
                let verdict = (is_aside || question.is_quick(&world)).then(|| evaluate(&question, &world, &settings));
                Ok((question, verdict.filter(|_| is_aside || !world.stop().has_stopped()), world))
            };
            let (question, verdict, seen) = self.work(work, round).await?.map_err(Ended::Undecodable)?;
            (put, world) = (Put::Decoded(question), seen);
            if let Some(verdict) = verdict {
                return Ok((verdict, world, (put, work)));
            }
            // It is no work for an async thread. What was recorded on the way is asked for again.
            (work.pace, _) = (Pace::Aside, world.take_needs());
        }
    }

    /// Does work on this thread, or aside in its turn. It is told to stop when it has taken too long for this thread, when the
    /// deadline is over, and when its caller has gone.
    async fn work<T: Send + 'static>(
        &self,
        Work { pace, owner, deadline }: Work<'_>,
        work: impl FnOnce(Stop) -> T + Send + 'static,
    ) -> Result<T, Ended> {
        if pace == Pace::Inline {
            let until = std::time::Instant::now() + INLINE_TIME;
            let stop = Stop::when(move || std::time::Instant::now() >= until);
            return catch_unwind(AssertUnwindSafe(|| work(stop))).map_err(|_| Ended::Panicked);
        }
        let turn = self.aside.turn(owner, deadline).await?;
        let (span, gone) = (Span::current(), Gone::default());
        let stop = {
            let (until, is_gone) = (deadline.min(Instant::now() + TURN_TIME).into_std(), gone.0.clone());
            Stop::when(move || is_gone.load(Ordering::Relaxed) || std::time::Instant::now() >= until)
        };
        let work = tokio::task::spawn_blocking(move || {
            // Work ends between its parts: it keeps its turn until then, also after its caller has gone.
            let _turn = turn;
            span.in_scope(|| catch_unwind(AssertUnwindSafe(|| work(stop))))
        });
        match timeout_at(deadline, work).await {
            Ok(done) => done.unwrap_or_else(|error| Err(Box::new(error))).map_err(|_| Ended::Panicked),
            Err(_) => Err(Shed::Unfinished.into()),
        }
    }

    fn panicked(&self, kind: Kind, name: &str) -> Verdict {
        self.metrics.panics.inc();
        Verdict::plain(kind, name, Outcome::Unknown { rule: "ADM-009", message: PANICKED.to_owned() })
    }

    fn note(&self, verdict: &Verdict, end_point: EndPoint, review: &AdmissionRequest<'_>) {
        let labels = |outcome| metrics::Review {
            kind: end_point.kind.name(),
            operation: operation_label(review),
            outcome: outcome_label(outcome),
        };
        self.metrics.admission_requests.get_or_create(&labels(&verdict.outcome)).inc();
        if let Some(would_be) = &verdict.would_be {
            self.metrics.would_be_denials.get_or_create(&labels(would_be)).inc();
        }
        let mut rules = BTreeSet::new();
        for rule in verdict.denied_by() {
            self.metrics.rule_rejections.get_or_create(&metrics::Rule { rule }).inc();
            rules.insert(rule);
        }
        info!(
            kind = end_point.kind.name(),
            namespace = review.namespace.as_deref(),
            name = review.name.as_deref(),
            operation = &*review.operation,
            dry_run = review.dry_run,
            allowed = verdict.is_allowed(),
            would_deny = verdict.would_be.is_some().then_some(true),
            code = verdict.code(),
            errors = verdict.errors().len(),
            warnings = verdict.warnings.len(),
            rule = (!rules.is_empty()).then(|| rules.into_iter().collect::<Vec<_>>().join(",")),
            not_checked = (!verdict.not_checked.is_empty()).then(|| verdict.not_checked.join(",")),
            error = verdict.message().filter(|_| verdict.errors().is_empty()),
            "Answered admission request"
        );
    }

    fn note_shed(&self, shed: Shed, end_point: EndPoint, review: &AdmissionRequest<'_>) {
        let (kind, operation) = (end_point.kind.name(), operation_label(review));
        let labels = metrics::Review { kind, operation, outcome: "shed" };
        self.metrics.admission_requests.get_or_create(&labels).inc();
        self.metrics.shed_requests.get_or_create(&metrics::Reason { reason: shed.label() }).inc();
        info!(
            kind = end_point.kind.name(),
            namespace = review.namespace.as_deref(),
            name = review.name.as_deref(),
            operation = &*review.operation,
            reason = shed.label(),
            "Shed admission request"
        );
    }
}

/// Whether the object of a review is one that this installation looks after (DEC-37): it is, or it was.
fn is_looked_after(review: &AdmissionRequest<'_>, scope: &Scope) -> bool {
    #[derive(serde::Deserialize)]
    struct Glance {
        metadata: Metadata,
    }
    let namespace = review.namespace.as_deref().unwrap_or_default();
    if !scope.has_namespace(namespace) {
        return false;
    }
    if !scope.looks_at_labels() {
        return true;
    }
    let mut objects = [review.object, review.old_object].into_iter().flatten();
    // What cannot be read is not let through unread.
    objects.any(|object| json::decode::<Glance>(object.get()).map_or(true, |object| scope.has_labels(&object.metadata)))
}

/// How the work on a review is done.
#[derive(Clone, Copy, Debug)]
struct Work<'a> {
    pace: Pace,
    /// Whose turn it takes.
    owner: Owner<'a>,
    deadline: Instant,
}

/// Tells the work that its caller has gone, once it is dropped.
#[derive(Debug, Default)]
pub(super) struct Gone(pub(super) Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the object does not decode")]
    Undecodable(Box<Verdict>),
    #[error(transparent)]
    Unsettled(#[from] Unsettled),
    #[error("{PANICKED}")]
    Panicked,
    #[error(transparent)]
    Shed(#[from] Shed),
}

/// Where the work on a review is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// On the async thread: it takes less than a millisecond.
    Inline,
    /// On a thread for such work: compiling what a ClusterClass holds can take seconds.
    Aside,
}

/// A question as it is put in a round.
enum Put {
    AsText(Asked),
    Decoded(Question),
}

impl Put {
    fn question(self) -> Result<Question, Box<Verdict>> {
        match self {
            Put::AsText(asked) => asked.question(),
            Put::Decoded(question) => Ok(question),
        }
    }
}

/// What a review asks of an end point, whose version says nothing: group, version and kind stand in the review.
struct Asked {
    end_point: EndPoint,
    version: Version,
    operation: Operation,
    name: String,
    /// The objects, as parts of the body.
    object: Option<Bytes>,
    old_object: Option<Bytes>,
}

impl Asked {
    fn of(end_point: EndPoint, review: &AdmissionRequest<'_>, body: &Bytes) -> Result<Self, String> {
        let version = Request::version_of(end_point.kind, &review.kind)?;
        if let Some(subresource) = review.sub_resource.as_deref().filter(|name| !name.is_empty()) {
            return Err(format!(
                "subresources of {}.{GROUP} are not reviewed, {subresource} included",
                end_point.kind.name()
            ));
        }
        let operation = Operation::from_name(&review.operation)
            .ok_or_else(|| format!("operation {} is not reviewed; CREATE, UPDATE and DELETE are", review.operation))?;
        let part = |object: Option<&RawValue>| {
            let text = object.map(RawValue::get).filter(|text| *text != "null");
            text.map(|text| body.slice_ref(text.as_bytes()))
        };
        Ok(Asked {
            end_point,
            version,
            operation,
            name: review.name.as_deref().unwrap_or_default().to_owned(),
            object: part(review.object),
            old_object: part(review.old_object),
        })
    }

    fn pace(&self) -> Pace {
        let objects = [&self.object, &self.old_object];
        let is_small = objects.into_iter().flatten().all(|object| object.len() <= INLINE);
        if is_small && self.end_point.kind != Kind::ClusterClass { Pace::Inline } else { Pace::Aside }
    }

    fn question(&self) -> Result<Question, Box<Verdict>> {
        let text = |part| str::from_utf8(part).expect("a part of a body that was read as text");
        Question::decode(&Request {
            phase: self.end_point.phase,
            kind: self.end_point.kind,
            version: self.version,
            operation: self.operation,
            name: &self.name,
            object: self.object.as_deref().map(text),
            old_object: self.old_object.as_deref().map(text),
            old_version: self.version,
        })
    }
}

/// The answer to a review that is shed: the code and the hint let the client try again by itself. Where denials are only
/// talked about, this one is too (DEC-38).
fn overload<'a>(
    shed: Shed,
    enforce: Enforce,
    end_point: EndPoint,
    review: &'a AdmissionRequest<'_>,
) -> AdmissionResponse<'a> {
    let message = format!("topologist is overloaded: {shed}");
    let unread = AdmissionResponse { uid: &review.uid, ..AdmissionResponse::default() };
    if enforce == Enforce::Warn {
        return AdmissionResponse { allowed: true, warnings: vec![format!("would be denied: {message}")], ..unread };
    }
    let (code, reason, retry_after_seconds) = match shed {
        Shed::Full | Shed::Late => (429, "TooManyRequests", Some(RETRY_AFTER)),
        // Trying again would take as long again. Time says nothing about the object, so it is not called invalid (DEC-44).
        Shed::Unfinished => (500, "InternalError", None),
    };
    let mut status = Status::failure(code, reason, message);
    status.details = Some(StatusDetails {
        name: review.name.as_deref().unwrap_or_default(),
        group: GROUP,
        kind: end_point.kind.name(),
        retry_after_seconds,
        causes: Vec::new(),
    });
    AdmissionResponse { status: Some(status), ..unread }
}

fn outcome_label(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Allowed => "allowed",
        Outcome::Invalid(_) => "invalid",
        Outcome::Forbidden { .. } => "forbidden",
        Outcome::Undecodable(_) => "undecodable",
        Outcome::Unknown { .. } => "unknown",
    }
}

fn operation_label(review: &AdmissionRequest<'_>) -> &'static str {
    Operation::from_name(&review.operation).map_or("OTHER", Operation::name)
}

/// How long the caller waits (`timeout=10s` in the query), less what it takes to answer in time.
pub(super) fn patience(query: Option<&str>, otherwise: Duration) -> Duration {
    let parameters = query.into_iter().flat_map(|query| query.split('&'));
    let timeout = parameters.filter_map(|parameter| parameter.strip_prefix("timeout=")).find_map(|text| {
        let seconds = text.strip_suffix('s')?.parse::<u64>().ok()?;
        Some(Duration::from_secs(seconds.min(60)))
    });
    timeout.unwrap_or(otherwise).saturating_sub(HEAD_START)
}

pub(super) fn refusal(code: StatusCode, message: &str) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    let mut response = (code, headers, format!("topologist: {message}\n")).into_response();
    if code == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt;
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::*;
    use crate::hub::{ClusterClass, ObjectKey};
    use crate::kubernetes::cache::Cache;
    use crate::kubernetes::scripted::{Answer as Said, Script};
    use crate::world::{Facts, Found};

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

    #[tokio::test(start_paused = true)]
    async fn a_version_change_is_answered_in_time_although_the_api_server_is_silent() {
        // UPG-008: what cannot be read is a reason.
        let class = json!({"metadata": {"namespace": "ns", "name": "base"}, "spec": {}});
        let facts = Facts::of([], [serde_json::from_value::<ClusterClass>(class).unwrap()]);
        let object = |version: &str| {
            let reference = json!({"apiGroup": "g.io", "kind": "Control", "name": "cp"});
            let topology = json!({"classRef": {"name": "base"}, "version": version});
            let spec = json!({"controlPlaneRef": reference, "topology": topology});
            json!({"metadata": {"name": "c", "namespace": "ns"}, "spec": spec})
        };
        let lists = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/";
        let script = Script::default();
        script.get(&format!("{lists}machinedeployments"), &[], Said::Silence);
        script.get(&format!("{lists}machinepools"), &[], Said::Silence);
        script.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/controls.g.io", &[], Said::Silence);
        let metrics = Arc::new(Metrics::default());
        let gatherer = Gatherer::of_cluster(Arc::new(Cache::new(facts)), script.client(), metrics.clone());
        let handler = Handler::new(gatherer, Settings::default(), Limits::default(), metrics);
        let mut update = create(object("v1.30.1"));
        update["operation"] = json!("UPDATE");
        update["oldObject"] = object("v1.30.0");
        let started = Instant::now();
        let (_, body) = post(handler, &PATH.replace("1s", "3s"), review(update)).await;
        assert_eq!(
            started.elapsed(),
            Duration::from_millis(2_400),
            "one round, half a second before the caller gives up"
        );
        let answer: Value = serde_json::from_str(&body).unwrap();
        let cause = &answer["response"]["status"]["details"]["causes"][0];
        assert_eq!(cause["field"], "spec.topology.version", "{answer}");
        for what in ["CustomResourceDefinition controls.g.io", "the MachineDeployments", "the MachinePools"] {
            assert!(cause["message"].as_str().unwrap().contains(what), "{cause}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_that_asks_for_more_in_every_round_is_denied_with_what_it_asks_for() {
        // ADM-009
        fn endless(question: &Question, world: &World, settings: &Settings) -> Verdict {
            let known = |number: &usize| world.class(&ObjectKey::new("ns", format!("c{number}"))) == Found::Absent;
            (0..100).find(|number| !known(number));
            allow(question, world, settings)
        }
        for (kind, last) in [("Cluster", 15), ("ClusterClass", 15)] {
            let (router, metrics) = evaluating(Limits::default(), endless);
            let (answer, _) = ask(router, kind).await;
            let words = format!("facts are still missing after 16 rounds: ClusterClass ns/c{last}");
            let status = &answer["status"];
            assert_eq!((&answer["allowed"], &status["code"]), (&json!(false), &json!(500)), "{answer}");
            assert!(status["message"].as_str().unwrap().ends_with(&words), "{answer}");
            assert_eq!(metrics.panics.get(), 0);
        }
    }

    #[tokio::test]
    async fn where_denials_are_only_talked_about_they_are_allowed_and_counted() {
        // DEC-38
        let handler = Handler {
            settings: Arc::new(Settings { enforce: Enforce::Warn, ..Settings::default() }),
            ..handler(Limits::default())
        };
        let metrics = handler.metrics.clone();
        let router = router(Arc::new(handler));
        for object in [json!({"metadata": {"name": "c"}}), json!({"spec": {"paused": "no"}})] {
            let request = HttpRequest::post(PATH).body(Body::from(review(create(object)))).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let answer: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(answer["response"]["allowed"], true, "{answer}");
            assert!(answer["response"]["warnings"][0].as_str().unwrap().starts_with("would be denied: "), "{answer}");
        }
        let text = metrics.render();
        for line in [
            r#"topologist_admission_requests_total{kind="Cluster",operation="CREATE",outcome="allowed"} 2"#,
            r#"topologist_admission_would_be_denials_total{kind="Cluster",operation="CREATE",outcome="invalid"} 1"#,
            r#"topologist_admission_would_be_denials_total{kind="Cluster",operation="CREATE",outcome="undecodable"} 1"#,
            r#"topologist_rule_rejections_total{rule="CL-V-003"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }

    #[tokio::test]
    async fn what_others_look_after_is_allowed_unread() {
        // DEC-37
        let label = |value: &str| json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": value}}, "spec": {}});
        let mut update = create(label("theirs"));
        update["operation"] = json!("UPDATE");
        update["oldObject"] = label("ours");
        for (namespaces, filter, request, want) in [
            (vec!["ns"], None, create(json!({})), false),
            (vec!["other"], None, create(json!({})), true),
            (vec!["other"], None, create(json!([])), true),
            (vec![], Some("ours"), create(label("ours")), false),
            (vec![], Some("ours"), create(label("theirs")), true),
            (vec![], Some("ours"), update, false),
            (vec![], Some("ours"), create(json!({"metadata": 5})), false),
        ] {
            let namespaces: Vec<String> = namespaces.into_iter().map(str::to_owned).collect();
            let scope = Scope::new(&namespaces, filter.map(str::to_owned)).unwrap();
            let cache = Arc::new(Cache::new(Facts::of([], []).within(scope)));
            let (settings, limits, metrics) = (Settings::default(), Limits::default(), Arc::new(Metrics::default()));
            let handler = Handler::new(Gatherer::new(cache), settings, limits, metrics);
            let (_, body) = post(handler, PATH, review(request.clone())).await;
            let answer: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(answer["response"]["allowed"], want, "{request}");
        }
    }

    const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";

    #[tokio::test]
    async fn the_watch_filter_is_no_boundary_because_who_writes_an_object_writes_its_label() {
        // DEC-37
        let labelled = |labels: Value| json!({"metadata": {"labels": labels}, "spec": {}});
        let (ours, theirs, none) = (json!({WATCH_FILTER: "ours"}), json!({WATCH_FILTER: "theirs"}), json!({}));
        let scope = Scope::new(&[], Some("ours".to_owned())).unwrap();
        let cache = Arc::new(Cache::new(Facts::of([], []).within(scope)));
        let update = |old: &Value, new: &Value| {
            let mut request = create(labelled(new.clone()));
            request["operation"] = json!("UPDATE");
            request["oldObject"] = labelled(old.clone());
            request
        };
        for (what, request, is_judged) in [
            ("created with the label", create(labelled(ours.clone())), true),
            ("created without the label", create(labelled(none.clone())), false),
            ("gets the label", update(&none, &ours), true),
            ("loses the label, which is judged for the last time", update(&ours, &none), true),
            ("gets another value, which is judged for the last time", update(&ours, &theirs), true),
            ("changed after it lost the label", update(&none, &none), false),
            ("changed after it got another value", update(&theirs, &theirs), false),
        ] {
            let (settings, limits, metrics) = (Settings::default(), Limits::default(), Arc::new(Metrics::default()));
            let handler = Handler::new(Gatherer::new(cache.clone()), settings, limits, metrics);
            let (_, body) = post(handler, PATH, review(request)).await;
            let answer: Value = serde_json::from_str(&body).unwrap();
            // This Cluster is wrong, so what is judged is denied.
            assert_eq!(answer["response"]["allowed"], !is_judged, "{what}");
        }
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
        let mut broken = Handler::new(Gatherer::new(cache), Settings::default(), Limits::default(), metrics.clone());
        broken.evaluate = |_, _, _| panic!("on purpose");
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
        assert_eq!((code, &*text), (StatusCode::REQUEST_TIMEOUT, "topologist: the body did not arrive in time\n"));
    }

    /// A router whose reviews are all answered by `evaluate`.
    fn evaluating(limits: Limits, evaluate: Evaluate) -> (Router, Arc<Metrics>) {
        let metrics = Arc::new(Metrics::default());
        let cache = Arc::new(Cache::new(Facts::of([], [])));
        let mut handler = Handler::new(Gatherer::new(cache), Settings::default(), limits, metrics.clone());
        handler.evaluate = evaluate;
        (router(Arc::new(handler)), metrics)
    }

    /// Sends a review of that kind, and reads its answer and how long it took.
    async fn ask(router: Router, kind: &str) -> (Value, Duration) {
        let mut request = create(json!({"metadata": {"name": "c", "namespace": "ns"}}));
        request["kind"]["kind"] = json!(kind);
        let path = format!("/validate-cluster-x-k8s-io-v1beta2-{}?timeout=2s", kind.to_lowercase());
        let request = HttpRequest::post(path).body(Body::from(review(request))).unwrap();
        let started = Instant::now();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (serde_json::from_slice::<Value>(&body).unwrap()["response"].clone(), started.elapsed())
    }

    fn allow(question: &Question, _: &World, _: &Settings) -> Verdict {
        Verdict::plain(question.kind(), question.name(), Outcome::Allowed)
    }

    fn allow_after<const MILLISECONDS: u64>(question: &Question, world: &World, settings: &Settings) -> Verdict {
        std::thread::sleep(Duration::from_millis(MILLISECONDS));
        allow(question, world, settings)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_burst_of_more_reviews_than_places_waits_and_is_answered() {
        let limits = Limits { in_flight: 3, aside: 2, ..Limits::default() };
        let (router, metrics) = evaluating(limits, allow_after::<100>);
        let burst = (0..12).map(|_| tokio::spawn(ask(router.clone(), "ClusterClass")));
        let mut longest = Duration::ZERO;
        for answer in burst.collect::<Vec<_>>() {
            let (answer, time) = answer.await.unwrap();
            assert_eq!(answer["allowed"], true, "{answer}");
            longest = longest.max(time);
        }
        assert!(longest >= Duration::from_millis(500), "two at a time, {longest:?}");
        assert!(metrics.render().contains("topologist_admission_requests_waiting{queue=\"reviews\"} 0\n"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_beyond_the_queue_is_shed_at_once_and_under_its_uid() {
        let limits = Limits { in_flight: 1, queue: 1, ..Limits::default() };
        let (router, metrics) = evaluating(limits, allow_after::<400>);
        let burst: Vec<_> = (0..5).map(|_| tokio::spawn(ask(router.clone(), "ClusterClass"))).collect();
        let (mut allowed, mut shed) = (0, 0);
        for answer in burst {
            let (answer, time) = answer.await.unwrap();
            assert_eq!(answer["uid"], "u");
            if answer["allowed"] == true {
                allowed += 1;
                continue;
            }
            shed += 1;
            assert!(time < Duration::from_millis(350), "{time:?}");
            let status = &answer["status"];
            assert_eq!((&status["code"], &status["reason"]), (&json!(429), &json!("TooManyRequests")));
            assert_eq!(status["details"]["retryAfterSeconds"], 1, "so that clients try again by themselves");
            assert!(status["message"].as_str().unwrap().contains("too many reviews are waiting"), "{status}");
        }
        assert_eq!((allowed, shed), (2, 3));
        let text = metrics.render();
        for line in [
            "topologist_shed_requests_total{reason=\"queue_full\"} 3\n",
            "topologist_admission_requests_total{kind=\"ClusterClass\",operation=\"CREATE\",outcome=\"shed\"} 3\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }

    #[tokio::test]
    async fn where_denials_are_only_talked_about_an_overload_is_too() {
        // DEC-38
        let limits = Limits { in_flight: 0, queue: 0, ..Limits::default() };
        let settings = Settings { enforce: Enforce::Warn, ..Settings::default() };
        let handler = Handler { settings: Arc::new(settings), ..handler(limits) };
        let (answer, _) = ask(router(Arc::new(handler)), "Cluster").await;
        let warning = "would be denied: topologist is overloaded: too many reviews are waiting; try again";
        assert_eq!(answer, json!({"uid": "u", "allowed": true, "warnings": [warning]}));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_review_is_answered_before_its_caller_gives_up() {
        // One review takes the only thread for longer than the two seconds that callers wait, less the head start.
        let (router, metrics) = evaluating(Limits { aside: 1, ..Limits::default() }, allow_after::<3000>);
        let both = [tokio::spawn(ask(router.clone(), "ClusterClass")), tokio::spawn(ask(router, "ClusterClass"))];
        let mut codes = Vec::new();
        for answer in both {
            let (answer, time) = answer.await.unwrap();
            assert!((1_500..1_950).contains(&time.as_millis()), "{time:?}");
            codes.push((answer["status"]["code"].clone(), answer["status"]["details"]["retryAfterSeconds"].clone()));
        }
        codes.sort_by_key(|(code, _)| code.as_u64());
        assert_eq!(codes, [(json!(429), json!(1)), (json!(500), Value::Null)]);
        for reason in ["no_turn", "unfinished"] {
            assert!(metrics.render().contains(&format!("topologist_shed_requests_total{{reason=\"{reason}\"}} 1\n")));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn cluster_reviews_do_not_wait_for_class_reviews() {
        fn slow_for_classes(question: &Question, world: &World, settings: &Settings) -> Verdict {
            match question.kind() {
                Kind::ClusterClass => allow_after::<100>(question, world, settings),
                _ => allow(question, world, settings),
            }
        }
        let (router, _) = evaluating(Limits { aside: 1, ..Limits::default() }, slow_for_classes);
        let classes: Vec<_> = (0..5).map(|_| tokio::spawn(ask(router.clone(), "ClusterClass"))).collect();
        let started = Instant::now();
        let mut reviews = 0;
        while !classes.iter().all(tokio::task::JoinHandle::is_finished) {
            let (answer, _) = tokio::spawn(ask(router.clone(), "Cluster")).await.unwrap();
            assert_eq!(answer["allowed"], true);
            reviews += 1;
        }
        assert!(started.elapsed() >= Duration::from_millis(450));
        assert!(reviews > 100, "only {reviews} Clusters were reviewed in {:?}", started.elapsed());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn reviews_that_wait_for_their_turn_are_not_decoded_yet() {
        let (router, metrics) = evaluating(Limits { aside: 1, ..Limits::default() }, allow_after::<400>);
        // This one does not decode, which is said in its only turn: after those that came before it.
        let mut request = create(json!({"metadata": {"name": "c", "namespace": "ns"}, "spec": 5}));
        request["kind"]["kind"] = json!("ClusterClass");
        let first = tokio::spawn(ask(router.clone(), "ClusterClass"));
        tokio::time::sleep(Duration::from_millis(50)).await;
        let second = tokio::spawn(ask(router.clone(), "ClusterClass"));
        tokio::time::sleep(Duration::from_millis(50)).await;
        let path = "/validate-cluster-x-k8s-io-v1beta2-clusterclass?timeout=9s";
        let broken = HttpRequest::post(path).body(Body::from(review(request))).unwrap();
        let (started, answer) = (Instant::now(), router.oneshot(broken).await.unwrap());
        assert!(started.elapsed() >= Duration::from_millis(500), "{:?}", started.elapsed());
        let answer = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&answer).contains("\"code\":400"), "{answer:?}");
        assert!(first.await.unwrap().0["allowed"] == true && second.await.unwrap().0["allowed"] == true);
        drop(metrics);
    }

    #[tokio::test]
    async fn a_panic_aside_ends_one_request_too() {
        // ADM-009
        let (router, metrics) = evaluating(Limits::default(), |_, _, _| panic!("on purpose"));
        let (answer, _) = ask(router, "ClusterClass").await;
        assert_eq!(answer["status"]["code"], 500);
        assert_eq!(metrics.panics.get(), 1);
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

//! Answers AdmissionReviews, in the format of
//! [admission webhooks](https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#webhook-request-and-response).
//!
//! The response needs the uid of the request. So a request whose envelope cannot be read gets an HTTP error. Every
//! other request gets an AdmissionReview, also if its object cannot be decoded.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::Request as HttpRequest;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, Span, info, info_span};

use super::body::{Bodies, BodyLimits};
use super::fair_queue::{FairQueue, Requester};
use super::holds::Holds;
use super::impact::Assessor;
use super::impact_events::ImpactEventWriter;
use super::limits::{Disconnected, INLINE_TIME, LAST_ROUND, RETRY_AFTER, ReviewLimits, TURN_TIME, patience};
use super::pending_review::{PendingReview, Pool, ReviewInput, is_in_scope};
use super::pool_reader::PoolReader;
use super::queue::{Overloaded, ReviewQueue};
use super::rejection::{PANICKED, Rejection, error_response, request_of};
use super::server::PeerAddress;
use super::template_guard::TemplateGuard;
use crate::kubernetes::gather::Gatherer;
use crate::telemetry::metrics::{self, GaugeGuard, Metrics};
use engine::admission::{
    AdmissionOutcome, AdmissionSettings, DecodedRequest, EndPoint, Enforce, Operation, Phase, Verdict,
};
use model::hub::{GROUP, Kind};
use model::wire::review::{API_VERSION, AdmissionRequest, AdmissionResponse, AdmissionStatus, KIND, StatusDetails};
use model::world::{ComputeResult, Unsettled, World, settle};
use schema::budget::{MemoryPool, Stop};

/// The function that evaluates a question. It is a field of the handler, so that a test can replace it by one that
/// fails.
type Evaluate = fn(&DecodedRequest, &World, &AdmissionSettings) -> Verdict;

/// The handler of reviews.
#[derive(Debug)]
pub struct ReviewHandler {
    pub(super) gatherer: Gatherer,
    pub(super) settings: Arc<AdmissionSettings>,
    pub(super) limits: ReviewLimits,
    pub(super) places: ReviewQueue,
    blocking: FairQueue,
    pub(super) bodies: Bodies,
    pub(super) metrics: Arc<Metrics>,
    pub(super) assessor: Assessor,
    /// Set where no other controller holds deletions for hooks.
    pub(super) holds: Option<Holds>,
    pub(super) template_guard: TemplateGuard,
    /// Set where there is an API server.
    pub(super) pools: Option<PoolReader>,
    evaluate: Evaluate,
}

impl ReviewHandler {
    /// A handler that gets facts from `gatherer`.
    pub fn new(gatherer: Gatherer, settings: AdmissionSettings, limits: ReviewLimits, metrics: Arc<Metrics>) -> Self {
        let waiting = |queue| metrics.waiting.get_or_create(&metrics::Queue { queue }).clone();
        ReviewHandler {
            gatherer,
            limits,
            places: ReviewQueue::new(limits.in_flight, limits.queue, waiting("reviews")),
            blocking: FairQueue::new(limits.blocking, limits.aside_queue, waiting("threads")),
            bodies: Bodies::new(
                BodyLimits { body: limits.body, time: limits.time, held: limits.held },
                waiting("memory"),
            ),
            assessor: Assessor::new(&settings, &limits, metrics.clone()),
            metrics,
            settings: Arc::new(settings),
            holds: None,
            template_guard: TemplateGuard::new(None),
            pools: None,
            evaluate: DecodedRequest::answer,
        }
    }

    /// The same, whose computations share this memory.
    #[must_use]
    pub fn with_memory(self, memory: Arc<MemoryPool>) -> Self {
        ReviewHandler { assessor: self.assessor.with_memory(memory), ..self }
    }

    /// The same; `client` writes events on classes whose edits do something to machines.
    #[must_use]
    pub fn with_events(self, client: kube::Client) -> Self {
        let announcer = ImpactEventWriter::new(client, self.gatherer.cache().clone());
        ReviewHandler { assessor: self.assessor.with_events(announcer), ..self }
    }

    /// The same; `client` reads the Namespaces of templates whose deletion would be denied (DEC-110).
    #[must_use]
    pub fn with_namespaces(self, client: kube::Client) -> Self {
        ReviewHandler { template_guard: TemplateGuard::new(Some(client)), ..self }
    }

    /// The same; `client` reads the labels of MachinePools that are scaled.
    #[must_use]
    pub fn with_pools(self, client: kube::Client) -> Self {
        ReviewHandler { pools: Some(PoolReader::new(client)), ..self }
    }

    /// The same, which holds deletions until hooks have passed (DEC-56).
    #[must_use]
    pub fn with_holds(self, holds: Holds) -> Self {
        ReviewHandler { holds: Some(holds), ..self }
    }
}

impl ReviewHandler {
    pub(super) async fn answer(self: Arc<Self>, end_point: EndPoint, request: HttpRequest) -> Response {
        let deadline = Instant::now() + patience(request.uri().query(), self.limits.time);
        let peer = request.extensions().get::<PeerAddress>().map(|peer| peer.0);
        let answer = self.review(end_point, request, peer, deadline).await;
        self.response(end_point.path, answer)
    }

    /// The answer to a request, or why there is none.
    pub(super) fn response(&self, path: &str, answer: Result<Vec<u8>, Rejection>) -> Response {
        match answer {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], self.bodies.answer(body)).into_response(),
            Err(refused) => {
                let (code, reason) = refused.parts();
                self.metrics.refused_requests.get_or_create(&metrics::Reason { reason }).inc();
                info!(path, code = code.as_u16(), error = %refused, "Refused request");
                error_response(code, &refused.to_string())
            }
        }
    }

    async fn review(
        &self,
        end_point: EndPoint,
        request: HttpRequest,
        peer: Option<IpAddr>,
        deadline: Instant,
    ) -> Result<Vec<u8>, Rejection> {
        // The body is read before the review takes a place in the queue.
        let body = self.bodies.read(request, deadline).await?;
        let started = Instant::now();
        let request: AdmissionRequest<'_> = request_of(&body, [API_VERSION, KIND])?;
        let span = info_span!("review", uid = &*request.uid);
        async {
            let owner = Requester { peer, namespace: request.namespace.as_deref().unwrap_or_default() };
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
        owner: Requester<'_>,
        deadline: Instant,
    ) -> Result<Verdict, Overloaded> {
        if !is_in_scope(review, self.gatherer.cache().facts().scope()) {
            return Ok(Verdict::plain(end_point.kind, "", AdmissionOutcome::Allowed));
        }
        let (verdict, question) = self.judge_in_place(end_point, review, body, owner, deadline).await?;
        let verdict = self.with_hold(verdict, question.as_ref(), (end_point, review), deadline).await;
        Ok(match self.settings.enforce {
            Enforce::Deny => verdict,
            Enforce::Warn => verdict.softened(),
        })
    }

    /// Judges a review while it has a place. The place is free again before anything is written: kube-apiserver sends
    /// reviews of that write.
    async fn judge_in_place(
        &self,
        end_point: EndPoint,
        review: &AdmissionRequest<'_>,
        body: &Bytes,
        owner: Requester<'_>,
        deadline: Instant,
    ) -> Result<(Verdict, Option<DecodedRequest>), Overloaded> {
        let _place = self.places.acquire(deadline).await?;
        let _counted = GaugeGuard::new(&self.metrics.in_flight);
        let name = review.name.as_deref().unwrap_or_default();
        let pending = match PendingReview::for_end_point(end_point, review, body) {
            Ok(pending) => pending,
            Err(reason) => {
                let outcome = AdmissionOutcome::Undecodable(reason.to_string());
                return Ok((Verdict::plain(end_point.kind, name, outcome), None));
            }
        };
        let context = ReviewContext { pool: pending.pool(), owner, deadline };
        let verdict = match self.evaluate(pending, context).await {
            Ok((verdict, Some(question))) if question.deleted_cluster().is_some() => {
                return Ok((verdict, Some(question)));
            }
            Ok((verdict, question)) => self.with_impact(verdict, question, review, deadline).await,
            Err(ReviewError::Undecodable(verdict)) => *verdict,
            Err(ReviewError::Unsettled(unsettled)) => Verdict::unsettled(end_point.kind, name, &unsettled),
            // A panic becomes an internal error (ADM-009).
            Err(ReviewError::Panicked) => self.panicked(end_point.kind, name),
            Err(ReviewError::Shed(overloaded)) => return Err(overloaded),
        };
        Ok((verdict, None))
    }

    /// The verdict on a Cluster with what its deletion asks for (DEC-56): the hold is written before a deletion is
    /// allowed, and an update that takes it away gets it back.
    async fn with_hold(
        &self,
        mut verdict: Verdict,
        question: Option<&DecodedRequest>,
        (end_point, review): (EndPoint, &AdmissionRequest<'_>),
        deadline: Instant,
    ) -> Verdict {
        let Some(holds) = self.holds.as_ref().filter(|_| verdict.is_allowed() && end_point.kind == Kind::Cluster)
        else {
            return verdict;
        };
        if end_point.phase == Phase::Default && review.operation == "UPDATE" {
            verdict.patch.0.extend(holds.restored(review, deadline).await);
        }
        let Some(cluster) = question.and_then(DecodedRequest::deleted_cluster).filter(|_| review.dry_run != Some(true))
        else {
            return verdict;
        };
        match holds.hold(cluster, deadline).await {
            Ok(()) => verdict,
            Err(error) => {
                let outcome = AdmissionOutcome::Unknown { rule: "DEC-56", message: error.to_string() };
                Verdict::plain(Kind::Cluster, &cluster.metadata.name, outcome)
            }
        }
    }

    /// Evaluates a review until no fact is missing. Its objects are decoded in the first round: a review that waits
    /// takes only the memory of its text.
    async fn evaluate(
        &self,
        pending: PendingReview,
        context: ReviewContext<'_>,
    ) -> Result<(Verdict, Option<DecodedRequest>), ReviewError> {
        // Facts may arrive late, and time must be left for the last round.
        let facts_by = context.deadline.checked_sub(LAST_ROUND).unwrap_or(context.deadline);
        let start = (ReviewInput::AsText(pending), context);
        let compute = |world, (input, context)| self.evaluate_once(world, input, context);
        let gather = async |needs| Ok(self.gatherer.gather_all(needs, facts_by).await);
        let ((verdict, question), _) = settle(self.gatherer.world(), start, compute, gather).await?;
        Ok((verdict, Arc::into_inner(question)))
    }

    /// The verdict with warnings about the machines that the edit replaces or removes, if it is allowed (DEC-42); it is
    /// denied after all if they are more than a ceiling allows (DEC-53).
    async fn with_impact(
        &self,
        verdict: Verdict,
        question: Option<DecodedRequest>,
        review: &AdmissionRequest<'_>,
        deadline: Instant,
    ) -> Verdict {
        let edited = question.filter(|_| verdict.is_allowed()).and_then(DecodedRequest::into_edited);
        match edited {
            Some(edited) => self.assessor.judge(verdict, edited, &self.gatherer, (review, deadline)).await,
            None => verdict,
        }
    }

    /// Evaluates the question with the known facts: on the async thread if that is quick, otherwise on a blocking
    /// thread.
    async fn evaluate_once<'a>(
        &self,
        mut world: World,
        mut input: ReviewInput,
        mut context: ReviewContext<'a>,
    ) -> ComputeResult<(Verdict, Arc<DecodedRequest>), (ReviewInput, ReviewContext<'a>), ReviewError> {
        loop {
            let is_blocking = context.pool == Pool::Blocking;
            let round =
                EvaluationRound { input, world, settings: self.settings.clone(), evaluate: self.evaluate, is_blocking };
            let evaluated = self.run(context, |stop| round.run(stop)).await?.map_err(ReviewError::Undecodable)?;
            (input, world) = (ReviewInput::Decoded(evaluated.question.clone()), evaluated.world);
            if let Some(verdict) = evaluated.verdict {
                return Ok(((verdict, evaluated.question), world, (input, context)));
            }
            // The round is too long for an async thread. Needs that it recorded are dropped, and recorded again on the
            // blocking thread.
            (context.pool, _) = (Pool::Blocking, world.take_needs());
        }
    }

    /// Runs work on the thread of its pool. A panic is an error.
    async fn run<T: Send + 'static>(
        &self,
        context: ReviewContext<'_>,
        work: impl FnOnce(Stop) -> T + Send + 'static,
    ) -> Result<T, ReviewError> {
        match context.pool {
            Pool::Inline => run_inline(work),
            Pool::Blocking => self.run_blocking(context, work).await,
        }
    }

    /// Runs work on a blocking thread when it gets a permit. The work is stopped after [`TURN_TIME`], at the deadline,
    /// and when the client has disconnected.
    async fn run_blocking<T: Send + 'static>(
        &self,
        ReviewContext { owner, deadline, .. }: ReviewContext<'_>,
        work: impl FnOnce(Stop) -> T + Send + 'static,
    ) -> Result<T, ReviewError> {
        let permit = self.blocking.acquire(owner, deadline).await?;
        let (span, disconnected) = (Span::current(), Disconnected::default());
        let (until, is_disconnected) = (deadline.min(Instant::now() + TURN_TIME).into_std(), disconnected.0.clone());
        let stop = Stop::when(move || is_disconnected.load(Ordering::Relaxed) || std::time::Instant::now() >= until);
        let work = tokio::task::spawn_blocking(move || {
            // Work can only stop between its parts. It keeps its permit until then, also if the client has
            // disconnected.
            let _permit = permit;
            span.in_scope(|| catch_unwind(AssertUnwindSafe(|| work(stop))))
        });
        match timeout_at(deadline, work).await {
            Ok(done) => done.unwrap_or_else(|error| Err(Box::new(error))).map_err(|_| ReviewError::Panicked),
            Err(_) => Err(Overloaded::Unfinished.into()),
        }
    }

    fn panicked(&self, kind: Kind, name: &str) -> Verdict {
        self.metrics.panics.inc();
        Verdict::plain(kind, name, AdmissionOutcome::Unknown { rule: "ADM-009", message: PANICKED.to_owned() })
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

    fn note_shed(&self, shed: Overloaded, end_point: EndPoint, review: &AdmissionRequest<'_>) {
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
            "Rejected admission request because of overload"
        );
    }
}

/// Runs work on this thread. The work is stopped after [`INLINE_TIME`].
fn run_inline<T>(work: impl FnOnce(Stop) -> T) -> Result<T, ReviewError> {
    let until = std::time::Instant::now() + INLINE_TIME;
    let stop = Stop::when(move || std::time::Instant::now() >= until);
    catch_unwind(AssertUnwindSafe(|| work(stop))).map_err(|_| ReviewError::Panicked)
}

/// One round of the evaluation of a review.
struct EvaluationRound {
    input: ReviewInput,
    world: World,
    settings: Arc<AdmissionSettings>,
    evaluate: Evaluate,
    /// Whether the round runs on a blocking thread, where it may take long.
    is_blocking: bool,
}

/// The result of a round.
struct Evaluated {
    question: Arc<DecodedRequest>,
    /// `None` when the round is too long for an async thread.
    verdict: Option<Verdict>,
    /// The world with the recorded needs.
    world: World,
}

impl EvaluationRound {
    /// Decodes the objects, if they are not yet, and evaluates the question.
    ///
    /// # Errors
    /// The verdict on objects that do not decode.
    fn run(self, stop: Stop) -> Result<Evaluated, Box<Verdict>> {
        let (question, world) = (self.input.question()?, self.world.until(stop));
        if !self.is_blocking && !question.is_quick(&world) {
            return Ok(Evaluated { question, verdict: None, world });
        }
        let verdict = (self.evaluate)(&question, &world, &self.settings);
        let is_complete = self.is_blocking || !world.stop().has_stopped();
        Ok(Evaluated { question, verdict: is_complete.then_some(verdict), world })
    }
}

/// The resources of the evaluation of a review.
#[derive(Clone, Copy, Debug)]
struct ReviewContext<'a> {
    pool: Pool,
    /// The caller and namespace of the review, between which permits for blocking threads are shared fairly.
    owner: Requester<'a>,
    deadline: Instant,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error("the object does not decode")]
    Undecodable(Box<Verdict>),
    #[error(transparent)]
    Unsettled(#[from] Unsettled),
    #[error("{PANICKED}")]
    Panicked,
    #[error(transparent)]
    Shed(#[from] Overloaded),
}

/// The answer to a review that is rejected because of overload. Its code and retry hint let clients retry by
/// themselves. With `--enforce=warn` it is a warning (DEC-38).
fn overload<'a>(
    shed: Overloaded,
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
        Overloaded::Full | Overloaded::Late => (429, "TooManyRequests", Some(RETRY_AFTER)),
        // A retry would take as long again, so there is no hint. A timeout is not a verdict, so the object is not
        // called invalid (DEC-44).
        Overloaded::Unfinished => (500, "InternalError", None),
    };
    let mut status = AdmissionStatus::failure(code, reason, message);
    status.details = Some(StatusDetails {
        name: review.name.as_deref().unwrap_or_default(),
        group: GROUP,
        kind: end_point.kind.name(),
        retry_after_seconds,
        causes: Vec::new(),
    });
    AdmissionResponse { status: Some(status), ..unread }
}

fn outcome_label(outcome: &AdmissionOutcome) -> &'static str {
    match outcome {
        AdmissionOutcome::Allowed => "allowed",
        AdmissionOutcome::Invalid(_) => "invalid",
        AdmissionOutcome::Forbidden { .. } => "forbidden",
        AdmissionOutcome::Undecodable(_) => "undecodable",
        AdmissionOutcome::Unknown { .. } => "unknown",
    }
}

pub(super) fn operation_label(review: &AdmissionRequest<'_>) -> &'static str {
    Operation::from_name(&review.operation).map_or("OTHER", Operation::name)
}

#[cfg(test)]
mod tests;

//! The frame of reviews that are answered without the admission rules: of templates, of deletions, and of
//! ExtensionConfigs.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use tokio::time::Instant;
use tracing::info;

use super::limits::patience;
use super::rejection::{Rejection, request_of};
use super::review::ReviewHandler;
use model::wire::review::{API_VERSION, AdmissionRequest, AdmissionResponse, KIND};

/// An end point whose reviews are answered without the admission rules.
pub(super) trait PlainReview: Copy + Send + Sync + 'static {
    /// The path of the end point.
    fn path(self) -> &'static str;

    /// The response to a review, at `deadline` at the latest. The objects of the review are parts of `body`.
    ///
    /// # Errors
    /// When the response cannot be written.
    fn respond<'r>(
        self,
        handler: &ReviewHandler,
        review: &'r AdmissionRequest<'_>,
        body: &Bytes,
        deadline: Instant,
    ) -> impl Future<Output = Result<AdmissionResponse<'r>, Rejection>> + Send;
}

/// Logs the response to a review; `subject` says what the review is for, such as "a template".
pub(super) fn log_response(review: &AdmissionRequest<'_>, response: &AdmissionResponse<'_>, subject: &'static str) {
    info!(
        kind = &*review.kind.kind,
        resource = &*review.resource.resource,
        namespace = review.namespace.as_deref(),
        name = review.name.as_deref(),
        operation = &*review.operation,
        dry_run = review.dry_run,
        allowed = response.allowed,
        warnings = response.warnings.len(),
        "Answered admission request for {subject}"
    );
}

impl ReviewHandler {
    /// Answers a request to such an end point.
    pub(super) async fn answer_plain(self: Arc<Self>, end_point: impl PlainReview, request: Request) -> Response {
        let deadline = Instant::now() + patience(request.uri().query(), self.limits.time);
        let answer = self.review_plain(end_point, request, deadline).await;
        self.response(end_point.path(), answer)
    }

    async fn review_plain(
        &self,
        end_point: impl PlainReview,
        request: Request,
        deadline: Instant,
    ) -> Result<Vec<u8>, Rejection> {
        let body = self.bodies.read(request, deadline).await?;
        let review: AdmissionRequest<'_> = request_of(&body, [API_VERSION, KIND])?;
        let response = end_point.respond(self, &review, &body, deadline).await?;
        Ok(serde_json::to_vec(&response.into_review())?)
    }
}

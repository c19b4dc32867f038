//! Reviews of deletions of templates (DEC-110).

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use tokio::time::Instant;
use tracing::info;

use super::limits::patience;
use super::rejection::{Rejection, request_of};
use super::review::{ReviewHandler, operation_label};
use crate::telemetry::metrics;
use engine::admission::Enforce;
use model::wire::review::{API_VERSION, AdmissionRequest, AdmissionResponse, AdmissionStatus, KIND, StatusDetails};

/// The path of reviews of deletions of templates.
pub const PATH: &str = "/validate-template-deletions";
/// The kind of these reviews in metrics.
const METRIC: &str = "Template";

impl ReviewHandler {
    pub(super) async fn answer_template_deletion(self: Arc<Self>, request: Request) -> Response {
        let deadline = Instant::now() + patience(request.uri().query(), self.limits.time);
        let answer = self.review_template_deletion(request, deadline).await;
        self.response(PATH, answer)
    }

    async fn review_template_deletion(&self, request: Request, deadline: Instant) -> Result<Vec<u8>, Rejection> {
        let body = self.bodies.read(request, deadline).await?;
        let review: AdmissionRequest<'_> = request_of(&body, [API_VERSION, KIND])?;
        let denial = self.template_guard.denial(&review, self.gatherer.cache(), deadline).await;
        let is_enforced = self.settings.enforce == Enforce::Deny;
        let labels = |outcome| metrics::Review { kind: METRIC, operation: operation_label(&review), outcome };
        let allowed = denial.is_none() || !is_enforced;
        let outcome = if allowed { "allowed" } else { "forbidden" };
        self.metrics.admission_requests.get_or_create(&labels(outcome)).inc();
        if denial.is_some() && allowed {
            self.metrics.would_be_denials.get_or_create(&labels("forbidden")).inc();
        }
        info!(
            kind = &*review.kind.kind,
            namespace = review.namespace.as_deref(),
            name = review.name.as_deref(),
            operation = &*review.operation,
            dry_run = review.dry_run,
            allowed,
            "Answered admission request for the deletion of a template"
        );
        Ok(serde_json::to_vec(&response(denial, is_enforced, &review).into_review())?)
    }
}

fn response<'a>(denial: Option<String>, is_enforced: bool, review: &'a AdmissionRequest<'_>) -> AdmissionResponse<'a> {
    let mut response = AdmissionResponse { uid: &review.uid, allowed: true, ..AdmissionResponse::default() };
    match denial {
        None => {}
        Some(message) if !is_enforced => response.warnings.push(format!("would be denied: {message}")),
        Some(message) => {
            let mut status = AdmissionStatus::failure(403, "Forbidden", message);
            status.details = Some(StatusDetails::from(review));
            (response.allowed, response.status) = (false, Some(status));
        }
    }
    response
}

#[cfg(test)]
mod tests;

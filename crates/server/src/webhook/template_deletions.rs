//! Reviews of deletions of templates (DEC-110).

use bytes::Bytes;
use tokio::time::Instant;

use super::plain_review::{PlainReview, log_response};
use super::rejection::Rejection;
use super::review::{ReviewHandler, operation_label};
use crate::telemetry::metrics;
use engine::admission::Enforce;
use model::wire::review::{AdmissionRequest, AdmissionResponse, AdmissionStatus, StatusDetails};

/// The path of reviews of deletions of templates.
pub const PATH: &str = "/validate-template-deletions";
/// The kind of these reviews in metrics.
const METRIC: &str = "Template";

/// Reviews of deletions of templates.
#[derive(Clone, Copy)]
pub(super) struct TemplateDeletionReview;

impl PlainReview for TemplateDeletionReview {
    fn path(self) -> &'static str {
        PATH
    }

    async fn respond<'r>(
        self,
        handler: &ReviewHandler,
        review: &'r AdmissionRequest<'_>,
        _: &Bytes,
        deadline: Instant,
    ) -> Result<AdmissionResponse<'r>, Rejection> {
        let denial = handler.template_guard.denial(review, handler.gatherer.cache(), deadline).await;
        let is_enforced = handler.settings.enforce == Enforce::Deny;
        let labels = |outcome| metrics::Review { kind: METRIC, operation: operation_label(review), outcome };
        let allowed = denial.is_none() || !is_enforced;
        let outcome = if allowed { "allowed" } else { "forbidden" };
        handler.metrics.admission_requests.get_or_create(&labels(outcome)).inc();
        if denial.is_some() && allowed {
            handler.metrics.would_be_denials.get_or_create(&labels("forbidden")).inc();
        }
        let response = response(denial, is_enforced, review);
        log_response(review, &response, "the deletion of a template");
        Ok(response)
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

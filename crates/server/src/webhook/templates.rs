//! Reviews of templates that classes refer to, which check only the effect of an edit on machines (DEC-42, DEC-53).
//!
//! The entries for them are opt-in (`manifests/components/templates`), and their failure policy is `Ignore`.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::impact::{Assessment, UndecodableTemplate, owner};
use super::limits::LAST_ROUND;
use super::pending_review::is_in_scope;
use super::plain_review::{PlainReview, log_response};
use super::rejection::Rejection;
use super::review::ReviewHandler;
use engine::admission::Enforce;
use engine::impact::{Edit, SizeVerdict, endless_template, is_of_a_class};
use golang::json;
use model::hub::{Object, ObjectKey};
use model::wire::review::{AdmissionRequest, AdmissionResponse, AdmissionStatus, StatusCause, StatusDetails};
use schema::field::FieldError;

/// The path of reviews of new and edited templates.
pub const PATH: &str = "/validate-templates";

/// Reviews of new and edited templates.
#[derive(Clone, Copy)]
pub(super) struct TemplateReview;

impl PlainReview for TemplateReview {
    fn path(self) -> &'static str {
        PATH
    }

    async fn respond<'r>(
        self,
        handler: &ReviewHandler,
        review: &'r AdmissionRequest<'_>,
        body: &Bytes,
        deadline: Instant,
    ) -> Result<AdmissionResponse<'r>, Rejection> {
        let assessment = handler.assess_template(review, body, deadline).await;
        handler.assessor.count(&assessment, "Template", review.dry_run == Some(true));
        let response = response(assessment, review, handler.settings.enforce);
        log_response(review, &response, "a template");
        Ok(response)
    }
}

impl ReviewHandler {
    /// The effect of a review of a template on machines.
    async fn assess_template(&self, review: &AdmissionRequest<'_>, body: &Bytes, deadline: Instant) -> Assessment {
        let facts = self.gatherer.cache().facts();
        let part = |name: &Option<std::borrow::Cow<'_, str>>| name.as_deref().unwrap_or_default().to_owned();
        let key = ObjectKey::new(part(&review.namespace), part(&review.name));
        let (old, new) = match (&*review.operation, review.old_object, review.object) {
            ("UPDATE", Some(old), Some(new)) => (Some(old), new),
            ("CREATE", _, Some(new)) => (None, new),
            _ => return Assessment::default(),
        };
        if !is_in_scope(review, facts.scope()) || !is_of_a_class(&facts, &review.kind.group, &review.kind.kind, &key) {
            return Assessment::default();
        }
        let place = self.places.acquire(deadline).await;
        // Without a place no impact is computed, and a ceiling counts all machines.
        let deadline = if place.is_ok() { deadline } else { Instant::now() + LAST_ROUND };
        let text = |text: &RawValue| body.slice_ref(text.get().as_bytes());
        let (old, new) = (old.map(text), text(new));
        if has_days(&new)
            && let Some(error) = endless_days(old.as_ref(), &new)
        {
            return Assessment::denied(error);
        }
        let decode = move || decoded(old.as_ref(), &new);
        let SizeVerdict { denial, warnings } = self.assessor.sized(decode.clone(), &self.gatherer, deadline).await;
        if let Some(error) = denial {
            return Assessment::denied(error);
        }
        let mut assessment = self.assessor.assess(decode, &self.gatherer, (owner(review), deadline)).await;
        assessment.warnings.extend(warnings);
        assessment
    }
}

/// Whether a template may set the days before the end of certificates, after which machines are replaced.
fn has_days(text: &Bytes) -> bool {
    const NAME: &[u8] = b"certificatesExpiryDays";
    text.windows(NAME.len()).any(|part| part == NAME)
}

fn endless_days(old: Option<&Bytes>, new: &Bytes) -> Option<FieldError> {
    match decoded(old, new).ok()? {
        Edit::Template { old, new } => endless_template(Some(&old), &new),
        Edit::NewTemplate(new) => endless_template(None, &new),
        _ => None,
    }
}

fn decoded(old: Option<&Bytes>, new: &Bytes) -> Result<Edit, UndecodableTemplate> {
    let object = |text: &Bytes| {
        let value = json::value(str::from_utf8(text)?);
        let value = value.map_err(|error| UndecodableTemplate::InvalidJson(error.to_string()))?;
        Object::try_from(value).map(Arc::new).map_err(|found| UndecodableTemplate::NotObject { found })
    };
    Ok(match old {
        Some(old) => Edit::Template { old: object(old)?, new: object(new)? },
        None => Edit::NewTemplate(object(new)?),
    })
}

fn response<'a>(assessment: Assessment, review: &'a AdmissionRequest<'_>, enforce: Enforce) -> AdmissionResponse<'a> {
    let Assessment { warnings, summary, denial, .. } = assessment;
    let mut response = AdmissionResponse { uid: &review.uid, allowed: true, ..AdmissionResponse::default() };
    response.warnings = warnings.into_iter().map(|warning| warning.text).collect();
    response.audit_annotations = summary.into_iter().map(|text| ("impact", text)).collect();
    match denial {
        None => {}
        Some(error) if enforce == Enforce::Warn => response.warnings.push(format!("would be denied: {}", error.detail)),
        Some(error) => {
            let kind = &*review.kind.kind;
            let name = review.name.as_deref().unwrap_or_default();
            let message = format!("{kind}.{} {name:?} is invalid: {error}", review.kind.group);
            let cause =
                StatusCause { reason: error.kind.reason(), message: error.message(), field: error.path.to_string() };
            let mut status = AdmissionStatus::failure(422, "Invalid", message);
            status.details = Some(StatusDetails {
                name,
                group: &review.kind.group,
                kind,
                retry_after_seconds: None,
                causes: vec![cause],
            });
            (response.allowed, response.status) = (false, Some(status));
        }
    }
    response
}

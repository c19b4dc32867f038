//! Reviews of templates that classes refer to: nothing of them is judged but what an edit does to machines (DEC-42, DEC-53).
//!
//! The entries for them are opt-in (`manifests/components/templates`), and their failure policy is `Ignore`.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::info;

use super::asked::is_looked_after;
use super::impact::Assessment;
use super::limits::patience;
use super::refusal::{Refusal, request_of};
use super::review::Handler;
use crate::admission::Enforce;
use crate::hub::{Object, ObjectKey};
use crate::impact::{Edit, is_of_a_class};
use crate::json;
use crate::wire::review::{API_VERSION, AdmissionRequest, AdmissionResponse, KIND, Status, StatusDetails};

/// Where updates of templates are reviewed.
pub const PATH: &str = "/validate-templates";

impl Handler {
    pub(super) async fn answer_template(self: Arc<Self>, request: Request) -> Response {
        let deadline = Instant::now() + patience(request.uri().query(), self.limits.time);
        let answer = self.review_template(request, deadline).await;
        self.response(PATH, answer)
    }

    async fn review_template(&self, request: Request, deadline: Instant) -> Result<Vec<u8>, Refusal> {
        let body = self.bodies.read(request, deadline).await?;
        let review: AdmissionRequest<'_> = request_of(&body, [API_VERSION, KIND])?;
        let assessment = self.assess_template(&review, &body, deadline).await;
        self.assessor.count(&assessment, "Template", review.dry_run == Some(true));
        info!(
            kind = &*review.kind.kind,
            namespace = review.namespace.as_deref(),
            name = review.name.as_deref(),
            operation = &*review.operation,
            dry_run = review.dry_run,
            allowed = assessment.denial.is_none(),
            warnings = assessment.warnings.len(),
            "Answered admission request for a template"
        );
        Ok(serde_json::to_vec(&response(assessment, &review, self.settings.enforce).into_review())?)
    }

    async fn assess_template(&self, review: &AdmissionRequest<'_>, body: &Bytes, deadline: Instant) -> Assessment {
        let facts = self.gatherer.cache().facts();
        let part = |name: &Option<std::borrow::Cow<'_, str>>| name.as_deref().unwrap_or_default().to_owned();
        let key = ObjectKey::new(part(&review.namespace), part(&review.name));
        let [Some(old), Some(new)] = [review.old_object, review.object] else { return Assessment::default() };
        if review.operation != "UPDATE"
            || !is_looked_after(review, facts.scope())
            || !is_of_a_class(&facts, &review.kind.group, &review.kind.kind, &key)
        {
            return Assessment::default();
        }
        let Ok(_place) = self.places.place(deadline).await else { return Assessment::default() };
        let texts = [old, new].map(|text: &RawValue| body.slice_ref(text.get().as_bytes()));
        self.assessor.assess(move || decoded(&texts), &self.gatherer, deadline).await
    }
}

fn decoded([old, new]: &[Bytes; 2]) -> Result<Edit, String> {
    let object = |text: &Bytes| {
        let value = json::value(str::from_utf8(text).map_err(|error| error.to_string())?);
        let value = value.map_err(|error| format!("the template: {error}"))?;
        Object::try_from(value).map(Arc::new).map_err(|found| format!("the template: it is {found}"))
    };
    Ok(Edit::Template { old: object(old)?, new: object(new)? })
}

fn response<'a>(assessment: Assessment, review: &'a AdmissionRequest<'_>, enforce: Enforce) -> AdmissionResponse<'a> {
    let Assessment { warnings, summary, denial, .. } = assessment;
    let mut response = AdmissionResponse { uid: &review.uid, allowed: true, ..AdmissionResponse::default() };
    response.warnings = warnings.into_iter().map(|warning| warning.text).collect();
    response.audit_annotations = summary.into_iter().map(|text| ("impact", text)).collect();
    match denial {
        None => {}
        Some(message) if enforce == Enforce::Warn => response.warnings.push(format!("would be denied: {message}")),
        Some(message) => {
            let mut status = Status::failure(403, "Forbidden", message);
            status.details = Some(StatusDetails {
                name: review.name.as_deref().unwrap_or_default(),
                group: &review.kind.group,
                kind: &review.kind.kind,
                retry_after_seconds: None,
                causes: Vec::new(),
            });
            (response.allowed, response.status) = (false, Some(status));
        }
    }
    response
}

//! The admission rounds of one write.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::{Value, json};

use super::scale;
use crate::admission::{Admission, AdmissionAttributes, AdmissionPhase, Webhook};
use crate::storage::random;
use crate::storage::registry::{ServedResource, api_version};
use crate::storage::status::ApiError;

/// The admission review of one write.
pub(super) struct WriteReview<'a> {
    pub attributes: &'a AdmissionAttributes<'a>,
    pub resource: &'a ServedResource,
    pub name: &'a str,
    /// The current object; `None` for a creation.
    pub old: Option<&'a Value>,
    pub is_dry_run: bool,
    /// `CreateOptions`, `UpdateOptions`, `PatchOptions` or `DeleteOptions`.
    pub options: &'a str,
}

impl WriteReview<'_> {
    /// Runs the mutating webhooks; returns whether they changed the object. There are none for scales.
    pub(super) async fn mutate(
        &self,
        admission: Option<&dyn Admission>,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<bool, ApiError> {
        let Some(admission) = admission.filter(|_| self.attributes.subresource != "scale") else { return Ok(false) };
        let mut changed = false;
        for webhook in admission.webhooks(AdmissionPhase::Mutating, self.attributes) {
            let Some(answer) = self.call(admission, &webhook, object, warnings).await? else { continue };
            let Some(patch) = answer.get("patch").and_then(Value::as_str) else { continue };
            let failed = |reason: String| failed(&webhook, &reason);
            let bytes = STANDARD.decode(patch).map_err(|error| failed(error.to_string()))?;
            let patch: json_patch::Patch = serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
            json_patch::patch(object, &patch).map_err(|error| failed(error.to_string()))?;
            changed |= !patch.0.is_empty();
        }
        Ok(changed)
    }

    /// Runs the validating webhooks; a deletion is validated with the old object.
    pub(super) async fn validate(
        &self,
        admission: Option<&dyn Admission>,
        object: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        let Some(admission) = admission else { return Ok(()) };
        for webhook in admission.webhooks(AdmissionPhase::Validating, self.attributes) {
            self.call(admission, &webhook, object, warnings).await?;
        }
        Ok(())
    }

    /// The response of a webhook that allows the write; `None` if it failed and failures are ignored.
    async fn call(
        &self,
        admission: &dyn Admission,
        webhook: &Webhook,
        object: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Value>, ApiError> {
        let uid = random::uid();
        let answer = match admission.review(webhook, self.review(&uid, object)).await {
            Ok(answer) => answer,
            Err(_) if webhook.ignores_failure => return Ok(None),
            Err(reason) => return Err(failed(webhook, &reason.to_string())),
        };
        let response = answer.get("response").filter(|response| response.is_object());
        let Some(response) = response else { return Err(failed(webhook, "the answer has no response")) };
        let added = response.get("warnings").and_then(Value::as_array);
        warnings.extend(added.into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)));
        match response.get("allowed") {
            Some(Value::Bool(true)) => Ok(Some(response.clone())),
            _ => Err(denied(webhook, response)),
        }
    }

    /// The `AdmissionReview` of an object. The object of a scale is a Scale.
    fn review(&self, uid: &str, object: &Value) -> Value {
        let (group, version) = (self.attributes.group, self.attributes.version);
        let is_deletion = self.attributes.operation == "DELETE";
        let is_scale = self.attributes.subresource == "scale";
        let reviewed = |object| match is_scale {
            true => Cow::Owned(scale::read_scale(self.resource, object).unwrap_or_default()),
            false => Cow::Borrowed(object),
        };
        let kind = match is_scale {
            true => json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}),
            false => json!({"group": group, "version": version, "kind": self.resource.kind}),
        };
        let resource = json!({"group": group, "version": version, "resource": self.attributes.resource});
        let mut request = json!({
            "uid": uid, "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
            "name": self.name, "operation": self.attributes.operation,
            "userInfo": {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]},
            "object": (!is_deletion).then(|| reviewed(object)),
            "oldObject": self.old.map(reviewed), "dryRun": self.is_dry_run,
            "options": {"kind": self.options, "apiVersion": api_version("meta.k8s.io", "v1")},
        });
        for (name, value) in [
            ("namespace", self.attributes.namespace),
            ("subResource", self.attributes.subresource),
            ("requestSubResource", self.attributes.subresource),
        ] {
            if !value.is_empty() {
                request[name] = json!(value);
            }
        }
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
    }
}

fn failed(webhook: &Webhook, reason: &str) -> ApiError {
    ApiError::internal(format!("failed calling webhook {:?}: {reason}", webhook.name))
}

/// A denial with the code, reason and causes of the webhook.
fn denied(webhook: &Webhook, response: &Value) -> ApiError {
    let status = response.get("status").cloned().unwrap_or_default();
    let text = |name: &str| status.get(name).and_then(Value::as_str).unwrap_or_default();
    let code = status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let code = code.and_then(|code| StatusCode::from_u16(code).ok());
    let code = code.filter(|code| code.is_client_error() || code.is_server_error()).unwrap_or(StatusCode::BAD_REQUEST);
    let explanation = match (text("message"), text("reason")) {
        ("", "") => " without explanation".to_owned(),
        ("", reason) => format!(": {reason}"),
        (message, _) => format!(": {message}"),
    };
    let message = format!("admission webhook {:?} denied the request{explanation}", webhook.name);
    let mut failure = ApiError::new(code, reason(text("reason")), message);
    if let Some(Value::Object(details)) = status.get("details") {
        failure.details = details.clone();
    }
    failure
}

/// A reason known to clients.
fn reason(text: &str) -> &'static str {
    const KNOWN: [&str; 14] = [
        "AlreadyExists",
        "BadRequest",
        "Conflict",
        "Expired",
        "Forbidden",
        "InternalError",
        "Invalid",
        "MethodNotAllowed",
        "NotAcceptable",
        "NotFound",
        "ServiceUnavailable",
        "Timeout",
        "TooManyRequests",
        "Unauthorized",
    ];
    KNOWN.into_iter().find(|known| *known == text).unwrap_or("")
}

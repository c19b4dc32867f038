//! The AdmissionReview envelope, `admission.k8s.io/v1`.
//!
//! The envelope is decoded before the object, so that an invalid object is answered under its uid.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use json_patch::Patch;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The only supported version of AdmissionReview (ADM-001).
pub const API_VERSION: &str = "admission.k8s.io/v1";
/// The kind of the envelope.
pub const KIND: &str = "AdmissionReview";

/// A review with its request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<'a, R> {
    #[serde(borrow, default)]
    pub api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub kind: Cow<'a, str>,
    pub request: Option<R>,
}

/// A review of an admission request.
pub type AdmissionReview<'a> = Envelope<'a, AdmissionRequest<'a>>;

/// The request of the API server.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest<'a> {
    #[serde(borrow)]
    pub uid: Cow<'a, str>,
    #[serde(borrow)]
    pub kind: GroupVersionKind<'a>,
    #[serde(borrow, default)]
    pub resource: GroupResource<'a>,
    #[serde(borrow, default)]
    pub sub_resource: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub operation: Cow<'a, str>,
    #[serde(borrow, default)]
    pub object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub old_object: Option<&'a RawValue>,
    #[serde(default)]
    pub dry_run: Option<bool>,
    #[serde(borrow, default)]
    pub user_info: UserInfo<'a>,
}

/// The user of the request.
#[derive(Debug, Default, Deserialize)]
pub struct UserInfo<'a> {
    #[serde(borrow, default)]
    pub username: Cow<'a, str>,
}

/// Group and plural name of a resource.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct GroupResource<'a> {
    #[serde(borrow, default)]
    pub group: Cow<'a, str>,
    #[serde(borrow, default)]
    pub resource: Cow<'a, str>,
}

/// Group, version and kind of an object.
#[derive(Clone, Debug, Deserialize)]
pub struct GroupVersionKind<'a> {
    #[serde(borrow, default)]
    pub group: Cow<'a, str>,
    #[serde(borrow, default)]
    pub version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub kind: Cow<'a, str>,
}

/// The response with its envelope.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionAnswer<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: AdmissionResponse<'a>,
}

/// The response to one request.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionResponse<'a> {
    pub uid: &'a str,
    pub allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<AdmissionStatus<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Annotations for the audit log of the API server, which prefixes each key with the name of the webhook.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub audit_annotations: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Base64 of the JSON patch.
    pub patch: Option<String>,
}

impl<'a> AdmissionResponse<'a> {
    /// Adds a JSON patch; omitted if it has no operations (ADM-007).
    pub fn set_patch(&mut self, patch: &Patch) -> Result<(), serde_json::Error> {
        if !patch.is_empty() {
            self.patch_type = Some("JSONPatch");
            self.patch = Some(base64::engine::general_purpose::STANDARD.encode(serde_json::to_vec(patch)?));
        }
        Ok(())
    }

    /// Wraps the response in its envelope.
    pub fn into_review(self) -> AdmissionAnswer<'a> {
        AdmissionAnswer { api_version: API_VERSION, kind: KIND, response: self }
    }
}

/// A `v1.Status` with the reason of a denial.
#[derive(Debug, Serialize)]
pub struct AdmissionStatus<'a> {
    metadata: Empty,
    status: &'static str,
    pub message: String,
    pub reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails<'a>>,
    pub code: u16,
}

impl AdmissionStatus<'_> {
    /// A failure with a message.
    pub fn failure(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        AdmissionStatus { metadata: Empty {}, status: "Failure", message: message.into(), reason, details: None, code }
    }
}

#[derive(Debug, Serialize)]
struct Empty {}

/// The object, and its invalid fields.
#[derive(Debug, Serialize)]
pub struct StatusDetails<'a> {
    pub name: &'a str,
    pub group: &'a str,
    pub kind: &'a str,
    /// Seconds after which the client may retry; kube-apiserver sends them in the header `Retry-After`.
    #[serde(rename = "retryAfterSeconds", skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
}

impl<'a> From<&'a AdmissionRequest<'_>> for StatusDetails<'a> {
    fn from(review: &'a AdmissionRequest<'_>) -> Self {
        StatusDetails {
            name: review.name.as_deref().unwrap_or_default(),
            group: &review.kind.group,
            kind: &review.kind.kind,
            retry_after_seconds: None,
            causes: Vec::new(),
        }
    }
}

/// One field error.
#[derive(Debug, Serialize)]
pub struct StatusCause {
    pub reason: &'static str,
    pub message: String,
    pub field: String,
}

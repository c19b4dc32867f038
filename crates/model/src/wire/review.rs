//! The AdmissionReview envelope, `admission.k8s.io/v1`.
//!
//! The envelope is decoded first and the object later, so that a bad object is still answered under its own uid.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use json_patch::Patch;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The only version of AdmissionReview that is understood (ADM-001).
pub const API_VERSION: &str = "admission.k8s.io/v1";
/// The kind of the envelope.
pub const KIND: &str = "AdmissionReview";

/// A review as it arrives, with its request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<'a, R> {
    #[serde(borrow, default)]
    pub api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub kind: Cow<'a, str>,
    pub request: Option<R>,
}

/// A review of an admission.
pub type AdmissionReview<'a> = Envelope<'a, AdmissionRequest<'a>>;

/// What the API server asks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest<'a> {
    #[serde(borrow)]
    pub uid: Cow<'a, str>,
    #[serde(borrow)]
    pub kind: GroupVersionKind<'a>,
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

/// Who sent the request.
#[derive(Debug, Default, Deserialize)]
pub struct UserInfo<'a> {
    #[serde(borrow, default)]
    pub username: Cow<'a, str>,
}

/// Which kind an object has.
#[derive(Clone, Debug, Deserialize)]
pub struct GroupVersionKind<'a> {
    #[serde(borrow, default)]
    pub group: Cow<'a, str>,
    #[serde(borrow, default)]
    pub version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub kind: Cow<'a, str>,
}

/// The answer, complete with its envelope.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionAnswer<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: AdmissionResponse<'a>,
}

/// The decision on one request.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionResponse<'a> {
    pub uid: &'a str,
    pub allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What the API server writes into its audit log, each key behind the name of the webhook.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub audit_annotations: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Base64 of the JSON patch.
    pub patch: Option<String>,
}

impl<'a> AdmissionResponse<'a> {
    /// Adds a JSON patch; none at all for no operations (ADM-007).
    pub fn set_patch(&mut self, patch: &Patch) -> Result<(), serde_json::Error> {
        if !patch.is_empty() {
            self.patch_type = Some("JSONPatch");
            self.patch = Some(base64::engine::general_purpose::STANDARD.encode(serde_json::to_vec(patch)?));
        }
        Ok(())
    }

    /// Puts the answer into its envelope.
    pub fn into_review(self) -> AdmissionAnswer<'a> {
        AdmissionAnswer { api_version: API_VERSION, kind: KIND, response: self }
    }
}

/// A `v1.Status` that says why a request was denied.
#[derive(Debug, Serialize)]
pub struct Status<'a> {
    metadata: Empty,
    status: &'static str,
    pub message: String,
    pub reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails<'a>>,
    pub code: u16,
}

impl Status<'_> {
    /// A failure with a message.
    pub fn failure(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Status { metadata: Empty {}, status: "Failure", message: message.into(), reason, details: None, code }
    }
}

#[derive(Debug, Serialize)]
struct Empty {}

/// Which object, and what is wrong with which of its fields.
#[derive(Debug, Serialize)]
pub struct StatusDetails<'a> {
    pub name: &'a str,
    pub group: &'a str,
    pub kind: &'a str,
    /// When the client may try again; kube-apiserver makes it the header `Retry-After`.
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

//! Interface of admission, which is called before an object is written.

use std::fmt;

use futures::future::BoxFuture;
use http::StatusCode;
use serde_json::Value;

/// The two rounds of admission: mutating webhooks first, then validating ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionPhase {
    Mutating,
    Validating,
}

/// The attributes of a write.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionAttributes<'a> {
    pub group: &'a str,
    pub version: &'a str,
    /// The plural.
    pub resource: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'static str,
    /// Empty for objects without one.
    pub namespace: &'a str,
}

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Name of the webhook in denials.
    pub name: String,
    /// URL path of reviews, such as `/validate-cluster-x-k8s-io-v1beta2-cluster`.
    pub path: String,
    /// Whether a write is allowed if the webhook does not respond.
    pub ignores_failure: bool,
}

/// The reason for which a webhook does not answer a review.
#[derive(Debug, thiserror::Error)]
pub enum ReviewCallError {
    /// The request cannot be sent, or the body of the response cannot be read.
    #[error(transparent)]
    Http(Box<dyn std::error::Error + Send + Sync>),
    /// The response is no success.
    #[error("{code}: {body}")]
    Status { code: StatusCode, body: String },
    #[error(transparent)]
    NoJson(#[from] serde_json::Error),
}

/// Admission webhooks.
pub trait Admission: fmt::Debug + Send + Sync {
    /// The webhooks for a write, in order.
    fn webhooks(&self, phase: AdmissionPhase, attributes: &AdmissionAttributes<'_>) -> Vec<Webhook>;

    /// Answers an `AdmissionReview`, or returns why there is no answer.
    fn review<'a>(&'a self, webhook: &'a Webhook, review: Value) -> BoxFuture<'a, Result<Value, ReviewCallError>>;
}

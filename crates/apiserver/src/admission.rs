//! The interface of admission: it is called before an object is written.

use std::fmt;

use futures::future::BoxFuture;
use serde_json::Value;

/// The two rounds of admission: first those who may change the object are asked, then those who only judge it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Mutating,
    Validating,
}

/// What is about to be written.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
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

/// One end point that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// The name under which denials are reported.
    pub name: String,
    /// Where reviews go, such as `/validate-cluster-x-k8s-io-v1beta2-cluster`.
    pub path: String,
    /// Whether a write goes through when the end point does not answer.
    pub ignores_failure: bool,
}

/// Admission webhooks.
pub trait Admission: fmt::Debug + Send + Sync {
    /// Which end points are asked about a write, in their order.
    fn webhooks(&self, phase: Phase, asked: &Asked<'_>) -> Vec<Webhook>;

    /// Answers an `AdmissionReview` with one, or says why there is no answer.
    fn review<'a>(&'a self, webhook: &'a Webhook, review: Value) -> BoxFuture<'a, Result<Value, String>>;
}

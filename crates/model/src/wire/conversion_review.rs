//! The ConversionReview envelope, `apiextensions.k8s.io/v1`.
//!
//! Objects stay text until they are converted: a review may contain many objects, and JSON values take several times
//! the memory of their text.

use std::borrow::Cow;
use std::fmt::Display;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The only supported version of ConversionReview.
pub const API_VERSION: &str = "apiextensions.k8s.io/v1";
/// The kind of the envelope.
pub const KIND: &str = "ConversionReview";

/// URL path of the conversion webhook.
pub const PATH: &str = "/convert";

/// The request of the API server.
#[derive(Debug, Deserialize)]
pub struct ConversionRequest<'a> {
    #[serde(borrow)]
    pub uid: Cow<'a, str>,
    #[serde(borrow, rename = "desiredAPIVersion")]
    pub desired_api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub objects: Vec<&'a RawValue>,
}

/// The response with its envelope.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversionAnswer<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: ConversionResponse<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConversionResponse<'a> {
    uid: &'a str,
    converted_objects: Vec<Box<RawValue>>,
    result: ReviewResult,
}

#[derive(Debug, Serialize)]
struct ReviewResult {
    status: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

impl<'a> ConversionAnswer<'a> {
    /// All objects in order, or the reason of a failure.
    pub fn new(uid: &'a str, outcome: Result<Vec<Box<RawValue>>, impl Display>) -> Self {
        let (converted_objects, status, message) = match outcome {
            Ok(objects) => (objects, "Success", String::new()),
            Err(error) => (Vec::new(), "Failure", error.to_string()),
        };
        let response = ConversionResponse { uid, converted_objects, result: ReviewResult { status, message } };
        ConversionAnswer { api_version: API_VERSION, kind: KIND, response }
    }
}

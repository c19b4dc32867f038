//! The ConversionReview envelope, `apiextensions.k8s.io/v1`.
//!
//! An object stays text until it is converted: a review may have many objects, and as JSON values they take a multiple of the
//! memory of their text.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The only version of ConversionReview that is understood.
pub const API_VERSION: &str = "apiextensions.k8s.io/v1";
/// The kind of the envelope.
pub const KIND: &str = "ConversionReview";

/// Where objects are sent to be converted.
pub const PATH: &str = "/convert";

/// What the API server asks.
#[derive(Debug, Deserialize)]
pub struct ConversionRequest<'a> {
    #[serde(borrow)]
    pub uid: Cow<'a, str>,
    #[serde(borrow, rename = "desiredAPIVersion")]
    pub desired_api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub objects: Vec<&'a RawValue>,
}

/// The answer, complete with its envelope.
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
    result: ConversionResult,
}

#[derive(Debug, Serialize)]
struct ConversionResult {
    status: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

impl<'a> ConversionAnswer<'a> {
    /// All objects in the order in which they came, or why there are none.
    pub fn new(uid: &'a str, outcome: Result<Vec<Box<RawValue>>, String>) -> Self {
        let (converted_objects, status, message) = match outcome {
            Ok(objects) => (objects, "Success", String::new()),
            Err(message) => (Vec::new(), "Failure", message),
        };
        let response = ConversionResponse { uid, converted_objects, result: ConversionResult { status, message } };
        ConversionAnswer { api_version: API_VERSION, kind: KIND, response }
    }
}

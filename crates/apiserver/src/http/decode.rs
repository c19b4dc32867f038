//! Request bodies as objects of a kind: parsed, pruned, defaulted, and validated strictly on request.

use std::fmt;

use http::StatusCode;
use serde_json::Value;

use super::protobuf::{self, ProtobufError};
use super::request::{ApiRequest, FieldValidation};
use crate::storage::kind_schema::ObjectFault;
use crate::storage::registry::ServedResource;
use crate::storage::shape;
use crate::storage::status::ApiError;
use schema::field::{ErrorKind, ErrorValue};

/// Maximum number of complaints about one body.
const KEPT: usize = 100;

/// A parsed body.
#[derive(Debug)]
pub(super) struct DecodedBody {
    pub value: Value,
    /// Errors that only strict validation reports.
    pub complaints: Vec<String>,
}

/// Parses a body as JSON, or as YAML if the media type says so.
///
/// # Errors
/// 400 for an invalid body.
pub(super) fn body(call: &ApiRequest) -> Result<DecodedBody, ApiError> {
    if call.content_type == protobuf::MEDIA_TYPE {
        return match protobuf::object(&call.body) {
            Ok(value) => Ok(DecodedBody { value, complaints: Vec::new() }),
            Err(ProtobufError::UnknownKind(_)) => Err(unsupported_media_type(&ACCEPTED)),
            Err(error) => Err(ApiError::bad_request(error.to_string())),
        };
    }
    let text = std::str::from_utf8(&call.body).map_err(|_| ApiError::bad_request("the body is not UTF-8"))?;
    match call.content_type.as_str() {
        "" | "application/json" | "*/*" => json_body(text),
        "application/yaml" | "application/apply-patch+yaml" => yaml_body(text),
        _ => Err(unsupported_media_type(&ACCEPTED)),
    }
}

/// Media types of objects.
const ACCEPTED: [&str; 3] = ["application/json", "application/yaml", protobuf::MEDIA_TYPE];

pub(super) fn unsupported_media_type(accepted: &[&str]) -> ApiError {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    );
    ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
}

/// Parses JSON; repeated keys are complaints.
pub(super) fn json_body(text: &str) -> Result<DecodedBody, ApiError> {
    let read = golang::json::value_and_repeats(text);
    let (value, repeated) = read.map_err(|error| ApiError::bad_request(format!("error decoding JSON: {error}")))?;
    let complaints = repeated.iter().map(|place| format!("duplicate field {place:?}")).collect();
    Ok(DecodedBody { value, complaints })
}

fn yaml_body(text: &str) -> Result<DecodedBody, ApiError> {
    if text.trim_start().starts_with('{')
        && let Ok(body) = json_body(text)
    {
        return Ok(body);
    }
    let wrong = |error: &dyn fmt::Display| ApiError::bad_request(format!("error decoding YAML: {error}"));
    let document = golang::yaml::documents(text).into_iter().next().ok_or_else(|| wrong(&"there is no document"))?;
    let document = document.map_err(|error| wrong(&error))?;
    let complaints = document.repeated.iter();
    let complaints = complaints.map(|again| format!("line {}: key {:?} already set in map", again.line, again.key));
    Ok(DecodedBody { complaints: complaints.collect(), value: document.value })
}

/// An object of a kind from a request body; warnings are added to `warnings`.
///
/// # Errors
/// 400 for an object of another kind, for invalid metadata, and for violations of strict validation.
pub(super) fn object(
    resource: &ServedResource,
    mut body: DecodedBody,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Value, ApiError> {
    of_kind(resource, &body.value)?;
    let unknown = shape::shaped(resource, &mut body.value)?;
    complain(resource, body.complaints, unknown, validation, warnings)?;
    Ok(body.value)
}

fn of_kind(resource: &ServedResource, object: &Value) -> Result<(), ApiError> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    if !object.is_object() || text("kind").is_empty() {
        return Err(ApiError::bad_request(format!(
            "Object 'Kind' is missing in '{}'",
            schema::field::shortened(&object.to_string())
        )));
    }
    let (given, wanted) = (text("apiVersion"), resource.api_version());
    if given != wanted {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({wanted})"
        )));
    }
    if text("kind") != resource.kind {
        if resource.builtin.is_some() {
            return Err(ApiError::bad_request(format!(
                "{} in version {:?} cannot be handled as a {}: converting ({}) to ({}): unknown conversion",
                text("kind"),
                resource.version,
                resource.kind,
                text("kind"),
                resource.kind
            )));
        }
        let fault = ObjectFault {
            kind: ErrorKind::Invalid,
            field: "kind".to_owned(),
            value: ErrorValue::from(text("kind")),
            detail: format!("must be {}", resource.kind),
        };
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        return Err(ApiError::invalid(&resource.group, text("kind"), name, vec![fault]));
    }
    Ok(())
}

/// Handling of unknown and repeated fields.
pub(super) fn complain(
    resource: &ServedResource,
    repeated: Vec<String>,
    unknown: Vec<String>,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let unknown = unknown.into_iter().take(KEPT).map(|place| format!("unknown field {place:?}"));
    let all: Vec<String> = repeated.into_iter().chain(unknown).collect();
    match validation {
        FieldValidation::Warn => warnings.extend(all),
        FieldValidation::Strict if !all.is_empty() => {
            return Err(ApiError::bad_request(format!(
                "{kind} in version {:?} cannot be handled as a {kind}: strict decoding error: {}",
                resource.version,
                all.join(", "),
                kind = resource.kind
            )));
        }
        FieldValidation::Ignore | FieldValidation::Strict => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn repeated_keys_are_named_and_the_last_one_is_used() {
        let body = json_body(r#"{"a":1,"b":[{"c":1,"c":2}],"a":3}"#).unwrap();
        assert_eq!(body.value, json!({"a": 3, "b": [{"c": 2}]}));
        assert_eq!(body.complaints, [r#"duplicate field "b[0].c""#, r#"duplicate field "a""#]);
        assert!(json_body("{} {}").is_err() && json_body("").is_err());
        assert!(json_body(&"[".repeat(100_000)).is_err());
    }
}

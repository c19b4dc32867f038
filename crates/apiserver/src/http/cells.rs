//! Common cells of tables.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::age::age;

/// The time elapsed since a moment.
pub(super) fn since(text: &str, now: Timestamp) -> String {
    match text.parse::<Timestamp>() {
        Ok(moment) => age(now.as_second().saturating_sub(moment.as_second())),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// Name, type and priority of a column, and the function for its cells.
pub(super) type CommonColumn = (&'static str, &'static str, i64, fn(&Value, Timestamp) -> Value);

/// Time since the creation of the object.
pub(super) const AGE: CommonColumn =
    ("Age", "string", 0, |object, now| match object["metadata"]["creationTimestamp"].as_str() {
        Some(text) => json!(since(text, now)),
        None => json!(UNKNOWN),
    });
/// Text of an unknown value.
pub(super) const UNKNOWN: &str = "<unknown>";

/// Number of members of a field.
pub(super) fn count(object: &Value, field: &str) -> usize {
    object[field].as_object().map_or(0, Map::len)
}

/// Number of entries of a field.
pub(super) fn length(object: &Value, field: &str) -> usize {
    object[field].as_array().map_or(0, Vec::len)
}

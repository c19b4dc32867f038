//! Cells of tables that the columns of several kinds share.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::age::age;

/// How long ago a moment was.
pub(super) fn since(text: &str, now: Timestamp) -> String {
    match text.parse::<Timestamp>() {
        Ok(moment) => age(now.as_second().saturating_sub(moment.as_second())),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// Name, type and priority of a column, and what its cells are.
pub(super) type Own = (&'static str, &'static str, i64, fn(&Value, Timestamp) -> Value);

/// How long ago the object was created.
pub(super) const AGE: Own =
    ("Age", "string", 0, |object, now| match object["metadata"]["creationTimestamp"].as_str() {
        Some(text) => json!(since(text, now)),
        None => json!(UNKNOWN),
    });
/// What is shown where nothing is known.
pub(super) const UNKNOWN: &str = "<unknown>";

/// How many members a field has.
pub(super) fn count(object: &Value, field: &str) -> usize {
    object[field].as_object().map_or(0, Map::len)
}

/// How many entries a field has.
pub(super) fn length(object: &Value, field: &str) -> usize {
    object[field].as_array().map_or(0, Vec::len)
}

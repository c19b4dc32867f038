//! Edits of raw JSON, as JSON patch operations (RFC 6902).

use serde::Serialize;
use serde_json::Value;

/// One operation of a JSON patch. `add` also replaces a member that is already there, so no other operation is needed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum PatchOperation {
    /// Sets a member of an object.
    Add {
        /// A JSON pointer (RFC 6901).
        path: String,
        value: Value,
    },
}

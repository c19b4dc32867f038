//! Defaults that the mutating end point sets, as edits of the raw request.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

pub(super) mod cluster;
pub(super) mod cluster_class;
mod edits;
pub(super) mod machine;
pub(super) mod machine_group;
pub(super) mod machine_health_check;

/// `add` also replaces a member that is already there.
fn add(path: &PointerBuf, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path: path.clone(), value })
}

/// A pointer whose parts need no escapes.
fn pointer(text: &str) -> PointerBuf {
    PointerBuf::from_tokens(text.split('/').skip(1))
}

//! Conversion between v1beta1 and v1beta2, as edits of raw JSON (CONV).
//!
//! ```text
//!                 table.rs: where each version keeps a value
//!                   │                  │
//! v1beta1 ─► moves::up ─► flags.rs ─► v1beta2 ─► moves::down ─► v1beta1
//!    ▲           └─► hub (decoding)                                │
//!    └──────────── preserved.rs: the annotation ◄──────────────────┘
//! ```
//!
//! From v1beta2 to v1beta1 and back nothing changes: what v1beta1 has no place for comes back from the annotation. From
//! v1beta1 to v1beta2 and back, durations come back in whole seconds, references without what v1beta2 has no place for,
//! `definitionFrom` and `rolloutAfter` not at all, and what means nothing to v1beta1 (a `false` that need not be
//! written, empty texts and objects) not as such. v1alpha4 has the shape of v1beta1 for our kinds.

pub mod embedded;
pub mod extension_config;
mod flags;
mod form;
mod moves;
mod preserved;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Shape, Version};
use crate::hub::{GROUP, Kind};

type Members = Map<String, Value>;
type ConversionResult = Result<(), ConversionError>;

/// What keeps an object from being converted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConversionError {
    /// A duration that is not one (CONV-004).
    #[error("{path}: {text:?} is not a duration such as 5m30s")]
    Duration { path: String, text: String },
    /// Seconds that are not a 32-bit integer (CONV-004).
    #[error("{path}: {text} is not a whole number of seconds")]
    Seconds { path: String, text: String },
    /// A reference whose `apiVersion` has more than one `/` (CONV-005).
    #[error("{path}.apiVersion: {text:?} has more than one \"/\"")]
    ApiVersion { path: String, text: String },
    /// A reference whose version could not be found out (CONV-005).
    #[error("{path}: the API version of {kind} is not known: {reason}")]
    UnknownVersion { path: String, kind: String, reason: String },
    /// A member of an object reference that is not text, and that v1beta2 does not have.
    #[error("{path}: invalid type, expected a string")]
    NoText { path: String },
    /// An object without a version of our group.
    #[error("apiVersion: expected a version of {GROUP}")]
    NotOurs,
    /// Something else in the place of an object from which something moves.
    #[error("{path}: invalid type, expected an object")]
    NoObject { path: String },
}

/// Group and kind of what a Cluster refers to.
pub type GroupKind = (String, String);

/// The API versions of referenced kinds, or why one could not be found out (UPG-021).
pub type Versions = BTreeMap<GroupKind, Result<String, String>>;

/// Whose API versions have to be known to convert an object to a version (CONV-005).
pub fn versions_needed(kind: Kind, object: &Value, to: Version) -> Vec<GroupKind> {
    if kind != Kind::Cluster || shape(object) != Some(Shape::V1Beta2) || to.shape() == Shape::V1Beta2 {
        return Vec::new();
    }
    let text = |reference: &Value, name: &str| reference[name].as_str().unwrap_or_default().to_owned();
    let references = ["controlPlaneRef", "infrastructureRef"].into_iter().filter_map(|name| object["spec"].get(name));
    references
        .map(|reference| (text(reference, "apiGroup"), text(reference, "kind")))
        .filter(|(group, _)| !group.is_empty())
        .collect()
}

/// Converts an object of our group to a version; one that has it already stays as it is.
///
/// # Errors
/// When a value has no counterpart, or the object is none of our group. The object is half converted then.
pub fn convert(kind: Kind, object: &mut Value, to: Version, versions: &Versions) -> ConversionResult {
    match (shape(object).ok_or(ConversionError::NotOurs)?, to.shape()) {
        (Shape::V1Beta1, Shape::V1Beta2) => up(kind, object)?,
        (Shape::V1Beta2, Shape::V1Beta1) => down(kind, object, versions)?,
        (Shape::V1Beta1, Shape::V1Beta1) | (Shape::V1Beta2, Shape::V1Beta2) => {}
    }
    let members = object.as_object_mut().ok_or(ConversionError::NotOurs)?;
    members.insert("apiVersion".to_owned(), json!(format!("{GROUP}/{to}")));
    // The API server insists on metadata, and takes its own anyway.
    members.entry("metadata").or_insert_with(|| json!({}));
    Ok(())
}

fn shape(object: &Value) -> Option<Shape> {
    object["apiVersion"].as_str().and_then(Version::from_api_version).map(Version::shape)
}

/// From v1beta1 to v1beta2, with the help of what the way down has left in the annotation (CONV-013).
fn up(kind: Kind, object: &mut Value) -> ConversionResult {
    let preserved = preserved::take(object);
    if let Some(original) = preserved.as_ref().and_then(|preserved| preserved::unchanged(kind, object, preserved)) {
        *object = original;
        return Ok(());
    }
    reshape(kind, object, preserved.as_ref())
}

/// Reshapes a v1beta1 object for the decoder of the hub.
pub(super) fn to_hub(kind: Kind, object: &mut Value) -> ConversionResult {
    reshape(kind, object, None)
}

fn reshape(kind: Kind, object: &mut Value, preserved: Option<&Value>) -> ConversionResult {
    moves::up(kind, object)?;
    flags::settle(kind, object, preserved);
    Ok(())
}

/// From v1beta2 to v1beta1; the annotation keeps what the way up cannot know (CONV-013).
fn down(kind: Kind, object: &mut Value, versions: &Versions) -> ConversionResult {
    let preserved = object.clone();
    moves::down(kind, object, versions)?;
    preserved::keep(object, preserved);
    Ok(())
}

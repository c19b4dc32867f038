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
//! From v1beta2 to v1beta1 and back nothing changes: parts that v1beta1 cannot represent are restored from the
//! annotation. From v1beta1 to v1beta2 and back, durations become whole seconds, references lose members that v1beta2
//! lacks, `definitionFrom` and `rolloutAfter` are dropped, and so are values without a meaning in v1beta1 (an optional
//! `false`) and empty values that v1beta2 leaves out. v1alpha4 has the schema of v1beta1 for our kinds.

pub mod embedded;
pub mod extension_config;
mod flags;
mod form;
mod moves;
mod omitted_fields;
mod preserved;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{SchemaVersion, WireVersion};
use crate::hub::{GROUP, Kind};

type JsonMembers = Map<String, Value>;
type ConvertResult = Result<(), ConversionError>;

/// Reasons why an object cannot be converted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConversionError {
    /// An invalid duration (CONV-004).
    #[error("{path}: {text:?} is not a duration such as 5m30s")]
    Duration { path: String, text: String },
    /// Seconds outside 32-bit integers (CONV-004).
    #[error("{path}: {text} is not a whole number of seconds")]
    Seconds { path: String, text: String },
    /// A reference whose `apiVersion` has more than one `/` (CONV-005).
    #[error("{path}.apiVersion: {text:?} has more than one \"/\"")]
    ApiVersion { path: String, text: String },
    /// A reference whose version is unknown (CONV-005).
    #[error("{path}: the API version of {kind} is not known: {source}")]
    UnknownVersion { path: String, kind: String, source: UnknownKindVersion },
    /// A non-string member of an object reference that v1beta2 lacks.
    #[error("{path}: invalid type, expected a string")]
    NoText { path: String },
    /// An object of another group.
    #[error("apiVersion: expected a version of {GROUP}")]
    NotOurs,
    /// A value other than an object, from which members move.
    #[error("{path}: invalid type, expected an object")]
    NoObject { path: String },
}

/// Group and kind of a referenced object.
pub type KindKey = (String, String);

/// API versions of referenced kinds, or the reason why one is unknown (UPG-021).
pub type KindVersions = BTreeMap<KindKey, Result<String, UnknownKindVersion>>;

/// The reason for which the API version of a kind is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownKindVersion {
    #[error("the reference has no kind")]
    NoKind,
    /// Group and kind are not the name of a definition.
    #[error("{0}")]
    InvalidName(String),
    #[error("CustomResourceDefinition {definition} does not exist")]
    NoDefinition { definition: String },
    #[error("CustomResourceDefinition {definition} has no contract label")]
    NoContract { definition: String },
    #[error("CustomResourceDefinition {definition} cannot be read: {reason}")]
    Unreadable { definition: String, reason: String },
    #[error("CustomResourceDefinition {definition} could not be read: timed out")]
    TimedOut { definition: String },
    #[error("its version was not looked up")]
    NotLookedUp,
}

/// Kinds whose API versions are needed to convert an object (CONV-005).
pub fn versions_needed(kind: Kind, object: &Value, to: WireVersion) -> Vec<KindKey> {
    if kind != Kind::Cluster
        || shape(object) != Some(SchemaVersion::V1Beta2)
        || to.schema_version() == SchemaVersion::V1Beta2
    {
        return Vec::new();
    }
    let text = |reference: &Value, name: &str| reference[name].as_str().unwrap_or_default().to_owned();
    let references = ["controlPlaneRef", "infrastructureRef"].into_iter().filter_map(|name| object["spec"].get(name));
    references
        .map(|reference| (text(reference, "apiGroup"), text(reference, "kind")))
        .filter(|(group, _)| !group.is_empty())
        .collect()
}

/// Converts an object of our group to a version; unchanged if it already has that version.
///
/// # Errors
/// When a value cannot be converted, or the object has another group. The object is then partially converted.
pub fn convert(kind: Kind, object: &mut Value, to: WireVersion, versions: &KindVersions) -> ConvertResult {
    match (shape(object).ok_or(ConversionError::NotOurs)?, to.schema_version()) {
        (SchemaVersion::V1Beta1, SchemaVersion::V1Beta2) => up(kind, object)?,
        (SchemaVersion::V1Beta2, SchemaVersion::V1Beta1) => down(kind, object, versions)?,
        (SchemaVersion::V1Beta1, SchemaVersion::V1Beta1) | (SchemaVersion::V1Beta2, SchemaVersion::V1Beta2) => {}
    }
    let members = object.as_object_mut().ok_or(ConversionError::NotOurs)?;
    members.insert("apiVersion".to_owned(), json!(format!("{GROUP}/{to}")));
    // The API server requires metadata, and ignores changes to it.
    members.entry("metadata").or_insert_with(|| json!({}));
    Ok(())
}

fn shape(object: &Value) -> Option<SchemaVersion> {
    object["apiVersion"].as_str().and_then(WireVersion::from_api_version).map(WireVersion::schema_version)
}

/// Converts v1beta1 to v1beta2, using the data preserved in the annotation (CONV-013).
fn up(kind: Kind, object: &mut Value) -> ConvertResult {
    let preserved = preserved::take(object);
    if let Some(original) = preserved.as_ref().and_then(|preserved| preserved::unchanged(kind, object, preserved)) {
        *object = original;
        return Ok(());
    }
    reshape(kind, object, preserved.as_ref())?;
    omitted_fields::remove_empty(kind.name(), object);
    Ok(())
}

/// Reshapes a v1beta1 object for the decoder of the hub.
pub(super) fn to_hub(kind: Kind, object: &mut Value) -> ConvertResult {
    reshape(kind, object, None)
}

fn reshape(kind: Kind, object: &mut Value, preserved: Option<&Value>) -> ConvertResult {
    moves::up(kind, object)?;
    flags::settle(kind, object, preserved);
    Ok(())
}

/// Converts v1beta2 to v1beta1; the annotation preserves data that v1beta1 lacks (CONV-013).
fn down(kind: Kind, object: &mut Value, versions: &KindVersions) -> ConvertResult {
    let preserved = object.clone();
    moves::down(kind, object, versions)?;
    preserved::keep(object, preserved);
    Ok(())
}

//! Objects in the shape of their kind: pruned, completed, and in another version.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::builtin::Builtin;
use super::metadata;
use super::registry::{Registry, Resource};
use super::status::Failure;
use super::stored::Stored;
use super::structure::ObjectFault;
use model::hub::Kind;
use model::hub::contract::compare_versions;
use model::wire::conversion::ConversionError;
use model::wire::conversion::embedded::{EmbeddedKind, EmbeddedVersion};
use model::wire::conversion::extension_config;
use model::wire::{WireVersion, conversion};
use schema::field::ErrorKind;

/// How deep the values of an object are nested at most. Decoders of JSON, ours and those of clients, stop at 128, and the record of field
/// managers is some levels deeper than what it records.
const MAX_DEPTH: usize = 100;

/// Drops unknown fields of an object, fills in what it lacks, and returns where the former was.
///
/// # Errors
/// 400 for metadata that are none, and for values that are nested too deeply.
pub(crate) fn shaped(resource: &Resource, object: &mut Value) -> Result<Vec<String>, Failure> {
    if is_deeper(object, MAX_DEPTH) {
        return Err(Failure::bad_request(format!("the object is nested more than {MAX_DEPTH} levels deep")));
    }
    let mut unknown = metadata::coerce(resource, object)?;
    if let Some(schema) = &resource.schema {
        unknown.extend(schema.prune(object));
        schema.complete(object);
        if resource.builtin.is_some() {
            typed(resource, &schema_faults(resource, object, None))?;
        }
    }
    match resource.builtin {
        Some(Builtin::CustomResourceDefinition) => super::definition::complete(object),
        Some(builtin) => builtin.complete(object),
        None => {}
    }
    unknown.sort();
    Ok(unknown)
}

/// Whether values are nested more than `levels` deep.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return true };
    match value {
        Value::Array(elements) => elements.iter().any(|element| is_deeper(element, below)),
        Value::Object(members) => members.values().any(|member| is_deeper(member, below)),
        _ => false,
    }
}

/// What a schema finds wrong with an object.
pub(crate) fn schema_faults(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<ObjectFault> {
    let object = without_empty_bytes(resource, object);
    resource.schema.as_ref().map(|schema| schema.faults(&object, old)).unwrap_or_default()
}

/// The object without its empty byte values: Go reads an empty text as zero bytes, although the format `byte` of a schema
/// forbids it.
fn without_empty_bytes<'o>(resource: &Resource, object: &'o Value) -> Cow<'o, Value> {
    let field = match resource.builtin {
        Some(Builtin::Secret) => "data",
        Some(Builtin::ConfigMap) => "binaryData",
        _ => return Cow::Borrowed(object),
    };
    let has_empty = |values: &Map<String, Value>| values.values().any(|value| value == "");
    if !object.get(field).and_then(Value::as_object).is_some_and(has_empty) {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    if let Some(values) = object.get_mut(field).and_then(Value::as_object_mut) {
        values.retain(|_, value| value != "");
    }
    Cow::Owned(object)
}

/// The server's own kinds have types of their own: what does not fit one of them cannot be read.
fn typed(resource: &Resource, faults: &[ObjectFault]) -> Result<(), Failure> {
    match faults.iter().find(|fault| fault.kind == ErrorKind::TypeInvalid) {
        None => Ok(()),
        Some(fault) => Err(Failure::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: json: cannot unmarshal {}: {}",
            resource.version,
            fault.field,
            fault.detail,
            kind = resource.kind
        ))),
    }
}

/// Whether an object is stored in the version in which a kind is asked for.
pub(crate) fn is_stored_as(resource: &Resource, stored: &Stored) -> bool {
    let version = &*stored.api_version;
    version == resource.version && resource.group.is_empty()
        || version.split_once('/') == Some((&*resource.group, &*resource.version))
}

/// A stored object in the version in which a kind is asked for.
pub(crate) fn viewed(registry: &Registry, resource: &Resource, stored: &Stored) -> Value {
    let object = stored.decode();
    if is_stored_as(resource, stored) {
        return object;
    }
    // What has no counterpart was refused when it was written, or has come in a file.
    converted(registry, &object, resource).unwrap_or_else(|_| renamed(object, resource))
}

/// The group in which objects of a kind are stored.
pub(crate) fn storage_group(resource: &Resource) -> &str {
    if resource.builtin == Some(super::builtin::Builtin::Event) { "" } else { &resource.group }
}

/// The object in another version of its kind.
///
/// # Errors
/// When a value has no counterpart in that version.
pub(crate) fn converted(registry: &Registry, object: &Value, to: &Resource) -> Result<Value, Failure> {
    let mut object = object.clone();
    let from = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    if from == to.api_version() {
        return Ok(object);
    }
    let failed = |error: ConversionError| {
        Failure::internal(format!("conversion webhook for {from}, Kind={} failed: {error}", to.kind))
    };
    if extension_config::is_version(&to.api_version()) {
        extension_config::convert(&mut object, &to.api_version()).map_err(failed)?;
    }
    if let Some((kind, version)) = converted_by_us(to) {
        let needed = conversion::versions_needed(kind, &object, version);
        conversion::convert(kind, &mut object, version, &newest(registry, needed)).map_err(failed)?;
    }
    if let Some((kind, version)) = embedded(&object, to) {
        let needed = conversion::embedded::versions_needed(&object, version);
        conversion::embedded::convert(kind, &mut object, version, &newest(registry, needed)).map_err(failed)?;
    }
    Ok(renamed(object, to))
}

/// The kind of an object of the embedded provider, and to which of its two versions it is converted.
fn embedded(object: &Value, to: &Resource) -> Option<(&'static EmbeddedKind, EmbeddedVersion)> {
    Some((EmbeddedKind::for_object(object)?, EmbeddedVersion::from_api_version(&to.api_version())?))
}

/// The newest versions of kinds.
fn newest(registry: &Registry, kinds: Vec<conversion::KindKey>) -> conversion::KindVersions {
    let versions = kinds.into_iter().map(|kind| {
        let newest = newest_version(registry, &kind);
        (kind, Ok(newest))
    });
    versions.collect()
}

/// A kind that this program converts, and to which version.
fn converted_by_us(to: &Resource) -> Option<(Kind, WireVersion)> {
    let version = WireVersion::from_api_version(&to.api_version())?;
    Some((Kind::from_name(&to.kind)?, version))
}

/// The version of a kind that a v1beta1 reference names: the newest one that is served, or of kinds that are not served
/// the one that providers of Cluster API have (DEC-17).
fn newest_version(registry: &Registry, (group, kind): &(String, String)) -> String {
    let served = registry.group(group).filter(|resource| resource.kind == *kind).map(|resource| &*resource.version);
    served.max_by(|a, b| compare_versions(a, b)).unwrap_or("v1beta2").to_owned()
}

/// The object with the version of another kind: as every converter does that has no rules for the kind.
pub(super) fn renamed(mut object: Value, to: &Resource) -> Value {
    let api_version = to.api_version();
    if to.builtin == Some(Builtin::Event) {
        super::builtin::convert_event(&mut object, &api_version);
    }
    object["apiVersion"] = json!(api_version);
    if let Some(schema) = &to.schema {
        schema.prune(&mut object);
        schema.complete(&mut object);
    }
    object
}

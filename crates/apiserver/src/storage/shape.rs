//! Objects pruned, defaulted and converted by the schema of their kind.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::builtin::Builtin;
use super::kind_schema::ObjectFault;
use super::metadata;
use super::registry::{KindRegistry, ServedResource};
use super::status::ApiError;
use super::stored::StoredEntry;
use model::hub::Kind;
use model::hub::contract::compare_versions;
use model::wire::conversion::ConversionError;
use model::wire::conversion::embedded::{EmbeddedKind, EmbeddedVersion};
use model::wire::conversion::extension_config;
use model::wire::{WireVersion, conversion};
use schema::field::ErrorKind;

/// Maximum nesting of values. JSON decoders, ours and those of clients, stop at 128, and managed fields are nested some
/// levels deeper than the fields they record.
const MAX_DEPTH: usize = 100;

/// Prunes and defaults an object, and returns the paths of unknown fields.
///
/// # Errors
/// 400 for invalid metadata, and for values that are nested too deeply.
pub(crate) fn shaped(resource: &ServedResource, object: &mut Value) -> Result<Vec<String>, ApiError> {
    if is_deeper(object, MAX_DEPTH) {
        return Err(ApiError::bad_request(format!("the object is nested more than {MAX_DEPTH} levels deep")));
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

/// Schema errors of an object.
pub(crate) fn schema_faults(resource: &ServedResource, object: &Value, old: Option<&Value>) -> Vec<ObjectFault> {
    let object = without_empty_bytes(resource, object);
    resource.schema.as_ref().map(|schema| schema.faults(&object, old)).unwrap_or_default()
}

/// The object without empty byte values: Go reads an empty string as zero bytes, although the format `byte` forbids it.
fn without_empty_bytes<'o>(resource: &ServedResource, object: &'o Value) -> Cow<'o, Value> {
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

/// Built-in kinds are typed: values of another type cannot be decoded.
fn typed(resource: &ServedResource, faults: &[ObjectFault]) -> Result<(), ApiError> {
    match faults.iter().find(|fault| fault.kind == ErrorKind::TypeInvalid) {
        None => Ok(()),
        Some(fault) => Err(ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: json: cannot unmarshal {}: {}",
            resource.version,
            fault.field,
            fault.detail,
            kind = resource.kind
        ))),
    }
}

/// Whether the requested version of a kind is the storage version.
pub(crate) fn is_stored_as(resource: &ServedResource, stored: &StoredEntry) -> bool {
    let version = &*stored.api_version;
    version == resource.version && resource.group.is_empty()
        || version.split_once('/') == Some((&*resource.group, &*resource.version))
}

/// A stored object in the requested version of its kind.
pub(crate) fn viewed(registry: &KindRegistry, resource: &ServedResource, stored: &StoredEntry) -> Value {
    let object = stored.decode();
    if is_stored_as(resource, stored) {
        return object;
    }
    // Values that cannot be converted were rejected when written, or came from a file.
    converted(registry, &object, resource).unwrap_or_else(|_| renamed(object, resource))
}

/// The storage group of a kind.
pub(crate) fn storage_group(resource: &ServedResource) -> &str {
    if resource.builtin == Some(super::builtin::Builtin::Event) { "" } else { &resource.group }
}

/// The object in another version of its kind.
///
/// # Errors
/// When a value cannot be converted to that version.
pub(crate) fn converted(registry: &KindRegistry, object: &Value, to: &ServedResource) -> Result<Value, ApiError> {
    let mut object = object.clone();
    let from = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    if from == to.api_version() {
        return Ok(object);
    }
    let failed = |error: ConversionError| {
        ApiError::internal(format!("conversion webhook for {from}, Kind={} failed: {error}", to.kind))
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

/// The kind of an object of the embedded provider, and the target version.
fn embedded(object: &Value, to: &ServedResource) -> Option<(&'static EmbeddedKind, EmbeddedVersion)> {
    Some((EmbeddedKind::for_object(object)?, EmbeddedVersion::from_api_version(&to.api_version())?))
}

/// The newest versions of kinds.
fn newest(registry: &KindRegistry, kinds: Vec<conversion::KindKey>) -> conversion::KindVersions {
    let versions = kinds.into_iter().map(|kind| {
        let newest = newest_version(registry, &kind);
        (kind, Ok(newest))
    });
    versions.collect()
}

/// A kind converted by this program, and the target version.
fn converted_by_us(to: &ServedResource) -> Option<(Kind, WireVersion)> {
    let version = WireVersion::from_api_version(&to.api_version())?;
    Some((Kind::from_name(&to.kind)?, version))
}

/// The version of a kind in v1beta1 references: the newest served one, or for kinds that are not served the one assumed
/// of providers (DEC-17).
fn newest_version(registry: &KindRegistry, (group, kind): &(String, String)) -> String {
    let served = registry.group(group).filter(|resource| resource.kind == *kind).map(|resource| &*resource.version);
    served.max_by(|a, b| compare_versions(a, b)).unwrap_or("v1beta2").to_owned()
}

/// The object with another `apiVersion`, for kinds without conversion rules.
pub(super) fn renamed(mut object: Value, to: &ServedResource) -> Value {
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

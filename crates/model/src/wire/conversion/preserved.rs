//! The annotation of a v1beta1 object that preserves its v1beta2 form (CONV-013).

use serde_json::{Value, json};

use super::{JsonMembers, KindVersions, moves};
use crate::hub::{Kind, annotation};
use golang::json;

/// Maximum bytes of all annotation keys and values on an API server.
const ROOM: usize = 256 * 1024;

/// Writes the annotation: the whole object without metadata if it fits, else only the parts that the upgrade needs.
///
/// The API server rejects a converted object with larger annotations than it would store, so otherwise no large object
/// could be read in v1beta1.
pub(super) fn keep(object: &mut Value, mut original: Value) {
    if let Some(members) = original.as_object_mut() {
        members.remove("metadata");
    }
    write(object, |room| {
        let whole = original.to_string();
        if whole.len() <= room { Some(whole) } else { falses(&original).map(|falses| falses.to_string()) }
    });
}

/// Writes the annotation with a text for the available space; nothing if it needs more.
pub(super) fn write(object: &mut Value, text: impl FnOnce(usize) -> Option<String>) {
    let Some(annotations) = annotations(object) else { return };
    annotations.remove(annotation::CONVERSION_DATA);
    let taken: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    let room = ROOM.saturating_sub(taken + annotation::CONVERSION_DATA.len());
    if let Some(text) = text(room).filter(|text| text.len() <= room) {
        annotations.insert(annotation::CONVERSION_DATA.to_owned(), json!(text));
    }
}

/// The annotations of an object, created if absent; `None` for other values.
fn annotations(object: &mut Value) -> Option<&mut JsonMembers> {
    let mut at = object.as_object_mut()?;
    for name in ["metadata", "annotations"] {
        let member = at.entry(name).or_insert(Value::Null);
        if member.is_null() {
            *member = json!({});
        }
        at = member.as_object_mut()?;
    }
    Some(at)
}

/// Removes the annotation; a value that is not an object is ignored.
pub(super) fn take(object: &mut Value) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let text = annotations.remove(annotation::CONVERSION_DATA)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    json::value(text.as_str()?).ok().filter(Value::is_object)
}

/// The v1beta2 form of an object that is unchanged since its downgrade, from the annotation alone.
///
/// `object` is without the annotation.
pub(super) fn unchanged(kind: Kind, object: &Value, preserved: &Value) -> Option<Value> {
    let mut original = preserved.clone();
    original["metadata"] = object["metadata"].clone();
    let mut down = original.clone();
    moves::down(kind, &mut down, &versions(object)).ok()?;
    original["apiVersion"] = object["apiVersion"].clone();
    down["apiVersion"] = object["apiVersion"].clone();
    (down == *object).then_some(original)
}

/// The versions of the references in a v1beta1 object.
fn versions(object: &Value) -> KindVersions {
    let mut all = KindVersions::new();
    for reference in ["controlPlaneRef", "infrastructureRef"].iter().filter_map(|name| object["spec"].get(*name)) {
        let text = |name: &str| reference[name].as_str().unwrap_or_default();
        if let Some((group, version)) = text("apiVersion").split_once('/') {
            all.insert((group.to_owned(), text("kind").to_owned()), Ok(version.to_owned()));
        }
    }
    all
}

/// Every false with its path; list entries without one are null, which keeps positions.
fn falses(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(false) => Some(json!(false)),
        Value::Object(members) => {
            let found: JsonMembers =
                members.iter().filter_map(|(name, member)| Some((name.clone(), falses(member)?))).collect();
            let names = ["name", "from"].iter().filter_map(|key| Some(((*key).to_owned(), members.get(*key)?.clone())));
            (!found.is_empty()).then(|| names.chain(found).collect::<JsonMembers>().into())
        }
        Value::Array(entries) => {
            let found: Vec<_> = entries.iter().map(falses).collect();
            let is_any = found.iter().any(Option::is_some);
            is_any.then(|| found.into_iter().map(Option::unwrap_or_default).collect())
        }
        _ => None,
    }
}

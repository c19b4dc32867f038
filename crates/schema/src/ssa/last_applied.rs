//! Migration from `kubectl apply` to `kubectl apply --server-side` without conflicts.
//!
//! Without `--server-side`, kubectl stores the applied configuration in an annotation and updates objects like other
//! clients. A server therefore lets the manager `kubectl` take over fields that match the annotation, and updates the
//! annotation, so that both ways of applying can be mixed.

use serde_json::{Map, Value};

use super::validate::{Repetitions, validate};
use super::{AppliedObject, ApplyRequest, Conflict, FieldComparison, FieldSet, ListKey, field_set};

/// The annotation in which kubectl keeps what it applied.
pub const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// How many bytes all annotations of an object may have.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Whether the manager is kubectl; no other manager is treated this way.
pub(super) fn is_kubectl(request: &ApplyRequest<'_>) -> bool {
    request.manager == "kubectl"
}

/// The conflicts that remain after kubectl takes over fields that it applied before.
pub(super) fn remaining(live: &Value, conflicts: Vec<Conflict>, request: &ApplyRequest<'_>) -> Vec<Conflict> {
    match own(live, request) {
        Some(own) => conflicts.into_iter().filter(|conflict| !own.has(&conflict.path.0)).collect(),
        None => conflicts,
    }
}

/// The fields as kubectl applied them; `None` if that is unknown.
fn own(live: &Value, request: &ApplyRequest<'_>) -> Option<FieldSet> {
    let applied = golang::json::value(annotations(live)?.get(ANNOTATION)?.as_str()?).ok()?;
    let fits = |object: &Value| validate(object, &request.schema.0, Repetitions::Refused).is_ok();
    let is_here = applied.get("apiVersion").and_then(Value::as_str) == Some(request.api_version);
    if !is_here || !fits(&applied) || !fits(live) {
        return None;
    }
    let differing = FieldComparison::between(&applied, live, request.schema);
    let own = field_set(&applied, request.schema);
    Some(own.difference(&differing.modified).difference(&differing.added).difference(&differing.removed))
}

/// Updates the annotation if it exists; one that would be too long is removed.
pub(super) fn refresh(applied: &mut AppliedObject, config: &Value) {
    let is_kept = |annotations: &Map<String, Value>| annotations.get(ANNOTATION).is_some_and(|text| *text != "");
    if !annotations(&applied.object).is_some_and(is_kept) {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = annotations_mut(&mut config) {
        annotations.remove(ANNOTATION);
    }
    let text = Value::String(format!("{}\n", ListKey(config).go_json()));
    let Some(annotations) = annotations_mut(&mut applied.object) else { return };
    let before = annotations.insert(ANNOTATION.to_owned(), text);
    let size = |(name, value): (&String, &Value)| name.len() + value.as_str().map_or(0, str::len);
    if annotations.iter().map(size).sum::<usize>() > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
    applied.changed |= before.as_ref() != annotations.get(ANNOTATION);
}

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.get("annotations")?.as_object()
}

fn annotations_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}

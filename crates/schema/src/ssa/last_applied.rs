//! From `kubectl apply` to `kubectl apply --server-side` without conflicts.
//!
//! Without `--server-side`, kubectl keeps what it applied in an annotation and updates objects like other clients. A
//! server therefore lets the manager `kubectl` take over the fields that are as the annotation has them, and keeps the
//! annotation up to date, so that both ways of applying can be mixed.

use serde_json::{Map, Value};

use super::validate::{Repetitions, validate};
use super::{Applied, Comparison, Conflict, FieldSet, Literal, Request, field_set};

/// The annotation in which kubectl keeps what it applied.
pub const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// How many bytes all annotations of an object may have.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// What applies to no other manager.
pub(super) fn is_kubectl(request: &Request<'_>) -> bool {
    request.manager == "kubectl"
}

/// The conflicts that remain when kubectl may take over what it applied before.
pub(super) fn remaining(live: &Value, conflicts: Vec<Conflict>, request: &Request<'_>) -> Vec<Conflict> {
    match own(live, request) {
        Some(own) => conflicts.into_iter().filter(|conflict| !own.has(&conflict.path.0)).collect(),
        None => conflicts,
    }
}

/// The fields that are as kubectl applied them; none if that cannot be known.
fn own(live: &Value, request: &Request<'_>) -> Option<FieldSet> {
    let applied = golang::json::value(annotations(live)?.get(ANNOTATION)?.as_str()?).ok()?;
    let fits = |object: &Value| validate(object, &request.schema.0, Repetitions::Refused).is_ok();
    let is_here = applied.get("apiVersion").and_then(Value::as_str) == Some(request.api_version);
    if !is_here || !fits(&applied) || !fits(live) {
        return None;
    }
    let differing = Comparison::of(&applied, live, request.schema);
    let own = field_set(&applied, request.schema);
    Some(own.difference(&differing.modified).difference(&differing.added).difference(&differing.removed))
}

/// Puts the configuration into the annotation if there is one; one that would be too long is removed.
pub(super) fn refresh(applied: &mut Applied, config: &Value) {
    let is_kept = |annotations: &Map<String, Value>| annotations.get(ANNOTATION).is_some_and(|text| *text != "");
    if !annotations(&applied.object).is_some_and(is_kept) {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = annotations_mut(&mut config) {
        annotations.remove(ANNOTATION);
    }
    let text = Value::String(format!("{}\n", Literal(config).go_json()));
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

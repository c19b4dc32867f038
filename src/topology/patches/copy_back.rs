//! What patches have done to the templates of the class, carried over to the objects of the topology (PE-24 to PE-28).

use std::sync::Arc;

use serde_json::{Map, Value};

use super::document::{Change, Document, is_below};
use super::items::Slot;
use super::trace::{ItemName, Reason, Skipped};
use crate::hub::{Object, WrongType, annotation, label};
use crate::topology::contract::Contract;
use crate::topology::desired::DesiredObject;
use crate::topology::field_path as paths;
use crate::topology::origin::{Mark, Origin};

/// A place of an item that is carried over, and where to, as dotted paths.
type Place = (&'static str, &'static str);

/// What is carried over to objects (PE-25).
const OF_OBJECTS: [Place; 3] = [
    ("spec.template.spec", "spec"),
    ("spec.template.metadata.labels", "metadata.labels"),
    ("spec.template.metadata.annotations", "metadata.annotations"),
];

/// What is carried over to templates (PE-26).
const OF_TEMPLATES: [Place; 5] = [
    ("metadata.labels", "metadata.labels"),
    ("metadata.annotations", "metadata.annotations"),
    ("spec.template.spec", "spec.template.spec"),
    ("spec.template.metadata.labels", "spec.template.metadata.labels"),
    ("spec.template.metadata.annotations", "spec.template.metadata.annotations"),
];

/// Labels that keep their computed value (PE-24).
const KEPT_LABELS: [&str; 4] = [label::CLUSTER_NAME, label::OWNED, label::DEPLOYMENT_NAME, label::POOL_NAME];

/// Annotations that keep their computed value (PE-24).
const KEPT_ANNOTATIONS: [&str; 2] = [annotation::CLONED_FROM_NAME, annotation::CLONED_FROM_KIND];

/// Paths of the control plane that keep their computed value, if there is one: those of both contracts (PE-27).
fn kept_by_control_plane() -> impl Iterator<Item = &'static str> {
    let alike = [paths::REPLICAS, paths::VERSION, paths::ROLLOUT_AFTER, paths::MACHINE_METADATA];
    let by_contract = [
        paths::INFRASTRUCTURE_REF,
        paths::READINESS_GATES,
        paths::TAINTS,
        paths::DRAIN_TIMEOUT,
        paths::DETACH_TIMEOUT,
        paths::DELETION_TIMEOUT,
    ];
    let both = |path: paths::FieldPath| [path.at(Contract::V1Beta1), path.at(Contract::V1Beta2)];
    alike.into_iter().chain(by_contract.into_iter().flat_map(both))
}

/// Carries over what was done to an item, and notes who did it.
///
/// # Errors
/// When something that is kept has no place any more in what patches have made.
pub(super) fn copy_back(
    slot: Slot,
    document: Document,
    desired: &mut DesiredObject,
    item: &Arc<ItemName>,
    skipped: &mut Vec<Skipped>,
) -> Result<(), WrongType> {
    let Document { mut value, marks, .. } = document;
    let places: &[Place] = if slot.is_template() { &OF_TEMPLATES } else { &OF_OBJECTS };
    let kept = kept(slot, desired);
    let mut changes = Vec::new();
    for (from, to) in places {
        // A place that is missing leaves the object as it is (PE-28).
        let Some(patched) = take(&mut value, from) else { continue };
        desired.object.set(to, patched)?;
        changes.extend(marks.iter().filter_map(|change| {
            let Change { path, origin } = change.at_place(from)?;
            Some(Change { path: format!("{to}{}", path.strip_prefix(from)?), origin })
        }));
    }
    for (path, value) in &kept {
        put(&mut desired.object, path, value.clone())?;
    }
    note(desired, changes, &kept, item, skipped);
    Ok(())
}

/// A value that patches do not change: its path, as names, and what it is.
type Kept = (Vec<&'static str>, Value);

/// What keeps its computed value (PE-24, PE-27).
fn kept(slot: Slot, desired: &DesiredObject) -> Vec<Kept> {
    let object = &desired.object;
    let labels = KEPT_LABELS.iter().filter_map(|name| Some((*name, object.label(name)?)));
    let annotations = KEPT_ANNOTATIONS.iter().filter_map(|name| Some((*name, object.annotation(name)?)));
    let labels = labels.map(|(name, value)| (vec!["metadata", "labels", name], value.into()));
    let annotations = annotations.map(|(name, value)| (vec!["metadata", "annotations", name], value.into()));
    let mut kept: Vec<Kept> = labels.chain(annotations).collect();
    if slot == Slot::ControlPlane {
        let fields =
            kept_by_control_plane().filter_map(|path| Some((path.split('.').collect(), object.at(path)?.clone())));
        kept.extend(fields);
    }
    kept
}

/// Notes where the fields come from now: patches have the last word, except in what is kept.
fn note(
    desired: &mut DesiredObject,
    changes: Vec<Change>,
    kept: &[Kept],
    item: &Arc<ItemName>,
    skipped: &mut Vec<Skipped>,
) {
    let mut restored: Vec<Mark> = Vec::new();
    for (path, _) in kept {
        let path = path.join(".");
        let touching =
            || changes.iter().filter(|change| is_below(&change.path, &path) || is_below(&path, &change.path));
        if touching().next().is_none() {
            continue;
        }
        for change in touching().filter(|change| is_below(&change.path, &path)) {
            skipped.push(Skipped {
                patch: change.origin.patch.clone(),
                definition: change.origin.definition,
                item: Some(item.clone()),
                reason: Reason::Kept { path: path.clone() },
            });
        }
        restored.extend(desired.origins.of(&path).map(|mark| {
            let is_above = is_below(&path, &mark.path);
            Mark { path: if is_above { path.clone().into() } else { mark.path.clone() }, origin: mark.origin.clone() }
        }));
    }
    for Change { path, origin } in changes {
        desired.origins.mark(path, Origin::Patch(origin));
    }
    for Mark { path, origin } in restored {
        desired.origins.mark(path, origin);
    }
}

/// Takes what is at a dotted path of names without dots; a `null` is nothing.
fn take(document: &mut Value, path: &str) -> Option<Value> {
    let mut here = document;
    for name in path.split('.') {
        here = here.get_mut(name)?;
    }
    (!here.is_null()).then(|| here.take())
}

/// Puts a value at a path of names, of which the last may have dots in it.
fn put(object: &mut Object, path: &[&str], value: Value) -> Result<(), WrongType> {
    let Some((last, parents)) = path.split_last() else { return Ok(()) };
    let parent = parents.join(".");
    if object.read(&parent)?.is_none() {
        object.set(&parent, Value::Object(Map::new()))?;
    }
    // Reading through what is no object fails in `set`.
    let shown = format!("{} {}", object.kind(), object.name());
    let mut here = object.members_mut();
    for name in parents {
        here = match here.get_mut(*name) {
            Some(Value::Object(members)) => members,
            _ => {
                let (wanted, found) = ("an object", "something else");
                return Err(WrongType { object: shown, path: parent, wanted, found });
            }
        };
    }
    here.insert((*last).to_owned(), value);
    Ok(())
}

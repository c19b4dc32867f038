//! Copies the patched parts of items to the objects of the topology (PE-24 to PE-28).

use std::sync::Arc;

use serde_json::{Map, Value};

use super::document::{Document, PatchMark, differing_members, is_below};
use super::items::ItemSlot;
use super::trace::{ItemName, SkipReason, Skipped};
use crate::topology::desired::DesiredObject;
use crate::topology::field_path::{self, FieldPath};
use crate::topology::origin::{Mark, Origin};
use model::hub::contract::Contract;
use model::hub::{Object, WrongType, annotation, label, paths};
use schema::field::Path;

/// The source and target of a copied field, as dotted paths.
type CopiedField = (&'static str, &'static str);

/// Fields that are copied to objects (PE-25).
const OF_OBJECTS: [CopiedField; 3] = [
    ("spec.template.spec", "spec"),
    ("spec.template.metadata.labels", "metadata.labels"),
    ("spec.template.metadata.annotations", "metadata.annotations"),
];

/// Fields that are copied to templates (PE-26).
const OF_TEMPLATES: [CopiedField; 5] = [
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
    let alike = [paths::REPLICAS, paths::VERSION, paths::worker::ROLLOUT_AFTER, field_path::MACHINE_METADATA];
    let by_contract = [
        field_path::INFRASTRUCTURE_REF,
        field_path::READINESS_GATES,
        field_path::TAINTS,
        field_path::DRAIN_TIMEOUT,
        field_path::DETACH_TIMEOUT,
        field_path::DELETION_TIMEOUT,
    ];
    let both = |path: FieldPath| [path.at(Contract::V1Beta1), path.at(Contract::V1Beta2)];
    alike.into_iter().chain(by_contract.into_iter().flat_map(both))
}

/// The changes of an item in fields that are not copied, with the patches that made them (PE-25, PE-26, PE-28).
pub(super) fn uncopied(slot: ItemSlot, document: &Document, unpatched: impl FnOnce() -> Value) -> Vec<PatchMark> {
    let places = copied_fields(slot);
    // Most patches change copied fields alone.
    if document.marks.iter().all(|change| places.iter().any(|(from, _)| is_strictly_below(&change.path, from))) {
        return Vec::new();
    }
    let (before, after) = (unpatched(), &document.value);
    let differences = |path: &str, besides: &[&str]| {
        let pointer = format!("/{}", path.replace('.', "/"));
        differing_members(path, before.pointer(&pointer), after.pointer(&pointer), besides)
    };
    let mut paths = differences("spec", &["template"]);
    paths.extend(differences("spec.template", &["spec", "metadata"]));
    paths.extend(differences("spec.template.metadata", &["labels", "annotations"]));
    if !slot.is_template() {
        paths.extend(differences("metadata.labels", &[]));
        paths.extend(differences("metadata.annotations", &[]));
    }
    // The labels and annotations of the copy are those that its object is to have anyway.
    let is_there = |document: &Value| document.pointer("/spec/template/spec").is_some_and(|value| !value.is_null());
    if is_there(&before) && !is_there(after) {
        paths.push("spec.template.spec".to_owned());
    }
    let origin = |path: &str| document.last_origin(path).cloned();
    paths.into_iter().filter_map(|path| Some(PatchMark { origin: origin(&path)?, path })).collect()
}

/// Whether a path is below another one.
fn is_strictly_below(path: &str, above: &str) -> bool {
    path != above && is_below(path, above)
}

/// The fields that are copied from an item (PE-25, PE-26).
fn copied_fields(slot: ItemSlot) -> &'static [CopiedField] {
    if slot.is_template() { &OF_TEMPLATES } else { &OF_OBJECTS }
}

/// Copies the changes of an item to its object, and records their patches.
///
/// # Errors
/// When a preserved value cannot be restored in the patched object.
pub(super) fn copy_back(
    slot: ItemSlot,
    document: Document,
    desired: &mut DesiredObject,
    item: &Arc<ItemName>,
    skipped: &mut Vec<Skipped>,
) -> Result<(), WrongType> {
    let Document { mut value, marks, .. } = document;
    let places = copied_fields(slot);
    let kept = kept(slot, desired);
    let mut changes = Vec::new();
    for (from, to) in places {
        // A missing field leaves the object unchanged (PE-28).
        let Some(patched) = take(&mut value, from) else { continue };
        desired.object.set(to, patched)?;
        changes.extend(marks.iter().filter_map(|change| {
            let PatchMark { path, origin } = change.at_place(from)?;
            Some(PatchMark { path: format!("{to}{}", path.strip_prefix(from)?), origin })
        }));
    }
    for kept in &kept {
        kept.restore(&mut desired.object)?;
    }
    note(desired, changes, &kept, item, skipped);
    Ok(())
}

/// A value that patches do not change.
struct PreservedValue {
    /// The map of the entry, for labels and annotations.
    map: Option<&'static str>,
    /// The name of the entry, or the dotted path of the field.
    name: &'static str,
    value: Value,
}

impl PreservedValue {
    fn path(&self) -> String {
        let path = self.map.map_or(Path::new(self.name), |map| Path::new(map).member(self.name));
        path.into_text().into_owned()
    }

    /// Restores the value.
    fn restore(&self, object: &mut Object) -> Result<(), WrongType> {
        let Some(map) = self.map else { return object.set(self.name, self.value.clone()) };
        // Patches seldom change it.
        let is_kept = |entries: &Map<String, Value>| {
            entries.get(self.name) == Some(&self.value) && entries.values().all(Value::is_string)
        };
        if matches!(object.members_at(map), Ok(Some(entries)) if is_kept(entries)) {
            return Ok(());
        }
        object.texts(map)?;
        let mut entries = match object.remove(map) {
            Some(Value::Object(entries)) => entries,
            _ => Map::new(),
        };
        entries.insert(self.name.to_owned(), self.value.clone());
        object.set(map, Value::Object(entries))
    }
}

/// The values that patches do not change (PE-24, PE-27).
fn kept(slot: ItemSlot, desired: &DesiredObject) -> Vec<PreservedValue> {
    let object = &desired.object;
    let entry = |map: &'static str, name: &'static str, value: &str| PreservedValue {
        map: Some(map),
        name,
        value: value.into(),
    };
    let labels = KEPT_LABELS.iter().filter_map(|name| Some(entry("metadata.labels", name, object.label(name)?)));
    let annotations = KEPT_ANNOTATIONS.iter();
    let annotations =
        annotations.filter_map(|name| Some(entry("metadata.annotations", name, object.annotation(name)?)));
    let mut kept: Vec<PreservedValue> = labels.chain(annotations).collect();
    if slot == ItemSlot::ControlPlane {
        let field = |name| Some(PreservedValue { map: None, name, value: object.at(name)?.clone() });
        kept.extend(kept_by_control_plane().filter_map(field));
    }
    kept
}

/// Records the new origins of fields: patches override other origins, except for preserved values.
fn note(
    desired: &mut DesiredObject,
    changes: Vec<PatchMark>,
    kept: &[PreservedValue],
    item: &Arc<ItemName>,
    skipped: &mut Vec<Skipped>,
) {
    let mut restored: Vec<Mark> = Vec::new();
    for kept in kept {
        let path = kept.path();
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
                reason: SkipReason::Kept { path: path.clone() },
            });
        }
        restored.extend(desired.origins.marks_at(&path).map(|mark| {
            let is_above = is_below(&path, &mark.path);
            Mark { path: if is_above { path.clone().into() } else { mark.path.clone() }, origin: mark.origin.clone() }
        }));
    }
    for PatchMark { path, origin } in changes {
        desired.origins.mark(path, Origin::Patch(origin));
    }
    for Mark { path, origin } in restored {
        desired.origins.mark(path, origin);
    }
}

/// Removes and returns the value at a dotted path of names without dots; a `null` counts as absent.
fn take(document: &mut Value, path: &str) -> Option<Value> {
    let mut here = document;
    for name in path.split('.') {
        here = here.get_mut(name)?;
    }
    (!here.is_null()).then(|| here.take())
}

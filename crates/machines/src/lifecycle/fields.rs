//! Accessors for common fields: references, owners, finalizers, labels and times.

use std::collections::BTreeMap;
use std::sync::Arc;

use core::time::Duration;

use serde_json::{Map, Value, json};

use super::context::{StepContext, StepError};
use super::digest::digest;
use super::objects::GroupKind;
use golang::calendar::{Moment, SECOND};
use model::hub::deletion_hold::is_pause;
use model::hub::{ContractRef, GROUP, Object, ObjectKey, annotation, group_of, label, paths};

/// Labels or annotations.
pub(super) type TextMap = BTreeMap<String, String>;

/// The string at a path; empty if absent.
pub(super) fn text<'a>(object: &'a Object, path: &str) -> &'a str {
    object.at(path).and_then(Value::as_str).unwrap_or_default()
}

/// The boolean at a path; false if absent.
pub(super) fn flag(object: &Object, path: &str) -> bool {
    object.at(path).and_then(Value::as_bool).unwrap_or_default()
}

/// The number at a path.
pub(super) fn number(object: &Object, path: &str) -> Option<i64> {
    object.at(path).and_then(Value::as_i64)
}

/// The list at a path; empty if absent.
pub(super) fn items<'a>(object: &'a Object, path: &str) -> &'a [Value] {
    object.at(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The map of strings at a path, such as labels.
pub(super) fn texts(object: &Object, path: &str) -> BTreeMap<String, String> {
    object.texts(path).unwrap_or_default()
}

/// A reference as a value.
pub(super) fn reference_value(reference: &ContractRef) -> Value {
    json!({"apiGroup": reference.api_group, "kind": reference.kind, "name": reference.name})
}

/// The time at a path.
pub(super) fn time(object: &Object, path: &str) -> Option<Moment> {
    Moment::parse(text(object, path))
}

/// The creation time of an object.
pub(super) fn created(object: &Object) -> Option<Moment> {
    digest(object).created(object)
}

/// A time as a value.
pub(super) fn stamp(now: Moment) -> Value {
    Value::String(Moment { nanos: 0, ..now }.to_string())
}

/// The remaining part of a period; `None` when it is over.
pub(super) fn remaining(begun: Moment, lasts: Duration, now: Moment) -> Option<Duration> {
    let elapsed =
        now.since(begun).and_then(|nanos| u64::try_from(nanos).ok()).map_or(Duration::ZERO, Duration::from_nanos);
    lasts.checked_sub(elapsed).filter(|left| !left.is_zero())
}

/// Whether the timeout at a path, in seconds, is set and has passed since the time at another path; 0 means no timeout.
pub(super) fn is_timeout_over(object: &Object, timeout: &str, start: &str, now: Moment) -> bool {
    let seconds =
        number(object, timeout).and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
    let (Some(seconds), Some(begun)) = (seconds, time(object, start)) else { return false };
    remaining(begun, Duration::from_secs(seconds), now).is_none()
}

/// The time plus a duration.
pub fn later(time: Moment, by: Duration) -> Moment {
    time.plus(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX)).unwrap_or(time)
}

/// Seconds between two times, at least zero.
pub(super) fn seconds_between(from: Moment, to: Moment) -> i64 {
    to.since(from).map_or(0, |nanos| nanos / SECOND).max(0)
}

/// The Cluster that `spec.clusterName` names, or the label.
pub fn cluster_key(object: &Object) -> Option<ObjectKey> {
    let name = match object.cluster_name() {
        "" => object.label(label::CLUSTER_NAME)?,
        name => name,
    };
    Some(ObjectKey::new(object.namespace(), name))
}

/// The Cluster of an object.
///
/// # Errors
/// When Clusters are not listed yet.
pub(super) fn cluster_of(context: &StepContext<'_>, object: &Object) -> Result<Option<Arc<Object>>, StepError> {
    let Some(key) = cluster_key(object) else { return Ok(None) };
    context.get(&GroupKind::core("Cluster"), &key)
}

/// Reasons why an object is paused (CT-15.12), joined; `None` if it is not. A hold on the deletion of a Cluster pauses
/// other controllers only: ours wait for `ok-to-delete` (DEC-56).
pub(super) fn paused(cluster: &Object, object: &Object) -> Option<String> {
    let by_cluster = cluster.is_paused().then(|| "Cluster spec.paused is set to true".to_owned());
    let has_annotation = object.annotation(annotation::PAUSED).is_some_and(is_pause);
    let by_annotation = has_annotation.then(|| format!("{} has the {} annotation", object.kind(), annotation::PAUSED));
    let causes: Vec<String> = by_cluster.into_iter().chain(by_annotation).collect();
    (!causes.is_empty()).then(|| causes.join(", "))
}

/// Adds a finalizer, unless the object has it or is being deleted (MA-1.8); returns whether it did.
pub(super) fn add_finalizer(object: &mut Object, name: &str) -> bool {
    if object.is_being_deleted() || object.has_finalizer(name) {
        return false;
    }
    list_mut(object, "metadata", "finalizers").push(json!(name));
    true
}

/// Removes a finalizer.
pub(super) fn remove_finalizer(object: &mut Object, name: &str) {
    if !object.has_finalizer(name) {
        return;
    }
    let finalizers = list_mut(object, "metadata", "finalizers");
    finalizers.retain(|one| one != name);
    if finalizers.is_empty() {
        object.remove(paths::metadata::FINALIZERS);
    }
}

/// An owner reference (CT-15.1), with or without `controller`.
pub(super) fn owner(object: &Object, is_controller: bool) -> Value {
    let mut owner = json!({
        "apiVersion": object.api_version(),
        "kind": object.kind(),
        "name": object.name(),
        "uid": object.uid(),
    });
    if is_controller {
        owner["controller"] = json!(true);
        owner["blockOwnerDeletion"] = json!(true);
    }
    owner
}

/// Whether an owner reference refers to a kind, in any version (CT-15.2).
pub(super) fn is_of_kind(owner: &Value, kind: &GroupKind) -> bool {
    let member = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
    group_of(member("apiVersion")) == &*kind.group && member("kind") == &*kind.kind
}

/// Whether an owner reference refers to this object, in any version (CT-15.2).
pub(super) fn is_to(owner: &Value, object: &Object) -> bool {
    is_of_kind(owner, &GroupKind::for_object(object)) && owner.get("name").is_some_and(|name| name == object.name())
}

/// Whether an object has an owner reference to this object in exactly its version (CT-15.2).
pub(super) fn has_owner(object: &Object, owner: &Object) -> bool {
    let is_same = |entry: &Value, name: &str, wanted: &str| entry.get(name).is_some_and(|value| value == wanted);
    object.owner_references().iter().any(|entry| {
        is_to(entry, owner) && is_same(entry, "uid", owner.uid()) && is_same(entry, "apiVersion", owner.api_version())
    })
}

/// The name of the owner of a Cluster API kind.
pub fn owner_name<'a>(object: &'a Object, kind: &str) -> Option<&'a str> {
    let kind = GroupKind::new(GROUP, kind);
    object.owner_references().iter().find(|owner| is_of_kind(owner, &kind))?.get("name")?.as_str()
}

/// Replaces the owner reference to the same object, or appends it.
pub(super) fn set_owner(object: &mut Object, new: Value, to: &Object) {
    if object.owner_references().iter().find(|owner| is_to(owner, to)) == Some(&new) {
        return;
    }
    let all = list_mut(object, "metadata", "ownerReferences");
    match all.iter_mut().find(|owner| is_to(owner, to)) {
        Some(known) => *known = new,
        None => all.push(new),
    }
}

/// The list at `parent.name`, created if absent.
pub(super) fn list_mut<'a>(object: &'a mut Object, parent: &str, name: &str) -> &'a mut Vec<Value> {
    let members = map_mut(object, parent);
    let list = members.entry(name).or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    list.as_array_mut().unwrap_or_else(|| unreachable!("it was just made a list"))
}

/// The members at a path, created if absent; other values on the path are replaced.
pub(super) fn map_mut<'a>(object: &'a mut Object, path: &str) -> &'a mut Map<String, Value> {
    let mut here = object.members_mut();
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let next = here.entry(name).or_insert_with(|| json!({}));
        if !next.is_object() {
            *next = json!({});
        }
        here = next.as_object_mut().unwrap_or_else(|| unreachable!("it was just made an object"));
    }
    here
}

/// Sets the value at a path; `null` removes it.
pub(super) fn set(object: &mut Object, path: &str, value: Value) {
    if value.is_null() {
        object.remove(path);
        return;
    }
    if object.at(path) == Some(&value) {
        return;
    }
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    map_mut(object, parents).insert(last.to_owned(), value);
}

/// Sets an entry of the map at a path, such as labels: its keys may contain dots.
pub(super) fn set_text(object: &mut Object, path: &str, name: &str, text: &str) {
    if object.at(path).and_then(|members| members.get(name)).is_some_and(|known| known == text) {
        return;
    }
    map_mut(object, path).insert(name.to_owned(), json!(text));
}

/// Removes an entry of the map at a path.
pub(super) fn remove_text(object: &mut Object, path: &str, name: &str) {
    if object.at(path).is_some_and(|members| members.get(name).is_some()) {
        map_mut(object, path).remove(name);
    }
}

/// Sets a label.
pub(super) fn set_label(object: &mut Object, name: &str, value: &str) {
    set_text(object, paths::metadata::LABELS, name, value);
}

/// Sets an annotation.
pub(super) fn set_annotation(object: &mut Object, name: &str, value: &str) {
    set_text(object, paths::metadata::ANNOTATIONS, name, value);
}

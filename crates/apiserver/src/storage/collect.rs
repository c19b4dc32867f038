//! [Garbage collection](https://kubernetes.io/docs/concepts/architecture/garbage-collection/): objects without owners
//! are deleted ([`model::garbage`]), and the objects of deleted namespaces and kinds.
//!
//! The templates, Secrets and health checks of a Cluster are deleted in this way (MA-27.16). In a cluster, controllers
//! do this later. Here it happens before the write is answered, until nothing is left to do. Admission webhooks are not
//! called for these deletions.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use model::garbage::{self, Lookup, OwnerReference, Propagation};
use model::hub::group_of;

use super::builtin::Builtin;
use super::registry::ServedResource;
use super::store::{StoreKey, StoreState, Sweep, within};
use super::stored::{DeletionState, StoredEntry};

/// Finalizer of a definition until its objects are gone.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// Spec finalizer of a namespace until its objects are gone.
const KUBERNETES: &str = "kubernetes";

impl StoreState {
    /// Processes all consequences of the writes so far; `now` is the time of deletions.
    pub(crate) fn settle(&mut self, now: &str) {
        loop {
            while let Some(place) = self.pending.pop_front() {
                self.follow_up(&place, now);
            }
            self.empty_namespaces(now);
            self.withdraw_kinds(now);
            if self.pending.is_empty() {
                return;
            }
        }
    }

    fn follow_up(&mut self, place: &StoreKey, now: &str) {
        if &*place.kind == DEFINITIONS {
            self.serve(place, now);
        }
        let Some(object) = self.get(place).cloned() else { return };
        if object.holds.is_being_deleted {
            self.note_end_of_container(place, &object);
        } else if self.is_swept(place) {
            self.delete(place, Some(Propagation::Background), now);
            return;
        }
        garbage::collect(&mut Collected { state: self, now }, place);
    }

    /// Whether all other objects of a terminating namespace or kind have been deleted already.
    fn is_swept(&self, place: &StoreKey) -> bool {
        self.terminating.get(place.namespace()) == Some(&Sweep::Done)
            || self.withdrawn.get(&*place.kind) == Some(&Sweep::Done)
    }

    fn without_finalizer(&mut self, place: &StoreKey, finalizer: &str) {
        let Some(object) = self.get(place).cloned() else { return };
        if object.holds.finalizers.iter().all(|name| **name == *finalizer) {
            self.remove(place);
            return;
        }
        self.edit_metadata(place, &object, |metadata| garbage::remove_finalizer(metadata, finalizer));
    }

    fn edit_metadata(&mut self, place: &StoreKey, object: &StoredEntry, edit: impl FnOnce(&mut Map<String, Value>)) {
        let mut value = object.decode();
        if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
            edit(metadata);
        }
        self.put(place, value);
    }

    /// Deletes an object, or marks it as being deleted while it has finalizers; returns the remaining object.
    pub(crate) fn delete(
        &mut self,
        place: &StoreKey,
        propagation: Option<Propagation>,
        now: &str,
    ) -> Option<Arc<StoredEntry>> {
        let object = self.get(place)?.clone();
        let resource = self.resource_at(place);
        let value = object.decode();
        let marked = marked(&value, resource.as_deref(), propagation, now);
        if !DeletionState::read(&marked).any() {
            self.remove(place);
            return None;
        }
        if marked == value {
            return Some(object);
        }
        Some(self.put(place, marked))
    }

    /// The stored kind of a key.
    fn resource_at(&self, place: &StoreKey) -> Option<Arc<ServedResource>> {
        let (plural, group) = place.kind.split_once('.').unwrap_or((&place.kind, ""));
        self.registry.stored(group, plural).cloned()
    }

    /// Schedules the deletion of all objects of a namespace or kind.
    fn note_end_of_container(&mut self, place: &StoreKey, object: &StoredEntry) {
        if &*place.kind == "namespaces" && object.holds.spec_finalizers.iter().any(|name| **name == *KUBERNETES) {
            self.terminating.entry(place.key.to_string()).or_default();
        } else if &*place.kind == DEFINITIONS && object.holds.has(CLEANUP) {
            self.withdrawn.entry(place.key.to_string()).or_default();
        }
    }

    /// Deletes the objects of terminating namespaces, and then the namespaces.
    fn empty_namespaces(&mut self, now: &str) {
        for (namespace, sweep) in self.terminating.clone() {
            let prefix = format!("{namespace}/");
            if sweep == Sweep::Due {
                self.terminating.insert(namespace.clone(), Sweep::Done);
                self.delete_all(&self.places_within(&prefix), now);
            }
            if self.collections.values().any(|collection| within(&collection.objects, &prefix).next().is_some()) {
                continue;
            }
            self.terminating.remove(&namespace);
            let place = StoreKey { kind: "namespaces".into(), key: namespace.as_str().into() };
            let Some(object) = self.get(&place).cloned() else { continue };
            let mut value = object.decode();
            if let Some(Value::Array(finalizers)) = value.pointer_mut("/spec/finalizers") {
                finalizers.retain(|finalizer| finalizer != KUBERNETES);
            }
            self.put(&place, value);
        }
    }

    /// The objects of all kinds with a key prefix.
    fn places_within(&self, prefix: &str) -> Vec<StoreKey> {
        let places = |(kind, objects): (&Arc<str>, _)| {
            let keys = within(objects, prefix).map(|(key, _)| key.clone());
            keys.map(|key| StoreKey { kind: kind.clone(), key }).collect::<Vec<_>>()
        };
        self.collections.iter().map(|(kind, collection)| (kind, &collection.objects)).flat_map(places).collect()
    }

    /// Deletes the objects of removed kinds, and then their definitions.
    fn withdraw_kinds(&mut self, now: &str) {
        for (name, sweep) in self.withdrawn.clone() {
            let kind: Arc<str> = name.as_str().into();
            if sweep == Sweep::Due {
                self.withdrawn.insert(name.clone(), Sweep::Done);
                let keys = self.objects(&kind);
                let places: Vec<StoreKey> =
                    keys.keys().map(|key| StoreKey { kind: kind.clone(), key: key.clone() }).collect();
                self.delete_all(&places, now);
            }
            if !self.objects(&kind).is_empty() {
                continue;
            }
            self.withdrawn.remove(&name);
            let place = StoreKey { kind: DEFINITIONS.into(), key: kind };
            self.without_finalizer(&place, CLEANUP);
        }
    }

    fn delete_all(&mut self, places: &[StoreKey], now: &str) {
        for place in places {
            if self.get(place).is_some_and(|object| !object.holds.is_being_deleted) {
                self.delete(place, Some(Propagation::Background), now);
            }
        }
    }
}

/// Store key of definitions.
pub(super) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The object with a deletion timestamp, while it has finalizers.
pub(crate) fn marked(
    object: &Value,
    resource: Option<&ServedResource>,
    policy: Option<Propagation>,
    now: &str,
) -> Value {
    let mut object = object.clone();
    let builtin = resource.and_then(|resource| resource.builtin);
    if builtin == Some(Builtin::Namespace) {
        object["status"]["phase"] = json!("Terminating");
    }
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return object };
    if !garbage::mark_deleted(metadata, policy, now) {
        return object;
    }
    if builtin == Some(Builtin::CustomResourceDefinition) {
        garbage::add_finalizer(metadata, CLEANUP);
        super::definition::terminate(&mut object, now);
        return object;
    }
    if builtin != Some(Builtin::Namespace) {
        metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(0));
    }
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|count| *count > 0) {
        metadata.insert("generation".to_owned(), json!(generation + 1));
    }
    object
}

/// The store of garbage collection during a write.
struct Collected<'a> {
    state: &'a mut StoreState,
    /// The time of deletions.
    now: &'a str,
}

impl garbage::Store for Collected<'_> {
    type Id = StoreKey;
    type Object = StoredEntry;
    type Shared = Arc<StoredEntry>;

    fn get(&self, place: &StoreKey) -> Option<Arc<StoredEntry>> {
        self.state.get(place).cloned()
    }

    fn dependents(&self, uid: &str) -> Vec<StoreKey> {
        self.state.dependents_of(uid)
    }

    fn owner(&self, dependent: &StoreKey, reference: OwnerReference<'_>) -> Lookup<Arc<StoredEntry>> {
        let group = group_of(reference.api_version);
        let kind = self.state.registry.group(group).find(|resource| *resource.kind == *reference.kind);
        // An object with a namespace is no owner of one without: as if its kind was not served.
        let Some(kind) = kind.filter(|kind| !kind.is_namespaced || !dependent.namespace().is_empty()) else {
            return Lookup::Unknown;
        };
        let is_meant = |place: &&StoreKey| {
            *place.kind == *kind.store_name()
                && (place.namespace().is_empty() || place.namespace() == dependent.namespace())
        };
        let place = self.state.place_of(reference.uid).filter(is_meant);
        place.and_then(|place| self.get(place)).map_or(Lookup::Absent, Lookup::Found)
    }

    fn remove(&mut self, place: &StoreKey) {
        self.state.remove(place);
    }

    fn delete(&mut self, place: &StoreKey, propagation: Option<Propagation>) {
        self.state.delete(place, propagation, self.now);
    }

    fn retain_owners(&mut self, place: &StoreKey, keep: &[bool]) {
        if let Some(object) = self.get(place) {
            self.state.edit_metadata(place, &object, |metadata| garbage::retain_owners(metadata, keep));
        }
    }

    fn remove_finalizer(&mut self, place: &StoreKey, finalizer: &str) {
        self.state.without_finalizer(place, finalizer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::builtin::EXTENSIONS;

    #[test]
    fn definitions_are_kept_under_the_name_of_their_kind() {
        assert_eq!(DEFINITIONS, format!("customresourcedefinitions.{EXTENSIONS}"));
    }
}

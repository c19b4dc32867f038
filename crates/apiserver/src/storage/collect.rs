//! [Garbage collection](https://kubernetes.io/docs/concepts/architecture/garbage-collection/): objects without owners are deleted,
//! the objects of deleted namespaces and kinds are deleted, and deletions that wait are completed.
//!
//! The templates, Secrets and health checks of a Cluster go this way (MA-27.16). In a cluster, controllers do this later. Here it happens at once, before the write is answered, and until nothing is left to
//! do. Admission webhooks do not review these deletions.

use std::sync::Arc;

use serde_json::{Value, json};

use super::builtin::Builtin;
use super::registry::Resource;
use super::store::{State, StoreKey, Sweep, within};
use super::stored::{Holds, Owner, Stored};

/// Keeps an owner until those that block its deletion are gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Keeps an owner until no object names it as an owner.
pub(super) const ORPHAN: &str = "orphan";
/// Keeps the definition of a kind until its objects are gone.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// Keeps a namespace, in its spec, until its objects are gone.
const KUBERNETES: &str = "kubernetes";

/// What becomes of the objects that an object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// Whether an owner is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Present,
    Absent,
    /// It is deleted after those that it owns.
    Waiting,
}

impl State {
    /// Does all that follows from the writes so far; `now` is the time of deletions.
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
            if !object.holds.any() {
                self.remove(place);
                return;
            }
            if object.holds.has(ORPHAN) {
                self.orphan(place, &object);
                return;
            }
            if object.holds.has(FOREGROUND) {
                self.delete_in_foreground(place, &object, now);
                return;
            }
            return;
        }
        if self.is_swept(place) {
            self.delete(place, Some(Propagation::Background), now);
            return;
        }
        self.judge_by_owners(place, &object, now);
    }

    /// Whether everything around the object has been deleted already, since its namespace or its kind goes.
    fn is_swept(&self, place: &StoreKey) -> bool {
        self.terminating.get(place.namespace()) == Some(&Sweep::Done)
            || self.withdrawn.get(&*place.kind) == Some(&Sweep::Done)
    }

    /// Deletes an object whose owners are all gone, and forgets owners that are gone beside others that are not.
    fn judge_by_owners(&mut self, place: &StoreKey, object: &Arc<Stored>, now: &str) {
        if object.owners.is_empty() {
            return;
        }
        let of: Vec<Presence> = object.owners.iter().map(|owner| self.owner(place, owner)).collect();
        if !of.contains(&Presence::Present) {
            let waits = of.contains(&Presence::Waiting) && !self.dependents_of(&object.uid).is_empty();
            let propagation = waits.then_some(Propagation::Foreground);
            self.delete(place, propagation, now);
        } else if of.iter().any(|owner| *owner != Presence::Present) {
            let mut owners = of.iter();
            self.keep_owners(place, object, |_| owners.next() == Some(&Presence::Present));
        }
    }

    /// Whether the object that a reference names is there.
    fn owner(&self, of: &StoreKey, reference: &Owner) -> Presence {
        let (group, _) = reference.api_version.split_once('/').unwrap_or(("", ""));
        let kind = self.registry.group(group).find(|resource| *resource.kind == *reference.kind);
        // Whether the objects of a kind that is not served are gone is unknown.
        let Some(kind) = kind else { return Presence::Present };
        if kind.is_namespaced && of.namespace().is_empty() {
            return Presence::Present;
        }
        let Some(place) = self.place_of(&reference.uid) else { return Presence::Absent };
        let is_meant =
            *place.kind == *kind.store_name() && (place.namespace().is_empty() || place.namespace() == of.namespace());
        match self.get(place).filter(|_| is_meant) {
            Some(owner) if owner.name != reference.name => Presence::Absent,
            Some(owner) if owner.holds.is_being_deleted && owner.holds.has(FOREGROUND) => Presence::Waiting,
            Some(_) => Presence::Present,
            None => Presence::Absent,
        }
    }

    /// Stores the object with those of its owners that stay.
    fn keep_owners(&mut self, place: &StoreKey, object: &Arc<Stored>, mut keep: impl FnMut(&Owner) -> bool) {
        let mut value = object.decode();
        if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
            let mut left = match metadata.remove("ownerReferences") {
                Some(Value::Array(references)) => references,
                _ => Vec::new(),
            };
            let mut owners = object.owners.iter();
            left.retain(|_| {
                let Some(owner) = owners.next() else { return true };
                let is_kept = keep(owner);
                if !is_kept && !owner.uid.is_empty() {
                    disown(metadata, &owner.uid);
                }
                is_kept
            });
            if !left.is_empty() {
                metadata.insert("ownerReferences".to_owned(), Value::Array(left));
            }
        }
        self.put(place, value);
    }

    /// Releases those that the object owns, then the object.
    fn orphan(&mut self, place: &StoreKey, object: &Arc<Stored>) {
        for dependent in self.dependents_of(&object.uid) {
            if let Some(owned) = self.get(&dependent).cloned() {
                self.keep_owners(&dependent, &owned, |owner| owner.uid != object.uid);
            }
        }
        self.without_finalizer(place, object, ORPHAN);
    }

    /// Deletes those that the object owns, and the object once none of them blocks it.
    fn delete_in_foreground(&mut self, place: &StoreKey, object: &Arc<Stored>, now: &str) {
        let dependents = self.dependents_of(&object.uid);
        for dependent in &dependents {
            let owned = self.get(dependent).filter(|owned| !owned.holds.is_being_deleted).cloned();
            if let Some(owned) = owned {
                self.judge_by_owners(dependent, &owned, now);
            }
        }
        let blocks = |owner: &Owner| owner.blocks_deletion && owner.uid == object.uid;
        let is_blocked = self
            .dependents_of(&object.uid)
            .iter()
            .filter_map(|dependent| self.get(dependent))
            .any(|owned| owned.owners.iter().any(blocks));
        if !is_blocked && let Some(object) = self.get(place).cloned() {
            self.without_finalizer(place, &object, FOREGROUND);
        }
    }

    fn without_finalizer(&mut self, place: &StoreKey, object: &Arc<Stored>, finalizer: &str) {
        let left: Vec<&str> =
            object.holds.finalizers.iter().map(|name| &**name).filter(|name| *name != finalizer).collect();
        if left.is_empty() {
            self.remove(place);
            return;
        }
        let mut value = object.decode();
        value["metadata"]["finalizers"] = json!(left);
        self.put(place, value);
    }

    /// Deletes an object, or marks it as being deleted while finalizers hold it; says how it is then, if it still is.
    pub(crate) fn delete(
        &mut self,
        place: &StoreKey,
        propagation: Option<Propagation>,
        now: &str,
    ) -> Option<Arc<Stored>> {
        let object = self.get(place)?.clone();
        let resource = self.resource_at(place);
        let value = object.decode();
        let marked = marked(&value, resource.as_deref(), propagation, now);
        if !Holds::read(&marked).any() {
            self.remove(place);
            return None;
        }
        if marked == value {
            return Some(object);
        }
        Some(self.put(place, marked))
    }

    /// The kind of the objects at a place, as they are stored.
    fn resource_at(&self, place: &StoreKey) -> Option<Arc<Resource>> {
        let (plural, group) = place.kind.split_once('.').unwrap_or((&place.kind, ""));
        self.registry.stored(group, plural).cloned()
    }

    /// Notes that the objects of a namespace or a kind must be deleted.
    fn note_end_of_container(&mut self, place: &StoreKey, object: &Stored) {
        if &*place.kind == "namespaces" && object.holds.spec_finalizers.iter().any(|name| **name == *KUBERNETES) {
            self.terminating.entry(place.key.to_string()).or_default();
        } else if &*place.kind == DEFINITIONS && object.holds.has(CLEANUP) {
            self.withdrawn.entry(place.key.to_string()).or_default();
        }
    }

    /// Deletes what is in namespaces that are being deleted, and then them.
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

    /// Where the objects of all kinds are whose key begins with a prefix.
    fn places_within(&self, prefix: &str) -> Vec<StoreKey> {
        let places = |(kind, objects): (&Arc<str>, _)| {
            let keys = within(objects, prefix).map(|(key, _)| key.clone());
            keys.map(|key| StoreKey { kind: kind.clone(), key }).collect::<Vec<_>>()
        };
        self.collections.iter().map(|(kind, collection)| (kind, &collection.objects)).flat_map(places).collect()
    }

    /// Deletes the objects of kinds whose definitions are being deleted, and then those.
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
            if let Some(object) = self.get(&place).cloned() {
                self.without_finalizer(&place, &object, CLEANUP);
            }
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

/// Where definitions of kinds are kept.
pub(super) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The object as a deletion leaves it while finalizers hold it.
pub(crate) fn marked(object: &Value, resource: Option<&Resource>, policy: Option<Propagation>, now: &str) -> Value {
    let mut object = object.clone();
    let is_marked = object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null());
    let mut finalizers: Vec<String> = object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    if let Some(policy) = policy {
        finalizers.retain(|name| name != FOREGROUND && name != ORPHAN);
        match policy {
            Propagation::Background => {}
            Propagation::Foreground => finalizers.push(FOREGROUND.to_owned()),
            Propagation::Orphan => finalizers.push(ORPHAN.to_owned()),
        }
    }
    let builtin = resource.and_then(|resource| resource.builtin);
    if builtin == Some(Builtin::CustomResourceDefinition) && !is_marked && !finalizers.iter().any(|f| f == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
        super::definition::terminate(&mut object, now);
    }
    if builtin == Some(Builtin::Namespace) {
        object["status"]["phase"] = json!("Terminating");
    }
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return object };
    match finalizers.is_empty() {
        true => metadata.remove("finalizers"),
        false => metadata.insert("finalizers".to_owned(), json!(finalizers)),
    };
    if !is_marked {
        metadata.insert("deletionTimestamp".to_owned(), json!(now));
        if !matches!(builtin, Some(Builtin::Namespace | Builtin::CustomResourceDefinition)) {
            metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(0));
        }
        let counts = builtin != Some(Builtin::CustomResourceDefinition);
        if let Some(generation) =
            metadata.get("generation").and_then(Value::as_i64).filter(|count| counts && *count > 0)
        {
            metadata.insert("generation".to_owned(), json!(generation + 1));
        }
    }
    object
}

/// Takes an owner out of the records of who manages the list of owners, as an update that drops it does.
fn disown(metadata: &mut serde_json::Map<String, Value>, uid: &str) {
    let key = format!("k:{}", json!({"uid": uid}));
    for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(fields) = entry.pointer_mut("/fieldsV1/f:metadata").and_then(Value::as_object_mut) else { continue };
        let Some(owners) = fields.get_mut("f:ownerReferences").and_then(Value::as_object_mut) else { continue };
        owners.remove(&key);
        if owners.is_empty() {
            fields.remove("f:ownerReferences");
        }
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

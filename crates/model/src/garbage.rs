//! [Garbage collection](https://kubernetes.io/docs/concepts/architecture/garbage-collection/): deletions that wait are
//! completed, and objects whose owners are gone are deleted (MA-27.16).
//!
//! ```text
//! object was written or removed ─► collect(store, id) ─┬─ is being deleted ─┬─ nothing holds it ──────► remove
//!                                                      │                    ├─ orphan ────────────────► dependents lose the owner
//!                                                      │                    └─ foregroundDeletion ────► dependents first
//!                                                      └─ otherwise ──────── owners present, waiting or absent?
//! ```
//!
//! An object with an owner of a kind that the store does not serve is left as it is, even if its other owners are gone.
//!
//! A cluster does this in its controller manager, some time after the write. The stores of this program do it before
//! the write returns: each keeps a queue of the objects that a write concerns, and calls [`collect`] until the queue is
//! empty.

use serde_json::{Map, Value, json};

use crate::hub::Object;

/// The finalizer of an owner that stays until the dependents that block its deletion are gone.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner that stays until no dependent names it.
pub const ORPHAN: &str = "orphan";

/// `propagationPolicy` of a deletion: how the dependents of the object are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// An entry of `metadata.ownerReferences`. Members that are missing or of another type are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    /// `blockOwnerDeletion`: a foreground deletion of the owner waits for the dependent.
    pub blocks_deletion: bool,
}

impl<'a> OwnerReference<'a> {
    /// Reads an entry.
    pub fn read(entry: &'a Value) -> Self {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        OwnerReference {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            blocks_deletion: entry.get("blockOwnerDeletion") == Some(&Value::Bool(true)),
        }
    }
}

/// The metadata that garbage collection reads.
pub trait Collectable {
    /// `metadata.name`.
    fn name(&self) -> &str;
    /// `metadata.uid`.
    fn uid(&self) -> &str;
    /// `metadata.ownerReferences`.
    fn owners(&self) -> impl Iterator<Item = OwnerReference<'_>>;
    /// Whether `metadata.deletionTimestamp` is set.
    fn is_being_deleted(&self) -> bool;
    /// Whether a finalizer keeps the object.
    fn is_held(&self) -> bool;
    /// Whether `metadata.finalizers` has this entry.
    fn has_finalizer(&self, name: &str) -> bool;
}

impl Collectable for Object {
    fn name(&self) -> &str {
        Object::name(self)
    }

    fn uid(&self) -> &str {
        Object::uid(self)
    }

    fn owners(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        self.owner_references().iter().map(OwnerReference::read)
    }

    fn is_being_deleted(&self) -> bool {
        Object::is_being_deleted(self)
    }

    fn is_held(&self) -> bool {
        !self.finalizers().is_empty()
    }

    fn has_finalizer(&self, name: &str) -> bool {
        Object::has_finalizer(self, name)
    }
}

/// The result of looking up the owner that a reference names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup<T> {
    Found(T),
    /// No object has this uid, or the one that has it is of another kind or namespace.
    Absent,
    /// The store does not know all objects of this kind, so that the dependent is left as it is.
    Unknown,
}

/// A store of objects that are collected.
pub trait Store {
    /// The key of an object.
    type Id: Clone;
    type Object: Collectable;
    /// A stored object: cheap to clone, and not changed by later writes.
    type Shared: Clone + std::ops::Deref<Target = Self::Object>;

    /// An object.
    fn get(&self, id: &Self::Id) -> Option<Self::Shared>;
    /// The objects with an owner reference to this uid.
    fn dependents(&self, uid: &str) -> Vec<Self::Id>;
    /// The owner of a dependent, by kind and uid, in the namespace of the dependent or without one.
    fn owner(&self, dependent: &Self::Id, reference: OwnerReference<'_>) -> Lookup<Self::Shared>;

    /// Removes an object at once.
    fn remove(&mut self, id: &Self::Id);
    /// Deletes an object, as a request does: finalizers hold it.
    fn delete(&mut self, id: &Self::Id, propagation: Option<Propagation>);
    /// Keeps the owner references whose entry in `keep` is true.
    fn retain_owners(&mut self, id: &Self::Id, keep: &[bool]);
    /// Removes a finalizer, and the object if no other finalizer holds it.
    fn remove_finalizer(&mut self, id: &Self::Id, finalizer: &str);
}

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    Present,
    Absent,
    /// It waits for its dependents to be deleted.
    Waiting,
}

/// Makes an object follow its owners, or completes its deletion. Other objects can be due afterwards: those that the
/// store notes when it carries out the writes.
pub fn collect<S: Store>(store: &mut S, id: &S::Id) {
    let Some(object) = store.get(id) else { return };
    if !object.is_being_deleted() {
        follow_owners(store, id, &object);
    } else if !object.is_held() {
        store.remove(id);
    } else if object.has_finalizer(ORPHAN) {
        release_dependents(store, id, &object);
    } else if object.has_finalizer(FOREGROUND) {
        delete_dependents(store, id, &object);
    }
}

/// Deletes an object whose owners are all gone, and drops references to absent owners from one that has others.
fn follow_owners<S: Store>(store: &mut S, id: &S::Id, object: &S::Object) {
    let states: Option<Vec<OwnerState>> = object.owners().map(|owner| state_of(store, id, owner)).collect();
    let Some(states) = states.filter(|states| !states.is_empty()) else { return };
    if !states.contains(&OwnerState::Present) {
        let waits = states.contains(&OwnerState::Waiting) && !store.dependents(object.uid()).is_empty();
        store.delete(id, waits.then_some(Propagation::Foreground));
    } else if states.iter().any(|state| *state != OwnerState::Present) {
        let keep: Vec<bool> = states.iter().map(|state| *state == OwnerState::Present).collect();
        store.retain_owners(id, &keep);
    }
}

/// The state of the owner that a reference names; `None` if it is unknown.
fn state_of<S: Store>(store: &S, dependent: &S::Id, reference: OwnerReference<'_>) -> Option<OwnerState> {
    match store.owner(dependent, reference) {
        Lookup::Found(owner) if owner.name() != reference.name => Some(OwnerState::Absent),
        Lookup::Found(owner) if owner.is_being_deleted() && owner.has_finalizer(FOREGROUND) => {
            Some(OwnerState::Waiting)
        }
        Lookup::Found(_) => Some(OwnerState::Present),
        Lookup::Absent => Some(OwnerState::Absent),
        Lookup::Unknown => None,
    }
}

/// Completes the deletion of an object whose dependents stay.
fn release_dependents<S: Store>(store: &mut S, id: &S::Id, object: &S::Object) {
    for dependent in store.dependents(object.uid()) {
        let Some(owned) = store.get(&dependent) else { continue };
        let keep: Vec<bool> = owned.owners().map(|owner| owner.uid != object.uid()).collect();
        store.retain_owners(&dependent, &keep);
    }
    store.remove_finalizer(id, ORPHAN);
}

/// Deletes the dependents of an object, and completes its deletion once none of them blocks it.
fn delete_dependents<S: Store>(store: &mut S, id: &S::Id, object: &S::Object) {
    for dependent in store.dependents(object.uid()) {
        if let Some(owned) = store.get(&dependent).filter(|owned| !owned.is_being_deleted()) {
            follow_owners(store, &dependent, &owned);
        }
    }
    let blocks = |owned: S::Shared| owned.owners().any(|owner| owner.blocks_deletion && owner.uid == object.uid());
    let is_blocked = store.dependents(object.uid()).iter().filter_map(|dependent| store.get(dependent)).any(blocks);
    if !is_blocked {
        store.remove_finalizer(id, FOREGROUND);
    }
}

/// Writes a deletion into the metadata of an object that finalizers may hold: the finalizer of the policy, and the
/// time. Returns whether the object was not being deleted before.
pub fn mark_deleted(metadata: &mut Map<String, Value>, policy: Option<Propagation>, now: &str) -> bool {
    if let Some(policy) = policy {
        let finalizer = match policy {
            Propagation::Background => None,
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Orphan => Some(ORPHAN),
        };
        edit_finalizers(metadata, |finalizers| {
            finalizers.retain(|name| name != FOREGROUND && name != ORPHAN);
            finalizers.extend(finalizer.map(Value::from));
        });
    }
    if metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null()) {
        return false;
    }
    metadata.insert("deletionTimestamp".to_owned(), json!(now));
    true
}

/// Adds a finalizer to the metadata of an object that has no such entry.
pub fn add_finalizer(metadata: &mut Map<String, Value>, name: &str) {
    edit_finalizers(metadata, |finalizers| {
        if !finalizers.iter().any(|finalizer| finalizer == name) {
            finalizers.push(Value::from(name));
        }
    });
}

/// Removes a finalizer from the metadata of an object.
pub fn remove_finalizer(metadata: &mut Map<String, Value>, name: &str) {
    edit_finalizers(metadata, |finalizers| finalizers.retain(|finalizer| finalizer != name));
}

fn edit_finalizers(metadata: &mut Map<String, Value>, edit: impl FnOnce(&mut Vec<Value>)) {
    let mut finalizers = taken(metadata, "finalizers");
    edit(&mut finalizers);
    put_back(metadata, "finalizers", finalizers);
}

/// Keeps the owner references whose entry in `keep` is true, and forgets which managers set the others.
pub fn retain_owners(metadata: &mut Map<String, Value>, keep: &[bool]) {
    let mut owners = taken(metadata, "ownerReferences");
    let mut kept = keep.iter();
    owners.retain(|owner| {
        let is_kept = kept.next().is_none_or(|keep| *keep);
        if let Some(uid) = owner.get("uid").and_then(Value::as_str).filter(|uid| !is_kept && !uid.is_empty()) {
            disown(metadata, uid);
        }
        is_kept
    });
    put_back(metadata, "ownerReferences", owners);
}

/// The entries of a list, which is left empty.
fn taken(metadata: &mut Map<String, Value>, list: &str) -> Vec<Value> {
    metadata.get_mut(list).and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default()
}

/// Sets the entries of a list, which is absent if there are none.
fn put_back(metadata: &mut Map<String, Value>, list: &str, entries: Vec<Value>) {
    if entries.is_empty() {
        metadata.remove(list);
    } else {
        metadata.insert(list.to_owned(), Value::Array(entries));
    }
}

/// Removes an owner from `managedFields`, as an update that drops its reference does.
fn disown(metadata: &mut Map<String, Value>, uid: &str) {
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

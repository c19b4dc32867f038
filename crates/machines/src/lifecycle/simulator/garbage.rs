//! Deletions on the virtual clock, and the garbage collection that follows each write ([`model::garbage`]).

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::MachineSimulator;
use crate::lifecycle::fields::{map_mut, set};
use crate::lifecycle::objects::{GroupKind, ObjectId};
use golang::calendar::Moment;
use model::garbage::{self, Collectable, FOREGROUND, Lookup, OwnerReference, Propagation, Store};
use model::hub::{Object, ObjectKey, group_of, paths};

impl MachineSimulator {
    /// Deletes an object and, after it, its dependents; one with finalizers stays until they are removed.
    pub fn delete(&mut self, id: &ObjectId) {
        self.delete_with(id, None);
    }

    /// Deletes an object, and treats its dependents as a policy says.
    pub fn delete_with(&mut self, id: &ObjectId, propagation: Option<Propagation>) {
        Store::delete(self, id, propagation);
        self.collect_garbage();
    }

    /// Processes all consequences of the writes so far.
    pub(super) fn collect_garbage(&mut self) {
        while let Some(id) = self.uncollected.pop_front() {
            garbage::collect(self, &id);
        }
    }

    /// Stores or removes an object, and notes the objects that garbage collection looks at because of it.
    pub(super) fn store(&mut self, id: &ObjectId, object: Option<Arc<Object>>) {
        let before = self.put(id, object.clone());
        if id.workload.is_some() {
            return;
        }
        if let Some(object) = before.as_ref().or(object.as_ref()) {
            self.waiting.remove(object.uid());
        }
        let has_same_owners = match (&before, &object) {
            (Some(before), Some(after)) => before.owners().eq(after.owners()),
            _ => false,
        };
        match &object {
            Some(object) if object.is_being_deleted() => self.collect_later(id, object),
            // References that an object was loaded with are not questioned: files often have a part of a cluster.
            Some(_) if has_same_owners => {}
            Some(_) => self.uncollected.push_back(id.clone()),
            None => {
                let uid = before.as_ref().map(|before| before.uid()).unwrap_or_default();
                self.uncollected.extend(self.objects.owned_by(uid).cloned());
            }
        }
        if let Some(before) = before.filter(|_| !has_same_owners && !self.waiting.is_empty()) {
            // Owners that wait for this object may go on.
            self.uncollected.extend(before.owners().filter_map(|owner| self.waiting.get(owner.uid)).cloned());
        }
    }

    /// Has garbage collection look at an object that is being deleted.
    pub(super) fn collect_later(&mut self, id: &ObjectId, object: &Object) {
        if object.has_finalizer(FOREGROUND) {
            self.waiting.insert(object.uid().to_owned(), id.clone());
        }
        self.uncollected.push_back(id.clone());
    }

    /// The object that a reference of a dependent names, if it is there.
    fn owner_id(&self, dependent: &ObjectId, reference: OwnerReference<'_>) -> Option<ObjectId> {
        let kind = GroupKind::new(group_of(reference.api_version), reference.kind);
        let in_namespace = |namespace: &str| ObjectId::new(kind.clone(), ObjectKey::new(namespace, reference.name));
        [in_namespace(&dependent.key.namespace), in_namespace("")]
            .into_iter()
            .find(|id| self.objects.get(id).is_some_and(|owner| owner.uid() == reference.uid))
    }

    /// Changes the metadata of an object; one that is being deleted and has no finalizer left is removed.
    fn edit_metadata(&mut self, id: &ObjectId, edit: impl FnOnce(&mut Map<String, Value>)) {
        let Some(known) = self.objects.get(id).cloned() else { return };
        let mut after = (*known).clone();
        edit(map_mut(&mut after, "metadata"));
        if *known == after {
            return;
        }
        if after.is_being_deleted() && !after.is_held() {
            self.store(id, None);
            return;
        }
        self.numbers += 1;
        set(&mut after, paths::metadata::RESOURCE_VERSION, json!(self.numbers.to_string()));
        self.store(id, Some(Arc::new(after)));
    }
}

impl Store for MachineSimulator {
    type Id = ObjectId;
    type Object = Object;
    type Shared = Arc<Object>;

    fn get(&self, id: &ObjectId) -> Option<Arc<Object>> {
        self.objects.get(id).cloned()
    }

    fn dependents(&self, uid: &str) -> Vec<ObjectId> {
        self.objects.owned_by(uid).cloned().collect()
    }

    fn owner(&self, dependent: &ObjectId, reference: OwnerReference<'_>) -> Lookup<Arc<Object>> {
        match self.owner_id(dependent, reference).and_then(|id| self.get(&id)) {
            Some(owner) => Lookup::Found(owner),
            None if self.objects.is_listed(&GroupKind::new(group_of(reference.api_version), reference.kind)) => {
                Lookup::Absent
            }
            None => Lookup::Unknown,
        }
    }

    fn remove(&mut self, id: &ObjectId) {
        self.store(id, None);
    }

    fn delete(&mut self, id: &ObjectId, propagation: Option<Propagation>) {
        let now = Moment { nanos: 0, ..self.now }.to_string();
        self.edit_metadata(id, |metadata| {
            let is_new = garbage::mark_deleted(metadata, propagation, &now);
            let generation = metadata.get("generation").and_then(Value::as_i64);
            if let Some(generation) = generation.filter(|_| is_new) {
                metadata.insert("generation".to_owned(), json!(generation + 1));
            }
        });
    }

    fn retain_owners(&mut self, id: &ObjectId, keep: &[bool]) {
        self.edit_metadata(id, |metadata| garbage::retain_owners(metadata, keep));
    }

    fn remove_finalizer(&mut self, id: &ObjectId, finalizer: &str) {
        self.edit_metadata(id, |metadata| garbage::remove_finalizer(metadata, finalizer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::settings::MachineSettings;
    use crate::lifecycle::testing::fold_with;

    fn config_map(name: &str, metadata: Value) -> Object {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        object["metadata"]["name"] = json!(name);
        object["metadata"]["uid"] = json!(name);
        Object::try_from(object).unwrap()
    }

    fn names(simulator: &MachineSimulator) -> Vec<&str> {
        simulator.objects.all(&GroupKind::new("", "ConfigMap")).map(|object| object.name()).collect()
    }

    #[test]
    fn a_deletion_in_the_foreground_that_had_begun_is_completed() {
        let mut simulator = fold_with(MachineSettings::default());
        let deleted = json!({"deletionTimestamp": "2029-12-31T00:00:00Z", "finalizers": [FOREGROUND]});
        let owner =
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a", "blockOwnerDeletion": true}]);
        simulator.insert(config_map("a", deleted)).unwrap();
        simulator.insert(config_map("b", json!({"ownerReferences": owner}))).unwrap();
        assert_eq!(names(&simulator), ["a", "b"], "all objects are loaded first");
        simulator.settle(1);
        assert!(names(&simulator).is_empty());
    }

    #[test]
    fn objects_are_kept_whose_owners_were_not_loaded() {
        let mut simulator = fold_with(MachineSettings::default());
        let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"}]);
        simulator.insert(config_map("a", json!({"ownerReferences": owner}))).unwrap();
        simulator.settle(1);
        let before = simulator.objects.all(&GroupKind::new("", "ConfigMap")).next().unwrap().clone();
        let mut after = (*before).clone();
        set(&mut after, "data", json!({"x": "y"}));
        simulator.update(None, &before, after).unwrap();
        assert_eq!(names(&simulator), ["a"]);
    }
}

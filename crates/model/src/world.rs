//! Facts for rules and computations.
//!
//! ```text
//! Facts (shared, immutable, taken in O(1)) ─┐
//!                                           ├─► World ──► lookups answer: yes, absent, unreadable, not asked
//! answers pinned for this run ──────────────┘        └──► Needs: missing facts that must be gathered first
//! ```
//!
//! A lookup without an answer records a [`Need`]. [`settle`] has the edge gather the needs, pins the answers, and runs
//! the same function again; a result counts only if no need was recorded. Pinned answers, including absences, do not
//! change during a run. Each question has a type, which determines the type of its answer (`ask.rs`). Values computed
//! from a class alone are cached with the class ([`Class`]).

mod ask;
mod assumptions;
mod class;
mod facts;
mod key_index;
mod need;
mod objects;
mod scope;
mod settle;
mod worker_states;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

pub use ask::Ask;
pub use ask::{Answer, Need};
pub use assumptions::Assumptions;
pub use class::Class;
pub use facts::{CLASSES, CLUSTERS, ClusterListError, FactChanges, Facts, Record};
pub use need::{
    DefinitionName, DryRun, DryRunCall, HookAnswer, HookCall, ItemPatch, Nodes, NodesOf, PatchAnswer, PatchCall,
    PatchHook, PlanCall, PlannedVersions, Selection, SettledClass,
};
pub use objects::ObjectSet;
pub use scope::{InvalidNamespace, Scope};
pub use settle::{ComputeResult, Unsettled, settle, settle_at_once};
pub use worker_states::{WorkerSet, WorkerState};

use ask::Pinned;

use crate::hub::{Cluster, ClusterClass, Object, ObjectKey, ObjectRef, ResourceDefinition, StatusVariable};
use crate::variables::CompiledVariables;
use schema::budget::{SharedLease, Stop};
use schema::openapi::{SchemaAllowance, SchemaError};

/// The answer to a lookup.
#[derive(Clone, Debug, PartialEq)]
pub enum Found<T> {
    Yes(T),
    /// The object is known not to exist.
    Absent,
    /// Something exists, or may exist, and cannot be read; the text is the reason.
    Unreadable(String),
    /// The fact has not been gathered; a [`Need`] was recorded, and the result of this run is void.
    NotAsked,
}

impl<T> Found<T> {
    /// The same answer with a converted value.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Found::Yes(found) => Found::Yes(make(found)),
            Found::Absent => Found::Absent,
            Found::Unreadable(reason) => Found::Unreadable(reason),
            Found::NotAsked => Found::NotAsked,
        }
    }
}

/// The facts available to a run.
#[derive(Debug)]
pub struct World {
    facts: Arc<Facts>,
    /// Whether the facts are the only source.
    is_closed: bool,
    /// Whether a server can do dry runs, although everything else is in the facts.
    has_dry_runs: bool,
    /// Whether dry runs of changes that are certain are left out.
    skips_certain_dry_runs: bool,
    /// Whether extensions can be called, although everything else is in the facts.
    calls_extensions: bool,
    pinned: Pinned,
    needs: RefCell<BTreeSet<Need>>,
    stop: Stop,
    lease: SharedLease,
}

impl World {
    /// A world of `facts` without pinned answers.
    pub fn new(facts: Arc<Facts>) -> Self {
        World {
            facts,
            is_closed: false,
            has_dry_runs: false,
            skips_certain_dry_runs: false,
            calls_extensions: false,
            pinned: Pinned::default(),
            needs: RefCell::default(),
            stop: Stop::never(),
            lease: SharedLease::default(),
        }
    }

    /// A world of files: objects that the facts lack are absent, since there is no API server to ask. They may
    /// nevertheless exist in a cluster (DEC-18).
    pub fn closed(facts: Arc<Facts>) -> Self {
        World { is_closed: true, ..World::new(facts) }
    }

    /// Allows dry runs on a server; everything else is in the facts (DEC-43).
    #[must_use]
    pub fn with_dry_runs(self) -> Self {
        World { has_dry_runs: true, ..self }
    }

    /// Leaves out dry runs of changes that are certain, since the object refers to a new template (DEC-120).
    #[must_use]
    pub fn without_certain_dry_runs(self) -> Self {
        World { skips_certain_dry_runs: true, ..self }
    }

    /// Whether dry runs of changes that are certain are left out.
    pub fn skips_certain_dry_runs(&self) -> bool {
        self.skips_certain_dry_runs
    }

    /// Allows calls of extensions; everything else is in the facts.
    #[must_use]
    pub fn with_extensions(self) -> Self {
        World { calls_extensions: true, ..self }
    }

    /// Whether this is a world of files.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The class with that key once it is settled, or its state when the gatherer stopped waiting (CL-V-050).
    pub fn class(&self, key: &ObjectKey) -> Found<Arc<Class>> {
        let now = self.class_at_once(key);
        match &now {
            Found::Yes(class) if is_settled(class) => now,
            Found::Yes(_) | Found::Absent => self.pinned_or_needed(&SettledClass(key.clone())),
            Found::Unreadable(_) | Found::NotAsked => now,
        }
    }

    /// The class with that key, without waiting (CL-V-061).
    pub fn class_at_once(&self, key: &ObjectKey) -> Found<Arc<Class>> {
        self.facts.class(key)
    }

    /// Whether a stored class is unreadable, which waiting does not change (DEC-44).
    pub fn is_unreadable(&self, key: &ObjectKey) -> bool {
        self.facts.is_unreadable(key)
    }

    /// The Clusters of all namespaces that use a class, sorted by namespace and name (CC-V-100).
    ///
    /// # Errors
    /// The reason why the list is unavailable.
    pub fn clusters_of(&self, class: &ObjectKey) -> Result<Vec<Arc<Cluster>>, ClusterListError> {
        self.facts.clusters_of(class)
    }

    /// An object in one version of its kind.
    pub fn object(&self, reference: &ObjectRef) -> Found<Arc<Object>> {
        self.ask(reference)
    }

    /// The Cluster with that key.
    pub fn cluster(&self, key: &ObjectKey) -> Found<Arc<Cluster>> {
        self.facts.cluster(key)
    }

    /// Whether all facts are known, as with files, and there is no API server to ask.
    pub fn is_offline(&self) -> bool {
        self.is_closed || self.facts.objects().is_some()
    }

    /// Whether an API server is known not to have an object that was not found. Files may lack objects of a cluster.
    pub fn is_missing(&self, reference: &ObjectRef) -> bool {
        !self.is_offline() || self.facts.objects().is_some_and(|objects| objects.is_missing(reference))
    }

    /// An object in any version from a world of files.
    pub fn held(&self, group: &str, kind: &str, key: &ObjectKey) -> Option<Arc<Object>> {
        self.facts.objects()?.in_any_version(group, kind, key).cloned()
    }

    /// The Clusters in a world of files that may have a part of this name, sorted by name; empty with an API server.
    /// Parts of two Clusters have one name only if their class `shares_names`, or if they refer to it.
    pub fn possible_owners(&self, object: &ObjectKey, shares_names: impl Fn(&Class) -> bool) -> Vec<Arc<Cluster>> {
        let facts = self.is_offline().then_some(&self.facts);
        let keys = facts.into_iter().flat_map(|facts| facts.keys_of_possible_owners(object, &shares_names));
        keys.filter_map(|key| match self.facts.cluster(key) {
            Found::Yes(cluster) => Some(cluster),
            Found::Absent | Found::NotAsked | Found::Unreadable(_) => None,
        })
        .collect()
    }

    /// The objects of a selection, sorted by name; absent if their kind is not served.
    pub fn list(&self, selection: &Selection) -> Found<Vec<Arc<Object>>> {
        self.ask(selection)
    }

    /// The CustomResourceDefinition with that name (CT-2.1).
    pub fn definition(&self, name: &str) -> Found<Arc<ResourceDefinition>> {
        self.ask(&DefinitionName(name.to_owned()))
    }

    /// The definition by which the objects of a kind are checked. Among files, it may be one that is included in the
    /// program.
    pub fn definition_for_checks(&self, name: &str) -> Option<Arc<ResourceDefinition>> {
        match self.definition(name) {
            Found::Yes(definition) => Some(definition),
            Found::Absent => self.facts.objects()?.definition_for_checks(name),
            Found::NotAsked | Found::Unreadable(_) => None,
        }
    }

    /// What webhooks are assumed to add to objects in files.
    pub fn assumptions(&self) -> Option<&Assumptions> {
        self.facts.objects().map(ObjectSet::assumptions)
    }

    /// The changes of an apply as computed by an API server; absent without an API server, as with files (DEC-15).
    pub fn dry_run(&self, call: DryRunCall) -> Found<DryRun> {
        match self.is_tried(&call.version) {
            true => self.pinned_or_needed(&call),
            false => self.ask(&call),
        }
    }

    /// The answer of the extension of a patch; absent if it cannot be called, as with files (PE-23, PE-29).
    pub fn patch(&self, call: &PatchCall) -> Found<PatchAnswer> {
        if self.calls_extensions { self.pinned_or_needed(call) } else { self.ask(call) }
    }

    /// The upgrade plan of an extension (UP-15).
    pub fn upgrade_plan(&self, call: &PlanCall) -> Found<PlannedVersions> {
        if self.calls_extensions { self.pinned_or_needed(call) } else { self.ask(call) }
    }

    /// The combined answer of all extensions of a lifecycle hook; absent if they are not called (HK-04, HK-07).
    pub fn hook(&self, call: &HookCall) -> Found<HookAnswer> {
        if self.calls_extensions { self.pinned_or_needed(call) } else { self.ask(call) }
    }

    /// Whether extensions are called.
    pub fn calls_extensions(&self) -> bool {
        self.calls_extensions || !self.is_offline()
    }

    /// Whether a server can do a dry run on an object with this resourceVersion: not for objects from files, or written
    /// by a simulation.
    pub fn is_tried(&self, resource_version: &str) -> bool {
        self.has_dry_runs && !resource_version.is_empty()
    }

    /// Compiles `definitions`, which need not belong to a stored class (DEC-39).
    ///
    /// # Errors
    /// When they exceed the limits of a class, or the deadline has passed (DEC-44).
    pub fn variables(&self, definitions: &[StatusVariable]) -> Result<Arc<CompiledVariables>, SchemaError> {
        self.facts.library().look_up(definitions, &mut SchemaAllowance::new(self.stop.clone()))
    }

    /// Sets the signal that ends work early.
    #[must_use]
    pub fn until(self, stop: Stop) -> Self {
        World { stop, ..self }
    }

    /// Whether to end early; the result is then discarded.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Sets the memory lease of the computation, which it can enlarge.
    #[must_use]
    pub fn leasing(self, lease: SharedLease) -> Self {
        World { lease, ..self }
    }

    /// The memory lease of the computation.
    pub fn lease(&self) -> &SharedLease {
        &self.lease
    }

    /// Pins the answer to a need for the rest of this run.
    pub fn pin(&mut self, need: Need, answer: Answer) {
        self.pinned.pin(need, answer);
    }

    /// Whether this run recorded needs, so that its result is void.
    pub fn has_needs(&self) -> bool {
        !self.needs.borrow().is_empty()
    }

    /// The needs of this run; a result counts only if this is empty.
    pub fn take_needs(&mut self) -> BTreeSet<Need> {
        std::mem::take(self.needs.get_mut())
    }

    /// The answer of the facts if they are complete, otherwise the pinned answer.
    pub fn ask<Q: Ask>(&self, question: &Q) -> Found<Q::Answer> {
        if self.is_offline() { question.in_facts(&self.facts) } else { self.pinned_or_needed(question) }
    }

    /// The pinned answer; without one, the need is recorded.
    fn pinned_or_needed<Q: Ask>(&self, question: &Q) -> Found<Q::Answer> {
        question.in_pinned(&self.pinned).cloned().unwrap_or_else(|| {
            self.needs.borrow_mut().insert(question.need());
            Found::NotAsked
        })
    }
}

/// Whether waiting cannot improve the class: it is reconciled, or its variables follow from its spec alone (DEC-2).
pub fn is_settled(class: &ClusterClass) -> bool {
    class.is_reconciled() || !class.discovers_variables()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(name: &str, discovers: bool) -> ClusterClass {
        let extension = if discovers { "discover" } else { "" };
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": name},
            "spec": {"patches": [{"name": "p", "external": {"discoverVariablesExtension": extension}}]},
        }))
        .unwrap()
    }

    #[test]
    fn only_objects_that_may_still_arrive_are_needed() {
        let facts = Facts::complete([], [class("settled", false), class("pending", true)]);
        let mut world = World::new(Arc::new(facts));
        assert!(matches!(world.class(&ObjectKey::new("ns", "settled")), Found::Yes(_)));
        assert!(world.take_needs().is_empty());
        for name in ["pending", "absent"] {
            let key = ObjectKey::new("ns", name);
            assert_eq!(world.class(&key), Found::NotAsked);
            assert_eq!(world.take_needs(), BTreeSet::from([Need::Class(SettledClass(key.clone()))]));
            let answer = world.class_at_once(&key);
            world.pin(Need::Class(SettledClass(key.clone())), Answer::Class(answer.clone()));
            assert_eq!(world.class(&key), answer);
            assert!(world.take_needs().is_empty());
        }
    }

    #[test]
    fn a_pinned_absence_stays_when_the_facts_change() {
        let key = ObjectKey::new("ns", "late");
        let mut world = World::new(Arc::new(Facts::complete([], [])));
        assert_eq!(world.class(&key), Found::NotAsked);
        world.pin(Need::Class(SettledClass(key.clone())), Answer::Class(Found::Absent));
        assert_eq!(world.class(&key), Found::Absent);
    }
}

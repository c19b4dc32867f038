//! The facts that rules and computations use.
//!
//! ```text
//! Facts (shared, immutable, taken in O(1)) ─┐
//!                                           ├─► World ──► lookups answer: yes, absent, unreadable, not asked
//! answers pinned for this run ──────────────┘        └──► Needs: missing facts that must be gathered first
//! ```
//!
//! A lookup that cannot be answered yet records a [`Need`]. [`settle`] has the edge gather what is needed, pins the answers,
//! and runs the same function again; a result counts only when nothing was recorded. Pinned answers, absences included, do
//! not change during a run. Each question has a type of its own, which says what its answer is (`ask.rs`). What is computed from a class alone is computed once and stays with the class ([`Class`]).

mod ask;
mod class;
mod facts;
mod need;
mod objects;
mod scope;
mod settle;
mod sizes;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

pub use ask::Ask;
pub use ask::{Answer, Need};
pub use class::Class;
pub use facts::{CLASSES, CLUSTERS, Changed, Facts, Record};
pub use need::{
    DefinitionName, DryRun, DryRunCall, HookAnswer, HookCall, ItemPatch, Nodes, NodesOf, PatchAnswer, PatchCall,
    PatchHook, PlanCall, Selection, SettledClass, UpgradePlan,
};
pub use objects::Objects;
pub use scope::Scope;
pub use settle::{Computed, Unsettled, settle, settle_at_once};
pub use sizes::{WorkerSet, WorkerState};

use ask::Pinned;

use crate::hub::{Cluster, ClusterClass, Definition, Object, ObjectKey, ObjectRef, StatusVariable};
use crate::variables::Variables;
use schema::budget::{SharedLease, Stop};
use schema::openapi::{SchemaAllowance, SchemaError};

/// The answer to a lookup.
#[derive(Clone, Debug, PartialEq)]
pub enum Found<T> {
    Yes(T),
    /// It is known that there is no such object.
    Absent,
    /// There is something, or there may be, and it cannot be read; the text says why.
    Unreadable(String),
    /// The fact has not been gathered; a [`Need`] was recorded and this run's result is void.
    NotAsked,
}

impl<T> Found<T> {
    /// The same answer with its value converted.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Found::Yes(found) => Found::Yes(make(found)),
            Found::Absent => Found::Absent,
            Found::Unreadable(reason) => Found::Unreadable(reason),
            Found::NotAsked => Found::NotAsked,
        }
    }
}

/// What a run may look at.
#[derive(Debug)]
pub struct World {
    facts: Arc<Facts>,
    /// Whether the facts are the only source.
    is_closed: bool,
    /// Whether a server can be asked what applying something would change, although everything else is in the facts.
    has_dry_runs: bool,
    /// Whether extensions can be called, although everything else is in the facts.
    calls_extensions: bool,
    pinned: Pinned,
    needs: RefCell<BTreeSet<Need>>,
    stop: Stop,
    lease: SharedLease,
}

impl World {
    /// A world of `facts` in which nothing has been asked yet.
    pub fn new(facts: Arc<Facts>) -> Self {
        World {
            facts,
            is_closed: false,
            has_dry_runs: false,
            calls_extensions: false,
            pinned: Pinned::default(),
            needs: RefCell::default(),
            stop: Stop::never(),
            lease: SharedLease::default(),
        }
    }

    /// A world of files: objects that the facts lack are absent, since there is no API server to ask. What is absent
    /// here may exist in a cluster all the same (DEC-18).
    pub fn closed(facts: Arc<Facts>) -> Self {
        World { is_closed: true, ..World::new(facts) }
    }

    /// The same world, in which a server tells what applying something to its objects would change; everything else is in the
    /// facts (DEC-43).
    #[must_use]
    pub fn with_dry_runs(self) -> Self {
        World { has_dry_runs: true, ..self }
    }

    /// The same world, in which extensions can be called; everything else is in the facts.
    #[must_use]
    pub fn with_extensions(self) -> Self {
        World { calls_extensions: true, ..self }
    }

    /// Whether this is a world of files.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The class of that name once it is settled, or as it is when the gatherer's patience ended (CL-V-050).
    pub fn class(&self, key: &ObjectKey) -> Found<Arc<Class>> {
        let now = self.class_at_once(key);
        match &now {
            Found::Yes(class) if is_settled(class) => now,
            Found::Yes(_) | Found::Absent => self.pinned_or_needed(&SettledClass(key.clone())),
            Found::Unreadable(_) | Found::NotAsked => now,
        }
    }

    /// The class of that name as it is, without waiting (CL-V-061).
    pub fn class_at_once(&self, key: &ObjectKey) -> Found<Arc<Class>> {
        self.facts.class(key)
    }

    /// Whether a class is stored that cannot be read, which waiting does not change (DEC-44).
    pub fn is_unreadable(&self, key: &ObjectKey) -> bool {
        self.facts.is_unreadable(key)
    }

    /// The Clusters of all namespaces that use a class, by namespace and name (CC-V-100).
    ///
    /// # Errors
    /// Says why the list cannot be had.
    pub fn clusters_of(&self, class: &ObjectKey) -> Result<Vec<Arc<Cluster>>, String> {
        self.facts.clusters_of(class)
    }

    /// An object in one version of its kind.
    pub fn object(&self, reference: &ObjectRef) -> Found<Arc<Object>> {
        self.ask(reference)
    }

    /// The Cluster of that name.
    pub fn cluster(&self, key: &ObjectKey) -> Found<Arc<Cluster>> {
        self.facts.cluster(key)
    }

    /// Whether all that there is is known, as with files, and no API server can be asked for more.
    pub fn is_offline(&self) -> bool {
        self.is_closed || self.facts.objects().is_some()
    }

    /// Whether an API server is known not to have an object that was not found. Files may lack what a cluster has.
    pub fn is_missing(&self, reference: &ObjectRef) -> bool {
        !self.is_offline() || self.facts.objects().is_some_and(|objects| objects.is_missing(reference))
    }

    /// An object in any version that a world of files holds.
    pub fn held(&self, group: &str, kind: &str, key: &ObjectKey) -> Option<Arc<Object>> {
        self.facts.objects()?.in_any_version(group, kind, key).cloned()
    }

    /// The Clusters of a namespace that a world of files holds, by name; none where an API server holds them.
    pub fn held_clusters(&self, namespace: &str) -> Vec<Arc<Cluster>> {
        let facts = self.is_offline().then_some(&self.facts);
        let keys = facts.into_iter().flat_map(|facts| facts.cluster_keys_in(namespace));
        keys.filter_map(|key| match self.facts.cluster(key) {
            Found::Yes(cluster) => Some(cluster),
            Found::Absent | Found::NotAsked | Found::Unreadable(_) => None,
        })
        .collect()
    }

    /// The objects of a selection, by name; absent when nothing serves their kind.
    pub fn list(&self, selection: &Selection) -> Found<Vec<Arc<Object>>> {
        self.ask(selection)
    }

    /// The CustomResourceDefinition of that name (CT-2.1).
    pub fn definition(&self, name: &str) -> Found<Arc<Definition>> {
        self.ask(&DefinitionName(name.to_owned()))
    }

    /// Whether applying something would change anything, as an API server sees it; absent without an API server, as
    /// among files (DEC-15).
    pub fn dry_run(&self, call: DryRunCall) -> Found<DryRun> {
        match self.is_tried(&call.version) {
            true => self.pinned_or_needed(&call),
            false => self.ask(&call),
        }
    }

    /// What the extension of a patch answers; absent where it cannot be called, as among files (PE-23, PE-29).
    pub fn patch(&self, call: &PatchCall) -> Found<PatchAnswer> {
        if self.calls_extensions { self.pinned_or_needed(call) } else { self.ask(call) }
    }

    /// What an extension plans for an upgrade (UP-15).
    pub fn upgrade_plan(&self, call: &PlanCall) -> Found<UpgradePlan> {
        if self.calls_extensions { self.pinned_or_needed(call) } else { self.ask(call) }
    }

    /// What all extensions of a lifecycle hook answer; absent where they are not called (HK-04, HK-07).
    pub fn hook(&self, call: &HookCall) -> Found<HookAnswer> {
        if self.calls_extensions { self.pinned_or_needed(call) } else { self.ask(call) }
    }

    /// Whether extensions are called.
    pub fn calls_extensions(&self) -> bool {
        self.calls_extensions || !self.is_offline()
    }

    /// Whether a server tells what applying something to an object changes that is at this resourceVersion: not to one that is
    /// in a file, or that a fold has written.
    pub fn is_tried(&self, resource_version: &str) -> bool {
        self.has_dry_runs && !resource_version.is_empty()
    }

    /// The variables that `definitions` make, which need not be those of a class that is stored (DEC-39).
    ///
    /// # Errors
    /// When they take more than those of a class may, or the time is over (DEC-44).
    pub fn variables(&self, definitions: &[StatusVariable]) -> Result<Arc<Variables>, SchemaError> {
        self.facts.library().look_up(definitions, &mut SchemaAllowance::new(self.stop.clone()))
    }

    /// The same world, in which work ends when `stop` is due.
    #[must_use]
    pub fn until(self, stop: Stop) -> Self {
        World { stop, ..self }
    }

    /// Whether to end although the work is not finished; the outcome then counts for nothing.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// The same world for a computation that takes more memory from `lease` if it needs it.
    #[must_use]
    pub fn leasing(self, lease: SharedLease) -> Self {
        World { lease, ..self }
    }

    /// The memory of the computation.
    pub fn lease(&self) -> &SharedLease {
        &self.lease
    }

    /// Answers a need for the rest of this run.
    pub fn pin(&mut self, need: Need, answer: Answer) {
        self.pinned.pin(need, answer);
    }

    /// Whether this run looked for something that it did not know, so that its result is void.
    pub fn has_needs(&self) -> bool {
        !self.needs.borrow().is_empty()
    }

    /// What this run looked for and did not know; a result counts only when this is empty.
    pub fn take_needs(&mut self) -> BTreeSet<Need> {
        std::mem::take(self.needs.get_mut())
    }

    /// The answer of the facts where they are all there is, and otherwise the one that is pinned.
    pub fn ask<Q: Ask>(&self, question: &Q) -> Found<Q::Answer> {
        if self.is_offline() { question.in_facts(&self.facts) } else { self.pinned_or_needed(question) }
    }

    /// The answer that is pinned; without one the need is recorded.
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
        let facts = Facts::of([], [class("settled", false), class("pending", true)]);
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
        let mut world = World::new(Arc::new(Facts::of([], [])));
        assert_eq!(world.class(&key), Found::NotAsked);
        world.pin(Need::Class(SettledClass(key.clone())), Answer::Class(Found::Absent));
        assert_eq!(world.class(&key), Found::Absent);
    }
}

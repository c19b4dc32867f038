//! Simulation of rollouts on a virtual clock: topologies and machines together, from files to the last Node.
//!
//! ```text
//!            ┌─ topology::plan::Fold: one plan of a Cluster ────► its steps
//! Cluster ───┤        ▲ current objects                             │ writes
//!            ├─ lifecycle::simulator: steps of all objects ◄────────┤     nothing is due ─► the clock advances
//!            ├─ templates.rs: unused templates ◄────────────────────┘
//!            └─► timeline.rs: events and machine counts; diagnosis.rs: reasons of Clusters that do not converge
//! ```
//!
//! It runs the computation of the controllers, with providers whose delays are
//! [`machines::lifecycle::settings::Timings`].

mod defaults;
mod endless;
pub mod equivalent_clusters;
mod reasons;
mod diagnosis;
mod templates;
pub mod timeline;
mod waits;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

pub use self::endless::StepLimit;
use self::endless::{Replacements, STEPS};
pub use self::reasons::{RunError, StuckReason};
use self::timeline::Timeline;
use engine::topology::holds::{HeldPart, HeldReason};
use engine::topology::hooks::DeletionGuard;
use engine::topology::plan::{PlanStep, Rollout, TopologyPart, TopologySimulator as Topologies};
use engine::topology::worker::API_VERSION;
use engine::topology::{Failure, status};
use golang::calendar::Moment;
use machines::lifecycle::conditions;
use machines::lifecycle::dependents::{differ_in_conditions_alone, differ_in_status_alone, is_paused};
use machines::lifecycle::objects::cluster_of;
use machines::lifecycle::simulator::{MachineSimulator as Machines, StoreError, StoredChange};
use machines::lifecycle::{GroupKind, MachineSettings, ObjectId};
use model::hub::contract::{cloned_kind, definition_name, names_contracts};
use model::hub::{Cluster, GROUP, Kind, Object, ObjectKey, ObjectRef, annotation, group_of, paths};
use model::wire::{Decode, WireVersion};
use model::world::{Found, ObjectSet, Record};
use schema::budget::Stop;

/// Maximum number of runs of a topology at one time; beyond it, the simulation would not end.
const RUNS: usize = 10_000;
/// How a simulation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// Nothing is left to do.
    Converged,
    /// Nothing more happens, or not within the time, and these Clusters are not as they should be, each with the
    /// reason.
    Stuck(BTreeMap<ObjectKey, StuckReason>),
}

/// A simulation of topologies and machines.
#[derive(Debug)]
pub struct Simulation {
    machines: Machines,
    topologies: Topologies,
    /// Clusters whose topology is due.
    due: BTreeSet<ObjectKey>,
    /// What the last plan of a Cluster held back, or why there is none.
    held: BTreeMap<ObjectKey, Vec<HeldPart>>,
    failures: BTreeMap<ObjectKey, RunError>,
    /// What a Cluster waits for by its topology, under its own id, and what its machines wait for.
    waits: BTreeMap<ObjectKey, BTreeMap<ObjectId, Vec<HeldPart>>>,
    pub timeline: Timeline,
    /// Whether the last run ended because its time was over.
    pub ran_out: bool,
    /// Number of desired machines, if it exceeds the limit.
    too_many: Option<i64>,
    replacements: Replacements,
    /// The Clusters whose machines are replaced without end.
    endless: BTreeMap<ObjectKey, StuckReason>,
    /// The number of steps of machines at the start of the run, and of plans since then.
    steps_before: u64,
    plans: u64,
    step_limit: StepLimit,
    /// Whether the run has exceeded its step limit.
    is_exhausted: bool,
    stop: Stop,
    /// Whether the run was stopped.
    is_stopped: bool,
}

impl Simulation {
    /// A simulation with the classes, templates and definitions of `topologies`, at a point in time; Clusters are added
    /// by [`Simulation::put_cluster`].
    pub fn new(topologies: Topologies, settings: MachineSettings, now: Moment) -> Self {
        let mut machines = Machines::new(settings, now);
        machines.admit = |object| {
            defaults::default(object);
            templates::protect(object);
        };
        if let Some(objects) = topologies.facts().objects() {
            for object in objects.iter() {
                define(&mut machines, objects, object);
                // The facts contain each object once, even if several files do.
                let _ = machines.create(None, Object::clone(object));
            }
        }
        for key in topologies.facts().class_keys() {
            // The controllers of machines only check that it exists, unless the caller adds the whole class.
            let _ = machines.create(None, named_class(key));
        }
        let mut simulation = Simulation {
            machines,
            topologies,
            due: BTreeSet::new(),
            held: BTreeMap::new(),
            failures: BTreeMap::new(),
            waits: BTreeMap::new(),
            timeline: Timeline::new(now),
            ran_out: false,
            too_many: None,
            replacements: Replacements::default(),
            endless: BTreeMap::new(),
            steps_before: 0,
            plans: 0,
            step_limit: StepLimit::default(),
            is_exhausted: false,
            stop: Stop::never(),
            is_stopped: false,
        };
        simulation.notice();
        simulation
    }

    /// Ends runs when `stop` is due; unfinished Clusters are then stuck.
    #[must_use]
    pub fn until(self, stop: Stop) -> Self {
        Simulation { stop, ..self }
    }

    /// Sets another step limit.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn with_step_limit(self, step_limit: StepLimit) -> Self {
        Simulation { step_limit, ..self }
    }

    /// The current time.
    pub fn now(&self) -> Moment {
        self.machines.now()
    }

    /// The current Clusters.
    pub fn clusters(&self) -> impl Iterator<Item = ObjectKey> {
        let all: Vec<ObjectKey> = self.topologies.facts().cluster_keys().cloned().collect();
        all.into_iter()
    }

    /// The current objects.
    pub fn objects(&self) -> &machines::lifecycle::MachineCache {
        &self.machines.objects
    }

    /// The topologies, mutable, to change classes like a user. Their Clusters become due.
    pub fn topologies_mut(&mut self) -> &mut Topologies {
        self.due.extend(self.topologies.facts().cluster_keys().cloned());
        &mut self.topologies
    }

    /// Creates a Cluster in the v1beta2 form, or updates its spec, like a user.
    ///
    /// # Errors
    /// When the object is not a Cluster.
    pub fn put_cluster(&mut self, cluster: &Object) -> Result<(), StoreError> {
        let id = ObjectId::for_object(cluster);
        match self.machines.objects.get(&id).cloned() {
            None => drop(self.machines.create(None, cluster.clone())?),
            Some(known) => {
                let mut after = (*known).clone();
                for part in
                    [paths::cluster::TOPOLOGY, paths::metadata::LABELS, paths::metadata::ANNOTATIONS, paths::PAUSED]
                {
                    let value = cluster.at(part).cloned().unwrap_or(Value::Null);
                    // Fields written by the topology are kept.
                    merge(&mut after, part, value);
                }
                self.machines.update(None, &known, after)?;
            }
        }
        self.notice();
        Ok(())
    }

    /// Adopts a Cluster in the v1beta2 form and its objects from a running management cluster. The simulated providers
    /// continue from the state of the real ones.
    ///
    /// # Errors
    /// When there is such an object already.
    pub fn adopt(&mut self, cluster: &Object, objects: &[Arc<Object>]) -> Result<(), StoreError> {
        let mut all: Vec<Object> = objects.iter().map(|object| Object::clone(object)).collect();
        all.push(cluster.clone());
        machines::lifecycle::adopt(&mut all, self.now());
        if let Some(known) = self.topologies.facts().objects() {
            all.iter().for_each(|object| define(&mut self.machines, known, object));
        }
        for object in all {
            self.machines.insert(object)?;
        }
        self.notice();
        Ok(())
    }

    /// Creates or updates an object other than a Cluster, like a user.
    ///
    /// # Errors
    /// When it is not stored.
    pub fn put(&mut self, object: &Object) -> Result<(), StoreError> {
        let known = self.machines.objects.get(&ObjectId::for_object(object)).cloned();
        match known {
            None => drop(self.machines.create(None, object.clone())?),
            Some(known) => {
                let mut after = object.clone();
                for kept in [
                    paths::metadata::UID,
                    paths::metadata::RESOURCE_VERSION,
                    paths::metadata::CREATION_TIMESTAMP,
                    "status",
                ] {
                    if let Some(value) = known.at(kept).cloned() {
                        machines::lifecycle::set_field(&mut after, kept, value);
                    }
                }
                self.machines.update(None, &known, after)?;
            }
        }
        self.notice();
        Ok(())
    }

    /// Deletes an object, like a user.
    pub fn delete(&mut self, id: &ObjectId) {
        self.machines.delete(id);
        self.notice();
    }

    /// Runs until nothing is due, or for `most` in virtual time. `progress` is called with each new time.
    pub fn run(&mut self, most: Duration, mut progress: impl FnMut(Moment)) -> End {
        let end = machines::lifecycle::later(self.now(), most);
        (self.ran_out, self.is_exhausted, self.is_stopped) = (false, false, false);
        (self.steps_before, self.plans) = (self.machines.steps(), 0);
        self.endless.clear();
        self.replacements.restart();
        while self.settle() {
            let Some(next) = self.machines.next_due() else { return self.end() };
            if next > end {
                break;
            }
            self.machines.advance();
            progress(self.now());
        }
        self.ran_out = self.too_many.is_none() && !self.is_cut_short();
        self.end()
    }

    /// Runs everything that is due at this time; returns whether it settled.
    fn settle(&mut self) -> bool {
        let clusters = self.topologies.facts().cluster_keys().len();
        for _ in 0..RUNS.saturating_mul(1 + clusters) {
            self.too_many = diagnosis::too_many_machines(&self.machines.objects);
            if self.too_many.is_some() {
                return false;
            }
            while !self.machines.settle(STEPS) {
                self.notice();
                self.look_for_cycles();
                if self.is_cut_short() {
                    return false;
                }
            }
            self.notice();
            self.look_for_cycles();
            if self.is_cut_short() {
                return false;
            }
            let Some(cluster) = self.due.pop_first() else { return true };
            self.plan(&cluster);
            self.notice();
        }
        false
    }

    /// Processes changes: updates topologies and the timeline, and deletes unused templates.
    fn notice(&mut self) {
        loop {
            let changes = self.machines.take_changes();
            if changes.is_empty() {
                return;
            }
            for change in changes {
                self.timeline.note(&change, self.machines.now());
                self.replacements.note(&change, self.machines.now());
                if change.id.workload.is_none() {
                    self.mirror(&change);
                    self.clean_up_templates(&change);
                    self.note_waits_of_machines(&change);
                }
            }
        }
    }

    /// Deletes the templates of deleted objects; when a Cluster is resumed, also those of objects that waited for it
    /// (DEL-05).
    fn clean_up_templates(&mut self, change: &StoredChange) {
        let goes_on = |cluster: &Option<Arc<Object>>| cluster.as_deref().is_some_and(|cluster| !is_paused(cluster));
        if !change.id.kind.is_core(Kind::Cluster.name()) {
            if let Some(object) = self.machines.objects.get(&change.id).cloned() {
                templates::clean_up(&mut self.machines, &object);
            }
        } else if change.before.is_some()
            && !goes_on(&change.before)
            && (goes_on(&change.after) || change.after.is_none())
        {
            for object in templates::leaving_of(&self.machines, &change.id.key) {
                templates::clean_up(&mut self.machines, &object);
            }
        }
    }

    /// Resets time and machine counts. Current waits start at the beginning.
    pub fn restart(&mut self) {
        let now = self.now();
        self.timeline.restart(now);
        let waits = self.waits.iter().filter(|(cluster, _)| self.timeline.clusters.contains_key(*cluster));
        let waits: Vec<(ObjectKey, Vec<HeldPart>)> =
            waits.map(|(cluster, all)| (cluster.clone(), all.values().flatten().cloned().collect())).collect();
        waits.iter().for_each(|(cluster, all)| self.timeline.note_held(cluster, all, now));
    }

    /// Records what the machines of an object wait for.
    fn note_waits_of_machines(&mut self, change: &StoredChange) {
        let StoredChange { id, before, after } = change;
        // The topology uses the id of the Cluster.
        let part = after.as_ref().or(before.as_ref()).filter(|_| !id.kind.is_core(Kind::Cluster.name()));
        let Some(cluster) = part.and_then(|object| cluster_of(object)) else { return };
        let waits = after.as_deref().map(waits::waits).unwrap_or_default();
        self.note_waits(&cluster, id, waits);
    }

    /// Records what an object of a Cluster, or the Cluster itself, waits for.
    fn note_waits(&mut self, cluster: &ObjectKey, id: &ObjectId, waits: Vec<HeldPart>) {
        let known = self.waits.get(cluster).and_then(|all| all.get(id));
        if known.map(Vec::as_slice).unwrap_or_default() == waits {
            return;
        }
        let all = self.waits.entry(cluster.clone()).or_default();
        match waits.is_empty() {
            true => drop(all.remove(id)),
            false => drop(all.insert(id.clone(), waits)),
        }
        let all: Vec<HeldPart> = all.values().flatten().cloned().collect();
        self.timeline.note_held(cluster, &all, self.machines.now());
    }

    /// Updates an object in the topologies, and makes its Cluster due.
    fn mirror(&mut self, change: &StoredChange) {
        let StoredChange { id, before, after } = change;
        if id.kind.is_core(Kind::Cluster.name()) {
            if is_new_to_topologies(before.as_deref(), after.as_deref()) {
                self.mirror_cluster(&id.key, after.as_deref());
                self.due.insert(id.key.clone());
            }
            return;
        }
        let facts = self.topologies.facts_mut();
        if let Some(objects) = facts.objects_mut() {
            match (after, before) {
                (Some(after), _) => objects.put(after.clone()),
                (None, Some(before)) => objects.remove(&before.reference()),
                (None, None) => {}
            }
        }
        if let Some(object) = after.as_ref().or(before.as_ref())
            && !is_of_a_machine(object)
            && !is_report(before.as_deref(), after.as_deref())
            && let Some(cluster) = machines::lifecycle::owning_cluster(object)
        {
            self.due.insert(cluster);
        }
    }

    fn mirror_cluster(&mut self, key: &ObjectKey, after: Option<&Object>) {
        // Extensions receive Clusters as they are.
        let is_sent = self.topologies.calls_extensions();
        let facts = self.topologies.facts_mut();
        if let Some(objects) = facts.objects_mut().filter(|_| is_sent) {
            match after {
                Some(after) => objects.put(Arc::new(after.clone())),
                None => objects.remove(&ObjectRef::new(API_VERSION, Kind::Cluster.name(), key.clone())),
            }
        }
        let decoded = after.map(|cluster| Cluster::decode(WireVersion::V1Beta2, &cluster.as_ref().to_string()));
        match decoded {
            Some(Ok(cluster)) => facts.put_cluster(key.clone(), Record::readable(cluster)),
            _ => facts.remove_cluster(key),
        }
    }

    /// Runs the topology of a Cluster (RS-07).
    fn plan(&mut self, cluster: &ObjectKey) {
        self.plans += 1;
        let mut outcome = Rollout::default();
        if !self.permit_deletion(cluster, &mut outcome) {
            return;
        }
        let round = match self.topologies.plan(cluster, &mut outcome) {
            Ok(round) => round,
            Err(failure) => {
                self.conclude(cluster, &outcome, Some(&failure.to_string()));
                self.failures.insert(cluster.clone(), failure.into());
                return;
            }
        };
        let is_being_deleted = self.machines.objects.get(&cluster_id(cluster)).is_some_and(|it| it.is_being_deleted());
        // A deletion blocks everything else; it is an event, and not a wait of the Cluster.
        let held = if is_being_deleted { Vec::new() } else { outcome.held.clone() };
        self.note_waits(cluster, &cluster_id(cluster), held);
        self.held.insert(cluster.clone(), outcome.held.clone());
        let mut failure = round.failure.map(RunError::from);
        for step in &round.steps {
            if let Err(error) = self.carry_out(cluster, step) {
                failure = Some(error);
                break;
            }
        }
        self.conclude(cluster, &outcome, failure.as_ref().map(ToString::to_string).as_deref());
        match failure {
            Some(failure) => self.failures.insert(cluster.clone(), failure),
            None => self.failures.remove(cluster),
        };
    }

    /// Calls the hook that may block the deletion of a Cluster (DEL-01, HK-22); returns whether the deletion continues.
    fn permit_deletion(&mut self, cluster: &ObjectKey, outcome: &mut Rollout) -> bool {
        let id = cluster_id(cluster);
        let Some(known) = self.machines.objects.get(&id).cloned() else { return true };
        if !known.is_being_deleted() || known.annotation(annotation::OK_TO_DELETE).is_some() {
            return true;
        }
        match self.topologies.permits_deletion(cluster) {
            Ok((true, _)) => {
                let mut after = (*known).clone();
                machines::lifecycle::annotate(&mut after, annotation::OK_TO_DELETE, "");
                // It was just read.
                let _ = self.machines.update(None, &known, after);
                true
            }
            Ok((false, hooks)) => {
                let reason = HeldReason::DeletionHooks { message: hooks.message("delete").unwrap_or_default() };
                let held = vec![HeldPart { kind: Kind::Cluster.name().to_owned(), name: cluster.name.clone(), reason }];
                self.note_waits(cluster, &id, held.clone());
                self.held.insert(cluster.clone(), held);
                outcome.tracker.hooks = hooks;
                self.conclude(cluster, outcome, None);
                false
            }
            Err(failure) => {
                self.conclude(cluster, outcome, Some(&failure.to_string()));
                self.failures.insert(cluster.clone(), failure.into());
                false
            }
        }
    }

    fn carry_out(&mut self, cluster: &ObjectKey, step: &PlanStep) -> Result<(), RunError> {
        self.timeline.note_step(cluster, step, self.machines.now());
        if step.part == TopologyPart::Cluster {
            return self.write_cluster(cluster, step);
        }
        let id = ObjectId::new(
            machines::lifecycle::GroupKind::new(step.object.group(), &step.object.kind),
            step.object.key.clone(),
        );
        if step.applied.is_none() {
            self.machines.delete(&id);
            return Ok(());
        }
        self.topologies.write(cluster, step)?;
        self.topologies.admit(step);
        let written = self.topologies.facts().objects().map(|objects| objects.object(&step.object));
        let Some(Found::Yes(written)) = written else { return Err(RunError::NotWritten(step.object.clone())) };
        match self.machines.objects.get(&id).cloned() {
            None => drop(self.machines.create(None, Object::clone(&written))?),
            Some(known) => {
                let mut after = Object::clone(&written);
                if let Some(version) = known.at(paths::metadata::RESOURCE_VERSION).cloned() {
                    machines::lifecycle::set_field(&mut after, paths::metadata::RESOURCE_VERSION, version);
                }
                self.machines.update(None, &known, after)?;
            }
        }
        Ok(())
    }

    /// Writes what a topology decides about its Cluster: labels, annotations and references.
    fn write_cluster(&mut self, cluster: &ObjectKey, step: &PlanStep) -> Result<(), RunError> {
        let id = cluster_id(cluster);
        let (Some(sent), Some(known)) = (&step.applied, self.machines.objects.get(&id).cloned()) else { return Ok(()) };
        let mut after = (*known).clone();
        for part in [
            paths::metadata::LABELS,
            paths::metadata::ANNOTATIONS,
            paths::INFRASTRUCTURE_REF,
            paths::cluster::CONTROL_PLANE_REF,
        ] {
            machines::lifecycle::set_field(&mut after, part, sent.at(part).cloned().unwrap_or(Value::Null));
        }
        Ok(self.machines.update(None, &known, after)?)
    }

    /// Writes the status of a Cluster after a run (ST-01).
    fn conclude(&mut self, key: &ObjectKey, outcome: &Rollout, error: Option<&str>) {
        let Found::Yes(cluster) = self.topologies.facts().cluster(key) else { return };
        let class = cluster.class_key().map(|class| self.topologies.facts().class(&class));
        let class = match class {
            Some(Found::Yes(class)) => Some(class),
            _ => None,
        };
        let id = cluster_id(key);
        let Some(known) = self.machines.objects.get(&id).cloned() else { return };
        let class = class.as_deref().map(|class| &**class);
        let run = status::ReconcileOutcome {
            cluster: &cluster,
            class,
            tracker: &outcome.tracker,
            error,
            is_too_large: matches!(outcome.failure, Some(Failure::TooLarge(_))),
            guard: DeletionGuard::default(),
        };
        let now = Moment { nanos: 0, ..self.machines.now() }.to_string();
        let status = status::reconciled(Object::as_ref(&known), &run, &now);
        let mut after = (*known).clone();
        machines::lifecycle::set_field(&mut after, "status", status);
        // It was just read.
        let _ = self.machines.update(None, &known, after);
    }

    /// The end of a run, with the Clusters that did not converge.
    fn end(&self) -> End {
        let clusters = self.topologies.facts().cluster_keys();
        let stuck: BTreeMap<ObjectKey, StuckReason> =
            clusters.filter_map(|key| Some((key.clone(), self.why_stuck(key)?))).collect();
        if stuck.is_empty() { End::Converged } else { End::Stuck(stuck) }
    }

    /// Whether the last computation of the topology of a Cluster succeeded.
    pub fn is_computed(&self, key: &ObjectKey) -> bool {
        !self.failures.contains_key(key)
    }
}

/// Registers the contracts of a definition, and of the kind cloned from it.
fn define(machines: &mut Machines, objects: &ObjectSet, object: &Object) {
    let kind = object.kind();
    for kind in [Some(kind), cloned_kind(kind)].into_iter().flatten() {
        let name = definition_name(object.group(), kind);
        if let Found::Yes(definition) = objects.definition(&name)
            && names_contracts(&definition.labels)
        {
            machines.define(name, definition.labels.clone());
        }
    }
}

fn cluster_id(key: &ObjectKey) -> ObjectId {
    ObjectId::core(Kind::Cluster.name(), &key.namespace, &key.name)
}

/// Whether a Cluster has changed in fields that topologies read: of its status, only two conditions.
fn is_new_to_topologies(before: Option<&Object>, after: Option<&Object>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return true };
    let of_metadata = ["labels", "annotations", "deletionTimestamp", "finalizers", "ownerReferences", "uid"];
    let is_same = |path: &str| before.at(path) == after.at(path);
    let changes = |name: &str| conditions::status(before, name) != conditions::status(after, name);
    let is_same_metadata = of_metadata.iter().all(|name| is_same(&format!("metadata.{name}")));
    !is_same("spec") || !is_same_metadata || ["TopologyReconciled", "ControlPlaneInitialized"].into_iter().any(changes)
}

/// Whether an object is a Machine, has machines, or is a part of one. Topologies do not wait for these: their machine
/// deployment or control plane changes as well.
fn is_of_a_machine(object: &Object) -> bool {
    const KINDS: [&str; 2] = ["Machine", "MachineSet"];
    let is_one = |group: &str, kind: &str| group == GROUP && KINDS.contains(&kind);
    let mut owners = object.owner_references().iter();
    let text = |owner: &Value, name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    is_one(object.group(), object.kind())
        || owners.any(|owner| is_one(group_of(&text(owner, "apiVersion")), &text(owner, "kind")))
}

/// Whether an object has changed only in fields that topologies do not read: in conditions, or, for a health check, in
/// the status.
fn is_report(before: Option<&Object>, after: Option<&Object>) -> bool {
    let is_check = |object: &Object| GroupKind::for_object(object).is_core("MachineHealthCheck");
    before.zip(after).is_some_and(|(before, after)| match is_check(after) {
        true => differ_in_status_alone(before, after),
        false => differ_in_conditions_alone(before, after),
    })
}

/// A class with a name only.
fn named_class(key: &ObjectKey) -> Object {
    let class = json!({
        "apiVersion": API_VERSION, "kind": Kind::ClusterClass.name(),
        "metadata": {"namespace": key.namespace, "name": key.name},
    });
    Object::try_from(class).unwrap_or_default()
}

/// Sets `value` at a path; maps of strings are merged with existing ones.
fn merge(object: &mut Object, path: &str, value: Value) {
    let merged = match (object.at(path).cloned(), value) {
        (Some(Value::Object(mut known)), Value::Object(new)) if path.starts_with("metadata.") => {
            known.extend(new);
            Value::Object(known)
        }
        (Some(known), Value::Null) if path.starts_with("metadata.") => known,
        (_, value) => value,
    };
    machines::lifecycle::set_field(object, path, merged);
}

#[cfg(test)]
#[path = "counts/tests.rs"]
mod counts;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topologies_see_changes_of_what_they_read_and_no_others() {
        let cluster = |version: &str, phase: &str, condition: &str| {
            let cluster = json!({
                "apiVersion": API_VERSION, "kind": "Cluster", "metadata": {"namespace": "default", "name": "blue"},
                "spec": {"topology": {"version": version}},
                "status": {"phase": phase, "conditions": [
                    {"type": "ControlPlaneInitialized", "status": condition}, {"type": "Available", "status": phase},
                ]},
            });
            Object::try_from(cluster).unwrap()
        };
        let before = cluster("v1.33.0", "Pending", "False");
        for (case, after, want) in [
            ("the same", cluster("v1.33.0", "Pending", "False"), false),
            ("another phase", cluster("v1.33.0", "Provisioned", "False"), false),
            ("another version", cluster("v1.34.0", "Pending", "False"), true),
            ("initialized", cluster("v1.33.0", "Pending", "True"), true),
        ] {
            assert_eq!(is_new_to_topologies(Some(&before), Some(&after)), want, "{case}");
        }
        assert!(is_new_to_topologies(Some(&before), None) && is_new_to_topologies(None, Some(&before)));
    }
}

//! Executes plans on facts only: it computes the world after a rollout, with providers that finish at once (DEC-41).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::ready;
use std::sync::Arc;

use futures::FutureExt;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::defaults::default_strategies;
use super::difference::{merged, owners, schema};
use super::in_place::{mark, updater};
use super::rolls::{default_replicas, defaulted, notes, owner, rolls};
use super::{Action, Applied, Change, Part, Plan, Roll, Sent, Step, postponed};
use crate::hub::{Cluster, Object, ObjectKey, ObjectRef, annotation, label};
use crate::json::StringMap;
use crate::rollouts::Owner;
use crate::ssa;
use crate::topology::hooks::{Deletion, HookTracker, Hooks};
use crate::topology::names::Derived;
use crate::topology::patches::Trace;
use crate::topology::refusals::{Checks, Subject, completed_in, definition_of};
use crate::topology::upgrade::{Held, Tracker};
use crate::topology::worker::{API_VERSION, WorkerKind};
use crate::topology::{Computation, Failure, Options};
use crate::world::{
    Answer, Ask, DryRun, DryRunCall, Facts, Found, HookAnswer, HookCall, Need, PatchAnswer, PatchCall, PlanCall,
    Record, Selection, UpgradePlan, World, settle,
};

/// Number of plans after which a rollout that still has steps fails.
const ROUNDS: usize = 2_000;
/// How often one slot may be rotated while versions do not change (DEC-35).
const ROTATIONS: usize = 3;

/// A server that makes dry runs of changes to its objects (DEC-43).
pub trait DryRunServer: fmt::Debug + Send + Sync {
    /// The answers to all calls, each with its call. An answer is absent if the server must not be called; the result is then assumed.
    fn answers(&self, calls: Vec<DryRunCall>) -> Vec<(DryRunCall, Found<DryRun>)>;
}

/// What calls extensions. Equal calls have equal answers.
pub trait ExtensionServer: fmt::Debug + Send + Sync {
    /// The answer to the call of a patch; absent if the extension cannot be called, and the plan is then incomplete.
    fn patch(&self, call: &PatchCall) -> Found<PatchAnswer>;

    /// The plan of an upgrade.
    fn upgrade_plan(&self, call: &PlanCall) -> Found<UpgradePlan>;

    /// What all handlers of a lifecycle hook say together; absent if none is called, and the hook then passes.
    fn hook(&self, call: &HookCall) -> Found<HookAnswer>;
}

/// A world in which plans are executed.
#[derive(Clone, Debug)]
pub struct Fold {
    facts: Facts,
    applied: Applied,
    options: Options,
    /// The current time, for changes at a given time; `None` is before all of them.
    now: Option<Timestamp>,
    /// The server for dry runs of objects in a running cluster.
    server: Option<Arc<dyn DryRunServer>>,
    /// What calls the extensions of patches, if they can be called.
    extensions: Option<Arc<dyn ExtensionServer>>,
}

/// One plan of a rollout, and its effect on machines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    pub steps: Vec<Step>,
    pub rolls: Vec<Roll>,
    /// Why the rollout stops after these steps.
    pub failure: Option<Failure>,
}

/// A whole rollout.
#[derive(Debug, Default)]
pub struct Rollout {
    pub rounds: Vec<Round>,
    /// The objects that still wait when no step is left.
    pub held: Vec<Held>,
    /// The machines that are not replaced because their owner is paused. At the end they are added to `held`.
    paused: Vec<Held>,
    /// What the patches did and did not do, the last time.
    pub trace: Trace,
    pub warnings: Vec<String>,
    /// Notes about the steps for the reader of a plan.
    pub notes: Vec<String>,
    pub assumes_contract: bool,
    /// What the last plan found out about versions and hooks.
    pub tracker: Tracker,
    /// What schemas of definitions refuse of the objects that are written.
    pub checks: Checks,
    /// Why the rollout ended before it was complete.
    pub failure: Option<Failure>,
}

impl Rollout {
    fn ended_by(self, failure: Failure) -> Self {
        Rollout { failure: Some(failure), ..self }
    }
}

impl Fold {
    /// A world with these facts, which must be complete.
    pub fn new(facts: Facts, options: Options) -> Self {
        Fold { facts, applied: Applied::default(), options, now: None, server: None, extensions: None }
    }

    /// The same world at this time.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        Fold { now: Some(now), ..self }
    }

    /// The same world, with dry runs on this server for the objects that it has.
    #[must_use]
    pub fn with_server(self, server: Arc<dyn DryRunServer>) -> Self {
        Fold { server: Some(server), ..self }
    }

    /// The same world, with calls of the extensions of patches.
    #[must_use]
    pub fn with_extensions(self, extensions: Arc<dyn ExtensionServer>) -> Self {
        Fold { extensions: Some(extensions), ..self }
    }

    /// Whether extensions are called. They are sent Clusters, which are among the objects then.
    pub fn calls_extensions(&self) -> bool {
        self.extensions.is_some()
    }

    /// The facts as they are now.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The facts, to change them as users would.
    pub fn facts_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }

    /// Takes over the objects that a Cluster has after the rollout in `before`. The topology in this fold may differ.
    pub fn take_over(&mut self, cluster: &ObjectKey, before: &Fold) {
        if let (Some(from), Some(into)) = (before.facts.objects(), self.facts.objects_mut()) {
            into.take_over(cluster, from);
        }
        self.applied = before.applied.clone();
        let (Found::Yes(old), Found::Yes(new)) = (before.facts.cluster(cluster), self.facts.cluster(cluster)) else {
            return;
        };
        let mut merged = Cluster::clone(&new);
        merged.metadata.uid.clone_from(&old.metadata.uid);
        merged.spec.infrastructure_ref.clone_from(&old.spec.infrastructure_ref);
        merged.spec.control_plane_ref.clone_from(&old.spec.control_plane_ref);
        let mut labels = merged.metadata.labels.to_map();
        for name in [label::CLUSTER_NAME, label::OWNED] {
            labels.extend(old.metadata.labels.get(name).map(|value| (name.to_owned(), value.to_owned())));
        }
        merged.metadata.labels = labels.into();
        self.facts.put_cluster(cluster.clone(), Record::readable(merged));
    }

    /// The desired state of a Cluster's topology for the current objects.
    ///
    /// # Errors
    /// See [`Computation::of`].
    pub fn compute(&self, cluster: &ObjectKey) -> Result<Computation, Failure> {
        self.settled(|world| match world.cluster(cluster) {
            Found::Yes(found) => Computation::of(&found, world, &mut Derived, &self.options),
            Found::Unreadable(reason) => Err(Failure::Unreadable(reason)),
            Found::Absent | Found::NotAsked => Err(Failure::NoCluster(cluster.clone())),
        })
    }

    /// Calls the hook that may block the deletion of a Cluster (HK-22); passes if no extension is called. A hook that blocks is in the
    /// tracker.
    ///
    /// # Errors
    /// When an extension fails, or the Cluster cannot be read.
    pub fn permits_deletion(&self, cluster: &ObjectKey) -> Result<(bool, HookTracker), Failure> {
        self.settled(|world| match world.cluster(cluster) {
            Found::Yes(found) => {
                let mut tracker = HookTracker::of(&found);
                if found.topology().is_none() {
                    return Ok((true, tracker));
                }
                let deletion = Hooks::new(&found, world, &self.options).before_cluster_delete(&mut tracker)?;
                Ok((deletion != Deletion::Blocked, tracker))
            }
            Found::Unreadable(reason) => Err(Failure::Unreadable(reason)),
            Found::Absent | Found::NotAsked => Err(Failure::NoCluster(cluster.clone())),
        })
    }

    /// Rolls a Cluster out, unless it already refers to its objects. Then the objects do not change, and their desired fields are
    /// recorded (DEC-43).
    pub fn settle(&mut self, cluster: &ObjectKey) -> Rollout {
        match self.facts.cluster(cluster) {
            Found::Yes(found) if found.spec.infrastructure_ref.is_defined() => {
                let noted = self.compute(cluster).and_then(|computation| self.applied.note(computation));
                Rollout { failure: noted.err(), ..Rollout::default() }
            }
            // A new topology needs only one plan: everything gets the version of the topology at once.
            _ => self.roll_out_within(cluster, 1),
        }
    }

    /// All objects of the topology of a Cluster, by group, kind and name.
    pub fn objects_of(&self, cluster: &ObjectKey) -> Vec<Arc<Object>> {
        let Some(objects) = self.facts.objects() else { return Vec::new() };
        objects.of_cluster(cluster).filter(|object| object.label(label::OWNED).is_some()).cloned().collect()
    }

    /// Plans and executes the plan, until no step is left.
    pub fn roll_out(&mut self, cluster: &ObjectKey) -> Rollout {
        let mut outcome = self.roll_out_within(cluster, ROUNDS);
        if outcome.rounds.len() == ROUNDS {
            outcome.failure = Some(Failure::Endless { cluster: cluster.clone(), rounds: ROUNDS });
        }
        postponed::merge(&mut outcome.rounds);
        outcome
    }

    /// Plans and executes the plan, at most `rounds` times.
    fn roll_out_within(&mut self, cluster: &ObjectKey, rounds: usize) -> Rollout {
        let mut outcome = Rollout::default();
        let mut rotations: BTreeMap<Part, usize> = BTreeMap::new();
        for _ in 0..rounds {
            let mut round = match self.plan(cluster, &mut outcome) {
                Ok(round) => round,
                Err(failure) => return outcome.ended_by(failure),
            };
            let failure = round.failure.take();
            if round.steps.is_empty() && failure.is_none() {
                outcome.held.append(&mut outcome.paused);
                return outcome;
            }
            if let Some(fighting) = rotates_for_ever(&round.steps, &mut rotations) {
                return outcome.ended_by(fighting);
            }
            if let Err(failure) = round.steps.iter().try_for_each(|step| self.carry_out(cluster, step)) {
                return outcome.ended_by(failure);
            }
            outcome.rounds.push(round);
            if let Some(failure) = failure {
                return outcome.ended_by(failure);
            }
        }
        outcome
    }

    fn carry_out(&mut self, cluster: &ObjectKey, step: &Step) -> Result<(), Failure> {
        self.write(cluster, step)?;
        self.answer(step);
        Ok(())
    }

    /// One plan for a Cluster with the current facts.
    ///
    /// # Errors
    /// When the desired state cannot be computed.
    pub fn plan(&self, cluster: &ObjectKey, outcome: &mut Rollout) -> Result<Round, Failure> {
        self.settled(|world| self.planned(cluster, world, outcome))
    }

    /// Computes until every dry run and every call of an extension has its answer.
    fn settled<T>(&self, mut compute: impl FnMut(&World) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut world = World::new(Arc::new(self.facts.clone()));
        if self.server.is_some() {
            world = world.with_dry_runs();
        }
        if self.calls_extensions() {
            world = world.with_extensions();
        }
        let compute = |world: World, ()| {
            ready(match compute(&world) {
                // A failure because of a missing answer is computed again with the answer.
                Err(failure) if !world.has_needs() => Err(failure),
                computed => Ok((computed, world, ())),
            })
        };
        let gather = |needs: BTreeSet<Need>| ready(Ok(self.gathered(needs)));
        let settled = settle(world, (), compute, gather).now_or_never();
        settled.ok_or(Failure::NotAsked)??.0
    }

    /// The answers to needs: dry runs come from the server, patches, plans and hooks from extensions, everything else from the facts.
    fn gathered(&self, needs: BTreeSet<Need>) -> Vec<(Need, Answer)> {
        let (mut calls, mut answers) = (Vec::new(), Vec::new());
        for need in needs {
            match (need, &self.extensions) {
                (Need::DryRun(call), _) => calls.push(call),
                (Need::Patch(call), Some(extensions)) => {
                    let answer = call.answer(extensions.patch(&call));
                    answers.push((call.need(), answer));
                }
                (Need::GenerateUpgradePlan(call), Some(extensions)) => {
                    let answer = call.answer(extensions.upgrade_plan(&call));
                    answers.push((call.need(), answer));
                }
                (Need::Hook(call), Some(extensions)) => {
                    let answer = call.answer(extensions.hook(&call));
                    answers.push((call.need(), answer));
                }
                (need, _) => answers.push((need.clone(), self.facts.answer(&need))),
            }
        }
        let made = self.server.iter().flat_map(|server| server.answers(std::mem::take(&mut calls)));
        answers.extend(made.map(|(call, found)| (call.need(), call.answer(found))));
        answers
    }

    fn planned(&self, cluster: &ObjectKey, world: &World, outcome: &mut Rollout) -> Result<Round, Failure> {
        let found = match world.cluster(cluster) {
            Found::Yes(found) => found,
            Found::Unreadable(reason) => return Err(Failure::Unreadable(reason)),
            Found::Absent | Found::NotAsked => return Ok(Round::default()),
        };
        if let Some(held) = held_as_a_whole(&found) {
            outcome.held = vec![held];
            outcome.held.extend(self.held_machines(cluster, &found));
            return Ok(Round::default());
        }
        let computation = Computation::of(&found, world, &mut Derived, &self.options)?;
        let Plan { mut steps, held, failure, .. } = Plan::of(&computation, world, &self.applied, &mut Derived)?;
        if self.server.is_some() && world.has_needs() {
            return Err(Failure::NotAsked);
        }
        let Computation { observed, trace, warnings, assumes_contract, tracker, .. } = computation;
        outcome.tracker = tracker;
        (outcome.trace, outcome.warnings, outcome.assumes_contract) = (trace, warnings, assumes_contract);
        default_replicas(&mut steps);
        default_strategies(&mut steps);
        self.check(&steps, &observed.blueprint.class.metadata.key(), world, &mut outcome.checks);
        let (mut rolls, paused, of_certificates) = rolls(&steps, &observed.current, world, self.now);
        if let Some(updater) = self.facts.objects().and_then(updater) {
            mark(&mut rolls, &updater);
        }
        outcome.held = held;
        outcome.paused.extend(paused);
        outcome.notes.extend(notes(&steps).chain(of_certificates));
        Ok(Round { steps, rolls, failure })
    }

    /// Checks what steps write against the schemas of definitions.
    fn check(&self, steps: &[Step], class: &ObjectKey, world: &World, checks: &mut Checks) {
        for step in steps.iter().filter(|step| step.part != Part::Cluster) {
            let Some(sent) = &step.sent else { continue };
            let (merged, slot) = (self.merged(&step.object, sent), step.part.to_string());
            let (object, refused) = match &merged {
                Ok(object) => (object, None),
                Err(failure) => (&**sent, Some(failure.to_string())),
            };
            let subject = Subject { slot: &slot, sent, merged: object, origins: &step.origins, class };
            checks.add(subject, world, refused);
        }
    }

    /// The machines that would be replaced if a Cluster were not paused (ROLL-18).
    fn held_machines(&self, key: &ObjectKey, cluster: &Cluster) -> Vec<Held> {
        if cluster.metadata.is_being_deleted() {
            return Vec::new();
        }
        let mut awake = self.clone();
        let mut cluster = cluster.clone();
        cluster.spec.paused = None;
        let mut annotations = cluster.metadata.annotations.to_map();
        annotations.remove(annotation::PAUSED);
        cluster.metadata.annotations = annotations.into();
        awake.facts.put_cluster(key.clone(), Record::readable(cluster));
        let rolls = awake.roll_out(key).rounds.into_iter().flat_map(|round| round.rolls);
        rolls.filter_map(|mut roll| roll.hold("its Cluster is paused")).collect()
    }

    /// Writes the object of a step, as a server would: an existing object of the name is taken over, fields of other managers stay,
    /// and `managedFields` are updated (RS-13, DEC-36, DEC-43).
    ///
    /// # Errors
    /// When the object cannot be applied.
    pub fn write(&mut self, cluster: &ObjectKey, step: &Step) -> Result<(), Failure> {
        let Some(sent) = &step.sent else {
            self.delete(step);
            return Ok(());
        };
        if step.part == Part::Cluster {
            self.apply_to_cluster(cluster, sent);
            return Ok(());
        }
        let world = World::new(Arc::new(self.facts.clone()));
        let mut object = completed_in(&world, self.applied_to(&step.object, sent)?);
        // A server would set a new one. Earlier dry runs of the object are not valid any more.
        object.remove("metadata.resourceVersion");
        if object.uid().is_empty() {
            object.set("metadata.uid", json!(uid(step.object.group(), &step.object.kind, &step.object.key)))?;
        }
        let (sent, origins) = (sent.clone(), step.origins.clone());
        self.applied.put(&step.object, Sent { object: sent, origins, is_rolled_out: true });
        if let Some(objects) = self.facts.objects_mut() {
            objects.put(Arc::new(object));
        }
        Ok(())
    }

    /// The result of applying `sent` to the object of that name, if it exists. What a schema refuses has been said, and is applied
    /// all the same: machines are counted as if it were corrected.
    fn applied_to(&self, reference: &ObjectRef, sent: &Object) -> Result<Object, Failure> {
        let world = World::new(Arc::new(self.facts.clone()));
        let merged = self.merged(reference, sent);
        match merged {
            Err(Failure::Unreadable(_)) if definition_of(sent, &world).is_some() => {
                self.merged_by(reference, sent, &world, &ssa::Schema::unknown())
            }
            merged => merged,
        }
    }

    fn merged(&self, reference: &ObjectRef, sent: &Object) -> Result<Object, Failure> {
        let world = World::new(Arc::new(self.facts.clone()));
        let before = world.object(reference);
        let live = if let Found::Yes(live) = &before { Some(&**live) } else { None };
        self.merged_by(reference, sent, &world, &schema(&world, sent, live)?)
    }

    fn merged_by(
        &self,
        reference: &ObjectRef,
        sent: &Object,
        world: &World,
        schema: &ssa::Schema,
    ) -> Result<Object, Failure> {
        let before = world.object(reference);
        let (live, managers) = match &before {
            Found::Yes(live) => (Some(live), owners(live, self.applied.get(reference), sent, schema)?),
            _ => (None, Vec::new()),
        };
        merged(live.map(|live| Object::as_ref(live)), &managers, sent, schema)
            .map_err(|reason| Failure::Unreadable(format!("{reference} cannot be applied: {reason}")))
    }

    /// Does at once the work of the provider and the machine controllers that follows a step.
    pub(super) fn answer(&mut self, step: &Step) {
        let Some(owner) = owner(&step.part, &step.object.kind) else { return };
        let Some(Found::Yes(written)) = self.facts.objects().map(|objects| objects.object(&step.object)) else {
            return;
        };
        let mut object = Object::clone(&written);
        keep_replicas(&mut object, owner, step);
        if owner == Owner::MachineDeployment {
            complete_strategy(&mut object);
            self.replace_machines(&written);
        }
        provide(&mut object, step);
        if let Some(objects) = self.facts.objects_mut() {
            objects.put(Arc::new(object));
        }
    }

    /// Adds what admission adds to the written object of a step: replicas and strategy (MA-28.2, MA-28.3).
    pub fn admit(&mut self, step: &Step) {
        let owner = owner(&step.part, &step.object.kind);
        let Some(owner) = owner.filter(|owner| matches!(owner, Owner::MachineDeployment | Owner::MachinePool)) else {
            return;
        };
        let Some(Found::Yes(written)) = self.facts.objects().map(|objects| objects.object(&step.object)) else {
            return;
        };
        let mut object = Object::clone(&written);
        if object.at("spec.replicas").is_none()
            && let Some(replicas) = defaulted(owner, &object, had_replicas(step))
        {
            // `spec` holds other fields.
            let _ = object.set("spec.replicas", replicas.into());
        }
        if owner == Owner::MachineDeployment {
            complete_strategy(&mut object);
        }
        if let Some(objects) = self.facts.objects_mut() {
            objects.put(Arc::new(object));
        }
    }

    fn delete(&mut self, step: &Step) {
        self.applied.remove(&step.object);
        if let Some(objects) = self.facts.objects_mut() {
            objects.remove(&step.object);
        }
    }

    /// The Cluster with the labels, annotations and references that the engine decided on.
    fn apply_to_cluster(&mut self, key: &ObjectKey, patch: &Object) {
        let Found::Yes(found) = self.facts.cluster(key) else { return };
        let mut cluster = Cluster::clone(&found);
        let texts = |path: &str| StringMap::from(patch.texts(path).unwrap_or_default());
        cluster.metadata.labels = texts("metadata.labels");
        cluster.metadata.annotations = texts("metadata.annotations");
        let reference = |path: &'static str| crate::topology::field_path::contract_ref(patch, path).ok();
        cluster.spec.infrastructure_ref = reference("spec.infrastructureRef").unwrap_or_default();
        cluster.spec.control_plane_ref = reference("spec.controlPlaneRef").unwrap_or_default();
        self.facts.put_cluster(key.clone(), Record::readable(cluster));
    }

    /// Replaces the machines of a machine deployment, so that they match it.
    fn replace_machines(&mut self, deployment: &Object) {
        let version = deployment.at("spec.template.spec.version").cloned();
        let (Some(version), Ok(labels)) = (version, deployment.texts("spec.selector.matchLabels")) else { return };
        if !labels.contains_key(label::CLUSTER_NAME) {
            return;
        }
        let Some(objects) = self.facts.objects_mut() else { return };
        let machines = objects.list(&Selection {
            api_version: API_VERSION.to_owned(),
            kind: "Machine".to_owned(),
            namespace: deployment.namespace().to_owned(),
            labels,
        });
        for machine in machines {
            let mut machine = Object::clone(&machine);
            let is_set = machine.set("spec.version", version.clone()).is_ok();
            if machine.at("status.nodeInfo.kubeletVersion").is_some() {
                let _ = machine.set("status.nodeInfo.kubeletVersion", version.clone());
            }
            if is_set {
                objects.put(Arc::new(machine));
            }
        }
    }
}

/// The failure of a rollout that rotates one slot again and again although no version changes.
fn rotates_for_ever(steps: &[Step], rotations: &mut BTreeMap<Part, usize>) -> Option<Failure> {
    if steps.iter().any(|step| step.changes.iter().any(Change::is_version)) {
        rotations.clear();
    }
    for step in steps.iter().filter(|step| step.action == Action::Rotate) {
        let times = rotations.entry(step.part.clone()).or_default();
        *times += 1;
        if *times > ROTATIONS {
            let path = step.changes.first().map(|change| change.path.clone()).unwrap_or_default();
            return Some(Failure::Fighting { object: step.object.clone().into(), path });
        }
    }
    None
}

/// Why a whole Cluster is skipped (RS-05).
fn held_as_a_whole(cluster: &Cluster) -> Option<Held> {
    let reason = match () {
        () if cluster.spec.paused == Some(true) => "spec.paused is true".to_owned(),
        () if cluster.pause_annotation().is_some() => {
            format!("it has the annotation {}", annotation::PAUSED)
        }
        () if cluster.metadata.is_being_deleted() => "it is being deleted".to_owned(),
        () => return None,
    };
    Some(Held { kind: "Cluster".to_owned(), name: cluster.metadata.name.clone(), reason })
}

/// The number of replicas that a step changes.
fn had_replicas(step: &Step) -> Option<i64> {
    let change = step.changes.iter().find(|change| change.path == "spec.replicas")?;
    change.from.as_ref()?.as_i64()
}

/// Sets the default of admission for replicas that were removed (ROLL-13).
fn keep_replicas(object: &mut Object, owner: Owner, step: &Step) {
    let Some(had) = had_replicas(step) else { return };
    if object.at("spec.replicas").is_none()
        && let Some(replicas) = defaulted(owner, object, Some(had))
    {
        // `spec` holds other fields.
        let _ = object.set("spec.replicas", replicas.into());
    }
}

/// Sets the default strategy of admission in a machine deployment (MA-28.2.3).
fn complete_strategy(object: &mut Object) {
    const TYPE: &str = "spec.rollout.strategy.type";
    let kind = object.at(TYPE).and_then(Value::as_str).unwrap_or("RollingUpdate").to_owned();
    let mut fill = |path: &str, value: Value| {
        if object.at(path).is_none() {
            // `spec` holds other fields, and those on the way are objects where they are at all.
            let _ = object.set(path, value);
        }
    };
    if kind == "RollingUpdate" {
        fill(TYPE, kind.into());
        fill("spec.rollout.strategy.rollingUpdate.maxSurge", 1.into());
        fill("spec.rollout.strategy.rollingUpdate.maxUnavailable", 0.into());
    }
}

/// Sets the status fields that a provider sets when it is done.
fn provide(object: &mut Object, step: &Step) {
    match &step.part {
        Part::ControlPlane => {
            let version = object.at("spec.version").cloned();
            object.remove("status.versions");
            if let Some(version) = version {
                let _ = object.set("status.version", version);
            }
        }
        Part::Worker(WorkerKind::MachinePool, _) => {
            object.remove("status.nodeRefs");
        }
        _ => {}
    }
}

/// A uid that is computed from group, kind and name.
pub fn uid(group: &str, kind: &str, key: &ObjectKey) -> String {
    let text = format!("{group}/{kind}/{key}");
    let hash =
        |seed: u64| text.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let (a, b) = (hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15));
    // Version 8 of RFC 9562: its content is implementation-specific.
    format!(
        "{:08x}-{:04x}-8{:03x}-a{:03x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        b >> 52,
        b & 0xffff_ffff_ffff
    )
}

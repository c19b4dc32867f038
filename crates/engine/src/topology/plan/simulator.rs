//! Executes plans on facts: computes the world after a rollout, with providers that finish immediately (DEC-41).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::ready;
use std::sync::Arc;

use futures::FutureExt;

use jiff::Timestamp;

use super::defaults::default_strategies;
use super::in_place_updates::{mark, updater};
use super::rolls::{default_replicas, notes, rolls};
use super::{AppliedState, ChangedField, Plan, PlanStep, Roll, StepAction, TopologyPart, postponed_replacements};
use crate::topology::holds::{HeldPart, HeldReason, PausedBy};
use crate::topology::hooks::{Deletion, HookCaller, HookTracker};
use crate::topology::name_independence::is_name_independent;
use crate::topology::patches::Trace;
use crate::topology::refusals::{CheckedObject, Checks, has_schema};
use crate::topology::upgrade::Tracker;
use crate::topology::{Computation, Failure, Interrupted, ObservedState, Options};
use golang::fnv;
use golang::json::Weight;
use model::hub::names::DeterministicNames;
use model::hub::{Cluster, GROUP, Hook, Kind, Object, ObjectKey, SharedValues, annotation, label};
use model::world::{
    Answer, Ask, DryRun, DryRunCall, Facts, Found, HookAnswer, HookCall, Need, PatchAnswer, PatchCall, PlanCall,
    PlannedVersions, Record, World, settle,
};
use schema::budget::{SharedLease, Stop};

/// Number of plans after which a rollout that still has steps fails.
const ROUNDS: usize = 2_000;
/// Maximum rotations of one slot while versions do not change (DEC-35).
const ROTATIONS: usize = 3;

/// A server for dry runs of changes to its objects (DEC-43).
pub trait DryRunServer: fmt::Debug + Send + Sync {
    /// The answers to all calls, each with its call. An answer is absent if the server must not be called; the result
    /// is then assumed.
    fn answers(&self, calls: Vec<DryRunCall>) -> Vec<(DryRunCall, Found<DryRun>)>;
}

/// A caller of extensions. Equal calls have equal answers.
pub trait ExtensionServer: fmt::Debug + Send + Sync {
    /// The answer to the call of a patch; absent if the extension cannot be called, and the plan is then incomplete.
    fn patch(&self, call: &PatchCall) -> Found<PatchAnswer>;

    /// The plan of an upgrade.
    fn upgrade_plan(&self, call: &PlanCall) -> Found<PlannedVersions>;

    /// The combined answer of all handlers of a lifecycle hook; absent if none is called, so that the hook passes.
    fn hook(&self, call: &HookCall) -> Found<HookAnswer>;
}

/// A world in which plans are executed.
#[derive(Clone, Debug)]
pub struct TopologySimulator {
    pub(super) facts: Facts,
    pub(super) applied: AppliedState,
    pub(super) options: Options,
    /// The current time, for changes at a given time; `None` is before all of them.
    now: Option<Timestamp>,
    /// The server for dry runs of objects in a running cluster.
    server: Option<Arc<dyn DryRunServer>>,
    /// The caller of patch extensions, if they can be called.
    pub(super) extensions: Option<Arc<dyn ExtensionServer>>,
    /// The deadline, at which an incomplete rollout ends.
    stop: Stop,
    lease: SharedLease,
    /// Whether the objects that it writes have no `managedFields`.
    pub(super) omits_managed_fields: bool,
    /// Slots whose objects it has written.
    pub(super) shared: SharedValues,
    /// Whether every step of an upgrade has a separate plan, for comparisons in tests.
    #[cfg(test)]
    pub(super) is_one_by_one: bool,
}

/// One plan of a rollout, and its effect on machines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    pub steps: Vec<PlanStep>,
    pub rolls: Vec<Roll>,
    /// Why the rollout stops after these steps.
    pub failure: Option<Failure>,
}

/// A whole rollout.
#[derive(Debug, Default)]
pub struct Rollout {
    pub rounds: Vec<Round>,
    /// The objects that still wait when no step is left.
    pub held: Vec<HeldPart>,
    /// The machines that are not replaced because their owner is paused. At the end they are added to `held`.
    paused: Vec<HeldPart>,
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
    /// The weight of all objects that its plans write.
    written: Weight,
    /// Whether no step is left after those of the latest plan.
    is_done_after_plan: bool,
    /// Why the rollout ended before it was complete.
    pub failure: Option<Failure>,
}

/// How often each slot was rotated while versions did not change.
pub(super) type RotationCounts = BTreeMap<TopologyPart, usize>;

/// The steps of a plan, and what they follow from.
struct PlannedSteps {
    steps: Vec<PlanStep>,
    observed: Arc<ObservedState>,
    /// Why the plan stops after them.
    failure: Option<Failure>,
}

impl Rollout {
    fn ended_by(self, failure: Failure) -> Self {
        Rollout { failure: Some(failure), ..self }
    }
}

impl TopologySimulator {
    /// A world with these facts, which must be complete.
    pub fn new(facts: Facts, options: Options) -> Self {
        let applied = AppliedState::default();
        TopologySimulator {
            facts,
            applied,
            options,
            now: None,
            server: None,
            extensions: None,
            stop: Stop::never(),
            lease: SharedLease::default(),
            omits_managed_fields: false,
            shared: SharedValues::default(),
            #[cfg(test)]
            is_one_by_one: false,
        }
    }

    /// The same world at this time.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        TopologySimulator { now: Some(now), ..self }
    }

    /// The same world, with dry runs on this server for the objects that it has.
    #[must_use]
    pub fn with_server(self, server: Arc<dyn DryRunServer>) -> Self {
        TopologySimulator { server: Some(server), ..self }
    }

    /// The same world, with calls of the extensions of patches.
    #[must_use]
    pub fn with_extensions(self, extensions: Arc<dyn ExtensionServer>) -> Self {
        TopologySimulator { extensions: Some(extensions), ..self }
    }

    /// The same world, in which computations end when `stop` is due.
    #[must_use]
    pub fn until(self, stop: Stop) -> Self {
        TopologySimulator { stop, ..self }
    }

    /// The same world, whose computations take more memory from `lease` if they need it.
    #[must_use]
    pub fn leasing(self, lease: SharedLease) -> Self {
        TopologySimulator { lease, ..self }
    }

    /// The same world, whose objects are written by topologies alone: the fields of each are those that were applied
    /// (DEC-43), so `managedFields` are not needed. An object that has some already keeps and updates them.
    #[must_use]
    pub fn without_managed_fields(self) -> Self {
        TopologySimulator { omits_managed_fields: true, ..self }
    }

    /// Whether only the simulator writes objects of a Cluster: it has none yet, and there is no server.
    pub fn is_only_writer(&self, cluster: &ObjectKey) -> bool {
        let is_other = |object: &Arc<Object>| (object.group(), object.kind()) != (GROUP, Kind::Cluster.name());
        let mut objects = self.facts.objects().into_iter().flat_map(|objects| objects.of_cluster(cluster));
        self.server.is_none() && !objects.any(is_other)
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
    pub fn take_over(&mut self, cluster: &ObjectKey, before: &TopologySimulator) {
        if let (Some(from), Some(into)) = (before.facts.objects(), self.facts.objects_mut()) {
            into.take_over(cluster, from);
        }
        self.applied = before.applied.clone();
        self.shared = before.shared.clone();
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
            Found::Yes(found) => Computation::from_world(&found, world, &mut DeterministicNames, &self.options),
            Found::Unreadable(reason) => Err(Failure::Unreadable(reason)),
            Found::Absent | Found::NotAsked => Err(Failure::NoCluster(cluster.clone())),
        })
    }

    /// Calls the hook that may block the deletion of a Cluster (HK-22); passes if no extension is called. A hook that
    /// blocks is in the tracker.
    ///
    /// # Errors
    /// When an extension fails, or the Cluster cannot be read.
    pub fn permits_deletion(&self, cluster: &ObjectKey) -> Result<(bool, HookTracker), Failure> {
        self.settled(|world| match world.cluster(cluster) {
            Found::Yes(found) => {
                let mut tracker = HookTracker::for_cluster(&found);
                if found.topology().is_none() {
                    return Ok((true, tracker));
                }
                let deletion = HookCaller::new(&found, world, &self.options).before_cluster_delete(&mut tracker)?;
                Ok((deletion != Deletion::Blocked, tracker))
            }
            Found::Unreadable(reason) => Err(Failure::Unreadable(reason)),
            Found::Absent | Found::NotAsked => Err(Failure::NoCluster(cluster.clone())),
        })
    }

    /// Rolls a Cluster out, unless it already refers to its objects. Then the objects do not change, and their desired
    /// fields are recorded (DEC-43).
    pub fn settle(&mut self, cluster: &ObjectKey) -> Rollout {
        match self.facts.cluster(cluster) {
            Found::Yes(found) if found.spec.infrastructure_ref.is_defined() => {
                let noted = self.compute(cluster).and_then(|computation| self.applied.note(computation));
                Rollout { failure: noted.err(), ..Rollout::default() }
            }
            _ => self.create(cluster),
        }
    }

    /// Executes the one plan that a new topology needs: everything gets the version of the topology at once. The steps
    /// are dropped as they are executed.
    fn create(&mut self, cluster: &ObjectKey) -> Rollout {
        let mut outcome = Rollout::default();
        let planned = self.settled(|world| self.steps(cluster, world, &mut outcome));
        let (steps, failure) = match planned {
            Ok(Some(planned)) => (planned.steps, planned.failure),
            Ok(None) => return outcome,
            Err(failure) => return outcome.ended_by(failure),
        };
        for step in steps {
            if let Err(failure) = self.carry_out(cluster, &step) {
                return outcome.ended_by(failure);
            }
        }
        Rollout { failure, ..outcome }
    }

    /// All objects of the topology of a Cluster, by group, kind and name.
    pub fn objects_of(&self, cluster: &ObjectKey) -> Vec<Arc<Object>> {
        let Some(objects) = self.facts.objects() else { return Vec::new() };
        objects.of_cluster(cluster).filter(|object| object.label(label::OWNED).is_some()).cloned().collect()
    }

    /// Plans and executes the plan, until no step is left.
    pub fn roll_out(&mut self, cluster: &ObjectKey) -> Rollout {
        let mut outcome = Rollout::default();
        outcome.failure = self.roll_out_into(cluster, &mut outcome).err();
        postponed_replacements::merge(&mut outcome.rounds);
        outcome
    }

    fn roll_out_into(&mut self, cluster: &ObjectKey, outcome: &mut Rollout) -> Result<(), Failure> {
        let mut rotations = RotationCounts::default();
        let mut is_certain = true;
        for _ in 0..ROUNDS {
            Interrupted::unless(&self.stop)?;
            let mut round = self.plan(cluster, outcome)?;
            let failure = round.failure.take();
            if round.steps.is_empty() && failure.is_none() {
                outcome.held.append(&mut outcome.paused);
                return Ok(());
            }
            self.execute(cluster, round, &mut rotations, outcome)?;
            if let Some(failure) = failure {
                return Err(failure);
            }
            if outcome.is_done_after_plan {
                #[cfg(test)]
                self.assert_that_no_step_is_left(cluster);
                outcome.held.append(&mut outcome.paused);
                return Ok(());
            }
            if is_certain && outcome.tracker.has_queue() {
                is_certain = self.go_ahead(cluster, &mut rotations, outcome)?;
            }
        }
        Err(Failure::Endless { cluster: cluster.clone(), rounds: ROUNDS })
    }

    /// Executes the steps of a round.
    pub(super) fn execute(
        &mut self,
        cluster: &ObjectKey,
        round: Round,
        rotations: &mut RotationCounts,
        outcome: &mut Rollout,
    ) -> Result<(), Failure> {
        if let Some(fighting) = rotates_for_ever(&round.steps, rotations) {
            return Err(fighting);
        }
        let sent = round.steps.iter().filter_map(|step| step.applied.as_ref());
        let written: Weight = sent.map(|object| object.weight()).sum();
        outcome.written += written;
        self.options.limit.check_written(outcome.written)?;
        // The memory of one plan was taken before.
        if !outcome.rounds.is_empty() && !self.lease.grow(written.memory) {
            return Err(Interrupted::NoMemory.into());
        }
        for step in &round.steps {
            Interrupted::unless(&self.stop)?;
            self.carry_out(cluster, step)?;
        }
        outcome.rounds.push(round);
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
    pub(super) fn settled<T>(&self, mut compute: impl FnMut(&World) -> Result<T, Failure>) -> Result<T, Failure> {
        let world = self.world();
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

    pub(super) fn world(&self) -> World {
        let mut world = World::new(Arc::new(self.facts.clone())).until(self.stop.clone()).leasing(self.lease.clone());
        if self.server.is_some() {
            world = world.with_dry_runs();
        }
        if self.calls_extensions() {
            world = world.with_extensions();
        }
        world
    }

    /// The answers to needs: dry runs come from the server, patches, plans and hooks from extensions, everything else
    /// from the facts.
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
        match self.steps(cluster, world, outcome)? {
            Some(PlannedSteps { steps, observed, failure }) => {
                outcome.is_done_after_plan = failure.is_none() && self.is_done_after(&steps, &observed, outcome);
                Ok(Round { failure, ..self.round(steps, &observed, world, outcome) })
            }
            None => Ok(Round::default()),
        }
    }

    /// Whether the objects have their desired state after these steps: nothing waits for another step, and no step
    /// changes what the desired state is computed from. Another plan gives the same, and takes as long as this one.
    fn is_done_after(&self, steps: &[PlanStep], observed: &ObservedState, outcome: &Rollout) -> bool {
        let Rollout { tracker, held, .. } = outcome;
        let blueprint = &observed.blueprint;
        // The Cluster before the steps, and the hooks after them.
        let is_upgrading = blueprint.cluster.annotation(annotation::UPGRADE_STEP).is_some()
            || tracker.hooks.pending().iter().any(|hook| hook != Hook::AfterControlPlaneInitialized.name())
            || steps.iter().any(|step| step.changes.iter().any(ChangedField::is_version));
        let has = |action: StepAction| steps.iter().any(|step| step.action == action);
        // Patches may read names of templates, and annotations of the Cluster.
        let changes_builtins = has(StepAction::Rotate) || steps.iter().any(|step| step.part == TopologyPart::Cluster);
        // Servers and extensions may answer otherwise.
        self.server.is_none()
            && !self.calls_extensions()
            && held.is_empty()
            && tracker.is_complete()
            && !is_upgrading
            && !has(StepAction::Create)
            && (!changes_builtins || is_name_independent(&blueprint.class))
    }

    #[cfg(test)]
    fn assert_that_no_step_is_left(&self, cluster: &ObjectKey) {
        let mut next = Rollout::default();
        let round = self.plan(cluster, &mut next).unwrap();
        let (held, paused, notes) = (next.held, next.paused, next.notes);
        assert_eq!((round.steps, round.failure, held, paused, notes), Default::default());
    }

    /// The steps of a plan; none for a Cluster that is skipped as a whole.
    fn steps(
        &self,
        cluster: &ObjectKey,
        world: &World,
        outcome: &mut Rollout,
    ) -> Result<Option<PlannedSteps>, Failure> {
        let found = match world.cluster(cluster) {
            Found::Yes(found) => found,
            Found::Unreadable(reason) => return Err(Failure::Unreadable(reason)),
            Found::Absent | Found::NotAsked => return Ok(None),
        };
        if let Some(held) = held_as_a_whole(&found) {
            outcome.held = vec![held];
            outcome.held.extend(self.held_machines(cluster, &found));
            return Ok(None);
        }
        let computation = Computation::from_world(&found, world, &mut DeterministicNames, &self.options)?;
        let Plan { steps, held, failure, .. } = self.plan_of(&computation, world)?;
        let Computation { observed, trace, warnings, assumes_contract, tracker, .. } = computation;
        outcome.tracker = tracker;
        (outcome.trace, outcome.warnings, outcome.assumes_contract) = (trace, warnings, assumes_contract);
        outcome.held = held;
        Ok(Some(PlannedSteps { steps, observed, failure }))
    }

    pub(super) fn plan_of(&self, computation: &Computation, world: &World) -> Result<Plan, Failure> {
        let plan = Plan::from_computation(computation, world, &self.applied, &mut DeterministicNames)?;
        if self.server.is_some() && world.has_needs() {
            return Err(Failure::NotAsked);
        }
        Ok(plan)
    }

    /// Steps, and their effect on machines. What else is found out about them goes into `outcome`.
    pub(super) fn round(
        &self,
        mut steps: Vec<PlanStep>,
        observed: &ObservedState,
        world: &World,
        outcome: &mut Rollout,
    ) -> Round {
        default_replicas(&mut steps);
        default_strategies(&mut steps);
        self.check(&steps, &observed.blueprint.class.metadata.key(), world, &mut outcome.checks);
        let (mut rolls, paused, of_certificates) = rolls(&steps, &observed.current, world, self.now);
        if let Some(updater) = self.facts.objects().and_then(updater) {
            mark(&mut rolls, &updater);
        }
        outcome.paused.extend(paused);
        outcome.notes.extend(notes(&steps).chain(of_certificates));
        Round { steps, rolls, failure: None }
    }

    /// Checks what steps write against the schemas of definitions.
    fn check(&self, steps: &[PlanStep], class: &ObjectKey, world: &World, checks: &mut Checks) {
        for step in steps.iter().filter(|step| step.part != TopologyPart::Cluster) {
            let Some(sent) = &step.applied else { continue };
            // Only a schema needs the merged object.
            let merged = has_schema(sent, world).then(|| self.merged(&step.object, sent));
            let (object, refused) = match &merged {
                Some(Ok(object)) => (object, None),
                Some(Err(failure)) => (&**sent, Some(failure.to_string())),
                None => (&**sent, None),
            };
            let slot = step.part.to_string();
            let subject = CheckedObject { slot: &slot, sent, merged: object, origins: &step.origins, class };
            checks.add(subject, world, refused);
        }
    }

    /// The machines that would be replaced if a Cluster were not paused (ROLL-18).
    fn held_machines(&self, key: &ObjectKey, cluster: &Cluster) -> Vec<HeldPart> {
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
        rolls.filter_map(|mut roll| roll.hold(PausedBy::Cluster)).collect()
    }
}

/// The failure of a rollout that rotates one slot again and again although no version changes.
fn rotates_for_ever(steps: &[PlanStep], rotations: &mut RotationCounts) -> Option<Failure> {
    if steps.iter().any(|step| step.changes.iter().any(ChangedField::is_version)) {
        rotations.clear();
    }
    for step in steps.iter().filter(|step| step.action == StepAction::Rotate) {
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
fn held_as_a_whole(cluster: &Cluster) -> Option<HeldPart> {
    let reason = match () {
        () if cluster.spec.paused == Some(true) => HeldReason::SpecPaused,
        () if cluster.pause_annotation().is_some() => HeldReason::PauseAnnotation,
        () if cluster.metadata.is_being_deleted() => HeldReason::ClusterDeletion,
        () => return None,
    };
    Some(HeldPart { kind: "Cluster".to_owned(), name: cluster.metadata.name.clone(), reason })
}

/// A uid that is computed from group, kind and name.
pub fn uid(group: &str, kind: &str, key: &ObjectKey) -> String {
    let text = format!("{group}/{kind}/{key}");
    let (a, b) = (fnv::hash64(text.bytes()), fnv::hash64_from(0x9e37_79b9_7f4a_7c15, text.bytes()));
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

//! The next versions of the parts of a topology: first those of the control plane, step by step, then those of the
//! workers.
//!
//! ```text
//! plan.rs: versions of the upgrade ────────────────┐
//! workers.rs: workers with outdated machines ──────┼─► PlannedUpgrade ─► ControlPlaneDecided ─► DecidedUpgrade ─► tracker.rs
//! hooks: pending and blocking hooks ───────────────┘         control plane        workers, in their order     hooks at the end
//! ```
//!
//! Everything is computed from the current objects (UP-20), regardless of their writer (UP-47): plans do not contain
//! finished steps, and the next computation continues the upgrade, also to another target (UP-46). Steps wait for
//! states of objects, so changes of objects trigger the next computation (UP-50).

mod plan;
mod sequence;
mod tracker;
mod workers;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

pub use plan::{PlanError, UpgradePart, check as check_plan};
pub use tracker::{ControlPlaneTracker, Tracker, WorkerTracker};
pub(in crate::topology) use workers::is_deployment_upgrading;

use self::plan::{UpgradePlan, UpgradeRange};
use self::sequence::Sequence;
use super::blueprint::Blueprint;
use super::current::{Current, CurrentWorker};
use super::holds::Hold;
use super::hooks::{self, Gate, HookCaller, HookTracker, RemainingPlans, after_step_members, before_step_members};
use super::worker::WorkerKind;
use super::{Failure, Options};
use golang::version::{BuildOrder, VersionText};
use model::hub::control_plane::{is_upgrading, running_versions, version_text_at};
use model::hub::{Cluster, Hook, Object, Topology, annotation, paths};
use model::world::{Found, PlanCall, World};

/// The planned versions and the parts that are upgrading; no version is decided yet.
#[derive(Debug)]
pub struct PlannedUpgrade<'a>(UpgradeState<'a>);

/// The version of the control plane is decided; those of workers are not.
#[derive(Debug)]
pub(crate) struct ControlPlaneDecided<'a>(UpgradeState<'a>);

/// All versions are decided; the hooks at the end have not been called.
#[derive(Debug)]
pub struct DecidedUpgrade<'a> {
    state: UpgradeState<'a>,
    /// By kind and position in the topology.
    workers: BTreeMap<(WorkerKind, usize), VersionText>,
}

/// The inputs and the results of all stages.
#[derive(Debug)]
struct UpgradeState<'a> {
    blueprint: &'a Blueprint,
    current: &'a Current,
    versions: Versions<'a>,
    hooks: HookCaller<'a>,
    tracker: Tracker,
    /// See [`PlannedUpgrade::ahead`].
    is_ahead: bool,
}

/// The current versions, each parsed once.
#[derive(Debug, Default)]
struct Versions<'a> {
    /// The version of the topology.
    target: VersionText,
    /// `None` while there is no control plane.
    control_plane: Option<VersionText>,
    /// By kind and name in the topology; workers without a version are missing.
    workers: BTreeMap<(WorkerKind, &'a str), VersionText>,
}

impl<'a> PlannedUpgrade<'a> {
    /// Plans the upgrade and finds the parts that are upgrading (UP-05, UP-09 to UP-23).
    ///
    /// # Errors
    /// No plan leads to the version of the topology, or something cannot be read.
    pub fn new(
        blueprint: &'a Blueprint,
        current: &'a Current,
        world: &'a World,
        options: &Options,
    ) -> Result<Self, Failure> {
        let cluster = &blueprint.cluster;
        // All needs are recorded before the first error is returned, so that one round gathers all facts.
        let planned = planned(blueprint, current, world, *options);
        let deployments = workers::upgrading_deployments(&current.machine_deployments, world);
        let pools = workers::upgrading_pools(&current.machine_pools, &cluster.metadata.key(), world);
        let (plan, minimum, mut versions) = planned?;
        let limit = max_concurrency(cluster);
        let of = |kind: WorkerKind, upgrading: BTreeSet<String>| WorkerTracker {
            // A kind without workers has no plan (UP-19).
            plan: if current.workers(kind).is_empty() { Vec::new() } else { plan.workers.clone() },
            upgrading,
            max_concurrency: limit,
            ..WorkerTracker::default()
        };
        let (deployments, pools) =
            (of(WorkerKind::MachineDeployment, deployments?), of(WorkerKind::MachinePool, pools?));
        if versions.control_plane.is_none() {
            // Nothing is planned, so invalid versions are accepted.
            versions.workers = workers::versions(current, |_, text| Ok(VersionText::lenient(text)))?;
        }
        let object = current.control_plane.object.as_ref();
        let tracker = Tracker {
            control_plane: ControlPlaneTracker {
                plan: plan.control_plane,
                kind: object.map(|object| object.kind().to_owned()).unwrap_or_default(),
                name: object.map(|object| object.name().to_owned()).unwrap_or_default(),
                ..ControlPlaneTracker::default()
            },
            machine_deployments: deployments,
            machine_pools: pools,
            minimum_workers_version: minimum,
            is_planned: true,
            hooks: HookTracker::for_cluster(cluster),
        };
        Ok(PlannedUpgrade(UpgradeState {
            blueprint,
            current,
            versions,
            hooks: HookCaller::new(cluster, world, options),
            tracker,
            is_ahead: false,
        }))
    }

    /// Plans the next step of all workers that take it one after the other because of the upgrade concurrency: those
    /// with the lowest version, up to the first uncertain one. They are in [`WorkerTracker::ahead`]. The plan stays the
    /// same until the last of them has taken its step, because it depends on the lowest version.
    pub(super) fn ahead(mut self) -> Self {
        let UpgradeState { versions, tracker, .. } = &mut self.0;
        let lowest = tracker.minimum_workers_version.clone();
        for kind in WorkerKind::ALL {
            let tracker = tracker.workers_mut(kind);
            let is_above = |version: &VersionText| {
                let order = lowest.as_ref().map(|lowest| version.version().build_order(lowest.version()));
                order == Some(BuildOrder::Higher)
            };
            let is_ordered = |version: &VersionText| lowest.as_ref() == Some(version) || is_above(version);
            let is_certain = tracker.plan.first().is_some_and(is_above) && versions.workers.values().all(is_ordered);
            tracker.is_ahead_over = !is_certain;
        }
        self.0.is_ahead = true;
        self
    }

    /// Decides the version of the control plane (UP-24).
    ///
    /// # Errors
    /// When no plan leads to the target, or a hook fails.
    pub(super) fn decide_control_plane(mut self) -> Result<ControlPlaneDecided<'a>, Failure> {
        let state = &mut self.0;
        let version = match &state.current.control_plane.object {
            None => state.versions.target.clone(),
            Some(object) => state.version_of_existing(object)?,
        };
        state.tracker.control_plane.version = version;
        Ok(ControlPlaneDecided(self.0))
    }
}

impl<'a> ControlPlaneDecided<'a> {
    /// The next or kept version of the control plane.
    pub(crate) fn version(&self) -> &VersionText {
        &self.0.tracker.control_plane.version
    }

    /// Whether the Cluster has the annotation of DS-23.
    pub(super) fn marks_a_step(&self) -> bool {
        let UpgradeState { hooks, tracker, .. } = &self.0;
        if hooks.is_enabled() {
            return tracker.hooks.is_pending(Hook::AfterClusterUpgrade);
        }
        let Tracker { control_plane, machine_deployments, machine_pools, .. } = tracker;
        [&control_plane.plan, &machine_deployments.plan, &machine_pools.plan].iter().any(|plan| !plan.is_empty())
    }

    /// The pending hooks of the Cluster, after those that a step of the control plane marks or unmarks (HK-02).
    pub(super) fn pending_hooks(&self) -> &BTreeSet<String> {
        self.0.tracker.hooks.pending()
    }

    /// Decides the versions of workers, in the order of the topology's lists, machine deployments first: each may use
    /// up the concurrency of the next (UP-32, UP-41, UP-43). Entries have no version field (UP-48).
    ///
    /// # Errors
    /// When a worker cannot take a version.
    pub(super) fn decide_workers(mut self) -> Result<DecidedUpgrade<'a>, Failure> {
        let mut workers = BTreeMap::new();
        for kind in WorkerKind::ALL {
            let sequence = Sequence::new(kind, self.0.blueprint.topology());
            for position in 0..sequence.entries.len() {
                workers.insert((kind, position), self.0.worker_version(&sequence, position)?);
            }
        }
        Ok(DecidedUpgrade { state: self.0, workers })
    }
}

impl DecidedUpgrade<'_> {
    /// The version of the worker at `position` of the topology's list.
    pub(super) fn worker_version(&self, kind: WorkerKind, position: usize) -> &VersionText {
        self.workers.get(&(kind, position)).unwrap_or(&self.state.versions.target)
    }

    /// Calls the hooks at the end of the computation (HK-12, HK-21); returns the decisions.
    ///
    /// # Errors
    /// When a hook fails.
    pub(super) fn call_due_hooks(self) -> Result<Tracker, Failure> {
        let UpgradeState { hooks, mut tracker, .. } = self.state;
        hooks.after_control_plane_initialized(&mut tracker.hooks)?;
        hooks.after_cluster_upgrade(tracker.is_complete(), &mut tracker.hooks)?;
        Ok(tracker)
    }
}

impl UpgradeState<'_> {
    /// The version of the existing or new worker at `position`.
    fn worker_version(&mut self, sequence: &Sequence<'_>, position: usize) -> Result<VersionText, Failure> {
        let (kind, target) = (sequence.kind, self.versions.target.clone());
        let Some(entry) = sequence.entries.get(position) else { return Ok(target) };
        let Some(worker) = self.current.workers(kind).get(entry.name) else {
            self.note_new_worker(kind, entry.name);
            return Ok(target);
        };
        let version = self.versions.workers.get(&(kind, entry.name)).cloned().unwrap_or_default();
        if version == target {
            return Ok(version);
        }
        let name = worker.object.name();
        if let Some(hold) = self.hold_of_worker(sequence, position, worker, &version)? {
            let tracker = self.tracker.workers_mut(kind);
            if matches!(hold, Hold::Deferred { .. }) {
                tracker.deferred.insert(name.to_owned());
            }
            tracker.pending.insert(name.to_owned());
            tracker.holds.insert(name.to_owned(), hold);
            return Ok(version);
        }
        let is_ahead = self.is_ahead;
        let tracker = self.tracker.workers_mut(kind);
        tracker.upgrading.insert(name.to_owned());
        if is_ahead {
            tracker.ahead.push(entry.name.to_owned());
        }
        Ok(tracker.plan.first().cloned().unwrap_or(version))
    }

    /// The version of an existing control plane; records the state that later decisions depend on (UP-24 to UP-31).
    fn version_of_existing(&mut self, object: &Object) -> Result<VersionText, Failure> {
        let version = self.versions.control_plane.clone().unwrap_or_default();
        self.tracker.control_plane.is_pending = version != self.versions.target;
        match self.hold_of_control_plane(object, &version)? {
            Some(hold) => {
                let tracker = &mut self.tracker.control_plane;
                tracker.hold = tracker.is_pending.then_some(hold);
                Ok(version)
            }
            None if self.tracker.control_plane.is_pending => self.start_step(object, version),
            None => Ok(version),
        }
    }

    /// The reason for which a control plane keeps its version, which may be that of the topology (UP-24, rows 3 to 9,
    /// and UP-25). Without workers, it does not wait for any (UP-49). Hooks are called in the order of HK-23.
    fn hold_of_control_plane(&mut self, object: &Object, version: &VersionText) -> Result<Option<Hold>, Failure> {
        if is_provisioning(object)? {
            self.tracker.control_plane.is_provisioning = true;
            return Ok(Some(Hold::StillProvisioning));
        }
        if is_upgrading(version.version(), &running_versions(object)?) {
            self.tracker.control_plane.is_upgrading = true;
            return Ok(Some(Hold::StillUpgrading { version: version.clone() }));
        }
        if let Some(hold) =
            self.hook_holds(Hook::AfterControlPlaneUpgrade, |plans| after_step_members(version, plans))?
        {
            return Ok(Some(hold));
        }
        let minimum = self.tracker.minimum_workers_version.clone();
        if let Some(hold) =
            self.hook_holds(Hook::BeforeWorkersUpgrade, |plans| before_step_members(minimum.as_ref(), version, plans))?
        {
            return Ok(Some(hold));
        }
        if WorkerKind::ALL
            .iter()
            .any(|kind| self.tracker.workers(*kind).plan.first().is_some_and(|head| head == version))
        {
            self.tracker.control_plane.is_waiting_for_workers = true;
            return Ok(Some(Hold::WorkersFirst { names: self.workers_not_at(version), version: version.clone() }));
        }
        let upgrading = WorkerKind::ALL.iter().flat_map(|kind| &self.tracker.workers(*kind).upgrading);
        let upgrading: Vec<String> = upgrading.cloned().collect();
        if !upgrading.is_empty() {
            return Ok(Some(Hold::WorkersUpgrading { names: upgrading }));
        }
        if let Some(hold) = self.hook_holds(Hook::AfterWorkersUpgrade, |plans| after_step_members(version, plans))? {
            return Ok(Some(hold));
        }
        Ok(None)
    }

    /// Takes the next step of the plan, unless a hook holds it (UP-24, rows 11 to 14).
    fn start_step(&mut self, object: &Object, version: VersionText) -> Result<VersionText, Failure> {
        let (hooks, target) = (self.hooks, self.versions.target.clone());
        if self.ask(|plans, tracker| hooks.before_cluster_upgrade(&version, &target, plans, tracker))? == Gate::Blocked
        {
            self.tracker.control_plane.hold = Some(self.hook_hold(Hook::BeforeClusterUpgrade));
            return Ok(version);
        }
        if hooks.is_enabled() {
            self.tracker.hooks.mark(Hook::AfterClusterUpgrade);
        }
        let Some(next) = self.tracker.control_plane.plan.first().cloned() else {
            return Err(Failure::NoStep {
                kind: object.kind().to_owned(),
                name: object.name().to_owned(),
                version: version.to_string(),
                target: target.to_string(),
            });
        };
        let gate = self.ask(|plans, tracker| hooks.before_control_plane_upgrade(&version, &next, plans, tracker))?;
        if gate == Gate::Blocked {
            self.tracker.control_plane.hold = Some(self.hook_hold(Hook::BeforeControlPlaneUpgrade));
            return Ok(version);
        }
        if hooks.is_enabled() {
            self.mark_step(&next);
        }
        // A pending control plane is not written, so the step would not start (UP-28).
        self.tracker.control_plane.is_pending = false;
        self.tracker.control_plane.is_starting = true;
        Ok(next)
    }

    /// Marks the hooks of a control plane step to `next` as pending (HK-20); workers that catch up without such a step
    /// mark none (HK-24).
    fn mark_step(&mut self, next: &VersionText) {
        let is_step_of_workers = WorkerKind::ALL
            .iter()
            .any(|kind| self.tracker.workers(*kind).plan.first().is_some_and(|head| head == next));
        self.tracker.hooks.mark(Hook::AfterControlPlaneUpgrade);
        if is_step_of_workers {
            self.tracker.hooks.mark(Hook::BeforeWorkersUpgrade);
            self.tracker.hooks.mark(Hook::AfterWorkersUpgrade);
        }
    }

    /// Calls a hook with the plans (HK-19).
    fn ask(
        &mut self,
        ask: impl FnOnce(RemainingPlans<'_>, &mut HookTracker) -> Result<Gate, Failure>,
    ) -> Result<Gate, Failure> {
        let Tracker { control_plane, machine_deployments, machine_pools, hooks, .. } = &mut self.tracker;
        let of_deployments = !machine_deployments.plan.is_empty();
        let workers = if of_deployments { &machine_deployments.plan } else { &machine_pools.plan };
        ask(RemainingPlans { control_plane: &control_plane.plan, workers }, hooks)
    }

    /// Calls a hook if it is pending; returns the hold if the hook blocks.
    fn hook_holds<const N: usize>(
        &mut self,
        hook: Hook,
        members: impl FnOnce(RemainingPlans<'_>) -> [(&'static str, Value); N],
    ) -> Result<Option<Hold>, Failure> {
        let hooks = self.hooks;
        let gate = self.ask(|plans, tracker| hooks.call_pending(hook, members(plans), tracker))?;
        Ok((gate == Gate::Blocked).then(|| self.hook_hold(hook)))
    }

    fn hook_hold(&self, wanted: Hook) -> Hold {
        let block = self.tracker.hooks.blocking().find(|(hook, _)| *hook == wanted);
        Hold::Hook { hook: wanted, message: block.map(|(_, block)| block.message.clone()).unwrap_or_default() }
    }

    /// The workers that have not reached a version, of the kinds whose next step it is.
    fn workers_not_at(&self, version: &VersionText) -> Vec<String> {
        let mut names = Vec::new();
        for kind in WorkerKind::ALL {
            if self.tracker.workers(kind).plan.first().is_none_or(|head| head != version) {
                continue;
            }
            for (name, worker) in self.current.workers(kind) {
                if self.versions.workers.get(&(kind, name.as_str())) != Some(version) {
                    names.push(worker.object.name().to_owned());
                }
            }
        }
        names.sort_unstable();
        names
    }

    /// Records whether the creation of a worker has to wait (UP-33).
    fn note_new_worker(&mut self, kind: WorkerKind, topology_name: &str) {
        let hold = match self.worker_hook_hold() {
            Some(hold) => hold,
            None if self.tracker.control_plane.is_stable() => return,
            None => self.control_plane_first(&self.versions.target),
        };
        let tracker = self.tracker.workers_mut(kind);
        tracker.pending_create.insert(topology_name.to_owned());
        tracker.holds.insert(topology_name.to_owned(), hold);
    }

    /// The reason for which a worker keeps a version other than the topology's (UP-32, rows 3 to 9): it is deferred, a
    /// hook blocks it, the upgrade concurrency of its kind is used up, also by its own machines (UP-36, UP-42), or the
    /// control plane upgrades first (UP-37).
    fn hold_of_worker(
        &mut self,
        sequence: &Sequence<'_>,
        position: usize,
        worker: &CurrentWorker,
        version: &VersionText,
    ) -> Result<Option<Hold>, Failure> {
        let (kind, name) = (sequence.kind, worker.object.name());
        if let Some(hold) = sequence.deferral(position).or_else(|| self.worker_hook_hold()) {
            return Ok(Some(hold));
        }
        let tracker = self.tracker.workers(kind);
        if !self.is_ahead && tracker.upgrading.len() >= tracker.max_concurrency {
            return Ok(Some(match tracker.upgrading.contains(name) {
                true => Hold::OwnMachines { version: version.clone() },
                false => Hold::Concurrency {
                    limit: tracker.max_concurrency,
                    names: tracker.upgrading.iter().cloned().collect(),
                },
            }));
        }
        let head = tracker.plan.first();
        if !self.tracker.control_plane.is_stable_or_waiting() {
            return Ok(Some(self.control_plane_first(head.unwrap_or(&self.versions.target))));
        }
        match head {
            None => Err(Failure::NoStep {
                kind: kind.name().to_owned(),
                name: name.to_owned(),
                version: version.to_string(),
                target: self.versions.target.to_string(),
            }),
            // It has finished a step that other workers have not (UP-38).
            Some(head) if head == version => {
                Ok(Some(Hold::WorkersFirst { names: self.workers_not_at(head), version: head.clone() }))
            }
            Some(_) if self.is_ahead && !self.goes_along(kind, worker, version) => {
                let (limit, names) = (tracker.max_concurrency, Vec::new());
                self.tracker.workers_mut(kind).is_ahead_over = true;
                Ok(Some(Hold::Concurrency { limit, names }))
            }
            Some(_) => Ok(None),
        }
    }

    /// Whether a worker certainly takes the same step as those before it, after them (see [`PlannedUpgrade::ahead`]).
    fn goes_along(&self, kind: WorkerKind, worker: &CurrentWorker, version: &VersionText) -> bool {
        let tracker = self.tracker.workers(kind);
        let is_whole = worker.bootstrap.is_some() && worker.infrastructure.is_some();
        let is_lowest = self.tracker.minimum_workers_version.as_ref().is_some_and(|lowest| lowest == version);
        is_whole
            && is_lowest
            && !tracker.is_ahead_over
            && !worker.object.is_being_deleted()
            && !tracker.upgrading.contains(worker.object.name())
    }

    /// The hold of a worker that waits for the control plane.
    fn control_plane_first(&self, version: &VersionText) -> Hold {
        match self.tracker.control_plane.is_provisioning {
            true => Hold::StillProvisioning,
            false => Hold::ControlPlaneFirst { version: version.clone() },
        }
    }

    /// The hook that holds all workers, if one does (UP-35).
    fn worker_hook_hold(&self) -> Option<Hold> {
        let hooks = [Hook::AfterControlPlaneUpgrade, Hook::BeforeWorkersUpgrade];
        hooks.into_iter().find(|hook| self.tracker.hooks.blocks(*hook)).map(|hook| self.hook_hold(hook))
    }
}

/// The upgrade plan, the lowest version of workers including removed ones, and the current versions (UP-09 to UP-18,
/// UP-44).
fn planned<'a>(
    blueprint: &Blueprint,
    current: &'a Current,
    world: &World,
    options: Options,
) -> Result<(UpgradePlan, Option<VersionText>, Versions<'a>), Failure> {
    let target = &blueprint.topology().version;
    let Some(object) = &current.control_plane.object else {
        let versions = Versions { target: VersionText::lenient(target), ..Versions::default() };
        return Ok((UpgradePlan::default(), None, versions));
    };
    // A value of another type is an error, not an unknown version.
    object.text(paths::VERSION)?;
    let control_plane = version_text_at(object, paths::VERSION)?;
    let target = plan::parse_version(paths::cluster::TOPOLOGY_VERSION, target)?;
    let workers = workers::versions(current, |worker, _| Ok(version_text_at(worker, paths::worker::VERSION)?))?;
    let lowest = plan::lowest(workers.values().map(VersionText::version).cloned(), control_plane.version());
    let lowest = lowest.map(VersionText::from);
    let range = UpgradeRange { control_plane: control_plane.clone(), workers: lowest.clone(), target: target.clone() };
    let plan = match blueprint.cluster.metadata.annotations.contains_key(annotation::DISABLE_VERSION_CHECK) {
        true => range.back_in_one_step(workers.values()),
        false => None,
    };
    let plan = plan.map_or_else(|| plan_of(&range, blueprint, world, options), Ok)?;
    Ok((plan, lowest, Versions { target, control_plane: Some(control_plane), workers }))
}

/// The plan of an extension, else one through the versions of the class, else one of a single minor version.
fn plan_of(
    range: &UpgradeRange,
    blueprint: &Blueprint,
    world: &World,
    options: Options,
) -> Result<UpgradePlan, Failure> {
    if range.is_at_its_end() {
        return Ok(UpgradePlan::default());
    }
    let spec = &blueprint.class.spec;
    let extension = &spec.upgrade.external.generate_upgrade_plan_extension;
    Ok(match () {
        () if !extension.is_empty() => {
            let (of_control_plane, of_workers) = ask_extension(extension, range, &blueprint.cluster, world, options)?;
            range.plan(of_control_plane, of_workers)?
        }
        () if !spec.kubernetes_versions.is_empty() => {
            range.plan(range.through(&spec.kubernetes_versions)?, Vec::new())?
        }
        () => range.plan(range.one_minor()?, Vec::new())?,
    })
}

/// The plans of an extension (UP-15).
fn ask_extension(
    extension: &str,
    range: &UpgradeRange,
    cluster: &Cluster,
    world: &World,
    options: Options,
) -> Result<(Vec<VersionText>, Vec<VersionText>), Failure> {
    let failed = |reason: String| Failure::PlanExtension { extension: extension.to_owned(), reason };
    if !options.runtime_sdk {
        return Err(failed("the feature gate RuntimeSDK is off".to_owned()));
    }
    let request = if world.calls_extensions() { plan_request(range, cluster, world)? } else { String::new() };
    let call = PlanCall { extension: extension.to_owned(), cluster: cluster.metadata.key(), request };
    match world.upgrade_plan(&call) {
        Found::Yes(plan) => Ok((
            range.extension_plan(UpgradePart::ControlPlane, &plan.control_plane)?,
            range.extension_plan(UpgradePart::Workers, &plan.workers)?,
        )),
        Found::Absent | Found::Unreadable(_) if !world.calls_extensions() => {
            Err(Failure::PlanNotAsked { extension: extension.to_owned() })
        }
        Found::Absent => Err(failed("it is not registered".to_owned())),
        Found::Unreadable(reason) => Err(failed(reason)),
        Found::NotAsked => Err(Failure::NotAsked),
    }
}

fn plan_request(range: &UpgradeRange, cluster: &Cluster, world: &World) -> Result<String, Failure> {
    let workers = range.workers.as_ref().map(VersionText::as_str).unwrap_or_default();
    let members: [(&str, Value); 3] = [
        ("fromControlPlaneKubernetesVersion", json!(range.control_plane.as_str())),
        ("fromWorkersKubernetesVersion", json!(workers)),
        ("toKubernetesVersion", json!(range.target.as_str())),
    ];
    let sent = hooks::cluster(cluster, &HookTracker::for_cluster(cluster), world)?;
    Ok(hooks::request("GenerateUpgradePlanRequest", sent, members))
}

/// Whether a control plane does not run any version yet (UP-06).
fn is_provisioning(object: &Object) -> Result<bool, Failure> {
    let first = object.list(paths::status::VERSIONS)?.and_then(|versions| versions.first());
    let running = match first {
        Some(first) => first.get("version").and_then(Value::as_str),
        None => object.text(paths::control_plane::STATUS_VERSION)?,
    };
    Ok(running.unwrap_or_default().is_empty())
}

/// The workers of a topology whose upgrade is deferred by annotations (UP-34), by name.
pub fn deferred(kind: WorkerKind, topology: &Topology) -> BTreeSet<&str> {
    let sequence = Sequence::new(kind, topology);
    let entries = sequence.entries.iter().enumerate();
    entries.filter(|(position, _)| sequence.deferral(*position).is_some()).map(|(_, entry)| entry.name).collect()
}

/// The number of workers of a kind that may upgrade concurrently (UP-05).
fn max_concurrency(cluster: &Cluster) -> usize {
    let written = cluster.annotation(annotation::UPGRADE_CONCURRENCY).and_then(|text| text.parse().ok());
    written.filter(|limit| *limit > 0).unwrap_or(1)
}

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

//! Lifecycle hooks: the pending hooks of a Cluster, their calls, and the effects of their answers.
//!
//! ```text
//! annotation pending-hooks ─► HookTracker ─► marks and unmarks ─► annotation pending-hooks
//!                                 ▲
//!             Need::Hook ─► answer┘─► blocks, requeue, message
//! ```
//!
//! A hook is called when all preceding facts are known, and ends the round. Nothing is written here: marks and requeue
//! times are data. The code that answers a [`Need`](model::world::Need) caches a blocking answer until its retry time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::worker::API_VERSION;
use super::{Failure, Options};
use golang::json::List;
use golang::version::VersionText;
use model::hub::{Cluster, Hook, Kind, Object, ObjectRef, VariableValue, annotation, paths};
use model::world::{Found, HookAnswer, HookCall, World};

/// The version of the hooks (RH-1.1).
const HOOKS_VERSION: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";
/// Requeue time of an upgrade that annotations hold, in seconds (HK-13).
const ANNOTATION_RETRY_SECONDS: u32 = 1200;

/// The state of hooks in one computation (HK-08).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookTracker {
    pending: BTreeSet<String>,
    blocking: BTreeMap<Hook, Block>,
}

/// The answer of a hook that blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Never zero.
    pub retry_after_seconds: u32,
    pub message: String,
}

/// Whether an action may proceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    Open,
    Blocked,
}

/// The mechanism that delays the deletion of a Cluster's objects until its hooks have passed (DEC-56).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionGuard {
    /// The controller of Clusters waits for [`annotation::OK_TO_DELETE`].
    #[default]
    Controller,
    /// Cluster API's core manager does not wait; a hold prevents it from deleting objects.
    Hold,
    /// Cluster API's core manager does not wait, and no hold is written.
    Nothing,
}

/// Decision about a Cluster that is being deleted (HK-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The deletion may proceed, or no hook is registered.
    Free,
    /// The annotation [`annotation::OK_TO_DELETE`] has to be set, to an empty value.
    Permit,
    Blocked,
}

impl HookTracker {
    /// The pending hooks of a Cluster before any call (HK-02).
    pub fn for_cluster(cluster: &Cluster) -> Self {
        let pending = cluster.annotation(annotation::PENDING_HOOKS).unwrap_or_default();
        let pending = pending.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        HookTracker { pending, blocking: BTreeMap::new() }
    }

    /// The hooks that are pending, by name.
    pub fn pending(&self) -> &BTreeSet<String> {
        &self.pending
    }

    /// The value of [`annotation::PENDING_HOOKS`]; `None` when the annotation must not exist (HK-02).
    pub fn annotation(&self) -> Option<String> {
        let names: Vec<&str> = self.pending.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    /// Whether a hook is pending.
    pub fn is_pending(&self, hook: Hook) -> bool {
        self.pending.contains(hook.name())
    }

    /// Whether a hook was answered with a time to wait (HK-08).
    pub fn blocks(&self, hook: Hook) -> bool {
        self.blocking.contains_key(&hook)
    }

    /// The answers that block, by name of the hook.
    pub(super) fn blocking(&self) -> impl Iterator<Item = (Hook, &Block)> {
        self.blocking.iter().map(|(hook, block)| (*hook, block))
    }

    /// The requeue time in seconds, if a hook blocks (HK-09).
    pub fn requeue_after_seconds(&self) -> Option<u32> {
        self.blocking.values().map(|block| block.retry_after_seconds).min()
    }

    /// The message about hooks that block an action; `None` if none does (HK-10).
    pub fn message(&self, action: &str) -> Option<String> {
        let hooks = self.blocking.iter().map(|(hook, Block { message, .. })| match &**message {
            "" => hook.name().to_owned(),
            message => format!("{hook}: {message}"),
        });
        let hooks: Vec<String> = hooks.collect();
        (!hooks.is_empty()).then(|| format!("Following hooks are blocking {action}: {}", hooks.join("; ")))
    }

    pub(super) fn mark(&mut self, hook: Hook) {
        self.pending.insert(hook.name().to_owned());
    }

    fn unmark(&mut self, hook: Hook) {
        self.pending.remove(hook.name());
    }

    fn block(&mut self, hook: Hook, retry_after_seconds: u32, message: String) -> Gate {
        self.blocking.insert(hook, Block { retry_after_seconds, message });
        Gate::Blocked
    }
}

/// The remaining upgrade plans in requests (HK-19).
#[derive(Clone, Copy, Debug)]
pub(super) struct RemainingPlans<'a> {
    pub(super) control_plane: &'a [VersionText],
    pub(super) workers: &'a [VersionText],
}

/// Calls hooks for a Cluster.
#[derive(Clone, Copy, Debug)]
pub struct HookCaller<'a> {
    cluster: &'a Cluster,
    world: &'a World,
    is_enabled: bool,
}

impl<'a> HookCaller<'a> {
    /// A caller for a Cluster with the defaults of its variables (HK-06).
    pub fn new(cluster: &'a Cluster, world: &'a World, options: &Options) -> Self {
        HookCaller { cluster, world, is_enabled: options.runtime_sdk }
    }

    /// Whether hooks are enabled (HK-01).
    pub(super) fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Calls the hook before the first object is created; nothing is created while it blocks (HK-11).
    ///
    /// # Errors
    /// When an extension fails.
    pub(super) fn before_cluster_create(&self, tracker: &mut HookTracker) -> Result<Gate, Failure> {
        if !self.is_enabled || !self.is_new() {
            return Ok(Gate::Open);
        }
        self.call(Hook::BeforeClusterCreate, [], tracker)
    }

    /// Calls the hook after the control plane is initialized, for a Cluster that topologist created; it blocks nothing
    /// (HK-12).
    ///
    /// # Errors
    /// When an extension fails.
    pub(super) fn after_control_plane_initialized(&self, tracker: &mut HookTracker) -> Result<(), Failure> {
        const HOOK: Hook = Hook::AfterControlPlaneInitialized;
        if !self.is_enabled {
            return Ok(());
        }
        if self.is_new() {
            tracker.mark(HOOK);
        }
        let conditions = &self.cluster.status.conditions;
        let is_initialized =
            conditions.iter().any(|one| one.r#type == "ControlPlaneInitialized" && one.status == "True");
        if tracker.is_pending(HOOK) && is_initialized {
            self.answer(HOOK, [], tracker)?;
            tracker.unmark(HOOK);
        }
        Ok(())
    }

    /// Calls the hook at the end of an upgrade (HK-21). A blocking hook stays pending; nothing else waits for it.
    ///
    /// # Errors
    /// When an extension fails.
    pub(super) fn after_cluster_upgrade(&self, is_complete: bool, tracker: &mut HookTracker) -> Result<(), Failure> {
        let before = [Hook::AfterControlPlaneUpgrade, Hook::AfterWorkersUpgrade];
        let is_due = tracker.is_pending(Hook::AfterClusterUpgrade)
            && !before.iter().any(|hook| tracker.is_pending(*hook))
            && is_complete;
        if self.is_enabled && is_due {
            let version = json!(self.cluster.spec.topology.version);
            self.call_pending(Hook::AfterClusterUpgrade, [("kubernetesVersion", version)], tracker)?;
        }
        Ok(())
    }

    /// Calls the hook before a Cluster is deleted (HK-22), unless an annotation skips it (DEC-56).
    ///
    /// # Errors
    /// When an extension fails.
    pub fn before_cluster_delete(&self, tracker: &mut HookTracker) -> Result<Deletion, Failure> {
        if !self.is_enabled || self.cluster.annotation(annotation::OK_TO_DELETE).is_some() {
            return Ok(Deletion::Free);
        }
        if self.cluster.annotation(annotation::SKIP_DELETE_HOOKS).is_some() {
            return Ok(Deletion::Permit);
        }
        Ok(match self.call(Hook::BeforeClusterDelete, [], tracker)? {
            Gate::Open => Deletion::Permit,
            Gate::Blocked => Deletion::Blocked,
        })
    }

    /// Calls the hook before the first step of an upgrade: annotations of the Cluster first, then extensions (HK-13,
    /// HK-14).
    pub(super) fn before_cluster_upgrade(
        &self,
        from: &VersionText,
        to: &VersionText,
        plans: RemainingPlans<'_>,
        tracker: &mut HookTracker,
    ) -> Result<Gate, Failure> {
        if !self.is_enabled || tracker.is_pending(Hook::AfterClusterUpgrade) {
            return Ok(Gate::Open);
        }
        let annotations = self.cluster.metadata.annotations.iter();
        let names: Vec<&str> = annotations
            .map(|(name, _)| name)
            .filter(|name| name.starts_with(annotation::BEFORE_UPGRADE_PREFIX))
            .collect();
        let message = match names.as_slice() {
            [] => return self.call(Hook::BeforeClusterUpgrade, before_step_members(Some(from), to, plans), tracker),
            [name] => format!("annotation {name} is set"),
            names => format!("annotations {} are set", names.join(", ")),
        };
        Ok(tracker.block(Hook::BeforeClusterUpgrade, ANNOTATION_RETRY_SECONDS, message))
    }

    /// Calls the hook before each step of the control plane (HK-15).
    pub(super) fn before_control_plane_upgrade(
        &self,
        from: &VersionText,
        to: &VersionText,
        plans: RemainingPlans<'_>,
        tracker: &mut HookTracker,
    ) -> Result<Gate, Failure> {
        if !self.is_enabled {
            return Ok(Gate::Open);
        }
        self.call(Hook::BeforeControlPlaneUpgrade, before_step_members(Some(from), to, plans), tracker)
    }

    /// Whether the Cluster has neither reference: nothing has been created or recorded.
    fn is_new(&self) -> bool {
        let spec = &self.cluster.spec;
        !spec.infrastructure_ref.is_defined() && !spec.control_plane_ref.is_defined()
    }

    /// Calls a pending hook, and unmarks it unless it blocks (HK-04): after each step of the control plane (HK-16),
    /// before workers follow it (HK-17), and after they have (HK-18).
    pub(super) fn call_pending<const N: usize>(
        &self,
        hook: Hook,
        members: [(&str, Value); N],
        tracker: &mut HookTracker,
    ) -> Result<Gate, Failure> {
        if !self.is_enabled || !tracker.is_pending(hook) {
            return Ok(Gate::Open);
        }
        let gate = self.call(hook, members, tracker)?;
        if gate == Gate::Open {
            tracker.unmark(hook);
        }
        Ok(gate)
    }

    /// Calls a hook and records a blocking answer (HK-04).
    fn call<const N: usize>(
        &self,
        hook: Hook,
        members: [(&str, Value); N],
        tracker: &mut HookTracker,
    ) -> Result<Gate, Failure> {
        match self.answer(hook, members, tracker)? {
            Some(HookAnswer::Retry { after_seconds, message }) if after_seconds > 0 => {
                Ok(tracker.block(hook, after_seconds, message))
            }
            _ => Ok(Gate::Open),
        }
    }

    /// The combined answer of the extensions of a hook; `None` without extensions.
    fn answer<const N: usize>(
        &self,
        hook: Hook,
        members: [(&str, Value); N],
        tracker: &HookTracker,
    ) -> Result<Option<HookAnswer>, Failure> {
        // Without extensions, no request is needed.
        let request = match self.world.calls_extensions() {
            false => String::new(),
            true => request(&format!("{hook}Request"), cluster(self.cluster, tracker, self.world)?, members),
        };
        match self.world.hook(&HookCall { hook, cluster: self.cluster.metadata.key(), request }) {
            Found::Yes(answer) => Ok(Some(answer)),
            Found::Absent => Ok(None),
            Found::Unreadable(reason) => Err(Failure::Hook { hook, reason }),
            Found::NotAsked => Err(Failure::NotAsked),
        }
    }
}

/// The members of requests before a step.
pub(super) fn before_step_members(
    from: Option<&VersionText>,
    to: &VersionText,
    plans: RemainingPlans<'_>,
) -> [(&'static str, Value); 4] {
    let [control_plane, workers] = upgrades(plans);
    let from = from.map(VersionText::as_str).unwrap_or_default();
    [("fromKubernetesVersion", json!(from)), ("toKubernetesVersion", json!(to.as_str())), control_plane, workers]
}

/// The members of requests after a step.
pub(super) fn after_step_members(version: &VersionText, plans: RemainingPlans<'_>) -> [(&'static str, Value); 3] {
    let [control_plane, workers] = upgrades(plans);
    [("kubernetesVersion", json!(version.as_str())), control_plane, workers]
}

/// The remaining plans (RH-18.2).
fn upgrades(plans: RemainingPlans<'_>) -> [(&'static str, Value); 2] {
    let list = |plan: &[VersionText]| -> Value { plan.iter().map(|one| json!({"version": one.as_str()})).collect() };
    [("controlPlaneUpgrades", list(plans.control_plane)), ("workersUpgrades", list(plans.workers))]
}

/// The body of a request; empty lists and texts are omitted.
pub(super) fn request<const N: usize>(kind: &str, cluster: Value, members: [(&str, Value); N]) -> String {
    let mut all = Map::new();
    all.insert("apiVersion".to_owned(), json!(HOOKS_VERSION));
    all.insert("kind".to_owned(), json!(kind));
    all.insert("cluster".to_owned(), cluster);
    let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty) || value == "";
    all.extend(members.into_iter().filter(|(_, value)| !is_empty(value)).map(|(name, value)| (name.to_owned(), value)));
    Value::Object(all).to_string()
}

/// The Cluster in requests: the stored object with the variables and pending hooks of this computation, without fields
/// that extensions do not need (HK-06, RH-18.1).
pub(super) fn cluster(cluster: &Cluster, tracker: &HookTracker, world: &World) -> Result<Value, Failure> {
    let object = ObjectRef::new(API_VERSION, Kind::Cluster.name(), cluster.metadata.key());
    let mut stored = match world.object(&object) {
        Found::Yes(stored) => Object::clone(&stored),
        Found::Absent => return Err(Failure::NotFound { what: "the Cluster", object }),
        Found::Unreadable(reason) => return Err(Failure::Unreadable(reason)),
        Found::NotAsked => return Err(Failure::NotAsked),
    };
    stored.set("apiVersion", json!(API_VERSION))?;
    stored.set("kind", json!(Kind::Cluster.name()))?;
    stored.remove("status");
    stored.remove(paths::metadata::MANAGED_FIELDS);
    let mut annotations = stored.texts(paths::metadata::ANNOTATIONS)?;
    for name in [annotation::LAST_APPLIED, annotation::CONVERSION_DATA, annotation::PENDING_HOOKS] {
        annotations.remove(name);
    }
    annotations.extend(tracker.annotation().map(|value| (annotation::PENDING_HOOKS.to_owned(), value)));
    match annotations.is_empty() {
        true => drop(stored.remove(paths::metadata::ANNOTATIONS)),
        false => stored.set(paths::metadata::ANNOTATIONS, json!(annotations))?,
    }
    set_variables(&mut stored, cluster)?;
    Ok(stored.into())
}

/// Replaces the stored variables by those of `cluster`, which include defaults.
fn set_variables(stored: &mut Object, cluster: &Cluster) -> Result<(), Failure> {
    let topology = &cluster.spec.topology;
    let mut set = |path: &str, values: &List<VariableValue>| match values.is_present() {
        true => stored.set(path, list(values)),
        false => Ok(()),
    };
    set(paths::cluster::TOPOLOGY_VARIABLES, &topology.variables)?;
    set(paths::cluster::TOPOLOGY_CONTROL_PLANE_VARIABLES, &topology.control_plane.variables.overrides)?;
    let deployments = topology.workers.machine_deployments.iter().map(|one| (&*one.name, &one.variables.overrides));
    let pools = topology.workers.machine_pools.iter().map(|one| (&*one.name, &one.variables.overrides));
    let workers: [(&str, BTreeMap<&str, &List<VariableValue>>); 2] =
        [("machineDeployments", deployments.collect()), ("machinePools", pools.collect())];
    for (kind, values) in workers {
        let entries = stored.members_mut().get_mut("spec").and_then(|spec| spec.pointer_mut("/topology/workers"));
        let Some(Value::Array(entries)) = entries.and_then(|workers| workers.get_mut(kind)) else { continue };
        for entry in entries {
            let values = entry.get("name").and_then(Value::as_str).and_then(|name| values.get(name));
            let overrides = entry.pointer_mut("/variables/overrides");
            if let Some((values, overrides)) = values.zip(overrides) {
                *overrides = list(values);
            }
        }
    }
    Ok(())
}

fn list(values: &[VariableValue]) -> Value {
    let one = |VariableValue { name, value }: &VariableValue| {
        let value: Option<Value> = value.as_ref().and_then(|value| serde_json::from_str(value.get()).ok());
        json!({"name": name, "value": value})
    };
    values.iter().map(one).collect()
}

#[cfg(test)]
mod tests;

//! One computation: from a Cluster and the world to the desired state and the plan.

use std::sync::Arc;

use super::blueprint::Blueprint;
use super::current::Current;
use super::desired::{self, Desired};
use super::hooks::{Gate, HookCaller, HookTracker};
use super::ownership::Unavailable;
use super::patches::{self, Trace};
use super::upgrade::{PlannedUpgrade, Tracker};
use super::{Failure, Options, claims};
use model::hub::contract::Contract;
use model::hub::names::Names;
use model::hub::{Cluster, annotation};
use model::world::World;

/// The inputs of a computation: the Cluster, the blueprint of its topology, and the current objects.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedState {
    pub blueprint: Blueprint,
    pub current: Current,
}

impl ObservedState {
    /// Reads the inputs from the world (RS-07, steps 1 to 4).
    ///
    /// # Errors
    /// An object is missing or invalid; [`Failure::NotAsked`] when `world` has needs that must be gathered first.
    pub fn read(cluster: &Cluster, world: &World) -> Result<Self, Failure> {
        let blueprint = Blueprint::read(cluster, world)?;
        let current = Current::read(&blueprint, world)?;
        Ok(ObservedState { blueprint, current })
    }

    /// Reads the current objects of a topology, which may be many (DEC-58).
    ///
    /// # Errors
    /// See [`ObservedState::read`].
    pub fn current(blueprint: &Blueprint, world: &World) -> Result<Current, Failure> {
        Current::read(blueprint, world)
    }
}

/// The current and the desired state.
#[derive(Debug)]
pub struct Computation {
    pub observed: Arc<ObservedState>,
    pub desired: Desired,
    pub tracker: Tracker,
    /// The contract of the desired control plane (DS-13).
    pub contract: Contract,
    /// The trace of the patches.
    pub trace: Trace,
    /// Warnings, which do not fail the computation.
    pub warnings: Vec<String>,
    /// Whether a contract is assumed because its CustomResourceDefinition is not known (DEC-17).
    pub assumes_contract: bool,
    /// Objects that cannot be created (DEC-36). A plan stops at the first of them.
    pub unavailable: Vec<Unavailable>,
}

/// The worker upgrades that a computation contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UpgradeScope {
    /// Upgrades that may start now.
    Now,
    /// Also upgrades of workers that take the same step later.
    Ahead,
}

impl Computation {
    /// Reads the inputs and computes the desired state of a Cluster's topology (RS-07 from step 1 to step 9, RS-15 and
    /// RS-16).
    ///
    /// # Errors
    /// See [`ObservedState::read`] and [`Computation::from_observed`].
    pub fn from_world(
        cluster: &Cluster,
        world: &World,
        names: &mut dyn Names,
        options: &Options,
    ) -> Result<Self, Failure> {
        Self::from_observed(Arc::new(ObservedState::read(cluster, world)?), world, names, options)
    }

    /// Computes the state for all workers that upgrade one after the other (see [`PlannedUpgrade::ahead`]).
    ///
    /// # Errors
    /// See [`Computation::from_world`].
    pub(super) fn ahead(
        cluster: &Cluster,
        world: &World,
        names: &mut dyn Names,
        options: Options,
    ) -> Result<Self, Failure> {
        Self::planned(Arc::new(ObservedState::read(cluster, world)?), world, names, options, UpgradeScope::Ahead)
    }

    /// The computation in `kept`, or a new one that is stored there. It does not depend on the facts that a plan needs,
    /// so it is computed once for all rounds of gathering.
    ///
    /// # Errors
    /// See [`Computation::from_observed`].
    pub fn get_or_compute<'a>(
        kept: &'a mut Option<Self>,
        observed: &Arc<ObservedState>,
        world: &World,
        names: &mut dyn Names,
        options: &Options,
    ) -> Result<&'a Self, Failure> {
        match kept {
            Some(computation) => Ok(computation),
            none => {
                let computation = Self::from_observed(observed.clone(), world, names, options)?;
                // Facts are missing, so the result is not valid.
                if world.has_needs() { Err(Failure::NotAsked) } else { Ok(none.insert(computation)) }
            }
        }
    }

    /// Computes the desired state of a topology from the current state.
    ///
    /// # Errors
    /// The desired state cannot be computed; [`Failure::NotAsked`] when `world` has needs that must be gathered first,
    /// and [`Failure::CreationWaits`] when a hook blocks the creation, which is not an error.
    pub(crate) fn from_observed(
        observed: Arc<ObservedState>,
        world: &World,
        names: &mut dyn Names,
        options: &Options,
    ) -> Result<Self, Failure> {
        Self::planned(observed, world, names, *options, UpgradeScope::Now)
    }

    fn planned(
        observed: Arc<ObservedState>,
        world: &World,
        names: &mut dyn Names,
        options: Options,
        pace: UpgradeScope,
    ) -> Result<Self, Failure> {
        let ObservedState { blueprint, current } = &*observed;
        options.limit.check(blueprint.size())?;
        let hooks = HookCaller::new(&blueprint.cluster, world, &options);
        let mut before = HookTracker::for_cluster(&blueprint.cluster);
        if hooks.before_cluster_create(&mut before)? == Gate::Blocked {
            return Err(Failure::CreationWaits(Box::new(before)));
        }
        let planned = PlannedUpgrade::new(blueprint, current, world, &options)?;
        let planned = if pace == UpgradeScope::Ahead { planned.ahead() } else { planned };
        let (computed, decided) = desired::compute(blueprint, current, world, planned, names)?;
        let (mut desired, contract) = (computed.desired, computed.contract);
        claims::check_names(&blueprint.cluster.metadata.key(), &desired)?;
        let trace = patches::apply(blueprint, contract, &mut desired, world, &options)?;
        // The desired Cluster has the hooks that the upgrade marks. These hooks are called before the writes, and
        // change the marks.
        let tracker = decided.call_due_hooks()?;
        note_pending_hooks(&mut desired, &tracker);
        let unavailable = claims::unavailable(blueprint, current, &desired, world);
        let (warnings, assumes_contract) = (computed.warnings, computed.assumed);
        Ok(Computation { observed, desired, tracker, contract, trace, warnings, assumes_contract, unavailable })
    }
}

/// Writes the hooks that are still pending into the annotation of the desired Cluster (HK-02, RS-23).
fn note_pending_hooks(desired: &mut Desired, tracker: &Tracker) {
    let annotations = &mut desired.cluster.annotations;
    match tracker.hooks.annotation() {
        Some(value) => drop(annotations.insert(annotation::PENDING_HOOKS.to_owned(), value)),
        None => drop(annotations.remove(annotation::PENDING_HOOKS)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::topology::testing::Scene;
    use model::hub::names::DeterministicNames;

    fn annotations(scene: &Scene, runtime_sdk: bool) -> BTreeMap<String, String> {
        let options = Options::new(runtime_sdk);
        let computed =
            Computation::from_world(&scene.cluster(), &scene.world(), &mut DeterministicNames, &options).unwrap();
        computed.desired.cluster.annotations
    }

    #[test]
    fn each_stage_begins_when_the_one_before_is_done() {
        // RS-07: the class, its readiness, variables, templates, the current state, patches
        let wrong = [
            (
                "Cluster",
                "/spec/topology/classRef/name",
                json!("nobody"),
                json!("forge"),
                "ClusterClass ns/nobody was not",
            ),
            ("ClusterClass", "/status/conditions/0/status", json!("False"), json!("True"), "is not ready"),
            ("Cluster", "/spec/topology/variables", json!([{"name": "x", "value": 1}]), json!([]), "the variables of"),
            (
                "KubeadmConfigTemplate crew",
                "/metadata/name",
                json!("lost"),
                json!("crew"),
                "KubeadmConfigTemplate ns/crew",
            ),
            (
                "Cluster",
                "/spec/infrastructureRef",
                json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ForgeCluster", "name": "gone"}),
                json!(null),
                "ForgeCluster ns/gone was not found",
            ),
            ("ClusterClass", "/spec/patches", json!([{"name": "empty"}]), json!(null), "neither definitions nor"),
        ];
        let scene = wrong.iter().fold(Scene::new(), |scene, (which, at, value, ..)| scene.at(which, at, value.clone()));
        let mut scene = scene;
        for (which, at, _, right, want) in wrong {
            let options = Options::new(true);
            let failure = Computation::from_world(&scene.cluster(), &scene.world(), &mut DeterministicNames, &options)
                .unwrap_err();
            assert!(failure.to_string().contains(want), "{want}: {failure}");
            let which = if at == "/metadata/name" { "KubeadmConfigTemplate lost" } else { which };
            scene = scene.at(which, at, right);
        }
        assert!(
            Computation::from_world(&scene.cluster(), &scene.world(), &mut DeterministicNames, &Options::new(true))
                .is_ok()
        );
    }

    #[test]
    fn hooks_are_added_and_removed_at_creation_and_at_the_end_of_an_upgrade() {
        // HK-12, HK-21, RS-15, RS-16, RS-23: the step is still marked in the run that ends the upgrade
        let pending = |hook: &str| (annotation::PENDING_HOOKS.to_owned(), hook.to_owned());
        let new = Scene::new();
        assert_eq!(annotations(&new, true), BTreeMap::from([pending("AfterControlPlaneInitialized")]));
        assert_eq!(annotations(&new, false), BTreeMap::new());
        let at_its_end = |scene: Scene| {
            let version = json!(scene.cluster().spec.topology.version);
            let control_plane = scene.applied().at("KubeadmControlPlane", "/status/version", version);
            control_plane.at(
                "Cluster",
                "/metadata/annotations",
                json!({annotation::PENDING_HOOKS: "AfterClusterUpgrade"}),
            )
        };
        let left = annotations(&at_its_end(Scene::new()), true);
        assert_eq!(left.keys().collect::<Vec<_>>(), [annotation::UPGRADE_STEP]);
        assert_eq!(annotations(&at_its_end(Scene::new()), false), BTreeMap::from([pending("AfterClusterUpgrade")]));
    }
}

//! The names of a topology's objects: two parts never share a name, and a new object does not take the name of another
//! owner's object (NAM-05, RS-13, DEC-36).
//!
//! Default names are random, so only the naming templates of a class can repeat a name. If a lookup costs a request,
//! random names are not looked up: a conflict is found when the object is created.

use std::collections::{BTreeMap, BTreeSet};

use super::Failure;
use super::blueprint::Blueprint;
use super::current::Current;
use super::desired::{Desired, DesiredObject, DesiredWorker};
use super::ownership::{Claimant, CurrentOwner, OwnershipConflict, SameName, Unavailable};
use super::worker::WorkerKind;
use model::hub::contract::object_kind;
use model::hub::{
    Cluster, ClusterClass, ClusterClassSpec, GROUP, NameParts, NameSubject, Object, ObjectKey, group_of, name_from,
};
use model::world::{Class, Found, World};

/// Fails if two parts of a topology have the same name.
///
/// # Errors
/// [`Failure::SameName`] with both parts.
pub(super) fn check_names(cluster: &ObjectKey, desired: &Desired) -> Result<(), Failure> {
    let mut seen: BTreeMap<(&str, &str, &str), String> = BTreeMap::new();
    let parts = objects(desired).chain(health_checks(desired));
    for ClaimedPart { part, hint, group, kind, name } in parts {
        if let Some(first) = seen.insert((group, kind, name), part.clone()) {
            let (cluster, name) = (cluster.clone(), name.to_owned());
            return Err(Box::new(SameName { cluster, first, second: part, name, hint }).into());
        }
    }
    Ok(())
}

/// A part of a topology and its object.
struct ClaimedPart<'a> {
    part: String,
    /// Another variable that makes names unique.
    hint: &'static str,
    group: &'a str,
    kind: &'a str,
    name: &'a str,
}

impl<'a> ClaimedPart<'a> {
    fn new(part: impl Into<String>, hint: &'static str, object: &'a Object) -> Self {
        ClaimedPart { part: part.into(), hint, group: object.group(), kind: object.kind(), name: object.name() }
    }

    fn for_worker(worker: &'a DesiredWorker, object: &'a Object) -> Self {
        let hint = match worker.kind {
            WorkerKind::MachineDeployment => " or .machineDeployment.topologyName",
            WorkerKind::MachinePool => " or .machinePool.topologyName",
        };
        ClaimedPart::new(format!("{} {:?}", worker.kind.name(), worker.topology_name), hint, object)
    }
}

fn objects(desired: &Desired) -> impl Iterator<Item = ClaimedPart<'_>> {
    let control_plane = &desired.control_plane;
    let machines = control_plane.machines.as_ref().map(|machines| ("the machines of the control plane", machines));
    let of_cluster =
        [("the infrastructure cluster", &desired.infrastructure), ("the control plane", &control_plane.control_plane)];
    let of_cluster = of_cluster.into_iter().chain(machines).map(|(part, one)| ClaimedPart::new(part, "", &one.object));
    let of_workers = workers(desired).flat_map(|worker| {
        let DesiredWorker { worker: object, bootstrap, infrastructure, .. } = worker;
        [object, bootstrap, infrastructure].map(|one| ClaimedPart::for_worker(worker, &one.object))
    });
    of_cluster.chain(of_workers)
}

/// The health checks, which have the names of their targets. The name of a health check is also reserved for a target
/// of the other kind, whose health check may be added later and is found by this name.
fn health_checks(desired: &Desired) -> impl Iterator<Item = ClaimedPart<'_>> {
    let control_plane = &desired.control_plane;
    let deployments = &desired.machine_deployments;
    let checked: BTreeSet<&str> = deployments
        .iter()
        .filter(|worker| worker.health_check.is_some())
        .map(|worker| worker.worker.object.name())
        .collect();
    let all_are_checked = control_plane.health_check.is_some();
    let of_control_plane = ClaimedPart::new("the control plane", "", &control_plane.control_plane.object);
    let of_deployments = deployments.iter().map(|worker| ClaimedPart::for_worker(worker, &worker.worker.object));
    let parts = [of_control_plane].into_iter().chain(of_deployments);
    let parts = parts.filter(move |part| all_are_checked || checked.contains(part.name));
    parts.map(|part| ClaimedPart { group: GROUP, kind: "MachineHealthCheck", ..part })
}

fn workers(desired: &Desired) -> impl Iterator<Item = &DesiredWorker> {
    WorkerKind::ALL.into_iter().flat_map(|kind| desired.workers(kind))
}

/// The objects that the topology cannot create, as far as the world knows; missing facts become needs of the world.
pub(super) fn unavailable(
    blueprint: &Blueprint,
    current: &Current,
    desired: &Desired,
    world: &World,
) -> Vec<Unavailable> {
    let claims = Claims { blueprint, world, leaving: leaving(blueprint, current) };
    let cluster = &*blueprint.cluster.metadata.name;
    let of_cluster = Claimant::cluster(cluster);
    let mut found = Vec::new();
    let spec = &blueprint.class.spec;
    let is_fixed = |template: &str| is_fixed(template, NameSubject::Cluster);
    let of_control_plane = &desired.control_plane;
    let existing = &current.control_plane;
    let parts = [
        (
            Some(&desired.infrastructure),
            current.infrastructure.is_some(),
            is_fixed(&spec.infrastructure.naming.template),
        ),
        (of_control_plane.health_check.as_ref(), existing.health_check.is_some(), true),
        (of_control_plane.machines.as_ref(), existing.machines.is_some(), false),
        (
            Some(&of_control_plane.control_plane),
            existing.object.is_some(),
            is_fixed(&spec.control_plane.naming.template),
        ),
    ];
    for (object, exists, is_fixed) in parts {
        found.extend(object.filter(|_| !exists).and_then(|object| claims.look_up(object, &of_cluster, is_fixed)));
    }
    for worker in workers(desired) {
        let claimant = Claimant::worker(cluster, worker.kind, &worker.topology_name);
        let existing = current.workers(worker.kind).get(&worker.topology_name);
        let lacks_health_check = existing.is_none_or(|existing| existing.health_check.is_none());
        let health_check = worker.health_check.as_ref().filter(|_| lacks_health_check);
        found.extend(health_check.and_then(|check| claims.look_up(check, &claimant, true)));
        if existing.is_none() {
            let is_fixed = claims.is_worker_fixed(worker);
            let parts = [(&worker.infrastructure, false), (&worker.bootstrap, false), (&worker.worker, is_fixed)];
            found.extend(parts.into_iter().filter_map(|(one, is_fixed)| claims.look_up(one, &claimant, is_fixed)));
        }
    }
    found
}

/// Kind and name of the sets of workers that the topology no longer has.
fn leaving<'a>(blueprint: &Blueprint, current: &'a Current) -> BTreeSet<(&'a str, &'a str)> {
    let mut leaving = BTreeSet::new();
    for kind in WorkerKind::ALL {
        let entries = kind.entries(blueprint.topology());
        let wanted: BTreeSet<&str> = entries.iter().map(|entry| entry.name).collect();
        let left = current.workers(kind).iter().filter(|(name, _)| !wanted.contains(name.as_str()));
        leaving.extend(left.map(|(_, worker)| (worker.object.kind(), worker.object.name())));
    }
    leaving
}

struct Claims<'a> {
    blueprint: &'a Blueprint,
    world: &'a World,
    /// See [`leaving`].
    leaving: BTreeSet<(&'a str, &'a str)>,
}

impl Claims<'_> {
    /// The reason for which an object cannot be created. Random names are looked up only if that costs no request.
    fn look_up(&self, desired: &DesiredObject, claimant: &Claimant, is_fixed: bool) -> Option<Unavailable> {
        let object = &desired.object;
        let found = if self.world.is_offline() {
            self.world.held(object.group(), object.kind(), &object.key())
        } else if is_fixed {
            match self.world.object(&object.reference()) {
                Found::Yes(found) => Some(found),
                // A conflict is found when the object is created.
                Found::Absent | Found::NotAsked | Found::Unreadable(_) => None,
            }
        } else {
            None
        };
        match found {
            // The next set of this name waits for the deletion.
            Some(found) if self.leaving.contains(&(found.kind(), found.name())) => None,
            Some(found) => claimant.adopt(&found).err(),
            None if is_fixed => self.generated_elsewhere(object, claimant),
            None => None,
        }
    }

    fn is_worker_fixed(&self, worker: &DesiredWorker) -> bool {
        worker_template(&self.blueprint.class, worker.kind, &worker.class)
            .is_some_and(|template| is_fixed(template, named(worker.kind, &worker.topology_name)))
    }

    /// Another Cluster of a world of files whose topology generates the same name, from a naming template without the
    /// name of the Cluster.
    fn generated_elsewhere(&self, object: &Object, claimant: &Claimant) -> Option<Unavailable> {
        let shares_names = |class: &Class| class.shares_names(shares_names);
        let others = self.world.possible_owners(&object.key(), shares_names).into_iter();
        let owner = others.filter(|other| other.metadata.name != claimant.cluster).find_map(|other| {
            let Found::Yes(class) = self.world.class_at_once(&other.class_key()?) else { return None };
            generator(&other, &class, object)
        })?;
        let taken = OwnershipConflict {
            object: object.reference(),
            owner: CurrentOwner::Generated(owner),
            claimant: claimant.clone(),
        };
        Some(Unavailable::Taken(Box::new(taken)))
    }
}

/// The part of a Cluster whose naming template generates the name of an object.
fn generator(cluster: &Cluster, class: &ClusterClass, object: &Object) -> Option<Claimant> {
    let (spec, name) = (&class.spec, &*cluster.metadata.name);
    let gives = |template: &str, named: NameSubject<'_>| {
        is_shared(template, named)
            && name_from(template, name, named, String::new).is_ok_and(|given| given == object.name())
    };
    let of_cluster = [
        (&spec.infrastructure.template_ref, &spec.infrastructure.naming.template, &cluster.spec.infrastructure_ref),
        (&spec.control_plane.template_ref, &spec.control_plane.naming.template, &cluster.spec.control_plane_ref),
    ];
    for (template, naming, reference) in of_cluster {
        let kind = object_kind(&template.kind);
        let is_of_kind = (group_of(&template.api_version), kind) == (object.group(), object.kind());
        // A Cluster that refers to its object does not generate another name.
        let has_name = match reference.is_defined() {
            true => reference.name == object.name(),
            false => is_of_kind && gives(naming, NameSubject::Cluster),
        };
        if is_of_kind && has_name {
            return Some(Claimant::cluster(name));
        }
    }
    let kind = WorkerKind::ALL.into_iter().find(|kind| (GROUP, kind.name()) == (object.group(), object.kind()))?;
    let entries = kind.entries(cluster.topology()?);
    let entry = entries.iter().find(|entry| {
        let template = worker_template(class, kind, entry.class);
        template.is_some_and(|template| gives(template, named(kind, entry.name)))
    })?;
    Some(Claimant::worker(name, kind, entry.name))
}

/// Whether naming templates of a class give names to parts of several Clusters.
fn shares_names(class: &ClusterClass) -> bool {
    let ClusterClassSpec { infrastructure, control_plane, workers, .. } = &class.spec;
    let deployments =
        workers.machine_deployments.iter().map(|one| (&one.naming, named(WorkerKind::MachineDeployment, "")));
    let pools = workers.machine_pools.iter().map(|one| (&one.naming, named(WorkerKind::MachinePool, "")));
    let of_cluster = [&infrastructure.naming, &control_plane.naming].map(|naming| (naming, NameSubject::Cluster));
    let mut all = of_cluster.into_iter().chain(deployments).chain(pools);
    all.any(|(naming, named)| is_shared(&naming.template, named))
}

/// Whether a naming template gives parts of several Clusters one name.
fn is_shared(template: &str, named: NameSubject<'_>) -> bool {
    NameParts::from_template(template, named).is_some_and(|parts| !parts.random && !parts.cluster)
}

/// Whether a naming template gives the same name each time.
fn is_fixed(template: &str, named: NameSubject<'_>) -> bool {
    NameParts::from_template(template, named).is_some_and(|parts| !parts.random)
}

/// The naming template of a class of workers.
fn worker_template<'a>(class: &'a ClusterClass, kind: WorkerKind, worker_class: &str) -> Option<&'a str> {
    match kind {
        WorkerKind::MachineDeployment => {
            class.spec.machine_deployment_class(worker_class).map(|class| &*class.naming.template)
        }
        WorkerKind::MachinePool => class.spec.machine_pool_class(worker_class).map(|class| &*class.naming.template),
    }
}

fn named(kind: WorkerKind, topology_name: &str) -> NameSubject<'_> {
    match kind {
        WorkerKind::MachineDeployment => NameSubject::MachineDeployment(topology_name),
        WorkerKind::MachinePool => NameSubject::MachinePool(topology_name),
    }
}

#[cfg(test)]
mod tests;

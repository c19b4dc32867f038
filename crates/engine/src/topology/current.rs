//! The current objects of a topology.
//!
//! ```text
//! Cluster ─┬─ infrastructureRef ─► infrastructure cluster
//!          └─ controlPlaneRef ───► control plane ─► template of its machines, health check
//! labels ──┬─► machine deployments ─► bootstrap and infrastructure templates, health check
//!          └─► machine pools ───────► bootstrap and infrastructure objects
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use super::blueprint::Blueprint;
use super::contract::{contract_of, version_to_read};
use super::ownership::{Claimant, Unavailable};
use super::worker::{API_VERSION, WorkerKind};
use super::{Failure, field_path};
use model::hub::contract::{Contract, object_kind};
use model::hub::{ContractRef, Object, ObjectKey, ObjectRef, label, paths};
use model::world::{Found, Selection, World};

/// The objects of a topology (CS-01).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Current {
    pub infrastructure: Option<Arc<Object>>,
    pub control_plane: CurrentControlPlane,
    /// By their names in the topology, including removed workers.
    pub machine_deployments: BTreeMap<String, CurrentWorker>,
    /// By their names in the topology, those that left it included.
    pub machine_pools: BTreeMap<String, CurrentWorker>,
}

impl Current {
    /// All objects in the order in which they are applied.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        let CurrentControlPlane { object, machines, health_check } = &self.control_plane;
        let workers = self.machine_deployments.values().chain(self.machine_pools.values());
        let of_workers = workers.flat_map(|worker| {
            let CurrentWorker { object, bootstrap, infrastructure, health_check } = worker;
            [Some(object), infrastructure.as_ref(), bootstrap.as_ref(), health_check.as_ref()]
        });
        let of_cluster = [&self.infrastructure, health_check, object, machines].map(Option::as_ref);
        of_cluster.into_iter().chain(of_workers).flatten()
    }
}

/// The control plane with its machine template and health check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CurrentControlPlane {
    pub object: Option<Arc<Object>>,
    /// The template of its machines; `None` also if it was deleted (ROT-13).
    pub machines: Option<Arc<Object>>,
    pub health_check: Option<Arc<Object>>,
}

/// A machine deployment with its templates, or a machine pool with its objects.
#[derive(Clone, Debug, PartialEq)]
pub struct CurrentWorker {
    pub object: Arc<Object>,
    /// `None` for a machine deployment that is being deleted, and if the template is gone (ROT-13).
    pub bootstrap: Option<Arc<Object>>,
    /// `None` for a machine deployment that is being deleted, and if the template is gone (ROT-13).
    pub infrastructure: Option<Arc<Object>>,
    /// Machine deployments only.
    pub health_check: Option<Arc<Object>>,
}

impl Current {
    /// Reads the current objects (CS-01 to CS-13).
    ///
    /// # Errors
    /// When a referenced object is missing or does not belong to the topology.
    pub fn read(blueprint: &Blueprint, world: &World) -> Result<Self, Failure> {
        let reader = CurrentReader { blueprint, world, namespace: &blueprint.cluster.metadata.namespace };
        // All needs are recorded before the first error is returned, so that one round gathers all facts.
        let infrastructure = reader.infrastructure();
        let control_plane = reader.control_plane();
        let machine_deployments = reader.workers(WorkerKind::MachineDeployment);
        let machine_pools = reader.workers(WorkerKind::MachinePool);
        Ok(Current {
            infrastructure: infrastructure?,
            control_plane: control_plane?,
            machine_deployments: machine_deployments?,
            machine_pools: machine_pools?,
        })
    }

    /// The workers of a kind by their names in the topology.
    pub fn workers(&self, kind: WorkerKind) -> &BTreeMap<String, CurrentWorker> {
        match kind {
            WorkerKind::MachineDeployment => &self.machine_deployments,
            WorkerKind::MachinePool => &self.machine_pools,
        }
    }
}

struct CurrentReader<'a> {
    blueprint: &'a Blueprint,
    world: &'a World,
    namespace: &'a str,
}

impl CurrentReader<'_> {
    /// The infrastructure cluster, once the Cluster refers to it (CS-02).
    fn infrastructure(&self) -> Result<Option<Arc<Object>>, Failure> {
        let reference = &self.blueprint.cluster.spec.infrastructure_ref;
        reference
            .is_defined()
            .then(|| self.owned(reference, Some(&self.blueprint.infrastructure), Mode::Object))
            .transpose()
    }

    /// The control plane, once the Cluster refers to it, with the template of its machines and its health check (CS-03
    /// to CS-05).
    fn control_plane(&self) -> Result<CurrentControlPlane, Failure> {
        let reference = &self.blueprint.cluster.spec.control_plane_ref;
        if !reference.is_defined() {
            return Ok(CurrentControlPlane::default());
        }
        let object = self.owned(reference, Some(&self.blueprint.control_plane), Mode::Object)?;
        let Some(template) = &self.blueprint.control_plane_machines else {
            return Ok(CurrentControlPlane { object: Some(object), ..CurrentControlPlane::default() });
        };
        let (contract, _) = contract_of(&object, self.world)?;
        let reference = machines_reference(&object, contract)?;
        let machines = self.template(&reference, Some(template));
        let health_check = self.health_check(object.name(), &self.cluster());
        Ok(CurrentControlPlane { machines: machines?, health_check: health_check?, object: Some(object) })
    }

    /// The workers of a kind that carry the labels of the topology (CS-09, CS-12).
    fn workers(&self, kind: WorkerKind) -> Result<BTreeMap<String, CurrentWorker>, Failure> {
        let labels = [(label::CLUSTER_NAME, &*self.blueprint.cluster.metadata.name), (label::OWNED, "")];
        let selection = Selection {
            api_version: API_VERSION.to_owned(),
            kind: kind.name().to_owned(),
            namespace: self.namespace.to_owned(),
            labels: labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        };
        let objects = match self.world.list(&selection) {
            Found::Yes(objects) => objects,
            Found::Absent => Vec::new(),
            Found::Unreadable(reason) => return Err(Failure::Unreadable(reason)),
            Found::NotAsked => return Err(Failure::NotAsked),
        };
        let classes = self.classes(kind);
        let mut workers: BTreeMap<String, CurrentWorker> = BTreeMap::new();
        let mut failure = None;
        for object in objects {
            match self.worker(kind, &classes, object) {
                Ok((name, worker)) => {
                    if let Some(first) = workers.get(&name) {
                        let (first, second) = (first.object.name().to_owned(), worker.object.name().to_owned());
                        let kind = kind.name();
                        return Err(Failure::SameTopologyName { kind, first, second, topology_name: name });
                    }
                    workers.insert(name, worker);
                }
                Err(one) => failure = failure.or(Some(one)),
            }
        }
        failure.map_or(Ok(workers), Err)
    }

    /// One worker with its referenced objects (CS-10 to CS-12).
    fn worker(
        &self,
        kind: WorkerKind,
        classes: &BTreeMap<&str, &str>,
        object: Arc<Object>,
    ) -> Result<(String, CurrentWorker), Failure> {
        let name = object
            .label(kind.label())
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .ok_or_else(|| Failure::NoTopologyName { object: object.reference(), label: kind.label() })?;
        let is_deployment = kind == WorkerKind::MachineDeployment;
        let claimant = Claimant::worker(&*self.blueprint.cluster.metadata.name, kind, &*name);
        let health_check = if is_deployment { self.health_check(object.name(), &claimant) } else { Ok(None) };
        // The templates of a machine deployment that is being deleted may have been deleted already (DEL-06).
        if is_deployment && object.is_being_deleted() {
            let worker = CurrentWorker { object, bootstrap: None, infrastructure: None, health_check: health_check? };
            return Ok((name, worker));
        }
        // `None` for a removed worker (CS-10).
        let class = classes.get(&*name);
        let templates = class.map(|class| self.blueprint.templates(kind, &name, class)).transpose()?;
        let referenced = |path: &'static str, template: Option<&Arc<Object>>| {
            let reference = field_path::contract_ref(&object, path)?;
            match is_deployment {
                true => self.template(&reference, template),
                false => self.owned(&reference, template, Mode::Object).map(Some),
            }
        };
        let bootstrap =
            referenced(paths::worker::BOOTSTRAP_CONFIG_REF, templates.map(|templates| &templates.bootstrap));
        let infrastructure =
            referenced(paths::worker::INFRASTRUCTURE_REF, templates.map(|templates| &templates.infrastructure));
        let (bootstrap, infrastructure) = (bootstrap?, infrastructure?);
        Ok((name, CurrentWorker { object, bootstrap, infrastructure, health_check: health_check? }))
    }

    /// The class of each worker of a kind; the first one if the topology names two (CS-10).
    fn classes(&self, kind: WorkerKind) -> BTreeMap<&str, &str> {
        let entries = kind.entries(self.blueprint.topology());
        // The last one of a name stays.
        entries.into_iter().rev().map(|entry| (entry.name, entry.class)).collect()
    }

    /// The Cluster as the claimant of its parts.
    fn cluster(&self) -> Claimant {
        Claimant::cluster(&*self.blueprint.cluster.metadata.name)
    }

    /// The health check of a part, which has the name of what it checks. That of another owner is none (DEC-36).
    fn health_check(&self, name: &str, claimant: &Claimant) -> Result<Option<Arc<Object>>, Failure> {
        let key = ObjectKey::new(self.namespace, name);
        match self.world.object(&ObjectRef::new(API_VERSION, "MachineHealthCheck", key)) {
            Found::Yes(object) if matches!(claimant.adopt(&object), Err(Unavailable::Taken(_))) => Ok(None),
            Found::Yes(object) => Ok(Some(object)),
            Found::Absent => Ok(None),
            Found::Unreadable(reason) => Err(Failure::Unreadable(reason)),
            Found::NotAsked => Err(Failure::NotAsked),
        }
    }

    /// The template that a reference leads to, as [`Self::owned`]; `None` if an API server says that it is gone. A new
    /// one takes its place then, unless the class uses another kind by now (ROT-13). Files may lack what a cluster has.
    fn template(
        &self,
        reference: &ContractRef,
        template: Option<&Arc<Object>>,
    ) -> Result<Option<Arc<Object>>, Failure> {
        let is_replaceable = template
            .is_none_or(|template| (template.group(), template.kind()) == (&*reference.api_group, &*reference.kind));
        match self.owned(reference, template, Mode::Template) {
            Err(Failure::NotFound { object, .. }) if is_replaceable && self.world.is_missing(&object) => Ok(None),
            found => found.map(Some),
        }
    }

    /// What a reference leads to; it must exist and belong to the topology (CS-02, CS-07, CS-13). An object that
    /// was deleted by hand and is still referenced is not created again (DEL-14).
    fn owned(
        &self,
        reference: &ContractRef,
        template: Option<&Arc<Object>>,
        mode: Mode,
    ) -> Result<Arc<Object>, Failure> {
        let ContractRef { api_group, kind, name } = reference;
        let fits = |template: &&Arc<Object>| template.group() == api_group && mode.kind_of(template) == kind;
        let api_version = match template.filter(fits) {
            Some(template) => template.api_version().to_owned(),
            None => match version_to_read(api_group, kind, self.world)? {
                Some(version) => format!("{api_group}/{version}"),
                None => self.version_at_hand(reference),
            },
        };
        let key = ObjectKey::new(self.namespace, name);
        let object = ObjectRef::new(api_version, kind, key);
        match self.world.object(&object) {
            Found::Yes(found) if found.label(label::OWNED).is_none() => Err(Failure::Foreign { object }),
            Found::Yes(found) => match self.cluster().taken_by_another_cluster(&found) {
                Some(taken) => Err(Failure::Unavailable(Unavailable::Taken(Box::new(taken)))),
                None => Ok(found),
            },
            Found::Absent => Err(Failure::NotFound { what: "the referenced object", object }),
            Found::Unreadable(reason) => Err(Failure::Unreadable(reason)),
            Found::NotAsked => Err(Failure::NotAsked),
        }
    }

    /// Among files, the version in which an object is there, for a kind of which nothing is known.
    fn version_at_hand(&self, reference: &ContractRef) -> String {
        let ContractRef { api_group, kind, name } = reference;
        let selection = Selection {
            api_version: format!("{api_group}/"),
            kind: kind.clone(),
            namespace: self.namespace.to_owned(),
            labels: BTreeMap::new(),
        };
        let Found::Yes(objects) = self.world.list(&selection) else { return format!("{api_group}/v1beta2") };
        let found = objects.iter().find(|object| object.name() == name);
        found.map_or_else(|| format!("{api_group}/v1beta2"), |object| object.api_version().to_owned())
    }
}

/// What a reference leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Template,
    Object,
}

impl Mode {
    /// The kind that a reference has when it leads to what the template of a class makes (CS-07).
    fn kind_of(self, template: &Object) -> &str {
        match self {
            Mode::Template => template.kind(),
            Mode::Object => object_kind(template.kind()),
        }
    }
}

/// The reference of a control plane to the template of its machines (CS-04).
pub(super) fn machines_reference(control_plane: &Object, contract: Contract) -> Result<ContractRef, Failure> {
    match contract {
        Contract::V1Beta2 => field_path::contract_ref(control_plane, field_path::INFRASTRUCTURE_REF.at(contract)),
        Contract::V1Beta1 => field_path::classic_ref(control_plane, field_path::INFRASTRUCTURE_REF.at(contract)),
    }
}

#[cfg(test)]
mod tests;

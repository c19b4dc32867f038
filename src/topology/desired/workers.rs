//! Machine deployments and machine pools.

use super::draft::{contract_ref, labels_of_all};
use super::health_check;
use super::layers::Layers;
use super::metadata::{Entry, Given};
use super::{Basis, DesiredObject, DesiredWorker, clone, machine_deployment, machine_pool, name_of, naming};
use crate::hub::{
    MachineDeploymentClass, MachineDeploymentTopology, MachinePoolClass, MachinePoolTopology, Named, Object,
    TopologyMetadata, annotation,
};
use crate::topology::current::CurrentWorker;
use crate::topology::names::Names;
use crate::topology::origin::Origin;
use crate::topology::upgrade::Upgrade;
use crate::topology::worker::{API_VERSION, WorkerEntry, WorkerKind};
use crate::topology::{Failure, field_path};

/// The workers of a kind, in the order of the topology: each takes its version from what is left by those before it (DS-24
/// to DS-38).
pub(super) fn compute(
    basis: Basis<'_>,
    kind: WorkerKind,
    upgrade: &mut Upgrade<'_>,
    names: &mut dyn Names,
) -> Result<Vec<DesiredWorker>, Failure> {
    let plans = plans(basis, kind)?;
    let workers = plans.iter().enumerate().map(|(position, plan)| plan.worker(basis, position, upgrade, names));
    workers.collect()
}

/// What a worker is made from.
struct Plan<'a> {
    kind: WorkerKind,
    entry: WorkerEntry<'a>,
    class_metadata: &'a TopologyMetadata,
    naming: &'a str,
    fields: Fields<'a>,
    topology_path: String,
    class_path: String,
}

/// What the kinds do not share.
enum Fields<'a> {
    Deployment(&'a MachineDeploymentTopology, &'a MachineDeploymentClass),
    Pool(&'a MachinePoolTopology, &'a MachinePoolClass),
}

fn plans(basis: Basis<'_>, kind: WorkerKind) -> Result<Vec<Plan<'_>>, Failure> {
    let workers = &basis.blueprint.topology().workers;
    match kind {
        WorkerKind::MachineDeployment => workers.machine_deployments.iter().map(|one| deployment(basis, one)).collect(),
        WorkerKind::MachinePool => workers.machine_pools.iter().map(|one| pool(basis, one)).collect(),
    }
}

fn deployment<'a>(basis: Basis<'a>, topology: &'a MachineDeploymentTopology) -> Result<Plan<'a>, Failure> {
    let (kind, entry) = (WorkerKind::MachineDeployment, WorkerEntry::from(topology));
    let class = basis.blueprint.class.spec.machine_deployment_class(entry.class);
    let class = class.ok_or_else(|| no_class(kind, entry))?;
    Ok(Plan {
        kind,
        entry,
        class_metadata: &class.metadata,
        naming: &class.naming.template,
        fields: Fields::Deployment(topology, class),
        topology_path: format!("spec.topology.workers.machineDeployments[{}]", entry.name),
        class_path: format!("spec.workers.machineDeployments[{}]", entry.class),
    })
}

fn pool<'a>(basis: Basis<'a>, topology: &'a MachinePoolTopology) -> Result<Plan<'a>, Failure> {
    let (kind, entry) = (WorkerKind::MachinePool, WorkerEntry::from(topology));
    let class = basis.blueprint.class.spec.machine_pool_class(entry.class).ok_or_else(|| no_class(kind, entry))?;
    Ok(Plan {
        kind,
        entry,
        class_metadata: &class.metadata,
        naming: &class.naming.template,
        fields: Fields::Pool(topology, class),
        topology_path: format!("spec.topology.workers.machinePools[{}]", entry.name),
        class_path: format!("spec.workers.machinePools[{}]", entry.class),
    })
}

/// DS-24
fn no_class(kind: WorkerKind, entry: WorkerEntry<'_>) -> Failure {
    let (topology_name, class) = (entry.name.to_owned(), entry.class.to_owned());
    Failure::NoWorkerClass { kind: kind.name(), topology_name, class }
}

impl Plan<'_> {
    fn worker(
        &self,
        basis: Basis<'_>,
        position: usize,
        upgrade: &mut Upgrade<'_>,
        names: &mut dyn Names,
    ) -> Result<DesiredWorker, Failure> {
        let current = basis.current.workers(self.kind).get(self.entry.name);
        let (bootstrap, infrastructure) = self.parts(basis, current, names)?;
        let name = self.name(basis, current, names)?;
        let version = upgrade.worker_version(self.kind, position, &name)?;
        let mut worker = DesiredObject::new(API_VERSION, self.kind.name(), &name, basis);
        self.add_metadata(&mut worker, basis)?;
        add_common_fields(&mut worker, version, &bootstrap.object, &infrastructure.object, basis)?;
        let health_check = match self.fields {
            Fields::Deployment(topology, class) => {
                machine_deployment::add_fields(&mut worker, topology, class, self.layers(), basis)?;
                let paths = (&*self.topology_path, &*self.class_path);
                health_check::of_machine_deployment(basis, &name, topology, class, paths)?
            }
            Fields::Pool(topology, class) => {
                machine_pool::add_fields(&mut worker, topology, class, self.layers())?;
                None
            }
        };
        Ok(DesiredWorker {
            kind: self.kind,
            topology_name: self.entry.name.to_owned(),
            class: self.entry.class.to_owned(),
            worker,
            bootstrap,
            infrastructure,
            health_check,
        })
    }

    fn layers(&self) -> Layers<'_> {
        Layers { topology_path: &self.topology_path, class_path: &self.class_path }
    }

    /// The templates of a machine deployment (DS-25), the objects of a machine pool (DS-35).
    fn parts(
        &self,
        basis: Basis<'_>,
        current: Option<&CurrentWorker>,
        names: &mut dyn Names,
    ) -> Result<(DesiredObject, DesiredObject), Failure> {
        let templates = basis.blueprint.templates(self.kind, self.entry.name, self.entry.class)?;
        let bootstrap = current.and_then(|worker| worker.bootstrap.as_ref());
        let infrastructure = current.and_then(|worker| worker.infrastructure.as_ref());
        Ok((
            self.part(&templates.bootstrap, name_of(bootstrap), "bootstrap", basis, names)?,
            self.part(&templates.infrastructure, name_of(infrastructure), "infrastructure", basis, names)?,
        ))
    }

    fn part(
        &self,
        template: &Object,
        current: Option<String>,
        slot: &str,
        basis: Basis<'_>,
        names: &mut dyn Names,
    ) -> Result<DesiredObject, Failure> {
        let name = current.unwrap_or_else(|| {
            let prefix = format!("{}-{}-", basis.cluster_name(), self.entry.name);
            naming::prefixed(&prefix, &format!("{}.{slot}", self.topology_path), basis, names)
        });
        let labels = [Entry::of_engine(self.kind.label(), self.entry.name)];
        let extra = clone::Extra { labels: &labels, annotations: &[] };
        match self.kind {
            WorkerKind::MachineDeployment => clone::template(template, &name, extra, basis),
            WorkerKind::MachinePool => {
                let mut object = clone::object(template, &name, extra, basis)?;
                object.own(&basis.blueprint.cluster)?;
                Ok(object)
            }
        }
    }

    fn name(
        &self,
        basis: Basis<'_>,
        current: Option<&CurrentWorker>,
        names: &mut dyn Names,
    ) -> Result<String, Failure> {
        let part = match self.kind {
            WorkerKind::MachineDeployment => Named::MachineDeployment(self.entry.name),
            WorkerKind::MachinePool => Named::MachinePool(self.entry.name),
        };
        let generated = naming::templated(self.naming, part, &self.class_path, basis, names)?;
        Ok(name_of(current.map(|worker| &worker.object)).unwrap_or(generated))
    }

    /// Labels and annotations, which its machines get as well (DS-29, DS-37).
    fn add_metadata(&self, worker: &mut DesiredObject, basis: Basis<'_>) -> Result<(), Failure> {
        let given = Given {
            topology: self.entry.metadata,
            class: self.class_metadata,
            topology_path: &self.topology_path,
            class_path: &self.class_path,
        };
        let mut labels = given.labels();
        labels.extend(labels_of_all(basis));
        labels.push(Entry::of_engine(self.kind.label(), self.entry.name));
        let mut annotations = given.annotations();
        let is_for_the_engine =
            |key: &str| [annotation::HOLD_UPGRADE_SEQUENCE, annotation::DEFER_UPGRADE].contains(&key);
        annotations.retain(|entry| !is_for_the_engine(entry.key));
        for path in ["metadata.labels", "spec.template.metadata.labels"] {
            worker.overlay(path, &labels)?;
        }
        for path in ["metadata.annotations", "spec.template.metadata.annotations"] {
            worker.overlay(path, &annotations)?;
        }
        Ok(())
    }
}

/// What both kinds have (DS-26, DS-36).
fn add_common_fields(
    worker: &mut DesiredObject,
    version: String,
    bootstrap: &Object,
    infrastructure: &Object,
    basis: Basis<'_>,
) -> Result<(), Failure> {
    for path in ["spec.clusterName", "spec.template.spec.clusterName"] {
        worker.set(path, basis.cluster_name(), Origin::Topology)?;
    }
    worker.set(field_path::WORKER_VERSION, version, Origin::Topology)?;
    worker.set(field_path::WORKER_BOOTSTRAP_REF, contract_ref(bootstrap), Origin::Topology)?;
    worker.set(field_path::WORKER_INFRASTRUCTURE_REF, contract_ref(infrastructure), Origin::Topology)
}

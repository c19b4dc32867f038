//! The inputs of a topology: the Cluster with its defaults, its class, and every template of the class.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::worker::WorkerKind;
use super::{Failure, Interrupted};
use golang::json::{List, RawJson};
use model::hub::{Cluster, ObjectKey, ObjectRef, TemplateRef, Topology, VariableValue, paths};
use model::hub::{MachineDeploymentClass, MachinePoolClass, Object};
use model::variables::{self, CompiledVariables, SettleMode, ValueBudget, ValueChange, ValueList};
use model::world::{Class, Found, World};
use schema::field::{Findings, Path};

/// The immutable input of one computation (BP-08).
#[derive(Clone, Debug, PartialEq)]
pub struct Blueprint {
    /// With the defaults of its variables (BP-03).
    pub cluster: Cluster,
    pub class: Arc<Class>,
    pub infrastructure: Arc<Object>,
    pub control_plane: Arc<Object>,
    /// The template of the control plane's machines, if the class has one.
    pub control_plane_machines: Option<Arc<Object>>,
    /// By the name of the class of workers.
    pub machine_deployments: BTreeMap<String, WorkerTemplates>,
    /// By the name of the class of workers.
    pub machine_pools: BTreeMap<String, WorkerTemplates>,
}

/// The templates of a class of workers.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerTemplates {
    pub bootstrap: Arc<Object>,
    /// Of machines, or of a machine pool.
    pub infrastructure: Arc<Object>,
}

impl Blueprint {
    /// Reads all inputs of the topology of `cluster` (BP-01 to BP-09).
    ///
    /// # Errors
    /// A class or a template is missing, the class is not ready, or the variables are invalid.
    pub fn read(cluster: &Cluster, world: &World) -> Result<Self, Failure> {
        let class = class(cluster, world)?;
        let cluster = with_defaults(cluster, &class, world)?;
        let spec = &class.spec;
        let namespace = &class.metadata.namespace;
        let template = |reference: &TemplateRef| template(reference, namespace, world);
        // All templates are read in the order of BP-07, so that one round gathers the missing ones.
        let infrastructure = template(&spec.infrastructure.template_ref);
        let control_plane = template(&spec.control_plane.template_ref);
        let machines = &spec.control_plane.machine_infrastructure.template_ref;
        let control_plane_machines = machines.is_defined().then(|| template(machines)).transpose();
        let of_workers = |infrastructure: &TemplateRef, bootstrap: &TemplateRef| {
            let (infrastructure, bootstrap) = (template(infrastructure), template(bootstrap));
            Ok(WorkerTemplates { infrastructure: infrastructure?, bootstrap: bootstrap? })
        };
        let of_deployment = |class: &MachineDeploymentClass| {
            let (infrastructure, bootstrap) = (&class.infrastructure.template_ref, &class.bootstrap.template_ref);
            (class.class.clone(), of_workers(infrastructure, bootstrap))
        };
        let of_pool = |class: &MachinePoolClass| {
            let (infrastructure, bootstrap) = (&class.infrastructure.template_ref, &class.bootstrap.template_ref);
            (class.class.clone(), of_workers(infrastructure, bootstrap))
        };
        let machine_deployments: Vec<_> = spec.workers.machine_deployments.iter().map(of_deployment).collect();
        let machine_pools: Vec<_> = spec.workers.machine_pools.iter().map(of_pool).collect();
        Ok(Blueprint {
            infrastructure: infrastructure?,
            control_plane: control_plane?,
            control_plane_machines: control_plane_machines?,
            machine_deployments: all(machine_deployments)?,
            machine_pools: all(machine_pools)?,
            cluster,
            class,
        })
    }

    /// The topology of the Cluster, with the defaults of its variables.
    pub fn topology(&self) -> &Topology {
        &self.cluster.spec.topology
    }

    /// The templates of the class that the topology names for a worker (CS-10, DS-24).
    ///
    /// # Errors
    /// When the ClusterClass has no such class.
    pub fn templates(&self, kind: WorkerKind, name: &str, class: &str) -> Result<&WorkerTemplates, Failure> {
        let classes = match kind {
            WorkerKind::MachineDeployment => &self.machine_deployments,
            WorkerKind::MachinePool => &self.machine_pools,
        };
        classes.get(class).ok_or_else(|| Failure::NoWorkerClass {
            kind: kind.name(),
            topology_name: name.to_owned(),
            class: class.to_owned(),
        })
    }
}

fn all<T>(named: Vec<(String, Result<T, Failure>)>) -> Result<BTreeMap<String, T>, Failure> {
    named.into_iter().map(|(name, one)| one.map(|one| (name, one))).collect()
}

/// The class of the Cluster, ready to be used (BP-01, BP-02).
fn class(cluster: &Cluster, world: &World) -> Result<Arc<Class>, Failure> {
    let key = cluster.class_key().unwrap_or_default();
    let class = match world.class_at_once(&key) {
        Found::Yes(class) => class,
        Found::Absent => return Err(Failure::NoClass(key)),
        Found::Unreadable(reason) => return Err(Failure::Unreadable(reason)),
        Found::NotAsked => return Err(Failure::NotAsked),
    };
    let not_ready = |expected: String| Failure::ClassNotReady { class: key.clone(), expected };
    let condition = class.status.conditions.iter().find(|condition| condition.r#type == "VariablesReady");
    match condition {
        None => return Err(not_ready("it has no VariablesReady condition yet".to_owned())),
        // The status `Unknown` passes.
        Some(condition) if condition.status == "False" => {
            return Err(not_ready(format!("its VariablesReady condition is False: {}", condition.message)));
        }
        Some(_) => {}
    }
    let (generation, observed) = (class.metadata.generation, class.status.observed_generation);
    if generation != observed {
        let unresolved = class.status.conditions.iter().find(|condition| {
            (&*condition.r#type, &*condition.status) == ("RefVersionsUpToDate", "Unknown")
                && condition.observed_generation == generation
                && !condition.message.is_empty()
        });
        let reason = unresolved.map(|condition| format!(": {}", condition.message)).unwrap_or_default();
        return Err(not_ready(format!(
            "its generation {generation} is not reconciled yet; the last reconciled generation is {observed}{reason}"
        )));
    }
    Ok(class)
}

/// The Cluster with the defaults of its variables, which have been validated (BP-03 to BP-06).
fn with_defaults(cluster: &Cluster, class: &Class, world: &World) -> Result<Cluster, Failure> {
    let mut cluster = cluster.clone();
    let Some(variables) = class.variables() else {
        let expected = "its variables are not discovered yet".to_owned();
        return Err(Failure::ClassNotReady { class: class.metadata.key(), expected });
    };
    let (mut found, mut budget) = (Findings::default(), ValueBudget::per_value(world.stop()));
    let mut settle = |values: &mut List<VariableValue>, path: Path, mode: SettleMode| {
        settle(values, &path, &variables, mode, &mut budget, &mut found);
    };
    let topology = &mut cluster.spec.topology;
    settle(&mut topology.variables, Path::new(paths::cluster::TOPOLOGY_VARIABLES), SettleMode::Create);
    let path = Path::new(paths::cluster::TOPOLOGY_CONTROL_PLANE_VARIABLES);
    settle(&mut topology.control_plane.variables.overrides, path, SettleMode::ExistingOnly);
    let workers = &mut topology.workers;
    let mut deployments = std::mem::take(&mut workers.machine_deployments).into_vec();
    for worker in &mut deployments {
        let path = Path::new(paths::cluster::TOPOLOGY_MACHINE_DEPLOYMENTS).key(&worker.name);
        let path = path.child("variables.overrides");
        settle(&mut worker.variables.overrides, path, SettleMode::ExistingOnly);
    }
    workers.machine_deployments = deployments.into();
    let mut pools = std::mem::take(&mut workers.machine_pools).into_vec();
    for worker in &mut pools {
        let path = Path::new(paths::cluster::TOPOLOGY_MACHINE_POOLS).key(&worker.name).child("variables.overrides");
        settle(&mut worker.variables.overrides, path, SettleMode::ExistingOnly);
    }
    workers.machine_pools = pools.into();
    // Values that were not validated are neither valid nor invalid.
    if world.stop().has_stopped() {
        return Err(Interrupted::Stopped.into());
    }
    let (errors, _) = found.into_parts();
    if errors.is_empty() { Ok(cluster) } else { Err(Failure::InvalidCluster(errors)) }
}

/// Adds defaults to one list of values; an empty list of overrides stays unchanged (BP-05).
fn settle(
    values: &mut List<VariableValue>,
    path: &Path,
    variables: &CompiledVariables,
    mode: SettleMode,
    budget: &mut ValueBudget,
    found: &mut Findings,
) {
    if mode == SettleMode::ExistingOnly && values.is_empty() {
        return;
    }
    let changes = variables::settle(ValueList { values, old: &[], path }, variables, mode, budget, found);
    if changes.is_empty() {
        return;
    }
    let mut list = std::mem::take(values).into_vec();
    for change in changes {
        match change {
            ValueChange::Replace { position, value, .. } => {
                if let Some(written) = list.get_mut(position) {
                    written.value = Some(RawJson::from_value(&value));
                }
            }
            ValueChange::Append { name, value, .. } => {
                list.push(VariableValue { name, value: Some(RawJson::from_value(&value)) });
            }
        }
    }
    *values = list.into();
}

/// A template of the class, in exactly the version that the class refers to (BP-07). All copies of it share its spec.
fn template(reference: &TemplateRef, namespace: &str, world: &World) -> Result<Arc<Object>, Failure> {
    let TemplateRef { api_version, kind, name } = reference;
    let object = ObjectRef::new(api_version, kind, ObjectKey::new(namespace, name));
    match world.object(&object) {
        Found::Yes(template) => Ok(template.with_shared_spec()),
        Found::Absent => Err(Failure::NotFound { what: "the template", object }),
        Found::Unreadable(reason) => Err(Failure::Unreadable(reason)),
        Found::NotAsked => Err(Failure::NotAsked),
    }
}

#[cfg(test)]
mod tests;

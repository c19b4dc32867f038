//! A Cluster with its objects.

use std::sync::Arc;

use serde_json::Value;

use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::digest::digest;
use crate::lifecycle::fields::{is_of_kind, text};
use crate::lifecycle::objects::GroupKind;
use model::hub::{ContractRef, Object, ObjectKey, paths};

/// A referenced object of the Cluster.
pub(super) struct ReferencedObject {
    pub reference: ContractRef,
    /// `None` if the reference is empty or the object does not exist.
    pub found: Option<Arc<Object>>,
}

impl ReferencedObject {
    fn read(context: &StepContext<'_>, cluster: &Object, path: &str) -> Result<Self, StepError> {
        let reference = cluster.contract_ref_at(path);
        let found = context.referenced(&reference, cluster.namespace())?;
        Ok(ReferencedObject { reference, found })
    }

    pub(super) fn is_set(&self) -> bool {
        self.reference.is_defined()
    }
}

/// A Cluster and its objects (MA-27.7); every list is sorted by name.
pub(super) struct ClusterContext<'a> {
    pub context: &'a StepContext<'a>,
    pub cluster: &'a Arc<Object>,
    pub key: ObjectKey,
    pub has_topology: bool,
    /// The class of the topology; `None` without one, and for a Cluster that is deleted after its class.
    pub class: Option<Arc<Object>>,
    pub infrastructure: ReferencedObject,
    pub control_plane: ReferencedObject,
    pub pools: Vec<Arc<Object>>,
    pub deployments: Vec<Arc<Object>>,
    pub sets: Vec<Arc<Object>>,
    pub control_plane_machines: Vec<Arc<Object>>,
    pub worker_machines: Vec<Arc<Object>>,
}

impl<'a> ClusterContext<'a> {
    /// Collects the objects of a Cluster.
    ///
    /// # Errors
    /// When a kind is not listed yet, or the ClusterClass does not exist (MA-27.1). A Cluster that is being deleted
    /// does not need its class (DEC-11).
    pub(super) fn gather(context: &'a StepContext<'a>, cluster: &'a Arc<Object>) -> Result<Self, StepError> {
        let key = cluster.key();
        let has_topology =
            cluster.at(paths::cluster::TOPOLOGY).and_then(Value::as_object).is_some_and(|it| !it.is_empty());
        let class = if has_topology { class(context, cluster)? } else { None };
        let of_kind = |kind: &str| context.of_cluster(&GroupKind::core(kind), &key);
        let machines = of_kind("Machine")?;
        let (control_plane_machines, worker_machines) =
            machines.into_iter().partition(|machine| digest(machine).is_of_control_plane(machine));
        Ok(ClusterContext {
            context,
            cluster,
            has_topology,
            class,
            infrastructure: ReferencedObject::read(context, cluster, paths::INFRASTRUCTURE_REF)?,
            control_plane: ReferencedObject::read(context, cluster, paths::cluster::CONTROL_PLANE_REF)?,
            pools: of_kind("MachinePool")?,
            deployments: of_kind("MachineDeployment")?,
            sets: of_kind("MachineSet")?,
            control_plane_machines,
            worker_machines,
            key,
        })
    }

    /// Whether a reference is yet to be set by the topology controller.
    pub(super) fn waits_for_topology(&self, part: &ReferencedObject) -> bool {
        self.has_topology && !part.is_set()
    }

    /// MachineSets without a MachineDeployment.
    pub(super) fn stand_alone_sets(&self) -> impl Iterator<Item = &Arc<Object>> {
        let deployment = GroupKind::core("MachineDeployment");
        self.sets.iter().filter(move |set| !set.owner_references().iter().any(|owner| is_of_kind(owner, &deployment)))
    }
}

fn class(context: &StepContext<'_>, cluster: &Object) -> Result<Option<Arc<Object>>, StepError> {
    let name = text(cluster, paths::cluster::TOPOLOGY_CLASS_NAME);
    let namespace = match text(cluster, paths::cluster::TOPOLOGY_CLASS_NAMESPACE) {
        "" => cluster.namespace(),
        namespace => namespace,
    };
    match context.core("ClusterClass", namespace, name)? {
        None if !cluster.is_being_deleted() => {
            Err(StepError::failed(format!("ClusterClass {namespace}/{name} does not exist")))
        }
        found => Ok(found),
    }
}

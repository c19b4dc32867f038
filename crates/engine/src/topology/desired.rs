//! The desired state of a topology: one function for each object.
//!
//! ```text
//! infrastructure_cluster.rs   IC ─┐
//! control_plane_machines.rs       ├─► cluster.rs      upgrade: versions, in this order
//! control_plane.rs            CP ─┘
//! workers.rs ─┬─ machine_deployment.rs
//!             └─ machine_pool.rs                      health_check.rs: of control plane and machine deployments
//!
//! clone.rs, draft.rs, layers.rs, metadata.rs, naming.rs: what all of them are made with
//! ```

mod clone;
mod cluster;
mod control_plane;
mod control_plane_machines;
mod draft;
mod health_check;
mod infrastructure_cluster;
mod layers;
mod machine_deployment;
mod machine_pool;
mod metadata;
mod naming;
mod workers;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Failure;
use super::blueprint::Blueprint;
use super::current::Current;
use super::origin::Origins;
use super::upgrade::{DecidedUpgrade, PlannedUpgrade};
use super::worker::WorkerKind;
use model::hub::contract::Contract;
use model::hub::names::Names;
use model::hub::{ContractRef, Object};
use model::world::World;

/// The desired objects of a topology (DS-01).
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    pub infrastructure: DesiredObject,
    pub control_plane: DesiredControlPlane,
    pub cluster: DesiredCluster,
    /// In the order of the topology.
    pub machine_deployments: Vec<DesiredWorker>,
    /// In the order of the topology.
    pub machine_pools: Vec<DesiredWorker>,
}

/// A desired object, and the origins of its fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredObject {
    pub object: Object,
    pub origins: Origins,
}

/// The control plane with its machine template and health check.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredControlPlane {
    pub control_plane: DesiredObject,
    /// The template of its machines.
    pub machines: Option<DesiredObject>,
    pub health_check: Option<DesiredObject>,
}

/// The fields of the Cluster that the engine sets (DS-22, RS-23).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredCluster {
    /// All labels of the Cluster, with the two of the engine.
    pub labels: BTreeMap<String, String>,
    /// All annotations of the Cluster, with or without the step of the upgrade.
    pub annotations: BTreeMap<String, String>,
    pub infrastructure_ref: ContractRef,
    pub control_plane_ref: ContractRef,
}

/// A machine deployment with its templates, or a machine pool with its objects.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredWorker {
    pub kind: WorkerKind,
    /// The name in the topology.
    pub topology_name: String,
    pub class: String,
    pub worker: DesiredObject,
    pub bootstrap: DesiredObject,
    pub infrastructure: DesiredObject,
    /// Machine deployments only.
    pub health_check: Option<DesiredObject>,
}

impl Desired {
    /// The workers of a kind, in the order of the topology.
    pub fn workers(&self, kind: WorkerKind) -> &[DesiredWorker] {
        match kind {
            WorkerKind::MachineDeployment => &self.machine_deployments,
            WorkerKind::MachinePool => &self.machine_pools,
        }
    }
}

/// The desired state before patches.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    pub desired: Desired,
    /// The contract of the desired control plane.
    pub contract: Contract,
    /// Whether the contract is assumed because the definition is unknown (DEC-17).
    pub assumed: bool,
    pub warnings: Vec<String>,
}

/// Computes everything except patches (DS-01 to DS-38), without writes or changes of its inputs (DS-02). It also
/// decides versions, in the order of DS-01.
///
/// # Errors
/// There is no desired state when any part of it cannot be computed.
pub fn compute<'a>(
    blueprint: &'a Blueprint,
    current: &'a Current,
    world: &'a World,
    planned: PlannedUpgrade<'a>,
    names: &mut dyn Names,
) -> Result<(Computed, DecidedUpgrade<'a>), Failure> {
    let basis = DesiredInputs { blueprint, current, world };
    let infrastructure = infrastructure_cluster::compute(basis, names)?;
    let machines = control_plane_machines::compute(basis, names)?;
    let (made, of_control_plane) = control_plane::compute(basis, machines.as_ref(), planned, names)?;
    let control_plane::ComputedControlPlane { control_plane, contract, assumed, warnings } = made;
    let health_check = health_check::for_control_plane(basis, control_plane.object.name())?;
    let cluster = cluster::compute(basis, &infrastructure.object, &control_plane.object, &of_control_plane);
    let decided = of_control_plane.decide_workers()?;
    let machine_deployments = workers::compute(basis, WorkerKind::MachineDeployment, &decided, names)?;
    let machine_pools = workers::compute(basis, WorkerKind::MachinePool, &decided, names)?;
    let control_plane = DesiredControlPlane { control_plane, machines, health_check };
    let desired = Desired { infrastructure, control_plane, cluster, machine_deployments, machine_pools };
    Ok((Computed { desired, contract, assumed, warnings }, decided))
}

/// The inputs of the functions of this module.
#[derive(Clone, Copy, Debug)]
struct DesiredInputs<'a> {
    blueprint: &'a Blueprint,
    current: &'a Current,
    world: &'a World,
}

impl<'a> DesiredInputs<'a> {
    fn cluster_name(self) -> &'a str {
        &self.blueprint.cluster.metadata.name
    }

    fn namespace(self) -> &'a str {
        &self.blueprint.cluster.metadata.namespace
    }
}

/// The name of the current object of a slot (DS-07).
fn name_of(current: Option<&Arc<Object>>) -> Option<String> {
    current.map(|object| object.name().to_owned())
}

#[cfg(test)]
mod tests;

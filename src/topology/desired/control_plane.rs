//! The control plane.

use serde_json::{Value, json};

use super::draft::{contract_ref, labels_of_all};
use super::layers::{Given as _, Layers, moment};
use super::metadata::{Entry, Given};
use super::{Basis, DesiredObject, clone, name_of, naming};
use crate::hub::contract::definition_name;
use crate::hub::{ControlPlaneClass, ControlPlaneTopology, Named, Object, group_of, version_of};
use crate::topology::contract::{Contract, contract_of};
use crate::topology::field_path::{self, FieldPath, MACHINE_METADATA};
use crate::topology::names::Names;
use crate::topology::origin::Origin;
use crate::topology::upgrade::Upgrade;
use crate::topology::{Failure, current};
use crate::wire::duration_of_seconds;
use crate::world::Found;

const LAYERS: Layers<'static> = Layers { topology_path: "spec.topology.controlPlane", class_path: "spec.controlPlane" };

/// A control plane, and how its fields are laid out.
pub(super) struct Made {
    pub(super) control_plane: DesiredObject,
    pub(super) contract: Contract,
    pub(super) assumed: bool,
    pub(super) warnings: Vec<String>,
}

/// The control plane (DS-12 to DS-21).
pub(super) fn compute(
    basis: Basis<'_>,
    machines: Option<&DesiredObject>,
    upgrade: &mut Upgrade<'_>,
    names: &mut dyn Names,
) -> Result<Made, Failure> {
    let (topology, class) = (&basis.blueprint.topology().control_plane, &basis.blueprint.class.spec.control_plane);
    let given = Given {
        topology: &topology.metadata,
        class: &class.metadata,
        topology_path: LAYERS.topology_path,
        class_path: LAYERS.class_path,
    };
    let (labels, annotations) = (given.labels(), given.annotations());
    let mut object = cloned(basis, &labels, &annotations, names)?;
    let (contract, assumed) = contract_of(&object.object, basis.world)?;
    if let Some(machines) = machines {
        refer_to_machines(&mut object, &machines.object, contract, basis)?;
        add_machine_metadata(&mut object, &labels, &annotations, basis)?;
    }
    let warnings = add_replicas(&mut object, topology, basis)?;
    add_fields_of_machines(&mut object, topology, class, contract)?;
    object.set(field_path::VERSION, upgrade.control_plane_version()?, Origin::Topology)?;
    Ok(Made { control_plane: object, contract, assumed, warnings })
}

/// What the template of the class describes, with the metadata of the control plane (DS-12). Like the infrastructure
/// cluster it is not owned by the Cluster (DS-09).
fn cloned(
    basis: Basis<'_>,
    labels: &[Entry<'_>],
    annotations: &[Entry<'_>],
    names: &mut dyn Names,
) -> Result<DesiredObject, Failure> {
    let current = basis.current.control_plane.object.as_ref();
    let naming = &basis.blueprint.class.spec.control_plane.naming;
    let generated = naming::templated(&naming.template, Named::Cluster, LAYERS.class_path, basis, names)?;
    let name = name_of(current).unwrap_or(generated);
    let mut object = clone::object(&basis.blueprint.control_plane, &name, clone::Extra { labels, annotations }, basis)?;
    object.keep_shim(current, basis)?;
    Ok(object)
}

/// The reference to the template of the machines (DS-14).
fn refer_to_machines(
    object: &mut DesiredObject,
    machines: &Object,
    contract: Contract,
    basis: Basis<'_>,
) -> Result<(), Failure> {
    let path = field_path::INFRASTRUCTURE_REF.at(contract);
    let reference = match contract {
        Contract::V1Beta2 => contract_ref(machines),
        Contract::V1Beta1 => json!({
            "apiVersion": classic_version(machines, basis)?,
            "kind": machines.kind(),
            "name": machines.name(),
            "namespace": machines.namespace(),
        }),
    };
    object.set(path, reference, Origin::Topology)
}

/// The `apiVersion` of a classic reference: that of the current one to the same kind, which a controller may have raised.
fn classic_version<'a>(machines: &'a Object, basis: Basis<'a>) -> Result<&'a str, Failure> {
    let Some(control_plane) = &basis.current.control_plane.object else { return Ok(machines.api_version()) };
    let reference = current::machines_reference(control_plane, Contract::V1Beta1)?;
    let path = field_path::INFRASTRUCTURE_REF.at(Contract::V1Beta1);
    let version = control_plane.at(path).and_then(|reference| reference.get("apiVersion")?.as_str());
    let is_same = reference.api_group == machines.group() && reference.kind == machines.kind();
    Ok(version.filter(|_| is_same).unwrap_or(machines.api_version()))
}

const MACHINE_LABELS: &str = "spec.machineTemplate.metadata.labels";
const MACHINE_ANNOTATIONS: &str = "spec.machineTemplate.metadata.annotations";

/// Labels and annotations of the machines, over those of the template; maps without entries are not written (DS-15).
fn add_machine_metadata(
    object: &mut DesiredObject,
    labels: &[Entry<'_>],
    annotations: &[Entry<'_>],
    basis: Basis<'_>,
) -> Result<(), Failure> {
    object.overlay(MACHINE_LABELS, labels)?;
    object.overlay(MACHINE_LABELS, &labels_of_all(basis))?;
    object.overlay(MACHINE_ANNOTATIONS, annotations)?;
    let metadata = object.object.members_mut_at(MACHINE_METADATA)?;
    metadata.retain(|_, value| !value.is_null() && value.as_object().is_none_or(|map| !map.is_empty()));
    Ok(())
}

/// The number of machines, if the topology gives one (DS-16); left out of a kind that is known to have no such field, which
/// the answer warns of (DEC-22).
fn add_replicas(
    object: &mut DesiredObject,
    topology: &ControlPlaneTopology,
    basis: Basis<'_>,
) -> Result<Vec<String>, Failure> {
    if topology.replicas.is_some() && !may_have_replicas(&object.object, basis)? {
        let path = [LAYERS.topology_path, ".replicas"].concat();
        return Ok(vec![format!("{path}: left out, for {} has no spec.replicas", object.object.kind())]);
    }
    LAYERS.set_from_topology(object, field_path::REPLICAS, "replicas", &topology.replicas)?;
    Ok(Vec::new())
}

/// Whether nothing is known against `spec.replicas` of a kind: without its schema anything may be there.
fn may_have_replicas(object: &Object, basis: Basis<'_>) -> Result<bool, Failure> {
    let name = definition_name(group_of(object.api_version()), object.kind());
    let definition = match basis.world.definition(&name) {
        Found::Yes(definition) => definition,
        Found::Absent => return Ok(true),
        Found::Unreadable(reason) => return Err(Failure::Unreadable(reason)),
        Found::NotAsked => return Err(Failure::NotAsked),
    };
    let Some(schema) = definition.schemas.get(version_of(object.api_version())) else { return Ok(true) };
    let is_open = |node: &Value| node.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    let Some(spec) = schema.pointer("/properties/spec") else { return Ok(is_open(schema)) };
    Ok(is_open(schema) || is_open(spec) || spec.pointer("/properties/replicas").is_some())
}

/// When machines are replaced, and what holds for each of them (DS-17 to DS-19).
fn add_fields_of_machines(
    object: &mut DesiredObject,
    topology: &ControlPlaneTopology,
    class: &ControlPlaneClass,
    contract: Contract,
) -> Result<(), Failure> {
    LAYERS.set_from_topology(object, field_path::ROLLOUT_AFTER, "rollout.after", &moment(&topology.rollout.after))?;
    let (gates, taints) = (field_path::READINESS_GATES.at(contract), field_path::TAINTS.at(contract));
    LAYERS.set(object, gates, "readinessGates", &topology.readiness_gates, &class.readiness_gates)?;
    LAYERS.set(object, taints, "taints", &topology.taints, &class.taints)?;
    let (topology, class) = (&topology.deletion, &class.deletion);
    let mut timeout = |path: FieldPath, from: &str, topology, class| {
        let (topology, class) = (timeout(topology, contract), timeout(class, contract));
        LAYERS.set(object, path.at(contract), from, &topology, &class)
    };
    let (ours, theirs) = (topology.node_drain_timeout_seconds, class.node_drain_timeout_seconds);
    timeout(field_path::DRAIN_TIMEOUT, "deletion.nodeDrainTimeoutSeconds", ours, theirs)?;
    let (ours, theirs) = (topology.node_volume_detach_timeout_seconds, class.node_volume_detach_timeout_seconds);
    timeout(field_path::DETACH_TIMEOUT, "deletion.nodeVolumeDetachTimeoutSeconds", ours, theirs)?;
    let (ours, theirs) = (topology.node_deletion_timeout_seconds, class.node_deletion_timeout_seconds);
    timeout(field_path::DELETION_TIMEOUT, "deletion.nodeDeletionTimeoutSeconds", ours, theirs)
}

/// A timeout: whole seconds, or a duration in the older contract (DS-19).
fn timeout(seconds: Option<i32>, contract: Contract) -> Option<Value> {
    match contract {
        Contract::V1Beta2 => seconds.given(),
        Contract::V1Beta1 => seconds.map(|seconds| duration_of_seconds(seconds).into()),
    }
}

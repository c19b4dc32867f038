//! Fields of machine pools, and timeouts of both kinds of workers.

use super::DesiredObject;
use super::layers::Layers;
use crate::topology::Failure;
use crate::topology::origin::Origin;
use model::hub::machine_defaults::replicas_within;
use model::hub::naming::decimal_integer;
use model::hub::{MachineDeletion, MachinePoolClass, MachinePoolTopology, Object, TOPOLOGY_MANAGER, annotation, paths};
use schema::ssa::{ElementPath, ManagedFields};

/// The fields of a machine pool with its annotations (DS-36).
pub(super) fn add_fields(
    worker: &mut DesiredObject,
    topology: &MachinePoolTopology,
    class: &MachinePoolClass,
    current: Option<&Object>,
    layers: Layers<'_>,
) -> Result<(), Failure> {
    layers.set_from_topology(worker, paths::REPLICAS, "replicas", &topology.replicas)?;
    if topology.replicas.is_none() {
        add_autoscaled_replicas(worker, current)?;
    }
    let (ours, theirs) = (&topology.failure_domains, &class.failure_domains);
    layers.set(worker, paths::worker::FAILURE_DOMAINS, "failureDomains", ours, theirs)?;
    let (ours, theirs) = (&topology.min_ready_seconds, &class.min_ready_seconds);
    layers.set(worker, paths::worker::MIN_READY_SECONDS, "minReadySeconds", ours, theirs)?;
    add_timeouts(worker, &topology.deletion, &class.deletion, layers)?;
    layers.set(worker, paths::worker::TAINTS, "taints", &topology.taints, &class.taints)
}

/// The replicas of a pool that the topology leaves to an autoscaler: what admission gives a machine deployment, the
/// minimum at first, and later the number of before within the sizes. Admission has no default for pools, so they are
/// applied until another field manager changes them (DEC-72).
fn add_autoscaled_replicas(worker: &mut DesiredObject, current: Option<&Object>) -> Result<(), Failure> {
    let size = |name: &str| worker.object.annotation(name).and_then(decimal_integer);
    let sizes = (size(annotation::AUTOSCALER_MIN_SIZE), size(annotation::AUTOSCALER_MAX_SIZE));
    let (Some(least), Some(most)) = sizes else { return Ok(()) };
    let had = match current {
        None => None,
        Some(current) if owns_replicas(current) => current.replicas(),
        Some(_) => return Ok(()),
    };
    worker.set(paths::REPLICAS, replicas_within(had, least, most), Origin::Topology)
}

/// Whether the topology owns the replicas of an object. Nothing is known of other managers in a file without
/// `managedFields`.
fn owns_replicas(object: &Object) -> bool {
    let Some(managers) = object.at(paths::metadata::MANAGED_FIELDS) else { return true };
    let managers = ManagedFields::all_in(Some(managers)).unwrap_or_default();
    let replicas = ElementPath::from_fields(&["spec", "replicas"]);
    managers.iter().any(|manager| manager.is_of_applier(TOPOLOGY_MANAGER) && manager.fields.has_prefix(&replicas.0))
}

/// Sets the timeouts for the steps of a machine's deletion.
pub(super) fn add_timeouts(
    worker: &mut DesiredObject,
    topology: &MachineDeletion,
    class: &MachineDeletion,
    layers: Layers<'_>,
) -> Result<(), Failure> {
    let (ours, theirs) = (topology.node_drain_timeout_seconds, class.node_drain_timeout_seconds);
    let (path, from) = (paths::worker::NODE_DRAIN_TIMEOUT, "deletion.nodeDrainTimeoutSeconds");
    layers.set(worker, path, from, &ours, &theirs)?;
    let (ours, theirs) = (topology.node_volume_detach_timeout_seconds, class.node_volume_detach_timeout_seconds);
    let (path, from) = (paths::worker::NODE_VOLUME_DETACH_TIMEOUT, "deletion.nodeVolumeDetachTimeoutSeconds");
    layers.set(worker, path, from, &ours, &theirs)?;
    let (ours, theirs) = (topology.node_deletion_timeout_seconds, class.node_deletion_timeout_seconds);
    let (path, from) = (paths::worker::NODE_DELETION_TIMEOUT, "deletion.nodeDeletionTimeoutSeconds");
    layers.set(worker, path, from, &ours, &theirs)
}

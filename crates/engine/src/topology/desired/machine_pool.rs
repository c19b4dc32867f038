//! Fields of machine pools, and timeouts of both kinds of workers.

use super::DesiredObject;
use super::layers::Layers;
use crate::topology::Failure;
use model::hub::{MachineDeletion, MachinePoolClass, MachinePoolTopology, paths};

/// The fields of a machine pool (DS-36).
pub(super) fn add_fields(
    worker: &mut DesiredObject,
    topology: &MachinePoolTopology,
    class: &MachinePoolClass,
    layers: Layers<'_>,
) -> Result<(), Failure> {
    layers.set_from_topology(worker, paths::REPLICAS, "replicas", &topology.replicas)?;
    let (ours, theirs) = (&topology.failure_domains, &class.failure_domains);
    layers.set(worker, "spec.failureDomains", "failureDomains", ours, theirs)?;
    let (ours, theirs) = (&topology.min_ready_seconds, &class.min_ready_seconds);
    layers.set(worker, paths::worker::MIN_READY_SECONDS, "minReadySeconds", ours, theirs)?;
    add_timeouts(worker, &topology.deletion, &class.deletion, layers)?;
    layers.set(worker, paths::worker::TAINTS, "taints", &topology.taints, &class.taints)
}

/// Sets the timeouts for the steps of a machine's deletion.
pub(super) fn add_timeouts(
    worker: &mut DesiredObject,
    topology: &MachineDeletion,
    class: &MachineDeletion,
    layers: Layers<'_>,
) -> Result<(), Failure> {
    let (ours, theirs) = (topology.node_drain_timeout_seconds, class.node_drain_timeout_seconds);
    let (path, from) = ("spec.template.spec.deletion.nodeDrainTimeoutSeconds", "deletion.nodeDrainTimeoutSeconds");
    layers.set(worker, path, from, &ours, &theirs)?;
    let (ours, theirs) = (topology.node_volume_detach_timeout_seconds, class.node_volume_detach_timeout_seconds);
    let (path, from) =
        ("spec.template.spec.deletion.nodeVolumeDetachTimeoutSeconds", "deletion.nodeVolumeDetachTimeoutSeconds");
    layers.set(worker, path, from, &ours, &theirs)?;
    let (ours, theirs) = (topology.node_deletion_timeout_seconds, class.node_deletion_timeout_seconds);
    let (path, from) =
        ("spec.template.spec.deletion.nodeDeletionTimeoutSeconds", "deletion.nodeDeletionTimeoutSeconds");
    layers.set(worker, path, from, &ours, &theirs)
}

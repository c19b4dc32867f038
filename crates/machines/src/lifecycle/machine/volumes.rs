//! Waiting until the volumes of a Node are detached (MA-9.8, MA-11).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::drain_rules;
use super::guards::{PASS, is_left_out};
use super::node_fields::is_unreachable;
use super::pods::{DrainContext, PodAction, decide, on_node};
use super::reconcile::{DeletionWait, MachineReconcile};
use crate::lifecycle::context::StepError;
use crate::lifecycle::fields::{flag, items, set, stamp, text};
use crate::lifecycle::objects::{GroupKind, WorkloadObjects};
use model::hub::{Object, ObjectKey, paths};

const EXCLUDED: &str = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach";
const START: &str = paths::machine::VOLUME_DETACH_START;
const REASON: &str = "WaitingForVolumeDetach";

/// Waits while volumes are attached that only the Node can detach.
pub(super) fn stage(work: &mut MachineReconcile<'_, '_>, name: &str) -> Result<Option<DeletionWait>, StepError> {
    if is_left_out(work, EXCLUDED, paths::machine::NODE_VOLUME_DETACH_TIMEOUT, START) {
        return Ok(None);
    }
    let Some(workload) = work.workload() else {
        return Err(StepError::failed(format!("volumes of Node {name} are not known: its cluster is not connected")));
    };
    let node = workload.node(name);
    let Some(node) = node.filter(|node| !is_unreachable(node)) else { return Ok(None) };
    let held = attached(work, workload, node)?;
    if held.is_empty() {
        return Ok(None);
    }
    if work.machine.at(START).is_none() {
        set(&mut work.machine, START, stamp(work.context.now));
    }
    work.step.requeue_after(PASS);
    let held: Vec<&str> = held.iter().map(String::as_str).collect();
    Ok(Some(DeletionWait::new(
        REASON,
        format!("Waiting for volumes of Node {name} to be detached: {}", held.join(", ")),
    )))
}

/// The attached volumes that block the deletion (MA-11.2, MA-11.3).
fn attached(
    work: &MachineReconcile<'_, '_>,
    workload: &WorkloadObjects,
    node: &Object,
) -> Result<BTreeSet<String>, StepError> {
    let of_node = items(node, "status.volumesAttached").iter();
    let handles: Vec<&str> = of_node.filter_map(|volume| volume.get("name")?.as_str()).collect();
    let claimed = attachments(workload, node.name());
    if handles.is_empty() && claimed.is_empty() {
        return Ok(BTreeSet::new());
    }
    let ignored = ignored_claims(work, workload, node)?;
    let volumes: Vec<&Arc<Object>> = workload.all(&GroupKind::new("", "PersistentVolume")).collect();
    let by_handle = handles.into_iter().map(|handle| (handle, find(&volumes, |volume| has_handle(volume, handle))));
    let by_name = claimed.into_iter().map(|name| (name, find(&volumes, |volume| volume.name() == name)));
    let is_held = |volume: Option<&Arc<Object>>| match volume.and_then(|volume| claim(volume)) {
        Some(claim) => !ignored.contains(&claim),
        None => true,
    };
    let held = by_handle.chain(by_name).filter(|(_, volume)| is_held(*volume));
    Ok(held.map(|(name, volume)| volume.map_or(name, |volume| volume.name()).to_owned()).collect())
}

fn find<'a>(volumes: &[&'a Arc<Object>], is_it: impl Fn(&Object) -> bool) -> Option<&'a Arc<Object>> {
    volumes.iter().copied().find(|volume| is_it(volume))
}

/// The names of the volumes that VolumeAttachments attach to the Node.
fn attachments<'a>(workload: &'a WorkloadObjects, node: &str) -> Vec<&'a str> {
    let kind = GroupKind::new("storage.k8s.io", "VolumeAttachment");
    let all = workload.all(&kind);
    let its = all.filter(|it| text(it, paths::pod::NODE_NAME) == node && flag(it, "status.attached"));
    its.map(|it| text(it, "spec.source.persistentVolumeName")).filter(|name| !name.is_empty()).collect()
}

/// Whether a volume name in the status of a Node refers to this volume.
fn has_handle(volume: &Object, name: &str) -> bool {
    let (driver, handle) = (text(volume, "spec.csi.driver"), text(volume, "spec.csi.volumeHandle"));
    name == volume.name() || (!driver.is_empty() && name == format!("kubernetes.io/csi/{driver}^{handle}"))
}

fn claim(volume: &Object) -> Option<ObjectKey> {
    let name = text(volume, "spec.claimRef.name");
    (!name.is_empty()).then(|| ObjectKey::new(text(volume, "spec.claimRef.namespace"), name))
}

/// Claims of Pods that remain on a drained Node.
fn ignored_claims(
    work: &MachineReconcile<'_, '_>,
    workload: &WorkloadObjects,
    node: &Object,
) -> Result<BTreeSet<ObjectKey>, StepError> {
    let rules = drain_rules::applicable(work)?;
    let around = DrainContext { workload, rules: &rules, is_unreachable: is_unreachable(node), now: work.context.now };
    let mut claims = BTreeSet::new();
    for pod in on_node(workload, node.name()) {
        if decide(&pod, &around)?.fate == PodAction::Skipped {
            let names = items(&pod, paths::pod::VOLUMES).iter();
            let names = names.filter_map(|volume| volume.get("persistentVolumeClaim")?.get("claimName")?.as_str());
            claims.extend(names.map(|name| ObjectKey::new(pod.namespace(), name)));
        }
    }
    Ok(claims)
}

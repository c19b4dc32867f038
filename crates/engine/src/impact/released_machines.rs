//! Machines that are outdated before an edit: those that the edit releases for replacement, and those that are replaced
//! without it (DEC-59).

use std::sync::Arc;

use serde_json::json;

use crate::topology::plan::{Certainty, MachineCounts, Roll, TopologyPart, TopologySimulator};
use crate::topology::rollout_record::{is_comparable, record};
use crate::topology::upgrade::deferred;
use crate::topology::worker::WorkerKind;
use model::hub::{Cluster, Object, ObjectKey, annotation, label, paths};
use model::world::{Facts, Found, Record, WorkerSet, WorkerState};

const KIND: &str = "MachineDeployment";

/// Copies the watched state of MachineDeployments to those of a simulated Cluster: the number of machines if the
/// topology does not set it (DEC-53), and the number of machines that `OnDelete` has kept outdated and another strategy
/// replaces (ROLL-11).
pub(super) fn put_states(settled: &mut TopologySimulator, cluster: &ObjectKey) {
    let facts = settled.facts().clone();
    let Some(objects) = settled.facts_mut().objects_mut() else { return };
    let deployments: Vec<_> = objects.of_cluster(cluster).filter(|object| object.kind() == KIND).cloned().collect();
    for mut deployment in deployments {
        let Some(state) = state(&facts, cluster, &deployment) else { continue };
        let has_size = deployment.at(paths::REPLICAS).is_some();
        let left = Some(state.outdated.unwrap_or(state.replicas)).filter(|left| *left > 0 && is_on_delete(&deployment));
        if has_size && left.is_none() {
            continue;
        }
        let changed = Arc::make_mut(&mut deployment);
        let sized = has_size || changed.set(paths::REPLICAS, state.replicas.into()).is_ok();
        let status = left.map(|left| json!({"replicas": left, "upToDateReplicas": 0}));
        if sized && status.is_none_or(|status| changed.set("status", status).is_ok()) {
            objects.put(deployment);
        }
    }
}

/// The watched state of a MachineDeployment.
fn state<'f>(facts: &'f Facts, cluster: &ObjectKey, deployment: &Object) -> Option<&'f WorkerState> {
    let name = deployment.label(label::DEPLOYMENT_NAME)?.to_owned();
    facts.worker_state(&WorkerSet { cluster: cluster.clone(), name })
}

fn is_on_delete(deployment: &Object) -> bool {
    deployment.at(paths::worker::ROLLOUT_STRATEGY).and_then(|strategy| strategy.as_str()) == Some("OnDelete")
}

/// Subtracts machines that are replaced without the edit, because they are outdated already.
pub(super) fn discount(rolls: &mut [Roll], settled: &TopologySimulator, cluster: &Cluster) {
    let key = cluster.metadata.key();
    let counts = &cluster.status.control_plane;
    let outdated = |all: i64, current: i64| all.saturating_sub(current).max(0);
    let mut of_control_plane = counts
        .replicas
        .zip(counts.up_to_date_replicas)
        .map_or(0, |(all, current)| outdated(all.into(), current.into()));
    for roll in rolls {
        match &roll.part {
            TopologyPart::ControlPlane => of_control_plane -= without(roll, of_control_plane),
            TopologyPart::Worker(WorkerKind::MachineDeployment, name) => {
                let set = WorkerSet { cluster: key.clone(), name: name.clone() };
                let outdated = settled.facts().worker_state(&set).and_then(|state| state.outdated).unwrap_or_default();
                if outdated > 0 && !waits_for_deletions(settled, &key, name) {
                    without(roll, outdated);
                }
            }
            _ => {}
        }
    }
}

/// Subtracts outdated machines from those that a roll replaces; returns the subtracted number.
fn without(roll: &mut Roll, outdated: i64) -> i64 {
    let Some(replaced) = &mut roll.machines.replaced else { return 0 };
    let fewer = outdated.min(*replaced);
    *replaced -= fewer;
    roll.machines.at_least = roll.machines.at_least.saturating_sub(fewer).max(0);
    fewer
}

/// Whether outdated machines of a set stay until they are deleted.
fn waits_for_deletions(settled: &TopologySimulator, cluster: &ObjectKey, set: &str) -> bool {
    let Some(objects) = settled.facts().objects() else { return false };
    let mut of_set = objects.of_cluster(cluster).filter(|object| object.label(label::DEPLOYMENT_NAME) == Some(set));
    of_set.any(|object| object.kind() == KIND && is_on_delete(object))
}

/// Machines of worker sets whose upgrade is deferred before an edit but not after it.
pub(super) fn upgrades(old: &Cluster, new: &Cluster, facts: &Facts) -> Vec<Roll> {
    let kind = WorkerKind::MachineDeployment;
    let [before, after] = [old, new].map(|cluster| deferred(kind, &cluster.spec.topology));
    let version = &new.spec.topology.version;
    let entries = kind.entries(&new.spec.topology).into_iter();
    let released = entries.filter(|entry| before.contains(entry.name) && !after.contains(entry.name));
    let rolls = released.filter_map(|entry| {
        let set = WorkerSet { cluster: new.metadata.key(), name: entry.name.to_owned() };
        let state =
            facts.worker_state(&set).filter(|state| !state.version.is_empty() && *state.version != **version)?;
        let machines =
            MachineCounts { replaced: Some(state.replicas), at_least: state.replicas, ..MachineCounts::NONE };
        Some(Roll {
            part: TopologyPart::Worker(kind, entry.name.to_owned()),
            kind: KIND.to_owned(),
            name: entry.name.to_owned(),
            machines,
            at_a_time: None,
            from: None,
            in_place: None,
            certainty: Certainty::Assumed,
            reason: format!("its version goes from {} to {version}, which is not deferred any more", state.version),
            is_upgrade: true,
        })
    });
    rolls.collect()
}

/// Adds rolls of slots without another roll that replaces machines.
pub(super) fn add(rolls: &mut Vec<Roll>, more: Vec<Roll>) {
    for roll in more {
        if !rolls.iter().any(|other| other.part == roll.part && other.is_upgrade) {
            rolls.retain(|other| other.part != roll.part || other.machines.replaced == Some(0));
            rolls.push(roll);
        }
    }
}

/// The record of a Cluster, if it can be compared.
fn recorded(cluster: &Cluster) -> Option<&str> {
    cluster.annotation(annotation::ROLLED_OUT).filter(|record| is_comparable(record))
}

/// The record for the current inputs of a Cluster's objects; `None` if they cannot be computed.
fn made_from(fold: &TopologySimulator, key: &ObjectKey) -> Option<String> {
    fold.compute(key).ok().map(|computation| record(&computation.observed.blueprint))
}

/// Whether the inputs of a Cluster's objects are the same as at their rollout.
pub(super) fn is_as_rolled_out(fold: &TopologySimulator, key: &ObjectKey) -> bool {
    let Found::Yes(cluster) = fold.facts().cluster(key) else { return false };
    recorded(&cluster).is_some_and(|recorded| made_from(fold, key).is_some_and(|now| now == recorded))
}

/// Whether an edit resumes a Cluster, with the record of its objects' inputs (DEC-59).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resumed {
    No,
    /// The Cluster has no comparable record.
    Unrecorded,
    Recorded(String),
}

impl Resumed {
    /// Compares two worlds. The Cluster is also resumed in the old one, so that the other changes of the edit count.
    pub(super) fn between(old: &mut TopologySimulator, new: &TopologySimulator, key: &ObjectKey) -> Self {
        let (Found::Yes(was), Found::Yes(is)) = (old.facts().cluster(key), new.facts().cluster(key)) else {
            return Resumed::No;
        };
        if !was.is_paused() || is.is_paused() {
            return Resumed::No;
        }
        let mut awake = Cluster::clone(&was);
        awake.spec.paused = None;
        let mut annotations = awake.metadata.annotations.to_map();
        annotations.remove(annotation::PAUSED);
        awake.metadata.annotations = annotations.into();
        old.facts_mut().put_cluster(key.clone(), Record::readable(awake));
        recorded(&was).map_or(Resumed::Unrecorded, |record| Resumed::Recorded(record.to_owned()))
    }

    /// Whether the inputs of the objects have changed since their rollout. A topology that cannot be computed replaces
    /// nothing.
    pub(super) fn was_edited(&self, new: &TopologySimulator, key: &ObjectKey) -> bool {
        let Resumed::Recorded(recorded) = self else { return false };
        made_from(new, key).is_some_and(|now| now != *recorded)
    }

    /// The reason for an incomplete number of machines.
    pub(super) fn unknown(&self) -> Option<String> {
        (*self == Resumed::Unrecorded)
            .then(|| "the Cluster was paused, and edits in the meantime are not known".to_owned())
    }
}

//! The state of an upgrade during one computation.

use std::collections::{BTreeMap, BTreeSet};

use crate::topology::holds::{HeldPart, HeldReason, Hold};
use crate::topology::hooks::HookTracker;
use crate::topology::worker::WorkerKind;
use golang::version::VersionText;
use model::hub::Hook;

/// The state and the decisions of an upgrade during one computation (UP-04).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tracker {
    pub control_plane: ControlPlaneTracker,
    pub machine_deployments: WorkerTracker,
    pub machine_pools: WorkerTracker,
    /// The lowest version among current workers; `None` without any.
    pub minimum_workers_version: Option<VersionText>,
    /// Whether the plans were computed; "nothing to do" counts.
    pub is_planned: bool,
    /// The pending hooks of the Cluster, and the blocking answers.
    pub hooks: HookTracker,
}

impl Tracker {
    /// Whether parts still upgrade, apart from deferred workers.
    pub fn is_upgrading(&self) -> bool {
        let ControlPlaneTracker { is_pending, is_waiting_for_workers, is_upgrading, .. } = &self.control_plane;
        let workers = [&self.machine_deployments, &self.machine_pools];
        let are_upgrading =
            |of: &&WorkerTracker| !(of.upgrading.is_empty() && of.pending.is_empty() && of.pending_create.is_empty());
        *is_pending || *is_waiting_for_workers || *is_upgrading || workers.iter().any(are_upgrading)
    }
}

/// The control plane in an upgrade.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ControlPlaneTracker {
    pub is_pending: bool,
    pub is_waiting_for_workers: bool,
    pub is_provisioning: bool,
    pub is_upgrading: bool,
    pub is_starting: bool,
    pub plan: Vec<VersionText>,
    /// Kind and name of the object, when there is one.
    pub kind: String,
    pub name: String,
    /// The version that was decided.
    pub version: VersionText,
    /// Why it is pending.
    pub hold: Option<Hold>,
}

/// The workers of a kind in an upgrade.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerTracker {
    pub plan: Vec<VersionText>,
    /// Names of objects (UP-23).
    pub upgrading: BTreeSet<String>,
    /// Names of objects.
    pub pending: BTreeSet<String>,
    /// Names of objects.
    pub deferred: BTreeSet<String>,
    /// Names in the topology.
    pub pending_create: BTreeSet<String>,
    pub max_concurrency: usize,
    /// The workers that upgrade in a plan ahead of the limit, by their names in the topology and in its order.
    pub ahead: Vec<String>,
    /// Whether no further worker can be planned ahead.
    pub is_ahead_over: bool,
    /// The holds of workers, by names of objects, or by names in the topology for new workers.
    pub holds: BTreeMap<String, Hold>,
}

impl ControlPlaneTracker {
    /// Whether it needs no upgrade and none is in progress (UP-08).
    pub(super) fn is_stable(&self) -> bool {
        self.is_at_rest() && !self.is_pending
    }

    /// Whether it is stable, or only waits for workers (UP-08).
    pub(super) fn is_stable_or_waiting(&self) -> bool {
        self.is_at_rest() && (!self.is_pending || self.is_waiting_for_workers)
    }

    fn is_at_rest(&self) -> bool {
        !self.is_provisioning && !self.is_upgrading && !self.is_starting
    }
}

impl WorkerTracker {
    /// Whether all desired workers exist and have their desired version.
    fn is_at_rest(&self) -> bool {
        let sets = [&self.upgrading, &self.pending, &self.deferred, &self.pending_create];
        sets.into_iter().all(BTreeSet::is_empty)
    }
}

impl Tracker {
    /// The workers of a kind.
    pub fn workers(&self, kind: WorkerKind) -> &WorkerTracker {
        match kind {
            WorkerKind::MachineDeployment => &self.machine_deployments,
            WorkerKind::MachinePool => &self.machine_pools,
        }
    }

    /// The workers of a kind, to record decisions.
    pub(super) fn workers_mut(&mut self, kind: WorkerKind) -> &mut WorkerTracker {
        match kind {
            WorkerKind::MachineDeployment => &mut self.machine_deployments,
            WorkerKind::MachinePool => &mut self.machine_pools,
        }
    }

    /// Whether only the health check of the control plane may be written (UP-30).
    pub(in crate::topology) fn is_control_plane_frozen(&self) -> bool {
        self.control_plane.is_pending
    }

    /// Whether only the health check of a worker may be written (UP-40).
    pub(in crate::topology) fn is_worker_frozen(&self, kind: WorkerKind, object_name: &str) -> bool {
        self.workers(kind).pending.contains(object_name)
    }

    /// Whether a worker must not be created yet (UP-33).
    pub(in crate::topology) fn is_pending_create(&self, kind: WorkerKind, topology_name: &str) -> bool {
        self.workers(kind).pending_create.contains(topology_name)
    }

    /// Whether workers wait for the upgrade concurrency of their kind.
    pub(in crate::topology) fn has_queue(&self) -> bool {
        let of_kind = |kind: WorkerKind| self.workers(kind).holds.values();
        WorkerKind::ALL.into_iter().flat_map(of_kind).any(|hold| matches!(hold, Hold::Concurrency { .. }))
    }

    /// Whether control plane and workers have the version of the topology, with all their machines (HK-21).
    pub(in crate::topology) fn is_complete(&self) -> bool {
        self.control_plane.is_stable() && WorkerKind::ALL.iter().all(|kind| self.workers(*kind).is_at_rest())
    }

    /// The held parts: the control plane, then workers by name, then the Cluster called `cluster` for hooks that hold
    /// no part.
    pub fn held(&self, cluster: &str) -> Vec<HeldPart> {
        let held = |kind: &str, name: &str, reason: &Hold| HeldPart {
            kind: kind.to_owned(),
            name: name.to_owned(),
            reason: HeldReason::Upgrade(reason.clone()),
        };
        let control_plane = &self.control_plane;
        let mut all: Vec<_> =
            control_plane.hold.iter().map(|hold| (&*control_plane.kind, &*control_plane.name, hold)).collect();
        for kind in WorkerKind::ALL {
            all.extend(self.workers(kind).holds.iter().map(|(name, hold)| (kind.name(), name.as_str(), hold)));
        }
        let holds =
            |wanted: Hook| all.iter().any(|(.., hold)| matches!(hold, Hold::Hook { hook, .. } if *hook == wanted));
        let rest = self.hooks.blocking().filter(|(hook, _)| !holds(*hook));
        let rest =
            rest.map(|(hook, block)| held("Cluster", cluster, &Hold::Hook { hook, message: block.message.clone() }));
        let rest: Vec<HeldPart> = rest.collect();
        all.into_iter().map(|(kind, name, hold)| held(kind, name, hold)).chain(rest).collect()
    }
}

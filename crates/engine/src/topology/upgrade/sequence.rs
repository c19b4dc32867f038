//! The workers of a topology in the order in which they upgrade.

use crate::topology::holds::Hold;
use crate::topology::worker::{WorkerEntry, WorkerKind};
use model::hub::{Topology, annotation};

/// The workers of a kind in the order of the topology.
pub(super) struct Sequence<'a> {
    pub(super) kind: WorkerKind,
    pub(super) entries: Vec<WorkerEntry<'a>>,
    /// The position of the first worker that holds the following ones.
    holding: Option<usize>,
}

impl<'a> Sequence<'a> {
    pub(super) fn new(kind: WorkerKind, topology: &'a Topology) -> Self {
        let entries = kind.entries(topology);
        let holds =
            |entry: &WorkerEntry<'_>| entry.metadata.annotations.contains_key(annotation::HOLD_UPGRADE_SEQUENCE);
        Sequence { kind, holding: entries.iter().position(holds), entries }
    }

    /// The reason for which a worker is deferred: its annotations, or an earlier worker that holds the following ones
    /// (UP-34). Its version stays in the plan, so the control plane waits for it (UP-45).
    pub(super) fn deferral(&self, position: usize) -> Option<Hold> {
        let hold =
            |annotation: &'static str, on: &WorkerEntry<'_>| Hold::Deferred { annotation, on: on.name.to_owned() };
        let own = self.entries.get(position);
        let own = own.filter(|own| own.metadata.annotations.contains_key(annotation::DEFER_UPGRADE));
        let holding = self.holding.filter(|holding| *holding <= position).and_then(|at| self.entries.get(at));
        own.map(|own| hold(annotation::DEFER_UPGRADE, own))
            .or_else(|| holding.map(|holding| hold(annotation::HOLD_UPGRADE_SEQUENCE, holding)))
    }
}

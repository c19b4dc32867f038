//! The phase of a Machine, for display only; no controller reads it (MA-2.5, MA-3, DEC-6).

use std::fmt;

use serde_json::json;

use super::reconcile::{DeletionWait, ExternalObject, MachineReconcile};
use crate::lifecycle::conditions;
use crate::lifecycle::contract::has_failed;
use crate::lifecycle::fields::{set, stamp};

/// `status.phase` of a Machine (MA-3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MachinePhase {
    Pending,
    Provisioning,
    Provisioned,
    Running,
    /// Reserved for in-place updates, and never set.
    Updating,
    Failed,
    Deleting,
    Deleted,
    /// An unknown phase.
    Unknown,
}

use MachinePhase::{Deleted, Deleting, Failed, Pending, Provisioned, Provisioning, Running, Unknown, Updating};
use model::hub::paths;

/// Transitions of the phase: from, to, and condition (DEC-6). A new Machine is `Pending`.
pub const TRANSITIONS: &[(MachinePhase, MachinePhase, &str)] = &[
    (Pending, Provisioning, "bootstrap data is available"),
    (Pending, Provisioned, "the provider ID is set and there is no bootstrap data"),
    (Provisioning, Provisioned, "the provider ID is set"),
    (Provisioned, Running, "the Node is ready"),
    (Pending, Failed, "a provider reports a failure"),
    (Provisioning, Failed, "a provider reports a failure"),
    (Provisioned, Failed, "a provider reports a failure"),
    (Running, Failed, "a provider reports a failure"),
    (Pending, Deleting, "the Machine is deleted"),
    (Provisioning, Deleting, "the Machine is deleted"),
    (Provisioned, Deleting, "the Machine is deleted"),
    (Running, Deleting, "the Machine is deleted"),
    (Failed, Deleting, "the Machine is deleted"),
    (Deleting, Deleted, "infrastructure, bootstrap configuration and Node are gone"),
];

impl MachinePhase {
    const ALL: [MachinePhase; 9] =
        [Pending, Provisioning, Provisioned, Running, Updating, Failed, Deleting, Deleted, Unknown];

    /// The value in the status.
    pub const fn name(self) -> &'static str {
        match self {
            Pending => "Pending",
            Provisioning => "Provisioning",
            Provisioned => "Provisioned",
            Running => "Running",
            Updating => "Updating",
            Failed => "Failed",
            Deleting => "Deleting",
            Deleted => "Deleted",
            Unknown => "Unknown",
        }
    }

    /// Parses a phase, ignoring case (MA-3.5); `None` for an empty text.
    pub fn parse(text: &str) -> Option<MachinePhase> {
        let named = |phase: &MachinePhase| phase.name().eq_ignore_ascii_case(text);
        (!text.is_empty()).then(|| MachinePhase::ALL.into_iter().find(named).unwrap_or(Unknown))
    }
}

impl fmt::Display for MachinePhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The facts that determine the phase, besides the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PhaseFacts {
    has_data: bool,
    has_provider_id: bool,
    /// The infrastructure is provisioned, and the Node is ready.
    has_ready_node: bool,
    /// A provider of the contract v1beta1 reports a failure.
    has_failed: bool,
    is_deleting: bool,
    is_deletion_complete: bool,
}

/// The next phase; one step makes at most one transition, so that no phase is skipped (MA-3.2, DEC-6, DEC-7).
fn following(stored: Option<MachinePhase>, facts: PhaseFacts) -> MachinePhase {
    if facts.is_deleting {
        return if facts.is_deletion_complete && stored == Some(Deleting) { Deleted } else { Deleting };
    }
    match stored {
        None => Pending,
        Some(Failed) => Failed,
        Some(_) if facts.has_failed => Failed,
        Some(Pending | Unknown) if facts.has_data => Provisioning,
        Some(Pending | Unknown | Provisioning) if facts.has_provider_id => Provisioned,
        Some(Provisioned | Updating) if facts.has_ready_node => Running,
        Some(same) => same,
    }
}

fn facts(work: &MachineReconcile<'_, '_>) -> PhaseFacts {
    let machine = &work.machine;
    let is_ready = work.node.found().is_some_and(|node| conditions::is_true(node, "Ready"));
    let is_provisioned = machine.is_infrastructure_provisioned();
    let has_node = !machine.node_name().is_empty();
    let parts = [&work.bootstrap, &work.infrastructure];
    PhaseFacts {
        has_data: machine.is_bootstrap_data_created(),
        has_provider_id: !machine.provider_id().is_empty(),
        has_ready_node: is_provisioned && has_node && is_ready,
        has_failed: parts.into_iter().filter_map(ExternalObject::found).any(|part| has_failed(work.context, part)),
        is_deleting: work.is_deleting(),
        is_deletion_complete: work.deletion.as_ref().is_some_and(DeletionWait::is_completed),
    }
}

/// Sets the phase, the time of its change, and an event (MA-3.2).
pub(super) fn set_phase(work: &mut MachineReconcile<'_, '_>) {
    let stored = MachinePhase::parse(work.machine.phase());
    let phase = following(stored, facts(work));
    if work.machine.phase() == phase.name() {
        return;
    }
    set(&mut work.machine, paths::status::PHASE, json!(phase.name()));
    set(&mut work.machine, paths::machine::LAST_UPDATED, stamp(work.context.now));
    let why = TRANSITIONS.iter().find(|(from, to, _)| (*from, *to) == (stored.unwrap_or(Pending), phase));
    let message = format!("Machine is {phase}{}", why.map_or(String::new(), |(_, _, why)| format!(": {why}")));
    match phase {
        Failed => work.step.warn(phase.name(), message),
        _ => work.step.event(phase.name(), message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All combinations of facts.
    fn all_facts() -> impl Iterator<Item = PhaseFacts> {
        (0..64_u8).map(|bits| PhaseFacts {
            has_data: bits & 1 > 0,
            has_provider_id: bits & 2 > 0,
            has_ready_node: bits & 4 > 0,
            has_failed: bits & 8 > 0,
            is_deleting: bits & 16 > 0,
            is_deletion_complete: bits & 32 > 0,
        })
    }

    #[test]
    fn phases_follow_from_facts() {
        // MA-3.1, MA-3.2, MA-3.4, DEC-6, DEC-7
        let none = PhaseFacts::default();
        let data = PhaseFacts { has_data: true, ..none };
        let provided = PhaseFacts { has_provider_id: true, ..data };
        let ready = PhaseFacts { has_ready_node: true, ..provided };
        let failed = PhaseFacts { has_failed: true, ..provided };
        let deleting = PhaseFacts { is_deleting: true, ..ready };
        let complete = PhaseFacts { is_deletion_complete: true, ..deleting };
        for (case, stored, facts, want) in [
            ("new", None, none, Pending),
            ("new, with everything there", None, ready, Pending),
            ("waits for data", Some(Pending), none, Pending),
            ("has data", Some(Pending), data, Provisioning),
            ("passes Provisioning", Some(Pending), ready, Provisioning),
            ("waits for infrastructure", Some(Provisioning), data, Provisioning),
            ("has infrastructure", Some(Provisioning), provided, Provisioned),
            ("a machine of a pool", Some(Pending), PhaseFacts { has_data: false, ..provided }, Provisioned),
            ("its Node is not ready", Some(Provisioned), provided, Provisioned),
            ("its Node is ready", Some(Provisioned), ready, Running),
            ("its Node is not ready any more", Some(Running), provided, Running),
            ("a provider fails", Some(Running), failed, Failed),
            ("a failure stays", Some(Failed), ready, Failed),
            ("deleted at once", None, PhaseFacts { is_deleting: true, ..none }, Deleting),
            ("deleted after a failure", Some(Failed), deleting, Deleting),
            ("deletion shows before it is complete", Some(Running), complete, Deleting),
            ("gone", Some(Deleting), complete, Deleted),
        ] {
            assert_eq!(following(stored, facts), want, "{case}");
        }
    }

    #[test]
    fn every_change_of_the_phase_is_in_the_table_and_every_row_happens() {
        let mut seen = std::collections::BTreeSet::new();
        let known = [Pending, Provisioning, Provisioned, Running, Failed, Deleting];
        for (stored, facts) in known.into_iter().flat_map(|stored| all_facts().map(move |facts| (stored, facts))) {
            // A deletion cannot be undone.
            let is_possible = facts.is_deleting || stored != Deleting;
            let next = following(Some(stored), facts);
            if is_possible && next != stored {
                assert!(TRANSITIONS.iter().any(|(a, b, _)| (*a, *b) == (stored, next)), "{stored} to {next}");
                seen.insert((stored, next));
            }
        }
        assert_eq!(seen.len(), TRANSITIONS.len());
    }

    #[test]
    fn a_phase_is_read_in_any_case() {
        // MA-3.5
        for (text, want) in [("", None), ("running", Some(Running)), ("FAILED", Some(Failed)), ("lost", Some(Unknown))]
        {
            assert_eq!(MachinePhase::parse(text), want, "{text}");
        }
    }
}

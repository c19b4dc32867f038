//! Rollout rules: which changes of a control plane or of workers make their controllers replace machines, and which are
//! applied to running machines (ROLL-1 to ROLL-18, `docs/plan.md`).
//!
//! ```text
//! a field that changes ─► compare.rs (does a controller see a difference?) ─► table.rs (the row of its path) ─► Effect
//! ```
//!
//! The rules are rows of one table, so that all predictions of replaced machines agree.

mod compare;
mod health;
mod table;

pub use compare::{LeafDifference, differences, initialized_as_joined};
pub use health::is_stricter;
pub use table::ROWS;

/// The owner of the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RolloutOwner {
    KubeadmControlPlane,
    /// The control plane of the embedded provider.
    EmbeddedControlPlane,
    Rke2ControlPlane,
    OtherControlPlane,
    MachineDeployment,
    MachinePool,
}

impl RolloutOwner {
    /// The control plane of that kind.
    pub fn control_plane(kind: &str) -> Self {
        match kind {
            "KubeadmControlPlane" => RolloutOwner::KubeadmControlPlane,
            "EmbeddedControlPlane" => RolloutOwner::EmbeddedControlPlane,
            "RKE2ControlPlane" => RolloutOwner::Rke2ControlPlane,
            _ => RolloutOwner::OtherControlPlane,
        }
    }
}

/// The effect of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutEffect {
    /// All machines are replaced.
    Replaces,
    /// All machines are replaced if the group of an `apiVersion` changes; its version is not compared.
    ReplacesByGroup,
    /// The machine that ran `kubeadm init` is replaced.
    ReplacesInitialized,
    /// All machines but the one that ran `kubeadm init` are replaced.
    ReplacesJoined,
    /// Machines created before the given time are replaced once it has passed.
    ReplacesAfter,
    /// Machines whose certificates expire within the given days are replaced.
    ReplacesExpiring,
    /// Machines are created or deleted.
    Scales,
    /// Running machines are updated in place.
    InPlace,
    /// Running machines are not changed.
    Nothing,
}

/// Whether the effect is known or up to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider {
    /// The rule determines the effect.
    Rule,
    /// The provider determines the effect, which is unknown here.
    Provider,
}

/// The effect of a change at or below a path on the machines of its owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutRule {
    /// The id of the rule, such as `ROLL-1`.
    pub rule: &'static str,
    pub owners: &'static [RolloutOwner],
    /// Path such as `spec.template.spec.version`.
    pub path: &'static str,
    pub effect: RolloutEffect,
    pub decider: Decider,
}

/// The rule for a change at a path: the one with the longest path at or above it. Every path below `spec` has one.
pub fn rule_for(owner: RolloutOwner, path: &str) -> Option<&'static RolloutRule> {
    let is_of = |row: &&RolloutRule| row.owners.contains(&owner) && is_at_or_below(path, row.path);
    ROWS.iter().filter(is_of).max_by_key(|row| row.path.len())
}

fn is_at_or_below(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with('['))
}

#[cfg(test)]
mod tests;

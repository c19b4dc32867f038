//! What replaces machines: which changes of a control plane or of workers their controllers answer with new machines, and which
//! they hand to running machines (ROLL-1 to ROLL-18, `docs/plan.md`).
//!
//! ```text
//! a field that changes ─► compare.rs (does a controller see a difference?) ─► table.rs (the row of its path) ─► Effect
//! ```
//!
//! The rules are rows of one table, so that everything that speaks of replaced machines says the same.

mod compare;
mod health;
mod table;

pub use compare::{Difference, differences, initialized_as_joined};
pub use health::is_stricter;
pub use table::ROWS;

/// Whose machines they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    KubeadmControlPlane,
    /// Of the embedded provider.
    EmbeddedControlPlane,
    Rke2ControlPlane,
    OtherControlPlane,
    MachineDeployment,
    MachinePool,
}

impl Owner {
    /// The control plane of that kind.
    pub fn control_plane(kind: &str) -> Self {
        match kind {
            "KubeadmControlPlane" => Owner::KubeadmControlPlane,
            "EmbeddedControlPlane" => Owner::EmbeddedControlPlane,
            "RKE2ControlPlane" => Owner::Rke2ControlPlane,
            _ => Owner::OtherControlPlane,
        }
    }
}

/// What a controller does about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// All machines are replaced.
    Replaces,
    /// All machines are replaced if the group of an `apiVersion` changes; its version is not compared.
    ReplacesByGroup,
    /// The machine that ran `kubeadm init` is replaced.
    ReplacesInitialized,
    /// All machines but the one that ran `kubeadm init` are replaced.
    ReplacesJoined,
    /// Once the time has passed, the machines that were made before it are replaced.
    ReplacesAfter,
    /// Machines whose certificates expire within so many days are replaced.
    ReplacesExpiring,
    /// Machines are made or deleted.
    Scales,
    /// Running machines are changed.
    InPlace,
    /// Running machines stay as they are.
    Nothing,
}

/// Who decides whether machines are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider {
    /// The controller, by the rule.
    Rule,
    /// The provider, in a way that is not known here.
    Provider,
}

/// What a change at a path, or below it, does to the machines of its owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The id of the rule, such as `ROLL-1`.
    pub rule: &'static str,
    pub owners: &'static [Owner],
    /// Where, such as `spec.template.spec.version`.
    pub path: &'static str,
    pub effect: Effect,
    pub decider: Decider,
}

/// What a change at a path does: the row with the longest path at or above it. Every path below `spec` has one.
pub fn row(owner: Owner, path: &str) -> Option<&'static Row> {
    let is_of = |row: &&Row| row.owners.contains(&owner) && is_at_or_below(path, row.path);
    ROWS.iter().filter(is_of).max_by_key(|row| row.path.len())
}

fn is_at_or_below(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with('['))
}

#[cfg(test)]
mod tests;

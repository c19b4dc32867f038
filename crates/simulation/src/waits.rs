//! What machines wait for before they are created, according to conditions of their objects.

use engine::topology::holds::{HeldPart, HeldReason};
use machines::lifecycle::conditions::{self, ConditionStatus};
use machines::lifecycle::{CHECK_FAILED, GroupKind};
use model::hub::{Kind, Object};

/// The reasons of the simulated provider that are about other objects (CT-18.3, CT-19.3).
const REASONS: [&str; 2] = ["WaitingForClusterInfrastructure", "WaitingForControlPlaneInitialized"];
/// Conditions of machine and pool infrastructure with these reasons.
const CONDITIONS: [&str; 2] = ["VMProvisioned", "Ready"];

/// What an object, or its Machine or pool, waits for.
pub(super) fn waits(object: &Object) -> Vec<HeldPart> {
    if GroupKind::for_object(object).is_core(Kind::MachineSet.name()) {
        return of_checks(object);
    }
    let reason = CONDITIONS.into_iter().find_map(|name| {
        let found = conditions::get(object, name).filter(|found| found.status == ConditionStatus::False)?;
        REASONS.contains(&&*found.reason).then_some(found.message)
    });
    let held = |message| {
        machines_of(object).map(|(kind, name)| HeldPart { kind, name, reason: HeldReason::Condition { message } })
    };
    reason.and_then(held).into_iter().collect()
}

/// Preflight checks that prevent a MachineSet from creating machines.
fn of_checks(set: &Object) -> Vec<HeldPart> {
    let Some(scaling) = conditions::get(set, "ScalingUp").filter(|found| found.status == ConditionStatus::True) else {
        return Vec::new();
    };
    let failing = scaling.message.lines().filter(|line| line.ends_with(CHECK_FAILED));
    let held = |line: &str| HeldPart {
        kind: Kind::MachineSet.name().to_owned(),
        name: set.name().to_owned(),
        reason: HeldReason::Condition { message: line.trim_start_matches("* ").to_owned() },
    };
    failing.map(held).collect()
}

/// The Machine or pool of an object.
fn machines_of(part: &Object) -> Option<(String, String)> {
    let owners = part.owner_references();
    let text = |owner: &serde_json::Value, field: &str| Some(owner.get(field)?.as_str()?.to_owned());
    let both = owners.iter().find_map(|owner| Some((text(owner, "kind")?, text(owner, "name")?)))?;
    ["Machine", "MachinePool"].contains(&&*both.0).then_some(both)
}

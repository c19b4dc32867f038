//! The condition `UpToDate` (MA-13.8).

use super::reconcile::MachineReconcile;
use crate::lifecycle::conditions::{ConditionState, put};
use crate::lifecycle::fields::{created, remaining, time};
use crate::lifecycle::machine_deployment::differences;
use golang::version::without_build;
use model::hub::{Object, paths};

/// Sets it for machines of MachineDeployments; other owners set it themselves.
pub(super) fn update(work: &mut MachineReconcile<'_, '_>) {
    let (Some(set), Some(deployment)) = (work.set.clone(), work.deployment.clone()) else { return };
    let mut lines = differences(&set, &deployment);
    if is_rollout_due(work, &set, &deployment) {
        lines.push(format!("spec.rollout.after of MachineDeployment {} has passed", deployment.name()));
    }
    let condition = match lines.is_empty() {
        false => {
            let lines: Vec<String> = lines.iter().map(|line| format!("* {line}")).collect();
            ConditionState::new(false, "NotUpToDate", lines.join("\n"))
        }
        true => of_node(&work.machine),
    };
    put(&mut work.machine, "UpToDate", &condition, work.context.now);
}

/// A Machine is outdated while its kubelet has another version; build metadata does not count (DEC-71).
fn of_node(machine: &Object) -> ConditionState {
    let (is, wanted) = (machine.kubelet_version(), machine.version());
    match is.is_empty() || without_build(is) == without_build(wanted) {
        true => ConditionState::new(true, "UpToDate", ""),
        false => ConditionState::new(false, "Updating", format!("* Kubelet has version {is}, {wanted} required")),
    }
}

/// Whether machines of an older MachineSet must be replaced because a time has passed.
fn is_rollout_due(work: &mut MachineReconcile<'_, '_>, set: &Object, deployment: &Object) -> bool {
    let Some(after) = time(deployment, paths::worker::ROLLOUT_AFTER) else { return false };
    let now = work.context.now;
    if after > now {
        let wait = after.since(now).and_then(|nanos| u64::try_from(nanos).ok());
        wait.into_iter().for_each(|nanos| work.step.requeue_after(core::time::Duration::from_nanos(nanos)));
        return false;
    }
    created(set).is_some_and(|made| remaining(made, core::time::Duration::ZERO, after).is_none() && made < after)
}

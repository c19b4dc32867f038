//! Control planes (CT-10, MA-30.3): with Machines, one of which is created or replaced at a time, or without Machines.
//!
//! ```text
//! cleanup.rs: removal of the hook that blocks the deletion of a Machine
//! template.rs: desired Machines ─┐
//! member.rs: existing Machines ──┼─► outdated.rs: differences ─► actions.rs: next action ─► creation.rs: a new Machine
//!                                └─► propagation.rs: in-place updates ─► report.rs: status and conditions
//! without_machines.rs: versions and flags that follow after a delay
//! ```

mod cleanup;
mod propagation;
mod creation;
mod member;
mod actions;
mod outdated;
mod report;
mod template;
#[cfg(test)]
mod tests;
mod without_machines;

use serde_json::json;

use self::actions::{ControlPlaneAction, next_action};
use self::member::{ControlPlaneMachine, members};
use self::propagation::MachineOrders;
use super::connection::connect;
use super::context::ProviderContext;
use crate::lifecycle::conditions::{ConditionState, put};
use crate::lifecycle::context::StepError;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{remove_finalizer, remove_text, set};
use crate::lifecycle::hooks::CLEANUP;
use crate::lifecycle::step::{ObjectWrite, Reconciliation};
use model::hub::{ContractRef, Object, paths};

/// Finalizer of control planes until their Machines are gone (CT-10.20).
pub(super) const FINALIZER: &str = "lifecycle.topologist.dev/control-plane";

/// The next step of a control plane.
pub(super) fn step(ctx: &ProviderContext<'_>, step: &mut Reconciliation) -> Result<(), StepError> {
    let Some(mut after) = ctx.begin(Some(FINALIZER), step) else { return Ok(()) };
    let members = members(ctx)?;
    if ctx.object.is_being_deleted() {
        delete(ctx, &members, after, step);
        return Ok(());
    }
    match template::infrastructure(ctx)? {
        None => without_machines::step(ctx, &mut after, step)?,
        Some(template) => {
            let end = of_machines(ctx, &template, &members, &mut after, step);
            step.collect_error(end)?;
        }
    }
    step.update(ctx.object, after);
    Ok(())
}

/// A control plane with Machines: outdated Machines, one action, and the status.
fn of_machines(
    ctx: &ProviderContext<'_>,
    template: &ContractRef,
    members: &[ControlPlaneMachine],
    after: &mut Object,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let outdated = outdated::all(ctx, template, members, step);
    let has_api_server = members.iter().any(ControlPlaneMachine::has_api_server);
    initialize(ctx, has_api_server, after, step)?;
    let chosen = next_action(ctx, members, &outdated, after)?;
    let released = cleanup::released(ctx, members, step);
    propagation::all(ctx, members, &outdated, &MachineOrders { chosen: &chosen, released }, step);
    report::report(ctx, members, &outdated, after)?;
    match chosen {
        ControlPlaneAction::Create => creation::make(ctx, template, members, step),
        ControlPlaneAction::Delete(member, why) => {
            step.event("DeletedMachine", format!("Deleted Machine {}: {why}", member.machine.name()));
            step.delete(&member.machine);
            Ok(())
        }
        ControlPlaneAction::Remediate(member) => {
            step.event("RemediatedMachine", format!("Deleted unhealthy Machine {}", member.machine.name()));
            step.delete(&member.machine);
            Ok(())
        }
        ControlPlaneAction::None => Ok(()),
    }
}

/// Sets the flag and its fields once an API server responds (CT-10.9, CT-10.17).
fn initialize(
    ctx: &ProviderContext<'_>,
    has_api_server: bool,
    after: &mut Object,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    const INITIALIZED: &str = "Initialized";
    if has_api_server && !ctx.is_connected() {
        connect(ctx, step)?;
    }
    if !Flag::ControlPlaneInitialized.read(ctx.context, after)? {
        if !has_api_server || !ctx.is_connected() {
            put(after, INITIALIZED, &ConditionState::new(false, "NotInitialized", ""), ctx.context.now);
            return Ok(());
        }
        Flag::ControlPlaneInitialized.raise(ctx.context, after);
        step.event(INITIALIZED, "The API server of the control plane answers");
    }
    let is_alone = !ctx.cluster.infrastructure_ref().is_defined();
    if is_alone && !ctx.cluster.has_control_plane_endpoint() && !after.has_control_plane_endpoint() {
        let endpoint = &ctx.context.settings.endpoint;
        set(after, paths::cluster::CONTROL_PLANE_ENDPOINT, json!({"host": endpoint.host, "port": endpoint.port}));
    }
    put(after, INITIALIZED, &ConditionState::new(true, INITIALIZED, ""), ctx.context.now);
    Ok(())
}

/// Deletes the Machines first, then, after a delay, the object (CT-10.20).
fn delete(ctx: &ProviderContext<'_>, members: &[ControlPlaneMachine], mut after: Object, step: &mut Reconciliation) {
    let number = members.len();
    if number > 0 {
        for member in members {
            // No member must leave an etcd that is deleted as a whole.
            let mut machine = (*member.machine).clone();
            if cleanup::is_used_by(ctx.object) {
                remove_text(&mut machine, paths::metadata::ANNOTATIONS, CLEANUP);
            }
            step.update_other(&member.machine, machine);
            step.delete(&member.machine);
        }
        let message = format!("{number} Machines are being deleted");
        put(&mut after, "Deleting", &ConditionState::new(true, "WaitingForMachineDeletion", message), ctx.context.now);
        step.update(ctx.object, after);
        return;
    }
    if let Some(left) = ctx.left_since_deletion(ctx.context.settings.timings.deletion) {
        step.requeue_after(left);
    } else {
        if ctx.is_hosted() && !ctx.cluster.infrastructure_ref().is_defined() {
            step.require(ObjectWrite::Connect { workload: ctx.cluster_key(), up: false });
        }
        remove_finalizer(&mut after, FINALIZER);
    }
    step.update(ctx.object, after);
}

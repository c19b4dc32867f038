//! Control planes without Machines, such as those managed by a cloud (CT-10.16, ROLL-14).

use serde_json::json;

use super::super::context::ProviderContext;
use super::initialize;
use crate::lifecycle::conditions::{self, ConditionState, is_true, observe_generation, put};
use crate::lifecycle::context::StepError;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{remaining, set, text};
use crate::lifecycle::step::Reconciliation;
use model::hub::contract::Contract;
use model::hub::{Object, paths};

const AVAILABLE: &str = "Available";
const ROLLING_OUT: &str = "RollingOut";

/// The next step: sets the flag after a delay, and the version after a delay for each change.
pub(super) fn step(ctx: &ProviderContext<'_>, after: &mut Object, step: &mut Reconciliation) -> Result<(), StepError> {
    set(after, paths::control_plane::IS_EXTERNAL, json!(true));
    if !Flag::ControlPlaneInitialized.read(ctx.context, after)? {
        if !ctx.has_infrastructure() {
            let message = "the infrastructure of the Cluster is not provisioned yet";
            ctx.wait(after, AVAILABLE, "WaitingForClusterInfrastructure", message);
            return Ok(());
        }
        if !ctx.is_over(after, AVAILABLE, ctx.context.settings.timings.control_plane, step) {
            return Ok(());
        }
    }
    initialize(ctx, true, after, step)?;
    if Flag::ControlPlaneInitialized.read(ctx.context, after)? {
        follow(ctx, after, step);
        put(after, AVAILABLE, &ConditionState::new(true, AVAILABLE, ""), ctx.context.now);
        observe_generation(after);
    }
    Ok(())
}

/// Sets the version, and the replicas if the kind has them.
fn follow(ctx: &ProviderContext<'_>, after: &mut Object, step: &mut Reconciliation) {
    let wanted = ctx.object.version().to_owned();
    let known = text(after, paths::control_plane::STATUS_VERSION).to_owned();
    if wanted != known && (known.is_empty() || has_rolled_out(ctx, after, step)) {
        set(after, paths::control_plane::STATUS_VERSION, json!(wanted));
        if !known.is_empty() {
            step.event("Upgraded", format!("The control plane is at version {wanted}"));
        }
    }
    if text(after, paths::control_plane::STATUS_VERSION) == wanted {
        put(after, ROLLING_OUT, &ConditionState::new(false, "NotRollingOut", ""), ctx.context.now);
    }
    replicas(ctx, after);
}

/// Whether the delay of a version change has passed.
fn has_rolled_out(ctx: &ProviderContext<'_>, after: &mut Object, step: &mut Reconciliation) -> bool {
    if !is_true(after, ROLLING_OUT) {
        let message = format!("Upgrading to version {}", ctx.object.version());
        put(after, ROLLING_OUT, &ConditionState::new(true, ROLLING_OUT, message), ctx.context.now);
    }
    let now = ctx.context.now;
    let begun = conditions::since(after, ROLLING_OUT).unwrap_or(now);
    let left = remaining(begun, ctx.context.settings.timings.control_plane, now);
    left.into_iter().for_each(|left| step.requeue_after(left));
    left.is_none()
}

fn replicas(ctx: &ProviderContext<'_>, after: &mut Object) {
    let Some(replicas) = ctx.object.at(paths::REPLICAS).cloned() else { return };
    let names: &[&str] = match ctx.context.contract(ctx.object) {
        Contract::V1Beta1 => &["replicas", "readyReplicas", "updatedReplicas"],
        Contract::V1Beta2 => &["replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"],
    };
    names.iter().for_each(|name| set(after, &format!("status.{name}"), replicas.clone()));
}

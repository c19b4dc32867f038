//! Dispatches an object to its step function by kind.

use std::sync::Arc;

use super::context::{StepContext, StepError};
use super::objects::{GroupKind, ObjectId};
use super::settings::MachineSettings;
use super::step::{Reconciliation, StepOutcome};
use super::{
    cluster, health_check, machine, machine_deployment, machine_pool, machine_set, provider, workload_connection,
};
use model::hub::{GROUP, Object};

/// Runs the next step of an object; empty for a missing object, or one with an external controller.
pub fn next(context: StepContext<'_>, id: &ObjectId) -> StepOutcome {
    let mut step = Reconciliation::default();
    let end = run(&context, id, &mut step);
    let needs = context.into_needs();
    if !needs.is_empty() {
        return StepOutcome::Needs(needs);
    }
    if let Err(fault) = end {
        step.errors.push(fault.to_string());
    }
    StepOutcome::Done(step)
}

fn run(context: &StepContext<'_>, id: &ObjectId, step: &mut Reconciliation) -> Result<(), StepError> {
    if id.workload.is_some() {
        return Ok(());
    }
    // The Machines of a Cluster need its Nodes, even if the Cluster has an external controller.
    if id.kind.is_core("Cluster")
        && let Some(cluster) = context.get(&id.kind, &id.key)?
    {
        workload_connection::reconcile_connection(context, &cluster, step)?;
    }
    if context.settings.is_external(&id.kind) {
        return Ok(());
    }
    // A kind without steps need not be listed: it may be an owner of any kind.
    let Some(function) = function(&id.kind, context.settings) else { return Ok(()) };
    let Some(object) = context.get(&id.kind, &id.key)? else { return Ok(()) };
    function(context, &object, step)
}

type StepFunction = fn(&StepContext<'_>, &Arc<Object>, &mut Reconciliation) -> Result<(), StepError>;

/// The step function of a kind.
fn function(kind: &GroupKind, settings: &MachineSettings) -> Option<StepFunction> {
    match &*kind.kind {
        _ if kind.group.is_empty() => None,
        _ if &*kind.group != GROUP => settings.plays(kind).then_some(provider::step),
        "Cluster" => Some(cluster::step),
        "Machine" => Some(machine::step),
        "MachineSet" => Some(machine_set::step),
        "MachineDeployment" => Some(machine_deployment::step),
        "MachinePool" => Some(machine_pool::step),
        "MachineHealthCheck" => Some(health_check::step),
        _ => None,
    }
}

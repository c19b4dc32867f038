//! Which function makes the step of which object.

use std::sync::Arc;

use super::context::{Context, Fault};
use super::objects::{GroupKind, ObjectId};
use super::settings::Settings;
use super::step::{Outcome, Step};
use super::{cluster, following, health_check, machine, machine_deployment, machine_pool, machine_set, provider};
use model::hub::{GROUP, Object};

/// The next step of an object; nothing for an object that is gone, or that another controller reconciles.
pub fn next(context: Context<'_>, id: &ObjectId) -> Outcome {
    let mut step = Step::default();
    let end = run(&context, id, &mut step);
    let needs = context.into_needs();
    if !needs.is_empty() {
        return Outcome::Needs(needs);
    }
    if let Err(fault) = end {
        step.errors.push(fault.to_string());
    }
    Outcome::Done(step)
}

fn run(context: &Context<'_>, id: &ObjectId, step: &mut Step) -> Result<(), Fault> {
    if id.workload.is_some() {
        return Ok(());
    }
    // The Machines of a Cluster need its Nodes, even if another controller reconciles the Cluster.
    if id.kind.is_core("Cluster")
        && let Some(cluster) = context.get(&id.kind, &id.key)?
    {
        following::keep(context, &cluster, step)?;
    }
    if context.settings.is_external(&id.kind) {
        return Ok(());
    }
    // A kind without steps is not listed for its sake: it may be an owner of any kind.
    let Some(function) = function(&id.kind, context.settings) else { return Ok(()) };
    let Some(object) = context.get(&id.kind, &id.key)? else { return Ok(()) };
    function(context, &object, step)
}

type Function = fn(&Context<'_>, &Arc<Object>, &mut Step) -> Result<(), Fault>;

/// The function that looks after a kind.
fn function(kind: &GroupKind, settings: &Settings) -> Option<Function> {
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

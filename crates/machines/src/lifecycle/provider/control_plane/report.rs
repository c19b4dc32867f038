//! Status and conditions of a control plane of Machines (CT-10.2 to CT-10.4, CT-10.18).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::context::ProviderContext;
use super::member::ControlPlaneMachine;
use super::outdated::OutdatedMachines;
use super::propagation::up_to_date;
use super::template::replicas;
use crate::lifecycle::conditions::{ConditionState, REPORTED, aggregate, is_true, observe_generation, put};
use crate::lifecycle::context::StepError;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::set;
use golang::version::KubeVersion;
use model::hub::contract::Contract;
use model::hub::{Object, label, paths};

/// Writes the status.
pub(super) fn report(
    ctx: &ProviderContext<'_>,
    members: &[ControlPlaneMachine],
    outdated: &OutdatedMachines,
    after: &mut Object,
) -> Result<(), StepError> {
    counters(ctx, members, outdated, after);
    versions(ctx, members, after);
    let now = ctx.context.now;
    let is_initialized = Flag::ControlPlaneInitialized.read(ctx.context, after)?;
    put(after, "Available", &available(members, is_initialized), now);
    put(after, "RollingOut", &rolling_out(outdated), now);
    let (scaling_up, scaling_down) = scaling(members.len(), replicas(ctx.object));
    put(after, "ScalingUp", &scaling_up, now);
    put(after, "ScalingDown", &scaling_down, now);
    for (name, source) in [("MachinesReady", "Ready"), ("MachinesUpToDate", "UpToDate")] {
        let condition = match members.is_empty() {
            true => ConditionState::new(true, "NoReplicas", ""),
            false => aggregate(members.iter().map(|member| &*member.machine), source, false, REPORTED),
        };
        put(after, name, &condition, now);
    }
    let remediated = members.iter().filter(|member| member.needs_remediation()).count();
    let remediating = match remediated {
        0 => ConditionState::new(false, "NotRemediating", ""),
        number => ConditionState::new(true, "Remediating", format!("{number} Machines are unhealthy")),
    };
    put(after, "Remediating", &remediating, now);
    observe_generation(after);
    Ok(())
}

/// Counters of ready, available and up-to-date Machines, as the contract defines them.
fn counters(
    ctx: &ProviderContext<'_>,
    members: &[ControlPlaneMachine],
    outdated: &OutdatedMachines,
    after: &mut Object,
) {
    let with = |name: &str| members.iter().filter(|member| is_true(&member.machine, name)).count();
    let wanted = replicas(ctx.object);
    let count = |after: &mut Object, name: &str, number: usize| set(after, &format!("status.{name}"), json!(number));
    count(after, "replicas", members.len());
    if ctx.context.contract(ctx.object) == Contract::V1Beta1 {
        let ready = with("NodeReady");
        count(after, "readyReplicas", ready);
        count(after, "unavailableReplicas", wanted.max(members.len()).saturating_sub(ready));
        count(after, "updatedReplicas", members.len().saturating_sub(outdated.len()));
    } else {
        let is_new = |member: &&ControlPlaneMachine| {
            up_to_date(member, outdated).status == crate::lifecycle::conditions::ConditionStatus::True
        };
        count(after, "readyReplicas", with("Ready"));
        count(after, "availableReplicas", with("Available"));
        count(after, "upToDateReplicas", members.iter().filter(is_new).count());
    }
    let selector = format!("{}={},{}=", label::CLUSTER_NAME, ctx.cluster.name(), label::CONTROL_PLANE);
    set(after, paths::status::SELECTOR, json!(selector));
}

/// The running versions, lowest first (CT-5.14, CT-10.4). Unchanged while no Machine runs.
fn versions(ctx: &ProviderContext<'_>, members: &[ControlPlaneMachine], after: &mut Object) {
    let mut number: BTreeMap<&str, usize> = BTreeMap::new();
    for member in members.iter().filter(|member| member.has_node()) {
        *number.entry(member.version()).or_default() += 1;
    }
    let mut versions: Vec<(&str, usize)> = number.into_iter().collect();
    versions.sort_by(|(one, _), (other, _)| order(one, other));
    let Some((lowest, _)) = versions.first() else { return };
    set(after, paths::control_plane::STATUS_VERSION, json!(lowest));
    if ctx.context.contract(ctx.object) == Contract::V1Beta2 {
        let entry = |(version, number): &(&str, usize)| json!({"version": version, "replicas": number});
        set(after, paths::status::VERSIONS, Value::Array(versions.iter().map(entry).collect()));
    }
}

fn order(one: &str, other: &str) -> Ordering {
    match (KubeVersion::parse_tolerant(one), KubeVersion::parse_tolerant(other)) {
        (Ok(first), Ok(second)) => first.precedence(&second).then_with(|| one.cmp(other)),
        _ => one.cmp(other),
    }
}

/// Whether most of the Machines run.
fn available(members: &[ControlPlaneMachine], is_initialized: bool) -> ConditionState {
    let running = members.iter().filter(|member| member.is_healthy()).count();
    if !is_initialized {
        return ConditionState::new(false, "NotAvailable", "the control plane is not initialized yet");
    }
    match running > 0 && running > members.len() / 2 {
        true => ConditionState::new(true, "Available", ""),
        false => ConditionState::new(false, "NotAvailable", format!("{running} of {} Machines run", members.len())),
    }
}

fn rolling_out(outdated: &OutdatedMachines) -> ConditionState {
    match outdated.len() {
        0 => ConditionState::new(false, "NotRollingOut", ""),
        number => ConditionState::new(true, "RollingOut", format!("Rolling out {number} not up-to-date replicas")),
    }
}

fn scaling(there: usize, wanted: usize) -> (ConditionState, ConditionState) {
    let message = |direction: &str| format!("Scaling {direction} from {there} to {wanted} replicas");
    let up = match there < wanted {
        true => ConditionState::new(true, "ScalingUp", message("up")),
        false => ConditionState::new(false, "NotScalingUp", ""),
    };
    let down = match there > wanted {
        true => ConditionState::new(true, "ScalingDown", message("down")),
        false => ConditionState::new(false, "NotScalingDown", ""),
    };
    (up, down)
}

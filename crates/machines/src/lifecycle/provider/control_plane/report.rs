//! Status and conditions of a control plane of Machines (CT-10.2 to CT-10.4, CT-10.18).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::scene::Scene;
use super::handed_down::up_to_date;
use super::member::Member;
use super::outdated::Outdated;
use super::template::replicas;
use crate::lifecycle::conditions::{Condition, REPORTED, aggregate, is_true, observe_generation, put};
use crate::lifecycle::context::Fault;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::set;
use golang::version::KubeVersion;
use model::hub::contract::Contract;
use model::hub::{Object, label};

/// Writes the status.
pub(super) fn report(
    scene: &Scene<'_>,
    members: &[Member],
    outdated: &Outdated,
    after: &mut Object,
) -> Result<(), Fault> {
    counters(scene, members, outdated, after);
    versions(scene, members, after);
    let now = scene.context.now;
    let is_initialized = Flag::ControlPlaneInitialized.read(scene.context, after)?;
    put(after, "Available", &available(members, is_initialized), now);
    put(after, "RollingOut", &rolling_out(outdated), now);
    let (scaling_up, scaling_down) = scaling(members.len(), replicas(scene.object));
    put(after, "ScalingUp", &scaling_up, now);
    put(after, "ScalingDown", &scaling_down, now);
    for (name, source) in [("MachinesReady", "Ready"), ("MachinesUpToDate", "UpToDate")] {
        let condition = match members.is_empty() {
            true => Condition::new(true, "NoReplicas", ""),
            false => aggregate(members.iter().map(|member| &*member.machine), source, false, REPORTED),
        };
        put(after, name, &condition, now);
    }
    let remediated = members.iter().filter(|member| member.needs_remediation()).count();
    let remediating = match remediated {
        0 => Condition::new(false, "NotRemediating", ""),
        number => Condition::new(true, "Remediating", format!("{number} Machines are unhealthy")),
    };
    put(after, "Remediating", &remediating, now);
    observe_generation(after);
    Ok(())
}

/// How many Machines there are, and how many of them are ready, available and up to date, as the contract counts them.
fn counters(scene: &Scene<'_>, members: &[Member], outdated: &Outdated, after: &mut Object) {
    let with = |name: &str| members.iter().filter(|member| is_true(&member.machine, name)).count();
    let wanted = replicas(scene.object);
    let count = |after: &mut Object, name: &str, number: usize| set(after, &format!("status.{name}"), json!(number));
    count(after, "replicas", members.len());
    if scene.context.contract(scene.object) == Contract::V1Beta1 {
        let ready = with("NodeReady");
        count(after, "readyReplicas", ready);
        count(after, "unavailableReplicas", wanted.max(members.len()).saturating_sub(ready));
        count(after, "updatedReplicas", members.len().saturating_sub(outdated.len()));
    } else {
        let is_new =
            |member: &&Member| up_to_date(member, outdated).status == crate::lifecycle::conditions::Status::True;
        count(after, "readyReplicas", with("Ready"));
        count(after, "availableReplicas", with("Available"));
        count(after, "upToDateReplicas", members.iter().filter(is_new).count());
    }
    let selector = format!("{}={},{}=", label::CLUSTER_NAME, scene.cluster.name(), label::CONTROL_PLANE);
    set(after, "status.selector", json!(selector));
}

/// The versions that run, the lowest first (CT-5.14, CT-10.4). They stay as they were while no Machine runs.
fn versions(scene: &Scene<'_>, members: &[Member], after: &mut Object) {
    let mut number: BTreeMap<&str, usize> = BTreeMap::new();
    for member in members.iter().filter(|member| member.has_node()) {
        *number.entry(member.version()).or_default() += 1;
    }
    let mut versions: Vec<(&str, usize)> = number.into_iter().collect();
    versions.sort_by(|(one, _), (other, _)| order(one, other));
    let Some((lowest, _)) = versions.first() else { return };
    set(after, "status.version", json!(lowest));
    if scene.context.contract(scene.object) == Contract::V1Beta2 {
        let entry = |(version, number): &(&str, usize)| json!({"version": version, "replicas": number});
        set(after, "status.versions", Value::Array(versions.iter().map(entry).collect()));
    }
}

fn order(one: &str, other: &str) -> Ordering {
    match (KubeVersion::parse_tolerant(one), KubeVersion::parse_tolerant(other)) {
        (Ok(first), Ok(second)) => first.precedence(&second).then_with(|| one.cmp(other)),
        _ => one.cmp(other),
    }
}

/// Whether most of the Machines run.
fn available(members: &[Member], is_initialized: bool) -> Condition {
    let running = members.iter().filter(|member| member.is_healthy()).count();
    if !is_initialized {
        return Condition::new(false, "NotAvailable", "the control plane is not initialized yet");
    }
    match running > 0 && running > members.len() / 2 {
        true => Condition::new(true, "Available", ""),
        false => Condition::new(false, "NotAvailable", format!("{running} of {} Machines run", members.len())),
    }
}

fn rolling_out(outdated: &Outdated) -> Condition {
    match outdated.len() {
        0 => Condition::new(false, "NotRollingOut", ""),
        number => Condition::new(true, "RollingOut", format!("Rolling out {number} not up-to-date replicas")),
    }
}

fn scaling(there: usize, wanted: usize) -> (Condition, Condition) {
    let message = |direction: &str| format!("Scaling {direction} from {there} to {wanted} replicas");
    let up = match there < wanted {
        true => Condition::new(true, "ScalingUp", message("up")),
        false => Condition::new(false, "NotScalingUp", ""),
    };
    let down = match there > wanted {
        true => Condition::new(true, "ScalingDown", message("down")),
        false => Condition::new(false, "NotScalingDown", ""),
    };
    (up, down)
}

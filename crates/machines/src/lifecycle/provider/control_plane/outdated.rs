//! Outdated Machines of a control plane, by the rollout rules that also predict plans (ROLL-1 to ROLL-6, ROLL-14).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::context::ProviderContext;
use super::member::ControlPlaneMachine;
use crate::lifecycle::fields::{created, number, seconds_between, time};
use crate::lifecycle::names::short_hash;
use crate::lifecycle::step::Reconciliation;
use golang::calendar::Moment;
use model::hub::{ContractRef, Object, annotation, paths};
use model::rollouts::{RolloutEffect, RolloutOwner, differences, initialized_as_joined, rule_for};

/// On a Machine: the fields of the control plane spec that it was created from, besides version, infrastructure and
/// configuration.
pub(super) const MADE_FROM: &str = "lifecycle.topologist.dev/made-from";

/// Reasons of outdated Machines, by name; other Machines are up to date.
pub(super) type OutdatedMachines = BTreeMap<String, Vec<String>>;

/// The Machines to replace.
pub(super) fn all(
    ctx: &ProviderContext<'_>,
    template: &ContractRef,
    members: &[ControlPlaneMachine],
    step: &mut Reconciliation,
) -> OutdatedMachines {
    let mut all = OutdatedMachines::new();
    for member in members {
        let mut reasons = differing(ctx.object, template, member);
        reasons.extend(due(ctx, member, step));
        if !reasons.is_empty() {
            all.insert(member.machine.name().to_owned(), reasons);
        }
    }
    all
}

/// The differences of a Machine.
fn differing(object: &Object, template: &ContractRef, member: &ControlPlaneMachine) -> Vec<String> {
    let owner = RolloutOwner::control_plane(object.kind());
    let mut reasons = Vec::new();
    let wanted = object.version();
    if member.version() != wanted {
        reasons.push(format!("Version {}, {wanted} required", member.version()));
    }
    if member.infrastructure.as_deref().is_some_and(|made| is_of_other_template(owner, made, template)) {
        reasons.push(format!("Infrastructure of another template than {} {}", template.kind, template.name));
    }
    match (owner, member.config.as_deref()) {
        (RolloutOwner::KubeadmControlPlane, Some(config)) if config.kind() == "KubeadmConfig" => {
            if differs(object, config) {
                reasons.push("KubeadmConfig is not up-to-date".to_owned());
            }
        }
        (RolloutOwner::KubeadmControlPlane, _) => {}
        _ => {
            let made_from = member.machine.annotation(MADE_FROM);
            if made_from.is_some_and(|known| known != made_from_now(object)) {
                reasons.push(format!("{} has another spec", object.kind()));
            }
        }
    }
    reasons
}

/// Whether an infrastructure machine was cloned from another template (ROLL-2); false if it does not record its
/// template.
fn is_of_other_template(owner: RolloutOwner, made: &Object, template: &ContractRef) -> bool {
    let decides = |name: &str| {
        let row = rule_for(owner, &format!("spec.machineTemplate.spec.infrastructureRef.{name}"));
        row.is_some_and(|row| row.effect == RolloutEffect::Replaces)
    };
    let differs = |name: &str, now: &str| made.annotation(name).is_some_and(|known| known != now);
    let kind = format!("{}.{}", template.kind, template.api_group);
    (decides("name") && differs(annotation::CLONED_FROM_NAME, &template.name))
        || (decides("kind") && differs(annotation::CLONED_FROM_KIND, &kind))
}

/// Whether a KubeadmConfig differs from a newly created one (ROLL-3, ROLL-4, ROLL-5).
fn differs(object: &Object, config: &Object) -> bool {
    let (made, now) = (map(config.at("spec")), map(object.at(paths::control_plane::KUBEADM_CONFIG)));
    let has_joined = config.at(paths::bootstrap::JOIN_CONTROL_PLANE).is_some();
    let version = object.version();
    let replaces = |effect: RolloutEffect| match effect {
        RolloutEffect::Replaces => true,
        RolloutEffect::ReplacesJoined => has_joined,
        RolloutEffect::ReplacesInitialized => !has_joined,
        _ => false,
    };
    let compare = |made: &Map<String, Value>, now: &Map<String, Value>| {
        let (made, now) = (Value::Object(made.clone()), Value::Object(now.clone()));
        let owner = RolloutOwner::KubeadmControlPlane;
        differences(owner, version, paths::control_plane::KUBEADM_CONFIG, Some(&made), Some(&now))
            .iter()
            .any(|leaf| rule_for(owner, &leaf.path).is_some_and(|row| replaces(row.effect)))
    };
    if has_joined {
        return compare(&without(&joined(made), "initConfiguration"), &without(&joined(now), "initConfiguration"));
    }
    let both = |of: &Map<String, Value>| without(&without(of, "initConfiguration"), "joinConfiguration");
    if compare(&both(&made), &both(&now)) {
        return true;
    }
    !initialized_as_joined(made.get("initConfiguration"), now.get("joinConfiguration"))
        && compare(&without(&made, "joinConfiguration"), &without(&now, "joinConfiguration"))
}

fn map(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}

fn without(spec: &Map<String, Value>, name: &str) -> Map<String, Value> {
    spec.iter().filter(|(known, _)| *known != name).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The spec without the marker of a machine that joins a control plane.
fn joined(mut spec: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Object(join)) = spec.get_mut("joinConfiguration")
        && join.get("controlPlane").and_then(Value::as_object).is_some_and(Map::is_empty)
    {
        join.remove("controlPlane");
    }
    spec
}

/// The fields of a control plane spec that replace its Machines, besides version and infrastructure (ROLL-14).
pub(super) fn made_from_now(object: &Object) -> String {
    const COMPARED: [&str; 3] = [
        paths::VERSION,
        paths::control_plane::MACHINE_INFRASTRUCTURE_REF,
        paths::control_plane::MACHINE_INFRASTRUCTURE_REF_V1BETA1,
    ];
    let owner = RolloutOwner::control_plane(object.kind());
    let leaves = differences(owner, "", "spec", None, object.at("spec"));
    let decides = |path: &str| {
        !COMPARED.iter().any(|compared| path.starts_with(compared))
            && rule_for(owner, path)
                .is_some_and(|row| matches!(row.effect, RolloutEffect::Replaces | RolloutEffect::ReplacesByGroup))
    };
    let mut lines: Vec<String> = leaves
        .iter()
        .filter(|leaf| decides(&leaf.path))
        .filter_map(|leaf| Some(format!("{}={}", leaf.path, leaf.to?)))
        .collect();
    lines.sort();
    format!("{:08x}", short_hash(&lines.join("\n")))
}

/// The reason to replace a Machine at the current time (ROLL-6); requeues for a time in the future.
fn due(ctx: &ProviderContext<'_>, member: &ControlPlaneMachine, step: &mut Reconciliation) -> Option<String> {
    let after = times(ctx.object, RolloutEffect::ReplacesAfter, [paths::worker::ROLLOUT_AFTER, "spec.rolloutAfter"]);
    let after = after.and_then(|path| time(ctx.object, path));
    if let (Some(after), Some(made)) = (after, created(&member.machine))
        && made < after
        && has_come(ctx, after, step)
    {
        return Some("rollout.after has passed".to_owned());
    }
    let days = times(ctx.object, RolloutEffect::ReplacesExpiring, paths::control_plane::CERTIFICATES_EXPIRY_DAYS)
        .and_then(|path| number(ctx.object, path))?;
    let expires = time(&member.machine, paths::machine::CERTIFICATES_EXPIRY)?;
    let begins = expires.plus(days.checked_mul(24 * 60 * 60)?.checked_mul(golang::calendar::SECOND)?.checked_neg()?)?;
    has_come(ctx, begins, step).then(|| format!("certificates expire within {days} days"))
}

/// The path that is set and has this effect for the kind.
fn times<'a>(object: &Object, effect: RolloutEffect, paths: [&'a str; 2]) -> Option<&'a str> {
    let owner = RolloutOwner::control_plane(object.kind());
    paths
        .into_iter()
        .find(|path| object.at(path).is_some() && rule_for(owner, path).is_some_and(|row| row.effect == effect))
}

/// Whether a time has passed; otherwise requeues for then.
fn has_come(ctx: &ProviderContext<'_>, time: Moment, step: &mut Reconciliation) -> bool {
    let now = ctx.context.now;
    if time <= now {
        return true;
    }
    let seconds = u64::try_from(seconds_between(now, time)).unwrap_or_default();
    step.requeue_after(core::time::Duration::from_secs(seconds.max(1)));
    false
}

//! Which Machines of a control plane differ from what would be made now: by the same rows from which plans count (ROLL-1 to ROLL-6,
//! ROLL-14).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::scene::Scene;
use super::member::Member;
use crate::lifecycle::fields::{created, number, seconds_between, text, time};
use crate::lifecycle::names::short_hash;
use crate::lifecycle::step::Step;
use golang::calendar::Moment;
use model::hub::{ContractRef, Object, annotation};
use model::rollouts::{RolloutEffect, RolloutOwner, differences, initialized_as_joined, rule_for};

/// On a Machine: what of the control plane's spec it was made from, besides version, infrastructure and configuration.
pub(super) const MADE_FROM: &str = "lifecycle.topologist.dev/made-from";
const CONFIG: &str = "spec.kubeadmConfigSpec";

/// Why Machines are outdated, by name; Machines that are not here are up to date.
pub(super) type Outdated = BTreeMap<String, Vec<String>>;

/// The Machines to replace.
pub(super) fn all(scene: &Scene<'_>, template: &ContractRef, members: &[Member], step: &mut Step) -> Outdated {
    let mut all = Outdated::new();
    for member in members {
        let mut reasons = differing(scene.object, template, member);
        reasons.extend(due(scene, member, step));
        if !reasons.is_empty() {
            all.insert(member.machine.name().to_owned(), reasons);
        }
    }
    all
}

/// What differs in a Machine.
fn differing(object: &Object, template: &ContractRef, member: &Member) -> Vec<String> {
    let owner = RolloutOwner::control_plane(object.kind());
    let mut reasons = Vec::new();
    let wanted = text(object, "spec.version");
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

/// Whether an infrastructure machine was cloned from another template (ROLL-2); one that does not say so was not.
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

/// Whether a KubeadmConfig is another one than would be made now (ROLL-3, ROLL-4, ROLL-5).
fn differs(object: &Object, config: &Object) -> bool {
    let (made, now) = (map(config.at("spec")), map(object.at(CONFIG)));
    let has_joined = config.at("spec.joinConfiguration.controlPlane").is_some();
    let version = text(object, "spec.version");
    let replaces = |effect: RolloutEffect| match effect {
        RolloutEffect::Replaces => true,
        RolloutEffect::ReplacesJoined => has_joined,
        RolloutEffect::ReplacesInitialized => !has_joined,
        _ => false,
    };
    let compare = |made: &Map<String, Value>, now: &Map<String, Value>| {
        let (made, now) = (Value::Object(made.clone()), Value::Object(now.clone()));
        let owner = RolloutOwner::KubeadmControlPlane;
        differences(owner, version, CONFIG, Some(&made), Some(&now))
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

/// The same without the mark of a machine that joins a control plane.
fn joined(mut spec: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Object(join)) = spec.get_mut("joinConfiguration")
        && join.get("controlPlane").and_then(Value::as_object).is_some_and(Map::is_empty)
    {
        join.remove("controlPlane");
    }
    spec
}

/// What of the spec of a control plane replaces its Machines, besides version and infrastructure (ROLL-14).
pub(super) fn made_from_now(object: &Object) -> String {
    const COMPARED: [&str; 3] =
        ["spec.version", "spec.machineTemplate.spec.infrastructureRef", "spec.machineTemplate.infrastructureRef"];
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

/// Whether the time has come to replace a Machine (ROLL-6); a time in the future is looked at again then.
fn due(scene: &Scene<'_>, member: &Member, step: &mut Step) -> Option<String> {
    let after = times(scene.object, RolloutEffect::ReplacesAfter, ["spec.rollout.after", "spec.rolloutAfter"]);
    let after = after.and_then(|path| time(scene.object, path));
    if let (Some(after), Some(made)) = (after, created(&member.machine))
        && made < after
        && has_come(scene, after, step)
    {
        return Some("rollout.after has passed".to_owned());
    }
    let paths = ["spec.rollout.before.certificatesExpiryDays", "spec.rolloutBefore.certificatesExpiryDays"];
    let days =
        times(scene.object, RolloutEffect::ReplacesExpiring, paths).and_then(|path| number(scene.object, path))?;
    let expires = time(&member.machine, "status.certificatesExpiryDate")?;
    let begins = expires.plus(days.checked_mul(24 * 60 * 60)?.checked_mul(golang::calendar::SECOND)?.checked_neg()?)?;
    has_come(scene, begins, step).then(|| format!("certificates expire within {days} days"))
}

/// The path that is set and that has this effect for the kind.
fn times<'a>(object: &Object, effect: RolloutEffect, paths: [&'a str; 2]) -> Option<&'a str> {
    let owner = RolloutOwner::control_plane(object.kind());
    paths
        .into_iter()
        .find(|path| object.at(path).is_some() && rule_for(owner, path).is_some_and(|row| row.effect == effect))
}

/// Whether a time has come; else the step is made again then.
fn has_come(scene: &Scene<'_>, time: Moment, step: &mut Step) -> bool {
    let now = scene.context.now;
    if time <= now {
        return true;
    }
    let seconds = u64::try_from(seconds_between(now, time)).unwrap_or_default();
    step.look_again(core::time::Duration::from_secs(seconds.max(1)));
    false
}

//! Behavior of providers of every role: owners, finalizers, pauses, flags and conditions.

use serde_json::Value;

use super::{ObservedChange, RelatedObjects, RuleVerdict};
use crate::lifecycle::conditions;
use crate::provider_contract::definition::ProviderRole;
use model::hub::{GROUP, Object, annotation};

pub(super) fn judge(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    finalizer(change, verdicts);
    flag(change, verdicts);
    condition(change, verdicts);
    paused(change, verdicts);
    externally_managed(change, verdicts);
}

/// Whether an object has the owner that its role requires, in any version (CT-15.1 to CT-15.3).
fn has_owner(change: &ObservedChange<'_>, object: &Object) -> bool {
    let kinds: &[&str] = match change.role {
        ProviderRole::InfrastructureCluster | ProviderRole::ControlPlane => &["Cluster"],
        ProviderRole::InfrastructureMachine => &["Machine"],
        ProviderRole::InfrastructureMachinePool => &["MachinePool"],
        ProviderRole::BootstrapConfig => &["Machine", "MachinePool"],
    };
    let text = |owner: &Value, name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    object.owner_references().iter().any(|owner| {
        let api_version = text(owner, "apiVersion");
        api_version.split_once('/').is_some_and(|(group, _)| group == GROUP) && kinds.contains(&&*text(owner, "kind"))
    })
}

fn finalizers(object: Option<&Object>) -> Vec<&str> {
    let all = object.map(Object::finalizers);
    // Set by the garbage collector.
    let is_of_provider = |name: &&str| !["foregroundDeletion", "orphan"].contains(name);
    all.into_iter().flatten().filter_map(Value::as_str).filter(is_of_provider).collect()
}

/// The finalizer is added after the owner, and before anything is created (CT-15.6).
fn finalizer(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    const RULE: &str = "CT-15.6";
    let Some(after) = change.after else { return };
    let (was, is) = (finalizers(change.before), finalizers(Some(after)));
    let new: Vec<&str> = is.iter().filter(|name| !was.contains(name)).copied().collect();
    if let Some(name) = new.first() {
        verdicts.push(RuleVerdict::kept_if(
            has_owner(change, after),
            RULE,
            &format!("the finalizer {name} was set once the owner was there"),
            &format!("the finalizer {name} was set before the object had an owner"),
            "Set the finalizer once the owner reference of Cluster API is there",
        ));
    }
    // Bootstrap providers only create a Secret, which is owned.
    if change.role != ProviderRole::BootstrapConfig && change.raises_flag() && is.is_empty() {
        let message = format!("{} turned true and the object has no finalizer", change.flag_path());
        verdicts.push(RuleVerdict::broken(RULE, message, "Set a finalizer before anything is made outside of the API"));
    }
}

/// The rule that the flag of a role is permanent.
const fn sticky(role: ProviderRole) -> &'static str {
    match role {
        ProviderRole::InfrastructureCluster => "CT-6.5",
        ProviderRole::InfrastructureMachine | ProviderRole::InfrastructureMachinePool => "CT-8.6",
        ProviderRole::ControlPlane => "CT-10.9",
        ProviderRole::BootstrapConfig => "CT-12.3",
    }
}

/// A flag becomes true once.
fn flag(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    let (path, rule) = (change.flag_path(), sticky(change.role));
    match (change.flags(), change.after) {
        ([false, true], _) => verdicts.push(RuleVerdict::kept(rule, format!("{path} turned true"))),
        ([true, false], Some(_)) => verdicts.push(RuleVerdict::broken(
            rule,
            format!("{path} was true, and is not any more"),
            "Leave the flag true: it says that something was done, not that all is well",
        )),
        _ => {}
    }
}

/// The condition shown by Cluster API is present when the flag is (CT-15.8).
fn condition(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    let Some(after) = change.after.filter(|_| change.raises_flag()) else { return };
    let name = if change.role == ProviderRole::ControlPlane { "Available" } else { "Ready" };
    verdicts.push(match conditions::get(after, name) {
        Some(_) => RuleVerdict::kept("CT-15.8", format!("the condition {name} is reported")),
        None => RuleVerdict::disregarded(
            "CT-15.8",
            format!("{} turned true, and there is no condition {name}", change.flag_path()),
            "Report the condition: Cluster API copies its reason and message to where users look",
        ),
    });
}

/// A paused object is not changed (CT-15.12). It counts as paused if it was paused at the previous change and still is.
fn paused(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    const RULE: &str = "CT-15.12";
    let (Some(before), Some(after)) = (change.before, change.after) else { return };
    let status = |object| conditions::status(object, "Paused");
    if let Some(now) = status(after).filter(|now| status(before) != Some(*now)) {
        verdicts.push(RuleVerdict::kept(RULE, format!("the condition Paused is {}", now.name())));
    }
    let [earlier, now] = change.surroundings;
    let (Some(why), Some(_)) = (pause(before, earlier), pause(after, now)) else { return };
    if written(before) != written(after) {
        verdicts.push(RuleVerdict::broken(
            RULE,
            format!("{why}, and the provider has changed the object"),
            "Stop before anything else while the Cluster or the object is paused",
        ));
    }
}

/// The reason why a provider must not change an object.
fn pause(object: &Object, surroundings: &RelatedObjects) -> Option<&'static str> {
    if surroundings.cluster.as_ref().is_some_and(Object::is_paused) {
        return Some("the Cluster is paused");
    }
    object.annotation(annotation::PAUSED).map(|_| "the object is paused")
}

/// The part of an object that a provider writes, without the condition `Paused`.
fn written(object: &Object) -> (Vec<&str>, Option<Value>) {
    let mut status = object.at("status").cloned();
    for parent in ["", "/v1beta2"] {
        let Some(Value::Object(members)) = status.as_mut().and_then(|status| status.pointer_mut(parent)) else {
            continue;
        };
        members.remove("observedGeneration");
        if let Some(Value::Array(conditions)) = members.get_mut("conditions") {
            conditions.retain(|condition| condition.get("type").and_then(Value::as_str) != Some("Paused"));
            if conditions.is_empty() {
                members.remove("conditions");
            }
        }
    }
    (finalizers(Some(object)), status)
}

/// An externally managed object is not changed (CT-15.13).
fn externally_managed(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    if change.role != ProviderRole::InfrastructureCluster {
        return;
    }
    let (Some(before), Some(after)) = (change.before, change.after) else { return };
    let is_managed = |object: &Object| object.annotation(annotation::MANAGED_BY).is_some();
    if is_managed(before) && !is_managed(after) {
        verdicts.push(RuleVerdict::broken(
            "CT-15.13",
            "the annotation cluster.x-k8s.io/managed-by was removed",
            "Deny updates that remove the annotation",
        ));
    }
}

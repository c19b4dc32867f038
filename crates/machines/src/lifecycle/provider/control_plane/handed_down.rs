//! What running Machines of a control plane get without being replaced (CT-10.13, CT-10.15, ROLL-7).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::scene::Scene;
use super::member::Member;
use super::moves::Move;
use super::outdated::Outdated;
use super::template::{metadata, settings};
use crate::lifecycle::conditions::{Condition, is_true, put};
use crate::lifecycle::fields::{remove_text, set, set_annotation, set_text, text};
use crate::lifecycle::hooks::CLEANUP;
use crate::lifecycle::step::Step;
use model::hub::Object;

/// On what a control plane made: the labels and annotations that come from its template, so that they go with it.
const FROM_TEMPLATE: &str = "lifecycle.topologist.dev/from-template";

/// What a step decides about single Machines.
pub(super) struct Orders<'a> {
    pub(super) chosen: &'a Move,
    /// The Machine that loses the hook which holds its deletion.
    pub(super) released: Option<&'a str>,
}

/// Hands down metadata and settings to all Machines, and says whether each is up to date.
pub(super) fn all(scene: &Scene<'_>, members: &[Member], outdated: &Outdated, orders: &Orders<'_>, step: &mut Step) {
    for member in members {
        let mut machine = (*member.machine).clone();
        if !machine.is_being_deleted() {
            hand_down_metadata(scene.object, &mut machine);
            hand_down_settings(scene, &mut machine);
            hand_down_to(scene.object, member.infrastructure.as_ref(), step);
            hand_down_to(scene.object, member.config.as_ref(), step);
        }
        let condition = up_to_date(member, outdated);
        put(&mut machine, "UpToDate", &condition, scene.context.now);
        remediation(scene, member, orders.chosen, &mut machine);
        if orders.released == Some(machine.name()) {
            remove_text(&mut machine, "metadata.annotations", CLEANUP);
        }
        step.update(&member.machine, machine);
    }
}

fn hand_down_to(object: &Object, made: Option<&Arc<Object>>, step: &mut Step) {
    if let Some(made) = made.filter(|made| !made.is_being_deleted()) {
        let mut after = (**made).clone();
        hand_down_metadata(object, &mut after);
        step.update(made, after);
    }
}

/// Labels and annotations of the template; those that came from it and are in it no more go.
pub(super) fn hand_down_metadata(object: &Object, made: &mut Object) {
    let known: Value =
        made.annotation(FROM_TEMPLATE).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut names = Map::new();
    for what in ["labels", "annotations"] {
        let wanted: BTreeMap<String, String> = metadata(object, what);
        let gone = known.get(what).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let gone: Vec<&str> = gone.filter(|name| !wanted.contains_key(*name)).collect();
        if gone.is_empty() && wanted.is_empty() {
            continue;
        }
        let path = format!("metadata.{what}");
        gone.into_iter().for_each(|name| remove_text(made, &path, name));
        if !wanted.is_empty() {
            names.insert(what.to_owned(), json!(wanted.keys().collect::<Vec<_>>()));
        }
        wanted.iter().for_each(|(name, value)| set_text(made, &path, name, value));
    }
    match names.is_empty() {
        true if made.annotation(FROM_TEMPLATE).is_none() => {}
        true => remove_text(made, "metadata.annotations", FROM_TEMPLATE),
        false => set_annotation(made, FROM_TEMPLATE, &Value::Object(names).to_string()),
    }
}

/// Timeouts, readiness gates and taints. A deletion timeout of the Node that the template does not set stays as it was defaulted.
pub(super) fn hand_down_settings(scene: &Scene<'_>, machine: &mut Object) {
    for (path, value) in settings(scene.object, scene.context.contract(scene.object)) {
        let is_defaulted = path == "spec.deletion.nodeDeletionTimeoutSeconds";
        match value {
            Some(value) => set(machine, path, value),
            None if is_defaulted => {}
            None => drop(machine.remove(path)),
        }
    }
}

/// `UpToDate` of a Machine (CT-10.15), in the words of MA-13.8.
pub(super) fn up_to_date(member: &Member, outdated: &Outdated) -> Condition {
    if let Some(reasons) = outdated.get(member.machine.name()) {
        let lines: Vec<String> = reasons.iter().map(|reason| format!("* {reason}")).collect();
        return Condition::new(false, "NotUpToDate", lines.join("\n"));
    }
    let running = text(&member.machine, "status.nodeInfo.kubeletVersion");
    if !running.is_empty() && running != member.version() {
        let message = format!("* Version {running}, {} required", member.version());
        return Condition::new(false, "Updating", message);
    }
    Condition::new(true, "UpToDate", "")
}

/// Whether an unhealthy Machine is replaced now or later (MA-19.10, MA-19.13).
fn remediation(scene: &Scene<'_>, member: &Member, chosen: &Move, machine: &mut Object) {
    const OWNER_REMEDIATED: &str = "OwnerRemediated";
    if is_true(&member.machine, "HealthCheckSucceeded") {
        let is_asked = crate::lifecycle::conditions::is_false(machine, OWNER_REMEDIATED);
        if is_asked && !machine.is_being_deleted() {
            crate::lifecycle::conditions::remove(machine, OWNER_REMEDIATED);
        }
        return;
    }
    if !member.needs_remediation() {
        return;
    }
    let is_chosen = matches!(chosen, Move::Remediate(chosen) if chosen.machine.name() == member.machine.name());
    let condition = match is_chosen {
        true => Condition::new(false, "MachineDeleting", ""),
        false => Condition::new(false, "RemediationDeferred", "waiting for the other control plane Machines"),
    };
    put(machine, OWNER_REMEDIATED, &condition, scene.context.now);
}

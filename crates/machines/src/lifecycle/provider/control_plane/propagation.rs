//! In-place updates of running control plane Machines (CT-10.13, CT-10.15, ROLL-7).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::context::ProviderContext;
use super::actions::ControlPlaneAction;
use super::member::ControlPlaneMachine;
use super::outdated::OutdatedMachines;
use super::template::{metadata, settings};
use crate::lifecycle::conditions::{ConditionState, is_true, put};
use crate::lifecycle::fields::{remove_text, set, set_annotation, set_text};
use crate::lifecycle::hooks::CLEANUP;
use crate::lifecycle::step::Reconciliation;
use model::hub::{Object, paths};

/// Annotation with the labels and annotations that come from the template, so that they can be removed with it.
const FROM_TEMPLATE: &str = "lifecycle.topologist.dev/from-template";

/// Decisions of a step about single Machines.
pub(super) struct MachineOrders<'a> {
    pub(super) chosen: &'a ControlPlaneAction,
    /// The Machine whose deletion hook is removed.
    pub(super) released: Option<&'a str>,
}

/// Propagates metadata and settings to all Machines, and reports whether each is up to date.
pub(super) fn all(
    ctx: &ProviderContext<'_>,
    members: &[ControlPlaneMachine],
    outdated: &OutdatedMachines,
    orders: &MachineOrders<'_>,
    step: &mut Reconciliation,
) {
    for member in members {
        let mut machine = (*member.machine).clone();
        if !machine.is_being_deleted() {
            hand_down_metadata(ctx.object, &mut machine);
            hand_down_settings(ctx, &mut machine);
            hand_down_to(ctx.object, member.infrastructure.as_ref(), step);
            hand_down_to(ctx.object, member.config.as_ref(), step);
        }
        let condition = up_to_date(member, outdated);
        put(&mut machine, "UpToDate", &condition, ctx.context.now);
        remediation(ctx, member, orders.chosen, &mut machine);
        if orders.released == Some(machine.name()) {
            remove_text(&mut machine, paths::metadata::ANNOTATIONS, CLEANUP);
        }
        step.update_other(&member.machine, machine);
    }
}

fn hand_down_to(object: &Object, made: Option<&Arc<Object>>, step: &mut Reconciliation) {
    if let Some(made) = made.filter(|made| !made.is_being_deleted()) {
        let mut after = (**made).clone();
        hand_down_metadata(object, &mut after);
        step.update_other(made, after);
    }
}

/// Propagates labels and annotations of the template; removes those that are no longer in it.
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
        true => remove_text(made, paths::metadata::ANNOTATIONS, FROM_TEMPLATE),
        false => set_annotation(made, FROM_TEMPLATE, &Value::Object(names).to_string()),
    }
}

/// Propagates timeouts, readiness gates and taints. The defaulted node deletion timeout stays if the template does not
/// set it.
pub(super) fn hand_down_settings(ctx: &ProviderContext<'_>, machine: &mut Object) {
    for (path, value) in settings(ctx.object, ctx.context.contract(ctx.object)) {
        let is_defaulted = path == paths::machine::NODE_DELETION_TIMEOUT;
        match value {
            Some(value) => set(machine, path, value),
            None if is_defaulted => {}
            None => drop(machine.remove(path)),
        }
    }
}

/// `UpToDate` of a Machine (CT-10.15), in the words of MA-13.8.
pub(super) fn up_to_date(member: &ControlPlaneMachine, outdated: &OutdatedMachines) -> ConditionState {
    if let Some(reasons) = outdated.get(member.machine.name()) {
        let lines: Vec<String> = reasons.iter().map(|reason| format!("* {reason}")).collect();
        return ConditionState::new(false, "NotUpToDate", lines.join("\n"));
    }
    let running = member.machine.kubelet_version();
    if !running.is_empty() && running != member.version() {
        let message = format!("* Version {running}, {} required", member.version());
        return ConditionState::new(false, "Updating", message);
    }
    ConditionState::new(true, "UpToDate", "")
}

/// Whether an unhealthy Machine is replaced now or later (MA-19.10, MA-19.13).
fn remediation(
    ctx: &ProviderContext<'_>,
    member: &ControlPlaneMachine,
    chosen: &ControlPlaneAction,
    machine: &mut Object,
) {
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
    let is_chosen =
        matches!(chosen, ControlPlaneAction::Remediate(chosen) if chosen.machine.name() == member.machine.name());
    let condition = match is_chosen {
        true => ConditionState::new(false, "MachineDeleting", ""),
        false => ConditionState::new(false, "RemediationDeferred", "waiting for the other control plane Machines"),
    };
    put(machine, OWNER_REMEDIATED, &condition, ctx.context.now);
}

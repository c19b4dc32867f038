//! Machines that are outdated before a plan, and times from which machines are replaced.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{PlanStep, StepAction, TopologyPart};
use crate::topology::conditions::with_type;
use crate::topology::worker::API_VERSION;
use model::hub::{Object, ObjectKey, ObjectRef, label, paths};
use model::rollouts::RolloutOwner;
use model::world::{Found, Selection, World};

/// Default validity of kubeadm's certificates in days.
const VALID_DAYS: i64 = 365;
const VALIDITY: &str = "spec.kubeadmConfigSpec.clusterConfiguration.certificateValidityPeriodDays";
const ON_DELETE: &str = "OnDelete";

/// Whether a new strategy replaces outdated machines, which `OnDelete` keeps (ROLL-11).
pub(super) fn begins_to_replace(step: &PlanStep, before: &Object) -> bool {
    let is_on_delete =
        |object: &Object| object.at(paths::worker::ROLLOUT_STRATEGY).and_then(Value::as_str) == Some(ON_DELETE);
    is_on_delete(before) && step.applied.as_deref().is_some_and(|sent| !is_on_delete(sent))
}

/// The number of outdated machines of a MachineDeployment: by their conditions or by comparison if they are among the
/// facts, else by the counts in the status of the MachineDeployment.
pub(super) fn outdated_already(deployment: &Object, world: &World) -> i64 {
    let machines = machines_of(deployment, world);
    if machines.is_empty() {
        let number = |path: &str| deployment.at(path).and_then(Value::as_i64);
        let current =
            number(paths::status::UP_TO_DATE_REPLICAS).or_else(|| number(paths::control_plane::UPDATED_REPLICAS));
        return number(paths::status::REPLICAS)
            .zip(current)
            .map_or(0, |(all, current)| all.saturating_sub(current).max(0));
    }
    let outdated = machines.iter().filter(|machine| is_outdated(machine, deployment, world));
    i64::try_from(outdated.count()).unwrap_or(i64::MAX)
}

fn machines_of(deployment: &Object, world: &World) -> Vec<Arc<Object>> {
    let labels = deployment.texts(paths::worker::MATCH_LABELS).unwrap_or_default();
    if labels.is_empty() || !world.is_offline() {
        return Vec::new();
    }
    let selection = Selection {
        api_version: API_VERSION.to_owned(),
        kind: "Machine".to_owned(),
        namespace: deployment.namespace().to_owned(),
        labels,
    };
    let Found::Yes(mut machines) = world.list(&selection) else { return Vec::new() };
    machines.retain(|machine| !machine.is_being_deleted());
    machines
}

/// Whether a machine is outdated by its condition; without one, whether its MachineSet has another template than the
/// MachineDeployment.
fn is_outdated(machine: &Object, deployment: &Object, world: &World) -> bool {
    let up_to_date = with_type(machine.at(paths::status::CONDITIONS), "UpToDate").next();
    if let Some(condition) = up_to_date.filter(|one| one["status"] != "Unknown") {
        return condition["status"] == "False";
    }
    let set = machine
        .label(label::SET_NAME)
        .map(|name| ObjectRef::new(API_VERSION, "MachineSet", ObjectKey::new(machine.namespace(), name)));
    let set = set.and_then(|set| if let Found::Yes(found) = world.object(&set) { Some(found) } else { None });
    let fields =
        ["version", "bootstrap", "infrastructureRef", "failureDomain"].map(|name| format!("spec.template.spec.{name}"));
    match set {
        Some(set) => fields.iter().any(|path| set.at(path) != deployment.at(path)),
        None => machine.at(paths::VERSION) != deployment.at(paths::worker::VERSION),
    }
}

/// The `certificatesExpiryDays` of a control plane.
fn days_of(object: &Object) -> Option<i64> {
    paths::control_plane::CERTIFICATES_EXPIRY_DAYS.iter().find_map(|path| object.at(path)?.as_i64())
}

/// Whether the controller of a control plane replaces machines before their certificates expire (ROLL-6).
fn renews_certificates(control_plane: &Object) -> bool {
    matches!(
        RolloutOwner::control_plane(control_plane.kind()),
        RolloutOwner::KubeadmControlPlane | RolloutOwner::EmbeddedControlPlane
    )
}

/// The `certificatesExpiryDays` of a control plane and the validity of new certificates in days, if the validity does
/// not exceed it: all machines are replaced again and again (ROLL-6).
pub fn outlasts_certificates(control_plane: &Object) -> Option<(i64, i64)> {
    let validity = control_plane.at(VALIDITY).and_then(Value::as_i64).unwrap_or(VALID_DAYS);
    let days = days_of(control_plane).filter(|_| renews_certificates(control_plane))?;
    (days >= validity).then_some((days, validity))
}

/// A note on the machines of a control plane that are replaced before their certificates expire: when they are due, or
/// that `certificatesExpiryDays` exceeds the validity of new certificates (ROLL-6).
pub(super) fn certificate_note(
    step: &PlanStep,
    before: Option<&Object>,
    machines: &[Arc<Object>],
    now: Option<Timestamp>,
) -> Option<String> {
    let sent = step
        .applied
        .as_deref()
        .filter(|_| step.part == TopologyPart::ControlPlane && step.action != StepAction::Delete)?;
    let days = days_of(sent).filter(|days| renews_certificates(sent) && before.and_then(days_of) != Some(*days))?;
    let object = format!("{} {}", sent.kind(), sent.name());
    if let Some((days, validity)) = outlasts_certificates(sent) {
        return Some(format!(
            "{object} replaces its machines again and again: certificatesExpiryDays is {days}, and new certificates \
             are valid for {validity} days (ROLL-6)"
        ));
    }
    let due = |machine: &Arc<Object>| {
        let expires = machine.at(paths::machine::CERTIFICATES_EXPIRY)?.as_str()?.parse::<Timestamp>().ok()?;
        expires.checked_sub(SignedDuration::from_hours(days.checked_mul(24)?)).ok()
    };
    let later: Vec<Timestamp> =
        machines.iter().filter_map(due).filter(|due| now.is_some_and(|now| *due > now)).collect();
    let first = later.iter().min()?;
    Some(format!(
        "{object} replaces {} from {} on, since their certificates expire within {days} days then (ROLL-6)",
        schema::field::counted(later.len(), "machine"),
        seconds(*first),
    ))
}

/// Formats a time in the form of Kubernetes.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

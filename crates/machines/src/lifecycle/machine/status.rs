//! The status of a Machine: its conditions in the order in which they depend on each other, and its phase (MA-13, MA-3.3).

use core::time::Duration;

use serde_json::Value;

use super::infrastructure::PROVISIONED;
use super::work::{External, Work};
use super::{node_conditions, phase, up_to_date};
use crate::lifecycle::conditions::{self, Condition, Fallback, Part, Priority, Status, mirror, put, summary};
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{flag, items, number, remaining, time};
use model::hub::contract::Contract;

/// Reasons that are as they should be while a Machine is being deleted.
const EXPECTED_WHILE_DELETING: [&str; 4] = ["ObjectDeleted", "ObjectDoesNotExist", "NodeDeleted", "NodeDoesNotExist"];
/// Conditions of control plane components whose equal messages are shown once (MA-13.10).
const COMPONENTS: [&str; 4] =
    ["APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy", "EtcdPodHealthy"];
/// When the summary says that a deletion takes long, and a drain.
const LONG_DELETION: Duration = Duration::from_mins(15);
const LONG_DRAIN: Duration = Duration::from_mins(5);

/// Sets every condition and the phase.
pub(super) fn update(work: &mut Work<'_, '_>) {
    let bootstrap = bootstrap_config_ready(work);
    set(work, "BootstrapConfigReady", &bootstrap);
    let infrastructure = infrastructure_ready(work);
    set(work, "InfrastructureReady", &infrastructure);
    node_conditions::update(work);
    set_deleting(work);
    // MA-13.7: updates in place are not built.
    set(work, "Updating", &Condition::new(false, "NotUpdating", ""));
    up_to_date::update(work);
    let ready = ready(work);
    set(work, "Ready", &ready);
    phase::set_phase(work);
    set_available(work);
}

fn set(work: &mut Work<'_, '_>, name: &str, condition: &Condition) {
    put(&mut work.machine, name, condition, work.context.now);
}

/// How the bootstrap configuration is (MA-13.3, CT-15.8).
fn bootstrap_config_ready(work: &Work<'_, '_>) -> Condition {
    const CREATED: &str = "status.initialization.bootstrapDataSecretCreated";
    match &work.bootstrap {
        External::NoReference => Condition::new(true, "DataSecretProvided", ""),
        External::Found(config) => mirrored(work, config, Flag::DataSecretCreated),
        External::Unread => unread("bootstrap configuration"),
        External::Missing if work.is_deleting() && flag(&work.machine, CREATED) => {
            Condition::new(false, "ObjectDeleted", "The bootstrap configuration is deleted")
        }
        External::Missing => Condition::new(false, "ObjectDoesNotExist", "The bootstrap configuration does not exist"),
    }
}

/// How the infrastructure is (MA-13.4, CT-15.8).
fn infrastructure_ready(work: &Work<'_, '_>) -> Condition {
    let was_provisioned = flag(&work.machine, PROVISIONED);
    match &work.infrastructure {
        External::Found(object) => mirrored(work, object, Flag::Provisioned),
        External::Unread => unread("infrastructure"),
        _ if was_provisioned && work.is_deleting() => {
            Condition::new(false, "ObjectDeleted", "The infrastructure is deleted")
        }
        _ if was_provisioned => {
            let message = "The infrastructure was deleted while the Machine still exists";
            Condition::new(false, "ObjectDeleted", message)
        }
        _ => Condition::new(false, "ObjectDoesNotExist", "The infrastructure does not exist"),
    }
}

fn unread(what: &str) -> Condition {
    Condition::new(Status::Unknown, "InternalError", format!("The {what} cannot be read; see the log for details"))
}

fn mirrored(work: &Work<'_, '_>, object: &model::hub::Object, of: Flag) -> Condition {
    let Ok(flag) = of.read(work.context, object) else { return unread(object.kind()) };
    mirror(object, "Ready", Fallback { flag, path: of.path(Contract::V1Beta2), reasons: ("Ready", "NotReady") })
}

/// How far the deletion is (MA-13.6).
fn set_deleting(work: &mut Work<'_, '_>) {
    let condition = match &work.deletion {
        None => Condition::new(false, "NotDeleting", ""),
        Some(stage) => Condition::new(true, stage.reason, stage.message.clone()),
    };
    if let Some(stage) = &work.deletion
        && conditions::reason(&work.before, "Deleting") != stage.reason
    {
        work.step.tell(stage.reason, stage.message.clone());
    }
    set(work, "Deleting", &condition);
}

/// Whether the Machine is ready (MA-13.9).
fn ready(work: &mut Work<'_, '_>) -> Condition {
    let stage = work.is_deleting().then(|| deleting_in_short(work));
    let gates = items(&work.machine, "spec.readinessGates");
    let gate = |gate: &'_ Value| -> Option<(String, bool)> {
        let is_negative = gate.get("polarity").is_some_and(|polarity| polarity == "Negative");
        Some((gate.get("conditionType")?.as_str()?.to_owned(), is_negative))
    };
    let gates: Vec<(String, bool)> = gates.iter().filter_map(gate).collect();
    let mut parts = vec![
        Part::negative("Deleting"),
        Part::negative("Updating"),
        Part::positive("BootstrapConfigReady"),
        Part::positive("InfrastructureReady"),
        Part::positive("NodeHealthy"),
        Part::positive("HealthCheckSucceeded").ignorable(),
    ];
    parts.extend(gates.iter().map(|(name, is_negative)| match is_negative {
        true => Part::negative(name),
        false => Part::positive(name),
    }));
    let reasons = ["NotReady", "ReadyUnknown", "Ready"];
    let mut condition = summary(&work.machine, &parts, reasons, |name, condition, priority| {
        let Some(stage) = &stage else { return };
        if name == "Deleting" {
            condition.message.clone_from(stage);
        } else if EXPECTED_WHILE_DELETING.contains(&&*condition.reason) {
            *priority = Priority::Info;
        }
    });
    condition.message = join_components(&condition.message);
    condition
}

/// The stage of the deletion, and hints once it takes long (MA-13.9).
fn deleting_in_short(work: &mut Work<'_, '_>) -> String {
    let stage = work.deletion.as_ref().map_or("Deleting", |stage| stage.reason);
    let mut text = format!("Machine deletion in progress, stage: {stage}");
    if is_over(work, "metadata.deletionTimestamp", LONG_DELETION) {
        text.push_str("; it takes more than 15 minutes");
    }
    if stage == "DrainingNode" && is_over(work, "status.deletion.nodeDrainStartTime", LONG_DRAIN) {
        text.push_str("; Pods may be held by a PodDisruptionBudget, a long termination or their own finalizers");
    }
    text
}

/// Whether so much time has passed since the time at a path; otherwise the Machine is looked at again then.
fn is_over(work: &mut Work<'_, '_>, path: &str, lasts: Duration) -> bool {
    let Some(begun) = time(&work.machine, path) else { return false };
    match remaining(begun, lasts, work.context.now) {
        None => true,
        Some(left) => {
            work.step.look_again(left);
            false
        }
    }
}

/// One line for control plane components that say the same (MA-13.10).
fn join_components(message: &str) -> String {
    let text_of = |line: &str| -> Option<String> {
        let (name, text) = line.strip_prefix("* ")?.split_once(": ")?;
        COMPONENTS.contains(&name).then(|| text.to_owned())
    };
    let texts: Vec<String> = message.lines().filter_map(text_of).collect();
    let Some(first) = texts.first().filter(|first| texts.len() > 1 && texts.iter().all(|text| text == *first)) else {
        return message.to_owned();
    };
    let mut joined = Some(format!("* Control plane components: {first}"));
    let lines: Vec<String> = message
        .lines()
        .filter_map(|line| if text_of(line).is_some() { joined.take() } else { Some(line.to_owned()) })
        .collect();
    lines.join("\n")
}

/// Whether the Machine has been ready for long enough (MA-13.11).
fn set_available(work: &mut Work<'_, '_>) {
    let condition = available(work);
    set(work, "Available", &condition);
}

fn available(work: &mut Work<'_, '_>) -> Condition {
    let since = conditions::since(&work.machine, "Ready").filter(|_| conditions::is_true(&work.machine, "Ready"));
    let Some(since) = since else { return Condition::new(false, "NotReady", "") };
    let seconds = number(&work.machine, "spec.minReadySeconds").and_then(|seconds| u64::try_from(seconds).ok());
    match remaining(since, Duration::from_secs(seconds.unwrap_or_default()), work.context.now) {
        None => Condition::new(true, "Available", ""),
        Some(left) => {
            work.step.look_again(left);
            Condition::new(false, "WaitingForMinReadySeconds", "")
        }
    }
}

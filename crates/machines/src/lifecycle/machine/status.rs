//! Status of a Machine: conditions in the order of their dependencies, and the phase (MA-13, MA-3.3).

use core::time::Duration;

use serde_json::Value;

use super::reconcile::{ExternalObject, MachineReconcile};
use super::{node_conditions, phase, up_to_date};
use crate::lifecycle::conditions::{
    self, ConditionState, ConditionStatus, Fallback, Priority, SummaryPart, mirror, put, summary,
};
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{items, number, remaining, time};
use model::hub::contract::Contract;
use model::hub::paths;

/// Reasons that are expected while a Machine is being deleted.
const EXPECTED_WHILE_DELETING: [&str; 4] = ["ObjectDeleted", "ObjectDoesNotExist", "NodeDeleted", "NodeDoesNotExist"];
/// Conditions of control plane components whose equal messages are merged (MA-13.10).
const COMPONENTS: [&str; 4] =
    ["APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy", "EtcdPodHealthy"];
/// Durations after which the summary reports a long deletion or drain.
const LONG_DELETION: Duration = Duration::from_mins(15);
const LONG_DRAIN: Duration = Duration::from_mins(5);

/// Sets every condition and the phase.
pub(super) fn update(work: &mut MachineReconcile<'_, '_>) {
    let bootstrap = bootstrap_config_ready(work);
    set(work, "BootstrapConfigReady", &bootstrap);
    let infrastructure = infrastructure_ready(work);
    set(work, "InfrastructureReady", &infrastructure);
    node_conditions::update(work);
    set_deleting(work);
    // MA-13.7: in-place updates are not implemented.
    set(work, "Updating", &ConditionState::new(false, "NotUpdating", ""));
    up_to_date::update(work);
    let ready = ready(work);
    set(work, "Ready", &ready);
    phase::set_phase(work);
    set_available(work);
}

fn set(work: &mut MachineReconcile<'_, '_>, name: &str, condition: &ConditionState) {
    put(&mut work.machine, name, condition, work.context.now);
}

/// State of the bootstrap configuration (MA-13.3, CT-15.8).
fn bootstrap_config_ready(work: &MachineReconcile<'_, '_>) -> ConditionState {
    match &work.bootstrap {
        ExternalObject::NoReference => ConditionState::new(true, "DataSecretProvided", ""),
        ExternalObject::Found(config) => mirrored(work, config, Flag::DataSecretCreated),
        ExternalObject::Unread => unread("bootstrap configuration"),
        ExternalObject::Missing if work.is_deleting() && work.machine.is_bootstrap_data_created() => {
            ConditionState::new(false, "ObjectDeleted", "The bootstrap configuration is deleted")
        }
        ExternalObject::Missing => {
            ConditionState::new(false, "ObjectDoesNotExist", "The bootstrap configuration does not exist")
        }
    }
}

/// State of the infrastructure (MA-13.4, CT-15.8).
fn infrastructure_ready(work: &MachineReconcile<'_, '_>) -> ConditionState {
    let was_provisioned = work.machine.is_infrastructure_provisioned();
    match &work.infrastructure {
        ExternalObject::Found(object) => mirrored(work, object, Flag::Provisioned),
        ExternalObject::Unread => unread("infrastructure"),
        _ if was_provisioned && work.is_deleting() => {
            ConditionState::new(false, "ObjectDeleted", "The infrastructure is deleted")
        }
        _ if was_provisioned => {
            let message = "The infrastructure was deleted while the Machine still exists";
            ConditionState::new(false, "ObjectDeleted", message)
        }
        _ => ConditionState::new(false, "ObjectDoesNotExist", "The infrastructure does not exist"),
    }
}

fn unread(what: &str) -> ConditionState {
    ConditionState::new(
        ConditionStatus::Unknown,
        "InternalError",
        format!("The {what} cannot be read; see the log for details"),
    )
}

fn mirrored(work: &MachineReconcile<'_, '_>, object: &model::hub::Object, of: Flag) -> ConditionState {
    let Ok(flag) = of.read(work.context, object) else { return unread(object.kind()) };
    mirror(object, "Ready", Fallback { flag, path: of.path(Contract::V1Beta2), reasons: ("Ready", "NotReady") })
}

/// Stage of the deletion (MA-13.6).
fn set_deleting(work: &mut MachineReconcile<'_, '_>) {
    let condition = match &work.deletion {
        None => ConditionState::new(false, "NotDeleting", ""),
        Some(stage) => ConditionState::new(true, stage.reason, stage.message.clone()),
    };
    if let Some(stage) = &work.deletion
        && conditions::reason(&work.before, "Deleting") != stage.reason
    {
        work.step.event(stage.reason, stage.message.clone());
    }
    set(work, "Deleting", &condition);
}

/// Whether the Machine is ready (MA-13.9).
fn ready(work: &mut MachineReconcile<'_, '_>) -> ConditionState {
    let stage = work.is_deleting().then(|| deleting_in_short(work));
    let gates = items(&work.machine, paths::machine::READINESS_GATES);
    let gate = |gate: &'_ Value| -> Option<(String, bool)> {
        let is_negative = gate.get("polarity").is_some_and(|polarity| polarity == "Negative");
        Some((gate.get("conditionType")?.as_str()?.to_owned(), is_negative))
    };
    let gates: Vec<(String, bool)> = gates.iter().filter_map(gate).collect();
    let mut parts = vec![
        SummaryPart::negative("Deleting"),
        SummaryPart::negative("Updating"),
        SummaryPart::positive("BootstrapConfigReady"),
        SummaryPart::positive("InfrastructureReady"),
        SummaryPart::positive("NodeHealthy"),
        SummaryPart::positive("HealthCheckSucceeded").ignorable(),
    ];
    parts.extend(gates.iter().map(|(name, is_negative)| match is_negative {
        true => SummaryPart::negative(name),
        false => SummaryPart::positive(name),
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

/// Stage of the deletion, with hints when it takes long (MA-13.9).
fn deleting_in_short(work: &mut MachineReconcile<'_, '_>) -> String {
    let stage = work.deletion.as_ref().map_or("Deleting", |stage| stage.reason);
    let mut text = format!("Machine deletion in progress, stage: {stage}");
    if is_over(work, paths::metadata::DELETION_TIMESTAMP, LONG_DELETION) {
        text.push_str("; it takes more than 15 minutes");
    }
    if stage == "DrainingNode" && is_over(work, paths::machine::NODE_DRAIN_START, LONG_DRAIN) {
        text.push_str("; Pods may be held by a PodDisruptionBudget, a long termination or their own finalizers");
    }
    text
}

/// Whether a period has passed since the time at a path; otherwise requeues the Machine for then.
fn is_over(work: &mut MachineReconcile<'_, '_>, path: &str, lasts: Duration) -> bool {
    let Some(begun) = time(&work.machine, path) else { return false };
    match remaining(begun, lasts, work.context.now) {
        None => true,
        Some(left) => {
            work.step.requeue_after(left);
            false
        }
    }
}

/// Merges control plane components with equal messages into one line (MA-13.10).
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

/// Whether the Machine has been ready for the minimum time (MA-13.11).
fn set_available(work: &mut MachineReconcile<'_, '_>) {
    let condition = available(work);
    set(work, "Available", &condition);
}

fn available(work: &mut MachineReconcile<'_, '_>) -> ConditionState {
    let since = conditions::since(&work.machine, "Ready").filter(|_| conditions::is_true(&work.machine, "Ready"));
    let Some(since) = since else { return ConditionState::new(false, "NotReady", "") };
    let seconds =
        number(&work.machine, paths::machine::MIN_READY_SECONDS).and_then(|seconds| u64::try_from(seconds).ok());
    match remaining(since, Duration::from_secs(seconds.unwrap_or_default()), work.context.now) {
        None => ConditionState::new(true, "Available", ""),
        Some(left) => {
            work.step.requeue_after(left);
            ConditionState::new(false, "WaitingForMinReadySeconds", "")
        }
    }
}

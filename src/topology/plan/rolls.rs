//! Which machines a step replaces (DEC-41).

use std::sync::Arc;

use serde_json::Value;

use super::{Action, Certainty, Change, Part, Step};
use crate::hub::Object;
use crate::topology::current::Current;
use crate::topology::origin::is_below;
use crate::topology::worker::WorkerKind;

/// Machines that are replaced because of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Roll {
    pub part: Part,
    pub kind: String,
    pub name: String,
    /// How many machines are replaced; `None` when the number of replicas is not set.
    pub machines: Option<i64>,
    /// How many at a time, at the most; `None` when nobody knows.
    pub at_a_time: Option<i64>,
    pub certainty: Certainty,
    pub reason: String,
}

/// Control planes that are known to replace their machines when any other field of their spec changes.
const KNOWN: [&str; 3] = ["EmbeddedControlPlane", "KubeadmControlPlane", "RKE2ControlPlane"];

/// What of a control plane's spec is handed down to its machines in place (DS-15 to DS-19).
const IN_PLACE: [&str; 17] = [
    "spec.replicas",
    "spec.rollout",
    "spec.rolloutAfter",
    "spec.rolloutBefore",
    "spec.rolloutStrategy",
    "spec.remediation",
    "spec.remediationStrategy",
    "spec.machineTemplate.metadata",
    "spec.machineTemplate.spec.readinessGates",
    "spec.machineTemplate.spec.taints",
    "spec.machineTemplate.spec.deletion",
    "spec.machineTemplate.readinessGates",
    "spec.machineTemplate.taints",
    "spec.machineTemplate.nodeDrainTimeout",
    "spec.machineTemplate.nodeVolumeDetachTimeout",
    "spec.machineTemplate.nodeDeletionTimeout",
    "spec.machineNamingStrategy",
];

/// What makes a machine deployment replace its machines (MA-21.1).
const OF_MACHINES: [&str; 4] = [
    "spec.template.spec.version",
    "spec.template.spec.bootstrap",
    "spec.template.spec.infrastructureRef",
    "spec.template.spec.failureDomain",
];

/// The machines that steps replace.
pub(super) fn rolls(steps: &[Step], current: &Current) -> Vec<Roll> {
    let applied = steps.iter().filter(|step| step.action == Action::Apply);
    let roll = |step: &Step| {
        let before = object(&step.part, current)?;
        let mut roll = match &step.part {
            Part::ControlPlane => of_control_plane(step, before),
            Part::Worker(WorkerKind::MachineDeployment, _) => of_deployment(step, before),
            Part::Worker(WorkerKind::MachinePool, _) => of_pool(step, before),
            _ => None,
        }?;
        // A new name in a reference explains nothing; what gave the template a new name does.
        if let Some(because) = rotation(steps, &step.part).filter(|_| !step.changes.iter().any(Change::is_version)) {
            roll.reason = because;
        }
        Some(roll)
    };
    let mut rolls: Vec<Roll> = applied.filter_map(roll).collect();
    for step in steps {
        let roll = of_pools_objects(step, steps, current);
        // Bootstrap and infrastructure of a pool replace its machines together.
        rolls.extend(roll.filter(|roll| rolls.iter().all(|other| other.part != roll.part)));
    }
    rolls.retain(|roll| roll.machines != Some(0));
    rolls
}

/// What a part is before the plan.
fn object<'a>(part: &Part, current: &'a Current) -> Option<&'a Arc<Object>> {
    match part {
        Part::ControlPlane => current.control_plane.object.as_ref(),
        Part::Worker(kind, name) => current.workers(*kind).get(name).map(|worker| &worker.object),
        _ => None,
    }
}

/// Why a template of the machines of a part is rotated in this plan, if one is.
fn rotation(steps: &[Step], part: &Part) -> Option<String> {
    let is_of = |step: &&Step| match (&step.part, part) {
        (Part::ControlPlaneMachines, Part::ControlPlane) => true,
        (Part::Bootstrap(kind, name) | Part::WorkerInfrastructure(kind, name), Part::Worker(of_kind, of)) => {
            (kind, name) == (of_kind, of)
        }
        _ => false,
    };
    let rotated = steps.iter().filter(|step| step.action == Action::Rotate);
    rotated.filter(is_of).find_map(|step| {
        let changes: Vec<_> = step.changes.iter().filter(|change| !change.path.starts_with("metadata")).collect();
        Some(format!("{}: {}", step.object.kind, reason(&changes)?))
    })
}

/// A machine pool whose objects change in place, which its provider may take for a reason to replace machines (DEC-41).
fn of_pools_objects(step: &Step, steps: &[Step], current: &Current) -> Option<Roll> {
    let (Part::Bootstrap(kind, name) | Part::WorkerInfrastructure(kind, name)) = &step.part else { return None };
    let is_pool = *kind == WorkerKind::MachinePool && step.action == Action::Apply;
    let changes: Vec<_> = step.changes.iter().filter(|change| is_at(&change.path, "spec")).collect();
    let because = reason(&changes).filter(|_| is_pool)?;
    let part = Part::Worker(*kind, name.clone());
    let pool = object(&part, current)?;
    if steps.iter().any(|step| step.part == part && !decisive_of_workers(step).is_empty()) {
        return None;
    }
    Some(Roll {
        machines: pool.at("spec.replicas").and_then(Value::as_i64),
        kind: pool.kind().to_owned(),
        name: pool.name().to_owned(),
        part,
        reason: format!("{}: {because}", step.object.kind),
        ..roll(step, Certainty::Provider, String::new())
    })
}

/// What makes workers replace their machines.
fn decisive_of_workers(step: &Step) -> Vec<&Change> {
    decisive(step, |path| OF_MACHINES.iter().any(|one| is_at(path, one)))
}

fn of_deployment(step: &Step, before: &Object) -> Option<Roll> {
    let decisive = decisive_of_workers(step);
    let reason = reason(&decisive)?;
    let machines = replaced(step, before);
    let certainty = certainty(step, &decisive);
    let strategy = |field: &str| {
        let path = format!("spec.rollout.strategy.{field}");
        step.sent.as_ref().and_then(|sent| sent.at(&path).cloned())
    };
    let is_on_delete = strategy("type").as_ref().and_then(Value::as_str) == Some("OnDelete");
    let at_a_time = machines.filter(|_| !is_on_delete).map(|machines| {
        let surge = share(strategy("rollingUpdate.maxSurge").as_ref(), 1, machines, true);
        let unavailable = share(strategy("rollingUpdate.maxUnavailable").as_ref(), 0, machines, false);
        (surge + unavailable).clamp(1, machines.max(1))
    });
    Some(Roll { machines, at_a_time, ..roll(step, certainty, reason) })
}

fn of_control_plane(step: &Step, before: &Object) -> Option<Roll> {
    let stays = |path: &str| IN_PLACE.iter().any(|one| is_at(path, one));
    let decisive = decisive(step, |path| path.starts_with("spec.") && !stays(path));
    let reason = reason(&decisive)?;
    let is_sure = |path: &str| {
        path == "spec.version"
            || is_at(path, "spec.machineTemplate.infrastructureRef")
            || is_at(path, "spec.machineTemplate.spec.infrastructureRef")
    };
    let is_known = KNOWN.contains(&&*step.object.kind);
    let certainty = match is_known || decisive.iter().any(|change| is_sure(&change.path)) {
        true => certainty(step, &decisive),
        false => Certainty::Provider,
    };
    let machines = replaced(step, before);
    Some(Roll { machines, at_a_time: is_known.then_some(1), ..roll(step, certainty, reason) })
}

fn of_pool(step: &Step, before: &Object) -> Option<Roll> {
    let decisive = decisive_of_workers(step);
    let reason = reason(&decisive)?;
    Some(Roll { machines: replaced(step, before), ..roll(step, Certainty::Provider, reason) })
}

/// A version is what it is; of other values a server may see that they are the same (DEC-15).
fn certainty(step: &Step, decisive: &[&Change]) -> Certainty {
    if decisive.iter().any(|change| change.is_version()) { Certainty::Exact } else { step.certainty }
}

fn roll(step: &Step, certainty: Certainty, reason: String) -> Roll {
    Roll {
        part: step.part.clone(),
        kind: step.object.kind.clone(),
        name: step.object.key.name.clone(),
        machines: None,
        at_a_time: None,
        certainty,
        reason,
    }
}

fn decisive(step: &Step, decides: impl Fn(&str) -> bool) -> Vec<&Change> {
    step.changes.iter().filter(|change| decides(&change.path)).collect()
}

/// Whether a path is `above` or below it, or `above` is below the path, as when a whole changes of which it is a part.
fn is_at(path: &str, above: &str) -> bool {
    is_below(path, above) || is_below(above, path)
}

/// Why machines are replaced: the version first, since it is what people look for.
fn reason(decisive: &[&Change]) -> Option<String> {
    let first = decisive.iter().find(|change| change.is_version()).or(decisive.first())?;
    let text = |value: &Option<Value>| value.as_ref().and_then(Value::as_str).map(str::to_owned);
    if let (true, Some(from), Some(to)) = (first.is_version(), text(&first.from), text(&first.to)) {
        return Some(format!("its version goes from {from} to {to}"));
    }
    let rest = match decisive.len() {
        1 => String::new(),
        more => format!(" and {} more", more - 1),
    };
    let because = first.because.as_ref().map(|origin| format!(" ({origin})")).unwrap_or_default();
    Some(format!("{} changes{because}{rest}", first.path))
}

/// How many machines there are to be replaced: those that were there, less those that go.
fn replaced(step: &Step, before: &Object) -> Option<i64> {
    let replicas = |object: &Object| object.at("spec.replicas").and_then(Value::as_i64);
    let after = step.sent.as_ref().and_then(|sent| replicas(sent));
    match (replicas(before), after) {
        (Some(before), Some(after)) => Some(before.min(after)),
        (before, after) => before.or(after),
    }
}

/// A number, or a share of `all` as Kubernetes rounds it.
fn share(value: Option<&Value>, default: i64, all: i64, rounds_up: bool) -> i64 {
    let percent = |text: &str| text.strip_suffix('%')?.parse::<i64>().ok();
    match value {
        Some(Value::Number(number)) => number.as_i64().unwrap_or(default),
        Some(Value::String(text)) => percent(text).map_or(default, |share| {
            let whole = share.saturating_mul(all);
            if rounds_up { (whole.saturating_add(99)) / 100 } else { whole / 100 }
        }),
        _ => default,
    }
}

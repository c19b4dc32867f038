//! The change of one Cluster as data, which `plan -o json` prints.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use crate::topology::Failure;
use crate::topology::explanations::{explain, unknown_variables_of};
use crate::topology::holds::HeldPart;
use crate::topology::origin::Origin;
use crate::topology::plan::{
    Certainty, ChangedField, MachineCounts, PlanStep, Roll, Rollout, StepAction, TopologyPart, TopologySimulator,
    seconds,
};
use crate::topology::refusals::{Checks, RefusedField, UncheckedKind};
use crate::topology::worker::WorkerKind;
use model::hub::{Object, ObjectKey};
use model::world::Found;
use schema::openapi::SENSITIVE;

/// The report about one Cluster.
#[derive(Debug, Serialize)]
pub struct ClusterReport {
    /// The number of its group, counted from zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<usize>,
    pub namespace: String,
    pub name: String,
    /// Whether it is a sample of a class that no Cluster uses.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sample: bool,
    pub steps: Vec<StepReport>,
    pub rolls: Vec<RollReport>,
    pub held: Vec<HeldReport>,
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
    /// Its class and version before and after, for users.
    #[serde(skip)]
    pub title: String,
    #[serde(skip)]
    pub about: About,
    #[serde(skip)]
    pub incomplete: Vec<String>,
    #[serde(skip)]
    pub deleted: usize,
    /// Whether it cannot be planned to its end.
    #[serde(skip)]
    pub fails: bool,
    /// Whether the reason is that no upgrade plan leads to its version.
    #[serde(skip)]
    pub lacks_upgrade_plan: bool,
    /// Whether the API server would reject an object.
    #[serde(skip)]
    pub refuses: bool,
    /// The kinds of written objects that were not checked against CustomResourceDefinitions.
    #[serde(skip)]
    pub unchecked: BTreeSet<UncheckedKind>,
}

/// Common properties of the Clusters of a group besides their changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct About {
    pub fate: Fate,
    /// `class quick-start, v1.33.0 → v1.34.2`; empty when the Cluster cannot be read.
    pub topology: String,
}

/// Whether a Cluster exists before and after the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    Stays,
    New,
    Deleted,
    /// A sample of a class that no Cluster uses, without machines.
    Sample,
    /// A class instead of a Cluster.
    Class,
}

/// One write.
#[derive(Debug, Serialize)]
pub struct StepReport {
    pub action: &'static str,
    pub kind: String,
    /// The slot of the object, without the name of its worker set.
    #[serde(skip)]
    pub role: &'static str,
    /// The worker set of the object.
    #[serde(skip)]
    pub set: Option<String>,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    pub reason: String,
    pub certainty: &'static str,
    pub changes: Vec<ChangeReport>,
}

/// A field that changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangeReport {
    pub path: String,
    pub from: Value,
    pub to: Value,
    pub because: String,
    /// The patch that set the previous value and no longer does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// The effect of a plan on the machines of a control plane or of workers (DEC-42).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RollReport {
    pub kind: String,
    #[serde(skip)]
    pub role: &'static str,
    pub name: String,
    #[serde(flatten)]
    pub effect: RollEffect,
}

/// The effect of a plan on machines.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RollEffect {
    pub machines: MachineCounts,
    /// `None` if it is not known, or differs between the objects of a group.
    pub at_a_time: Option<i64>,
    /// The time from which machines are replaced, if that is later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The ExtensionConfig whose extension may update the machines in place instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place: Option<String>,
    pub certainty: &'static str,
    pub reason: String,
}

/// A part that waits.
#[derive(Debug, Serialize)]
pub struct HeldReport {
    pub kind: String,
    pub name: String,
    pub reason: String,
}

/// The errors of a Cluster before and after a change; an error on both sides is listed once.
fn errors(before: Option<String>, after: Option<String>) -> Vec<String> {
    match (before, after) {
        (Some(before), Some(after)) if before == after => vec![format!("before and after the change: {after}")],
        (before, after) => {
            let before = before.map(|before| format!("before the change: {before}"));
            before.into_iter().chain(after).collect()
        }
    }
}

impl ClusterReport {
    /// The report about a Cluster that exists after the change.
    pub fn new(
        cluster: &ObjectKey,
        before: &TopologySimulator,
        after: &TopologySimulator,
        settled: Rollout,
        outcome: Rollout,
    ) -> Self {
        let failed = |outcome: &Rollout, fold: &TopologySimulator| {
            outcome.failure.as_ref().map(|failure| explain(failure, fold.facts()))
        };
        let mut errors = errors(failed(&settled, before), failed(&outcome, after));
        let Checks { refusals, unchecked, unusable } = outcome.checks;
        let (missing, wrong): (Vec<_>, Vec<_>) = refusals.into_iter().partition(RefusedField::may_be_completed);
        let lacks_upgrade_plan = matches!(outcome.failure, Some(Failure::Plan(_)));
        let (fails, refuses) = (!errors.is_empty(), !wrong.is_empty());
        errors.extend(wrong.iter().map(ToString::to_string));
        let of_checks = missing.iter().map(ToString::to_string).chain(unusable);
        let steps: Vec<&PlanStep> =
            outcome.rounds.iter().flat_map(|round| &round.steps).filter(|step| is_shown(step)).collect();
        let deleted = steps.iter().filter(|step| step.action == StepAction::Delete).count();
        let rolls = outcome.rounds.iter().flat_map(|round| &round.rolls).map(RollReport::from_roll).collect();
        let held = |held: &HeldPart| HeldReport {
            kind: held.kind.clone(),
            name: held.name.clone(),
            reason: held.reason.to_string(),
        };
        let of_trace = outcome.trace.not_asked.iter().map(|call| format!("Cluster {cluster}: {call}"));
        let unknown = unknown_variables_of(cluster, after.facts()).into_iter();
        let incomplete = unknown.map(|reason| format!("Cluster {cluster}: {reason}")).chain(of_trace).collect();
        let undefined = outcome.trace.undefined.iter().map(ToString::to_string);
        let ineffective = outcome.trace.ineffective.iter().map(ToString::to_string);
        let of_patches = undefined.chain(ineffective);
        ClusterReport {
            group: None,
            namespace: cluster.namespace.clone(),
            name: cluster.name.clone(),
            sample: false,
            incomplete,
            steps: steps.into_iter().map(StepReport::from_step).collect(),
            rolls,
            held: outcome.held.iter().map(held).collect(),
            errors,
            warnings: outcome.warnings.into_iter().chain(of_patches).chain(of_checks).chain(outcome.notes).collect(),
            title: title(cluster, before, after),
            about: about(cluster, before, after),
            deleted,
            fails,
            lacks_upgrade_plan,
            refuses,
            unchecked,
        }
    }

    /// The report about a deleted Cluster, with all objects of its topology.
    pub fn deleted(cluster: &ObjectKey, before: &TopologySimulator) -> Self {
        let objects = before.objects_of(cluster);
        let step = |kind: &str, name: &str, reason| StepReport::exact(StepAction::Delete, kind, name, reason);
        let mut steps = vec![step("Cluster", &cluster.name, "it is not among the new files")];
        steps.extend(objects.iter().map(|object| step(object.kind(), object.name(), "it goes with its Cluster")));
        ClusterReport {
            group: None,
            namespace: cluster.namespace.clone(),
            name: cluster.name.clone(),
            about: About { fate: Fate::Deleted, topology: topology(before, cluster, before) },
            sample: false,
            deleted: steps.len(),
            steps,
            rolls: objects.iter().filter_map(|object| RollReport::removed(object, before, cluster)).collect(),
            held: Vec::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
            title: format!("Cluster {cluster} is deleted"),
            incomplete: Vec::new(),
            fails: false,
            lacks_upgrade_plan: false,
            refuses: false,
            unchecked: BTreeSet::new(),
        }
    }
}

impl ClusterReport {
    /// The report about a class that no Cluster uses.
    pub fn for_class(class: &ObjectKey, title: String, steps: Vec<StepReport>) -> Self {
        ClusterReport {
            group: None,
            namespace: class.namespace.clone(),
            name: class.name.clone(),
            sample: false,
            deleted: steps.iter().filter(|step| step.action == StepAction::Delete.name()).count(),
            steps,
            rolls: Vec::new(),
            held: Vec::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
            title,
            about: About { fate: Fate::Class, topology: String::new() },
            incomplete: Vec::new(),
            fails: false,
            lacks_upgrade_plan: false,
            refuses: false,
            unchecked: BTreeSet::new(),
        }
    }
}

/// Whether a step is shown to users: not the engine's bookkeeping on the Cluster, nor the deletion of a template that a
/// rotation has replaced.
fn is_shown(step: &PlanStep) -> bool {
    let is_note = |change: &ChangedField| change.path.starts_with("metadata.");
    match (&step.part, step.action) {
        (TopologyPart::Cluster, _) => !step.changes.iter().all(is_note),
        (TopologyPart::ControlPlaneMachines, StepAction::Delete) => false,
        _ => true,
    }
}

fn title(cluster: &ObjectKey, before: &TopologySimulator, after: &TopologySimulator) -> String {
    let About { fate, topology } = about(cluster, before, after);
    match fate {
        _ if topology.is_empty() => format!("Cluster {cluster}"),
        Fate::New => format!("Cluster {cluster} ({topology}) is new"),
        Fate::Stays | Fate::Deleted | Fate::Sample | Fate::Class => format!("Cluster {cluster} ({topology})"),
    }
}

fn about(cluster: &ObjectKey, before: &TopologySimulator, after: &TopologySimulator) -> About {
    let fate = match before.facts().cluster(cluster) {
        Found::Yes(_) => Fate::Stays,
        _ => Fate::New,
    };
    About { fate, topology: topology(before, cluster, after) }
}

/// Class and version of a Cluster, after and before the change.
fn topology(before: &TopologySimulator, cluster: &ObjectKey, after: &TopologySimulator) -> String {
    let of = |fold: &TopologySimulator| match fold.facts().cluster(cluster) {
        Found::Yes(found) => Some((found.spec.topology.class_ref.name.clone(), found.spec.topology.version.clone())),
        _ => None,
    };
    let Some((class, version)) = of(after) else { return String::new() };
    let (old_class, old_version) = of(before).unwrap_or_else(|| (class.clone(), version.clone()));
    let arrow = |from: String, to: String| if from == to { to } else { format!("{from} → {to}") };
    format!("class {}, {}", arrow(old_class, class), arrow(old_version, version))
}

/// The slot of an object, the same for all worker sets of a kind.
fn role(part: &TopologyPart) -> &'static str {
    match part {
        TopologyPart::Infrastructure => "infrastructure",
        TopologyPart::ControlPlane => "control plane",
        TopologyPart::ControlPlaneMachines => "control plane machines",
        TopologyPart::ControlPlaneHealthCheck => "control plane health check",
        TopologyPart::Cluster => "",
        TopologyPart::Worker(kind, _) => kind.name(),
        TopologyPart::Bootstrap(WorkerKind::MachineDeployment, _) => "MachineDeployment bootstrap",
        TopologyPart::Bootstrap(WorkerKind::MachinePool, _) => "MachinePool bootstrap",
        TopologyPart::WorkerInfrastructure(WorkerKind::MachineDeployment, _) => "MachineDeployment infrastructure",
        TopologyPart::WorkerInfrastructure(WorkerKind::MachinePool, _) => "MachinePool infrastructure",
        TopologyPart::WorkerHealthCheck(_) => "MachineDeployment health check",
    }
}

fn set(part: &TopologyPart) -> Option<String> {
    match part {
        TopologyPart::Worker(_, name)
        | TopologyPart::Bootstrap(_, name)
        | TopologyPart::WorkerInfrastructure(_, name)
        | TopologyPart::WorkerHealthCheck(name) => Some(name.clone()),
        _ => None,
    }
}

impl StepReport {
    /// An exact step without changed fields.
    pub fn exact(action: StepAction, kind: &str, name: &str, reason: &str) -> Self {
        StepReport {
            action: action.name(),
            kind: kind.to_owned(),
            role: "",
            set: None,
            name: name.to_owned(),
            replaces: None,
            reason: reason.to_owned(),
            certainty: "exact",
            changes: Vec::new(),
        }
    }

    fn from_step(step: &PlanStep) -> Self {
        StepReport {
            action: step.action.name(),
            kind: step.object.kind.clone(),
            role: role(&step.part),
            set: set(&step.part),
            name: step.object.key.name.clone(),
            replaces: step.replaces.clone(),
            reason: step.reason.clone(),
            certainty: step.certainty.name(),
            changes: step.changes.iter().map(ChangeReport::from_change).collect(),
        }
    }
}

impl ChangeReport {
    fn from_change(change: &ChangedField) -> Self {
        let shown = |value: &Option<Value>| match value {
            Some(_) if change.is_sensitive => SENSITIVE.into(),
            Some(value) => value.clone(),
            None => Value::Null,
        };
        let because = match (&change.because, &change.to) {
            (Some(because), _) => because.to_string(),
            (None, None) => "no longer set".to_owned(),
            (None, Some(_)) => "no longer set; admission sets its default".to_owned(),
        };
        let before = change.was.as_ref().filter(|was| is_of_other_patch(was, change)).map(Origin::to_string);
        ChangeReport { path: change.path.clone(), from: shown(&change.from), to: shown(&change.to), because, before }
    }
}

/// Whether a value came from a patch that no longer sets it. The report names the patch, because no other field does.
fn is_of_other_patch(was: &Origin, change: &ChangedField) -> bool {
    let patch = |origin: &Origin| match origin {
        Origin::Patch(made_by) => Some(made_by.patch.clone()),
        _ => None,
    };
    let was = patch(was).filter(|_| change.from.is_some());
    was.is_some() && was != change.because.as_ref().and_then(patch)
}

impl RollEffect {
    /// Whether both differ only in the numbers of machines.
    pub(super) fn is_alike(&self, other: &RollEffect) -> bool {
        let RollEffect { from, in_place, certainty, reason, .. } = self;
        (from, in_place, *certainty, reason) == (&other.from, &other.in_place, other.certainty, &other.reason)
    }

    /// Adds the machines of another object.
    pub(super) fn add(&mut self, other: &RollEffect) {
        self.machines = [self.machines, other.machines].into_iter().sum();
        self.at_a_time = self.at_a_time.filter(|pace| Some(*pace) == other.at_a_time);
    }
}

impl RollReport {
    /// The machines of an object that is deleted with its Cluster (ROLL-16).
    fn removed(object: &Object, before: &TopologySimulator, cluster: &ObjectKey) -> Option<Self> {
        let Found::Yes(owner) = before.facts().cluster(cluster) else { return None };
        let kinds = ["MachineDeployment", "MachinePool", &owner.spec.control_plane_ref.kind];
        let replicas = object.replicas();
        kinds.contains(&object.kind()).then(|| RollReport {
            kind: object.kind().to_owned(),
            role: "",
            name: object.name().to_owned(),
            effect: RollEffect {
                machines: MachineCounts { removed: replicas, ..MachineCounts::NONE },
                at_a_time: None,
                from: None,
                in_place: None,
                certainty: Certainty::Exact.name(),
                reason: "its Cluster is deleted".to_owned(),
            },
        })
    }

    fn from_roll(roll: &Roll) -> Self {
        RollReport {
            kind: roll.kind.clone(),
            role: role(&roll.part),
            name: roll.name.clone(),
            effect: RollEffect {
                machines: roll.machines,
                at_a_time: roll.at_a_time,
                from: roll.from.map(seconds),
                in_place: roll.in_place.clone(),
                certainty: roll.certainty.name(),
                reason: roll.reason.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_before_and_after_a_change_are_reported_once() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(errors(text("a"), text("a")), ["before and after the change: a"]);
        assert_eq!(errors(text("a"), text("b")), ["before the change: a", "b"]);
        assert_eq!(errors(text("a"), None), ["before the change: a"]);
        assert_eq!(errors(None, text("b")), ["b"]);
        assert_eq!(errors(None, None), Vec::<String>::new());
    }
}

//! The machines that the steps of a plan replace, remove and add (DEC-42).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::health_checks::called_unhealthy;
use super::outdated_machines::{begins_to_replace, certificate_note, outdated_already, outlasts_certificates};
use super::{Certainty, ChangedField, PlanStep, StepAction, TopologyPart};
use crate::topology::current::Current;
use crate::topology::holds::{HeldPart, HeldReason, PausedBy};
use crate::topology::origin::is_below;
use crate::topology::worker::{API_VERSION, WorkerKind};
use model::hub::machine_defaults::{DEFAULT_REPLICAS, MAX_SURGE, MAX_UNAVAILABLE, replicas_within};
use model::hub::{Object, annotation, group_of, label, paths};
use model::rollouts::{
    Decider, LeafDifference, RolloutEffect, RolloutOwner, RolloutRule, differences, initialized_as_joined, is_stricter,
    rule_for,
};
use model::world::{Found, Selection, World};

/// The effect of one step on the machines of a control plane or worker set.
#[derive(Clone, Debug, PartialEq)]
pub struct Roll {
    pub part: TopologyPart,
    pub kind: String,
    pub name: String,
    pub machines: MachineCounts,
    /// Maximum number of machines that are replaced at a time; `None` if unknown.
    pub at_a_time: Option<i64>,
    /// The time at which the replacement starts, if it is later than the step.
    pub from: Option<Timestamp>,
    /// The ExtensionConfig whose extension may update the machines in place instead.
    pub in_place: Option<String>,
    pub certainty: Certainty,
    pub reason: String,
    /// Whether a new Kubernetes version replaces them.
    pub is_upgrade: bool,
}

/// Numbers of machines; `None` if unknown, with the cause in the reason of the [`Roll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineCounts {
    pub replaced: Option<i64>,
    pub removed: Option<i64>,
    pub added: Option<i64>,
    /// Machines that stay outdated until a user deletes them (ROLL-11).
    pub outdated_until_deleted: Option<i64>,
    /// Minimum number of replaced or outdated machines if their number is unknown: the minimum of an autoscaler.
    pub at_least: i64,
}

impl MachineCounts {
    /// No machine at all.
    pub const NONE: MachineCounts = MachineCounts {
        replaced: Some(0),
        removed: Some(0),
        added: Some(0),
        outdated_until_deleted: Some(0),
        at_least: 0,
    };

    /// Whether machines are or may be replaced or removed.
    pub fn affects_machines(&self) -> bool {
        self.replaced != Some(0) || self.removed != Some(0)
    }
}

impl std::iter::Sum for MachineCounts {
    fn sum<I: Iterator<Item = MachineCounts>>(all: I) -> Self {
        let add = |one: Option<i64>, other: Option<i64>| Some(one?.saturating_add(other?));
        all.fold(MachineCounts::NONE, |sum, one| MachineCounts {
            replaced: add(sum.replaced, one.replaced),
            removed: add(sum.removed, one.removed),
            added: add(sum.added, one.added),
            outdated_until_deleted: add(sum.outdated_until_deleted, one.outdated_until_deleted),
            at_least: sum.at_least.saturating_add(one.at_least),
        })
    }
}

/// The effects of steps on machines, the parts that wait because they are paused (ROLL-18), and notes on certificates.
pub(super) fn rolls(
    steps: &[PlanStep],
    current: &Current,
    world: &World,
    now: Option<Timestamp>,
) -> (Vec<Roll>, Vec<HeldPart>, Vec<String>) {
    let scene = RollContext { steps, rotated: rotated(steps), current, world, now };
    let mut rolls: Vec<Roll> = steps.iter().filter_map(|step| scene.roll(step)).collect();
    let mut parts: BTreeSet<TopologyPart> = rolls.iter().map(|roll| roll.part.clone()).collect();
    for step in steps {
        let roll = scene.pool_objects_roll(step);
        // Bootstrap and infrastructure of a pool replace its machines together.
        rolls.extend(roll.filter(|roll| parts.insert(roll.part.clone())));
    }
    for step in steps {
        let roll = scene.health_check_roll(step);
        rolls.extend(roll.filter(|roll| rolls.iter().all(|other| other.part != roll.part)));
    }
    let mut held = Vec::new();
    for roll in rolls.iter_mut().filter(|roll| scene.object(&roll.part).is_some_and(|object| is_paused(object))) {
        held.extend(roll.hold(PausedBy::Owner));
    }
    rolls.retain(|roll| roll.machines != MachineCounts::NONE);
    let notes = steps.iter().filter_map(|step| scene.certificate_note(step)).collect();
    (rolls, held, notes)
}

impl Roll {
    /// Removes the effect of a paused part (ROLL-18); returns the held part if machines would be replaced.
    pub(super) fn hold(&mut self, paused: PausedBy) -> Option<HeldPart> {
        let replaced = self.machines.replaced.replace(0);
        if replaced == Some(0) {
            return None;
        }
        self.machines.at_least = 0;
        let reason = HeldReason::PausedMachines { paused, replaced, cause: self.reason.clone() };
        Some(HeldPart { kind: self.kind.clone(), name: self.name.clone(), reason })
    }
}

/// Warnings that are no numbers of machines: an upgrade cannot be undone, and a stricter health check may remediate
/// machines (ROLL-17).
pub(super) fn notes(steps: &[PlanStep]) -> impl Iterator<Item = String> {
    let upgrades = steps.iter().filter_map(|step| {
        let version =
            step.changes.iter().find(|change| step.part == TopologyPart::ControlPlane && change.is_version())?;
        let text = |value: &Option<Value>| value.as_ref().and_then(Value::as_str).map(str::to_owned);
        let (from, to) = (text(&version.from)?, text(&version.to)?);
        Some(format!("going back is not possible: Kubernetes does not downgrade a control plane from {to} to {from}"))
    });
    let is_check = |step: &&PlanStep| {
        matches!(step.part, TopologyPart::ControlPlaneHealthCheck | TopologyPart::WorkerHealthCheck(_))
    };
    let gets_stricter = |step: &&PlanStep| {
        let mut changes = step.changes.iter();
        step.action == StepAction::Apply
            && changes.any(|change| is_stricter(&change.path, change.from.as_ref(), change.to.as_ref()))
    };
    let checks = steps.iter().filter(is_check).filter(gets_stricter).map(|step| {
        let name = &step.object.key.name;
        format!(
            "MachineHealthCheck {name} becomes stricter: machines that it finds unhealthy may be remediated (ROLL-17)"
        )
    });
    upgrades.chain(checks)
}

/// Replaces removed numbers of replicas by the default of admission: the bounds of an autoscaler, else 1 (ROLL-13).
pub(super) fn default_replicas(steps: &mut [PlanStep]) {
    for step in steps {
        let (Some(sent), Some(owner)) = (&step.applied, owner(&step.part, &step.object.kind)) else { continue };
        for change in step.changes.iter_mut().filter(|change| change.path == paths::REPLICAS && change.to.is_none()) {
            let had = change.from.as_ref().and_then(Value::as_i64);
            change.to = defaulted(owner, sent, had).map(Value::from);
        }
    }
}

/// The default of admission for the replicas of an object; `had` is the previous number.
pub(super) fn defaulted(owner: RolloutOwner, sent: &Object, had: Option<i64>) -> Option<i64> {
    match owner {
        RolloutOwner::MachineDeployment | RolloutOwner::MachinePool => {
            let bound = |name: &str| sent.annotation(name).and_then(|text| text.parse::<i64>().ok());
            match (bound(annotation::AUTOSCALER_MIN_SIZE), bound(annotation::AUTOSCALER_MAX_SIZE)) {
                (Some(least), Some(most)) => Some(replicas_within(had, least, most)),
                _ => Some(DEFAULT_REPLICAS.into()),
            }
        }
        RolloutOwner::KubeadmControlPlane | RolloutOwner::EmbeddedControlPlane => Some(1),
        RolloutOwner::Rke2ControlPlane | RolloutOwner::OtherControlPlane => None,
    }
}

/// The owner of the machines of a slot.
pub(super) fn owner(part: &TopologyPart, kind: &str) -> Option<RolloutOwner> {
    match part {
        TopologyPart::ControlPlane => Some(RolloutOwner::control_plane(kind)),
        TopologyPart::Worker(WorkerKind::MachineDeployment, _) => Some(RolloutOwner::MachineDeployment),
        TopologyPart::Worker(WorkerKind::MachinePool, _) => Some(RolloutOwner::MachinePool),
        _ => None,
    }
}

struct RollContext<'a> {
    steps: &'a [PlanStep],
    /// The rotations of templates by worker set; `None` for the control plane.
    rotated: BTreeMap<Option<(WorkerKind, &'a str)>, Vec<&'a PlanStep>>,
    current: &'a Current,
    world: &'a World,
    now: Option<Timestamp>,
}

fn rotated(steps: &[PlanStep]) -> BTreeMap<Option<(WorkerKind, &str)>, Vec<&PlanStep>> {
    let mut rotated: BTreeMap<_, Vec<&PlanStep>> = BTreeMap::new();
    for step in steps.iter().filter(|step| step.action == StepAction::Rotate) {
        rotated.entry(step.part.worker()).or_default().push(step);
    }
    rotated
}

/// A different leaf with its rollout rule.
type DecisiveLeaf<'a> = (LeafDifference<'a>, &'static RolloutRule);

/// The machines that a step replaces.
struct Replacements<'a> {
    /// The differences for which they are replaced.
    decisive: Vec<DecisiveLeaf<'a>>,
    /// Their number, and whether it is an estimate; see [`RollContext::outdated`].
    outdated: Option<(Option<i64>, bool)>,
    /// The time of `rollout.after` if none of them is replaced before.
    from: Option<Timestamp>,
}

impl RollContext<'_> {
    fn roll(&self, step: &PlanStep) -> Option<Roll> {
        let owner = owner(&step.part, &step.object.kind).filter(|_| self.has_machines(&step.part))?;
        let mut roll = match step.action {
            StepAction::Create => added(step, owner),
            StepAction::Apply => self.changed(step, owner, self.object(&step.part)?),
            StepAction::Delete => removed(step, owner, self.object(&step.part)?),
            StepAction::Rotate => return None,
        };
        if let Some(unknown) = why_unknown(&roll.machines, step, self.object(&step.part)) {
            roll.reason = format!("{}; {unknown}", roll.reason);
        }
        Some(roll)
    }

    /// Whether a slot has machines to count: a control plane without machine templates has none (ROLL-14).
    fn has_machines(&self, part: &TopologyPart) -> bool {
        let has_template = || {
            self.steps
                .iter()
                .any(|step| step.part == TopologyPart::ControlPlaneMachines && step.action != StepAction::Delete)
        };
        *part != TopologyPart::ControlPlane || self.current.control_plane.machines.is_some() || has_template()
    }

    /// The object of a slot before the plan.
    fn object(&self, part: &TopologyPart) -> Option<&Arc<Object>> {
        match part {
            TopologyPart::ControlPlane => self.current.control_plane.object.as_ref(),
            TopologyPart::Worker(kind, name) => self.current.workers(*kind).get(name).map(|worker| &worker.object),
            _ => None,
        }
    }

    fn changed(&self, step: &PlanStep, owner: RolloutOwner, before: &Object) -> Roll {
        let (had, wanted) = scaling(step, owner, before);
        let mut machines = scaled(had, wanted);
        let mut roll = blank(step);
        if had != wanted {
            roll.reason = "the number of its replicas changes".to_owned();
        }
        let Replacements { decisive, outdated, from } =
            self.replacements(step, owner, before, had.or(wanted), machines.removed);
        if let Some((outdated, is_estimated)) = outdated {
            let at_least = outdated.unwrap_or_else(|| least(step, before));
            (machines.replaced, machines.at_least) = (outdated, at_least);
            roll.certainty = certainty(step, &decisive, is_estimated);
            roll.at_a_time = at_a_time(step, owner, outdated);
            roll.reason = self.reason(step, &decisive);
            roll.is_upgrade = decisive.iter().any(|(leaf, _)| is_version(&leaf.path));
            roll.from = from;
            if owner == RolloutOwner::MachineDeployment && is_on_delete(step) {
                machines.outdated_until_deleted = machines.replaced.replace(0);
                roll.reason = format!("{}; its strategy is OnDelete", roll.reason);
            }
        } else if owner == RolloutOwner::MachineDeployment && begins_to_replace(step, before) {
            self.release(step, before, &mut machines, &mut roll);
        }
        Roll { machines, ..roll }
    }

    /// Machines that `OnDelete` has kept outdated and that another strategy replaces.
    fn release(&self, step: &PlanStep, before: &Object, machines: &mut MachineCounts, roll: &mut Roll) {
        let outdated = outdated_already(before, self.world);
        let outdated = outdated.saturating_sub(machines.removed.unwrap_or_default()).max(0);
        if outdated > 0 {
            (machines.replaced, machines.at_least) = (Some(outdated), outdated);
            roll.certainty = Certainty::Assumed;
            roll.at_a_time = at_a_time(step, RolloutOwner::MachineDeployment, Some(outdated));
            roll.reason = "its strategy was OnDelete, and they are outdated already".to_owned();
        }
    }

    /// The machines that a step replaces next (ROLL-6, ROLL-10): at once, or else when `rollout.after` has passed.
    fn replacements<'a>(
        &self,
        step: &'a PlanStep,
        owner: RolloutOwner,
        before: &Object,
        all: Option<i64>,
        removed: Option<i64>,
    ) -> Replacements<'a> {
        let count = |decisive: &[DecisiveLeaf<'_>]| {
            let (outdated, is_estimated) = self.outdated(step, decisive, before, all)?;
            // Outdated machines are the first to be deleted when there are too many.
            let remaining = |number: i64| number.saturating_sub(removed.unwrap_or_default()).max(0);
            Some((outdated.map(remaining), is_estimated))
        };
        let decisive = self.decisive(step, owner, before);
        let Some(latest) = self.replaces_later(&decisive) else {
            let outdated = count(&decisive);
            return Replacements { decisive, outdated, from: None };
        };
        let is_at_once = |(_, row): &&DecisiveLeaf<'a>| row.effect != RolloutEffect::ReplacesAfter;
        let at_once: Vec<DecisiveLeaf<'a>> = decisive.iter().filter(is_at_once).cloned().collect();
        match count(&at_once) {
            Some((number, is_estimated)) if number != Some(0) => {
                Replacements { decisive: at_once, outdated: Some((number, is_estimated)), from: None }
            }
            _ => {
                let outdated = count(&decisive);
                Replacements { decisive, outdated, from: Some(latest) }
            }
        }
    }

    /// The time of `rollout.after`, if it is in the future.
    fn replaces_later(&self, decisive: &[DecisiveLeaf<'_>]) -> Option<Timestamp> {
        let timed = decisive.iter().filter(|(_, row)| row.effect == RolloutEffect::ReplacesAfter);
        let latest = timed.filter_map(|(leaf, _)| time(leaf.to)).max()?;
        self.now.is_some_and(|now| latest > now).then_some(latest)
    }

    /// The differences that make a controller replace machines.
    fn decisive<'a>(&self, step: &'a PlanStep, owner: RolloutOwner, before: &Object) -> Vec<DecisiveLeaf<'a>> {
        let version = step.applied.as_ref().map_or("", |sent| sent.version());
        let leaves = step
            .changes
            .iter()
            .flat_map(|change| differences(owner, version, &change.path, change.from.as_ref(), change.to.as_ref()));
        leaves
            .filter_map(|leaf| rule_for(owner, &leaf.path).map(|row| (leaf, row)))
            .filter(|leaf| self.replaces(leaf))
            .filter(|(_, row)| row.effect != RolloutEffect::ReplacesInitialized || !stays_initialized(step, before))
            .collect()
    }

    fn replaces(&self, (leaf, row): &DecisiveLeaf<'_>) -> bool {
        match row.effect {
            RolloutEffect::Replaces
            | RolloutEffect::ReplacesInitialized
            | RolloutEffect::ReplacesJoined
            | RolloutEffect::ReplacesExpiring => true,
            RolloutEffect::ReplacesByGroup => {
                let group =
                    |value: Option<&Value>| group_of(value.and_then(Value::as_str).unwrap_or_default()).to_owned();
                group(leaf.from) != group(leaf.to)
            }
            RolloutEffect::ReplacesAfter => time(leaf.to).is_some() && self.now.is_some(),
            RolloutEffect::Scales | RolloutEffect::InPlace | RolloutEffect::Nothing => false,
        }
    }

    /// The number of machines that are not up to date, and whether it is an estimate; `None` if all are up to date.
    fn outdated(
        &self,
        step: &PlanStep,
        decisive: &[DecisiveLeaf<'_>],
        before: &Object,
        all: Option<i64>,
    ) -> Option<(Option<i64>, bool)> {
        let has = |effect: RolloutEffect| decisive.iter().any(|(_, row)| row.effect == effect);
        if has(RolloutEffect::Replaces) || has(RolloutEffect::ReplacesByGroup) {
            return Some((all, false));
        }
        if has(RolloutEffect::ReplacesAfter) && was_made_before(decisive, before) {
            return Some((all, true));
        }
        if has(RolloutEffect::ReplacesExpiring) && step.applied.as_deref().and_then(outlasts_certificates).is_some() {
            return Some((all, false));
        }
        let (ran_init, is_guess) = self.ran_init(before);
        let initialized = if has(RolloutEffect::ReplacesInitialized) { ran_init } else { 0 };
        let joined = if has(RolloutEffect::ReplacesJoined) {
            all.map(|all| all.saturating_sub(ran_init).max(0))
        } else {
            Some(0)
        };
        let expiring = if has(RolloutEffect::ReplacesExpiring) { self.expiring(decisive, before) } else { 0 };
        let number = joined.map(|joined| joined.saturating_add(initialized).max(expiring).min(all.unwrap_or(i64::MAX)));
        (number != Some(0)).then_some((number, is_guess || joined != Some(0)))
    }

    /// The number of machines that ran `kubeadm init` (ROLL-3), and whether it is an estimate.
    fn ran_init(&self, before: &Object) -> (i64, bool) {
        let configs = self.control_plane_machine_objects("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig", before);
        if configs.is_empty() {
            return (1, true);
        }
        let ran_init = |config: &Arc<Object>| config.at(paths::bootstrap::JOIN_CONTROL_PLANE).is_none();
        (i64::from(configs.iter().any(ran_init)), false)
    }

    /// The known machines whose certificates expire within the configured days (ROLL-6).
    fn expiring(&self, decisive: &[DecisiveLeaf<'_>], before: &Object) -> i64 {
        let days = decisive.iter().find(|(_, row)| row.effect == RolloutEffect::ReplacesExpiring);
        let (Some(days), Some(now)) = (days.and_then(|(leaf, _)| leaf.to?.as_i64()), self.now) else { return 0 };
        let machines = self.control_plane_machine_objects(API_VERSION, "Machine", before);
        let expires = |machine: &Arc<Object>| {
            let date = machine.at(paths::machine::CERTIFICATES_EXPIRY)?.as_str()?.parse::<Timestamp>().ok()?;
            Some(date.as_second().saturating_sub(now.as_second()) <= days.saturating_mul(24 * 60 * 60))
        };
        let number = machines.iter().filter(|machine| expires(machine) == Some(true)).count();
        i64::try_from(number).unwrap_or(i64::MAX)
    }

    /// Provider objects of the machines of a control plane among the facts.
    fn control_plane_machine_objects(&self, api_version: &str, kind: &str, control_plane: &Object) -> Vec<Arc<Object>> {
        let cluster = control_plane.label(label::CLUSTER_NAME).unwrap_or_default();
        let labels = [(label::CLUSTER_NAME, cluster), (label::CONTROL_PLANE, "")];
        let selection = Selection {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: control_plane.namespace().to_owned(),
            labels: labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        };
        match self.world.is_offline().then(|| self.world.list(&selection)) {
            Some(Found::Yes(found)) => found,
            _ => Vec::new(),
        }
    }

    fn certificate_note(&self, step: &PlanStep) -> Option<String> {
        let before = self.object(&step.part).filter(|_| step.part == TopologyPart::ControlPlane);
        let machines =
            before.map(|before| self.control_plane_machine_objects(API_VERSION, "Machine", before)).unwrap_or_default();
        certificate_note(step, before.map(Arc::as_ref), &machines, self.now)
    }

    /// The reason for replacing machines: the version first, since users look for it; for a new name in a reference,
    /// the reason of the rotation.
    fn reason(&self, step: &PlanStep, decisive: &[DecisiveLeaf<'_>]) -> String {
        let version = decisive.iter().find(|(leaf, _)| is_version(&leaf.path));
        if let Some((from, to)) = version.and_then(|(leaf, _)| Some((leaf.from?.as_str()?, leaf.to?.as_str()?))) {
            return format!("its version goes from {from} to {to}");
        }
        if let (None, Some(because)) = (version, self.rotation(&step.part)) {
            return because;
        }
        let paths: Vec<&str> = decisive.iter().map(|(leaf, _)| &*leaf.path).collect();
        explained(step, &paths).unwrap_or_default()
    }

    /// The reason for which this plan rotates a template of the machines of a slot, if it does.
    fn rotation(&self, part: &TopologyPart) -> Option<String> {
        let mut rotated = self.rotated.get(&part.worker()).into_iter().flatten();
        // The successor of a deleted template differs in no field.
        let of_lost =
            |step: &PlanStep| step.changes.is_empty().then(|| format!("{} {}", step.object.kind, step.reason));
        rotated.find_map(|step| object_change_reason(step).or_else(|| of_lost(step)))
    }

    /// The effect of a health check that remediates healthy machines (ROLL-17).
    fn health_check_roll(&self, step: &PlanStep) -> Option<Roll> {
        let (part, reason) = called_unhealthy(step)?;
        let object = self.object(&part)?;
        let replaced = replicas(owner(&part, object.kind())?, object);
        let machines = MachineCounts { replaced, at_least: replaced.unwrap_or_default(), ..MachineCounts::NONE };
        Some(Roll { part, machines, certainty: Certainty::Assumed, reason, ..blank(step) })
    }

    /// The effect on a machine pool whose objects change in place: its provider may replace machines (ROLL-15).
    fn pool_objects_roll(&self, step: &PlanStep) -> Option<Roll> {
        let (TopologyPart::Bootstrap(kind, name) | TopologyPart::WorkerInfrastructure(kind, name)) = &step.part else {
            return None;
        };
        let is_pool = *kind == WorkerKind::MachinePool && step.action == StepAction::Apply;
        let reason = object_change_reason(step).filter(|_| is_pool)?;
        let part = TopologyPart::Worker(*kind, name.clone());
        let pool = self.object(&part)?;
        let replaced = replicas(RolloutOwner::MachinePool, pool);
        let machines = MachineCounts { replaced, at_least: replaced.unwrap_or_default(), ..MachineCounts::NONE };
        let (kind, name) = (pool.kind().to_owned(), pool.name().to_owned());
        Some(Roll {
            part,
            kind,
            name,
            machines,
            at_a_time: None,
            from: None,
            in_place: None,
            certainty: Certainty::Provider,
            reason,
            is_upgrade: false,
        })
    }
}

/// Whether a machine that ran `kubeadm init` equals a machine that would join now (ROLL-3).
fn stays_initialized(step: &PlanStep, before: &Object) -> bool {
    let config = |object: &Object, name: &str| object.at(&format!("spec.kubeadmConfigSpec.{name}")).cloned();
    let join = step.applied.as_deref().and_then(|sent| config(sent, "joinConfiguration"));
    initialized_as_joined(config(before, "initConfiguration").as_ref(), join.as_ref())
}

/// Whether the object is older than `rollout.after` (ROLL-6, ROLL-10); the age of an object from a file is unknown.
fn was_made_before(decisive: &[DecisiveLeaf<'_>], before: &Object) -> bool {
    let made = time(before.at(paths::metadata::CREATION_TIMESTAMP));
    let after = decisive
        .iter()
        .filter(|(_, row)| row.effect == RolloutEffect::ReplacesAfter)
        .filter_map(|(leaf, _)| time(leaf.to))
        .max();
    made.zip(after).is_none_or(|(made, after)| made < after)
}

fn time(value: Option<&Value>) -> Option<Timestamp> {
    value?.as_str()?.parse().ok()
}

fn blank(step: &PlanStep) -> Roll {
    Roll {
        part: step.part.clone(),
        kind: step.object.kind.clone(),
        name: step.object.key.name.clone(),
        machines: MachineCounts::NONE,
        at_a_time: None,
        from: None,
        in_place: None,
        certainty: Certainty::Exact,
        reason: step.reason.clone(),
        is_upgrade: false,
    }
}

fn added(step: &PlanStep, owner: RolloutOwner) -> Roll {
    let sent = step.applied.as_deref();
    let added = sent.and_then(|sent| replicas(owner, sent).or_else(|| defaulted(owner, sent, None)));
    Roll { machines: MachineCounts { added, ..MachineCounts::NONE }, ..blank(step) }
}

fn removed(step: &PlanStep, owner: RolloutOwner, before: &Object) -> Roll {
    Roll { machines: MachineCounts { removed: replicas(owner, before), ..MachineCounts::NONE }, ..blank(step) }
}

/// The number of machines of an object: from its spec, else from its status, else the default of admission. The number
/// that an autoscaler sets is known only if the object has it.
fn replicas(owner: RolloutOwner, object: &Object) -> Option<i64> {
    let number = |path: &str| object.at(path).and_then(Value::as_i64);
    let default = || if is_autoscaled(object) { None } else { defaulted(owner, object, None) };
    number(paths::REPLICAS).or_else(|| number(paths::status::REPLICAS)).or_else(default)
}

fn is_autoscaled(object: &Object) -> bool {
    [annotation::AUTOSCALER_MIN_SIZE, annotation::AUTOSCALER_MAX_SIZE]
        .iter()
        .all(|name| object.annotation(name).is_some())
}

/// The reason for unknown numbers of machines, if any.
fn why_unknown(machines: &MachineCounts, step: &PlanStep, before: Option<&Arc<Object>>) -> Option<String> {
    let MachineCounts { replaced, removed, added, outdated_until_deleted, at_least: _ } = machines;
    if [replaced, removed, added, outdated_until_deleted].iter().all(|number| number.is_some()) {
        return None;
    }
    let objects = [step.applied.as_ref(), before];
    let is_autoscaled = objects.into_iter().flatten().any(|object| is_autoscaled(object));
    Some(match is_autoscaled {
        true => "an autoscaler sets the number of its machines, which is not in the files".to_owned(),
        false => format!("the number of its machines is not known, since {} has no spec.replicas", step.object.kind),
    })
}

/// The old and the new number of machines. A number that is not applied does not change.
fn scaling(step: &PlanStep, owner: RolloutOwner, before: &Object) -> (Option<i64>, Option<i64>) {
    let had = replicas(owner, before);
    let change = step.changes.iter().find(|change| change.path == paths::REPLICAS);
    match change {
        Some(change) => (had, change.to.as_ref().and_then(Value::as_i64)),
        None => (had, had),
    }
}

/// Machines that are created or deleted when the number changes (ROLL-12).
fn scaled(had: Option<i64>, wanted: Option<i64>) -> MachineCounts {
    let more = |from: Option<i64>, to: Option<i64>| match (from, to) {
        (from, to) if from == to => Some(0),
        (Some(from), Some(to)) => Some(to.saturating_sub(from).max(0)),
        _ => None,
    };
    MachineCounts { added: more(had, wanted), removed: more(wanted, had), ..MachineCounts::NONE }
}

/// The minimum of an autoscaler, for a set with an unknown number of machines.
fn least(step: &PlanStep, before: &Object) -> i64 {
    let least = |object: &Object| object.annotation(annotation::AUTOSCALER_MIN_SIZE)?.parse::<i64>().ok();
    step.applied.as_deref().and_then(least).or_else(|| least(before)).unwrap_or_default().max(0)
}

/// A changed version is exact; a server may find other values to be equal (DEC-15).
fn certainty(step: &PlanStep, decisive: &[DecisiveLeaf<'_>], is_estimated: bool) -> Certainty {
    if decisive.iter().all(|(_, row)| row.decider == Decider::Provider) {
        return Certainty::Provider;
    }
    let is_sure = |(leaf, row): &DecisiveLeaf<'_>| row.decider == Decider::Rule && is_version(&leaf.path);
    match decisive.iter().any(is_sure) {
        true => Certainty::Exact,
        false if is_estimated => Certainty::Assumed,
        false => step.certainty,
    }
}

/// The maximum number of machines that are replaced at a time (ROLL-8).
fn at_a_time(step: &PlanStep, owner: RolloutOwner, machines: Option<i64>) -> Option<i64> {
    match owner {
        RolloutOwner::KubeadmControlPlane | RolloutOwner::EmbeddedControlPlane | RolloutOwner::Rke2ControlPlane => {
            Some(1)
        }
        RolloutOwner::MachineDeployment if !is_on_delete(step) => machines.map(|machines| {
            let surge = share(strategy(step, "rollingUpdate.maxSurge"), MAX_SURGE.into(), machines, true);
            let unavailable =
                share(strategy(step, "rollingUpdate.maxUnavailable"), MAX_UNAVAILABLE.into(), machines, false);
            surge.saturating_add(unavailable).clamp(1, machines.max(1))
        }),
        RolloutOwner::MachineDeployment | RolloutOwner::MachinePool | RolloutOwner::OtherControlPlane => None,
    }
}

fn is_on_delete(step: &PlanStep) -> bool {
    strategy(step, "type").and_then(Value::as_str) == Some("OnDelete")
}

fn strategy<'a>(step: &'a PlanStep, field: &str) -> Option<&'a Value> {
    step.applied.as_ref()?.at(&format!("spec.rollout.strategy.{field}"))
}

/// Whether an object is paused (ROLL-18).
fn is_paused(object: &Object) -> bool {
    object.annotation(annotation::PAUSED).is_some() || object.is_paused()
}

fn is_version(path: &str) -> bool {
    path.ends_with(paths::VERSION)
}

/// The reason for the change of a template: its kind, and its first changed field.
fn object_change_reason(step: &PlanStep) -> Option<String> {
    let changes = step.changes.iter().filter(|change| !change.path.starts_with("metadata"));
    let paths: Vec<&str> = changes.map(|change| &*change.path).collect();
    Some(format!("{}: {}", step.object.kind, explained(step, &paths)?))
}

/// The first of the changed fields, its origin, and the number of others.
fn explained(step: &PlanStep, paths: &[&str]) -> Option<String> {
    let first = paths.first()?;
    let rest = match paths.len() {
        1 => String::new(),
        more => format!(" and {} more", more - 1),
    };
    let change = step.changes.iter().find(|change| is_below(first, &change.path));
    let because = change.and_then(|change: &ChangedField| change.because.as_ref());
    let because = because.map(|origin| format!(" ({origin})")).unwrap_or_default();
    Some(format!("{first} changes{because}{rest}"))
}

/// A number, or a percentage of `all`, rounded as Kubernetes does.
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

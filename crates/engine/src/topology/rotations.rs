//! Templates that are replaced again and again (DEC-35).
//!
//! A template whose spec never reaches its desired state, because a patch generates a new value each time or a webhook
//! changes it, would replace all machines of its owner repeatedly. The executor of plans records rotations here, and
//! checks the limit before the next one.

use std::collections::BTreeMap;

use super::blueprint::Blueprint;
pub use super::holds::FightingTemplate;
use super::holds::{HeldPart, HeldReason};
use super::plan::{Plan, PlanStep, StepAction, TopologyPart};
use super::worker::WorkerKind;
use model::hub::{Object, ObjectKey, paths};

/// Maximum rotations of a slot within [`WINDOW_SECONDS`] while its inputs do not change.
const TIMES: usize = 3;
/// The time for which a rotation counts.
const WINDOW_SECONDS: u64 = 600;

/// The rotations of all Clusters. Times are seconds since a start that the caller chooses.
#[derive(Debug, Default)]
pub struct Rotations {
    slots: BTreeMap<ObjectKey, BTreeMap<TopologyPart, TemplateSlot>>,
}

/// The rotations of a slot's template.
#[derive(Debug, Default)]
struct TemplateSlot {
    generations: Generations,
    /// The times of its rotations.
    at: Vec<u64>,
    is_held: bool,
}

/// The inputs of a topology that users write: while they are equal, the desired state is the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generations(String);

impl Generations {
    /// The generations of the Cluster, its class, and the templates of the class.
    pub fn from_blueprint(blueprint: &Blueprint) -> Self {
        let Blueprint { cluster, class, .. } = blueprint;
        let workers = blueprint.machine_deployments.values().chain(blueprint.machine_pools.values());
        let of_workers = workers.flat_map(|templates| [&templates.bootstrap, &templates.infrastructure]);
        let of_cluster = [&blueprint.infrastructure, &blueprint.control_plane].into_iter();
        let templates = of_cluster.chain(&blueprint.control_plane_machines).chain(of_workers);
        let written = |(uid, generation): (&str, i64)| format!("{uid}@{generation}");
        let mut all = vec![
            written((&cluster.metadata.uid, cluster.metadata.generation)),
            written((&class.metadata.uid, class.metadata.generation)),
        ];
        all.extend(templates.map(|template| generation(template)));
        Generations(all.join(" "))
    }
}

fn generation(template: &Object) -> String {
    if let Some(generation) = template.integer(paths::metadata::GENERATION).ok().flatten() {
        return format!("{}@{generation}", template.uid());
    }
    let version = template.text(paths::metadata::RESOURCE_VERSION).ok().flatten();
    format!("{}@@{}", template.uid(), version.unwrap_or_default())
}

impl Rotations {
    /// Removes the rotations that exceed the limit from a plan, with the update of their owners, which would refer to
    /// the new templates. They are added to the held parts of the plan.
    ///
    /// A slot stays held until the Cluster, the class or a template is written, or until the plan no longer rotates it.
    pub fn hold(
        &mut self,
        cluster: &ObjectKey,
        plan: &mut Plan,
        generations: &Generations,
        now: u64,
    ) -> Vec<FightingTemplate> {
        let slots = self.slots.entry(cluster.clone()).or_default();
        let rotated: Vec<&PlanStep> = plan.steps.iter().filter(|step| step.action == StepAction::Rotate).collect();
        slots.retain(|part, slot| {
            slot.at.retain(|at| now.saturating_sub(*at) < WINDOW_SECONDS);
            let is_rotated = rotated.iter().any(|step| step.part == *part);
            slot.is_held &= is_rotated;
            slot.generations == *generations && (slot.is_held || !slot.at.is_empty())
        });
        let mut fighting = Vec::new();
        let mut owners = Vec::new();
        for step in rotated {
            let Some(slot) = slots.get_mut(&step.part) else { continue };
            if changes_version(plan, &step.part) || !(slot.is_held || slot.at.len() >= TIMES) {
                continue;
            }
            let is_new = !std::mem::replace(&mut slot.is_held, true);
            let in_spec = step.changes.iter().find(|change| change.path.starts_with("spec"));
            let path = in_spec.or(step.changes.first()).map(|change| change.path.clone()).unwrap_or_default();
            let mut object = step.object.clone();
            object.key.name.clone_from(step.replaces.as_ref().unwrap_or(&step.object.key.name));
            fighting.push(FightingTemplate { object, path, is_new });
            owners.extend(owner(&step.part));
        }
        if slots.is_empty() {
            self.slots.remove(cluster);
        }
        plan.steps.retain(|step| !owners.iter().any(|owner| belongs_to(step, owner)));
        plan.held.extend(fighting.iter().map(|one| HeldPart {
            kind: one.object.kind.clone(),
            name: one.object.key.name.clone(),
            reason: HeldReason::Rotation(one.clone()),
        }));
        fighting
    }

    /// Records the rotated slots of a plan. Rotations with a new version are intended.
    pub fn note(
        &mut self,
        cluster: &ObjectKey,
        plan: &Plan,
        rotated: &[TopologyPart],
        generations: &Generations,
        now: u64,
    ) {
        for part in rotated.iter().filter(|part| !changes_version(plan, part)) {
            let slot = self.slots.entry(cluster.clone()).or_default().entry(part.clone()).or_default();
            slot.generations = generations.clone();
            slot.at.push(now);
        }
    }

    /// Removes a deleted Cluster.
    pub fn forget(&mut self, cluster: &ObjectKey) {
        self.slots.remove(cluster);
    }
}

/// The slot that refers to a template.
fn owner(template: &TopologyPart) -> Option<TopologyPart> {
    match template {
        TopologyPart::ControlPlaneMachines => Some(TopologyPart::ControlPlane),
        TopologyPart::Bootstrap(kind, name) | TopologyPart::WorkerInfrastructure(kind, name) => {
            Some(TopologyPart::Worker(*kind, name.clone()))
        }
        _ => None,
    }
}

/// Whether a step depends on the update of an owner: the update itself, new templates for it, and the deletion of its
/// old one. Changes of templates in place do not.
fn belongs_to(step: &PlanStep, part: &TopologyPart) -> bool {
    let is_of_template = || owner(&step.part).as_ref() == Some(part);
    match step.action {
        StepAction::Apply => step.part == *part,
        StepAction::Rotate | StepAction::Delete => is_of_template(),
        StepAction::Create => false,
    }
}

/// Whether the owner of a template gets another Kubernetes version in the same plan.
fn changes_version(plan: &Plan, template: &TopologyPart) -> bool {
    let owner = owner(template);
    let of_owner = plan.steps.iter().filter(|step| Some(&step.part) == owner.as_ref());
    let path = match owner {
        Some(TopologyPart::Worker(WorkerKind::MachineDeployment | WorkerKind::MachinePool, _)) => {
            paths::worker::VERSION
        }
        _ => paths::VERSION,
    };
    of_owner.flat_map(|step| &step.changes).any(|change| change.path == path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::topology::plan::AppliedState;
    use crate::topology::testing::Scene;

    const SMITH: &str = "ForgeMachineTemplate smith";
    const SIZE: &str = "/spec/template/spec/size";

    fn blade() -> ObjectKey {
        ObjectKey::new("ns", "blade")
    }

    /// What is planned for a world that was rolled out before its edits.
    fn plan(edits: &[(&str, &str, serde_json::Value)]) -> (Plan, Generations) {
        let before = Scene::new();
        let after = edits.iter().fold(before.clone(), |scene, (which, at, value)| scene.at(which, at, value.clone()));
        let mut old = before.simulator();
        old.roll_out(&blade());
        let mut fold = after.simulator();
        fold.take_over(&blade(), &old);
        let computation = fold.compute(&blade()).unwrap();
        let generations = Generations::from_blueprint(&computation.observed.blueprint);
        let world = model::world::World::new(std::sync::Arc::new(fold.facts().clone()));
        let plan = Plan::from_computation(
            &computation,
            &world,
            &AppliedState::default(),
            &mut model::hub::names::DeterministicNames,
        );
        (plan.unwrap(), generations)
    }

    fn steps(plan: &Plan) -> Vec<String> {
        plan.steps.iter().map(|step| format!("{} {}", step.action.name(), step.part)).collect()
    }

    /// Rotates as often as it is let to, once a minute, and returns the plans that are left.
    fn fight(
        rotations: &mut Rotations,
        (plan, generations): &(Plan, Generations),
        from: u64,
        times: u64,
    ) -> Vec<usize> {
        let mut left = Vec::new();
        for now in (0..times).map(|time| from + time * 60) {
            let mut plan = plan.clone();
            rotations.hold(&blade(), &mut plan, generations, now);
            let rotated = plan.steps.iter().filter(|step| step.action == StepAction::Rotate);
            let rotated: Vec<TopologyPart> = rotated.map(|step| step.part.clone()).collect();
            left.push(plan.steps.len());
            rotations.note(&blade(), &plan, &rotated, generations, now);
        }
        left
    }

    #[test]
    fn a_slot_that_is_rotated_three_times_is_held_until_something_is_written() {
        // DEC-35
        let mut rotations = Rotations::default();
        let fought = plan(&[(SMITH, SIZE, json!("large"))]);
        assert_eq!(steps(&fought.0), ["rotate MachineDeployment/md/infrastructure", "apply MachineDeployment/md"]);
        assert_eq!(fight(&mut rotations, &fought, 0, 6), [2, 2, 2, 0, 0, 0]);
        // It is no longer ten minutes ago, and held all the same.
        assert_eq!(fight(&mut rotations, &fought, 5_000, 1), [0]);
        let written = plan(&[(SMITH, SIZE, json!("large")), (SMITH, "/metadata/generation", json!(7))]);
        assert_eq!(fight(&mut rotations, &written, 5_060, 4), [2, 2, 2, 0]);
        for (which, generation) in [("Cluster", 9), ("ClusterClass", 9)] {
            let mut edits = vec![(SMITH, SIZE, json!("large")), (which, "/metadata/generation", json!(generation))];
            if which == "ClusterClass" {
                edits.push((which, "/status/observedGeneration", json!(generation)));
            }
            assert_eq!(fight(&mut rotations, &plan(&edits), 6_000, 1), [2], "{which}");
        }
        rotations.forget(&blade());
        assert!(rotations.slots.is_empty());
    }

    #[test]
    fn a_template_that_is_gone_each_time_is_reported_as_deleted() {
        // DEC-35, ROT-13: the one that takes its place differs in no field.
        let (mut rotations, mut fought) = (Rotations::default(), plan(&[(SMITH, SIZE, json!("large"))]));
        fought.0.steps[0].changes.clear();
        assert_eq!(fight(&mut rotations, &fought, 0, 3), [2, 2, 2]);
        let held = rotations.hold(&blade(), &mut fought.0, &fought.1, 180);
        let words = "was deleted although it is in use, and so were its predecessors; find out what deletes them";
        assert!(held.len() == 1 && held[0].to_string().ends_with(words), "{held:?}");
        assert!(fought.0.steps.is_empty());
    }

    #[test]
    fn rotations_that_are_far_apart_are_not_held() {
        // DEC-35
        let (mut rotations, fought) = (Rotations::default(), plan(&[(SMITH, SIZE, json!("large"))]));
        for start in [0, 1_000, 2_000, 3_000] {
            assert_eq!(fight(&mut rotations, &fought, start, 1), [2], "{start}");
        }
    }

    #[test]
    fn a_held_slot_names_the_field_and_other_slots_rotate() {
        // DEC-35
        let mut rotations = Rotations::default();
        let edits = [
            (SMITH, SIZE, json!("large")),
            ("KubeadmConfigTemplate smith", "/spec/template/spec/format", json!("ignition")),
            ("ForgeClusterTemplate ground", "/spec/template/spec/site", json!("south")),
        ];
        let (whole, generations) = plan(&edits);
        for now in 0..3 {
            let part = TopologyPart::WorkerInfrastructure(WorkerKind::MachineDeployment, "md".to_owned());
            rotations.note(&blade(), &whole, &[part], &generations, now);
        }
        let mut left = whole.clone();
        let fighting = rotations.hold(&blade(), &mut left, &generations, 9);
        assert_eq!(steps(&left), ["apply infrastructure"]);
        let [one] = &fighting[..] else { panic!("{fighting:?}") };
        let old =
            whole.steps.iter().find_map(|step| step.replaces.clone().filter(|_| step.object.kind == one.object.kind));
        assert_eq!(
            (Some(&one.object.key.name), &*one.path, one.is_new),
            (old.as_ref(), "spec.template.spec.size", true)
        );
        assert_eq!(left.held.last().unwrap().reason.to_string(), one.to_string());
        assert!(one.to_string().contains("is replaced in every run because spec.template.spec.size differs each time"));
        let again = rotations.hold(&blade(), &mut whole.clone(), &generations, 10);
        assert!(!again[0].is_new);
        // Once no rotation is due, the slot is free again.
        rotations.hold(&blade(), &mut Plan::default(), &generations, 1_000);
        assert!(rotations.hold(&blade(), &mut whole.clone(), &generations, 1_001).is_empty());
    }

    #[test]
    fn a_rotation_for_a_new_version_does_not_count() {
        // DEC-35: the steps of an upgrade follow one another without a new generation.
        let mut rotations = Rotations::default();
        let machines = "ForgeMachineTemplate brain";
        let upgrade = plan(&[(machines, SIZE, json!("huge")), ("Cluster", "/spec/topology/version", json!("v1.33.1"))]);
        assert!(steps(&upgrade.0).contains(&"rotate controlPlane/machines".to_owned()), "{:?}", steps(&upgrade.0));
        let all = upgrade.0.steps.len();
        assert_eq!(fight(&mut rotations, &upgrade, 0, 5), [all; 5]);
        let held = plan(&[(machines, SIZE, json!("huge"))]);
        assert_eq!(
            steps(&held.0),
            ["rotate controlPlane/machines", "apply controlPlane", "delete controlPlane/machines"]
        );
        assert_eq!(fight(&mut rotations, &held, 0, 4), [3, 3, 3, 0]);
    }
}

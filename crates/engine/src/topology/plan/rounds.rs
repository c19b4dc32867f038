//! Upgrades of many workers, of which a limited number may upgrade at once: one plan for all of them instead of one for
//! each.
//!
//! Each plan examines all workers, so one plan per worker has quadratic cost. This module makes one plan that upgrades
//! all workers that only wait for other workers, and executes its steps in the rounds that separate plans would take.
//! If the outcome could differ, it makes no plan, and the workers are planned one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::simulator::RotationCounts;
use super::{Plan, PlanStep, Rollout, StepAction, TopologyPart, TopologySimulator};
use crate::topology::current::Current;
use crate::topology::name_independence::reads_template_names;
use crate::topology::upgrade::{Tracker, is_deployment_upgrading};
use crate::topology::worker::WorkerKind;
use crate::topology::{Computation, Failure, ObservedState};
use model::hub::names::DeterministicNames;
use model::hub::{Object, ObjectKey, ObjectRef, label, paths};
use model::world::Found;

/// The steps of workers that upgrade one after the other.
struct Ahead {
    observed: Arc<ObservedState>,
    /// Steps by round.
    rounds: Vec<Vec<PlanStep>>,
}

impl TopologySimulator {
    /// Executes the rounds of workers that only wait for other workers; returns whether one plan covered all of them.
    ///
    /// # Errors
    /// When an object cannot be applied.
    pub(super) fn go_ahead(
        &mut self,
        cluster: &ObjectKey,
        rotations: &mut RotationCounts,
        outcome: &mut Rollout,
    ) -> Result<bool, Failure> {
        let Some(Ahead { observed, rounds }) = self.ahead(cluster) else { return Ok(false) };
        for steps in rounds {
            let round = self.round(steps, &observed, &self.world(), outcome);
            let deployments = round.steps.iter().filter(|step| is_deployment(&step.part));
            let written: Vec<ObjectRef> = deployments.map(|step| step.object.clone()).collect();
            self.execute(cluster, round, rotations, outcome)?;
            let world = self.world();
            let is_done = |object: &Object| is_deployment_upgrading(object, &world).is_ok_and(|upgrades| !upgrades);
            // Workers whose machines do not change block the others.
            if !written.iter().all(|one| matches!(world.object(one), Found::Yes(object) if is_done(&object))) {
                break;
            }
        }
        Ok(true)
    }

    /// One plan for workers that upgrade one after the other, if it is certain to equal the separate plans.
    fn ahead(&self, key: &ObjectKey) -> Option<Ahead> {
        #[cfg(test)]
        if self.is_one_by_one {
            return None;
        }
        // An extension may answer otherwise for each plan.
        if self.extensions.is_some() {
            return None;
        }
        let Found::Yes(cluster) = self.facts.cluster(key) else { return None };
        let planned = self.settled(|world| {
            let computation = Computation::ahead(&cluster, world, &mut DeterministicNames, self.options)?;
            let plan = self.plan_of(&computation, world)?;
            let Computation { observed, tracker, .. } = computation;
            Ok((observed, tracker, plan))
        });
        let (observed, tracker, plan) = planned.ok()?;
        let numbers = numbers(&tracker)?;
        if plan.failure.is_some() || !have_own_machines(&observed.current) {
            return None;
        }
        // A patch that reads the new name of a rotated template changes the worker once more, before the next worker
        // upgrades.
        let rotates = plan.steps.iter().any(|step| step.action == StepAction::Rotate);
        if rotates && reads_template_names(&observed.blueprint.class) {
            return None;
        }
        Some(Ahead { rounds: rounds(plan, &numbers)?, observed })
    }
}

/// Kind and topology name of a worker set.
type WorkerName<'a> = (WorkerKind, &'a str);

/// The rounds in which workers upgrade, counted from zero. A round has as many workers as the limit allows, less those
/// whose machines do not have their version yet.
fn numbers(tracker: &Tracker) -> Option<BTreeMap<WorkerName<'_>, usize>> {
    let mut numbers = BTreeMap::new();
    for kind in WorkerKind::ALL {
        let of_kind = tracker.workers(kind);
        let upgrading = of_kind.upgrading.len().checked_sub(of_kind.ahead.len())?;
        let free = of_kind.max_concurrency.saturating_sub(upgrading);
        for (position, name) in of_kind.ahead.iter().enumerate() {
            numbers.insert((kind, &**name), position.checked_div(free)?);
        }
    }
    (!numbers.is_empty()).then_some(numbers)
}

/// The steps of a plan by their rounds, if it has steps of these workers only: what else there is would come again in
/// each round.
fn rounds(plan: Plan, numbers: &BTreeMap<WorkerName<'_>, usize>) -> Option<Vec<Vec<PlanStep>>> {
    let count = numbers.values().max()? + 1;
    let mut rounds: Vec<Vec<PlanStep>> = std::iter::repeat_with(Vec::new).take(count).collect();
    let mut written = 0;
    for step in plan.steps {
        let is_check = matches!(step.part, TopologyPart::WorkerHealthCheck(_));
        let number = step.part.worker().filter(|_| !is_check).and_then(|worker| numbers.get(&worker))?;
        written += usize::from(matches!(step.part, TopologyPart::Worker(..)) && step.action == StepAction::Apply);
        rounds.get_mut(*number)?.push(step);
    }
    (written == numbers.len()).then_some(rounds)
}

/// Whether the machines of each machine deployment are its alone, so that no step is about those of another.
fn have_own_machines(current: &Current) -> bool {
    current.machine_deployments.iter().all(|(name, worker)| {
        let selector = worker.object.texts(paths::worker::MATCH_LABELS).unwrap_or_default();
        selector.get(label::DEPLOYMENT_NAME) == Some(name)
    })
}

fn is_deployment(part: &TopologyPart) -> bool {
    matches!(part, TopologyPart::Worker(WorkerKind::MachineDeployment, _))
}

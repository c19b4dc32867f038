//! Detection of rollouts that never end: repeated replacement of machines, and unlimited steps.
//!
//! Otherwise a Cluster of five machines could be simulated for minutes: a `certificatesExpiryDays` beyond the validity
//! of new certificates replaces control plane machines every few seconds until the time of `--limit` is over.

use std::collections::{BTreeMap, VecDeque};

use super::Simulation;
use super::reasons::StuckReason;
use super::timeline::owner_of;
use golang::calendar::{Moment, SECOND};
use machines::lifecycle::objects::cluster_of;
use machines::lifecycle::simulator::StoredChange;
use model::hub::ObjectKey;

/// Maximum number of replacements of each machine of an owner. An upgrade chain replaces each control plane machine
/// once per version.
const ROUNDS: usize = 12;
/// Maximum number of further machines of an owner, such as those replaced by health checks.
const SPARE: usize = 60;
/// The number of machines whose mean interval is reported.
const LAST: usize = 20;

/// Number of steps after which replacements are counted again.
pub(super) const STEPS: usize = 10_000;

/// Limits the steps of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLimit {
    /// Maximum number of steps besides those of the machines.
    pub base: u64,
    /// Maximum number of steps for each machine that the simulation has at one time.
    pub of_a_machine: u64,
}

impl Default for StepLimit {
    /// Creating, running and replacing a machine takes some hundred steps, including objects around it, and some plans,
    /// in each of the rounds above.
    fn default() -> Self {
        StepLimit { base: 500_000, of_a_machine: 20_000 }
    }
}

impl StepLimit {
    fn for_machines(self, machines: usize) -> u64 {
        let machines = u64::try_from(machines).unwrap_or(u64::MAX);
        machines.saturating_mul(self.of_a_machine).saturating_add(self.base)
    }
}

/// Machines created by each owner in a run.
#[derive(Debug, Default)]
pub(super) struct Replacements {
    owners: BTreeMap<(ObjectKey, String), MachineTally>,
}

/// Machines of an owner: current, maximum and total number, and the latest creation times.
#[derive(Debug, Default)]
struct MachineTally {
    current: usize,
    peak: usize,
    made: usize,
    last: VecDeque<Moment>,
}

impl MachineTally {
    fn note(&mut self, now: Moment) {
        self.current += 1;
        self.peak = self.peak.max(self.current);
        self.made += 1;
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(now);
    }

    fn is_endless(&self) -> bool {
        self.made > SPARE + self.peak * (1 + ROUNDS)
    }

    /// Mean time between the latest creations.
    fn interval(&self) -> i64 {
        let between = self.last.front().zip(self.last.back()).and_then(|(first, last)| last.since(*first));
        let pauses = i64::try_from(self.last.len().saturating_sub(1)).unwrap_or(1).max(1);
        between.unwrap_or_default() / SECOND / pauses
    }
}

impl Replacements {
    /// Records a machine that is created or deleted.
    pub(super) fn note(&mut self, change: &StoredChange, now: Moment) {
        let StoredChange { id, before, after } = change;
        let Some(machine) = after.as_ref().or(before.as_ref()) else { return };
        if before.is_some() == after.is_some() || !id.kind.is_core("Machine") || id.workload.is_some() {
            return;
        }
        let Some(cluster) = cluster_of(machine) else { return };
        let owner = self.owners.entry((cluster, owner_of(machine))).or_default();
        match after {
            Some(_) => owner.note(now),
            None => owner.current = owner.current.saturating_sub(1),
        }
    }

    /// Resets the counts.
    pub(super) fn restart(&mut self) {
        self.owners.retain(|_, made| made.current > 0);
        for made in self.owners.values_mut() {
            *made = MachineTally { current: made.current, peak: made.current, ..MachineTally::default() };
        }
    }

    /// The Clusters whose machines are replaced without end.
    pub(super) fn endless(&self) -> BTreeMap<ObjectKey, StuckReason> {
        let endless = self.owners.iter().filter(|(_, made)| made.is_endless());
        let reasons = endless.map(|((cluster, owner), made)| {
            (cluster.clone(), StuckReason::EndlessReplacement { owner: owner.clone(), seconds: made.interval() })
        });
        reasons.collect()
    }
}

impl Simulation {
    /// Records whether the run would never end, or must stop.
    pub(super) fn look_for_cycles(&mut self) {
        self.endless = self.replacements.endless();
        self.is_exhausted = self.steps() > self.step_limit.for_machines(self.timeline.peak_machines);
        self.is_stopped = self.stop.is_due();
    }

    /// Number of steps of the run; a plan counts as a hundred.
    pub(super) fn steps(&self) -> u64 {
        self.machines.steps().saturating_sub(self.steps_before).saturating_add(self.plans.saturating_mul(100))
    }

    /// Whether the run ends early although objects are due.
    pub(super) fn is_cut_short(&self) -> bool {
        self.is_stopped || self.is_exhausted || !self.endless.is_empty()
    }

    /// The reason of a Cluster whose objects change again and again.
    pub(super) fn exhausted(&self) -> Option<StuckReason> {
        self.is_exhausted.then(|| StuckReason::Exhausted { steps: self.steps() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use machines::lifecycle::ObjectId;
    use model::hub::Object;

    fn change(name: &str, is_made: bool) -> StoredChange {
        let machine = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {
                "namespace": "default", "name": name, "labels": {"cluster.x-k8s.io/cluster-name": "blue"},
                "ownerReferences": [{"kind": "MachineSet", "name": "workers", "controller": true}],
            },
        });
        let machine = Arc::new(Object::try_from(machine).unwrap());
        let (before, after) = if is_made { (None, Some(machine.clone())) } else { (Some(machine.clone()), None) };
        StoredChange { id: ObjectId::for_object(&machine), before, after }
    }

    /// Creates machines, and then replaces each of them repeatedly, one after another.
    fn replaced(machines: usize, rounds: usize, seconds: i64) -> Replacements {
        let (mut all, mut now) = (Replacements::default(), 0);
        for round in 0..=rounds {
            for number in 0..machines {
                let at = Moment { seconds: now, nanos: 0 };
                all.note(&change(&format!("{round}-{number}"), true), at);
                if let Some(last) = round.checked_sub(1) {
                    all.note(&change(&format!("{last}-{number}"), false), at);
                    now += seconds;
                }
            }
        }
        all
    }

    #[test]
    fn machines_that_are_replaced_more_often_than_upgrades_do_are_endless() {
        assert!(replaced(1, 12, 10).endless().is_empty() && replaced(100, 12, 0).endless().is_empty());
        let reason = |rounds: usize, seconds: i64| replaced(5, rounds, seconds).endless().into_values().next();
        let endless = |seconds| StuckReason::EndlessReplacement { owner: "workers".to_owned(), seconds };
        assert_eq!(reason(30, 9), Some(endless(9)));
        assert_eq!(reason(30, 0), Some(endless(0)));
        assert_eq!(reason(20, 9), None);
        let mut all = replaced(5, 30, 9);
        all.restart();
        assert!(all.endless().is_empty());
        assert_eq!(
            all.owners.values().map(|made| (made.current, made.peak, made.made)).collect::<Vec<_>>(),
            [(5, 5, 0)]
        );
    }

    #[test]
    fn the_bound_of_steps_follows_from_the_number_of_machines() {
        let limit = StepLimit::default();
        assert_eq!([0, 1, 10_000].map(|machines| limit.for_machines(machines)), [500_000, 520_000, 200_500_000]);
        assert_eq!(limit.for_machines(usize::MAX), u64::MAX);
    }
}

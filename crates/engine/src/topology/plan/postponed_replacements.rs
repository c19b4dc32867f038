//! Workers whose machines are replaced later than the plan that changes their templates: together with their version.
//!
//! During the upgrade of a control plane, and until workers have its version, their MachineSets create no machines
//! (MA-17.2, MA-17.5). A template change during an upgrade reaches the machines together with the version, so they are
//! replaced once.

use std::collections::BTreeMap;

use super::rolls::{MachineCounts, Roll};
use super::{Round, TopologyPart};
use crate::topology::worker::WorkerKind;

/// Counts machines of workers once if their templates change before their version (DEC-41).
pub(super) fn merge(rounds: &mut [Round]) {
    let places = places(rounds);
    for last in (1..rounds.len()).rev() {
        let Some((round, before)) = rounds.get_mut(..=last).and_then(<[Round]>::split_last_mut) else { continue };
        let upgrades = round.rolls.iter_mut().filter(|roll| roll.is_upgrade && is_of_deployment(&roll.part));
        for upgrade in upgrades {
            let earlier = places.get(&upgrade.part).into_iter().flatten();
            for (round, at) in earlier.filter(|(round, _)| *round < last) {
                let Some(roll) = before.get_mut(*round).and_then(|round| round.rolls.get_mut(*at)) else { continue };
                if roll.is_upgrade {
                    break;
                }
                postpone(roll, upgrade);
            }
        }
    }
    for round in rounds {
        round.rolls.retain(|roll| roll.machines != MachineCounts::NONE);
    }
}

/// Round and position of the rolls of each machine deployment, in descending order of rounds.
fn places(rounds: &[Round]) -> BTreeMap<TopologyPart, Vec<(usize, usize)>> {
    let mut places: BTreeMap<TopologyPart, Vec<(usize, usize)>> = BTreeMap::new();
    for (number, round) in rounds.iter().enumerate().rev() {
        for (at, roll) in round.rolls.iter().enumerate().filter(|(_, roll)| is_of_deployment(&roll.part)) {
            places.entry(roll.part.clone()).or_default().push((number, at));
        }
    }
    places
}

fn is_of_deployment(part: &TopologyPart) -> bool {
    matches!(part, TopologyPart::Worker(WorkerKind::MachineDeployment, _))
}

/// Moves replacements to the upgrade, which does not replace the machines that it creates.
fn postpone(roll: &mut Roll, upgrade: &mut Roll) {
    let added = roll.machines.added.unwrap_or_default();
    let less = |number: i64| number.saturating_sub(added).max(0);
    let of_upgrade = &mut upgrade.machines;
    of_upgrade.replaced = of_upgrade.replaced.map(less);
    of_upgrade.outdated_until_deleted = of_upgrade.outdated_until_deleted.map(less);
    of_upgrade.at_least = less(of_upgrade.at_least);
    let MachineCounts { replaced, outdated_until_deleted, at_least, .. } = &mut roll.machines;
    (*replaced, *outdated_until_deleted, *at_least) = (Some(0), Some(0), 0);
}

//! Scaling of a paused MachineDeployment, as a function of numbers (MA-24).

use super::limits::RolloutLimits;
use super::rollout::SetCounts;

/// The counts of a set, with those in its annotations before this step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PausedSet {
    pub(super) numbers: SetCounts,
    pub(super) is_new: bool,
    pub(super) desired: Option<i64>,
    pub(super) max: Option<i64>,
}

/// Scales the sets of a paused deployment; `machines` is the number of machines in its status.
pub(super) fn scale(sets: &mut [PausedSet], limits: RolloutLimits, is_rolling: bool, machines: i64) {
    let active: Vec<usize> = (0..).zip(sets.iter()).filter(|(_, set)| set.numbers.spec > 0).map(|(at, _)| at).collect();
    let replicas = limits.replicas;
    if active.len() <= 1 {
        let single = active.first().copied().or_else(|| inactive(sets));
        if let Some(set) = single.and_then(|at| sets.get_mut(at)) {
            intend(set, replicas);
        }
    } else if sets.iter().any(|set| is_saturated(set, replicas)) {
        for set in sets.iter_mut().filter(|set| !set.is_new && set.numbers.spec > 0) {
            intend(set, 0);
        }
    } else if is_rolling {
        in_proportion(sets, active, limits, machines);
    }
}

/// The set to scale if none is active: the new one, else the newest (MA-24.2).
fn inactive(sets: &[PausedSet]) -> Option<usize> {
    let newest = || (0..sets.len()).max_by_key(|at| sets.get(*at).map(|set| (set.numbers.created, &set.numbers.name)));
    sets.iter().position(|set| set.is_new).or_else(newest)
}

/// Whether the new set has all desired machines (MA-24.3).
fn is_saturated(set: &PausedSet, replicas: i64) -> bool {
    let SetCounts { spec, available, .. } = set.numbers;
    set.is_new && spec == replicas && available == replicas && set.desired == Some(replicas)
}

/// Scales each set in proportion; the remainder goes to the first (MA-24.4). The proportion is of the maximum before
/// the change, as recorded in the annotation (MA-24.5).
fn in_proportion(sets: &mut [PausedSet], mut active: Vec<usize>, limits: RolloutLimits, machines: i64) {
    let RolloutLimits { replicas, surge, .. } = limits;
    let allowed = if replicas > 0 { replicas + surge } else { 0 };
    let spec = |at: &usize| sets.get(*at).map_or(0, |set| set.numbers.spec);
    let delta = allowed - active.iter().map(spec).sum::<i64>();
    if delta == 0 {
        return;
    }
    active.sort_by(|a, b| {
        let born = |at: &usize| sets.get(*at).map(|set| (set.numbers.created, &set.numbers.name));
        let by_age = if delta > 0 { born(b).cmp(&born(a)) } else { born(a).cmp(&born(b)) };
        spec(b).cmp(&spec(a)).then(by_age)
    });
    let mut spread = 0;
    let mut changes = Vec::new();
    for at in active {
        let Some(set) = sets.get(at) else { continue };
        let part = part(set, limits, machines);
        let left = delta - spread;
        let part = if delta > 0 { part.min(left) } else { part.max(left) };
        spread += part;
        changes.push((at, part));
    }
    if let Some((_, first)) = changes.first_mut() {
        *first += delta - spread;
    }
    for (at, change) in changes {
        if let Some(set) = sets.get_mut(at) {
            intend(set, (set.numbers.spec + change).max(0));
        }
    }
}

/// The proportional change of a set.
fn part(set: &PausedSet, limits: RolloutLimits, machines: i64) -> i64 {
    let spec = set.numbers.spec;
    let before = set.max.unwrap_or(machines);
    if limits.replicas == 0 {
        return -spec;
    }
    if before <= 0 {
        return 0;
    }
    // Halves are rounded up.
    (2 * spec * (limits.replicas + limits.surge) + before).div_euclid(2 * before) - spec
}

fn intend(set: &mut PausedSet, wanted: i64) {
    if wanted != set.numbers.spec {
        set.numbers.intent = Some(wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use golang::calendar::Moment;

    fn set(name: &str, spec: i64, max: Option<i64>) -> PausedSet {
        let day = 1 + name.bytes().next().unwrap_or_default() % 28;
        let created = Moment::parse(&format!("2030-01-{day:02}T00:00:00Z"));
        let numbers = SetCounts { name: name.to_owned(), created, spec, machines: spec, available: spec, intent: None };
        PausedSet { numbers, is_new: name == "new", desired: Some(5), max }
    }

    #[test]
    fn paused_deployments_scale_in_proportion() {
        // MA-24.1, MA-24.2, MA-24.3, MA-24.4, MA-24.5; a is older than b, b than c
        let saturated = PausedSet { desired: Some(4), ..set("new", 4, None) };
        for (case, replicas, surge, sets, want) in [
            ("one is active", 4, 1, vec![set("a", 0, None), set("b", 2, None)], vec![0, 4]),
            ("none is active, and one is new", 4, 1, vec![set("a", 0, None), set("new", 0, None)], vec![0, 4]),
            ("none is active", 4, 1, vec![set("b", 0, None), set("a", 0, None)], vec![4, 0]),
            ("the new one has all", 4, 1, vec![set("a", 3, None), saturated], vec![0, 4]),
            ("grows in proportion", 20, 0, vec![set("a", 8, Some(10)), set("b", 2, Some(10))], vec![16, 4]),
            ("shrinks in proportion", 5, 0, vec![set("a", 8, Some(10)), set("b", 2, Some(10))], vec![4, 1]),
            ("the rest goes to the larger one", 11, 0, vec![set("a", 4, Some(10)), set("b", 6, Some(10))], vec![4, 7]),
            ("on a tie the newer one grows", 6, 0, vec![set("a", 2, Some(4)), set("b", 2, Some(4))], vec![3, 3]),
            ("the rest goes to the newer one", 5, 0, vec![set("a", 2, Some(5)), set("b", 2, Some(5))], vec![2, 3]),
            ("on a tie the older one shrinks", 3, 0, vec![set("a", 2, Some(3)), set("b", 2, Some(3))], vec![1, 2]),
            ("without the annotation the status counts", 8, 0, vec![set("a", 2, None), set("b", 2, None)], vec![4, 4]),
            ("down to nothing", 0, 1, vec![set("a", 2, Some(5)), set("b", 2, Some(5))], vec![0, 0]),
            ("as many as there may be", 3, 1, vec![set("a", 2, Some(4)), set("b", 2, Some(4))], vec![2, 2]),
        ] {
            let mut sets = sets;
            scale(&mut sets, RolloutLimits { replicas, surge, unavailable: 0 }, true, 4);
            let wanted: Vec<i64> = sets.iter().map(|set| set.numbers.wanted()).collect();
            assert_eq!(wanted, want, "{case}");
        }
        let mut sets = [set("a", 2, Some(4)), set("b", 2, Some(4))];
        scale(&mut sets, RolloutLimits { replicas: 6, surge: 0, unavailable: 0 }, false, 4);
        assert!(sets.iter().all(|set| set.numbers.intent.is_none()), "only rolling updates scale in proportion");
    }
}

//! Replicas of each set in one round of a rollout, as a function of numbers (MA-22, MA-23).

use golang::calendar::Moment;

use super::limits::RolloutLimits;

/// Machine counts of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SetCounts {
    pub(super) name: String,
    pub(super) created: Option<Moment>,
    /// Desired machines.
    pub(super) spec: i64,
    /// Existing machines.
    pub(super) machines: i64,
    /// Available machines.
    pub(super) available: i64,
    /// Desired machines after this round; `None` if unchanged.
    pub(super) intent: Option<i64>,
}

impl SetCounts {
    /// Desired machines after this round.
    pub(super) fn wanted(&self) -> i64 {
        self.intent.unwrap_or(self.spec)
    }
}

/// The sets of a MachineDeployment in one round of planning (MA-22.2).
#[derive(Clone, Debug)]
pub(super) struct RolloutRound {
    pub(super) new: SetCounts,
    /// Sorted by creation time and name.
    pub(super) old: Vec<SetCounts>,
}

impl RolloutRound {
    /// A new set and the old ones.
    pub(super) fn new(new: SetCounts, mut old: Vec<SetCounts>) -> Self {
        old.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        RolloutRound { new, old }
    }

    fn all(&self) -> impl Iterator<Item = &SetCounts> {
        [&self.new].into_iter().chain(&self.old)
    }

    fn sum(&self, of: impl Fn(&SetCounts) -> i64) -> i64 {
        self.all().map(of).sum()
    }

    /// One round of a rolling update (MA-22.3). Repeated rounds give the sequences of MA-22.9; if new machines become
    /// available later, there are rounds without changes in between (MA-22.10).
    pub(super) fn roll(&mut self, limits: RolloutLimits) {
        self.grow(limits.replicas, limits.surge);
        self.shrink(limits);
        self.break_deadlock();
    }

    /// Scales up the new set within the surge limit (MA-22.4).
    fn grow(&mut self, replicas: i64, surge: i64) {
        let total = self.sum(|set| set.spec.max(set.machines));
        let room = (replicas + surge - total).min(replicas - self.new.spec);
        if self.new.spec > replicas {
            self.new.intent = Some(replicas);
        } else if room > 0 {
            self.new.intent = Some(self.new.spec + room);
        }
    }

    /// Scales down the old sets within the limit of unavailable machines, unavailable ones first (MA-22.5).
    fn shrink(&mut self, limits: RolloutLimits) {
        if self.old.iter().map(|set| set.spec).sum::<i64>() == 0 {
            return;
        }
        let pending = self.sum(|set| (set.machines - set.spec.min(set.wanted())).max(0));
        let new_unavailable = (self.new.spec - self.new.available).max(0);
        let budget = self.sum(|set| set.spec) - pending - limits.min_available() - new_unavailable;
        // Deletions of the first pass count again in the second (MA-22.7).
        let mut left =
            ScaleDownBudget { budget, available: self.sum(|set| set.available), min_available: limits.min_available() };
        for set in &mut self.old {
            left.take_from(set, |wanted, available| (wanted - available).max(0));
        }
        for set in &mut self.old {
            left.take_from(set, |wanted, _| wanted);
        }
    }

    /// Deletes one unavailable old machine if nothing else progresses (MA-22.8). This may exceed the limit of
    /// unavailable machines.
    fn break_deadlock(&mut self) {
        let old = |of: fn(&SetCounts) -> i64| self.old.iter().map(of).sum::<i64>();
        let has_unavailable = old(|set| set.machines) > 0 && old(|set| set.machines) != old(|set| set.available);
        let is_still = self.all().all(|set| set.spec == set.machines && set.intent.is_none());
        if !has_unavailable || !is_still || self.new.available != self.new.machines {
            return;
        }
        if let Some(set) = self.old.iter_mut().find(|set| set.available != set.machines && set.spec > 0) {
            set.intent = Some(set.spec - 1);
        }
    }

    /// One round in which the user deletes the old machines (MA-23).
    pub(super) fn on_delete(&mut self, replicas: i64) {
        self.grow(replicas, 0);
        let mut excess = (self.old.iter().map(|set| set.spec).sum::<i64>() + self.new.wanted() - replicas).max(0);
        for set in self.old.iter_mut().filter(|set| set.spec > set.machines) {
            excess -= set.spec - set.machines;
            set.intent = Some(set.machines);
        }
        for set in &mut self.old {
            // The desired count already includes machines deleted by the user (MA-23.3).
            let down = set.wanted().min(excess);
            if down > 0 {
                set.intent = Some(set.wanted() - down);
                excess -= down;
            }
        }
    }
}

/// Remaining budget for scaling down old sets.
struct ScaleDownBudget {
    budget: i64,
    available: i64,
    min_available: i64,
}

impl ScaleDownBudget {
    /// Scales down one set, in the worst case by available machines (MA-22.6).
    fn take_from(&mut self, set: &mut SetCounts, limit: impl Fn(i64, i64) -> i64) {
        let wanted = set.wanted();
        let mut down = limit(wanted, set.available).min(self.budget);
        if wanted <= 0 || down <= 0 {
            return;
        }
        if set.available > 0 {
            let mut gone = (set.machines - (wanted - down)).max(0);
            let spare = self.available - self.min_available;
            if gone > 0 && spare < gone {
                let target = (set.machines - spare.max(0)).min(wanted);
                down = (wanted - target).max(0);
                gone = (set.machines - target).max(0);
            }
            self.available -= set.available.min(gone);
        }
        if down > 0 {
            set.intent = Some(wanted - down);
            self.budget -= down;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use model::hub::IntOrString;

    fn set(name: &str, spec: i64, available: i64) -> SetCounts {
        let created = Moment::parse(if name == "new" { "2030-01-02T00:00:00Z" } else { "2030-01-01T00:00:00Z" });
        SetCounts { name: name.to_owned(), created, spec, machines: spec, available, intent: None }
    }

    /// The behavior of sets between two rounds: they create and delete immediately, unavailable machines first; all
    /// machines of the new set are available in the next round.
    fn carry_out(round: &mut RolloutRound) {
        let RolloutRound { new, old } = round;
        for set in old.iter_mut().chain([new]) {
            set.spec = set.wanted();
            set.intent = None;
            set.available = set.available.min(set.spec);
            set.machines = set.spec;
        }
        round.new.available = round.new.machines;
    }

    fn rounds(limits: RolloutLimits, mut round: RolloutRound) -> Vec<String> {
        let mut all = Vec::new();
        for _ in 0..20 {
            round.roll(limits);
            if round.all().all(|set| set.intent.is_none()) {
                break;
            }
            carry_out(&mut round);
            let old: Vec<String> = round.old.iter().map(|set| set.spec.to_string()).collect();
            all.push(format!("{}/{}", round.new.spec, old.join("+")));
        }
        all
    }

    #[test]
    fn worked_rounds_of_rolling_updates() {
        // MA-22.2, MA-22.3, MA-22.4, MA-22.5, MA-22.6, MA-22.7, MA-22.8, MA-22.9
        let percent = |text: &str| IntOrString::String(text.to_owned());
        let number = IntOrString::Int;
        for (replicas, surge, unavailable, old, want) in [
            (3, number(1), number(0), vec![("old", 3, 3)], "1/3 1/2 2/2 2/1 3/1 3/0"),
            (3, number(0), number(1), vec![("old", 3, 3)], "0/2 1/2 1/1 2/1 2/0 3/0"),
            (3, number(1), number(1), vec![("old", 3, 3)], "1/2 2/1 3/0"),
            (10, percent("25%"), percent("25%"), vec![("old", 10, 10)], "3/8 5/5 8/3 10/0"),
            (6, number(3), number(1), vec![("old", 6, 6)], "3/5 4/2 6/1 6/0"),
            (1, number(0), percent("1%"), vec![("old", 1, 1)], "0/0 1/0"),
            (3, number(1), number(0), vec![("old", 3, 2)], "1/3 1/2 2/2 2/1 3/1 3/0"),
            (
                6,
                number(1),
                number(0),
                vec![("b", 3, 3), ("a", 3, 3)],
                "1/3+3 1/2+3 2/2+3 2/1+3 3/1+3 3/0+3 4/0+3 4/0+2 5/0+2 5/0+1 6/0+1 6/0+0",
            ),
        ] {
            let case = format!("{replicas} {surge:?} {unavailable:?} {old:?}");
            let limits = RolloutLimits::new(replicas, &surge, &unavailable).unwrap();
            let old = old.into_iter().map(|(name, spec, available)| set(name, spec, available)).collect();
            let made = rounds(limits, RolloutRound::new(set("new", 0, 0), old));
            assert_eq!(made.join(" "), want, "{case}");
        }
    }

    #[test]
    fn a_new_set_that_is_too_large_shrinks_at_once() {
        // MA-22.4
        let limits = RolloutLimits { replicas: 2, surge: 1, unavailable: 0 };
        let mut round = RolloutRound::new(set("new", 5, 0), Vec::new());
        round.roll(limits);
        assert_eq!(round.new.intent, Some(2));
        let mut round = RolloutRound::new(SetCounts { machines: 2, ..set("new", 1, 1) }, vec![set("old", 1, 1)]);
        round.roll(limits);
        assert_eq!(round.new.intent, None, "machines that are being deleted take room: 2 + 1 = 2 + surge");
    }

    #[test]
    fn a_new_set_that_is_not_available_holds_the_old_ones() {
        // MA-22.5, MA-22.10
        let limits = RolloutLimits { replicas: 3, surge: 1, unavailable: 0 };
        for (available, want) in [(0, None), (1, Some(2))] {
            let mut round = RolloutRound::new(set("new", 1, available), vec![set("old", 3, 3)]);
            round.roll(limits);
            assert_eq!(round.old[0].intent, want, "{available}");
        }
    }

    #[test]
    fn a_set_without_available_machines_is_not_limited_by_availability() {
        // MA-22.6
        let limits = RolloutLimits { replicas: 3, surge: 1, unavailable: 1 };
        let mut round = RolloutRound::new(set("new", 1, 1), vec![set("old", 3, 0)]);
        round.roll(limits);
        assert_eq!(round.old[0].intent, Some(1));
    }

    #[test]
    fn machines_that_the_first_pass_deletes_count_again_in_the_second() {
        // MA-22.7: at least 6 of 10 machines stay available.
        let limits = RolloutLimits { replicas: 8, surge: 2, unavailable: 2 };
        let mut round = RolloutRound::new(set("new", 0, 0), vec![set("a", 3, 1), set("b", 7, 7)]);
        round.roll(limits);
        assert_eq!((round.old[0].intent, round.old[1].intent), (Some(1), None));
    }

    #[test]
    fn only_a_rollout_that_stands_still_breaks_the_limit() {
        // MA-22.8
        let limits = RolloutLimits { replicas: 2, surge: 1, unavailable: 0 };
        let old =
            || vec![SetCounts { created: Moment::parse("2030-01-01T00:00:01Z"), ..set("a", 1, 0) }, set("z", 1, 0)];
        for (case, new, want) in [
            ("stands still", set("new", 1, 1), (None, Some(0))),
            ("a new machine is not available", set("new", 1, 0), (None, None)),
            ("a set is scaling", SetCounts { machines: 2, ..set("new", 1, 2) }, (None, None)),
        ] {
            let mut round = RolloutRound::new(new, old());
            round.break_deadlock();
            let intent = |name: &str| round.old.iter().find(|set| set.name == name).unwrap().intent;
            assert_eq!((intent("a"), intent("z")), want, "{case}");
        }
        let mut round = RolloutRound::new(set("new", 1, 1), vec![set("old", 2, 2)]);
        round.break_deadlock();
        assert_eq!(round.old[0].intent, None, "all are available; {limits:?}");
    }

    #[test]
    fn machines_that_users_delete_are_made_from_the_new_template() {
        // MA-23.1, MA-23.2, MA-23.3, MA-23.4
        let numbers = |name, spec, machines| SetCounts { machines, ..set(name, spec, machines) };
        for (case, replicas, new, old, want) in [
            ("nothing is deleted", 3, numbers("new", 0, 0), vec![numbers("a", 3, 3)], (None, vec![None])),
            ("one was deleted", 3, numbers("new", 0, 0), vec![numbers("a", 3, 2)], (None, vec![Some(2)])),
            ("there is room", 3, numbers("new", 0, 0), vec![numbers("a", 2, 2)], (Some(1), vec![None])),
            ("the new set is too large", 3, numbers("new", 5, 5), vec![], (Some(3), vec![])),
            (
                "fewer are wanted: the oldest set shrinks first",
                2,
                numbers("new", 1, 1),
                vec![numbers("b", 2, 2), numbers("a", 1, 1)],
                (None, vec![Some(0), Some(1)]),
            ),
            (
                "the gap of a deleted machine is part of what is too much",
                2,
                numbers("new", 0, 0),
                vec![numbers("a", 3, 2), numbers("b", 1, 1)],
                (None, vec![Some(1), None]),
            ),
        ] {
            let mut round = RolloutRound::new(new, old);
            round.on_delete(replicas);
            let intents = round.old.iter().map(|set| set.intent).collect();
            assert_eq!((round.new.intent, intents), want, "{case}");
        }
    }

    proptest! {
        #![proptest_config(testing::cases(512))]

        /// MA-30.5: availability never falls below its limit, machines never exceed theirs, and the rollout ends.
        #[test]
        fn rollouts_keep_to_their_limits_and_end(
            olds in prop::collection::vec(0_i64..6, 1..4),
            surge in 0_i32..4,
            unavailable in 0_i32..4,
            delays in prop::collection::vec(0_u8..3, 64),
        ) {
            let replicas: i64 = olds.iter().sum();
            let limits = RolloutLimits::new(replicas, &IntOrString::Int(surge), &IntOrString::Int(unavailable)).unwrap();
            let old = (0..).zip(&olds).map(|(number, spec)| set(&format!("old-{number}"), *spec, *spec)).collect();
            let mut round = RolloutRound::new(set("new", 0, 0), old);
            let mut ended = false;
            for number in 0..200_usize {
                round.roll(limits);
                // A round may have nothing to do while machines are being deleted.
                let is_still = round.all().all(|set| set.intent.is_none() && set.machines == set.spec);
                ended = is_still && round.new.available == replicas;
                let delay = delays[number % delays.len()];
                act(&mut round, delay);
                let (machines, available) = (round.sum(|set| set.machines), round.sum(|set| set.available));
                prop_assert!(available >= limits.min_available(), "{available} are available: {round:?}");
                prop_assert!(machines <= replicas + limits.surge, "there are {machines}: {round:?}");
                if ended {
                    break;
                }
            }
            prop_assert!(ended, "{round:?}");
            prop_assert!(round.new.spec == replicas && round.old.iter().all(|set| set.spec == 0), "{round:?}");
        }

        /// MA-30.5, with old machines that are unavailable from the start: the rollout ends, and machines never exceed
        /// their limit.
        #[test]
        fn rollouts_of_unavailable_machines_end(
            olds in prop::collection::vec((1_i64..5, 0_i64..5), 1..4),
            surge in 0_i32..3,
            unavailable in 0_i32..3,
        ) {
            let replicas: i64 = olds.iter().map(|(spec, _)| spec).sum();
            let limits = RolloutLimits::new(replicas, &IntOrString::Int(surge), &IntOrString::Int(unavailable)).unwrap();
            let old = (0..).zip(&olds).map(|(number, (spec, up))| set(&format!("old-{number}"), *spec, *up.min(spec)));
            let mut round = RolloutRound::new(set("new", 0, 0), old.collect());
            for _ in 0..100 {
                round.roll(limits);
                act(&mut round, 0);
                prop_assert!(round.sum(|set| set.machines) <= replicas + limits.surge);
            }
            prop_assert!(round.new.available == replicas && round.old.iter().all(|set| set.machines == 0), "{round:?}");
        }
    }

    /// The behavior of sets between two rounds in the worst case: available machines are deleted, now or later, and new
    /// ones become available later.
    fn act(round: &mut RolloutRound, delay: u8) {
        let is_slow = delay > 0;
        let RolloutRound { new, old } = round;
        for set in old.iter_mut().chain([&mut *new]) {
            // Machines beyond the former count are being deleted already, and unavailable.
            let deleted = (set.machines.min(set.spec) - set.wanted()).max(0);
            set.spec = set.wanted();
            set.intent = None;
            set.available = (set.available - deleted).max(0).min(set.spec);
            if !(is_slow && deleted > 0) {
                set.machines = set.spec;
            }
        }
        if delay < 2 {
            new.available = new.machines.min(new.spec);
        }
    }
}

//! How many replicas each set gets in one round of a rollout: pure functions of numbers (MA-22, MA-23).

use golang::calendar::Moment;

use super::limits::Limits;

/// The numbers of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) name: String,
    pub(super) created: Option<Moment>,
    /// How many machines it asks for.
    pub(super) spec: i64,
    /// How many it has.
    pub(super) machines: i64,
    /// How many of them are available.
    pub(super) available: i64,
    /// How many it shall ask for; `None` for as many as before.
    pub(super) intent: Option<i64>,
}

impl Numbers {
    /// How many machines it asks for after this round.
    pub(super) fn wanted(&self) -> i64 {
        self.intent.unwrap_or(self.spec)
    }
}

/// The sets of a MachineDeployment in one round of planning (MA-22.2).
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) new: Numbers,
    /// By creation time, then by name.
    pub(super) old: Vec<Numbers>,
}

impl Round {
    /// A new set and the old ones.
    pub(super) fn new(new: Numbers, mut old: Vec<Numbers>) -> Self {
        old.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        Round { new, old }
    }

    fn all(&self) -> impl Iterator<Item = &Numbers> {
        [&self.new].into_iter().chain(&self.old)
    }

    fn sum(&self, of: impl Fn(&Numbers) -> i64) -> i64 {
        self.all().map(of).sum()
    }

    /// One round of a rolling update (MA-22.3). Rounds one after the other give the sequences of MA-22.9; where new machines become
    /// available later, rounds without a change stand in between (MA-22.10).
    pub(super) fn roll(&mut self, limits: Limits) {
        self.grow(limits.replicas, limits.surge);
        self.shrink(limits);
        self.break_deadlock();
    }

    /// The new set gets as many replicas as there is room for (MA-22.4).
    fn grow(&mut self, replicas: i64, surge: i64) {
        let total = self.sum(|set| set.spec.max(set.machines));
        let room = (replicas + surge - total).min(replicas - self.new.spec);
        if self.new.spec > replicas {
            self.new.intent = Some(replicas);
        } else if room > 0 {
            self.new.intent = Some(self.new.spec + room);
        }
    }

    /// The old sets lose as many replicas as may be unavailable, those first that are unavailable already (MA-22.5).
    fn shrink(&mut self, limits: Limits) {
        if self.old.iter().map(|set| set.spec).sum::<i64>() == 0 {
            return;
        }
        let pending = self.sum(|set| (set.machines - set.spec.min(set.wanted())).max(0));
        let new_unavailable = (self.new.spec - self.new.available).max(0);
        let budget = self.sum(|set| set.spec) - pending - limits.min_available() - new_unavailable;
        // Deletions of the first pass count again in the second one (MA-22.7).
        let mut left = Left { budget, available: self.sum(|set| set.available), min_available: limits.min_available() };
        for set in &mut self.old {
            left.take_from(set, |wanted, available| (wanted - available).max(0));
        }
        for set in &mut self.old {
            left.take_from(set, |wanted, _| wanted);
        }
    }

    /// Deletes one unavailable old machine if nothing else moves (MA-22.8). This may break the limit of unavailable machines.
    fn break_deadlock(&mut self) {
        let old = |of: fn(&Numbers) -> i64| self.old.iter().map(of).sum::<i64>();
        let has_unavailable = old(|set| set.machines) > 0 && old(|set| set.machines) != old(|set| set.available);
        let is_still = self.all().all(|set| set.spec == set.machines && set.intent.is_none());
        if !has_unavailable || !is_still || self.new.available != self.new.machines {
            return;
        }
        if let Some(set) = self.old.iter_mut().find(|set| set.available != set.machines && set.spec > 0) {
            set.intent = Some(set.spec - 1);
        }
    }

    /// One round where the user deletes the old machines (MA-23).
    pub(super) fn on_delete(&mut self, replicas: i64) {
        self.grow(replicas, 0);
        let mut excess = (self.old.iter().map(|set| set.spec).sum::<i64>() + self.new.wanted() - replicas).max(0);
        for set in self.old.iter_mut().filter(|set| set.spec > set.machines) {
            excess -= set.spec - set.machines;
            set.intent = Some(set.machines);
        }
        for set in &mut self.old {
            // What is wanted already counts the machines that the user has deleted (MA-23.3).
            let down = set.wanted().min(excess);
            if down > 0 {
                set.intent = Some(set.wanted() - down);
                excess -= down;
            }
        }
    }
}

/// What may still be taken from old sets.
struct Left {
    budget: i64,
    available: i64,
    min_available: i64,
}

impl Left {
    /// Takes from one set, in the worst case available machines (MA-22.6).
    fn take_from(&mut self, set: &mut Numbers, limit: impl Fn(i64, i64) -> i64) {
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

    fn set(name: &str, spec: i64, available: i64) -> Numbers {
        let created = Moment::parse(if name == "new" { "2030-01-02T00:00:00Z" } else { "2030-01-01T00:00:00Z" });
        Numbers { name: name.to_owned(), created, spec, machines: spec, available, intent: None }
    }

    /// What the sets do between two rounds: they create and delete at once, unavailable machines first; all machines of the new set are
    /// available in the next round.
    fn carry_out(round: &mut Round) {
        let Round { new, old } = round;
        for set in old.iter_mut().chain([new]) {
            set.spec = set.wanted();
            set.intent = None;
            set.available = set.available.min(set.spec);
            set.machines = set.spec;
        }
        round.new.available = round.new.machines;
    }

    fn rounds(limits: Limits, mut round: Round) -> Vec<String> {
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
            let limits = Limits::new(replicas, &surge, &unavailable).unwrap();
            let old = old.into_iter().map(|(name, spec, available)| set(name, spec, available)).collect();
            let made = rounds(limits, Round::new(set("new", 0, 0), old));
            assert_eq!(made.join(" "), want, "{case}");
        }
    }

    #[test]
    fn a_new_set_that_is_too_large_shrinks_at_once() {
        // MA-22.4
        let limits = Limits { replicas: 2, surge: 1, unavailable: 0 };
        let mut round = Round::new(set("new", 5, 0), Vec::new());
        round.roll(limits);
        assert_eq!(round.new.intent, Some(2));
        let mut round = Round::new(Numbers { machines: 2, ..set("new", 1, 1) }, vec![set("old", 1, 1)]);
        round.roll(limits);
        assert_eq!(round.new.intent, None, "machines that are being deleted take room: 2 + 1 = 2 + surge");
    }

    #[test]
    fn a_new_set_that_is_not_available_holds_the_old_ones() {
        // MA-22.5, MA-22.10
        let limits = Limits { replicas: 3, surge: 1, unavailable: 0 };
        for (available, want) in [(0, None), (1, Some(2))] {
            let mut round = Round::new(set("new", 1, available), vec![set("old", 3, 3)]);
            round.roll(limits);
            assert_eq!(round.old[0].intent, want, "{available}");
        }
    }

    #[test]
    fn a_set_without_available_machines_is_not_limited_by_availability() {
        // MA-22.6
        let limits = Limits { replicas: 3, surge: 1, unavailable: 1 };
        let mut round = Round::new(set("new", 1, 1), vec![set("old", 3, 0)]);
        round.roll(limits);
        assert_eq!(round.old[0].intent, Some(1));
    }

    #[test]
    fn only_a_rollout_that_stands_still_breaks_the_limit() {
        // MA-22.8
        let limits = Limits { replicas: 2, surge: 1, unavailable: 0 };
        let old = || vec![Numbers { created: Moment::parse("2030-01-01T00:00:01Z"), ..set("a", 1, 0) }, set("z", 1, 0)];
        for (case, new, want) in [
            ("stands still", set("new", 1, 1), (None, Some(0))),
            ("a new machine is not available", set("new", 1, 0), (None, None)),
            ("a set is scaling", Numbers { machines: 2, ..set("new", 1, 2) }, (None, None)),
        ] {
            let mut round = Round::new(new, old());
            round.break_deadlock();
            let intent = |name: &str| round.old.iter().find(|set| set.name == name).unwrap().intent;
            assert_eq!((intent("a"), intent("z")), want, "{case}");
        }
        let mut round = Round::new(set("new", 1, 1), vec![set("old", 2, 2)]);
        round.break_deadlock();
        assert_eq!(round.old[0].intent, None, "all are available; {limits:?}");
    }

    #[test]
    fn machines_that_users_delete_are_made_from_the_new_template() {
        // MA-23.1, MA-23.2, MA-23.3, MA-23.4
        let numbers = |name, spec, machines| Numbers { machines, ..set(name, spec, machines) };
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
            let mut round = Round::new(new, old);
            round.on_delete(replicas);
            let intents = round.old.iter().map(|set| set.intent).collect();
            assert_eq!((round.new.intent, intents), want, "{case}");
        }
    }

    proptest! {
        #![proptest_config(testing::cases(512))]

        /// MA-30.5: as many machines stay available as must, and there are never more than may be; the rollout ends.
        #[test]
        fn rollouts_keep_to_their_limits_and_end(
            olds in prop::collection::vec(0_i64..6, 1..4),
            surge in 0_i32..4,
            unavailable in 0_i32..4,
            delays in prop::collection::vec(0_u8..3, 64),
        ) {
            let replicas: i64 = olds.iter().sum();
            let limits = Limits::new(replicas, &IntOrString::Int(surge), &IntOrString::Int(unavailable)).unwrap();
            let old = (0..).zip(&olds).map(|(number, spec)| set(&format!("old-{number}"), *spec, *spec)).collect();
            let mut round = Round::new(set("new", 0, 0), old);
            let mut ended = false;
            for number in 0..200_usize {
                round.roll(limits);
                // A round may have nothing to do while machines are still being deleted.
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

        /// MA-30.5, with old machines that are unavailable from the start: the rollout ends, and there are never too many machines.
        #[test]
        fn rollouts_of_unavailable_machines_end(
            olds in prop::collection::vec((1_i64..5, 0_i64..5), 1..4),
            surge in 0_i32..3,
            unavailable in 0_i32..3,
        ) {
            let replicas: i64 = olds.iter().map(|(spec, _)| spec).sum();
            let limits = Limits::new(replicas, &IntOrString::Int(surge), &IntOrString::Int(unavailable)).unwrap();
            let old = (0..).zip(&olds).map(|(number, (spec, up))| set(&format!("old-{number}"), *spec, *up.min(spec)));
            let mut round = Round::new(set("new", 0, 0), old.collect());
            for _ in 0..100 {
                round.roll(limits);
                act(&mut round, 0);
                prop_assert!(round.sum(|set| set.machines) <= replicas + limits.surge);
            }
            prop_assert!(round.new.available == replicas && round.old.iter().all(|set| set.machines == 0), "{round:?}");
        }
    }

    /// What the sets do between two rounds, in the worst case: deleted machines are available ones, they go now or later, and new ones
    /// become available later.
    fn act(round: &mut Round, delay: u8) {
        let is_slow = delay > 0;
        let Round { new, old } = round;
        for set in old.iter_mut().chain([&mut *new]) {
            // Machines beyond the former number are being deleted already, and no longer available.
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

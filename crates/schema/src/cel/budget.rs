//! The budget that evaluations share, and the budget of each value (CEL-026).

use super::meter::Meter;
use crate::budget::{Exceeded, Pool, Stop};

/// What the evaluation of all rules for one object may cost: the values of a Cluster, or the defaults, examples and enum
/// entries of a class (DEC-44). Kubernetes has the same budget for an object.
#[derive(Debug)]
pub struct CelCost {
    units: Pool,
    /// Cost units say little about the time that an evaluation takes.
    steps: Pool,
}

impl CelCost {
    /// The whole budget of an object; `what` names what is evaluated.
    pub fn of_object(units: &'static str) -> Self {
        CelCost { units: Pool::new(PER_OBJECT, units), steps: Pool::new(STEPS_PER_OBJECT, "steps of CEL evaluation") }
    }

    fn take(&mut self, budget: &Budget) -> Result<(), Exceeded> {
        let (units, steps) = budget.0.spent();
        let amount = |amount: u64| usize::try_from(amount).unwrap_or(usize::MAX);
        let units = self.units.take(amount(units));
        self.steps.take(amount(steps)).and(units)
    }

    /// Takes from the budget what `evaluate` spends.
    pub(crate) fn spend<R>(&mut self, evaluate: impl FnOnce(&mut Budget) -> R) -> (R, Result<(), Exceeded>) {
        let mut budget = Budget::new();
        let result = evaluate(&mut budget);
        (result, self.take(&budget))
    }
}

/// Cost units for everything that is evaluated for one object.
const PER_OBJECT: usize = 10_000_000;

/// Steps for the same: about as many nanoseconds, or bytes of memory.
const STEPS_PER_OBJECT: usize = 400_000_000;

/// The budget of one checked value (CEL-026).
#[derive(Debug)]
pub(crate) struct Budget(pub(super) Meter);

impl Budget {
    /// A full budget.
    pub(crate) fn new() -> Budget {
        Budget(Meter::new())
    }

    /// What is left, in cost units.
    pub(crate) fn left(&self) -> u64 {
        self.0.total()
    }

    /// Sets what is left, in cost units.
    pub(crate) fn set_left(&mut self, units: u64) {
        self.0.set_total(units);
    }

    /// Ends evaluations when `stop` is due.
    pub(crate) fn heed(&mut self, stop: &Stop) {
        self.0.heed(stop);
    }

    /// Whether another expression may run.
    pub(crate) fn has_run_out(&self) -> bool {
        self.0.is_spent()
    }
}

//! The budget shared by evaluations, and the budget of each value (CEL-026).

use super::meter::Meter;
use crate::budget::{Budget, Exceeded, Stop};

/// Budget for all rules of one object: the values of a Cluster, or the defaults, examples and enum entries of a class
/// (DEC-44). Kubernetes has the same budget for an object.
#[derive(Debug)]
pub struct CelCost {
    units: Budget,
    /// Steps of work, since cost units do not reflect the time of an evaluation.
    steps: Budget,
}

impl CelCost {
    /// The full budget of an object; `what` names what is evaluated.
    pub fn for_object(units: &'static str) -> Self {
        CelCost {
            units: Budget::new(PER_OBJECT, units),
            steps: Budget::new(STEPS_PER_OBJECT, "steps of CEL evaluation"),
        }
    }

    fn take(&mut self, budget: &EvaluationBudget) -> Result<(), Exceeded> {
        let (units, steps) = budget.0.spent();
        let amount = |amount: u64| usize::try_from(amount).unwrap_or(usize::MAX);
        let units = self.units.take(amount(units));
        self.steps.take(amount(steps)).and(units)
    }

    /// Charges what `evaluate` spends.
    pub(crate) fn spend<R>(&mut self, evaluate: impl FnOnce(&mut EvaluationBudget) -> R) -> (R, Result<(), Exceeded>) {
        let mut budget = EvaluationBudget::new();
        let result = evaluate(&mut budget);
        (result, self.take(&budget))
    }
}

/// Cost units for all evaluations of one object.
const PER_OBJECT: usize = 10_000_000;

/// Steps for all evaluations of one object: about as many nanoseconds, or bytes of memory.
const STEPS_PER_OBJECT: usize = 400_000_000;

/// The budget of one checked value (CEL-026).
#[derive(Debug)]
pub(crate) struct EvaluationBudget(pub(super) Meter);

impl EvaluationBudget {
    /// A full budget.
    pub(crate) fn new() -> EvaluationBudget {
        EvaluationBudget(Meter::new())
    }

    /// The remaining cost units.
    pub(crate) fn left(&self) -> u64 {
        self.0.total()
    }

    /// Sets the remaining cost units.
    pub(crate) fn set_left(&mut self, units: u64) {
        self.0.set_total(units);
    }

    /// Sets the signal that ends evaluations.
    pub(crate) fn heed(&mut self, stop: &Stop) {
        self.0.heed(stop);
    }

    /// Whether another expression may run.
    pub(crate) fn has_run_out(&self) -> bool {
        self.0.is_spent()
    }
}

//! How many machines more or fewer than wanted there may be during a rollout (MA-22.1).

use crate::lifecycle::context::Fault;
use crate::lifecycle::machine_set::resolved;
use model::hub::machine_defaults::{MAX_SURGE, MAX_UNAVAILABLE};
use model::hub::{IntOrString, Object};

/// What a rollout keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// How many machines are wanted.
    pub(super) replicas: i64,
    /// How many there may be more.
    pub(super) surge: i64,
    /// How many may be unavailable.
    pub(super) unavailable: i64,
}

impl Limits {
    /// Limits in numbers: a surge is rounded up, unavailable machines are rounded down; if both are 0, one machine may be unavailable
    /// (MA-22.1).
    ///
    /// # Errors
    /// When one of them is not a number or a percentage.
    pub(super) fn new(replicas: i64, surge: &IntOrString, unavailable: &IntOrString) -> Result<Limits, Fault> {
        let surge = resolved(surge, replicas, true)?;
        let unavailable = match resolved(unavailable, replicas, false)? {
            0 if surge == 0 => 1,
            unavailable => unavailable,
        };
        Ok(Limits { replicas, surge, unavailable: unavailable.min(replicas) })
    }

    /// The limits of a MachineDeployment; 1 and 0 by default.
    ///
    /// # Errors
    /// When one of them is not a number or a percentage.
    pub(super) fn of(deployment: &Object, replicas: i64) -> Result<Limits, Fault> {
        let read = |name: &str, default: i32| -> Result<IntOrString, Fault> {
            let path = format!("spec.rollout.strategy.rollingUpdate.{name}");
            let Some(value) = deployment.at(&path) else { return Ok(IntOrString::Int(default)) };
            serde_json::from_value(value.clone()).map_err(|error| Fault::because(format!("{path}: {error}")))
        };
        Limits::new(replicas, &read("maxSurge", MAX_SURGE)?, &read("maxUnavailable", MAX_UNAVAILABLE)?)
    }

    /// How many machines have to be available.
    pub(super) fn min_available(self) -> i64 {
        (self.replicas - self.unavailable).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_or_percentages_of_the_replicas() {
        // MA-22.1
        let number = IntOrString::Int;
        let percent = |text: &str| IntOrString::String(text.to_owned());
        for (replicas, surge, unavailable, want) in [
            (3, number(1), number(0), Some((1, 0))),
            (10, percent("25%"), percent("25%"), Some((3, 2))),
            (3, number(0), number(0), Some((0, 1))),
            (1, number(0), percent("1%"), Some((0, 1))),
            (3, number(1), number(7), Some((1, 3))),
            (0, number(0), number(0), Some((0, 0))),
            (0, number(2), number(2), Some((2, 0))),
            (3, percent("x%"), number(0), None),
            (3, percent("1"), number(0), None),
        ] {
            let limits = Limits::new(replicas, &surge, &unavailable).ok();
            let case = format!("{replicas} {surge:?} {unavailable:?}");
            assert_eq!(limits.map(|limits| (limits.surge, limits.unavailable)), want, "{case}");
        }
    }
}

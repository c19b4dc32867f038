//! Limits on surplus and unavailable machines during a rollout (MA-22.1).

use crate::lifecycle::context::StepError;
use crate::lifecycle::machine_set::resolved;
use model::hub::machine_defaults::{MAX_SURGE, MAX_UNAVAILABLE};
use model::hub::{IntOrString, Object};

/// Limits of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RolloutLimits {
    /// Desired number of machines.
    pub(super) replicas: i64,
    /// Maximum number of surplus machines.
    pub(super) surge: i64,
    /// Maximum number of unavailable machines.
    pub(super) unavailable: i64,
}

impl RolloutLimits {
    /// Resolves percentages: surge is rounded up, unavailable machines are rounded down; if both are 0, one machine may
    /// be unavailable (MA-22.1).
    ///
    /// # Errors
    /// When a limit is neither a number nor a percentage.
    pub(super) fn new(
        replicas: i64,
        surge: &IntOrString,
        unavailable: &IntOrString,
    ) -> Result<RolloutLimits, StepError> {
        let surge = resolved(surge, replicas, true)?;
        let unavailable = match resolved(unavailable, replicas, false)? {
            0 if surge == 0 => 1,
            unavailable => unavailable,
        };
        Ok(RolloutLimits { replicas, surge, unavailable: unavailable.min(replicas) })
    }

    /// The limits of a MachineDeployment, by default 1 and 0.
    ///
    /// # Errors
    /// When a limit is neither a number nor a percentage.
    pub(super) fn for_deployment(deployment: &Object, replicas: i64) -> Result<RolloutLimits, StepError> {
        let read = |name: &str, default: i32| -> Result<IntOrString, StepError> {
            let path = format!("spec.rollout.strategy.rollingUpdate.{name}");
            let Some(value) = deployment.at(&path) else { return Ok(IntOrString::Int(default)) };
            serde_json::from_value(value.clone()).map_err(|error| StepError::failed(format!("{path}: {error}")))
        };
        RolloutLimits::new(replicas, &read("maxSurge", MAX_SURGE)?, &read("maxUnavailable", MAX_UNAVAILABLE)?)
    }

    /// Minimum number of available machines.
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
            let limits = RolloutLimits::new(replicas, &surge, &unavailable).ok();
            let case = format!("{replicas} {surge:?} {unavailable:?}");
            assert_eq!(limits.map(|limits| (limits.surge, limits.unavailable)), want, "{case}");
        }
    }
}

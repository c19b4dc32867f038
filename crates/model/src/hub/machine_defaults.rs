//! The defaults that admission gives objects of machines (MA-28), for all who compute with them.

/// How many seconds the deletion of the Node of a Machine is tried (MA-28.1.3).
pub const NODE_DELETION_TIMEOUT_SECONDS: i32 = 10;
/// The strategy of a MachineDeployment (MA-28.2.3).
pub const ROLLING_UPDATE: &str = "RollingUpdate";
/// How many machines a rolling update adds at a time (MA-28.2.3).
pub const MAX_SURGE: i32 = 1;
/// How many machines may be unavailable in a rolling update (MA-28.2.3).
pub const MAX_UNAVAILABLE: i32 = 0;
/// The number of machines of a group without the bounds of an autoscaler (MA-28.3.1).
pub const DEFAULT_REPLICAS: i32 = 1;

/// The number of machines of a group that asks for none and has the bounds of an autoscaler: the number that it `had`,
/// within the bounds, and the lower bound for a new group (MA-28.3.1).
pub fn replicas_within<N: Ord>(had: Option<N>, least: N, most: N) -> N {
    match had {
        Some(had) if had > most => most,
        Some(had) if had >= least => had,
        _ => least,
    }
}

#[cfg(test)]
mod tests {
    use super::replicas_within;

    #[test]
    fn replicas_stay_within_the_bounds() {
        // MA-28.3.1
        for (had, want) in [(None, 2), (Some(1), 2), (Some(2), 2), (Some(3), 3), (Some(5), 4)] {
            assert_eq!(replicas_within(had, 2, 4), want, "{had:?}");
        }
    }
}

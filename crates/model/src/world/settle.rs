//! The loop of all computations: compute, collect needs, gather and pin their answers, and compute again.
//!
//! ```text
//! World ─► compute ─► no needs: the result counts
//!   ▲         └─────► Needs ─► gather ─┐      at most ROUNDS times, then an error that names the Needs;
//!   │                                  │      rounds for the next external patch do not count, up to CALLS
//!   └──────────── answers are pinned ◄─┘
//! ```
//!
//! The webhook, the reconciler and `--live` gather from a cluster until a deadline; commands on files gather from
//! [`super::Facts`].

use std::collections::BTreeSet;
use std::future::ready;

use futures::FutureExt;

use super::{Answer, Need, World};

/// Maximum number of rounds before needs count as endless.
const ROUNDS: usize = 16;
/// Maximum number of additional rounds that only wait for extensions. External patches are computed one after another,
/// each from the result of the previous one, so a class needs one round per call.
const CALLS: usize = 256;
/// Maximum number of needs named in an error.
const NAMED: usize = 5;

/// The error of a computation that has new needs in every round.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("facts are still missing after {rounds} rounds: {}", named(.missing))]
pub struct Unsettled {
    rounds: usize,
    missing: BTreeSet<Need>,
}

fn named(needs: &BTreeSet<Need>) -> String {
    let named: Vec<String> = needs.iter().take(NAMED).map(Need::to_string).collect();
    let more = needs.len().checked_sub(NAMED + 1).map(|more| format!(" and {} more", more + 1));
    named.join(", ") + &more.unwrap_or_default()
}

/// The result of one round: the value, the world that was used, and the state for the next round.
pub type ComputeResult<T, S, E> = Result<(T, World, S), E>;

/// Computes until no fact is missing; returns the result and the world with all answers. `compute` may run on another
/// thread: it receives the world and its `state` and returns them. `gather` is responsible for deadlines.
///
/// # Errors
/// Errors of `compute` and `gather` immediately, and [`Unsettled`] if facts are missing after the last round.
pub async fn settle<T, S, E, C, G>(
    mut world: World,
    mut state: S,
    mut compute: impl FnMut(World, S) -> C,
    mut gather: impl FnMut(BTreeSet<Need>) -> G,
) -> Result<(T, World), E>
where
    E: From<Unsettled>,
    C: Future<Output = ComputeResult<T, S, E>>,
    G: Future<Output = Result<Vec<(Need, Answer)>, E>>,
{
    let (mut rounds, mut calls) = (0, 0);
    loop {
        let result;
        (result, world, state) = compute(world, state).await?;
        let needs = world.take_needs();
        if needs.is_empty() {
            return Ok((result, world));
        }
        let is_call = needs.iter().all(|need| matches!(need, Need::Patch(_)));
        *(if is_call { &mut calls } else { &mut rounds }) += 1;
        if rounds == ROUNDS || calls == CALLS {
            return Err(Unsettled { rounds: rounds + calls, missing: needs }.into());
        }
        gather(needs).await?.into_iter().for_each(|(need, answer)| world.pin(need, answer));
    }
}

/// As [`settle`], where gathering never waits, as with files.
///
/// # Errors
/// When facts are missing after the last round.
///
/// # Panics
/// Never: it polls a future that is ready.
pub fn settle_at_once<T>(
    world: World,
    mut compute: impl FnMut(&World) -> T,
    mut answer: impl FnMut(&Need) -> Answer,
) -> Result<T, Unsettled> {
    let compute = |world: World, ()| ready(Ok((compute(&world), world, ())));
    let mut answered = |need: Need| (need.clone(), answer(&need));
    let gather = |needs: BTreeSet<Need>| ready(Ok(needs.into_iter().map(&mut answered).collect()));
    let settled = settle(world, (), compute, gather).now_or_never().expect("everything is ready at once");
    settled.map(|(result, _)| result)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::hub::ObjectKey;
    use crate::world::{Facts, Found, PatchCall, PatchHook};

    fn world() -> World {
        World::new(Arc::new(Facts::default()))
    }

    fn class(number: usize) -> ObjectKey {
        ObjectKey::new("ns", format!("c{number}"))
    }

    /// Looks up a chain of classes, each as the previous one is known; returns how many exist.
    fn chain(world: &World, length: usize) -> usize {
        (0..length).take_while(|number| world.class(&class(*number)) == Found::Absent).count()
    }

    #[test]
    fn a_result_counts_only_when_nothing_is_missing() {
        for length in [0, 1, ROUNDS - 1] {
            let mut computed = 0;
            let mut gathered = Vec::new();
            let compute = |world: &World| {
                computed += 1;
                chain(world, length)
            };
            let answer = |need: &Need| {
                gathered.push(need.to_string());
                Facts::default().answer(need)
            };
            assert_eq!(settle_at_once(world(), compute, answer), Ok(length));
            assert_eq!((computed, gathered.len()), (length + 1, length), "each need is gathered once");
        }
    }

    #[test]
    fn running_out_of_rounds_names_what_is_missing() {
        let answer = |need: &Need| Facts::default().answer(need);
        let endless = settle_at_once(world(), |world| chain(world, ROUNDS), answer).unwrap_err();
        assert_eq!(endless.to_string(), "facts are still missing after 16 rounds: ClusterClass ns/c15");
        let many = |world: &World| {
            let known = chain(world, ROUNDS);
            (0..7).filter(|more| world.class(&class(1000 + 100 * known + more)) == Found::Absent).count()
        };
        let endless = settle_at_once(world(), many, answer).unwrap_err().to_string();
        let words = ["ClusterClass ns/c15, ClusterClass ns/c2500, ", "ClusterClass ns/c2503 and 3 more"];
        assert!(words.iter().all(|words| endless.contains(words)), "{endless}");
    }

    #[test]
    fn each_external_patch_has_a_round_of_its_own() {
        // PE-23
        let chained = |length: usize| {
            let compute = |world: &World| {
                let call = |number: usize| PatchCall {
                    hook: PatchHook::GeneratePatches,
                    extension: format!("generate.lab{number}"),
                    cluster: class(0),
                    request: "{}".to_owned(),
                };
                (0..length).take_while(|number| world.ask(&call(*number)) != Found::NotAsked).count()
            };
            let world = world().with_extensions();
            settle_at_once(world, compute, |need| Facts::default().answer(need))
        };
        assert_eq!(chained(CALLS - 1), Ok(CALLS - 1));
        let endless = chained(CALLS).unwrap_err().to_string();
        assert!(
            endless.starts_with("facts are still missing after 256 rounds: ") && endless.contains("lab255"),
            "{endless}"
        );
    }

    #[test]
    fn needs_without_an_answer_stay_missing() {
        let gathered = |_: BTreeSet<Need>| ready(Ok(Vec::new()));
        let compute = |world: World, ()| ready(Ok((chain(&world, 1), world, ())));
        let settled = settle(world(), (), compute, gathered).now_or_never().unwrap();
        assert_eq!(
            settled.map(|(result, _)| result),
            Err(Unsettled { rounds: ROUNDS, missing: [Need::Class(class_need(0))].into() })
        );
    }

    #[test]
    fn settling_returns_state_and_stops_at_the_first_error() {
        let failing = |world: World, round: usize| {
            let found = chain(&world, ROUNDS);
            assert_eq!(found, round);
            ready(if round == 3 { Err(TestError::Failed) } else { Ok(((), world, round + 1)) })
        };
        let gather = |needs: BTreeSet<Need>| {
            let answer = |need: Need| (need.clone(), Facts::default().answer(&need));
            ready(Ok(needs.into_iter().map(answer).collect()))
        };
        let settled = settle(world(), 0, failing, gather).now_or_never().unwrap();
        assert_eq!(settled.map(|_| ()), Err(TestError::Failed));
    }

    #[test]
    fn settling_ends_with_the_first_answer_that_cannot_be_gathered() {
        let mut rounds = 0;
        let compute = |world: World, ()| ready(Ok((chain(&world, ROUNDS), world, ())));
        let gather = |needs: BTreeSet<Need>| {
            rounds += 1;
            let answer = |need: Need| (need.clone(), Facts::default().answer(&need));
            ready(if rounds == 3 { Err(TestError::Failed) } else { Ok(needs.into_iter().map(answer).collect()) })
        };
        let settled = settle(world(), (), compute, gather).now_or_never().unwrap();
        assert_eq!((settled.map(|_| ()), rounds), (Err(TestError::Failed), 3));
    }

    #[derive(Debug, PartialEq)]
    enum TestError {
        Failed,
        Unsettled,
    }

    impl From<Unsettled> for TestError {
        fn from(_: Unsettled) -> Self {
            TestError::Unsettled
        }
    }

    fn class_need(number: usize) -> crate::world::SettledClass {
        crate::world::SettledClass(class(number))
    }
}

//! Waiting for a condition. A test that waits in vain fails with the condition and with what is there instead.

use std::future::{Ready, ready};
use std::time::{Duration, Instant};

/// How long anything that should happen at once may take on a busy machine.
pub const SOON: Duration = Duration::from_secs(30);
/// How long a rollout, or a part of it, may take on a busy machine.
pub const ROLLOUT: Duration = Duration::from_mins(2);

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until something holds; fails with what `state` returns after `limit`.
#[track_caller]
pub fn until(fact: &str, limit: Duration, mut holds: impl FnMut() -> bool, state: impl FnOnce() -> String) {
    until_some(fact, limit, || holds().then_some(()), state);
}

/// Waits until there is an answer, and returns it.
#[track_caller]
pub fn until_some<T>(
    fact: &str,
    limit: Duration,
    mut ask: impl FnMut() -> Option<T>,
    state: impl FnOnce() -> String,
) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        if Instant::now() > deadline {
            fail(fact, limit, &state());
        }
        std::thread::sleep(PAUSE);
    }
}

/// The same as [`until`], with a condition and a state that are asked for over the network.
pub async fn until_async(
    fact: &str,
    limit: Duration,
    mut holds: impl AsyncFnMut() -> bool,
    state: impl AsyncFnOnce() -> String,
) {
    until_some_async(fact, limit, async || holds().await.then_some(()), state).await;
}

/// The same as [`until_some`], with an answer and a state that are asked for over the network.
pub async fn until_some_async<T>(
    fact: &str,
    limit: Duration,
    mut ask: impl AsyncFnMut() -> Option<T>,
    state: impl AsyncFnOnce() -> String,
) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        if Instant::now() > deadline {
            fail(fact, limit, &state().await);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// No state: the fact says everything.
pub fn nothing() -> Ready<String> {
    ready(String::new())
}

#[track_caller]
fn fail(fact: &str, limit: Duration, state: &str) -> ! {
    panic!("after {limit:?} it does not hold that {fact}\n{state}")
}

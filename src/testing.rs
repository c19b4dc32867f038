//! How long properties are tried, and how long something takes.

use std::time::{Duration, Instant};

use proptest::test_runner::Config;

/// So many cases, unless `PROPTEST_CASES` asks for others: CI is in a hurry, a night is not (`docs/testing.md`).
pub(crate) fn cases(usual: u32) -> Config {
    let config = Config::default();
    let is_asked = std::env::var_os("PROPTEST_CASES").is_some();
    Config { cases: if is_asked { config.cases } else { usual }, ..config }
}

/// What `act` returns, and how long this thread was at it: the time of the processor where the system tells, since other
/// tests want it as well.
pub(crate) fn timed<R>(act: impl FnOnce() -> R) -> (R, Duration) {
    let (begun, before) = (Instant::now(), on_processor());
    let result = act();
    let taken = before.zip(on_processor()).map(|(before, after)| after.saturating_sub(before));
    (result, taken.unwrap_or_else(|| begun.elapsed()))
}

/// How long this thread has been on a processor.
fn on_processor() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(told.split(' ').next()?.parse().ok()?))
}

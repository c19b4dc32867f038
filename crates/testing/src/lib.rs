//! Helpers for the tests of several crates: numbers of cases, time measurement, captured log lines, and fixtures.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test fails")]

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use proptest::test_runner::Config;
use tracing::Dispatch;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// A configuration with `usual` cases per property, or with the number in `PROPTEST_CASES` (`docs/testing.md`).
pub fn cases(usual: u32) -> Config {
    let config = Config::default();
    let is_requested = std::env::var_os("PROPTEST_CASES").is_some();
    Config { cases: if is_requested { config.cases } else { usual }, ..config }
}

/// The result of `act` and the time that this thread took for it. This is processor time where the system reports it,
/// because other tests run at the same time.
pub fn timed<R>(act: impl FnOnce() -> R) -> (R, Duration) {
    let (begun, before) = (Instant::now(), on_processor());
    let result = act();
    let taken = before.zip(on_processor()).map(|(before, after)| after.saturating_sub(before));
    (result, taken.unwrap_or_else(|| begun.elapsed()))
}

/// The processor time of this thread.
fn on_processor() -> Option<Duration> {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(statistics.split(' ').next()?.parse().ok()?))
}

/// The log lines of a thread.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Collects what this thread logs, until the guard is dropped.
    pub fn collect() -> (Self, DefaultGuard) {
        // With a single subscriber in the process, a thread without one would switch off for all threads the log lines
        // that it is the first to reach.
        static ANOTHER: OnceLock<Dispatch> = OnceLock::new();
        ANOTHER.get_or_init(|| Dispatch::new(tracing_subscriber::registry()));
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::TRACE);
        let subscriber = subscriber.with_writer(lines.clone()).finish();
        (lines, tracing::subscriber::set_default(subscriber))
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}

/// A file or folder of `fixtures/`, which all crates share.
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(path)
}

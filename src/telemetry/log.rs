//! Structured logs on standard error.
//!
//! Lines are written by a thread of their own, so that a slow reader of the log does not hold up a review. When the reader
//! falls far behind, lines are dropped.

use std::io::IsTerminal;
use std::str::FromStr;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// How many lines may wait to be written. Their places are there from the start, and under load a line has 300 bytes.
const BACKLOG: usize = 16 * 1024;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Human-readable text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("log filter {0:?} is not valid: {1}")]
    Filter(String, #[source] tracing_subscriber::filter::ParseError),
    #[error("logging is set up already")]
    Twice,
}

/// Keeps the log going; dropping it writes what is left.
#[must_use = "lines are written until this is dropped"]
#[derive(Debug)]
pub struct Log {
    _writer: WorkerGuard,
}

/// Sends logs to standard error from now on; `filter` is `info`, or `topologist=debug,kube=warn`.
///
/// # Errors
/// When the filter does not parse or logging is set up already.
pub fn install(format: Format, filter: &str) -> Result<Log, LogError> {
    let filter = EnvFilter::from_str(filter).map_err(|error| LogError::Filter(filter.to_owned(), error))?;
    let (lines, writer) = NonBlockingBuilder::default().buffered_lines_limit(BACKLOG).finish(std::io::stderr());
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(std::io::stderr().is_terminal()).with_writer(lines);
    match format {
        Format::Text => builder.with_target(false).try_init(),
        Format::Json => builder.json().flatten_event(true).with_span_list(false).try_init(),
    }
    .map_err(|_| LogError::Twice)?;
    Ok(Log { _writer: writer })
}

/// Reports every panic in the log, where it has the request that it happened in.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let words =
            payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let location = panic.location().map(ToString::to_string);
        tracing::error!(panic = words.unwrap_or("no words"), location, "Panicked");
    }));
}

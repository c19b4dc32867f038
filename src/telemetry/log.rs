//! Structured logs on standard error.

use std::str::FromStr;

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
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

/// Sends logs to standard error from now on; `filter` is `info`, or `topologist=debug,kube=warn`.
///
/// # Errors
/// When the filter does not parse or logging is set up already.
pub fn install(format: Format, filter: &str) -> Result<(), LogError> {
    let filter = EnvFilter::from_str(filter).map_err(|error| LogError::Filter(filter.to_owned(), error))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Format::Text => builder.with_target(false).try_init(),
        Format::Json => builder.json().flatten_event(true).with_span_list(false).try_init(),
    }
    .map_err(|_| LogError::Twice)
}

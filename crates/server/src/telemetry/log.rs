//! Structured logs on standard error.
//!
//! Lines are written by a dedicated thread, so that a slow reader of the log does not delay a review. When the reader
//! falls far behind, lines are dropped. A line stays one line for any value of a field (DEC-64).

#![expect(clippy::disallowed_methods, reason = "logs are written here")]

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::str::FromStr;

use anstyle::Style;
use tracing::field::Field;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use schema::field::plain;

/// Capacity of the queue of lines. It is allocated at the start; under load a line has 300 bytes.
const BACKLOG: usize = 16 * 1024;

const ITALIC: Style = Style::new().italic();
const DIM: Style = Style::new().dimmed();

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Puts the cursor at the start of an empty line (carriage return, then the control sequence EL).
pub const ERASE_LINE: &str = "\r\x1b[K";

/// Further content of the screen to which log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    Nothing,
    /// A line of progress, which each log line erases.
    Progress,
}

/// Standard error, beside a line of progress or alone.
struct Screen {
    beside: Beside,
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stderr = io::stderr().lock();
        if self.beside == Beside::Progress {
            stderr.write_all(ERASE_LINE.as_bytes())?;
        }
        stderr.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The target of kube-rs's line about a failed request. The caller's own line about it follows.
const REQUEST_ERRORS: &str = "kube_client::client::builder";

/// Targets from the time when the program was one crate, with their current names; the longest first.
const FORMER_TARGETS: [(&str, &str); 9] = [
    ("topologist::extension_client", "topologist_server::extension_client"),
    ("topologist::certificates::tls", "topologist_tls::identity"),
    ("topologist::certificates", "topologist_server::certificates"),
    ("topologist::kubernetes", "topologist_server::kubernetes"),
    ("topologist::reconciler", "topologist_server::reconciler"),
    ("topologist::telemetry", "topologist_server::telemetry"),
    ("topologist::extension", "topologist_extension"),
    ("topologist::embedded", "topologist_apiserver"),
    ("topologist::webhook", "topologist_server::webhook"),
];

/// A directive with the current name of its target.
fn renamed(directive: &str) -> String {
    let former = FORMER_TARGETS.iter().find_map(|(former, now)| Some((now, directive.strip_prefix(former)?)));
    former.map_or_else(|| directive.to_owned(), |(now, rest)| format!("{now}{rest}"))
}

/// The filter of log lines; kube-rs's own line about each failed request is left out unless the filter names it.
fn filter(text: &str) -> Result<EnvFilter, LogError> {
    let names_kube = text.split(',').any(|directive| directive.starts_with("kube"));
    let renamed = text.split(',').map(renamed).collect::<Vec<_>>().join(",");
    let whole = if names_kube { renamed } else { format!("{renamed},{REQUEST_ERRORS}=off") };
    EnvFilter::from_str(&whole).map_err(|error| LogError::Filter(text.to_owned(), error))
}

/// Guard of the log; dropping it writes the remaining lines.
#[must_use = "lines are written until this is dropped"]
#[derive(Debug)]
pub struct Log {
    _writer: WorkerGuard,
}

/// Sends logs to standard error from now on; `filter` is `info`, or `topologist=debug,kube=warn`.
///
/// # Errors
/// When the filter does not parse or logging is set up already.
pub fn install(format: Format, filter: &str, beside: Beside) -> Result<Log, LogError> {
    let filter = self::filter(filter)?;
    let (lines, writer) = NonBlockingBuilder::default().buffered_lines_limit(BACKLOG).finish(Screen { beside });
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(std::io::stderr().is_terminal()).with_writer(lines);
    match format {
        Format::Text => builder.with_target(false).fmt_fields(debug_fn(write_field).delimited(" ")).try_init(),
        Format::Json => builder.json().flatten_event(true).with_span_list(false).try_init(),
    }
    .map_err(|_| LogError::Twice)?;
    Ok(Log { _writer: writer })
}

/// Writes a field in plain characters: names and messages may come from users, extensions and providers.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let value = format!("{value:?}");
    let value = plain(&value);
    match (field.name().trim_start_matches("r#"), writer.has_ansi_escapes()) {
        ("message", _) => writer.write_str(&value),
        (name, true) => write!(writer, "{ITALIC}{name}{ITALIC:#}{DIM}={DIM:#}{value}"),
        (name, false) => write!(writer, "{name}={value}"),
    }
}

/// Logs every panic, with the span of its request.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        tracing::error!(panic = payload(panic), location, "Panicked");
    }));
}

/// The message of a panic.
pub fn payload<'a>(panic: &'a PanicHookInfo<'_>) -> &'a str {
    panic.payload_as_str().unwrap_or("no words")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What is logged as text.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_stays_one_line_for_any_value() {
        // DEC-64
        let lines = Lines::default();
        let to = lines.clone();
        let fields = debug_fn(write_field).delimited(" ");
        let subscriber = tracing_subscriber::fmt().with_writer(move || to.clone()).without_time().with_ansi(false);
        let subscriber = subscriber.with_target(false).fmt_fields(fields).finish();
        let hostile = "a\n WARN all is well\r\u{1b}[2J\u{9b}\u{202e}";
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("reconcile", cluster = %hostile);
            let _entered = span.enter();
            tracing::info!(object = %hostile, text = hostile, r#type = 1, "Wrote {hostile}");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let shown = r"a\n WARN all is well\r\u{1b}[2J\u{9b}\u{202e}";
        let want =
            format!(" INFO reconcile{{cluster={shown}}}: Wrote {shown} object={shown} text=\"{shown}\" type=1\n");
        assert_eq!(text, want);
    }

    #[test]
    fn lines_of_kube_about_failed_requests_appear_only_if_a_filter_names_kube() {
        let off = format!("{REQUEST_ERRORS}=off");
        for (text, is_off) in [
            ("info", true),
            ("topologist::kubernetes=debug", true),
            ("info,kube=warn", false),
            ("info,kube_client=debug", false),
        ] {
            assert_eq!(filter(text).unwrap().to_string().contains(&off), is_off, "{text}");
        }
        assert!(filter("info, kube=warn").is_err());
    }

    #[test]
    fn filters_may_name_the_targets_of_earlier_versions() {
        for (text, want) in [
            ("topologist=debug", "topologist=debug"),
            ("topologist::kubernetes=debug", "topologist_server::kubernetes=debug"),
            ("topologist::kubernetes::apply=debug", "topologist_server::kubernetes::apply=debug"),
            ("topologist::embedded=trace", "topologist_apiserver=trace"),
            ("topologist::certificates::tls=trace", "topologist_tls::identity=trace"),
            ("topologist::extension_client=trace", "topologist_server::extension_client=trace"),
        ] {
            let filter = filter(text).unwrap().to_string();
            assert!(filter.split(',').any(|directive| directive == want), "{text}: {filter}");
        }
    }
}

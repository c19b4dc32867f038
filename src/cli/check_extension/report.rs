//! The output of `check-extension`.

use serde::Serialize;

use super::checker::{CheckedHandler, ExtensionChecker, HandlerRow};
use crate::cli::output::Text;
use engine::extensions::behavior::Finding;
use schema::field::{Level, counted};

/// The output of `-o json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExtensionReport {
    pub errors: usize,
    pub warnings: usize,
    handlers: Vec<HandlerReport>,
}

/// A handler and its findings.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HandlerReport {
    name: String,
    hook: &'static str,
    calls: usize,
    /// The longest call.
    milliseconds: u64,
    /// Why it was not called.
    not_called: Option<&'static str>,
    findings: Vec<FindingReport>,
}

/// A finding.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FindingReport {
    level: String,
    rule: &'static str,
    message: String,
    way_out: &'static str,
}

impl ExtensionReport {
    pub(super) fn from_checker(lab: &ExtensionChecker) -> Self {
        let rows = lab.rows();
        let findings = || rows.iter().filter_map(|row| row.checked.as_ref().ok()).flat_map(|checked| &checked.findings);
        let count = |level| findings().filter(|finding| finding.level == level).count();
        let (errors, warnings) = (count(Level::Error), count(Level::Warning));
        ExtensionReport { errors, warnings, handlers: rows.into_iter().map(HandlerReport::from_row).collect() }
    }

    pub(super) fn text(&self) -> Text {
        let mut text = Text::default();
        self.handlers.iter().for_each(|shown| shown.add_to(&mut text));
        let checked = self.handlers.iter().filter(|shown| shown.not_called.is_none()).count();
        let [checked, errors, warnings] = [(checked, "handler"), (self.errors, "error"), (self.warnings, "warning")]
            .map(|(number, what)| counted(number, what));
        text.line(format_args!("{checked} checked, {errors}, {warnings}"));
        text
    }
}

impl HandlerReport {
    fn from_row(HandlerRow { name, hook, checked }: HandlerRow) -> Self {
        let not_called = checked.as_ref().err().copied();
        let CheckedHandler { calls, milliseconds, findings } = checked.unwrap_or_default();
        let findings = findings.into_iter().map(|Finding { level, rule, message, way_out }| FindingReport {
            level: level.to_string(),
            rule,
            message,
            way_out,
        });
        HandlerReport { name, hook, calls, milliseconds, not_called, findings: findings.collect() }
    }

    fn add_to(&self, text: &mut Text) {
        let HandlerReport { name, hook, calls, milliseconds, findings, .. } = self;
        let done = match self.not_called {
            Some(reason) => format!("not called: {reason}"),
            None if findings.is_empty() => format!("{}, at most {milliseconds} ms: ok", counted(*calls, "call")),
            None => format!("{}, at most {milliseconds} ms", counted(*calls, "call")),
        };
        text.line(format_args!("{name} ({hook}): {done}"));
        for FindingReport { level, rule, message, way_out } in findings {
            text.line(format_args!("  {level} {rule}: {message}"));
            text.line(format_args!("    help: {way_out}"));
        }
    }
}

//! The output of `check-extension`.

use serde::Serialize;

use super::checker::{CheckedHandler, ExtensionChecker, HandlerRow};
use crate::cli::findings::{Finding, FindingObject, Report, SourceTexts};
use engine::extensions::behavior;
use schema::field::{Level, counted};

/// The output of `-o json --format-version 1`.
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

/// A handler in the output of version 2.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckedObject<'a> {
    name: &'a str,
    hook: &'a str,
    calls: usize,
    /// The longest call.
    milliseconds: u64,
    /// Why it was not called.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_called: Option<&'static str>,
}

/// A finding.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FindingReport {
    #[serde(skip)]
    severity: Level,
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

    /// The findings about handlers, which are in no file, and a line about each handler.
    pub(super) fn findings<'a>(&'a self, texts: &'a SourceTexts<'a>) -> Report<'a, CheckedObject<'a>> {
        let findings = self.handlers.iter().flat_map(|handler| {
            handler.findings.iter().map(|finding| {
                let FindingReport { severity, rule, message, way_out, .. } = finding;
                let fix = Some((*way_out).to_owned());
                Finding { fix, object: handler.object(), ..Finding::new(*severity, rule, message) }
            })
        });
        let objects = self.handlers.iter().map(HandlerReport::checked).collect();
        let is_called = |handler: &&HandlerReport| handler.not_called.is_none();
        let judged = self.handlers.iter().filter(is_called).map(HandlerReport::object).collect();
        let mut report = Report::new(findings.collect(), objects, judged, texts);
        self.handlers.iter().for_each(|handler| report.verdict(handler.verdict()));
        let checked = self.handlers.iter().filter(is_called).count();
        let [handlers, errors, warnings] = [(checked, "handler"), (self.errors, "error"), (self.warnings, "warning")]
            .map(|(number, what)| counted(number, what));
        report.verdict(format!("{handlers} checked, {errors}, {warnings}"));
        report.count("checked", checked);
        report
    }
}

impl HandlerReport {
    fn from_row(HandlerRow { name, hook, checked }: HandlerRow) -> Self {
        let not_called = checked.as_ref().err().copied();
        let CheckedHandler { calls, milliseconds, findings } = checked.unwrap_or_default();
        let findings = findings.into_iter().map(|behavior::Finding { level, rule, message, way_out }| FindingReport {
            severity: level,
            level: level.to_string(),
            rule,
            message,
            way_out,
        });
        HandlerReport { name, hook, calls, milliseconds, not_called, findings: findings.collect() }
    }

    /// `patches.lab (GeneratePatches): 12 calls, at most 3 ms: ok`
    fn verdict(&self) -> String {
        let HandlerReport { name, hook, calls, milliseconds, findings, .. } = self;
        let done = match self.not_called {
            Some(reason) => format!("not called: {reason}"),
            None if findings.is_empty() => format!("{}, at most {milliseconds} ms: ok", counted(*calls, "call")),
            None => format!("{}, at most {milliseconds} ms", counted(*calls, "call")),
        };
        format!("{name} ({hook}): {done}")
    }

    /// The handler as the object of findings, of the kind of its hook.
    fn object(&self) -> FindingObject {
        FindingObject { kind: self.hook.to_owned(), name: self.name.clone(), ..FindingObject::default() }
    }

    fn checked(&self) -> CheckedObject<'_> {
        let HandlerReport { name, hook, calls, milliseconds, not_called, .. } = self;
        CheckedObject { name, hook, calls: *calls, milliseconds: *milliseconds, not_called: *not_called }
    }
}

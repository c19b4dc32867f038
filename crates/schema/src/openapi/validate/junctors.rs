//! Alternatives: `allOf`, `anyOf`, `oneOf` and `not` (VAR-V-027).

use serde_json::Value;

use super::place::ValuePath;
use super::report::Report;
use crate::field::ErrorKind;
use crate::openapi::Schema;

impl Schema {
    /// VAR-V-027. The Invalid error of a junctor is reported at the whole value, at any depth.
    pub(super) fn check_junctors(&self, value: &Value, place: &ValuePath<'_>, report: &mut Report<'_>) {
        if self.not.is_none() && self.all_of.is_empty() && self.any_of.is_empty() && self.one_of.is_empty() {
            return;
        }
        let fails = |report: &mut Report<'_>, what: &str| {
            if report.has_room() {
                let detail = format!("{} must {what}", place.named());
                report.violation("VAR-V-027", ErrorKind::Invalid, &ValuePath::Root, detail);
            }
        };
        if let Some(node) = &self.not {
            let attempt = report.attempt(node, value, place);
            if attempt.violations.is_empty() {
                fails(report, "not be valid against the schema under \"not\"");
            }
            attempt.drop_violations();
        }
        let mut failed = Report::new(report.effort, report.kept);
        for node in &self.all_of {
            let attempt = report.attempt(node, value, place);
            failed.merge(attempt);
        }
        report.checks += failed.checks;
        if !failed.violations.is_empty() {
            fails(report, "be valid against every schema under \"allOf\"");
            failed.checks = 0;
            report.merge(failed);
        }
        if !self.any_of.is_empty() {
            let tried = report.try_each(&self.any_of, value, place);
            if tried.valid == 0 {
                fails(report, "be valid against at least one schema under \"anyOf\"");
            }
            report.conclude(tried, |valid| valid > 0);
        }
        if !self.one_of.is_empty() {
            let tried = report.try_each(&self.one_of, value, place);
            if tried.valid != 1 {
                let valid = tried.valid;
                fails(
                    report,
                    &format!("be valid against exactly one schema under \"oneOf\", and is valid against {valid}"),
                );
            }
            report.conclude(tried, |valid| valid == 1);
        }
    }
}

/// What became of the alternatives of a junctor.
struct Tried<'s> {
    /// How many are valid.
    valid: usize,
    /// How many checks the first of those made.
    checks: usize,
    /// Of the others the one of which most was checked, the first among equals.
    closest: Option<Report<'s>>,
}

impl<'s> Report<'s> {
    /// Holds the value against a schema, for itself.
    fn attempt(&self, node: &Schema, value: &Value, place: &ValuePath<'_>) -> Report<'s> {
        let mut attempt = Report::new(self.effort, self.kept);
        node.apply(value, place, &mut attempt);
        attempt
    }

    fn try_each(&self, nodes: &[Schema], value: &Value, place: &ValuePath<'_>) -> Tried<'s> {
        let mut tried = Tried { valid: 0, checks: 0, closest: None };
        for node in nodes {
            let attempt = self.attempt(node, value, place);
            let is_closest = tried.closest.as_ref().is_none_or(|closest| attempt.checks > closest.checks);
            let dropped = if attempt.violations.is_empty() {
                tried.checks = if tried.valid == 0 { attempt.checks } else { tried.checks };
                tried.valid += 1;
                None
            } else if is_closest {
                tried.closest.replace(attempt)
            } else {
                Some(attempt)
            };
            dropped.into_iter().for_each(Report::drop_violations);
        }
        tried
    }

    /// Counts the checks of the first valid alternative if the number of valid ones is right, and reports the closest one if
    /// none is valid.
    fn conclude(&mut self, tried: Tried<'s>, is_right: impl Fn(usize) -> bool) {
        self.checks += if is_right(tried.valid) { tried.checks } else { 0 };
        match tried.closest {
            Some(closest) if tried.valid == 0 => self.merge(closest),
            closest => closest.into_iter().for_each(Report::drop_violations),
        }
    }
}

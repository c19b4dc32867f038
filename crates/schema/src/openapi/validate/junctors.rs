//! Alternatives: `allOf`, `anyOf`, `oneOf` and `not` (VAR-V-027).

use serde_json::Value;

use super::place::ValuePath;
use super::report::ViolationReport;
use crate::field::ErrorKind;
use crate::openapi::Schema;

impl Schema {
    /// Checks junctors. Their error is reported at the whole value, at any depth (VAR-V-027).
    pub(super) fn check_junctors(&self, value: &Value, place: &ValuePath<'_>, report: &mut ViolationReport<'_>) {
        if self.not.is_none() && self.all_of.is_empty() && self.any_of.is_empty() && self.one_of.is_empty() {
            return;
        }
        let fails = |report: &mut ViolationReport<'_>, what: &str| {
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
        let mut failed = ViolationReport::new(report.effort, report.kept);
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

/// Results of the alternatives of a junctor.
struct AlternativeResults<'s> {
    /// Number of valid alternatives.
    valid: usize,
    /// Number of checks of the first valid one.
    checks: usize,
    /// The report of the invalid alternative with the most checks, the first among equals.
    closest: Option<ViolationReport<'s>>,
}

impl<'s> ViolationReport<'s> {
    /// Validates the value against an alternative in a separate report.
    fn attempt(&self, node: &Schema, value: &Value, place: &ValuePath<'_>) -> ViolationReport<'s> {
        let mut attempt = ViolationReport::new(self.effort, self.kept);
        node.apply(value, place, &mut attempt);
        attempt
    }

    fn try_each(&self, nodes: &[Schema], value: &Value, place: &ValuePath<'_>) -> AlternativeResults<'s> {
        let mut tried = AlternativeResults { valid: 0, checks: 0, closest: None };
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
            dropped.into_iter().for_each(ViolationReport::drop_violations);
        }
        tried
    }

    /// Counts the checks of the first valid alternative if the number of valid ones is right, and reports the closest
    /// one if none is valid.
    fn conclude(&mut self, tried: AlternativeResults<'s>, is_right: impl Fn(usize) -> bool) {
        self.checks += if is_right(tried.valid) { tried.checks } else { 0 };
        match tried.closest {
            Some(closest) if tried.valid == 0 => self.merge(closest),
            closest => closest.into_iter().for_each(ViolationReport::drop_violations),
        }
    }
}

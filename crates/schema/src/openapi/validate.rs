//! Validation of values against a schema (VAR-V-020 to VAR-V-028).

mod collections;
mod junctors;
mod patterns;
mod place;
mod report;
mod scalars;
mod types;

use std::cell::Cell;

use serde_json::Value;

use super::format::StringFormat;
use super::{Schema, ValidationEffort};
use crate::budget::Stop;
use crate::field::{ErrorKind, RuleId};
use report::ViolationReport;

pub(super) use place::ValuePath;

/// One error of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule that reports it.
    pub rule: RuleId,
    pub kind: ErrorKind,
    /// Path inside the value: empty for the value itself, else `.key`, `.key[0]` or `.[0]`.
    pub place: String,
    /// The same place as a JSON pointer (RFC 6901).
    pub pointer: String,
    pub detail: String,
}

impl Schema {
    /// All errors of `value`; unknown fields and CEL rules are checked separately.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        self.violations_within(value, &ValidationEffort::unlimited(&Stop::never()))
    }

    /// All errors within an effort: a value that exceeds it is invalid for that reason (DEC-44).
    pub fn violations_within(&self, value: &Value, effort: &ValidationEffort) -> Vec<Violation> {
        let kept = Cell::new(0);
        let mut report = ViolationReport::new(effort, &kept);
        self.apply(value, &ValuePath::Root, &mut report);
        if let Some(exceeded) = effort.exceeded() {
            report.violations.clear();
            let detail = format!("{exceeded}; make lists, maps and texts in the values smaller");
            report.violation("DEC-44", ErrorKind::Invalid, &ValuePath::Root, detail);
        }
        report.violations
    }

    /// Whether length, pattern and format of a string are valid.
    pub(super) fn fits_text(&self, text: &str, effort: &ValidationEffort) -> bool {
        let kept = Cell::new(0);
        let mut report = ViolationReport::new(effort, &kept);
        self.check_string(text, &ValuePath::Root, &mut report);
        report.violations.is_empty() && effort.exceeded().is_none()
    }

    fn apply(&self, value: &Value, place: &ValuePath<'_>, report: &mut ViolationReport<'_>) {
        if !report.effort.take(STEPS_OF_NODE) {
            return;
        }
        let is_formatted_array = self.check_type(value, place, report);
        report.checks += self.checks_of(value);
        if !value.is_null() && !is_formatted_array {
            match value {
                Value::String(text) => self.check_string(text, place, report),
                Value::Number(number) => self.check_number(number, place, report),
                Value::Array(elements) => self.check_array(elements, place, report),
                Value::Object(members) => self.check_object(members, place, report),
                Value::Bool(_) | Value::Null => {}
            }
        }
        self.check_enum(value, place, report);
        if !value.is_null() {
            self.check_junctors(value, place, report);
        }
    }

    /// Number of kinds of checks that a node makes for a value, apart from its type, whether or not they succeed
    /// (VAR-V-027).
    fn checks_of(&self, value: &Value) -> usize {
        let has_text_format = self.format.is_some_and(StringFormat::is_for_strings);
        // The node, its enum, and its junctors with and without entries.
        4 + match value {
            Value::Null => return 0,
            Value::Bool(_) => 0,
            Value::String(_) => 1 + usize::from(has_text_format),
            Value::Number(_) | Value::Array(_) => 2,
            Value::Object(_) => 1,
        }
    }
}

/// Steps charged for visiting a node.
pub(super) const STEPS_OF_NODE: usize = 8;

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

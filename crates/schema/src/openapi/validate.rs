//! Values against a schema (VAR-V-020 to VAR-V-028).

mod collections;
mod junctors;
mod place;
mod report;
mod scalars;
mod types;

use std::cell::Cell;

use serde_json::Value;

use super::format::Format;
use super::{Effort, Schema};
use crate::budget::Stop;
use crate::field::{ErrorKind, RuleId};
use report::Report;

pub(super) use place::ValuePath;

/// One thing that is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule that found it.
    pub rule: RuleId,
    pub kind: ErrorKind,
    /// Where inside the value: empty for the value itself, else `.key`, `.key[0]` or `.[0]`.
    pub place: String,
    /// The same as a JSON pointer (RFC 6901).
    pub pointer: String,
    pub detail: String,
}

impl Schema {
    /// Everything that is wrong with `value`; unknown fields and CEL rules are checked elsewhere.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        self.violations_within(value, &Effort::unlimited(&Stop::never()))
    }

    /// The same, as far as the effort goes: a value that takes more is wrong for that alone (DEC-44).
    pub fn violations_within(&self, value: &Value, effort: &Effort) -> Vec<Violation> {
        let kept = Cell::new(0);
        let mut report = Report::new(effort, &kept);
        self.apply(value, &ValuePath::Root, &mut report);
        if let Some(exceeded) = effort.exceeded() {
            report.violations.clear();
            let detail = format!("{exceeded}; make lists, maps and texts in the values smaller");
            report.violation("DEC-44", ErrorKind::Invalid, &ValuePath::Root, detail);
        }
        report.violations
    }

    /// Whether nothing is wrong with the length, the pattern and the format of a text.
    pub(super) fn fits_text(&self, text: &str, effort: &Effort) -> bool {
        let kept = Cell::new(0);
        let mut report = Report::new(effort, &kept);
        self.check_string(text, &ValuePath::Root, &mut report);
        report.violations.is_empty() && effort.exceeded().is_none()
    }

    fn apply(&self, value: &Value, place: &ValuePath<'_>, report: &mut Report<'_>) {
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

    /// How many kinds of checks a node makes of a value, its type aside; whether they are satisfied does not matter
    /// (VAR-V-027).
    fn checks_of(&self, value: &Value) -> usize {
        let has_text_format = self.format.is_some_and(Format::is_for_strings);
        // The node, its enum, and its junctors with and without their entries.
        4 + match value {
            Value::Null => return 0,
            Value::Bool(_) => 0,
            Value::String(_) => 1 + usize::from(has_text_format),
            Value::Number(_) | Value::Array(_) => 2,
            Value::Object(_) => 1,
        }
    }
}

/// What it takes to look at a node, in steps of effort.
pub(super) const STEPS_OF_NODE: usize = 8;

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

//! Violations found so far.

use std::cell::Cell;

use super::Violation;
use super::place::ValuePath;
use crate::field::{ErrorKind, RuleId};
use crate::openapi::ValidationEffort;

/// Maximum number of kept violations of one value.
const KEPT: usize = 1000;

/// Maximum bytes of the violations of one value, including those of alternatives being tried.
const KEPT_BYTES: usize = 4 << 20;

/// Steps charged for a violation: alternatives of a junctor discard theirs.
const STEPS_OF_VIOLATION: usize = 100;

/// Violations found so far. At least one is kept: a report without violations means a valid value.
pub(super) struct ViolationReport<'s> {
    pub effort: &'s ValidationEffort,
    /// Bytes of kept violations, of all reports on the value.
    pub kept: &'s Cell<usize>,
    pub violations: Vec<Violation>,
    /// Number of checks: the more, the closer an alternative of a junctor is to the value (VAR-V-027).
    pub checks: usize,
}

impl<'s> ViolationReport<'s> {
    pub(super) fn new(effort: &'s ValidationEffort, kept: &'s Cell<usize>) -> Self {
        ViolationReport { effort, kept, violations: Vec::new(), checks: 0 }
    }

    /// Whether another violation is kept.
    pub(super) fn has_room(&self) -> bool {
        self.violations.is_empty() || (self.violations.len() < KEPT && self.kept.get() < KEPT_BYTES)
    }

    pub(super) fn require(
        &mut self,
        fits: bool,
        rule: RuleId,
        kind: ErrorKind,
        place: &ValuePath<'_>,
        detail: impl FnOnce() -> String,
    ) {
        if !fits && self.has_room() {
            self.violation(rule, kind, place, detail());
        }
    }

    pub(super) fn violation(&mut self, rule: RuleId, kind: ErrorKind, place: &ValuePath<'_>, detail: String) {
        if self.has_room() {
            let violation = Violation { rule, kind, place: place.render(), pointer: place.pointer(), detail };
            let bytes = violation.bytes();
            self.kept.set(self.kept.get() + bytes);
            self.violations.push(violation);
            self.effort.take(STEPS_OF_VIOLATION + bytes / 4);
        }
    }

    /// Adds the violations of another report, as far as there is room.
    pub(super) fn merge(&mut self, mut other: ViolationReport<'_>) {
        self.checks += other.checks;
        let room = KEPT.saturating_sub(self.violations.len());
        self.violations.extend(other.violations.drain(..room.min(other.violations.len())));
        other.drop_violations();
    }

    /// Discards the violations and frees their share.
    pub(super) fn drop_violations(self) {
        let bytes: usize = self.violations.iter().map(Violation::bytes).sum();
        self.kept.set(self.kept.get().saturating_sub(bytes));
    }
}

impl Violation {
    /// Memory in bytes.
    fn bytes(&self) -> usize {
        size_of::<Violation>() + self.place.len() + self.pointer.len() + self.detail.len()
    }
}

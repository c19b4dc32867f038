//! The violations found so far.

use std::cell::Cell;

use super::Violation;
use super::place::ValuePath;
use crate::field::{ErrorKind, RuleId};
use crate::openapi::Effort;

/// How many violations of one value are kept.
const KEPT: usize = 1000;

/// How many bytes the violations of one value may have together, those of alternatives that are being tried included.
const KEPT_BYTES: usize = 4 << 20;

/// What it takes to say what is wrong: alternatives of a junctor say it for nothing.
const STEPS_OF_VIOLATION: usize = 100;

/// The violations found so far. At least one is kept: a report without violations is that of a valid value.
pub(super) struct Report<'s> {
    pub effort: &'s Effort,
    /// Bytes of violations that are kept, of all reports on the value.
    pub kept: &'s Cell<usize>,
    pub violations: Vec<Violation>,
    /// How many checks were made: the more, the closer an entry of a junctor comes to the value (VAR-V-027).
    pub checks: usize,
}

impl<'s> Report<'s> {
    pub(super) fn new(effort: &'s Effort, kept: &'s Cell<usize>) -> Self {
        Report { effort, kept, violations: Vec::new(), checks: 0 }
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

    /// Takes over what another report has, as far as there is room.
    pub(super) fn merge(&mut self, mut other: Report<'_>) {
        self.checks += other.checks;
        let room = KEPT.saturating_sub(self.violations.len());
        self.violations.extend(other.violations.drain(..room.min(other.violations.len())));
        other.drop_violations();
    }

    /// Makes room for others.
    pub(super) fn drop_violations(self) {
        let bytes: usize = self.violations.iter().map(Violation::bytes).sum();
        self.kept.set(self.kept.get().saturating_sub(bytes));
    }
}

impl Violation {
    /// How much memory it takes.
    fn bytes(&self) -> usize {
        size_of::<Violation>() + self.place.len() + self.pointer.len() + self.detail.len()
    }
}

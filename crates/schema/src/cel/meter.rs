//! The remaining budget of an evaluation (CEL-026).

use std::collections::HashMap;

use super::fault::EvalError;
use crate::budget::Stop;
use golang::regexp::Regex;

/// Cost units per evaluation of one expression.
pub(super) const PER_EXPRESSION: u64 = 1_000_000;

/// Cost units per checked value.
pub(super) const PER_VALUE: u64 = 10_000_000;

/// Work for a checked value, in about nanoseconds or bytes of memory.
///
/// Cost units do not reflect work: the size of a string of 3 MB costs one unit. Without this second budget, a rule that
/// is cheap in units could occupy a worker for seconds.
const WORK_PER_VALUE: u64 = 45_000_000;

/// Memory of a list element, and of a map entry with its key.
pub(super) const PER_ELEMENT: usize = 64;
pub(super) const PER_ENTRY: usize = 300;

/// Work between two checks of the deadline.
const BETWEEN_STOPS: u64 = 500_000;

/// Maximum number of cached patterns that come from values.
const KEPT_PATTERNS: usize = 64;

/// Maximum compiled size of a pattern that comes from a value, in bytes.
const MAX_PATTERN: usize = 256 << 10;

/// The budget of a checked value.
#[derive(Debug)]
pub(super) struct Meter {
    /// Units left for this value.
    total: u64,
    /// Units left for this expression.
    units: u64,
    /// Initial units of this expression.
    given: u64,
    work: u64,
    /// Work since the last check of `stop`.
    unasked: u64,
    stop: Stop,
    patterns: HashMap<String, Regex>,
}

impl Meter {
    pub(super) fn new() -> Meter {
        Meter {
            total: PER_VALUE,
            units: 0,
            given: 0,
            work: WORK_PER_VALUE,
            unasked: 0,
            stop: Stop::never(),
            patterns: HashMap::new(),
        }
    }

    /// Sets the signal that ends evaluations; their result is then discarded.
    pub(super) fn heed(&mut self, stop: &Stop) {
        self.stop = stop.clone();
    }

    /// Starts the evaluation of an expression.
    pub(super) fn begin(&mut self) {
        self.given = self.total.min(PER_EXPRESSION);
        self.units = self.given;
    }

    /// Ends the evaluation of an expression; returns its cost.
    pub(super) fn end(&mut self) -> u64 {
        let spent = self.given - self.units;
        self.total -= spent;
        self.given = self.units;
        spent
    }

    /// Whether another expression may run.
    pub(super) fn is_spent(&self) -> bool {
        self.total == 0 || self.work == 0
    }

    /// The cost units and work spent so far.
    pub(super) fn spent(&self) -> (u64, u64) {
        (PER_VALUE - self.total, WORK_PER_VALUE - self.work)
    }

    /// The remaining units.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Sets the remaining units.
    pub(super) fn set_total(&mut self, total: u64) {
        self.total = total;
    }

    pub(super) fn charge(&mut self, units: u64) -> Result<(), EvalError> {
        let left = self.units.checked_sub(units);
        self.units = left.unwrap_or(0);
        left.map(|_| ()).ok_or(EvalError::Spent)
    }

    pub(super) fn work(&mut self, amount: usize) -> Result<(), EvalError> {
        let amount = u64::try_from(amount).unwrap_or(u64::MAX);
        let left = self.work.checked_sub(amount);
        self.work = left.unwrap_or(0);
        self.unasked = self.unasked.saturating_add(amount);
        if self.unasked >= BETWEEN_STOPS {
            self.unasked = 0;
            if self.stop.is_due() {
                return Err(EvalError::Spent);
            }
        }
        left.map(|_| ()).ok_or(EvalError::Spent)
    }

    /// Compiles a pattern that is known only at run time, which is expensive.
    pub(super) fn regex(&mut self, pattern: &str) -> Result<Regex, EvalError> {
        if let Some(regex) = self.patterns.get(pattern) {
            return Ok(regex.clone());
        }
        let is_simple = !pattern.contains(['{', '\\', '[', '(']);
        self.work(pattern.len().saturating_mul(if is_simple { 20_000 } else { 100_000 }).saturating_add(100_000))?;
        let regex = Regex::within(pattern, MAX_PATTERN);
        // Short patterns may compile to large programs.
        self.work(regex.as_ref().map_or(4 * MAX_PATTERN, |regex| regex.footprint().saturating_mul(2)))?;
        let regex = regex.map_err(|error| EvalError::failed(format!("{error}")))?;
        if self.patterns.len() < KEPT_PATTERNS {
            self.patterns.insert(pattern.to_owned(), regex.clone());
        }
        Ok(regex)
    }
}

#[cfg(test)]
mod tests;

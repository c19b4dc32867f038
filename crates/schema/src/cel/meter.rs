//! The remaining budget of an evaluation (CEL-026).

use std::collections::HashMap;

use super::fault::Fault;
use crate::budget::Stop;
use golang::regexp::Regex;

/// Cost units per evaluation of one expression.
pub(super) const PER_EXPRESSION: u64 = 1_000_000;

/// Cost units per checked value.
pub(super) const PER_VALUE: u64 = 10_000_000;

/// What a checked value may make the machine do, in about nanoseconds or bytes of memory.
///
/// Cost units say little about that: the size of a text of 3 MB costs one unit. Without this second budget a rule that is
/// cheap in units could hold a worker for seconds.
const WORK_PER_VALUE: u64 = 45_000_000;

/// What an element of a list takes, and an entry of a map with what it is found by.
pub(super) const PER_ELEMENT: usize = 64;
pub(super) const PER_ENTRY: usize = 300;

/// After how much work the deadline is looked at.
const BETWEEN_STOPS: u64 = 500_000;

/// How many expressions that come from values are kept compiled.
const KEPT_PATTERNS: usize = 64;

/// A pattern that comes from a value may compile to this many bytes.
const MAX_PATTERN: usize = 256 << 10;

/// The budget of a checked value.
#[derive(Debug)]
pub(super) struct Meter {
    /// Left for this value.
    total: u64,
    /// Left for this expression.
    units: u64,
    /// What this expression was given.
    given: u64,
    work: u64,
    /// Work since `stop` was last checked.
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

    /// Ends evaluations when `stop` is due; what they result in is no result then.
    pub(super) fn heed(&mut self, stop: &Stop) {
        self.stop = stop.clone();
    }

    /// Begins the evaluation of an expression.
    pub(super) fn begin(&mut self) {
        self.given = self.total.min(PER_EXPRESSION);
        self.units = self.given;
    }

    /// Ends the evaluation of an expression, and says what it took.
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

    /// What is left of the total.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Sets what is left of the total.
    pub(super) fn set_total(&mut self, total: u64) {
        self.total = total;
    }

    pub(super) fn charge(&mut self, units: u64) -> Result<(), Fault> {
        let left = self.units.checked_sub(units);
        self.units = left.unwrap_or(0);
        left.map(|_| ()).ok_or(Fault::Spent)
    }

    pub(super) fn work(&mut self, amount: usize) -> Result<(), Fault> {
        let amount = u64::try_from(amount).unwrap_or(u64::MAX);
        let left = self.work.checked_sub(amount);
        self.work = left.unwrap_or(0);
        self.unasked = self.unasked.saturating_add(amount);
        if self.unasked >= BETWEEN_STOPS {
            self.unasked = 0;
            if self.stop.is_due() {
                return Err(Fault::Spent);
            }
        }
        left.map(|_| ()).ok_or(Fault::Spent)
    }

    /// An expression that is known only now; compiling one is dear.
    pub(super) fn regex(&mut self, pattern: &str) -> Result<Regex, Fault> {
        if let Some(regex) = self.patterns.get(pattern) {
            return Ok(regex.clone());
        }
        let is_simple = !pattern.contains(['{', '\\', '[', '(']);
        self.work(pattern.len().saturating_mul(if is_simple { 20_000 } else { 100_000 }).saturating_add(100_000))?;
        let regex = Regex::within(pattern, MAX_PATTERN);
        // Some patterns are large although they are short.
        self.work(regex.as_ref().map_or(4 * MAX_PATTERN, |regex| regex.footprint().saturating_mul(2)))?;
        let regex = regex.map_err(|error| Fault::of(format!("{error}")))?;
        if self.patterns.len() < KEPT_PATTERNS {
            self.patterns.insert(pattern.to_owned(), regex.clone());
        }
        Ok(regex)
    }
}

#[cfg(test)]
mod tests;

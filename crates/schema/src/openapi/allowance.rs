//! The budget of a set of schemas (DEC-44).

use std::cell::Cell;
use std::collections::HashMap;

use serde_json::Value;

use super::node::{Schema, SchemaError};
use super::validate::Violation;
use crate::budget::{Budget, Exceeded, Stop};
use crate::cel::{CelCost, EvaluationBudget};
use crate::field::Path;
use golang::regexp::{Regex, RegexError};

/// Maximum bytes of all compiled nodes, patterns, rules and templates of a set.
const MAX_COMPILED_BYTES: usize = 32 << 20;

/// Maximum bytes of one compiled pattern.
const MAX_PATTERN: usize = 4 << 20;

/// Maximum states of all compiled patterns of a set, with [`STATES_OF_PATTERN`] for each: some 80 ms of work.
const MAX_STATES: usize = 40_000;

/// Fixed cost of a pattern, in states.
const STATES_OF_PATTERN: usize = 100;

/// Approximate bytes of a state of a compiled program.
const BYTES_OF_STATE: usize = 128;

/// Maximum nodes of the expanded defaults of one schema, counting objects, lists and scalars.
const MAX_DEFAULT_NODES: usize = 10_000;

/// Maximum bytes of the expanded defaults of one schema.
const MAX_DEFAULT_BYTES: usize = 1 << 20;

/// Maximum bytes of the expanded defaults of all schemas of a set.
const MAX_ALL_DEFAULT_BYTES: usize = 4 << 20;

/// Maximum nodes and bytes that defaults add to the values of one object.
const MAX_ADDED_NODES: usize = 100_000;
const MAX_ADDED_BYTES: usize = 4 << 20;

/// Budget for the defaults that are added to values.
#[derive(Clone, Copy, Debug)]
pub struct DefaultsBudget {
    nodes: Budget,
    bytes: Budget,
}

/// Size of a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultSize {
    nodes: usize,
    bytes: usize,
}

impl DefaultSize {
    /// The size of a value.
    pub fn measure(value: &Value) -> Self {
        let (nodes, bytes) = size(value);
        DefaultSize { nodes, bytes }
    }
}

impl DefaultsBudget {
    /// The budget for all values of one object.
    pub const fn for_values() -> Self {
        DefaultsBudget {
            nodes: Budget::new(MAX_ADDED_NODES, "values that defaults add to one object"),
            bytes: Budget::new(MAX_ADDED_BYTES, "bytes that defaults add to one object"),
        }
    }

    /// The budget for the expanded defaults of one schema.
    const fn for_schema() -> Self {
        DefaultsBudget {
            nodes: Budget::new(MAX_DEFAULT_NODES, "values in the expanded defaults of one variable"),
            bytes: Budget::new(MAX_DEFAULT_BYTES, "bytes in the expanded defaults of one variable"),
        }
    }

    /// A budget without a limit, for trusted schemas.
    pub const fn unlimited() -> Self {
        DefaultsBudget { nodes: Budget::unlimited(), bytes: Budget::unlimited() }
    }

    /// Charges a copy of a default.
    ///
    /// # Errors
    /// When less is left.
    pub fn take(&mut self, default: &Value) -> Result<(), Exceeded> {
        self.take_extent(DefaultSize::measure(default))
    }

    /// Charges a default of a known size.
    ///
    /// # Errors
    /// When less is left.
    pub fn take_extent(&mut self, DefaultSize { nodes, bytes }: DefaultSize) -> Result<(), Exceeded> {
        self.nodes.take(nodes)?;
        self.bytes.take(bytes)
    }
}

/// Number of nodes of a value, and its approximate length as JSON.
fn size(value: &Value) -> (usize, usize) {
    let sum = |parts: &mut dyn Iterator<Item = (usize, usize)>| {
        parts.fold((1, 2), |(nodes, bytes), (more_nodes, more_bytes)| (nodes + more_nodes, bytes + more_bytes))
    };
    match value {
        Value::Object(members) => sum(&mut members.iter().map(|(name, member)| {
            let (nodes, bytes) = size(member);
            (nodes, bytes + name.len() + 4)
        })),
        Value::Array(elements) => sum(&mut elements.iter().map(|element| {
            let (nodes, bytes) = size(element);
            (nodes, bytes + 1)
        })),
        Value::String(text) => (1, text.len() + 2),
        Value::Number(_) => (1, 8),
        Value::Bool(_) | Value::Null => (1, 5),
    }
}

/// Budget for the validation of values. A class can make short values expensive: patterns with thousands of states, or
/// thousands of alternatives for each list element.
///
/// A step takes some nanoseconds. Uses cells, since many parts of one walk share the budget.
#[derive(Debug)]
pub struct ValidationEffort {
    limit: usize,
    left: Cell<usize>,
    is_exceeded: Cell<bool>,
    /// The remaining amount at which `stop` is polled next.
    ask_at: Cell<usize>,
    stop: Stop,
}

/// Steps for all values of one object, or all defaults, examples and enum entries of a class: about a fifth of a
/// second. A Cluster of a megabyte takes a tenth of it with known schemas.
const STEPS_OF_OBJECT: usize = 40_000_000;

/// Steps between two checks of the deadline.
const STEPS_BETWEEN_STOPS: usize = 65_536;

impl ValidationEffort {
    /// The budget for all values of one object.
    pub fn for_object(stop: &Stop) -> Self {
        ValidationEffort::new(STEPS_OF_OBJECT, stop)
    }

    /// A budget limited by time only, for trusted schemas, and for schemas accepted before the limit existed.
    pub fn unlimited(stop: &Stop) -> Self {
        ValidationEffort::new(usize::MAX, stop)
    }

    /// A budget of `steps`, for tests.
    #[cfg(test)]
    pub(super) fn with_steps(steps: usize) -> Self {
        ValidationEffort::new(steps, &Stop::never())
    }

    fn new(limit: usize, stop: &Stop) -> Self {
        let (left, ask_at) = (Cell::new(limit), Cell::new(limit.saturating_sub(STEPS_BETWEEN_STOPS)));
        ValidationEffort { limit, left, is_exceeded: Cell::new(false), ask_at, stop: stop.clone() }
    }

    /// Charges steps; returns whether to continue.
    #[inline]
    pub(super) fn take(&self, steps: usize) -> bool {
        match self.left.get().checked_sub(steps) {
            Some(left) if left > self.ask_at.get() => {
                self.left.set(left);
                true
            }
            left => self.ask(left),
        }
    }

    /// Checks the deadline. The budget is empty once it has passed, or if too much was charged.
    #[cold]
    fn ask(&self, left: Option<usize>) -> bool {
        let is_over = self.stop.is_due();
        self.is_exceeded.set(self.is_exceeded.get() || (left.is_none() && !is_over));
        let left = left.filter(|_| !is_over);
        self.left.set(left.unwrap_or(0));
        self.ask_at.set(self.left.get().saturating_sub(STEPS_BETWEEN_STOPS));
        left.is_some()
    }

    /// The error, if more was charged than available.
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.is_exceeded
            .get()
            .then_some(Exceeded { what: "steps of holding values against schemas", limit: self.limit })
    }

    fn taken(&self) -> usize {
        self.limit - self.left.get()
    }
}

/// Resources of a compiled schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of its nodes, patterns and rules.
    pub compiled: usize,
    states: usize,
    default_nodes: usize,
    default_bytes: usize,
    steps: usize,
}

impl Footprint {
    /// Total memory in bytes.
    pub fn bytes(&self) -> usize {
        self.compiled + self.default_bytes
    }
}

/// The remaining budget for a set of schemas, such as those of all variables of a ClusterClass.
#[derive(Debug)]
pub struct SchemaAllowance {
    compiled: Budget,
    /// Memory of patterns that are compiled only to check them.
    previews: Budget,
    /// States of the kept patterns.
    states: Budget,
    /// States charged when the last schema began.
    states_before: usize,
    /// States of all compiled patterns, each counted once.
    work: Budget,
    /// Budget for the defaults of each schema, and the remainder for the last one.
    defaults_of_each: DefaultsBudget,
    defaults: DefaultsBudget,
    all_defaults: Budget,
    /// Validation of defaults, examples and enum entries, and the amount used when the last schema began.
    effort: ValidationEffort,
    effort_before: usize,
    /// CEL cost of defaults, examples and enum entries.
    cost: CelCost,
    stop: Stop,
    /// Compiled patterns, since schemas repeat them.
    patterns: HashMap<String, Regex>,
    breach: Option<Breach>,
}

/// Amounts that schemas have used of an allowance, in the unit of each limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowanceUsage([usize; 4]);

impl AllowanceUsage {
    /// Whether it exceeds the other one in some unit.
    pub fn exceeds(self, other: AllowanceUsage) -> bool {
        self.0.iter().zip(other.0).any(|(one, other)| *one > other)
    }
}

/// The part of a set that exceeded the allowance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    pub path: Path,
    pub exceeded: Exceeded,
}

impl SchemaAllowance {
    /// The full budget of one set of schemas.
    pub fn new(stop: Stop) -> Self {
        let states = Budget::new(MAX_STATES, "states of compiled patterns, with 100 for each pattern");
        let compiled = Budget::new(MAX_COMPILED_BYTES, "bytes of compiled schemas, patterns, rules and templates");
        SchemaAllowance {
            compiled,
            previews: compiled,
            states,
            states_before: 0,
            work: states,
            defaults_of_each: DefaultsBudget::for_schema(),
            defaults: DefaultsBudget::for_schema(),
            effort: ValidationEffort::for_object(&stop),
            effort_before: 0,
            all_defaults: Budget::new(MAX_ALL_DEFAULT_BYTES, "bytes in the expanded defaults of all variables"),
            cost: CelCost::for_object("CEL cost units of defaults, examples and enum entries"),
            stop,
            patterns: HashMap::new(),
            breach: None,
        }
    }

    /// An allowance without limits, for trusted schemas.
    pub fn unlimited() -> Self {
        SchemaAllowance {
            compiled: Budget::unlimited(),
            previews: Budget::unlimited(),
            states: Budget::unlimited(),
            work: Budget::unlimited(),
            defaults_of_each: DefaultsBudget::unlimited(),
            defaults: DefaultsBudget::unlimited(),
            effort: ValidationEffort::unlimited(&Stop::never()),
            all_defaults: Budget::unlimited(),
            ..SchemaAllowance::new(Stop::never())
        }
    }

    /// Begins another schema of the set, with a new budget for its defaults.
    ///
    /// # Errors
    /// When the defaults of all schemas so far are too large.
    pub fn next_schema(&mut self) -> Result<(), Exceeded> {
        let taken = self.defaults.bytes.taken();
        self.defaults = self.defaults_of_each;
        self.effort_before = self.effort.taken();
        self.states_before = self.states.taken();
        self.all_defaults.take(taken)
    }

    /// Charges memory of a compiled part, in bytes.
    ///
    /// # Errors
    /// When less is left, or an earlier pattern has exceeded the limits of patterns.
    pub fn compile(&mut self, bytes: usize) -> Result<(), Exceeded> {
        for states in [&mut self.states, &mut self.work] {
            if states.left() == 0 {
                return Err(states.exhaust());
            }
        }
        self.compiled.take(bytes)
    }

    /// Resources used by the schema begun last.
    pub fn measure(&self, compiled_before: usize) -> Footprint {
        Footprint {
            compiled: self.compiled.taken() - compiled_before,
            states: self.states.taken() - self.states_before,
            default_nodes: self.defaults.nodes.taken(),
            default_bytes: self.defaults.bytes.taken(),
            steps: self.effort.taken() - self.effort_before,
        }
    }

    /// Bytes of compiled schemas, patterns, rules and templates charged so far.
    pub fn compiled_bytes(&self) -> usize {
        self.compiled.taken()
    }

    /// Bytes of the expanded defaults of all schemas before the last one.
    pub fn default_bytes(&self) -> usize {
        self.all_defaults.taken()
    }

    /// Charges the resources of a schema that is already compiled.
    ///
    /// # Errors
    /// When less is left.
    pub fn take(&mut self, footprint: Footprint) -> Result<(), Exceeded> {
        self.compiled.take(footprint.compiled)?;
        self.states.take(footprint.states)?;
        self.defaults.nodes.take(footprint.default_nodes)?;
        self.defaults.bytes.take(footprint.default_bytes)?;
        self.effort.take(footprint.steps);
        self.effort.exceeded().map_or(Ok(()), Err)
    }

    pub(super) fn growth(&mut self) -> &mut DefaultsBudget {
        &mut self.defaults
    }

    /// A compiled pattern. Cached patterns are charged again, so that the outcome does not depend on the cache.
    pub(super) fn pattern(&mut self, pattern: &str) -> Result<Regex, SchemaError> {
        if let Some(known) = self.patterns.get(pattern) {
            self.compiled.take(known.footprint())?;
            self.states.take(known.states() + STATES_OF_PATTERN)?;
            return Ok(known.clone());
        }
        let regex = compiled(pattern, &mut self.compiled, &mut self.work)?;
        self.states.take(regex.states() + STATES_OF_PATTERN)?;
        self.patterns.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    }

    /// Checks that a pattern compiles. All checked patterns of a set stay in memory, so their total is limited,
    /// regardless of the schemas they belong to.
    pub(super) fn preview(&mut self, pattern: &str) -> Result<(), SchemaError> {
        if !self.patterns.contains_key(pattern) {
            let regex = compiled(pattern, &mut self.previews, &mut self.work)?;
            self.patterns.insert(pattern.to_owned(), regex);
        }
        Ok(())
    }

    /// All errors of a value that belongs to a schema.
    ///
    /// # Errors
    /// When the remaining effort does not suffice.
    pub fn violations(&mut self, schema: &Schema, value: &Value) -> Result<Vec<Violation>, Exceeded> {
        let violations = schema.violations_within(value, &self.effort);
        self.effort.exceeded().map_or(Ok(violations), Err)
    }

    /// As [`SchemaAllowance::violations`]; a value that exceeds the effort is recorded as the breach.
    pub(super) fn violations_at(&mut self, path: &Path, schema: &Schema, value: &Value) -> Vec<Violation> {
        self.violations(schema, value).unwrap_or_else(|exceeded| {
            self.note_breach(path.clone(), exceeded);
            Vec::new()
        })
    }

    /// Evaluates the rules of a literal; the first that exceeds the remaining cost is recorded as the breach.
    pub(super) fn evaluate(
        &mut self,
        path: &Path,
        evaluate: impl FnOnce(&mut EvaluationBudget, &Stop) -> Vec<Violation>,
    ) -> Vec<Violation> {
        let stop = &self.stop;
        let (violations, cost) = self.cost.spend(|budget| evaluate(budget, stop));
        if let Err(exceeded) = cost {
            self.note_breach(path.clone(), exceeded);
        }
        violations
    }

    /// The signal to end work early.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// The amounts used so far.
    pub fn taken(&self) -> AllowanceUsage {
        let defaults = self.all_defaults.taken() + self.defaults.bytes.taken();
        AllowanceUsage([self.compiled.taken(), self.states.taken(), defaults, self.effort.taken()])
    }

    /// Records the part that exceeded the allowance; only the first one counts.
    pub fn note_breach(&mut self, path: Path, exceeded: Exceeded) {
        self.breach.get_or_insert(Breach { path, exceeded });
    }

    /// The part that exceeded the allowance.
    pub fn breach(&self) -> Option<&Breach> {
        self.breach.as_ref()
    }

    /// Whether remaining work should be skipped.
    pub fn is_over(&self) -> bool {
        self.breach.is_some() || self.stop.is_due()
    }
}

/// A pattern compiled within the remaining bytes and states.
fn compiled(pattern: &str, bytes: &mut Budget, states: &mut Budget) -> Result<Regex, SchemaError> {
    let limit = bytes.left().min(MAX_PATTERN);
    match Regex::bounded(pattern, limit, states.left().saturating_sub(STATES_OF_PATTERN)) {
        Ok(regex) => {
            bytes.take(regex.footprint())?;
            states.take(regex.states() + STATES_OF_PATTERN)?;
            Ok(regex)
        }
        Err(RegexError::TooManyStates { .. }) => Err(states.exhaust().into()),
        Err(RegexError::TooLarge { .. }) if limit < MAX_PATTERN => Err(bytes.exhaust().into()),
        Err(error) => {
            // It was compiled up to the limit, which takes as long as if it had been kept.
            if matches!(error, RegexError::TooLarge { .. }) {
                bytes.take(limit)?;
                states.take(limit / BYTES_OF_STATE)?;
            }
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests;

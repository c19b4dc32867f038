//! The budget that a set of schemas shares (DEC-44).

use std::cell::Cell;
use std::collections::HashMap;

use serde_json::Value;

use super::node::{Schema, Unusable};
use super::validate::Violation;
use crate::budget::{Exceeded, Pool, Stop};
use crate::cel::{Budget, CelCost};
use crate::field::Path;
use golang::regexp::{Regex, RegexError};

/// Bytes of all compiled nodes, patterns, rules and templates of a set.
const MAX_COMPILED_BYTES: usize = 32 << 20;

/// Bytes of the program of one pattern.
const MAX_PATTERN: usize = 4 << 20;

/// States of all compiled patterns of a set, with [`STATES_OF_PATTERN`] for each: some 80 ms of work.
const MAX_STATES: usize = 40_000;

/// What a pattern takes however small it is, in states.
const STATES_OF_PATTERN: usize = 100;

/// About how many bytes a state of a compiled program takes.
const BYTES_OF_STATE: usize = 128;

/// Nodes of the expanded defaults of one schema: every object, list and scalar counts.
const MAX_DEFAULT_NODES: usize = 10_000;

/// Bytes of the expanded defaults of one schema.
const MAX_DEFAULT_BYTES: usize = 1 << 20;

/// Bytes of the expanded defaults of all schemas of a set.
const MAX_ALL_DEFAULT_BYTES: usize = 4 << 20;

/// Nodes and bytes that defaults may add to the values of one object.
const MAX_ADDED_NODES: usize = 100_000;
const MAX_ADDED_BYTES: usize = 4 << 20;

/// What defaults add to values.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    nodes: Pool,
    bytes: Pool,
}

/// How large a default is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    nodes: usize,
    bytes: usize,
}

impl Extent {
    /// The extent of a value.
    pub fn of(value: &Value) -> Self {
        let (nodes, bytes) = size(value);
        Extent { nodes, bytes }
    }
}

impl Growth {
    /// What defaults may add to all values of one object.
    pub const fn of_values() -> Self {
        Growth {
            nodes: Pool::new(MAX_ADDED_NODES, "values that defaults add to one object"),
            bytes: Pool::new(MAX_ADDED_BYTES, "bytes that defaults add to one object"),
        }
    }

    /// What the expanded defaults of one schema may come to.
    const fn of_schema() -> Self {
        Growth {
            nodes: Pool::new(MAX_DEFAULT_NODES, "values in the expanded defaults of one variable"),
            bytes: Pool::new(MAX_DEFAULT_BYTES, "bytes in the expanded defaults of one variable"),
        }
    }

    /// Growth without a bound, for schemas that are trusted.
    pub const fn unlimited() -> Self {
        Growth { nodes: Pool::unlimited(), bytes: Pool::unlimited() }
    }

    /// Takes room for a copy of a default.
    ///
    /// # Errors
    /// When less is left.
    pub fn take(&mut self, default: &Value) -> Result<(), Exceeded> {
        self.take_extent(Extent::of(default))
    }

    /// Takes room for a copy of a default that is so large.
    ///
    /// # Errors
    /// When less is left.
    pub fn take_extent(&mut self, Extent { nodes, bytes }: Extent) -> Result<(), Exceeded> {
        self.nodes.take(nodes)?;
        self.bytes.take(bytes)
    }
}

/// Nodes of a value, and about how many bytes its JSON text has.
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

/// What it may take to hold values against schemas. A class may make little text very much work: patterns with thousands of
/// states, or thousands of alternatives for each element of a list.
///
/// A step takes some nanoseconds. Cells, since many parts of one walk share it.
#[derive(Debug)]
pub struct Effort {
    limit: usize,
    left: Cell<usize>,
    is_exceeded: Cell<bool>,
    /// When no more than this is left, `stop` is asked.
    ask_at: Cell<usize>,
    stop: Stop,
}

/// Steps for all values of one object, or all defaults, examples and enum entries of a class: a fifth of a second or so. A Cluster
/// of a megabyte takes a tenth with the schemas that are known.
const STEPS_OF_OBJECT: usize = 40_000_000;

/// After how many steps the deadline is looked at.
const STEPS_BETWEEN_STOPS: usize = 65_536;

impl Effort {
    /// What all values of one object may take.
    pub fn of_object(stop: &Stop) -> Self {
        Effort::new(STEPS_OF_OBJECT, stop)
    }

    /// Effort without a bound but time, for schemas that are trusted, and for schemas that were accepted before there was a bound.
    pub fn unlimited(stop: &Stop) -> Self {
        Effort::new(usize::MAX, stop)
    }

    /// Effort of so many steps, for tests.
    #[cfg(test)]
    pub(super) fn of_steps(steps: usize) -> Self {
        Effort::new(steps, &Stop::never())
    }

    fn new(limit: usize, stop: &Stop) -> Self {
        let (left, ask_at) = (Cell::new(limit), Cell::new(limit.saturating_sub(STEPS_BETWEEN_STOPS)));
        Effort { limit, left, is_exceeded: Cell::new(false), ask_at, stop: stop.clone() }
    }

    /// Takes steps; says whether to go on.
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

    /// Looks at the deadline. Nothing is left once that has passed, or too much was asked.
    #[cold]
    fn ask(&self, left: Option<usize>) -> bool {
        let is_over = self.stop.is_due();
        self.is_exceeded.set(self.is_exceeded.get() || (left.is_none() && !is_over));
        let left = left.filter(|_| !is_over);
        self.left.set(left.unwrap_or(0));
        self.ask_at.set(self.left.get().saturating_sub(STEPS_BETWEEN_STOPS));
        left.is_some()
    }

    /// Whether more was asked of it than it has.
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.is_exceeded
            .get()
            .then_some(Exceeded { what: "steps of holding values against schemas", limit: self.limit })
    }

    fn taken(&self) -> usize {
        self.limit - self.left.get()
    }
}

/// What a compiled schema takes.
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
    /// How much memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.compiled + self.default_bytes
    }
}

/// What is left for the schemas of a set, such as those of all variables of a ClusterClass.
#[derive(Debug)]
pub struct Allowance {
    compiled: Pool,
    /// What patterns take that are compiled to see whether they can be.
    previews: Pool,
    /// States of the patterns that are kept.
    states: Pool,
    /// How many of them were taken when the last schema was begun.
    states_before: usize,
    /// States of all patterns that were compiled, each once.
    work: Pool,
    /// What the defaults of each schema may take, and what is left of it for the last one.
    defaults_of_each: Growth,
    defaults: Growth,
    all_defaults: Pool,
    /// Of defaults, examples and enum entries; and how much was used when the last schema began.
    effort: Effort,
    effort_before: usize,
    /// CEL cost of defaults, examples and enum entries.
    cost: CelCost,
    stop: Stop,
    /// Patterns that were compiled already: many schemas repeat them.
    patterns: HashMap<String, Regex>,
    breach: Option<Breach>,
}

/// What schemas have taken of an allowance, in the unit of each bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken([usize; 4]);

impl Taken {
    /// Whether it is more than the other one in some unit.
    pub fn exceeds(self, other: Taken) -> bool {
        self.0.iter().zip(other.0).any(|(one, other)| *one > other)
    }
}

/// The part of a set that exceeded its allowance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    pub path: Path,
    pub exceeded: Exceeded,
}

impl Allowance {
    /// What the schemas of one set may take.
    pub fn new(stop: Stop) -> Self {
        let states = Pool::new(MAX_STATES, "states of compiled patterns, with 100 for each pattern");
        let compiled = Pool::new(MAX_COMPILED_BYTES, "bytes of compiled schemas, patterns, rules and templates");
        Allowance {
            compiled,
            previews: compiled,
            states,
            states_before: 0,
            work: states,
            defaults_of_each: Growth::of_schema(),
            defaults: Growth::of_schema(),
            effort: Effort::of_object(&stop),
            effort_before: 0,
            all_defaults: Pool::new(MAX_ALL_DEFAULT_BYTES, "bytes in the expanded defaults of all variables"),
            cost: CelCost::of_object("CEL cost units of defaults, examples and enum entries"),
            stop,
            patterns: HashMap::new(),
            breach: None,
        }
    }

    /// No bound at all, for schemas that are trusted.
    pub fn unlimited() -> Self {
        Allowance {
            compiled: Pool::unlimited(),
            previews: Pool::unlimited(),
            states: Pool::unlimited(),
            work: Pool::unlimited(),
            defaults_of_each: Growth::unlimited(),
            defaults: Growth::unlimited(),
            effort: Effort::unlimited(&Stop::never()),
            all_defaults: Pool::unlimited(),
            ..Allowance::new(Stop::never())
        }
    }

    /// Begins another schema of the set, which has defaults of its own.
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

    /// Takes memory for something compiled, in bytes.
    ///
    /// # Errors
    /// When less is left, or a pattern before has exceeded what patterns may take.
    pub fn compile(&mut self, bytes: usize) -> Result<(), Exceeded> {
        for states in [&mut self.states, &mut self.work] {
            if states.left() == 0 {
                return Err(states.exhaust());
            }
        }
        self.compiled.take(bytes)
    }

    /// What the schema that was begun last, and nothing since, has taken.
    pub fn measure(&self, compiled_before: usize) -> Footprint {
        Footprint {
            compiled: self.compiled.taken() - compiled_before,
            states: self.states.taken() - self.states_before,
            default_nodes: self.defaults.nodes.taken(),
            default_bytes: self.defaults.bytes.taken(),
            steps: self.effort.taken() - self.effort_before,
        }
    }

    /// How many bytes of compiled schemas, patterns, rules and templates were taken.
    pub fn compiled_bytes(&self) -> usize {
        self.compiled.taken()
    }

    /// How many bytes the expanded defaults of all schemas took that were begun before the last one.
    pub fn default_bytes(&self) -> usize {
        self.all_defaults.taken()
    }

    /// Takes what a schema takes that is compiled already.
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

    pub(super) fn growth(&mut self) -> &mut Growth {
        &mut self.defaults
    }

    /// A compiled pattern. It is taken from the pool each time, so that the outcome does not depend on what is known already.
    pub(super) fn pattern(&mut self, pattern: &str) -> Result<Regex, Unusable> {
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

    /// Whether a pattern compiles. All patterns of a set that are checked like this stay in memory, so they have a sum, regardless of
    /// the schemas that have them.
    pub(super) fn preview(&mut self, pattern: &str) -> Result<(), Unusable> {
        if !self.patterns.contains_key(pattern) {
            let regex = compiled(pattern, &mut self.previews, &mut self.work)?;
            self.patterns.insert(pattern.to_owned(), regex);
        }
        Ok(())
    }

    /// Everything that is wrong with a value that belongs to a schema.
    ///
    /// # Errors
    /// When less effort is left than that takes.
    pub fn violations(&mut self, schema: &Schema, value: &Value) -> Result<Vec<Violation>, Exceeded> {
        let violations = schema.violations_within(value, &self.effort);
        self.effort.exceeded().map_or(Ok(violations), Err)
    }

    /// The same; a value that takes more effort than is left is noted as the part that exceeded the allowance.
    pub(super) fn violations_at(&mut self, path: &Path, schema: &Schema, value: &Value) -> Vec<Violation> {
        self.violations(schema, value).unwrap_or_else(|exceeded| {
            self.note_breach(path.clone(), exceeded);
            Vec::new()
        })
    }

    /// Evaluates the rules of a literal; the first one that costs more than is left is noted as the part that exceeded the
    /// allowance.
    pub(super) fn evaluate(
        &mut self,
        path: &Path,
        evaluate: impl FnOnce(&mut Budget, &Stop) -> Vec<Violation>,
    ) -> Vec<Violation> {
        let stop = &self.stop;
        let (violations, cost) = self.cost.spend(|budget| evaluate(budget, stop));
        if let Err(exceeded) = cost {
            self.note_breach(path.clone(), exceeded);
        }
        violations
    }

    /// Whether the work should end.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// The amounts taken so far.
    pub fn taken(&self) -> Taken {
        let defaults = self.all_defaults.taken() + self.defaults.bytes.taken();
        Taken([self.compiled.taken(), self.states.taken(), defaults, self.effort.taken()])
    }

    /// Notes which part exceeded the allowance; only the first one counts.
    pub fn note_breach(&mut self, path: Path, exceeded: Exceeded) {
        self.breach.get_or_insert(Breach { path, exceeded });
    }

    /// The part that exceeded the allowance.
    pub fn breach(&self) -> Option<&Breach> {
        self.breach.as_ref()
    }

    /// Whether to skip everything that is left.
    pub fn is_over(&self) -> bool {
        self.breach.is_some() || self.stop.is_due()
    }
}

/// Compiles a pattern within what is left of bytes and states.
fn compiled(pattern: &str, bytes: &mut Pool, states: &mut Pool) -> Result<Regex, Unusable> {
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

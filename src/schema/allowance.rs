//! What a set of schemas may take together (DEC-44).

use std::collections::HashMap;

use serde_json::Value;

use super::cel::{Budget, CelCost};
use super::node::Unusable;
use super::validate::Violation;
use crate::budget::{Exceeded, Pool, Stop};
use crate::field::Path;
use crate::goregex::{MAX_COMPILED, Regex, RegexError};

/// Bytes of all compiled nodes, patterns, rules and templates of a set.
const MAX_COMPILED_BYTES: usize = 32 << 20;

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
        let (nodes, bytes) = size(default);
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

/// What a compiled schema takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of its nodes, patterns and rules.
    pub compiled: usize,
    default_nodes: usize,
    default_bytes: usize,
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
    defaults: Growth,
    all_defaults: Pool,
    /// CEL cost of defaults, examples and enum entries.
    cost: CelCost,
    stop: Stop,
    /// Patterns that were compiled already: many schemas repeat them.
    patterns: HashMap<String, Regex>,
    breach: Option<Breach>,
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
        Allowance {
            compiled: Pool::new(MAX_COMPILED_BYTES, "bytes of compiled schemas, patterns, rules and templates"),
            defaults: Growth::of_schema(),
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
            defaults: Growth::unlimited(),
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
        self.defaults = match self.all_defaults.left() {
            usize::MAX => Growth::unlimited(),
            _ => Growth::of_schema(),
        };
        self.all_defaults.take(taken)
    }

    /// Takes memory for something compiled, in bytes.
    ///
    /// # Errors
    /// When less is left.
    pub fn compile(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.compiled.take(bytes)
    }

    /// The pool that compiled patterns of rules are taken from.
    pub(super) fn compiled(&mut self) -> &mut Pool {
        &mut self.compiled
    }

    /// What the schema that was begun last, and nothing since, has taken.
    pub fn measure(&self, compiled_before: usize) -> Footprint {
        Footprint {
            compiled: self.compiled.taken() - compiled_before,
            default_nodes: self.defaults.nodes.taken(),
            default_bytes: self.defaults.bytes.taken(),
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
        self.defaults.nodes.take(footprint.default_nodes)?;
        self.defaults.bytes.take(footprint.default_bytes)
    }

    pub(super) fn growth(&mut self) -> &mut Growth {
        &mut self.defaults
    }

    /// A compiled pattern. It is taken from the pool each time, so that the outcome does not depend on what is known already.
    pub(super) fn pattern(&mut self, pattern: &str) -> Result<Regex, Unusable> {
        let mut pool = self.compiled;
        let regex = self.compiled_pattern(pattern, &mut pool);
        self.compiled = pool;
        regex
    }

    /// What is left for compiled patterns, to look at them before they are taken.
    pub(super) fn preview(&self) -> Pool {
        self.compiled
    }

    /// A compiled pattern, taken from a pool.
    pub(super) fn compiled_pattern(&mut self, pattern: &str, pool: &mut Pool) -> Result<Regex, Unusable> {
        if let Some(known) = self.patterns.get(pattern) {
            pool.take(known.footprint())?;
            return Ok(known.clone());
        }
        let regex = within(pattern, pool)?;
        self.patterns.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
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

/// Compiles a pattern within what is left of a pool.
pub(super) fn within(pattern: &str, pool: &mut Pool) -> Result<Regex, Unusable> {
    let limit = pool.left().min(MAX_COMPILED);
    match Regex::within(pattern, limit) {
        Ok(regex) => {
            pool.take(regex.footprint())?;
            Ok(regex)
        }
        Err(RegexError::TooLarge { .. }) if limit < MAX_COMPILED => Err(pool.exhaust().into()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;

//! The limits of a rendering, and how much of them it has used.

use std::collections::BTreeMap;

use super::error::Failure;
use super::value::{Elements, Heap, Map, Value};
use crate::regexp::{Regex, RegexError};

/// What one rendering may take; beyond it, it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Instructions, operands, rounds of `range` and the like.
    pub steps: usize,
    /// Bytes of the result.
    pub output: usize,
    /// Bytes that functions read and make on the way.
    pub work: usize,
}

impl Default for Limits {
    /// Far beyond what templates of classes need, and over in some ten milliseconds.
    fn default() -> Self {
        Self { steps: 200_000, output: 1 << 20, work: 8 << 20 }
    }
}

/// The memory of a list element or map member.
const ELEMENT: usize = 64;

/// A compiled regular expression may take this many bytes.
const MAX_REGEX: usize = 256 << 10;

/// What compiling a regular expression counts, on top of 100 for each byte of the pattern.
const REGEX_WORK: usize = 128 << 10;

/// Values, compiled patterns and the budget of one rendering.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) heap: Heap<'a>,
    limits: Limits,
    steps: usize,
    work: usize,
    patterns: BTreeMap<String, Result<Regex, RegexError>>,
}

impl<'a> Context<'a> {
    pub(super) fn new(limits: Limits) -> Self {
        Self { heap: Heap::default(), limits, steps: 0, work: 0, patterns: BTreeMap::new() }
    }

    /// Counts a step.
    pub(super) fn step(&mut self) -> Result<(), Failure> {
        self.steps(1)
    }

    /// Counts steps.
    pub(super) fn steps(&mut self, count: usize) -> Result<(), Failure> {
        self.steps = self.steps.saturating_add(count);
        match self.steps > self.limits.steps {
            true => Err(Failure::Limit { what: "steps", limit: self.limits.steps }),
            false => Ok(()),
        }
    }

    /// Counts bytes read or made.
    pub(super) fn work(&mut self, bytes: usize) -> Result<(), Failure> {
        self.work = self.work.saturating_add(bytes);
        match self.work > self.limits.work {
            true => Err(Failure::Limit { what: "bytes of work", limit: self.limits.work }),
            false => Ok(()),
        }
    }

    /// How many bytes may still be made.
    pub(super) fn left(&self) -> usize {
        self.limits.work.saturating_sub(self.work)
    }

    /// A text that a function made.
    pub(super) fn text(&mut self, text: String) -> Result<Value<'a>, Failure> {
        self.work(text.len())?;
        Ok(text.into())
    }

    /// A list that a function made.
    pub(super) fn list(&mut self, elements: Elements, items: Vec<Value<'a>>) -> Result<Value<'a>, Failure> {
        self.work(ELEMENT.saturating_mul(items.len() + 1))?;
        Ok(self.heap.list(elements, items))
    }

    /// A `[]interface {}`.
    pub(super) fn any_list(&mut self, items: Vec<Value<'a>>) -> Result<Value<'a>, Failure> {
        self.list(Elements::Any, items)
    }

    /// A `[]string`.
    pub(super) fn text_list(
        &mut self,
        items: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Value<'a>, Failure> {
        let mut values = Vec::new();
        for item in items {
            let item: String = item.into();
            self.work(item.len() + ELEMENT)?;
            values.push(item.into());
        }
        Ok(self.heap.list(Elements::Text, values))
    }

    /// A `map[string]interface {}`.
    pub(super) fn map(&mut self, members: Vec<(std::rc::Rc<str>, Value<'a>)>) -> Result<Map<'a>, Failure> {
        self.work(members.iter().map(|(key, _)| key.len() + ELEMENT).sum::<usize>() + ELEMENT)?;
        Ok(self.heap.map(members))
    }

    /// Changes a member of a map.
    pub(super) fn set(&mut self, map: Map<'a>, key: &str, value: Value<'a>) -> Result<(), Failure> {
        let copied = if matches!(map, Map::Json(_)) { self.heap.map_len(map) } else { 0 };
        self.work(key.len().saturating_add(ELEMENT.saturating_mul(copied + 1)))?;
        self.heap.set(map, key, value);
        Ok(())
    }

    /// A compiled regular expression; compiling counts as work.
    pub(super) fn regex(&mut self, pattern: &str) -> Result<Result<Regex, RegexError>, Failure> {
        if let Some(known) = self.patterns.get(pattern) {
            return Ok(known.clone());
        }
        self.work(REGEX_WORK.saturating_add(pattern.len().saturating_mul(100)))?;
        let compiled = Regex::within(pattern, MAX_REGEX);
        self.patterns.insert(pattern.to_owned(), compiled.clone());
        Ok(compiled)
    }
}

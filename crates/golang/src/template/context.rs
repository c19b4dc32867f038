//! Limits of a rendering, and the amounts used so far.

use std::collections::BTreeMap;

use super::error::RenderFailure;
use super::value::{ElementType, Heap, MapRef, TemplateValue};
use crate::regexp::{Regex, RegexError};

/// Limits of one rendering; exceeding one is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderLimits {
    /// Instructions, operands, rounds of `range` and the like.
    pub steps: usize,
    /// Bytes of the result.
    pub output: usize,
    /// Bytes that functions read and create.
    pub work: usize,
}

impl Default for RenderLimits {
    /// Far above the needs of class templates; a rendering that reaches them takes some ten milliseconds.
    fn default() -> Self {
        Self { steps: 200_000, output: 1 << 20, work: 8 << 20 }
    }
}

/// The memory of a list element or map member.
const ELEMENT: usize = 64;

/// Maximum compiled size of a regular expression, in bytes.
const MAX_REGEX: usize = 256 << 10;

/// Work counted for compiling a regular expression, on top of 100 for each byte of the pattern.
const REGEX_WORK: usize = 128 << 10;

/// Values, compiled patterns and the budget of one rendering.
#[derive(Debug)]
pub(super) struct RenderContext<'a> {
    pub(super) heap: Heap<'a>,
    limits: RenderLimits,
    steps: usize,
    work: usize,
    patterns: BTreeMap<String, Result<Regex, RegexError>>,
}

impl<'a> RenderContext<'a> {
    pub(super) fn new(limits: RenderLimits) -> Self {
        Self { heap: Heap::default(), limits, steps: 0, work: 0, patterns: BTreeMap::new() }
    }

    /// Counts a step.
    pub(super) fn step(&mut self) -> Result<(), RenderFailure> {
        self.steps(1)
    }

    /// Counts steps.
    pub(super) fn steps(&mut self, count: usize) -> Result<(), RenderFailure> {
        self.steps = self.steps.saturating_add(count);
        match self.steps > self.limits.steps {
            true => Err(RenderFailure::Limit { what: "steps", limit: self.limits.steps }),
            false => Ok(()),
        }
    }

    /// Counts bytes read or made.
    pub(super) fn work(&mut self, bytes: usize) -> Result<(), RenderFailure> {
        self.work = self.work.saturating_add(bytes);
        match self.work > self.limits.work {
            true => Err(RenderFailure::Limit { what: "bytes of work", limit: self.limits.work }),
            false => Ok(()),
        }
    }

    /// The number of bytes that may still be created.
    pub(super) fn left(&self) -> usize {
        self.limits.work.saturating_sub(self.work)
    }

    /// A new text, counted.
    pub(super) fn text(&mut self, text: String) -> Result<TemplateValue<'a>, RenderFailure> {
        self.work(text.len())?;
        Ok(text.into())
    }

    /// A new list, counted.
    pub(super) fn list(
        &mut self,
        elements: ElementType,
        items: Vec<TemplateValue<'a>>,
    ) -> Result<TemplateValue<'a>, RenderFailure> {
        self.work(ELEMENT.saturating_mul(items.len() + 1))?;
        Ok(self.heap.list(elements, items))
    }

    /// A `[]interface {}`.
    pub(super) fn any_list(&mut self, items: Vec<TemplateValue<'a>>) -> Result<TemplateValue<'a>, RenderFailure> {
        self.list(ElementType::Any, items)
    }

    /// A `[]string`.
    pub(super) fn text_list(
        &mut self,
        items: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<TemplateValue<'a>, RenderFailure> {
        let mut values = Vec::new();
        for item in items {
            let item: String = item.into();
            self.work(item.len() + ELEMENT)?;
            values.push(item.into());
        }
        Ok(self.heap.list(ElementType::Text, values))
    }

    /// A `map[string]interface {}`.
    pub(super) fn map(
        &mut self,
        members: Vec<(std::rc::Rc<str>, TemplateValue<'a>)>,
    ) -> Result<MapRef<'a>, RenderFailure> {
        self.work(members.iter().map(|(key, _)| key.len() + ELEMENT).sum::<usize>() + ELEMENT)?;
        Ok(self.heap.map(members))
    }

    /// Changes a member of a map.
    pub(super) fn set(&mut self, map: MapRef<'a>, key: &str, value: TemplateValue<'a>) -> Result<(), RenderFailure> {
        let copied = if matches!(map, MapRef::Json(_)) { self.heap.map_len(map) } else { 0 };
        self.work(key.len().saturating_add(ELEMENT.saturating_mul(copied + 1)))?;
        self.heap.set(map, key, value);
        Ok(())
    }

    /// A compiled regular expression; compiling counts as work.
    pub(super) fn regex(&mut self, pattern: &str) -> Result<Result<Regex, RegexError>, RenderFailure> {
        if let Some(known) = self.patterns.get(pattern) {
            return Ok(known.clone());
        }
        self.work(REGEX_WORK.saturating_add(pattern.len().saturating_mul(100)))?;
        let compiled = Regex::within(pattern, MAX_REGEX);
        self.patterns.insert(pattern.to_owned(), compiled.clone());
        Ok(compiled)
    }
}

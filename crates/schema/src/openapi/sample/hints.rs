//! Numbers, lengths and strings that occur in junctors and rules of a node, as candidates.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::{Schema, SchemaDefinition};
use super::SampleNode;

/// Candidates for sample values.
#[derive(Debug, Default)]
pub(super) struct Hints {
    numbers: BTreeSet<i64>,
    counts: BTreeSet<usize>,
    texts: Vec<String>,
}

/// Small numbers that often satisfy rules.
const USUAL: [i64; 14] = [1, 2, 3, 5, 4, 6, 8, 10, 16, 32, 64, 100, 1024, 65_535];

impl Hints {
    /// The candidates of these nodes and of all nodes below their junctors.
    pub(super) fn collect(nodes: &[SampleNode<'_>]) -> Self {
        let mut hints = Hints::default();
        nodes.iter().for_each(|node| hints.add(node.schema, node.written));
        if nodes.iter().any(|node| node.schema.rules.is_some()) {
            hints.numbers.extend(USUAL);
            hints.counts.extend(1..=3);
        }
        hints
    }

    /// Non-negative numbers in ascending order, then negative ones.
    pub(super) fn numbers(&self) -> impl Iterator<Item = i64> {
        self.numbers.range(0..).chain(self.numbers.range(..0)).copied()
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = usize> {
        self.counts.iter().copied()
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }

    fn add(&mut self, schema: &Schema, written: &SchemaDefinition) {
        self.numbers.extend([schema.minimum, schema.maximum].into_iter().flatten().flat_map(|bound| near(bound.value)));
        let counts = [
            schema.min_length,
            schema.max_length,
            schema.min_items,
            schema.max_items,
            schema.min_properties,
            schema.max_properties,
        ];
        let counts = counts.into_iter().flatten().flat_map(near);
        self.counts.extend(counts.filter_map(|count| usize::try_from(count).ok()));
        self.texts.extend(schema.values.iter().filter_map(Value::as_str).map(str::to_owned));
        self.numbers.extend(schema.values.iter().filter_map(Value::as_i64).flat_map(near));
        for rule in &written.validations {
            self.add_rule(&rule.rule);
        }
        let junctors = schema.all_of.iter().chain(&schema.any_of).chain(&schema.one_of).chain(schema.not.as_deref());
        let written = written.all_of.iter().chain(&written.any_of).chain(&written.one_of).chain(written.not.as_deref());
        junctors.zip(written).for_each(|(schema, written)| self.add(schema, written));
    }

    /// The literals of a rule.
    fn add_rule(&mut self, rule: &str) {
        for quote in ['\'', '"'] {
            self.texts.extend(rule.split(quote).skip(1).step_by(2).map(str::to_owned));
        }
        let numbers = rule.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<i64>().ok());
        for number in numbers {
            self.numbers.extend(near(number));
            self.counts.extend(near(number).into_iter().filter_map(|count| usize::try_from(count).ok()));
        }
    }
}

/// A number and its neighbours.
fn near(number: i64) -> [i64; 3] {
    [number.saturating_sub(1), number, number.saturating_add(1)]
}

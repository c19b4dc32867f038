//! Strings and numbers.

use serde_json::{Number, Value};

use super::super::node::Bound;
use super::{CandidateSource, Offer};
use golang::regexp::{Regex, SampleRequest};

/// Maximum length of a generated string.
const LONGEST: usize = 100_000;
/// Effort of a search for a string.
const SEARCH: usize = 100;
/// Number of variations that are tried.
const TURNS: usize = 8;

impl CandidateSource<'_, '_> {
    /// Candidates: strings of rules and examples of formats, then the shortest ones.
    pub(super) fn texts(&self, offer: &mut Offer<'_>) {
        let (least, most) = (self.least(|schema| schema.min_length), self.most(|schema| schema.max_length));
        for format in self.nodes.iter().filter_map(|node| node.schema.format) {
            if format.samples(least).into_iter().any(|text| !offer(text.into())) {
                return;
            }
        }
        let patterns: Vec<&Regex> = self.nodes.iter().filter_map(|node| node.schema.pattern.as_ref()).collect();
        for least in self.counts(least, most, LONGEST) {
            for turn in 0..TURNS.max(self.wanted) {
                if !self.maker.take(SEARCH) {
                    return;
                }
                // If one search fails, the others do as well.
                let Some(text) = text(&patterns, least, most, turn) else { break };
                if !offer(text.into()) {
                    return;
                }
            }
        }
        let _ = self.hints.texts().any(|text| !offer(text.into()));
    }

    /// Candidates: the smallest number within the bounds, 0 if possible, then those around other bounds.
    pub(super) fn numbers(&self, with_fractions: bool, offer: &mut Offer<'_>) {
        let minimum = self.nodes.iter().filter_map(|node| node.schema.minimum).max_by_key(lowest);
        let maximum = self.nodes.iter().filter_map(|node| node.schema.maximum).min_by_key(highest);
        let (low, high) =
            (minimum.map_or(i64::MIN, |bound| lowest(&bound)), maximum.map_or(i64::MAX, |bound| highest(&bound)));
        let first = if minimum.is_some() { low } else { high.min(0) };
        let wanted = i64::try_from(self.wanted).unwrap_or(i64::MAX);
        let up = (0..wanted).map(|step| first.saturating_add(step));
        let down = (1..wanted).map(|step| first.saturating_sub(step));
        let mut whole = up.chain(down).chain(self.hints.numbers()).filter(|number| (low..=high).contains(number));
        if whole.any(|number| !offer(number.into())) || !with_fractions {
            return;
        }
        let halves = self.hints.numbers().chain([first]).flat_map(|number| [half_below(number), half_above(number)]);
        let _ = halves.flatten().any(|number| !offer(number));
    }
}

/// A string with `least` to `most` characters that matches all patterns.
fn text(patterns: &[&Regex], least: usize, most: usize, turn: usize) -> Option<String> {
    if !patterns.is_empty() {
        return SampleRequest { patterns, least, most, turn }.shortest();
    }
    let letter = char::from(b'a' + u8::try_from(turn % 26).unwrap_or_default());
    let count = least.max(usize::from(turn > 0)) + turn / 26;
    (count <= most).then(|| letter.to_string().repeat(count))
}

/// The smallest integer within a lower bound.
fn lowest(bound: &Bound) -> i64 {
    bound.value.saturating_add(i64::from(bound.exclusive))
}

/// The largest integer within an upper bound.
fn highest(bound: &Bound) -> i64 {
    bound.value.saturating_sub(i64::from(bound.exclusive))
}

#[allow(clippy::cast_precision_loss, reason = "numbers with fractions are small")]
fn half_above(number: i64) -> Option<Value> {
    Number::from_f64(number as f64 + 0.5).map(Value::from)
}

fn half_below(number: i64) -> Option<Value> {
    half_above(number.checked_sub(1)?)
}

//! Generator of the smallest value that a schema accepts.
//!
//! ```text
//! Definition, Schema ─► literals (default, example, enum) ─┐
//!                   └─► values of the type that are made ──┼─► the first one that the validator accepts
//!             scalars.rs (with hints.rs), lists, maps ─────┘
//! ```
//!
//! A node is merged with the nodes below `allOf` and with one of each `anyOf` and `oneOf`. CEL rules are not solved:
//! candidates are tried, including values named in rules, and the validator decides.

mod alternatives;
mod hints;
mod scalars;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::kind::ValueType;
use super::{Schema, SchemaDefinition};
pub use alternatives::Alternative;
use hints::Hints;

/// Maximum number of nodes and candidates for one value.
const EFFORT: usize = 20_000;
/// Maximum number of combinations of junctor branches per node.
const COMBINATIONS: usize = 32;
/// Maximum length of generated lists, and size of generated maps.
const MOST_ELEMENTS: usize = 1_000;
/// Maximum number of optional properties that are tried one by one.
const SINGLES: usize = 16;

/// Amount of content of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breadth {
    /// Required content only.
    Least,
    /// Every property of every generated object, as far as that is valid.
    Whole,
}

/// Reason why no value was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSample {
    /// Path inside the value: empty for the value itself, else `.key` or `.key[0]`.
    pub place: String,
    pub reason: String,
}

impl Schema {
    /// A small valid value, including CEL rules; `definition` is the source of the schema.
    ///
    /// # Errors
    /// When none was found; one may still exist.
    pub fn sample(&self, definition: &SchemaDefinition, breadth: Breadth) -> Result<Value, NoSample> {
        let maker = SampleBuilder { breadth, left: Cell::new(EFFORT), failure: RefCell::default() };
        let node = SampleNode { written: definition, schema: self };
        match maker.values(&[node], 1, "").into_iter().next() {
            Some(value) => Ok(value),
            None => Err(maker.failure.into_inner().unwrap_or_else(|| NoSample {
                place: String::new(),
                reason: "no value was found in reasonable time".to_owned(),
            })),
        }
    }
}

/// A node as written and compiled.
#[derive(Clone, Copy)]
struct SampleNode<'a> {
    written: &'a SchemaDefinition,
    schema: &'a Schema,
}

impl<'a> SampleNode<'a> {
    fn new(written: Option<&'a SchemaDefinition>, schema: Option<&'a Schema>) -> Option<Self> {
        Some(SampleNode { written: written?, schema: schema? })
    }

    /// The node of a member of objects.
    fn member(self, name: &str) -> Option<Self> {
        let written = self.written.each_property().find(|(known, _)| *known == name).map(|(_, node)| node);
        let more = || SampleNode::new(self.written.additional_properties.as_deref(), self.more());
        SampleNode::new(written, self.schema.properties.get(name)).or_else(more)
    }

    fn more(self) -> Option<&'a Schema> {
        self.schema.additional_properties.as_deref()
    }

    fn element(self) -> Option<Self> {
        SampleNode::new(self.written.items.as_deref(), self.schema.items.as_deref())
    }

    fn each(written: &'a [SchemaDefinition], schemas: &'a [Schema]) -> Vec<Self> {
        written.iter().zip(schemas).map(|(written, schema)| SampleNode { written, schema }).collect()
    }
}

/// Builds values within an effort, and keeps the first error.
struct SampleBuilder {
    breadth: Breadth,
    left: Cell<usize>,
    failure: RefCell<Option<NoSample>>,
}

impl SampleBuilder {
    /// Values accepted by all nodes, of which the first is a core node: up to `wanted`.
    fn values(&self, all: &[SampleNode<'_>], wanted: usize, place: &str) -> Vec<Value> {
        let mut found = Accepted { maker: self, all, wanted, values: Vec::new(), rejected: None };
        literals(all).into_iter().for_each(|value| found.offer(value));
        let mut combinations = Vec::new();
        expand(all.to_vec(), 0, &mut combinations);
        let hints = Hints::collect(all);
        for nodes in &combinations {
            let parts = CandidateSource { maker: self, nodes, hints: &hints, wanted, place };
            for kind in kinds(nodes) {
                if found.is_done() {
                    break;
                }
                parts.of_kind(kind, &mut |value| {
                    found.offer(value);
                    !found.is_done()
                });
            }
        }
        if found.values.is_empty() {
            let reason = found.rejected.unwrap_or_else(|| "no value could be made from the schema".to_owned());
            self.failure.borrow_mut().get_or_insert(NoSample { place: place.to_owned(), reason });
        }
        found.values
    }

    /// Charges the effort; returns whether any was left.
    fn take(&self, effort: usize) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(effort));
        left > 0
    }
}

/// The candidates that the validator accepts.
struct Accepted<'a, 'b> {
    maker: &'a SampleBuilder,
    all: &'a [SampleNode<'b>],
    wanted: usize,
    values: Vec<Value>,
    /// The errors of the first rejected candidate.
    rejected: Option<String>,
}

impl Accepted<'_, '_> {
    fn is_done(&self) -> bool {
        self.values.len() >= self.wanted || self.maker.left.get() == 0
    }

    fn offer(&mut self, value: Value) {
        if self.is_done() || self.values.contains(&value) || !self.maker.take(1) {
            return;
        }
        match fault(self.all, &value) {
            None => self.values.push(value),
            Some(reason) => drop(self.rejected.get_or_insert(reason)),
        }
    }
}

/// The first error of a value with its defaults. The first node is a core node.
fn fault(all: &[SampleNode<'_>], value: &Value) -> Option<String> {
    let core = all.first()?.schema;
    let mut value = value.clone();
    core.complete(&mut value);
    let violations = all.iter().flat_map(|node| node.schema.violations(&value));
    let unknown =
        || core.unknown_fields(&value).into_iter().next().map(|field| format!("{field} is not a known field"));
    let broken = || core.rule_violations(&value, None).into_iter().next().map(|broken| describe(core, &broken));
    let wrong = violations.map(|violation| describe(core, &violation)).next();
    wrong.or_else(unknown).or_else(broken)
}

/// The message of a violation, without values of passwords.
fn describe(schema: &Schema, violation: &super::Violation) -> String {
    match (schema.has_secrets(), &*violation.place) {
        (true, _) => format!("rule {} does not hold", violation.rule),
        (false, "") => violation.detail.clone(),
        (false, place) => format!("{}: {}", place.trim_start_matches('.'), violation.detail),
    }
}

/// Defaults, examples and entries of `enum`, as written.
fn literals(all: &[SampleNode<'_>]) -> Vec<Value> {
    let example = |node: &SampleNode<'_>| golang::json::value(node.written.example.as_ref()?.get()).ok();
    let defaults = all.iter().filter_map(|node| node.schema.default.clone());
    let examples = all.iter().filter_map(example).filter(|value| !value.is_null());
    let entries = all.iter().flat_map(|node| node.schema.values.iter().cloned());
    defaults.chain(examples).chain(entries).collect()
}

/// The nodes with those below `allOf` and one of each `anyOf` and `oneOf`, in every combination.
fn expand<'a>(nodes: Vec<SampleNode<'a>>, at: usize, combinations: &mut Vec<Vec<SampleNode<'a>>>) {
    let Some(SampleNode { written, schema }) = nodes.get(at).copied() else { return combinations.push(nodes) };
    let branches = |written, schemas| match SampleNode::each(written, schemas) {
        none if none.is_empty() => vec![None],
        some => some.into_iter().map(Some).collect(),
    };
    for any in branches(&written.any_of, &schema.any_of) {
        for one in branches(&written.one_of, &schema.one_of) {
            if combinations.len() >= COMBINATIONS {
                return;
            }
            let mut nodes = nodes.clone();
            nodes.extend(SampleNode::each(&written.all_of, &schema.all_of));
            nodes.extend(any.into_iter().chain(one));
            expand(nodes, at + 1, combinations);
        }
    }
}

/// The possible types of a value; without a `type`, types with keywords come first.
fn kinds(nodes: &[SampleNode<'_>]) -> Vec<ValueType> {
    let mut written: Vec<ValueType> = nodes.iter().filter_map(|node| node.schema.kind).collect();
    if written.contains(&ValueType::Integer) {
        written.retain(|kind| *kind != ValueType::Number);
    }
    if let Some(first) = written.first() {
        return if written.iter().all(|kind| kind == first) { vec![*first] } else { Vec::new() };
    }
    if nodes.iter().any(|node| node.schema.int_or_string) {
        return vec![ValueType::Integer, ValueType::String];
    }
    let is_about = |kind: &ValueType| nodes.iter().any(|node| speaks_of(node.schema, *kind));
    let all = [ValueType::Object, ValueType::Array, ValueType::String, ValueType::Number, ValueType::Boolean];
    let (mut first, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(is_about);
    first.extend(rest);
    first
}

/// Whether a node has a keyword for values of a type.
fn speaks_of(schema: &Schema, kind: ValueType) -> bool {
    match kind {
        ValueType::Object => {
            schema.properties.len() > 0
                || schema.additional_properties.is_some()
                || !schema.required.is_empty()
                || schema.min_properties.or(schema.max_properties).is_some()
        }
        ValueType::Array => {
            schema.items.is_some() || schema.min_items.or(schema.max_items).is_some() || schema.unique_items
        }
        ValueType::String => {
            schema.pattern.is_some() || schema.format.is_some() || schema.min_length.or(schema.max_length).is_some()
        }
        ValueType::Number | ValueType::Integer => schema.minimum.or(schema.maximum).is_some(),
        ValueType::Boolean | ValueType::Unknown => false,
    }
}

/// Generates candidates of a type.
struct CandidateSource<'a, 'b> {
    maker: &'a SampleBuilder,
    nodes: &'a [SampleNode<'b>],
    hints: &'a Hints,
    wanted: usize,
    place: &'a str,
}

/// Accepts a candidate; returns whether more are wanted.
type Offer<'a> = dyn FnMut(Value) -> bool + 'a;

impl<'b> CandidateSource<'_, 'b> {
    fn of_kind(&self, kind: ValueType, offer: &mut Offer<'_>) {
        match kind {
            ValueType::Object => self.objects(offer),
            ValueType::Array => self.arrays(offer),
            ValueType::String => self.texts(offer),
            ValueType::Integer => self.numbers(false, offer),
            ValueType::Number => self.numbers(true, offer),
            ValueType::Boolean => drop(offer(false.into()) && offer(true.into())),
            ValueType::Unknown => {}
        }
    }

    /// The maximum of a lower bound over all nodes.
    fn least(&self, bound: fn(&Schema) -> Option<i64>) -> usize {
        let bounds = self.nodes.iter().filter_map(|node| bound(node.schema));
        bounds.filter_map(|bound| usize::try_from(bound).ok()).max().unwrap_or_default()
    }

    /// The minimum of an upper bound over all nodes.
    fn most(&self, bound: fn(&Schema) -> Option<i64>) -> usize {
        let bounds = self.nodes.iter().filter_map(|node| bound(node.schema));
        bounds.map(|bound| usize::try_from(bound).unwrap_or_default()).min().unwrap_or(usize::MAX)
    }

    /// Numbers of elements, members or characters to try: the minimum, then those of bounds anywhere.
    fn counts(&self, least: usize, most: usize, largest: usize) -> Vec<usize> {
        let mut counts = vec![least];
        counts.extend(self.hints.counts().filter(|count| *count > least));
        counts.retain(|count| *count <= most.min(largest));
        counts
    }

    fn arrays(&self, offer: &mut Offer<'_>) {
        let (least, most) = (self.least(|schema| schema.min_items), self.most(|schema| schema.max_items));
        let elements: Vec<SampleNode<'b>> = self.nodes.iter().filter_map(|node| node.element()).collect();
        let place = format!("{}[0]", self.place);
        for count in self.counts(least, most, MOST_ELEMENTS) {
            let wanted = count.max(self.wanted).max(1);
            let made = match &*elements {
                [] => (0..wanted).map(Value::from).collect(),
                _ if count == 0 && self.wanted == 1 => Vec::new(),
                elements => self.maker.values(elements, wanted, &place),
            };
            let unique = self.nodes.iter().any(|node| node.schema.unique_items);
            let equal = made.first().filter(|_| !unique).map(|first| vec![first.clone(); count]);
            let turns = (0..self.wanted.min(made.len()))
                .map(|turn| made.iter().cycle().skip(turn).take(count).cloned().collect::<Vec<_>>());
            let empty = (count == 0).then(Vec::new);
            if empty.into_iter().chain(equal).chain(turns).any(|elements| !offer(elements.into())) {
                return;
            }
        }
    }

    fn objects(&self, offer: &mut Offer<'_>) {
        let (least, most) = (self.least(|schema| schema.min_properties), self.most(|schema| schema.max_properties));
        let few = (0..self.wanted).map(|turn| (least, turn, None));
        let singles = self.optional().into_iter().take(SINGLES).map(|name| (least, 0, Some(name)));
        let counts = self.counts(least, most, MOST_ELEMENTS).into_iter().skip(1).map(|count| (count, 0, None));
        let full = (most.min(self.optional().len() + self.required().len()), 0, None);
        let whole = Some(full.clone()).filter(|_| self.maker.breadth == Breadth::Whole);
        for (count, turn, single) in whole.into_iter().chain(few).chain(singles).chain(counts).chain([full]) {
            let made = self.object(count, turn, single.as_deref());
            if made.is_some_and(|object| !offer(object.into())) || self.maker.left.get() == 0 {
                return;
            }
        }
    }

    /// An object with all required properties, optionally one more, and others up to `count` members.
    fn object(&self, count: usize, turn: usize, single: Option<&str>) -> Option<Map<String, Value>> {
        let mut members = Map::new();
        let mut filled = Value::Object(Map::new());
        if let Some(core) = self.nodes.first() {
            core.schema.complete(&mut filled);
        }
        let has_default = |name: &str| filled.get(name).is_some();
        for name in self.required().into_iter().filter(|name| !has_default(name)) {
            let value = self.member(&name, turn)?;
            members.insert(name, value);
        }
        if let Some(name) = single {
            members.insert(name.to_owned(), self.member(name, turn)?);
        }
        let more = (1..=count).map(|number| format!("key{number}")).filter(|name| self.takes(name));
        for name in self.optional().into_iter().chain(more) {
            let defaults = filled.as_object().into_iter().flatten().filter(|(name, _)| !members.contains_key(*name));
            if members.len() + defaults.count() >= count {
                break;
            }
            if !members.contains_key(&name)
                && !has_default(&name)
                && let Some(value) = self.member(&name, turn)
            {
                members.insert(name, value);
            }
        }
        Some(members)
    }

    fn required(&self) -> Vec<String> {
        let names: BTreeSet<&String> = self.nodes.iter().flat_map(|node| &node.schema.required).collect();
        names.into_iter().cloned().collect()
    }

    /// The properties that are not required.
    fn optional(&self) -> Vec<String> {
        let required: BTreeSet<String> = self.required().into_iter().collect();
        let names = self.nodes.iter().flat_map(|node| node.schema.properties.iter().map(|(name, _)| name));
        let names: BTreeSet<&str> = names.filter(|name| !required.contains(*name)).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Whether objects may have a member of that name.
    fn takes(&self, name: &str) -> bool {
        self.nodes.first().is_some_and(|core| core.member(name).is_some() || core.schema.preserve_unknown_fields)
    }

    /// A value for a member; another turn gives a different one, if there is one.
    fn member(&self, name: &str, turn: usize) -> Option<Value> {
        let nodes: Vec<SampleNode<'b>> = self.nodes.iter().filter_map(|node| node.member(name)).collect();
        if nodes.is_empty() {
            return self.takes(name).then(|| Value::from("a"));
        }
        if !self.maker.take(1) {
            return None;
        }
        let values = self.maker.values(&nodes, turn + 1, &format!("{}.{name}", self.place));
        values.get(turn).or(values.first()).cloned()
    }
}

#[cfg(test)]
mod tests;

//! The smallest value that a schema accepts.
//!
//! ```text
//! Definition, Schema ─► literals (default, example, enum) ─┐
//!                   └─► values of the type that are made ──┼─► the first one that the validator accepts
//!             scalars.rs (with hints.rs), lists, maps ─────┘
//! ```
//!
//! A node is looked at together with the nodes below `allOf` and one of each `anyOf` and `oneOf`. CEL rules are not solved: values
//! are tried, those that rules name among them, and the validator decides.

mod hints;
mod scalars;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::kind::Kind;
use super::{Definition, Schema};
use hints::Hints;

/// How many nodes and candidates are looked at for one value.
const EFFORT: usize = 20_000;
/// How many combinations of the branches of junctors are tried at a node.
const COMBINATIONS: usize = 32;
/// The longest lists, and the most members of maps, that are made.
const MOST_ELEMENTS: usize = 1_000;
/// How many optional properties are tried one by one.
const SINGLES: usize = 16;

/// How much a value holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breadth {
    /// No more than is asked for.
    Least,
    /// Every property of every object that is made, as far as that is valid.
    Whole,
}

/// Why no value was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSample {
    /// Where inside the value: empty for the value itself, else `.key` or `.key[0]`.
    pub place: String,
    pub reason: String,
}

impl Schema {
    /// A small value that is valid, CEL rules included; `definition` is what the schema was compiled of.
    ///
    /// # Errors
    /// When none was found, which does not mean that there is none.
    pub fn sample(&self, definition: &Definition, breadth: Breadth) -> Result<Value, NoSample> {
        let maker = Maker { breadth, left: Cell::new(EFFORT), failure: RefCell::default() };
        let node = Node { written: definition, schema: self };
        match maker.values(&[node], 1, "").into_iter().next() {
            Some(value) => Ok(value),
            None => Err(maker.failure.into_inner().unwrap_or_else(|| NoSample {
                place: String::new(),
                reason: "no value was found in reasonable time".to_owned(),
            })),
        }
    }
}

/// A node as it is written and compiled.
#[derive(Clone, Copy)]
struct Node<'a> {
    written: &'a Definition,
    schema: &'a Schema,
}

impl<'a> Node<'a> {
    fn of(written: Option<&'a Definition>, schema: Option<&'a Schema>) -> Option<Self> {
        Some(Node { written: written?, schema: schema? })
    }

    /// The node of a member of objects.
    fn member(self, name: &str) -> Option<Self> {
        let written = self.written.each_property().find(|(known, _)| *known == name).map(|(_, node)| node);
        let more = || Node::of(self.written.additional_properties.as_deref(), self.more());
        Node::of(written, self.schema.properties.get(name)).or_else(more)
    }

    fn more(self) -> Option<&'a Schema> {
        self.schema.additional_properties.as_deref()
    }

    fn element(self) -> Option<Self> {
        Node::of(self.written.items.as_deref(), self.schema.items.as_deref())
    }

    fn each(written: &'a [Definition], schemas: &'a [Schema]) -> Vec<Self> {
        written.iter().zip(schemas).map(|(written, schema)| Node { written, schema }).collect()
    }
}

/// Makes values within an effort, and remembers what went wrong first.
struct Maker {
    breadth: Breadth,
    left: Cell<usize>,
    failure: RefCell<Option<NoSample>>,
}

impl Maker {
    /// Values that all nodes accept, of which the first is a core node: as many as are `wanted`, if there are so many.
    fn values(&self, all: &[Node<'_>], wanted: usize, place: &str) -> Vec<Value> {
        let mut found = Accepted { maker: self, all, wanted, values: Vec::new(), rejected: None };
        literals(all).into_iter().for_each(|value| found.offer(value));
        let mut combinations = Vec::new();
        expand(all.to_vec(), 0, &mut combinations);
        let hints = Hints::of(all);
        for nodes in &combinations {
            let parts = Parts { maker: self, nodes, hints: &hints, wanted, place };
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

    /// Takes so much of the effort; says whether there was any left.
    fn take(&self, effort: usize) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(effort));
        left > 0
    }
}

/// The candidates that the validator accepts.
struct Accepted<'a, 'b> {
    maker: &'a Maker,
    all: &'a [Node<'b>],
    wanted: usize,
    values: Vec<Value>,
    /// What is wrong with the first one that it does not accept.
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
        match self.fault(&value) {
            None => self.values.push(value),
            Some(reason) => drop(self.rejected.get_or_insert(reason)),
        }
    }

    /// What is wrong with a value once it has its defaults.
    fn fault(&self, value: &Value) -> Option<String> {
        let core = self.all.first()?.schema;
        let mut value = value.clone();
        core.complete(&mut value);
        let violations = self.all.iter().flat_map(|node| node.schema.violations(&value));
        let unknown =
            || core.unknown_fields(&value).into_iter().next().map(|field| format!("{field} is not a known field"));
        let broken = || core.rule_violations(&value, None).into_iter().next().map(|broken| describe(core, &broken));
        let wrong = violations.map(|violation| describe(core, &violation)).next();
        wrong.or_else(unknown).or_else(broken)
    }
}

/// A violation in words; what is said of a password may hold it.
fn describe(schema: &Schema, violation: &super::Violation) -> String {
    match (schema.has_secrets(), &*violation.place) {
        (true, _) => format!("rule {} does not hold", violation.rule),
        (false, "") => violation.detail.clone(),
        (false, place) => format!("{}: {}", place.trim_start_matches('.'), violation.detail),
    }
}

/// Defaults, examples and the entries of `enum`, as they are written.
fn literals(all: &[Node<'_>]) -> Vec<Value> {
    let example = |node: &Node<'_>| golang::json::value(node.written.example.as_ref()?.get()).ok();
    let defaults = all.iter().filter_map(|node| node.schema.default.clone());
    let examples = all.iter().filter_map(example).filter(|value| !value.is_null());
    let entries = all.iter().flat_map(|node| node.schema.values.iter().cloned());
    defaults.chain(examples).chain(entries).collect()
}

/// The nodes together with those below `allOf`, and one of each `anyOf` and `oneOf`, in every combination.
fn expand<'a>(nodes: Vec<Node<'a>>, at: usize, combinations: &mut Vec<Vec<Node<'a>>>) {
    let Some(Node { written, schema }) = nodes.get(at).copied() else { return combinations.push(nodes) };
    let branches = |written, schemas| match Node::each(written, schemas) {
        none if none.is_empty() => vec![None],
        some => some.into_iter().map(Some).collect(),
    };
    for any in branches(&written.any_of, &schema.any_of) {
        for one in branches(&written.one_of, &schema.one_of) {
            if combinations.len() >= COMBINATIONS {
                return;
            }
            let mut nodes = nodes.clone();
            nodes.extend(Node::each(&written.all_of, &schema.all_of));
            nodes.extend(any.into_iter().chain(one));
            expand(nodes, at + 1, combinations);
        }
    }
}

/// The types that a value may have; where nothing says so, those that keywords are about come first.
fn kinds(nodes: &[Node<'_>]) -> Vec<Kind> {
    let mut written: Vec<Kind> = nodes.iter().filter_map(|node| node.schema.kind).collect();
    if written.contains(&Kind::Integer) {
        written.retain(|kind| *kind != Kind::Number);
    }
    if let Some(first) = written.first() {
        return if written.iter().all(|kind| kind == first) { vec![*first] } else { Vec::new() };
    }
    if nodes.iter().any(|node| node.schema.int_or_string) {
        return vec![Kind::Integer, Kind::String];
    }
    let is_about = |kind: &Kind| nodes.iter().any(|node| speaks_of(node.schema, *kind));
    let all = [Kind::Object, Kind::Array, Kind::String, Kind::Number, Kind::Boolean];
    let (mut first, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(is_about);
    first.extend(rest);
    first
}

/// Whether a node has a keyword for values of a type.
fn speaks_of(schema: &Schema, kind: Kind) -> bool {
    match kind {
        Kind::Object => {
            schema.properties.len() > 0
                || schema.additional_properties.is_some()
                || !schema.required.is_empty()
                || schema.min_properties.or(schema.max_properties).is_some()
        }
        Kind::Array => schema.items.is_some() || schema.min_items.or(schema.max_items).is_some() || schema.unique_items,
        Kind::String => {
            schema.pattern.is_some() || schema.format.is_some() || schema.min_length.or(schema.max_length).is_some()
        }
        Kind::Number | Kind::Integer => schema.minimum.or(schema.maximum).is_some(),
        Kind::Boolean | Kind::Unknown => false,
    }
}

/// What values are made of.
struct Parts<'a, 'b> {
    maker: &'a Maker,
    nodes: &'a [Node<'b>],
    hints: &'a Hints,
    wanted: usize,
    place: &'a str,
}

/// Takes a candidate; says whether more are wanted.
type Offer<'a> = dyn FnMut(Value) -> bool + 'a;

impl<'b> Parts<'_, 'b> {
    fn of_kind(&self, kind: Kind, offer: &mut Offer<'_>) {
        match kind {
            Kind::Object => self.objects(offer),
            Kind::Array => self.arrays(offer),
            Kind::String => self.texts(offer),
            Kind::Integer => self.numbers(false, offer),
            Kind::Number => self.numbers(true, offer),
            Kind::Boolean => drop(offer(false.into()) && offer(true.into())),
            Kind::Unknown => {}
        }
    }

    /// The largest of a bound from below.
    fn least(&self, bound: fn(&Schema) -> Option<i64>) -> usize {
        let bounds = self.nodes.iter().filter_map(|node| bound(node.schema));
        bounds.filter_map(|bound| usize::try_from(bound).ok()).max().unwrap_or_default()
    }

    /// The smallest of a bound from above.
    fn most(&self, bound: fn(&Schema) -> Option<i64>) -> usize {
        let bounds = self.nodes.iter().filter_map(|node| bound(node.schema));
        bounds.map(|bound| usize::try_from(bound).unwrap_or_default()).min().unwrap_or(usize::MAX)
    }

    /// The number of elements, members or characters to try: the least, then those that bounds anywhere speak of.
    fn counts(&self, least: usize, most: usize, largest: usize) -> Vec<usize> {
        let mut counts = vec![least];
        counts.extend(self.hints.counts().filter(|count| *count > least));
        counts.retain(|count| *count <= most.min(largest));
        counts
    }

    fn arrays(&self, offer: &mut Offer<'_>) {
        let (least, most) = (self.least(|schema| schema.min_items), self.most(|schema| schema.max_items));
        let elements: Vec<Node<'b>> = self.nodes.iter().filter_map(|node| node.element()).collect();
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

    /// An object with all that is required, one property more if so wished, and others until it has so many members.
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

    /// A value for a member; another turn gives another one, if there is one.
    fn member(&self, name: &str, turn: usize) -> Option<Value> {
        let nodes: Vec<Node<'b>> = self.nodes.iter().filter_map(|node| node.member(name)).collect();
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

//! Which fields differ between two objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::literal::equal;
use super::schema::{ListMerge, ListType, MapType, Schema, Shape, Type};
use super::validate::entries;
use super::{Element, FieldSet};

/// The fields in which an object differs from an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

impl Comparison {
    /// Compares an object with what it was.
    pub fn of(before: &Value, after: &Value, schema: &Schema) -> Self {
        let mut walk = Walk { path: Vec::new(), found: Comparison::default() };
        walk.value(Some(before), Some(after), &schema.0);
        walk.found
    }

    /// Whether no field differs.
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// The comparison without some fields and what is below them.
    pub(super) fn without(&self, fields: &FieldSet) -> Self {
        Comparison {
            added: self.added.without(fields),
            modified: self.modified.without(fields),
            removed: self.removed.without(fields),
        }
    }
}

/// The members of a map; none for what is not a map.
pub(super) fn members(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

/// The items of a list; none for what is not a list.
pub(super) fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

struct Walk {
    path: Vec<Element>,
    found: Comparison,
}

impl Walk {
    fn value(&mut self, left: Option<&Value>, right: Option<&Value>, of: &Type) {
        if let (Some(left), Some(right)) = (left, right)
            && equal(left, right)
        {
            return;
        }
        let (as_left, as_right) = (of.shape(left), of.shape(right));
        let is_leaf = match (left, right) {
            (_, None) => self.shaped(left, right, as_left),
            (None, _) => self.shaped(left, right, as_right),
            _ if as_left.is_like(&as_right) => self.shaped(left, right, as_right),
            _ => {
                self.shaped(left, right, as_left);
                self.shaped(left, right, as_right)
            }
        };
        if !is_leaf && (left.is_none() || right.is_none()) {
            self.leaf(left, right);
        }
    }

    /// Compares the values in one shape; true when they have been compared as a whole.
    fn shaped(&mut self, left: Option<&Value>, right: Option<&Value>, shape: Shape<'_>) -> bool {
        let is_leaf = match shape {
            Shape::Scalar(_) => true,
            Shape::Map(of) => of.atomic || [left, right].iter().all(|side| members(*side).is_none_or(Map::is_empty)),
            Shape::List(of) => {
                of.merge == ListMerge::Atomic || [left, right].iter().all(|side| items(*side).is_empty())
            }
        };
        match shape {
            _ if is_leaf => self.leaf(left, right),
            Shape::Map(of) => self.maps(members(left), members(right), of),
            Shape::List(of) => self.lists(items(left), items(right), of),
            Shape::Scalar(_) => {}
        }
        is_leaf
    }

    fn leaf(&mut self, left: Option<&Value>, right: Option<&Value>) {
        match (left, right) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(left), Some(right)) if !equal(left, right) => self.found.modified.insert(&self.path),
            _ => {}
        }
    }

    fn maps(&mut self, left: Option<&Map<String, Value>>, right: Option<&Map<String, Value>>, of: &MapType) {
        for (name, left, right) in paired(left, right) {
            self.child(Element::field(name), left, right, of.field(name).unwrap_or(&Type::Deduced));
        }
    }

    fn lists(&mut self, left: &[Value], right: &[Value], of: &ListType) {
        let (Some(left), Some(right)) = (grouped(left, of), grouped(right, of)) else { return };
        let steps = left.keys().chain(right.keys().filter(|step| !left.contains_key(*step)));
        for step in steps {
            let side = |groups: &BTreeMap<Element, Vec<_>>| groups.get(step).cloned().unwrap_or_default();
            self.entry(step, &side(&left), &side(&right), of);
        }
    }

    /// Compares what a step leads to; entries that repeat are compared together.
    fn entry(&mut self, step: &Element, left: &[&Value], right: &[&Value], of: &ListType) {
        match (left, right) {
            ([] | [_], [] | [_]) => {
                self.child(step.clone(), left.first().copied(), right.first().copied(), &of.items);
            }
            ([_, _, ..], [_, _, ..]) => {
                let same = left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right));
                if !same {
                    self.marked(step, |found| &mut found.modified);
                }
            }
            ([_, _, ..], _) => {
                if let Some(right) = right.first() {
                    self.child(step.clone(), None, Some(right), &of.items);
                }
                self.marked(step, |found| &mut found.removed);
            }
            (_, _) => {
                if let Some(left) = left.first() {
                    self.child(step.clone(), Some(left), None, &of.items);
                }
                self.marked(step, |found| &mut found.added);
            }
        }
    }

    fn child(&mut self, step: Element, left: Option<&Value>, right: Option<&Value>, of: &Type) {
        self.path.push(step);
        self.value(left, right, of);
        self.path.pop();
    }

    fn marked(&mut self, step: &Element, set: impl Fn(&mut Comparison) -> &mut FieldSet) {
        self.path.push(step.clone());
        set(&mut self.found).insert(&self.path);
        self.path.pop();
    }
}

/// The fields of two maps with what each has under them, sorted by name.
pub(super) fn paired<'a>(
    left: Option<&'a Map<String, Value>>,
    right: Option<&'a Map<String, Value>>,
) -> impl Iterator<Item = (&'a str, Option<&'a Value>, Option<&'a Value>)> {
    let mut pairs: BTreeMap<&str, (Option<&Value>, Option<&Value>)> = BTreeMap::new();
    for (name, value) in left.into_iter().flatten() {
        pairs.entry(name).or_default().0 = Some(value);
    }
    for (name, value) in right.into_iter().flatten() {
        pairs.entry(name).or_default().1 = Some(value);
    }
    pairs.into_iter().map(|(name, (left, right))| (name, left, right))
}

/// The items of a list by the steps that lead to them; none for a list without steps.
fn grouped<'a>(items: &'a [Value], of: &ListType) -> Option<BTreeMap<Element, Vec<&'a Value>>> {
    let mut groups: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for (step, item) in entries(items, of)?.into_iter().zip(items) {
        groups.entry(step).or_default().push(item);
    }
    Some(groups)
}

//! Which fields differ between two objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::literal::equal;
use super::schema::{ListMerge, ListType, MapType, MergeSchema, MergeType, ValueShape};
use super::validate::entries;
use super::{FieldSet, PathElement};

/// The fields that differ between two versions of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldComparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

impl FieldComparison {
    /// Compares an object with its previous state.
    pub fn between(before: &Value, after: &Value, schema: &MergeSchema) -> Self {
        let mut walk = ComparisonWalk { path: Vec::new(), found: FieldComparison::default() };
        walk.value(Some(before), Some(after), &schema.0);
        walk.found
    }

    /// Whether no field differs.
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// The comparison without some fields and their descendants.
    pub(super) fn without(&self, fields: &FieldSet) -> Self {
        FieldComparison {
            added: self.added.without(fields),
            modified: self.modified.without(fields),
            removed: self.removed.without(fields),
        }
    }
}

/// The members of a map; `None` for other values.
pub(super) fn members(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

/// The items of a list; empty for other values.
pub(super) fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

struct ComparisonWalk {
    path: Vec<PathElement>,
    found: FieldComparison,
}

impl ComparisonWalk {
    fn value(&mut self, left: Option<&Value>, right: Option<&Value>, of: &MergeType) {
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

    /// Compares the values in one shape; true if they were compared as a whole.
    fn shaped(&mut self, left: Option<&Value>, right: Option<&Value>, shape: ValueShape<'_>) -> bool {
        let is_leaf = match shape {
            ValueShape::Scalar(_) => true,
            ValueShape::Map(of) => {
                of.atomic || [left, right].iter().all(|side| members(*side).is_none_or(Map::is_empty))
            }
            ValueShape::List(of) => {
                of.merge == ListMerge::Atomic || [left, right].iter().all(|side| items(*side).is_empty())
            }
        };
        match shape {
            _ if is_leaf => self.leaf(left, right),
            ValueShape::Map(of) => self.maps(members(left), members(right), of),
            ValueShape::List(of) => self.lists(items(left), items(right), of),
            ValueShape::Scalar(_) => {}
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
            self.child(PathElement::field(name), left, right, of.field(name).unwrap_or(&MergeType::Deduced));
        }
    }

    fn lists(&mut self, left: &[Value], right: &[Value], of: &ListType) {
        let (Some(left), Some(right)) = (grouped(left, of), grouped(right, of)) else { return };
        let steps = left.keys().chain(right.keys().filter(|step| !left.contains_key(*step)));
        for step in steps {
            let side = |groups: &BTreeMap<PathElement, Vec<_>>| groups.get(step).cloned().unwrap_or_default();
            self.entry(step, &side(&left), &side(&right), of);
        }
    }

    /// Compares the values of a step; repeated entries are compared together.
    fn entry(&mut self, step: &PathElement, left: &[&Value], right: &[&Value], of: &ListType) {
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

    fn child(&mut self, step: PathElement, left: Option<&Value>, right: Option<&Value>, of: &MergeType) {
        self.path.push(step);
        self.value(left, right, of);
        self.path.pop();
    }

    fn marked(&mut self, step: &PathElement, set: impl Fn(&mut FieldComparison) -> &mut FieldSet) {
        self.path.push(step.clone());
        set(&mut self.found).insert(&self.path);
        self.path.pop();
    }
}

/// The fields of two maps with both values, sorted by name.
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

/// The items of a list by step; `None` for a list without steps.
fn grouped<'a>(items: &'a [Value], of: &ListType) -> Option<BTreeMap<PathElement, Vec<&'a Value>>> {
    let mut groups: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
    for (step, item) in entries(items, of)?.into_iter().zip(items) {
        groups.entry(step).or_default().push(item);
    }
    Some(groups)
}

//! Sets of fields, as `metadata.managedFields` keeps them.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::schema::MergeType;
use super::{ElementPath, PathElement, PathElementError};

/// A set of paths, stored as a tree. A path and its descendants are members independently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(BTreeMap<PathElement, FieldNode>);

/// A node is a member, has members below it, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldNode {
    pub(super) member: bool,
    pub(super) below: FieldSet,
}

impl FieldNode {
    fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => self.member = true,
            path => self.below.insert(path),
        }
    }

    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

/// A value of `fieldsV1` that is no set of fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldSetError {
    #[error("a set of fields is no object")]
    NoObject,
    #[error("what is below {0:?} is no object")]
    NoObjectBelow(String),
    #[error(transparent)]
    Element(#[from] PathElementError),
}

impl FieldSet {
    /// The set of these paths.
    pub fn from_paths<'a>(paths: impl IntoIterator<Item = &'a [PathElement]>) -> Self {
        let mut set = FieldSet::default();
        paths.into_iter().for_each(|path| set.insert(path));
        set
    }

    /// Adds a path; the empty path is never a member.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        if let Some(node) = self.0.get_mut(first) {
            return node.insert(rest);
        }
        let mut node = FieldNode::default();
        node.insert(rest);
        self.0.insert(first.clone(), node);
    }

    /// Replaces the child of a step, or removes it if the new one is empty.
    pub(super) fn put(&mut self, step: PathElement, node: FieldNode) {
        if !node.is_empty() {
            self.0.insert(step, node);
        }
    }

    /// The nodes of the first steps.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&PathElement, &FieldNode)> {
        self.0.iter()
    }

    /// The set of these nodes.
    pub(super) fn from_nodes<'a>(nodes: impl IntoIterator<Item = (&'a PathElement, &'a FieldNode)>) -> Self {
        FieldSet(nodes.into_iter().map(|(step, node)| (step.clone(), node.clone())).collect())
    }

    /// Whether a path that begins with this step is a member.
    pub(super) fn has_node(&self, step: &PathElement) -> bool {
        self.0.contains_key(step)
    }

    /// Whether no path is a member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the path itself is a member.
    pub fn has(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [only] => self.0.get(only).is_some_and(|node| node.member),
            [first, rest @ ..] => self.0.get(first).is_some_and(|node| node.below.has(rest)),
        }
    }

    /// Whether a path that begins with `prefix` is a member, `prefix` itself included.
    pub fn has_prefix(&self, prefix: &[PathElement]) -> bool {
        match prefix {
            [] => !self.is_empty(),
            [first, rest @ ..] => match self.0.get(first) {
                Some(_) if rest.is_empty() => true,
                Some(node) => node.below.has_prefix(rest),
                None => false,
            },
        }
    }

    /// The members below a step, with paths from there; none when there are none.
    pub(super) fn below(&self, step: &PathElement) -> Option<&FieldSet> {
        self.0.get(step).map(|node| &node.below).filter(|below| !below.is_empty())
    }

    /// The union of both sets.
    #[must_use]
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        let mut union = self.clone();
        union.absorb(other);
        union
    }

    fn absorb(&mut self, other: &FieldSet) {
        for (step, node) in &other.0 {
            match self.0.get_mut(step) {
                Some(own) => {
                    own.member |= node.member;
                    own.below.absorb(&node.below);
                }
                None => drop(self.0.insert(step.clone(), node.clone())),
            }
        }
    }

    /// The intersection of both sets.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        self.kept(|step, node| {
            let other = other.0.get(step)?;
            Some(FieldNode { member: node.member && other.member, below: node.below.intersection(&other.below) })
        })
    }

    /// The members of this set that are not in the other; descendants of members of the other stay.
    #[must_use]
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        self.kept(|step, node| {
            Some(match other.0.get(step) {
                Some(other) => {
                    FieldNode { member: node.member && !other.member, below: node.below.difference(&other.below) }
                }
                None => node.clone(),
            })
        })
    }

    /// The members that are neither in the other set nor below one of its members.
    #[must_use]
    pub fn without(&self, other: &FieldSet) -> FieldSet {
        self.kept(|step, node| match other.0.get(step) {
            Some(other) if other.member => None,
            Some(other) => Some(FieldNode { member: node.member, below: node.below.without(&other.below) }),
            None => Some(node.clone()),
        })
    }

    /// The members without members below them.
    #[must_use]
    pub fn leaves(&self) -> FieldSet {
        self.kept(|_, node| Some(FieldNode { member: node.below.is_empty(), below: node.below.leaves() }))
    }

    /// The set with the ancestors of its members that the schema declares by name.
    ///
    /// Applying a field below a declared one does not make the declared one a member; for removal it counts as one.
    pub(super) fn with_named_fields(&self, of: &MergeType) -> FieldSet {
        let atom = of.atom();
        self.kept(|step, node| {
            let (named, of) = match step {
                PathElement::Field(name) => match &atom.map {
                    Some(map) => (map.fields.contains_key(name), map.field(name)),
                    None => (false, None),
                },
                PathElement::Key(_) => (false, atom.list.as_ref().map(|list| &list.items)),
                PathElement::Value(_) | PathElement::Index(_) => (false, None),
            };
            let below = node.below.with_named_fields(of.unwrap_or(&MergeType::Atomic));
            Some(FieldNode { member: node.member || named, below })
        })
    }

    /// The set adjusted to a schema in which maps or lists have become atomic: the owner of a part owns the whole.
    pub(super) fn settled(&self, of: &MergeType) -> FieldSet {
        let atom = of.atom();
        self.kept(|step, node| {
            let of = match step {
                PathElement::Field(name) => atom.map.as_ref().and_then(|map| map.field(name)),
                _ => atom.list.as_ref().map(|list| &list.items),
            };
            let Some(of) = of else { return Some(node.clone()) };
            if !node.below.is_empty() && of.is_atomic() {
                return Some(FieldNode { member: true, below: FieldSet::default() });
            }
            Some(FieldNode { member: node.member, below: node.below.settled(of) })
        })
    }

    /// The set of the nodes returned by `keep`, without empty ones.
    fn kept(&self, keep: impl Fn(&PathElement, &FieldNode) -> Option<FieldNode>) -> FieldSet {
        let kept = |(step, node)| keep(step, node).filter(|node| !node.is_empty()).map(|node| (step.clone(), node));
        FieldSet(self.0.iter().filter_map(kept).collect())
    }

    /// All members, ancestors before their descendants at each depth, as in messages of a server.
    pub fn paths(&self) -> Vec<ElementPath> {
        let mut paths = Vec::new();
        self.list(&mut Vec::new(), &mut paths);
        paths
    }

    fn list(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<ElementPath>) {
        for (step, _) in self.0.iter().filter(|(_, node)| node.member) {
            paths.push(ElementPath(prefix.iter().chain([step]).cloned().collect()));
        }
        for (step, node) in &self.0 {
            prefix.push(step.clone());
            node.below.list(prefix, paths);
            prefix.pop();
        }
    }

    /// Parses `fieldsV1`; unknown types of elements are skipped, as a server does.
    ///
    /// # Errors
    /// The part that cannot be parsed.
    pub fn parse(fields: &Value) -> Result<Self, FieldSetError> {
        match fields {
            Value::Null => Ok(FieldSet::default()),
            Value::Object(fields) => Self::parse_members(fields).map(|(set, _)| set),
            _ => Err(FieldSetError::NoObject),
        }
    }

    /// The members of an object, and whether the object itself is one.
    fn parse_members(fields: &Map<String, Value>) -> Result<(Self, bool), FieldSetError> {
        let mut set = FieldSet::default();
        let mut member = false;
        for (step, below) in fields {
            if step == "." {
                member = true;
                continue;
            }
            let Some(element) = PathElement::parse(step)? else { continue };
            let Value::Object(below) = below else { return Err(FieldSetError::NoObjectBelow(step.clone())) };
            let (below, member) = Self::parse_members(below)?;
            let node = FieldNode { member: member || below.is_empty(), below };
            set.0.insert(element, node);
        }
        Ok((set, member))
    }

    /// The set as `fieldsV1`.
    pub fn to_value(&self) -> Value {
        let mut fields = Map::new();
        for (step, node) in &self.0 {
            let mut below = match node.below.to_value() {
                Value::Object(below) => below,
                _ => Map::new(),
            };
            if node.member && !below.is_empty() {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            fields.insert(step.encoded(), Value::Object(below));
        }
        Value::Object(fields)
    }
}

/// `fieldsV1` as text, in the order of a server for its built-in kinds: `.` first, then fields, keys, values and
/// positions.
impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, (step, node)) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{}:", Value::String(step.encoded()))?;
            match (node.member, node.below.is_empty()) {
                (_, true) => f.write_str("{}")?,
                (false, false) => node.below.fmt(f)?,
                (true, false) => write!(f, r#"{{".":{{}},{}"#, &node.below.to_string()[1..])?,
            }
        }
        f.write_str("}")
    }
}

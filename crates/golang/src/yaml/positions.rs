//! The positions of the keys and values of a document in its text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::compose::{NodeContent, NodeId, Tree, YamlNode};
use super::decode::is_merge;
use super::scalar::{Typed, resolve};

/// A position in a text; line and column count from 1, columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    pub(super) const START: Position = Position { line: 1, column: 1 };

    /// The position after a text that begins here.
    pub(super) fn after(self, text: &str) -> Self {
        match text.rsplit_once('\n') {
            Some((lines, last)) => {
                Position { line: self.line + lines.matches('\n').count() + 1, column: last.chars().count() + 1 }
            }
            None => Position { column: self.column + text.chars().count(), ..self },
        }
    }
}

/// The positions of a document: of its value, and of everything in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// In the order of the value: a node, then its entries or members with all that is in them. The parts of a document
    /// share them.
    nodes: Arc<[NodePosition]>,
    /// The index of the first node.
    first: usize,
}

/// A node, in five numbers: there are as many as values in all files of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NodePosition {
    /// The key in a mapping; elsewhere the value.
    key: CompactPosition,
    value: CompactPosition,
    /// How many nodes it consists of, itself included.
    nodes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CompactPosition {
    line: u32,
    column: u32,
}

/// A value of a document, with its position.
#[derive(Clone, Copy, Debug)]
pub struct LocatedValue<'a> {
    positions: &'a Positions,
    /// The index of its node.
    index: usize,
    value: &'a Value,
}

impl From<Position> for CompactPosition {
    fn from(Position { line, column }: Position) -> Self {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        CompactPosition { line: number(line), column: number(column) }
    }
}

impl From<CompactPosition> for Position {
    fn from(CompactPosition { line, column }: CompactPosition) -> Self {
        let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        Position { line: number(line), column: number(column) }
    }
}

impl Positions {
    /// The value of a document with its position; `None` without positions.
    pub fn locate<'a>(&'a self, value: &'a Value) -> Option<LocatedValue<'a>> {
        self.nodes.get(self.first).map(|_| LocatedValue { positions: self, index: self.first, value })
    }

    /// The same positions in a text in which the document begins further down.
    pub(super) fn moved_by(mut self, lines: usize) -> Self {
        let lines = u32::try_from(lines).unwrap_or(u32::MAX);
        for node in Arc::make_mut(&mut self.nodes) {
            node.key.line = node.key.line.saturating_add(lines);
            node.value.line = node.value.line.saturating_add(lines);
        }
        self
    }

    /// The same positions where some lines are further to the left.
    pub(super) fn moved_left(mut self, lines: &BTreeSet<usize>, by: usize) -> Self {
        if lines.is_empty() {
            return self;
        }
        let moved = |position: CompactPosition| {
            let Position { line, column } = position.into();
            let column = if lines.contains(&line) { column.saturating_sub(by).max(1) } else { column };
            Position { line, column }.into()
        };
        for node in Arc::make_mut(&mut self.nodes) {
            (node.key, node.value) = (moved(node.key), moved(node.value));
        }
        self
    }

    /// The positions of a JSON text that begins at a position; none if it is not JSON.
    pub(super) fn from_json(text: &str, start: Position) -> Self {
        let (mut scanner, mut nodes) = (JsonScanner { rest: text, at: start }, Vec::new());
        match scanner.value(start, &mut nodes) {
            Some(()) => Positions { nodes: nodes.into(), first: 0 },
            None => Positions::default(),
        }
    }

    /// The positions of the value that a tree was decoded to.
    pub(super) fn from_tree(tree: &Tree<'_>, value: &Value) -> Self {
        let (mut reader, root) = (TreeReader { tree, nodes: Vec::new() }, tree.node(Tree::ROOT).place);
        reader.add_node(Some(Tree::ROOT), value, (root, root));
        Positions { nodes: reader.nodes.into(), first: 0 }
    }
}

/// Reads a tree and the value that it was decoded to for the positions in it.
struct TreeReader<'t, 'a> {
    tree: &'t Tree<'a>,
    nodes: Vec<NodePosition>,
}

impl TreeReader<'_, '_> {
    /// Adds a node and all that is in it. Without a node of the tree, everything gets the same position.
    fn add_node(&mut self, id: Option<NodeId>, value: &Value, (key, at): (Position, Position)) {
        let (tree, first) = (self.tree, self.nodes.len());
        self.nodes.push(NodePosition { key: key.into(), value: at.into(), nodes: 1 });
        let content = id.map(|id| &target(tree, id).content);
        match (value, content) {
            (Value::Array(items), content) => {
                let ids = match content {
                    Some(NodeContent::Sequence(ids)) => &ids[..],
                    _ => &[],
                };
                for (index, item) in items.iter().enumerate() {
                    let id = ids.get(index).copied();
                    let place = id.map_or(at, |id| tree.node(id).place);
                    self.add_node(id, item, (place, place));
                }
            }
            (Value::Object(members), content) => {
                let mut entries = BTreeMap::new();
                if let Some(NodeContent::Mapping(ids)) = content {
                    collect(tree, ids, &mut entries);
                }
                for (name, member) in members {
                    let entry = entries.get(name.as_str()).copied();
                    let places = entry.map_or((at, at), |(key, id): (Position, NodeId)| (key, tree.node(id).place));
                    self.add_node(entry.map(|(_, id)| id), member, places);
                }
            }
            _ => {}
        }
        self.close(first);
    }

    /// Counts the nodes of a node whose first is at this position.
    fn close(&mut self, first: usize) {
        let nodes = u32::try_from(self.nodes.len() - first).unwrap_or(u32::MAX);
        if let Some(node) = self.nodes.get_mut(first) {
            node.nodes = nodes;
        }
    }
}

/// The node that an alias stands for, or the node itself.
fn target<'t, 'a>(tree: &'t Tree<'a>, mut id: NodeId) -> &'t YamlNode<'a> {
    // The target of an alias is an earlier node.
    while let NodeContent::Alias(target) = tree.node(id).content {
        id = target;
    }
    tree.node(id)
}

/// Collects the entries of a mapping by key, those of merged mappings included; later ones win.
fn collect(tree: &Tree<'_>, ids: &[NodeId], entries: &mut BTreeMap<String, (Position, NodeId)>) {
    for entry in ids.chunks_exact(2) {
        let key = tree.node(entry[0]);
        if is_merge(key) {
            merge(tree, entry[1], entries);
        } else if let NodeContent::Scalar(scalar) = &target(tree, entry[0]).content
            && let Ok(name) = resolve(scalar).and_then(Typed::into_key)
        {
            entries.insert(name, (key.place, entry[1]));
        }
    }
}

fn merge(tree: &Tree<'_>, id: NodeId, entries: &mut BTreeMap<String, (Position, NodeId)>) {
    match &target(tree, id).content {
        NodeContent::Sequence(items) => items.iter().rev().for_each(|item| merge(tree, *item, entries)),
        NodeContent::Mapping(ids) => collect(tree, ids, entries),
        NodeContent::Scalar(_) | NodeContent::Alias(_) => {}
    }
}

/// Reads a JSON text for the positions in it.
struct JsonScanner<'t> {
    rest: &'t str,
    at: Position,
}

impl JsonScanner<'_> {
    /// Adds the nodes of the next value.
    fn value(&mut self, key: Position, nodes: &mut Vec<NodePosition>) -> Option<()> {
        self.skip_blanks();
        let first = nodes.len();
        nodes.push(NodePosition { key: key.into(), value: self.at.into(), nodes: 1 });
        match self.rest.chars().next()? {
            '{' => {
                let mut members = BTreeMap::new();
                self.entries('}', |scanner| {
                    let (key, name) = (scanner.at, scanner.text()?);
                    scanner.skip_blanks();
                    scanner.rest.starts_with(':').then(|| scanner.take(1))?;
                    let mut member = Vec::new();
                    scanner.value(key, &mut member)?;
                    // The last one of a name counts.
                    members.insert(name, member);
                    Some(())
                })?;
                nodes.extend(members.into_values().flatten());
            }
            '[' => self.entries(']', |scanner| {
                let at = scanner.at;
                scanner.value(at, nodes)
            })?,
            '"' => drop(self.text()?),
            _ => {
                let end = self.rest.find([',', '}', ']', ' ', '\n', '\r', '\t']).unwrap_or(self.rest.len());
                self.take(end);
            }
        }
        let count = u32::try_from(nodes.len() - first).ok()?;
        nodes.get_mut(first)?.nodes = count;
        Some(())
    }

    /// Reads the entries of a list or an object up to its end; each is read from its first character on.
    fn entries(&mut self, end: char, mut entry: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.take(1);
        loop {
            self.skip_blanks();
            match self.rest.chars().next()? {
                ',' => self.take(1),
                last if last == end => {
                    self.take(1);
                    return Some(());
                }
                _ => entry(self)?,
            }
        }
    }

    /// The text in quotes that comes next.
    fn text(&mut self) -> Option<String> {
        let mut is_escaped = true;
        let end = self.rest.find(|letter| {
            let ends = letter == '"' && !is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            ends
        })?;
        let text = serde_json::from_str(self.rest.get(..=end)?).ok()?;
        self.take(end + 1);
        Some(text)
    }

    fn skip_blanks(&mut self) {
        let blanks = self.rest.len() - self.rest.trim_start_matches([' ', '\n', '\r', '\t']).len();
        self.take(blanks);
    }

    /// Skips a number of bytes.
    fn take(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        self.at = self.at.after(taken);
    }
}

impl<'a> LocatedValue<'a> {
    fn node(self) -> NodePosition {
        self.positions.nodes[self.index]
    }

    /// The value itself.
    pub fn value(self) -> &'a Value {
        self.value
    }

    /// The position of the key of a member; that of the value itself elsewhere.
    pub fn key_position(self) -> Position {
        self.node().key.into()
    }

    /// The position of the value.
    pub fn position(self) -> Position {
        self.node().value.into()
    }

    /// A member of an object.
    pub fn member(self, name: &str) -> Option<Self> {
        let rank = self.value.as_object()?.keys().position(|key| key == name)?;
        self.children().nth(rank)
    }

    /// The entries of a list, and the members of an object in the order of their names.
    pub fn children(self) -> impl Iterator<Item = Self> {
        let items = self.value.as_array().into_iter().flatten();
        let members = self.value.as_object().into_iter().flat_map(serde_json::Map::values);
        let mut next = self.index + 1;
        items.chain(members).map_while(move |value| {
            let child = LocatedValue { index: next, value, ..self };
            next += usize::try_from(self.positions.nodes.get(next)?.nodes).ok()?;
            Some(child)
        })
    }

    /// The positions of this value alone.
    pub fn to_positions(self) -> Positions {
        Positions { nodes: self.positions.nodes.clone(), first: self.index }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::{YamlDocument, documents};

    /// The positions of keys and values, by path.
    fn all(text: &str) -> Vec<(String, [usize; 4])> {
        fn add(path: &str, node: LocatedValue<'_>, found: &mut Vec<(String, [usize; 4])>) {
            let (key, value) = (node.key_position(), node.position());
            found.push((path.to_owned(), [key.line, key.column, value.line, value.column]));
            let names: Vec<String> = match node.value() {
                Value::Object(members) => members.keys().cloned().collect(),
                Value::Array(items) => (0..items.len()).map(|index| index.to_string()).collect(),
                _ => Vec::new(),
            };
            assert_eq!(node.children().count(), names.len());
            names.iter().zip(node.children()).for_each(|(name, child)| add(&format!("{path}/{name}"), child, found));
        }
        let mut found = Vec::new();
        for document in documents(text) {
            let YamlDocument { value, positions, .. } = document.unwrap();
            add("", positions.locate(&value).unwrap(), &mut found);
        }
        found
    }

    fn at(text: &str, path: &str) -> [usize; 4] {
        let found = all(text).into_iter().find(|(name, _)| name == path);
        found.unwrap_or_else(|| panic!("{path}: {:?}", all(text))).1
    }

    #[test]
    fn keys_and_values_have_positions_in_their_file() {
        let text = "# first\na: 1\n---\nb:\n  é: [x, {w: z}]\n  c: |\n    text\n---\n- d\n";
        for (path, want) in [
            ("/a", [2, 1, 2, 4]),
            ("/b", [4, 1, 5, 3]),
            ("/b/é", [5, 3, 5, 6]),
            ("/b/é/1/w", [5, 11, 5, 14]),
            // A block of text begins with its first line.
            ("/b/c", [6, 3, 7, 5]),
            ("/0", [9, 3, 9, 3]),
        ] {
            assert_eq!(at(text, path), want, "{path}");
        }
    }

    #[test]
    fn what_an_alias_or_a_merge_repeats_is_where_it_was_written() {
        let text = "base: &base {a: 1, b: 2}\none:\n  <<: *base\n  b: 3\ntwo: *base\n";
        assert_eq!(at(text, "/one/a"), [1, 14, 1, 17]);
        assert_eq!(at(text, "/one/b"), [4, 3, 4, 6]);
        assert_eq!((at(text, "/two"), at(text, "/two/b")), ([5, 1, 5, 6], [1, 20, 1, 23]));
    }

    #[test]
    fn json_has_the_same_positions() {
        let text = "{\n \"b\": [1, {\"\\u0061\\\"\": null}],\n\t\"a\" :\"x\"}\n{\"c\": {}}\n";
        for (path, want) in [
            ("", [1, 1, 1, 1]),
            ("/b", [2, 2, 2, 7]),
            ("/b/1/a\"", [2, 12, 2, 24]),
            ("/a", [3, 2, 3, 7]),
            ("/c", [4, 2, 4, 7]),
        ] {
            assert_eq!(at(text, path), want, "{path}");
        }
        let flow = "{\"a\": [1, {\"b\": \"c\"}], \"d\": {}}";
        let block = format!("# YAML\n{flow}");
        let moved = |(path, [a, b, c, d]): (String, [usize; 4])| (path, [a + 1, b, c + 1, d]);
        assert_eq!(all(flow).into_iter().map(moved).collect::<Vec<_>>(), all(&block));
    }

    #[test]
    fn lines_that_are_read_further_to_the_right_have_their_own_columns() {
        let text = "a:\n  b: {\nc: 1\n}\n";
        assert_eq!(at(text, "/a/b/c"), [3, 1, 3, 4]);
    }
}

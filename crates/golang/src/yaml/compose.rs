//! The tree of a text's first document: nodes in the order of the text, aliases resolved to their targets.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_saphyr::granit_parser::{
    Event, Options, Parser, ScalarStyle, ScanError, Span, StructureStyle, Tag, YamlVersion,
};

use super::{Position, RepeatedKey, YamlError};

/// Maximum nesting of lists and mappings, including those behind aliases.
pub(super) const MAX_DEPTH: usize = 255;

/// Index of a node in its tree.
pub(super) type NodeId = usize;

/// The nodes of a document; the first is its root.
#[derive(Debug, Default)]
pub(super) struct Tree<'a> {
    nodes: Vec<YamlNode<'a>>,
}

#[derive(Debug)]
pub(super) struct YamlNode<'a> {
    pub(super) place: Position,
    pub(super) content: NodeContent<'a>,
}

#[derive(Debug)]
pub(super) enum NodeContent<'a> {
    Scalar(YamlScalar<'a>),
    Sequence(Vec<NodeId>),
    /// Alternating keys and values.
    Mapping(Vec<NodeId>),
    Alias(NodeId),
}

/// A scalar before its type is resolved.
#[derive(Debug)]
pub(super) struct YamlScalar<'a> {
    pub(super) text: Cow<'a, str>,
    /// The full tag (`tag:yaml.org,2002:int`), empty if there is none.
    pub(super) tag: String,
    /// Whether the text determines the type: neither quoted nor tagged.
    pub(super) implicit: bool,
}

impl Position {
    pub(super) fn error(self, message: impl Into<String>) -> YamlError {
        YamlError { line: self.line, column: self.column, message: message.into() }
    }
}

impl Tree<'_> {
    pub(super) const ROOT: NodeId = 0;
}

impl<'a> Tree<'a> {
    pub(super) fn node(&self, id: NodeId) -> &YamlNode<'a> {
        &self.nodes[id]
    }
}

/// Maximum length of a path, in bytes. A longer one is left out.
const LONGEST_PATH: usize = 4096;

/// Maximum number of repeated keys that are reported.
const REPEATED: usize = 100;

/// A step of a path from the root of a tree.
enum Step<'t> {
    Key(&'t str),
    Item(usize),
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Key(name) => write!(f, ".{name}"),
            Step::Item(position) => write!(f, "[{position}]"),
        }
    }
}

impl Tree<'_> {
    /// Repeated keys of mappings, in the order of the text.
    pub(super) fn repeated_keys(&self) -> Vec<RepeatedKey> {
        let mut repeated = Vec::new();
        self.add_repeated_keys(Tree::ROOT, &mut Vec::new(), &mut repeated);
        repeated.sort_by_key(|again| again.line);
        repeated
    }

    /// Adds the repeated keys of a node and of all nodes in it, but not of those that an alias stands for.
    fn add_repeated_keys<'t>(&'t self, id: NodeId, path: &mut Vec<Step<'t>>, repeated: &mut Vec<RepeatedKey>) {
        match &self.node(id).content {
            NodeContent::Scalar(_) | NodeContent::Alias(_) => {}
            NodeContent::Sequence(items) => {
                for (position, item) in items.iter().enumerate() {
                    path.push(Step::Item(position));
                    self.add_repeated_keys(*item, path, repeated);
                    path.pop();
                }
            }
            NodeContent::Mapping(entries) => {
                let mut seen = BTreeSet::new();
                for entry in entries.chunks_exact(2) {
                    let key = self.node(entry[0]);
                    let name = match &key.content {
                        NodeContent::Scalar(YamlScalar { text, .. }) => &**text,
                        _ => "",
                    };
                    path.push(Step::Key(name));
                    let is_repeated = matches!(key.content, NodeContent::Scalar(_)) && !seen.insert(name);
                    if is_repeated && name != "<<" && repeated.len() < REPEATED {
                        let path: String = path.iter().map(ToString::to_string).collect();
                        let path = path.trim_start_matches('.').to_owned();
                        let path = if path.len() > LONGEST_PATH { String::new() } else { path };
                        repeated.push(RepeatedKey { line: key.place.line, key: name.to_owned(), path });
                    }
                    self.add_repeated_keys(entry[1], path, repeated);
                    path.pop();
                }
            }
        }
    }
}

/// Reasons why a text has no tree.
#[derive(Debug)]
pub(super) enum ComposeError {
    Scan(ScanError),
    /// Go rejects it as well, or it exceeds a limit.
    Refused(YamlError),
}

impl From<ScanError> for ComposeError {
    fn from(error: ScanError) -> Self {
        Self::Scan(error)
    }
}

impl From<YamlError> for ComposeError {
    fn from(error: YamlError) -> Self {
        Self::Refused(error)
    }
}

impl From<ComposeError> for YamlError {
    fn from(error: ComposeError) -> Self {
        match error {
            ComposeError::Refused(error) => error,
            ComposeError::Scan(error) => {
                Position { line: error.marker().line().max(1), column: error.marker().col() + 1 }.error(error.info())
            }
        }
    }
}

/// The first document of a text; `None` when the text has none.
pub(super) fn compose(text: &str) -> Result<Option<Tree<'_>>, ComposeError> {
    let mut options = Options::default();
    options.flow_nesting_limit = MAX_DEPTH;
    options.block_nesting_limit = MAX_DEPTH;
    options.set_emit_comments(false);
    let mut composer = Composer { text, tree: Tree::default(), open: Vec::new(), flow: 0, anchors: BTreeMap::new() };
    for event in Parser::new_from_str_with_options(text, options) {
        match event? {
            (Event::DocumentEnd, _) => return Ok(Some(composer.tree)),
            (event, span) => composer.add(event, span)?,
        }
    }
    Ok(None)
}

struct Composer<'a> {
    text: &'a str,
    tree: Tree<'a>,
    /// The lists and mappings that contain the next node.
    open: Vec<NodeId>,
    /// The number of them in flow style, `[]` or `{}`, always the innermost.
    flow: usize,
    anchors: BTreeMap<usize, NodeId>,
}

impl<'a> Composer<'a> {
    fn add(&mut self, event: Event<'a>, span: Span) -> Result<(), YamlError> {
        let anchor = event.anchor_id();
        let flow = self.flow > 0;
        let (content, opens) = match event {
            Event::Scalar(text, style, _, tag) => {
                let text = if ends_without_break(self.text, style, span) { without_break(text) } else { text };
                (NodeContent::Scalar(scalar(text, style, tag.as_deref())), None)
            }
            Event::SequenceStart(style, ..) => (NodeContent::Sequence(Vec::new()), Some(style)),
            Event::MappingStart(style, ..) => (NodeContent::Mapping(Vec::new()), Some(style)),
            Event::Alias(anchor) => (NodeContent::Alias(self.target(anchor, span)?), None),
            Event::SequenceEnd | Event::MappingEnd => {
                self.open.pop();
                self.flow = self.flow.saturating_sub(1);
                return Ok(());
            }
            Event::DocumentStart(_, Some(version)) if version != YamlVersion::new(1, 1) => {
                return Err(place(span).error("found incompatible YAML document"));
            }
            _ => return Ok(()),
        };
        let place = place(span);
        if !flow && tab_before(self.text, span) {
            return Err(place.error("found character that cannot start any token: a tab"));
        }
        if opens.is_some() && self.open.len() == MAX_DEPTH {
            return Err(place.error(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        let id = self.tree.nodes.len();
        if let Some(NodeContent::Sequence(children) | NodeContent::Mapping(children)) =
            self.open.last().map(|parent| &mut self.tree.nodes[*parent].content)
        {
            children.push(id);
        }
        self.tree.nodes.push(YamlNode { place, content });
        if let Some(style) = opens {
            self.open.push(id);
            self.flow += usize::from(flow || style == StructureStyle::Flow);
        }
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, id);
        }
        Ok(())
    }

    /// The target of an alias, unless it contains the alias.
    fn target(&self, anchor: usize, span: Span) -> Result<NodeId, YamlError> {
        let name = || span.slice(self.text).unwrap_or_default().trim_start_matches('*');
        match self.anchors.get(&anchor) {
            None => Err(place(span).error(format!("unknown anchor '{}' referenced", name()))),
            Some(id) if self.open.contains(id) => {
                Err(place(span).error(format!("anchor '{}' value contains itself", name())))
            }
            Some(id) => Ok(*id),
        }
    }
}

fn scalar<'a>(text: Cow<'a, str>, style: ScalarStyle, tag: Option<&Tag>) -> YamlScalar<'a> {
    let tag = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix())).unwrap_or_default();
    let implicit = tag.is_empty() && style == ScalarStyle::Plain;
    YamlScalar { text, tag, implicit }
}

fn place(span: Span) -> Position {
    Position { line: span.start.line().max(1), column: span.start.col() + 1 }
}

/// Whether a block scalar ends with the text in a line without a break: the parser adds a break, Go does not.
fn ends_without_break(text: &str, style: ScalarStyle, span: Span) -> bool {
    let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
    let last_line = || text.rsplit(['\n', '\r']).next().unwrap_or_default();
    block && span.end.byte_offset().is_some_and(|end| end >= text.len()) && !last_line().trim_matches(' ').is_empty()
}

fn without_break(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => text.strip_suffix('\n').unwrap_or(text).into(),
        Cow::Owned(mut text) => {
            if text.ends_with('\n') {
                text.pop();
            }
            text.into()
        }
    }
}

/// Whether a tab is among the blanks and indicators before a node: Go neither indents with tabs nor skips them where a
/// key may follow.
fn tab_before(text: &str, span: Span) -> bool {
    let before = span.start.byte_offset().and_then(|start| text.get(..start)).unwrap_or_default();
    let indicators = before.bytes().rev().take_while(|byte| !matches!(byte, b'\n' | b'\r'));
    let mut tab = false;
    for byte in indicators {
        match byte {
            b'\t' => tab = true,
            b' ' | b'-' | b'?' | b':' => {}
            _ => return false,
        }
    }
    tab
}

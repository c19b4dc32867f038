//! The nodes of a program: expressions with resolved names, each with its type.

use super::lex::Literal;
use super::library::Function;
use super::parse::{Form, Selection};
use super::types::Type;
use golang::regexp::Regex;

/// A piece of a program.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub op: Op,
    pub ty: Type,
}

#[derive(Debug, Clone)]
pub(super) enum Op {
    Literal(Literal),
    TypeName(&'static str),
    /// A variable by its place on the stack: 0 is `self`, 1 is `oldSelf`.
    Slot(usize),
    Select {
        of: Box<Node>,
        field: String,
        how: Selection,
    },
    And(Box<(Node, Node)>),
    Or(Box<(Node, Node)>),
    Choose(Box<(Node, Node, Node)>),
    Index {
        of: Box<(Node, Node)>,
        optional: bool,
    },
    Call {
        function: &'static Function,
        args: Vec<Node>,
    },
    /// A search with an expression that is compiled already.
    Search {
        function: &'static Function,
        args: Vec<Node>,
        regex: Regex,
    },
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    /// A duration or a timestamp, as its type says.
    Time(Vec<(Unit, Node, bool)>),
    Loop(Box<Repeat>),
    Bind {
        of: Box<Node>,
        body: Box<Node>,
        flat: bool,
    },
}

/// The fields of durations and timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Nanos,
}

/// A loop; its variables are on top of the stack.
#[derive(Debug, Clone)]
pub(super) struct Repeat {
    pub form: Form,
    pub range: Node,
    /// Whether there are two variables: key or index, and value.
    pub keyed: bool,
    pub filter: Option<Node>,
    pub body: Node,
}

//! Nodes of a program: expressions with resolved names and types.

use super::lex::Constant;
use super::library::Function;
use super::parse::{LoopForm, SelectMode};
use super::types::CelType;
use golang::regexp::Regex;

/// A node of a program.
#[derive(Debug, Clone)]
pub(super) struct CelNode {
    pub op: Op,
    pub ty: CelType,
}

#[derive(Debug, Clone)]
pub(super) enum Op {
    Literal(Constant),
    TypeName(&'static str),
    /// A variable by stack position: 0 is `self`, 1 is `oldSelf`.
    Slot(usize),
    Select {
        of: Box<CelNode>,
        field: String,
        how: SelectMode,
    },
    And(Box<(CelNode, CelNode)>),
    Or(Box<(CelNode, CelNode)>),
    Choose(Box<(CelNode, CelNode, CelNode)>),
    Index {
        of: Box<(CelNode, CelNode)>,
        optional: bool,
    },
    Call {
        function: &'static Function,
        args: Vec<CelNode>,
    },
    /// A search with a precompiled expression.
    Search {
        function: &'static Function,
        args: Vec<CelNode>,
        regex: Regex,
    },
    List(Vec<(CelNode, bool)>),
    Map(Vec<(CelNode, CelNode, bool)>),
    /// A duration or timestamp, depending on its type.
    Time(Vec<(TimeField, CelNode, bool)>),
    Loop(Box<Repeat>),
    Bind {
        of: Box<CelNode>,
        body: Box<CelNode>,
        flat: bool,
    },
}

/// Fields of durations and timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeField {
    Seconds,
    Nanos,
}

/// A loop; its variables are on top of the stack.
#[derive(Debug, Clone)]
pub(super) struct Repeat {
    pub form: LoopForm,
    pub range: CelNode,
    /// Whether there are two variables: key or index, and value.
    pub keyed: bool,
    pub filter: Option<CelNode>,
    pub body: CelNode,
}

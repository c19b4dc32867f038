//! CEL rules of schemas (`x-kubernetes-validations`), as Kubernetes 1.35 compiles and runs them.
//!
//! ```text
//! text ─► lex ─► parse ─► Expr ─► check (types, library) ─► Node ─┬► cost   worst case, before there is a value
//!                                                                 └► eval   on JSON seen through the schema (value)
//! ```
//!
//! `rules` binds it to schema nodes. Parser and evaluator are our own: nesting is limited when a text is read, so nothing
//! recurses deeper than that, and an evaluation spends from two budgets (`meter`), the cost units of Kubernetes and the work
//! that the machine really has to do.
//!
//! Known differences from Kubernetes: named time zones (`Europe/Berlin`) are unknown, only `UTC` and offsets are; texts
//! nest at most 120 levels; of the messages of protocol buffers only durations and timestamps can be made; messages of named formats are shorter; a rule that is cheap in cost units and still very
//! much work is ended like one that exceeds its cost.

mod check;
mod cost;
mod eval;
mod fault;
pub(super) mod field_path;
mod lex;
mod library;
mod meter;
mod parse;
mod rules;

mod types;
mod value;

pub(super) use cost::{PER_RULE, PER_VARIABLE};
pub use rules::CelCost;
pub(super) use rules::{Budget, Rules};
pub(super) use types::MAX_REQUEST;

/// Whether expressions can speak of a node (CEL-007).
pub(super) fn has_type(node: &super::Definition) -> bool {
    types::Decl::is_of(node)
}

#[cfg(test)]
mod tests;

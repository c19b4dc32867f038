//! CEL rules of schemas (`x-kubernetes-validations`), as Kubernetes 1.35 compiles and runs them.
//!
//! ```text
//! text ─► lex ─► parse ─► Expr ─► check (types, library) ─► Node ─┬► cost   worst case, before there is a value
//!                                                                 └► eval   on JSON seen through its declaration (value)
//! ```
//!
//! `schema` declares what a value is to an expression and says how patterns are compiled. Parser and evaluator are our own:
//! nesting is limited when a text is read, so nothing recurses deeper than that, and an evaluation spends from two budgets
//! (`meter`), the cost units of Kubernetes and the work that the machine really has to do.
//!
//! Known differences from Kubernetes: named time zones (`Europe/Berlin`) are unknown, only `UTC` and offsets are; texts
//! nest at most 120 levels; of the messages of protocol buffers only durations and timestamps can be made; messages of named formats are shorter; a rule that is cheap in cost units and still very
//! much work is ended like one that exceeds its cost.

mod budget;
mod check;
mod cost;
mod eval;
mod extended;
mod fault;
mod lex;
mod library;
mod meter;
mod node;
mod parse;
mod program;
mod texts;
mod types;
mod value;

pub use budget::CelCost;

pub(crate) use budget::Budget;
pub(crate) use check::Wanted;
pub(crate) use cost::{PER_RULE, PER_VARIABLE};
pub(crate) use fault::Fault;
pub(crate) use program::Program;
pub(crate) use texts::{is_base64, is_request_uri, is_uuid};
pub(crate) use types::{Decl, Field, MAX_REQUEST, Reading, Structure, Type, escaped};

//! CEL rules of schemas (`x-kubernetes-validations`), as Kubernetes 1.35 compiles and runs them.
//!
//! The language is that of the [CEL definition](https://github.com/google/cel-spec/blob/master/doc/langdef.md). Types
//! derived from schemas, additional functions and cost limits are those of
//! [Kubernetes](https://kubernetes.io/docs/reference/using-api/cel/).
//!
//! ```text
//! text ─► lex ─► parse ─► Expr ─► check (types, library) ─► Node ─┬► cost   worst case, before there is a value
//!                                                                 └► eval   on JSON seen through its declaration (value)
//! ```
//!
//! `openapi` declares the type of a value for expressions and compiles patterns. No crate has the checker and the
//! estimator, so that parser and evaluator are ours as well (DEC-111). Nesting is limited when an expression is parsed,
//! which bounds all recursion. An evaluation has two budgets (`meter`): the cost units of Kubernetes, and the actual
//! work.
//!
//! Known differences from Kubernetes:
//!
//! * Time zones are `UTC` and offsets; names such as `Europe/Berlin` are unknown.
//! * Expressions nest at most 120 levels.
//! * Of the messages of protocol buffers, only durations and timestamps can be created.
//! * Error messages of named formats are shorter.
//! * A rule with a low cost in units but much actual work is stopped as if it exceeded its cost.

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

pub(crate) use budget::EvaluationBudget;
pub(crate) use check::{PatternError, ResultType};
pub(crate) use cost::{PER_RULE, PER_VARIABLE};
pub(crate) use fault::EvalError;
pub(crate) use program::{Program, ProgramError};
pub(crate) use texts::{is_base64, is_request_uri, is_uuid};
pub(crate) use types::{CelType, Decl, FieldDecl, MAX_REQUEST, ObjectDecl, TextEncoding, escaped};

//! A compiled expression over `self` and `oldSelf`.

use serde_json::Value;

use super::budget::EvaluationBudget;
use super::check::{CheckedExpr, Patterns, ResultType, compile, mistake_with_hint};
use super::cost::{self, ExpressionCost};
use super::eval::run;
use super::fault::EvalError;
use super::types::Decl;
use super::value::{Val, view};

/// Maximum length of the message of a message expression, in bytes.
const MAX_MESSAGE: usize = 5120;

/// A compiled expression with its maximum cost.
#[derive(Debug)]
pub(crate) struct Program {
    checked: CheckedExpr,
    pub(crate) cost: u64,
    /// The function whose result has no maximum size, if the cost depends on one.
    pub(crate) unbounded: Option<&'static str>,
}

/// The reason for which an expression has no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProgramError {
    /// The compile error, with its position in the expression.
    #[error("{0}")]
    Expression(String),
    #[error("the node has no type that expressions know")]
    NoType,
}

impl Program {
    /// Compiles an expression over values with the declaration `decl`.
    ///
    /// # Errors
    /// The compile error with its position.
    pub(crate) fn compile(
        text: &str,
        decl: &Decl,
        wanted: ResultType,
        patterns: Patterns<'_>,
    ) -> Result<Self, ProgramError> {
        let checked = compile(text, decl, wanted, patterns)
            .map_err(|mistake| ProgramError::Expression(mistake.with_context(text)))?;
        let ExpressionCost { units, unbounded } = cost::estimate(&checked.root, decl);
        Ok(Program { checked, cost: units, unbounded })
    }

    /// The error of an expression, with a suggestion for a misspelled name.
    pub(crate) fn mistake_with_hint(
        text: &str,
        decl: &Decl,
        wanted: ResultType,
        patterns: Patterns<'_>,
    ) -> Option<String> {
        Some(mistake_with_hint(text, decl, wanted, patterns)?.with_context(text))
    }

    /// Whether it refers to `oldSelf`.
    pub(crate) fn uses_old(&self) -> bool {
        self.checked.uses_old
    }

    /// Whether it is true for a value.
    pub(crate) fn holds(
        &self,
        decl: &Decl,
        value: &Value,
        old: Option<&Value>,
        budget: &mut EvaluationBudget,
    ) -> Result<bool, EvalError> {
        Ok(matches!(self.evaluate(decl, value, old, budget)?, Val::Bool(true)))
    }

    /// The message for a value, if it can be displayed.
    pub(crate) fn message(
        &self,
        decl: &Decl,
        value: &Value,
        old: Option<&Value>,
        budget: &mut EvaluationBudget,
    ) -> Result<Option<String>, EvalError> {
        Ok(match self.evaluate(decl, value, old, budget)? {
            Val::Text(text) => usable(text.as_str()),
            _ => None,
        })
    }

    fn evaluate<'v>(
        &'v self,
        decl: &'v Decl,
        value: &'v Value,
        old: Option<&'v Value>,
        budget: &mut EvaluationBudget,
    ) -> Result<Val<'v>, EvalError> {
        let meter = &mut budget.0;
        let this = view(value, decl, meter);
        let before = if self.checked.uses_old { old } else { None };
        let before = before.map_or(Ok(Val::Null), |old| view(old, decl, meter));
        meter.begin();
        let result = run(&self.checked.root, [this, before], meter);
        meter.end();
        result
    }
}

/// A message that can be displayed.
fn usable(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n')).then(|| text.to_owned())
}

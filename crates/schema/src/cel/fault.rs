//! Errors of expressions: at compile time with a position, and at run time.

use std::borrow::Cow;

/// Compile error of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompileError {
    /// Offset in bytes from the start of the expression.
    pub at: usize,
    pub text: String,
}

impl CompileError {
    pub(super) fn new(at: usize, text: impl Into<String>) -> CompileError {
        CompileError { at, text: text.into() }
    }

    /// The error with line and column (from 1) and an excerpt of `source`.
    pub(super) fn with_context(&self, source: &str) -> String {
        let before = source.get(..self.at).unwrap_or(source);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let piece: String = source.get(self.at..).unwrap_or_default().chars().take(40).collect();
        let piece = piece.lines().next().unwrap_or_default().trim_end().to_owned();
        match piece.is_empty() {
            true => format!("{} (line {line}, column {column})", self.text),
            false => format!("{} (line {line}, column {column}, at {piece:?})", self.text),
        }
    }
}

/// Reason why an evaluation has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EvalError {
    /// The expression fails for this value; `&&` and `
    ///
    /// ` may absorb it.
    Failed(Cow<'static, str>),
    /// A budget is exceeded.
    Spent,
}

impl EvalError {
    pub(super) fn failed(text: impl Into<Cow<'static, str>>) -> EvalError {
        EvalError::Failed(text.into())
    }
}

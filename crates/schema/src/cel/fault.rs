//! Errors of expressions: at compile time, with a position, and at run time.

use std::borrow::Cow;

/// What is wrong with an expression as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    /// Where, in bytes from the start of the expression.
    pub at: usize,
    pub text: String,
}

impl Mistake {
    pub(super) fn new(at: usize, text: impl Into<String>) -> Mistake {
        Mistake { at, text: text.into() }
    }

    /// The mistake with line and column (both from 1) and the piece of `source` where it stands.
    pub(super) fn shown(&self, source: &str) -> String {
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

/// Why an evaluation ended without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The expression fails on this value; `&&` and `||` may absorb that.
    Failed(Cow<'static, str>),
    /// A budget is used up.
    Spent,
}

impl Fault {
    pub(super) fn of(text: impl Into<Cow<'static, str>>) -> Fault {
        Fault::Failed(text.into())
    }
}

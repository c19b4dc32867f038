//! Errors of parsing and rendering, in Go's format with line and column.

use std::fmt;

use super::characters::quote;
use crate::yaml::YamlError;

/// Syntax error of a template; line counts from 1, column in bytes from 0, as in Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("template: {name}:{line}:{column}: {message}")]
pub struct ParseError {
    pub name: String,
    pub line: usize,
    pub column: usize,
    /// The error in Go's words.
    pub message: String,
}

/// Error of a rendering and the piece of the template that caused it; line and column as in [`ParseError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderError {
    pub name: Box<str>,
    pub line: usize,
    pub column: usize,
    /// The template that was executing: that of the file, or a template defined in it.
    pub executing: Box<str>,
    /// The failing piece, in Go's notation.
    pub piece: Box<str>,
    /// The function that failed, if one did.
    pub call: Option<&'static str>,
    pub failure: RenderFailure,
}

/// Reasons for a failed rendering.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderFailure {
    /// An error of the template or its data, in Go's words.
    #[error("{0}")]
    Template(String),
    /// Rendering exceeds a limit.
    #[error("{what} exceed the limit of {limit}")]
    Limit { what: &'static str, limit: usize },
    /// The function is not deterministic, or generates keys (DEC-12).
    #[error("{0} is not deterministic and cannot be rendered")]
    NotDeterministic(&'static str),
}

/// Reasons why the output of a template gives no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The position is a position in the output.
    #[error("template: {name}: output is not YAML: {source}")]
    Yaml { name: String, source: YamlError },
    /// A character was cut in two, or decoded from bytes that are none (TV-10).
    #[error(
        "template: {name}: output has bytes that are no UTF-8: trunc, substr, abbrev and slice count bytes and may cut \
         a character in two"
    )]
    NotUtf8 { name: String },
}

impl RenderFailure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        RenderFailure::Template(shortened(message.into(), MAX_MESSAGE))
    }
}

impl std::error::Error for RenderError {}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RenderError { name, line, column, executing, piece, .. } = self;
        write!(f, "template: {name}:{line}:{column}: executing {} at <{piece}>: ", quote(executing))?;
        if let Some(function) = &self.call {
            write!(f, "error calling {function}: ")?;
        }
        write!(f, "{}", self.failure)
    }
}

/// Maximum length of a quoted text in a message, in bytes.
pub(super) const MAX_MESSAGE: usize = 2 << 10;

/// The text, cut with an ellipsis if it is too long.
pub(super) fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// Line (from 1) and column (bytes, from 0) of a position in `text`.
pub(super) fn line_and_column(text: &str, position: usize) -> (usize, usize) {
    let before = text.get(..position).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (1 + before.matches('\n').count(), before.len() - start)
}

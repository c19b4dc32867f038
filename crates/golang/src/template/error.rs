//! Errors of parsing and rendering, in Go's format with line and column.

use std::fmt;

use super::characters::quote;
use crate::yaml::YamlError;

/// Why a text is not a template, and where; line counts from 1, column in bytes from 0, as in Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("template: {name}:{line}:{column}: {message}")]
pub struct ParseError {
    pub name: String,
    pub line: usize,
    pub column: usize,
    /// What is wrong, in Go's words.
    pub message: String,
}

/// Why a template does not render, and at which piece of it; line and column as in [`ParseError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderError {
    pub name: Box<str>,
    pub line: usize,
    pub column: usize,
    /// The template that was executing: that of the file, or one defined in it.
    pub executing: Box<str>,
    /// The failing piece, written as Go writes it.
    pub piece: Box<str>,
    /// The function that failed, when it was one.
    pub call: Option<&'static str>,
    pub failure: Failure,
}

/// What went wrong while rendering.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// An error of the template or its data, in Go's words.
    #[error("{0}")]
    Template(String),
    /// Rendering would take more than we allow.
    #[error("{what} exceed the limit of {limit}")]
    Limit { what: &'static str, limit: usize },
    /// The function gives something else each time, or makes keys (DEC-12).
    #[error("{0} is not deterministic and cannot be rendered")]
    NotDeterministic(&'static str),
}

/// Why a template gives no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The position is one in the output.
    #[error("template: {name}: output is not YAML: {source}")]
    Yaml { name: String, source: YamlError },
    /// A character was cut in two, or decoded from bytes that are none (TV-10).
    #[error(
        "template: {name}: output has bytes that are no UTF-8: trunc, substr, abbrev and slice count bytes and may cut a \
         character in two"
    )]
    NotUtf8 { name: String },
}

impl Failure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Failure::Template(shortened(message.into(), MAX_MESSAGE))
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

/// Messages quote what they are about; beyond so many bytes they are cut.
pub(super) const MAX_MESSAGE: usize = 2 << 10;

/// The text, cut and with an ellipsis where it is longer.
pub(super) fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// Line from 1 and column in bytes from 0 of a position in `text`.
pub(super) fn line_and_column(text: &str, position: usize) -> (usize, usize) {
    let before = text.get(..position).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (1 + before.matches('\n').count(), before.len() - start)
}

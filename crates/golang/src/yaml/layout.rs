//! Layouts that Go accepts and the parser rejects.
//!
//! In quoted texts and in `[]` and `{}` it does not matter to goyaml.v2 where a line begins; the parser wants it to the
//! right of the block around it, and before any tab. Such lines are moved to the right, which changes no value, since
//! blanks at their beginning mean nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;
use serde_saphyr::granit_parser::{ErrorKind, ScanError};

use super::compose::{ComposeError, Tree, compose};
use super::decode::decode;
use super::{Positions, RepeatedKey, YamlError};

/// Indentation of moved lines, deeper than any usual block.
const MOVE: usize = 64;

/// Maximum bytes read again because of moved lines.
const MAX_READ_AGAIN: usize = 16 << 20;

/// What a text's first document has.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) value: Value,
    pub(super) repeated: Vec<RepeatedKey>,
    pub(super) positions: Positions,
}

/// The value of a text's first document, for any indentation.
pub(super) fn value(text: &str) -> Result<Value, YamlError> {
    read_as(text, |_, value, _| value)
}

/// The content of a text's first document, for any indentation.
pub(super) fn read(text: &str) -> Result<Content, YamlError> {
    read_as(text, |tree, value, indented| {
        let (repeated, positions) = match tree {
            Some(tree) => (tree.repeated_keys(), Positions::from_tree(tree, &value).moved_left(indented, MOVE)),
            None => Default::default(),
        };
        Content { value, repeated, positions }
    })
}

fn read_as<T>(
    text: &str,
    content: impl FnOnce(Option<&Tree<'_>>, Value, &BTreeSet<usize>) -> T,
) -> Result<T, YamlError> {
    let mut text = Cow::Borrowed(text);
    let mut indented = BTreeSet::new();
    let mut again = 0;
    loop {
        let failure = match compose(&text) {
            Ok(None) => return Ok(content(None, Value::Null, &indented)),
            Ok(Some(tree)) => {
                let value = decode(&tree).map_err(|error| as_written(error, &indented))?;
                return Ok(content(Some(&tree), value, &indented));
            }
            Err(failure) => failure,
        };
        let line = match &failure {
            ComposeError::Scan(error) if is_about_layout(error) => error.marker().line(),
            _ => return Err(as_written(failure.into(), &indented)),
        };
        again += text.len();
        if again > MAX_READ_AGAIN || is_marked(&text, line) || !indented.insert(line) {
            return Err(as_written(failure.into(), &indented));
        }
        text = move_line(&text, line).into();
    }
}

/// Whether the error is about layout. Errors about tabs before block lists and mappings occur again in the tree after
/// the move.
fn is_about_layout(error: &ScanError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidQuotedScalarIndent | ErrorKind::TabInIndentation | ErrorKind::TabInBlockIndentation
    )
}

/// Whether a document begins or ends at the line, even inside a quoted text.
fn is_marked(text: &str, line: usize) -> bool {
    let content = text.split_inclusive('\n').nth(line - 1).unwrap_or_default();
    is_marker(content, "---") || is_marker(content, "...")
}

/// Whether a line begins with a marker; what follows `---` on its line belongs to the document.
pub(super) fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

fn move_line(text: &str, line: usize) -> String {
    let lines = (1..).zip(text.split_inclusive('\n'));
    lines.fold(String::with_capacity(text.len() + MOVE), |mut indented, (number, content)| {
        if number == line {
            indented.extend(std::iter::repeat_n(' ', MOVE));
        }
        indented.push_str(content);
        indented
    })
}

fn as_written(error: YamlError, indented: &BTreeSet<usize>) -> YamlError {
    match indented.contains(&error.line) {
        true => YamlError { column: error.column.saturating_sub(MOVE).max(1), ..error },
        false => error,
    }
}

//! JSON pointers ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901)) of patches: parsed once, then followed in
//! documents. The error for a pointer without a target says which part of it does not exist.

use std::fmt::Write as _;

use json_patch::jsonptr::{PointerBuf, Token};
use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};
use serde_json::Value;

use model::hub::type_of;
use schema::field::Path;

/// Maximum depth of documents, which exceeds that of API servers: functions that walk a document recurse.
const MAX_DEPTH: usize = 256;

/// An error of a pointer, or of a value at its target.
#[derive(Debug, thiserror::Error)]
pub(super) enum PointerError {
    #[error("path {0:?} does not start with \"/\"")]
    NoSlash(String),
    #[error("path {text:?} is not a JSON pointer: {source}")]
    Invalid { text: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("path has more than {} parts", MAX_DEPTH)]
    TooManyParts,
    #[error("the value would nest the template deeper than {} levels", MAX_DEPTH)]
    TooDeep,
}

/// An error of a list index in a pointer.
#[derive(Debug, thiserror::Error)]
enum IndexError {
    #[error("{0:?} is not an index of it")]
    NotAnIndex(String),
    #[error("\"-\" is the position after the last element, which only add can use")]
    AfterTheLast,
    #[error("has no element {0}")]
    NoElement(String),
}

/// A JSON pointer (RFC 6901).
#[derive(Clone, Debug)]
pub(super) struct Pointer {
    buffer: PointerBuf,
    /// The pointer as a path of members, unless a part may be a position in a list.
    members: Option<String>,
}

/// An operation that sets a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum SetOperation {
    Add,
    Replace,
}

/// The target of a pointer in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PointerTarget {
    /// The path, such as `a.b[0]`.
    pub path: String,
    /// The list and the position of an element.
    pub element: Option<(String, usize)>,
}

impl Pointer {
    /// Parses a pointer; a `~` that escapes nothing is literal (DEC-27).
    pub(super) fn parse(text: &str) -> Result<Self, PointerError> {
        if !text.is_empty() && !text.starts_with('/') {
            return Err(PointerError::NoSlash(text.to_owned()));
        }
        let mut escaped = String::with_capacity(text.len());
        for (at, character) in text.char_indices() {
            escaped.push(character);
            let rest = text.get(at + character.len_utf8()..).unwrap_or_default();
            if character == '~' && !rest.starts_with(['0', '1']) {
                escaped.push('0');
            }
        }
        let buffer = PointerBuf::parse(escaped)
            .map_err(|error| PointerError::Invalid { text: text.to_owned(), source: error.into() })?;
        if buffer.count() > MAX_DEPTH {
            return Err(PointerError::TooManyParts);
        }
        let is_plain = buffer.tokens().all(|token| !may_be_position(&token.decoded()));
        let path = || buffer.tokens().fold(Path::ROOT, |path, token| path.member(&token.decoded()));
        let members = is_plain.then(|| path().into_text().into_owned());
        Ok(Pointer { buffer, members })
    }

    /// Whether the target is below a member of the document.
    pub(super) fn is_below(&self, member: &str) -> bool {
        self.buffer.count() > 1 && self.buffer.first().is_some_and(|token| token.decoded() == member)
    }

    /// The operation that removes the target.
    pub(super) fn remove(&self) -> PatchOperation {
        PatchOperation::Remove(RemoveOperation { path: self.buffer.clone() })
    }

    /// The operation that sets the target to a value.
    pub(super) fn make(&self, make: SetOperation, value: Value) -> Result<PatchOperation, PointerError> {
        fits(self, &value)?;
        let path = self.buffer.clone();
        Ok(match make {
            SetOperation::Add => PatchOperation::Add(AddOperation { path, value }),
            SetOperation::Replace => PatchOperation::Replace(ReplaceOperation { path, value }),
        })
    }

    /// The pointer in the type of the library.
    pub(super) fn buffer(&self) -> &PointerBuf {
        &self.buffer
    }

    /// The number of parts.
    pub(super) fn depth(&self) -> usize {
        self.buffer.count()
    }

    /// The target in a document; `-` is the position after the last element.
    pub(super) fn locate(&self, document: &Value) -> PointerTarget {
        if let Some(members) = &self.members {
            return PointerTarget { path: members.clone(), element: None };
        }
        let (mut path, mut element) = (Path::ROOT, None);
        let mut here = Some(document);
        for token in self.buffer.tokens() {
            let name = token.decoded();
            element = None;
            here = match here {
                Some(Value::Array(elements)) => {
                    let position = if name == "-" { elements.len() } else { name.parse().unwrap_or(usize::MAX) };
                    element = Some((path.as_str().to_owned(), position));
                    path = path.index(position);
                    elements.get(position)
                }
                other => {
                    path = path.member(&name);
                    other.and_then(|value| value.get(&*name))
                }
            };
        }
        PointerTarget { path: path.into_text().into_owned(), element }
    }

    /// The reason for which the target does not exist in a document; `None` if it exists, or if only its last part is
    /// missing and `may_be_new`.
    pub(super) fn fault(&self, document: &Value, may_be_new: bool) -> Option<String> {
        let mut here = document;
        let mut walked = String::new();
        let count = self.buffer.count();
        for (at, token) in self.buffer.tokens().enumerate() {
            let is_new = may_be_new && at + 1 == count;
            let name = token.decoded();
            let shown = if walked.is_empty() { "the template" } else { &*walked };
            here = match here {
                Value::Object(members) => match members.get(&*name) {
                    Some(next) => next,
                    None if is_new => return None,
                    None => return Some(format!("{shown} has no {:?}{}", &*name, near(members.keys(), &name))),
                },
                Value::Array(elements) => match position(&token, elements.len(), is_new) {
                    Ok(position) => elements.get(position)?,
                    Err(problem) => return Some(format!("{shown} is a list of {}, and {problem}", elements.len())),
                },
                other => {
                    let name = &*name;
                    return Some(format!("{shown} is {}, and has no {name:?}", type_of(other)));
                }
            };
            let _ = write!(walked, "/{}", token.encoded());
        }
        None
    }
}

/// Parses a part of a pointer as a position in a list.
fn position(token: &Token<'_>, length: usize, is_new: bool) -> Result<usize, IndexError> {
    let name = token.decoded();
    let Ok(index) = token.to_index() else {
        return Err(IndexError::NotAnIndex(name.into_owned()));
    };
    let position = if is_new { index.for_len_incl(length) } else { index.for_len(length) };
    position.map_err(|_| match &*name {
        "-" => IndexError::AfterTheLast,
        name => IndexError::NoElement(name.to_owned()),
    })
}

/// Similar names, for a message.
fn near<'a>(names: impl Iterator<Item = &'a String>, wanted: &str) -> String {
    let alike = names.filter(|name| name.eq_ignore_ascii_case(wanted)).map(|name| format!("{name:?}")).next();
    alike.map(|name| format!(", but {name}")).unwrap_or_default()
}

fn may_be_position(name: &str) -> bool {
    name == "-" || (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The depth of a value; 0 for scalars.
pub(super) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Fails when a value at a pointer makes the document too deep.
pub(super) fn fits(pointer: &Pointer, value: &Value) -> Result<(), PointerError> {
    match pointer.depth() + depth(value) > MAX_DEPTH {
        true => Err(PointerError::TooDeep),
        false => Ok(()),
    }
}

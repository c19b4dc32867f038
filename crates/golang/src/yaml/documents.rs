//! Documents of a file.
//!
//! A text is cut into documents at its `---` and `...` lines first, so that a broken document does not hide the others.

use std::borrow::Cow;

use serde_json::Value;

use super::layout::{self, Content, is_marker};
use super::{Position, Positions, RepeatedKey, YamlError};
use crate::json::PlainValue;

/// A document, and the line on which its content begins (from 1).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct YamlDocument {
    pub line: usize,
    pub value: Value,
    /// Repeated keys of mappings, at most a hundred; JSON texts are not checked.
    pub repeated: Vec<RepeatedKey>,
    /// The positions of keys and values in the file; none if the value comes from elsewhere.
    pub positions: Positions,
}

/// The documents of a text in order, without empty ones.
pub fn documents(text: &str) -> Vec<Result<YamlDocument, YamlError>> {
    unread_documents(text).into_iter().filter_map(UnreadDocument::read).collect()
}

/// The documents of a text before they are read, which may happen on other threads.
pub fn unread_documents(text: &str) -> Vec<UnreadDocument<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let of_json = if text.trim_start().starts_with(['{', '[']) { json_documents(text) } else { None };
    match of_json {
        Some(documents) => documents.into_iter().map(|one| UnreadDocument(Unread::Json(Box::new(one)))).collect(),
        None => yaml_texts(text).into_iter().map(|one| UnreadDocument(Unread::Yaml(one))).collect(),
    }
}

/// A document that is not read yet.
#[derive(Debug)]
pub struct UnreadDocument<'a>(Unread<'a>);

#[derive(Debug)]
enum Unread<'a> {
    /// JSON has no markers between documents, so it is read already.
    Json(Box<YamlDocument>),
    Yaml(DocumentText<'a>),
}

impl UnreadDocument<'_> {
    /// Reads it; `None` if it is empty.
    pub fn read(self) -> Option<Result<YamlDocument, YamlError>> {
        match self.0 {
            Unread::Json(document) => Some(Ok(*document)),
            Unread::Yaml(text) => text.read(),
        }
    }
}

/// The values of a JSON text; `None` when it is not JSON, since YAML in flow style looks alike.
fn json_documents(text: &str) -> Option<Vec<YamlDocument>> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<PlainValue>();
    let (mut documents, mut at) = (Vec::new(), Position::START);
    loop {
        let start = values.byte_offset();
        match values.next() {
            None => return Some(documents),
            Some(Err(_)) => return None,
            Some(Ok(PlainValue(value))) => {
                let read = &text[start..values.byte_offset()];
                let content = read.trim_start();
                let begin = at.after(&read[..read.len() - content.len()]);
                at = begin.after(content);
                let (line, positions) = (begin.line, Positions::from_json(content, begin));
                documents.push(YamlDocument { line, value, positions, ..YamlDocument::default() });
            }
        }
    }
}

fn yaml_texts(text: &str) -> Vec<DocumentText<'_>> {
    let mut documents = Vec::new();
    let mut document = DocumentText { line: 1, text: "", start: 0 };
    let mut offset = 0;
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        document.text = &text[document.start..offset];
        if is_marker(line, "...") {
            documents.push(document);
            document = DocumentText { line: number + 1, text: "", start: offset + line.len() };
        } else if is_marker(line, "---") && !document.is_preamble() {
            documents.push(document);
            document = DocumentText { line: number, text: "", start: offset };
        }
        offset += line.len();
    }
    document.text = &text[document.start..];
    documents.push(document);
    documents
}

/// The text of one document.
#[derive(Debug)]
struct DocumentText<'a> {
    line: usize,
    start: usize,
    text: &'a str,
}

impl DocumentText<'_> {
    /// Whether the text so far has only comments and directives, which belong to the document after the marker.
    fn is_preamble(&self) -> bool {
        !self.text.lines().any(|line| has_content(line) || is_marker(line, "---"))
    }

    fn read(&self) -> Option<Result<YamlDocument, YamlError>> {
        let content = |line: &str| match is_marker(line, "---") {
            true => has_content(&line[3..]),
            false => has_content(line),
        };
        let skipped = self.text.lines().position(content)?;
        // The last line of a file ends with or without a line break.
        let text = if self.text.ends_with('\n') { self.text.into() } else { Cow::from(format!("{}\n", self.text)) };
        let from_start = |line: usize| self.line + line - 1;
        Some(match layout::read(&text) {
            Ok(Content { value, mut repeated, positions }) => {
                repeated.iter_mut().for_each(|again| again.line = from_start(again.line));
                let positions = positions.moved_by(self.line - 1);
                Ok(YamlDocument { line: self.line + skipped, value, repeated, positions })
            }
            Err(error) => Err(YamlError { line: from_start(error.line), ..error }),
        })
    }
}

fn has_content(line: &str) -> bool {
    !matches!(line.trim_start().chars().next(), None | Some('#' | '%'))
}

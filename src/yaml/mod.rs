//! YAML and JSON files as documents with positions.
//!
//! A text is cut into documents at its `---` lines first, so that a broken document does not hide the others. Nothing
//! here knows what the documents are about.

use serde_json::Value;

/// A document, and the line on which its content begins (from 1).
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub line: usize,
    pub value: Value,
}

/// Why a document cannot be read, and where; line and column count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct YamlError {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// The documents of a text in their order; empty ones are left out.
pub fn documents(text: &str) -> Vec<Result<Document, YamlError>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match text.trim_start().starts_with(['{', '[']) {
        true => json_documents(text).unwrap_or_else(|| yaml_documents(text)),
        false => yaml_documents(text),
    }
}

/// The values of a JSON text; `None` when it is not JSON, since YAML in flow style looks alike.
fn json_documents(text: &str) -> Option<Vec<Result<Document, YamlError>>> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut documents = Vec::new();
    loop {
        let start = values.byte_offset();
        match values.next() {
            None => return Some(documents),
            Some(Err(_)) => return None,
            Some(Ok(value)) => {
                let blank = text[start..].len() - text[start..].trim_start().len();
                let line = text[..start + blank].matches('\n').count() + 1;
                documents.push(Ok(Document { line, value }));
            }
        }
    }
}

fn yaml_documents(text: &str) -> Vec<Result<Document, YamlError>> {
    let mut documents = Vec::new();
    let mut first = 1;
    let mut lines: Vec<String> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        match line.strip_prefix("---") {
            Some(rest) if rest.is_empty() || rest.starts_with([' ', '\t', '\r']) => {
                documents.extend(yaml_document(&lines, first));
                lines.clear();
                first = number;
                // What follows the marker belongs to the document and keeps its column.
                lines.push(format!("   {rest}"));
            }
            _ => lines.push(line.to_owned()),
        }
    }
    documents.extend(yaml_document(&lines, first));
    documents
}

fn yaml_document(lines: &[String], first: usize) -> Option<Result<Document, YamlError>> {
    let has_content = |line: &&String| !matches!(line.trim_start().chars().next(), None | Some('#' | '%'));
    let skipped = lines.iter().position(|line| has_content(&line))?;
    let text = lines.join("\n") + "\n";
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 200_000 },
        budget: serde_saphyr::budget! { max_nodes: 2_000_000, max_events: 8_000_000, max_depth: 512, enforce_alias_anchor_ratio: false },
    };
    Some(match serde_saphyr::from_str_with_options::<Value>(&text, options) {
        Ok(value) => Ok(Document { line: first + skipped, value }),
        Err(error) => {
            let place = error.location();
            let number =
                |number: Option<u64>| number.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0).unwrap_or(1);
            let line = number(place.map(|place| place.line())) + first - 1;
            Err(YamlError { line, column: number(place.map(|place| place.column())), message: words(&error) })
        }
    })
}

/// What went wrong, without the position, which the caller shows in its own way.
fn words(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    match text.split_once(": ") {
        Some((place, rest)) if place.starts_with("error: line ") => rest.to_owned(),
        _ => text.split(" at line ").next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values(text: &str) -> Vec<(usize, Value)> {
        documents(text)
            .into_iter()
            .map(|document| document.unwrap())
            .map(|document| (document.line, document.value))
            .collect()
    }

    #[test]
    fn documents_are_cut_at_their_markers_and_keep_their_lines() {
        let text = "# first\n\na: 1\n---\n---\n# only a comment\n--- {b: 2}\n---\ntext: |\n  line\n  ---\nc: yes\n";
        assert_eq!(
            values(text),
            [(3, json!({"a": 1})), (7, json!({"b": 2})), (9, json!({"text": "line\n---\n", "c": true}))]
        );
        assert!(documents("").is_empty() && documents("# nothing\n---\n").is_empty());
    }

    #[test]
    fn json_texts_are_documents_too() {
        assert_eq!(values("{\"a\":\n1}\n\n{\"b\": 2}"), [(1, json!({"a": 1})), (4, json!({"b": 2}))]);
        assert_eq!(values("{a: 1, b: [x]}"), [(1, json!({"a": 1, "b": ["x"]}))]);
    }

    #[test]
    fn anchors_and_repeated_keys_read_as_in_go() {
        assert_eq!(values("a: &x {b: 1}\nc: *x\nc: 010\n"), [(1, json!({"a": {"b": 1}, "c": 8}))]);
    }

    #[test]
    fn a_broken_document_says_where_and_spares_the_others() {
        let read = documents("a: 1\n---\nb:\n  - c\n d: 2\n---\ne: 3\n");
        let error = read[1].clone().unwrap_err();
        assert_eq!((error.line, read.len()), (5, 3), "{error}");
        assert!(read[0].is_ok() && read[2].is_ok());
        for text in ["a: [1, 2", "a: \"x", "a: b: c"] {
            let error = documents(text).remove(0).unwrap_err();
            assert!(error.line >= 1 && error.column >= 1 && !error.message.is_empty(), "{text:?} {error}");
        }
    }

    #[test]
    fn an_alias_bomb_is_refused_quickly() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..10 {
            text.push_str(&format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(", ")));
        }
        assert!(documents(&text).remove(0).is_err());
    }
}

//! YAML and JSON files as documents with positions, read as Go reads them (`sigs.k8s.io/yaml`).
//!
//! ```text
//! text ──► documents ──► layout ──► compose ──► Tree ──► decode ──► Value
//!          cut at ---    lines      parser's             types (scalar), keys, merges;
//!                        moved      events               aliases within bounds
//! ```
//!
//! Parsing itself is `granit-parser`'s; what a scalar means is decided here, since templates and manifests rely on
//! goyaml.v2's mixture of YAML 1.1 and 1.2 (`yes` and `on` are booleans, `0755` is octal, `1:30` is text). Nothing here
//! knows what the documents are about.
//!
//! Known differences, rare ones:
//!
//! * Go reads `[a:]`, `{a:}`, `[?a]`, `[!tag, a]` and `&a:b c` with other results, and refuses `[:a]`, `[a?b]`,
//!   `{a: !tag}`, `"\/"`, directives it does not know, blank lines of tabs, and anchors with other characters than
//!   letters, digits, `_` and `-`.
//! * Go takes `"a"#comment`, `[-]`, `*key: a`, a second value after the first one in a line (`"a" "b"`), and comments
//!   below block scalars of nothing but longer blank lines; here they are errors.
//! * Go reads `|` or `>` as empty when the lines below are not indented, keeps no break behind a block scalar whose
//!   last line is blanks without a break, and takes U+0085, U+2028 and U+2029 for line breaks.
//! * Keys and numbers that JSON lacks are errors here even where a later duplicate of their key would hide them.

mod compose;
mod decode;
mod documents;
mod layout;
mod positions;
mod scalar;

use serde_json::Value;

pub use self::documents::{UnreadDocument, YamlDocument, documents, unread_documents};
pub use self::positions::{LocatedValue, Position, Positions};

/// Reason why a document cannot be read, with its position; line and column count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct YamlError {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// A repeated key of a mapping; the last one counts. The line counts from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatedKey {
    pub line: usize,
    pub key: String,
    /// The path of the key in the document, such as `spec.paused`; empty if it is very long.
    pub path: String,
}

/// A single text as Go's `yaml.Unmarshal` and its conversion to JSON read it: the first document only, and null when
/// there is none.
///
/// # Errors
/// When the document is not YAML, or JSON cannot express it.
pub fn value(text: &str) -> Result<Value, YamlError> {
    layout::value(text.strip_prefix('\u{feff}').unwrap_or(text))
}

#[cfg(test)]
mod tests;

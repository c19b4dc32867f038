//! Go's `text/template` with sprig's hermetic functions: parsed once, rendered often, within bounds.
//!
//! Syntax and rendering follow <https://pkg.go.dev/text/template>, the functions of sprig
//! <https://masterminds.github.io/sprig/>.
//!
//! ```text
//!  text ──lexer──► tokens ──parse──► Template: flat code with jumps (tree)
//!                                        │ render
//!  JSON data ──► values (borrowed) ──► machine (exec, eval) ──► functions ──► output
//! ```
//!
//! Names of functions and variables are checked when a template is parsed. Rendering is deterministic: functions that
//! are not deterministic fail (DEC-12), and if Go does not define an order, keys are sorted. Nothing recurses on the
//! nesting of control structures or on templates that call each other; parentheses and printed values nest up to a
//! fixed depth. Time and memory are bounded by [`RenderLimits`].
//!
//! Known differences from Go 1.26 and sprig 3.3.0, besides those bounds:
//!
//! * Strings are UTF-8: a character that `trunc`, `substr` or `slice` cuts in two becomes U+FFFD. As in Go, a value
//!   with such a character cannot be read.
//! * `printf` does not support `%x`, `%X` and `%b` of floats, and `%p`.
//! * `sortAlpha` never changes the list that it is given; `keys` and `values` are sorted.
//! * `merge` does not compare types: a list and a text under one key are no error.
//!
//! Nothing here knows Cluster API. May use `version`, `goregex`, `yaml` and `json`.

mod characters;
mod context;
mod dates;
mod error;
mod eval;
mod exec;
mod fields;
mod floats;
mod functions;
mod lexer;
mod methods;
mod number;
mod parse;
mod print;
mod tree;
mod value;

pub use context::RenderLimits;
pub use error::{ParseError, RenderError, RenderFailure, ValueError};
pub use fields::FieldChain;

use serde_json::Value;

/// Which functions a template may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Functions {
    /// Go's own (TPL-010).
    Builtin,
    /// Go's own and sprig's hermetic ones (TPL-011, DEC-31, TV-04), and none that reads clock, chance or environment
    /// (TV-05).
    Sprig,
}

impl Functions {
    /// The names, sorted.
    pub fn names(self) -> Vec<&'static str> {
        functions::names(self)
    }
}

/// Text printed for missing data.
const NO_VALUE: &str = "<no value>";

/// Replacement for bytes that are not a character.
const REPLACEMENT: char = '\u{fffd}';

fn has_replacements(data: &Value) -> bool {
    match data {
        Value::String(text) => text.contains(REPLACEMENT),
        Value::Array(items) => items.iter().any(has_replacements),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name.contains(REPLACEMENT) || has_replacements(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Upper bound of the memory of a parsed action, and of each of its bytes, in bytes.
const ACTION: usize = 512;
const ACTION_BYTE: usize = 64;

/// The value of a template's output.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    pub value: Value,
    /// Whether the output contains `<no value>`, usually because an undefined value was printed (DEC-5).
    pub shows_no_value: bool,
}

/// A parsed template.
#[derive(Debug)]
pub struct Template {
    name: String,
    text: String,
    parsed: parse::Parsed,
    strict: bool,
}

impl Template {
    /// Parses `text`; `name` stands in error messages.
    pub fn parse(name: &str, text: &str, functions: Functions) -> Result<Self, ParseError> {
        let parsed = parse::parse(name, text, functions)?;
        Ok(Self { name: name.to_owned(), text: text.to_owned(), parsed, strict: false })
    }

    /// Upper bound of the memory of the parsed template in `text`, in bytes.
    pub fn footprint(text: &str) -> usize {
        let mut pieces = text.split("{{");
        let outside = pieces.next().map_or(0, str::len);
        pieces.fold(outside, |bytes, piece| {
            let inside = piece.split("}}").next().unwrap_or_default().len();
            bytes.saturating_add(ACTION + ACTION_BYTE * inside + (piece.len() - inside))
        })
    }

    /// Makes a missing map key an error, as in names (NAM-001).
    #[must_use]
    pub fn with_missing_keys_as_errors(self) -> Self {
        Self { strict: true, ..self }
    }

    /// Renders with `data` as dot (TV-06: numbers are floats; TV-07: what is missing is no value).
    pub fn render(&self, data: &Value, limits: RenderLimits) -> Result<String, RenderError> {
        exec::Executor::new(self, data.into(), limits).run()
    }

    /// Renders, and reads the output as YAML (TV-10): its first document, null when there is none (TV-12). A number
    /// alone is a number again, in any form (TV-13).
    pub fn render_value(&self, data: &Value, limits: RenderLimits) -> Result<Value, ValueError> {
        self.evaluate(data, limits).map(|rendered| rendered.value)
    }

    /// As [`Template::render_value`], with further properties of the output.
    pub fn evaluate(&self, data: &Value, limits: RenderLimits) -> Result<Rendered, ValueError> {
        let output = self.render(data, limits)?;
        if output.contains(REPLACEMENT) && !self.may_write_replacements(data) {
            return Err(ValueError::NotUtf8 { name: self.name.clone() });
        }
        let value =
            crate::yaml::value(&output).map_err(|source| ValueError::Yaml { name: self.name.clone(), source })?;
        Ok(Rendered { value, shows_no_value: output.contains(NO_VALUE) })
    }

    /// Whether U+FFFD may come from the template or its data instead of a cut character.
    fn may_write_replacements(&self, data: &Value) -> bool {
        self.text.contains(REPLACEMENT) || self.text.to_ascii_lowercase().contains("fffd") || has_replacements(data)
    }

    /// The paths from the root of the data that the template refers to, sorted, as far as its text shows them (DEC-5).
    pub fn fields(&self) -> Vec<FieldChain> {
        fields::referenced_fields(self).0
    }

    /// The paths that the template refers to; `None` if its text does not show them all, since it prints its whole data
    /// or passes it to a function.
    pub fn all_fields(&self) -> Option<Vec<FieldChain>> {
        let (fields, are_all) = fields::referenced_fields(self);
        are_all.then_some(fields)
    }
}

#[cfg(test)]
mod tests;

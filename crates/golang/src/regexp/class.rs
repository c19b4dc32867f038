//! Character classes: `[a-z]`, `\d`, `[[:alpha:]]`; `\p{Greek}` is in `unicode.rs`.
//!
//! All are written as bracketed classes of the `regex` crate. Case folding is left to it: a class inside `(?i:…)` is
//! closed under folding before it is negated, there as in Go.

use super::emit::Read;
use super::error::{RegexError, SyntaxErrorKind};
use super::{emit, escape, unicode};

/// Reads the bracketed class at the start of `text`.
///
/// Inside, `[`, `&&`, `--` and `~~` mean nothing, and `]` is itself when it comes first.
pub(super) fn bracketed(text: &str) -> Result<Read<'_>, RegexError> {
    let items = &text[1..];
    let (mut out, mut rest) = match items.strip_prefix('^') {
        Some(items) => ("[^".to_string(), items),
        None => ("[".to_string(), items),
    };
    loop {
        rest = item(rest, text, &mut out)?;
        if let Some(after) = rest.strip_prefix(']') {
            out.push(']');
            return Ok((out, after));
        }
    }
}

/// Reads the class escape at the start of `text`, if it is one: `\d`, `\pN`.
pub(super) fn escaped(text: &str) -> Result<Option<Read<'_>>, RegexError> {
    let (class, rest) = match text.split_at_checked(2) {
        Some((r"\p" | r"\P", _)) => return unicode::property(text).map(Some),
        Some((r"\d", rest)) => ("[0-9]", rest),
        Some((r"\D", rest)) => ("[^0-9]", rest),
        Some((r"\s", rest)) => (r"[\t\n\f\r\x20]", rest),
        Some((r"\S", rest)) => (r"[^\t\n\f\r\x20]", rest),
        Some((r"\w", rest)) => ("[0-9A-Z_a-z]", rest),
        Some((r"\W", rest)) => ("[^0-9A-Z_a-z]", rest),
        _ => return Ok(None),
    };
    Ok(Some((class.to_string(), rest)))
}

/// Reads one item of the bracketed class `whole` and writes it: a nested class, a character or a range.
fn item<'a>(text: &'a str, whole: &str, out: &mut String) -> Result<&'a str, RegexError> {
    let nested = match posix(text)? {
        None => escaped(text)?,
        class => class,
    };
    if let Some((class, rest)) = nested {
        out.push_str(&class);
        return Ok(rest);
    }
    let (first, rest) = character(text, whole)?;
    let (last, rest) = match rest.strip_prefix('-') {
        Some(end) if !end.is_empty() && !end.starts_with(']') => character(end, whole)?,
        _ => (first, rest),
    };
    if last < first {
        return Err(SyntaxErrorKind::CharacterRange.between(text, rest));
    }
    emit::range(first, last, out);
    Ok(rest)
}

/// One character of the bracketed class `whole`, escaped or not.
fn character<'a>(text: &'a str, whole: &str) -> Result<(u32, &'a str), RegexError> {
    let mut chars = text.chars();
    match chars.next() {
        None => Err(SyntaxErrorKind::MissingBracket.at(whole)),
        Some('\\') => escape::code_point(text),
        Some(c) => Ok((u32::from(c), chars.as_str())),
    }
}

/// A POSIX class such as `[:alpha:]` or `[:^alpha:]`, if `text` starts with one.
fn posix(text: &str) -> Result<Option<Read<'_>>, RegexError> {
    let Some((name, rest)) = text.strip_prefix("[:").and_then(|name| name.split_once(":]")) else { return Ok(None) };
    let (caret, positive) = name.strip_prefix('^').map_or(("", name), |name| ("^", name));
    let items = posix_items(positive).ok_or_else(|| SyntaxErrorKind::CharacterRange.between(text, rest))?;
    Ok(Some((format!("[{caret}{items}]"), rest)))
}

fn posix_items(name: &str) -> Option<&'static str> {
    let items = match name {
        "alnum" => "0-9A-Za-z",
        "alpha" => "A-Za-z",
        "ascii" => r"\x00-\x7F",
        "blank" => r"\t\x20",
        "cntrl" => r"\x00-\x1F\x7F",
        "digit" => "0-9",
        "graph" => r"\x21-\x7E",
        "lower" => "a-z",
        "print" => r"\x20-\x7E",
        "punct" => r"\x21-\x2F\x3A-\x40\x5B-\x60\x7B-\x7E",
        "space" => r"\t-\r\x20",
        "upper" => "A-Z",
        "word" => "0-9A-Z_a-z",
        "xdigit" => "0-9A-Fa-f",
        _ => return None,
    };
    Some(items)
}

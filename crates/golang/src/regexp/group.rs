//! The part after an opening parenthesis: captures, names and flags.

use super::error::{RegexError, SyntaxErrorKind};

/// The flags of Go's Perl syntax that are in force at some point of the pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RegexFlags {
    /// `i`: letters match in any case.
    pub(super) fold: bool,
    /// `m`: `^` and `$` match at every line.
    pub(super) lines: bool,
    /// `s`: `.` matches a line feed.
    pub(super) dot_all: bool,
    /// `U`: repetitions are lazy, and greedy with `?`.
    pub(super) lazy: bool,
}

/// The construct that an opening parenthesis begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Opening<'a> {
    /// `(…)`, `(?P<name>…)`, `(?<name>…)`.
    Capture(Option<&'a str>),
    /// `(?:…)`, `(?i:…)`.
    Group(RegexFlags),
    /// `(?i)`: flags for the rest of the enclosing group.
    Change(RegexFlags),
}

/// Reads the opening at the start of `text`, which is a parenthesis; returns what follows.
pub(super) fn opening(text: &str, flags: RegexFlags) -> Result<(Opening<'_>, &str), RegexError> {
    let Some(perl) = text.strip_prefix("(?") else { return Ok((Opening::Capture(None), &text[1..])) };
    match perl.strip_prefix("P<").filter(|name| !name.is_empty()).or_else(|| perl.strip_prefix('<')) {
        Some(name) if text != "(?<" => named(text, name),
        _ => flagged(text, perl, flags),
    }
}

fn named<'a>(text: &'a str, name: &'a str) -> Result<(Opening<'a>, &'a str), RegexError> {
    let (name, rest) = name.split_once('>').ok_or_else(|| SyntaxErrorKind::NamedCapture.at(text))?;
    if name.is_empty() || !name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) {
        return Err(SyntaxErrorKind::NamedCapture.between(text, rest));
    }
    Ok((Opening::Capture(Some(name)), rest))
}

/// Flags up to a colon or a closing parenthesis: any of `imsU`, a minus before those to clear.
fn flagged<'a>(text: &'a str, perl: &'a str, mut flags: RegexFlags) -> Result<(Opening<'a>, &'a str), RegexError> {
    let (mut on, mut cleared) = (true, false);
    let mut chars = perl.chars();
    while let Some(c) = chars.next() {
        match c {
            'i' => flags.fold = on,
            'm' => flags.lines = on,
            's' => flags.dot_all = on,
            'U' => flags.lazy = on,
            '-' if on => {
                on = false;
                continue;
            }
            ':' if on || cleared => return Ok((Opening::Group(flags), chars.as_str())),
            ')' if on || cleared => return Ok((Opening::Change(flags), chars.as_str())),
            _ => break,
        }
        cleared = !on;
    }
    Err(SyntaxErrorKind::PerlSyntax.between(text, chars.as_str()))
}

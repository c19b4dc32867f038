//! Characters and quoted texts as Go classifies and writes them (`unicode`, `strconv`).

use std::sync::LazyLock;

use crate::regexp::Regex;

/// A class of single characters beyond ASCII.
struct CharacterClass(LazyLock<Regex>);

impl CharacterClass {
    fn holds(&self, c: char) -> bool {
        self.0.is_match(c.encode_utf8(&mut [0; 4]))
    }
}

/// The pattern stands in this file and compiles.
fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of our own")
}

static LETTER_OR_DIGIT: CharacterClass = CharacterClass(LazyLock::new(|| compiled(r"[\pL\p{Nd}]")));
static PRINTABLE: CharacterClass = CharacterClass(LazyLock::new(|| compiled(r"[\pL\pM\pN\pP\pS]")));
static PUNCTUATION: CharacterClass = CharacterClass(LazyLock::new(|| compiled(r"\pP")));
static UPPER: CharacterClass = CharacterClass(LazyLock::new(|| compiled(r"\p{Lu}")));
static LOWER: CharacterClass = CharacterClass(LazyLock::new(|| compiled(r"\p{Ll}")));
static TITLE: CharacterClass = CharacterClass(LazyLock::new(|| compiled(r"\p{Lt}")));
static LETTER: CharacterClass = CharacterClass(LazyLock::new(|| compiled(r"\pL")));
static NUMBER: CharacterClass = CharacterClass(LazyLock::new(|| compiled(r"\pN")));

/// Whether the character may stand in an identifier of a template.
pub(super) fn is_identifier(c: char) -> bool {
    c == '_' || if c.is_ascii() { c.is_ascii_alphanumeric() } else { LETTER_OR_DIGIT.holds(c) }
}

/// Go's `unicode.IsPrint`.
pub(super) fn is_print(c: char) -> bool {
    if c.is_ascii() { c == ' ' || c.is_ascii_graphic() } else { PRINTABLE.holds(c) }
}

pub(super) fn is_punctuation(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_punctuation() && !"$+<=>^`|~".contains(c) } else { PUNCTUATION.holds(c) }
}

pub(super) fn is_upper(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_uppercase() } else { UPPER.holds(c) }
}

pub(super) fn is_lower(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_lowercase() } else { LOWER.holds(c) }
}

pub(super) fn is_title(c: char) -> bool {
    !c.is_ascii() && TITLE.holds(c)
}

pub(super) fn is_letter(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { LETTER.holds(c) }
}

pub(super) fn is_number(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { NUMBER.holds(c) }
}

/// Go's `unicode.IsSpace`.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace()
}

/// The upper case of a character where that is a single one, as in Go.
pub(super) fn upper(c: char) -> char {
    single(c.to_uppercase(), c)
}

/// The lower case of a character where that is a single one, as in Go.
pub(super) fn lower(c: char) -> char {
    // Go's simple mapping of the dotted capital I is a plain i.
    if c == 'İ' { 'i' } else { single(c.to_lowercase(), c) }
}

fn single(mut mapped: impl Iterator<Item = char>, otherwise: char) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(c), None) => c,
        _ => otherwise,
    }
}

/// The text in double quotes with Go's escapes (`strconv.Quote`).
pub(super) fn quote(text: &str) -> String {
    quoted(text, '"', false)
}

/// Text in quotes; with `ascii`, everything else is escaped.
pub(super) fn quoted(text: &str, mark: char, ascii: bool) -> String {
    let mut written = String::with_capacity(text.len() + 2);
    written.push(mark);
    for c in text.chars() {
        match c {
            _ if c == mark || c == '\\' => written.extend(['\\', c]),
            _ if is_print(c) && (c.is_ascii() || !ascii) => written.push(c),
            '\u{7}' => written.push_str("\\a"),
            '\u{8}' => written.push_str("\\b"),
            '\u{c}' => written.push_str("\\f"),
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            '\u{b}' => written.push_str("\\v"),
            _ if u32::from(c) < 0x20 || c == '\u{7f}' => written.push_str(&format!("\\x{:02x}", u32::from(c))),
            _ if u32::from(c) < 0x10000 => written.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => written.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    written.push(mark);
    written
}

/// The text between quotes, escapes resolved; none when it is not a Go string. Bytes that are not UTF-8 (`"\xff"`)
/// become U+FFFD.
pub(super) fn unquote(quoted: &str) -> Option<String> {
    let mark = quoted.chars().next()?;
    let inner = quoted.get(1..)?.strip_suffix(mark)?;
    if mark == '`' {
        return Some(inner.replace('\r', ""));
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while !rest.is_empty() {
        let (unit, after) = unescape(rest, mark)?;
        match unit {
            EscapeUnit::Char(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            EscapeUnit::Byte(byte) => bytes.push(byte),
        }
        rest = after;
    }
    Some(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The value of a character constant with its quotes.
pub(super) fn unquote_char(quoted: &str) -> Option<u32> {
    let (unit, after) = unescape(quoted.strip_prefix('\'')?, '\'')?;
    (after == "'").then_some(match unit {
        EscapeUnit::Char(c) => u32::from(c),
        EscapeUnit::Byte(byte) => u32::from(byte),
    })
}

enum EscapeUnit {
    Char(char),
    Byte(u8),
}

/// The first character of `text`, an escape perhaps, and what follows.
fn unescape(text: &str, mark: char) -> Option<(EscapeUnit, &str)> {
    let mut chars = text.chars();
    let first = chars.next()?;
    if first == mark || first == '\n' {
        return None;
    }
    if first != '\\' {
        return Some((EscapeUnit::Char(first), chars.as_str()));
    }
    let escape = chars.next()?;
    let rest = chars.as_str();
    let digits = |count: usize, radix: u32| -> Option<(u32, &str)> {
        let digits = rest.get(..count).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        Some((u32::from_str_radix(digits, radix).ok()?, rest.get(count..)?))
    };
    let plain = match escape {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' => '\\',
        '\'' | '"' if escape == mark => escape,
        'x' => {
            let (value, after) = digits(2, 16)?;
            return Some((EscapeUnit::Byte(u8::try_from(value).ok()?), after));
        }
        'u' | 'U' => {
            let (value, after) = digits(if escape == 'u' { 4 } else { 8 }, 16)?;
            return Some((EscapeUnit::Char(char::from_u32(value)?), after));
        }
        '0'..='7' => {
            let octal = text.get(1..4).filter(|digits| digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit)))?;
            return Some((EscapeUnit::Byte(u8::from_str_radix(octal, 8).ok()?), text.get(4..)?));
        }
        _ => return None,
    };
    Some((EscapeUnit::Char(plain), rest))
}

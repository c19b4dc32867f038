//! Escapes that stand for one character: `\n`, `\x7F`, `\x{10FFFF}`, `\07`, `\.`.

use super::error::{RegexError, SyntaxErrorKind};

/// Reads the escape at the start of `text`, which is a backslash; returns the code point and what follows.
pub(super) fn code_point(text: &str) -> Result<(u32, &str), RegexError> {
    let mut chars = text.chars();
    chars.next();
    let digits = chars.as_str();
    let Some(c) = chars.next() else { return Err(SyntaxErrorKind::TrailingBackslash.at("")) };
    let rest = chars.as_str();
    if let Some(control) = control(c) {
        return Ok((control, rest));
    }
    match c {
        '0' => Ok(octal(digits)),
        '1'..='7' if rest.starts_with(|next: char| next.is_digit(8)) => Ok(octal(digits)),
        'x' => match rest.strip_prefix('{') {
            Some(braced) => hexadecimal(text, braced),
            None => two_digits(text, rest),
        },
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok((u32::from(c), rest)),
        _ => Err(SyntaxErrorKind::Escape.between(text, rest)),
    }
}

/// The C escapes; `\b` is no backspace here.
fn control(c: char) -> Option<u32> {
    let code = match c {
        'a' => 0x07,
        't' => 0x09,
        'n' => 0x0A,
        'v' => 0x0B,
        'f' => 0x0C,
        'r' => 0x0D,
        _ => return None,
    };
    Some(code)
}

/// Up to three octal digits.
fn octal(text: &str) -> (u32, &str) {
    let length = text.chars().take(3).take_while(|c| c.is_digit(8)).count();
    let (digits, rest) = text.split_at(length);
    (digits.chars().filter_map(|c| c.to_digit(8)).fold(0, |value, digit| value * 8 + digit), rest)
}

/// Any number of digits up to a closing brace.
fn hexadecimal<'a>(text: &str, braced: &'a str) -> Result<(u32, &'a str), RegexError> {
    let mut value = 0;
    for (at, c) in braced.char_indices() {
        let rest = &braced[at + c.len_utf8()..];
        if c == '}' && at > 0 {
            return Ok((value, rest));
        }
        value = match c.to_digit(16).map(|digit| value * 16 + digit) {
            Some(value) if value <= u32::from(char::MAX) => value,
            _ => return Err(SyntaxErrorKind::Escape.between(text, rest)),
        };
    }
    Err(SyntaxErrorKind::Escape.at(text))
}

fn two_digits<'a>(text: &str, digits: &'a str) -> Result<(u32, &'a str), RegexError> {
    let mut chars = digits.chars();
    let mut digit = || chars.next().and_then(|c| c.to_digit(16));
    match (digit(), digit()) {
        (Some(high), Some(low)) => Ok((high * 16 + low, chars.as_str())),
        _ => Err(SyntaxErrorKind::Escape.between(text, chars.as_str())),
    }
}

//! Tokens of an expression.

use std::fmt;

use super::fault::CompileError;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Constant {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum CelToken {
    Literal(Constant),
    /// `9223372036854775808`, which is an integer only after a minus sign.
    SmallestInt,
    Name(String),
    /// A field name in backquotes.
    Quoted(String),
    Sign(&'static str),
    End,
}

impl fmt::Display for CelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CelToken::Literal(_) | CelToken::SmallestInt => f.write_str("a literal"),
            CelToken::Name(name) | CelToken::Quoted(name) => write!(f, "{name:?}"),
            CelToken::Sign(sign) => write!(f, "{sign:?}"),
            CelToken::End => f.write_str("the end"),
        }
    }
}

/// The tokens of an expression, read one at a time.
#[derive(Debug)]
pub(super) struct Tokens {
    tokens: Vec<(usize, CelToken)>,
    next: usize,
}

const SIGNS: [&str; 26] = [
    "&&", "||", "==", "!=", "<=", ">=", "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "+", "-", "*", "/", "%", "!",
    "<", ">", "=", "|",
];

impl Tokens {
    pub(super) fn tokenize(text: &str) -> Result<Tokens, CompileError> {
        let mut scanner = Scanner { text, at: 0 };
        let mut tokens = Vec::new();
        loop {
            scanner.skip_blanks();
            let at = scanner.at;
            let token = scanner.token()?;
            let is_end = token == CelToken::End;
            tokens.push((at, token));
            if is_end {
                return Ok(Tokens { tokens, next: 0 });
            }
        }
    }

    pub(super) fn peek(&self) -> &CelToken {
        self.tokens.get(self.next).map_or(&CelToken::End, |(_, token)| token)
    }

    /// Offset of the next token.
    pub(super) fn at(&self) -> usize {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(0, |(at, _)| *at)
    }

    pub(super) fn next(&mut self) {
        self.next += 1;
    }

    /// Consumes a number, if one is next, and negates it.
    pub(super) fn negative_number(&mut self) -> Option<Constant> {
        let literal = match self.peek() {
            CelToken::Literal(Constant::Int(value)) => Constant::Int(-*value),
            CelToken::Literal(Constant::Double(value)) => Constant::Double(-*value),
            CelToken::SmallestInt => Constant::Int(i64::MIN),
            _ => return None,
        };
        self.next();
        Some(literal)
    }
}

fn mistake<T>(at: usize, text: impl Into<String>) -> Result<T, CompileError> {
    Err(CompileError::new(at, text))
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\n' | '\r' | '\x0c') => {
                    self.bump();
                }
                Some('/') if self.rest().starts_with("//") => {
                    self.at += self.rest().find('\n').unwrap_or(self.rest().len());
                }
                _ => return,
            }
        }
    }

    fn token(&mut self) -> Result<CelToken, CompileError> {
        let Some(first) = self.peek() else { return Ok(CelToken::End) };
        let second = self.rest().chars().nth(1);
        if first.is_ascii_digit() || (first == '.' && second.is_some_and(|c| c.is_ascii_digit())) {
            return self.number();
        }
        if let Some(prefix) = self.text_prefix() {
            return self.quoted(prefix);
        }
        if first == '_' || first.is_ascii_alphabetic() {
            let length = self.rest().find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            let name = self.rest().get(..length.unwrap_or(self.rest().len())).unwrap_or_default();
            self.at += name.len();
            return Ok(CelToken::Name(name.to_owned()));
        }
        if first == '`' {
            let from = self.at;
            self.bump();
            let Some(length) = self.rest().find('`') else {
                return mistake(from, "a quoted name has no closing back quote");
            };
            let name = self.rest().get(..length).unwrap_or_default().to_owned();
            self.at += length + 1;
            return Ok(CelToken::Quoted(name));
        }
        match SIGNS.into_iter().find(|sign| self.rest().starts_with(sign)) {
            Some("=") => mistake(self.at, "'=' is not part of the language; write =="),
            Some("|") | None => mistake(self.at, format!("{first:?} is not part of the language")),
            Some(sign) => {
                self.at += sign.len();
                Ok(CelToken::Sign(sign))
            }
        }
    }

    fn digits(&mut self, fits: fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let digits = rest.get(..rest.find(|c| !fits(c)).unwrap_or(rest.len())).unwrap_or_default();
        self.at += digits.len();
        digits
    }

    fn number(&mut self) -> Result<CelToken, CompileError> {
        let from = self.at;
        if self.rest().starts_with("0x") || self.rest().starts_with("0X") {
            self.at += 2;
            let digits = self.digits(|c| c.is_ascii_hexdigit());
            return self.integer(from, digits, 16);
        }
        let whole = self.digits(|c| c.is_ascii_digit());
        let mut is_double = false;
        let mut ahead = self.rest().chars();
        if ahead.next() == Some('.') && ahead.next().is_some_and(|c| c.is_ascii_digit()) {
            is_double = true;
            self.bump();
            self.digits(|c| c.is_ascii_digit());
        }
        let exponent = self.rest().strip_prefix(['e', 'E']).map(|rest| rest.trim_start_matches(['+', '-']));
        if exponent.is_some_and(|digits| digits.starts_with(|c: char| c.is_ascii_digit())) {
            is_double = true;
            self.bump();
            if matches!(self.peek(), Some('+' | '-')) {
                self.bump();
            }
            self.digits(|c| c.is_ascii_digit());
        }
        if !is_double {
            return self.integer(from, whole, 10);
        }
        match self.text.get(from..self.at).unwrap_or_default().parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(CelToken::Literal(Constant::Double(value))),
            _ => mistake(from, "is not a number"),
        }
    }

    fn integer(&mut self, from: usize, digits: &str, radix: u32) -> Result<CelToken, CompileError> {
        let value = u64::from_str_radix(digits, radix);
        if matches!(self.peek(), Some('u' | 'U')) {
            self.bump();
            return match value {
                Ok(value) => Ok(CelToken::Literal(Constant::Uint(value))),
                Err(_) => mistake(from, "is not an unsigned integer of 64 bits"),
            };
        }
        match value.map(|value| (i64::try_from(value), value)) {
            Ok((Ok(value), _)) => Ok(CelToken::Literal(Constant::Int(value))),
            Ok((Err(_), value)) if value == i64::MIN.unsigned_abs() => Ok(CelToken::SmallestInt),
            _ => mistake(from, "is not an integer of 64 bits"),
        }
    }

    /// The prefix before a quote, if a string literal starts here.
    fn text_prefix(&self) -> Option<&'a str> {
        let at = self.rest().char_indices().take(3).find(|(_, c)| matches!(c, '"' | '\''))?.0;
        let prefix = self.rest().get(..at)?;
        let known = ["", "r", "R", "b", "B", "rb", "rB", "Rb", "RB", "br", "bR", "Br", "BR"];
        known.contains(&prefix).then_some(prefix)
    }

    fn quoted(&mut self, prefix: &str) -> Result<CelToken, CompileError> {
        let from = self.at;
        let (is_raw, is_bytes) = (prefix.contains(['r', 'R']), prefix.contains(['b', 'B']));
        self.at += prefix.len();
        let quote = if self.rest().starts_with('"') { "\"" } else { "'" };
        let triple = quote.repeat(3);
        let end = if self.rest().starts_with(&*triple) { &*triple } else { quote };
        self.at += end.len();
        let mut bytes = Vec::new();
        loop {
            if self.rest().starts_with(end) {
                self.at += end.len();
                break;
            }
            let at = self.at;
            match self.bump() {
                None => return mistake(from, "a string has no closing quote"),
                Some('\n' | '\r') if end.len() == 1 => {
                    return mistake(from, "a string has no closing quote on its line");
                }
                Some('\\') if !is_raw => self.escape(at, is_bytes, &mut bytes)?,
                Some(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if is_bytes {
            return Ok(CelToken::Literal(Constant::Bytes(bytes)));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(CelToken::Literal(Constant::Text(text))),
            Err(_) => mistake(from, "is not valid UTF-8"),
        }
    }

    fn escape(&mut self, at: usize, is_bytes: bool, bytes: &mut Vec<u8>) -> Result<(), CompileError> {
        let Some(letter) = self.bump() else { return mistake(at, "an escape sequence is not complete") };
        let simple = match letter {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '?' | '`' => u8::try_from(letter).unwrap_or(b'?'),
            'x' | 'X' | 'u' | 'U' | '0'..='3' => return self.coded(at, letter, is_bytes, bytes),
            _ => return mistake(at, format!("unknown escape sequence \\{letter}")),
        };
        bytes.push(simple);
        Ok(())
    }

    fn coded(&mut self, at: usize, letter: char, is_bytes: bool, bytes: &mut Vec<u8>) -> Result<(), CompileError> {
        let (count, radix) = match letter {
            'u' => (4, 16),
            'U' => (8, 16),
            'x' | 'X' => (2, 16),
            _ => (3, 8),
        };
        if radix == 8 {
            self.at -= 1;
        }
        let digits = self.rest().get(..count).filter(|digits| digits.chars().all(|c| c.is_digit(radix)));
        let Some(code) = digits.and_then(|digits| u32::from_str_radix(digits, radix).ok()) else {
            return mistake(at, format!("an escape needs {count} digits"));
        };
        self.at += count;
        if is_bytes && count <= 3 {
            bytes.push(u8::try_from(code).unwrap_or(u8::MAX));
            return Ok(());
        }
        if is_bytes {
            return mistake(at, "bytes cannot have Unicode escapes");
        }
        match char::from_u32(code) {
            Some(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            None => return mistake(at, "is not a valid character"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Option<Constant> {
        match Tokens::tokenize(text).ok()?.peek() {
            CelToken::Literal(literal) => Some(literal.clone()),
            _ => None,
        }
    }

    #[test]
    fn literals_are_read_as_written() {
        for (text, want) in [
            ("0x1F", Constant::Int(31)),
            ("12u", Constant::Uint(12)),
            ("1.5e3", Constant::Double(1500.0)),
            (".5", Constant::Double(0.5)),
            (r#""a\n\x41\u00e9\101""#, Constant::Text("a\nAéA".to_owned())),
            (r"r'a\n'", Constant::Text(r"a\n".to_owned())),
            ("'''a'b\n'''", Constant::Text("a'b\n".to_owned())),
            (r"b'\xffé'", Constant::Bytes(vec![0xff, 0xc3, 0xa9])),
        ] {
            assert_eq!(literal(text), Some(want), "{text}");
        }
        for text in ["'a", "'a\nb'", r"'\q'", r"'\ud800'", "18446744073709551616u", "@", "=", "a | b", "#"] {
            assert!(Tokens::tokenize(text).is_err(), "{text}");
        }
    }
}

//! Number constants: Go's literals, kept under every type that can hold them (TPL-004).

use super::characters::unquote_char;

/// A number constant as written, with its value as integer and float where it has one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Number {
    pub(super) text: String,
    pub(super) integer: Option<i64>,
    pub(super) float: Option<f64>,
    /// Real and imaginary part, when written as a complex number.
    pub(super) complex: Option<(f64, f64)>,
}

/// A text that is no number constant, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NumberError {
    #[error("malformed character constant: {0}")]
    Character(String),
    #[error("invalid syntax")]
    Syntax,
    #[error("illegal number syntax: {0:?}")]
    Number(String),
    #[error("integer overflow: {0:?}")]
    Overflow(String),
}

impl Number {
    /// The constant `'x'`.
    pub(super) fn character(text: &str) -> Result<Self, NumberError> {
        let value = unquote_char(text).ok_or_else(|| match text.chars().count() {
            3.. if !text.starts_with("'\\") => NumberError::Character(text.to_owned()),
            _ => NumberError::Syntax,
        })?;
        let (integer, float) = (Some(i64::from(value)), Some(f64::from(value)));
        Ok(Self { text: text.to_owned(), integer, float, complex: None })
    }

    /// Any other number constant.
    pub(super) fn parse(text: &str) -> Result<Self, NumberError> {
        let mut number = Self { text: text.to_owned(), integer: None, float: None, complex: None };
        if let Some(complex) = complex(text) {
            number.complex = Some(complex);
            if complex.1 == 0.0 {
                number.float = Some(complex.0);
                number.integer = whole(complex.0);
            }
            return Ok(number);
        }
        if let Some(value) = integer(text) {
            number.integer = i64::try_from(value).ok();
            #[allow(clippy::cast_precision_loss, reason = "as Go converts it")]
            let float = value as f64;
            number.float = Some(float);
        } else {
            let value = float(text).filter(|value| value.is_finite());
            number.integer = value.and_then(whole);
            number.float = value;
        }
        match number.float {
            None => Err(NumberError::Number(text.to_owned())),
            Some(_) if integer(text).is_none() && !text.contains(['.', 'e', 'E', 'p', 'P']) => {
                Err(NumberError::Overflow(text.to_owned()))
            }
            Some(_) => Ok(number),
        }
    }

    /// Whether the constant is a float although it may have an integer value: `1.0`, `1e3`.
    pub(super) fn is_written_as_float(&self) -> bool {
        let is_hexadecimal = self.text.starts_with("0x") || self.text.starts_with("0X");
        let marks: &[char] = if is_hexadecimal { &['p', 'P'] } else { &['.', 'e', 'E', 'p', 'P'] };
        !self.text.starts_with('\'') && self.text.contains(marks)
    }
}

/// The integer value of a float, if it fits 64 bits.
fn whole(value: f64) -> Option<i64> {
    #[allow(clippy::cast_possible_truncation, reason = "within the range of i64")]
    (value.fract() == 0.0 && (-9.2e18..9.2e18).contains(&value)).then_some(value as i64)
}

/// `3i`, `1+2i`.
fn complex(text: &str) -> Option<(f64, f64)> {
    let inner = text.strip_suffix('i')?;
    let is_hexadecimal = inner.trim_start_matches(['+', '-']).to_ascii_lowercase().starts_with("0x");
    let sign_between = inner.char_indices().skip(1).find(|&(at, c)| {
        let before = inner[..at].chars().next_back().unwrap_or('0');
        let is_exponent = if is_hexadecimal { "pP".contains(before) } else { "eE".contains(before) };
        (c == '+' || c == '-') && !is_exponent
    });
    match sign_between {
        Some((at, _)) => Some((float(&inner[..at])?, float(&inner[at..])?)),
        None => Some((0.0, float(inner)?)),
    }
}

/// The digits without `_`; `None` if one is not between digits or after a base prefix.
fn without_underscores(digits: &str, behind_prefix: bool) -> Option<String> {
    let mut previous = if behind_prefix { '0' } else { '_' };
    for c in digits.chars() {
        if c == '_' && !previous.is_ascii_hexdigit() || previous == '_' && !c.is_ascii_hexdigit() {
            return None;
        }
        previous = c;
    }
    (previous != '_').then(|| digits.replace('_', ""))
}

/// A Go integer literal with a sign, within 65 bits.
fn integer(text: &str) -> Option<i128> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = unsigned.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    let behind_prefix = digits.len() < lower.len();
    let digits = without_underscores(digits, behind_prefix)?;
    let is_digits = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    let value = is_digits.then(|| u64::from_str_radix(&digits, radix).ok()).flatten()?;
    let value = if negative { -i128::from(value) } else { i128::from(value) };
    (value >= i128::from(i64::MIN)).then_some(value)
}

/// Go's `strconv.ParseInt(text, 0, 64)`.
pub(super) fn parse_integer(text: &str) -> Option<i64> {
    integer(text).and_then(|value| i64::try_from(value).ok())
}

/// A Go float literal, decimal or hexadecimal.
fn float(text: &str) -> Option<f64> {
    let unsigned = text.trim_start_matches(['+', '-']);
    if unsigned.to_ascii_lowercase().starts_with("0x") {
        return hexadecimal(text.starts_with('-'), &unsigned[2..]);
    }
    let plain = if text.contains('_') { without_underscores(unsigned, false)? } else { unsigned.to_owned() };
    let is_number = plain.starts_with(|c: char| c.is_ascii_digit() || c == '.') && text.len() - unsigned.len() < 2;
    let value: f64 = is_number.then(|| plain.parse().ok()).flatten()?;
    Some(if text.starts_with('-') { -value } else { value })
}

fn hexadecimal(negative: bool, text: &str) -> Option<f64> {
    let text = without_underscores(text, true)?.to_ascii_lowercase();
    let (mantissa, exponent) = text.split_once('p')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > 30 {
        return None;
    }
    #[allow(clippy::cast_precision_loss, reason = "rounded once, as a float literal is")]
    let value = u128::from_str_radix(&digits, 16).ok()? as f64;
    let exponent: i32 = exponent.parse().ok()?;
    let shift = exponent.checked_sub(i32::try_from(fraction.len()).ok()?.checked_mul(4)?)?;
    let value = value * 2f64.powi(shift);
    Some(if negative { -value } else { value })
}

/// Go's `strconv.ParseFloat(text, 64)`, infinities and NaN included.
pub(super) fn parse_float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }),
        "nan" if unsigned.len() == text.len() => Some(f64::NAN),
        _ if text.contains('_') && !unsigned.to_ascii_lowercase().starts_with("0x") => None,
        _ => float(text).filter(|value| value.is_finite()),
    }
}

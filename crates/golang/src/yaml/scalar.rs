//! The types of scalars: YAML 1.1 as goyaml.v2 resolves it, which is neither all of 1.1 nor 1.2 (TV-11).

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Number, Value};

use super::compose::YamlScalar;

/// Go's decoder ignores the bits after the last byte.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

const TAG_PREFIX: &str = "tag:yaml.org,2002:";

/// A scalar with its type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Typed<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// Beyond `i64`.
    Uint(u64),
    Float(f64),
    Text(&'a str),
    Binary(Vec<u8>),
}

/// A scalar that its tag or JSON cannot express, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScalarError {
    #[error("cannot decode {found} `{text}` as a !!{tag}")]
    Tag { found: &'static str, text: String, tag: String },
    #[error("!!binary value contains invalid base64 data")]
    NoBase64,
    #[error("unsupported map key of type: null")]
    NullKey,
    #[error("unsupported map key of type: uint64, key: {0}")]
    UnsignedKey(u64),
    #[error("json: unsupported value: {0}")]
    NoNumber(&'static str),
}

/// The type that tag, quotes and text give a scalar.
pub(super) fn resolve<'a>(scalar: &'a YamlScalar<'_>) -> Result<Typed<'a>, ScalarError> {
    let text = scalar.text.as_ref();
    let Some(tag) = scalar.tag.strip_prefix(TAG_PREFIX) else {
        return Ok(match scalar.implicit {
            true => implied(text),
            false => Typed::Text(text),
        });
    };
    let wanted = match tag {
        "null" | "bool" | "int" | "float" | "timestamp" => implied(text),
        "binary" => return binary(text),
        _ => return Ok(Typed::Text(text)),
    };
    match (tag, &wanted) {
        ("null", Typed::Null)
        | ("bool", Typed::Bool(_))
        | ("int", Typed::Int(_) | Typed::Uint(_))
        | ("float", Typed::Float(_)) => Ok(wanted),
        #[expect(clippy::cast_precision_loss, reason = "a float was asked for")]
        ("float", Typed::Int(int)) => Ok(Typed::Float(*int as f64)),
        ("timestamp", Typed::Text(_)) if begins_like_a_date(text) => Ok(wanted),
        _ => Err(ScalarError::Tag { found: wanted.tag(), text: text.to_owned(), tag: tag.to_owned() }),
    }
}

fn binary(text: &str) -> Result<Typed<'static>, ScalarError> {
    let text = text.replace(['\r', '\n'], "");
    BASE64.decode(text).map(Typed::Binary).map_err(|_| ScalarError::NoBase64)
}

/// An approximation of goyaml.v2, which checks the whole date.
fn begins_like_a_date(text: &str) -> bool {
    text.split_once('-').is_some_and(|(year, _)| year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The type of a plain text.
fn implied(text: &str) -> Typed<'_> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Typed::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Typed::Bool(false),
        "" | "~" | "null" | "Null" | "NULL" => Typed::Null,
        ".nan" | ".NaN" | ".NAN" => Typed::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Typed::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Typed::Float(f64::NEG_INFINITY),
        _ if text.starts_with('.') => fraction(text).unwrap_or(Typed::Text(text)),
        _ if text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-')) => {
            let plain = text.replace('_', "");
            integer(&plain).or_else(|| float(&plain)).or_else(|| signed_binary(&plain)).unwrap_or(Typed::Text(text))
        }
        _ => Typed::Text(text),
    }
}

/// An integer in Go's notation: `12`, `0x1F`, `0b101`, `0o17` and `017`.
fn integer(text: &str) -> Option<Typed<'static>> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'+' | b'-' => text.split_at(1),
        _ => ("", text),
    };
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &unsigned[2..]),
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match (sign, i64::try_from(magnitude)) {
        ("-", _) => 0_i64.checked_sub_unsigned(magnitude).map(Typed::Int),
        (_, Ok(int)) => Some(Typed::Int(int)),
        ("", Err(_)) => Some(Typed::Uint(magnitude)),
        _ => None,
    }
}

/// A float in decimal notation that has a finite value.
fn float(text: &str) -> Option<Typed<'static>> {
    let decimal = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    if !text.bytes().all(decimal) {
        return None;
    }
    text.parse().ok().filter(|float: &f64| float.is_finite()).map(Typed::Float)
}

/// `.5`, where digits may be grouped as in Go's source (`.5_000`) and not just anywhere.
fn fraction(text: &str) -> Option<Typed<'static>> {
    let digit = |character: char| character.is_ascii_digit();
    let groups: Vec<&str> = text.split('_').collect();
    let grouped = groups.windows(2).all(|pair| pair[0].ends_with(digit) && pair[1].starts_with(digit));
    if grouped { float(&groups.concat()) } else { None }
}

/// `0b-101`: the sign after the prefix, which goyaml.v2 lets pass.
fn signed_binary(text: &str) -> Option<Typed<'static>> {
    i64::from_str_radix(text.strip_prefix("0b")?, 2).ok().map(Typed::Int)
}

impl Typed<'_> {
    fn tag(&self) -> &'static str {
        match self {
            Typed::Null => "!!null",
            Typed::Bool(_) => "!!bool",
            Typed::Int(_) | Typed::Uint(_) => "!!int",
            Typed::Float(_) => "!!float",
            Typed::Text(_) => "!!str",
            Typed::Binary(_) => "!!binary",
        }
    }

    /// The scalar as JSON after Go's conversion; integral floats become integers within range.
    pub(super) fn into_value(self) -> Result<Value, ScalarError> {
        Ok(match self {
            Typed::Null => Value::Null,
            Typed::Bool(bool) => bool.into(),
            Typed::Int(int) => int.into(),
            Typed::Uint(uint) => uint.into(),
            Typed::Float(float) => number(float)?.into(),
            Typed::Text(text) => text.into(),
            Typed::Binary(bytes) => String::from_utf8_lossy(&bytes).into(),
        })
    }

    /// The scalar as the name of a field.
    pub(super) fn into_key(self) -> Result<String, ScalarError> {
        match self {
            Typed::Null => Err(ScalarError::NullKey),
            Typed::Bool(bool) => Ok(bool.to_string()),
            Typed::Int(int) => Ok(int.to_string()),
            Typed::Uint(uint) => Err(ScalarError::UnsignedKey(uint)),
            Typed::Float(float) => Ok(float_key(float)),
            Typed::Text(text) => Ok(text.to_owned()),
            Typed::Binary(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }
}

fn number(float: f64) -> Result<Number, ScalarError> {
    // The shortest digits that give the float back, without an exponent, as Go prints it below 1e21.
    let digits = float.to_string();
    let whole = digits.parse::<u64>().map(Number::from).or_else(|_| digits.parse::<i64>().map(Number::from));
    whole.ok().or_else(|| Number::from_f64(float)).ok_or(ScalarError::NoNumber(match float {
        f64::INFINITY => "+Inf",
        f64::NEG_INFINITY => "-Inf",
        _ => "NaN",
    }))
}

/// A float as a key: with the digits of a `float32`, and an exponent from a million on (`1e+06`).
fn float_key(float: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "so it is done in Go")]
    let float = float as f32;
    if float.is_nan() {
        return ".nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{float:e}");
    match scientific.split_once('e').and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?))) {
        Some((digits, exponent)) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => float.to_string(),
    }
}

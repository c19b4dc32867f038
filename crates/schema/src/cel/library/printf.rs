//! `format`: values formatted into a string (CEL-006).
//!
//! Results match Kubernetes, which formats numbers in the English locale.

use std::fmt::Write as _;

use super::core::double;
use super::{EvalResult, unfit};
use crate::cel::fault::EvalError;
use crate::cel::meter::Meter;
use crate::cel::value::{Val, view};

/// Maximum number of decimal places of `format`.
const MAX_PRECISION: usize = 1000;

/// A literal or a clause of a format string.
pub(in crate::cel) enum FormatPart<'t> {
    Text(&'t str),
    Clause {
        /// Decimal places.
        precision: Option<usize>,
        letter: char,
    },
}

/// The parts of a format string, up to the first invalid one.
pub(in crate::cel) fn pieces(template: &str) -> impl Iterator<Item = Result<FormatPart<'_>, &'static str>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(after) = rest.strip_prefix('%') else {
            let (text, after) = rest.split_at(rest.find('%').unwrap_or(rest.len()));
            rest = after;
            return Some(Ok(FormatPart::Text(text)));
        };
        if let Some(after) = after.strip_prefix('%') {
            rest = after;
            return Some(Ok(FormatPart::Text("%")));
        }
        let clause = clause(after);
        rest = clause.as_ref().map_or("", |(_, after)| after);
        Some(clause.map(|(piece, _)| piece))
    })
}

/// The clause after a `%`, and the rest.
fn clause(text: &str) -> Result<(FormatPart<'_>, &str), &'static str> {
    let (precision, text) = match text.strip_prefix('.') {
        Some(text) => {
            let (digits, text) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
            let digits = digits.parse().map_err(|_| "a number of digits has to follow \"%.\"")?;
            (Some(digits), text)
        }
        None => (None, text),
    };
    let mut chars = text.chars();
    match chars.next() {
        Some(letter) if CLAUSES.contains(letter) => Ok((FormatPart::Clause { precision, letter }, chars.as_str())),
        Some(_) => Err("a \"%\" is followed by one of s, d, f, e, b, o, x and X, and written as \"%%\""),
        None => Err("the text ends after a \"%\", which is written as \"%%\""),
    }
}

/// The letters of clauses.
const CLAUSES: &str = "sdfeboxX";

pub(super) fn format<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    let [Val::Text(template), Val::List(list)] = args else { return Err(unfit(args)) };
    let mut written = String::new();
    let mut next = 0;
    meter.work(template.as_str().len())?;
    for piece in pieces(template.as_str()) {
        match piece.map_err(|error| EvalError::failed(format!("error during formatting: {error}")))? {
            FormatPart::Text(text) => written.push_str(text),
            FormatPart::Clause { precision, letter } => {
                let Some(value) = list.get(next, meter) else {
                    return Err(EvalError::failed(format!("index {next} out of range")));
                };
                next += 1;
                let before = written.len();
                clause_of(letter, precision, &value?, &mut written, meter)?;
                meter.work((written.len() - before).saturating_add(20))?;
            }
        }
    }
    Ok(Val::made(written))
}

fn clause_of(
    clause: char,
    precision: Option<usize>,
    value: &Val<'_>,
    written: &mut String,
    meter: &mut Meter,
) -> Result<(), EvalError> {
    let unfit = || EvalError::failed(format!("error during formatting: %{clause} cannot format {}", value.type_name()));
    let text = match (clause, value) {
        ('s', value) => return show(value, false, written, meter),
        ('d', Val::Int(value)) => value.to_string(),
        ('d', Val::Uint(value)) => value.to_string(),
        ('f' | 'e', value) => decimal(clause, precision, special(value).ok_or_else(unfit)?)?,
        ('b', Val::Bool(value)) => u8::from(*value).to_string(),
        ('b' | 'o' | 'x' | 'X', Val::Int(value)) => {
            let sign = if *value < 0 { "-" } else { "" };
            format!("{sign}{}", radix(clause, value.unsigned_abs()))
        }
        ('b' | 'o' | 'x' | 'X', Val::Uint(value)) => radix(clause, *value),
        ('x' | 'X', Val::Text(text)) => hex(clause, text.as_str().as_bytes(), meter)?,
        ('x' | 'X', Val::Bytes(bytes)) => hex(clause, bytes, meter)?,
        _ => return Err(unfit()),
    };
    written.push_str(&text);
    Ok(())
}

/// The float of a number, or of a string that names a special value.
fn special(value: &Val<'_>) -> Option<f64> {
    match value {
        Val::Double(value) => Some(*value),
        Val::Text(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// A float formatted by `%f` or `%e`.
fn decimal(clause: char, precision: Option<usize>, value: f64) -> Result<String, EvalError> {
    if value.is_nan() {
        return Ok("NaN".to_owned());
    }
    let sign = if value < 0.0 { "-" } else { "" };
    if value.is_infinite() {
        return Ok(format!("{sign}\u{221e}"));
    }
    if clause == 'e' {
        return Ok(format!("{sign}{}", scientific(value.abs())));
    }
    let digits = precision.unwrap_or(DIGITS);
    if digits > MAX_PRECISION {
        return Err(EvalError::failed(format!(
            "error during formatting: more than {MAX_PRECISION} digits after the point"
        )));
    }
    let text = format!("{:.digits$}", value.abs());
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::with_capacity(text.len() + whole.len() / 3);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    Ok(format!("{sign}{grouped}{fraction}"))
}

/// Default number of decimal places.
const DIGITS: usize = 6;

/// Scientific notation of zero.
fn scientific(value: f64) -> String {
    let text = format!("{value:.DIGITS$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { "\u{207b}" } else { "" };
    let raised = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let exponent: String = format!("{:02}", exponent.abs())
        .bytes()
        .filter_map(|digit| raised.get(usize::from(digit.wrapping_sub(b'0'))))
        .collect();
    format!("{digits}\u{d7}10{sign}{exponent}")
}

fn radix(clause: char, value: u64) -> String {
    match clause {
        'b' => format!("{value:b}"),
        'o' => format!("{value:o}"),
        'x' => format!("{value:x}"),
        _ => format!("{value:X}"),
    }
}

fn hex(clause: char, bytes: &[u8], meter: &mut Meter) -> Result<String, EvalError> {
    meter.work(bytes.len().saturating_mul(10))?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(if clause == 'X' { digits.to_ascii_uppercase() } else { digits })
}

/// A value as `%s` formats it; inside lists and maps with its type.
fn show(value: &Val<'_>, inside: bool, written: &mut String, meter: &mut Meter) -> Result<(), EvalError> {
    meter.work(20)?;
    match value {
        Val::Null => written.push_str("null"),
        Val::Bool(value) => written.push_str(&value.to_string()),
        Val::Int(value) => written.push_str(&value.to_string()),
        Val::Uint(value) => written.push_str(&value.to_string()),
        Val::Type(name) => written.push_str(name),
        Val::Text(text) => {
            meter.work(text.as_str().len())?;
            show_text("", text.as_str(), inside, written);
        }
        Val::Double(value) if !inside => written.push_str(&double(*value)),
        Val::Double(value) if !value.is_finite() => written.push_str(&go_quoted(&double(*value))),
        Val::Double(value) => {
            let _ = write!(written, "{value:.DIGITS$}");
        }
        Val::Bytes(bytes) => {
            meter.work(bytes.len())?;
            let text = std::str::from_utf8(bytes)
                .map_err(|_| EvalError::failed("error during formatting: bytes are not valid UTF-8"))?;
            show_text("b", text, inside, written);
        }
        Val::Duration(nanos) => show_call("duration", &super::time::seconds(*nanos), inside, written),
        Val::Timestamp(at) => show_call("timestamp", &at.to_string(), inside, written),
        Val::List(list) => {
            written.push('[');
            for at in 0..list.len() {
                if at > 0 {
                    written.push_str(", ");
                }
                let element = list.at(at, meter)?;
                show(&element, true, written, meter)?;
            }
            written.push(']');
        }
        Val::Map(map) => {
            meter.work(map.len().saturating_mul(100))?;
            let entries = map.entries(meter);
            show_entries(entries, written, meter)?;
        }
        Val::Object(members, structure) => {
            meter.work(structure.fields.len().saturating_mul(100))?;
            let mut entries = Vec::new();
            for (name, field) in &structure.fields {
                if let Some(value) = members.get(&field.name) {
                    meter.work(name.len())?;
                    entries.push((Val::made(name.as_str()), view(value, &field.decl, meter)));
                }
            }
            show_entries(entries, written, meter)?;
        }
        other => {
            return Err(EvalError::failed(format!("error during formatting: %s cannot format {}", other.type_name())));
        }
    }
    Ok(())
}

fn show_text(prefix: &str, text: &str, inside: bool, written: &mut String) {
    if inside {
        written.push_str(prefix);
        written.push_str(&go_quoted(text));
    } else {
        written.push_str(text);
    }
}

fn show_call(function: &str, text: &str, inside: bool, written: &mut String) {
    if inside {
        let _ = write!(written, "{function}({text:?})");
    } else {
        written.push_str(text);
    }
}

/// The entries of a map, sorted by the text of their keys.
fn show_entries<'v>(
    entries: Vec<(Val<'v>, Result<Val<'v>, EvalError>)>,
    written: &mut String,
    meter: &mut Meter,
) -> Result<(), EvalError> {
    let mut shown = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        if !matches!(key, Val::Text(_) | Val::Int(_) | Val::Uint(_) | Val::Bool(_)) {
            return Err(EvalError::failed(format!(
                "error during formatting: %s cannot format keys of type {}",
                key.type_name()
            )));
        }
        let mut text = String::new();
        show(&key, true, &mut text, meter)?;
        shown.push((text, value?));
    }
    shown.sort_by(|a, b| a.0.cmp(&b.0));
    written.push('{');
    for (at, (key, value)) in shown.iter().enumerate() {
        if at > 0 {
            written.push_str(", ");
        }
        written.push_str(key);
        written.push(':');
        show(value, true, written, meter)?;
    }
    written.push('}');
    Ok(())
}

/// A quoted string with the escapes of `strings.quote`.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A quoted string as Go formats it, control characters escaped.
fn go_quoted(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 2);
    for c in quoted(text).chars() {
        match u32::from(c) {
            code @ (..0x20 | 0x7f) => {
                let _ = write!(escaped, "\\x{code:02x}");
            }
            code @ 0x80..0xa0 => {
                let _ = write!(escaped, "\\u{code:04x}");
            }
            _ => escaped.push(c),
        }
    }
    escaped
}

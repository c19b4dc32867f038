//! Floats written as Go's `strconv.FormatFloat` writes them.

/// The shortest digits that read back as `value`, and the exponent of the first one.
fn digits(value: f64) -> (String, i32) {
    scientific(&format!("{:e}", value.abs()))
}

/// Digits and exponent of a number in Rust's scientific notation.
fn scientific(text: &str) -> (String, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

/// Infinities and NaN, which no format changes.
fn special(value: f64) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("+Inf"),
        f64::NEG_INFINITY => Some("-Inf"),
        _ => None,
    }
}

fn sign(value: f64) -> &'static str {
    if value.is_sign_negative() { "-" } else { "" }
}

/// `%e`; the shortest digits without a precision.
pub(super) fn exponent(value: f64, precision: Option<usize>) -> String {
    if let Some(text) = special(value) {
        return text.to_owned();
    }
    let (digits, exponent) = match precision {
        None => digits(value),
        Some(precision) => scientific(&format!("{:.*e}", precision, value.abs())),
    };
    format!("{}{}", sign(value), with_exponent(&digits, exponent))
}

fn with_exponent(digits: &str, exponent: i32) -> String {
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let direction = if exponent < 0 { '-' } else { '+' };
    format!("{first}{point}{rest}e{direction}{:02}", exponent.abs())
}

/// `%f`; the shortest digits without a precision.
pub(super) fn fixed(value: f64, precision: Option<usize>) -> String {
    match (special(value), precision) {
        (Some(text), _) => text.to_owned(),
        (None, Some(precision)) => format!("{}{:.*}", sign(value), precision, value.abs()),
        (None, None) => format!("{}{}", sign(value), value.abs()),
    }
}

/// `%g`: exponents below -4, or from the precision on (6 for the shortest digits).
pub(super) fn general(value: f64, precision: Option<usize>) -> String {
    if let Some(text) = special(value) {
        return text.to_owned();
    }
    let (digits, exponent) = match precision {
        None => digits(value),
        Some(precision) => {
            let (digits, exponent) = scientific(&format!("{:.*e}", precision.max(1) - 1, value.abs()));
            let trimmed = digits.trim_end_matches('0');
            (if trimmed.is_empty() { "0".to_owned() } else { trimmed.to_owned() }, exponent)
        }
    };
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let from = match precision {
        None => 6,
        Some(precision) => {
            let precision = i32::try_from(precision.max(1)).unwrap_or(i32::MAX);
            if precision > count && count > exponent { count } else { precision }
        }
    };
    let written = if exponent < -4 || exponent >= from {
        with_exponent(&digits, exponent)
    } else {
        positional(&digits, exponent)
    };
    format!("{}{written}", sign(value))
}

fn positional(digits: &str, exponent: i32) -> String {
    match usize::try_from(exponent) {
        Err(_) => {
            let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
            format!("0.{}{digits}", "0".repeat(zeros))
        }
        Ok(exponent) if exponent + 1 >= digits.len() => {
            format!("{digits}{}", "0".repeat(exponent + 1 - digits.len()))
        }
        Ok(exponent) => format!("{}.{}", &digits[..=exponent], &digits[exponent + 1..]),
    }
}

/// As `encoding/json` writes a float: with an exponent below 1e-6 and from 1e21 on.
pub(super) fn json(value: f64) -> Option<String> {
    if !value.is_finite() {
        return None;
    }
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = exponent(value, None);
        return Some(text.replace("e-0", "e-"));
    }
    Some(fixed(value, None))
}

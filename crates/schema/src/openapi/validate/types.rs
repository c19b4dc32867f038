//! Types of values by `type` and `x-kubernetes-int-or-string`, and values of enums.

use serde_json::Value;

use super::STEPS_OF_NODE;
use super::place::ValuePath;
use super::report::ViolationReport;
use super::scalars::as_float;
use crate::field::{ErrorKind, enumerated};
use crate::openapi::Schema;
use crate::openapi::format::StringFormat;
use crate::openapi::kind::ValueType;
use crate::openapi::node::Bound;

impl Schema {
    /// Checks the type (VAR-V-020, 023, 026, 028). Returns whether the value is an array that passes for a string only
    /// because the node has a format, as the reference does; no other keyword applies to such an array.
    pub(super) fn check_type(&self, value: &Value, place: &ValuePath<'_>, report: &mut ViolationReport<'_>) -> bool {
        let wanted = match self.kind {
            _ if self.int_or_string => {
                let fits = value.is_string() || is_integer(value);
                report.checks += type_checks(value, fits);
                report.require(fits, "VAR-V-026", ErrorKind::TypeInvalid, place, || {
                    format!("must be an integer or a string, and is {}", name_of(value))
                });
                return false;
            }
            Some(kind) => kind,
            None => {
                // A format is checked together with the type, and a value never lacks a type.
                report.checks += if value.is_null() { 1 } else { 2 * usize::from(self.format.is_some()) };
                return false;
            }
        };
        let is_formatted_array =
            wanted == ValueType::String && self.format.is_some_and(StringFormat::is_for_strings) && value.is_array();
        let fits = match wanted {
            ValueType::Array => value.is_array(),
            ValueType::Boolean => value.is_boolean(),
            ValueType::Integer => is_integer(value),
            ValueType::Number => value.is_number(),
            ValueType::Object => value.is_object(),
            ValueType::String => value.is_string() || is_formatted_array,
            ValueType::Unknown => false,
        };
        report.checks += type_checks(value, fits);
        let rule = match (wanted, value.is_null()) {
            (ValueType::Integer, false) if value.is_number() => "VAR-V-023",
            _ => "VAR-V-020",
        };
        report.require(fits, rule, ErrorKind::TypeInvalid, place, || {
            format!("must be of type {}, and is {}{}", wanted.name(), name_of(value), remediation(wanted, value))
        });
        is_formatted_array
    }

    /// Checks the enum (VAR-V-025).
    pub(super) fn check_enum(&self, value: &Value, place: &ValuePath<'_>, report: &mut ViolationReport<'_>) {
        if self.values.is_empty() {
            return;
        }
        let steps = match value {
            Value::String(text) => STEPS_OF_NODE + text.len() / 16,
            // A list or object may equal an entry up to its last element.
            other => self.values.len().saturating_mul(nodes(other)),
        };
        if !report.effort.take(steps) {
            return;
        }
        let fits = match value {
            Value::String(text) => self.values.has_text(text),
            other => self.values.iter().any(|entry| equals_entry(other, entry)),
        };
        report.require(fits, "VAR-V-025", ErrorKind::NotSupported, place, || {
            let supported = self
                .values
                .iter()
                .map(|entry| entry.as_str().map_or_else(|| entry.to_string(), |text| format!("{text:?}")));
            format!("supported values: {}", enumerated(supported))
        });
    }
}

/// Number of checks of the type of a value: that it has one, except for `null`, and that it fits.
fn type_checks(value: &Value, fits: bool) -> usize {
    usize::from(!value.is_null()) + usize::from(fits)
}

/// The largest integer up to which every integer is a 64-bit float.
const EXACT: f64 = 9_007_199_254_740_991.0;

/// Whether a value is an integer: a JSON integer of 64 bits, or an exact float almost without a fraction (VAR-V-023).
fn is_integer(value: &Value) -> bool {
    let Value::Number(number) = value else { return false };
    if number.is_i64() {
        return true;
    }
    if number.is_u64() {
        return false;
    }
    let value = number.as_f64().unwrap_or(f64::NAN);
    let nearest = value.round();
    // No deviation from zero is tolerated.
    let is_near = value.fract() == 0.0 || ((value - nearest) / nearest).abs() < 1e-9;
    is_near && value.abs() <= EXACT
}

/// Advice for a value that YAML reads with an unintended type.
fn remediation(wanted: ValueType, value: &Value) -> &'static str {
    match (wanted, value) {
        (_, Value::Null) => "; leave it out where there is none",
        (ValueType::String, Value::Bool(_) | Value::Number(_)) => "; write it in quotes",
        (ValueType::Integer | ValueType::Number, Value::String(text)) if text.parse::<f64>().is_ok() => {
            "; write it without quotes"
        }
        (ValueType::Boolean, Value::String(_)) => "; write true or false, without quotes",
        _ => "",
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Number of nodes of a value.
fn nodes(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(nodes).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(nodes).sum::<usize>(),
        _ => 1,
    }
}

/// Deep equality; numbers are converted to the type of the entry first (VAR-V-025).
fn equals_entry(value: &Value, entry: &Value) -> bool {
    let (Value::Number(value), Value::Number(wanted)) = (value, entry) else { return value == entry };
    let same = |a: f64, b: f64| a.total_cmp(&b).is_eq();
    match (value.as_f64(), wanted.as_i64()) {
        (Some(float), Some(wanted)) if value.is_f64() => {
            same(as_float(Bound { value: wanted, exclusive: false }), float.trunc() + 0.0)
        }
        (_, Some(wanted)) => value.as_i64() == Some(wanted),
        (Some(float), None) => wanted.as_f64().is_some_and(|wanted| same(wanted, float)),
        (None, None) => false,
    }
}

//! The values that an enum allows.

use serde_json::Value;

use super::STEPS_OF_NODE;
use super::place::Place;
use super::report::Report;
use super::scalars::as_float;
use crate::field::{ErrorKind, enumerated};
use crate::schema::Schema;
use crate::schema::node::Bound;

impl Schema {
    /// VAR-V-025
    pub(super) fn check_enum(&self, value: &Value, place: &Place<'_>, report: &mut Report<'_>) {
        if self.values.is_empty() {
            return;
        }
        let steps = match value {
            Value::String(text) => STEPS_OF_NODE + text.len() / 16,
            // A value that is a list or an object may be like an entry to the last element.
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

/// The nodes of a value.
fn nodes(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(nodes).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(nodes).sum::<usize>(),
        _ => 1,
    }
}

/// Deep equality; a number is converted to the kind of the entry first (VAR-V-025).
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

//! Lengths and patterns of strings, bounds of numbers, and formats of both.

use serde_json::Number;

use super::patterns::demand;
use super::place::ValuePath;
use super::report::ViolationReport;
use super::signed;
use crate::field::ErrorKind;
use crate::openapi::Schema;
use crate::openapi::format::StringFormat;
use crate::openapi::kind::ValueType;
use crate::openapi::node::Bound;
use golang::json::END_OF_INTEGERS;

impl Schema {
    pub(super) fn check_string(&self, text: &str, place: &ValuePath<'_>, report: &mut ViolationReport<'_>) {
        // A string has at most as many characters as bytes, so most need not be counted.
        let may_be_too_long = self.max_length.is_some_and(|most| signed(text.len()) > most);
        let length = if may_be_too_long || self.min_length.is_some() { signed(text.chars().count()) } else { 0 };
        // A format costs about as much as a small pattern.
        let of_format = if self.format.is_some() { text.len().saturating_mul(4) } else { 0 };
        let of_pattern = self.pattern.as_ref().map_or(0, |pattern| pattern.steps(text));
        if !report.effort.take((text.len() / 16).saturating_add(of_format).saturating_add(of_pattern)) {
            return;
        }
        let fits_pattern = |pattern: &golang::regexp::Regex| pattern.is_match(text);
        // Of these three, only the first violation is reported.
        if let Some(most) = self.max_length.filter(|most| length > *most) {
            report.violation(
                "VAR-V-022",
                ErrorKind::TooLong,
                place,
                format!("may not be longer than {most}, and has {length} characters"),
            );
        } else if let Some(least) = self.min_length.filter(|least| length < *least) {
            report.violation(
                "VAR-V-022",
                ErrorKind::Invalid,
                place,
                format!("must have at least {least} characters, and has {length}"),
            );
        } else if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !fits_pattern(pattern)) {
            report.violation("VAR-V-022", ErrorKind::Invalid, place, demand(pattern.as_str()));
        }
        if let Some(format) =
            self.format.filter(|format| format.is_for_strings() && matches!(self.kind, None | Some(ValueType::String)))
        {
            report.require(format.fits(text), "VAR-V-024", ErrorKind::TypeInvalid, place, || {
                let example = format.example().map(|example| format!(", such as {example}")).unwrap_or_default();
                format!("must be of format {}{example}", format.name())
            });
        }
    }

    pub(super) fn check_number(&self, number: &Number, place: &ValuePath<'_>, report: &mut ViolationReport<'_>) {
        let value = number.as_f64().unwrap_or(f64::NAN);
        if let Some(bound) = self.minimum {
            let fits = value > as_float(bound) || (!bound.exclusive && value >= as_float(bound));
            report.require(fits, "VAR-V-022", ErrorKind::Invalid, place, || {
                bound_message("must be", bound, "greater than", "at least")
            });
        }
        if let Some(bound) = self.maximum {
            let fits = value < as_float(bound) || (!bound.exclusive && value <= as_float(bound));
            report.require(fits, "VAR-V-022", ErrorKind::Invalid, place, || {
                bound_message("must be", bound, "less than", "at most")
            });
        }
        if self.kind == Some(ValueType::Integer) && !self.int_or_string {
            self.check_integer_range(number, place, report);
        }
        let is_format_of_kind = |format: &StringFormat| match self.kind {
            Some(ValueType::Integer) => format.is_for_integers(),
            Some(ValueType::Number) => format.is_for_numbers(),
            _ => false,
        };
        if let Some(format) = self.format.filter(is_format_of_kind) {
            // By convention, this error is reported at the whole value.
            let fits = format.holds(value);
            report.require(fits, "VAR-V-024", ErrorKind::Invalid, &ValuePath::Root, || {
                format!("{} must be of format {}", place.named(), format.name())
            });
        }
    }

    /// Whether the number and the bounds of the node are integers of 64 bits, or of the format (VAR-V-023, VAR-V-024).
    /// By convention, these errors are reported at the whole value.
    fn check_integer_range(&self, number: &Number, place: &ValuePath<'_>, report: &mut ViolationReport<'_>) {
        let format = self.format.filter(|format| format.is_for_integers());
        // A number outside of the range of a format is reported as that.
        let value = number.as_f64().unwrap_or(f64::NAN);
        let fits = number.is_i64()
            || (number.is_f64() && value.fract() == 0.0 && value.abs() < END_OF_INTEGERS)
            || format.is_some_and(|format| !format.holds(value));
        report.require(fits, "VAR-V-023", ErrorKind::Invalid, &ValuePath::Root, || {
            format!("{} must be an integer of 64 bits", place.named())
        });
        for (keyword, bound) in [("minimum", self.minimum), ("maximum", self.maximum)] {
            let Some(bound) = bound else { continue };
            let value = as_float(bound);
            let fits = value.abs() < END_OF_INTEGERS && format.is_none_or(|format| format.holds(value));
            report.require(fits, "VAR-V-024", ErrorKind::Invalid, &ValuePath::Root, || {
                let name = format.map_or("an integer of 64 bits", StringFormat::name);
                format!("{} cannot be valid: the {keyword} {} of its schema is not {name}", place.named(), bound.value)
            });
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "bounds are compared as 64-bit floats (VAR-V-022)")]
pub(super) fn as_float(bound: Bound) -> f64 {
    bound.value as f64
}

fn bound_message(what: &str, bound: Bound, strictly: &str, otherwise: &str) -> String {
    format!("{what} {} {}", if bound.exclusive { strictly } else { otherwise }, bound.value)
}

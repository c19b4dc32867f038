//! Values against a schema (VAR-V-020 to VAR-V-028).

use std::cell::Cell;
use std::collections::HashSet;

use serde_json::{Map, Number, Value};

use super::format::Format;
use super::node::{Bound, Kind};
use super::{Effort, Schema};
use crate::budget::Stop;
use crate::field::{ErrorKind, RuleId, enumerated, lengthen, shortened};

/// One thing that is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule that found it.
    pub rule: RuleId,
    pub kind: ErrorKind,
    /// Where inside the value: empty for the value itself, else `.key`, `.key[0]` or `.[0]`.
    pub place: String,
    /// The same as a JSON pointer (RFC 6901).
    pub pointer: String,
    pub detail: String,
}

impl Schema {
    /// Everything that is wrong with `value`; unknown fields and CEL rules are checked elsewhere.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        self.violations_within(value, &Effort::unlimited(&Stop::never()))
    }

    /// The same, as far as the effort goes: a value that takes more is wrong for that alone (DEC-44).
    pub fn violations_within(&self, value: &Value, effort: &Effort) -> Vec<Violation> {
        let kept = Cell::new(0);
        let mut report = Report::new(effort, &kept);
        self.apply(value, &Place::Root, &mut report);
        if let Some(exceeded) = effort.exceeded() {
            report.violations.clear();
            let detail = format!("{exceeded}; make lists, maps and texts in the values smaller");
            report.violation("DEC-44", ErrorKind::Invalid, &Place::Root, detail);
        }
        report.violations
    }

    /// Whether nothing is wrong with the length, the pattern and the format of a text.
    pub(super) fn fits_text(&self, text: &str, effort: &Effort) -> bool {
        let kept = Cell::new(0);
        let mut report = Report::new(effort, &kept);
        self.check_string(text, &Place::Root, &mut report);
        report.violations.is_empty() && effort.exceeded().is_none()
    }

    fn apply(&self, value: &Value, place: &Place<'_>, report: &mut Report<'_>) {
        if !report.effort.take(STEPS_OF_NODE) {
            return;
        }
        let is_formatted_array = self.check_type(value, place, report);
        report.checks += self.checks_of(value);
        if !value.is_null() && !is_formatted_array {
            match value {
                Value::String(text) => self.check_string(text, place, report),
                Value::Number(number) => self.check_number(number, place, report),
                Value::Array(elements) => self.check_array(elements, place, report),
                Value::Object(members) => self.check_object(members, place, report),
                Value::Bool(_) | Value::Null => {}
            }
        }
        self.check_enum(value, place, report);
        if !value.is_null() {
            self.check_junctors(value, place, report);
        }
    }

    /// How many kinds of checks a node makes of a value, its type aside; whether they are satisfied does not matter
    /// (VAR-V-027).
    fn checks_of(&self, value: &Value) -> usize {
        let has_text_format = self.format.is_some_and(Format::is_for_strings);
        // The node, its enum, and its junctors with and without their entries.
        4 + match value {
            Value::Null => return 0,
            Value::Bool(_) => 0,
            Value::String(_) => 1 + usize::from(has_text_format),
            Value::Number(_) | Value::Array(_) => 2,
            Value::Object(_) => 1,
        }
    }

    /// VAR-V-020, 023, 026, 028. Says whether the value is an array that passes for a string only because the node has a
    /// format, which is how the reference reads it; nothing else of the node applies to such an array.
    fn check_type(&self, value: &Value, place: &Place<'_>, report: &mut Report<'_>) -> bool {
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
                // A format is looked at together with the type, and no value fails for want of a type.
                report.checks += if value.is_null() { 1 } else { 2 * usize::from(self.format.is_some()) };
                return false;
            }
        };
        let is_formatted_array =
            wanted == Kind::String && self.format.is_some_and(Format::is_for_strings) && value.is_array();
        let fits = match wanted {
            Kind::Array => value.is_array(),
            Kind::Boolean => value.is_boolean(),
            Kind::Integer => is_integer(value),
            Kind::Number => value.is_number(),
            Kind::Object => value.is_object(),
            Kind::String => value.is_string() || is_formatted_array,
            Kind::Unknown => false,
        };
        report.checks += type_checks(value, fits);
        let rule = match (wanted, value.is_null()) {
            (Kind::Integer, false) if value.is_number() => "VAR-V-023",
            _ => "VAR-V-020",
        };
        report.require(fits, rule, ErrorKind::TypeInvalid, place, || {
            format!("must be of type {}, and is {}{}", wanted.name(), name_of(value), way_out(wanted, value))
        });
        is_formatted_array
    }

    fn check_string(&self, text: &str, place: &Place<'_>, report: &mut Report<'_>) {
        // A text has no more characters than bytes, so most need not be counted.
        let may_be_too_long = self.max_length.is_some_and(|most| signed(text.len()) > most);
        let length = if may_be_too_long || self.min_length.is_some() { signed(text.chars().count()) } else { 0 };
        // A format is about as much work as a small pattern.
        let of_format = if self.format.is_some() { text.len().saturating_mul(4) } else { 0 };
        let of_pattern = self.pattern.as_ref().map_or(0, |pattern| pattern.steps(text));
        if !report.effort.take((text.len() / 16).saturating_add(of_format).saturating_add(of_pattern)) {
            return;
        }
        let fits_pattern = |pattern: &crate::goregex::Regex| pattern.is_match(text);
        // Of these three only the first that is violated is reported.
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
            report.violation("VAR-V-022", ErrorKind::Invalid, place, format!("must match {:?}", pattern.as_str()));
        }
        if let Some(format) =
            self.format.filter(|format| format.is_for_strings() && matches!(self.kind, None | Some(Kind::String)))
        {
            report.require(format.fits(text), "VAR-V-024", ErrorKind::TypeInvalid, place, || {
                let example = format.example().map(|example| format!(", such as {example}")).unwrap_or_default();
                format!("must be of format {}{example}", format.name())
            });
        }
    }

    fn check_number(&self, number: &Number, place: &Place<'_>, report: &mut Report<'_>) {
        let value = number.as_f64().unwrap_or(f64::NAN);
        if let Some(bound) = self.minimum {
            let fits = value > as_float(bound) || (!bound.exclusive && value >= as_float(bound));
            report.require(fits, "VAR-V-022", ErrorKind::Invalid, place, || {
                said("must be", bound, "greater than", "at least")
            });
        }
        if let Some(bound) = self.maximum {
            let fits = value < as_float(bound) || (!bound.exclusive && value <= as_float(bound));
            report.require(fits, "VAR-V-022", ErrorKind::Invalid, place, || {
                said("must be", bound, "less than", "at most")
            });
        }
        let is_format_of_kind = |format: &Format| match self.kind {
            Some(Kind::Integer) => format.is_for_integers(),
            Some(Kind::Number) => format.is_for_numbers(),
            _ => false,
        };
        if let Some(format) = self.format.filter(is_format_of_kind) {
            // The established place of this error is the whole value.
            let fits = format.holds(value);
            report.require(fits, "VAR-V-024", ErrorKind::Invalid, &Place::Root, || {
                format!("{} must be of format {}", place.named(), format.name())
            });
        }
    }

    fn check_array(&self, elements: &[Value], place: &Place<'_>, report: &mut Report<'_>) {
        let count = signed(elements.len());
        if let Some(least) = self.min_items {
            report.require(count >= least, "VAR-V-022", ErrorKind::Invalid, place, || {
                format!("must have at least {least} items, and has {count}")
            });
        }
        if let Some(most) = self.max_items {
            report.require(count <= most, "VAR-V-022", ErrorKind::TooMany, place, || {
                format!("must have at most {most} items, and has {count}")
            });
        }
        if self.unique_items {
            let mut seen = HashSet::new();
            let repeated = elements.iter().position(|element| {
                let text = element.to_string();
                !report.effort.take(STEPS_OF_NODE + text.len()) || !seen.insert(text)
            });
            report.require(repeated.is_none(), "VAR-V-022", ErrorKind::Invalid, place, || {
                format!("must have no equal items, and item {} repeats an earlier one", repeated.unwrap_or_default())
            });
        }
        if let Some(node) = &self.items {
            for (i, element) in elements.iter().enumerate() {
                node.apply(element, &Place::Element(place, i), report);
            }
        }
    }

    fn check_object(&self, members: &Map<String, Value>, place: &Place<'_>, report: &mut Report<'_>) {
        if !report.effort.take(members.len() + self.required.len()) {
            return;
        }
        let count = signed(members.len());
        if let Some(least) = self.min_properties {
            report.require(count >= least, "VAR-V-022", ErrorKind::Invalid, place, || {
                format!("must have at least {least} properties, and has {count}")
            });
        }
        if let Some(most) = self.max_properties {
            report.require(count <= most, "VAR-V-022", ErrorKind::TooMany, place, || {
                format!("must have at most {most} properties, and has {count}")
            });
        }
        for name in &self.required {
            report.require(
                members.contains_key(name),
                "VAR-V-021",
                ErrorKind::Required,
                &Place::Member(place, name),
                String::new,
            );
        }
        for (name, member) in members {
            if let Some(node) = self.properties.get(name).or(self.additional_properties.as_deref()) {
                node.apply(member, &Place::Member(place, name), report);
            }
        }
    }

    /// VAR-V-025
    fn check_enum(&self, value: &Value, place: &Place<'_>, report: &mut Report<'_>) {
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

    /// VAR-V-027. The Invalid error of a junctor stands at the whole value, whatever its depth.
    fn check_junctors(&self, value: &Value, place: &Place<'_>, report: &mut Report<'_>) {
        if self.not.is_none() && self.all_of.is_empty() && self.any_of.is_empty() && self.one_of.is_empty() {
            return;
        }
        let fails = |report: &mut Report<'_>, what: &str| {
            if report.has_room() {
                let detail = format!("{} must {what}", place.named());
                report.violation("VAR-V-027", ErrorKind::Invalid, &Place::Root, detail);
            }
        };
        if let Some(node) = &self.not {
            let attempt = report.attempt(node, value, place);
            if attempt.violations.is_empty() {
                fails(report, "not be valid against the schema under \"not\"");
            }
            attempt.drop_violations();
        }
        let mut failed = Report::new(report.effort, report.kept);
        for node in &self.all_of {
            let attempt = report.attempt(node, value, place);
            failed.merge(attempt);
        }
        report.checks += failed.checks;
        if !failed.violations.is_empty() {
            fails(report, "be valid against every schema under \"allOf\"");
            failed.checks = 0;
            report.merge(failed);
        }
        if !self.any_of.is_empty() {
            let tried = report.try_each(&self.any_of, value, place);
            if tried.valid == 0 {
                fails(report, "be valid against at least one schema under \"anyOf\"");
            }
            report.conclude(tried, |valid| valid > 0);
        }
        if !self.one_of.is_empty() {
            let tried = report.try_each(&self.one_of, value, place);
            if tried.valid != 1 {
                let valid = tried.valid;
                fails(
                    report,
                    &format!("be valid against exactly one schema under \"oneOf\", and is valid against {valid}"),
                );
            }
            report.conclude(tried, |valid| valid == 1);
        }
    }
}

/// How many violations of one value are kept.
const KEPT: usize = 1000;

/// How many bytes the violations of one value may have together, those of alternatives that are being tried included.
const KEPT_BYTES: usize = 4 << 20;

/// What it takes to look at a node, in steps of effort.
pub(super) const STEPS_OF_NODE: usize = 8;

/// What it takes to say what is wrong: alternatives of a junctor say it for nothing.
const STEPS_OF_VIOLATION: usize = 100;

/// What was found so far. Of what is wrong, at least one thing is kept: a report without violations is that of a valid value.
struct Report<'s> {
    effort: &'s Effort,
    /// Bytes of violations that are kept, of all reports on the value.
    kept: &'s Cell<usize>,
    violations: Vec<Violation>,
    /// How many checks were made: the more, the closer an entry of a junctor comes to the value (VAR-V-027).
    checks: usize,
}

/// What became of the alternatives of a junctor.
struct Tried<'s> {
    /// How many are valid.
    valid: usize,
    /// How many checks the first of those made.
    checks: usize,
    /// Of the others the one of which most was checked, the first among equals.
    closest: Option<Report<'s>>,
}

impl<'s> Report<'s> {
    fn new(effort: &'s Effort, kept: &'s Cell<usize>) -> Self {
        Report { effort, kept, violations: Vec::new(), checks: 0 }
    }

    /// Holds the value against a schema, for itself.
    fn attempt(&self, node: &Schema, value: &Value, place: &Place<'_>) -> Report<'s> {
        let mut attempt = Report::new(self.effort, self.kept);
        node.apply(value, place, &mut attempt);
        attempt
    }

    fn try_each(&self, nodes: &[Schema], value: &Value, place: &Place<'_>) -> Tried<'s> {
        let mut tried = Tried { valid: 0, checks: 0, closest: None };
        for node in nodes {
            let attempt = self.attempt(node, value, place);
            let is_closest = tried.closest.as_ref().is_none_or(|closest| attempt.checks > closest.checks);
            let dropped = if attempt.violations.is_empty() {
                tried.checks = if tried.valid == 0 { attempt.checks } else { tried.checks };
                tried.valid += 1;
                None
            } else if is_closest {
                tried.closest.replace(attempt)
            } else {
                Some(attempt)
            };
            dropped.into_iter().for_each(Report::drop_violations);
        }
        tried
    }

    /// Counts the checks of the first valid alternative if the number of valid ones is right, and reports the closest one if
    /// none is valid.
    fn conclude(&mut self, tried: Tried<'s>, is_right: impl Fn(usize) -> bool) {
        self.checks += if is_right(tried.valid) { tried.checks } else { 0 };
        match tried.closest {
            Some(closest) if tried.valid == 0 => self.merge(closest),
            closest => closest.into_iter().for_each(Report::drop_violations),
        }
    }

    /// Whether another violation is kept.
    fn has_room(&self) -> bool {
        self.violations.is_empty() || (self.violations.len() < KEPT && self.kept.get() < KEPT_BYTES)
    }

    fn require(
        &mut self,
        fits: bool,
        rule: RuleId,
        kind: ErrorKind,
        place: &Place<'_>,
        detail: impl FnOnce() -> String,
    ) {
        if !fits && self.has_room() {
            self.violation(rule, kind, place, detail());
        }
    }

    fn violation(&mut self, rule: RuleId, kind: ErrorKind, place: &Place<'_>, detail: String) {
        if self.has_room() {
            let violation = Violation { rule, kind, place: place.render(), pointer: place.pointer(), detail };
            let bytes = violation.bytes();
            self.kept.set(self.kept.get() + bytes);
            self.violations.push(violation);
            self.effort.take(STEPS_OF_VIOLATION + bytes / 4);
        }
    }

    /// Takes over what another report has, as far as there is room.
    fn merge(&mut self, mut other: Report<'_>) {
        self.checks += other.checks;
        let room = KEPT.saturating_sub(self.violations.len());
        self.violations.extend(other.violations.drain(..room.min(other.violations.len())));
        other.drop_violations();
    }

    /// Makes room for others.
    fn drop_violations(self) {
        let bytes: usize = self.violations.iter().map(Violation::bytes).sum();
        self.kept.set(self.kept.get().saturating_sub(bytes));
    }
}

impl Violation {
    /// How much memory it takes.
    fn bytes(&self) -> usize {
        size_of::<Violation>() + self.place.len() + self.pointer.len() + self.detail.len()
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

/// How many checks the type of a value counts for: it is looked at, except that of `null`, and it fits.
fn type_checks(value: &Value, fits: bool) -> usize {
    usize::from(!value.is_null()) + usize::from(fits)
}

/// Where a check stands inside a value; written out only when something is wrong. Names that are too long to be names are
/// cut short: there may be many errors below one.
enum Place<'a> {
    Root,
    Member(&'a Place<'a>, &'a str),
    Element(&'a Place<'a>, usize),
}

impl Place<'_> {
    fn render(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        match self {
            Place::Root => {}
            Place::Member(parent, name) => {
                parent.write(text);
                lengthen(text, &[".", &shortened(name)]);
            }
            Place::Element(parent, i) => {
                parent.write(text);
                // The established path of an element of a root array has a dot.
                let dot = if text.is_empty() { "." } else { "" };
                lengthen(text, &[dot, "[", &i.to_string(), "]"]);
            }
        }
    }

    fn pointer(&self) -> String {
        let mut text = String::new();
        self.point(&mut text);
        text
    }

    /// Writes the pointer; says whether it leads to the place. One that would be too long leads to something around it.
    fn point(&self, text: &mut String) -> bool {
        match self {
            Place::Root => true,
            Place::Member(parent, name) => parent.point(text) && point(text, name),
            Place::Element(parent, i) => parent.point(text) && point(text, &i.to_string()),
        }
    }

    /// The place for a message.
    fn named(&self) -> String {
        match self.render() {
            root if root.is_empty() => "the value".to_owned(),
            place => place.trim_start_matches('.').to_owned(),
        }
    }
}

/// Appends a step to a JSON pointer, unless it becomes too long for one.
pub(super) fn point(pointer: &mut String, name: &str) -> bool {
    let fits = pointer.len() + name.len() < LONGEST_POINTER;
    if fits {
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    }
    fits
}

/// How long a pointer may be, in bytes, before the last step is written.
const LONGEST_POINTER: usize = 4096;

/// The largest integer up to which every integer is a 64-bit float.
const EXACT: f64 = 9_007_199_254_740_991.0;

/// VAR-V-023: a JSON integer of 64 bits, or a float without a fraction that is exact.
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
    let deviation = if nearest == 0.0 { value.abs() } else { ((value - nearest) / nearest).abs() };
    deviation < 1e-9 && value.abs() <= EXACT
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

#[allow(clippy::cast_precision_loss, reason = "bounds are compared as 64-bit floats (VAR-V-022)")]
fn as_float(bound: Bound) -> f64 {
    bound.value as f64
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn said(what: &str, bound: Bound, strictly: &str, otherwise: &str) -> String {
    format!("{what} {} {}", if bound.exclusive { strictly } else { otherwise }, bound.value)
}

/// What to write where YAML reads a value as something that its author did not mean.
fn way_out(wanted: Kind, value: &Value) -> &'static str {
    match (wanted, value) {
        (_, Value::Null) => "; leave it out where there is none",
        (Kind::String, Value::Bool(_) | Value::Number(_)) => "; write it in quotes",
        (Kind::Integer | Kind::Number, Value::String(text)) if text.parse::<f64>().is_ok() => {
            "; write it without quotes"
        }
        (Kind::Boolean, Value::String(_)) => "; write true or false, without quotes",
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

//! Keywords checked together with the CEL rules of a node, and reports about literals of a schema.

use serde_json::Value;

use super::kind::ValueType;
use super::validate::Violation;
use super::{SENSITIVE, Schema, SchemaAllowance, SchemaDefinition};
use crate::field::{ErrorKind, ErrorValue, Findings, Path, RuleId};
use golang::json;

/// Checks type, example and enum of a node (VAR-S-040 to VAR-S-044), including junctor nodes. Returns whether to check
/// the nodes below.
pub(super) fn keywords(
    node: &SchemaDefinition,
    schema: &Schema,
    path: &Path,
    allowance: &mut SchemaAllowance,
    found: &mut Findings,
) -> bool {
    let supported = ValueType::NAMES.map(|(name, _)| name);
    if !node.r#type.is_empty() && !supported.contains(&&*node.r#type) {
        found.run("VAR-S-040", |found| {
            let supported = supported.map(|name| format!("{name:?}")).join(", ");
            found.error(
                ErrorKind::NotSupported,
                path.child("type"),
                &*node.r#type,
                format!("supported values: {supported}"),
            );
        });
        return false;
    }
    if let Some(example) = example_of(node) {
        let path = path.child("example");
        report("VAR-S-041", allowance.violations_at(&path, schema, &example), &path, schema.shown(&example), found);
    }
    for (i, entry) in schema.values.iter().enumerate() {
        if allowance.is_over() {
            return false;
        }
        let path = path.child("enum").index(i);
        report("VAR-S-042", allowance.violations_at(&path, schema, entry), &path, schema.shown(entry), found);
    }
    found.run("VAR-S-043", |found| {
        if node.additional_properties.is_some()
            && node.properties.as_ref().is_some_and(|properties| !properties.is_empty())
        {
            found.forbidden(path.clone(), "additionalProperties and properties exclude each other");
        }
    });
    true
}

/// The example of a node, which is known to be readable.
pub(super) fn example_of(node: &SchemaDefinition) -> Option<Value> {
    json::value(node.example.as_ref()?.get()).ok().filter(|example| !example.is_null())
}

/// Reports rules that a literal of a schema violates, with the value at each place unless it is an object or a list.
pub(super) fn report_at_place(
    rule: RuleId,
    violations: Vec<Violation>,
    path: &Path,
    schema: &Schema,
    value: &Value,
    found: &mut Findings,
) {
    found.run(rule, |found| {
        for violation in violations {
            let shown = match value.pointer(&violation.pointer) {
                _ if schema.has_secrets() => ErrorValue::from(SENSITIVE),
                None | Some(Value::Object(_) | Value::Array(_)) => ErrorValue::from(""),
                Some(scalar) => ErrorValue::bounded(scalar),
            };
            found.run(violation.rule, |found| {
                found.error(violation.kind, path.place(&violation.place), shown, violation.detail);
            });
        }
    });
}

/// Reports errors of a literal of a schema.
pub(super) fn report(rule: RuleId, violations: Vec<Violation>, path: &Path, shown: ErrorValue, found: &mut Findings) {
    found.run(rule, |found| {
        for violation in violations {
            let shown = shown.clone();
            found.run(violation.rule, |found| {
                found.error(violation.kind, path.place(&violation.place), shown, violation.detail);
            });
        }
    });
}

//! Keywords of any node that are checked together with its CEL rules, and reports about literals of a schema.

use serde_json::Value;

use super::kind::Kind;
use super::validate::Violation;
use super::{Allowance, Definition, SENSITIVE, Schema};
use crate::field::{ErrorKind, Findings, Path, RuleId, Shown};
use golang::json;

/// The type, example and enum of a node (VAR-S-040 to VAR-S-044), be it a junctor node. Says whether what is below must be
/// looked at.
pub(super) fn keywords(
    node: &Definition,
    schema: &Schema,
    path: &Path,
    allowance: &mut Allowance,
    found: &mut Findings,
) -> bool {
    let supported = Kind::NAMES.map(|(name, _)| name);
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

/// The example of a node; that it can be read was checked before.
pub(super) fn example_of(node: &Definition) -> Option<Value> {
    json::value(node.example.as_ref()?.get()).ok().filter(|example| !example.is_null())
}

/// Reports rules that a literal of a schema breaks, with the value at each place unless that is an object or a list.
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
                _ if schema.has_secrets() => Shown::from(SENSITIVE),
                None | Some(Value::Object(_) | Value::Array(_)) => Shown::from(""),
                Some(scalar) => Shown::bounded(scalar),
            };
            found.run(violation.rule, |found| {
                found.error(violation.kind, path.place(&violation.place), shown, violation.detail);
            });
        }
    });
}

/// Reports what is wrong with a literal of a schema.
pub(super) fn report(rule: RuleId, violations: Vec<Violation>, path: &Path, shown: Shown, found: &mut Findings) {
    found.run(rule, |found| {
        for violation in violations {
            let shown = shown.clone();
            found.run(violation.rule, |found| {
                found.error(violation.kind, path.place(&violation.place), shown, violation.detail);
            });
        }
    });
}

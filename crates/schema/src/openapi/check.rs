//! Validity of a schema definition (VAR-S), including its CEL rules.
//!
//! The checks run in stages; a stage with errors ends the check: literals, structure, defaults, the rest (VAR-S-007). A
//! definition that passes the first two compiles (VAR-S-047).

use std::sync::Arc;

use serde_json::Value;

use super::keywords::{report, report_at_place};
use super::validate::Violation;
use super::validations::CompiledRules;
use super::{ChildStep, SENSITIVE, Schema, SchemaAllowance, SchemaDefinition, SchemaError, rules};
use crate::budget::Stop;
use crate::cel::EvaluationBudget;
use crate::field::{Findings, Path};
use golang::json::{self, RawJson};

/// Checks a definition whose root is at `path`, and compiles it if it is valid. An exceeded allowance is recorded there
/// and is not a finding (DEC-44).
pub fn check(
    definition: &SchemaDefinition,
    path: &Path,
    allowance: &mut SchemaAllowance,
    found: &mut Findings,
) -> Option<Schema> {
    let before = found.error_count();
    found.run("VAR-S-010", |found| literals(definition, path, found));
    if found.error_count() > before {
        return None;
    }
    structure(definition, path, NodePosition::Core, allowance, found);
    if found.error_count() > before || allowance.is_over() {
        return None;
    }
    let compiled = Schema::compile_within(definition, allowance).and_then(|schema| {
        schema.expanded_default(allowance)?;
        Ok((schema, CompiledRules::compile(definition, true, allowance)?))
    });
    let (schema, root) = match compiled {
        Ok(compiled) => compiled,
        Err(SchemaError::Exceeded { place, exceeded }) => {
            allowance.note_breach(path.place(&place), exceeded);
            return None;
        }
        Err(SchemaError::Stopped) => return None,
        Err(reason) => {
            found.run("VAR-S-047", |found| found.invalid(path.clone(), "", format!("cannot be used: {reason}")));
            return None;
        }
    };
    let uncompiled = defaults(definition, &schema, root.as_ref(), path, allowance, found);
    // What is wrong with a rule that a default waits for is said by the check of rules.
    if found.error_count() > before + uncompiled || allowance.is_over() {
        return None;
    }
    rules::rules_and_everything_else(definition, &schema, root.as_ref(), path, allowance, found);
    (found.error_count() == before && !allowance.is_over()).then_some(schema)
}

/// The position of a node: reached through `properties`, `additionalProperties` and `items` only, or below a junctor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodePosition {
    Core,
    Junctor,
}

/// Defaults, examples and enum entries can be read (VAR-S-010).
fn literals(node: &SchemaDefinition, path: &Path, found: &mut Findings) {
    let mut literal = |raw: Option<&RawJson>, path: Path| {
        if let Some(raw) = raw
            && let Err(error) = json::value(raw.get())
        {
            let shown = if node.has_secrets() { SENSITIVE } else { raw.get() };
            found.invalid(path, shown, format!("cannot be read: {error}"));
        }
    };
    literal(node.default.as_ref(), path.child("default"));
    literal(node.example.as_ref(), path.child("example"));
    let entries = node.r#enum.iter().filter(|raw| raw.get() != "null");
    entries.enumerate().for_each(|(i, raw)| literal(Some(raw), path.child("enum").index(i)));
    node.children().for_each(|(step, child)| literals(child, &step.below(path), found));
}

/// Structural errors of a schema (VAR-S-020 to VAR-S-027).
fn structure(
    node: &SchemaDefinition,
    path: &Path,
    role: NodePosition,
    allowance: &mut SchemaAllowance,
    found: &mut Findings,
) {
    if allowance.is_over() {
        return;
    }
    if node.is_null {
        found.run("DEC-52", |found| found.invalid(path.clone(), "", "is null; write a schema, or remove the property"));
        return;
    }
    match role {
        NodePosition::Core => core_keywords(node, path, found),
        NodePosition::Junctor => {
            found.run("VAR-S-024", |found| junctor_keywords(node, path, found));
        }
    }
    if !node.pattern.is_empty() {
        let path = path.child("pattern");
        found.run("VAR-S-023", |found| match allowance.preview(&node.pattern) {
            Ok(()) => {}
            Err(SchemaError::Exceeded { exceeded, .. }) => allowance.note_breach(path, exceeded),
            Err(error) => found.invalid(path, &*node.pattern, error.to_string()),
        });
    }
    let any_of_is_exempt = role == NodePosition::Core && spells_out_int_or_string(node);
    let first_is_exempt = role == NodePosition::Core && node.all_of.first().is_some_and(only_spells_out_int_or_string);
    for (step, child) in node.children() {
        let is_exempt = match step {
            ChildStep::AnyOf(_) => any_of_is_exempt,
            ChildStep::AllOf(0) => first_is_exempt,
            _ => false,
        };
        if !is_exempt {
            let role = if step.is_junctor() { NodePosition::Junctor } else { role };
            structure(child, &step.below(path), role, allowance, found);
        }
    }
}

/// Whether `anyOf` lists exactly integer and string, in this order (VAR-S-025).
fn spells_out_int_or_string(node: &SchemaDefinition) -> bool {
    let plain = |kind: &str| SchemaDefinition { r#type: kind.to_owned(), ..SchemaDefinition::default() };
    *node.any_of == [plain("integer"), plain("string")]
}

/// Whether a node has only such an `anyOf`.
fn only_spells_out_int_or_string(node: &SchemaDefinition) -> bool {
    spells_out_int_or_string(node)
        && *node == SchemaDefinition { any_of: node.any_of.clone(), ..SchemaDefinition::default() }
}

fn core_keywords(node: &SchemaDefinition, path: &Path, found: &mut Findings) {
    found.run("VAR-S-020", |found| {
        if node.r#type.is_empty() && !node.int_or_string && !node.preserve_unknown_fields {
            let detail = "say the type, or set x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields";
            found.required(path.child("type"), detail);
        }
    });
    found.run("VAR-S-021", |found| {
        if node.r#type == "array" && node.items.is_none() {
            found.required(path.child("items"), "an array needs a schema for its items");
        }
    });
    found.run("VAR-S-022", |found| {
        if node.int_or_string && node.preserve_unknown_fields {
            let detail = "cannot be combined with x-kubernetes-int-or-string";
            found.invalid(path.child("x-kubernetes-preserve-unknown-fields"), true, detail);
        }
    });
}

/// Keywords that are not allowed below a junctor (VAR-S-024).
fn junctor_keywords(node: &SchemaDefinition, path: &Path, found: &mut Findings) {
    for (is_set, keyword) in [
        (!node.r#type.is_empty(), "type"),
        (node.additional_properties.is_some(), "additionalProperties"),
        (node.default.as_ref().is_some_and(|raw| raw.get() != "null"), "default"),
        (node.preserve_unknown_fields, "x-kubernetes-preserve-unknown-fields"),
        (node.int_or_string, "x-kubernetes-int-or-string"),
        (!node.validations.is_empty(), "x-kubernetes-validations"),
    ] {
        if is_set {
            found.forbidden(path.child(keyword), "cannot be set inside allOf, anyOf, oneOf or not; set it beside them");
        }
    }
    if node.properties.as_ref().is_some_and(|properties| properties.contains_key("metadata")) {
        found.forbidden(
            path.child("properties").key("metadata"),
            "cannot be constrained inside allOf, anyOf, oneOf or not",
        );
    }
}

/// Defaults reached through `properties` and `items` are valid values (VAR-S-030 to VAR-S-032). `rules` belong to this
/// node. Returns the number of errors that say only that a rule cannot be compiled.
fn defaults(
    node: &SchemaDefinition,
    schema: &Schema,
    rules: Option<&Arc<CompiledRules>>,
    path: &Path,
    allowance: &mut SchemaAllowance,
    found: &mut Findings,
) -> usize {
    let mut uncompiled = 0;
    if allowance.is_over() {
        return uncompiled;
    }
    if let Some(default) = &schema.default {
        let path = path.child("default");
        found.run("VAR-S-030", |found| {
            let unknown = schema.unknown_fields(default);
            if !unknown.is_empty() {
                found.invalid(path.clone(), schema.shown(default), "has fields that the schema does not know");
            }
        });
        let mut violations = allowance.violations_at(&path, schema, default);
        violations.retain(|violation| violation.rule != "VAR-V-026");
        let is_valid = violations.is_empty();
        report("VAR-S-031", violations, &path, schema.shown(default), found);
        // An invalid rule is reported by itself, not as an error of the default.
        if is_valid && schema.has_rules && rules::are_written_well(node) {
            let evaluate =
                |budget: &mut EvaluationBudget, stop: &Stop| broken_by_default(schema, rules, default, budget, stop);
            let mut violations = allowance.evaluate(&path, evaluate);
            for violation in violations.iter_mut().filter(|violation| violation.detail.starts_with(MISSING_KEY)) {
                violation
                    .detail
                    .push_str("; a default is checked without the defaults of its properties: write them in it");
            }
            uncompiled += violations.iter().filter(|violation| violation.rule == "CEL-024").count();
            report_at_place("VAR-S-032", violations, &path, schema, default, found);
        }
    }
    let properties = path.child("properties");
    for (name, node) in node.each_property() {
        if let Some(child) = schema.properties.get(name) {
            uncompiled += defaults(node, child, child.rules.as_ref(), &properties.key(name), allowance, found);
        }
    }
    if let (Some(node), Some(child)) = (&node.items, &schema.items) {
        uncompiled += defaults(node, child, child.rules.as_ref(), &path.child("items"), allowance, found);
    }
    uncompiled
}

/// How the details of rules begin that read a field that is not there (CEL-025).
const MISSING_KEY: &str = "no such key: ";

/// Rules that a default violates: as an unchanged value and, if that is valid, as a new one (VAR-S-032). The more
/// expensive evaluation counts.
fn broken_by_default(
    schema: &Schema,
    rules: Option<&Arc<CompiledRules>>,
    default: &Value,
    budget: &mut EvaluationBudget,
    stop: &Stop,
) -> Vec<Violation> {
    let given = budget.left();
    let violations = schema.broken_rules(default, Some(default), rules, budget, stop);
    if !violations.is_empty() {
        return violations;
    }
    let left = budget.left();
    budget.set_left(given);
    let violations = schema.broken_rules(default, None, rules, budget, stop);
    budget.set_left(left.min(budget.left()));
    violations
}

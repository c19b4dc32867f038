//! Whether a definition can be used (VAR-S). CEL rules are not looked at.
//!
//! The checks run in stages; a stage with errors ends the check: literals, structure, defaults, everything else (VAR-S-007).
//! What passes them all compiles, so nothing is left to say afterwards (VAR-S-047).

use super::validate::Violation;
use super::{Definition, Schema};
use crate::field::{ErrorKind, Findings, Path, RuleId, Shown};
use crate::goregex::Regex;
use crate::json::{self, RawJson};

/// Checks a definition whose root stands at `path`, and compiles it if nothing is wrong.
pub fn check(definition: &Definition, path: &Path, found: &mut Findings) -> Option<Schema> {
    let before = found.error_count();
    found.run("VAR-S-010", |found| literals(definition, path, found));
    if found.error_count() > before {
        return None;
    }
    structure(definition, path, Role::Core, found);
    if found.error_count() > before {
        return None;
    }
    let schema = Schema::compile(definition).ok()?;
    defaults(&schema, path, found);
    if found.error_count() > before {
        return None;
    }
    everything_else(definition, &schema, path, found);
    (found.error_count() == before).then_some(schema)
}

/// How a node is reached: by `properties`, `additionalProperties` and `items` only, or below a junctor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Core,
    Junctor,
}

/// Defaults, examples and enum entries can be read (VAR-S-010).
fn literals(node: &Definition, path: &Path, found: &mut Findings) {
    let mut literal = |raw: Option<&RawJson>, path: Path| {
        if let Some(raw) = raw
            && let Err(error) = json::value(raw.get())
        {
            found.invalid(path, raw.get(), format!("cannot be read: {error}"));
        }
    };
    literal(node.default.as_ref(), path.child("default"));
    literal(node.example.as_ref(), path.child("example"));
    let entries = node.r#enum.iter().filter(|raw| raw.get() != "null");
    entries.enumerate().for_each(|(i, raw)| literal(Some(raw), path.child("enum").index(i)));
    let (core, junctors) = node.children(path);
    core.into_iter().chain(junctors).for_each(|(path, child)| literals(child, &path, found));
}

/// The shape of a schema (VAR-S-020 to VAR-S-027).
fn structure(node: &Definition, path: &Path, role: Role, found: &mut Findings) {
    match role {
        Role::Core => core_keywords(node, path, found),
        Role::Junctor => {
            found.run("VAR-S-024", |found| junctor_keywords(node, path, found));
        }
    }
    found.run("VAR-S-023", |found| {
        if let Err(error) = Regex::new(&node.pattern) {
            found.invalid(path.child("pattern"), &*node.pattern, error.to_string());
        }
    });
    let (core, junctors) = node.children(path);
    core.into_iter().for_each(|(path, child)| structure(child, &path, role, found));
    let any_of_is_exempt = role == Role::Core && spells_out_int_or_string(node);
    let first_is_exempt = role == Role::Core && node.all_of.first().is_some_and(only_spells_out_int_or_string);
    for (child_path, child) in junctors {
        if any_of_is_exempt && child_path.as_str().starts_with(path.child("anyOf").as_str()) {
            continue;
        }
        if first_is_exempt && child_path == path.child("allOf").index(0) {
            continue;
        }
        structure(child, &child_path, Role::Junctor, found);
    }
}

/// Whether `anyOf` says that a node is an integer or a string, in this order and nothing else (VAR-S-025).
fn spells_out_int_or_string(node: &Definition) -> bool {
    let plain = |kind: &str| Definition { r#type: kind.to_owned(), ..Definition::default() };
    *node.any_of == [plain("integer"), plain("string")]
}

/// Whether a node consists of such an `anyOf`.
fn only_spells_out_int_or_string(node: &Definition) -> bool {
    spells_out_int_or_string(node) && *node == Definition { any_of: node.any_of.clone(), ..Definition::default() }
}

fn core_keywords(node: &Definition, path: &Path, found: &mut Findings) {
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

/// What may not stand below a junctor (VAR-S-024).
fn junctor_keywords(node: &Definition, path: &Path, found: &mut Findings) {
    for (is_set, keyword) in [
        (!node.r#type.is_empty(), "type"),
        (node.additional_properties.is_some(), "additionalProperties"),
        (node.default.as_ref().is_some_and(|raw| raw.get() != "null"), "default"),
        (node.preserve_unknown_fields, "x-kubernetes-preserve-unknown-fields"),
        (node.int_or_string, "x-kubernetes-int-or-string"),
        (!node.validations.is_empty(), "x-kubernetes-validations"),
    ] {
        if is_set {
            found.forbidden(path.child(keyword), "cannot be set below allOf, anyOf, oneOf or not");
        }
    }
    if node.properties.as_ref().is_some_and(|properties| properties.contains_key("metadata")) {
        found.forbidden(
            path.child("properties").key("metadata"),
            "cannot be constrained below allOf, anyOf, oneOf or not",
        );
    }
}

/// Defaults reached through `properties` and `items` are good values themselves (VAR-S-030, VAR-S-031).
fn defaults(schema: &Schema, path: &Path, found: &mut Findings) {
    if let Some(default) = &schema.default {
        let path = path.child("default");
        found.run("VAR-S-030", |found| {
            let unknown = schema.unknown_fields(default);
            if !unknown.is_empty() {
                found.invalid(path.clone(), Shown::bounded(default), "has fields that the schema does not know");
            }
        });
        report("VAR-S-031", schema.violations(default), &path, default, found);
    }
    let properties = path.child("properties");
    schema.properties.iter().for_each(|(name, child)| defaults(child, &properties.key(name), found));
    if let Some(child) = &schema.items {
        defaults(child, &path.child("items"), found);
    }
}

/// Types, examples and enums (VAR-S-040 to VAR-S-044), on junctor nodes too.
fn everything_else(node: &Definition, schema: &Schema, path: &Path, found: &mut Findings) {
    let supported = super::node::Kind::NAMES.map(|(name, _)| name);
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
        return;
    }
    if let Some(example) = &schema.example {
        report("VAR-S-041", schema.violations(example), &path.child("example"), example, found);
    }
    for (i, entry) in schema.values.iter().enumerate() {
        report("VAR-S-042", schema.violations(entry), &path.child("enum").index(i), entry, found);
    }
    found.run("VAR-S-043", |found| {
        if node.additional_properties.is_some()
            && node.properties.as_ref().is_some_and(|properties| !properties.is_empty())
        {
            found.forbidden(path.clone(), "additionalProperties and properties exclude each other");
        }
    });
    let below = [
        schema.additional_properties.iter().map(|child| &**child).collect::<Vec<_>>(),
        schema.properties.values().collect(),
        schema.items.iter().map(|child| &**child).collect(),
        schema.not.iter().map(|child| &**child).collect(),
        schema.all_of.iter().collect(),
        schema.one_of.iter().collect(),
        schema.any_of.iter().collect(),
    ];
    let (core, junctors) = node.children(path);
    let nodes = core.into_iter().chain(junctors);
    for ((path, child), schema) in nodes.zip(below.into_iter().flatten()) {
        everything_else(child, schema, &path, found);
    }
}

/// Reports what is wrong with a literal of a schema.
fn report(rule: RuleId, violations: Vec<Violation>, path: &Path, value: &serde_json::Value, found: &mut Findings) {
    if violations.is_empty() {
        return;
    }
    let shown = Shown::bounded(value);
    found.run(rule, |found| {
        for violation in violations {
            let shown = shown.clone();
            found.run(violation.rule, |found| {
                found.error(violation.kind, path.place(&violation.place), shown, violation.detail);
            });
        }
    });
}

//! A list of variable values: defaults, then checks.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Variable, Variables};
use crate::field::{Findings, Path, shortened};
use crate::hub::VariableValue;
use crate::json;
use crate::schema::Schema;

/// Whether variables that a list lacks are added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The list of the whole Cluster: variables with a default are added, required ones must be there.
    Create,
    /// Overrides of a part: existing values are completed, nothing else (VAR-D-009).
    ExistingOnly,
}

/// What defaulting does to a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The value at this position becomes another.
    Replace { position: usize, value: Value },
    /// A variable is added at the end (VAR-D-003, VAR-D-005).
    Append { name: String, value: Value },
}

/// A value with its definition.
struct Entry<'a> {
    written: &'a VariableValue,
    schema: &'a Schema,
    value: Value,
}

/// Defaults and checks one list that stands at `path`, and says what changes. With any error the list stays as it is.
/// Transition rules compare with `old`, the values of this list as they are stored (CL-D-008); without any they do not run.
///
/// What is wrong for both is reported once (VAR-V-005). Admission and the computation of a rollout share this function
/// (BP-04 to BP-06).
pub fn settle(
    values: &[VariableValue],
    old: &[VariableValue],
    path: &Path,
    variables: &Variables,
    mode: Mode,
    found: &mut Findings,
) -> Vec<Change> {
    let before = found.error_count();
    if !names_are_unique(values, path, variables, found) || !definitions_are_settled(variables, path, found) {
        return Vec::new();
    }
    let (mut changes, mut entries) = (Vec::new(), Vec::new());
    for (position, written) in values.iter().enumerate() {
        let Some(variable) = defined(written, variables, path, found) else { continue };
        let (Some(schema), Some(mut value)) = (usable(variable, path, found), read(written, path, found)) else {
            continue;
        };
        let was_null = schema.replace_null(&mut value);
        if schema.fill(&mut value) || was_null {
            changes.push(Change::Replace { position, value: value.clone() });
        }
        entries.push(Entry { written, schema, value });
    }
    if mode == Mode::Create {
        changes.extend(missing_with_default(values, path, variables, found));
    }
    // VAR-D-004: with an error the list is as it was written, and is checked like that.
    if found.error_count() > before {
        changes.clear();
        for entry in &mut entries {
            entry.value = written_value(entry.written).unwrap_or_default();
        }
    }
    if mode == Mode::Create {
        required_are_set(values, &changes, path, variables, found);
    }
    for entry in &entries {
        check(&entry.written.name, &entry.value, old, entry.schema, path, found);
    }
    for change in &changes {
        if let Change::Append { name, value } = change
            && let Some(schema) = variables.get(name).and_then(|variable| variable.schema.as_ref().ok())
        {
            check(name, value, old, schema, path, found);
        }
    }
    if found.error_count() > before { Vec::new() } else { changes }
}

/// No name occurs twice (VAR-V-001, VAR-D-001).
fn names_are_unique(values: &[VariableValue], path: &Path, variables: &Variables, found: &mut Findings) -> bool {
    let mut seen = BTreeSet::new();
    let mut unique = true;
    for value in values {
        if !seen.insert(&*value.name) {
            found.run("VAR-V-001", |found| {
                let schema = variables.get(&value.name).and_then(|variable| variable.schema.as_ref().ok());
                let shown = schema.map_or_else(|| raw(value), |schema| shown(schema, || raw(value)));
                found.invalid(path.key(&value.name), shown, "another value of this list has the same name");
                unique = false;
            });
        }
    }
    unique
}

/// Every variable of the class has one meaning, used or not (VAR-V-002, VAR-D-002).
fn definitions_are_settled(variables: &Variables, path: &Path, found: &mut Findings) -> bool {
    let unsettled = variables.unsettled();
    if !unsettled.is_empty() {
        found.run("VAR-V-002", |found| {
            let detail =
                format!("the ClusterClass has no definition, or conflicting ones, of {}", unsettled.join(", "));
            found.error(crate::field::ErrorKind::TypeInvalid, path.clone(), "", detail);
        });
    }
    unsettled.is_empty()
}

/// A value has a definition (VAR-V-004, VAR-D-004).
fn defined<'a>(
    value: &VariableValue,
    variables: &'a Variables,
    path: &Path,
    found: &mut Findings,
) -> Option<&'a Variable> {
    let variable = variables.get(&value.name);
    if variable.is_none() {
        found.run("VAR-V-004", |found| {
            let known: Vec<&str> = variables.names().collect();
            let detail = match known.as_slice() {
                [] => "the ClusterClass defines no variables".to_owned(),
                known => {
                    format!("the ClusterClass defines no such variable; it defines {}", shortened(&known.join(", ")))
                }
            };
            found.invalid(path.key(&value.name), raw(value), detail);
        });
    }
    variable
}

/// The schema of a variable can be used (VAR-V-010, VAR-D-008).
fn usable<'a>(variable: &'a Variable, path: &Path, found: &mut Findings) -> Option<&'a Schema> {
    match &variable.schema {
        Ok(schema) => Some(schema),
        Err(reason) => {
            found.run("VAR-V-010", |found| {
                found.internal(
                    path.key(&variable.name),
                    format!("the schema of the ClusterClass cannot be used: {reason}"),
                );
            });
            None
        }
    }
}

/// A value can be read (VAR-V-010, VAR-D-008); an absent one is null.
fn read(value: &VariableValue, path: &Path, found: &mut Findings) -> Option<Value> {
    match written_value(value) {
        Ok(read) => Some(read),
        Err(error) => {
            found.run("VAR-V-010", |found| {
                found.invalid(path.key(&value.name).child("value"), raw(value), format!("cannot be read: {error}"));
            });
            None
        }
    }
}

/// The value as it is judged; numbers without a fraction are integers (VAR-D-007).
fn written_value(value: &VariableValue) -> Result<Value, serde_json::Error> {
    let mut read = value.value.as_ref().map_or(Ok(Value::Null), |raw| json::value(raw.get()))?;
    json::with_integers(&mut read);
    Ok(read)
}

/// Variables with a root default that the list lacks, in the order of the status (VAR-D-005).
fn missing_with_default(
    values: &[VariableValue],
    path: &Path,
    variables: &Variables,
    found: &mut Findings,
) -> Vec<Change> {
    let given: BTreeSet<&str> = values.iter().map(|value| &*value.name).collect();
    let missing = variables.iter().filter(|variable| variable.has_default && !given.contains(&*variable.name));
    let added = missing.filter_map(|variable| {
        let schema = usable(variable, path, found)?;
        let mut value = schema.default_value()?.clone();
        schema.fill(&mut value);
        Some(Change::Append { name: variable.name.clone(), value })
    });
    added.collect()
}

/// Required variables are there (VAR-V-003); what their value is does not matter here, and a default will do (VAR-S-033).
fn required_are_set(
    values: &[VariableValue],
    changes: &[Change],
    path: &Path,
    variables: &Variables,
    found: &mut Findings,
) {
    let is_set = |name: &str| {
        values.iter().any(|value| value.name == name)
            || changes.iter().any(|change| matches!(change, Change::Append { name: added, .. } if added == name))
    };
    for variable in variables.iter().filter(|variable| variable.required && !is_set(&variable.name)) {
        found.run("VAR-V-003", |found| {
            // A default would have filled it in, had the list no other errors (VAR-D-004).
            let default = if variable.has_default { "; its default waits for a list without errors" } else { "" };
            let detail = format!("set the variable {:?}, which the ClusterClass requires{default}", variable.name);
            found.required(path.clone(), detail);
        });
    }
}

/// A value fits its schema, and has no field that the schema does not know, none of which is pruned (VAR-V-020 to VAR-V-031).
/// Only then are its CEL rules run (CEL-020 to CEL-026).
fn check(name: &str, value: &Value, old: &[VariableValue], schema: &Schema, path: &Path, found: &mut Findings) {
    let mut violations = schema.violations(value);
    let unknown = if violations.is_empty() { schema.unknown_fields(value) } else { Vec::new() };
    if violations.is_empty() && unknown.is_empty() && schema.has_rules() {
        let old = old.iter().find(|old| old.name == name).and_then(|old| written_value(old).ok());
        violations = schema.rule_violations(value, old.as_ref());
    }
    if violations.is_empty() && unknown.is_empty() {
        return;
    }
    let path = path.key(name);
    // Made once: there may be many errors about one large value.
    let shown = shown(schema, || shortened(&value.to_string()).into_owned());
    for violation in violations {
        let path = path.child("value").place(&violation.place);
        found.run(violation.rule, |found| found.error(violation.kind, path, &*shown, violation.detail));
    }
    if !unknown.is_empty() {
        found.run("VAR-V-030", |found| {
            found.invalid(path, shown, format!("unknown fields: {}", shortened(&unknown.join(", "))));
        });
    }
}

/// A value as errors show it, unless it is or holds a secret (DEC-34).
fn shown(schema: &Schema, value: impl FnOnce() -> String) -> String {
    if schema.has_secrets() { "(sensitive)".to_owned() } else { value() }
}

fn raw(value: &VariableValue) -> String {
    value.value.as_ref().map_or_else(|| "null".to_owned(), |raw| raw.get().to_owned())
}

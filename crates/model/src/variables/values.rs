//! Defaulting and validation of lists of variable values.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use serde_json::Value;

use super::definitions::DefaultValue;
use super::{CompiledVariable, CompiledVariables};
use crate::hub::VariableValue;
use golang::json;
use schema::budget::{Exceeded, Stop};
use schema::field::{Findings, Path, closest, enumerated, shortened};
use schema::openapi::{CelCost, DefaultsBudget, FastVerdict, SENSITIVE, Schema, ValidationEffort, Violation};

/// Whether missing variables are added to a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleMode {
    /// The list of the Cluster: variables with a default are added, required ones must be present.
    Create,
    /// Overrides of a part: only existing values are completed (VAR-D-009).
    ExistingOnly,
}

/// One list of values of a Cluster.
#[derive(Clone, Copy, Debug)]
pub struct ValueList<'a> {
    pub values: &'a [VariableValue],
    /// The stored values of this list, which transition rules compare with (CL-D-008). They do not run for values that
    /// are missing here.
    pub old: &'a [VariableValue],
    /// The path of the list in errors.
    pub path: &'a Path,
}

/// Budget for all values of one object (DEC-44).
#[derive(Debug)]
pub struct ValueBudget {
    /// CEL cost of all values; `None` limits each value only (CEL-026).
    cost: Option<CelCost>,
    growth: DefaultsBudget,
    /// Validation effort of all values.
    effort: ValidationEffort,
    stop: Stop,
    exceeded: Option<Exceeded>,
}

impl ValueBudget {
    /// The full budget of one object.
    pub fn new(stop: &Stop) -> Self {
        let cost =
            CelCost::for_object("CEL cost units for all variable values, which is Kubernetes' budget for an object");
        let (growth, effort) = (DefaultsBudget::for_values(), ValidationEffort::for_object(stop));
        ValueBudget { cost: Some(cost), growth, effort, stop: stop.clone(), exceeded: None }
    }

    /// A budget per value without a limit on the sum, for updates of objects that exceeded it before.
    pub fn per_value(stop: &Stop) -> Self {
        ValueBudget { cost: None, effort: ValidationEffort::unlimited(stop), ..ValueBudget::new(stop) }
    }

    /// Whether checks and CEL rules of all values exceeded the budget.
    pub fn is_over(&self) -> bool {
        self.exceeded.is_some()
    }

    /// The part of the budget that was exceeded first.
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded
    }

    /// Schema violations of a value, without CEL rules.
    fn violations(&mut self, schema: &Schema, value: &Value) -> Vec<Violation> {
        let violations = schema.violations_within(value, &self.effort);
        self.exceeded = self.exceeded.or(self.effort.exceeded());
        violations
    }

    /// CEL rules that a value violates.
    fn rule_violations(&mut self, schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<Violation> {
        let Some(cost) = &mut self.cost else { return schema.rule_violations_until(value, old, &self.stop) };
        let (violations, outcome) = schema.rule_violations_at_cost(value, old, cost, &self.stop);
        self.exceeded = outcome.err();
        violations
    }
}

/// A change that defaulting makes to a list.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueChange {
    /// The value at this position is replaced.
    Replace { position: usize, value: Value, is_secret: bool },
    /// A variable is appended (VAR-D-003, VAR-D-005).
    Append { name: String, value: Value, is_secret: bool },
}

impl ValueChange {
    /// The new value.
    #[must_use]
    pub fn into_value(self) -> Value {
        match self {
            ValueChange::Replace { value, .. } | ValueChange::Append { value, .. } => value,
        }
    }

    /// The change for display, without passwords (DEC-34).
    #[must_use]
    pub fn shown(&self) -> Option<ValueChange> {
        let (is_secret, value) = (false, Value::from(SENSITIVE));
        match self {
            ValueChange::Replace { position, is_secret: true, .. } => {
                Some(ValueChange::Replace { position: *position, value, is_secret })
            }
            ValueChange::Append { name, is_secret: true, .. } => {
                Some(ValueChange::Append { name: name.clone(), value, is_secret })
            }
            ValueChange::Replace { .. } | ValueChange::Append { .. } => None,
        }
    }
}

/// A value that needs the full check, with its definition.
struct ListedValue<'a> {
    position: usize,
    written: &'a VariableValue,
    schema: &'a Schema,
    value: Value,
    /// Whether the fast check accepted the value with defaults, so that only rules remain.
    is_good: bool,
    /// Whether defaults changed the value.
    is_completed: bool,
}

/// A value with defaults filled in, to be validated.
struct CompletedValue<'a> {
    name: &'a str,
    value: &'a Value,
    schema: &'a Schema,
    /// Whether the fast check accepted the value, so that only rules remain.
    is_good: bool,
}

/// An added variable, with its definition.
struct Added<'a> {
    variable: &'a CompiledVariable,
    schema: &'a Schema,
    addition: &'a DefaultValue,
}

/// Defaults and validates a list, and returns its changes. With any error the list stays unchanged.
///
/// Errors of both steps are reported once (VAR-V-005). Admission and rollouts share this function (BP-04 to BP-06).
pub fn settle(
    list: ValueList<'_>,
    variables: &CompiledVariables,
    mode: SettleMode,
    budget: &mut ValueBudget,
    found: &mut Findings,
) -> Vec<ValueChange> {
    let ValueList { values, old, path } = list;
    let before = found.error_count();
    let Some(given) = unique_names(values, path, variables, found) else { return Vec::new() };
    if !definitions_are_settled(variables, path, found) {
        return Vec::new();
    }
    let mut entries = entries(values, path, variables, budget, found);
    let mut added = match mode {
        SettleMode::Create => missing_with_default(&given, path, variables, budget, found),
        SettleMode::ExistingOnly => Vec::new(),
    };
    // VAR-D-004: with an error the original list is validated.
    if found.error_count() > before {
        added.clear();
        for entry in &mut entries {
            entry.value = written_value(entry.written).unwrap_or_default();
            entry.is_good &= !entry.is_completed;
        }
    }
    if mode == SettleMode::Create {
        required_are_set(&given, &added, path, variables, found);
    }
    for ListedValue { written, schema, value, is_good, .. } in &entries {
        let completed = CompletedValue { name: &written.name, value, schema, is_good: *is_good };
        check(&completed, old, path, budget, found);
    }
    for Added { variable, schema, addition } in &added {
        let is_good = addition.is_good;
        let completed = CompletedValue { name: &variable.name, value: &addition.value, schema, is_good };
        check(&completed, old, path, budget, found);
    }
    if found.error_count() > before {
        return Vec::new();
    }
    let completed = entries.into_iter().filter(|entry| entry.is_completed);
    let replaced = completed.map(|entry| ValueChange::Replace {
        position: entry.position,
        value: entry.value,
        is_secret: entry.schema.has_secrets(),
    });
    let appended = added.into_iter().map(|added| ValueChange::Append {
        name: added.variable.name.clone(),
        value: added.addition.value.clone(),
        is_secret: added.schema.has_secrets(),
    });
    replaced.chain(appended).collect()
}

/// The values that the fast check rejects, and those with rules, with defaults filled in.
fn entries<'a>(
    values: &'a [VariableValue],
    path: &Path,
    variables: &'a CompiledVariables,
    budget: &mut ValueBudget,
    found: &mut Findings,
) -> Vec<ListedValue<'a>> {
    let mut entries = Vec::new();
    // Built once: many values may lack a definition.
    let known = LazyCell::new(|| enumerated(variables.names()));
    for (position, written) in values.iter().enumerate() {
        // The deadline is checked per value.
        if budget.stop.has_stopped() {
            break;
        }
        let Some(variable) = defined(written, variables, &known, path, found) else { continue };
        let sight = fast_check(written, variable, &budget.effort);
        if sight == FastVerdict::Whole && !variable.has_rules() {
            continue;
        }
        let Some(schema) = usable(variable, path, found) else { continue };
        let Some(mut value) = read(written, schema, path, found) else { continue };
        let completed = if sight == FastVerdict::Whole {
            Ok(false)
        } else {
            schema.complete_within(&mut value, &mut budget.growth)
        };
        let is_completed = match completed {
            Ok(is_completed) => {
                // Defaults are in it as the class writes them.
                if is_completed {
                    json::with_integers(&mut value);
                }
                is_completed
            }
            Err(exceeded) => {
                defaults_are_too_large(&written.name, exceeded, path, found);
                continue;
            }
        };
        let is_good = sight != FastVerdict::Unclear;
        entries.push(ListedValue { position, written, schema, value, is_good, is_completed });
    }
    entries
}

/// The names of a list; `None` if one is repeated (VAR-V-001, VAR-D-001).
fn unique_names<'a>(
    values: &'a [VariableValue],
    path: &Path,
    variables: &CompiledVariables,
    found: &mut Findings,
) -> Option<BTreeSet<&'a str>> {
    let mut names = BTreeSet::new();
    let mut are_unique = true;
    for value in values {
        if !names.insert(&*value.name) {
            found.run("VAR-V-001", |found| {
                // Without a definition it may be anything, including a password under a misspelled name.
                let schema = variables.get(&value.name).and_then(|variable| variable.schema.as_ref().ok());
                let shown = schema.map_or_else(|| "(not shown)".to_owned(), |schema| shown(schema, || raw(value)));
                found.invalid(path.key(&value.name), shown, "another value of this list has the same name");
                are_unique = false;
            });
        }
    }
    are_unique.then_some(names)
}

/// Every variable of the class has a unique definition, whether or not it is used (VAR-V-002, VAR-D-002).
fn definitions_are_settled(variables: &CompiledVariables, path: &Path, found: &mut Findings) -> bool {
    let unsettled = variables.unsettled();
    if !unsettled.is_empty() {
        found.run("VAR-V-002", |found| {
            let unsettled = enumerated(unsettled);
            let detail = format!("the ClusterClass has no definition, or conflicting ones, of {unsettled}");
            found.error(schema::field::ErrorKind::TypeInvalid, path.clone(), "", detail);
        });
    }
    unsettled.is_empty()
}

/// A value has a definition (VAR-V-004, VAR-D-004), unless the known definitions are incomplete.
fn defined<'a>(
    value: &VariableValue,
    variables: &'a CompiledVariables,
    known: &LazyCell<String, impl FnOnce() -> String>,
    path: &Path,
    found: &mut Findings,
) -> Option<&'a CompiledVariable> {
    let variable = variables.get(&value.name);
    if variable.is_none() && !variables.are_some_of_many() {
        found.run("VAR-V-004", |found| {
            // The value is not shown: it may be a password under a misspelled name (DEC-34).
            let meant = || found.is_worth_hints().then(|| closest(&value.name, variables.names())).flatten();
            let detail = match &***known {
                "" => "the ClusterClass defines no variables".to_owned(),
                known => match meant() {
                    None => format!("the ClusterClass defines no such variable; it defines {known}"),
                    Some(meant) => format!("the ClusterClass defines no such variable; the closest one is {meant:?}"),
                },
            };
            found.invalid(path.key(&value.name), &*value.name, detail);
        });
    }
    variable
}

/// The fast check of a value, without rules.
fn fast_check(value: &VariableValue, variable: &CompiledVariable, effort: &ValidationEffort) -> FastVerdict {
    let (Ok(schema), Some(raw)) = (&variable.schema, &value.value) else { return FastVerdict::Unclear };
    schema.fast_check(raw.get(), effort)
}

/// The schema of a variable is usable (VAR-V-010, VAR-D-008).
fn usable<'a>(variable: &'a CompiledVariable, path: &Path, found: &mut Findings) -> Option<&'a Schema> {
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

/// Parses a value (VAR-V-010, VAR-D-008); an absent one is null.
fn read(value: &VariableValue, schema: &Schema, path: &Path, found: &mut Findings) -> Option<Value> {
    match written_value(value) {
        Ok(read) => Some(read),
        Err(error) => {
            found.run("VAR-V-010", |found| {
                let shown = shown(schema, || raw(value));
                found.invalid(path.key(&value.name).child("value"), shown, format!("cannot be read: {error}"));
            });
            None
        }
    }
}

/// The value to be validated, with numbers as Go reads them (VAR-D-007).
fn written_value(value: &VariableValue) -> Result<Value, serde_json::Error> {
    let mut read = value.value.as_ref().map_or(Ok(Value::Null), |raw| json::value(raw.get()))?;
    json::with_go_numbers(&mut read);
    Ok(read)
}

/// Missing variables with a root default, in the order of the status (VAR-D-005).
fn missing_with_default<'a>(
    given: &BTreeSet<&str>,
    path: &Path,
    variables: &'a CompiledVariables,
    budget: &mut ValueBudget,
    found: &mut Findings,
) -> Vec<Added<'a>> {
    let missing = variables.iter().filter(|variable| variable.has_default && !given.contains(&*variable.name));
    let added = missing.filter_map(|variable| {
        let schema = usable(variable, path, found)?;
        let addition = variable.addition.as_ref()?;
        if let Err(exceeded) = budget.growth.take_extent(addition.extent) {
            defaults_are_too_large(&variable.name, exceeded, path, found);
            return None;
        }
        Some(Added { variable, schema, addition })
    });
    added.collect()
}

/// Defaults do not exceed the size limit of an object (DEC-44).
fn defaults_are_too_large(name: &str, exceeded: Exceeded, path: &Path, found: &mut Findings) {
    found.run("DEC-44", |found| {
        let detail = format!("with its defaults it {exceeded}; make lists in the value shorter");
        found.invalid(path.key(name).child("value"), "", detail);
    });
}

/// Required variables are set (VAR-V-003), with any value, or have a default (VAR-S-033).
fn required_are_set(
    given: &BTreeSet<&str>,
    added: &[Added<'_>],
    path: &Path,
    variables: &CompiledVariables,
    found: &mut Findings,
) {
    let added: BTreeSet<&str> = added.iter().map(|added| &*added.variable.name).collect();
    let is_set = |name: &str| given.contains(name) || added.contains(name);
    for variable in variables.iter().filter(|variable| variable.required && !is_set(&variable.name)) {
        found.run("VAR-V-003", |found| {
            // A default would be filled in if the list had no other errors (VAR-D-004).
            let default = if variable.has_default { "; its default waits for a list without errors" } else { "" };
            let detail = format!("set the variable {:?}, which the ClusterClass requires{default}", variable.name);
            found.required(path.clone(), detail);
        });
    }
}

/// A value satisfies its schema and has no unknown fields, which are not pruned (VAR-V-020 to VAR-V-031). Only then are
/// its CEL rules evaluated (CEL-020 to CEL-026). For a value that the fast check accepted, only rules are evaluated.
fn check(
    completed: &CompletedValue<'_>,
    old: &[VariableValue],
    path: &Path,
    budget: &mut ValueBudget,
    found: &mut Findings,
) {
    let &CompletedValue { name, value, schema, is_good } = completed;
    let mut violations = if is_good || budget.is_over() { Vec::new() } else { budget.violations(schema, value) };
    let unknown = if violations.is_empty() && !is_good { schema.unknown_fields(value) } else { Vec::new() };
    if violations.is_empty() && unknown.is_empty() && schema.has_rules() && !budget.is_over() {
        let old = old.iter().find(|old| old.name == name).and_then(|old| written_value(old).ok());
        violations = budget.rule_violations(schema, value, old.as_ref());
        if let Some(exceeded) = budget.exceeded {
            found.run("DEC-44", |found| {
                let detail = format!("{exceeded}; make lists, maps and texts in the values smaller");
                found.invalid(path.key(name).child("value"), "", detail);
            });
        }
    }
    if violations.is_empty() && unknown.is_empty() {
        return;
    }
    let path = path.key(name);
    // Rendered once: one large value may have many errors.
    let shown = shown(schema, || shortened(&value.to_string()).into_owned());
    for violation in violations {
        let path = path.child("value").place(&violation.place);
        found.run(violation.rule, |found| found.error(violation.kind, path, &*shown, violation.detail));
    }
    if !unknown.is_empty() {
        found.run("VAR-V-030", |found| {
            let meant = if found.is_worth_hints() { schema.meant_by(value, &unknown) } else { Vec::new() };
            let hint = if meant.is_empty() { String::new() } else { format!("{CLOSEST}{}", enumerated(meant)) };
            found.invalid(path, shown, format!("unknown fields: {}{hint}", enumerated(unknown)));
        });
    }
}

/// Prefix of a hint in the detail of an error.
const CLOSEST: &str = "; the closest that are known: ";

/// The detail of an error without its hint, which may vary for the same error.
pub fn without_hint(detail: &str) -> &str {
    detail.split_once(CLOSEST).map_or(detail, |(detail, _)| detail)
}

/// A value in an error, unless it is or contains a secret (DEC-34).
fn shown(schema: &Schema, value: impl FnOnce() -> String) -> String {
    if schema.has_secrets() { SENSITIVE.to_owned() } else { value() }
}

fn raw(value: &VariableValue) -> String {
    value.value.as_ref().map_or_else(|| "null".to_owned(), |raw| raw.get().to_owned())
}

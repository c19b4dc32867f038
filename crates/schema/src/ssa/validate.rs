//! Type checks of values against a schema.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::schema::{ListMerge, ListType, MapType, MergeSchema, MergeType, ScalarType, ValueShape};
use super::{ElementPath, ListKey, PathElement};

/// Type errors of a value, in the words of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misshapen(Vec<(ElementPath, String)>);

impl fmt::Display for Misshapen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self
            .0
            .iter()
            .map(|(path, what)| match path.0.as_slice() {
                [] => what.clone(),
                _ => format!("{path}: {what}"),
            })
            .collect();
        match lines.as_slice() {
            [only] => f.write_str(only),
            lines => write!(f, "errors:\n  {}", lines.join("\n  ")),
        }
    }
}

/// Whether entries of a keyed list or a set may repeat; in stored objects they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repetitions {
    Allowed,
    Refused,
}

/// Checks a value against its type, so that later steps can rely on it.
pub(super) fn validate(value: &Value, of: &MergeType, repetitions: Repetitions) -> Result<(), Misshapen> {
    let mut check = TypeCheck { path: Vec::new(), repetitions, errors: Vec::new() };
    check.value(value, of);
    match check.errors.as_slice() {
        [] => Ok(()),
        _ => Err(Misshapen(check.errors)),
    }
}

impl MergeSchema {
    /// Whether an object matches this type: every entry of a keyed list has its keys, and keys are unique.
    pub fn fits(&self, object: &Value) -> bool {
        validate(object, &self.0, Repetitions::Refused).is_ok()
    }
}

struct TypeCheck {
    path: Vec<PathElement>,
    repetitions: Repetitions,
    errors: Vec<(ElementPath, String)>,
}

impl TypeCheck {
    fn value(&mut self, value: &Value, of: &MergeType) {
        // Any value fits.
        if matches!(of, MergeType::Deduced | MergeType::Atomic) {
            return;
        }
        match (of.shape(Some(value)), value) {
            (_, Value::Null) => {}
            (ValueShape::Map(of), Value::Object(members)) => self.map(members, of),
            (ValueShape::List(of), Value::Array(items)) => self.list(items, of),
            (ValueShape::Scalar(of), value) => self.scalar(value, of),
            (ValueShape::Map(_), value) => self.error(format!("expected map, got &{{{}}}", go_value(value))),
            (ValueShape::List(_), value) => self.error(format!("expected list, got &{{{}}}", go_value(value))),
        }
    }

    fn scalar(&mut self, value: &Value, of: ScalarType) {
        let (expected, found) = match (of, value) {
            (ScalarType::Any, Value::Bool(_) | Value::Number(_) | Value::String(_))
            | (ScalarType::Text, Value::String(_))
            | (ScalarType::Number, Value::Number(_))
            | (ScalarType::Boolean, Value::Bool(_)) => return,
            (ScalarType::Number, _) => ("numeric (int or float)", go_type(value).to_owned()),
            (ScalarType::Any, _) => ("any scalar", format!("&{{{}}}", go_value(value))),
            (ScalarType::Text, _) => ("string", format!("&value.valueUnstructured{{Value:{}}}", go_syntax(value))),
            (ScalarType::Boolean, _) => ("boolean", format!("&{{{}}}", go_value(value))),
        };
        self.error(format!("expected {expected}, got {found}"));
    }

    fn map(&mut self, members: &Map<String, Value>, of: &MapType) {
        for (name, value) in members {
            self.path.push(PathElement::field(name));
            match of.field(name) {
                Some(of) => self.value(value, of),
                None => self.error("field not declared in schema".to_owned()),
            }
            self.path.pop();
        }
    }

    fn list(&mut self, items: &[Value], of: &ListType) {
        let mut seen = BTreeSet::new();
        for (position, item) in items.iter().enumerate() {
            let step = match of.merge {
                ListMerge::Atomic => PathElement::Index(i64::try_from(position).unwrap_or(i64::MAX)),
                _ => match entry(item, of) {
                    Ok(step) => step,
                    Err(what) => {
                        self.error(format!("element {position}: {what}"));
                        continue;
                    }
                },
            };
            if self.repetitions == Repetitions::Refused && !seen.insert(step.clone()) {
                self.error(format!("duplicate entries for key {step}"));
            }
            self.path.push(step);
            self.value(item, &of.items);
            self.path.pop();
        }
    }

    fn error(&mut self, what: String) {
        self.errors.push((ElementPath(self.path.clone()), what));
    }
}

/// An entry that its list cannot have, in the words of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ListEntryError {
    #[error("associative list without keys has an element that's a map type")]
    Map,
    #[error("not supported: associative list with lists as elements")]
    List,
    #[error("associative list without keys has an element that's an explicit null")]
    Null,
    #[error("associative list with keys may not have a null element")]
    NullWithKeys,
    #[error("associative list with keys may not have non-map elements")]
    NoMap,
    #[error("associative list with keys has an element that omits key field {0:?} (and doesn't have default value)")]
    NoKey(String),
}

/// The step to an entry of a list that is not atomic.
pub(super) fn entry(item: &Value, of: &ListType) -> Result<PathElement, ListEntryError> {
    let ListMerge::Keyed(keys) = &of.merge else {
        return match item {
            Value::Object(_) => Err(ListEntryError::Map),
            Value::Array(_) => Err(ListEntryError::List),
            Value::Null => Err(ListEntryError::Null),
            _ => Ok(PathElement::Value(ListKey(item.clone()))),
        };
    };
    let members = match item {
        Value::Object(members) => members,
        Value::Null => return Err(ListEntryError::NullWithKeys),
        _ => return Err(ListEntryError::NoMap),
    };
    let mut found = Vec::new();
    for (name, default) in keys {
        let Some(value) = members.get(name).or(default.as_ref()) else {
            return Err(ListEntryError::NoKey(name.clone()));
        };
        found.push((name.clone(), value.clone()));
    }
    Ok(PathElement::keys(found))
}

/// The steps to all entries of a list; `None` if the list is treated as a whole.
pub(super) fn entries(items: &[Value], of: &ListType) -> Option<Vec<PathElement>> {
    match of.merge {
        ListMerge::Atomic => None,
        _ => items.iter().map(|item| entry(item, of).ok()).collect(),
    }
}

/// A value in messages of a server.
fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("{name}:{}", go_value(value))).collect();
            format!("map[{}]", members.join(" "))
        }
        other => other.to_string(),
    }
}

/// A value in Go syntax.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            format!("{}{{{}}}", go_type(value), items.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("{name:?}:{}", go_syntax(value))).collect();
            format!("{}{{{}}}", go_type(value), members.join(", "))
        }
        other => go_value(other),
    }
}

/// The type name of a value in messages of a server.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

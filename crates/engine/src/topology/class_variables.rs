//! The variables of a class: those of its spec, and those that the extensions of its patches define (CCR-06 to CCR-09).
//!
//! Works on raw JSON, so that definitions stay unchanged.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::conditions::StatusLayout;
use model::variables::INLINE;

/// Members of a schema for which false and absent are equal (RH-17.3).
const FALSE_IS_ABSENT: [&str; 5] = [
    "uniqueItems",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
];

/// The variables of the extension of a patch, or the reason for which they are unknown (RH-16.1).
#[derive(Clone, Debug, PartialEq)]
pub struct Discovered {
    pub patch: String,
    pub variables: Result<Arc<[Value]>, VariableDiscoveryError>,
}

/// A failed discovery of the variables of an extension.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariableDiscoveryError {
    /// The extension defines variables that a class cannot use.
    #[error("{0}")]
    InvalidVariables(String),
    /// The call has no usable answer.
    #[error("{0}")]
    NoAnswer(String),
}

/// A problem of the variables of a class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariablesProblem {
    /// Some extensions could not be called.
    #[error("VariableDiscovery failed: {0}")]
    Undiscovered(String),
    /// Definitions of these names differ.
    #[error("VariableDiscovery failed: the following variables have conflicting definitions: {}", names.join(","))]
    Conflicting { names: Vec<String> },
    /// The class exceeds the budget of a class.
    #[error("ClusterClass cannot be read: {0}")]
    Unreadable(String),
}

/// The result of merging the variables of a class.
#[derive(Clone, Debug, PartialEq)]
pub enum ClassVariables {
    /// All variables are known (CCR-06).
    Settled(Vec<Value>),
    /// Some extensions could not be called: the variables of the status stay unchanged (CCR-09, RH-16.6).
    Undiscovered(String),
    /// Definitions of a name differ. The variables are written; Clusters wait until the definitions agree (RH-17.5).
    Conflicting { variables: Vec<Value>, names: Vec<String> },
    /// The class exceeds the budget of a class, so reviews cannot use it: the variables of the status stay unchanged
    /// (DEC-44).
    Unreadable(String),
}

impl ClassVariables {
    /// The variables of a class. `discovered` contains the answers of the extensions of its patches, in the order of
    /// the patches.
    pub fn from_class(class: &Value, discovered: &[Discovered]) -> Self {
        let failed = discovered.iter().filter_map(|Discovered { patch, variables }| {
            Some(format!("patch {patch:?}: {}", variables.as_ref().err()?))
        });
        let failed: Vec<String> = failed.collect();
        if !failed.is_empty() {
            return ClassVariables::Undiscovered(failed.join("; "));
        }
        let mut merged = MergedVariables::inline(class, StatusLayout::V1BETA2);
        for Discovered { patch, variables } in discovered {
            variables.iter().flat_map(|variables| &**variables).for_each(|variable| merged.add(variable, patch));
        }
        let names = merged.conflicting();
        let variables = merged.into_list();
        if names.is_empty() {
            ClassVariables::Settled(variables)
        } else {
            ClassVariables::Conflicting { variables, names }
        }
    }

    /// The new list of the status, if it changes.
    pub fn list(&self) -> Option<&[Value]> {
        match self {
            ClassVariables::Settled(variables) | ClassVariables::Conflicting { variables, .. } => Some(variables),
            ClassVariables::Undiscovered(_) | ClassVariables::Unreadable(_) => None,
        }
    }

    /// The problem of the variables, if they have one.
    pub fn problem(&self) -> Option<VariablesProblem> {
        match self {
            ClassVariables::Settled(_) => None,
            ClassVariables::Undiscovered(error) => Some(VariablesProblem::Undiscovered(error.clone())),
            ClassVariables::Conflicting { names, .. } => Some(VariablesProblem::Conflicting { names: names.clone() }),
            ClassVariables::Unreadable(error) => Some(VariablesProblem::Unreadable(error.clone())),
        }
    }
}

/// The variables that the class itself defines (CCR-06).
pub(super) fn inline_variables(class: &Value, layout: StatusLayout) -> Vec<Value> {
    MergedVariables::inline(class, layout).into_list()
}

/// Variables by name, each with its definitions in the order of their addition.
struct MergedVariables<'a> {
    layout: StatusLayout,
    variables: BTreeMap<&'a str, MergedVariable>,
}

#[derive(Default)]
struct MergedVariable {
    definitions: Vec<Value>,
    is_conflicting: bool,
}

impl<'a> MergedVariables<'a> {
    /// The definitions of the spec; the first definition of a repeated name is used.
    fn inline(class: &'a Value, layout: StatusLayout) -> Self {
        let mut merged = MergedVariables { layout, variables: BTreeMap::new() };
        for variable in class.pointer("/spec/variables").and_then(Value::as_array).into_iter().flatten() {
            if variable.is_object() && !merged.variables.contains_key(name(variable)) {
                merged.add(variable, INLINE);
            }
        }
        merged
    }

    /// Appends a definition, and records a conflict with the first one of that name (RH-17.2, RH-17.3, CCR-08).
    fn add(&mut self, variable: &'a Value, from: &str) {
        let added = definition(variable, from, self.layout);
        let known = self.variables.entry(name(variable)).or_default();
        known.is_conflicting |= known.definitions.first().is_some_and(|first| differ(first, &added, self.layout));
        known.definitions.push(added);
    }

    fn conflicting(&self) -> Vec<String> {
        let conflicting = self.variables.iter().filter(|(_, variable)| variable.is_conflicting);
        conflicting.map(|(name, _)| (*name).to_owned()).collect()
    }

    /// RH-17.1, RH-17.4
    fn into_list(self) -> Vec<Value> {
        let list = self.variables.into_iter().map(|(name, MergedVariable { definitions, is_conflicting })| {
            // Moves values, which `json!` would copy: schemas can be large.
            let members = [
                ("name", json!(name)),
                ("definitionsConflict", json!(is_conflicting)),
                ("definitions", Value::Array(definitions)),
            ];
            Value::Object(members.map(|(name, member)| (name.to_owned(), member)).into_iter().collect())
        });
        list.collect()
    }
}

fn name(variable: &Value) -> &str {
    variable.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn definition(variable: &Value, from: &str, layout: StatusLayout) -> Value {
    let mut definition = Map::from_iter([("from".to_owned(), json!(from)), ("required".to_owned(), json!(false))]);
    let copied = ["required", "schema", layout.metadata];
    definition.extend(copied.iter().filter_map(|name| {
        let written = variable.get(*name).filter(|written| !written.is_null())?;
        Some(((*name).to_owned(), written.clone()))
    }));
    Value::Object(definition)
}

/// Whether two definitions of a variable conflict (RH-17.3).
fn differ(first: &Value, other: &Value, layout: StatusLayout) -> bool {
    let metadata = |definition: &Value| {
        let texts = |name: &str| {
            let texts = definition.get(layout.metadata).and_then(|metadata| metadata.get(name));
            texts.and_then(Value::as_object).cloned().unwrap_or_default()
        };
        [texts("labels"), texts("annotations")]
    };
    let schema =
        |definition: &Value| without_false(definition.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null));
    first.get("required") != other.get("required")
        || metadata(first) != metadata(other)
        || schema(first) != schema(other)
}

/// A schema without null members and without false members that equal absent ones, at every level. Values such as
/// defaults stay unchanged.
fn without_false(schema: &Value) -> Value {
    let Some(members) = schema.as_object() else { return schema.clone() };
    let each = |values: &Value| match values {
        Value::Array(all) => all.iter().map(without_false).collect(),
        other => other.clone(),
    };
    let members = members.iter().filter(|(name, value)| {
        !(value.is_null() || **value == Value::Bool(false) && FALSE_IS_ABSENT.contains(&&***name))
    });
    let kept = members.map(|(name, value)| {
        let value = match &**name {
            "properties" => match value.as_object() {
                Some(all) => Value::Object(all.iter().map(|(name, one)| (name.clone(), without_false(one))).collect()),
                None => value.clone(),
            },
            "items" | "additionalProperties" | "not" => without_false(value),
            "allOf" | "anyOf" | "oneOf" => each(value),
            _ => value.clone(),
        };
        (name.clone(), value)
    });
    Value::Object(kept.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(variables: &Value) -> Value {
        json!({"spec": {"variables": variables}})
    }

    fn refused() -> VariableDiscoveryError {
        VariableDiscoveryError::NoAnswer("refused".to_owned())
    }

    fn found(patch: &str, variables: &Value) -> Discovered {
        let variables: Vec<Value> = variables.as_array().unwrap().clone();
        Discovered { patch: patch.to_owned(), variables: Ok(variables.into()) }
    }

    fn variable(name: &str, schema: &Value) -> Value {
        json!({"name": name, "schema": {"openAPIV3Schema": schema}})
    }

    #[test]
    fn definitions_are_appended_in_the_order_of_inline_and_patches() {
        // CCR-07, CCR-09, RH-17.1, RH-17.2, RH-17.4
        let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
        let class = class(&json!([variable("b", &text)]));
        let discovered = [
            found("p", &json!([variable("c", &number), variable("a", &text)])),
            found("q", &json!([variable("b", &text)])),
        ];
        let ClassVariables::Settled(all) = ClassVariables::from_class(&class, &discovered) else {
            panic!("they conflict")
        };
        let shown: Vec<(&str, Vec<&str>)> = all
            .iter()
            .map(|one| {
                let from = one["definitions"].as_array().unwrap().iter().map(|one| one["from"].as_str().unwrap());
                (one["name"].as_str().unwrap(), from.collect())
            })
            .collect();
        assert_eq!(shown, [("a", vec!["p"]), ("b", vec!["inline", "q"]), ("c", vec!["p"])]);
        assert!(
            all.iter().all(|one| one["definitionsConflict"] == false && one["definitions"][0]["required"] == false)
        );
    }

    #[test]
    fn definitions_conflict_with_the_first_one() {
        // CCR-08, RH-17.3, RH-17.5
        let base = json!({"name": "v", "schema": {"openAPIV3Schema": {"type": "object",
            "default": {"uniqueItems": false},
            "properties": {"a": {"type": "array", "items": {"type": "string"}}}}}});
        let with = |pointer: &str, name: &str, value: Value| {
            let mut changed = base.clone();
            changed.pointer_mut(pointer).unwrap()[name] = value;
            changed
        };
        let schema = "/schema/openAPIV3Schema";
        for (other, conflicts) in [
            (base.clone(), false),
            (with("", "required", json!(false)), false),
            (with("", "required", json!(true)), true),
            (with("", "deprecatedV1Beta1Metadata", json!({"labels": {}})), false),
            (with("", "deprecatedV1Beta1Metadata", json!({"labels": {"a": "b"}})), true),
            (with(schema, "uniqueItems", json!(false)), false),
            (with("/schema/openAPIV3Schema/properties/a/items", "x-kubernetes-int-or-string", json!(false)), false),
            (with("/schema/openAPIV3Schema/properties/a", "uniqueItems", json!(true)), true),
            (with(schema, "default", json!({})), true),
            (with(schema, "description", json!("other")), true),
            (with(schema, "example", json!({})), true),
            (with(schema, "nullable", json!(false)), true),
        ] {
            let class = class(&json!([base]));
            let discovered = [found("p", &json!([other]))];
            let got = ClassVariables::from_class(&class, &discovered);
            assert_eq!(matches!(got, ClassVariables::Conflicting { .. }), conflicts, "{other}");
        }
        let number = variable("v", &json!({"type": "integer"}));
        let class = class(&json!([base, variable("w", &json!({}))]));
        let discovered = [found("p", &json!([number])), found("q", &json!([base, number]))];
        let got = ClassVariables::from_class(&class, &discovered);
        let ClassVariables::Conflicting { variables, names } = &got else { panic!("{got:?}") };
        assert_eq!((variables.len(), names.as_slice()), (2, ["v".to_owned()].as_slice()), "the mark stays");
        assert_eq!(variables[0]["definitionsConflict"], true);
        assert!(got.problem().unwrap().to_string().ends_with("conflicting definitions: v"));
    }

    #[test]
    fn every_failure_is_named_and_nothing_is_merged() {
        // RH-16.3, RH-16.6
        let failed = |patch: &str| Discovered { patch: patch.to_owned(), variables: Err(refused()) };
        let got = ClassVariables::from_class(&class(&json!([])), &[failed("p"), found("q", &json!([])), failed("r")]);
        assert_eq!(got.list(), None);
        let want = "VariableDiscovery failed: patch \"p\": refused; patch \"r\": refused";
        assert_eq!(got.problem().unwrap().to_string(), want);
    }
}

//! Booleans that are always written in v1beta1 and optional in v1beta2 (CONV-002).
//!
//! A false of v1beta1 may be false or absent in v1beta2; the object preserved by the downgrade tells which.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::JsonMembers;
use crate::hub::Kind;

/// Booleans of a schema, at every depth.
const OF_A_SCHEMA: [&str; 5] = [
    "uniqueItems",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
];

/// Removes every false from an upgraded object, except those that `preserved` contains.
pub(super) fn settle(kind: Kind, object: &mut Value, preserved: Option<&Value>) {
    let Some(members) = object.as_object_mut() else { return };
    match kind {
        // These kinds are never converted.
        Kind::MachineDeployment | Kind::MachineSet | Kind::Machine | Kind::MachineHealthCheck => {}
        Kind::Cluster => {
            within(members, "spec", preserved, |spec, was| flag(spec, "paused", was));
            within(members, "status", preserved, |status, was| {
                within(status, "initialization", was, |done, was| {
                    ["controlPlaneInitialized", "infrastructureProvisioned"]
                        .iter()
                        .for_each(|name| flag(done, name, was));
                });
                if status.get("initialization").and_then(Value::as_object).is_some_and(JsonMembers::is_empty) {
                    status.remove("initialization");
                }
            });
        }
        Kind::ClusterClass => {
            within(members, "spec", preserved, |spec, was| {
                entries(spec, "patches", was, "name", patch);
                entries(spec, "variables", was, "name", definition);
            });
            within(members, "status", preserved, |status, was| {
                entries(status, "variables", was, "name", |variable, was| {
                    flag(variable, "definitionsConflict", was);
                    entries(variable, "definitions", was, "from", definition);
                });
            });
        }
    }
}

fn patch(patch: &mut JsonMembers, was: Option<&Value>) {
    let was = was.and_then(|was| was.get("definitions"));
    for (i, definition) in list(patch, "definitions").enumerate() {
        let Some(definition) = definition.as_object_mut() else { continue };
        within(definition, "selector", was.and_then(|was| was.get(i)), |selector, was| {
            within(selector, "matchResources", was, |matched, was| {
                ["controlPlane", "infrastructureCluster"].iter().for_each(|name| flag(matched, name, was));
            });
        });
    }
}

fn definition(definition: &mut JsonMembers, was: Option<&Value>) {
    within(definition, "schema", was, |holder, was| within(holder, "openAPIV3Schema", was, schema));
}

fn schema(node: &mut JsonMembers, was: Option<&Value>) {
    OF_A_SCHEMA.iter().for_each(|name| flag(node, name, was));
    within(node, "properties", was, |properties, was| {
        let names: Vec<String> = properties.keys().cloned().collect();
        names.iter().for_each(|name| within(properties, name, was, schema));
    });
    for name in ["items", "additionalProperties", "not"] {
        within(node, name, was, schema);
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        let was = was.and_then(|was| was.get(name));
        for (i, branch) in list(node, name).enumerate() {
            if let Some(branch) = branch.as_object_mut() {
                schema(branch, was.and_then(|was| was.get(i)));
            }
        }
    }
}

/// A false or absent boolean: false if `was` is false, absent otherwise.
fn flag(members: &mut JsonMembers, name: &str, was: Option<&Value>) {
    if !matches!(members.get(name), None | Some(Value::Null | Value::Bool(false))) {
        return;
    }
    match was.and_then(|was| was.get(name)) {
        Some(Value::Bool(false)) => drop(members.insert(name.to_owned(), json!(false))),
        _ => drop(members.remove(name)),
    }
}

/// Edits an object member, with its previous value.
fn within(
    members: &mut JsonMembers,
    name: &str,
    was: Option<&Value>,
    edit: impl FnOnce(&mut JsonMembers, Option<&Value>),
) {
    if let Some(member) = members.get_mut(name).and_then(Value::as_object_mut) {
        edit(member, was.and_then(|was| was.get(name)));
    }
}

/// The object entries of a list, each with the previous entry of the same name; of several, the one with the same index
/// among them.
fn entries(
    members: &mut JsonMembers,
    name: &str,
    was: Option<&Value>,
    key: &str,
    edit: impl Fn(&mut JsonMembers, Option<&Value>),
) {
    let were = was.and_then(|was| was.get(name)).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let called = |entry: &Value, name: &str| entry.get(key).and_then(Value::as_str) == Some(name);
    let mut seen = BTreeMap::new();
    for entry in list(members, name).filter_map(Value::as_object_mut) {
        let was = entry.get(key).and_then(Value::as_str).map(str::to_owned).and_then(|name| {
            let was = were.iter().filter(|was| called(was, &name)).nth(seen.get(&name).copied().unwrap_or(0));
            *seen.entry(name).or_insert(0_usize) += 1;
            was
        });
        edit(entry, was);
    }
}

fn list<'a>(members: &'a mut JsonMembers, name: &str) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    members.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

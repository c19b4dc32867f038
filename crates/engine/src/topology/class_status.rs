//! The status of a ClusterClass, computed from its spec and its templates (CCR-06, CCR-09 to
//! CCR-12).
//!
//! Works on raw JSON, so that schemas are copied unchanged and other fields of the status stay. Time is an argument:
//! the transition time of conditions that change.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::class_references::OutdatedReference;
use super::class_variables::{ClassVariables, Discovered, VariablesProblem, inline_variables};
use super::conditions::{DesiredCondition, MESSAGE_BYTES, StatusBuilder, StatusLayout, condition, cut, with_type};
use golang::json;
use model::wire::WireVersion;

/// The annotation that pauses an object, regardless of its value.
pub(super) const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";

/// The result of checking the references of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum References {
    /// All references were resolved; the listed ones name an outdated version (CCR-05).
    Checked(Vec<OutdatedReference>),
    /// Some references could not be resolved.
    Failed {
        /// The definitions and templates that do not exist.
        missing: Vec<String>,
        /// Whether others failed for another reason, which is in the log: errors of an API server may change with each
        /// attempt.
        has_others: bool,
    },
    /// Some references cannot become part of a URL, for these reasons (DEC-45).
    Malformed(Vec<String>),
}

/// Whether the class is paused (CCR-02).
pub fn is_paused(class: &Value) -> bool {
    class.pointer("/metadata/annotations").and_then(|all| all.get(PAUSED_ANNOTATION)).is_some()
}

/// The status with the `Paused` condition (CCR-02).
pub fn with_paused(class: &Value, now: &str) -> Value {
    let mut status = StatusBuilder::for_object(class, StatusLayout::V1BETA2, now);
    status.set(&paused(class));
    status.into_value()
}

fn paused(class: &Value) -> DesiredCondition {
    match is_paused(class) {
        true => condition("Paused", "True", "Paused", format!("ClusterClass has the {PAUSED_ANNOTATION} annotation")),
        false => condition("Paused", "False", "NotPaused", String::new()),
    }
}

/// Whether the `Paused` condition is up to date, regardless of its generation (CT-15.12).
pub fn reports_paused(class: &Value) -> bool {
    let paused = with_type(class.pointer("/status/conditions"), "Paused").next();
    paused.is_some_and(|condition| condition["status"] == if is_paused(class) { "True" } else { "False" })
}

/// The status after a reconcile (CCR-09 to CCR-12). It includes the `Paused` condition for the current generation,
/// since nothing else updates it after an edit of the spec.
pub fn reconciled(class: &Value, references: &References, variables: &ClassVariables, now: &str) -> Value {
    let mut status = StatusBuilder::for_object(class, StatusLayout::V1BETA2, now);
    if reports_paused(class) {
        status.set(&paused(class));
    }
    status.note_variables(variables);
    status.note_references(references);
    if matches!((references, variables), (References::Checked(_), ClassVariables::Settled(_))) {
        status.observe();
    }
    status.into_value()
}

/// Whether two statuses are equivalent. A boolean that is false may be dropped by conversions (CONV-002), which is not
/// worth a write.
pub fn is_equivalent(before: Option<&Value>, after: &Value) -> bool {
    let plain = |status: Option<&Value>| {
        let mut status = status.filter(|status| !status.is_null()).cloned().unwrap_or_else(|| json!({}));
        let variables = status.get_mut("variables").and_then(Value::as_array_mut);
        for variable in variables.into_iter().flatten().filter_map(Value::as_object_mut) {
            variable.retain(|name, value| name != "definitionsConflict" || *value != Value::Bool(false));
        }
        status
    };
    plain(before) == plain(Some(after))
}

/// A class of a file with the status that its controller would write, if the status depends on the class alone. A class
/// whose patches discover variables stays unchanged, like an invalid class.
pub fn with_status(text: &str) -> Cow<'_, str> {
    let with_status = || {
        let class = json::value(text).ok()?;
        let version = WireVersion::from_api_version(class.get("apiVersion")?.as_str()?)?;
        let layout = if version == WireVersion::V1Beta2 { StatusLayout::V1BETA2 } else { StatusLayout::V1BETA1 };
        if discovers_variables(&class) || !is_readable(&class, layout) {
            return None;
        }
        let mut status = StatusBuilder::for_object(&class, layout, NEVER);
        status.note_variables(&ClassVariables::Settled(inline_variables(&class, layout)));
        status.observe();
        let status = status.into_value();
        let mut class = class;
        class.as_object_mut()?.insert("status".to_owned(), status);
        Some(class.to_string())
    };
    with_status().map_or(Cow::Borrowed(text), Cow::Owned)
}

/// A class of a file, in v1beta2, with the variables that its extensions define. An invalid class stays unchanged.
///
/// # Errors
/// When the variables cannot be used (CCR-08, CCR-09).
pub fn with_discovered_status(mut class: Value, discovered: &[Discovered]) -> Result<Value, VariablesProblem> {
    if !is_readable(&class, StatusLayout::V1BETA2) {
        return Ok(class);
    }
    let variables = ClassVariables::from_class(&class, discovered);
    if let Some(problem) = variables.problem() {
        return Err(problem);
    }
    let mut status = StatusBuilder::for_object(&class, StatusLayout::V1BETA2, NEVER);
    status.note_variables(&variables);
    status.observe();
    let status = status.into_value();
    if let Some(members) = class.as_object_mut() {
        members.insert("status".to_owned(), status);
    }
    Ok(class)
}

/// The time of conditions of files.
const NEVER: &str = "1970-01-01T00:00:00Z";

fn discovers_variables(class: &Value) -> bool {
    let patches = class.pointer("/spec/patches").and_then(Value::as_array);
    let extension = |patch: &Value| patch.pointer("/external/discoverVariablesExtension").cloned();
    patches.into_iter().flatten().filter_map(extension).any(|extension| !extension.is_null() && extension != "")
}

/// Whether all replaced members have the right type; other objects are left to the decoder, which rejects them.
fn is_readable(class: &Value, layout: StatusLayout) -> bool {
    let status = match class.get("status") {
        None | Some(Value::Null) => return true,
        Some(status) => status,
    };
    let is_list = |path: &[&str]| {
        let (mut at, mut rest) = (status, path.iter());
        loop {
            match (at, rest.next()) {
                (Value::Null, _) | (Value::Array(_), None) => return true,
                (Value::Object(members), Some(name)) => at = members.get(*name).unwrap_or(&Value::Null),
                _ => return false,
            }
        }
    };
    status.is_object() && is_list(layout.conditions) && is_list(layout.legacy) && is_list(&["variables"])
}

impl StatusBuilder<'_> {
    /// CCR-09, CCR-12
    fn note_variables(&mut self, variables: &ClassVariables) {
        match variables {
            ClassVariables::Settled(variables) => {
                self.set_variables(variables);
                self.set(&condition("VariablesReady", "True", "VariablesReady", String::new()));
                self.set_legacy(&condition("VariablesReconciled", "True", "", String::new()), None);
            }
            ClassVariables::Undiscovered(_) | ClassVariables::Conflicting { .. } => {
                if let Some(variables) = variables.list() {
                    self.set_variables(variables);
                }
                let message = cut(&variables.problem().map(|problem| problem.to_string()).unwrap_or_default());
                let reason = "VariableDiscoveryFailed";
                self.set(&condition("VariablesReady", "False", reason, message.clone()));
                self.set_legacy(&condition("VariablesReconciled", "False", reason, message), Some("Error"));
            }
            ClassVariables::Unreadable(_) => {
                let message = cut(&variables.problem().map(|problem| problem.to_string()).unwrap_or_default());
                let reason = "ClusterClassUnreadable";
                self.set(&condition("VariablesReady", "False", reason, message.clone()));
                self.set_legacy(&condition("VariablesReconciled", "False", reason, message), Some("Error"));
            }
        }
    }

    fn set_variables(&mut self, variables: &[Value]) {
        if variables.is_empty() {
            self.members.remove("variables");
        } else {
            self.members.insert("variables".to_owned(), Value::Array(variables.to_vec()));
        }
    }

    /// CCR-11, CT-4.5
    fn note_references(&mut self, references: &References) {
        const TYPE: &str = "RefVersionsUpToDate";
        match references {
            References::Failed { missing, has_others } => {
                let log = "Please check the logs of the controller for errors";
                let reason = has_others.then_some(". For others, see the log of the controller").unwrap_or_default();
                let message = match missing.is_empty() {
                    true => log.to_owned(),
                    false => cut(&format!("Some references cannot be resolved: {}{reason}", missing.join("; "))),
                };
                self.set(&condition(TYPE, "Unknown", "InternalError", message.clone()));
                self.set_legacy(&condition(TYPE, "Unknown", "InternalError", message), None);
            }
            References::Malformed(reasons) => {
                let message = list("The following references are malformed:", reasons);
                self.set(&condition(TYPE, "Unknown", "MalformedReferences", message.clone()));
                self.set_legacy(&condition(TYPE, "Unknown", "MalformedReferences", message), None);
            }
            References::Checked(outdated) if !outdated.is_empty() => {
                let items = outdated.iter().map(|OutdatedReference { kind, name, current, latest }| {
                    format!("{kind} {name}: current: {current}, latest: {latest}")
                });
                let items: Vec<String> = items.collect();
                let message = list("The following references do not name the latest version:", &items);
                self.set(&condition(TYPE, "False", "RefVersionsNotUpToDate", message.clone()));
                self.set_legacy(&condition(TYPE, "False", "OutdatedRefVersions", message), Some("Warning"));
            }
            References::Checked(_) => {
                self.set(&condition(TYPE, "True", "RefVersionsUpToDate", String::new()));
                self.set_legacy(&condition(TYPE, "True", "", String::new()), None);
            }
        }
    }

    /// Sets `observedGeneration` (CCR-10).
    fn observe(&mut self) {
        match self.generation {
            0 => drop(self.members.remove("observedGeneration")),
            generation => drop(self.members.insert("observedGeneration".to_owned(), json!(generation))),
        }
    }
}

/// A message with an introduction and the items that fit.
fn list(introduction: &str, items: &[String]) -> String {
    let mut text = introduction.to_owned();
    for (at, item) in items.iter().enumerate() {
        let more = format!("\n* ... ({} more)", items.len() - at);
        if text.len() + "\n* ".len() + item.len() + more.len() > MESSAGE_BYTES {
            return text + &more;
        }
        text = text + "\n* " + item;
    }
    text
}

#[cfg(test)]
mod tests;

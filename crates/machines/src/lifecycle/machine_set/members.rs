//! The machines of a MachineSet (MA-15.4).

use std::sync::Arc;

use serde_json::Value;

use crate::lifecycle::context::{Context, Fault};
use crate::lifecycle::fields::{controller, owner, set_owner};
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::wake::is_controlled_by;
use model::hub::{LabelSelector, Object, ObjectKey};

/// A machine of a set: as it is, and as it shall be.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) before: Arc<Object>,
    pub(super) after: Object,
    /// Whether this step deletes it.
    pub(super) is_doomed: bool,
}

impl Member {
    /// Whether it is being deleted, or will be after this step.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_doomed || self.before.is_being_deleted()
    }
}

/// The selector of a MachineSet or MachineDeployment.
///
/// # Errors
/// When it is empty, or cannot be read.
pub(in crate::lifecycle) fn selector(object: &Object) -> Result<LabelSelector, Fault> {
    let value = object.at("spec.selector").cloned().unwrap_or_default();
    let read = serde_json::from_value::<LabelSelector>(value);
    let selector = read.map_err(|error| Fault::because(format!("{}: spec.selector: {error}", title(object))))?;
    if selector.is_empty() {
        return Err(Fault::because(format!("{}: spec.selector is empty", title(object))));
    }
    Ok(selector)
}

/// Whether a selector selects an object.
///
/// # Errors
/// When the selector makes no sense.
pub(in crate::lifecycle) fn selects(selector: &LabelSelector, object: &Object) -> Result<bool, Fault> {
    if !selector.match_labels.iter().all(|(name, value)| object.label(name) == Some(value)) {
        return Ok(false);
    }
    if selector.match_expressions.is_empty() {
        return Ok(true);
    }
    let labels = object.at("metadata.labels").cloned().unwrap_or_default();
    let labels = serde_json::from_value(labels).map_err(|error| Fault::because(error.to_string()))?;
    selector.matches(&labels).map_err(Fault::because)
}

/// Kind and name of an object.
pub(in crate::lifecycle) fn title(object: &Object) -> String {
    format!("{} {}", object.kind(), object.key())
}

/// The machines of a set by name: those that it selects, without those of other controllers; those without a controller are
/// adopted (MA-15.4).
///
/// # Errors
/// When Machines are not listed yet, or the selector makes no sense; no step may go on without the list (MA-15.5).
pub(super) fn members(context: &Context<'_>, set: &Object, cluster: &ObjectKey) -> Result<Vec<Member>, Fault> {
    let selector = selector(set)?;
    let mut members = Vec::new();
    for machine in context.of_cluster(&GroupKind::core("Machine"), cluster)? {
        let is_free = controller(&machine).is_none();
        if !(is_free || is_controlled_by(&machine, set)) || !selects(&selector, &machine)? {
            continue;
        }
        let mut after = (*machine).clone();
        if is_free && !machine.is_being_deleted() && !set.is_being_deleted() {
            set_owner(&mut after, owner(set, true), set);
        }
        members.push(Member { before: machine, after, is_doomed: false });
    }
    Ok(members)
}

/// `spec.replicas`.
///
/// # Errors
/// When there is no number (MA-20.4).
pub(in crate::lifecycle) fn replicas(object: &Object) -> Result<i64, Fault> {
    let number = object.at("spec.replicas").and_then(Value::as_i64);
    number.ok_or_else(|| Fault::because(format!("{}: spec.replicas is not set", title(object))))
}

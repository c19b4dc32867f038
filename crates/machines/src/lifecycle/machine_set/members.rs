//! Machines of a MachineSet (MA-15.4).

use std::sync::Arc;

use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::digest::digest;
use crate::lifecycle::fields::{owner, set_owner};
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::selector::ObjectSelector;
use model::hub::{Object, ObjectKey};

/// A machine of a set: its current and desired state.
#[derive(Debug)]
pub(super) struct SetMachine {
    pub(super) before: Arc<Object>,
    pub(super) after: Object,
    /// Whether this step deletes it.
    pub(super) is_doomed: bool,
}

impl SetMachine {
    /// Whether it is being deleted, or will be after this step.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_doomed || self.before.is_being_deleted()
    }
}

/// The selector of a MachineSet or MachineDeployment.
///
/// # Errors
/// When it is empty, or cannot be read.
pub(in crate::lifecycle) fn selector(object: &Object) -> Result<ObjectSelector, StepError> {
    let read = ObjectSelector::read(object);
    let selector = read.map_err(|error| StepError::failed(format!("{}: spec.selector: {error}", title(object))))?;
    if selector.labels.is_empty() {
        return Err(StepError::failed(format!("{}: spec.selector is empty", title(object))));
    }
    Ok(selector)
}

/// Kind and name of an object.
pub(in crate::lifecycle) fn title(object: &Object) -> String {
    format!("{} {}", object.kind(), object.key())
}

/// The selected machines of a set, sorted by name, without those of other controllers; orphans are adopted (MA-15.4).
///
/// # Errors
/// When Machines are not listed yet, or the selector is invalid; no step continues without the list (MA-15.5).
pub(super) fn members(
    context: &StepContext<'_>,
    set: &Object,
    cluster: &ObjectKey,
) -> Result<Vec<SetMachine>, StepError> {
    let selector = selector(set)?;
    let mut members = Vec::new();
    for machine in context.of_cluster(&GroupKind::core("Machine"), cluster)? {
        let controller = digest(&machine).controller_uid(&machine);
        let is_free = controller.is_none();
        if !(is_free || controller == Some(set.uid())) || !selector.selects(&machine)? {
            continue;
        }
        let mut after = (*machine).clone();
        if is_free && !machine.is_being_deleted() && !set.is_being_deleted() {
            set_owner(&mut after, owner(set, true), set);
        }
        members.push(SetMachine { before: machine, after, is_doomed: false });
    }
    Ok(members)
}

/// `spec.replicas`.
///
/// # Errors
/// When it is missing (MA-20.4).
pub(in crate::lifecycle) fn replicas(object: &Object) -> Result<i64, StepError> {
    let number = object.replicas();
    number.ok_or_else(|| StepError::failed(format!("{}: spec.replicas is not set", title(object))))
}

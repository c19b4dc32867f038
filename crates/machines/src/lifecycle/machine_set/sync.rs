//! In-place updates of running machines (MA-15.11).

use serde_json::Value;

use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::facts::{Mark, facts};
use crate::lifecycle::fields::set;
use crate::lifecycle::step::Reconciliation;
use model::hub::Object;

use super::desired::{IN_PLACE, annotations, in_place, labels};
use super::members::SetMachine;
use super::propagation::PropagatedMetadata;

/// Propagates fields to the machines of a set; to those being deleted only fields of the spec. The record of the names
/// is part of `after`, which is written later.
///
/// # Errors
/// When a kind is not listed yet.
pub(super) fn machines(
    context: &StepContext<'_>,
    after: &mut Object,
    members: &mut [SetMachine],
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let (labels, annotations) = (labels(after), annotations(after));
    let handed_down = PropagatedMetadata::from_owner(after, labels, annotations);
    let fields = IN_PLACE.map(|field| (format!("spec.{field}"), in_place(after, field)));
    let of_external = Mark::of(&handed_down);
    let of_machine = Mark::of((format!("{fields:?}"), of_external));
    for member in members {
        if !facts(&member.after).has_fields(of_machine) {
            for (path, wanted) in &fields {
                if member.after.at(path).unwrap_or(&Value::Null) != wanted {
                    set(&mut member.after, path, wanted.clone());
                }
            }
            if !member.before.is_being_deleted() {
                handed_down.apply(&mut member.after);
            }
            facts(&member.after).note_fields(of_machine);
        }
        if !member.before.is_being_deleted() {
            external(context, &member.before, (&handed_down, of_external), step)?;
        }
    }
    Ok(())
}

/// Propagates labels and annotations to the bootstrap configuration and the infrastructure machine.
fn external(
    context: &StepContext<'_>,
    machine: &Object,
    (handed_down, mark): (&PropagatedMetadata, Mark),
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    for (kind, key) in facts(machine).external(machine).iter().flatten() {
        if let Some(before) = context.get(kind, key)?
            && !facts(&before).has_fields(mark)
        {
            let mut after = (*before).clone();
            handed_down.apply(&mut after);
            facts(&after).note_fields(mark);
            step.update_other(&before, after);
        }
    }
    Ok(())
}

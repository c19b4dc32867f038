//! In-place updates of running machines (MA-15.11).

use serde_json::Value;

use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::digest::{Fingerprint, digest};
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
    let of_external = Fingerprint::new(&handed_down);
    let of_machine = Fingerprint::new((format!("{fields:?}"), of_external));
    for member in members {
        if !digest(&member.after).is_in_step(of_machine) {
            for (path, wanted) in &fields {
                if member.after.at(path).unwrap_or(&Value::Null) != wanted {
                    set(&mut member.after, path, wanted.clone());
                }
            }
            if !member.before.is_being_deleted() {
                handed_down.apply(&mut member.after);
            }
            digest(&member.after).note_in_step(of_machine);
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
    (handed_down, fingerprint): (&PropagatedMetadata, Fingerprint),
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    for (kind, key) in digest(machine).external(machine).iter().flatten() {
        if let Some(before) = context.get(kind, key)?
            && !digest(&before).is_in_step(fingerprint)
        {
            let mut after = (*before).clone();
            handed_down.apply(&mut after);
            digest(&after).note_in_step(fingerprint);
            step.update_other(&before, after);
        }
    }
    Ok(())
}

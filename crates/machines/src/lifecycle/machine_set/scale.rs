//! Scaling of a set to its desired replicas (MA-15.7, MA-15.8, MA-15.12).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::desired::machine;
use super::members::{SetMachine, replicas, title};
use super::order::{DeletionOrder, priority, sooner};
use super::preflight;
use super::templates::{SetTemplateRef, SetTemplates};
use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::fields::text;
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::step::{ObjectWrite, Reconciliation, StepWrite};
use model::hub::contract::cloned_kind;
use model::hub::{Object, paths};

/// On a set that must not create machines.
pub(in crate::lifecycle) const DISABLE_CREATE: &str = "cluster.x-k8s.io/disable-machine-create";

/// Maximum creations per step; each new machine triggers the next step of its set.
const MOST_AT_ONCE: u64 = 100;

/// Result of scaling.
#[derive(Debug, Default)]
pub(super) struct Scaling {
    /// Writes that follow the update of the set.
    pub(super) writes: Vec<StepWrite>,
    /// Messages of failed preflight checks.
    pub(super) held: Vec<String>,
}

/// Creates or deletes machines until the desired number is reached (MA-15.7).
///
/// # Errors
/// When the object has no number of replicas, an unknown order, or a template is missing.
pub(super) fn replicas_of(
    context: &StepContext<'_>,
    cluster: &Object,
    set: &Object,
    templates: &SetTemplates,
    members: &[SetMachine],
    step: &mut Reconciliation,
) -> Result<Scaling, StepError> {
    let there = i64::try_from(members.len()).unwrap_or(i64::MAX);
    let surplus = there - replicas(set)?;
    let mut scaling = Scaling::default();
    if surplus == 0 {
        return Ok(scaling);
    }
    for orphan in orphans(context, set, templates, members)? {
        step.event("SuccessfulDelete", format!("Deleted {}, which no Machine refers to", title(&orphan)));
        scaling.writes.push(deletion(orphan));
    }
    if surplus > 0 {
        delete(context, set, members, surplus, step, &mut scaling)?;
    } else if set.annotation(DISABLE_CREATE) != Some("true") {
        scaling.held = preflight::failures(context, cluster, set, templates)?;
        if scaling.held.is_empty() {
            create(context, set, templates, surplus.unsigned_abs(), step, &mut scaling)?;
        } else {
            step.requeue_after(preflight::AGAIN);
        }
    }
    Ok(scaling)
}

fn deletion(object: Arc<Object>) -> StepWrite {
    StepWrite::Attempted(vec![ObjectWrite::Delete { workload: None, object }])
}

/// Creates machines (MA-15.8), at most [`MOST_AT_ONCE`].
fn create(
    context: &StepContext<'_>,
    set: &Object,
    templates: &SetTemplates,
    missing: u64,
    step: &mut Reconciliation,
    scaling: &mut Scaling,
) -> Result<(), StepError> {
    for number in 0..usize::try_from(missing.min(MOST_AT_ONCE)).unwrap_or(usize::MAX) {
        let objects = machine(context, set, templates, number)?;
        if let Some(machine) = objects.last() {
            step.event("SuccessfulCreate", format!("Created Machine {}", machine.name()));
        }
        scaling.writes.push(StepWrite::Required(ObjectWrite::Create { workload: None, objects }));
    }
    Ok(())
}

/// Deletes surplus machines; those already being deleted count first (MA-15.12).
fn delete(
    context: &StepContext<'_>,
    set: &Object,
    members: &[SetMachine],
    surplus: i64,
    step: &mut Reconciliation,
    scaling: &mut Scaling,
) -> Result<(), StepError> {
    let order = DeletionOrder::read(text(set, paths::worker::DELETION_ORDER))?;
    let rank = |member: &SetMachine| priority(&member.after, member.is_leaving(), order, context.now);
    let mut all: Vec<(f64, &SetMachine)> = members.iter().map(|member| (rank(member), member)).collect();
    all.sort_by(|a, b| sooner((a.0, &a.1.before), (b.0, &b.1.before)));
    let chosen = all.into_iter().take(usize::try_from(surplus).unwrap_or(usize::MAX));
    for (_, member) in chosen.filter(|(_, member)| !member.is_leaving()) {
        step.event("SuccessfulDelete", format!("Deleted Machine {}", member.before.name()));
        scaling.writes.push(deletion(member.before.clone()));
    }
    Ok(())
}

/// Bootstrap configurations and infrastructure machines whose Machines do not exist (MA-15.7).
fn orphans(
    context: &StepContext<'_>,
    set: &Object,
    templates: &SetTemplates,
    members: &[SetMachine],
) -> Result<Vec<Arc<Object>>, StepError> {
    let mut orphans = Vec::new();
    for (template, path) in [
        (&templates.bootstrap, paths::machine::BOOTSTRAP_CONFIG_REF),
        (&templates.infrastructure, paths::INFRASTRUCTURE_REF),
    ] {
        let Some(kind) = made_from(template) else { continue };
        // Usually none: a Machine becomes the owner of its objects in its first step.
        let owned = context.owned(&kind, set.uid())?;
        if owned.is_empty() {
            continue;
        }
        let used: BTreeSet<String> = members.iter().map(|member| member.before.contract_ref_at(path).name).collect();
        orphans.extend(owned.into_iter().filter(|one| !used.contains(one.name()) && !one.is_being_deleted()));
    }
    Ok(orphans)
}

/// The kind of the objects cloned from a template.
fn made_from(template: &SetTemplateRef) -> Option<GroupKind> {
    let kind = cloned_kind(&template.reference.kind)?;
    Some(GroupKind::new(&template.reference.api_group, kind))
}

//! As many machines as the set asks for (MA-15.7, MA-15.8, MA-15.12).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::desired::machine;
use super::members::{Member, replicas, title};
use super::order::{Order, priority, sooner};
use super::preflight;
use super::templates::{Template, Templates};
use crate::lifecycle::context::{Context, Fault};
use crate::lifecycle::fields::{reference, text};
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::step::{Step, Write};
use model::hub::Object;

/// On a set that must not create machines.
pub(in crate::lifecycle) const DISABLE_CREATE: &str = "cluster.x-k8s.io/disable-machine-create";

/// How many machines one step makes: those that the next steps make follow, since each new machine wakes its set.
const MOST_AT_ONCE: u64 = 100;

/// What scaling comes to.
#[derive(Debug, Default)]
pub(super) struct Scaling {
    /// They follow the update of the set.
    pub(super) writes: Vec<Write>,
    /// Preflight checks that fail.
    pub(super) held: Vec<String>,
}

/// Creates or deletes machines until there are as many as the set asks for (MA-15.7).
///
/// # Errors
/// When the object has no number of replicas, an unknown order, or a template is missing.
pub(super) fn replicas_of(
    context: &Context<'_>,
    cluster: &Object,
    set: &Object,
    templates: &Templates,
    members: &[Member],
    step: &mut Step,
) -> Result<Scaling, Fault> {
    let there = i64::try_from(members.len()).unwrap_or(i64::MAX);
    let surplus = there - replicas(set)?;
    let mut scaling = Scaling::default();
    if surplus == 0 {
        return Ok(scaling);
    }
    for orphan in orphans(context, set, templates, members)? {
        step.tell("SuccessfulDelete", format!("Deleted {}, which no Machine refers to", title(&orphan)));
        scaling.writes.push(Write::Delete { workload: None, object: orphan });
    }
    if surplus > 0 {
        delete(context, set, members, surplus, step, &mut scaling)?;
    } else if set.annotation(DISABLE_CREATE) != Some("true") {
        create(context, cluster, set, templates, surplus.unsigned_abs(), step, &mut scaling)?;
    }
    Ok(scaling)
}

/// Creates machines, unless preflight checks fail (MA-15.8); not all at once if they are many.
fn create(
    context: &Context<'_>,
    cluster: &Object,
    set: &Object,
    templates: &Templates,
    missing: u64,
    step: &mut Step,
    scaling: &mut Scaling,
) -> Result<(), Fault> {
    scaling.held = preflight::failures(context, cluster, set, templates)?;
    if !scaling.held.is_empty() {
        step.look_again(preflight::AGAIN);
        return Ok(());
    }
    for number in 0..usize::try_from(missing.min(MOST_AT_ONCE)).unwrap_or(usize::MAX) {
        let objects = machine(context, set, templates, number)?;
        if let Some(machine) = objects.last() {
            step.tell("SuccessfulCreate", format!("Created Machine {}", machine.name()));
        }
        scaling.writes.push(Write::Create { workload: None, objects });
    }
    Ok(())
}

/// Deletes as many machines as there are too many; those that are being deleted count first (MA-15.12).
fn delete(
    context: &Context<'_>,
    set: &Object,
    members: &[Member],
    surplus: i64,
    step: &mut Step,
    scaling: &mut Scaling,
) -> Result<(), Fault> {
    let order = Order::read(text(set, "spec.deletion.order"))?;
    let rank = |member: &Member| priority(&member.after, member.is_leaving(), order, context.now);
    let mut all: Vec<(f64, &Member)> = members.iter().map(|member| (rank(member), member)).collect();
    all.sort_by(|a, b| sooner((a.0, &a.1.before), (b.0, &b.1.before)));
    let chosen = all.into_iter().take(usize::try_from(surplus).unwrap_or(usize::MAX));
    for (_, member) in chosen.filter(|(_, member)| !member.is_leaving()) {
        step.tell("SuccessfulDelete", format!("Deleted Machine {}", member.before.name()));
        scaling.writes.push(Write::Delete { workload: None, object: member.before.clone() });
    }
    Ok(())
}

/// Bootstrap configurations and infrastructure machines that were made for Machines which do not exist (MA-15.7).
fn orphans(
    context: &Context<'_>,
    set: &Object,
    templates: &Templates,
    members: &[Member],
) -> Result<Vec<Arc<Object>>, Fault> {
    let mut orphans = Vec::new();
    for (template, path) in
        [(&templates.bootstrap, "spec.bootstrap.configRef"), (&templates.infrastructure, "spec.infrastructureRef")]
    {
        let Some(kind) = made_from(template) else { continue };
        let used: BTreeSet<String> = members.iter().map(|member| reference(&member.before, path).name).collect();
        let owned = context.owned(&kind, set.uid())?;
        orphans.extend(owned.into_iter().filter(|one| !used.contains(one.name()) && !one.is_being_deleted()));
    }
    Ok(orphans)
}

/// The kind of the objects that are made from a template.
fn made_from(template: &Template) -> Option<GroupKind> {
    let kind = template.reference.kind.strip_suffix("Template")?;
    Some(GroupKind::new(&template.reference.api_group, kind))
}

//! MachineSets of a MachineDeployment, and the choice of the new one (MA-20.3, MA-21.3).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::rollout::SetCounts;
use super::template::differences;
use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::dependents::is_controlled_by;
use crate::lifecycle::fields::{created, number, owner, set_owner};
use crate::lifecycle::machine_set::{replicas, selector};
use crate::lifecycle::objects::GroupKind;
use golang::calendar::Moment;
use model::hub::{Object, ObjectKey, paths};

/// A set: its current state, unless it is new, and its desired state.
#[derive(Clone, Debug)]
pub(super) struct SetDraft {
    pub(super) before: Option<Arc<Object>>,
    pub(super) after: Object,
}

impl SetDraft {
    /// Its machine counts; missing ones in the status are 0 (MA-22.2).
    ///
    /// # Errors
    /// When it has no replicas (MA-20.4).
    pub(super) fn numbers(&self) -> Result<SetCounts, StepError> {
        let set = &self.after;
        Ok(SetCounts {
            name: set.name().to_owned(),
            created: created(set),
            spec: replicas(set)?,
            machines: set.status_replicas().unwrap_or_default(),
            available: number(set, paths::status::AVAILABLE_REPLICAS).unwrap_or_default(),
            intent: None,
        })
    }
}

/// The sets that a deployment selects or controls, sorted by name, without those of other controllers; orphans are
/// adopted (MA-20.3).
///
/// # Errors
/// When MachineSets are not listed yet, or the selector is empty or invalid.
pub(super) fn sets(
    context: &StepContext<'_>,
    deployment: &Object,
    cluster: &ObjectKey,
) -> Result<Vec<SetDraft>, StepError> {
    let kind = GroupKind::core("MachineSet");
    let selector = selector(deployment)?;
    let controlled = context.owned(&kind, deployment.uid())?;
    let mut sets: BTreeMap<String, SetDraft> = BTreeMap::new();
    for set in controlled.into_iter().chain(context.of_cluster(&kind, cluster)?) {
        let is_ours = is_controlled_by(&set, deployment);
        if !is_ours && (set.controller().is_some() || !selector.selects(&set)?) {
            continue;
        }
        let mut after = (*set).clone();
        if !is_ours && !set.is_being_deleted() && !deployment.is_being_deleted() {
            set_owner(&mut after, owner(deployment, true), deployment);
        }
        sets.insert(set.name().to_owned(), SetDraft { before: Some(set), after });
    }
    Ok(sets.into_values().collect())
}

/// Removes the new set from all sets: the largest, then oldest, with an equal template that was created at or after
/// `rollout.after`, once that has passed (MA-21.3). Without one, returns the reasons for creating a set.
pub(super) fn choose(
    deployment: &Object,
    sets: &mut Vec<SetDraft>,
    rollout_after: Option<Moment>,
    now: Moment,
) -> Result<SetDraft, NoCurrentSet> {
    let begun = rollout_after.filter(|after| *after <= now);
    let size = |set: &Object| set.replicas().unwrap_or_default();
    sets.sort_by_key(|set| (Reverse(size(&set.after)), created(&set.after), set.after.name().to_owned()));
    let is_new = |set: &SetDraft| {
        differences(&set.after, deployment).is_empty() && begun.is_none_or(|begun| created(&set.after) >= Some(begun))
    };
    match sets.iter().position(is_new) {
        Some(position) => Ok(sets.remove(position)),
        None => Err(reason(deployment, sets.first())),
    }
}

/// The reason for creating a MachineSet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoCurrentSet {
    #[error("no MachineSets exist for the MachineDeployment")]
    NoSets,
    #[error("spec.rollout.after has passed")]
    RolloutAfter,
    /// The differences of the largest set from the template.
    #[error("{}", .0.join("; "))]
    Outdated(Vec<String>),
}

fn reason(deployment: &Object, largest: Option<&SetDraft>) -> NoCurrentSet {
    let Some(largest) = largest else { return NoCurrentSet::NoSets };
    match differences(&largest.after, deployment) {
        lines if lines.is_empty() => NoCurrentSet::RolloutAfter,
        lines => NoCurrentSet::Outdated(lines),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(name: &str, version: &str, size: i64, day: u8) -> SetDraft {
        let after = Object::try_from(json!({
            "metadata": {"name": name, "creationTimestamp": format!("2030-01-{day:02}T00:00:00Z")},
            "spec": {"replicas": size, "template": {"spec": {"version": version}}},
        }));
        SetDraft { before: None, after: after.unwrap() }
    }

    #[test]
    fn the_new_set_is_the_largest_and_then_the_oldest_of_the_equal_ones() {
        // MA-21.3
        let deployment = Object::try_from(json!({"spec": {"template": {"spec": {"version": "v1"}}}})).unwrap();
        let day = |day: u8| Moment::parse(&format!("2030-01-{day:02}T00:00:00Z"));
        for (case, sets, after, want) in [
            ("no set", vec![], None, Err("no MachineSets exist for the MachineDeployment")),
            ("none is equal", vec![set("a", "v0", 3, 1)], None, Err("Version v0, v1 required")),
            ("the larger one", vec![set("a", "v1", 1, 1), set("b", "v1", 2, 2), set("c", "v0", 9, 1)], None, Ok("b")),
            ("the older one", vec![set("a", "v1", 1, 3), set("b", "v1", 1, 2)], None, Ok("b")),
            ("the first name", vec![set("b", "v1", 1, 2), set("a", "v1", 1, 2)], None, Ok("a")),
            ("after is to come", vec![set("a", "v1", 2, 1)], day(20), Ok("a")),
            ("after has passed", vec![set("a", "v1", 2, 1)], day(5), Err("spec.rollout.after has passed")),
            ("made since", vec![set("a", "v1", 2, 1), set("b", "v1", 1, 5)], day(5), Ok("b")),
        ] {
            let mut sets = sets;
            let chosen = choose(&deployment, &mut sets, after, day(10).unwrap());
            let reason = chosen.as_ref().err().map(ToString::to_string).unwrap_or_default();
            let name = chosen.as_ref().map(|set| set.after.name()).map_err(|_| &*reason);
            assert_eq!(name, want, "{case}");
            assert!(sets.iter().all(|set| Ok(set.after.name()) != name), "{case}");
        }
    }
}

//! Topologies that are added to existing Clusters, and topologies that change their class (CL-V-060 to CL-V-062,
//! DEC-25).

use super::topology_change::{ClassifiedChange, class};
use crate::admission::ListedRule;
use model::hub::{Cluster, Kind, annotation, compatibility};
use model::world::Found;
use schema::field::{Findings, RuleId};

const STARTS: RuleId = "CL-V-060";
const OLD_CLASS: RuleId = "CL-V-061";
const COMPATIBLE: RuleId = "CL-V-062";

/// The rules of this file in the order in which they run.
pub(super) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    [
        (STARTS, "existing_cluster_starts_from_a_topology"),
        (OLD_CLASS, "previous_class_can_be_read"),
        (COMPATIBLE, "new_class_is_compatible_with_the_previous_one"),
    ]
    .into_iter()
    .map(|(id, name)| ListedRule { id, name, kind: Some(Kind::Cluster) })
}

/// An existing Cluster had a topology before, or has the annotation to adopt one (CL-V-060).
///
/// Returns whether an old topology exists.
pub(super) fn starts_from_a_topology(change: &ClassifiedChange<'_>, old: &Cluster, found: &mut Findings) -> bool {
    if old.topology().is_some_and(|topology| !topology.class_ref.name.is_empty()) {
        return true;
    }
    found.run(STARTS, |found| {
        if change.change.new.annotation(annotation::DISABLE_CLASS_NAME_CHECK).is_none() {
            let detail = format!(
                "a topology cannot be added to an existing Cluster without the annotation {}",
                annotation::DISABLE_CLASS_NAME_CHECK
            );
            found.forbidden(class(), detail);
        }
    });
    false
}

/// A Cluster that changes its class moves to one that is compatible.
pub(super) fn validate(change: &ClassifiedChange<'_>, old: &Cluster, found: &mut Findings) {
    let Some(old_key) = old.class_key().filter(|old| old != change.key) else { return };
    let reason = match change.change.world.class_at_once(&old_key) {
        Found::Yes(current) => {
            found.run(COMPATIBLE, |found| compatibility::check(&current.spec, &change.class.spec, found));
            return;
        }
        Found::Absent => "it does not exist".to_owned(),
        Found::Unreadable(reason) => reason,
        Found::NotAsked => return,
    };
    found.run(OLD_CLASS, |found| {
        let detail = format!(
            "cannot move from ClusterClass {old_key} to {}: the former cannot be compared: {reason}",
            change.key
        );
        found.forbidden(class(), detail);
    });
}

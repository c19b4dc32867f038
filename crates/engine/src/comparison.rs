//! Comparison of two states of a fleet: the changes of each Cluster, grouped and summed up (DEC-48).
//!
//! ```text
//! before ─┐
//!         ├─ compare() ─► ClusterReport ─► ChangeGroup (names.rs: without names of the Cluster) ─► ComparisonReport
//! after ──┘                 ▲
//!                           └─ class_samples.rs, class_changes.rs: classes that no Cluster uses
//! ```

pub mod changed_values;
mod class_changes;
pub mod class_samples;
pub mod cluster_report;
pub mod file_edits;
pub mod groups;
pub mod held_edit;
mod names;
pub mod report;

use self::cluster_report::ClusterReport;
use crate::topology::plan::{Rollout, TopologySimulator};
use model::hub::ObjectKey;
use model::world::Found;

/// Plans one Cluster independently of others, from its state before a change to the one after it.
pub fn compare(cluster: &ObjectKey, before: &TopologySimulator, after: &TopologySimulator) -> ClusterReport {
    let is_alone = [before, after].iter().all(|side| side.is_only_writer(cluster));
    let start = |side: &TopologySimulator| match is_alone {
        true => side.clone().without_managed_fields(),
        false => side.clone(),
    };
    let mut old = start(before);
    let (is_old, is_new) = (exists(before, cluster), exists(after, cluster));
    let settled = if is_old { old.settle(cluster) } else { Rollout::default() };
    if !is_new {
        return ClusterReport::deleted(cluster, &old);
    }
    let mut new = start(after);
    if is_old {
        new.take_over(cluster, &old);
    }
    let outcome = new.roll_out(cluster);
    ClusterReport::new(cluster, before, after, settled, outcome)
}

fn exists(fold: &TopologySimulator, cluster: &ObjectKey) -> bool {
    matches!(fold.facts().cluster(cluster), Found::Yes(_) | Found::Unreadable(_))
}

//! Holds on the deletion of Clusters: which ones a run writes, and which ones it removes (DEC-56).

use std::time::Duration;

use engine::topology::hooks::DeletionGuard;
use golang::calendar::Moment;
use model::hub::deletion_hold::lacks_hold;
use model::hub::{Cluster, DeletionHold};

/// How Clusters that are being deleted wait for their hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletions {
    pub guard: DeletionGuard,
    /// How long a Cluster that is not being deleted keeps its hold.
    pub hold_lifetime: Duration,
}

impl Default for Deletions {
    fn default() -> Self {
        Deletions { guard: DeletionGuard::default(), hold_lifetime: Duration::from_mins(1) }
    }
}

/// What a run decided about the deletion of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeletionChange {
    None,
    /// The hooks have passed: `ok-to-delete` is set and the hold goes. Both is one write, so that a crash in between
    /// loses neither.
    Permit,
    /// The hold goes.
    DropHold,
    Hold(DeletionHold),
}

/// How long a Cluster that is not being deleted keeps a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldStanding {
    /// There is none, or the Cluster is being deleted.
    None,
    Until(Duration),
    Over,
}

impl Deletions {
    /// The hold that a Cluster lacks while its hooks block its deletion: it was being deleted before topologist took
    /// over, or no webhook was called. Cluster API's core may have deleted some objects by then.
    pub(super) fn missing_hold(&self, cluster: &Cluster, now: Moment) -> DeletionChange {
        let metadata = &cluster.metadata;
        match self.guard == DeletionGuard::Hold && lacks_hold(metadata) {
            true => DeletionChange::Hold(DeletionHold::new(&metadata.uid, now)),
            false => DeletionChange::None,
        }
    }

    /// How long to keep the hold of a Cluster that was not deleted: another webhook may have denied the deletion. A
    /// deletion that arrives while the hold is being removed is not lost: kube-apiserver reviews it again after that
    /// write, or rejects the write.
    pub(super) fn standing(&self, cluster: &Cluster, now: Moment) -> HoldStanding {
        let metadata = &cluster.metadata;
        let Some(hold) = DeletionHold::from_metadata(metadata).filter(|_| !metadata.is_being_deleted()) else {
            return HoldStanding::None;
        };
        let lifetime = i64::try_from(self.hold_lifetime.as_secs()).unwrap_or(i64::MAX);
        let left = hold.remaining_seconds(&metadata.uid, lifetime, now);
        left.map_or(HoldStanding::Over, |seconds| HoldStanding::Until(Duration::from_secs(seconds.unsigned_abs())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::reconciler::topology::write::cluster_patch;
    use model::hub::{Object, annotation};

    const HOLD: &str = "topologist.dev/before-cluster-delete uid=u-1 since=2030-01-01T00:00:00Z";

    fn at(text: &str) -> Moment {
        Moment::parse(text).unwrap()
    }

    fn raw(annotations: Value, deletion: Value) -> Object {
        let metadata = json!({"uid": "u-1", "annotations": annotations, "deletionTimestamp": deletion});
        Object::try_from(json!({"metadata": metadata})).unwrap()
    }

    fn decoded(raw: &Object) -> Cluster {
        serde_json::from_value(Object::as_ref(raw).clone()).unwrap()
    }

    fn written(raw: &Object, change: &DeletionChange) -> Value {
        cluster_patch(raw, &decoded(raw), None, change, None).applied()["metadata"]["annotations"].take()
    }

    #[test]
    fn permission_and_release_are_one_write_which_leaves_the_pause_of_a_user() {
        // HK-22, DEC-56
        let (mine, other) = (annotation::PAUSED, annotation::OK_TO_DELETE);
        for (before, change, after) in [
            (json!({mine: HOLD, "a": "b"}), DeletionChange::Permit, json!({other: "", "a": "b"})),
            (json!({mine: "by me"}), DeletionChange::Permit, json!({other: "", mine: "by me"})),
            (json!(null), DeletionChange::Permit, json!({other: ""})),
            (json!({mine: HOLD}), DeletionChange::DropHold, json!({})),
            (json!({mine: ""}), DeletionChange::DropHold, json!({mine: ""})),
            (json!({mine: HOLD}), DeletionChange::None, json!({mine: HOLD})),
            (json!(null), DeletionChange::Hold(DeletionHold::parse(HOLD).unwrap()), json!({mine: HOLD})),
        ] {
            assert_eq!(written(&raw(before.clone(), json!(null)), &change), after, "{before} {change:?}");
        }
    }

    #[test]
    fn a_hold_ends_after_its_lifetime_unless_its_cluster_is_being_deleted() {
        // DEC-56
        let deletions = Deletions::default();
        let held = || json!({annotation::PAUSED: HOLD});
        let since = json!("2030-01-01T00:00:00Z");
        for (annotations, deletion, now, want) in [
            (held(), json!(null), "2030-01-01T00:00:10Z", HoldStanding::Until(Duration::from_secs(50))),
            (held(), json!(null), "2030-01-01T00:01:00Z", HoldStanding::Over),
            (held(), since, "2031-01-01T00:00:00Z", HoldStanding::None),
            (
                json!({annotation::PAUSED: HOLD.replace("u-1", "u-2")}),
                json!(null),
                "2030-01-01T00:00:00Z",
                HoldStanding::Over,
            ),
            (json!({annotation::PAUSED: "by me"}), json!(null), "2031-01-01T00:00:00Z", HoldStanding::None),
            (json!({}), json!(null), "2031-01-01T00:00:00Z", HoldStanding::None),
        ] {
            let cluster = decoded(&raw(annotations, deletion));
            assert_eq!(deletions.standing(&cluster, at(now)), want, "{cluster:?} {now}");
        }
    }

    #[test]
    fn only_where_holds_are_written_a_missing_one_is_written_late() {
        // DEC-56
        let now = at("2030-01-01T00:00:00Z");
        let of = |guard, annotations| {
            let cluster = decoded(&raw(annotations, json!("2030-01-01T00:00:00Z")));
            Deletions { guard, ..Deletions::default() }.missing_hold(&cluster, now)
        };
        let hold = DeletionChange::Hold(DeletionHold::parse(HOLD).unwrap());
        assert_eq!(of(DeletionGuard::Hold, json!({})), hold);
        assert_eq!(of(DeletionGuard::Hold, json!({annotation::PAUSED: HOLD})), DeletionChange::None);
        assert_eq!(of(DeletionGuard::Controller, json!({})), DeletionChange::None);
        assert_eq!(of(DeletionGuard::Nothing, json!({})), DeletionChange::None);
    }
}

//! The hold on the deletion of a Cluster: a value of `cluster.x-k8s.io/paused` (DEC-56).
//!
//! Cluster API's core manager leaves a Cluster with this annotation alone. So a Cluster that is being deleted keeps everything that
//! belongs to it until its hooks `BeforeClusterDelete` have passed.

use std::fmt;

use super::{Metadata, annotation};
use golang::calendar::Moment;

/// What every hold begins with.
pub const PREFIX: &str = "topologist.dev/before-cluster-delete";
/// How many seconds the clock of the process that wrote a hold may be ahead.
const SKEW_SECONDS: i64 = 60;

/// A hold on the deletion of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionHold {
    /// The uid of the Cluster that it was written for: a copy of the Cluster has another one.
    pub uid: String,
    pub since: Moment,
}

impl fmt::Display for DeletionHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX} uid={} since={}", self.uid, self.since)
    }
}

impl DeletionHold {
    /// A hold on a Cluster from now on. A hold has whole seconds, as other times of objects do.
    pub fn new(uid: &str, now: Moment) -> Self {
        DeletionHold { uid: uid.to_owned(), since: Moment { nanos: 0, ..now } }
    }

    /// Reads the value of an annotation; `None` for one that topologist did not write.
    pub fn read(value: &str) -> Option<Self> {
        let rest = value.strip_prefix(PREFIX)?;
        let (uid, since) = rest.strip_prefix(" uid=")?.split_once(" since=")?;
        Some(DeletionHold { uid: uid.to_owned(), since: Moment::parse(since)? })
    }

    /// The hold on an object with this metadata, also one that was written for another object.
    pub fn of(metadata: &Metadata) -> Option<Self> {
        DeletionHold::read(metadata.annotations.get(annotation::PAUSED)?)
    }

    /// For how many seconds the hold still counts on a Cluster that is not being deleted: the request that it was written for may be
    /// under way. `None` when its lifetime is over, it is from the future, or it was written for another object.
    pub fn remaining_seconds(&self, uid: &str, lifetime: i64, now: Moment) -> Option<i64> {
        let left = lifetime.checked_sub(now.seconds.checked_sub(self.since.seconds)?)?;
        let is_plausible = left > 0 && left <= lifetime.saturating_add(SKEW_SECONDS);
        (is_plausible && self.uid == uid).then_some(left)
    }
}

/// Whether a value of `cluster.x-k8s.io/paused` pauses a Cluster: a hold does not.
pub fn is_pause(value: &str) -> bool {
    DeletionHold::read(value).is_none()
}

/// Whether nothing keeps Cluster API's core from deleting what belongs to a Cluster, although its hooks have not passed: it has
/// neither `ok-to-delete` nor a pause, no hold of its own, and its hooks are not skipped.
pub fn lacks_hold(metadata: &Metadata) -> bool {
    let has = |name| metadata.annotations.get(name).is_some();
    let is_kept = match metadata.annotations.get(annotation::PAUSED) {
        Some(value) => DeletionHold::read(value).is_none_or(|hold| hold.uid == metadata.uid),
        None => false,
    };
    !is_kept && !has(annotation::OK_TO_DELETE) && !has(annotation::SKIP_DELETE_HOOKS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> Moment {
        Moment::parse(text).unwrap()
    }

    fn metadata(annotations: serde_json::Value) -> Metadata {
        serde_json::from_value(json!({"uid": "u-1", "annotations": annotations})).unwrap()
    }

    #[test]
    fn a_hold_is_read_as_it_was_written_and_other_values_are_pauses() {
        // DEC-56
        let hold = DeletionHold::new("u-1", at("2030-01-01T00:00:00.75Z"));
        let text = hold.to_string();
        assert_eq!(text, "topologist.dev/before-cluster-delete uid=u-1 since=2030-01-01T00:00:00Z");
        assert_eq!(DeletionHold::read(&text), Some(hold));
        assert!(!is_pause(&text));
        for other in [
            "",
            "true",
            "topologist.dev/before-cluster-delete",
            "topologist.dev/before-cluster-delete uid=u-1",
            "topologist.dev/before-cluster-delete uid=u-1 since=yesterday",
            "a topologist.dev/before-cluster-delete uid=u-1 since=2030-01-01T00:00:00Z",
        ] {
            assert!(is_pause(other), "{other}");
        }
    }

    #[test]
    fn a_hold_counts_for_its_lifetime_and_for_its_own_cluster() {
        // DEC-56
        let hold = DeletionHold::new("u-1", at("2030-01-01T00:00:00Z"));
        for (uid, now, want) in [
            ("u-1", "2030-01-01T00:00:00Z", Some(60)),
            ("u-1", "2030-01-01T00:00:59Z", Some(1)),
            ("u-1", "2030-01-01T00:01:00Z", None),
            ("u-1", "2031-01-01T00:00:00Z", None),
            // Another clock is ahead of ours: a little, or so much that the hold would stay for long.
            ("u-1", "2029-12-31T23:59:30Z", Some(90)),
            ("u-1", "2029-12-31T23:58:30Z", None),
            ("u-1", "1970-01-01T00:00:00Z", None),
            ("u-2", "2030-01-01T00:00:00Z", None),
        ] {
            assert_eq!(hold.remaining_seconds(uid, 60, at(now)), want, "{uid} {now}");
        }
    }

    #[test]
    fn a_hold_is_lacking_until_anything_else_keeps_the_core_away() {
        // DEC-56
        let hold = |uid: &str| DeletionHold::new(uid, at("2030-01-01T00:00:00Z")).to_string();
        for (annotations, want) in [
            (json!(null), true),
            (json!({"other": ""}), true),
            (json!({annotation::PAUSED: hold("u-1")}), false),
            // A copy of a Cluster, or one that was restored.
            (json!({annotation::PAUSED: hold("u-2")}), true),
            (json!({annotation::PAUSED: ""}), false),
            (json!({annotation::PAUSED: "by me"}), false),
            (json!({annotation::OK_TO_DELETE: ""}), false),
            (json!({annotation::SKIP_DELETE_HOOKS: ""}), false),
            (json!({annotation::SKIP_DELETE_HOOKS: "", annotation::PAUSED: hold("u-2")}), false),
        ] {
            assert_eq!(lacks_hold(&metadata(annotations.clone())), want, "{annotations}");
        }
    }
}

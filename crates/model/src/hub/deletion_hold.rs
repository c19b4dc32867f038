//! The hold on the deletion of a Cluster: a value of `cluster.x-k8s.io/paused` (DEC-56).
//!
//! Cluster API's core manager does not reconcile a Cluster with this annotation. So a Cluster that is being deleted
//! keeps its objects until its hooks `BeforeClusterDelete` have passed.

use std::fmt;

use super::{Metadata, annotation};
use golang::calendar::Moment;

/// Prefix of every hold.
pub const PREFIX: &str = "topologist.dev/before-cluster-delete";
/// Maximum clock skew of the writer of a hold, in seconds.
const SKEW_SECONDS: i64 = 60;

/// A hold on the deletion of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionHold {
    /// The uid of the held Cluster: a copy of the Cluster has a different one.
    pub uid: String,
    pub since: Moment,
}

impl fmt::Display for DeletionHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX} uid={} since={}", self.uid, self.since)
    }
}

impl DeletionHold {
    /// A hold that starts now, in whole seconds like other timestamps of objects.
    pub fn new(uid: &str, now: Moment) -> Self {
        DeletionHold { uid: uid.to_owned(), since: Moment { nanos: 0, ..now } }
    }

    /// Parses the value of the annotation; `None` if it is not a hold.
    pub fn parse(value: &str) -> Option<Self> {
        let rest = value.strip_prefix(PREFIX)?;
        let (uid, since) = rest.strip_prefix(" uid=")?.split_once(" since=")?;
        Some(DeletionHold { uid: uid.to_owned(), since: Moment::parse(since)? })
    }

    /// The hold in an object's metadata, even if it was written for another object.
    pub fn from_metadata(metadata: &Metadata) -> Option<Self> {
        DeletionHold::parse(metadata.annotations.get(annotation::PAUSED)?)
    }

    /// The remaining validity of the hold on a Cluster that is not being deleted, in seconds: the delete request may
    /// still be pending. `None` if it has expired, is from the future, or was written for another object.
    pub fn remaining_seconds(&self, uid: &str, lifetime: i64, now: Moment) -> Option<i64> {
        let left = lifetime.checked_sub(now.seconds.checked_sub(self.since.seconds)?)?;
        let is_plausible = left > 0 && left <= lifetime.saturating_add(SKEW_SECONDS);
        (is_plausible && self.uid == uid).then_some(left)
    }
}

/// Whether a value of `cluster.x-k8s.io/paused` pauses a Cluster: a hold does not.
pub fn is_pause(value: &str) -> bool {
    DeletionHold::parse(value).is_none()
}

/// Whether Cluster API's core may delete the objects of a Cluster although its hooks have not passed: it has neither
/// `ok-to-delete` nor a pause nor a valid hold, and its hooks are not skipped.
pub fn lacks_hold(metadata: &Metadata) -> bool {
    let has = |name| metadata.annotations.get(name).is_some();
    let is_kept = match metadata.annotations.get(annotation::PAUSED) {
        Some(value) => DeletionHold::parse(value).is_none_or(|hold| hold.uid == metadata.uid),
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
        assert_eq!(DeletionHold::parse(&text), Some(hold));
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
            // The clock of the writer is ahead: slightly, or so far that the hold would last too long.
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
            // A copied or restored Cluster.
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

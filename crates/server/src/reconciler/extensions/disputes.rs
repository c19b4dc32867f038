//! Results of discoveries that another controller overwrites, as Cluster API's core manager does in a take-over
//! (DEC-92).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::config::{RawConfig, Revision};

/// Minimum time between two writes of a result that another controller overwrites.
const APART: Duration = Duration::from_mins(10);

/// The last written status of each ExtensionConfig.
#[derive(Debug, Default)]
pub(super) struct StatusDisputes(Mutex<HashMap<String, WrittenStatus>>);

#[derive(Debug)]
struct WrittenStatus {
    revision: Revision,
    result: Value,
    /// The resourceVersion of the ExtensionConfig before the write.
    replaced: String,
    at: Instant,
    is_reported: bool,
}

/// Whether a status that differs from the stored one is written now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteDecision {
    Write,
    /// The watch does not show the last write yet.
    Stale,
    /// Another controller has replaced the last write; `is_new` if that is not reported yet.
    Disputed {
        is_new: bool,
    },
}

impl StatusDisputes {
    /// Whether the status of an ExtensionConfig may be written.
    pub(super) fn turn(&self, config: &RawConfig) -> WriteDecision {
        let mut all = self.lock();
        let Some(written) = all.get_mut(config.object.name()) else { return WriteDecision::Write };
        if written.revision != config.revision() || written.at.elapsed() >= APART {
            return WriteDecision::Write;
        }
        match () {
            () if written.replaced == config.version() => WriteDecision::Stale,
            () if written.result == result(config.value().get("status")) => WriteDecision::Write,
            () => WriteDecision::Disputed { is_new: !std::mem::replace(&mut written.is_reported, true) },
        }
    }

    /// Notes the status that replaced that of `config`.
    pub(super) fn wrote(&self, config: &RawConfig, status: &Value) {
        let (revision, replaced) = (config.revision(), config.version().to_owned());
        let written =
            WrittenStatus { revision, result: result(Some(status)), replaced, at: Instant::now(), is_reported: false };
        self.lock().insert(config.object.name().to_owned(), written);
    }

    /// Removes a deleted ExtensionConfig.
    pub(super) fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, WrittenStatus>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a discovery: handlers and conditions, without times.
fn result(status: Option<&Value>) -> Value {
    let conditions = status.and_then(|status| status.get("conditions")?.as_array()).into_iter().flatten();
    let ours = conditions.filter(|condition| condition["type"] == "Discovered" || condition["type"] == "Paused");
    let values = ours.map(|condition| json!([condition["type"], condition["status"], condition["message"]]));
    json!({"handlers": status.and_then(|status| status.get("handlers")), "conditions": values.collect::<Vec<_>>()})
}

/// A summary of the discovery in the status of an ExtensionConfig.
pub(super) fn summary(status: Option<&Value>) -> String {
    let conditions = status.and_then(|status| status.get("conditions")?.as_array()).into_iter().flatten();
    let discovered = conditions.into_iter().find(|condition| condition["type"] == "Discovered");
    let status = discovered.and_then(|condition| condition["status"].as_str()).unwrap_or("Unknown");
    format!("Discovered={}", if matches!(status, "True" | "False") { status } else { "Unknown" })
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// An ExtensionConfig at a version and generation, with this status of its condition.
    fn config(version: u64, generation: i64, discovered: &str) -> RawConfig {
        let metadata =
            json!({"name": "lab", "uid": "u", "generation": generation, "resourceVersion": version.to_string()});
        serde_json::from_value(json!({"metadata": metadata, "status": status(discovered)})).unwrap()
    }

    fn status(discovered: &str) -> Value {
        let condition = |kind: &str, status: &str| {
            json!({"type": kind, "status": status, "message": "",
                "lastTransitionTime": "now"})
        };
        json!({"conditions": [condition("Discovered", discovered), condition("Other", discovered)], "handlers": []})
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_controllers_that_disagree_one_writes_every_ten_minutes() {
        // DEC-92: the other one replaces each result at once.
        let (disputes, mut version, mut writes, mut reports) = (StatusDisputes::default(), 1, Vec::new(), 0);
        for second in 0..1_300_u64 {
            let stored = config(version, 1, "True");
            match disputes.turn(&stored) {
                WriteDecision::Write => {
                    disputes.wrote(&stored, &status("False"));
                    writes.push(second);
                    assert_eq!(disputes.turn(&stored), WriteDecision::Stale, "the watch shows it later");
                    version += 2;
                }
                WriteDecision::Disputed { is_new } => reports += u32::from(is_new),
                WriteDecision::Stale => panic!("the watch has shown it"),
            }
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!((writes, reports), (vec![0, 600, 1_200], 3));
    }

    #[tokio::test(start_paused = true)]
    async fn results_that_stay_and_new_generations_are_written_at_once() {
        // DEC-92
        let disputes = StatusDisputes::default();
        disputes.wrote(&config(1, 1, "True"), &status("False"));
        assert_eq!(disputes.turn(&config(2, 1, "False")), WriteDecision::Write, "the extension has come back");
        assert_eq!(disputes.turn(&config(3, 1, "True")), WriteDecision::Disputed { is_new: true });
        assert_eq!(disputes.turn(&config(4, 2, "True")), WriteDecision::Write, "a user has edited it");
        disputes.forget("lab");
        assert_eq!(disputes.turn(&config(3, 1, "True")), WriteDecision::Write);
    }

    #[test]
    fn a_summary_has_no_text_of_others() {
        assert_eq!(summary(Some(&status("True"))), "Discovered=True");
        assert_eq!(summary(Some(&status("\u{1b}[2J"))), "Discovered=Unknown");
        assert_eq!(summary(None), "Discovered=Unknown");
    }
}

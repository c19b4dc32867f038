//! Other writers of the CA bundle, such as a GitOps tool or the CA injector of cert-manager. Each of their writes is
//! reverted, with growing pauses: two writers that revert each other at once would keep the API server busy (DEC-104).

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use tokio::time::Instant;
use tracing::warn;

use super::bundles::BundleHolder;
use crate::telemetry::metrics::Metrics;
use schema::field::shortened;

/// The pause after a first write, and the longest one.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);
/// Number of repeated writes without a longer pause: a person who applies old manifests does so once.
const PATIENCE: u32 = 3;
/// Time without another writer after which a dispute is over.
const OVER: Duration = Duration::from_mins(10);
/// Interval of log lines about the other writer.
const LOGGED_AGAIN: Duration = Duration::from_mins(5);

/// The bundle that was written last into an object, and how often it had to be written again.
#[derive(Debug)]
struct BundleDispute {
    bundle: String,
    again: u32,
    last: Instant,
    logged: Option<Instant>,
}

/// The last written bundle of each object.
#[derive(Debug, Default)]
pub(super) struct BundleDisputes(BTreeMap<BundleHolder, BundleDispute>);

impl BundleDisputes {
    /// Notes that a bundle is about to be written; returns the pause before the next write of the object. `writer` is
    /// the field manager of the current bundle.
    pub(super) fn write(
        &mut self,
        holder: BundleHolder,
        name: &str,
        bundle: &str,
        writer: Option<&str>,
        metrics: &Metrics,
    ) -> Duration {
        let now = Instant::now();
        let dispute = self.0.entry(holder).or_insert_with(|| BundleDispute {
            bundle: String::new(),
            again: 0,
            last: now,
            logged: None,
        });
        if dispute.bundle != bundle || now - dispute.last >= OVER {
            *dispute = BundleDispute { bundle: bundle.to_owned(), again: 0, last: now, logged: None };
            return PAUSE;
        }
        (dispute.again, dispute.last) = (dispute.again.saturating_add(1), now);
        metrics.bundle_disputes.inc();
        let pause = PAUSE.saturating_mul(2_u32.saturating_pow(dispute.again.saturating_sub(PATIENCE))).min(LONGEST);
        if dispute.logged.is_none_or(|logged| now - logged >= LOGGED_AGAIN) {
            dispute.logged = Some(now);
            let writer = shortened(writer.unwrap_or("unknown")).into_owned();
            warn!(
                kind = holder.kind(),
                name,
                writer,
                again = dispute.again,
                ?pause,
                "Another writer replaced the CA bundle"
            );
        }
        pause
    }
}

/// The field manager that last wrote a CA bundle into an object, if it is not `own`.
pub(super) fn writer<'e>(entries: &'e [ManagedFieldsEntry], own: &str) -> Option<&'e str> {
    let has_bundle = |entry: &&ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|fields| fields.0.to_string().contains("\"f:caBundle\""))
    };
    let others = entries.iter().filter(has_bundle).filter(|entry| entry.manager.as_deref() != Some(own));
    others.max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?.manager.as_deref()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use testing::Lines;

    #[tokio::test(start_paused = true)]
    async fn another_writer_is_named_and_each_object_has_pauses_of_its_own() {
        // DEC-104
        let ((lines, _guard), metrics) = (Lines::collect(), Metrics::default());
        let mut disputes = BundleDisputes::default();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let pause = disputes.write(BundleHolder::Mutating, "topologist", "b", Some("cainjector"), &metrics);
            pauses.push(pause.as_secs());
            tokio::time::advance(pause).await;
        }
        assert_eq!(pauses, [1, 1, 1, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(disputes.write(BundleHolder::Validating, "topologist", "b", None, &metrics), PAUSE);
        assert_eq!(metrics.bundle_disputes.get(), 11);
        let text = lines.text();
        assert_eq!(text.matches("cainjector").count(), 1, "{text}");
        assert_eq!(
            disputes.write(BundleHolder::Mutating, "topologist", "next", Some("cainjector"), &metrics),
            PAUSE,
            "a new CA"
        );
        tokio::time::advance(OVER).await;
        assert_eq!(disputes.write(BundleHolder::Mutating, "topologist", "next", None, &metrics), PAUSE);
    }

    #[test]
    fn the_last_other_manager_of_the_bundle_is_the_writer() {
        let entry = |manager: &str, time: &str, field: &str| {
            json!({"manager": manager, "time": time,
                "fieldsV1": {"f:webhooks": {"k:{}": {"f:clientConfig": {field: {}}}}}})
        };
        let entries: Vec<ManagedFieldsEntry> = serde_json::from_value(json!([
            entry("topologist", "2030-01-03T00:00:00Z", "f:caBundle"),
            entry("old", "2030-01-01T00:00:00Z", "f:caBundle"),
            entry("flux", "2030-01-02T00:00:00Z", "f:caBundle"),
            entry("kubectl", "2030-01-04T00:00:00Z", "f:service"),
        ]))
        .unwrap();
        assert_eq!(writer(&entries, "topologist"), Some("flux"));
        assert_eq!(writer(&entries[..1], "topologist"), None);
    }
}

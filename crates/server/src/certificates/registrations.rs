//! Whether the API server calls this installation at all: with a webhook configuration that is deleted, everything is
//! admitted, and no write fails.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tracing::{info, warn};

use super::bundles::{BundleHolder, Services};
use crate::telemetry::metrics::{self, Metrics};

/// Why the API server does not call this installation because of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RegistrationGap {
    /// The webhook configuration does not exist.
    Missing,
    /// No webhook of the configuration calls the Service.
    Elsewhere,
    /// The definition converts nothing.
    Unconverted,
}

impl RegistrationGap {
    fn text(self) -> &'static str {
        match self {
            RegistrationGap::Missing => "it does not exist, so writes are not reviewed",
            RegistrationGap::Elsewhere => "none of its webhooks calls the Service, so writes are not reviewed",
            RegistrationGap::Unconverted => {
                "its conversion strategy is None, so objects of other versions are stored and read as they are"
            }
        }
    }
}

/// The reported gaps.
#[derive(Debug, Default)]
pub(super) struct Registrations(BTreeMap<BundleHolder, RegistrationGap>);

impl Registrations {
    /// Compares the existing objects with the expected ones: logs changes, counts the gaps, and returns the message of
    /// an Event if there are new gaps.
    pub(super) fn update(
        &mut self,
        objects: &BTreeMap<BundleHolder, Value>,
        services: &Services,
        configurations: &str,
        metrics: &Metrics,
    ) -> Option<String> {
        let now = gaps(objects, services);
        for holder in self.0.keys().filter(|holder| !now.contains_key(holder)) {
            info!(kind = holder.kind(), name = holder.name(configurations), "The API server calls topologist again");
        }
        let mut new = Vec::new();
        for (holder, gap) in now.iter().filter(|(holder, gap)| self.0.get(holder) != Some(gap)) {
            let (kind, name, reason) = (holder.kind(), holder.name(configurations), gap.text());
            warn!(kind, name, reason, "The API server does not call topologist");
            new.push(format!("{kind} {name}: {reason}"));
        }
        let kinds: BTreeSet<&'static str> = BundleHolder::ALL.into_iter().map(BundleHolder::kind).collect();
        for kind in kinds {
            let count = now.keys().filter(|holder| holder.kind() == kind).count();
            metrics
                .missing_registrations
                .get_or_create(&metrics::Kind { kind })
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.0 = now;
        (!new.is_empty()).then(|| new.join("; "))
    }
}

/// The gaps of these objects. Definitions are optional, and another Service may convert their objects.
fn gaps(objects: &BTreeMap<BundleHolder, Value>, services: &Services) -> BTreeMap<BundleHolder, RegistrationGap> {
    let gap = |holder: BundleHolder| match (holder, objects.get(&holder)) {
        (BundleHolder::Definition(_), None) => None,
        (BundleHolder::Definition(_), Some(object)) => {
            let strategy = object.pointer("/spec/conversion/strategy").and_then(Value::as_str);
            (strategy != Some("Webhook")).then_some(RegistrationGap::Unconverted)
        }
        (_, None) => Some(RegistrationGap::Missing),
        (_, Some(object)) => holder.bundles(object, services).is_empty().then_some(RegistrationGap::Elsewhere),
    };
    BundleHolder::ALL.into_iter().filter_map(|holder| Some((holder, gap(holder)?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use testing::Lines;

    #[test]
    fn a_configuration_that_is_deleted_or_calls_another_service_is_reported_once() {
        // DEC-104
        let (lines, _guard) = Lines::collect();
        let (metrics, mut registrations) = (Metrics::default(), Registrations::default());
        let services =
            Services { namespace: "ns".to_owned(), webhook: "hook".to_owned(), conversion: "convert".to_owned() };
        let webhooks = |service: &str| {
            json!({"webhooks": [{"name": "w",
                "clientConfig": {"service": {"namespace": "ns", "name": service}}}]})
        };
        let clusters = BundleHolder::Definition("clusters.cluster.x-k8s.io");
        let definition = |strategy: &str| json!({"spec": {"conversion": {"strategy": strategy}}});
        let mut objects = BTreeMap::from([
            (BundleHolder::Mutating, webhooks("hook")),
            (BundleHolder::Validating, webhooks("hook")),
            (clusters, definition("Webhook")),
        ]);
        let mut update =
            |objects: &BTreeMap<BundleHolder, Value>| registrations.update(objects, &services, "topologist", &metrics);
        let count = |kind: &'static str| metrics.missing_registrations.get_or_create(&metrics::Kind { kind }).get();
        assert_eq!(update(&objects), None);
        objects.remove(&BundleHolder::Validating);
        objects.insert(clusters, definition("None"));
        let message = update(&objects).unwrap();
        assert!(
            message.contains("ValidatingWebhookConfiguration topologist: it does not exist")
                && message.contains("strategy is None"),
            "{message}"
        );
        assert_eq!((count("ValidatingWebhookConfiguration"), count("CustomResourceDefinition")), (1, 1));
        assert_eq!(update(&objects), None, "it is said once");
        objects.insert(BundleHolder::Validating, webhooks("other"));
        assert!(update(&objects).unwrap().contains("none of its webhooks calls the Service"));
        objects.insert(BundleHolder::Validating, webhooks("hook"));
        objects.insert(clusters, definition("Webhook"));
        assert_eq!(update(&objects), None);
        assert_eq!((count("ValidatingWebhookConfiguration"), count("CustomResourceDefinition")), (0, 0));
        let text = lines.text();
        assert_eq!((text.matches("WARN").count(), text.matches("calls topologist again").count()), (3, 2), "{text}");
    }
}

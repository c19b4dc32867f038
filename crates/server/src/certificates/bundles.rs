//! The CAs that the API server trusts: the caBundle of each webhook of this installation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// An object with a caBundle for calls to this installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BundleHolder {
    Mutating,
    Validating,
    /// The definition of this name, with its conversion.
    Definition(&'static str),
}

/// The Services of this installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Services {
    pub namespace: String,
    /// Where reviews go.
    pub webhook: String,
    /// Where conversions go.
    pub conversion: String,
}

impl BundleHolder {
    /// All of them; the definitions are those whose objects are converted.
    pub const ALL: [BundleHolder; 15] = [
        BundleHolder::Mutating,
        BundleHolder::Validating,
        BundleHolder::Definition("clusters.cluster.x-k8s.io"),
        BundleHolder::Definition("clusterclasses.cluster.x-k8s.io"),
        BundleHolder::Definition("extensionconfigs.runtime.cluster.x-k8s.io"),
        BundleHolder::Definition("embeddedclusters.infrastructure.topologist.dev"),
        BundleHolder::Definition("embeddedclustertemplates.infrastructure.topologist.dev"),
        BundleHolder::Definition("embeddedmachines.infrastructure.topologist.dev"),
        BundleHolder::Definition("embeddedmachinetemplates.infrastructure.topologist.dev"),
        BundleHolder::Definition("embeddedmachinepools.infrastructure.topologist.dev"),
        BundleHolder::Definition("embeddedmachinepooltemplates.infrastructure.topologist.dev"),
        BundleHolder::Definition("embeddedconfigs.bootstrap.topologist.dev"),
        BundleHolder::Definition("embeddedconfigtemplates.bootstrap.topologist.dev"),
        BundleHolder::Definition("embeddedcontrolplanes.controlplane.topologist.dev"),
        BundleHolder::Definition("embeddedcontrolplanetemplates.controlplane.topologist.dev"),
    ];

    /// The kind of the object.
    pub const fn kind(self) -> &'static str {
        match self {
            BundleHolder::Mutating => "MutatingWebhookConfiguration",
            BundleHolder::Validating => "ValidatingWebhookConfiguration",
            BundleHolder::Definition(_) => "CustomResourceDefinition",
        }
    }

    /// The API group of the object; its version is `v1`.
    pub const fn group(self) -> &'static str {
        match self {
            BundleHolder::Mutating | BundleHolder::Validating => "admissionregistration.k8s.io",
            BundleHolder::Definition(_) => "apiextensions.k8s.io",
        }
    }

    /// The name of the object; `configurations` is the name of the configurations.
    pub fn name(self, configurations: &str) -> String {
        match self {
            BundleHolder::Mutating | BundleHolder::Validating => configurations.to_owned(),
            BundleHolder::Definition(name) => name.to_owned(),
        }
    }

    /// The part of an object that is kept.
    pub(super) fn excerpt(self, object: &Value) -> Value {
        let kept = match self {
            BundleHolder::Mutating | BundleHolder::Validating => json!({"webhooks": object["webhooks"]}),
            BundleHolder::Definition(_) => {
                json!({"spec": {"conversion": object["spec"]["conversion"]}})
            }
        };
        let mut kept = kept;
        kept["metadata"] = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
        kept
    }

    /// The caBundle of each client configuration for this installation, as text; empty if absent.
    pub fn bundles(self, object: &Value, services: &Services) -> Vec<String> {
        self.clients(object, services).into_iter().map(|(_, client)| bundle_of(client)).collect()
    }

    /// The patch that sets `bundle` in all these client configurations; `None` if they have it. It applies to this
    /// version of the object only.
    pub fn patch(self, object: &Value, services: &Services, bundle: &str) -> Option<Value> {
        let outdated = self.clients(object, services).into_iter().filter(|(_, client)| bundle_of(client) != bundle);
        let names: Vec<&str> = outdated.map(|(name, _)| name).collect();
        if names.is_empty() {
            return None;
        }
        let encoded = STANDARD.encode(bundle);
        let mut patch = match self {
            // A strategic merge goes by the names of the webhooks.
            BundleHolder::Mutating | BundleHolder::Validating => {
                let webhook = |name: &&str| json!({"name": name, "clientConfig": {"caBundle": encoded}});
                json!({"webhooks": names.iter().map(webhook).collect::<Vec<_>>()})
            }
            BundleHolder::Definition(_) => {
                json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": encoded}}}}})
            }
        };
        patch["metadata"] = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
        Some(patch)
    }

    /// The client configurations of an object for this installation, by name.
    fn clients<'a>(self, object: &'a Value, services: &Services) -> Vec<(&'a str, &'a Map<String, Value>)> {
        let is_ours = |client: &Map<String, Value>, name: &str| {
            let service = client.get("service");
            let text = |key: &str| service.and_then(|service| service.get(key)).and_then(Value::as_str);
            text("namespace") == Some(&services.namespace) && text("name") == Some(name)
        };
        match self {
            BundleHolder::Mutating | BundleHolder::Validating => {
                let webhooks = object.get("webhooks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let parts = |webhook: &'a Value| {
                    Some((webhook.get("name")?.as_str()?, webhook.get("clientConfig")?.as_object()?))
                };
                webhooks.iter().filter_map(parts).filter(|(_, client)| is_ours(client, &services.webhook)).collect()
            }
            BundleHolder::Definition(_) => {
                let client = object.pointer("/spec/conversion/webhook/clientConfig").and_then(Value::as_object);
                client
                    .filter(|client| is_ours(client, &services.conversion))
                    .map(|client| ("", client))
                    .into_iter()
                    .collect()
            }
        }
    }
}

fn bundle_of(client: &Map<String, Value>) -> String {
    let encoded = client.get("caBundle").and_then(Value::as_str).unwrap_or_default();
    String::from_utf8(STANDARD.decode(encoded).unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services() -> Services {
        let name = |text: &str| text.to_owned();
        Services { namespace: name("ns"), webhook: name("topologist"), conversion: name("topologist-conversion") }
    }

    fn service(namespace: &str, name: &str, bundle: Option<&str>) -> Value {
        let bundle = bundle.map(|bundle| STANDARD.encode(bundle));
        json!({"service": {"namespace": namespace, "name": name, "path": "/x"}, "caBundle": bundle})
    }

    #[test]
    fn only_webhooks_that_call_our_service_get_the_bundle() {
        let object = json!({"metadata": {"resourceVersion": "7", "name": "topologist"}, "webhooks": [
            {"name": "none.yet", "clientConfig": service("ns", "topologist", None)},
            {"name": "current", "clientConfig": service("ns", "topologist", Some("new"))},
            {"name": "outdated", "clientConfig": service("ns", "topologist", Some("old"))},
            {"name": "not.utf8", "clientConfig": {"service": {"namespace": "ns", "name": "topologist"},
                "caBundle": "/w=="}},
            {"name": "another", "clientConfig": service("ns", "another", Some("old"))},
            {"name": "elsewhere", "clientConfig": service("other", "topologist", Some("old"))},
            {"name": "by.url", "clientConfig": {"url": "https://x", "caBundle": STANDARD.encode("old")}},
            {"name": "broken"},
        ]});
        for holder in [BundleHolder::Mutating, BundleHolder::Validating] {
            let kept = holder.excerpt(&object);
            assert_eq!(holder.bundles(&kept, &services()), ["", "new", "old", ""]);
            let patch = holder.patch(&kept, &services(), "new").unwrap();
            let webhook = |name: &str| json!({"name": name, "clientConfig": {"caBundle": STANDARD.encode("new")}});
            let want = json!({"metadata": {"resourceVersion": "7"},
                "webhooks": [webhook("none.yet"), webhook("outdated"), webhook("not.utf8")]});
            assert_eq!(patch, want);
        }
        let current = json!({"webhooks": [{"name": "a", "clientConfig": service("ns", "topologist", Some("new"))}]});
        assert_eq!(BundleHolder::Mutating.patch(&current, &services(), "new"), None);
        assert_eq!(BundleHolder::Mutating.patch(&json!({}), &services(), "new"), None);
    }

    #[test]
    fn all_definitions_with_a_conversion_get_a_bundle() {
        // CONV-017
        let converted = model::crd::definitions().into_iter().filter(|one| one["spec"].get("conversion").is_some());
        let mut converted: Vec<String> =
            converted.map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        let holders = BundleHolder::ALL.into_iter().filter(|holder| matches!(holder, BundleHolder::Definition(_)));
        let mut holders: Vec<String> = holders.map(|holder| holder.name("topologist")).collect();
        converted.sort();
        holders.sort();
        assert_eq!(holders, converted);
    }

    #[test]
    fn only_definitions_whose_conversion_calls_our_service_get_a_bundle() {
        let holder = BundleHolder::Definition("clusters.cluster.x-k8s.io");
        assert_eq!(holder.name("topologist"), "clusters.cluster.x-k8s.io");
        let definition = |client: Value| {
            json!({"metadata": {"resourceVersion": "7"}, "spec": {"versions": ["large"],
                "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": client}}}})
        };
        let ours = holder.excerpt(&definition(service("ns", "topologist-conversion", Some("old"))));
        assert!(!ours.to_string().contains("large"));
        assert_eq!(holder.bundles(&ours, &services()), ["old"]);
        let want = json!({"metadata": {"resourceVersion": "7"},
            "spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": STANDARD.encode("new")}}}}});
        assert_eq!(holder.patch(&ours, &services(), "new"), Some(want));
        for other in [definition(service("capi-system", "capi-webhook-service", Some("old"))), json!({"spec": {}})] {
            assert_eq!(holder.bundles(&other, &services()), [""; 0]);
            assert_eq!(holder.patch(&other, &services(), "new"), None);
        }
    }
}

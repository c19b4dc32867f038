//! The webhooks of the embedded API: the router of the server, called in the process.
//!
//! [`hooks`] lists the reviewed writes, and `manifests/webhooks/webhooks.yaml` does for kube-apiserver; a test
//! compares the two. There is no conversion before a review: every end point reads both versions.

use std::fmt;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use apiserver::{Admission, AdmissionAttributes, AdmissionPhase, ReviewCallError, Webhook};
use engine::admission::{Phase as HookPhase, WebhookRules, webhook_rules};
use engine::extensions::config::{CONFIG_GROUP, CONFIG_KIND};
use model::hub::GROUP;
use model::hub::contract::plural;
use server::webhook::{extension_configs, scales, template_deletions, templates};

/// Timeout of a review, in seconds.
const TIMEOUT: u32 = 10;

/// The webhook for scales of worker sets, and their resources.
const SCALE: &str = "scale.worker-sets.topologist.dev";
const SCALED: [&str; 2] = ["machinedeployments", "machinepools"];

/// The name of a webhook in its configuration.
fn name(hook: &WebhookRules) -> String {
    let phase = match hook.phase {
        HookPhase::Default => "default",
        HookPhase::Validate => "validation",
    };
    // A hook with `matchPolicy: Exact` names the version of the writes that it reviews.
    let version = hook.versions.first().filter(|_| hook.is_exact).map(|version| format!(".{version}"));
    format!("{phase}{}.{}.topologist.dev", version.unwrap_or_default(), hook.kind.name().to_lowercase())
}

/// Whether the hook is called for a write.
fn matches(hook: &WebhookRules, phase: AdmissionPhase, attributes: &AdmissionAttributes<'_>) -> bool {
    let is_phase = match hook.phase {
        HookPhase::Default => phase == AdmissionPhase::Mutating,
        HookPhase::Validate => phase == AdmissionPhase::Validating,
    };
    is_phase
        && attributes.group == GROUP
        && attributes.resource == hook.kind.plural()
        && attributes.subresource.is_empty()
        && !attributes.namespace.is_empty()
        && hook.operations().iter().any(|operation| operation.name() == attributes.operation)
        && (!hook.is_exact || hook.versions.iter().any(|version| version.to_string() == attributes.version))
}

/// The webhook for a write of an ExtensionConfig, as in `manifests/components/extensions`; `None` for a deletion.
fn extension_config_webhook(phase: AdmissionPhase, attributes: &AdmissionAttributes<'_>) -> Option<Webhook> {
    let is_called = attributes.group == CONFIG_GROUP
        && attributes.resource == plural(CONFIG_KIND)
        && attributes.subresource.is_empty()
        && matches!(attributes.operation, "CREATE" | "UPDATE");
    let (wanted, name) = match phase {
        AdmissionPhase::Mutating => (HookPhase::Default, "default.extensionconfig.topologist.dev"),
        AdmissionPhase::Validating => (HookPhase::Validate, "validation.extensionconfig.topologist.dev"),
    };
    let mut end_points = extension_configs::END_POINTS.into_iter().filter(|_| is_called);
    let (_, _, path) = end_points.find(|(phase, version, _)| (*phase, *version) == (wanted, attributes.version))?;
    Some(Webhook { name: name.to_owned(), path: path.to_owned(), ignores_failure: false })
}

/// The webhook for a write of a possible template of a class, as in `manifests/components/templates`.
fn template_webhook(phase: AdmissionPhase, attributes: &AdmissionAttributes<'_>) -> Option<Webhook> {
    let is_template = phase == AdmissionPhase::Validating
        && attributes.subresource.is_empty()
        && !attributes.namespace.is_empty()
        && attributes.resource.ends_with("templates");
    let (name, path) = match attributes.operation {
        "CREATE" | "UPDATE" if is_template => ("impact.templates.topologist.dev", templates::PATH),
        "DELETE" if is_template => ("deletion.templates.topologist.dev", template_deletions::PATH),
        _ => return None,
    };
    Some(Webhook { name: name.to_owned(), path: path.to_owned(), ignores_failure: true })
}

/// The webhook for a scale of a worker set.
fn scale_webhook(phase: AdmissionPhase, attributes: &AdmissionAttributes<'_>) -> Option<Webhook> {
    let is_scale = phase == AdmissionPhase::Validating
        && (attributes.group, attributes.subresource, attributes.operation) == (GROUP, "scale", "UPDATE")
        && SCALED.contains(&attributes.resource);
    is_scale.then(|| Webhook { name: SCALE.to_owned(), path: scales::PATH.to_owned(), ignores_failure: true })
}

/// Admission by the end points of a router.
pub(super) struct InProcess {
    router: Router,
    hooks: Vec<WebhookRules>,
}

impl InProcess {
    /// Calls the end points of `router`; with `lifecycle` those for machines as well (MA-28).
    pub(super) fn new(router: Router, lifecycle: bool) -> Self {
        InProcess { router, hooks: webhook_rules(lifecycle) }
    }

    async fn ask(&self, webhook: &Webhook, review: &Value) -> Result<Value, ReviewCallError> {
        let uri = format!("{}?timeout={TIMEOUT}s", webhook.path);
        let request = Request::post(uri).header(header::CONTENT_TYPE, "application/json");
        let request =
            request.body(Body::from(review.to_string())).map_err(|error| ReviewCallError::Http(error.into()))?;
        let answer = match self.router.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        let code = answer.status();
        let body = answer.into_body().collect().await.map_err(|error| ReviewCallError::Http(error.into()))?.to_bytes();
        if code != StatusCode::OK {
            let body = String::from_utf8_lossy(&body).trim().to_owned();
            return Err(ReviewCallError::Status { code, body });
        }
        Ok(serde_json::from_slice(&body)?)
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

impl Admission for InProcess {
    fn webhooks(&self, phase: AdmissionPhase, attributes: &AdmissionAttributes<'_>) -> Vec<Webhook> {
        let matching = self.hooks.iter().filter(|hook| matches(hook, phase, attributes));
        let hooks =
            matching.map(|hook| Webhook { name: name(hook), path: hook.path.to_owned(), ignores_failure: false });
        let others = [template_webhook, extension_config_webhook, scale_webhook];
        hooks.chain(others.into_iter().filter_map(|webhook| webhook(phase, attributes))).collect()
    }

    fn review<'a>(&'a self, webhook: &'a Webhook, review: Value) -> BoxFuture<'a, Result<Value, ReviewCallError>> {
        async move {
            if is_merely_released(&review["request"]) {
                return Ok(json!({"apiVersion": review["apiVersion"], "kind": review["kind"],
                    "response": {"uid": review["request"]["uid"], "allowed": true}}));
            }
            self.ask(webhook, &review).await
        }
        .boxed()
    }
}

/// The opposite of the condition `not-merely-released`: an object that is being deleted can always lose its finalizers
/// (DEC-16).
fn is_merely_released(request: &Value) -> bool {
    let (object, old) = (&request["object"], &request["oldObject"]);
    request["operation"] == "UPDATE"
        && object.pointer("/metadata/deletionTimestamp").is_some()
        && object.get("spec") == old.get("spec")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use golang::yaml;

    /// What the configurations say, in the order in which it stands there.
    fn configured() -> Vec<Value> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/webhooks/webhooks.yaml");
        let text = std::fs::read_to_string(path).unwrap();
        let documents = yaml::documents(&text).into_iter().map(|document| document.unwrap().value);
        let is_of_rules = |(_, webhook): &(String, Value)| webhook["name"] != SCALE;
        let entries = documents.flat_map(|document| {
            let phase = document["kind"].as_str().unwrap().trim_end_matches("WebhookConfiguration").to_owned();
            let webhooks = document["webhooks"].as_array().unwrap().clone();
            webhooks.into_iter().map(move |webhook| (phase.clone(), webhook))
        });
        let entry = |(phase, webhook): (String, Value)| {
            assert_eq!(webhook["rules"].as_array().unwrap().len(), 1);
            assert_eq!((&webhook["failurePolicy"], &webhook["timeoutSeconds"]), (&json!("Fail"), &json!(TIMEOUT)));
            assert_eq!(webhook["matchConditions"][0]["name"], "not-merely-released");
            assert_eq!(webhook["matchConditions"].as_array().unwrap().len(), 1);
            let rule = &webhook["rules"][0];
            assert_eq!((&rule["apiGroups"], &rule["scope"]), (&json!([GROUP]), &json!("Namespaced")));
            json!([
                webhook["name"],
                phase,
                webhook["clientConfig"]["service"]["path"],
                rule["apiVersions"],
                webhook["matchPolicy"] == "Exact",
                rule["operations"],
                rule["resources"],
            ])
        };
        entries.filter(is_of_rules).map(entry).collect()
    }

    #[test]
    fn the_same_writes_are_reviewed_as_by_the_manifests() {
        let shown = |hook: &WebhookRules| {
            let phase = if hook.phase == HookPhase::Default { "Mutating" } else { "Validating" };
            let versions: Vec<String> = hook.versions.iter().map(ToString::to_string).collect();
            let operations: Vec<_> = hook.operations().iter().map(|operation| operation.name()).collect();
            json!([name(hook), phase, hook.path, versions, hook.is_exact, operations, [hook.kind.plural()]])
        };
        let ours: Vec<Value> = webhook_rules(false).iter().map(shown).collect();
        assert_eq!(configured(), ours);
    }

    #[test]
    fn scales_are_reviewed_as_by_the_manifests() {
        // DEC-113
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/webhooks/webhooks.yaml");
        let text = std::fs::read_to_string(path).unwrap();
        let documents = yaml::documents(&text).into_iter().map(|document| document.unwrap().value);
        let webhooks = documents.flat_map(|document| document["webhooks"].as_array().unwrap().clone());
        let scale = webhooks.into_iter().find(|webhook| webhook["name"] == SCALE).unwrap();
        let resources: Vec<String> = SCALED.iter().map(|resource| format!("{resource}/scale")).collect();
        assert_eq!(
            scale["rules"],
            json!([{"apiGroups": [GROUP], "apiVersions": ["v1beta2"], "operations": ["UPDATE"],
            "resources": resources, "scope": "Namespaced"}])
        );
        assert_eq!(scale["clientConfig"]["service"]["path"], scales::PATH);
        assert_eq!(scale["failurePolicy"], "Ignore");
    }

    #[test]
    fn a_write_is_sent_to_the_webhooks_that_select_it() {
        let admission = InProcess::new(Router::new(), false);
        for (phase, version, resource, subresource, operation, want) in [
            (AdmissionPhase::Mutating, "v1beta2", "clusters", "", "CREATE", Some("default.cluster.topologist.dev")),
            (AdmissionPhase::Mutating, "v1beta1", "clusters", "", "UPDATE", Some("default.cluster.topologist.dev")),
            (AdmissionPhase::Mutating, "v1beta2", "clusters", "", "DELETE", None),
            (AdmissionPhase::Mutating, "v1beta2", "clusters", "status", "UPDATE", None),
            (AdmissionPhase::Mutating, "v1beta2", "clusterclasses", "", "CREATE", None),
            (
                AdmissionPhase::Mutating,
                "v1beta1",
                "clusterclasses",
                "",
                "CREATE",
                Some("default.v1beta1.clusterclass.topologist.dev"),
            ),
            (
                AdmissionPhase::Validating,
                "v1beta1",
                "clusterclasses",
                "",
                "DELETE",
                Some("validation.clusterclass.topologist.dev"),
            ),
            (AdmissionPhase::Validating, "v1beta2", "machines", "", "CREATE", None),
            (AdmissionPhase::Validating, "v1beta2", "machinedeployments", "scale", "UPDATE", Some(SCALE)),
            (AdmissionPhase::Validating, "v1beta1", "machinepools", "scale", "UPDATE", Some(SCALE)),
            (AdmissionPhase::Validating, "v1beta2", "machinesets", "scale", "UPDATE", None),
            (AdmissionPhase::Mutating, "v1beta2", "machinedeployments", "scale", "UPDATE", None),
        ] {
            let attributes =
                AdmissionAttributes { group: GROUP, version, resource, subresource, operation, namespace: "default" };
            let names: Vec<_> =
                admission.webhooks(phase, &attributes).into_iter().map(|webhook| webhook.name).collect();
            assert_eq!(names, want.into_iter().collect::<Vec<_>>(), "{phase:?} {operation} {version} {resource}");
        }
    }

    #[test]
    fn machines_are_reviewed_if_the_lifecycle_is_on() {
        // MA-28
        let attributes = AdmissionAttributes {
            group: GROUP,
            version: "v1beta2",
            resource: "machinedeployments",
            subresource: "",
            operation: "CREATE",
            namespace: "default",
        };
        for (lifecycle, want) in [(false, vec![]), (true, vec!["default.machinedeployment.topologist.dev"])] {
            let admission = InProcess::new(Router::new(), lifecycle);
            let names: Vec<_> =
                admission.webhooks(AdmissionPhase::Mutating, &attributes).into_iter().map(|hook| hook.name).collect();
            assert_eq!(names, want);
        }
    }

    #[tokio::test]
    async fn removing_finalizers_of_a_deleted_object_is_not_reviewed_and_other_writes_are() {
        // DEC-16; the router has no end points, so that asking them fails.
        let admission = InProcess::new(Router::new(), false);
        let webhook = Webhook { name: "w".into(), path: "/p".into(), ignores_failure: false };
        let object = |deleted: bool, spec: Value| match deleted {
            true => json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}, "spec": spec}),
            false => json!({"metadata": {}, "spec": spec}),
        };
        for (operation, deleted, spec, is_called) in [
            ("UPDATE", true, json!({"a": 1}), false),
            ("UPDATE", true, json!({"a": 2}), true),
            ("UPDATE", false, json!({"a": 1}), true),
            ("DELETE", true, json!({"a": 1}), true),
        ] {
            let request = json!({"uid": "u", "operation": operation, "object": object(deleted, spec),
                "oldObject": object(deleted, json!({"a": 1}))});
            let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
            let answer = admission.review(&webhook, review).await;
            assert_eq!(answer.is_err(), is_called, "{operation} {deleted}: {answer:?}");
            if let Ok(answer) = answer {
                assert_eq!(answer["response"], json!({"uid": "u", "allowed": true}));
            }
        }
    }
}

//! Reviews of ExtensionConfigs: their defaults, and whether they can be used (RH-1.3, RH-2.4, RH-2.5).
//!
//! The entries for them are a component (`manifests/components/extensions`).

use bytes::Bytes;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::info;

use super::plain_review::PlainReview;
use super::rejection::Rejection;
use super::review::{ReviewHandler, operation_label};
use crate::telemetry::metrics;
use engine::admission::{Enforce, Oversize, Phase};
use engine::extensions::ExtensionConfig;
use engine::extensions::config::{CONFIG_GROUP, CONFIG_KIND, SERVICE_PORT, Selector};
use golang::json;
use model::hub::Object;
use model::wire::review::{AdmissionRequest, AdmissionResponse, AdmissionStatus, StatusCause, StatusDetails};
use schema::field::RuleId;

/// The paths of reviews of ExtensionConfigs. The versions have the same spec, and the review names its version.
pub const END_POINTS: [(Phase, &str, &str); 4] = [
    (Phase::Default, "v1beta2", "/mutate-runtime-cluster-x-k8s-io-v1beta2-extensionconfig"),
    (Phase::Default, "v1alpha1", "/mutate-runtime-cluster-x-k8s-io-v1alpha1-extensionconfig"),
    (Phase::Validate, "v1beta2", "/validate-runtime-cluster-x-k8s-io-v1beta2-extensionconfig"),
    (Phase::Validate, "v1alpha1", "/validate-runtime-cluster-x-k8s-io-v1alpha1-extensionconfig"),
];

/// The denial of a write.
#[derive(Debug, PartialEq, Eq)]
struct ConfigDenial {
    rule: RuleId,
    code: u16,
    reason: &'static str,
    /// The metric label.
    outcome: &'static str,
    message: String,
    /// Path and problem of an invalid field: kubectl shows causes instead of the message.
    cause: Option<(String, String)>,
}

/// Reviews of ExtensionConfigs.
#[derive(Clone, Copy)]
pub(super) struct ExtensionConfigReview {
    pub phase: Phase,
    pub path: &'static str,
}

impl PlainReview for ExtensionConfigReview {
    fn path(self) -> &'static str {
        self.path
    }

    async fn respond<'r>(
        self,
        handler: &ReviewHandler,
        review: &'r AdmissionRequest<'_>,
        _: &Bytes,
        _: Instant,
    ) -> Result<AdmissionResponse<'r>, Rejection> {
        let judged = judge(self.phase, review, handler.settings.gates.runtime_sdk);
        let denial = judged.as_ref().err();
        let labels = |outcome| metrics::Review { kind: CONFIG_KIND, operation: operation_label(review), outcome };
        let is_allowed = denial.is_none() || handler.settings.enforce == Enforce::Warn;
        let outcome = denial.map_or("allowed", |denial| denial.outcome);
        handler.metrics.admission_requests.get_or_create(&labels(if is_allowed { "allowed" } else { outcome })).inc();
        if let Some(denial) = denial {
            handler.metrics.rule_rejections.get_or_create(&metrics::Rule { rule: denial.rule }).inc();
            if is_allowed {
                handler.metrics.would_be_denials.get_or_create(&labels(denial.outcome)).inc();
            }
        }
        info!(
            kind = CONFIG_KIND,
            name = review.name.as_deref(),
            operation = &*review.operation,
            dry_run = review.dry_run,
            allowed = is_allowed,
            rule = denial.map(|denial| denial.rule),
            "Answered admission request"
        );
        Ok(response(judged, review, handler.settings.enforce)?)
    }
}

/// The patch with the defaults of an ExtensionConfig; empty for a valid one in the validating phase.
fn judge(phase: Phase, review: &AdmissionRequest<'_>, runtime_sdk: bool) -> Result<Patch, Box<ConfigDenial>> {
    let undecodable = |message: String| {
        Box::new(ConfigDenial {
            rule: "ADM-003",
            code: 400,
            reason: "BadRequest",
            outcome: "undecodable",
            message,
            cause: None,
        })
    };
    if (&*review.kind.group, &*review.kind.kind) != (CONFIG_GROUP, CONFIG_KIND) {
        return Err(undecodable(format!(
            "this path answers reviews of {CONFIG_KIND} in {CONFIG_GROUP}; the review is about {} in {}",
            review.kind.kind, review.kind.group
        )));
    }
    if !matches!(&*review.operation, "CREATE" | "UPDATE") {
        return Ok(Patch::default());
    }
    if let Some(oversize) = review.object.and_then(|object| Oversize::find(object.get())) {
        invalid("DEC-44", review.name.as_deref().unwrap_or_default(), oversize.part, oversize.reason())?;
    }
    let read = |raw: Option<&RawValue>| {
        let raw = raw.ok_or("the review has no object")?;
        let value = json::value(raw.get()).map_err(|error| format!("the object does not decode: {error}"))?;
        Object::try_from(value).map_err(|found| format!("the object does not decode: it is {found}"))
    };
    let object = read(review.object).map_err(undecodable)?;
    if is_merely_released(&object, review) {
        return Ok(Patch::default());
    }
    match phase {
        Phase::Default => Ok(defaults(&object)),
        Phase::Validate => validate(&object, runtime_sdk).map(|()| Patch::default()),
    }
}

/// Whether an object that is being deleted loses nothing but its finalizers (DEC-16).
fn is_merely_released(object: &Object, review: &AdmissionRequest<'_>) -> bool {
    let spec = |raw: &RawValue| Some(json::value(raw.get()).ok()?.get("spec").cloned());
    let old = review.old_object.filter(|old| Oversize::find(old.get()).is_none());
    object.is_being_deleted() && old.and_then(spec).is_some_and(|before| before.as_ref() == object.at("spec"))
}

/// The defaults: an absent selector selects all namespaces, and a service has a port (RH-2.4).
fn defaults(object: &Object) -> Patch {
    let mut added = Vec::new();
    let mut add = |path: &[&str], value: Value| {
        let path = PointerBuf::from_tokens(path.iter().copied());
        added.push(PatchOperation::Add(AddOperation { path, value }));
    };
    let is_set = |path: &str| object.at(path).is_some_and(|value| !value.is_null());
    if is_set("spec") && !is_set("spec.namespaceSelector") {
        add(&["spec", "namespaceSelector"], json!({}));
    }
    if is_set("spec.clientConfig.service") && !is_set("spec.clientConfig.service.port") {
        add(&["spec", "clientConfig", "service", "port"], json!(SERVICE_PORT));
    }
    Patch(added)
}

/// The denial of a wrong field; kubectl shows its cause instead of the message.
fn invalid(rule: RuleId, name: &str, path: &str, problem: String) -> Result<(), Box<ConfigDenial>> {
    let message = format!("{CONFIG_KIND}.{CONFIG_GROUP} {name:?} is invalid: {path}: {problem}");
    let cause = Some((path.to_owned(), problem));
    Err(Box::new(ConfigDenial { rule, code: 422, reason: "Invalid", outcome: "invalid", message, cause }))
}

/// Checks that the extension can be called, and that extensions are called at all (RH-1.3, RH-2.5).
fn validate(object: &Object, runtime_sdk: bool) -> Result<(), Box<ConfigDenial>> {
    if !runtime_sdk {
        return Err(Box::new(ConfigDenial {
            rule: "RH-1.3",
            code: 403,
            reason: "Forbidden",
            outcome: "forbidden",
            message: format!(
                "{CONFIG_KIND} {:?} is forbidden: the feature gate RuntimeSDK is off, so no extension is called; \
                 turn it on with --feature-gates=RuntimeSDK=true",
                object.name()
            ),
            cause: None,
        }));
    }
    let problem = match ExtensionConfig::from_object(object) {
        Err(problem) => problem.to_string(),
        Ok(config) if config.selector == Selector::Nothing => {
            "spec.namespaceSelector: Required value: without it nothing is selected; {} selects all namespaces"
                .to_owned()
        }
        Ok(_) => return Ok(()),
    };
    let (path, problem) = problem.split_once(": ").unwrap_or(("spec", &problem));
    invalid("RH-2.5", object.name(), path, problem.to_owned())
}

fn cause((field, message): (String, String)) -> StatusCause {
    StatusCause { reason: "FieldValueInvalid", message, field }
}

fn response<'a>(
    judged: Result<Patch, Box<ConfigDenial>>,
    review: &'a AdmissionRequest<'_>,
    enforce: Enforce,
) -> Result<AdmissionResponse<'a>, serde_json::Error> {
    let mut response = AdmissionResponse { uid: &review.uid, allowed: true, ..AdmissionResponse::default() };
    match judged {
        Ok(patch) => response.set_patch(&patch)?,
        Err(denial) if enforce == Enforce::Warn => {
            response.warnings.push(format!("would be denied: {}", denial.message));
        }
        Err(denial) => {
            let mut status = AdmissionStatus::failure(denial.code, denial.reason, denial.message);
            status.details = Some(StatusDetails {
                name: review.name.as_deref().unwrap_or_default(),
                group: CONFIG_GROUP,
                kind: CONFIG_KIND,
                retry_after_seconds: None,
                causes: denial.cause.into_iter().map(cause).collect(),
            });
            (response.allowed, response.status) = (false, Some(status));
        }
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(spec: &Value) -> Value {
        json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig", "metadata": {"name": "lab"},
            "spec": spec})
    }

    fn judged(phase: Phase, operation: &str, object: &Value, runtime_sdk: bool) -> Result<Patch, Box<ConfigDenial>> {
        let text = json!({"uid": "u", "kind": {"group": CONFIG_GROUP, "version": "v1alpha1", "kind": CONFIG_KIND}, "name": "lab",
            "operation": operation, "object": object, "oldObject": object})
        .to_string();
        judge(phase, &serde_json::from_str(&text).unwrap(), runtime_sdk)
    }

    fn denied(object: &Value) -> String {
        judged(Phase::Validate, "CREATE", object, true).unwrap_err().message
    }

    #[test]
    fn a_selector_and_a_port_are_filled_in() {
        // RH-2.4
        let service = json!({"namespace": "ns", "name": "lab"});
        let mut object = config(&json!({"clientConfig": {"service": service}, "namespaceSelector": null}));
        let patch = judged(Phase::Default, "CREATE", &object, true).unwrap();
        json_patch::patch(&mut object, &patch).unwrap();
        assert_eq!(
            (&object["spec"]["namespaceSelector"], &object["spec"]["clientConfig"]["service"]["port"]),
            (&json!({}), &json!(443))
        );
        let settled = judged(Phase::Default, "UPDATE", &object, true).unwrap();
        assert!(settled.is_empty(), "{settled:?}");
        let of_url = config(&json!({"clientConfig": {"url": "https://a"}, "namespaceSelector": {}}));
        assert!(judged(Phase::Default, "CREATE", &of_url, true).unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_called_is_denied() {
        // RH-2.5
        let with = |client: Value| config(&json!({"clientConfig": client, "namespaceSelector": {}}));
        assert_eq!(judged(Phase::Validate, "CREATE", &with(json!({"url": "https://a/b"})), true), Ok(Patch::default()));
        let service = |change: Value| {
            let mut service = json!({"namespace": "ns", "name": "lab", "port": 1});
            service.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            with(json!({"service": service}))
        };
        let both = json!({"url": "https://a", "service": {"namespace": "ns", "name": "lab"}});
        for (object, words) in [
            (with(json!({})), "spec.clientConfig: set exactly one of url and service"),
            (with(both), "spec.clientConfig: set exactly one of url and service"),
            (with(json!({"url": "http://a"})), "spec.clientConfig.url: \"http://a\" must begin with https://"),
            (with(json!({"url": "https://me@a"})), "spec.clientConfig.url: "),
            (service(json!({"name": "1lab"})), "spec.clientConfig.service.name: "),
            (service(json!({"namespace": ""})), "spec.clientConfig.service.namespace: "),
            (service(json!({"path": "a"})), "spec.clientConfig.service.path: must begin with /"),
            (service(json!({"port": 0})), "spec.clientConfig.service.port: must be between 1 and 65535"),
            (config(&json!({"clientConfig": {"url": "https://a"}})), "spec.namespaceSelector: Required value"),
            (
                config(&json!({"clientConfig": {"url": "https://a"}, "namespaceSelector":
                    {"matchExpressions": [{"key": "a", "operator": "Near"}]}})),
                "spec.namespaceSelector: ",
            ),
        ] {
            let message = denied(&object);
            let begin = format!("ExtensionConfig.runtime.cluster.x-k8s.io \"lab\" is invalid: {words}");
            assert!(message.starts_with(&begin), "{message}");
        }
        let mut dotted = with(json!({"url": "https://a"}));
        dotted["metadata"]["name"] = json!("a.b");
        assert!(denied(&dotted).contains("metadata.name: "), "a handler has one dot in its name (RH-3.3)");
    }

    #[test]
    fn the_answer_names_the_field_as_a_cause() {
        // ADM-004
        let object = config(&json!({"clientConfig": {"url": "http://a"}, "namespaceSelector": {}}));
        let text = json!({"uid": "u", "kind": {"group": CONFIG_GROUP, "version": "v1beta2", "kind": CONFIG_KIND}, "name": "lab",
            "operation": "CREATE", "object": object})
        .to_string();
        let review = serde_json::from_str(&text).unwrap();
        let answer = |enforce| {
            let answer = response(judge(Phase::Validate, &review, true), &review, enforce).unwrap();
            serde_json::to_value(answer).unwrap()
        };
        let denied = answer(Enforce::Deny);
        let problem = "\"http://a\" must begin with https://: extensions are called over HTTPS only";
        let cause = json!({"reason": "FieldValueInvalid", "field": "spec.clientConfig.url", "message": problem});
        assert_eq!((&denied["allowed"], &denied["status"]["details"]["causes"]), (&json!(false), &json!([cause])));
        let warned = answer(Enforce::Warn);
        assert_eq!((&warned["allowed"], warned.get("status")), (&json!(true), None));
        assert!(warned["warnings"][0].as_str().unwrap().starts_with("would be denied: ExtensionConfig"), "{warned}");
    }

    #[test]
    fn an_object_with_too_many_values_is_not_read() {
        // DEC-44
        let settings: serde_json::Map<String, Value> = (0..250_001).map(|i| (i.to_string(), json!(""))).collect();
        let object = config(&json!({"clientConfig": {"url": "https://a"}, "settings": settings}));
        for phase in [Phase::Default, Phase::Validate] {
            let denial = judged(phase, "CREATE", &object, true).unwrap_err();
            assert_eq!((denial.rule, denial.code), ("DEC-44", 422), "{}", denial.message);
        }
    }

    #[test]
    fn nothing_is_registered_while_the_gate_is_off() {
        // RH-1.3
        let object = config(&json!({"clientConfig": {"url": "https://a"}, "namespaceSelector": {}}));
        let denial = judged(Phase::Validate, "CREATE", &object, false).unwrap_err();
        assert_eq!((denial.rule, denial.code, denial.reason), ("RH-1.3", 403, "Forbidden"));
        assert_eq!(judged(Phase::Validate, "DELETE", &object, false), Ok(Patch::default()));
        let mut leaving = object;
        leaving["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
        assert_eq!(judged(Phase::Validate, "UPDATE", &leaving, false), Ok(Patch::default()), "DEC-16");
    }

    #[test]
    fn reviews_of_other_kinds_and_without_an_object_are_refused() {
        // ADM-003
        let of = |kind: &str, object: Value| {
            let text = json!({"uid": "u", "kind": {"group": CONFIG_GROUP, "version": "v1beta2", "kind": kind},
                "operation": "CREATE", "object": object})
            .to_string();
            judge(Phase::Validate, &serde_json::from_str(&text).unwrap(), true).unwrap_err()
        };
        for denial in [of("Cluster", json!({})), of(CONFIG_KIND, Value::Null), of(CONFIG_KIND, json!([]))] {
            assert_eq!((denial.code, denial.reason), (400, "BadRequest"), "{denial:?}");
        }
    }
}

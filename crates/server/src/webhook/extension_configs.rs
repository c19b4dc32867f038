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
use engine::extensions::config::{CONFIG_GROUP, CONFIG_KIND, ConfigError, SERVICE_PORT, check};
use golang::json;
use model::hub::{Object, paths};
use model::wire::review::{AdmissionRequest, AdmissionResponse, AdmissionStatus, StatusCause, StatusDetails};
use schema::field::{FieldError, Findings, Path, RuleId, join};

/// The paths of reviews of ExtensionConfigs. The versions have the same spec, and the review names its version.
pub const END_POINTS: [(Phase, &str, &str); 4] = [
    (Phase::Default, "v1beta2", "/mutate-runtime-cluster-x-k8s-io-v1beta2-extensionconfig"),
    (Phase::Default, "v1alpha1", "/mutate-runtime-cluster-x-k8s-io-v1alpha1-extensionconfig"),
    (Phase::Validate, "v1beta2", "/validate-runtime-cluster-x-k8s-io-v1beta2-extensionconfig"),
    (Phase::Validate, "v1alpha1", "/validate-runtime-cluster-x-k8s-io-v1alpha1-extensionconfig"),
];

/// The denial of a write.
#[derive(Debug, PartialEq)]
struct ConfigDenial {
    rule: RuleId,
    code: u16,
    reason: &'static str,
    /// The metric label.
    outcome: &'static str,
    message: String,
    /// Invalid fields: kubectl shows causes instead of the message.
    errors: Vec<FieldError>,
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
fn judge(phase: Phase, review: &AdmissionRequest<'_>, runtime_sdk: bool) -> Result<Patch, ConfigDenial> {
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
        let mut found = Findings::default();
        found.run("DEC-44", |found| found.invalid(Path::new(oversize.part), "…", oversize.reason()));
        return Err(invalid(review.name.as_deref().unwrap_or_default(), found.into_parts().0));
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

fn undecodable(message: String) -> ConfigDenial {
    ConfigDenial {
        rule: "ADM-003",
        code: 400,
        reason: "BadRequest",
        outcome: "undecodable",
        message,
        errors: Vec::new(),
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
    if is_set("spec") && !is_set(paths::extension_config::NAMESPACE_SELECTOR) {
        add(&["spec", "namespaceSelector"], json!({}));
    }
    if is_set(paths::extension_config::SERVICE) && !is_set(paths::extension_config::SERVICE_PORT) {
        add(&["spec", "clientConfig", "service", "port"], json!(SERVICE_PORT));
    }
    Patch(added)
}

/// The denial of invalid fields.
fn invalid(name: &str, errors: Vec<FieldError>) -> ConfigDenial {
    let rule = errors.first().map_or("RH-2.5", |error| error.rule);
    let message = format!("{CONFIG_KIND}.{CONFIG_GROUP} {name:?} is invalid: {}", join(&errors));
    ConfigDenial { rule, code: 422, reason: "Invalid", outcome: "invalid", message, errors }
}

/// Checks that the extension can be called, and that extensions are called at all (RH-1.3, RH-2.5).
fn validate(object: &Object, runtime_sdk: bool) -> Result<(), ConfigDenial> {
    if !runtime_sdk {
        return Err(ConfigDenial {
            rule: "RH-1.3",
            code: 403,
            reason: "Forbidden",
            outcome: "forbidden",
            message: format!(
                "{CONFIG_KIND} {:?} is forbidden: the feature gate RuntimeSDK is off, so no extension is called; \
                 turn it on with --feature-gates=RuntimeSDK=true",
                object.name()
            ),
            errors: Vec::new(),
        });
    }
    check(object).map_err(|error| match error {
        ConfigError::Invalid(errors) => invalid(object.name(), errors),
        ConfigError::Undecodable(message) => undecodable(message),
    })
}

fn cause(error: &FieldError) -> StatusCause {
    StatusCause { reason: error.kind.reason(), message: error.message(), field: error.path.to_string() }
}

fn response<'a>(
    judged: Result<Patch, ConfigDenial>,
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
                causes: denial.errors.iter().map(cause).collect(),
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

    fn judged(phase: Phase, operation: &str, object: &Value, runtime_sdk: bool) -> Result<Patch, ConfigDenial> {
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
        const CLIENT: &str = "spec.clientConfig";
        const URL: &str = "spec.clientConfig.url";
        const SERVICE: [&str; 4] = ["name", "namespace", "path", "port"];
        let with = |client: Value| config(&json!({"clientConfig": client, "namespaceSelector": {}}));
        assert_eq!(judged(Phase::Validate, "CREATE", &with(json!({"url": "https://a/b"})), true), Ok(Patch::default()));
        let service = |change: Value| {
            let mut service = json!({"namespace": "ns", "name": "lab", "port": 1});
            service.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            with(json!({"service": service}))
        };
        let both = json!({"url": "https://a", "service": {"namespace": "ns", "name": "lab"}});
        let selector =
            |selector: Value| config(&json!({"clientConfig": {"url": "https://a"}, "namespaceSelector": selector}));
        let label = |key: &str, value: &str| selector(json!({"matchLabels": {key: value}}));
        for (object, want) in [
            (with(json!({})), vec![("FieldValueRequired", CLIENT)]),
            (with(json!({"service": {}})), vec![("FieldValueRequired", CLIENT)]),
            (with(both), vec![("FieldValueForbidden", CLIENT)]),
            (with(json!({"url": "http://a"})), vec![("FieldValueInvalid", URL)]),
            (with(json!({"url": "https://a:x"})), vec![("FieldValueInvalid", URL)]),
            (with(json!({"url": "https://me@a"})), vec![("FieldValueInvalid", URL)]),
            (service(json!({"name": "1lab"})), vec![("FieldValueInvalid", "name")]),
            (service(json!({"name": ""})), vec![("FieldValueRequired", "name")]),
            (service(json!({"namespace": ""})), vec![("FieldValueRequired", "namespace")]),
            (service(json!({"path": "a"})), vec![("FieldValueInvalid", "path")]),
            (service(json!({"path": "/%zz"})), vec![("FieldValueInvalid", "path")]),
            (service(json!({"port": 0})), vec![("FieldValueInvalid", "port")]),
            (
                service(json!({"name": "S", "namespace": "N", "port": 0})),
                vec![("FieldValueInvalid", "name"), ("FieldValueInvalid", "namespace"), ("FieldValueInvalid", "port")],
            ),
            (
                with(json!({"url": "https://a", "caBundle": "*"})),
                vec![("FieldValueInvalid", "spec.clientConfig.caBundle")],
            ),
            (selector(Value::Null), vec![("FieldValueRequired", "spec.namespaceSelector")]),
            (label("team", "a b"), vec![("FieldValueInvalid", "spec.namespaceSelector")]),
            (label("team", &"a".repeat(64)), vec![("FieldValueInvalid", "spec.namespaceSelector")]),
            (label("my key", "a"), vec![("FieldValueInvalid", "spec.namespaceSelector")]),
            (label("", "a"), vec![("FieldValueInvalid", "spec.namespaceSelector")]),
            (label("a/b/c", "a"), vec![("FieldValueInvalid", "spec.namespaceSelector")]),
            (
                selector(json!({"matchExpressions": [{"key": "a", "operator": "Near"}]})),
                vec![("FieldValueInvalid", "spec.namespaceSelector")],
            ),
            (
                selector(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["a b"]}]})),
                vec![("FieldValueInvalid", "spec.namespaceSelector")],
            ),
        ] {
            let denial = judged(Phase::Validate, "CREATE", &object, true).unwrap_err();
            let causes: Vec<StatusCause> = denial.errors.iter().map(cause).collect();
            let found: Vec<(&str, &str)> = causes.iter().map(|cause| (cause.reason, &*cause.field)).collect();
            let full =
                |path: &str| if SERVICE.contains(&path) { format!("{CLIENT}.service.{path}") } else { path.to_owned() };
            let want: Vec<(&str, String)> = want.into_iter().map(|(reason, path)| (reason, full(path))).collect();
            assert_eq!(found, want.iter().map(|(reason, path)| (*reason, &**path)).collect::<Vec<_>>(), "{object}");
            assert_eq!((denial.rule, denial.code), ("RH-2.5", 422));
        }
        // Unused bits and line breaks are what Go accepts.
        for bundle in ["q0e=", "q0\nE=\n"] {
            let object = with(json!({"url": "https://a", "caBundle": bundle}));
            assert_eq!(judged(Phase::Validate, "CREATE", &object, true), Ok(Patch::default()), "{bundle}");
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
        let problem = "Invalid value: \"http://a\": must begin with https://: extensions are called over HTTPS only";
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

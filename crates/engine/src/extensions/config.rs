//! ExtensionConfigs: the URL and the settings of an extension (RH-2.1 to RH-2.7).

use std::collections::BTreeMap;

use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use serde_json::{Value, json};

use super::wire::{ClientConfig, ExtensionConfigSpec, ServiceReference};
use super::{BaseUrl, ExtensionHandler, Registration};
use crate::topology::conditions::{DesiredCondition, StatusBuilder, StatusLayout, condition, cut, with_type};
use golang::json::{StringMap, decode};
use model::hub::naming::{dns_label_faults, resource_part_faults, subdomain_faults};
use model::hub::{Hook, LabelSelector, Object, ObjectKey, annotation, paths};
use schema::field::{ErrorValue, FieldError, Findings, Path, join};

/// The group of ExtensionConfigs (RH-2.1).
pub const CONFIG_GROUP: &str = "runtime.cluster.x-k8s.io";
/// The version in which they are read and written.
pub const CONFIG_VERSION: &str = "v1beta2";
/// The kind.
pub const CONFIG_KIND: &str = "ExtensionConfig";
/// The annotation that names a Secret with the CA of an extension as `<namespace>/<name>` (RH-2.7).
pub const INJECT_CA: &str = "runtime.cluster.x-k8s.io/inject-ca-from-secret";
/// The port of a service that names none (RH-2.4).
pub const SERVICE_PORT: i32 = 443;

/// An error of an ExtensionConfig.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    #[error("{0}")]
    Undecodable(String),
    /// Invalid fields.
    #[error("{}", join(.0))]
    Invalid(Vec<FieldError>),
}

/// A valid ExtensionConfig.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtensionConfig {
    pub name: String,
    pub address: BaseUrl,
    /// The Service of the address; `None` for a URL.
    pub service: Option<ServicePort>,
    /// The certificates of `caBundle` in PEM form; empty for those of the system (RH-4.7).
    pub ca: Vec<u8>,
    /// The Secret that the certificates come from (RH-2.7).
    pub ca_secret: Option<ObjectKey>,
    pub selector: Selector,
    pub settings: BTreeMap<String, String>,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    pub service: ObjectKey,
    pub port: u16,
}

/// The namespaces whose objects an extension is called for (RH-3.9, RH-7.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// No selector, which only occurs without defaulting.
    Nothing,
    /// An empty selector: no Namespace has to be read.
    Everything,
    Labels(LabelSelector),
}

impl Selector {
    /// Whether a namespace with these labels is selected.
    pub fn matches(&self, labels: &StringMap) -> bool {
        match self {
            Selector::Nothing => false,
            Selector::Everything => true,
            Selector::Labels(selector) => selector.matches(labels).unwrap_or(false),
        }
    }
}

impl ExtensionConfig {
    /// Reads an ExtensionConfig in v1beta2, and validates it like its admission webhook, which may be missing (RH-2.5).
    /// An absent selector selects nothing.
    ///
    /// # Errors
    /// For an object that does not decode, or with its invalid fields.
    pub fn from_object(object: &Object) -> Result<Self, ConfigError> {
        let mut found = Findings::default();
        let read = found.run("RH-2.5", |found| Self::read(object, found)).transpose()?.flatten();
        let (errors, _) = found.into_parts();
        read.filter(|_| errors.is_empty()).ok_or(ConfigError::Invalid(errors))
    }

    /// Reports invalid fields; `None` if there are any that it needs.
    fn read(object: &Object, found: &mut Findings) -> Result<Option<Self>, ConfigError> {
        let name = object.name();
        for fault in dns_label_faults(name) {
            found.invalid(Path::new(paths::metadata::NAME), name, fault);
        }
        let text = object.at("spec").unwrap_or(&Value::Null).to_string();
        let spec: ExtensionConfigSpec = match &*text {
            "null" => ExtensionConfigSpec::default(),
            text => decode(text).map_err(|error| ConfigError::Undecodable(format!("spec.{error}")))?,
        };
        let settings = object
            .texts(paths::extension_config::SETTINGS)
            .map_err(|error| ConfigError::Undecodable(error.to_string()))?;
        let address = address(&spec.client_config, found);
        let ca = ca(&spec.client_config.ca_bundle, found);
        let ca_secret = object.annotation(INJECT_CA).map(|text| secret(text, found));
        let written = object.at(paths::extension_config::NAMESPACE_SELECTOR).unwrap_or(&Value::Null);
        let selector = selector(spec.namespace_selector, written, found);
        let (Some((address, service)), Some(ca)) = (address, ca) else { return Ok(None) };
        Ok(Some(ExtensionConfig {
            name: name.to_owned(),
            address,
            service,
            ca,
            ca_secret: ca_secret.flatten(),
            selector,
            settings,
        }))
    }
}

/// Checks an ExtensionConfig for admission, where it needs a selector besides (RH-2.5).
///
/// # Errors
/// For an object that does not decode, or with its invalid fields.
pub fn check(object: &Object) -> Result<(), ConfigError> {
    let mut errors = match ExtensionConfig::from_object(object) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Invalid(errors)) => errors,
        Err(error) => return Err(error),
    };
    if object.at(paths::extension_config::NAMESPACE_SELECTOR).is_none_or(Value::is_null) {
        let mut found = Findings::default();
        let detail = "without it nothing is selected; {} selects all namespaces";
        found.run("RH-2.5", |found| found.required(Path::new(paths::extension_config::NAMESPACE_SELECTOR), detail));
        errors.extend(found.into_parts().0);
    }
    if errors.is_empty() { Ok(()) } else { Err(ConfigError::Invalid(errors)) }
}

/// Whether an ExtensionConfig is paused, so that it stays unchanged once it is registered (RH-3.1, RH-3.6).
pub fn is_paused(object: &Object) -> bool {
    object.annotation(annotation::PAUSED).is_some()
}

/// Whether an extension may have handlers of a hook: the last Discovery found some, or none has succeeded yet. An
/// ExtensionConfig that is being deleted is no longer called (RH-2.8).
pub fn may_handle(object: &Object, hook: Hook) -> bool {
    let is_of_hook = |handler: &Value| handler.pointer("/requestHook/hook") == Some(&json!(hook.name()));
    let is_discovered =
        || with_type(object.at(paths::status::CONDITIONS), "Discovered").any(|condition| condition["status"] == "True");
    let mut handlers =
        object.at(paths::extension_config::HANDLERS).and_then(Value::as_array).into_iter().flatten().peekable();
    let may_be_one = match handlers.peek() {
        Some(_) => handlers.any(is_of_hook),
        None => !is_discovered(),
    };
    may_be_one && !object.is_being_deleted()
}

fn secret(text: &str, found: &mut Findings) -> Option<ObjectKey> {
    let is_key =
        |(namespace, name): &(&str, &str)| dns_label_faults(namespace).is_empty() && subdomain_faults(name).is_empty();
    let Some((namespace, name)) = text.split_once('/').filter(is_key) else {
        found.invalid(
            Path::new(paths::metadata::ANNOTATIONS).key(INJECT_CA),
            text,
            "must be <namespace>/<name> of a Secret",
        );
        return None;
    };
    Some(ObjectKey::new(namespace, name))
}

/// The bytes of a `caBundle`, which Go decodes: line breaks are skipped, and unused bits may be set.
fn ca(text: &str, found: &mut Findings) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    let text: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let decoded = GeneralPurpose::new(&alphabet::STANDARD, LENIENT).decode(text);
    decoded
        .inspect_err(|error| {
            found.invalid(Path::new(paths::extension_config::CA_BUNDLE), "…", format!("must be base64: {error}"));
        })
        .ok()
}

fn selector(selector: Option<LabelSelector>, written: &Value, found: &mut Findings) -> Selector {
    match selector {
        None => Selector::Nothing,
        Some(selector) if selector.is_empty() => Selector::Everything,
        Some(selector) => {
            if let Err(fault) = selector.check() {
                found.invalid(
                    Path::new(paths::extension_config::NAMESPACE_SELECTOR),
                    ErrorValue::bounded(written),
                    fault,
                );
            }
            Selector::Labels(selector)
        }
    }
}

/// The base URL of the extension, or of its service (RH-4.2).
fn address(config: &ClientConfig, found: &mut Findings) -> Option<(BaseUrl, Option<ServicePort>)> {
    const PATH: &str = paths::extension_config::CLIENT_CONFIG;
    // A service without a field is none.
    let service = config.service.as_ref().filter(|service| **service != ServiceReference::default());
    match (&*config.url, service) {
        ("", None) => found.required(Path::new(PATH), "set url or service"),
        (url, Some(_)) if !url.is_empty() => {
            found.forbidden(Path::new(PATH), "url and service exclude each other: set one of them");
        }
        _ => {}
    }
    let url = (!config.url.is_empty()).then(|| {
        let parsed = BaseUrl::parse(&config.url);
        parsed.inspect_err(|error| {
            found.invalid(Path::new(paths::extension_config::URL), &*config.url, error.to_string());
        })
    });
    let service = service.map(|service| service_address(service, found));
    match (url, service) {
        (Some(url), None) => url.ok().map(|address| (address, None)),
        (None, Some(service)) => service.map(|(address, port)| (address, Some(port))),
        _ => None,
    }
}

fn service_address(service: &ServiceReference, found: &mut Findings) -> Option<(BaseUrl, ServicePort)> {
    let at = |part: &str| Path::new(paths::extension_config::SERVICE).child(part);
    let before = found.error_count();
    for (part, text, faults) in [
        ("name", &service.name, resource_part_faults(&service.name)),
        ("namespace", &service.namespace, dns_label_faults(&service.namespace)),
    ] {
        match &**text {
            "" => found.required(at(part), "must not be empty"),
            text => faults.into_iter().for_each(|fault| found.invalid(at(part), text, fault)),
        }
    }
    let port = service.port.unwrap_or(SERVICE_PORT);
    let number = u16::try_from(port).ok().filter(|port| *port > 0);
    // The path is checked in any case.
    let authority = match number {
        Some(number) if found.error_count() == before => {
            format!("{}.{}.svc:{number}", service.name, service.namespace)
        }
        _ => "service".to_owned(),
    };
    let address = match &*service.path {
        path if path.is_empty() || path.starts_with('/') => {
            BaseUrl::parse(&format!("https://{authority}{path}")).map_err(|error| error.to_string())
        }
        _ => Err("must begin with /".to_owned()),
    };
    let address = address.map_err(|fault| found.invalid(at("path"), &*service.path, fault));
    let Some(number) = number else {
        found.invalid(at("port"), port, "must be between 1 and 65535");
        return None;
    };
    if found.error_count() > before {
        return None;
    }
    let service = ObjectKey::new(&*service.namespace, &*service.name);
    Some((address.ok()?, ServicePort { service, port: number }))
}

/// The status after Discovery: the handlers, or the reason of its failure (RH-2.6, RH-3.2, RH-3.3).
pub fn status(object: &Value, outcome: Result<&Registration, &str>, now: &str) -> Value {
    const TYPE: &str = "Discovered";
    let mut status = StatusBuilder::for_object(object, StatusLayout::V1BETA2, now);
    status.set(&paused(object));
    match outcome {
        Ok(registration) => {
            let handlers: Vec<Value> = registration.handlers().map(handler).collect();
            status.members.insert("handlers".to_owned(), json!(handlers));
            status.set(&condition(TYPE, "True", TYPE, String::new()));
            status.set_legacy(&condition("Discovered", "True", "", String::new()), None);
        }
        Err(error) => {
            let message = cut(error);
            status.set(&condition(TYPE, "False", "NotDiscovered", message.clone()));
            status.set_legacy(&condition(TYPE, "False", "DiscoveryFailed", message), Some("Error"));
        }
    }
    status.into_value()
}

/// The status of a paused ExtensionConfig.
pub fn paused_status(object: &Value, now: &str) -> Value {
    let mut status = StatusBuilder::for_object(object, StatusLayout::V1BETA2, now);
    status.set(&paused(object));
    status.into_value()
}

fn paused(object: &Value) -> DesiredCondition {
    let annotations = object.pointer("/metadata/annotations");
    match annotations.and_then(|all| all.get(annotation::PAUSED)).is_some() {
        true => {
            condition("Paused", "True", "Paused", format!("ExtensionConfig has the {} annotation", annotation::PAUSED))
        }
        false => condition("Paused", "False", "NotPaused", String::new()),
    }
}

fn handler((name, handler): (String, &ExtensionHandler)) -> Value {
    json!({
        "name": name,
        "requestHook": {"apiVersion": format!("{}/{}", super::GROUP, super::VERSION), "hook": handler.hook()},
        "timeoutSeconds": handler.declared_timeout(),
        "failurePolicy": handler.failure_policy().name(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn config(spec: &Value, annotations: &Value) -> Result<ExtensionConfig, ConfigError> {
        let object = json!({"metadata": {"name": "lab", "annotations": annotations}, "spec": spec});
        ExtensionConfig::from_object(&Object::try_from(object).unwrap())
    }

    fn uri(spec: &Value) -> String {
        config(spec, &Value::Null).unwrap().address.discovery().uri().to_string()
    }

    #[test]
    fn an_extension_is_behind_a_url_or_a_service() {
        // RH-2.2, RH-2.4, RH-4.2
        const PATH: &str = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery?timeout=10s";
        let service = |more: Value| {
            let mut service = json!({"namespace": "ns", "name": "ext"});
            service.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"clientConfig": {"service": service}})
        };
        assert_eq!(uri(&json!({"clientConfig": {"url": "https://a.b:9/x"}})), format!("https://a.b:9/x{PATH}"));
        assert_eq!(uri(&service(json!({}))), format!("https://ext.ns.svc:443{PATH}"));
        assert_eq!(uri(&service(json!({"port": 9443, "path": "/ext"}))), format!("https://ext.ns.svc:9443/ext{PATH}"));
        for (spec, want) in [
            (json!({}), "spec.clientConfig: Required value: set url or service"),
            (
                json!({"clientConfig": {"url": "https://a", "service": {"namespace": "n", "name": "s"}}}),
                "exclude each other",
            ),
            (json!({"clientConfig": {"url": "http://a"}}), "Invalid value: \"http://a\": must begin with https"),
            (service(json!({"namespace": "../x"})), "spec.clientConfig.service.namespace: "),
            (service(json!({"name": "1a"})), "spec.clientConfig.service.name: "),
            (
                service(json!({"port": 0})),
                "spec.clientConfig.service.port: Invalid value: 0: must be between 1 and 65535",
            ),
            (service(json!({"port": 65536})), "spec.clientConfig.service.port: "),
            (
                service(json!({"path": "x@evil"})),
                "spec.clientConfig.service.path: Invalid value: \"x@evil\": must begin with /",
            ),
            (
                json!({"clientConfig": {"url": "https://a", "caBundle": "*"}}),
                "spec.clientConfig.caBundle: Invalid value: ",
            ),
            (json!({"clientConfig": {"url": 1}}), "spec.clientConfig.url: invalid type"),
        ] {
            let error = config(&spec, &Value::Null).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn a_selector_that_is_absent_selects_nothing() {
        // RH-3.9, RH-7.2
        let selector = |selector: Value| {
            let spec = json!({"clientConfig": {"url": "https://a"}, "namespaceSelector": selector});
            config(&spec, &Value::Null).map(|config| config.selector)
        };
        let labels = StringMap::from(BTreeMap::from([("env".to_owned(), "prod".to_owned())]));
        for (written, want) in [
            (Value::Null, false),
            (json!({}), true),
            (json!({"matchLabels": {"env": "prod"}}), true),
            (json!({"matchLabels": {"env": "dev"}}), false),
            (json!({"matchExpressions": [{"key": "env", "operator": "Exists"}]}), true),
        ] {
            assert_eq!(selector(written.clone()).unwrap().matches(&labels), want, "{written}");
        }
        assert_eq!(selector(json!({})).unwrap(), Selector::Everything);
        let wrong = selector(json!({"matchExpressions": [{"key": "env", "operator": "Like"}]})).unwrap_err();
        assert!(wrong.to_string().starts_with("spec.namespaceSelector: "), "{wrong}");
    }

    #[test]
    fn the_secret_of_the_ca_is_named_with_its_namespace() {
        // RH-2.7
        let spec = json!({"clientConfig": {"url": "https://a"}});
        let secret = |text: &str| config(&spec, &json!({INJECT_CA: text})).map(|config| config.ca_secret);
        assert_eq!(secret("ns/ca"), Ok(Some(ObjectKey::new("ns", "ca"))));
        for wrong in ["ca", "/ca", "ns/", "ns/../x", "a/b/c"] {
            let error = secret(wrong).unwrap_err().to_string();
            assert!(error.contains("must be <namespace>/<name> of a Secret"), "{error}");
        }
    }

    #[test]
    fn a_failed_discovery_keeps_the_handlers_of_the_status() {
        // RH-2.3, RH-2.6, RH-3.2, RH-3.3
        let hook = json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "GeneratePatches"});
        let answer = json!({"status": "Success", "handlers": [{"name": "gen", "requestHook": hook}]});
        let raw = RawValue::from_string(answer.to_string()).unwrap();
        let registration = Registration::from_discovery("lab", &raw, BTreeMap::new()).unwrap();
        let mut object = json!({"metadata": {"name": "lab", "generation": 3}});
        object["status"] = status(&object, Ok(&registration), "t1");
        let handlers = json!([{"name": "gen.lab", "requestHook": hook, "timeoutSeconds": 10, "failurePolicy": "Fail"}]);
        let discovered = |object: &Value| {
            let conditions = object["status"]["conditions"].as_array().unwrap();
            conditions.iter().find(|condition| condition["type"] == "Discovered").unwrap().clone()
        };
        assert_eq!(object["status"]["handlers"], handlers);
        assert_eq!(
            discovered(&object),
            json!({"type": "Discovered", "status": "True", "reason": "Discovered", "message": "",
                   "lastTransitionTime": "t1", "observedGeneration": 3})
        );
        object["status"] = status(&object, Err("refused"), "t2");
        assert_eq!(object["status"]["handlers"], handlers);
        let condition = discovered(&object);
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("NotDiscovered")));
        assert_eq!((&condition["message"], &condition["lastTransitionTime"]), (&json!("refused"), &json!("t2")));
    }

    #[test]
    fn an_extension_may_have_handlers_of_a_hook_until_discovery_lists_none() {
        // DEC-56
        let of_hook = |hook: &str| json!({"name": "a", "requestHook": {"apiVersion": "v", "hook": hook}});
        let discovered = |status: &str| json!([{"type": "Discovered", "status": status}]);
        let leaving = json!({"deletionTimestamp": "2030-01-01T00:00:00Z"});
        for (status, metadata, want) in [
            (json!(null), json!({}), true),
            (json!({"conditions": discovered("False")}), json!({}), true),
            (json!({"conditions": discovered("True")}), json!({}), false),
            (json!({"handlers": [], "conditions": discovered("True")}), json!({}), false),
            (json!({"handlers": [of_hook("BeforeClusterCreate")]}), json!({}), false),
            (json!({"handlers": [of_hook("BeforeClusterCreate"), of_hook("BeforeClusterDelete")]}), json!({}), true),
            // A discovery that fails keeps the handlers of the last one.
            (json!({"handlers": [of_hook("BeforeClusterDelete")], "conditions": discovered("False")}), json!({}), true),
            (json!({"handlers": [of_hook("BeforeClusterDelete")]}), leaving.clone(), false),
            (json!(null), leaving, false),
        ] {
            let object = Object::try_from(json!({"metadata": metadata, "status": status})).unwrap();
            assert_eq!(may_handle(&object, Hook::BeforeClusterDelete), want, "{object:?}");
        }
    }
}

//! ExtensionConfigs: the URL and the settings of an extension (RH-2.1 to RH-2.7).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::wire::ExtensionConfigSpec;
use super::{AddressError, BaseUrl, ExtensionHandler, Registration};
use crate::topology::conditions::{DesiredCondition, StatusBuilder, StatusLayout, condition, cut, with_type};
use golang::json::{StringMap, decode};
use model::hub::naming::{dns_label_faults, resource_part_faults, subdomain_faults};
use model::hub::{Hook, LabelSelector, Object, ObjectKey, annotation};

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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("metadata.name: {0}")]
    Name(String),
    #[error("{0}")]
    Undecodable(String),
    #[error("spec.clientConfig: set exactly one of url and service")]
    NotOneOf,
    #[error("spec.clientConfig.url: {0}")]
    Url(AddressError),
    #[error("spec.clientConfig.service.{part}: {fault}")]
    Service { part: &'static str, fault: String },
    #[error("spec.clientConfig.caBundle: not base64: {0}")]
    CaBundle(String),
    #[error("annotation {INJECT_CA}: {0:?} is not <namespace>/<name> of a Secret")]
    Secret(String),
    #[error("spec.namespaceSelector: {0}")]
    Selector(String),
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
    ///
    /// # Errors
    /// For the first invalid field.
    pub fn from_object(object: &Object) -> Result<Self, ConfigError> {
        let name = object.name();
        if let Some(fault) = dns_label_faults(name).into_iter().next() {
            return Err(ConfigError::Name(fault));
        }
        let text = object.at("spec").unwrap_or(&Value::Null).to_string();
        let spec: ExtensionConfigSpec = match &*text {
            "null" => ExtensionConfigSpec::default(),
            text => decode(text).map_err(|error| ConfigError::Undecodable(format!("spec.{error}")))?,
        };
        let ca = STANDARD.decode(&spec.client_config.ca_bundle);
        let (address, service) = address(&spec)?;
        Ok(ExtensionConfig {
            name: name.to_owned(),
            address,
            service,
            ca: ca.map_err(|error| ConfigError::CaBundle(error.to_string()))?,
            ca_secret: object.annotation(INJECT_CA).map(secret).transpose()?,
            selector: selector(spec.namespace_selector)?,
            settings: object.texts("spec.settings").map_err(|error| ConfigError::Undecodable(error.to_string()))?,
        })
    }
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
        || with_type(object.at("status.conditions"), "Discovered").any(|condition| condition["status"] == "True");
    let mut handlers = object.at("status.handlers").and_then(Value::as_array).into_iter().flatten().peekable();
    let may_be_one = match handlers.peek() {
        Some(_) => handlers.any(is_of_hook),
        None => !is_discovered(),
    };
    may_be_one && !object.is_being_deleted()
}

fn secret(text: &str) -> Result<ObjectKey, ConfigError> {
    let is_key =
        |(namespace, name): &(&str, &str)| dns_label_faults(namespace).is_empty() && subdomain_faults(name).is_empty();
    let (namespace, name) = text.split_once('/').filter(is_key).ok_or_else(|| ConfigError::Secret(text.to_owned()))?;
    Ok(ObjectKey::new(namespace, name))
}

fn selector(selector: Option<LabelSelector>) -> Result<Selector, ConfigError> {
    match selector {
        None => Ok(Selector::Nothing),
        Some(selector) if selector.is_empty() => Ok(Selector::Everything),
        Some(selector) => match selector.matches(&StringMap::default()) {
            Ok(_) => Ok(Selector::Labels(selector)),
            Err(fault) => Err(ConfigError::Selector(fault)),
        },
    }
}

/// The base URL of the extension, or of its service (RH-4.2).
fn address(spec: &ExtensionConfigSpec) -> Result<(BaseUrl, Option<ServicePort>), ConfigError> {
    let config = &spec.client_config;
    let service = match (&*config.url, &config.service) {
        ("", Some(service)) => service,
        (url, None) if !url.is_empty() => {
            return BaseUrl::parse(url).map(|address| (address, None)).map_err(ConfigError::Url);
        }
        _ => return Err(ConfigError::NotOneOf),
    };
    let fault = |part: &'static str, fault: String| ConfigError::Service { part, fault };
    for (part, faults) in
        [("namespace", dns_label_faults(&service.namespace)), ("name", resource_part_faults(&service.name))]
    {
        if let Some(first) = faults.into_iter().next() {
            return Err(fault(part, first));
        }
    }
    let port = u16::try_from(service.port.unwrap_or(SERVICE_PORT)).ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| fault("port", "must be between 1 and 65535".to_owned()))?;
    if !service.path.is_empty() && !service.path.starts_with('/') {
        return Err(fault("path", "must begin with /".to_owned()));
    }
    let url = format!("https://{}.{}.svc:{port}{}", service.name, service.namespace, service.path);
    let address = BaseUrl::parse(&url).map_err(|error| fault("path", error.to_string()))?;
    let service = ObjectKey::new(&*service.namespace, &*service.name);
    Ok((address, Some(ServicePort { service, port })))
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
            (json!({}), "spec.clientConfig: set exactly one"),
            (json!({"clientConfig": {"url": "https://a", "service": {"namespace": "n", "name": "s"}}}), "exactly one"),
            (json!({"clientConfig": {"url": "http://a"}}), "spec.clientConfig.url: \"http://a\" must begin with https"),
            (service(json!({"namespace": "../x"})), "spec.clientConfig.service.namespace: "),
            (service(json!({"name": "1a"})), "spec.clientConfig.service.name: "),
            (service(json!({"port": 0})), "spec.clientConfig.service.port: must be between 1 and 65535"),
            (service(json!({"port": 65536})), "spec.clientConfig.service.port: "),
            (service(json!({"path": "x@evil"})), "spec.clientConfig.service.path: must begin with /"),
            (json!({"clientConfig": {"url": "https://a", "caBundle": "*"}}), "spec.clientConfig.caBundle: not base64"),
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
            assert_eq!(secret(wrong), Err(ConfigError::Secret(wrong.to_owned())), "{wrong}");
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
    fn an_extension_may_have_handlers_of_a_hook_until_it_has_said_otherwise() {
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

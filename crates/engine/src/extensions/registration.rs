//! The registered handlers of an extension, from its answer to Discovery (RH-6.2).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;

use super::errors::HandlerError;
use super::wire::{DiscoveredHandler, DiscoveryResponse};
use super::{FailurePolicy, GROUP, MAX_DECODED_LIST, VERSION, check_size, cut, sanitize};
use golang::json::decode;
use model::hub::{Hook, naming};

/// Default timeout of a call in seconds (RH-4.6, RH-6.3).
const DEFAULT_TIMEOUT: u32 = 10;
/// Maximum timeout of a call in seconds (RH-6.4).
const MAX_TIMEOUT: i32 = 30;
/// The hooks besides those of the lifecycle of Clusters (RH-1.2).
const OTHER_HOOKS: [&str; 7] = [
    "GeneratePatches",
    "ValidateTopology",
    "DiscoverVariables",
    "GenerateUpgradePlan",
    "CanUpdateMachine",
    "CanUpdateMachineSet",
    "UpdateMachine",
];

/// One function of an extension; its name is a DNS label, its hook one of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionHandler {
    name: String,
    hook: &'static str,
    timeout_seconds: u32,
    failure_policy: FailurePolicy,
}

impl ExtensionHandler {
    /// The name in paths, without that of the ExtensionConfig.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The hook of the handler.
    pub fn hook(&self) -> &'static str {
        self.hook
    }

    /// The timeout of a call; never 0 (RH-4.6, RH-6.5).
    pub fn timeout_seconds(&self) -> u32 {
        if self.timeout_seconds == 0 { DEFAULT_TIMEOUT } else { self.timeout_seconds }
    }

    /// The timeout that the extension has declared, 0 included (RH-6.5).
    pub(crate) fn declared_timeout(&self) -> u32 {
        self.timeout_seconds
    }

    /// The failure policy.
    pub fn failure_policy(&self) -> FailurePolicy {
        self.failure_policy
    }
}

/// An error of an answer to Discovery.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    #[error("the answer cannot be decoded: {0}")]
    Undecodable(String),
    #[error("the extension answered Failure: {0}")]
    Failure(String),
    #[error("unknown status {0:?}; expected Success or Failure")]
    UnknownStatus(String),
    #[error("the answer is invalid: {}", .0.join("; "))]
    Invalid(Vec<String>),
}

/// The handlers of one ExtensionConfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    config: String,
    /// In the order of the answer.
    handlers: Vec<ExtensionHandler>,
    settings: BTreeMap<String, String>,
}

impl Registration {
    /// Registers the handlers of an answer to Discovery. `settings` are those of the ExtensionConfig.
    ///
    /// # Errors
    /// When the answer is not a success, and for each handler that is invalid.
    pub fn from_discovery(
        config: &str,
        answer: &RawValue,
        settings: BTreeMap<String, String>,
    ) -> Result<Self, DiscoveryError> {
        check_size(answer, MAX_DECODED_LIST).map_err(|problem| DiscoveryError::Invalid(vec![problem.to_string()]))?;
        let answer: DiscoveryResponse = decode(answer.get()).map_err(DiscoveryError::Undecodable)?;
        match &*answer.status {
            "Success" => {}
            "Failure" => return Err(DiscoveryError::Failure(sanitize(&answer.message))),
            other => return Err(DiscoveryError::UnknownStatus(cut(other, 64).to_owned())),
        }
        let handlers = checked(&answer.handlers).map_err(DiscoveryError::Invalid)?;
        Ok(Registration { config: config.to_owned(), handlers, settings })
    }

    /// The name of the ExtensionConfig.
    pub fn config(&self) -> &str {
        &self.config
    }

    /// The settings of the ExtensionConfig.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// All handlers with their registered names (RH-3.3).
    pub fn handlers(&self) -> impl Iterator<Item = (String, &ExtensionHandler)> {
        self.handlers.iter().map(|handler| (format!("{}.{}", handler.name, self.config), handler))
    }

    /// The handler of that name, which must be for this hook (RH-7.1).
    ///
    /// # Errors
    /// When there is none, or it is for another hook.
    pub fn handler(&self, name: &str, hook: &str) -> Result<&ExtensionHandler, HandlerError> {
        match self.handlers.iter().find(|handler| handler.name == name) {
            Some(handler) if handler.hook == hook => Ok(handler),
            Some(handler) => {
                Err(HandlerError::OtherHook { name: name.to_owned(), hook: handler.hook, wanted: hook.to_owned() })
            }
            None => {
                let names = self.handlers.iter().map(|handler| handler.name().to_owned()).collect();
                Err(HandlerError::Missing { config: self.config.clone(), name: name.to_owned(), names })
            }
        }
    }
}

/// The handler and the ExtensionConfig of a registered name, which has exactly one dot (RH-3.3).
pub fn registered_name(name: &str) -> Option<(&str, &str)> {
    let (handler, config) = name.split_once('.')?;
    let is_label = |text: &str| naming::dns_label_faults(text).is_empty();
    (is_label(handler) && is_label(config)).then_some((handler, config))
}

/// The handlers, or all errors (RH-6.4).
fn checked(discovered: &[DiscoveredHandler]) -> Result<Vec<ExtensionHandler>, Vec<String>> {
    let (mut handlers, mut problems, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (at, found) in discovered.iter().enumerate() {
        let mut wrong = |problem: String| problems.push(format!("handlers[{at}]: {problem}"));
        let name = cut(&found.name, 64);
        naming::dns_label_faults(&found.name).into_iter().for_each(|fault| wrong(format!("name {name:?}: {fault}")));
        if !names.insert(&found.name) {
            wrong(format!("name {name:?} is used twice"));
        }
        let timeout =
            found.timeout_seconds.map_or(Ok(DEFAULT_TIMEOUT), timeout).map_err(|fault| wrong(fault.to_string()));
        let policy = policy(found.failure_policy.as_deref()).map_err(|fault| wrong(fault.to_string()));
        let hook =
            hook(&found.request_hook.api_version, &found.request_hook.hook).map_err(|fault| wrong(fault.to_string()));
        if let (Ok(timeout_seconds), Ok(failure_policy), Ok(hook)) = (timeout, policy, hook) {
            handlers.push(ExtensionHandler { name: found.name.clone(), hook, timeout_seconds, failure_policy });
        }
    }
    if problems.is_empty() { Ok(handlers) } else { Err(problems) }
}

/// An error of a handler in an answer to Discovery.
#[derive(Debug, thiserror::Error)]
enum HandlerFault {
    #[error("timeoutSeconds must be between 0 and {}", MAX_TIMEOUT)]
    Timeout,
    #[error("failurePolicy {0:?} must be Ignore or Fail")]
    FailurePolicy(String),
    #[error("requestHook {hook:?} of {version:?} is not a hook of {}/{}", GROUP, VERSION)]
    RequestHook { hook: String, version: String },
}

fn timeout(seconds: i32) -> Result<u32, HandlerFault> {
    let seconds = u32::try_from(seconds).ok().filter(|_| seconds <= MAX_TIMEOUT);
    seconds.ok_or(HandlerFault::Timeout)
}

fn policy(policy: Option<&str>) -> Result<FailurePolicy, HandlerFault> {
    match policy {
        None | Some("Fail") => Ok(FailurePolicy::Fail),
        Some("Ignore") => Ok(FailurePolicy::Ignore),
        Some(other) => Err(HandlerFault::FailurePolicy(cut(other, 64).to_owned())),
    }
}

/// A hook of the catalogue.
fn hook(api_version: &str, hook: &str) -> Result<&'static str, HandlerFault> {
    let known = Hook::ALL.into_iter().map(Hook::name).chain(OTHER_HOOKS).find(|known| *known == hook);
    let is_version = api_version.split_once('/') == Some((GROUP, VERSION));
    known.filter(|_| is_version).ok_or_else(|| HandlerFault::RequestHook {
        hook: cut(hook, 64).to_owned(),
        version: cut(api_version, 64).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::MESSAGE;
    use super::*;

    fn registered(answer: &Value) -> Result<Registration, DiscoveryError> {
        let raw = RawValue::from_string(answer.to_string()).unwrap();
        Registration::from_discovery("ext", &raw, BTreeMap::new())
    }

    fn answer(handlers: &Value) -> Value {
        json!({"status": "Success", "handlers": handlers})
    }

    fn handler(name: &str) -> Value {
        let hook = json!({"apiVersion": format!("{GROUP}/{VERSION}"), "hook": "GeneratePatches"});
        json!({"name": name, "requestHook": hook})
    }

    fn with(name: &str, value: Value) -> Value {
        let mut changed = handler("gen");
        changed[name] = value;
        changed
    }

    #[test]
    fn timeout_and_policy_have_defaults() {
        // RH-6.2, RH-6.3, RH-6.5, RH-4.6
        for (case, change, timeout, policy) in [
            ("defaults", handler("gen"), 10, FailurePolicy::Fail),
            ("zero", with("timeoutSeconds", json!(0)), 10, FailurePolicy::Fail),
            ("most", with("timeoutSeconds", json!(30)), 30, FailurePolicy::Fail),
            ("null", with("failurePolicy", Value::Null), 10, FailurePolicy::Fail),
            ("ignored", with("failurePolicy", json!("Ignore")), 10, FailurePolicy::Ignore),
        ] {
            let registration = registered(&answer(&json!([change]))).unwrap();
            let found = registration.handler("gen", "GeneratePatches").unwrap();
            assert_eq!((found.timeout_seconds(), found.failure_policy()), (timeout, policy), "{case}");
        }
    }

    #[test]
    fn every_invalid_handler_is_reported() {
        // RH-6.4
        let hook = |version: &str, hook: &str| with("requestHook", json!({"apiVersion": version, "hook": hook}));
        for (handlers, want) in [
            (json!([handler("Gen")]), "handlers[0]: name \"Gen\": "),
            (json!([handler("../x")]), "handlers[0]: name \"../x\": "),
            (json!([handler("gen"), handler("gen")]), "handlers[1]: name \"gen\" is used twice"),
            (json!([with("timeoutSeconds", json!(31))]), "timeoutSeconds must be between 0 and 30"),
            (json!([with("timeoutSeconds", json!(-1))]), "timeoutSeconds must be between 0 and 30"),
            (json!([with("failurePolicy", json!("Maybe"))]), "failurePolicy \"Maybe\" must be Ignore or Fail"),
            (json!([with("failurePolicy", json!(""))]), "failurePolicy \"\" must be Ignore or Fail"),
            (json!([hook(&format!("{GROUP}/v2"), "GeneratePatches")]), "is not a hook of"),
            (json!([hook("v1alpha1", "GeneratePatches")]), "is not a hook of"),
            (json!([hook(&format!("{GROUP}/{VERSION}"), "Guess")]), "requestHook \"Guess\" of"),
        ] {
            let error = registered(&answer(&handlers)).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
        let both = registered(&answer(&json!([handler("A"), with("timeoutSeconds", json!(99))])));
        let Err(DiscoveryError::Invalid(problems)) = both else { panic!("{both:?}") };
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn an_answer_that_is_no_success_registers_nothing() {
        // RH-5.3, RH-5.4
        let long = "x".repeat(MESSAGE + 1);
        for (answer, want) in [
            (json!({"status": "Failure", "message": "busy"}), "the extension answered Failure: busy".to_owned()),
            (json!({"status": "Failure", "message": long}), format!("the extension answered Failure: {}", &long[1..])),
            (json!({"handlers": []}), "unknown status \"\"; expected Success or Failure".to_owned()),
            (json!({"status": "OK"}), "unknown status \"OK\"; expected Success or Failure".to_owned()),
        ] {
            assert_eq!(registered(&answer).unwrap_err().to_string(), want);
        }
        assert!(matches!(registered(&json!([])), Err(DiscoveryError::Undecodable(_))));
        assert!(matches!(registered(&json!({"status": 1})), Err(DiscoveryError::Undecodable(_))));
    }

    #[test]
    fn a_handler_is_called_for_its_hook_only() {
        // RH-7.1
        let registration = registered(&answer(&json!([handler("gen")]))).unwrap();
        assert_eq!(
            registration.handler("gen", "ValidateTopology").unwrap_err().to_string(),
            "the handler \"gen\" is for GeneratePatches, not for ValidateTopology"
        );
        let missing = registration.handler("other", "GeneratePatches").unwrap_err().to_string();
        assert_eq!(missing, "\"ext\" has no handler \"other\"; it has: gen");
    }

    #[test]
    fn a_registered_name_has_one_dot() {
        // RH-3.3
        assert_eq!(registered_name("gen.ext"), Some(("gen", "ext")));
        for wrong in ["gen", "gen.ext.more", ".ext", "gen.", "Gen.ext", "gen./"] {
            assert_eq!(registered_name(wrong), None, "{wrong}");
        }
    }
}

//! Requests to handlers: their complete bodies, and the decoding of the responses.
//!
//! ```text
//! call + settings of the ExtensionConfig ─► HandlerRequest ─► body() ─► sent by an edge, or found in its cache
//!                                                         └─► decode(handler, outcome) ─► answer, or AnswerError
//! ```
//!
//! The edges differ in where the address of an extension comes from, and in what they cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::answers::{CallOutcome, Retry, upgrade_plan, variables};
use super::errors::{AnswerError, RequestBodyError};
use super::{ExtensionHandler, GROUP, VERSION};
use model::world::{HookCall, PlannedVersions};

/// The hook by which extensions define variables.
pub const DISCOVER_VARIABLES: &str = "DiscoverVariables";
/// The hook by which extensions plan upgrades.
pub const GENERATE_UPGRADE_PLAN: &str = "GenerateUpgradePlan";

/// A complete request to one handler. Equal requests have equal bodies.
pub trait HandlerRequest {
    /// The meaning of a response.
    type Answer;

    /// The body of the request.
    fn body(&self) -> &str;

    /// Decodes the response to the request, or applies the failure policy of the handler to a failed call.
    ///
    /// # Errors
    /// When the call failed, or the response is invalid.
    fn decode(&self, handler: &ExtensionHandler, outcome: CallOutcome<'_>) -> Result<Self::Answer, AnswerError>;

    /// Whether an answer holds for equal requests for some time.
    fn is_cacheable(_: &Self::Answer) -> bool {
        true
    }
}

/// A request for a plan of an upgrade (RH-21.3).
#[derive(Debug)]
pub struct PlanRequest {
    request: Value,
    body: String,
}

impl PlanRequest {
    /// Completes a request with the settings of the ExtensionConfig.
    ///
    /// # Errors
    /// When the request is not a JSON object.
    pub fn new(request: &str, settings: &BTreeMap<String, String>) -> Result<Self, RequestBodyError> {
        let request = with_settings(request, settings)?;
        Ok(PlanRequest { body: request.to_string(), request })
    }

    /// The versions from which, and the one to which the plan leads.
    pub fn versions(&self) -> [&str; 3] {
        let names = ["fromControlPlaneKubernetesVersion", "fromWorkersKubernetesVersion", "toKubernetesVersion"];
        names.map(|name| self.request.get(name).and_then(Value::as_str).unwrap_or_default())
    }
}

impl HandlerRequest for PlanRequest {
    type Answer = PlannedVersions;

    fn body(&self) -> &str {
        &self.body
    }

    fn decode(&self, handler: &ExtensionHandler, outcome: CallOutcome<'_>) -> Result<PlannedVersions, AnswerError> {
        upgrade_plan(handler, outcome)
    }
}

/// A call of a lifecycle hook (RH-5.1).
#[derive(Debug)]
pub struct HookRequest {
    request: Value,
    body: String,
}

impl HookRequest {
    /// Completes a request with the settings of the ExtensionConfig.
    ///
    /// # Errors
    /// When the request is not a JSON object.
    pub fn new(call: &HookCall, settings: &BTreeMap<String, String>) -> Result<Self, RequestBodyError> {
        let request = with_settings(&call.request, settings)?;
        Ok(HookRequest { body: request.to_string(), request })
    }

    /// The body without metadata and status of the Cluster, which differ from run to run.
    pub fn stable_body(&self) -> String {
        let mut request = self.request.clone();
        if let Some(cluster) = request.get_mut("cluster").and_then(Value::as_object_mut) {
            cluster.retain(|name, _| name == "spec");
        }
        request.to_string()
    }
}

impl HandlerRequest for HookRequest {
    type Answer = Retry;

    fn body(&self) -> &str {
        &self.body
    }

    fn decode(&self, handler: &ExtensionHandler, outcome: CallOutcome<'_>) -> Result<Retry, AnswerError> {
        Retry::from_answer(handler, outcome)
    }
}

/// A request for the variables of a patch (RH-16.2).
#[derive(Debug)]
pub struct VariablesRequest(String);

impl VariablesRequest {
    /// The request with the settings of a patch, and those of the ExtensionConfig.
    ///
    /// # Errors
    /// Never with settings that are texts.
    pub fn new(
        of_patch: &BTreeMap<String, String>,
        of_extension: &BTreeMap<String, String>,
    ) -> Result<Self, RequestBodyError> {
        let request = json!({"apiVersion": format!("{GROUP}/{VERSION}"), "kind": "DiscoverVariablesRequest",
            "settings": of_patch});
        Ok(VariablesRequest(with_settings(&request.to_string(), of_extension)?.to_string()))
    }
}

impl HandlerRequest for VariablesRequest {
    type Answer = Arc<[Value]>;

    fn body(&self) -> &str {
        &self.0
    }

    fn decode(&self, handler: &ExtensionHandler, outcome: CallOutcome<'_>) -> Result<Arc<[Value]>, AnswerError> {
        variables(handler, outcome).map(Arc::from)
    }
}

/// A request with the settings of the ExtensionConfig; settings of the caller override them (RH-5.6).
///
/// # Errors
/// When the request is not a JSON object, or its settings are not texts.
pub(super) fn with_settings(request: &str, settings: &BTreeMap<String, String>) -> Result<Value, RequestBodyError> {
    let mut request: Value = serde_json::from_str(request)?;
    let members = request.as_object_mut().ok_or(RequestBodyError::NotAnObject)?;
    let of_caller = members.remove("settings").map(serde_json::from_value::<BTreeMap<String, String>>);
    let of_caller = of_caller.transpose()?.unwrap_or_default();
    let merged: BTreeMap<_, _> = settings.clone().into_iter().chain(of_caller).collect();
    if !merged.is_empty() {
        members.insert("settings".to_owned(), json!(merged));
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::hub::{Hook, ObjectKey};

    #[test]
    fn settings_of_the_caller_replace_those_of_the_extension() {
        // RH-5.6
        let settings = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "1".to_owned())]);
        let merged = with_settings(r#"{"kind":"K","settings":{"b":"2"}}"#, &settings).unwrap();
        assert_eq!(merged, json!({"kind": "K", "settings": {"a": "1", "b": "2"}}));
        assert_eq!(with_settings("{}", &BTreeMap::new()).unwrap(), json!({}), "no settings are left out");
        assert!(with_settings("[]", &settings).is_err());
    }

    #[test]
    fn the_versions_of_a_plan_are_those_of_its_request() {
        let request = json!({"fromControlPlaneKubernetesVersion": "v1.31.0", "toKubernetesVersion": "v1.32.0"});
        let request = PlanRequest::new(&request.to_string(), &BTreeMap::new()).unwrap();
        assert_eq!(request.versions(), ["v1.31.0", "", "v1.32.0"]);
    }

    #[test]
    fn the_stable_body_of_a_hook_has_only_the_spec_of_the_cluster() {
        let stable = |version: &str, resource_version: &str| {
            let cluster = json!({"metadata": {"resourceVersion": resource_version}, "spec": {"version": version}});
            let call = HookCall {
                hook: Hook::BeforeClusterCreate,
                cluster: ObjectKey::new("ns", "c"),
                request: json!({"kind": "K", "cluster": cluster}).to_string(),
            };
            HookRequest::new(&call, &BTreeMap::new()).unwrap().stable_body()
        };
        assert_eq!(stable("v1.31.0", "1"), stable("v1.31.0", "2"));
        assert_ne!(stable("v1.31.0", "1"), stable("v1.32.0", "1"));
    }
}

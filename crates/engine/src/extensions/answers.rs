//! Answers of hooks other than those of patches: lifecycle hooks, upgrade plans, variables.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::errors::AnswerError;
use super::wire::{PlanResponse, RetryResponse, VariablesResponse};
use super::{ExtensionHandler, FailurePolicy, MAX_DECODED, MAX_DECODED_LIST, MESSAGE, check_size, cut, sanitize};
use golang::json::decode;
use model::world::{HookAnswer, PlannedVersions};

/// The minimum retry time in seconds, also for a negative one, which blocks (RH-5.5).
const SMALLEST: u32 = 1;

/// The JSON value of a response, or why the call failed.
pub type CallOutcome<'a> = Result<&'a RawValue, &'a str>;

/// An answer with a status (RH-5.2). The default is the answer to a call whose failure is ignored (RH-7.5).
trait Response: Default + for<'de> Deserialize<'de> {
    /// Bytes that an answer may take once it is decoded (DEC-44).
    const MOST: usize;

    fn status(&self) -> (&str, &str);
}

macro_rules! responses {
    ($($name:ident $most:ident)*) => {$(
        impl Response for $name {
            const MOST: usize = $most;

            fn status(&self) -> (&str, &str) {
                (&self.status, &self.message)
            }
        }
    )*};
}

responses!(RetryResponse MAX_DECODED_LIST PlanResponse MAX_DECODED_LIST VariablesResponse MAX_DECODED);

/// Decodes a successful answer (RH-5.3, RH-5.4, RH-7.3, RH-7.4).
fn parse_response<T: Response>(handler: &ExtensionHandler, outcome: CallOutcome<'_>) -> Result<T, AnswerError> {
    let name = || handler.name().to_owned();
    if let Some(source) = outcome.ok().and_then(|answer| check_size(answer, T::MOST).err()) {
        return Err(AnswerError::TooLarge { handler: name(), source });
    }
    let response: T = match outcome.map_err(str::to_owned).and_then(|answer| decode(answer.get())) {
        Ok(response) => response,
        Err(_) if handler.failure_policy() == FailurePolicy::Ignore => return Ok(T::default()),
        Err(problem) => return Err(AnswerError::Call { handler: name(), reason: sanitize(&problem) }),
    };
    match response.status() {
        ("Success", _) => Ok(response),
        ("Failure", message) => Err(AnswerError::Failure { handler: name(), message: sanitize(message) }),
        (other, _) => Err(AnswerError::UnknownStatus { handler: name(), status: cut(other, 64).to_owned() }),
    }
}

/// The answer of one handler of a lifecycle hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Seconds; 0 to proceed (RH-5.5).
    pub after_seconds: u32,
    pub message: String,
}

impl Retry {
    /// The answer of a handler.
    ///
    /// # Errors
    /// When it is not a success.
    pub(super) fn from_answer(handler: &ExtensionHandler, outcome: CallOutcome<'_>) -> Result<Self, AnswerError> {
        let response: RetryResponse = parse_response(handler, outcome)?;
        let after_seconds = u32::try_from(response.retry_after_seconds).unwrap_or(SMALLEST);
        Ok(Retry { after_seconds, message: sanitize(&response.message) })
    }

    /// The combined answer of several handlers: the shortest retry time, and all messages (RH-8.4).
    pub fn together(all: &[Retry]) -> HookAnswer {
        let waits = all.iter().map(|one| one.after_seconds).filter(|seconds| *seconds > 0);
        let messages: Vec<&str> = all.iter().map(|one| &*one.message).filter(|message| !message.is_empty()).collect();
        match waits.min() {
            None => HookAnswer::Done,
            Some(after_seconds) => {
                HookAnswer::Retry { after_seconds, message: cut(&messages.join(", "), MESSAGE).to_owned() }
            }
        }
    }
}

/// The plan of an extension (RH-21.3).
///
/// # Errors
/// When the answer is no success.
pub(super) fn upgrade_plan(
    handler: &ExtensionHandler,
    outcome: CallOutcome<'_>,
) -> Result<PlannedVersions, AnswerError> {
    let response: PlanResponse = parse_response(handler, outcome)?;
    let versions = |steps: &[super::wire::UpgradeStep]| steps.iter().map(|step| step.version.clone()).collect();
    Ok(PlannedVersions {
        control_plane: versions(&response.control_plane_upgrades),
        workers: versions(&response.workers_upgrades),
    })
}

/// The variables of an extension, unchanged (RH-16.2).
///
/// # Errors
/// When the answer is no success.
pub(super) fn variables(handler: &ExtensionHandler, outcome: CallOutcome<'_>) -> Result<Vec<Value>, AnswerError> {
    let response: VariablesResponse = parse_response(handler, outcome)?;
    let parsed = response.variables.iter().map(|one| serde_json::from_str(one.get()));
    Ok(parsed.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::Registration;
    use super::*;

    fn handler(policy: &str) -> ExtensionHandler {
        let hook = json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "BeforeClusterCreate"});
        let handlers = json!([{"name": "gate", "requestHook": hook, "failurePolicy": policy}]);
        let raw = RawValue::from_string(json!({"status": "Success", "handlers": handlers}).to_string()).unwrap();
        let registration = Registration::from_discovery("ext", &raw, BTreeMap::new()).unwrap();
        registration.handler("gate", "BeforeClusterCreate").unwrap().clone()
    }

    fn raw(answer: &Value) -> Box<RawValue> {
        RawValue::from_string(answer.to_string()).unwrap()
    }

    fn retry(policy: &str, answer: &Value) -> Result<(u32, String), String> {
        Retry::from_answer(&handler(policy), Ok(&raw(answer)))
            .map(|retry| (retry.after_seconds, retry.message))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_status_and_then_the_time_decide() {
        // RH-5.2 to RH-5.5
        let success = |more: Value| {
            let mut answer = json!({"status": "Success"});
            answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            answer
        };
        assert_eq!(retry("Fail", &success(json!({}))), Ok((0, String::new())));
        assert_eq!(retry("Fail", &success(json!({"retryAfterSeconds": 7, "message": "m"}))), Ok((7, "m".to_owned())));
        assert_eq!(retry("Fail", &success(json!({"retryAfterSeconds": -3}))), Ok((1, String::new())));
        for policy in ["Fail", "Ignore"] {
            let failure = retry(policy, &json!({"status": "Failure", "message": "no"}));
            assert_eq!(failure.unwrap_err(), "handler \"gate\" answered Failure: no");
            assert!(retry(policy, &json!({"status": "Maybe"})).unwrap_err().contains("unknown status \"Maybe\""));
            assert!(retry(policy, &json!({})).unwrap_err().contains("unknown status \"\""));
        }
    }

    #[test]
    fn a_call_that_fails_is_ignored_as_a_whole_or_an_error() {
        // RH-7.3 to RH-7.5
        let half = json!({"status": "Success", "retryAfterSeconds": "soon", "message": "half"});
        assert_eq!(retry("Ignore", &half), Ok((0, String::new())));
        assert!(retry("Fail", &half).unwrap_err().starts_with("the call of handler \"gate\" failed: "));
        assert_eq!(
            Retry::from_answer(&handler("Fail"), Err("refused")).unwrap_err().to_string(),
            "the call of handler \"gate\" failed: refused"
        );
        assert_eq!(upgrade_plan(&handler("Ignore"), Err("refused")).unwrap(), PlannedVersions::default());
        assert_eq!(variables(&handler("Ignore"), Err("refused")).unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn answers_that_take_too_much_memory_are_invalid_whatever_the_policy() {
        // DEC-44
        let versions =
            json!({"status": "Success", "controlPlaneUpgrades": vec![json!({"version": "v1.31.0"}); 10_000]});
        let defined = json!({"status": "Success", "variables": vec![json!({"a": 1}); 110_000]});
        for policy in ["Fail", "Ignore"] {
            let plan = upgrade_plan(&handler(policy), Ok(&raw(&versions))).unwrap_err().to_string();
            assert!(plan.ends_with("once it is decoded, more than 4 MiB"), "{plan}");
            let variables = variables(&handler(policy), Ok(&raw(&defined))).unwrap_err().to_string();
            assert!(variables.ends_with("once it is decoded, more than 64 MiB"), "{variables}");
        }
    }

    #[test]
    fn the_shortest_wait_of_all_handlers_counts() {
        // RH-8.4, RH-8.5
        let one = |after_seconds, message: &str| Retry { after_seconds, message: message.to_owned() };
        assert_eq!(Retry::together(&[]), HookAnswer::Done);
        assert_eq!(Retry::together(&[one(0, "a"), one(0, "")]), HookAnswer::Done);
        let want = HookAnswer::Retry { after_seconds: 3, message: "a, b, c".to_owned() };
        assert_eq!(Retry::together(&[one(9, "a"), one(0, "b"), one(3, "c"), one(5, "")]), want);
    }

    #[test]
    fn plans_and_variables_are_taken_as_they_are_written() {
        // RH-16.2, RH-21.3
        let answer = json!({"status": "Success",
            "controlPlaneUpgrades": [{"version": "v1.31.0"}, {"version": "v1.32.0"}],
            "workersUpgrades": [{"version": "v1.32.0"}]});
        let plan = upgrade_plan(&handler("Fail"), Ok(&raw(&answer))).unwrap();
        assert_eq!(
            (plan.control_plane.join(" "), plan.workers.join(" ")),
            ("v1.31.0 v1.32.0".into(), "v1.32.0".into())
        );
        let variable = json!({"name": "a", "schema": {"openAPIV3Schema": {"default": null}}});
        let answer = json!({"status": "Success", "variables": [variable]});
        assert_eq!(variables(&handler("Fail"), Ok(&raw(&answer))).unwrap(), vec![variable]);
    }
}

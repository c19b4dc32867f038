//! The request to the extension of a patch, and the interpretation of its answer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use serde_json::Value;
use serde_json::value::RawValue;

use super::answers::CallOutcome;
use super::errors::{AnswerError, RequestBodyError, ResponseTooLarge};
use super::requests::{HandlerRequest, with_settings};
use super::wire::{PatchItem, PatchResponse};
use super::{ExtensionHandler, FailurePolicy, MAX_DECODED, check_size, cut, sanitize};
use crate::topology::plan::uid;
use golang::json::decode;
use model::hub::ObjectKey;
use model::world::{ItemPatch, PatchAnswer, PatchCall, PatchHook};

/// An error of the answer to a patch request.
#[derive(Debug, thiserror::Error)]
pub(super) enum PatchAnswerError {
    /// The call failed, or its answer cannot be decoded.
    #[error("{0}")]
    NoAnswer(String),
    #[error("items[{at}].patch is not base64: {source}")]
    Base64 { at: usize, source: DecodeError },
    #[error(transparent)]
    TooLarge(#[from] ResponseTooLarge),
    #[error("unknown status {0:?}; expected Success or Failure")]
    UnknownStatus(String),
    #[error("no item of the request has the uid {0:?}")]
    UnknownItem(String),
}

/// A complete request.
#[derive(Clone, PartialEq, Eq)]
pub struct PreparedPatchRequest {
    hook: PatchHook,
    body: String,
    /// The positions of the items by their `uid`.
    items: HashMap<String, usize>,
}

impl std::fmt::Debug for PreparedPatchRequest {
    // The body contains values of variables, which are never shown (DEC-34).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} bytes", self.hook.name(), self.body.len())
    }
}

impl PreparedPatchRequest {
    /// Completes a request: every item to patch gets its `uid` (items to validate have none), and the settings of the
    /// ExtensionConfig are added; those of the patch override them (RH-5.6, RH-10.2, RH-15.1).
    ///
    /// # Errors
    /// When the request is not a JSON object.
    pub fn new(call: &PatchCall, settings: &BTreeMap<String, String>) -> Result<Self, RequestBodyError> {
        let mut request = with_settings(&call.request, settings)?;
        let items = request.get_mut("items").and_then(Value::as_array_mut).ok_or(RequestBodyError::NoItems)?;
        let items = match call.hook {
            PatchHook::GeneratePatches => {
                items.iter_mut().enumerate().map(|(at, item)| (identify(at, item), at)).collect()
            }
            PatchHook::ValidateTopology => HashMap::new(),
        };
        Ok(PreparedPatchRequest { hook: call.hook, body: request.to_string(), items })
    }

    /// The same request with another body, whose items have the same `uid`s.
    pub(super) fn with_body(&self, body: String) -> Self {
        PreparedPatchRequest { body, ..self.clone() }
    }

    /// Interprets an answer without a failure policy.
    pub(super) fn read(&self, outcome: CallOutcome<'_>) -> Result<PatchAnswer, PatchAnswerError> {
        let answer = outcome.map_err(|reason| PatchAnswerError::NoAnswer(reason.to_owned()))?;
        check_size(answer, MAX_DECODED)?;
        self.interpret(DecodedPatches::decode(answer)?)
    }

    /// An answer without patches (RH-7.5).
    fn empty_answer(&self) -> PatchAnswer {
        match self.hook {
            PatchHook::GeneratePatches => PatchAnswer::Patches(Arc::default()),
            PatchHook::ValidateTopology => PatchAnswer::Valid,
        }
    }

    fn interpret(&self, decoded: DecodedPatches) -> Result<PatchAnswer, PatchAnswerError> {
        match (&*decoded.status, self.hook) {
            ("Success", PatchHook::ValidateTopology) => Ok(PatchAnswer::Valid),
            ("Success", PatchHook::GeneratePatches) => {
                let patches = decoded.patches.into_iter().map(|(item, patch)| self.patch(item, patch));
                Ok(PatchAnswer::Patches(patches.collect::<Result<_, _>>()?))
            }
            ("Failure", _) => Ok(PatchAnswer::Failure(sanitize(&decoded.message))),
            (other, _) => Err(PatchAnswerError::UnknownStatus(cut(other, 64).to_owned())),
        }
    }

    fn patch(&self, sent: PatchItem, patch: Vec<u8>) -> Result<ItemPatch, PatchAnswerError> {
        let item = self.items.get(&sent.uid).copied();
        let item = item.ok_or_else(|| PatchAnswerError::UnknownItem(cut(&sent.uid, 64).to_owned()))?;
        Ok(ItemPatch { item, patch_type: sent.patch_type, patch })
    }
}

impl HandlerRequest for PreparedPatchRequest {
    type Answer = PatchAnswer;

    fn body(&self) -> &str {
        &self.body
    }

    /// The failure policy only applies to failed calls (RH-7.3, RH-7.4).
    fn decode(&self, handler: &ExtensionHandler, outcome: CallOutcome<'_>) -> Result<PatchAnswer, AnswerError> {
        let name = || handler.name().to_owned();
        if let Some(source) = outcome.ok().and_then(|answer| check_size(answer, MAX_DECODED).err()) {
            return Err(AnswerError::TooLarge { handler: name(), source });
        }
        let decoded = outcome.map_err(|reason| PatchAnswerError::NoAnswer(reason.to_owned()));
        match decoded.and_then(DecodedPatches::decode) {
            Ok(decoded) => self
                .interpret(decoded)
                .map_err(|problem| AnswerError::Invalid { handler: name(), reason: sanitize(&problem.to_string()) }),
            Err(_) if handler.failure_policy() == FailurePolicy::Ignore => Ok(self.empty_answer()),
            Err(problem) => Err(AnswerError::Call { handler: name(), reason: sanitize(&problem.to_string()) }),
        }
    }

    fn is_cacheable(answer: &PatchAnswer) -> bool {
        matches!(answer, PatchAnswer::Patches(_) | PatchAnswer::Valid)
    }
}

/// Sets the `uid` of an item. It is derived from the position and the holder, so that equal requests have equal bytes
/// and an item has the same `uid` in the requests of all patches (RH-10.2).
fn identify(at: usize, item: &mut Value) -> String {
    let holder = item["holderReference"].to_string();
    let uid = uid(super::GROUP, &holder, &ObjectKey::new("items", at.to_string()));
    item["uid"] = uid.clone().into();
    uid
}

/// A decoded answer.
struct DecodedPatches {
    status: String,
    message: String,
    patches: Vec<(PatchItem, Vec<u8>)>,
}

impl DecodedPatches {
    fn decode(answer: &RawValue) -> Result<Self, PatchAnswerError> {
        let PatchResponse { status, message, items } = decode(answer.get()).map_err(PatchAnswerError::NoAnswer)?;
        let patches = items.into_vec().into_iter().enumerate().map(|(at, mut item)| {
            // Decoders of Go skip line breaks (RH-5.7).
            item.patch.retain(|c| c != '\n' && c != '\r');
            let patch = STANDARD.decode(std::mem::take(&mut item.patch));
            patch.map(|patch| (item, patch)).map_err(|source| PatchAnswerError::Base64 { at, source })
        });
        Ok(DecodedPatches { patches: patches.collect::<Result<_, _>>()?, status, message })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{MESSAGE, Registration};
    use super::*;
    use model::world::Found;

    fn call(hook: PatchHook, settings: &Value) -> PatchCall {
        let item = |name: &str| json!({"holderReference": {"kind": "Cluster", "name": name}, "object": {}});
        let mut request = json!({"kind": "K", "variables": [], "items": [item("a"), item("b")]});
        if !settings.is_null() {
            request["settings"] = settings.clone();
        }
        let (extension, cluster) = ("gen.ext".to_owned(), ObjectKey::new("ns", "c"));
        PatchCall { hook, extension, cluster, request: request.to_string() }
    }

    fn request(hook: PatchHook) -> PreparedPatchRequest {
        PreparedPatchRequest::new(&call(hook, &Value::Null), &BTreeMap::new()).unwrap()
    }

    fn handler(policy: &str) -> ExtensionHandler {
        let hook = json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "GeneratePatches"});
        let handlers = json!([{"name": "gen", "requestHook": hook, "failurePolicy": policy}]);
        let raw = RawValue::from_string(json!({"status": "Success", "handlers": handlers}).to_string()).unwrap();
        Registration::from_discovery("ext", &raw, BTreeMap::new())
            .unwrap()
            .handler("gen", "GeneratePatches")
            .unwrap()
            .clone()
    }

    fn found(answer: Result<PatchAnswer, AnswerError>) -> Found<PatchAnswer> {
        answer.map_or_else(|problem| Found::Unreadable(problem.to_string()), Found::Yes)
    }

    fn answered(hook: PatchHook, policy: &str, answer: &Value) -> Found<PatchAnswer> {
        let raw = RawValue::from_string(answer.to_string()).unwrap();
        found(request(hook).decode(&handler(policy), Ok(&raw)))
    }

    fn body(request: &PreparedPatchRequest) -> Value {
        serde_json::from_str(request.body()).unwrap()
    }

    #[test]
    fn settings_of_the_patch_replace_those_of_the_extension() {
        // RH-5.6
        let settings = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        for (of_extension, of_patch, want) in [
            (settings(&[]), Value::Null, Value::Null),
            (settings(&[("a", "1")]), Value::Null, json!({"a": "1"})),
            (settings(&[]), json!({"a": "2"}), json!({"a": "2"})),
            (settings(&[("a", "1"), ("b", "1")]), json!({"a": "2", "c": "2"}), json!({"a": "2", "b": "1", "c": "2"})),
        ] {
            let call = call(PatchHook::GeneratePatches, &of_patch);
            let request = PreparedPatchRequest::new(&call, &of_extension).unwrap();
            assert_eq!(body(&request).get("settings").unwrap_or(&Value::Null), &want);
        }
    }

    #[test]
    fn items_have_different_uids_and_equal_requests_the_same() {
        // RH-10.2, RH-15.1
        let (generate, validate) = (request(PatchHook::GeneratePatches), request(PatchHook::ValidateTopology));
        let uids = |request: &PreparedPatchRequest| [0, 1].map(|at| body(request)["items"][at]["uid"].clone());
        assert_eq!(generate, request(PatchHook::GeneratePatches));
        assert_eq!(uids(&validate), [Value::Null, Value::Null], "there is nothing to answer about an item");
        let [a, b] = uids(&generate);
        assert!(a != b && a.as_str().is_some_and(|uid| uid.len() == 36), "{a} {b}");
    }

    #[test]
    fn patches_find_their_items() {
        // RH-12.1, RH-12.3, RH-5.7
        let sent = body(&request(PatchHook::GeneratePatches));
        let item = |uid: &Value, patch: &str| json!({"uid": uid, "patchType": "JSONMergePatch", "patch": patch});
        let (a, b) = (&sent["items"][0]["uid"], &sent["items"][1]["uid"]);
        let items = json!([item(b, "e30="), item(a, "e\n30="), item(b, "")]);
        let found = answered(PatchHook::GeneratePatches, "Fail", &json!({"status": "Success", "items": items}));
        let Found::Yes(PatchAnswer::Patches(patches)) = found else { panic!("{found:?}") };
        let patches: Vec<_> = patches.iter().map(|patch| (patch.item, &*patch.patch)).collect();
        assert_eq!(patches, [(1, &b"{}"[..]), (0, b"{}"), (1, b"")]);
        let unknown = json!({"status": "Success", "items": [item(&json!("x"), "e30=")]});
        for policy in ["Fail", "Ignore"] {
            let found = answered(PatchHook::GeneratePatches, policy, &unknown);
            let Found::Unreadable(problem) = found else { panic!("{found:?}") };
            assert!(problem.ends_with("no item of the request has the uid \"x\""), "{problem}");
        }
    }

    #[test]
    fn the_status_decides() {
        // RH-5.2, RH-5.3, RH-5.4, RH-7.3
        let long = "ü".repeat(MESSAGE + 1);
        for policy in ["Fail", "Ignore"] {
            let judged = |answer: Value| answered(PatchHook::ValidateTopology, policy, &answer);
            assert_eq!(judged(json!({"status": "Success", "more": 1})), Found::Yes(PatchAnswer::Valid));
            let failure = judged(json!({"status": "Failure", "message": long}));
            assert_eq!(failure, Found::Yes(PatchAnswer::Failure("ü".repeat(MESSAGE))), "{policy}");
            for answer in [json!({}), json!({"status": "success"})] {
                let found = judged(answer);
                let Found::Unreadable(problem) = found else { panic!("{policy}: {found:?}") };
                assert!(problem.contains("unknown status"), "{problem}");
            }
        }
    }

    #[test]
    fn the_failure_policy_decides_about_calls_that_failed() {
        // RH-7.3, RH-7.4, RH-7.5
        let half = json!({"status": "Failure", "message": "m", "items": [{"patch": "e30="}, {"patch": "no base64"}]});
        let wrong = [half, json!({"status": 1}), json!({"status": "Success", "items": "x"}), json!([]), Value::Null];
        for answer in wrong {
            for (hook, nothing) in [
                (PatchHook::GeneratePatches, PatchAnswer::Patches(Arc::default())),
                (PatchHook::ValidateTopology, PatchAnswer::Valid),
            ] {
                assert_eq!(answered(hook, "Ignore", &answer), Found::Yes(nothing), "{answer}");
                let found = answered(hook, "Fail", &answer);
                let Found::Unreadable(problem) = found else { panic!("{answer}: {found:?}") };
                assert!(problem.starts_with("the call of handler \"gen\" failed: "), "{problem}");
            }
        }
        let request = request(PatchHook::GeneratePatches);
        let failed = found(request.decode(&handler("Fail"), Err("refused")));
        assert_eq!(failed, Found::Unreadable("the call of handler \"gen\" failed: refused".to_owned()));
        assert_eq!(
            found(request.decode(&handler("Ignore"), Err("refused"))),
            Found::Yes(PatchAnswer::Patches(Arc::default()))
        );
    }

    #[test]
    fn an_answer_that_takes_too_much_memory_is_invalid_whatever_the_policy() {
        // DEC-44
        let small = json!({"status": "Success", "items": vec![json!({}); 1]});
        let large = json!({"status": "Success", "items": vec![json!({}); 110_000]});
        for policy in ["Fail", "Ignore"] {
            let problem = |answer: &Value| match answered(PatchHook::GeneratePatches, policy, answer) {
                Found::Unreadable(problem) => problem,
                found => panic!("{found:?}"),
            };
            assert!(problem(&small).ends_with("no item of the request has the uid \"\""), "{}", problem(&small));
            let want = "the answer of handler \"gen\" is invalid: it takes 75 MiB once it is decoded, more than 64 MiB";
            assert_eq!(problem(&large), want, "{policy}");
        }
    }

    #[test]
    fn values_of_a_request_are_not_shown() {
        // DEC-34
        let settings = BTreeMap::from([("token".to_owned(), "secret".to_owned())]);
        let request = PreparedPatchRequest::new(&call(PatchHook::GeneratePatches, &Value::Null), &settings).unwrap();
        assert_eq!(format!("{request:?}"), "GeneratePatches of 281 bytes");
    }
}

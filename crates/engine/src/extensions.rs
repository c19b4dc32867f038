//! The protocol between topologist and Runtime Extensions: requests, their targets, and answers.
//!
//! ```text
//! DiscoveryResponse ─► Registration ─► ExtensionHandler ─┐     config.rs: ExtensionConfigs and their status
//! URL ─► BaseUrl ────────────────────────────────────────┼─► CallTarget ─► sent by an edge
//! PatchCall, HookCall, … + settings ─► HandlerRequest ───┘                   │ body, or the reason of a failure
//!                  answer, or AnswerError ◄── HandlerRequest::decode ◄───────┘
//! requests.rs: the requests of all hooks         registry.rs: registered handlers
//! answers.rs: the combined answer of a hook      behavior.rs: checks of an extension's behavior
//!                                                openapi.rs: the document of all hooks
//! ```
//!
//! Everything here is a function. `extension_client` has the connections. The protocol is the
//! [Runtime SDK](https://cluster-api.sigs.k8s.io/tasks/experimental-features/runtime-sdk/) of Cluster API.

mod address;
pub mod answers;
pub mod behavior;
pub mod config;
pub mod errors;
pub mod openapi;
mod patch_request;
mod registration;
mod registry;
mod requests;
mod texts;
pub mod wire;

pub use model::hooks::{FailurePolicy, GROUP, MAX_BODY, VERSION};

pub use address::{AddressError, BaseUrl, CallTarget};
pub use answers::CallOutcome;
pub use config::{ConfigError, ExtensionConfig, Selector, ServicePort};
pub use patch_request::PreparedPatchRequest;
pub use registration::{DiscoveryError, ExtensionHandler, Registration, registered_name};
pub use registry::{ExtensionRegistry, NotRegistered, RegisteredConfig, ResolvedHandler, find_handler};
pub use requests::{
    DISCOVER_VARIABLES, GENERATE_UPGRADE_PLAN, HandlerRequest, HookRequest, PlanRequest, VariablesRequest,
};
pub use texts::sanitize;

use self::errors::{ResponseBodyError, ResponseTooLarge};
use serde_json::Deserializer;
use serde_json::value::RawValue;

use golang::json::JsonSize;

/// The request of Discovery (RH-5.1, RH-6.1).
pub const DISCOVERY: &str = r#"{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"DiscoveryRequest"}"#;
/// Maximum bytes of a decoded answer: many small objects take a multiple of their text (DEC-44).
const MAX_DECODED: usize = 64 << 20;
/// Maximum bytes of decoded answers with handlers, versions or a message.
const MAX_DECODED_LIST: usize = 4 << 20;
/// Maximum characters of a body in an error (RH-4.9).
pub const SHOWN: usize = 512;
/// Maximum characters of an extension's message: messages become part of conditions, whose messages are limited as
/// well.
const MESSAGE: usize = 4096;

/// The first characters of a text.
pub fn cut(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(at, _)| &text[..at])
}

/// The first JSON value of a body; the rest is ignored (RH-4.10).
///
/// # Errors
/// When the body does not begin with a JSON value.
pub fn first_value(body: &[u8]) -> Result<&RawValue, ResponseBodyError> {
    match Deserializer::from_slice(body).into_iter::<&RawValue>().next() {
        Some(value) => Ok(value?),
        None => Err(ResponseBodyError::Empty),
    }
}

/// Checks the memory of an answer before it is decoded.
fn check_size(answer: &RawValue, most: usize) -> Result<(), ResponseTooLarge> {
    match JsonSize::decoded_bytes(answer.get()) {
        bytes if bytes > most => Err(ResponseTooLarge { bytes, most }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!((cut("", 3), cut("abc", 3), cut("abcd", 3), cut("äöüß", 3)), ("", "abc", "abc", "äöü"));
    }

    #[test]
    fn what_follows_the_first_value_is_ignored() {
        // RH-4.10
        for (body, want) in [(r#"{"a":1} rest"#, Some(r#"{"a":1}"#)), ("null", Some("null")), ("", None), ("<p>", None)]
        {
            assert_eq!(first_value(body.as_bytes()).ok().map(RawValue::get), want, "{body}");
        }
        assert!(first_value(b"\xff").is_err());
    }
}

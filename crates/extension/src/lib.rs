//! Runtime Extensions in Rust: a server whose handlers are functions.
//!
//! ```text
//! socket ─► serve.rs (TLS) ─► Router ─► the handler of the path ─► function of the author ─► answer, always with code 200
//!                                           messages.rs: typed requests     patches.rs: patches by comparing objects
//! ```
//!
//! The protocol is the [Runtime SDK](https://cluster-api.sigs.k8s.io/tasks/experimental-features/runtime-sdk/) of
//! Cluster API, so the extension works with Cluster API's own manager as well. This one sets a field of all
//! infrastructure machines, and holds upgrades:
//!
//! ```
//! use serde_json::json;
//! use topologist_extension::{Decision, Extension, Hook};
//!
//! let extension = Extension::new()
//!     .generate_patches("images", |request, patches| {
//!         for item in request.items.iter().filter(|item| item.object["kind"] == "DockerMachineTemplate") {
//!             let image = request.variables_of(item).get("image").cloned().ok_or("the variable image is missing")?;
//!             patches.change(item, |object| object["spec"]["template"]["spec"]["customImage"] = image);
//!         }
//!         Ok(())
//!     })
//!     .lifecycle(Hook::BeforeClusterUpgrade, "window", |request| {
//!         let is_held = request.cluster["metadata"]["annotations"].get("example.com/hold").is_some();
//!         Ok(if is_held { Decision::wait(60, "a person decides") } else { Decision::Proceed })
//!     });
//! assert!(extension.router().is_ok());
//! ```
//!
//! docs/extension-authors.md is the guide for authors.

mod messages;
mod patches;
mod serve;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use messages::{
    Decision, HolderReference, Item, LifecycleRequest, PatchRequest, Settings, UpgradePlanRequest, Variable,
};
pub use patches::Patches;
pub use serve::ServeError;

use model::hooks::{FailurePolicy, GROUP, MAX_BODY, VERSION};
pub use model::hub::Hook;
use model::hub::naming;
pub use model::world::PlannedVersions;

/// Maximum timeout of a handler, in seconds (RH-6.4).
const MAX_TIMEOUT: u32 = 30;

/// Why a handler failed. Its message, with those of its sources, is in the response.
pub type HandlerError = Box<dyn Error + Send + Sync>;

/// A handler function: from the body of a request to the members of the response.
type HandlerFn = Arc<dyn Fn(&[u8]) -> Result<Value, HandlerError> + Send + Sync>;

/// A handler of one hook.
#[derive(Clone)]
struct RegisteredHandler {
    name: String,
    hook: &'static str,
    timeout_seconds: Option<u32>,
    failure_policy: FailurePolicy,
    answer: HandlerFn,
}

/// Builder for an extension.
#[derive(Clone, Default)]
pub struct Extension {
    handlers: Vec<RegisteredHandler>,
}

/// Errors in the handlers of an extension (RH-6.4).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the extension is invalid: {}", .0.join("; "))]
pub struct InvalidExtension(Vec<String>);

impl fmt::Debug for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.handlers.iter().map(|handler| (handler.hook, &handler.name))).finish()
    }
}

impl Extension {
    /// An extension without handlers.
    pub fn new() -> Self {
        Extension::default()
    }

    /// Adds a handler that changes the templates of a topology. An error refuses the topology with its message.
    #[must_use]
    pub fn generate_patches(
        self,
        name: &str,
        handler: impl Fn(&PatchRequest, &mut Patches) -> Result<(), HandlerError> + Send + Sync + 'static,
    ) -> Self {
        self.on("GeneratePatches", name, move |request: &PatchRequest| {
            let mut patches = Patches::default();
            handler(request, &mut patches)?;
            Ok(json!({"items": patches.into_items()}))
        })
    }

    /// Adds a handler that checks the templates of a topology after all patches. An error refuses the topology with its
    /// message.
    #[must_use]
    pub fn validate_topology(
        self,
        name: &str,
        handler: impl Fn(&PatchRequest) -> Result<(), HandlerError> + Send + Sync + 'static,
    ) -> Self {
        self.on("ValidateTopology", name, move |request: &PatchRequest| handler(request).map(|()| json!({})))
    }

    /// Adds a handler that defines variables for the classes whose patches name it: `{name, required, schema:
    /// {openAPIV3Schema}}` each.
    #[must_use]
    pub fn discover_variables(
        self,
        name: &str,
        handler: impl Fn(&Settings) -> Result<Vec<Value>, HandlerError> + Send + Sync + 'static,
    ) -> Self {
        self.on("DiscoverVariables", name, move |request: &messages::SettingsOnly| {
            Ok(json!({"variables": handler(&request.settings)?}))
        })
    }

    /// Adds a handler that plans the versions of an upgrade.
    #[must_use]
    pub fn generate_upgrade_plan(
        self,
        name: &str,
        handler: impl Fn(&UpgradePlanRequest) -> Result<PlannedVersions, HandlerError> + Send + Sync + 'static,
    ) -> Self {
        self.on("GenerateUpgradePlan", name, move |request: &UpgradePlanRequest| {
            let steps =
                |versions: &[String]| -> Value { versions.iter().map(|version| json!({"version": version})).collect() };
            let PlannedVersions { control_plane, workers } = handler(request)?;
            Ok(json!({"controlPlaneUpgrades": steps(&control_plane), "workersUpgrades": steps(&workers)}))
        })
    }

    /// Adds a handler of a lifecycle hook. It is called again after a crash of the caller, so it must be idempotent
    /// (RH-18.6).
    #[must_use]
    pub fn lifecycle(
        self,
        hook: Hook,
        name: &str,
        handler: impl Fn(&LifecycleRequest) -> Result<Decision, HandlerError> + Send + Sync + 'static,
    ) -> Self {
        self.on(hook.name(), name, move |request: &LifecycleRequest| Ok(handler(request)?.into_members()))
    }

    /// Sets the timeout of the last handler in seconds: at most 30, by default 10 (RH-6.3).
    #[must_use]
    pub fn timeout_seconds(mut self, seconds: u32) -> Self {
        if let Some(last) = self.handlers.last_mut() {
            last.timeout_seconds = Some(seconds);
        }
        self
    }

    /// Ignores failed calls of the last handler, as if it had answered without an effect (RH-7.3).
    #[must_use]
    pub fn ignoring_failures(mut self) -> Self {
        if let Some(last) = self.handlers.last_mut() {
            last.failure_policy = FailurePolicy::Ignore;
        }
        self
    }

    fn on<T: DeserializeOwned>(
        mut self,
        hook: &'static str,
        name: &str,
        handler: impl Fn(&T) -> Result<Value, HandlerError> + Send + Sync + 'static,
    ) -> Self {
        let answer = move |body: &[u8]| {
            let request = serde_json::from_slice(body).map_err(|error| format!("the request is invalid: {error}"))?;
            handler(&request)
        };
        self.handlers.push(RegisteredHandler {
            name: name.to_owned(),
            hook,
            timeout_seconds: None,
            failure_policy: FailurePolicy::Fail,
            answer: Arc::new(answer),
        });
        self
    }

    /// The router with the paths of Discovery and of all handlers (RH-4.3, RH-23.1).
    ///
    /// # Errors
    /// When names are not DNS labels or are repeated, or timeouts are too long (RH-6.4).
    pub fn router(self) -> Result<Router, InvalidExtension> {
        self.check()?;
        let base = format!("/{GROUP}/{VERSION}");
        let listed: Vec<Value> = self.handlers.iter().map(RegisteredHandler::discovery_entry).collect();
        let discovery: HandlerFn = Arc::new(move |_: &[u8]| Ok(json!({"handlers": listed})));
        let mut router = Router::new().route(&format!("{base}/discovery"), post(respond("Discovery", discovery)));
        for RegisteredHandler { name, hook, answer, .. } in self.handlers {
            router = router.route(&format!("{base}/{}/{name}", hook.to_lowercase()), post(respond(hook, answer)));
        }
        Ok(router)
    }

    fn check(&self) -> Result<(), InvalidExtension> {
        let (mut problems, mut names) = (Vec::new(), BTreeMap::new());
        for RegisteredHandler { name, hook, timeout_seconds, .. } in &self.handlers {
            problems
                .extend(naming::dns_label_faults(name).into_iter().map(|fault| format!("handler {name:?} {fault}")));
            if let Some(other) = names.insert(name, hook) {
                problems.push(format!("the handlers of {other} and {hook} are both called {name:?}"));
            }
            if timeout_seconds.is_some_and(|seconds| seconds > MAX_TIMEOUT) {
                problems.push(format!("the timeout of handler {name:?} is more than {MAX_TIMEOUT} s"));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(InvalidExtension(problems)) }
    }
}

impl RegisteredHandler {
    /// The entry of the handler in Discovery (RH-6.2).
    fn discovery_entry(&self) -> Value {
        let mut listed = json!({
            "name": self.name,
            "requestHook": {"apiVersion": format!("{GROUP}/{VERSION}"), "hook": self.hook},
            "failurePolicy": self.failure_policy.name(),
        });
        if let Some(seconds) = self.timeout_seconds {
            listed["timeoutSeconds"] = json!(seconds);
        }
        listed
    }
}

/// Responds with the code 200, also to requests that fail (RH-23.2 to RH-23.4).
fn respond(
    hook: &'static str,
    answer: HandlerFn,
) -> impl Fn(Request) -> BoxFuture<'static, Response> + Clone + Send + Sync + 'static {
    move |request| {
        let answer = answer.clone();
        async move { response(hook, call_handler(request, answer).await) }.boxed()
    }
}

/// Calls a handler on a thread for blocking work. A panic becomes an error.
async fn call_handler(request: Request, answer: HandlerFn) -> Result<Value, HandlerError> {
    let body = Limited::new(request.into_body(), MAX_BODY).collect().await;
    let body = body.map_err(|error| format!("the request cannot be read: {error}"))?.to_bytes();
    let work = tokio::task::spawn_blocking(move || catch_unwind(AssertUnwindSafe(|| answer(&body))));
    work.await.ok().and_then(Result::ok).unwrap_or_else(|| Err("the handler panicked".into()))
}

fn response(hook: &str, outcome: Result<Value, HandlerError>) -> Response {
    let mut answer = json!({"apiVersion": format!("{GROUP}/{VERSION}"), "kind": format!("{hook}Response")});
    match outcome {
        Ok(Value::Object(members)) => {
            answer["status"] = json!("Success");
            if let Some(all) = answer.as_object_mut() {
                all.extend(members);
            }
        }
        Ok(_) => answer["status"] = json!("Success"),
        Err(error) => (answer["status"], answer["message"]) = (json!("Failure"), json!(message(&*error))),
    }
    ([(CONTENT_TYPE, "application/json")], Body::from(answer.to_string())).into_response()
}

/// The message of an error, followed by those of its sources.
fn message(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut next) = (error.to_string(), error.source());
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests;

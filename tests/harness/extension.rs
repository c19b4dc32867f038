//! A Runtime Extension as a real HTTPS server, whose handlers do what a test says.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http::header::LOCATION;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use topologist::extensions::openapi;
use topologist::tls::authority::IssuedCertificate;

use super::tls_server::serve;

pub const HOOKS: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";

/// What a handler does with a request.
#[derive(Clone)]
pub enum Reply {
    Json(Value),
    Code(u16, &'static str),
    /// An answer that is not JSON.
    Garbage,
    Redirect,
    Hang,
    TooMuch,
}

impl Reply {
    /// A success with these members.
    pub fn success(more: Value) -> Self {
        let mut answer = json!({"status": "Success"});
        answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Reply::Json(answer)
    }

    pub fn done() -> Self {
        Reply::success(json!({}))
    }

    pub fn failure(message: &str) -> Self {
        Reply::Json(json!({"status": "Failure", "message": message}))
    }

    /// Wait so many seconds.
    pub fn wait(seconds: i32, message: &str) -> Self {
        Reply::success(json!({"retryAfterSeconds": seconds, "message": message}))
    }
}

type Behaviour = Box<dyn Fn(&Value) -> Reply + Send>;

struct Handler {
    hook: String,
    policy: &'static str,
    timeout: i32,
    behaviour: Behaviour,
}

#[derive(Default)]
struct Shared {
    handlers: Mutex<BTreeMap<String, Handler>>,
    /// Answers to Discovery that a test wants instead of the handlers.
    discovery: Mutex<Option<Behaviour>>,
    requests: Mutex<Vec<(String, Value)>>,
}

/// A running extension.
pub struct TestExtension {
    runtime: Option<Runtime>,
    shared: Arc<Shared>,
    pub port: u16,
    /// The CA of its certificate in PEM form.
    pub ca: String,
}

impl Drop for TestExtension {
    fn drop(&mut self) {
        self.stop();
    }
}

impl TestExtension {
    pub fn start() -> Self {
        Self::start_as("127.0.0.1")
    }

    /// One whose certificate has this name.
    pub fn start_as(host: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let issued = IssuedCertificate::generate(&[host.to_owned()], 1).unwrap();
        let (ca, shared) = (issued.authority.clone(), Arc::new(Shared::default()));
        let router = Router::new().fallback(answer).with_state(shared.clone());
        runtime.spawn(async move { serve(TcpListener::from_std(listener).unwrap(), issued, router).await });
        TestExtension { runtime: Some(runtime), shared, port, ca }
    }

    /// From now on nothing answers.
    pub fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// A handler, or what it does from now on; a failed call is an error.
    pub fn on(&self, hook: &str, name: &str, behaviour: impl Fn(&Value) -> Reply + Send + 'static) -> &Self {
        self.on_with(hook, name, "Fail", behaviour)
    }

    /// The same with a failure policy.
    pub fn on_with(
        &self,
        hook: &str,
        name: &str,
        policy: &'static str,
        behaviour: impl Fn(&Value) -> Reply + Send + 'static,
    ) -> &Self {
        let handler = Handler { hook: hook.to_owned(), policy, timeout: 2, behaviour: Box::new(behaviour) };
        self.shared.handlers.lock().unwrap().insert(name.to_owned(), handler);
        self
    }

    /// What Discovery answers from now on.
    pub fn on_discovery(&self, behaviour: impl Fn(&Value) -> Reply + Send + 'static) {
        *self.shared.discovery.lock().unwrap() = Some(Box::new(behaviour));
    }

    /// Discovery lists the handlers again.
    pub fn discoverable(&self) {
        *self.shared.discovery.lock().unwrap() = None;
    }

    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Its ExtensionConfig with more of the spec.
    pub fn config(&self, name: &str, more: &Value) -> Value {
        let mut spec = json!({"clientConfig": {"url": self.url(), "caBundle": STANDARD.encode(&self.ca)}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig", "metadata": {"name": name},
            "spec": spec})
    }

    /// All requests: the last segment of the path, and the body.
    pub fn requests(&self) -> Vec<(String, Value)> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// The bodies that a handler got.
    pub fn requests_of(&self, handler: &str) -> Vec<Value> {
        self.requests().into_iter().filter(|(name, _)| name == handler).map(|(_, body)| body).collect()
    }

    /// How often a handler was called.
    pub fn count(&self, handler: &str) -> usize {
        self.requests_of(handler).len()
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 24).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let name = parts.uri.path().rsplit('/').next().unwrap().to_owned();
    fits(&body);
    shared.requests.lock().unwrap().push((name.clone(), body.clone()));
    let reply = match &*name {
        "discovery" => discovery(&shared, &body),
        name => match shared.handlers.lock().unwrap().get(name) {
            Some(handler) => (handler.behaviour)(&body),
            None => Reply::Code(404, "no such handler"),
        },
    };
    match reply {
        Reply::Json(value) => value.to_string().into_response(),
        Reply::Code(code, text) => (StatusCode::from_u16(code).unwrap(), text).into_response(),
        Reply::Garbage => "<html>".into_response(),
        Reply::Redirect => (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, "/elsewhere")]).into_response(),
        Reply::Hang => std::future::pending().await,
        Reply::TooMuch => vec![b' '; 20 * 1024 * 1024 + 1].into_response(),
    }
}

/// The schemas of all requests, in which unknown members are errors.
static REQUESTS: LazyLock<BTreeMap<String, jsonschema::Validator>> = LazyLock::new(|| {
    let document = openapi::document();
    let mut components = document["components"].clone();
    let schemas = components["schemas"].as_object_mut().unwrap();
    schemas.values_mut().for_each(close);
    let kinds: Vec<String> = schemas.keys().filter(|kind| kind.ends_with("Request")).cloned().collect();
    let compile = |kind: String| {
        let schema = json!({"$ref": format!("#/components/schemas/{kind}"), "components": components});
        let compiled = jsonschema::validator_for(&schema).unwrap();
        (kind, compiled)
    };
    kinds.into_iter().map(compile).collect()
});

/// Lets no object have members that its schema does not name.
fn close(schema: &mut Value) {
    if let Value::Object(members) = schema {
        if members.contains_key("properties") {
            members.insert("additionalProperties".to_owned(), json!(false));
        }
        members.values_mut().for_each(close);
    }
}

/// A request is one of those that `crds --hooks` describes (RH-5.1); a test that gets another one has no answer.
fn fits(request: &Value) {
    let kind = request["kind"].as_str().unwrap_or_default();
    let schema = REQUESTS.get(kind).unwrap_or_else(|| panic!("{kind:?} is no kind of a request"));
    let errors: Vec<String> =
        schema.iter_errors(request).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{kind}: {errors:#?}");
}

fn discovery(shared: &Shared, body: &Value) -> Reply {
    if let Some(behaviour) = &*shared.discovery.lock().unwrap() {
        return behaviour(body);
    }
    let handlers = shared.handlers.lock().unwrap();
    let handlers: Vec<Value> = handlers
        .iter()
        .map(|(name, handler)| {
            json!({"name": name, "requestHook": {"apiVersion": HOOKS, "hook": handler.hook},
                "timeoutSeconds": handler.timeout, "failurePolicy": handler.policy})
        })
        .collect();
    Reply::success(json!({"handlers": handlers}))
}

/// An answer to GeneratePatches that adds a member to the spec of the items whose holder has this `fieldPath`.
pub fn patched(request: &Value, field_path: &str, name: &str, value: &Value) -> Reply {
    let field = format!("/spec/template/spec/{name}");
    let patch = json!([{"op": "add", "path": field, "value": value}]).to_string();
    let items = request["items"].as_array().unwrap().iter();
    let items = items.filter(|item| item["holderReference"]["fieldPath"] == field_path);
    let patched =
        items.map(|item| json!({"uid": item["uid"], "patchType": "JSONPatch", "patch": STANDARD.encode(&patch)}));
    Reply::success(json!({"items": patched.collect::<Vec<_>>()}))
}

/// The value of a variable of a request.
pub fn variable(request: &Value, name: &str) -> Value {
    let all = request["variables"].as_array().cloned().unwrap_or_default();
    all.into_iter()
        .find(|variable| variable["name"] == name)
        .map(|variable| variable["value"].clone())
        .unwrap_or_default()
}

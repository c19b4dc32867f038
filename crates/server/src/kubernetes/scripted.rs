//! An API server that follows a script: it expects requests in order, and each has its answer.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    missing_debug_implementations,
    reason = "a test fails"
)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use serde_json::Value;
use tower::service_fn;

/// The response to a request.
pub enum ScriptedAnswer {
    /// A status and an object.
    Object(StatusCode, Value),
    /// A text with status 200.
    Text(String),
    /// A watch: what is said after how long; then the connection ends.
    Watch(Vec<(Duration, Value)>),
    /// A watch that says something, and then stays open for ever.
    OpenWatch(Vec<(Duration, Value)>),
    /// No answer at all.
    Silence,
}

struct ScriptLine {
    method: Method,
    path: String,
    words: Vec<String>,
    answer: ScriptedAnswer,
}

/// The kinds of objects that scripts do not name.
const KINDS: [&str; 17] = [
    "ATemplate",
    "BTemplate",
    "Cluster",
    "ClusterClass",
    "Event",
    "ForgeCluster",
    "ForgeMachinePool",
    "ForgeMachineTemplate",
    "ITemplate",
    "KubeadmConfig",
    "KubeadmConfigTemplate",
    "KubeadmControlPlane",
    "MachineDeployment",
    "MachineHealthCheck",
    "MachinePool",
    "MachineSet",
    "Secret",
];

/// The expected requests that have not arrived yet, with their responses.
#[derive(Clone, Default)]
pub struct Script(Arc<Mutex<VecDeque<ScriptLine>>>);

impl Script {
    /// Expects a request whose path is `path` and whose query, or body, has all `words`.
    pub fn expect(&self, method: &Method, path: &str, words: &[&str], answer: ScriptedAnswer) -> &Self {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        self.0.lock().unwrap().push_back(ScriptLine { method: method.clone(), path: path.to_owned(), words, answer });
        self
    }

    /// Expects a GET.
    pub fn get(&self, path: &str, words: &[&str], answer: ScriptedAnswer) -> &Self {
        self.expect(&Method::GET, path, words, answer)
    }

    /// The number of expected requests that have not arrived yet.
    pub fn left(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// A client whose requests have to follow the script; any other request fails the test.
    pub fn client(&self) -> kube::Client {
        let script = self.clone();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let script = script.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let text = format!("{} {}", head.uri.query().unwrap_or_default(), String::from_utf8_lossy(&body));
                let line = script.0.lock().unwrap().pop_front();
                let line = line.unwrap_or_else(|| panic!("nothing was expected, but {} {}", head.method, head.uri));
                assert_eq!((&head.method, head.uri.path()), (&line.method, &*line.path), "{text}");
                for word in &line.words {
                    assert!(text.contains(word.as_str()), "{word:?} is not in {text:?}");
                }
                Ok::<_, Infallible>(line.answer.about(head.uri.path(), &body).response().await)
            }
        });
        kube::Client::new(service, "default")
    }
}

impl ScriptedAnswer {
    pub fn ok(object: Value) -> ScriptedAnswer {
        ScriptedAnswer::Object(StatusCode::OK, object)
    }

    /// A Status object, as kube-apiserver reports errors.
    pub fn error(code: u16, reason: &str) -> ScriptedAnswer {
        let code = StatusCode::from_u16(code).unwrap();
        ScriptedAnswer::Object(code, status(code.as_u16(), reason))
    }

    /// The response with the identity of the object, which scripts leave out.
    fn about(self, path: &str, body: &[u8]) -> ScriptedAnswer {
        let ScriptedAnswer::Object(StatusCode::OK, mut object) = self else { return self };
        if object.get("items").is_none() {
            let sent: Value = serde_json::from_slice(body).unwrap_or_default();
            let sent = sent["metadata"]["name"].as_str().map(|name| format!("{path}/{name}"));
            identify(sent.as_deref().filter(|_| !is_of_object(path)).unwrap_or(path), &mut object);
        }
        ScriptedAnswer::Object(StatusCode::OK, object)
    }

    async fn response(self) -> Response<Body> {
        let (code, body) = match self {
            ScriptedAnswer::Object(code, object) => (code, Body::from(object.to_string())),
            ScriptedAnswer::Text(text) => (StatusCode::OK, Body::from(text)),
            ScriptedAnswer::Watch(lines) => (StatusCode::OK, Body::from_stream(spoken(lines))),
            ScriptedAnswer::OpenWatch(lines) => {
                (StatusCode::OK, Body::from_stream(spoken(lines).chain(stream::pending())))
            }
            ScriptedAnswer::Silence => std::future::pending().await,
        };
        Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
    }
}

/// Whether a path leads to one object in a namespace.
fn is_of_object(path: &str) -> bool {
    path.split('/').skip_while(|segment| *segment != "namespaces").count() == 4
}

/// Sets kind, namespace and name of an object in a namespace from its path; existing values stay.
pub fn identify(path: &str, object: &mut Value) {
    let segments: Vec<&str> = path.split('/').collect();
    let (api_version, namespace, plural, name) = match segments.as_slice() {
        ["", "api", version, "namespaces", namespace, plural, name] => ((*version).to_owned(), namespace, plural, name),
        ["", "apis", group, version, "namespaces", namespace, plural, name] => {
            (format!("{group}/{version}"), namespace, plural, name)
        }
        _ => return,
    };
    let mut put = |pointer: &str, field: &str, value: &str| {
        let Some(members) = object.pointer_mut(pointer).and_then(Value::as_object_mut) else { return };
        members.entry(field).or_insert_with(|| value.into());
    };
    put("", "apiVersion", &api_version);
    if let Some(kind) = KINDS.iter().find(|kind| model::hub::contract::plural(kind) == **plural) {
        put("", "kind", kind);
    }
    put("/metadata", "namespace", namespace);
    put("/metadata", "name", name);
}

/// A Status object.
pub fn status(code: u16, reason: &str) -> Value {
    serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "reason": reason, "message": format!("scripted {reason}")})
}

fn spoken(lines: Vec<(Duration, Value)>) -> impl futures::Stream<Item = Result<Bytes, Infallible>> {
    stream::iter(lines).then(|(pause, line)| async move {
        tokio::time::sleep(pause).await;
        // API servers say first what has happened.
        let event = format!("{{\"type\":{},\"object\":{}}}\n", line["type"], line["object"]);
        Ok(Bytes::from(event))
    })
}

//! An API server for tests: objects by path, resourceVersions, and failures on demand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

/// How requests go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// There is never an answer, and nothing is stored.
    Hangs,
    /// The request is carried out, and there is never an answer.
    LosesAnswers,
    /// This answer, and nothing is stored.
    Status(u16),
}

#[derive(Debug, Default)]
struct Store {
    objects: BTreeMap<String, Value>,
    version: u64,
    failure: Option<Failure>,
    requests: Vec<String>,
}

/// The server; clones are the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct ApiServer {
    store: Arc<Mutex<Store>>,
}

impl ApiServer {
    /// A client of this server.
    pub(super) fn client(&self) -> kube::Client {
        let server = self.clone();
        kube::Client::new(tower::service_fn(move |request| server.clone().answer(request)), "default")
    }

    /// From now on requests go wrong in this way, or well again.
    pub(super) fn fail(&self, failure: Option<Failure>) {
        self.store.lock().unwrap().failure = failure;
    }

    /// The object at a path.
    pub(super) fn object(&self, path: &str) -> Option<Value> {
        self.store.lock().unwrap().objects.get(path).cloned()
    }

    /// Changes the object at a path, as another client would.
    pub(super) fn edit(&self, path: &str, edit: impl FnOnce(&mut Value)) {
        let mut store = self.store.lock().unwrap();
        let mut object = store.objects.get(path).cloned().unwrap_or_else(|| json!({"metadata": {}}));
        edit(&mut object);
        store.put(path, object);
    }

    /// Deletes the object at a path.
    pub(super) fn delete(&self, path: &str) {
        self.store.lock().unwrap().objects.remove(path);
    }

    /// The requests since the last call: method and path.
    pub(super) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.store.lock().unwrap().requests)
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let failure = {
            let mut store = self.store.lock().unwrap();
            store.requests.push(format!("{} {}", parts.method, parts.uri.path()));
            store.failure
        };
        let (code, answer) = match failure {
            Some(Failure::Hangs) => std::future::pending().await,
            Some(Failure::Status(code)) => (code, json!({})),
            _ => self.store.lock().unwrap().carry_out(&parts.method, parts.uri.path(), body),
        };
        if failure == Some(Failure::LosesAnswers) {
            return std::future::pending().await;
        }
        let status = StatusCode::from_u16(code).unwrap();
        let answer = if status.is_success() {
            answer
        } else {
            let reason = match code {
                403 => "Forbidden",
                404 => "NotFound",
                409 => "Conflict",
                _ => "InternalError",
            };
            json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "as scripted"})
        };
        Ok(Response::builder().status(status).body(Body::from(answer.to_string().into_bytes())).unwrap())
    }
}

impl Store {
    fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn carry_out(&mut self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        let name = body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let path = if *method == Method::POST { format!("{path}/{name}") } else { path.to_owned() };
        let stored = self.objects.get(&path).cloned();
        let is_current = |stored: &Value| match body.pointer("/metadata/resourceVersion") {
            None => true,
            Some(version) => Some(version) == stored.pointer("/metadata/resourceVersion"),
        };
        match (method.as_str(), stored) {
            ("POST", None) => (201, self.put(&path, body)),
            ("POST", Some(_)) => (409, json!({})),
            (_, None) => (404, json!({})),
            ("GET", Some(stored)) => (200, stored),
            (_, Some(stored)) if !is_current(&stored) => (409, json!({})),
            ("PUT", Some(_)) => (200, self.put(&path, body)),
            (other, Some(_)) => panic!("{other} is not offered"),
        }
    }
}

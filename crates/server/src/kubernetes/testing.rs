//! An API server for tests: objects by path, resourceVersions, watches, and failures on demand.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc;
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::Instant;

/// How requests go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is never an answer, and nothing is stored.
    Hangs,
    /// The request is carried out, and there is never an answer.
    LosesAnswers,
    /// This answer, and nothing is stored.
    Status(u16),
    /// The request is carried out, and the answer comes after this time.
    Slow(Duration),
}

/// A request that came in.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub at: Instant,
    pub method: Method,
    pub path: String,
}

impl Received {
    /// Whether an object was asked for or written, not a list.
    pub(crate) fn is_about(&self, name: &str) -> bool {
        self.path.split('/').any(|segment| segment == name)
    }
}

#[derive(Default)]
struct Store {
    objects: BTreeMap<String, Value>,
    version: u64,
    failure: Option<Failure>,
    /// Paths of which the next patch or deletion gets this answer, and nothing is stored.
    refusals: Vec<(Method, String, u16)>,
    /// What another client does to every status right after it was written.
    meddler: Option<fn(&mut Value)>,
    received: Vec<Received>,
    /// What watches do not show.
    unseen: Option<String>,
    /// The beginnings of paths that are not found, even if objects are stored there.
    unserved: Vec<String>,
    watches: Vec<(String, mpsc::UnboundedSender<Value>)>,
}

/// The server; clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct ApiServer {
    store: Arc<Mutex<Store>>,
}

impl ApiServer {
    /// A client of this server.
    pub(crate) fn client(&self) -> kube::Client {
        let server = self.clone();
        kube::Client::new(tower::service_fn(move |request| server.clone().answer(request)), "default")
    }

    /// From now on requests go wrong in this way, or well again.
    pub(crate) fn fail(&self, failure: Option<Failure>) {
        self.store.lock().unwrap().failure = failure;
    }

    /// The next patch of this object meets a conflict.
    pub(crate) fn conflict(&self, path: &str) {
        self.refuse(&Method::PATCH, path, 409);
    }

    /// The next write of this kind to this object gets this answer.
    pub(crate) fn refuse(&self, method: &Method, path: &str, code: u16) {
        self.store.lock().unwrap().refusals.push((method.clone(), path.to_owned(), code));
    }

    /// From now on another client changes every status right after it was written.
    pub(crate) fn meddle(&self, meddler: fn(&mut Value)) {
        self.store.lock().unwrap().meddler = Some(meddler);
    }

    /// From now on watches show nothing of objects of this plural.
    pub(crate) fn hide(&self, plural: &str) {
        self.store.lock().unwrap().unseen = Some(format!("/{plural}/"));
    }

    /// From now on paths that begin like this lead to nothing.
    pub(crate) fn stop_serving(&self, paths: impl IntoIterator<Item = String>) {
        self.store.lock().unwrap().unserved.extend(paths);
    }

    /// What is stored, to restore it later.
    pub(crate) fn copy(&self) -> (BTreeMap<String, Value>, u64) {
        let store = self.store.lock().unwrap();
        (store.objects.clone(), store.version)
    }

    /// Stores a copy again, as a restored etcd does; versions go on from there.
    pub(crate) fn restore(&self, (objects, version): (BTreeMap<String, Value>, u64)) {
        let mut store = self.store.lock().unwrap();
        (store.objects, store.version) = (objects, version);
    }

    /// The object at a path.
    pub(crate) fn object(&self, path: &str) -> Option<Value> {
        self.store.lock().unwrap().objects.get(path).cloned()
    }

    /// Changes the object at a path, as another client would; makes it where there is none.
    pub(crate) fn edit(&self, path: &str, edit: impl FnOnce(&mut Value)) {
        let mut store = self.store.lock().unwrap();
        let mut object = store.objects.get(path).cloned().unwrap_or_else(|| named(path));
        edit(&mut object);
        store.put(path, object);
    }

    /// Deletes the object at a path; finalizers keep it.
    pub(crate) fn delete(&self, path: &str) {
        self.store.lock().unwrap().delete(path);
    }

    /// The requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<Received> {
        std::mem::take(&mut self.store.lock().unwrap().received)
    }

    async fn answer(self, request: Request<kube::client::Body>) -> Result<Response<Body>, Infallible> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (method, path) = (head.method.clone(), head.uri.path().to_owned());
        let failure = {
            let mut store = self.store.lock().unwrap();
            store.received.push(Received { at: Instant::now(), method, path });
            store.failure
        };
        let answer = match failure {
            Some(Failure::Hangs) => std::future::pending().await,
            Some(Failure::Status(code)) => refusal(code),
            _ => self.store.lock().unwrap().carry_out(&head, body),
        };
        match failure {
            Some(Failure::LosesAnswers) => std::future::pending().await,
            Some(Failure::Slow(latency)) => tokio::time::sleep(latency).await,
            _ => {}
        }
        Ok(answer)
    }
}

/// An object with nothing but the name that its path gives it.
fn named(path: &str) -> Value {
    let mut segments = path.rsplit('/');
    let name = segments.next().unwrap();
    let namespace = segments.nth(1).filter(|_| path.contains("/namespaces/"));
    let mut object = json!({"metadata": {"name": name, "namespace": namespace, "uid": format!("uid-of-{name}")}});
    crate::kubernetes::scripted::identify(path, &mut object);
    object
}

/// The lists that an object is in: of its namespace, and of all.
fn lists(path: &str) -> [String; 2] {
    let list = path.rsplit_once('/').unwrap().0;
    let all = match list.split_once("/namespaces/") {
        Some((start, rest)) => format!("{start}/{}", rest.split_once('/').unwrap().1),
        None => list.to_owned(),
    };
    [list.to_owned(), all]
}

fn object(code: u16, object: &Value) -> Response<Body> {
    let status = StatusCode::from_u16(code).unwrap();
    Response::builder().status(status).body(Body::from(object.to_string())).unwrap()
}

fn refusal(code: u16) -> Response<Body> {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        _ => "InternalError",
    };
    object(
        code,
        &json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "as scripted"}),
    )
}

impl Store {
    fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let before = self.objects.insert(path.to_owned(), object.clone());
        self.notify(if before.is_some() { "MODIFIED" } else { "ADDED" }, path, &object);
        object
    }

    fn notify(&mut self, kind: &str, path: &str, object: &Value) {
        if self.unseen.as_ref().is_some_and(|unseen| path.contains(&**unseen)) {
            return;
        }
        let lists = lists(path);
        let event = json!({"type": kind, "object": object});
        self.watches.retain(|(list, watch)| !lists.contains(list) || watch.unbounded_send(event.clone()).is_ok());
    }

    fn carry_out(&mut self, head: &http::request::Parts, body: Value) -> Response<Body> {
        let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
        let (path, is_status) = path.strip_suffix("/status").map_or((path, false), |path| (path, true));
        let stored = self.objects.get(path).cloned();
        if self.unserved.iter().any(|start| path.starts_with(&**start)) {
            return refusal(404);
        }
        match (head.method.as_str(), stored) {
            ("GET", Some(stored)) => object(200, &stored),
            ("GET", None) if query.contains("watch=true") => self.watch(path),
            ("GET", None) if query.contains("limit=") => self.list(path, query),
            ("POST", _) => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
                if self.objects.contains_key(&path) { refusal(409) } else { object(201, &self.put(&path, body)) }
            }
            (_, None) => refusal(404),
            (_, Some(_)) if let Some(code) = self.refused(&head.method, path) => refusal(code),
            ("PATCH", Some(stored)) => self.patch(head, path, &stored, &body, is_status),
            ("DELETE", Some(stored)) => {
                self.delete(path);
                object(200, &stored)
            }
            ("PUT", Some(stored)) => self.replace(path, &stored, body),
            (other, Some(_)) => panic!("{other} is not offered"),
        }
    }

    fn list(&self, path: &str, query: &str) -> Response<Body> {
        let selector = query.split('&').find_map(|part| part.strip_prefix("labelSelector=")).unwrap_or_default();
        let selector = selector.replace("%2F", "/").replace("%3D", "=").replace("%21", "!");
        let is_selected = |object: &&Value| {
            let labels = &object["metadata"]["labels"];
            match (selector.strip_prefix('!'), selector.split_once('=')) {
                (Some(name), _) => labels.get(name).is_none(),
                (_, Some((name, value))) => labels[name] == value,
                _ => selector.is_empty() || labels.get(&selector).is_some(),
            }
        };
        let items = self.objects.iter().filter(|(object, _)| lists(object).iter().any(|list| list == path));
        let items: Vec<&Value> = items.map(|(_, object)| object).filter(is_selected).collect();
        object(200, &json!({"metadata": {"resourceVersion": self.version.to_string()}, "items": items}))
    }

    fn refused(&mut self, method: &Method, path: &str) -> Option<u16> {
        let at = self.refusals.iter().position(|(of, at, _)| of == method && at == path)?;
        Some(self.refusals.remove(at).2)
    }

    fn delete(&mut self, path: &str) {
        let Some(mut object) = self.objects.get(path).cloned() else { return };
        if object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty()) {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            self.put(path, object);
        } else if let Some(object) = self.objects.remove(path) {
            self.notify("DELETED", path, &object);
        }
    }

    fn watch(&mut self, path: &str) -> Response<Body> {
        let (sender, receiver) = mpsc::unbounded();
        self.watches.push((path.to_owned(), sender));
        // The type comes first, as API servers write events.
        let line = |event: &Value| format!("{{\"type\":{},\"object\":{}}}\n", event["type"], event["object"]);
        let lines = receiver.map(move |event: Value| Ok::<_, Infallible>(Bytes::from(line(&event))));
        Response::new(Body::from_stream(lines))
    }

    fn replace(&mut self, path: &str, stored: &Value, new: Value) -> Response<Body> {
        let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        match version(&new) {
            Some(version_of) if Some(&version_of) != version(stored).as_ref() => refusal(409),
            _ => object(200, &self.put(path, new)),
        }
    }

    fn patch(
        &mut self,
        head: &http::request::Parts,
        path: &str,
        stored: &Value,
        body: &Value,
        is_status: bool,
    ) -> Response<Body> {
        let mut new = stored.clone();
        match head.headers["content-type"].to_str().unwrap() {
            "application/merge-patch+json" => json_patch::merge(&mut new, body),
            "application/json-patch+json" => {
                let operations: json_patch::Patch = serde_json::from_value(body.clone()).unwrap();
                if json_patch::patch(&mut new, &operations).is_err() {
                    return refusal(422);
                }
            }
            other => panic!("{other} is not offered"),
        }
        let answer = self.replace(path, stored, new);
        let kept = |object: &Value| object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        let is_leaving = stored["metadata"].get("deletionTimestamp").is_some();
        if answer.status().is_success() && is_leaving && kept(stored) && !kept(&self.objects[path]) {
            self.delete(path);
            return answer;
        }
        if let (true, Some(meddler)) = (is_status && answer.status().is_success(), self.meddler) {
            let mut object = self.objects[path].clone();
            meddler(&mut object);
            self.put(path, object);
        }
        answer
    }
}

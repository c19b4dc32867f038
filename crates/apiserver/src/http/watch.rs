//! Watches: existing objects, then events, as lines of JSON.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Response, header};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::read::{too_new, version_of};
use super::request::{ApiRequest, RequestTarget};
use super::response::ResponseForm;
use super::selector::ObjectSelector;
use crate::Embedded;
use crate::storage::kind_schema;
use crate::storage::registry::{KindRegistry, ServedResource};
use crate::storage::shape::viewed;
use crate::storage::status::ApiError;
use crate::storage::store::{self, KeyRange, WatchEvent, within};
use crate::storage::stored::StoredEntry;

/// Default duration of a watch.
const DEFAULT_DURATION: Duration = Duration::from_mins(30);
/// Maximum duration of a watch.
const MAX_DURATION: Duration = Duration::from_hours(24);
/// Interval of bookmarks in an idle watch.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);
/// Annotation of the bookmark after all initial objects.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// State of a watch.
struct WatchStream {
    embedded: Embedded,
    resource: Arc<ServedResource>,
    kind: Arc<str>,
    /// Namespace and slash; empty for all.
    prefix: String,
    /// Empty for all objects.
    key: String,
    selector: ObjectSelector,
    form: ResponseForm,
    /// The version up to which the client is informed.
    position: u64,
    news: Receiver<u64>,
    sends_bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    /// Data to be sent first.
    ready: Option<Bytes>,
    is_over: bool,
}

/// Start of a watch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// With all existing objects; the flag requests a bookmark after them.
    Everything(bool),
    Now,
    After(u64),
}

/// Responds with a stream of events.
pub(super) fn watch(
    embedded: &Embedded,
    call: &ApiRequest,
    target: &RequestTarget,
    resource: &Arc<ServedResource>,
) -> Result<Response<Body>, ApiError> {
    let selector = ObjectSelector::parse(resource, call.query.text("labelSelector"), call.query.text("fieldSelector"))?;
    let start = start(call)?;
    let kind: Arc<str> = resource.store_name().into();
    let duration = call.query.number("timeoutSeconds").filter(|seconds| *seconds > 0);
    let duration = duration.map_or(DEFAULT_DURATION, Duration::from_secs).min(MAX_DURATION);
    let now = Instant::now();
    let key = match target.name.is_empty() {
        true => String::new(),
        false => store::key(&target.namespace, &target.name).to_string(),
    };
    let mut state = embedded.state();
    let mut watch = WatchStream {
        embedded: embedded.clone(),
        resource: resource.clone(),
        prefix: if target.namespace.is_empty() { String::new() } else { format!("{}/", target.namespace) },
        key,
        selector,
        form: ResponseForm::negotiate(call),
        position: state.version,
        news: state.follow(&kind),
        sends_bookmarks: call.query.flag("allowWatchBookmarks"),
        next_bookmark: now + BOOKMARK_PERIOD,
        end: now + duration,
        ready: None,
        is_over: false,
        kind,
    };
    match start {
        Start::Now => {}
        Start::After(version) if version > state.version => return Err(too_new(version, state.version)),
        Start::After(version) => watch.position = version,
        Start::Everything(announces_end) => {
            let mut lines = Vec::new();
            let part = KeyRange { prefix: &watch.prefix, cluster: watch.selector.cluster() };
            let (objects, registry) = (state.objects_of(&watch.kind, part), state.registry.clone());
            drop(state);
            for (key, stored) in within(&objects, &watch.prefix) {
                if watch.is_about(key) && watch.selector.selects(&registry, resource, stored) {
                    watch.line("ADDED", stored, &registry, &mut lines);
                }
            }
            if announces_end {
                watch.bookmark(true, &mut lines);
            }
            watch.ready = Some(lines.into()).filter(|lines: &Bytes| !lines.is_empty());
        }
    }
    let lines = stream::unfold(watch, |mut watch| async move {
        let closed = watch.embedded.0.closed.clone();
        let lines = closed.run_until_cancelled(watch.next()).await??;
        Some((Ok::<_, Infallible>(lines), watch))
    });
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

fn start(call: &ApiRequest) -> Result<Start, ApiError> {
    let version = version_of(call.query.text("resourceVersion"))?;
    let match_ = call.query.text("resourceVersionMatch");
    if call.query.has("sendInitialEvents") {
        if match_ != "NotOlderThan" {
            let message = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            return Err(list_options_invalid("resourceVersionMatch", message));
        }
        return Ok(match call.query.flag("sendInitialEvents") {
            true => Start::Everything(call.query.flag("allowWatchBookmarks")),
            false if version == 0 => Start::Now,
            false => Start::After(version),
        });
    }
    if !match_.is_empty() {
        let message = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        return Err(list_options_invalid("resourceVersionMatch", message));
    }
    Ok(if version == 0 { Start::Everything(false) } else { Start::After(version) })
}

fn list_options_invalid(field: &str, why: &str) -> ApiError {
    let fault = kind_schema::ObjectFault {
        kind: schema::field::ErrorKind::Forbidden,
        field: field.to_owned(),
        value: schema::field::ErrorValue::NOTHING,
        detail: why.to_owned(),
    };
    ApiError::invalid("meta.k8s.io", "ListOptions", "", vec![fault])
}

impl WatchStream {
    /// The next lines; `None` when the watch has ended.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(ready) = self.ready.take() {
            return Some(ready);
        }
        loop {
            if self.is_over {
                return None;
            }
            self.news.borrow_and_update();
            let lines = self.lines();
            if !lines.is_empty() {
                return Some(lines.into());
            }
            let alarm = if self.sends_bookmarks { self.next_bookmark.min(self.end) } else { self.end };
            tokio::select! {
                news = self.news.changed() => self.is_over = news.is_err(),
                () = sleep_until(alarm) => {
                    let now = Instant::now();
                    self.is_over = now >= self.end;
                    self.next_bookmark = now + BOOKMARK_PERIOD;
                    let mut lines = Vec::new();
                    if self.sends_bookmarks {
                        self.bookmark(false, &mut lines);
                        return Some(lines.into());
                    }
                }
            }
        }
    }

    /// Events since the last call.
    fn lines(&mut self) -> Vec<u8> {
        let (news, registry, oldest) = {
            let state = self.embedded.state();
            (state.news(&self.kind, self.position), state.registry.clone(), state.oldest(&self.kind))
        };
        let mut lines = Vec::new();
        let Some(events) = news.events else {
            let expired = ApiError::expired(format!("too old resource version: {} ({oldest})", self.position));
            write_line("ERROR", &expired.to_value(), &mut lines);
            self.is_over = true;
            return lines;
        };
        for event in &events {
            self.write_event(event, &registry, &mut lines);
        }
        self.position = news.version;
        lines
    }

    fn is_about(&self, key: &str) -> bool {
        key.starts_with(&self.prefix) && (self.key.is_empty() || self.key == key)
    }

    /// The event of an object that enters the selection, changes in it, or leaves it.
    fn write_event(&self, event: &WatchEvent, registry: &KindRegistry, lines: &mut Vec<u8>) {
        if !self.is_about(&event.key) {
            return;
        }
        let selected = |stored: &Option<Arc<StoredEntry>>| {
            stored.as_ref().is_some_and(|stored| self.selector.selects(registry, &self.resource, stored))
        };
        match (selected(&event.before), selected(&event.after)) {
            (false, false) => {}
            (was_selected, true) => {
                let Some(after) = &event.after else { return };
                let what = if was_selected { "MODIFIED" } else { "ADDED" };
                self.line(what, after, registry, lines);
            }
            (true, false) => {
                // The last state with the version of the deletion.
                let Some(before) = &event.before else { return };
                let mut object = viewed(registry, &self.resource, before);
                object["metadata"]["resourceVersion"] = json!(event.version.to_string());
                write_line("DELETED", &self.form.object(&self.resource, object), lines);
            }
        }
    }

    fn line(&self, what: &str, stored: &StoredEntry, registry: &KindRegistry, lines: &mut Vec<u8>) {
        write_text(what, &self.form.text(registry, &self.resource, stored), lines);
    }

    /// A bookmark with the current version.
    fn bookmark(&self, is_end_of_initial: bool, lines: &mut Vec<u8>) {
        let (api_version, kind) = match self.form {
            ResponseForm::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata".to_owned()),
            _ => (self.resource.api_version(), self.resource.kind.clone()),
        };
        let mut metadata = json!({"resourceVersion": self.position.to_string(), "creationTimestamp": null});
        if is_end_of_initial {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        write_line("BOOKMARK", &json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}), lines);
    }
}

fn write_line(what: &str, object: &Value, lines: &mut Vec<u8>) {
    write_text(what, object.to_string().as_bytes(), lines);
}

fn write_text(what: &str, object: &[u8], lines: &mut Vec<u8>) {
    for part in [b"{\"type\":\"", what.as_bytes(), b"\",\"object\":", object, b"}\n"] {
        lines.extend_from_slice(part);
    }
}

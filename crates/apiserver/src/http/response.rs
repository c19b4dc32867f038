//! Response bodies in the form that a client accepts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::request::ApiRequest;
use super::table;
use crate::storage::registry::{KindRegistry, ServedResource};
use crate::storage::shape::{is_stored_as, viewed};
use crate::storage::status::ApiError;
use crate::storage::stored::StoredEntry;

/// The parts of a response.
#[derive(Debug)]
pub(super) struct ApiResponse {
    pub code: StatusCode,
    pub body: Bytes,
    pub warnings: Vec<String>,
    retry_after: Option<u64>,
}

impl ApiResponse {
    pub(super) fn from_json(code: StatusCode, value: &Value) -> Self {
        ApiResponse::from_text(code, value.to_string().into())
    }

    pub(super) fn from_text(code: StatusCode, body: Bytes) -> Self {
        ApiResponse { code, body, warnings: Vec::new(), retry_after: None }
    }

    #[must_use]
    pub(super) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let is_json = self.body.first() == Some(&b'{');
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.code;
        let headers = response.headers_mut();
        let content_type = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        let mut written = Vec::new();
        for warning in self.warnings {
            if written.contains(&warning) {
                continue;
            }
            if let Ok(value) = HeaderValue::from_str(&quoted(&warning)) {
                headers.append(HeaderName::from_static("warning"), value);
            }
            written.push(warning);
        }
        response
    }
}

impl From<ApiError> for ApiResponse {
    fn from(failure: ApiError) -> Self {
        if failure.is_plain() {
            return ApiResponse::from_text(failure.code, failure.message.into());
        }
        let retry_after = failure.details.get("retryAfterSeconds").and_then(Value::as_u64);
        ApiResponse { retry_after, ..ApiResponse::from_json(failure.code, &failure.to_value()) }
    }
}

/// A warning in header form: `299 - "text"`.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("299 - \"");
    for c in text.chars().filter(|c| !c.is_control()) {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(if c.is_ascii() { c } else { '?' });
    }
    quoted.push('"');
    quoted
}

/// Response forms of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResponseForm {
    Whole,
    /// Metadata only.
    Metadata,
    /// A table, with what each row includes.
    Table(String),
}

impl ResponseForm {
    /// The first supported form in the `Accept` header.
    pub(super) fn negotiate(call: &ApiRequest) -> Self {
        for kind in call.accept.split(',') {
            let mut parts = kind.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            if !matches!(media_type, "application/json" | "*/*" | "application/*") {
                continue;
            }
            let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
            let parameter =
                |name: &str| parameters.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| *value);
            match (parameter("as"), parameter("g"), parameter("v")) {
                ("", _, _) => return ResponseForm::Whole,
                ("Table", "meta.k8s.io", "v1" | "v1beta1") => {
                    return ResponseForm::Table(call.query.text("includeObject").to_owned());
                }
                ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1" | "v1beta1") => {
                    return ResponseForm::Metadata;
                }
                _ => {}
            }
        }
        ResponseForm::Whole
    }

    /// One object in this form.
    pub(super) fn object(&self, resource: &ServedResource, object: Value) -> Value {
        match self {
            ResponseForm::Whole => object,
            ResponseForm::Metadata => metadata_of(&object),
            ResponseForm::Table(include) => {
                let list = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                table::render(resource, &[&object], list, include)
            }
        }
    }

    /// A stored object in this form, as JSON.
    pub(super) fn text(&self, registry: &KindRegistry, resource: &ServedResource, stored: &StoredEntry) -> Bytes {
        match self {
            ResponseForm::Whole if is_stored_as(resource, stored) => stored.text().clone(),
            _ => self.object(resource, viewed(registry, resource, stored)).to_string().into(),
        }
    }

    /// An empty list in this form.
    pub(super) fn list<'r>(&self, registry: &'r KindRegistry, resource: &'r ServedResource) -> ListWriter<'r> {
        let items = match self {
            ResponseForm::Table(include) => ListItems::Table(include.clone(), Vec::new()),
            ResponseForm::Metadata => ListItems::Metadata(Vec::new()),
            ResponseForm::Whole => ListItems::Whole(Vec::new()),
        };
        ListWriter { registry, resource, items, count: 0 }
    }
}

/// Builder for a list of objects.
#[derive(Debug)]
pub(super) struct ListWriter<'r> {
    registry: &'r KindRegistry,
    resource: &'r ServedResource,
    items: ListItems,
    count: usize,
}

/// The items of a list: concatenated JSON, or objects for a table.
#[derive(Debug)]
enum ListItems {
    Whole(Vec<u8>),
    Metadata(Vec<u8>),
    Table(String, Vec<Value>),
}

impl ListWriter<'_> {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Adds a stored object.
    pub(super) fn push(&mut self, stored: &StoredEntry) {
        // Items in lists of built-in kinds have no `apiVersion` and `kind`.
        let is_untyped = self.resource.builtin.is_some();
        match &mut self.items {
            ListItems::Whole(text) if is_stored_as(self.resource, stored) => {
                separate(text);
                match is_untyped {
                    true => write(text, &without_type(stored.text())),
                    false => text.extend(stored.text()),
                }
                self.count += 1;
            }
            _ => self.push_object(viewed(self.registry, self.resource, stored)),
        }
    }

    /// Adds an object in the version of the list.
    pub(super) fn push_object(&mut self, object: Value) {
        self.count += 1;
        match &mut self.items {
            ListItems::Whole(text) => {
                separate(text);
                match self.resource.builtin {
                    Some(_) => write(text, &untyped(object)),
                    None => write(text, &object),
                }
            }
            ListItems::Metadata(text) => {
                separate(text);
                write(text, &metadata_of(&object));
            }
            ListItems::Table(_, objects) => objects.push(object),
        }
    }

    pub(super) fn into_answer(self, mut metadata: Map<String, Value>) -> ApiResponse {
        let is_whole = matches!(self.items, ListItems::Whole(_));
        if !is_whole && metadata.get("continue").is_some_and(|token| token == "") {
            metadata.remove("continue");
        }
        let metadata = Value::Object(metadata);
        let (api_version, kind, items) = match self.items {
            ListItems::Whole(items) => (self.resource.api_version(), self.resource.list_kind.clone(), items),
            ListItems::Metadata(items) => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadataList".to_owned(), items),
            ListItems::Table(include, objects) => {
                let objects: Vec<&Value> = objects.iter().collect();
                return ApiResponse::from_json(
                    StatusCode::OK,
                    &table::render(self.resource, &objects, metadata, &include),
                );
            }
        };
        let mut body = format!("{{\"apiVersion\":{},\"items\":[", json!(api_version)).into_bytes();
        body.extend(items);
        body.extend(format!("],\"kind\":{},\"metadata\":{metadata}}}", json!(kind)).into_bytes());
        ApiResponse::from_text(StatusCode::OK, body.into())
    }
}

fn separate(items: &mut Vec<u8>) {
    if !items.is_empty() {
        items.push(b',');
    }
}

fn write(text: &mut Vec<u8>, value: &impl serde::Serialize) {
    serde_json::to_writer(text, value).expect("a value can be written to memory");
}

/// The members of an object without `apiVersion` and `kind`.
fn without_type(text: &[u8]) -> BTreeMap<Cow<'_, str>, &RawValue> {
    let mut members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(text).unwrap_or_default();
    members.remove("apiVersion");
    members.remove("kind");
    members
}

/// The object without `apiVersion` and `kind`.
fn untyped(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.remove("apiVersion");
        members.remove("kind");
    }
    object
}

pub(super) fn metadata_of(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

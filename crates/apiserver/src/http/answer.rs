//! Objects in the form in which a client wants them.

use std::borrow::Cow;

use axum::body::Body;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use super::request::Call;
use super::table;
use crate::storage::registry::Resource;
use crate::storage::status::Failure;

/// What an answer consists of, before it is written.
#[derive(Debug)]
pub(super) struct Answer {
    pub code: StatusCode,
    pub body: Vec<u8>,
    pub warnings: Vec<String>,
    retry_after: Option<u64>,
}

impl Answer {
    pub(super) fn of(code: StatusCode, value: &Value) -> Self {
        Answer { code, body: value.to_string().into_bytes(), warnings: Vec::new(), retry_after: None }
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
        let mut sent = Vec::new();
        for warning in self.warnings {
            if sent.contains(&warning) {
                continue;
            }
            if let Ok(value) = HeaderValue::from_str(&quoted(&warning)) {
                headers.append(HeaderName::from_static("warning"), value);
            }
            sent.push(warning);
        }
        response
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        if failure.is_plain() {
            let body = failure.message.into_bytes();
            return Answer { code: failure.code, body, warnings: Vec::new(), retry_after: None };
        }
        let retry_after = failure.details.get("retryAfterSeconds").and_then(Value::as_u64);
        Answer { retry_after, ..Answer::of(failure.code, &failure.to_value()) }
    }
}

/// A warning as a header has it: `299 - "text"`.
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

/// In which form objects are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    /// Nothing but the metadata.
    Metadata,
    /// Rows of a table; what comes with each row.
    Table(String),
}

impl Form {
    /// The first form in the `Accept` header that can be had.
    pub(super) fn of(call: &Call) -> Self {
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
                ("", _, _) => return Form::Whole,
                ("Table", "meta.k8s.io", "v1" | "v1beta1") => {
                    return Form::Table(call.query.text("includeObject").to_owned());
                }
                ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1" | "v1beta1") => {
                    return Form::Metadata;
                }
                _ => {}
            }
        }
        Form::Whole
    }

    /// One object in this form.
    pub(super) fn object<'v>(&self, resource: &Resource, object: Cow<'v, Value>) -> Cow<'v, Value> {
        match self {
            Form::Whole => object,
            Form::Metadata => Cow::Owned(metadata_of(&object)),
            Form::Table(include) => {
                let list = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                Cow::Owned(table::render(resource, &[&object], list, include))
            }
        }
    }

    /// A list in this form.
    pub(super) fn list(
        &self,
        resource: &Resource,
        items: &[Cow<'_, Value>],
        mut metadata: Map<String, Value>,
    ) -> Answer {
        if *self != Form::Whole && metadata.get("continue").is_some_and(|token| token == "") {
            metadata.remove("continue");
        }
        let metadata = Value::Object(metadata);
        let (api_version, kind) = match self {
            Form::Whole => (resource.api_version(), resource.list_kind.clone()),
            Form::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadataList".to_owned()),
            Form::Table(include) => {
                let objects: Vec<&Value> = items.iter().map(AsRef::as_ref).collect();
                return Answer::of(StatusCode::OK, &table::render(resource, &objects, metadata, include));
            }
        };
        let mut body = format!("{{\"apiVersion\":{},\"items\":[", json!(api_version)).into_bytes();
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                body.push(b',');
            }
            let item = match self {
                Form::Metadata => Cow::Owned(metadata_of(item)),
                _ if resource.builtin.is_some() => Cow::Owned(untyped(item)),
                _ => Cow::Borrowed(&**item),
            };
            serde_json::to_writer(&mut body, &*item).expect("a value can be written to memory");
        }
        body.extend(format!("],\"kind\":{},\"metadata\":{metadata}}}", json!(kind)).into_bytes());
        Answer { code: StatusCode::OK, body, warnings: Vec::new(), retry_after: None }
    }
}

/// Lists of a server's own kinds say the kind of their items only once.
fn untyped(object: &Value) -> Value {
    let mut object = object.clone();
    if let Value::Object(members) = &mut object {
        members.remove("apiVersion");
        members.remove("kind");
    }
    object
}

pub(super) fn metadata_of(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

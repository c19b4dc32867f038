//! Parsed requests: path, query and headers.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, Method, header};

use crate::storage::status::ApiError;

/// Operations on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// A parsed resource path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestTarget {
    pub group: String,
    pub version: String,
    pub plural: String,
    /// Empty for all namespaces and for cluster-scoped objects.
    pub namespace: String,
    /// Empty for collections.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
    /// Whether it is the older form of watches: `/api/v1/watch/…`.
    pub is_watch: bool,
}

impl RequestTarget {
    /// Parses a path; `None` if it is not a resource path. A segment that decodes to several segments, or to a relative
    /// one, is invalid (DEC-45).
    pub(super) fn parse(path: &str) -> Option<Self> {
        let segments: Vec<String> = path.split('/').filter(|segment| !segment.is_empty()).map(decoded).collect();
        if segments.iter().any(|segment| segment.contains('/') || matches!(&**segment, "." | "..")) {
            return None;
        }
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (is_watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let (namespace, rest) = match rest {
            // Subresources of a namespace are not kinds within it.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] if group.is_empty() => ("", rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, subresource] => (*plural, *name, *subresource),
            _ => return None,
        };
        let owned = str::to_owned;
        Some(RequestTarget {
            group: owned(group),
            version: owned(version),
            plural: owned(plural),
            namespace: owned(namespace),
            name: owned(name),
            subresource: owned(subresource),
            is_watch,
        })
    }
}

/// Query parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(&name.replace('+', " ")), decoded(&value.replace('+', " ")))
        };
        let mut query = BTreeMap::new();
        for (name, value) in pairs.map(pair) {
            query.entry(name).or_insert(value);
        }
        Query(query)
    }

    /// A parameter; empty if absent.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A boolean parameter; true without a value.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !matches!(value.as_str(), "0" | "false" | "False" | "FALSE" | "f" | "F"))
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }
}

/// Handling of unknown and repeated fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// Method, query and headers of a request.
#[derive(Clone, Debug)]
pub(super) struct ApiRequest {
    pub method: Method,
    pub path: String,
    pub query: Query,
    pub accept: String,
    /// Media type of the body, without parameters.
    pub content_type: String,
    pub user_agent: String,
    pub body: Bytes,
}

impl ApiRequest {
    pub(super) fn new(head: &http::request::Parts, body: Bytes) -> Self {
        let text = |name: header::HeaderName| text(&head.headers, name);
        let content_type = text(header::CONTENT_TYPE);
        ApiRequest {
            method: head.method.clone(),
            path: head.uri.path().to_owned(),
            query: Query::parse(head.uri.query().unwrap_or_default()),
            accept: text(header::ACCEPT),
            content_type: content_type.split(';').next().unwrap_or_default().trim().to_owned(),
            user_agent: text(header::USER_AGENT),
            body,
        }
    }

    /// The operation of the method on the target.
    pub(super) fn verb(&self, target: &RequestTarget, is_custom: bool) -> Result<Verb, ApiError> {
        let watches = target.is_watch || self.query.flag("watch");
        let has_name = !target.name.is_empty();
        Ok(match self.method.as_str() {
            "GET" if watches => Verb::Watch,
            "GET" if has_name => Verb::Get,
            "GET" => Verb::List,
            // A name in the path of a creation is ignored.
            "POST" if !has_name || (is_custom && target.subresource.is_empty()) => Verb::Create,
            "PUT" if has_name => Verb::Update,
            "PATCH" if has_name => Verb::Patch,
            "DELETE" if has_name => Verb::Delete,
            "DELETE" => Verb::DeleteCollection,
            _ => return Err(ApiError::method_not_allowed()),
        })
    }

    /// Whether this is a dry run.
    pub(super) fn is_dry_run(&self) -> Result<bool, ApiError> {
        match self.query.text("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(unsupported("dryRun", other, "\"All\"", &self.options_kind())),
        }
    }

    pub(super) fn field_validation(&self) -> Result<FieldValidation, ApiError> {
        match self.query.text("fieldValidation") {
            "Ignore" => Ok(FieldValidation::Ignore),
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Strict" => Ok(FieldValidation::Strict),
            other => {
                Err(unsupported("fieldValidation", other, "\"Ignore\", \"Warn\", \"Strict\"", &self.options_kind()))
            }
        }
    }

    /// Kind of the options of a write.
    pub(super) fn options_kind(&self) -> String {
        let verb = match self.method.as_str() {
            "POST" => "Create",
            "PUT" => "Update",
            "PATCH" => "Patch",
            _ => "Delete",
        };
        format!("{verb}Options")
    }

    /// The field manager: the parameter, or the program in the user agent.
    pub(super) fn manager(&self) -> String {
        let given = self.query.text("fieldManager");
        if !given.is_empty() {
            return given.to_owned();
        }
        let program = self.user_agent.split('/').next().unwrap_or_default();
        program.chars().filter(|c| !c.is_control()).take(128).collect()
    }
}

fn unsupported(field: &str, value: &str, supported: &str, kind: &str) -> ApiError {
    let message = format!("Unsupported value: {value:?}: supported values: {supported}");
    let mut failure = ApiError::new(
        http::StatusCode::UNPROCESSABLE_ENTITY,
        "Invalid",
        format!("{kind}.meta.k8s.io \"\" is invalid: {field}: {message}"),
    );
    failure.details.insert("group".to_owned(), "meta.k8s.io".into());
    failure.details.insert("kind".to_owned(), kind.into());
    failure.details.insert(
        "causes".to_owned(),
        serde_json::json!([{"reason": "FieldValueNotSupported", "message": message, "field": field}]),
    );
    failure
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// Decodes percent escapes; invalid UTF-8 is replaced.
fn decoded(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match (*first, code.and_then(|code| u8::from_str_radix(code, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            (byte, _) => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_kinds_namespaces_objects_and_subresources() {
        let parsed = |path: &str| {
            let target = RequestTarget::parse(path)?;
            Some(format!(
                "{}|{}|{}|{}|{}|{}|{}",
                target.group,
                target.version,
                target.plural,
                target.namespace,
                target.name,
                target.subresource,
                target.is_watch
            ))
        };
        for (path, want) in [
            ("/api/v1/namespaces", Some("|v1|namespaces||||false")),
            ("/api/v1/namespaces/a", Some("|v1|namespaces||a||false")),
            ("/api/v1/namespaces/a/status", Some("|v1|namespaces||a|status|false")),
            ("/api/v1/namespaces/a/secrets", Some("|v1|secrets|a|||false")),
            ("/api/v1/secrets", Some("|v1|secrets||||false")),
            ("/api/v1/watch/namespaces/a/secrets", Some("|v1|secrets|a|||true")),
            ("/apis/g.io/v1/namespaces/a/things/b%3Ac/status", Some("g.io|v1|things|a|b:c|status|false")),
            ("/apis/g.io/v1/things/b/c/d", None),
            ("/apis/g.io/v1", None),
            ("/apis/g.io/v1%2Fnamespaces%2Fvictim%2Fthings%2Fprod", None),
            ("/apis/g.io/v1/namespaces/a/things/b%2fstatus", None),
            ("/apis/g.io/v1/namespaces/a/things/..", None),
            ("/apis/g.io/v1/namespaces/%2e%2e/things", None),
            ("/apis/g.io/v1/namespaces/a/things/b%253Ac", Some("g.io|v1|things|a|b%3Ac||false")),
            ("/healthz", None),
        ] {
            assert_eq!(parsed(path).as_deref(), want, "{path}");
        }
    }

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+%28d%29&watch&force=false&x=%zz%e4");
        assert_eq!(query.text("labelSelector"), "a=b,c in (d)");
        assert!(query.flag("watch") && !query.flag("force") && !query.flag("absent"));
        assert_eq!(query.text("x"), "%zz\u{fffd}");
    }
}

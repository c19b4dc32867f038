//! API errors as reported by a server: `Status` objects with code, reason and details.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::kind_schema::ObjectFault;
use super::registry::ServedResource;
use super::store::StoreKey;
use schema::field::{FieldError, Path};
use schema::ssa::Conflict;

/// Response of a server for a path that is not served.
const NO_SUCH_PATH: &str = "404 page not found\n";

/// An error response.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiError {
    pub code: StatusCode,
    pub reason: &'static str,
    pub message: String,
    pub details: Map<String, Value>,
    /// Metadata of the Status, usually empty.
    pub metadata: Value,
}

impl ApiError {
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        ApiError { code, reason, message: message.into(), details: Map::new(), metadata: json!({}) }
    }

    /// 400 Bad Request.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 404 for a path that is not served, without a Status.
    pub(crate) fn no_such_path() -> Self {
        ApiError::new(StatusCode::NOT_FOUND, "", NO_SUCH_PATH)
    }

    /// 404 for an unknown kind in a built-in group.
    pub(crate) fn no_such_kind() -> Self {
        ApiError::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
    }

    /// Whether the response is plain text.
    pub(crate) fn is_plain(&self) -> bool {
        self.message == NO_SUCH_PATH
    }

    pub(crate) fn not_found(resource: &ServedResource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.qualified());
        ApiError::new(StatusCode::NOT_FOUND, "NotFound", message).about(resource, name)
    }

    pub(crate) fn no_namespace(namespace: &str) -> Self {
        let mut failure =
            ApiError::new(StatusCode::NOT_FOUND, "NotFound", format!("namespaces {namespace:?} not found"));
        failure.details = members(json!({"name": namespace, "kind": "namespaces"}));
        failure
    }

    pub(crate) fn already_exists(resource: &ServedResource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.qualified());
        ApiError::new(StatusCode::CONFLICT, "AlreadyExists", message).about(resource, name)
    }

    pub(crate) fn forbidden(resource: &ServedResource, name: &str, why: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", resource.qualified());
        ApiError::new(StatusCode::FORBIDDEN, "Forbidden", message).about(resource, name)
    }

    /// A conflict with a precondition of the request.
    pub(crate) fn conflict(resource: &ServedResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.qualified());
        ApiError::new(StatusCode::CONFLICT, "Conflict", message).about(resource, name)
    }

    /// A conflict with the uid of the object.
    pub(crate) fn another(resource: &ServedResource, place: &StoreKey, name: &str, wanted: &str, found: &str) -> Self {
        let key = match (resource.builtin, resource.group.as_str()) {
            (None, group) => format!("/registry/{group}/{}/{}", resource.plural, place.key),
            (Some(_), _) => format!("/registry/{}/{}", resource.plural, place.key),
        };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
             failed: UID in precondition: {wanted}, UID in object meta: {found}"
        );
        ApiError::conflict(resource, name, &why)
    }

    /// A conflict with a concurrent write.
    pub(crate) fn modified(resource: &ServedResource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        ApiError::conflict(resource, name, why)
    }

    /// Conflicts of server-side apply.
    pub(crate) fn owned(conflicts: &[Conflict]) -> Self {
        let cause = |conflict: &Conflict| {
            json!({"reason": "FieldManagerConflict", "message": conflict.to_string(),
                "field": conflict.path.to_string()})
        };
        let mut failure = ApiError::new(StatusCode::CONFLICT, "Conflict", Conflict::message(conflicts));
        failure.details.insert("causes".to_owned(), conflicts.iter().map(cause).collect());
        failure
    }

    /// Invalid fields of an object; the kind is given as `Kind.group`.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, faults: Vec<ObjectFault>) -> Self {
        let qualified = super::registry::qualified(kind, group);
        let errors: Vec<FieldError> = faults.into_iter().map(error_of).collect();
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let all = match texts.as_slice() {
            [only] => only.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        let cause = |error: &FieldError| json!({"reason": error.kind.reason(), "message": error.message(), "field": error.path.to_string()});
        let mut failure = ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            format!("{qualified} {name:?} is invalid: {all}"),
        );
        if !kind.is_empty() {
            failure.details.insert("kind".to_owned(), json!(kind));
        }
        failure.name(name);
        if !group.is_empty() {
            failure.details.insert("group".to_owned(), json!(group));
        }
        if !errors.is_empty() {
            failure.details.insert("causes".to_owned(), errors.iter().map(cause).collect());
        }
        failure
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::GONE, "Expired", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let mut failure = ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {message}"),
        );
        failure.details.insert("causes".to_owned(), json!([{ "message": message }]));
        failure
    }

    /// Adds the object that the error is about.
    #[must_use]
    pub(super) fn about(mut self, resource: &ServedResource, name: &str) -> Self {
        self.name(name);
        if !resource.group.is_empty() {
            self.details.insert("group".to_owned(), json!(resource.group));
        }
        self.details.insert("kind".to_owned(), json!(resource.plural));
        self
    }

    fn name(&mut self, name: &str) {
        if !name.is_empty() {
            self.details.insert("name".to_owned(), json!(name));
        }
    }

    /// The `Status` object.
    pub(crate) fn to_value(&self) -> Value {
        let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": "Failure",
            "message": self.message, "code": self.code.as_u16()});
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        let always = [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED, StatusCode::UNPROCESSABLE_ENTITY];
        let has_details = !self.details.is_empty() || always.contains(&self.code);
        if has_details {
            status["details"] = Value::Object(self.details.clone());
        }
        status
    }
}

fn error_of(fault: ObjectFault) -> FieldError {
    let path = match fault.field.is_empty() {
        true => Path::new("<nil>"),
        false => Path::ROOT.place(&fault.field),
    };
    FieldError { rule: "DEC-32", kind: fault.kind, path, value: fault.value, detail: fault.detail }
}

/// The response to a deletion.
pub(crate) fn deleted(resource: &ServedResource, name: &str, uid: &str) -> Value {
    let mut details = json!({"name": name, "kind": resource.plural, "uid": uid});
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

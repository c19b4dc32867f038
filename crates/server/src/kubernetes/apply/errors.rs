//! Errors of executing a plan.

use crate::kubernetes::overload::ApiOverload;
use crate::kubernetes::untyped::ApiRequestError;
use engine::extensions::sanitize;
use engine::object_names::{NameBoundary, ObjectNames};
use engine::topology::ownership::Unavailable;
use model::hub::{ObjectRef, WrongType};

/// Why the execution of a plan stopped. The text becomes a condition, so it must not change while the cause is the
/// same.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Without the name, which is another the next time: a condition that changes with every attempt would wake its
    /// Cluster each time (RS-36).
    #[error("failed to create {what}{}{detail}", if .detail.is_empty() { "" } else { ": " })]
    Create {
        /// `Kind.group`.
        what: String,
        /// The errors of the API server, without the name.
        detail: String,
        source: Box<ApiRequestError>,
    },
    #[error("failed to update {object}: {source}")]
    Update { object: Box<ObjectRef>, source: Box<ApiRequestError> },
    #[error("failed to delete {object}: {source}")]
    Delete { object: Box<ObjectRef>, source: Box<ApiRequestError> },
    #[error("failed to list existing {kind}s: {source}")]
    List { kind: &'static str, source: Box<ApiRequestError> },
    #[error("{object} exists and does not belong to this Cluster; delete or rename it")]
    Foreign { object: Box<ObjectRef> },
    /// DEC-36.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Another client has changed what the plan changes, so the plan is outdated.
    #[error("{object} has changed since it was read")]
    Changed { object: Box<ObjectRef> },
    #[error(transparent)]
    WrongType(#[from] WrongType),
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<ApplyError>),
}

impl ApplyError {
    /// Whether all that is wrong is that something has changed since it was read, so that trying again soon is all it
    /// takes.
    pub fn is_conflict(&self) -> bool {
        match self {
            ApplyError::Changed { .. } => true,
            ApplyError::Several(errors) => errors.iter().all(ApplyError::is_conflict),
            other => other.source_of().is_some_and(ApiRequestError::is_conflict),
        }
    }

    /// The overload of the API server, if there is nothing else wrong (DEC-106).
    pub fn overload(&self) -> Option<ApiOverload> {
        match self {
            ApplyError::Several(errors) => {
                let all: Option<Vec<_>> = errors.iter().map(ApplyError::overload).collect();
                all?.into_iter().reduce(ApiOverload::and)
            }
            other => other.source_of().and_then(ApiRequestError::overload),
        }
    }

    /// Whether it is unknown if the failed write was stored.
    pub fn may_have_written(&self) -> bool {
        match self {
            ApplyError::Several(errors) => errors.iter().any(ApplyError::may_have_written),
            other => other.source_of().is_some_and(ApiRequestError::may_have_written),
        }
    }

    /// What the API server said.
    pub(super) fn source_of(&self) -> Option<&ApiRequestError> {
        match self {
            ApplyError::Create { source, .. }
            | ApplyError::Update { source, .. }
            | ApplyError::Delete { source, .. }
            | ApplyError::List { source, .. } => Some(source),
            ApplyError::Foreign { .. }
            | ApplyError::Unavailable(_)
            | ApplyError::Changed { .. }
            | ApplyError::WrongType(_)
            | ApplyError::Several(_) => None,
        }
    }

    pub(super) fn create(object: &ObjectRef, source: ApiRequestError) -> Self {
        let group = object.group();
        let what = if group.is_empty() { object.kind.clone() } else { format!("{}.{group}", object.kind) };
        ApplyError::Create { what, detail: listed(&source, &object.key.name), source: Box::new(source) }
    }

    pub(in crate::kubernetes) fn update(object: &ObjectRef, source: ApiRequestError) -> Self {
        ApplyError::Update { object: Box::new(object.clone()), source: Box::new(source) }
    }

    pub(super) fn delete(object: &ObjectRef, source: ApiRequestError) -> Self {
        ApplyError::Delete { object: Box::new(object.clone()), source: Box::new(source) }
    }
}

/// Part of the message about a field that the schema does not declare, which kube-apiserver sends as an error of
/// itself.
const TYPED_PATCH: &str = "failed to create typed patch object";

/// The errors that an API server reports for a new object, without its name (RS-36): the causes, or else the message,
/// such as that of a field that the schema does not declare. A message that may be another at the next attempt is left
/// out.
fn listed(source: &ApiRequestError, name: &str) -> String {
    let ApiRequestError::Api(kube::Error::Api(status)) = source else { return String::new() };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes: Vec<_> = causes.map(|cause| format!("{}: {}: {}", cause.reason, cause.field, cause.message)).collect();
    if !causes.is_empty() {
        return causes.join(", ");
    }
    let is_about_the_object = matches!(status.code, 400 | 403 | 404 | 422) || status.message.contains(TYPED_PATCH);
    if !is_about_the_object || name.is_empty() {
        return String::new();
    }
    sanitize(&ObjectNames::new(NameBoundary::Word, [(name.to_owned(), "\u{2026}")]).replace(&status.message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use model::hub::ObjectKey;

    fn refused(code: u16, message: &str, causes: serde_json::Value) -> ApiRequestError {
        let status = json!({"status": "Failure", "code": code, "reason": "Invalid", "message": message,
            "details": {"name": "blue-x7k2p", "causes": causes}});
        ApiRequestError::Api(kube::Error::Api(serde_json::from_value(status).unwrap()))
    }

    fn object(name: &str) -> ObjectRef {
        ObjectRef::new("g.io/v1", "ForgeMachineTemplate", ObjectKey::new("ns", name))
    }

    #[test]
    fn several_errors_are_an_overload_if_each_of_them_is_one() {
        // DEC-106
        let error = |code: u16| ApplyError::update(&object("blue"), refused(code, "later", json!([])));
        assert!(error(429).overload().is_some() && error(422).overload().is_none());
        assert!(ApplyError::Several(vec![error(429), error(503)]).overload().is_some());
        assert_eq!(ApplyError::Several(vec![error(429), error(409)]).overload(), None);
        let changed = ApplyError::Changed { object: Box::new(object("blue")) };
        assert_eq!(changed.overload(), None);
    }

    #[test]
    fn the_error_of_a_create_names_no_object() {
        // RS-36
        let cause = json!([{"reason": "FieldValueInvalid", "field": "spec.size", "message": "too large"},
            {"reason": "FieldValueRequired", "field": "spec.site", "message": "missing"}]);
        let text = |name: &str, causes| {
            ApplyError::create(&object(name), refused(422, &format!("{name} is invalid"), causes)).to_string()
        };
        let want = "failed to create ForgeMachineTemplate.g.io: FieldValueInvalid: spec.size: too large, \
                    FieldValueRequired: spec.site: missing";
        assert_eq!(text("blue-x7k2p", cause.clone()), want);
        assert_eq!(text("blue-x7k2p", cause.clone()), text("blue-bcdfg", cause));
        let unnamed = "failed to create ForgeMachineTemplate.g.io: \u{2026} is invalid";
        assert_eq!(text("blue-x7k2p", json!([])), unnamed);
        assert_eq!(text("blue-bcdfg", json!([])), unnamed);
        let silent = ApplyError::create(&object("blue-x7k2p"), ApiRequestError::TimedOut);
        assert_eq!(silent.to_string(), "failed to create ForgeMachineTemplate.g.io");
    }

    #[test]
    fn the_error_of_a_create_names_an_undeclared_field() {
        // RS-36
        let message = "failed to create typed patch object (ns/blue-x7k2p; g.io/v1, Kind=ForgeMachineTemplate): \
                       .spec.template.spec.volumes[0].mountPath: field not declared in schema";
        let error = |code| ApplyError::create(&object("blue-x7k2p"), refused(code, message, json!([]))).to_string();
        let want = "failed to create ForgeMachineTemplate.g.io: failed to create typed patch object (ns/\u{2026}; \
                    g.io/v1, Kind=ForgeMachineTemplate): .spec.template.spec.volumes[0].mountPath: field not declared \
                    in schema";
        assert_eq!((error(500), error(400)), (want.to_owned(), want.to_owned()));
        let overloaded = ApplyError::create(&object("blue"), refused(503, "blue is away for 3 s", json!([])));
        assert_eq!(overloaded.to_string(), "failed to create ForgeMachineTemplate.g.io");
    }

    #[test]
    fn the_error_of_an_update_keeps_names() {
        // RS-36
        let error = ApplyError::update(&object("blue"), refused(422, "blue is invalid", json!([])));
        assert_eq!(error.to_string(), "failed to update ForgeMachineTemplate ns/blue: blue is invalid");
        assert!(!error.is_conflict());
        let both = |code| {
            let gone = ApplyError::Changed { object: Box::new(object("blue")) };
            ApplyError::Several(vec![gone, ApplyError::update(&object("blue"), refused(code, "no", json!([])))])
        };
        assert_eq!((both(409).is_conflict(), both(422).is_conflict()), (true, false));
    }
}

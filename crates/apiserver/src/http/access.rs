//! Authorization: every authenticated client may do everything. kubectl and graphical tools ask for their permissions
//! first.
//!
//! Access reviews are answered and not stored, and discovery does not list them.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::decode;
use super::request::ApiRequest;
use super::response::ApiResponse;
use crate::storage::status::ApiError;

/// Answers an access review; `None` for other requests.
///
/// # Errors
/// When the body cannot be parsed.
pub(super) fn answer(call: &ApiRequest) -> Result<Option<ApiResponse>, ApiError> {
    let segments: Vec<&str> = call.path.split('/').filter(|segment| !segment.is_empty()).collect();
    let (kind, status) = match (&call.method, segments.as_slice()) {
        (&Method::POST, ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"]) => (
            "SelfSubjectAccessReview",
            json!({"allowed": true, "reason": "the token of the kubeconfig opens everything"}),
        ),
        (&Method::POST, ["apis", "authorization.k8s.io", "v1", "selfsubjectrulesreviews"]) => {
            let resources = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
            let paths = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
            let rules = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
            ("SelfSubjectRulesReview", rules)
        }
        (&Method::POST, ["apis", "authentication.k8s.io", "v1", "selfsubjectreviews"]) => {
            let user = json!({"username": "topologist", "groups": ["system:masters", "system:authenticated"]});
            ("SelfSubjectReview", json!({"userInfo": user}))
        }
        _ => return Ok(None),
    };
    let Value::Object(mut review) = decode::body(call)?.value else {
        return Err(ApiError::bad_request("the body is no object"));
    };
    let group = segments.get(1).copied().unwrap_or_default();
    review.insert("apiVersion".to_owned(), json!(format!("{group}/v1")));
    review.insert("kind".to_owned(), json!(kind));
    review.entry("metadata").or_insert_with(|| json!({}));
    review.insert("status".to_owned(), status);
    Ok(Some(ApiResponse::from_json(StatusCode::CREATED, &Value::Object(review))))
}

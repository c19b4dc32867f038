//! Requests to the routers of webhooks.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use http::StatusCode;
use http_body_util::BodyExt;
use model::wire::review::{API_VERSION, KIND};
use serde_json::{Value, json};
use tower::ServiceExt;

/// Posts a body, and returns the status code and the body of the response.
pub(super) async fn post(router: Router, path: &str, body: impl Into<Body>) -> (StatusCode, String) {
    let request = Request::post(path).body(body.into()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let code = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

/// An AdmissionReview with this request.
pub(super) fn review(request: &Value) -> String {
    json!({"apiVersion": API_VERSION, "kind": KIND, "request": request}).to_string()
}

/// Posts an AdmissionReview with this request, and returns the response in it.
pub(super) async fn post_review(router: Router, path: &str, request: &Value) -> Value {
    let (code, body) = post(router, path, review(request)).await;
    assert_eq!(code, StatusCode::OK, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["response"].clone()
}

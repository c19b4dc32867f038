//! HTTP errors, for requests that are answered by no review.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

pub(super) const PANICKED: &str = "the request could not be handled; the log of topologist says why";

pub(super) fn refusal(code: StatusCode, message: &str) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    let mut response = (code, headers, format!("topologist: {message}\n")).into_response();
    if code == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

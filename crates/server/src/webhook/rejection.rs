//! HTTP errors, for requests without a readable review.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::body::BodyReadError;
use model::wire::review::Envelope;

pub(super) const PANICKED: &str = "the request could not be handled; see the log of topologist";

pub(super) fn error_response(code: StatusCode, message: &str) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    let mut response = (code, headers, format!("topologist: {message}\n")).into_response();
    if code == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Why a request gets an HTTP error instead of a review.
#[derive(Debug, thiserror::Error)]
pub(super) enum Rejection {
    #[error(transparent)]
    Unread(#[from] BodyReadError),
    #[error("the body is not {article} {kind}: {reason}", article = if kind.starts_with('A') { "an" } else { "a" })]
    NotAReview { kind: &'static str, reason: String },
    #[error("the answer could not be written: {0}")]
    Unwritable(#[from] serde_json::Error),
    #[error("the conversion waited in the queue longer than the caller's timeout; try again")]
    Late,
    #[error("the conversion took longer than the caller's timeout")]
    Unfinished,
    #[error("{PANICKED}")]
    Panicked,
}

impl Rejection {
    /// The status of the response, and the reason as a metric label.
    pub(super) fn parts(&self) -> (StatusCode, &'static str) {
        match self {
            Rejection::Unread(unread) => unread.parts(),
            Rejection::NotAReview { .. } => (StatusCode::BAD_REQUEST, "not_a_review"),
            Rejection::Unwritable(_) => (StatusCode::INTERNAL_SERVER_ERROR, "unwritable"),
            Rejection::Late => (StatusCode::TOO_MANY_REQUESTS, "no_turn"),
            Rejection::Unfinished => (StatusCode::INTERNAL_SERVER_ERROR, "unfinished"),
            Rejection::Panicked => (StatusCode::INTERNAL_SERVER_ERROR, "panicked"),
        }
    }
}

/// Reads the request of a review, whose envelope says that it has this API version and kind.
///
/// # Errors
/// When the body is no such review, or its envelope is empty.
pub(super) fn request_of<'b, R: Deserialize<'b>>(
    body: &'b [u8],
    [api_version, kind]: [&'static str; 2],
) -> Result<R, Rejection> {
    let not_a_review = |reason| Rejection::NotAReview { kind, reason };
    let review: Envelope<'_, R> = serde_json::from_slice(body).map_err(|error| not_a_review(error.to_string()))?;
    if review.api_version != api_version || review.kind != kind {
        let what = format!("it is {:?} in {:?}, and {api_version} is understood", review.kind, review.api_version);
        return Err(not_a_review(what));
    }
    review.request.ok_or_else(|| not_a_review("it has no request".to_owned()))
}

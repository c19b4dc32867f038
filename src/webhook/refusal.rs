//! HTTP errors, for requests that are answered by no review.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::body::Unread;

pub(super) const PANICKED: &str = "the request could not be handled; the log of topologist says why";

pub(super) fn refusal(code: StatusCode, message: &str) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    let mut response = (code, headers, format!("topologist: {message}\n")).into_response();
    if code == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Why a request gets an HTTP error instead of a review.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error("the body is not {article} {kind}: {reason}", article = if kind.starts_with('A') { "an" } else { "a" })]
    NotAReview { kind: &'static str, reason: String },
    #[error("the answer could not be written: {0}")]
    Unwritable(#[from] serde_json::Error),
    #[error("the turn of this conversion did not come in the time that its caller waits; try again")]
    Late,
    #[error("the conversion took longer than its caller waits")]
    Unfinished,
    #[error("{PANICKED}")]
    Panicked,
}

impl Refusal {
    /// A body that is no review of this kind.
    pub(super) fn not_a(kind: &'static str, reason: String) -> Self {
        Refusal::NotAReview { kind, reason }
    }

    /// The status of the answer, and what metrics call it.
    pub(super) fn parts(&self) -> (StatusCode, &'static str) {
        match self {
            Refusal::Unread(unread) => unread.parts(),
            Refusal::NotAReview { .. } => (StatusCode::BAD_REQUEST, "not_a_review"),
            Refusal::Unwritable(_) => (StatusCode::INTERNAL_SERVER_ERROR, "unwritable"),
            Refusal::Late => (StatusCode::TOO_MANY_REQUESTS, "no_turn"),
            Refusal::Unfinished => (StatusCode::INTERNAL_SERVER_ERROR, "unfinished"),
            Refusal::Panicked => (StatusCode::INTERNAL_SERVER_ERROR, "panicked"),
        }
    }
}

/// The request in an envelope that says of itself that it has this API version and kind.
///
/// # Errors
/// When the envelope is another one, or empty.
pub(super) fn envelope<T>(
    [api_version, kind]: [&str; 2],
    request: Option<T>,
    [known_version, known_kind]: [&'static str; 2],
) -> Result<T, Refusal> {
    if (api_version, kind) != (known_version, known_kind) {
        let what = format!("it is {kind:?} in {api_version:?}, and {known_version} is understood");
        return Err(Refusal::not_a(known_kind, what));
    }
    request.ok_or_else(|| Refusal::not_a(known_kind, "it has no request".to_owned()))
}

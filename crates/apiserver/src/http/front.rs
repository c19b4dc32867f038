//! The API on a socket: authentication, request size limits, and the end of watches on shutdown.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Frame, SizeHint};
use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

use crate::Embedded;
use crate::storage::status::ApiError;

/// Maximum body size in bytes, as in kube-apiserver.
const LIMIT: usize = 3 * 1024 * 1024;
/// Timeout for receiving a body.
const PATIENCE: Duration = Duration::from_secs(10);

/// The credential of clients: a random bearer token.
#[derive(Clone)]
pub struct BearerToken(String);

impl BearerToken {
    /// Generates a token.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn generate() -> Result<Self, TokenError> {
        let mut bytes = [0_u8; 32];
        SystemRandom::new().fill(&mut bytes).map_err(|_| TokenError)?;
        Ok(BearerToken(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// The token text, for a kubeconfig.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// A signed form of the token: the issuer verifies tokens without storing them.
    fn signed(self, signature: &str) -> Self {
        BearerToken(format!("{}.{signature}", self.0))
    }

    /// Whether a request has the token. Hashes are compared, so that timing reveals nothing.
    fn is_shown_by(&self, headers: &HeaderMap) -> bool {
        let hash = |text: &str| digest(&SHA256, text.as_bytes());
        shown(headers).is_some_and(|token| hash(token).as_ref() == hash(&self.0).as_ref())
    }
}

/// The bearer token of a request.
fn shown(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (_, token) = value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))?;
    Some(token.trim())
}

/// Issues and verifies tokens for subjects.
pub(crate) struct Issuer(hmac::Key);

impl Issuer {
    /// An issuer with a random key.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn make() -> Result<Self, TokenError> {
        hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map(Issuer).map_err(|_| TokenError)
    }

    /// Issues a token for a subject.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn issue(&self, subject: &str) -> Result<BearerToken, TokenError> {
        let token = BearerToken::generate()?;
        let signature = hmac::sign(&self.0, content(subject, token.reveal()).as_bytes());
        Ok(token.signed(&URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Whether a request has a token issued for a subject.
    pub(crate) fn is_shown(&self, subject: &str, headers: &HeaderMap) -> bool {
        let Some((token, signature)) = shown(headers).and_then(|token| token.split_once('.')) else { return false };
        let Ok(signature) = URL_SAFE_NO_PAD.decode(signature) else { return false };
        hmac::verify(&self.0, content(subject, token).as_bytes(), &signature).is_ok()
    }
}

fn content(subject: &str, token: &str) -> String {
    format!("{token} {subject}")
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The system has no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct TokenError;

/// The API as a router that requires the token. Watches end when `stop` is cancelled.
pub fn router(embedded: Embedded, token: BearerToken, stop: CancellationToken) -> Router {
    let front = Arc::new(ApiFrontend { embedded, token, stop });
    router_of(move |request: Request| {
        let front = front.clone();
        async move { front.answer(request).await }
    })
}

/// Routes every request to `answer`, and converts panics to responses.
pub(crate) fn router_of<A, F>(answer: A) -> Router
where
    A: FnOnce(Request) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let panicked = |_| refused(&ApiError::internal("the request could not be handled; see the log of topologist"));
    Router::new().fallback(answer).layer(CatchPanicLayer::custom(panicked))
}

/// An API that requires a token.
#[derive(Clone)]
pub(crate) struct ApiFrontend {
    pub embedded: Embedded,
    pub token: BearerToken,
    pub stop: CancellationToken,
}

impl ApiFrontend {
    pub(crate) async fn answer(&self, request: Request) -> Response {
        let (head, body) = request.into_parts();
        if !self.token.is_shown_by(&head.headers) {
            return unauthorized();
        }
        let body = match read(body).await {
            Ok(body) => body,
            Err(failure) => return refused(&failure),
        };
        let answer = self.embedded.call(Request::from_parts(head, Body::from(body))).await;
        answer.map(|body| {
            Body::new(UntilStopped { body: Body::new(body), stopped: Box::pin(self.stop.clone().cancelled_owned()) })
        })
    }
}

/// The response to a request without a valid token.
pub(crate) fn unauthorized() -> Response {
    refused(&ApiError::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized"))
}

async fn read(body: Body) -> Result<Bytes, ApiError> {
    match tokio::time::timeout(PATIENCE, Limited::new(body, LIMIT).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("Request entity too large: limit is {LIMIT}");
            Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message))
        }
        Ok(Err(error)) => Err(ApiError::bad_request(format!("the body could not be read: {error}"))),
        Err(_) => Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "Timeout", "the request body did not arrive in time")),
    }
}

pub(crate) fn refused(failure: &ApiError) -> Response {
    let body = failure.to_value().to_string();
    (failure.code, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// A body that ends early, without an error, when the server stops.
struct UntilStopped {
    body: Body,
    stopped: BoxFuture<'static, ()>,
}

impl HttpBody for UntilStopped {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            // Available data is sent; only waiting ends.
            Poll::Pending => self.stopped.as_mut().poll(context).map(|()| None),
            ready @ Poll::Ready(_) => ready,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use serde_json::Value;
    use tower::ServiceExt;

    use super::*;
    use crate::ApiOptions;

    fn front(stop: &CancellationToken) -> (Router, BearerToken) {
        let token = BearerToken::generate().unwrap();
        (router(Embedded::new(ApiOptions::default()), token.clone(), stop.clone()), token)
    }

    async fn get(router: &Router, path: &str, authorization: Option<String>) -> Response {
        let mut request = Request::get(path);
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn requests_without_the_token_are_unauthorized() {
        let (router, token) = front(&CancellationToken::new());
        let shown = |scheme: &str| Some(format!("{scheme} {}", token.reveal()));
        for (authorization, code) in [
            (None, 401),
            (Some("Bearer ".to_owned()), 401),
            (Some("Bearer wrong".to_owned()), 401),
            (shown("Basic"), 401),
            (shown("Bearer"), 200),
            (shown("bearer"), 200),
        ] {
            let answer = get(&router, "/api/v1/namespaces", authorization.clone()).await;
            assert_eq!(answer.status().as_u16(), code, "{authorization:?}");
            let body: Value = serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
            assert_eq!(body["kind"], if code == 401 { "Status" } else { "NamespaceList" });
        }
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_refused() {
        let (router, token) = front(&CancellationToken::new());
        let request =
            Request::post("/api/v1/namespaces").header(header::AUTHORIZATION, format!("Bearer {}", token.reveal()));
        let answer = router.oneshot(request.body(Body::from(vec![b' '; LIMIT + 1])).unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }

    #[tokio::test]
    async fn a_watch_ends_with_the_server_and_not_before() {
        let stop = CancellationToken::new();
        let (router, token) = front(&stop);
        let path = "/api/v1/namespaces?watch=true";
        let mut events =
            get(&router, path, Some(format!("Bearer {}", token.reveal()))).await.into_body().into_data_stream();
        assert!(events.next().await.unwrap().unwrap().starts_with(b"{\"type\":\"ADDED\""));
        let more = tokio::time::timeout(Duration::from_millis(50), events.next()).await;
        assert!(more.is_err(), "the watch stays open");
        stop.cancel();
        assert!(events.next().await.is_none(), "a clean end");
    }
}

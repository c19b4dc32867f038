//! The `Retry-After` header of a busy API server, as a field of its response.
//!
//! kube-rs does not show the headers of errors. kube-apiserver repeats the header in most bodies, but a request that it
//! rejects for its priority level or during its shutdown is answered with a line of text, as one that a proxy rejects.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Body;
use serde_json::{Value, json};
use tower::BoxError;

/// Maximum size of a response that is read. Longer ones do not come from kube-apiserver.
const LONGEST: usize = 64 * 1024;
/// Maximum length of the message that is made from a response without `Status`.
const SHOWN: usize = 1024;

/// The response of the API server; that of a busy one gets in its body the time after which the request may be sent
/// again.
pub(super) async fn in_body<B>(response: Response<B>) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let code = response.status().as_u16();
    let seconds = seconds(response.headers()).filter(|_| matches!(code, 429 | 502..=504));
    let Some(seconds) = seconds else { return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync())) };
    let (mut head, body) = response.into_parts();
    let text = Limited::new(body, LONGEST).collect().await?.to_bytes();
    let text = with_retry_after(code, &text, seconds).to_string();
    head.headers.remove(header::TRANSFER_ENCODING);
    head.headers.remove(header::CONTENT_ENCODING);
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    head.headers.insert(header::CONTENT_LENGTH, text.len().into());
    Ok(Response::from_parts(head, Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()))
}

/// The seconds in the header. Kubernetes never sends a date, which HTTP allows as well.
fn seconds(headers: &HeaderMap) -> Option<u32> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

/// The `Status` of a response, or one made from its text, with the seconds unless it has its own.
fn with_retry_after(code: u16, text: &[u8], seconds: u32) -> Value {
    let mut status = serde_json::from_slice(text).ok().filter(|status: &Value| status["kind"] == "Status");
    let status = status.get_or_insert_with(|| {
        let message: String = String::from_utf8_lossy(text).trim().chars().take(SHOWN).collect();
        let reason = if code == 429 { "TooManyRequests" } else { "ServiceUnavailable" };
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
            "reason": reason,
            "message": message})
    });
    if status["code"].is_null() {
        status["code"] = json!(code);
    }
    if !status["details"].is_object() {
        status["details"] = json!({});
    }
    if status["details"]["retryAfterSeconds"].as_u64().unwrap_or(0) == 0 {
        status["details"]["retryAfterSeconds"] = json!(seconds);
    }
    status.take()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::Api;
    use tower::{ServiceExt, service_fn};

    use super::*;
    use crate::kubernetes::overload::ApiOverload;

    /// The error that a client makes of an answer.
    async fn error(code: u16, retry_after: Option<&'static str>, body: &str) -> kube::Error {
        let body = body.to_owned();
        let service = service_fn(move |_: http::Request<kube::client::Body>| {
            let mut response = Response::builder().status(code);
            if let Some(value) = retry_after {
                response = response.header(header::RETRY_AFTER, value);
            }
            let response = response.body(Full::new(Bytes::from(body.clone()))).unwrap();
            async move { Ok::<_, Infallible>(response) }
        });
        let client = kube::Client::new(service.map_err(BoxError::from).and_then(in_body), "default");
        Api::<ConfigMap>::default_namespaced(client).get("a").await.unwrap_err()
    }

    #[tokio::test]
    async fn the_header_of_a_busy_api_server_is_read() {
        // DEC-106
        let status = |seconds: u32| {
            json!({"kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests", "message": "later",
                "details": {"name": "a", "retryAfterSeconds": seconds}})
            .to_string()
        };
        let bare = json!({"kind": "Status", "status": "Failure", "message": "later"}).to_string();
        for (code, header, body, want) in [
            (429, Some("7"), "later\n".to_owned(), Some(7)),
            (503, Some("7"), bare, Some(7)),
            (429, Some("7"), status(0), Some(7)),
            (429, Some("7"), status(3), Some(3)),
            (503, Some("1"), "<html>later</html>".to_owned(), Some(1)),
            (429, None, "later".to_owned(), Some(0)),
            (429, Some("Fri, 31 Dec 2100 23:59:59 GMT"), "later".to_owned(), Some(0)),
            (500, Some("7"), "later".to_owned(), None),
            (404, Some("7"), "later".to_owned(), None),
        ] {
            let error = error(code, header, &body).await;
            let overload = ApiOverload::from_error(&error);
            let after = overload.as_ref().map(|overload| overload.retry_after);
            assert_eq!(after, want.map(Duration::from_secs), "{code} {header:?} {body}");
            assert!(overload.is_none_or(|overload| overload.reason.contains("later")), "{error}");
        }
    }
}

//! A client for an API server that a tenant controls (DEC-40): every request but a watch ends after 3 s, responses are
//! limited in size, few requests are sent at a time, and no writes are sent while the server does not respond.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::ready;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower::BoxError;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use super::workload::{FAILURES, PATIENCE};

/// Maximum number of concurrent requests besides watches.
const AT_A_TIME: usize = 8;
/// Maximum size of a response in bytes. Lists have pages of [`SMALL_PAGE`](super::SMALL_PAGE) objects.
const ANSWER: usize = 32 * 1024 * 1024;
/// Maximum size of an event of a watch in bytes: kube-apiserver stores no object of more than 1.5 MiB, and sends it
/// twice at most.
const EVENT: usize = 4 * 1024 * 1024;

/// Why a request was not sent, or its response is not read.
#[derive(Debug, thiserror::Error)]
enum BoundError {
    #[error("the workload cluster did not answer in time")]
    TimedOut,
    #[error("the workload cluster does not answer; nothing is written until it does")]
    Silent,
    #[error("the response of the workload cluster is too large")]
    TooLarge,
    #[error("the workload cluster cannot be reached")]
    Unreachable(#[source] kube::Error),
}

/// A client with limits, which tracks whether its server responds.
#[derive(Clone)]
pub(crate) struct Bounded {
    pub client: kube::Client,
    silences: Arc<AtomicU32>,
}

impl Bounded {
    /// Sends requests with this client.
    pub(crate) fn new(client: kube::Client) -> Self {
        let (silences, turns) = (Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(AT_A_TIME)));
        let (noted, namespace) = (silences.clone(), client.default_namespace().to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, silences, turns) = (client.clone(), noted.clone(), turns.clone());
            async move { send(&client, &silences, &turns, request).await.map_err(BoxError::from) }
        });
        Bounded { client: kube::Client::new(service, namespace), silences }
    }

    /// Notes that the server has responded, so that writes are sent again.
    pub(crate) fn answered(&self) {
        self.silences.store(0, Ordering::Relaxed);
    }
}

type BoundedBody = UnsyncBoxBody<Bytes, BoxError>;

async fn send(
    client: &kube::Client,
    silences: &AtomicU32,
    turns: &Semaphore,
    request: Request<Body>,
) -> Result<Response<BoundedBody>, BoundError> {
    if is_watch(&request) {
        let response = timeout(PATIENCE, sent(client, request)).await.map_err(|_| BoundError::TimedOut)??;
        let (head, body) = response.into_parts();
        // What is no stream of events ends by itself.
        if head.status != StatusCode::OK {
            let body = timeout(PATIENCE, whole(body)).await.map_err(|_| BoundError::TimedOut)??;
            return Ok(Response::from_parts(head, body));
        }
        return Ok(Response::from_parts(head, events(body)));
    }
    let is_write = *request.method() != Method::GET;
    if is_write && silences.load(Ordering::Relaxed) >= FAILURES {
        return Err(BoundError::Silent);
    }
    let answer = async {
        let _turn = turns.acquire().await.map_err(|_| BoundError::TimedOut)?;
        let (head, body) = sent(client, request).await?.into_parts();
        Ok(Response::from_parts(head, whole(body).await?))
    };
    let answer = timeout(PATIENCE, answer).await.unwrap_or(Err(BoundError::TimedOut));
    match &answer {
        Ok(_) | Err(BoundError::TooLarge) => silences.store(0, Ordering::Relaxed),
        Err(_) => drop(silences.fetch_add(1, Ordering::Relaxed)),
    }
    answer
}

fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    *request.method() == Method::GET && query.split('&').any(|part| part == "watch=true")
}

async fn sent(client: &kube::Client, request: Request<Body>) -> Result<Response<Body>, BoundError> {
    // The client would log failures as its own errors; they are errors of the owner of the cluster.
    client.send(request).with_subscriber(NoSubscriber::default()).await.map_err(BoundError::Unreachable)
}

async fn whole(body: Body) -> Result<BoundedBody, BoundError> {
    let body = Limited::new(body, ANSWER).collect().await.map_err(|_| BoundError::TooLarge)?;
    Ok(Full::new(body.to_bytes()).map_err(BoxError::from).boxed_unsync())
}

/// The events of a watch, each of which ends with a line break.
fn events(body: Body) -> BoundedBody {
    let mut length = 0_usize;
    let frames = BodyExt::into_data_stream(body).map_err(BoxError::from).and_then(move |bytes: Bytes| {
        length = event_length(length, &bytes);
        ready(if length > EVENT { Err(BoundError::TooLarge.into()) } else { Ok(Frame::data(bytes)) })
    });
    BodyExt::boxed_unsync(StreamBody::new(frames))
}

/// The length of the unfinished event after these bytes.
fn event_length(before: usize, bytes: &[u8]) -> usize {
    match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(last) => bytes.len() - last - 1,
        None => before.saturating_add(bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use futures::StreamExt;
    use futures::stream;
    use tokio::time::Instant;

    use super::*;

    static CHUNK: [u8; 65536] = [b' '; 65536];

    /// A server that answers each request after a while.
    fn server(wait: Duration, body: &'static str) -> Bounded {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            tokio::time::sleep(wait).await;
            Ok::<_, Infallible>(Response::new(Body::from(body.as_bytes().to_vec())))
        });
        Bounded::new(kube::Client::new(service, "default"))
    }

    fn request(method: Method, path: &str) -> Request<Body> {
        Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
    }

    async fn outcome(bounded: &Bounded, method: Method, path: &str) -> Result<String, String> {
        match bounded.client.send(request(method, path)).await {
            Ok(response) => {
                let bytes = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
                Ok(String::from_utf8(bytes.to_vec()).unwrap())
            }
            Err(kube::Error::Service(error)) => Err(error.to_string()),
            Err(error) => Err(format!("{error:?}")),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_waited_for_3_seconds_and_gets_no_writes_after_3_of_them() {
        // DEC-40
        let bounded = server(Duration::from_mins(5), "{}");
        let timed_out = Err("the workload cluster did not answer in time".to_owned());
        for method in [Method::PATCH, Method::GET, Method::DELETE] {
            let started = Instant::now();
            assert_eq!(outcome(&bounded, method, "/api/v1/nodes/n").await, timed_out);
            assert_eq!(started.elapsed(), PATIENCE);
        }
        let started = Instant::now();
        let error = outcome(&bounded, Method::POST, "/api/v1/nodes").await.unwrap_err();
        assert!(error.contains("nothing is written until it does") && started.elapsed().is_zero(), "{error}");
        bounded.answered();
        assert_eq!(outcome(&bounded, Method::POST, "/api/v1/nodes").await, timed_out, "it is tried again");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_8_requests_are_sent_at_a_time() {
        let bounded = server(Duration::from_secs(2), "{}");
        let requests = (0..AT_A_TIME * 2).map(|_| outcome(&bounded, Method::GET, "/api/v1/nodes"));
        let outcomes: Vec<_> = futures::future::join_all(requests).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), AT_A_TIME);
    }

    #[tokio::test]
    async fn answers_and_events_have_a_size() {
        // DEC-40
        let endless = |chunk: &'static [u8]| {
            let service = tower::service_fn(move |_: Request<Body>| async move {
                let frames = stream::repeat_with(move || Ok::<_, Infallible>(Frame::data(Bytes::from_static(chunk))));
                Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
            });
            Bounded::new(kube::Client::new(service, "default"))
        };
        let error = outcome(&endless(&CHUNK), Method::GET, "/api/v1/pods?limit=100").await.unwrap_err();
        assert_eq!(error, "the response of the workload cluster is too large");
        let error = outcome(&endless(&CHUNK), Method::GET, "/api/v1/pods?&watch=true").await.unwrap_err();
        assert!(error.contains("too large"), "{error}");
        // Many small events are no large one.
        let watch = request(Method::GET, "/api/v1/pods?watch=true&resourceVersion=1");
        let body = endless(b"{}\n{}\n{").client.send(watch).await.unwrap().into_body();
        let frames = BodyExt::into_data_stream(body).take(2 * EVENT / 7).filter(|frame| ready(frame.is_err())).count();
        assert_eq!(frames.await, 0);
    }

    #[test]
    fn an_event_is_what_stands_between_line_breaks() {
        for (before, bytes, want) in [(0, "abc", 3), (3, "de", 5), (5, "f\n", 0), (5, "f\ng\nhi", 2), (7, "", 7)] {
            assert_eq!(event_length(before, bytes.as_bytes()), want, "{bytes:?}");
        }
    }
}

//! An API server that fails when a test says so: a proxy with TLS in front of a real one.
//!
//! ```text
//!  topologist ──TLS──► Faulty ──TLS──► kube-apiserver
//!                        └─ an error instead of the answer, and the end of every open watch
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{StreamExt, TryStreamExt};
use http_body_util::{BodyDataStream, BodyExt};
use kube::config::Kubeconfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use topologist::tls::authority::IssuedCertificate;

use super::tls_server::serve;

/// What the API server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// It answers.
    Well,
    /// Every request gets this code; 429 comes with so many seconds to wait.
    Fails { code: u16, retry_after: Option<u32> },
    /// It answers for two seconds, and then every request gets this code for one.
    ComesAndGoes { code: u16 },
}

/// A running proxy; it belongs to the runtime that started it.
pub struct Faulty {
    /// A kubeconfig that leads to the proxy, for whom the given one speaks.
    pub kubeconfig: PathBuf,
    shared: Arc<Shared>,
}

struct Shared {
    behind: kube::Client,
    mood: watch::Sender<Mood>,
    began: Instant,
    requests: AtomicUsize,
    failures: AtomicUsize,
}

impl Faulty {
    /// Serves on a free port; writes its kubeconfig into the folder.
    pub async fn start(kubeconfig: &Path, folder: &Path) -> Self {
        let mut kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let cluster = kubeconfig.clusters[0].cluster.as_mut().unwrap();
        let mut config = kube::Config::new(cluster.server.as_ref().unwrap().parse().unwrap());
        let authority = STANDARD.decode(cluster.certificate_authority_data.as_ref().unwrap()).unwrap();
        config.root_cert = Some(vec![CertificateDer::from_pem_slice(&authority).unwrap().to_vec()]);
        // The proxy passes errors on as they are.
        config.default_retry = false;
        let shared = Arc::new(Shared {
            behind: kube::Client::try_from(config).unwrap(),
            mood: watch::Sender::new(Mood::Well),
            began: Instant::now(),
            requests: AtomicUsize::new(0),
            failures: AtomicUsize::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issued = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap();
        cluster.server = Some(format!("https://{}", listener.local_addr().unwrap()));
        cluster.certificate_authority_data = Some(STANDARD.encode(&issued.authority));
        let path = folder.join("faulty.kubeconfig");
        std::fs::write(&path, serde_json::to_vec(&kubeconfig).unwrap()).unwrap();
        tokio::spawn(serve(listener, issued, Router::new().fallback(answer).with_state(shared.clone())));
        Faulty { kubeconfig: path, shared }
    }

    /// From now on the API server is in this mood. Open watches end.
    pub fn set(&self, mood: Mood) {
        self.shared.mood.send_replace(mood);
    }

    /// How many requests have come.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// How many of them got an error of the proxy.
    pub fn failures(&self) -> usize {
        self.shared.failures.load(Ordering::Relaxed)
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.requests.fetch_add(1, Ordering::Relaxed);
    let mut mood = shared.mood.subscribe();
    let now = *mood.borrow_and_update();
    let failure = match now {
        Mood::Fails { code, retry_after } => Some((code, retry_after)),
        Mood::ComesAndGoes { code } if shared.began.elapsed().as_secs() % 3 == 2 => Some((code, None)),
        Mood::Well | Mood::ComesAndGoes { .. } => None,
    };
    if let Some((code, retry_after)) = failure {
        shared.failures.fetch_add(1, Ordering::Relaxed);
        return fault(code, retry_after);
    }
    let (mut parts, body) = request.into_parts();
    // The connection behind may speak another version.
    parts.version = http::Version::HTTP_11;
    let Ok(body) = body.collect().await else { return fault(400, None) };
    let request = http::Request::from_parts(parts, kube::client::Body::from(body.to_bytes()));
    match shared.behind.send(request).await {
        Ok(response) => {
            let until = async move { mood.changed().await };
            response.map(|body| Body::from_stream(BodyDataStream::new(body).into_stream().take_until(until)))
        }
        Err(error) => panic!("{error}"),
    }
}

/// A Status as the API server writes it.
fn fault(code: u16, retry_after: Option<u32>) -> Response {
    let reason = match code {
        410 => "Expired",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let details = json!({"retryAfterSeconds": retry_after.unwrap_or(0)});
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "the test says so", "reason": reason, "code": code, "details": details});
    let code = http::StatusCode::from_u16(code).unwrap();
    let mut response = (code, [("content-type", "application/json")], status.to_string()).into_response();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert("retry-after", seconds.into());
    }
    response
}

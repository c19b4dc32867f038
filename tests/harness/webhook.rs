//! A webhook that allows everything and remembers what it was asked.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use topologist::telemetry::metrics::Metrics;
use topologist::tls::authority::IssuedCertificate;
use topologist::tls::identity::ServerIdentity;
use topologist::tls::pair::CertificateFiles;
use topologist::webhook::server::{ConnectionLimits, HttpServer};

/// A running recorder; it belongs to the runtime that started it.
pub struct Recorder {
    /// `127.0.0.1:port`.
    pub address: String,
    /// The CA certificate of its callers, in PEM form.
    pub authority: String,
    calls: Calls,
}

type Calls = Arc<Mutex<Vec<(String, Value)>>>;

impl Recorder {
    /// Serves on a free port.
    pub async fn start() -> Self {
        let calls = Calls::default();
        let (address, authority) = serve(Router::new().fallback(allow).with_state(calls.clone())).await;
        Recorder { address, authority, calls }
    }

    /// The path and the request of each review since the last time, sorted by path.
    pub fn take(&self) -> Vec<(String, Value)> {
        let mut calls = std::mem::take(&mut *self.calls.lock().unwrap());
        calls.sort_by(|one, other| one.0.cmp(&other.0));
        calls
    }
}

/// Serves a webhook on a free port, for as long as the runtime lasts; returns its address and the CA certificate of its
/// callers.
pub async fn serve(router: Router) -> (String, String) {
    let issued = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap();
    let files = CertificateFiles { certificate: "tls.crt".into(), key: "tls.key".into() };
    let metrics = Arc::new(Metrics::default());
    let identity = Arc::new(ServerIdentity::new(None, metrics.clone()));
    identity.install(&issued.pair(), &files).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let server = HttpServer::bind(any, Some(identity), ConnectionLimits::default(), metrics).await.unwrap();
    let address = server.local_address().unwrap().to_string();
    tokio::spawn(server.serve(router, CancellationToken::new()));
    (address, issued.authority)
}

async fn allow(State(calls): State<Calls>, uri: Uri, body: Bytes) -> impl IntoResponse {
    let mut review: Value = serde_json::from_slice(&body).unwrap();
    let request = review["request"].take();
    let response = json!({"uid": request["uid"], "allowed": true});
    calls.lock().unwrap().push((uri.path().to_owned(), request));
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    ([("content-type", "application/json")], answer.to_string())
}

//! Calls over real TLS to servers that answer, fail, redirect, say too much, or say nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::Request as Received;
use axum::response::{IntoResponse, Response};
use http::header::LOCATION;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::certificates::authority::Issued;
use crate::certificates::callers::{CallerSource, Callers};
use crate::certificates::pair::Files;
use crate::certificates::tls::Identity;
use crate::extensions::{Address, Registration};

/// An extension that does what the first segment of the path says.
struct Server {
    port: u16,
    issued: Issued,
    connections: Arc<AtomicUsize>,
}

impl Server {
    async fn start() -> Self {
        Self::start_for(None).await
    }

    /// One that callers must show a certificate.
    async fn start_for(callers: Option<Callers>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let issued = Issued::make(&["127.0.0.1".to_owned()], 1).unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        tokio::spawn(accept(listener, issued.clone(), callers.map(Arc::new), connections.clone()));
        Server { port, issued, connections }
    }

    fn client(&self) -> Client {
        Client::trusting(Some(self.issued.authority.as_bytes())).unwrap()
    }

    fn address(&self, path: &str) -> Address {
        Address::parse(&format!("https://127.0.0.1:{}/{path}", self.port)).unwrap()
    }

    async fn call(&self, path: &str) -> Result<Bytes, CallError> {
        self.client().call(&self.address(path).discovery(), "request".to_owned()).await
    }

    async fn error(&self, path: &str) -> String {
        self.call(path).await.unwrap_err().to_string()
    }
}

async fn accept(listener: TcpListener, issued: Issued, callers: Option<Arc<Callers>>, connections: Arc<AtomicUsize>) {
    let identity = Identity::new(callers, Arc::default());
    let files = Files { certificate: "tls.crt".into(), key: "tls.key".into() };
    identity.take_on(&issued.pair(), &files).unwrap();
    let acceptor = TlsAcceptor::from(identity.config().unwrap());
    let router = Router::new().fallback(answer);
    while let Ok((stream, _)) = listener.accept().await {
        connections.fetch_add(1, Ordering::Relaxed);
        let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(router.clone()));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(request: Received) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().trim_start_matches('/').split('/').next().unwrap_or_default().to_owned();
    let body = axum::body::to_bytes(body, 1000).await.unwrap();
    match &*path {
        "echo" => format!("{} {} {}", parts.method, parts.uri, String::from_utf8_lossy(&body)).into_response(),
        "moved" => (StatusCode::FOUND, [(LOCATION, "/echo")], "elsewhere").into_response(),
        "moved-for-good" => (StatusCode::PERMANENT_REDIRECT, [(LOCATION, "/echo")], "").into_response(),
        "broken" => (StatusCode::INTERNAL_SERVER_ERROR, "ü".repeat(SHOWN + 100)).into_response(),
        "endless-error" => (StatusCode::BAD_GATEWAY, Body::from_stream(endless())).into_response(),
        "created" => (StatusCode::CREATED, "{}").into_response(),
        "most" => vec![b' '; MAX_BODY].into_response(),
        "too-long" => vec![b' '; MAX_BODY + 1].into_response(),
        "endless" => Body::from_stream(endless()).into_response(),
        _ => std::future::pending().await,
    }
}

fn endless() -> impl futures::Stream<Item = io::Result<Bytes>> {
    futures::stream::repeat_with(|| Ok(Bytes::from(vec![b'x'; 64 * 1024])))
}

#[tokio::test]
async fn a_call_is_a_post_with_the_body() {
    // RH-4.1, RH-4.3, RH-4.5
    let server = Server::start().await;
    let answer = server.call("echo").await.unwrap();
    let want = "POST /echo/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery?timeout=10s request";
    assert_eq!(String::from_utf8_lossy(&answer), want);
}

#[tokio::test]
async fn connections_are_reused() {
    // RH-4.11
    let server = Server::start().await;
    let client = server.client();
    for _ in 0..3 {
        client.clone().call(&server.address("echo").discovery(), String::new()).await.unwrap();
    }
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn any_code_but_200_is_an_error_with_the_beginning_of_its_body() {
    // RH-4.8, RH-4.9
    let server = Server::start().await;
    assert_eq!(server.error("moved").await, "status 302: elsewhere");
    assert_eq!(server.error("moved-for-good").await, "status 308: ");
    assert_eq!(server.error("created").await, "status 201: {}");
    assert_eq!(server.error("broken").await, format!("status 500: {}", "ü".repeat(SHOWN)));
    assert_eq!(server.error("endless-error").await, format!("status 502: {}", "x".repeat(SHOWN)));
}

#[tokio::test]
async fn an_answer_may_have_20_mib() {
    // RH-4.10, DEC-46
    let server = Server::start().await;
    assert_eq!(server.call("most").await.unwrap().len(), 20 * 1024 * 1024);
    for path in ["too-long", "endless"] {
        assert!(matches!(server.call(path).await, Err(CallError::TooLong)), "{path}");
    }
}

#[tokio::test]
async fn a_call_ends_with_its_timeout() {
    // RH-4.5, RH-4.6
    let server = Server::start().await;
    let hook = json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "GeneratePatches"});
    let handlers = json!([{"name": "gen", "requestHook": hook, "timeoutSeconds": 1}]);
    let raw = RawValue::from_string(json!({"status": "Success", "handlers": handlers}).to_string()).unwrap();
    let registration = Registration::of("ext", &raw, BTreeMap::new()).unwrap();
    let target = server.address("hangs").handler(registration.handler("gen", "GeneratePatches").unwrap());
    let error = server.client().call(&target, String::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer within 1s");
}

#[tokio::test]
async fn a_server_must_show_a_certificate_of_the_authority_for_its_name() {
    // RH-4.7
    let server = Server::start().await;
    let other = Issued::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let target = server.address("echo").discovery();
    let stranger = Client::trusting(Some(other.authority.as_bytes())).unwrap();
    let of_system = Client::trusting(None).unwrap();
    for client in [stranger, of_system] {
        let error = client.call(&target, String::new()).await.unwrap_err().to_string();
        assert!(error.contains("invalid peer certificate"), "{error}");
    }
    let target = Address::parse(&format!("https://localhost:{}/echo", server.port)).unwrap().discovery();
    let error = server.client().call(&target, String::new()).await.unwrap_err().to_string();
    assert!(error.contains("not valid for name \"localhost\""), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let issued = Issued::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let client = Client::trusting(Some(issued.authority.as_bytes())).unwrap();
    let target = Address::parse(&format!("https://{free}")).unwrap().discovery();
    let error = client.call(&target, String::new()).await.unwrap_err().to_string();
    assert!(error.contains("refused"), "{error}");
}

#[test]
fn authorities_must_be_certificates() {
    let error = |pem: &str| Client::trusting(Some(pem.as_bytes())).unwrap_err().to_string();
    assert_eq!(error(""), "there is no CA certificate in PEM form");
    assert!(error("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").contains("cannot be read"));
}

/// The files of a client certificate in a folder, written anew, and what accepts it.
fn client_certificate(folder: &Path, name: &str) -> Callers {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    fs::write(folder.join("tls.crt"), certificate.pem()).unwrap();
    fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
    let source = CallerSource { file: "ca.crt".into(), names: vec![name.to_owned()] };
    source.callers(authority.pem().as_bytes()).unwrap()
}

#[tokio::test]
async fn an_extension_is_shown_the_client_certificate_of_the_files_as_they_are() {
    // RH-4.7, RH-4.11
    let folder = tempfile::tempdir().unwrap();
    let first = Server::start_for(Some(client_certificate(folder.path(), "topologist"))).await;
    let files = IdentityFiles { certificate: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
    let (clients, nobody) = (Clients::reading_every(Duration::ZERO, Some(files.clone())), Clients::new(None));
    let call = async |clients: &Clients, server: &Server| {
        let client = clients.trusting(server.issued.authority.as_bytes()).unwrap();
        client.call(&server.address("echo").discovery(), String::new()).await
    };
    assert!(call(&clients, &first).await.is_ok());
    assert!(call(&nobody, &first).await.is_err(), "without a certificate there is no connection");
    let second = Server::start_for(Some(client_certificate(folder.path(), "topologist"))).await;
    assert!(call(&clients, &second).await.is_ok(), "the new certificate is shown");
    fs::remove_file(&files.key).unwrap();
    let error = clients.trusting(&[]).unwrap_err().to_string();
    assert!(error.contains("the client certificate cannot be read from") && error.contains("tls.key"), "{error}");
}

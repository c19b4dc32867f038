//! Calls over real TLS to servers that answer, fail, redirect, say too much, or say nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::extract::Request as Received;
use axum::response::{IntoResponse, Response};
use http::header::LOCATION;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CertifiedKey, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::sign::SingleCertAndKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use engine::extensions::{BaseUrl, Registration};
use tls::authority::IssuedCertificate;
use tls::callers::{CallerSource, Callers};
use tls::identity::ServerIdentity;
use tls::pair::CertificateFiles;

/// An extension that does what the first segment of the path says.
struct Server {
    port: u16,
    issued: IssuedCertificate,
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
        let issued = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap();
        let identity = ServerIdentity::new(callers.map(Arc::new), Arc::new(()));
        let files = CertificateFiles { certificate: "tls.crt".into(), key: "tls.key".into() };
        identity.install(&issued.pair(), &files).unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        tokio::spawn(accept(listener, TlsAcceptor::from(identity.config().unwrap()), connections.clone()));
        Server { port, issued, connections }
    }

    fn client(&self) -> Client {
        Client::trusting(Some(self.issued.authority.as_bytes())).unwrap()
    }

    fn address(&self, path: &str) -> BaseUrl {
        BaseUrl::parse(&format!("https://127.0.0.1:{}/{path}", self.port)).unwrap()
    }

    async fn call(&self, path: &str) -> Result<Bytes, CallError> {
        self.client().call(&self.address(path).discovery(), "request".to_owned()).await
    }

    async fn error(&self, path: &str) -> String {
        self.call(path).await.unwrap_err().to_string()
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, connections: Arc<AtomicUsize>) {
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
    let registration = Registration::from_discovery("ext", &raw, BTreeMap::new()).unwrap();
    let target = server.address("hangs").handler(registration.handler("gen", "GeneratePatches").unwrap());
    let error = server.client().call(&target, String::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer within 1s");
}

#[tokio::test]
async fn a_server_must_show_a_certificate_of_the_authority_for_its_name() {
    // RH-4.7
    let server = Server::start().await;
    let other = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap();
    let target = server.address("echo").discovery();
    let stranger = Client::trusting(Some(other.authority.as_bytes())).unwrap();
    let of_system = Client::trusting(None).unwrap();
    for client in [stranger, of_system] {
        let error = client.call(&target, String::new()).await.unwrap_err().to_string();
        assert!(error.contains("invalid peer certificate"), "{error}");
    }
    let target = BaseUrl::parse(&format!("https://localhost:{}/echo", server.port)).unwrap().discovery();
    let error = server.client().call(&target, String::new()).await.unwrap_err().to_string();
    assert!(error.contains("not valid for name \"localhost\""), "{error}");
}

/// A certificate as `openssl req -x509` makes it: a CA, signed by its own key, without a key usage.
fn self_signed(change: impl FnOnce(&mut CertificateParams)) -> CertifiedKey<KeyPair> {
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "extension");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.use_authority_key_identifier_extension = true;
    change(&mut params);
    let signing_key = KeyPair::generate().unwrap();
    CertifiedKey { cert: params.self_signed(&signing_key).unwrap(), signing_key }
}

/// What a client that trusts the certificate of `trusted` says of a server that shows `shown` and signs with the key of
/// `signing`.
async fn verdict(
    trusted: &CertifiedKey<KeyPair>,
    shown: &CertifiedKey<KeyPair>,
    signing: &CertifiedKey<KeyPair>,
    version: &'static SupportedProtocolVersion,
) -> Result<Bytes, CallError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = BaseUrl::parse(&format!("https://{}/echo", listener.local_addr().unwrap())).unwrap();
    let key = PrivateKeyDer::try_from(signing.signing_key.serialize_der()).unwrap();
    let key = ring::sign::any_supported_type(&key).unwrap();
    let shown = rustls::sign::CertifiedKey::new(vec![shown.cert.der().clone()], key);
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_protocol_versions(&[version]).unwrap().with_no_client_auth();
    let config = config.with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
    let server = tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), Arc::default()));
    let client = Client::trusting(Some(trusted.cert.pem().as_bytes())).unwrap();
    let answer = client.call(&address.discovery(), String::new()).await;
    server.abort();
    answer
}

#[tokio::test]
async fn a_self_signed_certificate_of_the_bundle_is_accepted_from_the_owner_of_its_key() {
    // RH-4.7
    let (certificate, other) = (self_signed(|_| ()), self_signed(|_| ()));
    for version in [&TLS12, &TLS13] {
        let answer = verdict(&certificate, &certificate, &certificate, version).await;
        assert!(answer.is_ok(), "{version:?}: {answer:?}");
        let error = verdict(&certificate, &other, &other, version).await.unwrap_err().to_string();
        assert!(error.contains("invalid peer certificate"), "another certificate of that name: {error}");
        let error = verdict(&certificate, &certificate, &other, version).await.unwrap_err().to_string();
        assert!(error.contains("BadSignature"), "another key: {error}");
    }
}

#[tokio::test]
async fn a_certificate_of_the_bundle_is_valid_for_its_names_time_and_usage_only() {
    // RH-4.7
    use ExtendedKeyUsagePurpose::{Any, ClientAuth, ServerAuth};
    let (day, now) = (Duration::from_hours(24), SystemTime::now());
    let valid = |begins: SystemTime, ends: SystemTime| {
        self_signed(|params| (params.not_before, params.not_after) = (begins.into(), ends.into()))
    };
    let usage = |usages: &[ExtendedKeyUsagePurpose]| self_signed(|params| params.extended_key_usages = usages.to_vec());
    let pinned = self_signed(|params| params.is_ca = IsCa::ExplicitNoCa);
    let names = |name: &str| {
        let name = name.to_owned();
        self_signed(|params| params.subject_alt_names = CertificateParams::new([name]).unwrap().subject_alt_names)
    };
    for (case, certificate, error) in [
        ("another address", names("127.0.0.2"), Some("not valid for name \"127.0.0.1\"")),
        ("a host", names("extension.example"), Some("not valid for name \"127.0.0.1\"")),
        ("expired", valid(now - 2 * day, now - day), Some("certificate expired")),
        ("not yet valid", valid(now + day, now + 2 * day), Some("certificate not valid yet")),
        ("valid today", valid(now - day, now + day), None),
        ("for clients", usage(&[ClientAuth]), Some("InvalidPurpose")),
        ("for servers and clients", usage(&[ClientAuth, ServerAuth]), None),
        ("for anything", usage(&[Any]), None),
        ("not a CA", pinned, None),
    ] {
        let answer = verdict(&certificate, &certificate, &certificate, &TLS13).await;
        match (answer, error) {
            (Ok(_), None) => {}
            (Err(found), Some(error)) => assert!(found.to_string().contains(error), "{case}: {found}"),
            (answer, _) => panic!("{case}: {answer:?}"),
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let issued = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap();
    let client = Client::trusting(Some(issued.authority.as_bytes())).unwrap();
    let target = BaseUrl::parse(&format!("https://{free}")).unwrap().discovery();
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

//! The HTTPS client for Runtime Extensions: connections, timeouts and limits. Requests and answers are in `extensions`.

mod clients;
#[cfg(test)]
mod tests;
mod tunnel;
mod verifier;

pub use clients::{Clients, IdentityFiles};
pub use tunnel::{Stream, Tunnel};

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs, io};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::value::RawValue;
use tokio::time::timeout;
use tunnel::Connector;
use verifier::BundleVerifier;

use engine::extensions::errors::ResponseBodyError;
use engine::extensions::{CallTarget, MAX_BODY, SHOWN, cut, first_value};
use schema::field::chain;

/// Time for which an idle connection is kept for the next call (RH-4.11).
const IDLE: Duration = Duration::from_secs(30);
/// Maximum size of the body of an error that is read: enough for the characters that are shown.
const ERROR_BODY: usize = 4 * SHOWN;

/// Why a client cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("the CA certificates cannot be read: {0}")]
    Unreadable(String),
    #[error("there is no CA certificate in PEM form")]
    NoCertificate,
    #[error("cannot read the CA certificates of the system")]
    System(#[source] io::Error),
    #[error("the client certificate cannot be read from {file}: {reason}")]
    Identity { file: String, reason: String },
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// The client certificate for extensions, and its key, in PEM form (RH-4.7).
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ClientIdentity {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientIdentity")
    }
}

impl ClientIdentity {
    /// Reads the files.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn read(files: &IdentityFiles) -> Result<Self, ClientError> {
        let read = |file: &Path| {
            fs::read(file)
                .map_err(|error| ClientError::Identity { file: file.display().to_string(), reason: error.to_string() })
        };
        Ok(ClientIdentity { certificate: read(&files.certificate)?, key: read(&files.key)? })
    }

    fn parsed(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), ClientError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.map_err(|error| ClientError::Unreadable(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key);
        Ok((chain, key.map_err(|error| ClientError::Unreadable(error.to_string()))?))
    }
}

/// Why a call has no answer. The failure policy of the handler applies (RH-7.3).
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("no answer within {0}s")]
    Timeout(u32),
    #[error("{0}")]
    Connection(String),
    #[error("status {code}: {body}")]
    Status { code: u16, body: String },
    #[error("the answer is longer than {MAX_BODY} bytes")]
    TooLong,
    #[error(transparent)]
    Body(#[from] ResponseBodyError),
}

/// A client that trusts some certificate authorities. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Client(legacy::Client<HttpsConnector<Connector>, Full<Bytes>>);

impl CallError {
    /// The metric label.
    pub fn outcome(&self) -> &'static str {
        match self {
            CallError::Timeout(_) => "timed_out",
            CallError::Connection(_) => "failed",
            CallError::Status { .. } => "refused",
            CallError::TooLong => "too_long",
            CallError::Body(_) => "answered",
        }
    }
}

impl Client {
    /// A client that trusts the certificates in `ca` only, or without it those of the system (RH-4.7).
    ///
    /// # Errors
    /// When the certificates cannot be read.
    pub fn trusting(ca: Option<&[u8]>) -> Result<Self, ClientError> {
        Self::showing(ca, None)
    }

    /// The same; presents this certificate to servers that request one.
    ///
    /// # Errors
    /// When the certificates cannot be read.
    pub(crate) fn showing(ca: Option<&[u8]>, identity: Option<&ClientIdentity>) -> Result<Self, ClientError> {
        Self::connecting(Connector::direct(), ca, identity)
    }

    /// A client that trusts the certificates in `ca` only, and whose connections all go through a tunnel.
    ///
    /// # Errors
    /// When the certificates cannot be read.
    pub fn through(tunnel: impl Tunnel, ca: &[u8]) -> Result<Self, ClientError> {
        Self::connecting(Connector::Through(Arc::new(tunnel)), Some(ca), None)
    }

    fn connecting(
        connector: Connector,
        ca: Option<&[u8]>,
        identity: Option<&ClientIdentity>,
    ) -> Result<Self, ClientError> {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let config = match ca {
            Some(pem) => {
                let verifier = BundleVerifier::new(certificates(pem)?, provider)?;
                config.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
            None => config.with_native_roots().map_err(ClientError::System)?,
        };
        let config = match identity.map(ClientIdentity::parsed).transpose()? {
            Some((chain, key)) => config.with_client_auth_cert(chain, key)?,
            None => config.with_no_client_auth(),
        };
        let https = HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1();
        let mut client = legacy::Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        Ok(Client(client.build(https.wrap_connector(connector))))
    }

    /// The JSON value of a response; the rest of its body is ignored (RH-4.10).
    ///
    /// # Errors
    /// When there is no response in time, or it is not JSON.
    pub async fn call_json(&self, target: &CallTarget, body: String) -> Result<Box<RawValue>, CallError> {
        Ok(first_value(&self.call(target, body).await?)?.to_owned())
    }

    /// The body of a response with the code 200 (RH-4.1, RH-4.5). Redirects are treated like any other code (RH-4.8).
    ///
    /// # Errors
    /// When there is no such response in time.
    pub async fn call(&self, target: &CallTarget, body: String) -> Result<Bytes, CallError> {
        let seconds = target.timeout_seconds();
        let exchange = timeout(Duration::from_secs(seconds.into()), self.exchange(target, body));
        exchange.await.unwrap_or(Err(CallError::Timeout(seconds)))
    }

    async fn exchange(&self, target: &CallTarget, body: String) -> Result<Bytes, CallError> {
        let request = Request::post(target.uri().clone()).body(Full::from(body));
        let request = request.map_err(|error| CallError::Connection(chain(&error)))?;
        let response = self.0.request(request).await.map_err(|error| CallError::Connection(reason(&error)))?;
        let (parts, body) = response.into_parts();
        if parts.status != StatusCode::OK {
            return Err(CallError::Status { code: parts.status.as_u16(), body: beginning(body).await });
        }
        let whole = Limited::new(body, MAX_BODY).collect().await;
        whole.map(http_body_util::Collected::to_bytes).map_err(|error| match error.is::<LengthLimitError>() {
            true => CallError::TooLong,
            false => CallError::Connection(chain(&*error)),
        })
    }
}

/// Why a request failed. The reason shows if the connection could not be opened.
fn reason(error: &legacy::Error) -> String {
    error.source().filter(|_| error.is_connect()).map_or_else(|| chain(error), chain)
}

/// The certificates of a PEM text.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| ClientError::Unreadable(error.to_string()))?;
    if read.is_empty() { Err(ClientError::NoCertificate) } else { Ok(read) }
}

/// The first characters of the body of an error (RH-4.9).
async fn beginning(mut body: Incoming) -> String {
    let mut read = Vec::new();
    while read.len() < ERROR_BODY {
        let Some(Ok(frame)) = body.frame().await else { break };
        read.extend(frame.into_data().unwrap_or_default());
    }
    cut(String::from_utf8_lossy(&read).trim(), SHOWN).to_owned()
}

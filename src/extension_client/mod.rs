//! The HTTPS client for Runtime Extensions. What is sent and what an answer says is in `extensions`; here are connections, time
//! and bounds.

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

use crate::extensions::{MAX_BODY, SHOWN, Target, cut};
use crate::field::chain;

/// How long an idle connection is kept for the next call (RH-4.11).
const IDLE: Duration = Duration::from_secs(30);
/// Bytes of the body of an error that are read: enough for the characters that are shown.
const ERROR_BODY: usize = 4 * SHOWN;

/// Why no client can be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("the CA certificates cannot be read: {0}")]
    Unreadable(String),
    #[error("there is no CA certificate in PEM form")]
    NoCertificate,
    #[error("cannot read the CA certificates of the system")]
    System(#[source] io::Error),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// Why a call has no answer. The failure policy of the handler decides what that means (RH-7.3).
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
}

/// A client that trusts some certificate authorities. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Client(legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl Client {
    /// A client that trusts the certificates in `ca` only, or without it those of the system (RH-4.7).
    ///
    /// # Errors
    /// When the certificates cannot be read.
    pub fn trusting(ca: Option<&[u8]>) -> Result<Self, ClientError> {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = match ca {
            Some(pem) => config.with_root_certificates(roots(pem)?),
            None => config.with_native_roots().map_err(ClientError::System)?,
        };
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(config.with_no_client_auth()).https_only().enable_http1();
        let mut client = legacy::Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        Ok(Client(client.build(connector.build())))
    }

    /// The body of an answer with the code 200 (RH-4.1, RH-4.5). Redirects are answers like any other code (RH-4.8).
    ///
    /// # Errors
    /// When there is no such answer in time.
    pub async fn call(&self, target: &Target, body: String) -> Result<Bytes, CallError> {
        let seconds = target.timeout_seconds();
        let exchange = timeout(Duration::from_secs(seconds.into()), self.exchange(target, body));
        exchange.await.unwrap_or(Err(CallError::Timeout(seconds)))
    }

    async fn exchange(&self, target: &Target, body: String) -> Result<Bytes, CallError> {
        let request = Request::post(target.uri().clone()).body(Full::from(body));
        let request = request.map_err(|error| CallError::Connection(chain(&error)))?;
        let response = self.0.request(request).await.map_err(|error| CallError::Connection(chain(&error)))?;
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

/// The certificates of a PEM text.
fn roots(pem: &[u8]) -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.map_err(|error| ClientError::Unreadable(error.to_string()))?)?;
    }
    if roots.is_empty() { Err(ClientError::NoCertificate) } else { Ok(roots) }
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

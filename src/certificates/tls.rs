//! Certificates: read, checked, swapped while serving, or made for the occasion.
//!
//! Mounted Secrets change by a swap of symbolic links, which watches of files miss; so the files are read every few
//! seconds and their bytes compared. A pair that cannot be used is reported, and the one in use stays.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tracing::{error, info};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::authority::{Authority, Validity, bundle};
use super::callers::{CallerSource, Callers};
use crate::telemetry::metrics::{self, Metrics};

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{0} holds no certificate in PEM form")]
    NoCertificate(PathBuf),
    #[error("{path} holds no private key in PEM form: {reason}")]
    NoKey { path: PathBuf, reason: String },
    #[error("{path} holds a certificate that does not parse: {reason}")]
    Malformed { path: PathBuf, reason: String },
    #[error("{path} holds a private key of a kind that cannot sign: {reason}")]
    UnusableKey { path: PathBuf, reason: String },
    #[error("the certificate in {certificate} does not belong to the key in {key}")]
    Mismatch { certificate: PathBuf, key: PathBuf },
    #[error("the certificate in {path} expired at {expired}")]
    Expired { path: PathBuf, expired: String },
    #[error("the certificate in {path} is not valid before {begins}")]
    NotYetValid { path: PathBuf, begins: String },
    #[error("TLS cannot be set up: {0}")]
    Rustls(#[from] rustls::Error),
    #[error("no authority of the Secret vouches for the certificate in {0} under the names of the service")]
    Untrusted(PathBuf),
    #[error("the certificate authority cannot be used: {0}")]
    UnusableAuthority(&'static str),
    #[error("a certificate could not be made: {0}")]
    Make(#[from] rcgen::Error),
}

/// Where a certificate chain and its key stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Bytes of a certificate chain and its key, in PEM form.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}

impl Files {
    /// Reads both files.
    ///
    /// # Errors
    /// Names the file that cannot be read.
    pub fn read(&self) -> Result<Pair, TlsError> {
        let read = |path: &Path| fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source });
        Ok(Pair { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }
}

/// What the server shows in handshakes, and whom it asks for a certificate in return.
#[derive(Debug)]
pub struct Identity {
    parts: Mutex<Parts>,
    config: ArcSwapOption<ServerConfig>,
    /// The same without a question for the caller's certificate.
    for_anyone: ArcSwapOption<ServerConfig>,
    metrics: Arc<Metrics>,
}

/// What a configuration is made of; the two change independently.
#[derive(Clone, Debug, Default)]
struct Parts {
    key: Option<Arc<CertifiedKey>>,
    callers: Option<Arc<Callers>>,
}

impl Identity {
    /// An identity with nothing to show yet: handshakes fail until it takes on a pair.
    ///
    /// With `callers`, those who connect have to show a certificate too.
    pub fn new(callers: Option<Arc<Callers>>, metrics: Arc<Metrics>) -> Self {
        let parts = Mutex::new(Parts { key: None, callers });
        Identity { parts, config: ArcSwapOption::empty(), for_anyone: ArcSwapOption::empty(), metrics }
    }

    /// The configuration for the next handshake, once there is a certificate.
    pub fn config(&self) -> Option<Arc<ServerConfig>> {
        self.config.load_full()
    }

    /// The configuration for the next handshake with a caller who is not asked for a certificate.
    ///
    /// kube-apiserver shows none when it asks for conversions, whatever its configuration.
    pub fn config_for_anyone(&self) -> Option<Arc<ServerConfig>> {
        self.for_anyone.load_full()
    }

    /// Shows this pair from the next handshake on; `files` say in errors where it came from.
    ///
    /// # Errors
    /// When the pair cannot be used; what was shown before is still shown then.
    pub fn take_on(&self, pair: &Pair, files: &Files) -> Result<(), TlsError> {
        let usable = Usable::check(pair, files, SystemTime::now())?;
        self.change(|parts| parts.key = Some(Arc::new(usable.key)))?;
        #[allow(clippy::cast_precision_loss, reason = "seconds of Unix time are far below 2^53")]
        self.metrics.tls_certificate_expiry.set(usable.expires as f64);
        Ok(())
    }

    /// Asks other callers from the next handshake on.
    fn ask(&self, callers: Arc<Callers>) -> Result<(), TlsError> {
        self.change(|parts| parts.callers = Some(callers))
    }

    fn change(&self, change: impl FnOnce(&mut Parts)) -> Result<(), TlsError> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = parts.clone();
        change(&mut next);
        let for_anyone = Parts { callers: None, ..next.clone() }.config()?.map(Arc::new);
        if for_anyone.is_some() {
            let config = if next.callers.is_some() { next.config()?.map(Arc::new) } else { for_anyone.clone() };
            self.config.store(config);
            self.for_anyone.store(for_anyone);
        }
        *parts = next;
        Ok(())
    }

    /// Reads `files` every `interval` and takes on what changed; never ends.
    pub async fn follow(self: Arc<Self>, files: Files, current: Pair, interval: Duration) {
        let take_on = |pair: &Pair| {
            self.take_on(pair, &files)?;
            info!(certificate = %files.certificate.display(), "Took on a new certificate");
            Ok(())
        };
        let refused =
            |reason: &str| error!(error = reason, "Kept the old certificate because the new one cannot be used");
        self.poll(current, interval, || files.read(), take_on, refused).await;
    }

    /// Reads the authority of callers every `interval` and goes by what changed; never ends.
    pub async fn follow_callers(self: Arc<Self>, source: CallerSource, current: Vec<u8>, interval: Duration) {
        let take_on = |bytes: &Vec<u8>| {
            self.ask(Arc::new(source.callers(bytes)?))?;
            info!(file = %source.file.display(), "Took on a new authority of client certificates");
            Ok(())
        };
        let refused = |reason: &str| {
            error!(error = reason, "Kept the old authority of client certificates because the new one cannot be used");
        };
        self.poll(current, interval, || source.read(), take_on, refused).await;
    }

    /// Reads something every `interval` and takes on what changed; reports what cannot be used, and keeps the old.
    async fn poll<T: PartialEq>(
        &self,
        mut current: T,
        interval: Duration,
        read: impl Fn() -> Result<T, TlsError>,
        take_on: impl Fn(&T) -> Result<(), TlsError>,
        refused: impl Fn(&str),
    ) {
        // Files may be written one after the other, so a fault counts once it has been there twice, and only once.
        let (mut fault, mut times) = (String::new(), 0_u32);
        loop {
            tokio::time::sleep(interval).await;
            let outcome = read().and_then(|fresh| match fresh == current {
                true => Ok(None),
                false => take_on(&fresh).map(|()| Some(fresh)),
            });
            match outcome {
                Ok(None) => times = 0,
                Ok(Some(fresh)) => {
                    current = fresh;
                    times = 0;
                    self.count("success");
                }
                Err(reason) => {
                    let reason = reason.to_string();
                    times = if reason == fault { times.saturating_add(1) } else { 1 };
                    fault = reason;
                    if times == 2 {
                        self.count("failure");
                        refused(&fault);
                    }
                }
            }
        }
    }

    fn count(&self, outcome: &'static str) {
        self.metrics.tls_reloads.get_or_create(&metrics::Outcome { outcome }).inc();
    }
}

impl Parts {
    fn config(&self) -> Result<Option<ServerConfig>, TlsError> {
        let Some(key) = &self.key else { return Ok(None) };
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?;
        let builder = match &self.callers {
            Some(callers) => builder.with_client_cert_verifier(callers.verifier()),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(Shown(key.clone())));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        if self.callers.is_some() {
            // A resumed session would not show its certificate again, even after it has expired.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Some(config))
    }
}

/// The one certificate that is shown to everybody.
#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// A pair that passed all checks.
pub(super) struct Usable {
    key: CertifiedKey,
    expires: i64,
}

impl Usable {
    pub(super) fn check(pair: &Pair, files: &Files, now: SystemTime) -> Result<Self, TlsError> {
        let path = &files.certificate;
        let malformed = |reason: String| TlsError::Malformed { path: path.clone(), reason };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pair.certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| malformed(error.to_string()))?;
        let first = chain.first().ok_or_else(|| TlsError::NoCertificate(path.clone()))?;
        let (_, leaf) = X509Certificate::from_der(first).map_err(|error| malformed(error.to_string()))?;
        let (begins, expires) = (leaf.validity().not_before, leaf.validity().not_after);
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
        if now > expires.timestamp() {
            return Err(TlsError::Expired { path: path.clone(), expired: expires.to_string() });
        }
        if now < begins.timestamp() {
            return Err(TlsError::NotYetValid { path: path.clone(), begins: begins.to_string() });
        }
        let expires = expires.timestamp();
        let key = CertifiedKey::new(chain, signing_key(pair, files)?);
        key.keys_match().map_err(|_| TlsError::Mismatch { certificate: path.clone(), key: files.key.clone() })?;
        Ok(Usable { key, expires })
    }
}

fn signing_key(pair: &Pair, files: &Files) -> Result<Arc<dyn rustls::sign::SigningKey>, TlsError> {
    let der = PrivateKeyDer::from_pem_slice(&pair.key)
        .map_err(|error| TlsError::NoKey { path: files.key.clone(), reason: error.to_string() })?;
    ring::sign::any_supported_type(&der)
        .map_err(|error| TlsError::UnusableKey { path: files.key.clone(), reason: error.to_string() })
}

/// A certificate authority and a certificate that it issued, all in PEM form.
#[derive(Clone)]
pub struct Issued {
    pub authority: String,
    pub authority_key: String,
    pub certificate: String,
    pub key: String,
}

impl Issued {
    /// Makes an authority and a serving certificate for `names` (DNS names and IP addresses), valid for `days`.
    ///
    /// # Errors
    /// When a name cannot stand in a certificate.
    pub fn make(names: &[String], days: u32) -> Result<Self, TlsError> {
        let now = SystemTime::now();
        let ends = now + Duration::from_secs(u64::from(days) * 86_400);
        let validity = Validity { begins: now - Duration::from_mins(5), ends };
        let authority = Authority::make("topologist development CA", validity)?;
        let Pair { certificate, key } = authority.issue(names, validity)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Issued {
            authority: bundle([authority.certificate()]),
            authority_key: authority.key(),
            certificate: text(certificate),
            key: text(key),
        })
    }

    /// The serving certificate with its key.
    pub fn pair(&self) -> Pair {
        Pair { certificate: self.certificate.clone().into_bytes(), key: self.key.clone().into_bytes() }
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("authority", &self.authority).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Files {
        Files { certificate: "tls.crt".into(), key: "tls.key".into() }
    }

    fn issued() -> Issued {
        Issued::make(&["localhost".into(), "127.0.0.1".into()], 30).unwrap()
    }

    fn check(pair: &Pair, days_from_now: i64) -> Result<(), String> {
        let shift = Duration::from_secs(days_from_now.unsigned_abs() * 86_400);
        let now = if days_from_now < 0 { SystemTime::now() - shift } else { SystemTime::now() + shift };
        Usable::check(pair, &files(), now).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_pair_that_cannot_serve_is_refused_with_its_reason() {
        let good = issued().pair();
        assert_eq!(check(&good, 0), Ok(()));
        let with = |certificate: &[u8], key: &[u8]| Pair { certificate: certificate.to_vec(), key: key.to_vec() };
        for (pair, days, words) in [
            (with(b"", &good.key), 0, "tls.crt holds no certificate in PEM form"),
            (
                with(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &good.key),
                0,
                "tls.crt holds a certificate that does not parse",
            ),
            (with(&good.certificate, b"nothing"), 0, "tls.key holds no private key in PEM form"),
            (
                with(&good.certificate, &issued().pair().key),
                0,
                "the certificate in tls.crt does not belong to the key in tls.key",
            ),
            (good.clone(), 31, "the certificate in tls.crt expired at"),
            (good.clone(), -31, "the certificate in tls.crt is not valid before"),
        ] {
            let error = check(&pair, days).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn an_authority_comes_with_every_certificate() {
        let issued = issued();
        for pem in [&issued.authority, &issued.certificate] {
            assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"), "{pem}");
        }
        assert!(Issued::make(&["ä".into()], 1).is_err());
    }
}

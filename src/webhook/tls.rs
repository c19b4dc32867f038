//! Certificates: read, checked, swapped while serving, or made for the occasion.
//!
//! Mounted Secrets change by a swap of symbolic links, which watches of files miss; so the files are read every few
//! seconds and their bytes compared. A pair that cannot be used is reported, and the one in use stays.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tracing::{error, info};
use x509_parser::prelude::{FromDer, X509Certificate};

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

/// What the server presents now.
#[derive(Debug)]
pub struct Identity {
    config: ArcSwap<ServerConfig>,
    metrics: Arc<Metrics>,
}

impl Identity {
    /// An identity from a pair; `files` say in errors where it came from.
    ///
    /// # Errors
    /// When the pair cannot be used.
    pub fn new(pair: &Pair, files: &Files, metrics: Arc<Metrics>) -> Result<Self, TlsError> {
        let usable = Usable::check(pair, files, SystemTime::now())?;
        usable.report(&metrics);
        Ok(Identity { config: ArcSwap::from_pointee(usable.into_config()?), metrics })
    }

    /// The configuration for the next handshake.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// Reads `files` every `interval` and takes on what changed; never ends.
    pub async fn follow(self: Arc<Self>, files: Files, mut current: Pair, interval: Duration) {
        // Two files may be written one after the other, so a fault counts once it has been there twice, and only once.
        let (mut fault, mut times) = (String::new(), 0_u32);
        loop {
            tokio::time::sleep(interval).await;
            let outcome = files.read().and_then(|pair| match pair == current {
                true => Ok(None),
                false => self.take_on(&pair, &files).map(|()| Some(pair)),
            });
            match outcome {
                Ok(None) => times = 0,
                Ok(Some(pair)) => {
                    current = pair;
                    times = 0;
                    self.count("success");
                    info!(certificate = %files.certificate.display(), "Took on a new certificate");
                }
                Err(reason) => {
                    let reason = reason.to_string();
                    times = if reason == fault { times.saturating_add(1) } else { 1 };
                    fault = reason;
                    if times == 2 {
                        self.count("failure");
                        error!(error = fault, "Kept the old certificate because the new one cannot be used");
                    }
                }
            }
        }
    }

    fn take_on(&self, pair: &Pair, files: &Files) -> Result<(), TlsError> {
        let usable = Usable::check(pair, files, SystemTime::now())?;
        usable.report(&self.metrics);
        self.config.store(Arc::new(usable.into_config()?));
        Ok(())
    }

    fn count(&self, outcome: &'static str) {
        self.metrics.tls_reloads.get_or_create(&metrics::Outcome { outcome }).inc();
    }
}

/// A pair that passed all checks.
struct Usable {
    key: CertifiedKey,
    expires: i64,
}

impl Usable {
    fn check(pair: &Pair, files: &Files, now: SystemTime) -> Result<Self, TlsError> {
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

    #[allow(clippy::cast_precision_loss, reason = "seconds of Unix time are far below 2^53")]
    fn report(&self, metrics: &Metrics) {
        metrics.tls_certificate_expiry.set(self.expires as f64);
    }

    fn into_config(self) -> Result<ServerConfig, TlsError> {
        let resolver = Arc::new(rustls::sign::SingleCertAndKey::from(self.key));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
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
        let validity = |params: &mut CertificateParams| {
            let now = SystemTime::now();
            params.not_before = (now - Duration::from_mins(5)).into();
            params.not_after = (now + Duration::from_secs(u64::from(days) * 86_400)).into();
        };
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "topologist development CA");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        validity(&mut authority);
        let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let mut leaf = CertificateParams::new(names.to_vec())?;
        leaf.distinguished_name.push(DnType::CommonName, "topologist");
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        validity(&mut leaf);
        let key = KeyPair::generate()?;
        let certificate = leaf.signed_by(&key, &issuer)?;
        Ok(Issued {
            authority: issuer.pem(),
            authority_key: issuer.key().serialize_pem(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
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

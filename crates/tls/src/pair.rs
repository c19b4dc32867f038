//! A certificate chain and its key: read from files, and validated.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Reasons why a certificate is unusable.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{0} holds no certificate in PEM form")]
    NoCertificate(PathBuf),
    #[error("{path} holds no private key in PEM form: {reason}")]
    NoKey { path: PathBuf, reason: String },
    #[error("{path} holds a certificate that cannot be parsed: {reason}")]
    Malformed { path: PathBuf, reason: String },
    #[error("{path} holds a private key of a kind that cannot sign: {reason}")]
    UnusableKey { path: PathBuf, reason: String },
    #[error("the certificate in {certificate} does not belong to the key in {key}")]
    Mismatch { certificate: PathBuf, key: PathBuf },
    #[error("the certificate in {path} expired at {expired}")]
    Expired { path: PathBuf, expired: String },
    #[error("the certificate in {path} is not valid before {begins}")]
    NotYetValid { path: PathBuf, begins: String },
    #[error("cannot set up TLS: {0}")]
    Rustls(#[from] rustls::Error),
    #[error("no authority of the Secret issued the certificate in {0} for the DNS names of the Service")]
    Untrusted(PathBuf),
    #[error("the certificate authority cannot be used: {0}")]
    UnusableAuthority(&'static str),
    #[cfg(any(test, feature = "authority"))]
    #[error("cannot create a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// Paths of a certificate chain and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// A certificate chain and its key, in PEM form.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificatePair {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

impl fmt::Debug for CertificatePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}

impl CertificateFiles {
    /// Reads both files.
    ///
    /// # Errors
    /// When a file cannot be read; names the file.
    pub fn read(&self) -> Result<CertificatePair, TlsError> {
        let read = |path: &Path| fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source });
        Ok(CertificatePair { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }
}

/// A validated pair.
#[derive(Debug)]
pub struct LoadedPair {
    pub key: CertifiedKey,
    /// Expiry of the certificate in seconds of Unix time.
    pub expires: i64,
}

impl LoadedPair {
    /// Validates a pair at a time; `files` are named in errors.
    ///
    /// # Errors
    /// When the certificate or the key cannot be parsed, they do not match, or the certificate is not valid at that
    /// time.
    pub fn check(pair: &CertificatePair, files: &CertificateFiles, now: SystemTime) -> Result<Self, TlsError> {
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
        Ok(LoadedPair { key, expires })
    }
}

fn signing_key(
    pair: &CertificatePair,
    files: &CertificateFiles,
) -> Result<Arc<dyn rustls::sign::SigningKey>, TlsError> {
    let der = PrivateKeyDer::from_pem_slice(&pair.key)
        .map_err(|error| TlsError::NoKey { path: files.key.clone(), reason: error.to_string() })?;
    ring::sign::any_supported_type(&der)
        .map_err(|error| TlsError::UnusableKey { path: files.key.clone(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::authority::IssuedCertificate;

    fn files() -> CertificateFiles {
        CertificateFiles { certificate: "tls.crt".into(), key: "tls.key".into() }
    }

    fn issued() -> IssuedCertificate {
        IssuedCertificate::generate(&["localhost".into(), "127.0.0.1".into()], 30).unwrap()
    }

    fn check(pair: &CertificatePair, days_from_now: i64) -> Result<(), String> {
        let shift = Duration::from_secs(days_from_now.unsigned_abs() * 86_400);
        let now = if days_from_now < 0 { SystemTime::now() - shift } else { SystemTime::now() + shift };
        LoadedPair::check(pair, &files(), now).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_pair_that_cannot_serve_is_refused_with_its_reason() {
        let good = issued().pair();
        assert_eq!(check(&good, 0), Ok(()));
        let with =
            |certificate: &[u8], key: &[u8]| CertificatePair { certificate: certificate.to_vec(), key: key.to_vec() };
        for (pair, days, words) in [
            (with(b"", &good.key), 0, "tls.crt holds no certificate in PEM form"),
            (
                with(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &good.key),
                0,
                "tls.crt holds a certificate that cannot be parsed",
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
}

//! Verification of server certificates against a bundle of CA certificates.
//!
//! webpki accepts a certificate only if a CA of the bundle issued it, and never accepts a CA certificate as that of a
//! server. Go, and so Cluster API, also accepts a certificate that is in the bundle itself, such as one that `openssl
//! req -x509` made.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

/// Accepts the certificates of a bundle, and those that a CA of the bundle issued.
#[derive(Debug)]
pub(super) struct BundleVerifier {
    bundle: Vec<CertificateDer<'static>>,
    issued: Arc<WebPkiServerVerifier>,
}

impl BundleVerifier {
    /// # Errors
    /// When a certificate cannot be read, or there are none.
    pub(super) fn new(bundle: Vec<CertificateDer<'static>>, provider: Arc<CryptoProvider>) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in &bundle {
            roots.add(certificate.clone())?;
        }
        let issued = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let issued = issued.map_err(|error| Error::General(error.to_string()))?;
        Ok(BundleVerifier { bundle, issued })
    }
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.bundle.contains(end_entity) {
            return self.issued.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        verify_time_and_usage(end_entity, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.issued.supported_verify_schemes()
    }
}

/// Checks that the certificate is valid now and allowed for a server: its extended key usage is absent, or names
/// servers or any usage.
fn verify_time_and_usage(certificate: &CertificateDer<'_>, time: UnixTime) -> Result<(), CertificateError> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let (not_before, not_after) = (unix_time(parsed.validity().not_before), unix_time(parsed.validity().not_after));
    if time < not_before {
        return Err(CertificateError::NotValidYetContext { time, not_before });
    }
    if time > not_after {
        return Err(CertificateError::ExpiredContext { time, not_after });
    }
    let usage = parsed.extended_key_usage().map_err(|_| CertificateError::BadEncoding)?;
    match usage.is_none_or(|usage| usage.value.any || usage.value.server_auth) {
        true => Ok(()),
        false => Err(CertificateError::InvalidPurpose),
    }
}

/// The Unix time; times before 1970 become 1970.
fn unix_time(time: ASN1Time) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or(0)))
}

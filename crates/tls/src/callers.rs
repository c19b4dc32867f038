//! Accepted client certificates: issued by a given CA, with given names.
//!
//! kube-apiserver presents one to webhooks if its AdmissionConfiguration says so. The check is part of the handshake,
//! so a client that fails it gets no HTTP response.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::pair::TlsError;

/// The file of the client CA, and the accepted names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerSource {
    /// Certificates in PEM form; client certificates issued by any of them are accepted.
    pub file: PathBuf,
    /// Accepted common names or DNS names; empty accepts any.
    pub names: Vec<String>,
}

impl CallerSource {
    /// Reads the file.
    ///
    /// # Errors
    /// When the file cannot be read; names the file.
    pub fn read(&self) -> Result<Vec<u8>, TlsError> {
        fs::read(&self.file).map_err(|source| TlsError::Read { path: self.file.clone(), source })
    }

    /// Parses the contents of the file.
    ///
    /// # Errors
    /// When they contain no certificate, or one that is not a CA certificate.
    pub fn callers(&self, bytes: &[u8]) -> Result<Callers, TlsError> {
        let malformed = |reason: String| TlsError::Malformed { path: self.file.clone(), reason };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bytes) {
            let certificate = certificate.map_err(|error| malformed(error.to_string()))?;
            roots.add(certificate).map_err(|error| malformed(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(TlsError::NoCertificate(self.file.clone()));
        }
        let provider = Arc::new(ring::default_provider());
        let chain = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| malformed(error.to_string()))?;
        Ok(Callers { chain, names: self.names.clone() })
    }
}

/// Verifier of client certificates: issued by a known authority, currently valid, for client authentication, and with
/// an accepted name.
#[derive(Debug)]
pub struct Callers {
    chain: Arc<dyn ClientCertVerifier>,
    names: Vec<String>,
}

impl Callers {
    pub fn verifier(self: &Arc<Self>) -> Arc<dyn ClientCertVerifier> {
        self.clone()
    }

    /// Whether the common name or a DNS name of a certificate is accepted.
    fn has_known_name(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
        let is_common = |name: &String| {
            certificate.subject().iter_common_name().any(|common| common.as_str().is_ok_and(|text| text == name))
        };
        let alternatives = certificate.subject_alternative_name().ok().flatten();
        let alternatives = alternatives.map(|extension| extension.value.general_names.as_slice()).unwrap_or_default();
        let is_alternative = |name: &String| {
            let mut dns = alternatives.iter();
            dns.any(|general| matches!(general, GeneralName::DNSName(text) if text.eq_ignore_ascii_case(name)))
        };
        self.names.is_empty() || self.names.iter().any(|name| is_common(name) || is_alternative(name))
    }
}

impl ClientCertVerifier for Callers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.chain.verify_client_cert(end_entity, intermediates, now)?;
        if self.has_known_name(end_entity) {
            Ok(verified)
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
        date_time_ymd,
    };

    use super::*;

    fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    fn source(names: &[&str]) -> CallerSource {
        CallerSource { file: "ca.crt".into(), names: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    /// A client certificate with this common name and these DNS names.
    fn client(common: &str, dns: &[&str], usage: ExtendedKeyUsagePurpose) -> CertificateParams {
        let dns: Vec<String> = dns.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(dns).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        params.extended_key_usages = vec![usage];
        params
    }

    fn verdict(callers: &Callers, params: &CertificateParams, issuer: &CertifiedIssuer<'static, KeyPair>) -> String {
        let certificate = params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap();
        match callers.verify_client_cert(certificate.der(), &[], UnixTime::now()) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_caller_has_a_certificate_of_the_authority_with_one_of_the_names() {
        use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        let (ours, other) = (authority("one"), authority("two"));
        let callers = source(&["kube-apiserver", "api.example.com"]).callers(ours.pem().as_bytes()).unwrap();
        let anybody = source(&[]).callers(ours.pem().as_bytes()).unwrap();
        let mut expired = client("kube-apiserver", &[], ClientAuth);
        expired.not_after = date_time_ymd(2021, 1, 1);
        let good = client("kube-apiserver", &[], ClientAuth);
        for (callers, params, issuer, want) in [
            (&callers, &good, &ours, "accepted"),
            (&callers, &client("x", &["API.example.com"], ClientAuth), &ours, "accepted"),
            (&callers, &client("Kube-Apiserver", &[], ClientAuth), &ours, "ApplicationVerificationFailure"),
            (&callers, &client("x", &["example.com"], ClientAuth), &ours, "ApplicationVerificationFailure"),
            (&anybody, &client("x", &[], ClientAuth), &ours, "accepted"),
            (&anybody, &good, &other, "UnknownIssuer"),
            (&anybody, &client("kube-apiserver", &[], ServerAuth), &ours, "extended key usage"),
            (&anybody, &expired, &ours, "expired"),
        ] {
            let got = verdict(callers, params, issuer);
            assert!(got.contains(want), "{want:?} is not in {got:?}");
        }
    }

    #[test]
    fn several_authorities_may_stand_in_one_file_and_none_may_be_broken() {
        let (old, new) = (authority("one"), authority("two"));
        let both = format!("{}{}", old.pem(), new.pem());
        let callers = source(&[]).callers(both.as_bytes()).unwrap();
        let params = client("x", &[], ExtendedKeyUsagePurpose::ClientAuth);
        for issuer in [&old, &new] {
            assert_eq!(verdict(&callers, &params, issuer), "accepted");
        }
        for (bytes, words) in [
            ("", "ca.crt holds no certificate in PEM form"),
            (
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                "ca.crt holds a certificate that cannot be parsed",
            ),
        ] {
            let error = source(&[]).callers(bytes.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

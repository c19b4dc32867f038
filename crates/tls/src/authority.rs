//! Certificate authorities: creation, parsing, and the certificates that they issue.
//!
//! Time is an argument everywhere except in `IssuedCertificate`, so that tests can simulate years.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData,
};
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

use crate::pair::{CertificatePair, TlsError};

/// The validity period of a certificate, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub begins: SystemTime,
    pub ends: SystemTime,
}

impl Validity {
    /// Whether `now` is within the period.
    pub fn contains(&self, now: SystemTime) -> bool {
        self.begins <= now && now <= self.ends
    }

    /// The time at which two thirds of the period have passed and a successor is due.
    pub fn two_thirds(&self) -> SystemTime {
        let life = self.ends.duration_since(self.begins).unwrap_or_default();
        self.begins + life * 2 / 3
    }
}

/// A parsed certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    der: CertificateDer<'static>,
    validity: Validity,
}

impl Certificate {
    /// The certificates in a PEM text; anything that does not parse is skipped.
    pub fn read_all(pem: &str) -> Vec<Certificate> {
        CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(|der| Certificate::read(der.ok()?)).collect()
    }

    fn read(der: CertificateDer<'static>) -> Option<Certificate> {
        let (_, parsed) = X509Certificate::from_der(&der).ok()?;
        let time = |time: ASN1Time| UNIX_EPOCH + Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or(0));
        let validity = Validity { begins: time(parsed.validity().not_before), ends: time(parsed.validity().not_after) };
        Some(Certificate { der, validity })
    }

    /// The validity period.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Whether a client that trusts only this certificate accepts a server with this chain under each of these names,
    /// as kube-apiserver does with a caBundle.
    pub fn verifies(&self, chain: &[Certificate], names: &[String], now: SystemTime) -> bool {
        let Some((leaf, intermediates)) = chain.split_first() else { return false };
        let Ok(parsed) = ParsedCertificate::try_from(&leaf.der) else { return false };
        let mut roots = RootCertStore::empty();
        if roots.add(self.der.clone()).is_err() || !self.validity.contains(now) {
            return false;
        }
        let intermediates: Vec<_> = intermediates.iter().map(|certificate| certificate.der.clone()).collect();
        let at = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap_or_default());
        let algorithms = ring::default_provider().signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &intermediates, at, algorithms).is_ok()
            && names.iter().all(|name| {
                ServerName::try_from(name.as_str()).is_ok_and(|name| verify_server_name(&parsed, &name).is_ok())
            })
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("validity", &self.validity).finish_non_exhaustive()
    }
}

/// Concatenated certificates in PEM form.
pub fn bundle<'a>(certificates: impl IntoIterator<Item = &'a Certificate>) -> String {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(&certificate.der);
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, more) = rest.split_at(rest.len().min(64));
            text.push_str(line);
            text.push('\n');
            rest = more;
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

/// A certificate authority with its key.
pub struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Generates an authority with a new key.
    ///
    /// # Errors
    /// When `name` is not allowed in a certificate.
    pub fn generate(name: &str, validity: Validity) -> Result<Self, TlsError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        (params.not_before, params.not_after) = (validity.begins.into(), validity.ends.into());
        let key = KeyPair::generate()?;
        let signed = params.self_signed(&key)?;
        let certificate = Certificate::read(signed.der().clone());
        let certificate = certificate.ok_or_else(|| unusable("the generated certificate cannot be parsed"))?;
        Ok(Authority { certificate, issuer: Issuer::new(params, key) })
    }

    /// Parses an authority from its certificate and key in PEM form.
    ///
    /// # Errors
    /// When one of them does not parse, they do not match, or the certificate is not a CA certificate.
    pub fn read(certificate: &str, key: &str) -> Result<Self, TlsError> {
        let all = Certificate::read_all(certificate);
        let [certificate] = all.as_slice() else { return Err(unusable("it must hold exactly one certificate")) };
        let (_, parsed) = X509Certificate::from_der(&certificate.der).map_err(|_| unusable("it does not parse"))?;
        let key = KeyPair::from_pem(key)?;
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(unusable("the certificate does not belong to the key"));
        }
        if !parsed.is_ca() {
            return Err(unusable("the certificate is not a CA certificate"));
        }
        let issuer = Issuer::from_ca_cert_der(&certificate.der, key)?;
        Ok(Authority { certificate: certificate.clone(), issuer })
    }

    /// The CA certificate, which clients trust.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The key in PEM form.
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Issues a serving certificate for `names` (DNS names and IP addresses), at most as long as the authority is
    /// valid.
    ///
    /// # Errors
    /// When a name is not allowed in a certificate.
    pub fn issue(&self, names: &[String], validity: Validity) -> Result<CertificatePair, TlsError> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name.push(DnType::CommonName, "topologist");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = validity.begins.into();
        params.not_after = validity.ends.min(self.certificate.validity.ends).into();
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(CertificatePair { certificate: certificate.pem().into_bytes(), key: key.serialize_pem().into_bytes() })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// A certificate authority and a certificate issued by it, in PEM form.
#[derive(Clone)]
pub struct IssuedCertificate {
    pub authority: String,
    pub authority_key: String,
    pub certificate: String,
    pub key: String,
}

impl IssuedCertificate {
    /// Generates an authority and a serving certificate for `names` (DNS names and IP addresses), valid for `days`.
    ///
    /// # Errors
    /// When a name is not allowed in a certificate.
    pub fn generate(names: &[String], days: u32) -> Result<Self, TlsError> {
        let now = SystemTime::now();
        let ends = now + Duration::from_secs(u64::from(days) * 86_400);
        let validity = Validity { begins: now - Duration::from_mins(5), ends };
        let authority = Authority::generate("topologist development CA", validity)?;
        let CertificatePair { certificate, key } = authority.issue(names, validity)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(IssuedCertificate {
            authority: bundle([authority.certificate()]),
            authority_key: authority.key(),
            certificate: text(certificate),
            key: text(key),
        })
    }

    /// The serving certificate with its key.
    pub fn pair(&self) -> CertificatePair {
        CertificatePair { certificate: self.certificate.clone().into_bytes(), key: self.key.clone().into_bytes() }
    }
}

impl fmt::Debug for IssuedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("authority", &self.authority).finish_non_exhaustive()
    }
}

fn unusable(reason: &'static str) -> TlsError {
    TlsError::UnusableAuthority(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn now() -> SystemTime {
        UNIX_EPOCH + 20_000 * DAY
    }

    fn days(count: u32) -> Validity {
        Validity { begins: now(), ends: now() + count * DAY }
    }

    fn names() -> Vec<String> {
        vec!["topologist.topologist-system.svc".to_owned(), "127.0.0.1".to_owned()]
    }

    fn chain(pair: &CertificatePair) -> Vec<Certificate> {
        Certificate::read_all(str::from_utf8(&pair.certificate).unwrap())
    }

    #[test]
    fn an_authority_accepts_its_certificates_while_names_and_validity_match() {
        let (ours, other) =
            (Authority::generate("one", days(30)).unwrap(), Authority::generate("two", days(30)).unwrap());
        let leaf = chain(&ours.issue(&names(), days(10)).unwrap());
        let ca = ours.certificate();
        assert!(ca.verifies(&leaf, &names(), now() + DAY));
        assert!(!other.certificate().verifies(&leaf, &names(), now() + DAY));
        assert!(!ca.verifies(&leaf, &["another.svc".to_owned()], now() + DAY));
        assert!(!ca.verifies(&leaf, &names(), now() + 11 * DAY));
        assert!(!ca.verifies(&leaf, &names(), now() - DAY));
        assert!(!ca.verifies(&[], &names(), now()));
        let long = chain(&ours.issue(&names(), days(90)).unwrap());
        assert_eq!(long[0].validity().ends, ca.validity().ends, "not longer than the authority");
    }

    #[test]
    fn an_authority_that_was_read_back_issues_as_before() {
        let made = Authority::generate("one", days(30)).unwrap();
        let (certificate, key) = (bundle([made.certificate()]), made.key());
        let read = Authority::read(&certificate, &key).unwrap();
        let leaf = chain(&read.issue(&names(), days(10)).unwrap());
        assert!(made.certificate().verifies(&leaf, &names(), now()));

        let other = Authority::generate("two", days(30)).unwrap();
        let leaf = made.issue(&names(), days(1)).unwrap();
        let (leaf, leaf_key) = (String::from_utf8(leaf.certificate).unwrap(), String::from_utf8(leaf.key).unwrap());
        for (certificate, key, words) in [
            (certificate.clone(), other.key(), "does not belong to the key"),
            (format!("{certificate}{certificate}"), key.clone(), "exactly one certificate"),
            (String::new(), key, "exactly one certificate"),
            (certificate, String::new(), "cannot create a certificate"),
            (leaf, leaf_key, "is not a CA certificate"),
        ] {
            let error = Authority::read(&certificate, &key).unwrap_err().to_string();
            assert!(error.contains(words), "{words:?} is not in {error:?}");
        }
    }

    #[test]
    fn a_bundle_is_read_as_it_was_written_and_garbage_is_skipped() {
        let (one, two) = (Authority::generate("one", days(1)).unwrap(), Authority::generate("two", days(2)).unwrap());
        let both = [one.certificate().clone(), two.certificate().clone()];
        let text = bundle(&both);
        assert_eq!(Certificate::read_all(&text), both);
        assert!(text.lines().all(|line| line.len() <= 64));
        let spoilt =
            format!("what\n{}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", bundle(&both[..1]));
        assert_eq!(Certificate::read_all(&spoilt), both[..1]);
        assert_eq!(Certificate::read_all("nothing"), []);
    }

    #[test]
    fn an_authority_comes_with_every_certificate() {
        let issued = IssuedCertificate::generate(&["localhost".into(), "127.0.0.1".into()], 30).unwrap();
        for pem in [&issued.authority, &issued.certificate] {
            assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"), "{pem}");
        }
        assert!(IssuedCertificate::generate(&["ä".into()], 1).is_err());
    }
}

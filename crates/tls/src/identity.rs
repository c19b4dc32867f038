//! The certificate that the server presents in TLS handshakes. It can be replaced while the server runs.
//!
//! Mounted Secrets are updated by swapping symbolic links, which file watches miss. So the files are read every few
//! seconds and compared. If a new pair is unusable, that is reported and the current pair stays in use.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tracing::{error, info};

use crate::callers::{CallerSource, Callers};
use crate::pair::{CertificateFiles, CertificatePair, LoadedPair, TlsError};

/// The certificate presented in handshakes, and the accepted client certificates.
#[derive(Debug)]
pub struct ServerIdentity {
    parts: Mutex<ConfigInputs>,
    config: ArcSwapOption<ServerConfig>,
    /// The configuration without client authentication.
    without_client_auth: ArcSwapOption<ServerConfig>,
    /// Expiry of the certificate in seconds of Unix time; zero without a certificate.
    expires: AtomicI64,
    observer: Arc<dyn Observer>,
}

/// Receives events of an identity, for metrics.
pub trait Observer: fmt::Debug + Send + Sync {
    /// A new certificate is presented; `expires` in seconds of Unix time.
    fn presented(&self, expires: i64);

    /// A file has changed, and its contents are used or unusable.
    fn reloaded(&self, is_used: bool);
}

/// An observer that ignores all events.
impl Observer for () {
    fn presented(&self, _: i64) {}

    fn reloaded(&self, _: bool) {}
}

/// The inputs of a configuration, which change independently.
#[derive(Clone, Debug, Default)]
struct ConfigInputs {
    key: Option<Arc<CertifiedKey>>,
    callers: Option<Arc<Callers>>,
}

/// The presented certificate has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the serving certificate expired {} ago", age(*.seconds))]
pub struct CertificateExpired {
    /// The time since then.
    pub seconds: i64,
}

impl ServerIdentity {
    /// An identity without a certificate: handshakes fail until one is installed.
    ///
    /// With `callers`, clients must present a certificate as well.
    pub fn new(callers: Option<Arc<Callers>>, observer: Arc<dyn Observer>) -> Self {
        let parts = Mutex::new(ConfigInputs { key: None, callers });
        let (config, for_anyone) = (ArcSwapOption::empty(), ArcSwapOption::empty());
        ServerIdentity { parts, config, without_client_auth: for_anyone, expires: AtomicI64::new(0), observer }
    }

    /// The configuration for the next handshake, once there is a certificate.
    pub fn config(&self) -> Option<Arc<ServerConfig>> {
        self.config.load_full()
    }

    /// The configuration for handshakes without client authentication.
    ///
    /// kube-apiserver never presents a certificate for conversions.
    pub fn config_without_client_auth(&self) -> Option<Arc<ServerConfig>> {
        self.without_client_auth.load_full()
    }

    /// Presents this pair from the next handshake on; `files` are named in errors.
    ///
    /// # Errors
    /// When the pair is unusable; the previous pair stays in use.
    pub fn install(&self, pair: &CertificatePair, files: &CertificateFiles) -> Result<(), TlsError> {
        let usable = LoadedPair::check(pair, files, SystemTime::now())?;
        self.change(|parts| parts.key = Some(Arc::new(usable.key)))?;
        self.expires.store(usable.expires, Ordering::Relaxed);
        self.observer.presented(usable.expires);
        Ok(())
    }

    /// Whether the presented certificate, if any, is still valid.
    ///
    /// # Errors
    /// The time at which it expired.
    pub fn is_valid_at(&self, now: SystemTime) -> Result<(), CertificateExpired> {
        let expires = self.expires.load(Ordering::Relaxed);
        let now = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
        if expires == 0 || now <= expires {
            return Ok(());
        }
        Err(CertificateExpired { seconds: now - expires })
    }

    /// Replaces the accepted client certificates from the next handshake on.
    fn set_callers(&self, callers: Arc<Callers>) -> Result<(), TlsError> {
        self.change(|parts| parts.callers = Some(callers))
    }

    fn change(&self, change: impl FnOnce(&mut ConfigInputs)) -> Result<(), TlsError> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = parts.clone();
        change(&mut next);
        let for_anyone = ConfigInputs { callers: None, ..next.clone() }.config()?.map(Arc::new);
        if for_anyone.is_some() {
            let config = if next.callers.is_some() { next.config()?.map(Arc::new) } else { for_anyone.clone() };
            self.config.store(config);
            self.without_client_auth.store(for_anyone);
        }
        *parts = next;
        Ok(())
    }

    /// Reads `files` every `interval` and installs changed contents; never returns.
    pub async fn watch_files(self: Arc<Self>, files: CertificateFiles, current: CertificatePair, interval: Duration) {
        let take_on = |pair: &CertificatePair| {
            self.install(pair, &files)?;
            info!(certificate = %files.certificate.display(), "Loaded a new certificate");
            Ok(())
        };
        let refused =
            |reason: &str| error!(error = reason, "Kept the old certificate because the new one cannot be used");
        self.poll(current, interval, || files.read(), take_on, refused).await;
    }

    /// Reads the client CA every `interval` and installs changed contents; never returns.
    pub async fn watch_callers(self: Arc<Self>, source: CallerSource, current: Vec<u8>, interval: Duration) {
        let take_on = |bytes: &Vec<u8>| {
            self.set_callers(Arc::new(source.callers(bytes)?))?;
            info!(file = %source.file.display(), "Loaded a new CA for client certificates");
            Ok(())
        };
        let refused = |reason: &str| {
            error!(error = reason, "Kept the old CA for client certificates because the new one cannot be used");
        };
        self.poll(current, interval, || source.read(), take_on, refused).await;
    }

    /// Reads a source every `interval` and installs changed contents; reports unusable contents and keeps the current
    /// ones.
    async fn poll<T: PartialEq>(
        &self,
        mut current: T,
        interval: Duration,
        read: impl Fn() -> Result<T, TlsError>,
        take_on: impl Fn(&T) -> Result<(), TlsError>,
        refused: impl Fn(&str),
    ) {
        // Files may be written one after another, so an error is reported when it occurs the second time, and only
        // once.
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
                    self.observer.reloaded(true);
                }
                Err(reason) => {
                    let reason = reason.to_string();
                    times = if reason == fault { times.saturating_add(1) } else { 1 };
                    fault = reason;
                    if times == 2 {
                        self.observer.reloaded(false);
                        refused(&fault);
                    }
                }
            }
        }
    }
}

fn age(seconds: i64) -> String {
    match seconds {
        0..3600 => format!("{seconds}s"),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

impl ConfigInputs {
    fn config(&self) -> Result<Option<ServerConfig>, TlsError> {
        let Some(key) = &self.key else { return Ok(None) };
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?;
        let builder = match &self.callers {
            Some(callers) => builder.with_client_cert_verifier(callers.verifier()),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertificate(key.clone())));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        if self.callers.is_some() {
            // A resumed session would skip the certificate check, even after the certificate has expired.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Some(config))
    }
}

/// Resolver that presents one certificate to all clients.
#[derive(Debug)]
struct SingleCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for SingleCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::IssuedCertificate;

    #[test]
    fn a_certificate_that_expired_meanwhile_is_reported() {
        let identity = ServerIdentity::new(None, Arc::new(()));
        let (now, day) = (SystemTime::now(), Duration::from_hours(24));
        assert_eq!(identity.is_valid_at(now), Ok(()), "there is none, which is reported elsewhere");
        let issued = IssuedCertificate::generate(&["localhost".to_owned()], 1).unwrap();
        let files = CertificateFiles { certificate: "tls.crt".into(), key: "tls.key".into() };
        identity.install(&issued.pair(), &files).unwrap();
        assert_eq!(identity.is_valid_at(now), Ok(()));
        let error = identity.is_valid_at(now + 4 * day).unwrap_err().to_string();
        assert!(error.starts_with("the serving certificate expired ") && error.ends_with("d ago"), "{error}");
        identity.install(&IssuedCertificate::generate(&["localhost".to_owned()], 9).unwrap().pair(), &files).unwrap();
        assert_eq!(identity.is_valid_at(now + 4 * day), Ok(()), "it was renewed");
    }
}

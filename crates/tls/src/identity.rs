//! The certificate that the server presents in TLS handshakes. It is replaced while the server runs.
//!
//! Mounted Secrets change by a swap of symbolic links, which watches of files miss. So the files are read every few seconds,
//! and their bytes are compared. A new pair that cannot be used is reported, and the current pair stays in use.

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
use crate::pair::{Files, Pair, TlsError, Usable};

/// What the server shows in handshakes, and whom it asks for a certificate in return.
#[derive(Debug)]
pub struct Identity {
    parts: Mutex<Parts>,
    config: ArcSwapOption<ServerConfig>,
    /// The same without a question for the caller's certificate.
    for_anyone: ArcSwapOption<ServerConfig>,
    /// When the certificate expires, in seconds of Unix time; zero while there is none.
    expires: AtomicI64,
    observer: Arc<dyn Observer>,
}

/// Sees what happens to an identity, for metrics.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Another certificate is presented, which expires at that time, in seconds of Unix time.
    fn presented(&self, expires: i64);

    /// A file has changed: it is used now, or it cannot be used.
    fn reloaded(&self, is_used: bool);
}

/// Counts nothing.
impl Observer for () {
    fn presented(&self, _: i64) {}

    fn reloaded(&self, _: bool) {}
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
    pub fn new(callers: Option<Arc<Callers>>, observer: Arc<dyn Observer>) -> Self {
        let parts = Mutex::new(Parts { key: None, callers });
        let (config, for_anyone) = (ArcSwapOption::empty(), ArcSwapOption::empty());
        Identity { parts, config, for_anyone, expires: AtomicI64::new(0), observer }
    }

    /// The configuration for the next handshake, once there is a certificate.
    pub fn config(&self) -> Option<Arc<ServerConfig>> {
        self.config.load_full()
    }

    /// The configuration for the next handshake with a caller who is not asked for a certificate.
    ///
    /// kube-apiserver never presents one for conversions.
    pub fn config_for_anyone(&self) -> Option<Arc<ServerConfig>> {
        self.for_anyone.load_full()
    }

    /// Shows this pair from the next handshake on; `files` say in errors where it came from.
    ///
    /// # Errors
    /// When the pair cannot be used; the previous pair stays in use then.
    pub fn take_on(&self, pair: &Pair, files: &Files) -> Result<(), TlsError> {
        let usable = Usable::check(pair, files, SystemTime::now())?;
        self.change(|parts| parts.key = Some(Arc::new(usable.key)))?;
        self.expires.store(usable.expires, Ordering::Relaxed);
        self.observer.presented(usable.expires);
        Ok(())
    }

    /// Whether clients that check certificates accept the one that is shown, if there is one.
    ///
    /// # Errors
    /// Says when it expired.
    pub fn is_valid_at(&self, now: SystemTime) -> Result<(), String> {
        let expires = self.expires.load(Ordering::Relaxed);
        let now = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
        if expires == 0 || now <= expires {
            return Ok(());
        }
        Err(format!("the serving certificate expired {} ago", age(now - expires)))
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
            info!(certificate = %files.certificate.display(), "Loaded a new certificate");
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
            info!(file = %source.file.display(), "Loaded a new CA for client certificates");
            Ok(())
        };
        let refused = |reason: &str| {
            error!(error = reason, "Kept the old CA for client certificates because the new one cannot be used");
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

/// The one certificate that all clients get.
#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::Issued;

    #[test]
    fn a_certificate_that_expired_meanwhile_is_reported() {
        let identity = Identity::new(None, Arc::new(()));
        let (now, day) = (SystemTime::now(), Duration::from_hours(24));
        assert_eq!(identity.is_valid_at(now), Ok(()), "there is none, which is reported elsewhere");
        let issued = Issued::make(&["localhost".to_owned()], 1).unwrap();
        let files = Files { certificate: "tls.crt".into(), key: "tls.key".into() };
        identity.take_on(&issued.pair(), &files).unwrap();
        assert_eq!(identity.is_valid_at(now), Ok(()));
        let error = identity.is_valid_at(now + 4 * day).unwrap_err();
        assert!(error.starts_with("the serving certificate expired ") && error.ends_with("d ago"), "{error}");
        identity.take_on(&Issued::make(&["localhost".to_owned()], 9).unwrap().pair(), &files).unwrap();
        assert_eq!(identity.is_valid_at(now + 4 * day), Ok(()), "it was renewed");
    }
}

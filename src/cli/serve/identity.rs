//! The certificate that is shown, and the client certificates that are required.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tokio::task::JoinSet;

use crate::cli::args::ServeArgs;
use crate::cli::atomic_file;
use crate::cli::tasks::supervise;
use server::telemetry::metrics::Metrics;
use tls::authority::IssuedCertificate;
use tls::callers::CallerSource;
use tls::identity::ServerIdentity;
use tls::pair::{CertificateFiles, CertificatePair};

/// The certificate to serve with, and where the CA certificate is if one was made for the occasion.
pub(super) fn identity(
    options: &ServeArgs,
    metrics: &Arc<Metrics>,
    tasks: &mut JoinSet<&'static str>,
) -> Result<(Arc<ServerIdentity>, Option<String>)> {
    let identity = asking(options, metrics, tasks)?;
    let Some((certificate, key)) = options.tls_cert.clone().zip(options.tls_key.clone()) else {
        if options.certificates.manage_certificates {
            return Ok((identity, None));
        }
        if !options.embedded {
            bail!(
                "no serving certificate: use --manage-certificates, or --tls-cert and --tls-key; `topologist certs` \
                 creates such a pair"
            );
        }
        let authority = make_certificate(&options.state_dir, &identity)?;
        return Ok((identity, Some(authority)));
    };
    let files = CertificateFiles { certificate, key };
    let pair: CertificatePair = files.read()?;
    identity.install(&pair, &files)?;
    supervise(tasks, "the certificate watch", identity.clone().watch_files(files, pair, options.tls_poll));
    Ok((identity, None))
}

/// A TLS identity without a certificate yet. With --client-ca it requires client certificates.
fn asking(
    options: &ServeArgs,
    metrics: &Arc<Metrics>,
    tasks: &mut JoinSet<&'static str>,
) -> Result<Arc<ServerIdentity>> {
    let Some(file) = options.client_ca.clone() else { return Ok(Arc::new(ServerIdentity::new(None, metrics.clone()))) };
    let source = CallerSource { file, names: options.client_names.clone() };
    let bytes = source.read()?;
    let callers = Arc::new(source.callers(&bytes)?);
    let identity = Arc::new(ServerIdentity::new(Some(callers), metrics.clone()));
    let watch = identity.clone().watch_callers(source, bytes, options.tls_poll);
    supervise(tasks, "the watch of the client authority", watch);
    Ok(identity)
}

/// Shows a certificate for this host alone; returns where its CA certificate is.
fn make_certificate(folder: &Path, identity: &ServerIdentity) -> Result<String> {
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let issued = IssuedCertificate::generate(&names, 365)?;
    let path = folder.join("ca.crt");
    atomic_file::write(&path, &issued.authority, 0o644).with_context(|| format!("cannot write {}", path.display()))?;
    let files = CertificateFiles { certificate: "the generated certificate".into(), key: "the generated key".into() };
    identity.install(&issued.pair(), &files)?;
    Ok(path.display().to_string())
}

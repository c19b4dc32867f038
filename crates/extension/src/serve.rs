//! Serving an extension over TLS.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::{Extension, InvalidExtension};
use tls::identity::ServerIdentity;
use tls::pair::{CertificateFiles, TlsError};

/// Interval of reading the certificate files.
const RELOAD: Duration = Duration::from_secs(10);
/// Timeout of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time for open requests after the server is stopped.
const DRAIN: Duration = Duration::from_secs(30);

/// Reasons why an extension cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Invalid(#[from] InvalidExtension),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Extension {
    /// Serves until `stop` is ready, then finishes open requests. The certificate files are in PEM form, and are
    /// reloaded when they change.
    ///
    /// # Errors
    /// When the extension is invalid, or the certificate is unusable.
    pub async fn serve(
        self,
        listener: TcpListener,
        certificate: &Path,
        key: &Path,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let router = self.router()?;
        let files = CertificateFiles { certificate: certificate.to_owned(), key: key.to_owned() };
        let identity = ServerIdentity::new(None, Arc::new(()));
        identity.install(&files.read()?, &files)?;
        let open = TaskTracker::new();
        tokio::select! {
            () = stop => {}
            () = accept(&listener, &router, &identity, &open) => {}
            () = keep_current(&files, &identity) => {}
        }
        drop(listener);
        open.close();
        if timeout(DRAIN, open.wait()).await.is_err() {
            warn!("Some requests were not answered in time");
        }
        Ok(())
    }
}

async fn accept(listener: &TcpListener, router: &Router, identity: &ServerIdentity, open: &TaskTracker) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // A temporary error, such as too many open files.
                warn!(%error, "Failed to accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(config) = identity.config() else { continue };
        let service = TowerToHyperService::new(router.clone());
        open.spawn(async move {
            let handshake = timeout(HANDSHAKE, TlsAcceptor::from(config).accept(stream)).await;
            let Ok(Ok(stream)) = handshake else { return };
            let connection = auto::Builder::new(TokioExecutor::new());
            if let Err(error) = connection.serve_connection(TokioIo::new(stream), service).await {
                debug!(error, "A connection ended early");
            }
        });
    }
}

/// Installs the certificate of the files whenever it changes to a usable one.
async fn keep_current(files: &CertificateFiles, identity: &ServerIdentity) {
    let mut last = files.read().ok().map(|pair| (pair.certificate, pair.key));
    loop {
        tokio::time::sleep(RELOAD).await;
        let Ok(pair) = files.read() else { continue };
        let read = Some((pair.certificate.clone(), pair.key.clone()));
        if read != last {
            match identity.install(&pair, files) {
                Ok(()) => last = read,
                Err(error) => warn!(%error, "Failed to reload the certificate"),
            }
        }
    }
}

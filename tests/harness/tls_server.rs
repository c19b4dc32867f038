//! HTTPS for a router, with a certificate that is issued for it.

use std::sync::Arc;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use topologist::tls::authority::IssuedCertificate;
use topologist::tls::identity::ServerIdentity;
use topologist::tls::pair::CertificateFiles;

/// Shows a certificate, without a file from which it is read.
pub fn identity(issued: &IssuedCertificate) -> Arc<ServerIdentity> {
    let identity = ServerIdentity::new(None, Arc::new(()));
    let files = CertificateFiles { certificate: "tls.crt".into(), key: "tls.key".into() };
    identity.install(&issued.pair(), &files).unwrap();
    Arc::new(identity)
}

/// Answers requests for as long as the runtime lasts.
pub async fn serve(listener: TcpListener, issued: IssuedCertificate, router: Router) {
    let acceptor = TlsAcceptor::from(identity(&issued).config().unwrap());
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(router.clone()));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

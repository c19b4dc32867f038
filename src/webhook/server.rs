//! The listener: connections, handshakes, protocols, and an orderly end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::tls::Identity;
use crate::telemetry::metrics::Metrics;

/// Bounds of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many connections may be open; others wait in the backlog.
    pub connections: usize,
    /// How long a handshake, and each request's headers, may take.
    pub patience: Duration,
    /// How long open requests may go on after the listener has closed.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 2048, patience: Duration::from_secs(10), drain: Duration::from_secs(20) }
    }
}

/// An HTTPS server that is bound and not serving yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    identity: Arc<Identity>,
    limits: Limits,
    metrics: Arc<Metrics>,
}

impl Server {
    /// Binds the address.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind(
        address: SocketAddr,
        identity: Arc<Identity>,
        limits: Limits,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Server { listener, identity, limits, metrics })
    }

    /// The address that was bound, with its port.
    ///
    /// # Errors
    /// When the socket has gone away.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`, then finishes the requests that are under way.
    pub async fn serve(self, router: Router, stop: CancellationToken) {
        let open = GracefulShutdown::new();
        let places = Arc::new(Semaphore::new(self.limits.connections));
        let connections =
            Connections { router, protocol: protocol(self.limits), limits: self.limits, metrics: self.metrics };
        let connections = Arc::new(connections);
        loop {
            let accepted = async {
                let place = places.clone().acquire_owned().await;
                (place, self.listener.accept().await)
            };
            let (place, stream) = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accepted => match accepted {
                    (Ok(place), Ok((stream, _))) => (place, stream),
                    (Err(_), _) => break,
                    (_, Err(error)) => {
                        // Out of file descriptors, or the peer has gone: neither is a reason to stop.
                        warn!(%error, "Could not accept a connection");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
            };
            let acceptor = TlsAcceptor::from(self.identity.config());
            tokio::spawn(connections.clone().connection(stream, acceptor, open.watcher(), place));
        }
        drop(self.listener);
        let count = open.count();
        if tokio::time::timeout(self.limits.drain, open.shutdown()).await.is_err() {
            warn!(connections = count, "Closed connections that did not finish in time");
        } else {
            info!(connections = count, "Drained connections");
        }
    }
}

fn protocol(limits: Limits) -> auto::Builder<TokioExecutor> {
    let mut protocol = auto::Builder::new(TokioExecutor::new());
    protocol.http1().timer(TokioTimer::new()).header_read_timeout(limits.patience).max_buf_size(64 * 1024);
    protocol
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(limits.patience)
        .max_concurrent_streams(250)
        .max_header_list_size(64 * 1024);
    protocol
}

/// What all connections of a server share.
struct Connections {
    router: Router,
    protocol: auto::Builder<TokioExecutor>,
    limits: Limits,
    metrics: Arc<Metrics>,
}

impl Connections {
    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        acceptor: TlsAcceptor,
        open: hyper_util::server::graceful::Watcher,
        _place: OwnedSemaphorePermit,
    ) {
        self.metrics.connections.inc();
        let _ = stream.set_nodelay(true);
        match tokio::time::timeout(self.limits.patience, handshake(stream, acceptor)).await {
            Err(_) => debug!("Handshake took too long"),
            Ok(Err(error)) => debug!(%error, "Handshake failed"),
            Ok(Ok(tls)) => {
                let service = TowerToHyperService::new(self.router.clone());
                let connection = self.protocol.serve_connection(TokioIo::new(tls), service).into_owned();
                if let Err(error) = open.watch(connection).await {
                    debug!(error, "Connection failed");
                }
            }
        }
        self.metrics.connections.dec();
    }
}

/// The first byte of a TLS record that opens a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 0x16;

/// Accepts TLS; whoever speaks plain HTTP is told so.
async fn handshake(mut stream: TcpStream, acceptor: TlsAcceptor) -> io::Result<TlsStream<TcpStream>> {
    let mut first = [0; 1];
    if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
        if first[0].is_ascii_uppercase() {
            let text = "topologist: this port speaks HTTPS, and the request came in plain HTTP\n";
            let head = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close";
            stream.write_all(format!("{head}\r\ncontent-length: {}\r\n\r\n{text}", text.len()).as_bytes()).await?;
            stream.shutdown().await?;
        }
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the connection did not open with a TLS handshake"));
    }
    acceptor.accept(stream).await
}

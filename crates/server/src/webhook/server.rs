//! Listeners: connections, handshakes, protocols and shutdown.
//!
//! The same code serves the webhook over TLS and the probes in plain text, so both have the same limits.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::HttpBody;
use axum::http::{HeaderMap, HeaderValue, Request, header};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use super::connection::{Activity, ObservedStream, RequestGuard};
use super::connection_limiter::{ConnectionLimiter, ConnectionSlot, RequestSlot};
use super::warning_limiter::WarningLimiter;
use crate::telemetry::metrics::{GaugeGuard, Metrics, Reason};
use tls::identity::ServerIdentity;

/// Limits of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// How many connections may be open. A new one closes another early; see `connection_limiter.rs`.
    pub connections: usize,
    /// How many requests may be open on all of them. One more closes the connection with most.
    pub requests: usize,
    /// How long a handshake and the head of each request may take, and the first request after the connection was
    /// made, and how long an answer may wait for its caller to take it.
    pub patience: Duration,
    /// How long a connection may be idle: longer than clients keep theirs (kube-apiserver 90 s), who then end it.
    pub idle: Duration,
    /// How long a connection is used at least, and half of the most: then it is ended in good order, so that callers
    /// who keep connections spread over all replicas.
    pub age: Duration,
    /// How long open requests may go on after the listener has closed.
    pub drain: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        ConnectionLimits {
            connections: 2048,
            requests: 4096,
            patience: Duration::from_secs(10),
            idle: Duration::from_secs(150),
            age: Duration::from_mins(5),
            drain: Duration::from_secs(20),
        }
    }
}

impl ConnectionLimits {
    /// The same for another number of connections: twice as many requests, with a minimum.
    #[must_use]
    pub fn with_connections(self, connections: usize) -> Self {
        ConnectionLimits { connections, requests: connections.saturating_mul(2).max(256), ..self }
    }
}

/// An HTTP server that is bound and not serving yet.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
    /// What it shows in handshakes; without one it speaks plain HTTP.
    identity: Option<Arc<ServerIdentity>>,
    asks_callers: bool,
    reads_headers: bool,
    limits: ConnectionLimits,
    metrics: Arc<Metrics>,
    leaving: CancellationToken,
}

impl HttpServer {
    /// Binds the address.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind(
        address: SocketAddr,
        identity: Option<Arc<ServerIdentity>>,
        limits: ConnectionLimits,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let leaving = CancellationToken::new();
        Ok(HttpServer { listener, identity, asks_callers: true, reads_headers: true, limits, metrics, leaving })
    }

    /// Once `leaving` is cancelled, answers of HTTP/1.1 end their connections and those of HTTP/2 get a GOAWAY, so that
    /// few are left at the end.
    #[must_use]
    pub fn leaving_with(self, leaving: CancellationToken) -> Self {
        HttpServer { leaving, ..self }
    }

    /// Requests no client certificate, even if the identity has an authority for clients.
    #[must_use]
    pub fn asking_no_caller(self) -> Self {
        HttpServer { asks_callers: false, ..self }
    }

    /// Drops the headers of requests on arrival: a byte of HTTP/2 may become a hundred in memory.
    #[must_use]
    pub fn reading_no_headers(self) -> Self {
        HttpServer { reads_headers: false, ..self }
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
        let (open, abort) = (TaskTracker::new(), CancellationToken::new());
        let HttpServer { listener, identity, asks_callers, reads_headers, limits, metrics, leaving } = self;
        let places =
            Arc::new(ConnectionLimiter::new(limits.connections, limits.requests, metrics.closed_early.clone()));
        let shared = ServerContext {
            router,
            identity,
            asks_callers,
            reads_headers,
            limits,
            metrics,
            leaving,
            stop: stop.clone(),
            warned: WarningLimiter::default(),
        };
        let shared = Arc::new(shared);
        loop {
            let accepted = async {
                let (stream, peer) = listener.accept().await?;
                let activity = Activity::new();
                let place = places.take(peer.ip().to_canonical(), &activity).await;
                Ok::<_, io::Error>((stream, activity, place))
            };
            let (stream, activity, place) = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accepted => match accepted {
                    Ok((stream, activity, Some(place))) => (stream, activity, place),
                    Ok(_) => continue,
                    Err(error) => {
                        // Out of file descriptors, or the peer has gone: neither is a reason to stop.
                        let is_full = NO_DESCRIPTORS.contains(&error.raw_os_error().unwrap_or_default());
                        if is_full && places.make_room().await {
                            continue;
                        }
                        warn!(%error, "Failed to accept a connection");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
            };
            let (shared, abort) = (shared.clone(), abort.clone());
            open.spawn(async move {
                tokio::select! {
                    () = shared.connection(stream, &activity, &place) => {}
                    () = abort.cancelled() => {}
                }
            });
        }
        drop(listener);
        open.close();
        let count = open.len();
        if tokio::time::timeout(limits.drain, open.wait()).await.is_ok() {
            info!(connections = count, "Drained connections");
        } else {
            warn!(connections = open.len(), "Closing connections that did not drain in time");
            abort.cancel();
            open.wait().await;
        }
    }
}

/// Too many open files, of the process and of the system.
const NO_DESCRIPTORS: [i32; 2] = [24, 23];

/// Lifetime of a connection of HTTP/2 while its server shuts down.
const RECONNECT: Duration = Duration::from_millis(200);

/// Time for the GOAWAY of a connection that makes room for another.
const FAREWELL: Duration = Duration::from_millis(50);

/// State shared by all connections of a server.
struct ServerContext {
    router: Router,
    identity: Option<Arc<ServerIdentity>>,
    asks_callers: bool,
    reads_headers: bool,
    limits: ConnectionLimits,
    metrics: Arc<Metrics>,
    leaving: CancellationToken,
    stop: CancellationToken,
    warned: WarningLimiter,
}

impl ServerContext {
    async fn connection(&self, stream: TcpStream, activity: &Activity, place: &ConnectionSlot) {
        let _counted = GaugeGuard::new(&self.metrics.connections);
        let _ = stream.set_nodelay(true);
        let Some(identity) = &self.identity else { return self.serve_requests(stream, false, activity, place).await };
        let config = if self.asks_callers { identity.config() } else { identity.config_without_client_auth() };
        let Some(config) = config else {
            debug!("No serving certificate yet");
            return self.count("no_certificate");
        };
        let handshake = tokio::time::timeout(self.limits.patience, handshake(stream, TlsAcceptor::from(config)));
        let outcome = tokio::select! {
            outcome = handshake => outcome,
            () = place.close().cancelled() => return,
        };
        match outcome {
            Err(_) => {
                debug!("TLS handshake timed out");
                self.count("too_slow");
            }
            Ok(Err(error)) => {
                debug!(%error, "TLS handshake failed");
                let reason = fault(&error);
                if CALLER_FAULTS.contains(&reason) && self.warned.is_due(place.peer(), Instant::now()) {
                    let peer = place.peer();
                    warn!(%peer, reason, %error, "Rejected a connection without a valid client certificate");
                }
                self.count(reason);
            }
            Ok(Ok(stream)) => {
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                self.serve_requests(stream, is_http2, activity, place).await;
            }
        }
    }

    fn count(&self, reason: &'static str) {
        self.metrics.handshake_failures.get_or_create(&Reason { reason }).inc();
    }

    /// Serves requests until the peer disconnects or is idle for too long, its slot is needed, or the server stops.
    async fn serve_requests(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        is_http2: bool,
        activity: &Activity,
        place: &ConnectionSlot,
    ) {
        let router = TowerToHyperService::new(self.router.clone());
        let service = service_fn(|request: Request<Incoming>| {
            let (answering, counted) = (Arc::new(activity.answering()), place.request());
            let mut request = request.map(|body| ObservedBody {
                body,
                answering: answering.clone(),
                polled: received,
                _counted: None,
            });
            if !self.reads_headers {
                drop_headers(request.headers_mut());
            }
            request.extensions_mut().insert(PeerAddress(place.peer()));
            let (activity, answer) = (activity.clone(), router.call(request));
            async move {
                let mut answer = answer.await?;
                if activity.is_leaving() && !is_http2 {
                    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                answering.answers();
                // An answer lasts until its body has gone out, which for a watch may be hours.
                let counted = Some(counted);
                Ok::<_, Infallible>(answer.map(|body| ObservedBody {
                    body,
                    answering,
                    polled: answered,
                    _counted: counted,
                }))
            }
        });
        let protocol = protocol(is_http2);
        let io = TokioIo::new(ObservedStream::new(stream, activity, is_http2));
        let mut connection = pin!(protocol.serve_connection(io, service));
        let mut overdue = pin!(activity.overdue(self.limits.idle, self.limits.patience));
        let mut age = pin!(tokio::time::sleep(scattered(self.limits.age)));
        let (mut is_old, mut stopping) = (false, false);
        let makes_room = loop {
            tokio::select! {
                outcome = connection.as_mut() => return note(outcome),
                () = overdue.as_mut() => break false,
                () = place.close().cancelled() => break true,
                () = self.stop.cancelled(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = old(age.as_mut(), &self.leaving, is_http2), if !is_old => {
                    is_old = true;
                    if is_http2 {
                        connection.as_mut().graceful_shutdown();
                    } else {
                        activity.leave();
                    }
                }
            }
        };
        debug!(makes_room, "Closed a connection that sent no request");
        if is_http2 && activity.has_asked() {
            // With a GOAWAY the client knows which requests it can send again.
            connection.as_mut().graceful_shutdown();
            let time = async {
                if makes_room { tokio::time::sleep(FAREWELL).await } else { activity.quiet(self.limits.patience).await }
            };
            tokio::select! {
                outcome = connection => note(outcome),
                () = time => {}
            }
        }
    }
}

/// Logs how a connection ended.
fn note(outcome: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = outcome {
        debug!(error, "Connection failed");
    }
}

/// The address of the peer of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerAddress(pub(super) IpAddr);

/// Drops all headers except those that the response depends on.
fn drop_headers(headers: &mut HeaderMap) {
    let expects = headers.contains_key(header::EXPECT);
    *headers = HeaderMap::new();
    if expects {
        headers.insert(header::EXPECT, HeaderValue::from_static("100-continue"));
    }
}

/// The body of a request or a response; each poll notes its activity.
struct ObservedBody<B> {
    body: B,
    answering: Arc<RequestGuard>,
    polled: fn(&RequestGuard, is_pending: bool),
    /// Keeps the request counted as open for as long as the body of its answer lives.
    _counted: Option<RequestSlot>,
}

/// Notes that the request waits for the peer while its body is being read.
fn received(answering: &RequestGuard, is_pending: bool) {
    if is_pending { answering.waits_for_peer() } else { answering.waits_for_us() }
}

/// Notes that the connection waits for the peer until more of the response is polled.
fn answered(answering: &RequestGuard, is_pending: bool) {
    if is_pending { answering.waits_for_us() } else { answering.answers() }
}

impl<B: HttpBody + Unpin> HttpBody for ObservedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        (self.polled)(&self.answering, polled.is_pending());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Resolves when a connection should close: it has reached its age, or the server shuts down.
async fn old(age: impl Future<Output = ()>, leaving: &CancellationToken, is_http2: bool) {
    tokio::select! {
        () = age => {}
        () = leaving.cancelled(), if !is_http2 => {}
        // A client of HTTP/2 connects again at once, maybe to this process. That has to happen while this process still
        // accepts connections, and not too often.
        () = async { leaving.cancelled().await; tokio::time::sleep(RECONNECT).await }, if is_http2 => {}
    }
}

/// A random time between `age` and twice as much, so that connections opened together do not end together.
fn scattered(age: Duration) -> Duration {
    let chance = RandomState::new().hash_one(());
    let part = u32::try_from(chance % 1000).unwrap_or_default();
    age + age * part / 1000
}

/// The windows of HTTP/2 of a stream and of a connection: bytes that a peer may send before they are read, and so
/// before they are charged.
const WINDOWS: [u32; 2] = [32 * 1024, 64 * 1024];

/// Maximum size of the head of a request, and of the other buffers of a connection.
const BUFFER: usize = 64 * 1024;

fn protocol(is_http2: bool) -> auto::Builder<TokioExecutor> {
    let mut protocol = auto::Builder::new(TokioExecutor::new());
    // Its timeout of heads would run while a connection is idle as well.
    protocol.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(BUFFER);
    protocol
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOWS[0])
        .initial_connection_window_size(WINDOWS[1])
        .max_send_buf_size(WINDOWS[0] as usize)
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(Duration::from_secs(10))
        // All reviews of kube-apiserver may come on one connection.
        .max_concurrent_streams(100)
        // Its heads have less than 2 KiB.
        .max_header_list_size(8 * 1024);
    if is_http2 { protocol.http2_only() } else { protocol.http1_only() }
}

/// Failures of a handshake that concern the certificate of the client.
const CALLER_FAULTS: [&str; 2] = ["client_certificate_missing", "client_certificate_refused"];

/// The reason of a failed handshake, as a metric label.
fn fault(error: &io::Error) -> &'static str {
    match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::NoCertificatesPresented) => "client_certificate_missing",
        Some(rustls::Error::InvalidCertificate(_)) => "client_certificate_refused",
        _ => "broken",
    }
}

/// The first byte of a TLS record that opens a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 0x16;

/// Accepts TLS; a client that speaks plain HTTP gets an error.
async fn handshake(mut stream: TcpStream, acceptor: TlsAcceptor) -> io::Result<TlsStream<TcpStream>> {
    let mut first = [0; 1];
    if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
        if first[0].is_ascii_uppercase() {
            let text = "topologist: this port serves HTTPS, but the request is plain HTTP\n";
            let head = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close";
            let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{text}", text.len());
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await?;
        }
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the connection did not start with a TLS handshake"));
    }
    acceptor.accept(stream).await
}

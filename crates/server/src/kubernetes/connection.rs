//! The client of the API server, which closes connections to a silent server.
//!
//! kube's own client speaks HTTP/1.1, in which a silent server looks like one without news. With HTTP/2, which
//! kube-apiserver offers, all requests share a connection, and a ping that is not answered ends all of them, as in
//! client-go. Behind a proxy that speaks HTTP/1.1 only, the limits of watches and of single requests remain.

use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::{DefaultServerNameResolver, FixedServerNameResolver, HttpsConnector, ResolveServerName};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt};
use rustls::pki_types::ServerName;
use tower::util::option_layer;
use tower::{BoxError, ServiceExt};

use super::retry_after;

/// The window of a connection in bytes. Streams have separate windows, so streams that are not read at the moment, such
/// as busy watches, must not use up the window of the connection.
const CONNECTION_WINDOW: u32 = 1 << 30;

/// Timeout of connecting, with the TLS handshake. TCP resends packets that were lost while the network was down after
/// pauses that double, so a new attempt is faster.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The pings that detect a silent API server.
#[derive(Clone, Copy, Debug)]
pub struct Pings {
    /// The silence after which a ping is sent.
    pub interval: Duration,
    /// How long its answer may take.
    pub timeout: Duration,
}

impl Default for Pings {
    /// More often than client-go, which pings after 30 s and waits for 15 s: until a dead connection is detected,
    /// reviews are answered from outdated caches.
    fn default() -> Self {
        Pings { interval: Duration::from_secs(10), timeout: Duration::from_secs(10) }
    }
}

/// A client for the API server of a configuration.
///
/// # Errors
/// When certificates, credentials or the server name cannot be used.
pub fn client(config: kube::Config, pings: Pings) -> Result<kube::Client, kube::Error> {
    if config.proxy_url.is_some() {
        // It is not supported, and kube says so.
        return kube::Client::try_from(config);
    }
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(pings.interval)
        .http2_keep_alive_timeout(pings.timeout)
        .http2_keep_alive_while_idle(true);
    let client: legacy::Client<_, Body> = builder.build(connector(&config)?);
    let client = ClientBuilder::new(
        client.map_err(BoxError::from).and_then(retry_after::in_body),
        config.default_namespace.clone(),
    )
    .with_layer(&config.extra_headers_layer()?)
    .with_layer(&option_layer(config.auth_layer()?))
    .with_layer(&config.base_uri_layer());
    Ok(client.build())
}

fn connector(config: &kube::Config) -> Result<TimeoutConnector<HttpsConnector<HttpConnector>>, kube::Error> {
    let mut tls = config.rustls_client_config()?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let resolver: Arc<dyn ResolveServerName + Send + Sync> = match config.tls_server_name.clone() {
        Some(name) => {
            let name = ServerName::try_from(name).map_err(|error| kube::Error::Service(Box::new(error)))?;
            Arc::new(FixedServerNameResolver::new(name))
        }
        None => Arc::new(DefaultServerNameResolver::default()),
    };
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    let mut connector = TimeoutConnector::new(HttpsConnector::new(http, tls, false, resolver));
    connector.set_connect_timeout(config.connect_timeout.map(|longest| longest.min(CONNECT_LIMIT)));
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    Ok(connector)
}

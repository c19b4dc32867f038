//! Connections to an extension: to the address in its URL, or through a tunnel.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::{BoxError, Service};

/// A bidirectional stream of bytes.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Connection for Box<dyn Stream> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// Opens streams to one extension. TLS runs inside them, with the host of the URL as the server name.
pub trait Tunnel: Send + Sync + 'static {
    /// A new stream.
    ///
    /// # Errors
    /// When the extension cannot be reached.
    fn open(&self) -> BoxFuture<'static, io::Result<Box<dyn Stream>>>;
}

#[derive(Clone)]
pub(super) enum Connector {
    Direct(HttpConnector),
    Through(Arc<dyn Tunnel>),
}

impl Connector {
    /// A connector to the addresses of URLs. TLS is added to its connections.
    pub(super) fn direct() -> Self {
        let mut direct = HttpConnector::new();
        direct.enforce_http(false);
        Connector::Direct(direct)
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Stream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        match self {
            Connector::Direct(direct) => Poll::Ready(Ok(ready!(direct.poll_ready(cx))?)),
            Connector::Through(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        match self {
            Connector::Direct(direct) => {
                let connecting = direct.call(uri);
                async move {
                    let stream: Box<dyn Stream> = Box::new(connecting.await?.into_inner());
                    Ok(TokioIo::new(stream))
                }
                .boxed()
            }
            Connector::Through(tunnel) => {
                let opening = tunnel.open();
                async move { Ok(TokioIo::new(opening.await?)) }.boxed()
            }
        }
    }
}

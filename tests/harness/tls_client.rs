//! An HTTPS client that shows what a server does: one connection, HTTP/1.1 or HTTP/2, any certificate authority.
#![allow(dead_code, reason = "each test binary uses a part of the shared support")]

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Which protocol the client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

/// One open connection.
pub enum Connection {
    Http1(hyper::client::conn::http1::SendRequest<Full<Bytes>>),
    Http2(hyper::client::conn::http2::SendRequest<Full<Bytes>>),
}

/// A TLS connection to a loopback address, trusting this authority alone.
pub async fn tls(address: &str, authority: &[u8], protocol: Protocol) -> std::io::Result<TlsStream<TcpStream>> {
    tls_as(None, address, authority, protocol).await
}

/// A TLS connection that shows a certificate and its key, in PEM form, when it is asked for one.
pub async fn tls_as(
    client: Option<(&str, &str)>,
    address: &str,
    authority: &[u8],
    protocol: Protocol,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    tls_over(stream, client, authority, protocol).await
}

/// A connection from this address, which other than `127.0.0.1` is another peer to the server.
pub async fn tcp_from(source: std::net::SocketAddr, address: &str) -> std::io::Result<TcpStream> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind(source)?;
    let stream = socket.connect(address.parse().unwrap()).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// TLS on a connection.
pub async fn tls_over(
    stream: TcpStream,
    client: Option<(&str, &str)>,
    authority: &[u8],
    protocol: Protocol,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let mut config = match client {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).map(Result::unwrap).collect();
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
        }
    };
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
}

impl Connection {
    /// Connects and checks that the server took the offered protocol.
    pub async fn open(address: &str, authority: &[u8], protocol: Protocol) -> std::io::Result<Connection> {
        Self::over(tls(address, authority, protocol).await?, protocol).await
    }

    /// Speaks HTTP over a TLS connection, after a check that the server took the offered protocol.
    pub async fn over(stream: TlsStream<TcpStream>, protocol: Protocol) -> std::io::Result<Connection> {
        let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        let io = TokioIo::new(stream);
        Ok(match protocol {
            Protocol::Http1 => {
                assert_eq!(agreed.as_deref(), Some(&b"http/1.1"[..]));
                let (sender, connection) =
                    hyper::client::conn::http1::handshake(io).await.map_err(std::io::Error::other)?;
                tokio::spawn(connection);
                Connection::Http1(sender)
            }
            Protocol::Http2 => {
                assert_eq!(agreed.as_deref(), Some(&b"h2"[..]));
                let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), io);
                let (sender, connection) = handshake.await.map_err(std::io::Error::other)?;
                tokio::spawn(connection);
                Connection::Http2(sender)
            }
        })
    }

    /// Posts a body and reads the whole answer.
    pub async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> Result<(StatusCode, String), hyper::Error> {
        let request =
            |uri: String| Request::post(uri).header("host", "localhost").header("content-type", "application/json");
        let body = Full::new(body.into());
        let response = match self {
            Connection::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request(path.to_owned()).body(body).unwrap()).await?
            }
            Connection::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request(format!("https://localhost{path}")).body(body).unwrap()).await?
            }
        };
        let code = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((code, String::from_utf8_lossy(&body).into_owned()))
    }
}

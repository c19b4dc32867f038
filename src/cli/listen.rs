//! Addresses of servers: the given address, or the first free port from a default on.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};

use server::telemetry::metrics::Metrics;
use server::webhook::server::{ConnectionLimits, HttpServer};
use tls::identity::ServerIdentity;

/// Number of ports after the default that are tried.
const NEXT_PORTS: u16 = 100;

/// An address to listen on, and the flag that sets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListenAddress {
    address: SocketAddr,
    flag: &'static str,
    /// Whether the next free port is taken when this one is in use.
    moves: bool,
}

impl ListenAddress {
    /// The given address, or the default port; with `moves` the first free port from the default on.
    pub(super) fn new(given: Option<SocketAddr>, flag: &'static str, default: (IpAddr, u16), moves: bool) -> Self {
        ListenAddress { address: given.unwrap_or(default.into()), flag, moves: moves && given.is_none() }
    }

    pub(super) fn ip(&self) -> IpAddr {
        self.address.ip()
    }

    /// Binds the address.
    ///
    /// # Errors
    /// When neither the address nor one of the alternative ports can be bound.
    pub(super) async fn bind(
        self,
        identity: Option<Arc<ServerIdentity>>,
        limits: ConnectionLimits,
        metrics: Arc<Metrics>,
    ) -> Result<HttpServer> {
        let first = self.address.port();
        let last = if self.moves { first.saturating_add(NEXT_PORTS) } else { first };
        let mut outcome = self.bind_port(first, identity.as_ref(), limits, &metrics).await;
        for port in first..last {
            if !matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::AddrInUse) {
                break;
            }
            outcome = self.bind_port(port + 1, identity.as_ref(), limits, &metrics).await;
        }
        outcome.with_context(|| format!("cannot listen on {} ({})", self.address, self.flag))
    }

    async fn bind_port(
        &self,
        port: u16,
        identity: Option<&Arc<ServerIdentity>>,
        limits: ConnectionLimits,
        metrics: &Arc<Metrics>,
    ) -> io::Result<HttpServer> {
        HttpServer::bind(SocketAddr::new(self.ip(), port), identity.cloned(), limits, metrics.clone()).await
    }

    /// The message when another port than the default was bound.
    pub(super) fn moved(&self, bound: SocketAddr) -> Option<String> {
        let wanted = self.address.port();
        (self.moves && bound.port() != wanted)
            .then(|| format!("Port {wanted} is in use. Listening on port {} instead ({})", bound.port(), self.flag))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    async fn bind(address: ListenAddress) -> Result<SocketAddr> {
        let server = address.bind(None, ConnectionLimits::default(), Arc::default()).await?;
        Ok(server.local_address()?)
    }

    #[tokio::test]
    async fn only_a_default_port_that_is_in_use_is_replaced_by_the_next_free_one() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let used = taken.local_addr().unwrap();
        let default = (used.ip(), used.port());
        let moving = ListenAddress::new(None, "--api-addr", default, true);
        let bound = bind(moving).await.unwrap();
        assert!(bound.port() > used.port(), "{bound}");
        let note = moving.moved(bound).unwrap();
        let want = format!("Port {} is in use. Listening on port {} instead (--api-addr)", used.port(), bound.port());
        assert_eq!(note, want);
        assert_eq!(moving.moved(used), None);
        let staying = [
            ListenAddress::new(Some(used), "--api-addr", default, true),
            ListenAddress::new(None, "--api-addr", default, false),
        ];
        for address in staying {
            let error = bind(address).await.unwrap_err().to_string();
            assert_eq!(error, format!("cannot listen on {used} (--api-addr)"));
        }
    }
}

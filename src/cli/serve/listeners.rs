//! The sockets of a server: bound first, and served when everything is ready.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::FutureExt;
use futures::future::{BoxFuture, OptionFuture, join_all};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::endpoints::EndPoints;
use crate::cli::args::ServeArgs;
use crate::cli::embedded::EmbeddedApi;
use crate::cli::leading::MachineSetup;
use crate::cli::listen::ListenAddress;
use crate::cli::memory::Connections;
use crate::cli::workloads::WorkloadServer;
use server::telemetry::metrics::Metrics;
use server::webhook::server::{ConnectionLimits, HttpServer};
use tls::identity::ServerIdentity;

/// How long open conversions may go on after everything else has stopped.
const CONVERSION_DRAIN: Duration = Duration::from_secs(5);

/// The bound sockets of a process, those of probes apart.
pub(super) struct Listeners {
    reviews: HttpServer,
    conversions: HttpServer,
    /// The API of --embedded.
    pub api: Option<EmbeddedApi>,
    workloads: Option<WorkloadServer>,
    pub addresses: Addresses,
    /// Which default ports were in use, in words.
    pub moved: Vec<String>,
    departure: CancellationToken,
}

/// The bound addresses.
#[derive(Clone, Copy)]
pub(super) struct Addresses {
    pub reviews: SocketAddr,
    conversions: SocketAddr,
    probes: SocketAddr,
}

impl Listeners {
    /// Binds the addresses that the options give, or the default ports. The second is the server of the probes, which
    /// are served on a separate runtime, and before anything else.
    pub(super) async fn bind(
        options: &ServeArgs,
        api: Option<EmbeddedApi>,
        connections: &Connections,
        identity: &Arc<ServerIdentity>,
        metrics: &Arc<Metrics>,
        probe_runtime: &Handle,
    ) -> Result<(Listeners, HttpServer)> {
        let local = if options.embedded { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        let address = |given, flag, port| ListenAddress::new(given, flag, (local.into(), port), options.embedded);
        let wanted = [
            address(options.webhook_addr, "--webhook-addr", 9443),
            address(options.conversion_addr, "--conversion-addr", 9444),
            address(options.admin_addr, "--admin-addr", 8081),
        ];
        let (limits, shown) = (limits(options), Some(identity.clone()));
        let many = limits.with_connections(connections.reviews);
        let reviews = wanted[0].bind(shown.clone(), many, metrics.clone()).await?;
        let few = ConnectionLimits { drain: CONVERSION_DRAIN, ..limits.with_connections(connections.conversions) };
        let conversions = wanted[1].bind(shown, few, metrics.clone()).await?;
        let few = limits.with_connections(connections.probes);
        let probes = probe_runtime.spawn(wanted[2].bind(None, few, metrics.clone()));
        let probes = probes.await.context("the probes ended early")??.reading_no_headers();
        let bound = [reviews.local_address()?, conversions.local_address()?, probes.local_address()?];
        let workloads = match options.drives_machines() {
            true => Some(WorkloadServer::bind(options).await?),
            false => None,
        };
        let moved_apis = [
            api.as_ref().and_then(|api| api.moved.clone()),
            workloads.as_ref().and_then(|workloads| workloads.moved.clone()),
        ];
        let moved = wanted.iter().zip(bound).filter_map(|(wanted, bound)| wanted.moved(bound));
        let departure = CancellationToken::new();
        let listeners = Listeners {
            reviews: reviews.leaving_with(departure.clone()).reading_no_headers(),
            conversions: conversions.leaving_with(departure.clone()).asking_no_caller().reading_no_headers(),
            addresses: Addresses { reviews: bound[0], conversions: bound[1], probes: bound[2] },
            moved: moved_apis.into_iter().flatten().chain(moved).collect(),
            api,
            workloads,
            departure,
        };
        Ok((listeners, probes))
    }

    /// What the controllers of machines need, where they run.
    pub(super) fn machines(&self, options: &ServeArgs) -> Result<Option<MachineSetup>> {
        self.workloads.as_ref().map(|workloads| workloads.machines(options)).transpose()
    }

    /// Accepts connections from now on.
    pub(super) fn serve(self, end_points: EndPoints) -> Result<Served> {
        let Listeners { reviews, conversions, api, workloads, addresses, moved, departure } = self;
        api.as_ref().map_or(Ok(()), EmbeddedApi::write_kubeconfig)?;
        let (stop, last_stop) = (CancellationToken::new(), CancellationToken::new());
        Ok(Served {
            api_address: api.as_ref().map(|api| api.address),
            workload_address: workloads.as_ref().map(|workloads| workloads.address),
            apis: serve_apis(api, workloads, &stop),
            reviews: tokio::spawn(reviews.serve(end_points.reviews, stop.clone())),
            conversions: tokio::spawn(conversions.serve(end_points.conversions, last_stop.clone())),
            addresses,
            moved,
            departure,
            stop,
            last_stop,
        })
    }
}

/// The servers that accept connections, those of probes apart.
pub(super) struct Served {
    pub reviews: JoinHandle<()>,
    pub conversions: JoinHandle<()>,
    /// The API of --embedded, and those of workload clusters.
    pub apis: OptionFuture<JoinHandle<()>>,
    /// Tells callers to close their connections.
    pub departure: CancellationToken,
    /// Stops everything but conversions.
    pub stop: CancellationToken,
    /// Stops conversions.
    pub last_stop: CancellationToken,
    addresses: Addresses,
    api_address: Option<SocketAddr>,
    workload_address: Option<SocketAddr>,
    moved: Vec<String>,
}

impl Served {
    /// Logs the addresses.
    pub(super) fn log(&self) {
        for note in &self.moved {
            info!("{note}");
        }
        let Addresses { reviews, conversions, probes } = self.addresses;
        let [api, workloads] = [self.api_address, self.workload_address].map(|one| one.map(|one| one.to_string()));
        info!(webhook = %reviews, %conversions, admin = %probes, api, workloads, "Serving");
    }
}

/// Serves the API of --embedded and those of workload clusters, where there are any.
fn serve_apis(
    api: Option<EmbeddedApi>,
    workloads: Option<WorkloadServer>,
    stop: &CancellationToken,
) -> OptionFuture<JoinHandle<()>> {
    let served = [
        api.map(|api| api.serve(stop.clone()).boxed()),
        workloads.map(|workloads| workloads.serve(stop.clone()).boxed()),
    ];
    let served: Vec<BoxFuture<'static, ()>> = served.into_iter().flatten().collect();
    let all = (!served.is_empty()).then(|| tokio::spawn(join_all(served).map(drop)));
    OptionFuture::from(all)
}

/// The limits of connections that the options give.
fn limits(options: &ServeArgs) -> ConnectionLimits {
    ConnectionLimits {
        patience: options.client_patience,
        idle: options.client_idle,
        age: options.connection_age,
        ..ConnectionLimits::default()
    }
}

//! The listener of the API servers of workload clusters, and the clusters as the machine controllers use them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use tokio_util::sync::CancellationToken;

use super::args::ServeArgs;
use super::embedded::{identity, while_sweeping};
use super::leading::MachineSetup;
use super::listen;
use ::server::reconciler::lifecycle::workloads::{WorkloadCluster, WorkloadClusters, WorkloadOpenError};
use ::server::telemetry::metrics::Metrics;
use ::server::webhook::server::{self, HttpServer};
use apiserver::ApiOptions;
use apiserver::workloads::WorkloadApis;
use machines::lifecycle::settings::ServerAddress;
use model::hub::ObjectKey;

/// The default port.
const PORT: u16 = 6444;

/// The API servers of workload clusters: bound, and not serving yet.
pub(super) struct WorkloadServer {
    server: HttpServer,
    handle: Handle,
    /// Where they listen.
    pub address: SocketAddr,
    /// What to say when the default port was in use.
    pub moved: Option<String>,
}

/// The workload clusters of this process.
#[derive(Clone, Debug)]
struct Handle {
    workloads: WorkloadApis,
    /// What kubeconfigs name.
    address: SocketAddr,
    /// The CA certificate of the listener, in PEM form.
    authority: Arc<str>,
}

impl WorkloadServer {
    /// Binds the address.
    ///
    /// # Errors
    /// When the address is taken, or there is no certificate for it.
    pub(super) async fn bind(options: &ServeArgs) -> Result<Self> {
        let default: IpAddr = if options.embedded { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED }.into();
        let wanted =
            listen::ListenAddress::new(options.workload_addr, "--workload-addr", (default, PORT), options.embedded);
        // What is counted are the callers of the webhook; these are others.
        let metrics = Arc::<Metrics>::default();
        let named = options.workload_advertise_address;
        let addresses: Vec<IpAddr> = named.into_iter().chain([wanted.ip()]).collect();
        let (identity, authority) = identity(&addresses, &metrics)?;
        let limits =
            server::ConnectionLimits { patience: options.client_patience, ..server::ConnectionLimits::default() };
        let server = wanted.bind(Some(identity), limits, metrics).await?;
        let bound = server.local_address()?;
        let address = SocketAddr::new(named.unwrap_or(bound.ip()), bound.port());
        let workloads = WorkloadApis::new(ApiOptions::default())?;
        let handle = Handle { workloads, address, authority: authority.into() };
        Ok(WorkloadServer { server, handle, address: bound, moved: wanted.moved(bound) })
    }

    /// The dependencies of the machine controllers.
    ///
    /// # Errors
    /// When a flag or a file of the settings is invalid.
    pub(super) fn machines(&self, options: &ServeArgs) -> Result<MachineSetup> {
        let address = self.handle.address;
        let ip = if address.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { address.ip() };
        let endpoint = ServerAddress { host: ip.to_string(), port: address.port() };
        Ok(MachineSetup { settings: options.lifecycle_settings(endpoint)?, workloads: Arc::new(self.handle.clone()) })
    }

    /// Serves until `stop`.
    pub(super) async fn serve(self, stop: CancellationToken) {
        let workloads = self.handle.workloads;
        let router = workloads.router(stop.clone());
        while_sweeping(|| workloads.sweep(), self.server.serve(router, stop)).await;
    }
}

impl WorkloadClusters for Handle {
    fn open(&self, cluster: &ObjectKey) -> Result<WorkloadCluster, WorkloadOpenError> {
        self.workloads.open(cluster).map_err(|error| WorkloadOpenError::NotCreated(error.into()))?;
        self.get(cluster).ok_or_else(|| WorkloadOpenError::Gone(cluster.clone()))
    }

    fn get(&self, cluster: &ObjectKey) -> Option<WorkloadCluster> {
        let api = self.workloads.get(cluster)?;
        let kubeconfig = self.workloads.kubeconfig(cluster, self.address, &self.authority)?;
        Some(WorkloadCluster { client: api.embedded.client(), kubeconfig })
    }

    fn forget(&self, cluster: &ObjectKey) {
        self.workloads.forget(cluster);
    }

    fn forget_all(&self) {
        self.workloads.forget_all();
    }
}

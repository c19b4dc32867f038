//! The API server whose objects are guarded and reconciled.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::config::KubeConfigOptions;
use tokio::runtime::Handle;
use tracing::info;

use crate::cli::args::ServeArgs;
use crate::cli::embedded::EmbeddedApi;
use crate::cli::leading::ElectionSetup;
use crate::cli::live;
use crate::cli::status_line::StatusLine;
use server::kubernetes::connection;
use server::kubernetes::history::ApiHistory;

/// A dead connection to the API server is noticed while the Lease can still be renewed.
const LEASE_PINGS: connection::Pings =
    connection::Pings { interval: Duration::from_secs(4), timeout: Duration::from_secs(3) };
/// The API server from which facts are read.
pub(super) struct FactSource {
    pub client: kube::Client,
    pub leases: ElectionSetup,
    /// Its address, for people.
    pub server: String,
    /// The server itself, if it is in this process.
    pub api: Option<EmbeddedApi>,
}

impl FactSource {
    /// The Lease is renewed on the runtime of the probes.
    pub(super) async fn from_options(
        options: &ServeArgs,
        progress: &StatusLine,
        runtime: &Handle,
    ) -> Result<FactSource> {
        if options.embedded {
            let api = EmbeddedApi::bind(options, progress).await?;
            let (client, server) = (api.embedded.client(), format!("https://{}", api.address));
            let leases = ElectionSetup { client: client.clone(), runtime: runtime.clone(), history: Arc::default() };
            return Ok(FactSource { client, leases, server, api: Some(api) });
        }
        let mut config = match &options.kubeconfig {
            Some(path) => from_kubeconfig(path).await?,
            None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
                kube::Config::incluster().context("cannot use the service account of this pod")?
            }
            None => bail!("no source of objects: use --embedded (with --load PATH), or --kubeconfig FILE"),
        };
        let server = config.cluster_url.to_string();
        // Longer than a watch lasts: a dead connection is detected, and opened again.
        config.read_timeout = Some(Duration::from_secs(320));
        // Callers retry on their own; a write that the client repeats on its own could come too late to be ours.
        config.default_retry = false;
        let leases = {
            // What a client starts runs where it is made.
            let _runtime = runtime.enter();
            connection::client(config.clone(), LEASE_PINGS)
        };
        let client = connection::client(config, connection::Pings::default());
        let failed = "cannot create a client for the API server";
        let (client, leases) = (client.context(failed)?, leases.context(failed)?);
        let history = Arc::<ApiHistory>::default();
        let client = history.client(client);
        Ok(FactSource {
            client,
            leases: ElectionSetup { client: leases, runtime: runtime.clone(), history },
            server,
            api: None,
        })
    }
}

async fn from_kubeconfig(path: &Path) -> Result<kube::Config> {
    let kubeconfig = live::read_kubeconfig(path)?;
    let context = kubeconfig.current_context.clone().unwrap_or_default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("cannot use {}", path.display()))?;
    info!(context, server = %config.cluster_url, "Using a kubeconfig");
    Ok(config)
}

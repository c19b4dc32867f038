//! The controllers in the process of the test, as a process of topologist runs them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use topologist::extension_client::Clients;
use topologist::kubernetes::cache::Cache;
use topologist::kubernetes::contract::Definitions;
use topologist::kubernetes::extensions::ExtensionCaller;
use topologist::kubernetes::lease::{Candidacy, Election};
use topologist::kubernetes::watch;
use topologist::reconciler::setup::Setup;
use topologist::telemetry::metrics::Metrics;
use topologist::world::{Facts, Scope};

/// The duration of the Lease.
pub const LEASE: Duration = Duration::from_secs(6);

/// Running controllers; dropping them is a kill.
pub struct Controllers {
    pub metrics: Arc<Metrics>,
    /// The registered ExtensionConfigs.
    pub extensions: Arc<ExtensionCaller>,
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

/// The controllers of one term.
pub type Work = BoxFuture<'static, ()>;

impl Controllers {
    /// Takes part in the leader election, and runs `work` as the leader.
    pub fn start(
        client: kube::Client,
        scope: Scope,
        candidacy: Candidacy,
        work: impl Fn(Setup, Arc<ExtensionCaller>, Definitions) -> Work + Clone + Send + Sync + 'static,
    ) -> Controllers {
        let metrics = Arc::<Metrics>::default();
        let cache = Arc::new(Cache::new(Facts::not_listed(&watch::WATCHED).within(scope)));
        let (election, leadership) = Election::new(client.clone(), candidacy, metrics.clone());
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn(watch::keep_current(client.clone(), cache.clone(), metrics.clone()));
        tasks.spawn(election.run(stop.clone()));
        let extensions = Arc::new(ExtensionCaller::new(client.clone(), Clients::new(None), metrics.clone()));
        let setup = Setup { client, leadership: leadership.clone(), cache, extensions: None, metrics: metrics.clone() };
        let registered = extensions.clone();
        let lead = move || {
            let (setup, registered, work) = (setup.clone(), registered.clone(), work.clone());
            let (client, metrics) = (setup.client.clone(), setup.metrics.clone());
            Definitions::beside(client, metrics, move |definitions| work(setup, registered, definitions))
        };
        tasks.spawn(async move { leadership.while_leading(lead).await });
        Controllers { metrics, extensions, tasks, stop }
    }

    /// Ends them in good order: the Lease is given back.
    pub async fn stop(mut self) {
        self.stop.cancel();
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.tasks.shutdown().await;
    }
}

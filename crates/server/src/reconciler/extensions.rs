//! The ExtensionConfig controller: it discovers the handlers of extensions, and registers them (RH-3.1 to RH-3.7).
//!
//! ```text
//! ExtensionConfigs ─► queue ─► run.rs: CA from a Secret ─► Discovery ─► status ─► Registry ─► kubernetes::extensions
//! ```

mod config;
mod disputes;
mod run;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::time::{Instant, timeout};
use tracing::{Instrument, info_span};

use self::config::RawConfig;
use self::run::{DiscoveryFailure, ExtensionReconciler};
use super::runs::{self, Conclusion, NextRun, RetryDecision, RunFailure, SHORT_REQUEUE, conclude, count, run_woken};
use super::setup::Setup;
use crate::kubernetes::events::Recorder;
use crate::kubernetes::extensions::ExtensionCaller;
use crate::kubernetes::observations::{Mirror, StoreChange, WatchedKind};
use crate::kubernetes::overload::ApiOverload;
use crate::kubernetes::{WatchSelection, address, observations};
use crate::reconciler::backoff::Backoff;
use crate::telemetry::metrics::Metrics;
use engine::extensions::config::{CONFIG_GROUP, CONFIG_KIND, CONFIG_VERSION};

/// The name of the controller in metrics.
const NAME: &str = "extensionconfig";
/// Number of concurrent discoveries.
const WORKERS: u16 = 10;
/// Timeout of a run: Discovery has ten seconds.
const RUN_LIMIT: Duration = Duration::from_mins(1);
/// Delay before the list is retried on a server that does not serve the kind.
const UNSERVED: Duration = Duration::from_mins(1);
/// The reporting controller of Events.
const REPORTER: &str = "extensionconfig-controller";

/// The ExtensionConfig controller.
#[derive(Debug)]
pub struct ExtensionController {
    pub setup: Setup,
    pub extensions: Arc<ExtensionCaller>,
}

impl ExtensionController {
    /// Watches and discovers until dropped. Starts without the registrations of other leaders.
    pub async fn run(self: Arc<Self>) {
        self.extensions.reset();
        let (wake, woken) = mpsc::unbounded();
        let configs = Mirror::for_resource(());
        let reconciler = Arc::new(ExtensionReconciler {
            writer: self.setup.writer(),
            leadership: self.setup.leadership.clone(),
            extensions: self.extensions.clone(),
            events: Recorder::new(self.setup.writer(), REPORTER),
            backoff: Backoff::default(),
            known: std::sync::Mutex::default(),
            disputes: disputes::StatusDisputes::default(),
        });
        let runs = self.runs(&reconciler, configs.store().clone(), woken);
        tokio::select! {
            () = runs => {}
            () = self.follow(configs, &wake, &reconciler) => {}
        }
    }

    async fn runs(
        &self,
        reconciler: &Arc<ExtensionReconciler>,
        configs: Store<RawConfig>,
        woken: mpsc::UnboundedReceiver<ObjectRef<RawConfig>>,
    ) {
        let run = |config: Arc<RawConfig>| {
            let (reconciler, metrics) = (reconciler.clone(), self.setup.metrics.clone());
            let span = info_span!("reconcile", extensionconfig = config.object.name());
            async move { run(&config, &reconciler, &metrics).await }.instrument(span)
        };
        run_woken((NAME, &self.setup.metrics), configs, woken, WORKERS, run).await;
    }

    /// Keeps the ExtensionConfigs current. If the kind is not served, there are none.
    async fn follow(
        &self,
        mut configs: Mirror<RawConfig>,
        wake: &mpsc::UnboundedSender<ObjectRef<RawConfig>>,
        reconciler: &ExtensionReconciler,
    ) {
        let store = configs.store().clone();
        loop {
            let api = address::anywhere::<RawConfig>(self.setup.client.clone());
            let watched = WatchedKind {
                ends_if_unserved: true,
                ..WatchedKind::own(CONFIG_KIND, &format!("{CONFIG_GROUP}/{CONFIG_VERSION}"))
            };
            let mut seen = observations::follow(api, WatchSelection::default(), watched, self.setup.metrics.clone());
            while let Some(seen) = seen.next().await {
                configs.take(seen, |change| self.changed(&change, &store, wake, reconciler));
            }
            self.extensions.change(|_| {});
            tokio::time::sleep(UNSERVED).await;
        }
    }

    fn changed(
        &self,
        change: &StoreChange<'_, RawConfig>,
        store: &Store<RawConfig>,
        wake: &mpsc::UnboundedSender<ObjectRef<RawConfig>>,
        reconciler: &ExtensionReconciler,
    ) {
        let wake = |config: &RawConfig| {
            // The receiver is gone when this process no longer leads.
            let _ = wake.unbounded_send(ObjectRef::new(config.object.name()));
        };
        match change {
            StoreChange::All => {
                let all = store.state();
                self.extensions.change(|registry| {
                    for config in &all {
                        registry.expect(config.object.name(), config.hooks(), config.selector());
                    }
                });
                all.iter().for_each(|config| wake(config));
            }
            StoreChange::One(config) if store.get(&ObjectRef::from_obj(*config)).is_some() => {
                match config.object.is_being_deleted() {
                    true => self.unregister(config, reconciler),
                    false => wake(config),
                }
            }
            StoreChange::One(gone) => self.unregister(gone, reconciler),
        }
    }

    /// Removes the registration of a deleted ExtensionConfig (RH-2.8).
    fn unregister(&self, config: &RawConfig, reconciler: &ExtensionReconciler) {
        self.extensions.change(|registry| registry.unregister(config.object.name()));
        reconciler.forget(config);
    }
}

/// Runs once; returns when the next run is due if nothing queues the ExtensionConfig before.
async fn run(config: &RawConfig, reconciler: &ExtensionReconciler, metrics: &Metrics) -> NextRun {
    let (key, started) = (config.key(), Instant::now());
    let outcome = timeout(RUN_LIMIT, reconciler.run(config)).await.unwrap_or(Err(DiscoveryFailure::Late));
    let done = outcome.map(|(again, outcome)| (NextRun::requeue(again), outcome.name()));
    let Conclusion { action, outcome, report } =
        conclude(&key, done, &reconciler.backoff, "Failed to discover an extension");
    count(metrics, NAME, outcome, started);
    runs::report(&reconciler.events, &config.reference(), config.object.uid(), report).await;
    action
}

impl RunFailure for DiscoveryFailure {
    fn verdict(&self) -> RetryDecision {
        match self {
            DiscoveryFailure::NotLeading(_) => RetryDecision::NotLeading,
            DiscoveryFailure::Conflict => RetryDecision::Again(SHORT_REQUEUE, "conflict"),
            DiscoveryFailure::Write { error, .. } => {
                RetryDecision::for_failure(ApiOverload::from_error(error).as_ref())
            }
            _ => RetryDecision::Failed,
        }
    }
}

/// The hooks of handlers that a status lists.
fn hooks_of(status: Option<&serde_json::Value>) -> BTreeSet<String> {
    let handlers = status.and_then(|status| status.get("handlers")?.as_array());
    let hook = |handler: &serde_json::Value| handler.pointer("/requestHook/hook")?.as_str().map(str::to_owned);
    handlers.into_iter().flatten().filter_map(hook).collect()
}

//! The watches of each replica for its reviews.

use std::sync::Arc;

use tokio::task::JoinSet;
use tracing::info;

use super::args::ServeArgs;
use super::memory::Shares;
use super::tasks::supervise;
use engine::topology::hooks::DeletionGuard;
use server::kubernetes::cache::Cache;
use server::kubernetes::contract::Definitions;
use server::kubernetes::deletion_hooks::DeletionHooks;
use server::kubernetes::extension_configs::ExtensionConfigs;
use server::kubernetes::impact_facts::{FactLimits, ImpactWatches};
use server::telemetry::metrics::Metrics;
use server::webhook::holds::Holds;

/// The watches of each replica for its reviews, besides those of classes and Clusters.
pub(super) struct ReplicaWatches {
    /// Of ExtensionConfigs, where deletions are held or impacts computed.
    configs: Option<Arc<ExtensionConfigs>>,
    /// `None` where impacts are switched off.
    pub impacts: Option<Arc<ImpactWatches>>,
}

impl ReplicaWatches {
    /// Starts the watches that reviews need.
    pub(super) fn start(
        options: &ServeArgs,
        shares: Shares,
        client: &kube::Client,
        cache: &Arc<Cache>,
        metrics: &Arc<Metrics>,
        tasks: &mut JoinSet<&'static str>,
    ) -> ReplicaWatches {
        let has_impacts = !options.impact_time.is_zero();
        if !has_impacts && options.deletion_guard() != DeletionGuard::Hold {
            return ReplicaWatches { configs: None, impacts: None };
        }
        let configs = Arc::<ExtensionConfigs>::default();
        let follow = configs.clone().follow(client.clone(), metrics.clone());
        supervise(tasks, "the watch of ExtensionConfigs", follow);
        let impacts = has_impacts.then(|| {
            let (definitions, follow) = Definitions::follow(client.clone(), metrics.clone());
            supervise(tasks, "the watch of CustomResourceDefinitions", follow);
            let bounds = bounds(options, shares);
            let watched = Arc::new(ImpactWatches::new(client, cache, definitions, configs.clone(), bounds, metrics));
            supervise(tasks, "the watches of schemas and templates", watched.clone().follow());
            watched
        });
        ReplicaWatches { configs: Some(configs), impacts }
    }

    /// The holds on the deletion of Clusters; `None` if they are not needed (DEC-56).
    pub(super) fn holds(&self, options: &ServeArgs, client: &kube::Client) -> Option<Holds> {
        if options.deletion_guard() != DeletionGuard::Hold {
            return None;
        }
        let hooks = Arc::new(DeletionHooks::new(client.clone(), self.configs.clone()?));
        Some(Holds::new(client.clone(), hooks))
    }
}

/// The memory for the facts of impacts.
fn bounds(options: &ServeArgs, shares: Shares) -> FactLimits {
    if !options.watches_templates() {
        info!("Not watching templates (--watch-templates, component templates): replaced machines are not counted");
    }
    FactLimits { schemas: shares.schemas, templates: options.watches_templates().then_some(shares.templates) }
}

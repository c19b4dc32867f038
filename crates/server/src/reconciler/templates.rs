//! The two controllers that delete unused templates of machines of topologies: which events queue their objects, and
//! when a run is retried.
//!
//! ```text
//! MachineDeployments (metadata) ─┐
//! MachineSets (metadata) ────────┼─► queue, one for each kind ─► run.rs ─► ok, or a retry
//! Clusters that go on ───────────┘
//! ```
//!
//! A finalizer keeps an object until its templates are deleted. While topologist does not run, such objects stay.
//! Machine pools have none: their objects are garbage collected by owner references (DEL-12).

mod run;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc;
use kube::runtime::reflector::ObjectRef;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, info_span};

use self::run::{TemplateReconciler, TemplateRunError};
use super::backoff::Backoff;
use super::runs::{
    self, Conclusion, NextRun, RetryDecision, RunFailure, SHORT_REQUEUE, conclude, count, resync, run_woken,
};
use super::setup::Setup;
use crate::kubernetes::address::Resource;
use crate::kubernetes::cache::Cache;
use crate::kubernetes::contract::{DefinitionError, Definitions};
use crate::kubernetes::events::Recorder;
use crate::kubernetes::metadata::{MetadataStore, ObjectMetadata};
use crate::kubernetes::observations::{StoreChange, key_of};
use crate::telemetry::metrics::Metrics;
use engine::topology::templates_in_use::MachineOwner;
use model::hub::{GROUP, ObjectKey};
use model::world::{Facts, Found};

/// Number of concurrent runs for each kind (RS-10).
const WORKERS: u16 = 25;
/// The reporting controller of events.
const REPORTER: &str = "topologist-templates";
/// Timeout of a run (RS-10).
const RUN_LIMIT: Duration = Duration::from_mins(1);

/// The name of the controller of a kind in metrics.
const fn controller_of(maker: MachineOwner) -> &'static str {
    match maker {
        MachineOwner::Deployment => "topology/machinedeployment",
        MachineOwner::Set => "topology/machineset",
    }
}

fn served(maker: MachineOwner) -> Resource {
    Resource::known(GROUP, "v1beta2", maker.kind())
}

/// The controllers of MachineDeployments and MachineSets that belong to topologies (DEL-05, DEL-07).
#[derive(Debug)]
pub struct TemplatesController(pub Setup);

impl TemplatesController {
    /// Watches and reconciles until dropped.
    pub async fn run(self: Arc<Self>, definitions: Definitions) {
        let Setup { client, leadership, cache, .. } = &self.0;
        // A Cluster is not reported as missing until Clusters are listed.
        cache.listed().await;
        let reconciler = |maker: MachineOwner| {
            Arc::new(TemplateReconciler {
                maker,
                resource: served(maker).as_api().clone(),
                client: client.clone(),
                writer: self.0.writer(),
                leadership: leadership.clone(),
                cache: cache.clone(),
                definitions: definitions.clone(),
                events: Recorder::new(self.0.writer(), REPORTER),
                backoff: Backoff::default(),
            })
        };
        tokio::select! {
            () = Box::pin(self.reconcile(reconciler(MachineOwner::Deployment))) => {}
            () = Box::pin(self.reconcile(reconciler(MachineOwner::Set))) => {}
        }
    }

    /// Watches the objects of one kind, and reconciles queued ones, one run at a time for each object.
    async fn reconcile(&self, reconciler: Arc<TemplateReconciler>) {
        let maker = reconciler.maker;
        let (wake, woken) = mpsc::unbounded();
        let (objects, follow) = self.follow(maker, wake.clone());
        let store = objects.store().clone();
        let run = |object: Arc<ObjectMetadata>| {
            let (reconciler, metrics) = (reconciler.clone(), self.0.metrics.clone());
            let span = info_span!("reconcile", kind = maker.kind(), object = %key_of(&*object));
            async move { run(&object, &reconciler, &metrics).await }.instrument(span)
        };
        let woken = woken.flat_map(|wake: Wake| futures::stream::iter(wake.objects(&objects, &reconciler)));
        tokio::select! {
            () = run_woken((controller_of(maker), &self.0.metrics), store, woken, WORKERS, run) => {}
            () = follow => {}
            () = follow_clusters(&self.0.cache, &wake) => {}
        }
    }

    /// The objects of one kind that belong to topologies, and the future that keeps them current.
    fn follow(
        &self,
        maker: MachineOwner,
        wake: mpsc::UnboundedSender<Wake>,
    ) -> (MetadataStore, impl Future<Output = ()> + Send + use<>) {
        let resource = served(maker).as_api().clone();
        self.0.follow_owned(maker.kind(), move |change| {
            let changed = match change {
                StoreChange::One(object) => Wake::One(ObjectRef::from_obj_with(object, resource.clone())),
                StoreChange::All => Wake::All,
            };
            // The receiver is gone when this process no longer leads.
            let _ = wake.unbounded_send(changed);
        })
    }
}

/// The objects to reconcile.
#[derive(Clone, Debug)]
enum Wake {
    One(ObjectRef<ObjectMetadata>),
    /// Everything that belongs to this Cluster.
    Cluster(ObjectKey),
    /// What belongs to this Cluster and is being deleted.
    LeavingCluster(ObjectKey),
    All,
}

impl Wake {
    /// The existing objects; drops the state of a deleted one.
    fn objects(self, all: &MetadataStore, reconciler: &TemplateReconciler) -> Vec<ObjectRef<ObjectMetadata>> {
        let resource = &reconciler.resource;
        let reference = |object: Arc<ObjectMetadata>| ObjectRef::from_obj_with(&*object, resource.clone());
        match self {
            Wake::One(one) if all.store().get(&one).is_some() => vec![one],
            Wake::One(gone) => {
                reconciler.backoff.forget(&ObjectKey::new(gone.namespace.unwrap_or_default(), gone.name));
                Vec::new()
            }
            Wake::Cluster(cluster) => all.in_cluster(&cluster).into_iter().map(reference).collect(),
            Wake::LeavingCluster(cluster) => {
                all.in_cluster(&cluster).into_iter().filter(is_leaving).map(reference).collect()
            }
            Wake::All => all.store().state().into_iter().map(reference).collect(),
        }
    }
}

fn is_leaving(object: &Arc<ObjectMetadata>) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

/// Queues the objects that waited for a Cluster which was created, is no longer paused, or was paused until its
/// deletion (DEL-05). Never ends.
async fn follow_clusters(cache: &Cache, wake: &mpsc::UnboundedSender<Wake>) {
    let mut follower = cache.follow();
    let facts = cache.facts();
    let mut known: BTreeMap<ObjectKey, ClusterProgress> = facts
        .cluster_keys()
        .filter_map(|key| Some((key.clone(), ClusterProgress::for_cluster(&facts, key)?)))
        .collect();
    loop {
        let changed = follower.next().await;
        let facts = cache.facts();
        for key in changed.clusters {
            let now = ClusterProgress::for_cluster(&facts, &key);
            let before = match now {
                Some(now) => known.insert(key.clone(), now),
                None => known.remove(&key),
            };
            let woken = match (before, now) {
                (before, Some(ClusterProgress::Active)) if before != now => Wake::Cluster(key),
                // Nothing else wakes an object that waits when its Cluster is gone.
                (Some(ClusterProgress::Waiting), None) => Wake::LeavingCluster(key),
                _ => continue,
            };
            // The receiver is gone when this process no longer leads.
            let _ = wake.unbounded_send(woken);
        }
    }
}

/// Whether the objects of a Cluster wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClusterProgress {
    Active,
    /// It is paused, or cannot be read.
    Waiting,
}

impl ClusterProgress {
    /// `None` when the Cluster does not exist.
    fn for_cluster(facts: &Facts, key: &ObjectKey) -> Option<Self> {
        match facts.cluster(key) {
            Found::Yes(cluster) if cluster.spec.paused != Some(true) => Some(ClusterProgress::Active),
            Found::Yes(_) | Found::Unreadable(_) => Some(ClusterProgress::Waiting),
            Found::Absent | Found::NotAsked => None,
        }
    }
}

/// Runs once; returns when the next run is due if nothing queues the object before.
async fn run(object: &ObjectMetadata, reconciler: &TemplateReconciler, metrics: &Metrics) -> NextRun {
    let (key, started, controller) = (key_of(object), Instant::now(), controller_of(reconciler.maker));
    let outcome = timeout(RUN_LIMIT, reconciler.run(object)).await.unwrap_or(Err(TemplateRunError::Late));
    // A failure because another process leads is not a failure of the object.
    let outcome =
        outcome.or_else(|error| reconciler.leadership.may_write().map_err(TemplateRunError::from).and(Err(error)));
    let done = outcome.map(|outcome| (NextRun::requeue(resync(&key)), outcome.name()));
    let Conclusion { action, outcome, report } =
        conclude(&key, done, &reconciler.backoff, "Failed to clean up templates");
    count(metrics, controller, outcome, started);
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    runs::report(&reconciler.events, &reconciler.reference(&key), uid, report).await;
    action
}

impl RunFailure for TemplateRunError {
    fn verdict(&self) -> RetryDecision {
        match self {
            TemplateRunError::NotLeading(_) => RetryDecision::NotLeading,
            // An event with the newer version is on its way.
            TemplateRunError::Conflict => RetryDecision::Again(SHORT_REQUEUE, "conflict"),
            TemplateRunError::Definition(DefinitionError::NotListed) => RetryDecision::Postponed,
            TemplateRunError::Request { error, .. } => RetryDecision::for_failure(error.overload().as_ref()),
            _ => RetryDecision::Failed,
        }
    }
}

#[cfg(test)]
mod tests;

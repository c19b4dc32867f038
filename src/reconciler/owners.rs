//! Makes the Cluster the owner of the objects of its topology, so that garbage collection deletes them with it.
//!
//! Where Cluster API drives machines its controllers see to this. Where topologist does, it has to: the Cluster becomes an owner
//! of its infrastructure cluster and control plane (MA-27.3, MA-27.4), of its machine deployments (MA-20.2) and pools. It controls
//! the first two, so a deletion in the foreground waits for them (CT-15.1).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc;
use kube::api::Patch;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::setup::Setup;
use crate::hub::{Cluster, ContractRef, Kind, Object, ObjectKey, ObjectRef, contract};
use crate::kubernetes::contract::{DefinitionError, Definitions};
use crate::kubernetes::follow::StoreChange;
use crate::kubernetes::metadata::{Metadata, Objects, cluster_of};
use crate::kubernetes::untyped::{self, RequestError};
use crate::topology::worker::API_VERSION;
use crate::world::Found;

/// How soon to try again after a failure.
const AGAIN: Duration = Duration::from_secs(1);
/// How long definitions are waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// The kinds of workers.
const WORKERS: [&str; 2] = ["MachineDeployment", "MachinePool"];

/// Makes the Clusters in the cached facts owners.
#[derive(Debug)]
pub struct OwnersController(pub Setup);

/// Why a Cluster does not own everything yet.
#[derive(Debug, thiserror::Error)]
enum OwnError {
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error("CustomResourceDefinition {0} has no contract label")]
    NoContract(String),
    #[error("{0}")]
    Request(#[from] RequestError),
}

/// What a run looks at.
struct Reconciler<'a> {
    setup: &'a Setup,
    writer: kube::Client,
    definitions: Definitions,
    workers: Vec<Objects>,
    /// The uid of a Cluster and the name of an object that it owns already.
    done: Mutex<HashSet<(String, String)>>,
}

impl OwnersController {
    /// Watches and writes until dropped.
    pub async fn run(self: Arc<Self>, definitions: Definitions) {
        let (wake, mut woken) = mpsc::unbounded();
        let (deployments, follow_deployments) = self.follow(WORKERS[0], wake.clone());
        let (pools, follow_pools) = self.follow(WORKERS[1], wake.clone());
        let reconciler = Reconciler {
            setup: &self.0,
            writer: self.0.writer(),
            definitions,
            workers: vec![deployments, pools],
            done: Mutex::default(),
        };
        let runs = async {
            let (mut failed, mut retry_at) = (BTreeSet::new(), Instant::now());
            loop {
                // Clusters that failed are retried together, also when events for them arrive meanwhile.
                let clusters = tokio::select! {
                    Some(cluster) = woken.next() => {
                        // One run is enough for all that has happened to a Cluster meanwhile.
                        let mut clusters = BTreeSet::from([cluster]);
                        while let Ok(more) = woken.try_recv() {
                            clusters.insert(more);
                        }
                        clusters
                    }
                    () = sleep_until(retry_at), if !failed.is_empty() => std::mem::take(&mut failed),
                    else => return,
                };
                for cluster in clusters {
                    if let Err(error) = Box::pin(reconciler.own(&cluster)).await {
                        debug!(%cluster, %error, "Not all owner references are set yet");
                        if failed.is_empty() {
                            retry_at = Instant::now() + AGAIN;
                        }
                        failed.insert(cluster);
                    }
                }
            }
        };
        tokio::select! {
            () = runs => {}
            () = follow_deployments => {}
            () = follow_pools => {}
            () = self.follow_clusters(&wake) => {}
        }
    }

    /// The workers of one kind that belong to topologies, and what keeps them current.
    fn follow(
        &self,
        kind: &'static str,
        wake: mpsc::UnboundedSender<ObjectKey>,
    ) -> (Objects, impl Future<Output = ()> + Send + use<>) {
        let cache = self.0.cache.clone();
        let changed = move |change: StoreChange<'_, Metadata>| {
            let clusters = match change {
                StoreChange::One(object) => cluster_of(object).into_iter().collect(),
                StoreChange::All => cache.facts().cluster_keys().cloned().collect::<Vec<_>>(),
            };
            for cluster in clusters {
                // The receiver is gone when this process no longer leads.
                let _ = wake.unbounded_send(cluster);
            }
        };
        self.0.follow_owned(kind, changed)
    }

    /// Wakes every Cluster that has come or refers to something new, for ever.
    async fn follow_clusters(&self, wake: &mpsc::UnboundedSender<ObjectKey>) {
        let mut follower = self.0.cache.follow();
        let mut known: HashMap<ObjectKey, Vec<String>> = HashMap::new();
        let mut changed: BTreeSet<ObjectKey> = self.0.cache.facts().cluster_keys().cloned().collect();
        loop {
            let facts = self.0.cache.facts();
            for key in changed {
                let Found::Yes(cluster) = facts.cluster(&key) else {
                    known.remove(&key);
                    continue;
                };
                let names: Vec<String> = references(&cluster).map(|one| one.name.clone()).collect();
                if known.get(&key) != Some(&names) {
                    known.insert(key.clone(), names);
                    // The receiver is gone when this process no longer leads.
                    let _ = wake.unbounded_send(key);
                }
            }
            changed = follower.next().await.clusters;
        }
    }
}

impl Reconciler<'_> {
    /// Makes a Cluster an owner of everything that it does not own yet.
    async fn own(&self, key: &ObjectKey) -> Result<(), OwnError> {
        let Found::Yes(cluster) = self.setup.cache.facts().cluster(key) else { return Ok(()) };
        if cluster.metadata.is_being_deleted() || cluster.topology().is_none() {
            return Ok(());
        }
        // One that fails holds up no other; the first failure has the whole looked at again.
        let mut outcome = Ok(());
        for reference in references(&cluster) {
            outcome = outcome.and(self.own_referenced(&cluster, reference).await);
        }
        let workers = self.workers.iter().zip(WORKERS);
        let workers = workers.flat_map(|(all, kind)| all.of_cluster(key).into_iter().map(move |worker| (worker, kind)));
        for (worker, kind) in workers {
            let metadata = &worker.metadata;
            let owners = metadata.owner_references.iter().flatten();
            let owners: Vec<Value> = owners.filter_map(|owner| serde_json::to_value(owner).ok()).collect();
            let name = metadata.name.clone().unwrap_or_default();
            let object = ObjectRef::new(API_VERSION, kind, ObjectKey::new(&key.namespace, name));
            let version = metadata.resource_version.clone().unwrap_or_default();
            if metadata.deletion_timestamp.is_none()
                && let Some(owners) = with_owner(owners, owner(&cluster, false))
            {
                outcome = outcome.and(self.write(&cluster, &object, owners, &version).await);
            }
        }
        outcome
    }

    /// What a reference of a Cluster leads to, in the version that its definition names as the newest (CS-08).
    async fn own_referenced(&self, cluster: &Cluster, reference: &ContractRef) -> Result<(), OwnError> {
        let ContractRef { api_group, kind, name } = reference;
        let (done, namespace) = ((cluster.metadata.uid.clone(), name.clone()), &cluster.metadata.namespace);
        if self.done.lock().unwrap_or_else(PoisonError::into_inner).contains(&done) {
            return Ok(());
        }
        let definition = contract::definition_name(api_group, kind);
        let labels = self.definitions.labels(&definition, Instant::now() + PATIENCE).await?;
        let version = contract::newest_version(&labels).ok_or(OwnError::NoContract(definition))?;
        let object = ObjectRef::new(format!("{api_group}/{version}"), kind, ObjectKey::new(namespace, name));
        let Some(found) = untyped::get(&self.setup.client, &object).await? else { return Ok(()) };
        let owners = found.at("metadata.ownerReferences").and_then(Value::as_array).cloned().unwrap_or_default();
        if let Some(owners) = with_owner(owners, owner(cluster, true)) {
            self.write(cluster, &object, owners, version_of(&found)).await?;
        }
        self.done.lock().unwrap_or_else(PoisonError::into_inner).insert(done);
        Ok(())
    }

    /// Writes owners among which the Cluster is new, unless the Cluster is being deleted.
    ///
    /// The watch of Clusters may lag behind. After `kubectl delete --cascade=orphan` the garbage collector takes the Cluster off
    /// the owners of each object; written once more, the reference would have the objects deleted when the Cluster is gone.
    async fn write(
        &self,
        cluster: &Cluster,
        object: &ObjectRef,
        owners: Vec<Value>,
        version: &str,
    ) -> Result<(), OwnError> {
        let of_cluster = &cluster.metadata;
        let live = ObjectRef::new(API_VERSION, Kind::Cluster.name(), of_cluster.key());
        let live = untyped::get(&self.setup.client, &live).await?;
        if live.is_none_or(|live| live.uid() != of_cluster.uid || live.is_being_deleted()) {
            return Ok(());
        }
        let patch = json!({"metadata": {"resourceVersion": version, "ownerReferences": owners}});
        match untyped::update(&self.writer, object, &Patch::Merge(patch)).await {
            Ok(_) => {
                info!(cluster = %of_cluster.key(), %object, "Added a Cluster as owner");
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                if !error.is_conflict() {
                    warn!(cluster = %of_cluster.key(), %object, %error, "Failed to add a Cluster as owner");
                }
                Err(error.into())
            }
        }
    }
}

/// What a Cluster refers to.
fn references(cluster: &Cluster) -> impl Iterator<Item = &ContractRef> {
    [&cluster.spec.infrastructure_ref, &cluster.spec.control_plane_ref].into_iter().filter(|one| one.is_defined())
}

/// How a Cluster is named as an owner (CT-15.1).
fn owner(cluster: &Cluster, controls: bool) -> Value {
    let of_cluster = &cluster.metadata;
    let kind = Kind::Cluster.name();
    let mut owner = json!({"apiVersion": API_VERSION, "kind": kind, "name": of_cluster.name, "uid": of_cluster.uid});
    if controls {
        (owner["controller"], owner["blockOwnerDeletion"]) = (json!(true), json!(true));
    }
    owner
}

/// The owners with another one, or `None` when they are to stay as they are. An object has one controller at most, so where
/// there is one already the new owner does not become another.
fn with_owner(mut owners: Vec<Value>, mut new: Value) -> Option<Vec<Value>> {
    let known = owners.iter().position(|owner| owner["uid"] == new["uid"]);
    let is_controlled = owners.iter().any(|owner| owner["controller"] == true);
    if known.is_some() && (is_controlled || new["controller"].is_null()) {
        return None;
    }
    if is_controlled && let Some(new) = new.as_object_mut() {
        new.remove("controller");
    }
    match known {
        Some(known) => owners[known] = new,
        None => owners.push(new),
    }
    Some(owners)
}

fn version_of(object: &Object) -> &str {
    object.text("metadata.resourceVersion").ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests;

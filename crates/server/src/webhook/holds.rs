//! Holds on the deletion of Clusters (DEC-56).
//!
//! ```text
//! DELETE of a Cluster ─► allowed ─► may a hook block? ─► the hold is written ─► answer
//!                                                             └─► kube-apiserver sees the write and reviews the DELETE again: nothing to do
//! UPDATE of one that is being deleted ─► the hold is missing ─► it is part of the patch
//! ```
//!
//! This is the only write of a review. It needs no leader: all replicas write the same, and a second write changes
//! nothing.

use std::fmt;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use json_patch::PatchOperation;
use json_patch::jsonptr::PointerBuf;
use kube::api::{DynamicObject, ObjectMeta, Patch, PatchParams};
use lru::LruCache;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use crate::kubernetes::address::Resource;
use crate::kubernetes::deletion_hooks::DeletionHooks;
use crate::kubernetes::{describe, moment};
use golang::json;
use model::hub::deletion_hold::lacks_hold;
use model::hub::{Cluster, DeletionHold, GROUP, Kind, Metadata, ObjectKey, annotation};
use model::wire::review::AdmissionRequest;
use model::wire::{Decode, WireVersion};

/// Maximum number of attempts to write a hold. Controllers write the status of a Cluster at any time, so there are
/// conflicts.
const ATTEMPTS: usize = 8;
/// Time between the end of the write and the deadline of the review.
const MARGIN: Duration = Duration::from_millis(200);

/// Why a deletion is denied.
#[derive(Debug, thiserror::Error)]
pub(super) enum HoldError {
    #[error("cannot hold the deletion until the hooks BeforeClusterDelete have passed: {0}")]
    Failed(String),
    #[error("cannot hold the deletion until the hooks BeforeClusterDelete have passed: timed out")]
    Late,
    #[error(
        "cannot hold the deletion until the hooks BeforeClusterDelete have passed: the Cluster changes all the time"
    )]
    Conflicts,
}

/// Capacity of the cache of logged unreadable Clusters; each is logged once.
const LOGGED: NonZero<usize> = NonZero::new(1024).expect("it is not zero");

/// Writes holds.
pub struct Holds {
    client: kube::Client,
    hooks: Arc<DeletionHooks>,
    /// The uid and the generation of Clusters that do not decode, and have been logged.
    logged: Mutex<LruCache<(String, i64), ()>>,
}

impl fmt::Debug for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holds").field("hooks", &self.hooks).finish_non_exhaustive()
    }
}

impl Holds {
    /// Holds the Clusters whose deletion `hooks` may block.
    pub fn new(client: kube::Client, hooks: Arc<DeletionHooks>) -> Self {
        Holds { client, hooks, logged: Mutex::new(LruCache::new(LOGGED)) }
    }

    /// Logs why the objects of a Cluster do not wait for its hooks, once for each of its generations (DEC-103).
    pub(super) fn log_unreadable(&self, cluster: &ObjectMeta, reason: &str) {
        let generation = cluster.generation.unwrap_or_default();
        let key = (cluster.uid.clone().unwrap_or_default(), generation);
        let known = self.logged.lock().unwrap_or_else(PoisonError::into_inner).put(key, ());
        if known.is_none() {
            warn!(
                namespace = cluster.namespace.as_deref(),
                name = cluster.name.as_deref(),
                uid = cluster.uid.as_deref(),
                generation,
                reason,
                "Allowed the deletion of objects of a Cluster that does not decode"
            );
        }
    }

    pub(super) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    pub(super) fn hooks(&self) -> &DeletionHooks {
        &self.hooks
    }

    /// Holds a Cluster whose deletion is reviewed, if a hook may block it.
    ///
    /// # Errors
    /// When the hold cannot be written.
    pub(super) async fn hold(&self, reviewed: &Cluster, deadline: Instant) -> Result<(), HoldError> {
        let deadline = deadline.checked_sub(MARGIN).unwrap_or(deadline);
        let is_wanted = reviewed.topology().is_some() && lacks_hold(&reviewed.metadata);
        if !is_wanted || !self.hooks.may_block(&reviewed.metadata.namespace, deadline).await {
            return Ok(());
        }
        timeout_at(deadline, self.write(&reviewed.metadata)).await.map_err(|_| HoldError::Late)?
    }

    /// Writes the hold into the stored Cluster, unless that is gone or has another uid: kube-apiserver reviews another
    /// Cluster of the same name separately.
    async fn write(&self, reviewed: &Metadata) -> Result<(), HoldError> {
        let key = reviewed.key();
        let failed = |error: &kube::Error| HoldError::Failed(describe(error));
        let resource = Resource::known(GROUP, "v1beta2", Kind::Cluster.name());
        let cluster =
            resource.one::<DynamicObject>(self.client.clone(), &key).map_err(|error| failed(&error.into()))?;
        let mut seen = reviewed.clone();
        for _ in 0..ATTEMPTS {
            let hold = DeletionHold::new(&seen.uid, moment());
            let patch = json!({"metadata": {
                "resourceVersion": seen.resource_version, "annotations": {annotation::PAUSED: hold.to_string()},
            }});
            match cluster.patch(&in_our_name(), &Patch::Merge(patch)).await {
                Ok(_) => {
                    info!(namespace = key.namespace, name = key.name, "Held the deletion of a Cluster");
                    return Ok(());
                }
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => {
                    warn!(
                        namespace = key.namespace,
                        name = key.name,
                        error = describe(&error),
                        "Failed to hold a deletion"
                    );
                    return Err(failed(&error));
                }
            }
            let stored = cluster.get_opt().await.map_err(|error| failed(&error))?;
            seen = match stored.map(|stored| metadata_of(&stored)).transpose()? {
                Some(stored) if stored.uid == reviewed.uid && lacks_hold(&stored) => stored,
                _ => return Ok(()),
            };
        }
        Err(HoldError::Conflicts)
    }

    /// The operations that restore the hold of a Cluster that is being deleted, after an update removed it.
    pub(super) async fn restored(&self, review: &AdmissionRequest<'_>, deadline: Instant) -> Vec<PatchOperation> {
        let Some((cluster, has_annotations)) = leaving(review) else { return Vec::new() };
        let is_wanted = cluster.topology().is_some() && lacks_hold(&cluster.metadata);
        if !is_wanted || !self.hooks.may_block(&cluster.metadata.namespace, deadline).await {
            return Vec::new();
        }
        let ObjectKey { namespace, name } = cluster.metadata.key();
        info!(namespace, name, "Restored the hold on the deletion of a Cluster");
        let hold = DeletionHold::new(&cluster.metadata.uid, moment()).to_string();
        let all = (!has_annotations).then(|| add(&["metadata", "annotations"], json!({})));
        all.into_iter().chain([add(&["metadata", "annotations", annotation::PAUSED], json!(hold))]).collect()
    }
}

/// The new side of an update of a Cluster that is being deleted, with the uid of the stored one, and whether it has
/// annotations. A client that replaces an object sends neither uid nor deletion timestamp.
fn leaving(review: &AdmissionRequest<'_>) -> Option<(Cluster, bool)> {
    let (old, new) = (review.old_object?, review.object?);
    if !old.get().contains("deletionTimestamp") {
        return None;
    }
    let version = WireVersion::from_name(&review.kind.version)?;
    let decoded = |text: &RawValue| Cluster::decode(version, text.get()).ok();
    let (old, mut cluster) = (decoded(old)?, decoded(new)?);
    if !old.metadata.is_being_deleted() {
        return None;
    }
    (cluster.metadata.uid, cluster.metadata.name) = (old.metadata.uid, old.metadata.name);
    cluster.metadata.namespace = old.metadata.namespace;
    let annotations = json::value(new.get()).ok()?.pointer("/metadata/annotations").is_some_and(Value::is_object);
    Some((cluster, annotations))
}

fn add(path: &[&str], value: Value) -> PatchOperation {
    PatchOperation::Add(json_patch::AddOperation { path: PointerBuf::from_tokens(path.iter().copied()), value })
}

fn in_our_name() -> PatchParams {
    PatchParams { field_manager: Some("topologist".to_owned()), ..PatchParams::default() }
}

fn metadata_of(stored: &DynamicObject) -> Result<Metadata, HoldError> {
    let text = serde_json::to_string(&stored.metadata).map_err(|error| HoldError::Failed(error.to_string()))?;
    json::decode(&text).map_err(HoldError::Failed)
}

#[cfg(test)]
mod tests;

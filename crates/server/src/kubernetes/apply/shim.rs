//! The ConfigMap that owns infrastructure cluster and control plane until the Cluster does (RS-14, DEC-47).
//!
//! A ConfigMap of that name belongs to the topology if it has the labels of a topology and the Cluster, by uid, as an
//! owner. Any other one is neither used nor deleted: garbage collection follows owner references, so an object that
//! another writer deletes would take infrastructure cluster and control plane with it.

use serde_json::{Value, json};
use tracing::info;

use super::ApplyError;
use crate::kubernetes::untyped::{self, ApiRequestError};
use engine::topology::shim;
use engine::topology::worker::API_VERSION;
use model::hub::{Object, ObjectKey, ObjectRef, label};

fn reference(cluster: &ObjectKey) -> ObjectRef {
    ObjectRef::new("v1", shim::KIND, ObjectKey::new(&cluster.namespace, shim::name(&cluster.name)))
}

/// The ConfigMap as it is created for a Cluster.
fn shim(cluster: &ObjectKey, uid: &str) -> Result<Object, ApplyError> {
    let reference = reference(cluster);
    let owner = json!({"apiVersion": API_VERSION, "kind": "Cluster", "name": cluster.name, "uid": uid});
    let labels = json!({(label::CLUSTER_NAME): cluster.name, (label::OWNED): ""});
    let metadata = json!({"namespace": cluster.namespace, "name": reference.key.name, "labels": labels,
        "ownerReferences": [owner]});
    let mut shim = Object::default();
    for (path, value) in [("apiVersion", json!("v1")), ("kind", json!(shim::KIND)), ("metadata", metadata)] {
        shim.set(path, value)?;
    }
    Ok(shim)
}

/// The shim of a run.
#[derive(Debug)]
pub(super) struct UsedShim {
    pub uid: String,
    /// Whether this run created it.
    pub is_new: bool,
}

/// Creates the ConfigMap, or uses the one that an earlier run created.
pub(super) async fn create(client: &kube::Client, cluster: &ObjectKey, uid: &str) -> Result<UsedShim, ApplyError> {
    let reference = reference(cluster);
    let (found, is_new) = match untyped::create(client, &shim(cluster, uid)?).await {
        Err(error) if error.is_conflict() => (untyped::get(client, &reference).await.and_then(there), false),
        created => (created, true),
    };
    let found = found.map_err(|source| ApplyError::create(&reference, source))?;
    if !is_ours(&found, cluster, uid) {
        return Err(ApplyError::Foreign { object: Box::new(reference) });
    }
    if found.is_being_deleted() {
        return Err(ApplyError::Changed { object: Box::new(reference) });
    }
    Ok(UsedShim { uid: found.uid().to_owned(), is_new })
}

/// The owner reference that names the ConfigMap with this uid.
pub(super) fn owner(cluster: &ObjectKey, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": shim::KIND, "name": shim::name(&cluster.name), "uid": uid})
}

/// Deletes the ConfigMap with the uid that this process remembers to have created; without one, the ConfigMap that is
/// there if it belongs to the topology. One that is gone, or that was replaced meanwhile, is no error.
pub(super) async fn delete(
    client: &kube::Client,
    cluster: &ObjectKey,
    uid: &str,
    created: Option<&str>,
) -> Result<(), ApplyError> {
    let reference = reference(cluster);
    let failed = |source| ApplyError::delete(&reference, source);
    let shim = match created {
        Some(created) => created.to_owned(),
        None => match untyped::get(client, &reference).await.map_err(failed)? {
            Some(found) if is_ours(&found, cluster, uid) => found.uid().to_owned(),
            Some(_) => {
                info!(object = %reference, "Kept a ConfigMap that the topology does not own");
                return Ok(());
            }
            None => return Ok(()),
        },
    };
    match untyped::delete(client, &reference, Some(&shim)).await {
        Err(error) if error.is_conflict() => Ok(()),
        deleted => deleted.map(drop).map_err(failed),
    }
}

/// Whether a ConfigMap was made for this Cluster.
fn is_ours(found: &Object, cluster: &ObjectKey, uid: &str) -> bool {
    let is_cluster =
        |owner: &Value| owner["kind"] == "Cluster" && owner["name"] == *cluster.name && owner["uid"] == *uid;
    found.label(label::CLUSTER_NAME) == Some(&*cluster.name)
        && found.label(label::OWNED).is_some()
        && found.owner_references().iter().any(is_cluster)
}

/// It was there a moment ago.
fn there(found: Option<Object>) -> Result<Object, ApiRequestError> {
    found.ok_or(ApiRequestError::NoObject)
}

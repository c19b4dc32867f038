//! The Secret that owns infrastructure cluster and control plane until the Cluster does (RS-14).

use serde_json::{Value, json};

use super::ApplyError;
use crate::hub::{Object, ObjectKey, ObjectRef};
use crate::kubernetes::untyped::{self, RequestError};
use crate::topology::plan::shim_name;
use crate::topology::worker::API_VERSION;

const TYPE: &str = "cluster.x-k8s.io/secret";

fn reference(cluster: &ObjectKey) -> ObjectRef {
    ObjectRef::new("v1", "Secret", ObjectKey::new(&cluster.namespace, shim_name(&cluster.name)))
}

/// Makes the Secret, or takes the one that is there, and returns what names it as an owner.
pub(super) async fn create(client: &kube::Client, cluster: &ObjectKey, uid: &str) -> Result<Value, ApplyError> {
    let reference = reference(cluster);
    let owner = json!({"apiVersion": API_VERSION, "kind": "Cluster", "name": cluster.name, "uid": uid});
    let metadata = json!({"namespace": cluster.namespace, "name": reference.key.name, "ownerReferences": [owner]});
    let mut secret = Object::default();
    for (path, value) in
        [("apiVersion", json!("v1")), ("kind", json!("Secret")), ("metadata", metadata), ("type", json!(TYPE))]
    {
        secret.set(path, value)?;
    }
    let failed = |source| ApplyError::create(&reference, source);
    let found = match untyped::create(client, &secret).await {
        Err(error) if error.is_conflict() => untyped::get(client, &reference).await.and_then(there),
        created => created,
    };
    let found = found.map_err(failed)?;
    Ok(json!({"apiVersion": "v1", "kind": "Secret", "name": reference.key.name, "uid": found.uid()}))
}

/// Deletes the Secret; it may be gone already.
pub(super) async fn delete(client: &kube::Client, cluster: &ObjectKey) -> Result<(), ApplyError> {
    let reference = reference(cluster);
    let deleted = untyped::delete(client, &reference, None).await;
    deleted.map(drop).map_err(|source| ApplyError::delete(&reference, source))
}

/// It was there a moment ago.
fn there(found: Option<Object>) -> Result<Object, RequestError> {
    found.ok_or(RequestError::NoObject)
}

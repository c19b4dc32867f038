//! Repairs `managedFields` that were lost (SSA-20 to SSA-23).

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, ReplaceOperation};
use kube::api::Patch;
use serde_json::Value;
use tracing::info;

use super::apply::ApplyError;
use super::untyped;
use engine::topology::mitigation::{repaired_for_cluster, repaired_for_object};
use model::hub::{Object, paths};

/// Repairs the `managedFields` of a Cluster and of the objects of its topology. Returns whether any changed: in that
/// case the run ends, and the next run starts after a second (SSA-23).
///
/// The objects may come from a cache that keeps only a part of `managedFields`, if it keeps the names of all managers:
/// an object whose entries look lost is read again first.
///
/// # Errors
/// When an object cannot be read or written, or when another client wrote it since.
pub async fn mitigate(
    client: &kube::Client,
    cluster: &Object,
    objects: impl Iterator<Item = &Object>,
) -> Result<bool, ApplyError> {
    let mut is_changed = repair(client, cluster, repaired_for_cluster).await?;
    for object in objects {
        is_changed |= repair(client, object, repaired_for_object).await?;
    }
    Ok(is_changed)
}

async fn repair(
    client: &kube::Client,
    object: &Object,
    repaired: impl Fn(&Object) -> Option<Vec<Value>>,
) -> Result<bool, ApplyError> {
    if repaired(object).is_none() {
        return Ok(false);
    }
    let reference = object.reference();
    let failed = |source| ApplyError::update(&reference, source);
    let Some(found) = untyped::get(client, &reference).await.map_err(failed)? else { return Ok(false) };
    let Some(entries) = repaired(&found) else { return Ok(false) };
    let version = found.text(paths::metadata::RESOURCE_VERSION)?.unwrap_or_default();
    let at = |name| PointerBuf::from_tokens(["metadata", name]);
    let patch = json_patch::Patch(vec![
        PatchOperation::Add(AddOperation { path: at("managedFields"), value: Value::Array(entries) }),
        PatchOperation::Replace(ReplaceOperation { path: at("resourceVersion"), value: version.into() }),
    ]);
    untyped::update(client, &reference, &Patch::Json::<Value>(patch)).await.map_err(failed)?;
    info!(object = %reference, "Repaired managedFields");
    Ok(true)
}

//! Writes a Cluster: by patches that name the version that they were computed from, so that they revert no change of
//! another client.

use json_patch::{Patch, PatchOperation};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::defaulted;
use super::deletions::DeletionChange;
use crate::kubernetes::address::Resource;
use crate::reconciler::{add, in_our_name, remove};
use model::hub::deletion_hold::is_pause;
use model::hub::{Cluster, GROUP, Kind, Object, ObjectKey, annotation, paths};

/// The patch of everything but the status: defaults of variables, permission for a deletion or its hold, and the record
/// of the inputs of its objects (RS-06, HK-22, DEC-56, DEC-59).
pub(super) fn cluster_patch(
    raw: &Object,
    cluster: &Cluster,
    defaulted: Option<&Cluster>,
    deletion: &DeletionChange,
    rolled_out: Option<&str>,
) -> Vec<PatchOperation> {
    let mut operations = defaulted.map(|defaulted| defaulted::operations(raw, cluster, defaulted)).unwrap_or_default();
    let mut annotate = |name, value: Value| {
        if raw.at(paths::metadata::ANNOTATIONS).is_none_or(Value::is_null) {
            operations.push(add(["metadata", "annotations"], json!({})));
        }
        operations.push(add(["metadata", "annotations", name], value));
    };
    // A Cluster that is being deleted is not rolled out.
    if let Some(record) = rolled_out.filter(|record| raw.annotation(annotation::ROLLED_OUT) != Some(record)) {
        annotate(annotation::ROLLED_OUT, json!(record));
    }
    match deletion {
        DeletionChange::None | DeletionChange::DropHold => {}
        DeletionChange::Permit => annotate(annotation::OK_TO_DELETE, json!("")),
        DeletionChange::Hold(hold) => annotate(annotation::PAUSED, json!(hold.to_string())),
    }
    let drops_hold = matches!(deletion, DeletionChange::Permit | DeletionChange::DropHold);
    if drops_hold && raw.annotation(annotation::PAUSED).is_some_and(|value| !is_pause(value)) {
        operations.push(remove(["metadata", "annotations", annotation::PAUSED]));
    }
    operations
}

/// The patch of the status (ST-18): fields of other writers are in `status` as in the version that the patch names.
pub(super) fn status_patch(status: Value) -> Vec<PatchOperation> {
    vec![add(["status"], status)]
}

/// Writes a Cluster, unless it has changed since it was read.
///
/// # Errors
/// A conflict (409) if it has.
pub(super) async fn patch(
    client: &kube::Client,
    key: &ObjectKey,
    raw: &Object,
    mut operations: Vec<PatchOperation>,
    is_status: bool,
) -> Result<Object, kube::Error> {
    let version = raw.at(paths::metadata::RESOURCE_VERSION).cloned().unwrap_or_default();
    operations.insert(0, add(["metadata", "resourceVersion"], version));
    let resource = Resource::known(GROUP, "v1beta2", Kind::Cluster.name());
    let cluster = resource.one::<DynamicObject>(client.clone(), key)?;
    let patch = kube::api::Patch::Json::<()>(Patch(operations));
    let written = match is_status {
        true => cluster.patch_status(&in_our_name(), &patch).await?,
        false => cluster.patch(&in_our_name(), &patch).await?,
    };
    let value = serde_json::to_value(written).map_err(kube::Error::SerdeError)?;
    Object::try_from(value).map_err(|_| kube::Error::Service("the response is not an object".into()))
}

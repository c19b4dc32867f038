//! Writes a Cluster: by patches that test what they were computed from, so that they revert no change of another
//! client.

use serde_json::{Value, json};

use super::defaulted;
use super::deletions::DeletionChange;
use crate::kubernetes::tested_patch::TestedPatch;
use crate::kubernetes::untyped::{self, ApiRequestError};
use engine::topology::worker::API_VERSION;
use model::hub::deletion_hold::is_pause;
use model::hub::{Cluster, Object, ObjectKey, ObjectRef, annotation};

/// The patch of everything but the status: defaults of variables, permission for a deletion or its hold, and the record
/// of the inputs of its objects (RS-06, HK-22, DEC-56, DEC-59).
pub(super) fn cluster_patch<'a>(
    raw: &'a Object,
    cluster: &Cluster,
    defaulted: Option<&Cluster>,
    deletion: &DeletionChange,
    rolled_out: Option<&str>,
) -> TestedPatch<'a> {
    let mut patch = TestedPatch::for_object(raw);
    let defaults = defaulted.map(|defaulted| defaulted::operations(raw, cluster, defaulted)).unwrap_or_default();
    // A Cluster that is being deleted is not rolled out.
    let record = rolled_out.filter(|record| raw.annotation(annotation::ROLLED_OUT) != Some(record));
    if !defaults.is_empty() || record.is_some() {
        patch.test_spec();
    }
    defaults.into_iter().for_each(|operation| patch.change(operation));
    let mut annotate = |name, value: Option<Value>| patch.set(&["metadata", "annotations", name], value);
    if let Some(record) = record {
        annotate(annotation::ROLLED_OUT, Some(json!(record)));
    }
    match deletion {
        DeletionChange::None | DeletionChange::DropHold => {}
        DeletionChange::Permit => annotate(annotation::OK_TO_DELETE, Some(json!(""))),
        DeletionChange::Hold(hold) => annotate(annotation::PAUSED, Some(json!(hold.to_string()))),
    }
    let drops_hold = matches!(deletion, DeletionChange::Permit | DeletionChange::DropHold);
    if drops_hold && raw.annotation(annotation::PAUSED).is_some_and(|value| !is_pause(value)) {
        annotate(annotation::PAUSED, None);
    }
    patch
}

/// Writes a Cluster, unless what the patch was computed from has changed since it was read.
///
/// # Errors
/// A conflict (409) if it has.
pub(super) async fn patch(
    client: &kube::Client,
    key: &ObjectKey,
    patch: &TestedPatch<'_>,
    is_status: bool,
) -> Result<Object, ApiRequestError> {
    let cluster = ObjectRef::new(API_VERSION, "Cluster", key.clone());
    let send = async |patch: &kube::api::Patch<Value>| match is_status {
        true => untyped::update_status(client, &cluster, patch).await,
        false => untyped::update(client, &cluster, patch).await,
    };
    match send(&patch.tested()).await {
        // A test has failed, which is a conflict with that version, or the result is invalid. A test also fails if
        // kube-apiserver writes a character of the value in another way.
        Err(error) if error.is_invalid() => send(&patch.versioned()).await,
        written => written,
    }
}

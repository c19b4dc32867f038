//! Writes a Cluster: by patches that test what they were computed from, so that they revert no change of another
//! client.

use std::sync::Arc;

use serde_json::{Value, json};

use super::defaulted;
use super::deletions::DeletionChange;
use crate::kubernetes::tested_patch::TestedPatch;
use crate::kubernetes::untyped::{self, ApiRequestError};
use engine::topology::worker::API_VERSION;
use machines::lifecycle::dependents::differ_in_status_alone;
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

/// Maximum number of attempts to write a status that other clients write as well.
const STATUS_ATTEMPTS: usize = 3;

/// The outcome of writing the status of a Cluster.
#[derive(Debug)]
pub(super) enum StatusWrite {
    /// The Cluster has the status already.
    Unchanged,
    Written(Box<Object>),
    /// More than the status has changed since the Cluster was read, or others write it again and again.
    Conflict,
}

/// Writes everything but the status of a Cluster, unless what the patch was computed from has changed since it was read.
///
/// # Errors
/// A conflict (409) if it has.
pub(super) async fn patch(
    client: &kube::Client,
    key: &ObjectKey,
    patch: &TestedPatch<'_>,
) -> Result<Object, ApiRequestError> {
    let cluster = ObjectRef::new(API_VERSION, "Cluster", key.clone());
    match untyped::update(client, &cluster, &patch.tested()).await {
        // A test has failed, which is a conflict with that version, or the result is invalid. A test also fails if
        // kube-apiserver writes a character of the value in another way.
        Err(error) if error.is_invalid() => untyped::update(client, &cluster, &patch.versioned()).await,
        written => written,
    }
}

/// Writes the status that a Cluster should have, which depends on the conditions of others.
///
/// Those who write these conditions do so all the time while a Cluster is new. That is no conflict: the status is computed
/// anew from the Cluster as it is by then (RS-22, DEC-118).
///
/// # Errors
/// When a request fails, or the status is invalid.
pub(super) async fn write_status(
    client: &kube::Client,
    mut base: Arc<Object>,
    wanted: impl Fn(&Object) -> Value,
) -> Result<StatusWrite, ApiRequestError> {
    let cluster = ObjectRef::new(API_VERSION, "Cluster", base.key());
    for _ in 0..STATUS_ATTEMPTS {
        let status = wanted(&base);
        if base.at("status") == Some(&status) {
            return Ok(StatusWrite::Unchanged);
        }
        let mut patch = TestedPatch::for_object(&base);
        patch.set_status(&status);
        let written = |cluster| StatusWrite::Written(Box::new(cluster));
        match untyped::update_status(client, &cluster, &patch.tested()).await {
            // A test has failed, or the status is invalid.
            Err(error) if error.is_invalid() => {}
            outcome => return outcome.map(written),
        }
        match untyped::get(client, &cluster).await? {
            Some(found) if found.resource_version() == base.resource_version() => {
                return untyped::update_status(client, &cluster, &patch.versioned()).await.map(written);
            }
            Some(found) if is_newer_status(&found, &base) => base = Arc::new(found),
            _ => break,
        }
    }
    Ok(StatusWrite::Conflict)
}

/// Whether an object is a later state that differs only in its status.
pub(super) fn is_newer_status(found: &Object, base: &Object) -> bool {
    let version = |object: &Object| object.resource_version().parse::<u64>().ok();
    version(found) > version(base) && differ_in_status_alone(base, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::scripted::{Script, ScriptedAnswer};

    const PATH: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters/demo";
    const STATUS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters/demo/status";

    /// The Cluster in a version, with conditions of these types.
    fn cluster(version: &str, generation: u32, conditions: &[&str]) -> Value {
        let conditions: Vec<Value> = conditions.iter().map(|name| json!({"type": name, "status": "True"})).collect();
        json!({
            "apiVersion": API_VERSION, "kind": "Cluster",
            "metadata": {"namespace": "default", "name": "demo", "uid": "u", "resourceVersion": version,
                "generation": generation},
            "spec": {}, "status": {"conditions": conditions},
        })
    }

    /// The outcome of writing the condition `Ours` in addition to those that are there.
    async fn written(script: &Script) -> Result<StatusWrite, ApiRequestError> {
        let base = Arc::new(Object::try_from(cluster("1", 1, &["A"])).unwrap());
        let wanted = |found: &Object| {
            let mut status = found.at("status").cloned().unwrap();
            let all = status["conditions"].as_array_mut().unwrap();
            if all.iter().all(|condition| condition["type"] != "Ours") {
                all.push(json!({"type": "Ours", "status": "True"}));
            }
            status
        };
        let outcome = write_status(&script.client(), base, wanted).await;
        assert_eq!(script.left(), 0);
        outcome
    }

    #[tokio::test]
    async fn a_status_that_others_have_written_meanwhile_is_computed_anew() {
        // RS-22, DEC-118
        let script = Script::default();
        let done = cluster("4", 1, &["A", "B", "Ours"]);
        script
            .expect(&http::Method::PATCH, STATUS, &[r#""value":[{"status":"True","type":"A"}]"#], invalid())
            .get(PATH, &[], ScriptedAnswer::ok(cluster("3", 1, &["A", "B"])))
            .expect(&http::Method::PATCH, STATUS, &[r#"{"status":"True","type":"B"}]"#], ScriptedAnswer::ok(done));
        let outcome = written(&script).await.unwrap();
        assert!(matches!(&outcome, StatusWrite::Written(cluster) if cluster.resource_version() == "4"), "{outcome:?}");
    }

    #[tokio::test]
    async fn nothing_is_written_if_an_earlier_request_has_written_the_status() {
        // RS-22: its answer was lost
        let script = Script::default();
        script.expect(&http::Method::PATCH, STATUS, &[], invalid());
        script.get(PATH, &[], ScriptedAnswer::ok(cluster("2", 1, &["A", "Ours"])));
        assert!(matches!(written(&script).await, Ok(StatusWrite::Unchanged)));
    }

    #[tokio::test]
    async fn an_edit_is_a_conflict_and_an_invalid_status_an_error() {
        // RS-22, DEC-118
        let edited = cluster("3", 2, &["A"]);
        let script = Script::default();
        script.expect(&http::Method::PATCH, STATUS, &[], invalid()).get(PATH, &[], ScriptedAnswer::ok(edited));
        assert!(matches!(written(&script).await, Ok(StatusWrite::Conflict)));
        let script = Script::default();
        script.expect(&http::Method::PATCH, STATUS, &[], invalid());
        script.get(PATH, &[], ScriptedAnswer::ok(cluster("1", 1, &["A"])));
        let versioned = r#""path":"/metadata/resourceVersion","value":"1""#;
        script.expect(&http::Method::PATCH, STATUS, &[versioned], invalid());
        assert!(written(&script).await.unwrap_err().is_invalid());
    }

    #[tokio::test]
    async fn a_status_that_others_write_again_and_again_is_a_conflict() {
        // RS-22
        let script = Script::default();
        for version in ["2", "3", "4"] {
            script.expect(&http::Method::PATCH, STATUS, &[], invalid());
            script.get(PATH, &[], ScriptedAnswer::ok(cluster(version, 1, &["A", version])));
        }
        assert!(matches!(written(&script).await, Ok(StatusWrite::Conflict)));
    }

    fn invalid() -> ScriptedAnswer {
        ScriptedAnswer::error(422, "Invalid")
    }
}

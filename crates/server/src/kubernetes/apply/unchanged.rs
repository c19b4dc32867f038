//! Applies to objects that exist, which an API server refuses once another write has changed them (SSA-24).
//!
//! A request that was given up, or one of a former leader, may arrive after newer writes. It carries the
//! resourceVersion of the object that it was computed from, so it cannot overwrite them.

use serde_json::{Value, json};
use tracing::debug;

use super::ApplyError;
use crate::kubernetes::untyped;
use engine::topology::plan::MANAGER;
use model::hub::{Object, paths};

/// How often an object is read again after a write conflict.
const ATTEMPTS: usize = 5;

/// Applies `sent` to an object that was `current` when its plan was made.
///
/// A status that another client has written since, or a finalizer, is no reason to plan again: then the object is read
/// and the apply is sent once more. Any other change is a conflict.
pub(super) async fn apply(client: &kube::Client, mut sent: Object, current: &Object) -> Result<Object, ApplyError> {
    let (reference, planned) = (current.reference(), basis(current));
    let mut version = version_of(current);
    for _ in 0..ATTEMPTS {
        if !version.is_empty() {
            sent.set(paths::metadata::RESOURCE_VERSION, json!(version))?;
        }
        let error = match untyped::apply(client, &sent, false).await {
            Err(error) if error.is_conflict() => error,
            written => return written.map_err(|error| ApplyError::update(&sent.reference(), error)),
        };
        let found = untyped::get(client, &reference).await.map_err(|error| ApplyError::update(&reference, error))?;
        let Some(found) = found.filter(|found| basis(found) == planned) else { break };
        let newer = version_of(&found);
        if newer == version {
            // It has another cause than the version.
            return Err(ApplyError::update(&sent.reference(), error));
        }
        debug!(object = %reference, "Write conflict, retrying");
        version = newer;
    }
    Err(ApplyError::Changed { object: Box::new(reference) })
}

fn version_of(object: &Object) -> String {
    object.resource_version().to_owned()
}

/// What a plan depends on. Everything else changes without any effect on what is applied: the status, finalizers, and
/// the fields of other field managers, which count by their values.
fn basis(object: &Object) -> Object {
    let mut basis = object.clone();
    for path in ["status", paths::metadata::RESOURCE_VERSION, paths::metadata::GENERATION, paths::metadata::FINALIZERS]
    {
        basis.remove(path);
    }
    if let Some(Value::Array(entries)) = basis.remove(paths::metadata::MANAGED_FIELDS) {
        let is_ours = |entry: &&Value| entry["manager"] == MANAGER && entry.get("subresource").is_none();
        let ours: Vec<Value> = entries.iter().filter(is_ours).map(|entry| entry["fieldsV1"].clone()).collect();
        // `metadata` holds other fields.
        let _ = basis.set(paths::metadata::MANAGED_FIELDS, Value::Array(ours));
    }
    basis
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::kubernetes::scripted::{Script, ScriptedAnswer};

    const PATH: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machinedeployments/md";

    /// A machine deployment at a version, whose other fields are as planned, but for an edit.
    fn at(version: &str, edit: impl FnOnce(&mut Value)) -> Value {
        let mut object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
            "metadata": {"namespace": "ns", "name": "md", "uid": "u", "resourceVersion": version, "labels": {"a": "b"},
                "managedFields": [{"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {}}}]},
            "spec": {"replicas": 1}});
        edit(&mut object);
        object
    }

    fn object(value: Value) -> Object {
        Object::try_from(value).unwrap()
    }

    async fn applied(script: &Script) -> Result<Object, ApplyError> {
        let mut sent = object(at("", |_| ()));
        sent.remove("metadata.managedFields");
        let applied = apply(&script.client(), sent, &object(at("7", |_| ()))).await;
        assert_eq!(script.left(), 0);
        applied
    }

    fn applies(script: &Script, version: &str, answer: ScriptedAnswer) {
        let words = ["fieldManager=capi-topology", &format!("\"resourceVersion\":\"{version}\"")];
        script.expect(&Method::PATCH, PATH, &words, answer);
    }

    #[tokio::test]
    async fn an_apply_carries_the_version_that_it_was_computed_from() {
        // SSA-24
        let script = Script::default();
        applies(&script, "7", ScriptedAnswer::ok(at("8", |_| ())));
        assert!(applied(&script).await.is_ok());
    }

    #[tokio::test]
    async fn a_newer_status_is_no_reason_to_plan_again() {
        // SSA-24
        let script = Script::default();
        applies(&script, "7", ScriptedAnswer::error(409, "Conflict"));
        let newer = |version: &str| {
            at(version, |object| {
                object["status"] = json!({"replicas": 1});
                object["metadata"]["finalizers"] = json!(["f"]);
                let other = json!({"manager": "other", "subresource": "status", "fieldsV1": {}});
                object["metadata"]["managedFields"].as_array_mut().unwrap().push(other);
                object["metadata"]["managedFields"][0]["time"] = json!("2030-01-01T00:00:00Z");
            })
        };
        script.get(PATH, &[], ScriptedAnswer::ok(newer("9")));
        applies(&script, "9", ScriptedAnswer::error(409, "Conflict"));
        script.get(PATH, &[], ScriptedAnswer::ok(newer("11")));
        applies(&script, "11", ScriptedAnswer::ok(at("12", |_| ())));
        assert!(applied(&script).await.is_ok());
    }

    #[tokio::test]
    async fn an_object_that_another_write_has_changed_is_not_overwritten() {
        // SSA-24
        let edits: [fn(&mut Value); 5] = [
            |object| object["spec"]["replicas"] = json!(2),
            |object| object["metadata"]["labels"]["a"] = json!("c"),
            |object| object["metadata"]["uid"] = json!("v"),
            |object| object["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z"),
            |object| object["metadata"]["managedFields"][0]["fieldsV1"] = json!({}),
        ];
        for edit in edits {
            let script = Script::default();
            applies(&script, "7", ScriptedAnswer::error(409, "Conflict"));
            script.get(PATH, &[], ScriptedAnswer::ok(at("9", edit)));
            let error = applied(&script).await.unwrap_err();
            assert!(error.is_conflict(), "{error}");
            assert_eq!(error.to_string(), "MachineDeployment ns/md has changed since it was read");
        }
        let script = Script::default();
        applies(&script, "7", ScriptedAnswer::error(409, "Conflict"));
        script.get(PATH, &[], ScriptedAnswer::error(404, "NotFound"));
        assert!(applied(&script).await.unwrap_err().is_conflict());
    }

    #[tokio::test]
    async fn a_conflict_about_something_else_is_an_error_at_once() {
        let script = Script::default();
        applies(&script, "7", ScriptedAnswer::error(409, "Conflict"));
        script.get(PATH, &[], ScriptedAnswer::ok(at("7", |_| ())));
        let error = applied(&script).await.unwrap_err();
        assert_eq!(error.to_string(), "failed to update MachineDeployment ns/md: scripted Conflict");
    }
}

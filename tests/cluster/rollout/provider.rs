//! The provider and the machine controllers of a test: they answer at once, by writing status.

use std::time::Duration;

use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::site::{CONTROL_PLANE, CORE, INFRASTRUCTURE, api, text};

/// How often the objects are looked at.
const PACE: Duration = Duration::from_millis(200);

/// Answers in a namespace, or with an empty one everywhere, until dropped; makes Clusters owners as well unless another
/// controller of the test does.
pub(crate) async fn run(client: kube::Client, namespace: String, makes_owners: bool) {
    loop {
        for (api_version, kind) in [
            (INFRASTRUCTURE, "EmbeddedCluster"),
            (CONTROL_PLANE, "EmbeddedControlPlane"),
            (CORE, "MachineDeployment"),
            (CORE, "MachinePool"),
        ] {
            let all = api(&client, &namespace, api_version, kind);
            let Ok(list) = all.list(&ListParams::default()).await else { continue };
            for object in list.items.iter().map(|item| serde_json::to_value(item).unwrap()) {
                let (name, namespace) = (text(&object, "/metadata/name"), text(&object, "/metadata/namespace"));
                let api = api(&client, &namespace, api_version, kind);
                let status = answered(kind, &object);
                if !contains(&object["status"], &status) {
                    let patch = Patch::Merge(json!({"status": status}));
                    // It may be gone.
                    let _ = api.patch_status(&name, &PatchParams::default(), &patch).await;
                }
                if makes_owners && matches!(kind, "EmbeddedCluster" | "EmbeddedControlPlane") {
                    own(&client, &namespace, api_version, &object).await;
                }
            }
        }
        tokio::time::sleep(PACE).await;
    }
}

/// The status of an object whose machines are as it asks for.
fn answered(kind: &str, object: &Value) -> Value {
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let counted = json!({
        "replicas": replicas,
        "readyReplicas": replicas,
        "availableReplicas": replicas,
        "upToDateReplicas": replicas,
    });
    let mut status = match kind {
        "EmbeddedCluster" => json!({"initialization": {"provisioned": true}}),
        _ => counted,
    };
    if kind == "EmbeddedControlPlane" {
        status["version"] = object["spec"]["version"].clone();
        status["initialization"] = json!({"controlPlaneInitialized": true});
    }
    if kind != "EmbeddedCluster" && kind != "EmbeddedControlPlane" {
        status["observedGeneration"] = object["metadata"]["generation"].clone();
    }
    status
}

/// The Cluster owns both of its objects, as the Cluster controller has it (LBL-06).
async fn own(client: &kube::Client, namespace: &str, api_version: &str, object: &Value) {
    let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let cluster = object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"].as_str().unwrap_or_default().to_owned();
    if owners.iter().any(|owner| owner["kind"] == "Cluster") {
        return;
    }
    let Ok(Some(found)) = api(client, namespace, CORE, "Cluster").get_opt(&cluster).await else { return };
    let refers = found.data["spec"]["infrastructureRef"]["name"].is_string();
    if !refers {
        return;
    }
    let owner = json!({"apiVersion": CORE, "kind": "Cluster", "name": cluster, "uid": found.metadata.uid});
    let owners: Vec<Value> = owners.into_iter().chain([owner]).collect();
    let patch =
        json!({"metadata": {"ownerReferences": owners, "resourceVersion": object["metadata"]["resourceVersion"]}});
    let api = api(client, namespace, api_version, &text(object, "/kind"));
    let _ = api.patch(&text(object, "/metadata/name"), &PatchParams::default(), &Patch::Merge(patch)).await;
}

/// Whether everything of `part` is in `whole`.
fn contains(whole: &Value, part: &Value) -> bool {
    match part {
        Value::Object(members) => members.iter().all(|(name, value)| contains(&whole[name], value)),
        value => whole == value,
    }
}

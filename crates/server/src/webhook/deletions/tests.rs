use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::kubernetes::deletion_hooks::DeletionHooks;
use crate::kubernetes::scripted::{Script, ScriptedAnswer};
use testing::Lines;

fn cluster(metadata: Value) -> Cluster {
    let mut all = json!({"metadata": {"name": "c", "namespace": "ns", "deletionTimestamp": "2030-01-01T00:00:00Z"}, "spec": {
        "topology": {"classRef": {"name": "k"}, "version": "v1.31.0"},
        "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "c-1"},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "c-2"},
    }});
    json_patch::merge(&mut all["metadata"], &metadata);
    Cluster::decode(WireVersion::V1Beta2, &all.to_string()).unwrap()
}

#[test]
fn objects_stay_while_their_cluster_waits_for_its_hooks() {
    // DEC-56
    for (metadata, want) in [
        (json!({}), true),
        (json!({"annotations": {annotation::PAUSED: "by me"}}), true),
        (json!({"deletionTimestamp": null}), false),
        (json!({"annotations": {annotation::OK_TO_DELETE: ""}}), false),
        (json!({"annotations": {annotation::SKIP_DELETE_HOOKS: ""}}), false),
    ] {
        assert_eq!(waits(&cluster(metadata.clone())), want, "{metadata}");
    }
}

#[test]
fn workers_control_plane_and_infrastructure_are_what_stays() {
    // DEC-56
    let cluster = cluster(json!({}));
    for (group, kind, name, want) in [
        ("cluster.x-k8s.io", "MachineDeployment", "any", true),
        ("cluster.x-k8s.io", "MachinePool", "any", true),
        ("cluster.x-k8s.io", "MachineHealthCheck", "any", false),
        ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "c-1", true),
        ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "c-2", false),
        ("infrastructure.cluster.x-k8s.io", "DevCluster", "c-2", true),
        ("infrastructure.cluster.x-k8s.io", "DevMachineTemplate", "c-2", false),
        ("example.com", "DevCluster", "c-2", false),
    ] {
        let review =
            json!({"uid": "u", "kind": {"group": group, "version": "v1", "kind": kind}, "operation": "DELETE"})
                .to_string();
        let review: AdmissionRequest<'_> = serde_json::from_str(&review).unwrap();
        let object = Metadata { name: name.to_owned(), ..Metadata::default() };
        assert_eq!(is_part(&cluster, &review, &object), want, "{kind} {name}");
    }
}

/// A Cluster in deletion with this version of its topology.
fn stored(version: Value) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "ns", "uid": "u-1", "generation": 2,
            "deletionTimestamp": "2030-01-01T00:00:00Z"},
        "spec": {"topology": {"classRef": {"name": "k"}, "version": version}}})
}

/// Why the deletion of a MachineDeployment of the Cluster is denied, if this is the answer to the request for the
/// Cluster.
async fn denied(holds: &Holds, script: &Script, answer: ScriptedAnswer) -> &'static str {
    let review = json!({
        "uid": "u", "kind": {"group": GROUP, "version": "v1beta2", "kind": "MachineDeployment"}, "operation": "DELETE",
        "oldObject": {"metadata": {"name": "md", "namespace": "ns", "labels": {label::OWNED: "", label::CLUSTER_NAME: "c"}}},
    })
    .to_string();
    let review: AdmissionRequest<'_> = serde_json::from_str(&review).unwrap();
    script.get("/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters/c", &[], answer);
    let deadline = Instant::now() + std::time::Duration::from_secs(5);
    let denial = holds.denial(&review, &Scope::default(), deadline).await;
    assert_eq!(script.left(), 0);
    denial.map_or("", |denial| denial.parts().2)
}

/// Holds of a process that has not listed ExtensionConfigs yet, so any hook may block.
fn holds(script: &Script) -> Holds {
    let hooks = DeletionHooks::new(script.client(), Arc::default());
    Holds::new(script.client(), Arc::new(hooks))
}

#[tokio::test]
async fn a_cluster_that_does_not_decode_holds_nothing() {
    // DEC-56, DEC-103
    for (answer, want) in [
        (ScriptedAnswer::ok(stored(json!("v1.31.0"))), "forbidden"),
        (ScriptedAnswer::ok(stored(json!(31))), ""),
        (ScriptedAnswer::error(404, "NotFound"), ""),
        (ScriptedAnswer::error(503, "ServiceUnavailable"), "unknown"),
    ] {
        let script = Script::default();
        assert_eq!(denied(&holds(&script), &script, answer).await, want);
    }
}

#[tokio::test]
async fn each_generation_of_a_cluster_that_does_not_decode_is_logged_once() {
    // DEC-103
    let (lines, _guard) = Lines::collect();
    let (script, broken) = (Script::default(), stored(json!(31)));
    let mut next = broken.clone();
    next["metadata"]["generation"] = json!(3);
    let mut other = broken.clone();
    other["metadata"]["uid"] = json!("u-2");
    let holds = holds(&script);
    for (cluster, logged) in [(&broken, 1), (&broken, 1), (&next, 2), (&next, 2), (&other, 3), (&broken, 3)] {
        assert_eq!(denied(&holds, &script, ScriptedAnswer::ok(cluster.clone())).await, "");
        let text = lines.text();
        let count = text.matches("Allowed the deletion of objects of a Cluster that does not decode").count();
        assert_eq!(count, logged, "{text}");
    }
    let text = lines.text();
    for part in ["WARN", r#"namespace="ns" name="c""#, r#"uid="u-1" generation=2"#, "reason=", "version"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

//! `simulate --live` on a real kube-apiserver.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::both::server::{PARTS, TestServer, cluster, name, workers};
use super::server::Shared;
use crate::harness::kustomize::stream;
use crate::harness::server::command;

/// May list and get what a simulation reads, and neither Secrets nor anything of a workload cluster.
fn rights(namespace: &str) -> String {
    let rules =
        ["apiextensions.k8s.io", "cluster.x-k8s.io", "infrastructure.topologist.dev", "bootstrap.topologist.dev"];
    let rules = rules.into_iter().chain(["controlplane.topologist.dev"]);
    let rules: Vec<Value> =
        rules.map(|group| json!({"apiGroups": [group], "resources": ["*"], "verbs": ["get", "list"]})).collect();
    let (api, kind) = ("rbac.authorization.k8s.io/v1", "ClusterRole");
    let subjects = json!([{"kind": "ServiceAccount", "name": "simulates", "namespace": namespace}]);
    let role = json!({"apiVersion": api, "kind": kind, "metadata": {"name": "simulates"}, "rules": rules});
    let binding = json!({"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": "simulates"},
        "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "simulates"}});
    stream(&[role, binding])
}

/// The resource versions of everything that a Cluster consists of.
fn versions(server: &TestServer) -> BTreeMap<(String, String), String> {
    let kinds = format!("{PARTS},embeddedmachinetemplates,embeddedconfigtemplates,clusterclasses,secrets,events");
    let version = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        ((text(&object["kind"]), name(object)), text(&object["metadata"]["resourceVersion"]))
    };
    server.list(&kinds).iter().map(version).collect()
}

/// The same, once nothing is written any more.
fn settled(server: &TestServer) -> BTreeMap<(String, String), String> {
    loop {
        let known = versions(server);
        server.until_quiet("cluster/demo");
        if versions(server) == known {
            return known;
        }
    }
}

#[test]
fn a_live_simulation_reads_with_a_reader_s_rights_and_writes_nothing() {
    let server = TestServer::start(&[]);
    let before = cluster(1, &json!([workers("a", 2)]), &json!([{"class": "pool", "name": "p", "replicas": 2}]));
    server.run_cluster(&before);
    server.wait("cluster/demo", "condition=TopologyReconciled");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let reader = runtime.block_on(async {
        let kubernetes = &Shared::get().await.installation.kubernetes;
        kubernetes.apply_yaml(&rights(&server.namespace)).await;
        kubernetes.service_account_kubeconfig(&server.namespace, "simulates").await
    });
    let stored = settled(&server);
    let mut after = before;
    after["metadata"]["namespace"] = json!(server.namespace);
    after["spec"]["topology"]["version"] = json!("v1.33.0");
    let file = server.path("to.json");
    std::fs::write(&file, after.to_string()).unwrap();
    let mut simulate = command(&["simulate", "--live", "--to", &file, "-o", "json", "--kubeconfig"]);
    let output = simulate.arg(&reader).output().unwrap();
    // Clusters of other stories may be in any state.
    assert!([Some(0), Some(1)].contains(&output.status.code()), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of_story = |one: &&Value| one["namespace"] == *server.namespace && one["name"] == "demo";
    let reported = report["clusters"].as_array().unwrap().iter().find(of_story).unwrap();
    assert_eq!(reported["outcome"], "converged", "{reported:#}");
    let machines = reported["machines"].as_array().unwrap();
    let count = |field: &str| machines.iter().filter(|machine| machine[field].is_i64()).count();
    // The instances of the pool count like Machines.
    assert_eq!((machines.len(), count("made"), count("gone")), (10, 5, 5), "{reported:#}");
    assert_eq!(versions(&server), stored, "nothing is written");
}

//! Providers that report failures, and users who read of them.

use serde_json::{Value, json};

use super::ground::{Ground, PARTS, cluster, condition, deployment, workers};

#[test]
fn a_failure_of_the_infrastructure_is_shown_with_its_message() {
    // CT-19, CT-20.1
    let ground = Ground::start(&[]);
    let mut demo = cluster(1, &json!([workers("a", 1)]), &json!([]));
    demo["spec"]["topology"]["variables"] = json!([{"name": "failing", "value": "Burning"}]);
    ground.kubectl.give(&demo, &["create"]);
    let worker = || ground.list("machines").into_iter().find(|machine| deployment(machine) == "a");
    ground.until("the Machine tells what its infrastructure says", || {
        worker().is_some_and(|machine| {
            condition(&machine, "InfrastructureReady").0 == "False" && machine.to_string().contains("the rack burns")
        })
    });
    ground.until("there is a warning with the message", || {
        let events = ground.kubectl.out(&["get", "events", "--field-selector", "type=Warning"]);
        events.contains("ProvisioningFailed") && events.contains("the rack burns")
    });
    assert_eq!(condition(&ground.list("clusters")[0], "WorkersAvailable").0, "False");
}

#[test]
fn a_failed_infrastructure_cluster_makes_the_cluster_fail() {
    // CT-5.5, CT-6.7, MA-5.4
    let ground = Ground::start(&["--external-kinds", "OldCluster"]);
    let group = "infrastructure.cluster.x-k8s.io";
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("oldclusters.{group}"), "labels": {"cluster.x-k8s.io/v1beta1": "v1"}},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "OldCluster", "plural": "oldclusters"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}]}});
    ground.kubectl.give(&definition, &["create"]);
    ground.kubectl.out(&["wait", "--for=condition=Established", &format!("crd/oldclusters.{group}"), "--timeout=20s"]);
    let old =
        json!({"apiVersion": format!("{group}/v1"), "kind": "OldCluster", "metadata": {"name": "old"}, "spec": {}});
    ground.kubectl.give(&old, &["create"]);
    let reference: Value = json!({"apiGroup": group, "kind": "OldCluster", "name": "old"});
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "demo"},
        "spec": {"infrastructureRef": reference}});
    ground.kubectl.give(&cluster, &["create"]);
    ground.wait("oldcluster/old", "jsonpath={.metadata.ownerReferences[0].kind}=Cluster");
    ground.merge_status("oldcluster/old", &json!({"failureReason": "NoQuota", "failureMessage": "ask for more"}));
    ground.wait("cluster/demo", "jsonpath={.status.phase}=Failed");
    assert_eq!(ground.kubectl.field("cluster/demo", ".status.deprecated.v1beta1.failureReason"), "NoQuota");
    ground.kubectl.out(&["delete", "cluster", "demo", "--timeout=60s"]);
    ground.until("nothing is left of a failed Cluster", || {
        ground.kubectl.out(&["get", &format!("{PARTS},oldclusters"), "-o", "name"]).is_empty()
    });
}

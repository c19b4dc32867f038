//! Providers that report failures, and users who read of them.

use serde_json::{Value, json};

use super::ground::{Ground, cluster, condition, deployment, name, workers};
use super::providers::hybrid;

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
fn a_failure_under_the_older_contract_is_for_good() {
    // CT-5.5, MA-2.5, MA-3, DEC-6
    let ground = Ground::start(&["--external-kinds", "VSphereMachine,DockerCluster"]);
    ground.kubectl.give(&hybrid(&json!([{"class": "vsphere", "name": "v", "replicas": 1}])), &["create"]);
    ground.until("the infrastructure waits for its provider", || ground.list("dockerclusters").len() == 1);
    let infrastructure = format!("dockercluster/{}", ground.names("dockerclusters")[0]);
    ground.wait(&infrastructure, "jsonpath={.metadata.ownerReferences[0].kind}=Cluster");
    let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}}});
    ground.merge(&infrastructure, &endpoint);
    ground.merge_status(&infrastructure, &json!({"initialization": {"provisioned": true}}));
    ground.until("the worker has an infrastructure machine", || ground.list("vspheremachines").len() == 1);
    let machine = format!("vspheremachine/{}", ground.names("vspheremachines")[0]);
    let worker = ground.list("machines").into_iter().find(|one| deployment(one) == "v").unwrap();
    let worker = format!("machine/{}", name(&worker));
    ground.wait(&worker, "jsonpath={.status.phase}=Provisioning");
    ground.merge_status(&machine, &json!({"failureReason": "InvalidConfiguration", "failureMessage": "no such image"}));
    ground.wait(&worker, "jsonpath={.status.phase}=Failed");
    let deprecated = |field: &str| ground.kubectl.field(&worker, &format!(".status.deprecated.v1beta1.{field}"));
    assert_eq!(deprecated("failureReason"), "InvalidConfiguration");
    assert!(deprecated("failureMessage").contains("no such image"), "{}", deprecated("failureMessage"));
    ground.until("there is a warning", || {
        let events =
            ground.kubectl.out(&["get", "events", "--field-selector", "type=Warning,involvedObject.kind=Machine"]);
        events.contains("no such image")
    });
    ground.merge(&machine, &json!({"spec": {"providerID": "vsphere://1"}}));
    ground.merge_status(&machine, &json!({"failureReason": null, "failureMessage": null, "ready": true}));
    ground.wait(&worker, "condition=InfrastructureReady");
    assert_eq!(ground.kubectl.field(&worker, ".status.phase"), "Failed", "for good");
    assert_eq!(deprecated("failureReason"), "InvalidConfiguration");
    ground.kubectl.out(&["delete", "cluster", "demo", "--wait=false"]);
    ground.until("a failed machine can be deleted", || ground.list("machines").is_empty());
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
}

#[test]
fn an_embedded_cluster_fails_as_its_spec_says() {
    // CT-19, CT-20.2, DEC-6
    let ground = Ground::start(&[]);
    let group = "infrastructure.topologist.dev";
    let failure = json!({"reason": "NoQuota", "message": "ask for more networks"});
    let infrastructure = json!({"apiVersion": format!("{group}/v1beta1"), "kind": "EmbeddedCluster", "metadata": {"name": "poor"},
        "spec": {"backend": {"inMemory": {"failure": failure}}}});
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "poor"},
        "spec": {"infrastructureRef": {"apiGroup": group, "kind": "EmbeddedCluster", "name": "poor"}}});
    for object in [&infrastructure, &cluster] {
        ground.kubectl.give(object, &["create"]);
    }
    let ready = "jsonpath={.status.conditions[?(@.type==\"InfrastructureReady\")].reason}=NoQuota";
    ground.wait("cluster/poor", ready);
    let found = &ground.list("clusters")[0];
    assert!(found.to_string().contains("ask for more networks"), "{found}");
    assert!(found["status"]["initialization"]["infrastructureProvisioned"].is_null(), "{found}");
    assert_eq!(found["status"]["phase"], "Provisioning", "the embedded provider follows the contract v1beta2");
    ground.until("there is a warning with the message", || {
        let events = ground.kubectl.out(&["get", "events", "--field-selector", "type=Warning"]);
        events.contains("ProvisioningFailed") && events.contains("ask for more networks")
    });
    let older = ground.kubectl.field(&format!("embeddedclusters.v1alpha1.{group}/poor"), ".status.failureReason");
    assert_eq!(older, "NoQuota", "clients of the contract v1beta1 see it");
    ground.kubectl.out(&["delete", "cluster", "poor", "--timeout=60s"]);
}

//! Providers that report failures, and users who read of them.

use serde_json::{Value, json};

use super::server::{PARTS, TestServer, cluster, condition, deployment, workers};

#[test]
fn a_failure_of_the_infrastructure_is_shown_with_its_message() {
    // CT-19, CT-20.1
    let server = TestServer::start(&[]);
    let mut demo = cluster(1, &json!([workers("a", 1)]), &json!([]));
    demo["spec"]["topology"]["variables"] = json!([{"name": "failing", "value": "Burning"}]);
    server.kubectl.give(&demo, &["create"]);
    let worker = || server.list("machines").into_iter().find(|machine| deployment(machine) == "a");
    server.until("the Machine tells what its infrastructure says", || {
        worker().is_some_and(|machine| {
            condition(&machine, "InfrastructureReady").0 == "False" && machine.to_string().contains("the rack burns")
        })
    });
    server.until("there is a warning with the message", || {
        let events = server.kubectl.out(&["get", "events", "--field-selector", "type=Warning"]);
        events.contains("ProvisioningFailed") && events.contains("the rack burns")
    });
    assert_eq!(condition(&server.list("clusters")[0], "WorkersAvailable").0, "False");
}

#[test]
fn a_failed_infrastructure_cluster_makes_the_cluster_fail() {
    // CT-5.5, CT-6.7, MA-5.4
    let server = TestServer::start(&["--external-kinds", "OldCluster"]);
    define(&server, "OldCluster");
    let old =
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": "OldCluster", "metadata": {"name": "old"}, "spec": {}});
    server.kubectl.give(&old, &["create"]);
    let reference: Value = json!({"apiGroup": GROUP, "kind": "OldCluster", "name": "old"});
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "demo"},
        "spec": {"infrastructureRef": reference}});
    server.kubectl.give(&cluster, &["create"]);
    server.wait("oldcluster/old", "jsonpath={.metadata.ownerReferences[0].kind}=Cluster");
    server.merge_status("oldcluster/old", &json!({"failureReason": "NoQuota", "failureMessage": "ask for more"}));
    server.wait("cluster/demo", "jsonpath={.status.phase}=Failed");
    assert_eq!(server.kubectl.field("cluster/demo", ".status.deprecated.v1beta1.failureReason"), "NoQuota");
    server.kubectl.out(&["delete", "cluster", "demo", "--timeout=60s"]);
    server.until("nothing is left of a failed Cluster", || {
        server.kubectl.out(&["get", &format!("{PARTS},oldclusters"), "-o", "name"]).is_empty()
    });
}

#[test]
fn a_failed_machine_stays_failed_and_goes_with_its_cluster() {
    // CT-5.5, MA-2.5, MA-3, DEC-6, MA-27.16
    let server = TestServer::start(&["--external-kinds", "OldMachine"]);
    define(&server, "OldMachine");
    server.run_cluster(&cluster(1, &json!([]), &json!([])));
    let labels = json!({"cluster.x-k8s.io/cluster-name": "demo"});
    let old = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "OldMachine",
        "metadata": {"name": "old", "labels": labels}, "spec": {}});
    let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": "old", "labels": labels},
        "spec": {"clusterName": "demo", "version": "v1.32.0", "bootstrap": {"dataSecretName": "data"},
            "infrastructureRef": {"apiGroup": GROUP, "kind": "OldMachine", "name": "old"}}});
    server.kubectl.out(&["create", "secret", "generic", "data", "--from-literal=value=nothing"]);
    for object in [&old, &machine] {
        server.kubectl.give(object, &["create"]);
    }
    server.wait("machine/old", "jsonpath={.status.phase}=Provisioning");
    server.merge_status("oldmachine/old", &json!({"failureReason": "NoImage", "failureMessage": "no such image"}));
    server.wait("machine/old", "jsonpath={.status.phase}=Failed");
    let deprecated = |field: &str| server.kubectl.field("machine/old", &format!(".status.deprecated.v1beta1.{field}"));
    assert_eq!(deprecated("failureReason"), "NoImage");
    assert!(deprecated("failureMessage").contains("no such image"), "{}", deprecated("failureMessage"));
    server.until("there is a warning", || {
        let selector = "--field-selector=type=Warning,involvedObject.kind=Machine";
        server.kubectl.out(&["get", "events", selector]).contains("no such image")
    });
    server.merge("oldmachine/old", &json!({"spec": {"providerID": "old://1"}}));
    server.merge_status("oldmachine/old", &json!({"failureReason": null, "failureMessage": null, "ready": true}));
    server.wait("machine/old", "condition=InfrastructureReady");
    assert_eq!(server.kubectl.field("machine/old", ".status.phase"), "Failed", "for good");
    server.kubectl.out(&["delete", "cluster", "demo", "--timeout=60s"]);
    server.until("nothing is left", || {
        server.kubectl.out(&["get", &format!("{PARTS},oldmachines"), "-o", "name"]).is_empty()
    });
}

const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// Defines a kind of the contract v1beta1 that takes any field.
fn define(server: &TestServer, kind: &str) {
    let plural = format!("{}s", kind.to_lowercase());
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": any, "status": any}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}"), "labels": {"cluster.x-k8s.io/v1beta1": "v1"}},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema,
                "subresources": {"status": {}}}]}});
    server.kubectl.give(&definition, &["create"]);
    let defined = format!("crd/{plural}.{GROUP}");
    server.kubectl.out(&["wait", "--for=condition=Established", &defined, "--timeout=60s"]);
    server.kubectl.eventually(&["get", &plural]);
}

#[test]
fn an_embedded_cluster_fails_as_its_spec_requests() {
    // CT-19, CT-20.2, DEC-6
    let server = TestServer::start(&[]);
    let group = "infrastructure.topologist.dev";
    let failure = json!({"reason": "NoQuota", "message": "ask for more networks"});
    let infrastructure = json!({"apiVersion": format!("{group}/v1beta1"), "kind": "EmbeddedCluster",
        "metadata": {"name": "poor"},
        "spec": {"backend": {"inMemory": {"failure": failure}}}});
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "poor"},
        "spec": {"infrastructureRef": {"apiGroup": group, "kind": "EmbeddedCluster", "name": "poor"}}});
    for object in [&infrastructure, &cluster] {
        server.kubectl.give(object, &["create"]);
    }
    let ready = "jsonpath={.status.conditions[?(@.type==\"InfrastructureReady\")].reason}=NoQuota";
    server.wait("cluster/poor", ready);
    let found = &server.list("clusters")[0];
    assert!(found.to_string().contains("ask for more networks"), "{found}");
    assert!(found["status"]["initialization"]["infrastructureProvisioned"].is_null(), "{found}");
    assert_eq!(found["status"]["phase"], "Provisioning", "the embedded provider follows the contract v1beta2");
    server.until("there is a warning with the message", || {
        let events = server.kubectl.out(&["get", "events", "--field-selector", "type=Warning"]);
        events.contains("ProvisioningFailed") && events.contains("ask for more networks")
    });
    let older = server.kubectl.field(&format!("embeddedclusters.v1alpha1.{group}/poor"), ".status.failureReason");
    assert_eq!(older, "NoQuota", "clients of the contract v1beta1 see it");
    server.kubectl.out(&["delete", "cluster", "poor", "--timeout=60s"]);
}

//! Machines with bootstrap data of their user.

use serde_json::{Value, json};

use super::server::{TestServer, cluster};

/// A Machine without a MachineSet, whose bootstrap data is a Secret of its user.
fn own_machine(secret: &str, name: &str) -> [Value; 2] {
    let group = "infrastructure.topologist.dev";
    let labels = json!({"cluster.x-k8s.io/cluster-name": "demo"});
    let infrastructure = json!({"apiVersion": format!("{group}/v1beta1"), "kind": "EmbeddedMachine",
        "metadata": {"name": name, "labels": labels}, "spec": {}});
    let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "labels": labels},
        "spec": {"clusterName": "demo", "version": "v1.32.0", "bootstrap": {"dataSecretName": secret},
            "infrastructureRef": {"apiGroup": group, "kind": "EmbeddedMachine", "name": name}}});
    [infrastructure, machine]
}

#[test]
fn a_machine_starts_with_bootstrap_data_of_its_user() {
    // MA-3.1; the proposal of machine states: custom bootstrap data without a controller
    let server = TestServer::start(&[]);
    server.run_cluster(&cluster(1, &json!([]), &json!([])));
    server.kubectl.out(&["create", "secret", "generic", "own-data", "--from-literal=value=#!/bin/true"]);
    for object in &own_machine("own-data", "own") {
        server.kubectl.give(object, &["create"]);
    }
    server.wait("machine/own", "jsonpath={.status.phase}=Running");
    let events = server.kubectl.out(&[
        "get",
        "events",
        "--field-selector",
        "involvedObject.name=own,involvedObject.kind=Machine",
    ]);
    assert!(events.contains("Provisioning"), "{events}");
}

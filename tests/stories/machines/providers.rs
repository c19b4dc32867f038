//! Providers of others: bootstrap data without a controller, a controller that the story plays, and two providers in one Cluster.

use serde_json::{Value, json};

use super::ground::{Ground, cluster, deployment, name};

/// A Cluster of the class "hybrid" with one control plane machine and these MachineDeployments.
pub fn hybrid(deployments: &Value) -> Value {
    let mut demo = cluster(1, deployments, &json!([]));
    let topology = &mut demo["spec"]["topology"];
    (topology["classRef"]["name"], topology["version"]) = (json!("hybrid"), json!("v1.33.0"));
    demo
}

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
    let ground = Ground::start(&[]);
    ground.run_cluster(&cluster(1, &json!([]), &json!([])));
    ground.kubectl.out(&["create", "secret", "generic", "own-data", "--from-literal=value=#!/bin/true"]);
    for object in &own_machine("own-data", "own") {
        ground.kubectl.give(object, &["create"]);
    }
    ground.wait("machine/own", "jsonpath={.status.phase}=Running");
    let events = ground.kubectl.out(&[
        "get",
        "events",
        "--field-selector",
        "involvedObject.name=own,involvedObject.kind=Machine",
    ]);
    assert!(events.contains("Provisioning"), "{events}");
}

#[test]
fn a_controller_of_somebody_else_provides_the_machines_of_its_kind() {
    // CT-8, MA-3, DEC-54; the proposal of machine states: a controller of one's own tools
    let ground = Ground::start(&["--external-kinds", "VSphereMachine"]);
    let deployments =
        json!([{"class": "docker", "name": "d", "replicas": 1}, {"class": "vsphere", "name": "v", "replicas": 1}]);
    ground.kubectl.give(&hybrid(&deployments), &["create"]);
    ground.wait("cluster/demo", "jsonpath={.status.workers.readyReplicas}=1");
    let machines = ground.list("machines");
    let worker =
        |wanted: &str| format!("machine/{}", name(machines.iter().find(|one| deployment(one) == wanted).unwrap()));
    ground.wait(&worker("d"), "jsonpath={.status.phase}=Running");
    ground.wait(&worker("v"), "jsonpath={.status.phase}=Provisioning");
    let external = &ground.list("vspheremachines")[0];
    assert!(external["status"].is_null() && external["metadata"]["finalizers"].is_null(), "untouched: {external}");
    let external = format!("vspheremachine/{}", name(external));
    ground.merge(
        &external,
        &json!({"metadata": {"finalizers": ["story.example.com/mine"]}, "spec": {"providerID": "vsphere://42"}}),
    );
    let addresses = json!([{"type": "InternalIP", "address": "192.0.2.42"}]);
    ground.merge_status(&external, &json!({"addresses": addresses, "ready": true}));
    ground.wait(&worker("v"), "jsonpath={.status.phase}=Provisioned");
    assert_eq!(ground.kubectl.field(&worker("v"), ".spec.providerID"), "vsphere://42");
    assert_eq!(ground.kubectl.field(&worker("v"), ".status.addresses[0].address"), "192.0.2.42");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mine"}, "spec": {"providerID": "vsphere://42"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.33.0"}}});
    ground.workload("demo").give(&node, &["create"]);
    ground.wait(&worker("v"), "jsonpath={.status.phase}=Running");
    ground.kubectl.out(&["delete", &worker("v"), "--wait=false"]);
    let deleting = "jsonpath={.status.conditions[?(@.type==\"Deleting\")].reason}=WaitingForInfrastructureDeletion";
    ground.wait(&worker("v"), deleting);
    ground.merge(&external, &json!({"metadata": {"finalizers": null}}));
    ground.wait(&worker("v"), "delete");
}

#[test]
fn a_cluster_has_workers_of_two_providers_with_one_kind_of_bootstrap_data() {
    // the proposal: hybrid clusters; CT-3, CT-5.4
    let ground = Ground::start(&[]);
    let deployments =
        json!([{"class": "docker", "name": "d", "replicas": 2}, {"class": "vsphere", "name": "v", "replicas": 2}]);
    ground.run_cluster(&hybrid(&deployments));
    ground.wait("machines --all", "jsonpath={.status.phase}=Running");
    let count = |kind: &str| ground.list(kind).len();
    assert_eq!((count("dockermachines"), count("vspheremachines"), count("machines")), (3, 2, 5));
    assert_eq!(count("kubeadmconfigs"), 5);
    assert!(ground.list("vspheremachines").iter().all(|one| one["status"]["ready"] == true), "the older contract");
    assert!(ground.list("dockermachines").iter().all(|one| one["status"]["initialization"]["provisioned"] == true));
    assert_eq!(ground.workload("demo").out(&["get", "nodes", "-o", "name"]).lines().count(), 5);
}

//! Providers of others: bootstrap data without a controller, a controller that the story plays, and two providers in
//! one Cluster.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::foreseen::foreseen;
use super::server::{TestServer, cluster, deployment, name, workers};
use crate::harness::server::command;

/// A Cluster of the class "hybrid" with one control plane machine and these MachineDeployments.
pub fn hybrid(deployments: &Value) -> Value {
    let mut demo = cluster(1, deployments, &json!([]));
    let topology = &mut demo["spec"]["topology"];
    (topology["classRef"]["name"], topology["version"]) = (json!("hybrid"), json!("v1.33.0"));
    demo
}

#[test]
fn a_controller_of_somebody_else_provides_the_machines_of_its_kind() {
    // CT-1.7, CT-8, MA-3, DEC-54; the proposal of machine states: a controller of one's own tools
    let server = TestServer::start(&["--external-kinds", "VSphereMachine"]);
    let deployments =
        json!([{"class": "docker", "name": "d", "replicas": 1}, {"class": "vsphere", "name": "v", "replicas": 1}]);
    server.kubectl.give(&hybrid(&deployments), &["create"]);
    server.wait("cluster/demo", "jsonpath={.status.workers.readyReplicas}=1");
    let machines = server.list("machines");
    let worker =
        |wanted: &str| format!("machine/{}", name(machines.iter().find(|one| deployment(one) == wanted).unwrap()));
    server.wait(&worker("d"), "jsonpath={.status.phase}=Running");
    server.wait(&worker("v"), "jsonpath={.status.phase}=Provisioning");
    let external = &server.list("vspheremachines")[0];
    assert!(external["status"].is_null() && external["metadata"]["finalizers"].is_null(), "untouched: {external}");
    let external = format!("vspheremachine/{}", name(external));
    server.merge(
        &external,
        &json!({"metadata": {"finalizers": ["story.example.com/mine"]}, "spec": {"providerID": "vsphere://42"}}),
    );
    let addresses = json!([{"type": "InternalIP", "address": "192.0.2.42"}]);
    server.merge_status(&external, &json!({"addresses": addresses, "ready": true}));
    server.wait(&worker("v"), "jsonpath={.status.phase}=Provisioned");
    assert_eq!(server.kubectl.field(&worker("v"), ".spec.providerID"), "vsphere://42");
    assert_eq!(server.kubectl.field(&worker("v"), ".status.addresses[0].address"), "192.0.2.42");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mine"},
        "spec": {"providerID": "vsphere://42"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.33.0"}}});
    server.workload("demo").give(&node, &["create"]);
    server.wait(&worker("v"), "jsonpath={.status.phase}=Running");
    server.kubectl.out(&["delete", &worker("v"), "--wait=false"]);
    let deleting = "jsonpath={.status.conditions[?(@.type==\"Deleting\")].reason}=WaitingForInfrastructureDeletion";
    server.wait(&worker("v"), deleting);
    server.merge(&external, &json!({"metadata": {"finalizers": null}}));
    server.wait(&worker("v"), "delete");
}

#[test]
fn a_cluster_has_workers_of_two_providers_with_one_kind_of_bootstrap_data() {
    // the proposal: hybrid clusters; CT-3, CT-5.4
    let server = TestServer::start(&[]);
    let deployments =
        json!([{"class": "docker", "name": "d", "replicas": 2}, {"class": "vsphere", "name": "v", "replicas": 2}]);
    server.run_cluster(&hybrid(&deployments));
    server.wait("machines --all", "jsonpath={.status.phase}=Running");
    let count = |kind: &str| server.list(kind).len();
    assert_eq!((count("dockermachines"), count("vspheremachines"), count("machines")), (3, 2, 5));
    assert_eq!(count("kubeadmconfigs"), 5);
    assert!(server.list("vspheremachines").iter().all(|one| one["status"]["ready"] == true), "the older contract");
    assert!(server.list("dockermachines").iter().all(|one| one["status"]["initialization"]["provisioned"] == true));
    assert_eq!(server.workload("demo").out(&["get", "nodes", "-o", "name"]).lines().count(), 5);
}

#[test]
fn a_failure_under_the_older_contract_is_for_good() {
    // CT-5.5, MA-2.5, MA-3, DEC-6
    let server = TestServer::start(&["--external-kinds", "VSphereMachine,DockerCluster"]);
    server.kubectl.give(&hybrid(&json!([{"class": "vsphere", "name": "v", "replicas": 1}])), &["create"]);
    server.until("the infrastructure waits for its provider", || server.list("dockerclusters").len() == 1);
    let infrastructure = format!("dockercluster/{}", server.names("dockerclusters")[0]);
    server.wait(&infrastructure, "jsonpath={.metadata.ownerReferences[0].kind}=Cluster");
    let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}}});
    server.merge(&infrastructure, &endpoint);
    server.merge_status(&infrastructure, &json!({"initialization": {"provisioned": true}}));
    server.until("the worker has an infrastructure machine", || server.list("vspheremachines").len() == 1);
    let machine = format!("vspheremachine/{}", server.names("vspheremachines")[0]);
    let worker = server.list("machines").into_iter().find(|one| deployment(one) == "v").unwrap();
    let worker = format!("machine/{}", name(&worker));
    server.wait(&worker, "jsonpath={.status.phase}=Provisioning");
    server.merge_status(&machine, &json!({"failureReason": "InvalidConfiguration", "failureMessage": "no such image"}));
    server.wait(&worker, "jsonpath={.status.phase}=Failed");
    let deprecated = |field: &str| server.kubectl.field(&worker, &format!(".status.deprecated.v1beta1.{field}"));
    assert_eq!(deprecated("failureReason"), "InvalidConfiguration");
    assert!(deprecated("failureMessage").contains("no such image"), "{}", deprecated("failureMessage"));
    server.until("there is a warning", || {
        let events =
            server.kubectl.out(&["get", "events", "--field-selector", "type=Warning,involvedObject.kind=Machine"]);
        events.contains("no such image")
    });
    server.merge(&machine, &json!({"spec": {"providerID": "vsphere://1"}}));
    server.merge_status(&machine, &json!({"failureReason": null, "failureMessage": null, "ready": true}));
    server.wait(&worker, "condition=InfrastructureReady");
    assert_eq!(server.kubectl.field(&worker, ".status.phase"), "Failed", "for good");
    assert_eq!(deprecated("failureReason"), "InvalidConfiguration");
    server.kubectl.out(&["delete", "cluster", "demo", "--wait=false"]);
    server.until("a failed machine can be deleted", || server.list("machines").is_empty());
}

/// The objects of a kind in a version.
fn in_version(server: &TestServer, plural: &str, version: &str, group: &str) -> Vec<Value> {
    server.list(&format!("{plural}.{version}.{group}.topologist.dev"))
}

#[test]
fn a_class_that_names_the_older_contract_rolls_out_and_upgrades() {
    // CONV-017, CT-3.2, CT-3.11, CT-5.4, CT-5.10, CT-10.3
    let server = TestServer::start(&[]);
    let pools = json!([{"class": "pool", "name": "p", "replicas": 1}]);
    let mut demo = cluster(1, &json!([workers("a", 2)]), &pools);
    demo["spec"]["topology"]["classRef"]["name"] = json!("older");
    server.run_cluster(&demo);
    server.wait("machines --all", "jsonpath={.status.phase}=Running");
    server.wait("cluster/demo", "condition=TopologyReconciled");

    let old = |plural: &str, group: &str| in_version(&server, plural, "v1alpha1", group);
    let of = |plural: &str, group: &str| old(plural, group).pop().unwrap();
    for (plural, group) in [
        ("embeddedclusters", "infrastructure"),
        ("embeddedmachines", "infrastructure"),
        ("embeddedmachinepools", "infrastructure"),
        ("embeddedconfigs", "bootstrap"),
    ] {
        for object in old(plural, group) {
            let status = &object["status"];
            assert_eq!((&status["ready"], status.get("initialization")), (&json!(true), None), "{object}");
        }
        for object in in_version(&server, plural, "v1beta1", group) {
            let status = &object["status"];
            assert_eq!((status["initialization"].is_object(), status.get("ready")), (true, None), "{object}");
        }
    }
    let domains = json!({"a": {"controlPlane": true}, "b": {"controlPlane": false}});
    assert_eq!(of("embeddedclusters", "infrastructure")["status"]["failureDomains"], domains);
    let seen = server.kubectl.field("cluster/demo", ".status.failureDomains[*].name");
    assert_eq!(seen, "a b", "the Cluster has them as well");
    let control_plane = of("embeddedcontrolplanes", "controlplane");
    let template = &control_plane["spec"]["machineTemplate"];
    assert_eq!(
        template["infrastructureRef"]["apiVersion"], "infrastructure.topologist.dev/v1alpha1",
        "{control_plane}"
    );
    assert_eq!((&template["nodeDrainTimeout"], template.get("spec")), (&json!("90s"), None), "as it was written");
    let status = &control_plane["status"];
    let counters = ["readyReplicas", "unavailableReplicas", "updatedReplicas"].map(|name| &status[name]);
    assert_eq!(
        (&status["initialized"], &status["ready"], counters),
        (&json!(true), &json!(true), [&json!(1), &json!(0), &json!(1)])
    );

    let templates = || old("embeddedmachinetemplates", "infrastructure").len();
    let before = (templates(), server.list("machines").len());
    assert_eq!(foreseen(&server, None)["events"], json!([]), "nothing is left to do");
    server.edit_topology(&json!({"version": "v1.33.0"}));
    server.until("all machines have the new version", || {
        server.list("machines").iter().all(|machine| machine["spec"]["version"] == "v1.33.0")
    });
    server
        .wait("embeddedcontrolplanes.v1alpha1.controlplane.topologist.dev --all", "jsonpath={.status.version}=v1.33.0");
    server.wait("machinepools --all", "jsonpath={.status.upToDateReplicas}=1");
    server.wait("cluster/demo", "condition=TopologyReconciled");
    server.wait("machines --all", "jsonpath={.status.phase}=Running");
    assert_eq!((templates(), server.list("machines").len()), before, "no template was replaced");
    server.kubectl.out(&["delete", "cluster/demo", "--timeout=60s"]);
    assert_eq!(old("embeddedmachines", "infrastructure"), Vec::<Value>::new());
}

/// What `check-provider --live` prints until it ends, which it does by itself.
fn followed(server: &TestServer, wanted: &str, more: &[&str]) -> Child {
    let kubeconfig = server.kubeconfig.display().to_string();
    let mut command = command(&["check-provider", "--live", wanted, "--kubeconfig", &kubeconfig, "-o", "json"]);
    let mut child = command.args(more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It greets as soon as it watches.
    let mut message = BufReader::new(child.stderr.take().unwrap()).lines();
    while !message.next().expect("it ends before it follows").unwrap().contains("following") {}
    std::thread::spawn(move || message.for_each(drop));
    child
}

/// The exit code, the changes, and the totals.
fn ended(child: Child) -> (i32, Vec<Value>, Value) {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let totals = lines.pop().unwrap();
    (output.status.code().unwrap(), lines, totals)
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

#[test]
fn the_embedded_provider_breaks_no_rule_while_a_cluster_comes_and_goes() {
    let server = TestServer::start(&[]);
    let kinds = [
        "EmbeddedCluster",
        "EmbeddedMachine",
        "EmbeddedMachinePool",
        "embeddedconfigs",
        "embeddedcontrolplanes.controlplane.topologist.dev",
    ];
    let following = kinds.map(|kind| followed(&server, kind, &[]));
    let pools = json!([{"class": "pool", "name": "p", "replicas": 1}]);
    server.run_cluster(&cluster(1, &json!([workers("a", 1)]), &pools));
    server.edit_topology(&json!({"version": "v1.33.0"}));
    server.wait("embeddedcontrolplanes --all", "jsonpath={.status.version}=v1.33.0");
    server.kubectl.out(&["delete", "cluster/demo", "--timeout=60s"]);
    let mut kept = BTreeSet::new();
    for (kind, child) in kinds.into_iter().zip(following) {
        interrupt(&child);
        let (code, changes, totals) = ended(child);
        assert_eq!((code, &totals["broken"]), (0, &json!([])), "{kind}: {changes:#?}");
        assert!(changes.iter().any(|change| change["what"] == "gone"), "{kind}");
        kept.extend(totals["kept"].as_array().unwrap().iter().map(|rule| rule.as_str().unwrap().to_owned()));
    }
    for rule in [
        "CT-6.3", "CT-6.5", "CT-8.2", "CT-8.6", "CT-10.4", "CT-10.9", "CT-10.10", "CT-10.12", "CT-10.15", "CT-10.20",
        "CT-12.2", "CT-12.3", "CT-12.7", "CT-13.1", "CT-15.6", "CT-15.8", "CT-18.3",
    ] {
        assert!(kept.contains(rule), "{rule} was not seen: {kept:?}");
    }
}

#[test]
fn the_rules_that_a_provider_breaks_are_reported() {
    let server = TestServer::start(&["--external-kinds", "VSphereMachine"]);
    let deployments = json!([{"class": "vsphere", "name": "v", "replicas": 1}]);
    server.kubectl.give(&hybrid(&deployments), &["create"]);
    server.until("a machine of the other provider", || server.list("vspheremachines").len() == 1);
    let one = name(&server.list("vspheremachines")[0]);
    let (object, wanted) = (format!("vspheremachine/{one}"), format!("VSphereMachine/{one}"));
    let child = followed(&server, &wanted, &["--for", "2m"]);
    // The flag comes before the provider id and without a finalizer; then the id changes, and the flag goes.
    server.merge_status(&object, &json!({"ready": true}));
    server.merge(&object, &json!({"spec": {"providerID": "vsphere://1"}}));
    server.merge(&object, &json!({"spec": {"providerID": "vsphere://2"}}));
    server.merge_status(&object, &json!({"ready": false}));
    server.kubectl.out(&["delete", "cluster/demo", "--wait=false"]);
    let (code, changes, totals) = ended(child);
    assert_eq!(code, 1, "{changes:#?}");
    // Sorted by number. A rule that a machine can only break, such as CT-20.2, is never one that was not seen.
    assert_eq!(totals["broken"], json!(["CT-8.2", "CT-8.6", "CT-15.6", "CT-15.8"]));
    assert_eq!(totals["notSeen"], json!(["CT-6.7", "CT-8.3", "CT-15.12"]));
    let first = &changes[0];
    assert_eq!((&first["kind"], &first["object"]), (&json!("VSphereMachine"), &json!(format!("default/{one}"))));
    assert!(
        first["rules"].as_array().unwrap().iter().any(|rule| rule["rule"] == "CT-8.2" && rule["wayOut"].is_string())
    );
}

#[test]
fn kinds_that_cannot_be_followed_are_refused_with_those_that_can() {
    let server = TestServer::start(&[]);
    let kubeconfig = server.kubeconfig.display().to_string();
    for (wanted, why) in [
        ("Machine", "no provider has a kind \"Machine\"; there are"),
        ("EmbeddedMachineTemplate", "no provider has a kind \"EmbeddedMachineTemplate\"; there are"),
    ] {
        let output = command(&["check-provider", "--live", wanted, "--kubeconfig", &kubeconfig]).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{wanted}: {message}");
        assert!(message.contains(why), "{wanted}: {message}");
    }
}

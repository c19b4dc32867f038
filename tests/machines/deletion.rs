//! Clusters and Machines go, from wherever they are, in the order that nothing is left behind by.

use std::time::Duration;

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

use super::server::{PARTS, TestServer, cluster, is_control_plane, name, workers};

#[test]
fn a_hook_holds_the_deletion_of_a_machine_until_it_is_removed() {
    // MA-9.1, MA-9.2
    let server = TestServer::start(&[]);
    server.run_cluster(&cluster(1, &json!([workers("a", 1)]), &json!([])));
    let worker = server.list("machines").into_iter().find(|machine| !is_control_plane(machine)).unwrap();
    let (worker, node) = (format!("machine/{}", name(&worker)), worker["status"]["nodeRef"]["name"].clone());
    let hook = "pre-drain.delete.hook.machine.cluster.x-k8s.io/keep";
    server.kubectl.out(&["annotate", &worker, &format!("{hook}=me")]);
    server.kubectl.out(&["delete", &worker, "--wait=false"]);
    let reason = "jsonpath={.status.conditions[?(@.type==\"Deleting\")].reason}=WaitingForPreDrainHook";
    server.wait(&worker, reason);
    let workload = server.workload("demo");
    let unschedulable = workload.field(&format!("node/{}", node.as_str().unwrap()), ".spec.unschedulable");
    assert_eq!(unschedulable, "", "it is not drained yet");
    server.kubectl.out(&["annotate", &worker, &format!("{hook}-")]);
    server.wait(&worker, "delete");
    server
        .until("its Node is gone", || !workload.out(&["get", "nodes", "-o", "name"]).contains(node.as_str().unwrap()));
}

/// Deletes the Cluster, and waits until nothing is left but what was there before it.
#[track_caller]
fn delete(server: &TestServer, before: &[String]) {
    server.kubectl.out(&["delete", "cluster", "demo", "--timeout=30s"]);
    server.until("nothing is left", || contents(server) == before);
}

/// The names of all objects that a Cluster may have, templates and Secrets too.
fn contents(server: &TestServer) -> Vec<String> {
    let templates = "embeddedclustertemplates,embeddedcontrolplanetemplates,embeddedmachinetemplates,\
        embeddedmachinepooltemplates,embeddedconfigtemplates,secrets,configmaps";
    let names = server.kubectl.out(&["get", &format!("{PARTS},{templates}"), "-o", "name"]);
    names.lines().map(str::to_owned).collect()
}

#[test]
fn a_cluster_without_its_class_goes() {
    // MA-27.1, MA-27.8, MA-27.16
    let server = TestServer::start(&[]);
    let before = contents(&server);
    let mut demo = cluster(1, &json!([]), &json!([]));
    demo["spec"]["topology"]["classRef"]["name"] = json!("absent");
    server.kubectl.give(&demo, &["create"]);
    server.wait("cluster/demo", "condition=TopologyReconciled=False");
    delete(&server, &before);
}

#[test]
fn a_cluster_goes_while_it_is_made_and_nothing_is_left() {
    // MA-27.15, MA-27.16
    let is_waiting = |part: &str| format!("jsonpath={{.status.phase}}={part}");
    for (slow, object, state) in [
        ("cluster", "cluster/demo", is_waiting("Provisioning")),
        ("bootstrap", "machines --all", is_waiting("Pending")),
        ("infrastructure", "machines --all", is_waiting("Provisioning")),
        ("node", "machines --all", is_waiting("Provisioned")),
        ("apiServer", "cluster/demo", is_waiting("Provisioned")),
    ] {
        let server = TestServer::start_with(&json!({slow: "1h"}), &[]);
        let before = contents(&server);
        server.kubectl.give(&cluster(1, &json!([workers("a", 1)]), &json!([])), &["create"]);
        if object.starts_with("machines") {
            server.until(slow, || !server.names("machines").is_empty());
        }
        server.wait(object, &state);
        delete(&server, &before);
    }
}

#[tokio::test]
async fn clusters_that_are_deleted_at_once_leave_nothing() {
    // MA-1.8, MA-27.15
    let server = TestServer::start(&[]);
    let before = contents(&server);
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster"));
    let clusters: Api<DynamicObject> = Api::namespaced_with(server.client().await, "default", &kind);
    let goes = async |number: u64| {
        let name = format!("brief-{number}");
        let mut brief = cluster(1, &json!([workers("a", 1)]), &json!([{"class": "pool", "name": "p", "replicas": 1}]));
        brief["metadata"]["name"] = json!(name);
        clusters.create(&PostParams::default(), &serde_json::from_value(brief).unwrap()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(number * number / 4)).await;
        clusters.delete(&name, &DeleteParams::default()).await.unwrap();
    };
    futures::future::join_all((0..40).map(goes)).await;
    server.until("nothing is left", || contents(&server) == before);
}

#[test]
fn a_cluster_goes_in_the_middle_of_an_upgrade_a_repair_or_a_failure() {
    // MA-27.15, MA-27.16
    let server = TestServer::start_with(&json!({"node": "500ms"}), &[]);
    let before = contents(&server);
    let pools = json!([{"class": "pool", "name": "p", "replicas": 1}]);
    let demo = || cluster(1, &json!([workers("a", 3)]), &pools);
    let machines = |is: fn(&Value) -> bool| server.list("machines").iter().filter(|machine| is(machine)).count();
    server.run_cluster(&demo());
    server.edit_topology(&json!({"version": "v1.33.0"}));
    server.until("the upgrade has begun", || machines(|machine| machine["spec"]["version"] == "v1.33.0") > 0);
    delete(&server, &before);

    server.run_cluster(&demo());
    let broken = server.list("machines").into_iter().find(|machine| !is_control_plane(machine)).unwrap();
    let broken = format!("machine/{}", name(&broken));
    server.kubectl.out(&["annotate", &broken, "cluster.x-k8s.io/remediate-machine="]);
    server.until("the repair has begun", || machines(|one| !one["metadata"]["deletionTimestamp"].is_null()) > 0);
    delete(&server, &before);
}

#[test]
fn a_worker_goes_from_each_phase_and_another_one_comes() {
    // MA-9.1, MA-9.3; the second Machine of each Cluster stays in a phase
    let failures = json!([{"cluster": "a", "machine": 2, "what": "bootstrap"},
        {"cluster": "b", "machine": 2, "what": "infrastructure"}, {"cluster": "c", "machine": 2, "what": "node"}]);
    let server = TestServer::start_with(&json!({"failures": failures}), &[]);
    let before = contents(&server);
    let worker = |called: &str| {
        let of_cluster = |one: &Value| one["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == *called;
        server.list("machines").into_iter().find(|one| of_cluster(one) && !is_control_plane(one))
    };
    let phases = [("a", "Pending"), ("b", "Provisioning"), ("c", "Provisioned"), ("d", "Running")];
    for (called, _) in phases {
        let mut demo = cluster(1, &json!([workers("w", 1)]), &json!([]));
        demo["metadata"]["name"] = json!(called);
        server.kubectl.give(&demo, &["create"]);
    }
    for (called, phase) in phases {
        server.wait(&format!("cluster/{called}"), "jsonpath={.status.controlPlane.readyReplicas}=1");
        server.until(&format!("the worker of {called} is {phase}"), || {
            worker(called).is_some_and(|one| one["status"]["phase"] == phase)
        });
        let old = name(&worker(called).unwrap());
        // A Machine that goes before it is numbered leaves its number, and the failure, to the next one.
        server.until(&format!("{old} is numbered"), || {
            let demo = server.object(&format!("cluster/{called}"));
            let numbered = &demo["metadata"]["annotations"]["lifecycle.topologist.dev/numbered-machines"];
            numbered.as_str().is_some_and(|names| names.split(',').any(|name| name == old))
        });
        server.kubectl.out(&["delete", "machine", &old, "--timeout=60s"]);
        server.until("another one runs", || {
            worker(called).is_some_and(|one| one["status"]["phase"] == "Running" && name(&one) != old)
        });
    }
    server.kubectl.out(&["delete", "clusters", "--all", "--timeout=60s"]);
    server.until("nothing is left", || contents(&server) == before);
}

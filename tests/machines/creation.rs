//! From apply to Running, and what people see on the way; more machines, and fewer.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::server::{PARTS, TestServer, cluster, deployment, name, workers};

#[test]
fn an_applied_cluster_has_running_machines_and_nodes_and_shows_each_step() {
    // MA-1, MA-2.5, MA-3, CT-19, DEC-6, DEC-7, DEC-54
    // Each part takes long enough for a busy machine to see what is before it: a phase can be left out otherwise.
    let server =
        TestServer::start_with(&json!({"bootstrap": "500ms", "infrastructure": "500ms", "node": "500ms"}), &[]);
    let pool = json!([{"class": "pool", "name": "p", "replicas": 2}]);
    server.run_cluster(&cluster(3, &json!([workers("a", 2)]), &pool));
    server.wait("machines --all", "jsonpath={.status.phase}=Running");
    let machines = server.list("machines");
    assert_eq!(machines.len(), 5);
    let nodes = server.workload("demo").out(&["get", "nodes", "-o", "name"]);
    assert_eq!(nodes.lines().count(), 7, "{nodes}");
    let system = ["get", "deployments,daemonsets,configmaps", "-n", "kube-system", "-o", "name"];
    let system = server.workload("demo").out(&system);
    let want = ["deployment.apps/coredns", "daemonset.apps/kube-proxy", "configmap/kubeadm-config"];
    assert_eq!(system.lines().collect::<Vec<_>>(), want, "CT-19.6");
    for machine in &machines {
        let node = machine["status"]["nodeRef"]["name"].as_str().unwrap();
        assert!(nodes.contains(&format!("node/{node}\n")), "{node}: {nodes}");
    }
    let control_plane = &server.list("embeddedcontrolplanes")[0];
    assert_eq!(control_plane["status"]["version"], "v1.32.0");
    let table = server.kubectl.out(&["get", "machines", "-o", "wide"]);
    let header: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert!(header.contains(&"BOOTSTRAP") && header.contains(&"INFRASTRUCTURE"), "{table}");
    server.until("each transition of the five Machines is an event", || {
        let reasons = server.event_reasons("Machine");
        let count = |wanted: &str| reasons.iter().filter(|reason| *reason == wanted).count();
        ["Pending", "Provisioning", "Provisioned", "Running"].into_iter().all(|phase| count(phase) == 5)
    });
    server.until("the metric counts the Machines", || {
        server.topologist.metric("topologist_machines{phase=\"Running\"}") == Some(5.0)
    });
}

/// The kinds of the owners of an object.
fn owners(object: &Value) -> BTreeSet<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.map(|owner| owner["kind"].as_str().unwrap()).collect()
}

#[test]
fn everything_of_a_cluster_has_an_owner_with_which_it_goes() {
    // CT-15.1, CT-15.3, CT-15.4, CT-15.5
    let server = TestServer::start(&[]);
    let pool = json!([{"class": "pool", "name": "p", "replicas": 1}]);
    server.run_cluster(&cluster(1, &json!([workers("a", 1)]), &pool));
    let is_of_cluster = |object: &&Value| !object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"].is_null();
    let check = |kind: &str, allowed: &[&str]| {
        let all = server.list(kind);
        let all: Vec<&Value> = all.iter().filter(is_of_cluster).collect();
        assert!(!all.is_empty(), "{kind}");
        for object in all {
            let found = owners(object);
            assert_eq!(found.len(), 1, "{kind} {}: {found:?}", name(object));
            assert!(found.iter().all(|owner| allowed.contains(owner)), "{kind} {}: {found:?}", name(object));
        }
    };
    for kind in ["machinedeployments", "machinepools", "embeddedmachinetemplates"] {
        check(kind, &["Cluster"]);
    }
    check("machinesets", &["MachineDeployment"]);
    check("machines", &["MachineSet", "EmbeddedControlPlane"]);
    check("embeddedmachines", &["Machine"]);
    check("secrets", &["EmbeddedConfig", "EmbeddedControlPlane", "Cluster"]);
    for kind in ["embeddedclusters", "embeddedcontrolplanes"] {
        assert!(server.list(kind).iter().all(|object| owners(object).contains("Cluster")), "{kind}");
    }
}

#[test]
fn a_machine_that_waits_shows_for_what() {
    // DEC-7, MA-3; the proposal of machine states: progress and errors are visible
    let server = TestServer::start_with(&json!({"failures": [{"what": "bootstrap"}]}), &[]);
    server.kubectl.give(&cluster(1, &json!([workers("a", 1)]), &json!([])), &["create"]);
    server.until("a machine waits", || server.list("machines").len() == 1);
    server.wait("machines --all", "jsonpath={.status.phase}=Pending");
    let reason = |machine: &str| {
        let path = "jsonpath={.status.conditions[?(@.type==\"BootstrapConfigReady\")].reason}";
        server.kubectl.out(&["get", "machine", machine, "-o", path])
    };
    for machine in server.names("machines") {
        server.until("the reason is in the wide table", || {
            let why = reason(&machine);
            let table = server.kubectl.out(&["get", "machine", &machine, "-o", "wide", "--no-headers"]);
            !why.is_empty() && table.contains(&why)
        });
    }
    assert!(server.topologist.metric("topologist_machines{phase=\"Running\"}").unwrap_or_default() < 1.0);
}

#[test]
fn more_machines_come_and_the_marked_one_goes_first() {
    // MA-22
    let server = TestServer::start(&[]);
    server.run_cluster(&cluster(1, &json!([workers("a", 1)]), &json!([])));
    let scale = |replicas: usize| {
        server.edit_topology(&json!({"workers": {"machineDeployments": [workers("a", replicas)]}}));
        server.wait("cluster/demo", &format!("jsonpath={{.status.workers.replicas}}={replicas}"));
        server.wait("cluster/demo", &format!("jsonpath={{.status.workers.readyReplicas}}={replicas}"));
    };
    let names = || -> Vec<String> {
        let mut names: Vec<String> =
            server.list("machines").iter().filter(|machine| deployment(machine) == "a").map(name).collect();
        names.sort();
        names
    };
    scale(3);
    server.until("three machines", || names().len() == 3);
    // The last and then the first by name: no order of names makes both go.
    for (left, take) in [(2, Vec::pop as fn(&mut Vec<String>) -> Option<String>), (1, |all| Some(all.remove(0)))] {
        let mut keep = names();
        let marked = take(&mut keep).unwrap();
        server.kubectl.out(&["annotate", "machine", &marked, "cluster.x-k8s.io/delete-machine=yes"]);
        scale(left);
        server.until("one machine less", || names() == keep);
    }
    let nodes = server.workload("demo");
    server.until("the Nodes are gone too", || nodes.out(&["get", "nodes", "-o", "name"]).lines().count() == 2);
}

#[test]
fn a_control_plane_grows_and_shrinks() {
    // CT-10
    let server = TestServer::start(&[]);
    server.run_cluster(&cluster(1, &json!([]), &json!([])));
    for replicas in [3, 1] {
        server.edit_topology(&json!({"controlPlane": {"replicas": replicas}}));
        server.wait("cluster/demo", &format!("jsonpath={{.status.controlPlane.readyReplicas}}={replicas}"));
        server.until("as many machines", || server.list("machines").len() == replicas);
    }
    server.kubectl.out(&["delete", "cluster", "demo", "--timeout=60s"]);
    server.until("nothing is left", || server.kubectl.out(&["get", PARTS, "-o", "name"]).is_empty());
}

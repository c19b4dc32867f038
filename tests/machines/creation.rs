//! From apply to Running, and what people see on the way; more machines, and fewer.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::ground::{Ground, PARTS, cluster, deployment, name, workers};

#[test]
fn an_applied_cluster_has_running_machines_and_nodes_and_shows_each_step() {
    // MA-1, MA-2.5, MA-3, CT-19, DEC-6, DEC-7, DEC-54
    // Each part takes long enough for a busy machine to see what is before it: a phase can be left out otherwise.
    let ground = Ground::start_with(&json!({"bootstrap": "500ms", "infrastructure": "500ms", "node": "500ms"}), &[]);
    let pool = json!([{"class": "pool", "name": "p", "replicas": 2}]);
    ground.run_cluster(&cluster(3, &json!([workers("a", 2)]), &pool));
    ground.wait("machines --all", "jsonpath={.status.phase}=Running");
    let machines = ground.list("machines");
    assert_eq!(machines.len(), 5);
    let nodes = ground.workload("demo").out(&["get", "nodes", "-o", "name"]);
    assert_eq!(nodes.lines().count(), 7, "{nodes}");
    let system = ["get", "deployments,daemonsets,configmaps", "-n", "kube-system", "-o", "name"];
    let system = ground.workload("demo").out(&system);
    let want = ["deployment.apps/coredns", "daemonset.apps/kube-proxy", "configmap/kubeadm-config"];
    assert_eq!(system.lines().collect::<Vec<_>>(), want, "CT-19.6");
    for machine in &machines {
        let node = machine["status"]["nodeRef"]["name"].as_str().unwrap();
        assert!(nodes.contains(&format!("node/{node}\n")), "{node}: {nodes}");
    }
    let control_plane = &ground.list("embeddedcontrolplanes")[0];
    assert_eq!(control_plane["status"]["version"], "v1.32.0");
    let table = ground.kubectl.out(&["get", "machines", "-o", "wide"]);
    let header: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert!(header.contains(&"BOOTSTRAP") && header.contains(&"INFRASTRUCTURE"), "{table}");
    ground.until("each transition of the five Machines is an event", || {
        let reasons = ground.event_reasons("Machine");
        let count = |wanted: &str| reasons.iter().filter(|reason| *reason == wanted).count();
        ["Pending", "Provisioning", "Provisioned", "Running"].into_iter().all(|phase| count(phase) == 5)
    });
    ground.until("the metric counts the Machines", || {
        ground.topologist.metric("topologist_machines{phase=\"Running\"}") == Some(5.0)
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
    let ground = Ground::start(&[]);
    let pool = json!([{"class": "pool", "name": "p", "replicas": 1}]);
    ground.run_cluster(&cluster(1, &json!([workers("a", 1)]), &pool));
    let is_of_cluster = |object: &&Value| !object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"].is_null();
    let check = |kind: &str, allowed: &[&str]| {
        let all = ground.list(kind);
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
        assert!(ground.list(kind).iter().all(|object| owners(object).contains("Cluster")), "{kind}");
    }
}

#[test]
fn a_machine_that_waits_shows_for_what() {
    // DEC-7, MA-3; the proposal of machine states: progress and errors are visible
    let ground = Ground::start_with(&json!({"failures": [{"what": "bootstrap"}]}), &[]);
    ground.kubectl.give(&cluster(1, &json!([workers("a", 1)]), &json!([])), &["create"]);
    ground.until("a machine waits", || ground.list("machines").len() == 1);
    ground.wait("machines --all", "jsonpath={.status.phase}=Pending");
    let reason = |machine: &str| {
        let path = "jsonpath={.status.conditions[?(@.type==\"BootstrapConfigReady\")].reason}";
        ground.kubectl.out(&["get", "machine", machine, "-o", path])
    };
    for machine in ground.names("machines") {
        ground.until("the reason is in the wide table", || {
            let why = reason(&machine);
            let table = ground.kubectl.out(&["get", "machine", &machine, "-o", "wide", "--no-headers"]);
            !why.is_empty() && table.contains(&why)
        });
    }
    assert!(ground.topologist.metric("topologist_machines{phase=\"Running\"}").unwrap_or_default() < 1.0);
}

#[test]
fn more_machines_come_and_the_marked_one_goes_first() {
    // MA-22
    let ground = Ground::start(&[]);
    ground.run_cluster(&cluster(1, &json!([workers("a", 1)]), &json!([])));
    let scale = |replicas: usize| {
        ground.edit_topology(&json!({"workers": {"machineDeployments": [workers("a", replicas)]}}));
        ground.wait("cluster/demo", &format!("jsonpath={{.status.workers.replicas}}={replicas}"));
        ground.wait("cluster/demo", &format!("jsonpath={{.status.workers.readyReplicas}}={replicas}"));
    };
    let names = || -> Vec<String> {
        let mut names: Vec<String> =
            ground.list("machines").iter().filter(|machine| deployment(machine) == "a").map(name).collect();
        names.sort();
        names
    };
    scale(3);
    ground.until("three machines", || names().len() == 3);
    // The last and then the first by name: no order of names makes both go.
    for (left, take) in [(2, Vec::pop as fn(&mut Vec<String>) -> Option<String>), (1, |all| Some(all.remove(0)))] {
        let mut keep = names();
        let marked = take(&mut keep).unwrap();
        ground.kubectl.out(&["annotate", "machine", &marked, "cluster.x-k8s.io/delete-machine=yes"]);
        scale(left);
        ground.until("one machine less", || names() == keep);
    }
    let nodes = ground.workload("demo");
    ground.until("the Nodes are gone too", || nodes.out(&["get", "nodes", "-o", "name"]).lines().count() == 2);
}

#[test]
fn a_control_plane_grows_and_shrinks() {
    // CT-10
    let ground = Ground::start(&[]);
    ground.run_cluster(&cluster(1, &json!([]), &json!([])));
    for replicas in [3, 1] {
        ground.edit_topology(&json!({"controlPlane": {"replicas": replicas}}));
        ground.wait("cluster/demo", &format!("jsonpath={{.status.controlPlane.readyReplicas}}={replicas}"));
        ground.until("as many machines", || ground.list("machines").len() == replicas);
    }
    ground.kubectl.out(&["delete", "cluster", "demo", "--timeout=60s"]);
    ground.until("nothing is left", || ground.kubectl.out(&["get", PARTS, "-o", "name"]).is_empty());
}

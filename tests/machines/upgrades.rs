//! New versions: the control plane first, workers in their order, and over more than one minor.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::server::{TestServer, cluster, condition, deployment, is_control_plane, name, version, workers};

#[test]
fn an_upgrade_over_two_minors_visits_the_one_between() {
    // UP-11, ROLL-1
    let server = TestServer::start(&[]);
    server.run_cluster(&cluster(1, &json!([workers("a", 1)]), &json!([])));
    let machines = server.history("machines");
    server.edit_topology(&json!({"version": "v1.34.0"}));
    server.until("all machines have the last version", || {
        server.list("machines").iter().all(|machine| version(machine) == "v1.34.0")
    });
    server.wait("embeddedcontrolplanes --all", "jsonpath={.status.version}=v1.34.0");
    server.wait("cluster/demo", "condition=TopologyReconciled");
    let added = |of_control_plane: bool| -> Vec<String> {
        let events = machines.events();
        let added =
            events.iter().filter(|(kind, machine)| kind == "ADDED" && is_control_plane(machine) == of_control_plane);
        added.map(|(_, machine)| version(machine).to_owned()).collect()
    };
    assert_eq!(added(true), ["v1.32.0", "v1.33.0", "v1.34.0"]);
    let workers = added(false);
    assert_eq!((workers.first().unwrap().as_str(), workers.last().unwrap().as_str()), ("v1.32.0", "v1.34.0"));
    assert!(workers.is_sorted(), "{workers:?}");
}

#[test]
fn a_machine_pool_grows_and_gets_a_new_version() {
    // MA-30.3
    let server = TestServer::start(&[]);
    let pool = |replicas: usize| json!([{"class": "pool", "name": "p", "replicas": replicas}]);
    server.run_cluster(&cluster(1, &json!([]), &pool(2)));
    let workload = server.workload("demo");
    let nodes = || {
        let list: Value = serde_json::from_str(&workload.out(&["get", "nodes", "-o", "json"])).unwrap();
        list["items"].as_array().unwrap().clone()
    };
    server.edit_topology(&json!({"workers": {"machinePools": pool(4)}}));
    server.wait("machinepools --all", "jsonpath={.status.readyReplicas}=4");
    assert_eq!(nodes().len(), 5);
    server.edit_topology(&json!({"workers": {"machinePools": pool(3)}}));
    server.wait("machinepools --all", "jsonpath={.status.replicas}=3");
    server.until("a Node less", || nodes().len() == 4);
    let before: Vec<String> = nodes().iter().map(name).collect();
    server.edit_topology(&json!({"version": "v1.33.0"}));
    let is_new = |node: &Value| node["status"]["nodeInfo"]["kubeletVersion"] == "v1.33.0";
    server.until("all Nodes are new", || nodes().len() == 4 && nodes().iter().all(is_new));
    assert!(nodes().iter().all(|node| !before.contains(&name(node))), "instances are replaced");
    server.wait("machinepools --all", "jsonpath={.status.upToDateReplicas}=3");
    server.wait("cluster/demo", "condition=TopologyReconciled");
    assert_eq!(server.list("machines").len(), 1, "a pool has no Machines");
}

const HOLD: &str = "topology.cluster.x-k8s.io/hold-upgrade-sequence";
const DEFER: &str = "topology.cluster.x-k8s.io/defer-upgrade";

/// How many MachineDeployments were rolling, at most, whenever one of them got its new version: one rolls while it has
/// a Machine of an older version. The resource versions of all kinds are one sequence.
fn most_at_a_time(mut events: Vec<(String, Value)>, to: &str) -> usize {
    let at = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    events.sort_by_key(|(_, object)| at(object));
    let (mut older, mut begun, mut most) = (BTreeMap::<String, BTreeSet<String>>::new(), BTreeSet::new(), 0);
    for (event, object) in events.iter().filter(|(_, object)| !is_control_plane(object)) {
        let set = deployment(object).to_owned();
        if object["kind"] == "Machine" {
            let of_set = older.entry(set).or_default();
            if event == "DELETED" || version(object) == to {
                of_set.remove(&name(object));
            } else {
                of_set.insert(name(object));
            }
        } else if version(object) == to && begun.insert(set) {
            most = most.max(begun.iter().filter(|set| older.get(*set).is_some_and(|old| !old.is_empty())).count());
        }
    }
    most
}

#[test]
fn workers_are_upgraded_so_many_at_a_time_and_those_that_are_held_or_deferred_wait() {
    // UP-05, UP-34, UP-36, ST-10
    let server = TestServer::start_with(&json!({"node": "300ms"}), &[]);
    let marked = |name: &str, annotation: &str| {
        let mut set = workers(name, 1);
        set["metadata"]["annotations"][annotation] = json!("true");
        set
    };
    let sets = |a: Value, d: Value| json!([a, workers("b", 1), workers("c", 1), d, workers("e", 1)]);
    let mut demo = cluster(1, &sets(marked("a", DEFER), marked("d", HOLD)), &json!([]));
    demo["metadata"]["annotations"] = json!({"topology.cluster.x-k8s.io/upgrade-concurrency": "2"});
    server.run_cluster(&demo);
    let (deployments, machines) = (server.history("machinedeployments"), server.history("machines"));
    server.edit_topology(&json!({"version": "v1.33.0"}));
    let versions = || -> Vec<String> {
        let machines = server.list("machines");
        let workers = machines.iter().filter(|machine| !is_control_plane(machine));
        let all: BTreeSet<_> = workers.map(|one| format!("{} {}", deployment(one), version(one))).collect();
        all.into_iter().collect()
    };
    let until = |what: &str, want: [&str; 5]| server.until_within(Duration::from_mins(2), what, || versions() == want);
    let reason = || condition(&server.list("clusters")[0], "TopologyReconciled");
    until("only b and c", ["a v1.32.0", "b v1.33.0", "c v1.33.0", "d v1.32.0", "e v1.32.0"]);
    server.until("the Cluster waits", || {
        reason() == ("False".to_owned(), "MachineDeploymentsUpgradeDeferred".to_owned())
    });
    server.edit_topology(&json!({"workers": {"machineDeployments": sets(marked("a", DEFER), workers("d", 1))}}));
    until("all but a", ["a v1.32.0", "b v1.33.0", "c v1.33.0", "d v1.33.0", "e v1.33.0"]);
    assert_eq!(reason().0, "False");
    server.edit_topology(&json!({"workers": {"machineDeployments": sets(workers("a", 1), workers("d", 1))}}));
    until("all", ["a v1.33.0", "b v1.33.0", "c v1.33.0", "d v1.33.0", "e v1.33.0"]);
    server.wait("cluster/demo", "condition=TopologyReconciled");
    let events = [deployments.events(), machines.events()].concat();
    assert_eq!(most_at_a_time(events, "v1.33.0"), 2);
}

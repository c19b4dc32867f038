//! A change that machines need to be replaced for, and machines that are replaced because they are not healthy.

use serde_json::{Value, json};

use super::server::{TestServer, cluster, condition, deployment, name, workers};

/// The sorted names of the Machines of a MachineDeployment of the topology.
fn machines_of(server: &TestServer, wanted: &str) -> Vec<String> {
    let machines = server.list("machines");
    let mut names: Vec<String> = machines.iter().filter(|machine| deployment(machine) == wanted).map(name).collect();
    names.sort();
    names
}

/// Gives the variable another value.
fn greet(server: &TestServer, motd: &str) {
    server.edit_topology(&json!({"variables": [{"name": "motd", "value": motd}]}));
}

#[test]
fn a_changed_variable_replaces_machines_within_the_limits_of_their_deployment() {
    // ROLL-1, MA-21.1, MA-22
    let server = TestServer::start(&[]);
    let mut shrinking = workers("shrinks", 3);
    let limits = json!({"maxSurge": 0, "maxUnavailable": 1});
    shrinking["rollout"] = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": limits}});
    server.run_cluster(&cluster(1, &json!([workers("grows", 3), shrinking]), &json!([])));
    server.wait("machinedeployments --all", "jsonpath={.status.availableReplicas}=3");
    let before = [machines_of(&server, "grows"), machines_of(&server, "shrinks")].concat();
    let bootstrap = "jsonpath={.items[*].spec.template.spec.bootstrap.configRef.name}";
    let templates = server.kubectl.out(&["get", "machinedeployments", "-o", bootstrap]);
    let history = server.history("machinedeployments");
    greet(&server, "be careful");
    server.until("all machines of both deployments are others", || {
        let after = [machines_of(&server, "grows"), machines_of(&server, "shrinks")].concat();
        after.len() == 6 && after.iter().all(|name| !before.contains(name))
    });
    server.wait("machinedeployments --all", "jsonpath={.status.availableReplicas}=3");
    server.wait("machinedeployments --all", "jsonpath={.status.upToDateReplicas}=3");
    let after = server.kubectl.out(&["get", "machinedeployments", "-o", bootstrap]);
    assert!(templates.split(' ').all(|name| !after.contains(name)), "{templates} {after}");
    let counts = |wanted: &str, field: &str| -> Vec<u64> {
        let objects = history.objects().into_iter().filter(|one| deployment(one) == wanted);
        objects.filter_map(|one| one["status"][field].as_u64()).collect()
    };
    let extremes = |wanted: &str| {
        (counts(wanted, "availableReplicas").into_iter().min(), counts(wanted, "replicas").into_iter().max())
    };
    assert_eq!(extremes("grows"), (Some(3), Some(4)), "at least three available, at most four at all");
    assert_eq!(extremes("shrinks"), (Some(2), Some(3)), "at least two available, at most three at all");
}

#[test]
fn machines_of_a_deployment_that_rolls_on_deletion_wait_for_it() {
    // MA-21.1
    let server = TestServer::start(&[]);
    let mut entry = workers("a", 2);
    entry["rollout"] = json!({"strategy": {"type": "OnDelete"}});
    server.run_cluster(&cluster(1, &json!([entry]), &json!([])));
    let before = machines_of(&server, "a");
    greet(&server, "be careful");
    server.wait("machinedeployments --all", "jsonpath={.status.upToDateReplicas}=0");
    server.wait("machines -l topology.cluster.x-k8s.io/deployment-name=a", "condition=UpToDate=false");
    assert_eq!(machines_of(&server, "a"), before, "nothing is replaced yet");
    server.kubectl.out(&["delete", "machine", &before[0], "--timeout=60s"]);
    server.wait("machinedeployments --all", "jsonpath={.status.upToDateReplicas}=1");
    server.wait("machinedeployments --all", "jsonpath={.status.readyReplicas}=2");
    let after = machines_of(&server, "a");
    assert!(after.len() == 2 && after.contains(&before[1]) && !after.contains(&before[0]), "{before:?} {after:?}");
    let messages = server.kubectl.out(&[
        "get",
        "machine",
        &before[1],
        "-o",
        "jsonpath={.status.conditions[?(@.type==\"UpToDate\")].status}",
    ]);
    assert_eq!(messages, "False");
}

#[test]
fn a_machine_with_a_broken_node_is_replaced_unless_too_many_are_broken() {
    // MA-14, MA-15, MA-26; workers are replaced while at most 40% of them are broken
    let server = TestServer::start(&[]);
    server.run_cluster(&cluster(1, &json!([workers("three", 3), workers("two", 2)]), &json!([])));
    server.wait("machinehealthchecks --all", "condition=RemediationAllowed");
    let workload = server.workload("demo");
    let turn = |machine: &str, ready: bool| {
        let status = if ready { "True" } else { "False" };
        let conditions = json!([{"type": "Ready", "status": status, "reason": "Story",
            "lastTransitionTime": "2020-01-01T00:00:00Z"}]);
        let node = server.kubectl.field(&format!("machine/{machine}"), ".status.nodeRef.name");
        let patch = json!({"status": {"conditions": conditions}}).to_string();
        workload.out(&["patch", "node", &node, "--subresource=status", "--type=merge", "-p", &patch]);
    };
    let (three, two) = (machines_of(&server, "three"), machines_of(&server, "two"));
    turn(&two[0], false);
    let held = format!("machine/{}", two[0]);
    server.wait(&held, "condition=HealthCheckSucceeded=false");
    let checks = || -> Vec<Value> { server.list("machinehealthchecks") };
    server.until("one health check replaces nothing", || {
        checks().iter().filter(|check| condition(check, "RemediationAllowed").0 == "False").count() == 1
    });
    turn(&three[0], false);
    server.wait(&format!("machine/{}", three[0]), "delete");
    server.until("there is another machine", || machines_of(&server, "three").len() == 3);
    let after = machines_of(&server, "three");
    assert!(three[1..].iter().all(|name| after.contains(name)), "the others stay: {three:?} {after:?}");
    assert_eq!(machines_of(&server, "two"), two, "half of the machines is too many");
    turn(&two[0], true);
    server.wait(&held, "condition=HealthCheckSucceeded");
    server.wait("machinehealthchecks --all", "condition=RemediationAllowed");
    assert_eq!(machines_of(&server, "two"), two);
}

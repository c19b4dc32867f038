//! Edits that release what earlier edits have left outdated.

use super::*;

/// Gives the set of the Cluster's topology another member.
fn set(cluster: &mut Value, name: &str, value: Value) {
    cluster["spec"]["topology"]["workers"]["machineDeployments"][0][name] = value;
}

const CLUSTER: &str = "cluster/demo";

#[test]
fn a_strategy_that_replaces_what_on_delete_has_left_is_held() {
    // E6: DEC-59, ROLL-11
    let fleet = Fleet::start();
    let before = fleet.machines("a");
    fleet.edit(CLUSTER, |cluster| set(cluster, "rollout", json!({"strategy": {"type": "OnDelete"}}))).unwrap();
    fleet.server.wait("machinedeployments --all", "jsonpath={.spec.rollout.strategy.type}=OnDelete");
    let greeting = json!([{"name": "motd", "value": "another"}]);
    fleet.edit(CLUSTER, |cluster| cluster["spec"]["topology"]["variables"] = greeting.clone()).unwrap();
    fleet.server.wait("machinedeployments --all", "jsonpath={.status.upToDateReplicas}=0");
    let rolling = |cluster: &mut Value| set(cluster, "rollout", json!({"strategy": {"type": "RollingUpdate"}}));
    let message = held(&fleet.edit(CLUSTER, rolling));
    assert!(message.contains("this edit replaces or removes 2 machines in 1 of 1 Cluster"), "{message}");
    assert_eq!(fleet.machines("a"), before);
    fleet.approve(CLUSTER, "2 CHG0001", rolling);
    fleet.until_replaced("a", &before);
}

#[test]
fn an_upgrade_that_is_not_deferred_any_more_is_held() {
    // E7: DEC-59
    let fleet = Fleet::start();
    let before = fleet.machines("a");
    let defer = "topology.cluster.x-k8s.io/defer-upgrade";
    let deferred = json!({"annotations": {defer: ""}});
    fleet.edit(CLUSTER, |cluster| set(cluster, "metadata", deferred.clone())).unwrap();
    // The control plane alone is upgraded: one machine.
    fleet.edit(CLUSTER, |cluster| cluster["spec"]["topology"]["version"] = json!("v1.33.0")).unwrap();
    fleet.server.wait("embeddedcontrolplanes --all", "jsonpath={.status.version}=v1.33.0");
    let release = |cluster: &mut Value| set(cluster, "metadata", json!({"labels": {"a": "b"}}));
    let message = held(&fleet.edit(CLUSTER, release));
    assert!(message.contains("this edit replaces or removes 2 machines in 1 of 1 Cluster"), "{message}");
    assert_eq!(fleet.machines("a"), before);
    fleet.approve(CLUSTER, "2 CHG0001", release);
    fleet.until_replaced("a", &before);
}

#[test]
fn a_cluster_that_is_edited_while_it_is_paused_is_held_when_it_is_resumed() {
    // E11: DEC-59
    let fleet = Fleet::start();
    let before = fleet.machines("a");
    fleet.server.until_quiet(CLUSTER);
    let pause = |value: bool| move |cluster: &mut Value| cluster["spec"]["paused"] = json!(value);
    fleet.edit(CLUSTER, pause(true)).unwrap();
    fleet.edit(CLUSTER, pause(false)).unwrap();
    fleet.edit(CLUSTER, pause(true)).unwrap();
    fleet.edit(CLASS, |class| greets(class, "another")).unwrap();
    // The watch of classes needs a moment.
    fleet
        .server
        .until("the edit is seen, and the resumption is held", || fleet.dry_run(CLUSTER, pause(false)).code != 0);
    let message = held(&fleet.edit(CLUSTER, pause(false)));
    assert!(
        message.contains("may replace or remove up to 3 machines in 1 Cluster")
            && message.contains("while it was paused"),
        "{message}"
    );
    assert_eq!(fleet.machines("a"), before);
    fleet.approve(CLUSTER, "3 CHG0001", pause(false));
    fleet.until_replaced("a", &before);
}

#[test]
fn a_cluster_without_a_record_is_resumed_with_a_warning() {
    // E11: DEC-59. `clusterctl move` unpauses Clusters that no controller here has settled.
    let fleet = Fleet::start();
    fleet.server.until_quiet(CLUSTER);
    fleet
        .edit(CLUSTER, |cluster| {
            cluster["spec"]["paused"] = json!(true);
            cluster["metadata"]["annotations"].as_object_mut().unwrap().remove("topologist.dev/rolled-out");
        })
        .unwrap();
    fleet.edit(CLASS, |class| greets(class, "another")).unwrap();
    let outcome = fleet.edit(CLUSTER, |cluster| cluster["spec"]["paused"] = json!(false));
    assert!(outcome.code == 0 && outcome.err.contains("was paused"), "{outcome:#?}");
}

//! Health checks on a virtual clock. Machines and Nodes are set by the test; no other steps run.

use std::sync::Arc;

use core::time::Duration;

use serde_json::{Value, json};

use crate::lifecycle::conditions::{ConditionState, ConditionStatus, get, reason, status};
use crate::lifecycle::fields::{later, set, stamp};
use crate::lifecycle::objects::{GroupKind, ObjectId};
use crate::lifecycle::settings::{MachineSettings, ProvidedKinds};
use crate::lifecycle::simulator::MachineSimulator;
use crate::lifecycle::testing::{CLUSTER, cluster_key, core, fold_with, object};
use model::hub::{Object, annotation};

const START: &str = "2030-01-01T00:00:00Z";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn condition(name: &str, status: &str, since: &Value) -> Value {
    json!({"type": name, "status": status, "reason": "R", "message": "", "lastTransitionTime": since})
}

fn with(mut object: Object, path: &str, value: Value) -> Object {
    set(&mut object, path, value);
    object
}

/// A Cluster with a running control plane, a connected workload cluster, and a health check with a spec.
fn setup(spec: Value) -> MachineSimulator {
    let external = ["Cluster", "Machine", "MachineSet", "MachineDeployment", "MachinePool"];
    let external = external.into_iter().map(str::to_owned).collect();
    let mut simulator =
        fold_with(MachineSettings { provides: ProvidedKinds::Embedded, external, ..MachineSettings::default() });
    let good = ["ControlPlaneInitialized", "InfrastructureReady"].map(|name| condition(name, "True", &json!(START)));
    simulator.make(with(core("Cluster", CLUSTER, json!({})), "status.conditions", json!(good)));
    simulator.objects.workload_mut(&cluster_key()).is_reachable = true;
    let mut all = json!({"clusterName": CLUSTER, "selector": {"matchLabels": {"pool": "a"}}});
    if let (Some(all), Value::Object(spec)) = (all.as_object_mut(), spec) {
        all.extend(spec);
    }
    simulator.make(core("MachineHealthCheck", "check", all));
    simulator
}

/// A Machine that the check selects; with a Node if it has a name.
fn machine(name: &str, node: Option<&str>) -> Object {
    let machine = core("Machine", name, json!({"clusterName": CLUSTER}));
    let labels = json!({"cluster.x-k8s.io/cluster-name": CLUSTER, "pool": "a"});
    let machine = with(machine, "metadata.labels", labels);
    with(machine, "status", node.map_or(Value::Null, |name| json!({"nodeRef": {"name": name}})))
}

/// A Node with one condition that changes now.
fn node(simulator: &mut MachineSimulator, name: &str, condition_name: &str, condition_status: &str) {
    let since = stamp(simulator.now());
    let mut node = object("v1", "Node", name, json!({}));
    node.remove("metadata.namespace");
    node.remove("metadata.labels");
    let node = with(node, "status.conditions", json!([condition(condition_name, condition_status, &since)]));
    simulator.create(Some(&cluster_key()), node).unwrap();
}

/// The check after all steps; checks that one more step changes nothing.
fn settled(simulator: &mut MachineSimulator) -> Arc<Object> {
    assert!(simulator.settle(200), "the check does not come to rest");
    let check = simulator.core("MachineHealthCheck", "check");
    simulator.take(&ObjectId::for_object(&check));
    assert_eq!(simulator.core("MachineHealthCheck", "check"), check, "a step that has nothing to do writes");
    assert_eq!(simulator.failure(&ObjectId::for_object(&check)), None);
    check
}

/// Expected and healthy machines, and the number of further ones that may become unhealthy.
fn counters(check: &Object) -> [i64; 3] {
    ["expectedMachines", "currentHealthy", "remediationsAllowed"]
        .map(|name| check.at(&format!("status.{name}")).and_then(Value::as_i64).unwrap_or(-1))
}

/// The health of a machine according to the check: `healthy`, a reason, or empty.
fn health(simulator: &MachineSimulator, name: &str) -> String {
    match get(&simulator.core("Machine", name), "HealthCheckSucceeded") {
        Some(ConditionState { status: ConditionStatus::True, .. }) => "healthy".to_owned(),
        Some(ConditionState { reason, .. }) => reason,
        None => String::new(),
    }
}

#[test]
fn a_check_belongs_to_its_cluster_and_selects_machines() {
    // MA-19.1, MA-19.6, MA-1.9
    let mut simulator = setup(json!({}));
    for (name, path, value) in [
        ("b", "metadata.finalizers", Value::Null),
        ("a", "metadata.finalizers", Value::Null),
        ("other", "metadata.labels.pool", json!("b")),
        ("skipped", "metadata.annotations", json!({"cluster.x-k8s.io/skip-remediation": ""})),
        ("paused", "metadata.annotations", json!({annotation::PAUSED: ""})),
    ] {
        node(&mut simulator, name, "Ready", "True");
        simulator.make(with(machine(name, Some(name)), path, value));
    }
    let check = settled(&mut simulator);
    assert_eq!(check.at("status.targets"), Some(&json!(["a", "b"])));
    assert_eq!(counters(&check), [2, 2, 2]);
    assert_eq!(status(&check, "RemediationAllowed"), Some(ConditionStatus::True));
    assert_eq!(check.at("status.observedGeneration"), check.at("metadata.generation"));
    let owner = check.at("metadata.ownerReferences").and_then(|all| all.get(0)).cloned().unwrap();
    assert_eq!(owner.get("uid"), Some(&json!(simulator.core("Cluster", CLUSTER).uid())));
    assert_eq!(
        ["a", "b", "other", "skipped", "paused"].map(|name| !health(&simulator, name).is_empty()),
        [true, true, false, false, false]
    );
}

#[test]
fn machines_are_judged_by_the_first_rule_that_fits() {
    // MA-19.2, MA-19.3, MA-19.5
    let spec = json!({"checks": {
        "unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 100}],
        "unhealthyMachineConditions": [{"type": "Broken", "status": "True", "timeoutSeconds": 50}],
    }});
    let broken = || json!([condition("Broken", "True", &json!(START))]);
    for (case, change, after, want, counted) in [
        ("good", ("metadata.annotations", Value::Null), 0, "healthy", 1),
        (
            "annotated",
            ("metadata.annotations", json!({"cluster.x-k8s.io/remediate-machine": ""})),
            0,
            "HasRemediateAnnotation",
            0,
        ),
        ("Node gone", ("status.nodeRef.name", json!("gone")), 0, "NodeDeleted", 0),
        ("broken, not for long", ("status.conditions", broken()), 50, "", 0),
        ("broken", ("status.conditions", broken()), 51, "UnhealthyMachine", 0),
        ("no Node yet", ("status.nodeRef", Value::Null), 600, "", 0),
        ("no Node", ("status.nodeRef", Value::Null), 601, "NodeStartupTimeout", 0),
        ("deleting", ("metadata.deletionTimestamp", json!(START)), 0, "", 0),
    ] {
        let mut simulator = setup(spec.clone());
        node(&mut simulator, "n", "Ready", "True");
        let held = with(machine("m", Some("n")), "metadata.finalizers", json!(["x/y"]));
        simulator.make(with(held, change.0, change.1));
        simulator.settle(50);
        simulator.run(seconds(after));
        assert_eq!(health(&simulator, "m"), want, "{case}");
        assert_eq!(counters(&settled(&mut simulator))[1], counted, "{case}");
    }
}

#[test]
fn no_machine_is_unhealthy_before_the_cluster_is_up() {
    // MA-19.2
    let spec = json!({"checks": {"nodeStartupTimeoutSeconds": 30}});
    for (missing, is_control_plane, want) in [
        ("", false, "NodeStartupTimeout"),
        ("ControlPlaneInitialized", false, ""),
        ("ControlPlaneInitialized", true, "NodeStartupTimeout"),
        ("InfrastructureReady", true, ""),
    ] {
        let mut simulator = setup(spec.clone());
        let cluster = simulator.core("Cluster", CLUSTER);
        simulator.edit(&cluster, |cluster| crate::lifecycle::conditions::remove(cluster, missing));
        let mut machine = machine("m", None);
        if is_control_plane {
            crate::lifecycle::fields::set_label(&mut machine, "cluster.x-k8s.io/control-plane", "");
        }
        simulator.make(machine);
        simulator.run(seconds(40));
        assert_eq!(health(&simulator, "m"), want, "{missing} {is_control_plane}");
    }
    let mut simulator = setup(json!({}));
    let cluster = simulator.core("Cluster", CLUSTER);
    simulator.edit(&cluster, |cluster| crate::lifecycle::conditions::remove(cluster, "ControlPlaneInitialized"));
    node(&mut simulator, "n", "Ready", "False");
    simulator.make(machine("m", Some("n")));
    assert_eq!(counters(&settled(&mut simulator))[1], 1, "with a Node it counts as healthy");
}

#[test]
fn machines_are_judged_as_soon_as_the_infrastructure_is_ready() {
    // MA-19.2
    let mut simulator = setup(json!({}));
    let cluster = simulator.core("Cluster", CLUSTER);
    simulator.edit(&cluster, |cluster| crate::lifecycle::conditions::remove(cluster, "InfrastructureReady"));
    simulator.make(machine("m", Some("gone")));
    settled(&mut simulator);
    assert_eq!(health(&simulator, "m"), "");
    let ready = condition("InfrastructureReady", "True", &json!(START));
    let cluster = simulator.core("Cluster", CLUSTER);
    simulator.edit(&cluster, |cluster| {
        crate::lifecycle::fields::list_mut(cluster, "status", "conditions").push(ready.clone());
    });
    assert!(simulator.settle(200));
    assert_eq!(health(&simulator, "m"), "NodeDeleted");
}

#[test]
fn the_startup_timeout_begins_when_everything_else_is_ready_and_zero_is_never() {
    // MA-19.3
    for (timeout, ready_after, by, want) in
        [(30, 0, 31, "NodeStartupTimeout"), (30, 20, 49, ""), (30, 20, 51, "NodeStartupTimeout"), (0, 0, 100_000, "")]
    {
        let mut simulator = setup(json!({"checks": {"nodeStartupTimeoutSeconds": timeout}}));
        let since = stamp(later(simulator.now(), seconds(ready_after)));
        let ready = json!([condition("InfrastructureReady", "True", &since)]);
        simulator.make(with(machine("m", None), "status.conditions", ready));
        simulator.run(seconds(by));
        assert_eq!(health(&simulator, "m"), want, "{timeout} {ready_after} {by}");
    }
}

#[test]
fn conditions_of_nodes_count_after_their_timeout() {
    // MA-19.3, MA-19.4, MA-19.5
    let check = |status: &str, timeout: u32| json!({"type": "Ready", "status": status, "timeoutSeconds": timeout});
    let spec = json!({"checks": {"unhealthyNodeConditions": [check("False", 100), check("Unknown", 10)]}});
    for (found, by, want, counted) in [
        ("True", 1000, "healthy", 1),
        ("False", 100, "", 0),
        ("False", 101, "UnhealthyNode", 0),
        ("Unknown", 10, "", 0),
        ("Unknown", 11, "UnhealthyNode", 0),
    ] {
        let mut simulator = setup(spec.clone());
        node(&mut simulator, "n", "Ready", found);
        simulator.make(machine("m", Some("n")));
        simulator.run(seconds(by));
        assert_eq!((&*health(&simulator, "m"), counters(&settled(&mut simulator))[1]), (want, counted), "{found} {by}");
    }
}

#[test]
fn all_messages_are_given_under_the_reason_of_the_machine() {
    // MA-19.3
    let one = json!([{"type": "Bad", "status": "True", "timeoutSeconds": 0}]);
    let mut simulator = setup(json!({"checks": {"unhealthyNodeConditions": one, "unhealthyMachineConditions": one}}));
    node(&mut simulator, "n", "Bad", "True");
    let bad = json!([condition("Bad", "True", &json!(START))]);
    simulator.make(with(machine("m", Some("n")), "status.conditions", bad));
    simulator.run(seconds(2));
    let found = get(&simulator.core("Machine", "m"), "HealthCheckSucceeded").unwrap();
    assert_eq!(found.reason, "UnhealthyMachine");
    for part in ["Condition Bad of the Machine", "Condition Bad of the Node"] {
        assert!(found.message.contains(part), "{}", found.message);
    }
}

#[test]
fn a_cluster_that_is_not_connected_says_nothing_about_its_nodes() {
    // MA-19.5
    let mut simulator = setup(json!({}));
    simulator.objects.workload_mut(&cluster_key()).is_reachable = false;
    simulator.make(machine("m", Some("n")));
    assert_eq!(counters(&settled(&mut simulator)), [1, 0, 0]);
    assert_eq!(health(&simulator, "m"), "");
}

#[test]
fn owners_are_asked_to_remediate_while_there_are_not_too_many() {
    // MA-19.7, MA-19.8
    let spec = json!({"remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": 1}}});
    let mut simulator = setup(spec);
    simulator.make(machine("one", Some("gone")));
    let check = settled(&mut simulator);
    assert_eq!((counters(&check), reason(&check, "RemediationAllowed")), ([1, 0, 0], "RemediationAllowed".to_owned()));
    assert_eq!(reason(&simulator.core("Machine", "one"), "OwnerRemediated"), "WaitingForRemediation");
    simulator.make(machine("two", Some("gone")));
    let check = settled(&mut simulator);
    assert_eq!((counters(&check), reason(&check, "RemediationAllowed")), ([2, 0, 0], "TooManyUnhealthy".to_owned()));
    assert_eq!(health(&simulator, "two"), "NodeDeleted", "only the health condition is written");
    assert_eq!(status(&simulator.core("Machine", "two"), "OwnerRemediated"), None);
    assert!(simulator.events.iter().any(|(_, _, event)| event.reason == "RemediationRestricted"));
}

#[test]
fn a_machine_that_cannot_be_marked_does_not_stop_the_others() {
    // MA-19.8
    let mut simulator = setup(json!({}));
    simulator.refuses = |write| write.object().is_some_and(|object| object.name() == "one");
    for name in ["one", "two"] {
        simulator.make(machine(name, Some("gone")));
    }
    assert!(simulator.settle(200));
    let check = simulator.core("MachineHealthCheck", "check");
    assert_eq!(
        (counters(&check), status(&simulator.core("Machine", "one"), "HealthCheckSucceeded")),
        ([2, 0, 0], None)
    );
    assert_eq!(health(&simulator, "two"), "NodeDeleted");
    assert!(simulator.failure(&ObjectId::for_object(&check)).is_some_and(|text| text.contains("is refused")));
}

#[test]
fn what_an_owner_says_about_a_remediation_stays() {
    // MA-19.8
    for (case, known, is_deleting, want) in [
        ("missing", None, false, "WaitingForRemediation"),
        ("over", Some("True"), false, "WaitingForRemediation"),
        ("under way", Some("False"), false, "R"),
        ("deleting", None, true, ""),
    ] {
        let mut simulator = setup(json!({}));
        let known: Vec<Value> = known.map(|it| condition("OwnerRemediated", it, &json!(START))).into_iter().collect();
        let mut machine = with(machine("m", Some("gone")), "status.conditions", json!(known));
        if is_deleting {
            set(&mut machine, "metadata.finalizers", json!(["x"]));
            set(&mut machine, "metadata.deletionTimestamp", json!(START));
        }
        simulator.make(machine);
        settled(&mut simulator);
        assert_eq!(reason(&simulator.core("Machine", "m"), "OwnerRemediated"), want, "{case}");
    }
}

#[test]
fn external_remediation_is_requested_once_and_withdrawn() {
    // MA-19.8
    let reference = json!({"apiVersion": "r.io/v1", "kind": "RebootTemplate", "name": "t"});
    let mut simulator = setup(json!({"remediation": {"templateRef": reference}}));
    simulator.make(object("r.io/v1", "RebootTemplate", "t", json!({"template": {"spec": {"fast": true}}})));
    let requests = GroupKind::new("r.io", "Reboot");
    let first = simulator.make(machine("a", Some("gone-a")));
    settled(&mut simulator);
    simulator.make(machine("b", Some("gone-b")));
    settled(&mut simulator);
    assert_eq!(simulator.all(&requests).len(), 2, "a request that is there does not stop the others");
    let request = simulator.find(&requests, "a").unwrap();
    assert_eq!(request.at("spec"), Some(&json!({"fast": true})));
    let owner = request.at("metadata.ownerReferences").and_then(|all| all.get(0)).cloned().unwrap();
    assert_eq!(owner.get("uid"), Some(&json!(first.uid())));
    for name in ["a", "b"] {
        let machine = simulator.core("Machine", name);
        assert_eq!(reason(&machine, "ExternallyRemediated"), "WaitingForRemediation", "{name}");
        assert_eq!(status(&machine, "OwnerRemediated"), None, "{name}");
    }
    simulator.delete(&ObjectId::for_object(&simulator.find(&requests, "b").unwrap()));
    assert!(simulator.settle(200));
    assert!(simulator.find(&requests, "b").is_some(), "one that is deleted is made again");
    node(&mut simulator, "gone-a", "Ready", "True");
    settled(&mut simulator);
    assert_eq!(health(&simulator, "a"), "healthy");
    let left: Vec<String> = simulator.all(&requests).iter().map(|request| request.name().to_owned()).collect();
    assert_eq!(left, ["b"]);
}

#[test]
fn a_request_that_cannot_be_made_is_not_waited_for() {
    // MA-19.8
    let reference = json!({"apiVersion": "r.io/v1", "kind": "RebootTemplate", "name": "t"});
    let mut simulator = setup(json!({"remediation": {"templateRef": reference}}));
    simulator.make(object("r.io/v1", "RebootTemplate", "t", json!({"template": {"spec": {}}})));
    simulator.make(machine("a", Some("gone")));
    simulator.refuses = |write| write.object().is_some_and(|object| object.kind() == "Reboot");
    let requested = |simulator: &MachineSimulator| {
        simulator.events.iter().filter(|(_, _, event)| event.reason == "RemediationRequested").count()
    };
    assert!(simulator.settle(200));
    let of_machine = simulator.core("Machine", "a");
    assert_eq!((health(&simulator, "a"), status(&of_machine, "ExternallyRemediated")), ("NodeDeleted".into(), None));
    assert_eq!(requested(&simulator), 0);
    simulator.refuses = |_| false;
    simulator.run(seconds(600));
    assert_eq!(reason(&simulator.core("Machine", "a"), "ExternallyRemediated"), "WaitingForRemediation");
    assert_eq!(requested(&simulator), 1);
}

#[test]
fn a_missing_template_is_an_error_and_the_machines_are_marked() {
    // MA-19.8
    let reference = json!({"apiVersion": "r.io/v1", "kind": "RebootTemplate", "name": "t"});
    let mut simulator = setup(json!({"remediation": {"templateRef": reference}}));
    simulator.make(machine("a", Some("gone")));
    simulator.make(machine("b", Some("gone")));
    assert!(simulator.settle(200));
    let check = simulator.core("MachineHealthCheck", "check");
    assert!(simulator.failure(&ObjectId::for_object(&check)).is_some_and(|text| text.contains("RebootTemplate ns/t")));
    for name in ["a", "b"] {
        assert_eq!(health(&simulator, name), "NodeDeleted", "{name}");
        let found = reason(&simulator.core("Machine", name), "ExternallyRemediated");
        assert_eq!(found, "RemediationTemplateNotAvailable", "{name}");
    }
}

#[test]
fn a_paused_cluster_gets_health_without_remediation_and_a_paused_check_does_nothing() {
    // MA-19.9, CT-15.12
    let mut simulator = setup(json!({}));
    let cluster = simulator.core("Cluster", CLUSTER);
    simulator.edit(&cluster, |cluster| set(cluster, "spec.paused", json!(true)));
    simulator.make(machine("m", Some("gone")));
    assert_eq!(status(&settled(&mut simulator), "Paused"), Some(ConditionStatus::True));
    assert_eq!(health(&simulator, "m"), "NodeDeleted");
    assert_eq!(status(&simulator.core("Machine", "m"), "OwnerRemediated"), None);

    let mut simulator = setup(json!({}));
    let check = simulator.core("MachineHealthCheck", "check");
    simulator.edit(&check, |check| set(check, "metadata.annotations", json!({annotation::PAUSED: ""})));
    simulator.make(machine("m", Some("gone")));
    assert_eq!(status(&settled(&mut simulator), "Paused"), Some(ConditionStatus::True));
    assert_eq!(health(&simulator, "m"), "");
}

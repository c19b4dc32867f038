//! Health checks on a virtual clock. Machines and Nodes are set by hand: no other step runs.

use std::sync::Arc;

use core::time::Duration;

use serde_json::{Value, json};

use crate::lifecycle::conditions::{Condition, Status, get, reason, status};
use crate::lifecycle::fields::{later, set, stamp};
use crate::lifecycle::fold::Fold;
use crate::lifecycle::objects::{GroupKind, ObjectId};
use crate::lifecycle::settings::{Provides, Settings};
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

/// A Cluster whose control plane answers, a connected workload cluster, and a health check with a spec.
fn scene(spec: Value) -> Fold {
    let external = ["Cluster", "Machine", "MachineSet", "MachineDeployment", "MachinePool"];
    let external = external.into_iter().map(str::to_owned).collect();
    let mut fold = fold_with(Settings { provides: Provides::Embedded, external, ..Settings::default() });
    let good = ["ControlPlaneInitialized", "InfrastructureReady"].map(|name| condition(name, "True", &json!(START)));
    fold.make(with(core("Cluster", CLUSTER, json!({})), "status.conditions", json!(good)));
    fold.objects.workload_mut(&cluster_key()).is_reachable = true;
    let mut all = json!({"clusterName": CLUSTER, "selector": {"matchLabels": {"pool": "a"}}});
    if let (Some(all), Value::Object(spec)) = (all.as_object_mut(), spec) {
        all.extend(spec);
    }
    fold.make(core("MachineHealthCheck", "check", all));
    fold
}

/// A Machine that the check selects; with a Node if it has a name.
fn machine(name: &str, node: Option<&str>) -> Object {
    let machine = core("Machine", name, json!({"clusterName": CLUSTER}));
    let labels = json!({"cluster.x-k8s.io/cluster-name": CLUSTER, "pool": "a"});
    let machine = with(machine, "metadata.labels", labels);
    with(machine, "status", node.map_or(Value::Null, |name| json!({"nodeRef": {"name": name}})))
}

/// A Node with one condition since now.
fn node(fold: &mut Fold, name: &str, condition_name: &str, condition_status: &str) {
    let since = stamp(fold.now());
    let mut node = object("v1", "Node", name, json!({}));
    node.remove("metadata.namespace");
    node.remove("metadata.labels");
    let node = with(node, "status.conditions", json!([condition(condition_name, condition_status, &since)]));
    fold.create(Some(&cluster_key()), node).unwrap();
}

/// The check as it is after all steps; one more step must not change it.
fn settled(fold: &mut Fold) -> Arc<Object> {
    assert!(fold.settle(200), "the check does not come to rest");
    let check = fold.core("MachineHealthCheck", "check");
    fold.take(&ObjectId::of(&check));
    assert_eq!(fold.core("MachineHealthCheck", "check"), check, "a step that has nothing to do writes");
    assert_eq!(fold.failure(&ObjectId::of(&check)), None);
    check
}

/// Expected and healthy machines, and how many more may become unhealthy.
fn counters(check: &Object) -> [i64; 3] {
    ["expectedMachines", "currentHealthy", "remediationsAllowed"]
        .map(|name| check.at(&format!("status.{name}")).and_then(Value::as_i64).unwrap_or(-1))
}

/// What the check says about a machine: `healthy`, the reason why not, or nothing yet.
fn health(fold: &Fold, name: &str) -> String {
    match get(&fold.core("Machine", name), "HealthCheckSucceeded") {
        Some(Condition { status: Status::True, .. }) => "healthy".to_owned(),
        Some(Condition { reason, .. }) => reason,
        None => String::new(),
    }
}

#[test]
fn a_check_belongs_to_its_cluster_and_selects_machines() {
    // MA-19.1, MA-19.6, MA-1.9
    let mut fold = scene(json!({}));
    for (name, path, value) in [
        ("b", "metadata.finalizers", Value::Null),
        ("a", "metadata.finalizers", Value::Null),
        ("other", "metadata.labels.pool", json!("b")),
        ("skipped", "metadata.annotations", json!({"cluster.x-k8s.io/skip-remediation": ""})),
        ("paused", "metadata.annotations", json!({annotation::PAUSED: ""})),
    ] {
        node(&mut fold, name, "Ready", "True");
        fold.make(with(machine(name, Some(name)), path, value));
    }
    let check = settled(&mut fold);
    assert_eq!(check.at("status.targets"), Some(&json!(["a", "b"])));
    assert_eq!(counters(&check), [2, 2, 2]);
    assert_eq!(status(&check, "RemediationAllowed"), Some(Status::True));
    assert_eq!(check.at("status.observedGeneration"), check.at("metadata.generation"));
    let owner = check.at("metadata.ownerReferences").and_then(|all| all.get(0)).cloned().unwrap();
    assert_eq!(owner.get("uid"), Some(&json!(fold.core("Cluster", CLUSTER).uid())));
    assert_eq!(
        ["a", "b", "other", "skipped", "paused"].map(|name| !health(&fold, name).is_empty()),
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
        let mut fold = scene(spec.clone());
        node(&mut fold, "n", "Ready", "True");
        let held = with(machine("m", Some("n")), "metadata.finalizers", json!(["x/y"]));
        fold.make(with(held, change.0, change.1));
        fold.settle(50);
        fold.run(seconds(after));
        assert_eq!(health(&fold, "m"), want, "{case}");
        assert_eq!(counters(&settled(&mut fold))[1], counted, "{case}");
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
        let mut fold = scene(spec.clone());
        let cluster = fold.core("Cluster", CLUSTER);
        fold.edit(&cluster, |cluster| crate::lifecycle::conditions::remove(cluster, missing));
        let mut machine = machine("m", None);
        if is_control_plane {
            crate::lifecycle::fields::set_label(&mut machine, "cluster.x-k8s.io/control-plane", "");
        }
        fold.make(machine);
        fold.run(seconds(40));
        assert_eq!(health(&fold, "m"), want, "{missing} {is_control_plane}");
    }
    let mut fold = scene(json!({}));
    let cluster = fold.core("Cluster", CLUSTER);
    fold.edit(&cluster, |cluster| crate::lifecycle::conditions::remove(cluster, "ControlPlaneInitialized"));
    node(&mut fold, "n", "Ready", "False");
    fold.make(machine("m", Some("n")));
    assert_eq!(counters(&settled(&mut fold))[1], 1, "with a Node it counts as healthy");
}

#[test]
fn the_startup_timeout_begins_when_everything_else_is_ready_and_zero_is_never() {
    // MA-19.3
    for (timeout, ready_after, by, want) in
        [(30, 0, 31, "NodeStartupTimeout"), (30, 20, 49, ""), (30, 20, 51, "NodeStartupTimeout"), (0, 0, 100_000, "")]
    {
        let mut fold = scene(json!({"checks": {"nodeStartupTimeoutSeconds": timeout}}));
        let since = stamp(later(fold.now(), seconds(ready_after)));
        let ready = json!([condition("InfrastructureReady", "True", &since)]);
        fold.make(with(machine("m", None), "status.conditions", ready));
        fold.run(seconds(by));
        assert_eq!(health(&fold, "m"), want, "{timeout} {ready_after} {by}");
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
        let mut fold = scene(spec.clone());
        node(&mut fold, "n", "Ready", found);
        fold.make(machine("m", Some("n")));
        fold.run(seconds(by));
        assert_eq!((&*health(&fold, "m"), counters(&settled(&mut fold))[1]), (want, counted), "{found} {by}");
    }
}

#[test]
fn all_messages_are_given_under_the_reason_of_the_machine() {
    // MA-19.3
    let one = json!([{"type": "Bad", "status": "True", "timeoutSeconds": 0}]);
    let mut fold = scene(json!({"checks": {"unhealthyNodeConditions": one, "unhealthyMachineConditions": one}}));
    node(&mut fold, "n", "Bad", "True");
    let bad = json!([condition("Bad", "True", &json!(START))]);
    fold.make(with(machine("m", Some("n")), "status.conditions", bad));
    fold.run(seconds(2));
    let found = get(&fold.core("Machine", "m"), "HealthCheckSucceeded").unwrap();
    assert_eq!(found.reason, "UnhealthyMachine");
    for part in ["Condition Bad of the Machine", "Condition Bad of the Node"] {
        assert!(found.message.contains(part), "{}", found.message);
    }
}

#[test]
fn a_cluster_that_is_not_connected_says_nothing_about_its_nodes() {
    // MA-19.5
    let mut fold = scene(json!({}));
    fold.objects.workload_mut(&cluster_key()).is_reachable = false;
    fold.make(machine("m", Some("n")));
    assert_eq!(counters(&settled(&mut fold)), [1, 0, 0]);
    assert_eq!(health(&fold, "m"), "");
}

#[test]
fn owners_are_asked_to_remediate_while_there_are_not_too_many() {
    // MA-19.7, MA-19.8
    let spec = json!({"remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": 1}}});
    let mut fold = scene(spec);
    fold.make(machine("one", Some("gone")));
    let check = settled(&mut fold);
    assert_eq!((counters(&check), reason(&check, "RemediationAllowed")), ([1, 0, 0], "RemediationAllowed".to_owned()));
    assert_eq!(reason(&fold.core("Machine", "one"), "OwnerRemediated"), "WaitingForRemediation");
    fold.make(machine("two", Some("gone")));
    let check = settled(&mut fold);
    assert_eq!((counters(&check), reason(&check, "RemediationAllowed")), ([2, 0, 0], "TooManyUnhealthy".to_owned()));
    assert_eq!(health(&fold, "two"), "NodeDeleted", "only the health condition is written");
    assert_eq!(status(&fold.core("Machine", "two"), "OwnerRemediated"), None);
    assert!(fold.events.iter().any(|(_, _, event)| event.reason == "RemediationRestricted"));
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
        let mut fold = scene(json!({}));
        let known: Vec<Value> = known.map(|it| condition("OwnerRemediated", it, &json!(START))).into_iter().collect();
        let mut machine = with(machine("m", Some("gone")), "status.conditions", json!(known));
        if is_deleting {
            set(&mut machine, "metadata.finalizers", json!(["x"]));
            set(&mut machine, "metadata.deletionTimestamp", json!(START));
        }
        fold.make(machine);
        settled(&mut fold);
        assert_eq!(reason(&fold.core("Machine", "m"), "OwnerRemediated"), want, "{case}");
    }
}

#[test]
fn external_remediation_is_requested_once_and_withdrawn() {
    // MA-19.8
    let reference = json!({"apiVersion": "r.io/v1", "kind": "RebootTemplate", "name": "t"});
    let mut fold = scene(json!({"remediation": {"templateRef": reference}}));
    fold.make(object("r.io/v1", "RebootTemplate", "t", json!({"template": {"spec": {"fast": true}}})));
    let requests = GroupKind::new("r.io", "Reboot");
    let first = fold.make(machine("a", Some("gone-a")));
    settled(&mut fold);
    fold.make(machine("b", Some("gone-b")));
    settled(&mut fold);
    assert_eq!(fold.all(&requests).len(), 2, "a request that is there does not stop the others");
    let request = fold.find(&requests, "a").unwrap();
    assert_eq!(request.at("spec"), Some(&json!({"fast": true})));
    let owner = request.at("metadata.ownerReferences").and_then(|all| all.get(0)).cloned().unwrap();
    assert_eq!(owner.get("uid"), Some(&json!(first.uid())));
    for name in ["a", "b"] {
        let machine = fold.core("Machine", name);
        assert_eq!(reason(&machine, "ExternallyRemediated"), "WaitingForRemediation", "{name}");
        assert_eq!(status(&machine, "OwnerRemediated"), None, "{name}");
    }
    node(&mut fold, "gone-a", "Ready", "True");
    settled(&mut fold);
    assert_eq!(health(&fold, "a"), "healthy");
    let left: Vec<String> = fold.all(&requests).iter().map(|request| request.name().to_owned()).collect();
    assert_eq!(left, ["b"]);
}

#[test]
fn a_missing_template_is_an_error_and_the_machines_are_marked() {
    // MA-19.8
    let reference = json!({"apiVersion": "r.io/v1", "kind": "RebootTemplate", "name": "t"});
    let mut fold = scene(json!({"remediation": {"templateRef": reference}}));
    fold.make(machine("a", Some("gone")));
    fold.make(machine("b", Some("gone")));
    assert!(fold.settle(200));
    let check = fold.core("MachineHealthCheck", "check");
    assert!(fold.failure(&ObjectId::of(&check)).is_some_and(|text| text.contains("RebootTemplate ns/t")));
    for name in ["a", "b"] {
        assert_eq!(health(&fold, name), "NodeDeleted", "{name}");
        let found = reason(&fold.core("Machine", name), "ExternallyRemediated");
        assert_eq!(found, "RemediationTemplateNotAvailable", "{name}");
    }
}

#[test]
fn a_paused_cluster_gets_health_without_remediation_and_a_paused_check_does_nothing() {
    // MA-19.9, CT-15.12
    let mut fold = scene(json!({}));
    let cluster = fold.core("Cluster", CLUSTER);
    fold.edit(&cluster, |cluster| set(cluster, "spec.paused", json!(true)));
    fold.make(machine("m", Some("gone")));
    assert_eq!(status(&settled(&mut fold), "Paused"), Some(Status::True));
    assert_eq!(health(&fold, "m"), "NodeDeleted");
    assert_eq!(status(&fold.core("Machine", "m"), "OwnerRemediated"), None);

    let mut fold = scene(json!({}));
    let check = fold.core("MachineHealthCheck", "check");
    fold.edit(&check, |check| set(check, "metadata.annotations", json!({annotation::PAUSED: ""})));
    fold.make(machine("m", Some("gone")));
    assert_eq!(status(&settled(&mut fold), "Paused"), Some(Status::True));
    assert_eq!(health(&fold, "m"), "");
}

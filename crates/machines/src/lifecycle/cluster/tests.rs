//! Clusters on a virtual clock. Surrounding objects are set by the test; no other steps run.

use core::time::Duration;

use serde_json::{Value, json};

use super::testing::*;
use crate::lifecycle::conditions::get;
use crate::lifecycle::fields::{set, text};
use crate::lifecycle::objects::{GroupKind, ObjectId};
use crate::lifecycle::simulator::MachineSimulator;
use crate::lifecycle::testing::{CLUSTER, cluster_key, core};
use model::hub::contract::Contract;
use model::hub::{Object, annotation};

#[test]
fn a_cluster_gets_its_finalizer_alone_at_first_and_then_says_whether_it_is_paused() {
    // MA-1.7, MA-1.8, MA-27.1, CT-15.12
    let mut simulator = alone();
    let id = ObjectId::for_object(&simulator.make(core("Cluster", CLUSTER, references())));
    simulator.take(&id);
    let first = simulator.core("Cluster", CLUSTER);
    assert!(first.has_finalizer("cluster.cluster.x-k8s.io") && first.at("status").is_none());
    simulator.take(&id);
    let second = simulator.core("Cluster", CLUSTER);
    assert_eq!(condition(&second, "Paused"), no("NotPaused"));
    assert_eq!(text(&second, "status.phase"), "");
    assert_eq!(text(&settled(&mut simulator), "status.phase"), "Provisioning");
}

#[test]
fn a_paused_cluster_is_left_alone() {
    // MA-27.1, CT-15.12
    for (path, value) in [("spec.paused", json!(true)), ("metadata.annotations", json!({annotation::PAUSED: ""}))] {
        let mut simulator = alone();
        simulator.make(GOOD_INFRA());
        simulator.make(with(core("Cluster", CLUSTER, references()), path, value));
        let cluster = settled(&mut simulator);
        assert_eq!(condition(&cluster, "Paused"), yes("Paused"), "{path}");
        assert!(cluster.at("status.initialization").is_none(), "{path}");
    }
}

#[test]
fn a_cluster_takes_over_what_its_infrastructure_and_control_plane_report() {
    // MA-27.3, MA-27.4, MA-27.8, MA-27.10, CT-6.6, CT-5.11, MA-1.9
    let mut simulator = cluster(references());
    assert_eq!(text(&settled(&mut simulator), "status.phase"), "Provisioning");
    simulator.make(GOOD_INFRA());
    simulator.make(GOOD_CONTROL_PLANE());
    simulator.run(Duration::from_secs(30));
    let cluster = settled(&mut simulator);
    assert_eq!(cluster.at("spec.controlPlaneEndpoint"), Some(&json!({"host": "10.0.0.1", "port": 6443})));
    let domains =
        json!([{"name": "a", "controlPlane": false}, {"name": "b", "controlPlane": true, "attributes": {"x": "y"}}]);
    assert_eq!(cluster.at("status.failureDomains"), Some(&domains));
    let flags = json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true});
    assert_eq!(cluster.at("status.initialization"), Some(&flags));
    assert_eq!(text(&cluster, "status.phase"), "Provisioned");
    assert_eq!(cluster.at("status.observedGeneration"), cluster.at("metadata.generation"));
    // CT-6.8, CT-15.8
    assert_eq!(condition(&cluster, "InfrastructureReady"), yes("Ready"));
    assert_eq!(condition(&cluster, "ControlPlaneAvailable"), yes("Available"));
    assert_eq!(condition(&cluster, "ControlPlaneInitialized"), yes("Initialized"));
    let want = ["Provisioning", "InfrastructureProvisioned", "ControlPlaneInitialized", "Provisioned"];
    assert_eq!(reasons(&simulator), want);
}

#[test]
fn flags_stay_and_the_first_valid_endpoint_wins() {
    // MA-27.3, CT-6.3, CT-6.5
    let mut simulator = cluster(references());
    let infra = simulator.make(GOOD_INFRA());
    simulator.run(Duration::from_secs(30));
    simulator.edit(&infra, |infra| {
        set(infra, "status.initialization.provisioned", json!(false));
        set(infra, "status.failureDomains", Value::Null);
        set(infra, "spec.controlPlaneEndpoint.host", json!("other"));
    });
    let cluster = settled(&mut simulator);
    assert_eq!(cluster.at("status.initialization.infrastructureProvisioned"), Some(&json!(true)));
    assert_eq!(text(&cluster, "spec.controlPlaneEndpoint.host"), "10.0.0.1");
    assert!(cluster.at("status.failureDomains").is_none(), "failure domains are those of now");
}

#[test]
fn nothing_is_copied_before_the_provider_is_done_or_while_its_object_goes() {
    // MA-27.3, MA-27.4, CT-10.17
    let unfinished = || with(GOOD_INFRA(), "status.initialization", json!({"provisioned": false}));
    let gone = |object: Object| {
        let object = with(object, "metadata.finalizers", json!(["x"]));
        with(object, "metadata.deletionTimestamp", json!("2030-01-01T00:00:00Z"))
    };
    let endpoint = json!({"controlPlaneEndpoint": {"host": "h", "port": 1}});
    for (case, object) in [
        ("unfinished", unfinished()),
        ("deleting", gone(GOOD_INFRA())),
        ("uninitialized", control_plane(endpoint, json!({}))),
        ("control plane deleting", gone(GOOD_CONTROL_PLANE())),
    ] {
        let mut simulator = cluster(references());
        simulator.make(object);
        simulator.run(Duration::from_secs(30));
        let cluster = settled(&mut simulator);
        assert!(cluster.at("spec.controlPlaneEndpoint").is_none(), "{case}");
        assert!(cluster.at("status.initialization").is_none(), "{case}");
    }
}

#[test]
fn an_endpoint_that_is_not_valid_is_replaced_or_cleared() {
    // MA-27.3, MA-27.4, CT-6.4, CT-5.13
    for (found, want) in [
        (json!({"host": "h", "port": 1}), Some(json!({"host": "h", "port": 1}))),
        (json!({"host": "", "port": 0}), None),
        (json!({"host": "h", "port": 0}), Some(json!({"host": "h"}))),
        (Value::Null, None),
    ] {
        let mut spec = references();
        spec["controlPlaneEndpoint"] = json!({"host": "mine"});
        let mut simulator = cluster(spec);
        simulator.make(with(GOOD_CONTROL_PLANE(), "spec.controlPlaneEndpoint", found.clone()));
        simulator.run(Duration::from_secs(30));
        assert_eq!(settled(&mut simulator).at("spec.controlPlaneEndpoint"), want.as_ref(), "{found}");
    }
}

#[test]
fn an_endpoint_that_is_no_host_or_port_is_not_taken_over_and_the_cluster_says_so() {
    // MA-27.3, CT-6.4: it would be permanent, and URLs are built from it.
    for (endpoint, what) in [
        (json!({"host": "a b\n", "port": 6443}), "host of FooCluster i is not taken over"),
        (json!({"host": "10.0.0.1/../x?", "port": 6443}), "host of FooCluster i is not taken over"),
        (json!({"host": "h", "port": 65536}), "port of FooCluster i is not taken over"),
        (json!({"host": "h", "port": -1}), "port of FooCluster i is not taken over"),
    ] {
        let mut simulator = cluster(references());
        let infra = simulator.make(with(GOOD_INFRA(), "spec.controlPlaneEndpoint", endpoint));
        simulator.run(Duration::from_secs(30));
        let stopped = settled(&mut simulator);
        assert_eq!(stopped.at("spec.controlPlaneEndpoint"), None, "{what}");
        assert_ne!(text(&stopped, "status.phase"), "Provisioned", "{what}");
        let failure = simulator.failure(&ObjectId::for_object(&stopped)).unwrap_or_default();
        assert!(failure.starts_with("spec.controlPlaneEndpoint.") && failure.contains(what), "{failure}");
        simulator.edit(&infra, |infra| {
            set(infra, "spec.controlPlaneEndpoint", json!({"host": "h.example.com", "port": 6443}));
        });
        simulator.run(Duration::from_mins(2));
        let healed = settled(&mut simulator);
        assert_eq!(text(&healed, "spec.controlPlaneEndpoint.host"), "h.example.com");
        assert_eq!(simulator.failure(&ObjectId::for_object(&healed)), None);
    }
}

#[test]
fn objects_of_the_older_contract_are_read_as_it_says() {
    // MA-27.3, MA-27.14, CT-5.4, CT-5.10
    let mut simulator = cluster(references());
    let domains = json!({"b": {"controlPlane": true}, "a": {}});
    simulator.make(infra_cluster(json!({}), json!({"ready": true, "failureDomains": domains})));
    let counters = json!({"initialized": true, "replicas": 3, "unavailableReplicas": 4, "updatedReplicas": 1});
    simulator.make(control_plane(json!({"replicas": 3}), counters));
    for (group, kind) in [(INFRA, "FooCluster"), (CONTROL_PLANES, "FooControlPlane")] {
        simulator.objects.set_listed(&GroupKind::new(group, kind), Some(Contract::V1Beta1));
    }
    simulator.run(Duration::from_secs(30));
    let cluster = settled(&mut simulator);
    let want = json!([{"name": "a", "controlPlane": false}, {"name": "b", "controlPlane": true}]);
    assert_eq!(cluster.at("status.failureDomains"), Some(&want));
    assert_eq!(cluster.at("status.initialization.controlPlaneInitialized"), Some(&json!(true)));
    let want = json!({"desiredReplicas": 3, "replicas": 3, "availableReplicas": 0, "upToDateReplicas": 1});
    assert_eq!(cluster.at("status.controlPlane"), Some(&want));
}

#[test]
fn a_cluster_owns_its_infrastructure_and_controls_it_with_a_topology() {
    // MA-27.3, MA-27.4, CT-15.1
    for (topology, controls) in [(None, None), (Some(json!({"classRef": {"name": "k"}})), Some(&Value::Bool(true)))] {
        let mut simulator = alone();
        simulator.make(core("ClusterClass", "k", json!({})));
        let mut spec = references();
        spec["topology"] = topology.unwrap_or_default();
        let made = simulator.make(core("Cluster", CLUSTER, spec));
        simulator.make(with(GOOD_INFRA(), "metadata.labels", json!({"a": "b"})));
        simulator.make(GOOD_CONTROL_PLANE());
        settled(&mut simulator);
        for (group, kind, name) in [(INFRA, "FooCluster", "i"), (CONTROL_PLANES, "FooControlPlane", "c")] {
            let object = simulator.find(&GroupKind::new(group, kind), name).unwrap();
            let owner = object.at("metadata.ownerReferences").and_then(|all| all.get(0)).cloned().unwrap();
            assert_eq!(owner.get("uid"), Some(&json!(made.uid())), "{kind}");
            assert_eq!(owner.get("controller"), controls, "{kind}");
            assert_eq!(object.label("cluster.x-k8s.io/cluster-name"), Some(CLUSTER), "{kind}");
        }
    }
}

#[test]
fn another_controller_of_the_infrastructure_is_an_error_only_with_a_topology() {
    // CT-15.1
    let other = json!([{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "u", "controller": true}]);
    for (topology, wants_error) in [(Value::Null, false), (json!({"classRef": {"name": "k"}}), true)] {
        let mut simulator = alone();
        simulator.make(core("ClusterClass", "k", json!({})));
        simulator.make(with(GOOD_INFRA(), "metadata.ownerReferences", other.clone()));
        let mut spec = references();
        spec["topology"] = topology;
        let made = simulator.make(core("Cluster", CLUSTER, spec));
        let cluster = settled(&mut simulator);
        let failure = simulator.failure(&ObjectId::for_object(&made)).unwrap_or_default();
        assert_eq!(failure.contains("FooCluster i is already controlled by o"), wants_error, "{failure}");
        assert_eq!(cluster.at("status.observedGeneration").is_none(), wants_error, "MA-1.9");
    }
}

#[test]
fn terminal_failures_are_copied_and_never_cleared() {
    // MA-27.5, CT-6.7, DEC-6
    let fail = |infra: &mut Object| {
        set(infra, "status.failureReason", json!("Quota"));
        set(infra, "status.failureMessage", json!("no more"));
    };
    let mut simulator = cluster(references());
    let infra = simulator.make(GOOD_INFRA());
    simulator.run(Duration::from_secs(30));
    simulator.edit(&infra, fail);
    let newer = settled(&mut simulator);
    assert!(text(&newer, "status.deprecated.v1beta1.failureMessage").contains("no more"), "CT-5.5");
    assert_eq!(text(&newer, "status.phase"), "Provisioned", "no effect in the contract v1beta2: CT-20.2");

    let mut simulator = cluster(references());
    let infra = simulator.make(GOOD_INFRA());
    simulator.run(Duration::from_secs(30));
    simulator.objects.set_listed(&GroupKind::for_object(&infra), Some(Contract::V1Beta1));
    simulator.edit(&infra, |infra| {
        fail(infra);
        set(infra, "status.failureDomains", Value::Null);
    });
    let failed = settled(&mut simulator);
    let want = json!({"failureReason": "Quota", "failureMessage": "FooCluster i failed: no more"});
    assert_eq!(failed.at("status.deprecated.v1beta1"), Some(&want));
    assert_eq!(text(&failed, "status.phase"), "Failed");
    simulator.edit(&infra, |infra| {
        set(infra, "status.failureReason", Value::Null);
        set(infra, "status.failureMessage", Value::Null);
    });
    let still = settled(&mut simulator);
    assert_eq!(still.at("status.deprecated.v1beta1"), Some(&want));
    assert_eq!(text(&still, "status.phase"), "Failed");
    assert!(reasons(&simulator).ends_with(&["ProviderFailed", "Failed"]));
}

#[test]
fn a_missing_object_is_waited_for_unless_it_was_there() {
    // MA-27.3, MA-27.4, MA-27.9, MA-27.10
    let mut simulator = cluster(references());
    let id = ObjectId::for_object(&settled(&mut simulator));
    assert_eq!(simulator.failure(&id), None);
    let cluster = simulator.core("Cluster", CLUSTER);
    assert_eq!(condition(&cluster, "InfrastructureReady"), no("ObjectDoesNotExist"));
    assert_eq!(condition(&cluster, "ControlPlaneAvailable"), no("ObjectDoesNotExist"));
    assert_eq!(condition(&cluster, "ControlPlaneInitialized"), unknown("ObjectDoesNotExist"));
    let (infra, control_plane) = (simulator.make(GOOD_INFRA()), simulator.make(GOOD_CONTROL_PLANE()));
    simulator.run(Duration::from_secs(30));
    simulator.delete(&ObjectId::for_object(&infra));
    simulator.delete(&ObjectId::for_object(&control_plane));
    let cluster = settled(&mut simulator);
    assert!(
        simulator.failure(&id).is_some_and(|text| text.contains("FooCluster i") && text.contains("FooControlPlane c"))
    );
    assert_eq!(condition(&cluster, "InfrastructureReady"), no("ObjectDeleted"));
    assert_eq!(condition(&cluster, "ControlPlaneAvailable"), no("ObjectDeleted"));
    assert_eq!(condition(&cluster, "ControlPlaneInitialized"), yes("Initialized"), "it is sticky");
}

#[test]
fn conditions_of_the_provider_are_mirrored() {
    // MA-27.10, CT-6.8, CT-15.8
    let mut simulator = cluster(references());
    simulator.make(with(GOOD_INFRA(), "status.conditions", conditions(&[("Ready", "False")])["conditions"].clone()));
    simulator.make(with(GOOD_CONTROL_PLANE(), "status.v1beta2", conditions(&[("Available", "Unknown")])));
    simulator.run(Duration::from_secs(30));
    let cluster = settled(&mut simulator);
    assert_eq!(condition(&cluster, "InfrastructureReady"), no("R"));
    assert_eq!(condition(&cluster, "ControlPlaneAvailable"), unknown("R"));
}

#[test]
fn a_cluster_without_references_may_go_on_and_one_with_a_topology_waits() {
    // MA-27.1, MA-27.2, MA-27.9, MA-27.10
    let mut simulator = cluster(json!({"controlPlaneEndpoint": {"host": "h", "port": 1}}));
    let free = settled(&mut simulator);
    assert_eq!(text(&free, "status.phase"), "Provisioned");
    assert_eq!(condition(&free, "InfrastructureReady"), yes("Ready"));
    assert_eq!(condition(&free, "ControlPlaneAvailable"), yes("Available"));
    assert_eq!(condition(&free, "ControlPlaneInitialized"), no("NotInitialized"));
    let machine = core("Machine", "m", json!({"clusterName": CLUSTER}));
    let machine = with(
        machine,
        "metadata.labels",
        json!({"cluster.x-k8s.io/cluster-name": CLUSTER, "cluster.x-k8s.io/control-plane": ""}),
    );
    simulator.make(with(machine, "status.nodeRef", json!({"name": "n"})));
    let running = settled(&mut simulator);
    assert_eq!(condition(&running, "ControlPlaneInitialized"), yes("Initialized"));
    assert_eq!(running.at("status.initialization.controlPlaneInitialized"), Some(&json!(true)));

    let mut simulator = alone();
    simulator.make(core("ClusterClass", "k", json!({})));
    simulator.make(core("Cluster", CLUSTER, json!({"topology": {"classRef": {"name": "k"}}})));
    let waiting = settled(&mut simulator);
    assert_eq!(text(&waiting, "status.phase"), "Pending");
    assert!(waiting.at("status.initialization").is_none());
    for (name, want) in [
        ("InfrastructureReady", no("ObjectDoesNotExist")),
        ("ControlPlaneAvailable", no("ObjectDoesNotExist")),
        ("ControlPlaneInitialized", unknown("ObjectDoesNotExist")),
    ] {
        assert_eq!(condition(&waiting, name), want, "{name}");
    }
}

#[test]
fn the_class_of_a_topology_has_to_exist() {
    // MA-27.1, MA-27.8
    let simulator = cluster(json!({"topology": {"classRef": {"name": "k", "namespace": "classes"}}}));
    let cluster = simulator.core("Cluster", CLUSTER);
    assert_eq!(simulator.failure(&ObjectId::for_object(&cluster)), Some("ClusterClass classes/k does not exist"));
    assert_eq!(text(&cluster, "status.phase"), "Pending");
}

#[test]
fn a_cluster_can_go_without_its_class() {
    // MA-27.1, MA-27.15, DEC-11
    let mut simulator = cluster(json!({"topology": {"classRef": {"name": "absent"}}}));
    let made = simulator.core("Cluster", CLUSTER);
    let id = ObjectId::for_object(&made);
    simulator.edit(&made, |cluster| set(cluster, "metadata.annotations", json!({annotation::OK_TO_DELETE: ""})));
    simulator.delete(&id);
    assert!(simulator.settle(50));
    assert!(simulator.objects.get(&id).is_none(), "it is gone");
}

#[test]
fn the_probe_follows_the_connection() {
    // MA-27.12
    let mut simulator = cluster(json!({}));
    let message = |simulator: &mut MachineSimulator| get(&settled(simulator), "RemoteConnectionProbe").unwrap().message;
    assert_eq!(condition(&settled(&mut simulator), "RemoteConnectionProbe"), no("ProbeFailed"));
    assert!(message(&mut simulator).contains("not connected yet"));
    let id = ObjectId::for_object(&simulator.core("Cluster", CLUSTER));
    for (up, want) in [(true, yes("ProbeSucceeded")), (false, no("ProbeFailed"))] {
        simulator.objects.workload_mut(&cluster_key()).is_reachable = up;
        simulator.take(&id);
        assert_eq!(condition(&settled(&mut simulator), "RemoteConnectionProbe"), want);
    }
    assert!(message(&mut simulator).contains("lost"));
}

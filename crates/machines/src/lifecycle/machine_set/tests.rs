use std::sync::Arc;

use serde_json::{Value, json};

use super::testing::{
    BOOTSTRAP, INFRASTRUCTURE, drive, finish, foo_config, foo_machine, group, infrastructure, machine_spec, machines,
    mark, setup,
};
use crate::lifecycle::conditions;
use crate::lifecycle::fields::{items, number, owner_name, set, set_annotation, text, texts};
use crate::lifecycle::objects::{GroupKind, ObjectId};
use crate::lifecycle::simulator::MachineSimulator;
use crate::lifecycle::step::ObjectWrite;
use crate::lifecycle::testing::{CLUSTER, cluster_key, core, object};
use model::hub::{ContractRef, Object};

fn with_set(replicas: i64) -> MachineSimulator {
    let mut simulator = setup();
    simulator.make(group("MachineSet", "set", replicas));
    assert!(simulator.settle(1_000));
    simulator
}

fn the_set(simulator: &MachineSimulator) -> Arc<Object> {
    simulator.core("MachineSet", "set")
}

fn failure(simulator: &MachineSimulator) -> Option<&str> {
    simulator.failure(&ObjectId::for_object(&the_set(simulator)))
}

fn edit(simulator: &mut MachineSimulator, change: impl FnOnce(&mut Object)) {
    simulator.edit(&the_set(simulator), change);
    assert!(simulator.settle(1_000));
}

fn scale(simulator: &mut MachineSimulator, replicas: i64) {
    edit(simulator, |set_| set(set_, "spec.replicas", json!(replicas)));
}

fn counters(simulator: &MachineSimulator) -> [i64; 4] {
    super::COUNTERS.map(|name| number(&the_set(simulator), &format!("status.{name}")).unwrap())
}

fn reason(simulator: &MachineSimulator, name: &str) -> String {
    conditions::reason(&the_set(simulator), name)
}

#[test]
fn a_set_makes_machines_with_what_they_need() {
    // MA-2.7, MA-15.1, MA-15.2, MA-15.7, MA-15.8, MA-15.9, MA-15.10
    let simulator = with_set(2);
    let made = machines(&simulator);
    assert_eq!(made.len(), 2);
    assert_eq!(simulator.all(&foo_machine()).len(), 2);
    assert_eq!(simulator.all(&foo_config()).len(), 2);
    let set = the_set(&simulator);
    assert!(set.has_finalizer(super::FINALIZER));
    assert_eq!(owner_name(&set, "Cluster"), Some(CLUSTER));
    assert_eq!(set.at("spec.selector.matchLabels").unwrap()["cluster.x-k8s.io/cluster-name"], CLUSTER);
    for machine in made {
        let name = machine.name();
        assert!(name.starts_with("set-") && name.len() == "set-".len() + 5, "{name}");
        assert!(crate::lifecycle::dependents::is_controlled_by(&machine, &set));
        assert!(machine.has_finalizer("machine.cluster.x-k8s.io"));
        let labels = texts(&machine, "metadata.labels");
        let want = [("app", "set"), ("cluster.x-k8s.io/cluster-name", CLUSTER), ("cluster.x-k8s.io/set-name", "set")];
        assert_eq!(labels.iter().map(|(name, value)| (&**name, &**value)).collect::<Vec<_>>(), want);
        assert_eq!((text(&machine, "spec.version"), text(&machine, "spec.clusterName")), ("v1.31.0", CLUSTER));
        for (path, kind, group) in [
            ("spec.bootstrap.configRef", "FooConfig", BOOTSTRAP),
            ("spec.infrastructureRef", "FooMachine", INFRASTRUCTURE),
        ] {
            let reference = machine.contract_ref_at(path);
            let want = ContractRef { api_group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned() };
            assert_eq!(reference, want);
            let clone = simulator.find(&GroupKind::new(group, kind), name).unwrap();
            assert_eq!((owner_name(&clone, "MachineSet"), clone.controller()), (Some("set"), None));
            assert_eq!(clone.label("cluster.x-k8s.io/set-name"), Some("set"));
        }
    }
    assert_eq!(failure(&simulator), None);
}

#[test]
fn a_naming_template_names_machines() {
    // MA-15.9
    let mut simulator = setup();
    let mut named = group("MachineSet", "set", 1);
    set(&mut named, "spec.machineNaming.template", json!("{{ .cluster.name }}-x-{{ .random }}"));
    simulator.make(named);
    assert!(simulator.settle(1_000));
    assert!(machines(&simulator)[0].name().starts_with("demo-x-"));
}

#[test]
fn a_set_of_a_deployment_has_no_owner_of_its_own_and_needs_the_deployment() {
    // MA-15.1, MA-15.2
    let mut simulator = setup();
    let mut labelled = group("MachineSet", "set", 1);
    crate::lifecycle::fields::set_label(&mut labelled, "cluster.x-k8s.io/deployment-name", "gone");
    simulator.make(labelled);
    assert!(simulator.settle(1_000));
    assert_eq!(owner_name(&the_set(&simulator), "Cluster"), None);
    assert!(failure(&simulator).unwrap().contains("MachineDeployment gone does not exist"));
    assert!(machines(&simulator).is_empty());
}

#[test]
fn templates_are_owned_by_the_cluster_and_have_to_exist() {
    // MA-15.3, MA-15.8, CT-15.4
    let mut simulator = setup();
    let mut lacking = group("MachineSet", "set", 1);
    set(&mut lacking, "spec.template.spec.infrastructureRef.name", json!("missing"));
    simulator.make(lacking);
    assert!(simulator.settle(1_000));
    assert!(failure(&simulator).unwrap().contains("FooMachineTemplate missing does not exist"));
    assert!(
        machines(&simulator).is_empty() && simulator.all(&foo_config()).is_empty(),
        "all objects of a machine are made or none"
    );
    let template = simulator.find(&GroupKind::new(BOOTSTRAP, "FooConfigTemplate"), "a").unwrap();
    // CT-15.4
    assert_eq!(owner_name(&template, "Cluster"), Some(CLUSTER));
    assert_eq!(template.controller(), None, "it does not control them");
    let message = conditions::get(&the_set(&simulator), "ScalingUp").unwrap().message;
    assert!(message.contains("FooMachineTemplate missing does not exist"), "{message}");
    simulator.make(infrastructure("missing"));
    assert!(simulator.advance() && simulator.settle(1_000));
    assert_eq!((failure(&simulator), machines(&simulator).len()), (None, 1));
}

#[test]
fn an_owner_is_matched_in_any_version_and_refreshed() {
    // CT-15.2
    let mut simulator = setup();
    let template = infrastructure("a");
    let cluster = simulator.core("Cluster", CLUSTER);
    let other = simulator.make(core("Cluster", "other", json!({})));
    let machine = simulator.make(core("Machine", CLUSTER, json!({"clusterName": "other"})));
    let owner = |version: &str, object: &Object| {
        json!({"apiVersion": format!("cluster.x-k8s.io/{version}"),
            "kind": object.kind(), "name": object.name(), "uid": object.uid()})
    };
    let others = [owner("v1beta1", &other), owner("v1beta1", &machine)];
    let known = json!([others[0], owner("v1beta1", &cluster), others[1]]);
    simulator.edit(&template, |it| set(it, "metadata.ownerReferences", known));
    simulator.make(group("MachineSet", "set", 1));
    assert!(simulator.settle(1_000));
    let template = simulator.find(&GroupKind::new(INFRASTRUCTURE, "FooMachineTemplate"), "a").unwrap();
    let want = [others[0].clone(), owner("v1beta2", &cluster), others[1].clone()];
    assert_eq!(items(&template, "metadata.ownerReferences"), want);
}

#[test]
fn machines_without_a_controller_are_adopted_and_those_of_others_are_not_counted() {
    // MA-15.4
    let mut simulator = setup();
    let make = |simulator: &mut MachineSimulator, name: &str, owners: Value| {
        let mut machine = core("Machine", name, json!({"clusterName": CLUSTER}));
        crate::lifecycle::fields::set_label(&mut machine, "app", "set");
        set(&mut machine, "metadata.ownerReferences", owners);
        simulator.make(machine);
    };
    make(&mut simulator, "free", json!([]));
    let other = json!([{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "x", "controller": true}]);
    make(&mut simulator, "theirs", other);
    simulator.make(group("MachineSet", "set", 1));
    assert!(simulator.settle(1_000));
    assert_eq!(machines(&simulator).len(), 2);
    assert_eq!(owner_name(&simulator.core("Machine", "free"), "MachineSet"), Some("set"));
    assert_eq!(owner_name(&simulator.core("Machine", "theirs"), "MachineSet"), None);
    assert_eq!(counters(&simulator)[0], 1);
    make(&mut simulator, "late", json!([]));
    assert!(simulator.settle(1_000));
    assert_eq!(owner_name(&simulator.core("Machine", "late"), "MachineSet"), Some("set"));
    let theirs = simulator.core("Machine", "theirs");
    simulator.edit(&theirs, |machine| set(machine, "metadata.ownerReferences", json!([])));
    assert!(simulator.settle(1_000));
    assert_eq!(counters(&simulator)[0], 1);
    assert_eq!(owner_name(&simulator.core("Machine", "theirs"), "MachineSet"), Some("set"), "released by its owner");
}

#[test]
fn a_selector_that_cannot_be_read_stops_the_step() {
    // MA-15.5
    let mut simulator = setup();
    let mut bad = group("MachineSet", "set", 3);
    set(&mut bad, "spec.selector.matchExpressions", json!([{"key": "app", "operator": "Near"}]));
    let mut machine = core("Machine", "m", machine_spec("a"));
    crate::lifecycle::fields::set_label(&mut machine, "app", "set");
    crate::lifecycle::fields::set_label(&mut machine, "cluster.x-k8s.io/cluster-name", CLUSTER);
    simulator.make(machine);
    simulator.make(bad);
    assert!(simulator.settle(1_000));
    assert!(failure(&simulator).unwrap().contains("Near"));
    assert_eq!(machines(&simulator).len(), 1, "no machine is made for a list that could not be read");
}

#[test]
fn a_set_that_is_deleted_goes_after_its_machines() {
    // MA-15.6
    let mut simulator = with_set(2);
    let id = ObjectId::for_object(&the_set(&simulator));
    simulator.delete(&id);
    assert!(simulator.settle(1_000));
    assert!(machines(&simulator).iter().all(|machine| machine.is_being_deleted()));
    assert_eq!(reason(&simulator, "Deleting"), "Deleting");
    assert!(conditions::get(&the_set(&simulator), "Deleting").unwrap().message.contains("set-"));
    drive(&mut simulator);
    assert!(simulator.objects.get(&id).is_none() && machines(&simulator).is_empty());
}

#[test]
fn a_machine_that_cannot_be_deleted_does_not_stop_the_others() {
    // MA-4.3, MA-15.6, MA-15.12
    let mut simulator = with_set(3);
    simulator.refuses = |write| write.object().is_some_and(|object| object.kind() == "Machine");
    scale(&mut simulator, 0);
    assert!(simulator.settle(1_000));
    assert!(failure(&simulator).is_some() && machines(&simulator).iter().all(|machine| !machine.is_being_deleted()));
    assert_eq!(counters(&simulator)[0], 3, "the status is written");
    let first = machines(&simulator).remove(0);
    simulator.edit(&first, |it| set(it, "metadata.labels.is-refused", json!("")));
    simulator.refuses = |write| write.object().is_some_and(|object| object.label("is-refused").is_some());
    simulator.delete(&ObjectId::for_object(&the_set(&simulator)));
    assert!(simulator.settle(1_000));
    let left = machines(&simulator);
    assert!(left.iter().all(|machine| machine.is_being_deleted() != (machine.name() == first.name())), "{left:?}");
}

#[test]
fn a_set_that_is_paused_does_nothing() {
    // MA-15.1
    let mut simulator = setup();
    simulator.edit(&simulator.core("Cluster", CLUSTER), |cluster| set(cluster, "spec.paused", json!(true)));
    simulator.make(group("MachineSet", "set", 2));
    assert!(simulator.settle(1_000));
    assert!(machines(&simulator).is_empty());
    assert_eq!(reason(&simulator, "Paused"), "Paused");
    simulator.edit(&simulator.core("Cluster", CLUSTER), |cluster| set(cluster, "spec.paused", json!(false)));
    assert!(simulator.settle(1_000));
    assert_eq!((machines(&simulator).len(), &*reason(&simulator, "Paused")), (2, "NotPaused"));
}

#[test]
fn a_set_deletes_the_machines_that_are_too_many() {
    // MA-15.7, MA-15.12
    let mut simulator = with_set(3);
    drive(&mut simulator);
    let names: Vec<String> = machines(&simulator).iter().map(|machine| machine.name().to_owned()).collect();
    let last = machines(&simulator)[2].clone();
    simulator.edit(&last, |machine| set_annotation(machine, "cluster.x-k8s.io/delete-machine", ""));
    scale(&mut simulator, 2);
    assert!(simulator.core("Machine", &names[2]).is_being_deleted(), "the one with the annotation goes first");
    scale(&mut simulator, 1);
    assert!(simulator.core("Machine", &names[0]).is_being_deleted());
    assert!(!simulator.core("Machine", &names[1]).is_being_deleted(), "those that are being deleted count");
    assert_eq!(counters(&simulator)[0], 3, "they count as replicas until they are gone");
    assert_eq!(reason(&simulator, "ScalingDown"), "ScalingDown");
    finish(&mut simulator);
    assert_eq!(machines(&simulator).len(), 1);
    edit(&mut simulator, |set_| set(set_, "spec.deletion.order", json!("Tallest")));
    scale(&mut simulator, 0);
    assert!(failure(&simulator).unwrap().contains("Tallest"));
}

#[test]
fn machines_that_are_being_deleted_come_before_those_with_the_annotation() {
    // MA-15.12, MA-16.1
    let mut simulator = with_set(3);
    drive(&mut simulator);
    let all = machines(&simulator);
    simulator.edit(&all[0], |machine| set_annotation(machine, "cluster.x-k8s.io/delete-machine", ""));
    simulator.delete(&ObjectId::for_object(&all[2]));
    scale(&mut simulator, 2);
    let is_leaving = |i: usize| simulator.core("Machine", all[i].name()).is_being_deleted();
    assert_eq!([is_leaving(0), is_leaving(1), is_leaving(2)], [false, false, true]);
}

#[test]
fn a_step_makes_a_hundred_machines_at_most_and_those_after_it_the_others() {
    // MA-15.7
    let mut simulator = setup();
    simulator.make(group("MachineSet", "set", 250));
    let id = ObjectId::for_object(&the_set(&simulator));
    let mut most = 0;
    while machines(&simulator).len() < 250 {
        let before = machines(&simulator).len();
        simulator.take(&id);
        most = most.max(machines(&simulator).len() - before);
    }
    assert_eq!(most, 100);
    let mut simulator = setup();
    simulator.make(group("MachineSet", "set", 250));
    assert!(simulator.settle(5_000));
    assert_eq!(machines(&simulator).len(), 250, "new machines wake their set");
    assert_eq!(reason(&simulator, "ScalingUp"), "NotScalingUp");
}

#[test]
fn a_set_may_be_told_to_make_no_machines() {
    // MA-15.7
    let mut simulator = with_set(1);
    edit(&mut simulator, |set| set_annotation(set, super::DISABLE_CREATE, "true"));
    scale(&mut simulator, 2);
    assert_eq!(machines(&simulator).len(), 1);
    edit(&mut simulator, |set| set_annotation(set, super::DISABLE_CREATE, "false"));
    assert_eq!(machines(&simulator).len(), 2);
}

#[test]
fn objects_that_no_machine_refers_to_are_deleted_when_the_set_is_scaled() {
    // MA-15.7
    let mut simulator = with_set(1);
    let orphan = |name: &str, simulator: &MachineSimulator| {
        let mut orphan = object(&format!("{INFRASTRUCTURE}/v1"), "FooMachine", name, json!({}));
        let owner = crate::lifecycle::fields::owner(&the_set(simulator), false);
        set(&mut orphan, "metadata.ownerReferences", json!([owner]));
        orphan
    };
    let made = orphan("orphan", &simulator);
    simulator.make(made);
    assert!(simulator.settle(1_000));
    assert!(simulator.find(&foo_machine(), "orphan").is_some());
    scale(&mut simulator, 2);
    assert!(simulator.find(&foo_machine(), "orphan").is_none());
    assert_eq!(simulator.all(&foo_machine()).len(), 2);
}

#[test]
fn some_fields_reach_running_machines() {
    // MA-15.11
    let mut simulator = with_set(1);
    drive(&mut simulator);
    let name = machines(&simulator)[0].name().to_owned();
    simulator.edit(&simulator.core("Machine", &name), |machine| set_annotation(machine, "theirs", "stays"));
    edit(&mut simulator, |it| {
        let labels = json!({"app": "set", "extra": "1", "cluster.x-k8s.io/cluster-name": CLUSTER});
        set(it, "spec.template.metadata.labels", labels);
        set(it, "spec.template.metadata.annotations", json!({"note": "1"}));
        for (field, value) in [
            ("minReadySeconds", json!(7)),
            ("deletion.nodeDrainTimeoutSeconds", json!(8)),
            ("readinessGates", json!([{"conditionType": "x"}])),
            ("taints", json!([{"key": "k", "effect": "NoSchedule", "propagation": "Always"}])),
            ("version", json!("v1.32.0")),
            ("failureDomain", json!("one")),
        ] {
            set(it, &format!("spec.template.spec.{field}"), value);
        }
    });
    let machine = simulator.core("Machine", &name);
    for object in
        [machine.clone(), simulator.find(&foo_machine(), &name).unwrap(), simulator.find(&foo_config(), &name).unwrap()]
    {
        assert_eq!((object.label("extra"), object.annotation("note")), (Some("1"), Some("1")), "{}", object.kind());
    }
    assert_eq!(machine.annotation("theirs"), Some("stays"));
    assert_eq!(
        (number(&machine, "spec.minReadySeconds"), number(&machine, "spec.deletion.nodeDrainTimeoutSeconds")),
        (Some(7), Some(8))
    );
    assert_eq!(number(&machine, "spec.deletion.nodeDeletionTimeoutSeconds"), Some(10));
    assert_eq!((items(&machine, "spec.taints").len(), items(&machine, "spec.readinessGates").len()), (1, 1));
    assert_eq!((text(&machine, "spec.version"), text(&machine, "spec.failureDomain")), ("v1.31.0", ""));
    edit(&mut simulator, |it| {
        set(it, "spec.template.metadata.labels", json!({"app": "set", "cluster.x-k8s.io/cluster-name": CLUSTER}));
        set(it, "spec.template.metadata.annotations", Value::Null);
        set(it, "spec.template.spec.minReadySeconds", Value::Null);
    });
    let machine = simulator.core("Machine", &name);
    for object in [machine.clone(), simulator.find(&foo_machine(), &name).unwrap()] {
        assert_eq!((object.label("extra"), object.annotation("note")), (None, None), "{}", object.kind());
    }
    assert_eq!(simulator.find(&foo_machine(), &name).unwrap().label("of"), Some("template"));
    assert_eq!(machine.annotation("theirs"), Some("stays"));
    assert_eq!(number(&machine, "spec.minReadySeconds"), None);
    let id = ObjectId::for_object(&machine);
    simulator.delete(&id);
    edit(&mut simulator, |it| {
        set(it, "spec.template.metadata.annotations", json!({"late": "1"}));
        set(it, "spec.template.spec.minReadySeconds", json!(9));
    });
    let machine = simulator.core("Machine", &name);
    assert_eq!((machine.annotation("late"), number(&machine, "spec.minReadySeconds")), (None, Some(9)));
}

#[test]
fn the_status_counts_machines_and_their_versions() {
    // MA-18.1, MA-18.2, MA-18.3, MA-18.4
    let mut simulator = with_set(3);
    assert_eq!(counters(&simulator), [3, 0, 0, 0]);
    assert_eq!(reason(&simulator, "MachinesReady"), "ReadyUnknown");
    assert_eq!(reason(&simulator, "MachinesUpToDate"), "NoReplicas", "young machines are left out");
    drive(&mut simulator);
    assert_eq!(counters(&simulator), [3, 3, 3, 3], "a change of a machine is counted at once");
    let all = machines(&simulator);
    mark(&mut simulator, &all[0], "Available", false, "No");
    mark(&mut simulator, &all[1], "UpToDate", false, "No");
    mark(&mut simulator, &all[2], "Ready", false, "No");
    for (machine, version) in all.iter().zip(["v1.32.0", "v1.9.0", ""]) {
        simulator.edit(machine, |machine| set(machine, "status.nodeInfo.kubeletVersion", json!(version)));
    }
    assert!(simulator.settle(1_000));
    assert_eq!(counters(&simulator), [3, 2, 2, 2]);
    let set = the_set(&simulator);
    let versions: Vec<_> =
        ["v1.9.0", "v1.31.0", "v1.32.0"].iter().map(|version| json!({"version": version, "replicas": 1})).collect();
    assert_eq!(items(&set, "status.versions"), versions);
    assert_eq!(text(&set, "status.selector"), "app=set,cluster.x-k8s.io/cluster-name=demo");
    assert_eq!(number(&set, "status.observedGeneration"), number(&set, "metadata.generation"));
    for (name, want) in [
        ("ScalingUp", "NotScalingUp"),
        ("ScalingDown", "NotScalingDown"),
        ("MachinesReady", "NotReady"),
        ("MachinesUpToDate", "NotUpToDate"),
        ("Remediating", "NotRemediating"),
        ("Deleting", "NotDeleting"),
        ("Paused", "NotPaused"),
    ] {
        assert_eq!(reason(&simulator, name), want, "{name}");
    }
}

#[test]
fn machines_that_do_not_say_whether_they_are_up_to_date_count_after_ten_seconds() {
    // MA-18.4
    let mut simulator = with_set(1);
    simulator.run(core::time::Duration::from_secs(9));
    assert_eq!(reason(&simulator, "MachinesUpToDate"), "NoReplicas");
    simulator.run(core::time::Duration::from_secs(2));
    assert_eq!(reason(&simulator, "MachinesUpToDate"), "UpToDateUnknown");
}

#[test]
fn the_counters_of_earlier_versions_look_at_nodes() {
    // MA-18.5
    let mut simulator = with_set(3);
    let counters = |simulator: &MachineSimulator| {
        ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]
            .map(|name| number(&the_set(simulator), &format!("status.deprecated.v1beta1.{name}")))
    };
    assert_eq!(counters(&simulator), [Some(3), None, None], "no workload cluster is connected");
    edit(&mut simulator, |it| set(it, "spec.template.spec.minReadySeconds", json!(60)));
    let all = machines(&simulator);
    simulator.objects.workload_mut(&cluster_key()).is_reachable = true;
    for (machine, ready) in all.iter().zip(["True", "True", "False"]) {
        let since = if machine.name() == all[0].name() { "2029-12-31T23:00:00Z" } else { "2030-01-01T00:00:00Z" };
        let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": since});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": machine.name()},
            "status": {"conditions": [condition]}});
        simulator.create(Some(&cluster_key()), Object::try_from(node).unwrap()).unwrap();
        simulator.edit(machine, |machine| set(machine, "status.nodeRef.name", json!(machine.name().to_owned())));
    }
    assert!(simulator.settle(1_000));
    assert_eq!(counters(&simulator), [Some(3), Some(2), Some(1)], "one has been ready for an hour");
    simulator.run(core::time::Duration::from_secs(61));
    assert_eq!(counters(&simulator)[1..], [Some(2), Some(2)]);
    simulator.objects.workload_mut(&cluster_key()).is_reachable = false;
    edit(&mut simulator, |it| set_annotation(it, "note", "x"));
    assert!(simulator.settle(1_000));
    assert_eq!(counters(&simulator)[1..], [Some(2), Some(2)], "what is unknown stays");
}

/// A Cluster with a control plane, and a set of one machine that may not be created yet.
fn held(change: impl FnOnce(&mut Object, &mut Object, &mut Object)) -> MachineSimulator {
    let mut simulator = setup();
    let mut control_plane =
        object("controlplane.example.com/v1", "FooControlPlane", "cp", json!({"version": "v1.31.0"}));
    set(&mut control_plane, "status.version", json!("v1.31.0"));
    let mut cluster = (*simulator.core("Cluster", CLUSTER)).clone();
    let reference = json!({"apiGroup": "controlplane.example.com", "kind": "FooControlPlane", "name": "cp"});
    set(&mut cluster, "spec.controlPlaneRef", reference);
    let mut made = group("MachineSet", "set", 1);
    change(&mut cluster, &mut control_plane, &mut made);
    let (spec, annotations) = (cluster.at("spec").cloned(), cluster.at("metadata.annotations").cloned());
    simulator.edit(&cluster, |it| {
        set(it, "spec", spec.unwrap());
        set(it, "metadata.annotations", annotations.unwrap_or_default());
    });
    simulator.make(control_plane);
    simulator.make(made);
    assert!(simulator.settle(1_000));
    simulator
}

#[test]
fn preflight_checks_hold_machines() {
    // MA-17.1, MA-17.2, MA-17.3, MA-17.4, MA-17.5, MA-17.6
    const SKIP: &str = "machineset.cluster.x-k8s.io/skip-preflight-checks";
    type Change = fn(&mut Object, &mut Object, &mut Object);
    let cases: [(&str, Change, Result<(), &str>); 17] = [
        ("all is well", |_, _, _| {}, Ok(())),
        (
            "no control plane",
            |cluster, cp, _| {
                set(cluster, "spec.controlPlaneRef", Value::Null);
                set(cp, "status.version", Value::Null);
            },
            Ok(()),
        ),
        ("control plane without versions", |_, cp, _| set(cp, "spec.version", Value::Null), Ok(())),
        ("is provisioned", |_, cp, _| set(cp, "status.version", Value::Null), Err("is being provisioned")),
        ("is upgraded", |_, cp, _| set(cp, "status.version", json!("v1.30.0")), Err("is being upgraded to v1.31.0")),
        (
            "has an upgrade ahead",
            |cluster, _, _| set(cluster, "spec.topology.version", json!("v1.32.0")),
            Err("pending upgrade to v1.32.0"),
        ),
        (
            "is at a step of an upgrade",
            |cluster, _, _| {
                set(cluster, "spec.topology.version", json!("v1.32.0"));
                set_annotation(cluster, "topology.internal.cluster.x-k8s.io/upgrade-step", "v1.31.0");
            },
            Ok(()),
        ),
        ("higher", |_, _, it| set(it, "spec.template.spec.version", json!("v1.32.0")), Err("KubernetesVersionSkew")),
        ("three behind", |_, _, it| set(it, "spec.template.spec.version", json!("v1.28.0")), Ok(())),
        (
            "four behind",
            |_, _, it| set(it, "spec.template.spec.version", json!("v1.27.0")),
            Err("KubernetesVersionSkew"),
        ),
        (
            "an early control plane",
            |_, cp, it| {
                set(cp, "spec.version", json!("v1.2.0"));
                set(cp, "status.version", json!("v1.2.0"));
                set(it, "spec.template.spec.version", json!("v1.1.0"));
            },
            Ok(()),
        ),
        ("no version", |_, _, it| set(it, "spec.template.spec.version", Value::Null), Ok(())),
        (
            "not the version of the topology",
            |cluster, _, it| {
                set(cluster, "spec.topology.version", json!("v1.31.0"));
                set(it, "spec.template.spec.version", json!("v1.30.0"));
            },
            Err("ControlPlaneVersionSkew"),
        ),
        (
            "one is skipped",
            |_, _, it| {
                set(it, "spec.template.spec.version", json!("v1.32.0"));
                set_annotation(it, SKIP, "KubeadmVersionSkew, KubernetesVersionSkew");
            },
            Ok(()),
        ),
        (
            "another is skipped",
            |_, _, it| {
                set(it, "spec.template.spec.version", json!("v1.32.0"));
                set_annotation(it, SKIP, "ControlPlaneIsStable");
            },
            Err("KubernetesVersionSkew"),
        ),
        (
            "all are skipped",
            |_, cp, it| {
                set(cp, "status.version", Value::Null);
                set_annotation(it, SKIP, "All");
            },
            Ok(()),
        ),
        ("is not a version", |_, _, it| set(it, "spec.template.spec.version", json!("new")), Err("\"new\"")),
    ];
    for (case, change, want) in cases {
        let simulator = held(change);
        let message = conditions::get(&the_set(&simulator), "ScalingUp").unwrap().message;
        let reported = format!("{message} {}", failure(&simulator).unwrap_or_default());
        match want {
            Ok(()) => assert_eq!(machines(&simulator).len(), 1, "{case}: {reported}"),
            Err(words) => {
                assert!(reported.contains(words), "{case}: {reported}");
                assert!(machines(&simulator).is_empty(), "{case}");
            }
        }
    }
}

#[test]
fn preflight_checks_that_fail_are_made_again() {
    // MA-17.7
    let mut simulator = held(|_, cp, _| set(cp, "status.version", Value::Null));
    assert_eq!(failure(&simulator), None, "a check that fails is no error");
    let control_plane = simulator.find(&GroupKind::new("controlplane.example.com", "FooControlPlane"), "cp").unwrap();
    simulator.edit(&control_plane, |it| set(it, "status.version", json!("v1.31.0")));
    simulator.run(core::time::Duration::from_secs(14));
    assert!(machines(&simulator).is_empty());
    simulator.run(core::time::Duration::from_secs(1));
    assert_eq!(machines(&simulator).len(), 1, "it is looked at again after 15 seconds");
}

#[test]
fn kubeadm_joins_machines_of_its_own_minor_version() {
    // MA-17.4, MA-17.6: also the bootstrap template may name checks to skip
    for (skips, want) in [(None, 0), (Some("KubeadmVersionSkew"), 1)] {
        let mut simulator = setup();
        let mut template =
            object("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate", "k", json!({"template": {}}));
        skips.into_iter().for_each(|skips| {
            set_annotation(&mut template, "machineset.cluster.x-k8s.io/skip-preflight-checks", skips);
        });
        simulator.make(template);
        let mut control_plane =
            object("controlplane.example.com/v1", "FooControlPlane", "cp", json!({"version": "v1.32.0"}));
        set(&mut control_plane, "status.version", json!("v1.32.0"));
        simulator.make(control_plane);
        let reference = json!({"apiGroup": "controlplane.example.com", "kind": "FooControlPlane", "name": "cp"});
        simulator.edit(&simulator.core("Cluster", CLUSTER), |cluster| set(cluster, "spec.controlPlaneRef", reference));
        let mut made = group("MachineSet", "set", 1);
        let reference = json!({"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfigTemplate", "name": "k"});
        set(&mut made, "spec.template.spec.bootstrap.configRef", reference);
        simulator.make(made);
        assert!(simulator.settle(1_000));
        assert_eq!(machines(&simulator).len(), want, "{skips:?}");
    }
}

/// Marks a machine as unhealthy, like a health check.
fn fail(simulator: &mut MachineSimulator, machine: &Object) {
    mark(simulator, machine, "HealthCheckSucceeded", false, "UnhealthyNode");
    mark(simulator, machine, "OwnerRemediated", false, "WaitingForRemediation");
}

#[test]
fn unhealthy_machines_are_marked_deleted_and_replaced() {
    // MA-19.10, MA-19.13
    let mut simulator = with_set(2);
    drive(&mut simulator);
    let sick = machines(&simulator)[0].clone();
    fail(&mut simulator, &sick);
    assert!(simulator.settle(1_000));
    let machine = simulator.core("Machine", sick.name());
    assert!(machine.is_being_deleted());
    assert_eq!(conditions::reason(&machine, "OwnerRemediated"), "MachineDeleting");
    assert_eq!(reason(&simulator, "Remediating"), "Remediating");
    assert_eq!(machines(&simulator).len(), 2, "the replacement is made when it is gone");
    finish(&mut simulator);
    assert_eq!((machines(&simulator).len(), simulator.objects.get(&ObjectId::for_object(&sick)).is_none()), (2, true));
    let well = machines(&simulator)[0].clone();
    mark(&mut simulator, &well, "HealthCheckSucceeded", true, "Ok");
    mark(&mut simulator, &well, "OwnerRemediated", false, "RemediationDeferred");
    assert!(simulator.settle(1_000));
    assert_eq!(conditions::get(&simulator.core("Machine", well.name()), "OwnerRemediated"), None);
}

#[test]
fn a_machine_that_cannot_be_marked_is_not_remediated() {
    // MA-19.12: the limit counts machines by their marks.
    let mut simulator = with_set(3);
    drive(&mut simulator);
    for machine in machines(&simulator) {
        fail(&mut simulator, &machine);
    }
    simulator.refuses = |write| matches!(write, ObjectWrite::Update { before, .. } if before.kind() == "Machine");
    assert!(simulator.settle(1_000));
    assert!(machines(&simulator).iter().all(|machine| !machine.is_being_deleted()));
    assert!(failure(&simulator).is_some_and(|text| text.contains("is refused")));
}

#[test]
fn remediation_waits_for_preflight_checks() {
    // MA-19.13
    let mut simulator = held(|_, _, _| {});
    drive(&mut simulator);
    let control_plane = simulator.find(&GroupKind::new("controlplane.example.com", "FooControlPlane"), "cp").unwrap();
    simulator.edit(&control_plane, |it| set(it, "status.version", json!("v1.30.0")));
    let sick = machines(&simulator)[0].clone();
    fail(&mut simulator, &sick);
    assert!(simulator.settle(1_000));
    let machine = simulator.core("Machine", sick.name());
    assert_eq!(
        (machine.is_being_deleted(), &*conditions::reason(&machine, "OwnerRemediated")),
        (false, "RemediationDeferred")
    );
    simulator.edit(&control_plane, |it| set(it, "status.version", json!("v1.31.0")));
    simulator.run(core::time::Duration::from_secs(15));
    assert!(simulator.core("Machine", sick.name()).is_being_deleted());
}

use std::sync::Arc;

use serde_json::{Value, json};

use super::testing::{
    BOOTSTRAP, INFRASTRUCTURE, drive, finish, foo_config, foo_machine, group, infrastructure, machine_spec, machines,
    mark, scene,
};
use crate::lifecycle::conditions;
use crate::lifecycle::fields::{
    controller, has_finalizer, items, number, owner_name, set, set_annotation, text, texts,
};
use crate::lifecycle::fold::Fold;
use crate::lifecycle::objects::{GroupKind, ObjectId};
use crate::lifecycle::testing::{CLUSTER, cluster_key, core, object};
use model::hub::{ContractRef, Object};

fn with_set(replicas: i64) -> Fold {
    let mut fold = scene();
    fold.make(group("MachineSet", "set", replicas));
    assert!(fold.settle(1_000));
    fold
}

fn the_set(fold: &Fold) -> Arc<Object> {
    fold.core("MachineSet", "set")
}

fn failure(fold: &Fold) -> Option<&str> {
    fold.failure(&ObjectId::of(&the_set(fold)))
}

fn edit(fold: &mut Fold, change: impl FnOnce(&mut Object)) {
    fold.edit(&the_set(fold), change);
    assert!(fold.settle(1_000));
}

fn scale(fold: &mut Fold, replicas: i64) {
    edit(fold, |set_| set(set_, "spec.replicas", json!(replicas)));
}

fn counters(fold: &Fold) -> [i64; 4] {
    super::COUNTERS.map(|name| number(&the_set(fold), &format!("status.{name}")).unwrap())
}

fn reason(fold: &Fold, name: &str) -> String {
    conditions::reason(&the_set(fold), name)
}

#[test]
fn a_set_makes_machines_with_what_they_need() {
    // MA-2.7, MA-15.1, MA-15.2, MA-15.7, MA-15.8, MA-15.9, MA-15.10
    let fold = with_set(2);
    let made = machines(&fold);
    assert_eq!(made.len(), 2);
    assert_eq!(fold.all(&foo_machine()).len(), 2);
    assert_eq!(fold.all(&foo_config()).len(), 2);
    let set = the_set(&fold);
    assert!(has_finalizer(&set, super::FINALIZER));
    assert_eq!(owner_name(&set, "Cluster"), Some(CLUSTER));
    assert_eq!(set.at("spec.selector.matchLabels").unwrap()["cluster.x-k8s.io/cluster-name"], CLUSTER);
    for machine in made {
        let name = machine.name();
        assert!(name.starts_with("set-") && name.len() == "set-".len() + 5, "{name}");
        assert!(crate::lifecycle::wake::is_controlled_by(&machine, &set));
        assert!(has_finalizer(&machine, "machine.cluster.x-k8s.io"));
        let labels = texts(&machine, "metadata.labels");
        let want = [("app", "set"), ("cluster.x-k8s.io/cluster-name", CLUSTER), ("cluster.x-k8s.io/set-name", "set")];
        assert_eq!(labels.iter().map(|(name, value)| (&**name, &**value)).collect::<Vec<_>>(), want);
        assert_eq!((text(&machine, "spec.version"), text(&machine, "spec.clusterName")), ("v1.31.0", CLUSTER));
        for (path, kind, group) in [
            ("spec.bootstrap.configRef", "FooConfig", BOOTSTRAP),
            ("spec.infrastructureRef", "FooMachine", INFRASTRUCTURE),
        ] {
            let reference = crate::lifecycle::fields::reference(&machine, path);
            let want = ContractRef { api_group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned() };
            assert_eq!(reference, want);
            let clone = fold.find(&GroupKind::new(group, kind), name).unwrap();
            assert_eq!((owner_name(&clone, "MachineSet"), controller(&clone)), (Some("set"), None));
            assert_eq!(clone.label("cluster.x-k8s.io/set-name"), Some("set"));
        }
    }
    assert_eq!(failure(&fold), None);
}

#[test]
fn a_naming_template_names_machines() {
    // MA-15.9
    let mut fold = scene();
    let mut named = group("MachineSet", "set", 1);
    set(&mut named, "spec.machineNaming.template", json!("{{ .cluster.name }}-x-{{ .random }}"));
    fold.make(named);
    assert!(fold.settle(1_000));
    assert!(machines(&fold)[0].name().starts_with("demo-x-"));
}

#[test]
fn a_set_of_a_deployment_has_no_owner_of_its_own_and_needs_the_deployment() {
    // MA-15.1, MA-15.2
    let mut fold = scene();
    let mut labelled = group("MachineSet", "set", 1);
    crate::lifecycle::fields::set_label(&mut labelled, "cluster.x-k8s.io/deployment-name", "gone");
    fold.make(labelled);
    assert!(fold.settle(1_000));
    assert_eq!(owner_name(&the_set(&fold), "Cluster"), None);
    assert!(failure(&fold).unwrap().contains("MachineDeployment gone does not exist"));
    assert!(machines(&fold).is_empty());
}

#[test]
fn templates_are_owned_by_the_cluster_and_have_to_exist() {
    // MA-15.3, MA-15.8, CT-15.4
    let mut fold = scene();
    let mut lacking = group("MachineSet", "set", 1);
    set(&mut lacking, "spec.template.spec.infrastructureRef.name", json!("missing"));
    fold.make(lacking);
    assert!(fold.settle(1_000));
    assert!(failure(&fold).unwrap().contains("FooMachineTemplate missing does not exist"));
    assert!(
        machines(&fold).is_empty() && fold.all(&foo_config()).is_empty(),
        "all objects of a machine are made or none"
    );
    let template = fold.find(&GroupKind::new(BOOTSTRAP, "FooConfigTemplate"), "a").unwrap();
    // CT-15.4
    assert_eq!(owner_name(&template, "Cluster"), Some(CLUSTER));
    assert_eq!(controller(&template), None, "it does not control them");
    let message = conditions::get(&the_set(&fold), "ScalingUp").unwrap().message;
    assert!(message.contains("FooMachineTemplate missing does not exist"), "{message}");
    fold.make(infrastructure("missing"));
    assert!(fold.advance() && fold.settle(1_000));
    assert_eq!((failure(&fold), machines(&fold).len()), (None, 1));
}

#[test]
fn an_owner_is_matched_in_any_version_and_refreshed() {
    // CT-15.2
    let mut fold = scene();
    let template = infrastructure("a");
    let cluster = fold.core("Cluster", CLUSTER);
    let other = fold.make(core("Cluster", "other", json!({})));
    let machine = fold.make(core("Machine", CLUSTER, json!({"clusterName": "other"})));
    let owner = |version: &str, object: &Object| json!({"apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": object.kind(), "name": object.name(), "uid": object.uid()});
    let others = [owner("v1beta1", &other), owner("v1beta1", &machine)];
    let known = json!([others[0], owner("v1beta1", &cluster), others[1]]);
    fold.edit(&template, |it| set(it, "metadata.ownerReferences", known));
    fold.make(group("MachineSet", "set", 1));
    assert!(fold.settle(1_000));
    let template = fold.find(&GroupKind::new(INFRASTRUCTURE, "FooMachineTemplate"), "a").unwrap();
    let want = [others[0].clone(), owner("v1beta2", &cluster), others[1].clone()];
    assert_eq!(items(&template, "metadata.ownerReferences"), want);
}

#[test]
fn machines_without_a_controller_are_adopted_and_those_of_others_are_not_counted() {
    // MA-15.4
    let mut fold = scene();
    let make = |fold: &mut Fold, name: &str, owners: Value| {
        let mut machine = core("Machine", name, json!({"clusterName": CLUSTER}));
        crate::lifecycle::fields::set_label(&mut machine, "app", "set");
        set(&mut machine, "metadata.ownerReferences", owners);
        fold.make(machine);
    };
    make(&mut fold, "free", json!([]));
    let other = json!([{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "x", "controller": true}]);
    make(&mut fold, "theirs", other);
    fold.make(group("MachineSet", "set", 1));
    assert!(fold.settle(1_000));
    assert_eq!(machines(&fold).len(), 2);
    assert_eq!(owner_name(&fold.core("Machine", "free"), "MachineSet"), Some("set"));
    assert_eq!(owner_name(&fold.core("Machine", "theirs"), "MachineSet"), None);
    assert_eq!(counters(&fold)[0], 1);
}

#[test]
fn a_selector_that_cannot_be_read_stops_the_step() {
    // MA-15.5
    let mut fold = scene();
    let mut bad = group("MachineSet", "set", 3);
    set(&mut bad, "spec.selector.matchExpressions", json!([{"key": "app", "operator": "Near"}]));
    let mut machine = core("Machine", "m", machine_spec("a"));
    crate::lifecycle::fields::set_label(&mut machine, "app", "set");
    crate::lifecycle::fields::set_label(&mut machine, "cluster.x-k8s.io/cluster-name", CLUSTER);
    fold.make(machine);
    fold.make(bad);
    assert!(fold.settle(1_000));
    assert!(failure(&fold).unwrap().contains("Near"));
    assert_eq!(machines(&fold).len(), 1, "no machine is made for a list that could not be read");
}

#[test]
fn a_set_that_is_deleted_goes_after_its_machines() {
    // MA-15.6
    let mut fold = with_set(2);
    let id = ObjectId::of(&the_set(&fold));
    fold.delete(&id);
    assert!(fold.settle(1_000));
    assert!(machines(&fold).iter().all(|machine| machine.is_being_deleted()));
    assert_eq!(reason(&fold, "Deleting"), "Deleting");
    assert!(conditions::get(&the_set(&fold), "Deleting").unwrap().message.contains("set-"));
    drive(&mut fold);
    assert!(fold.objects.get(&id).is_none() && machines(&fold).is_empty());
}

#[test]
fn a_set_that_is_paused_does_nothing() {
    // MA-15.1
    let mut fold = scene();
    fold.edit(&fold.core("Cluster", CLUSTER), |cluster| set(cluster, "spec.paused", json!(true)));
    fold.make(group("MachineSet", "set", 2));
    assert!(fold.settle(1_000));
    assert!(machines(&fold).is_empty());
    assert_eq!(reason(&fold, "Paused"), "Paused");
    fold.edit(&fold.core("Cluster", CLUSTER), |cluster| set(cluster, "spec.paused", json!(false)));
    assert!(fold.settle(1_000));
    assert_eq!((machines(&fold).len(), &*reason(&fold, "Paused")), (2, "NotPaused"));
}

#[test]
fn a_set_deletes_the_machines_that_are_too_many() {
    // MA-15.7, MA-15.12
    let mut fold = with_set(3);
    drive(&mut fold);
    let names: Vec<String> = machines(&fold).iter().map(|machine| machine.name().to_owned()).collect();
    let last = machines(&fold)[2].clone();
    fold.edit(&last, |machine| set_annotation(machine, "cluster.x-k8s.io/delete-machine", ""));
    scale(&mut fold, 2);
    assert!(fold.core("Machine", &names[2]).is_being_deleted(), "the one with the annotation goes first");
    scale(&mut fold, 1);
    assert!(fold.core("Machine", &names[0]).is_being_deleted());
    assert!(!fold.core("Machine", &names[1]).is_being_deleted(), "those that are being deleted count");
    assert_eq!(counters(&fold)[0], 3, "they count as replicas until they are gone");
    assert_eq!(reason(&fold, "ScalingDown"), "ScalingDown");
    finish(&mut fold);
    assert_eq!(machines(&fold).len(), 1);
    edit(&mut fold, |set_| set(set_, "spec.deletion.order", json!("Tallest")));
    scale(&mut fold, 0);
    assert!(failure(&fold).unwrap().contains("Tallest"));
}

#[test]
fn a_step_makes_a_hundred_machines_at_most_and_those_after_it_the_others() {
    // MA-15.7
    let mut fold = scene();
    fold.make(group("MachineSet", "set", 250));
    let id = ObjectId::of(&the_set(&fold));
    let mut most = 0;
    while machines(&fold).len() < 250 {
        let before = machines(&fold).len();
        fold.take(&id);
        most = most.max(machines(&fold).len() - before);
    }
    assert_eq!(most, 100);
    let mut fold = scene();
    fold.make(group("MachineSet", "set", 250));
    assert!(fold.settle(5_000));
    assert_eq!(machines(&fold).len(), 250, "new machines wake their set");
    assert_eq!(reason(&fold, "ScalingUp"), "NotScalingUp");
}

#[test]
fn a_set_may_be_told_to_make_no_machines() {
    // MA-15.7
    let mut fold = with_set(1);
    edit(&mut fold, |set| set_annotation(set, super::DISABLE_CREATE, "true"));
    scale(&mut fold, 2);
    assert_eq!(machines(&fold).len(), 1);
    edit(&mut fold, |set| set_annotation(set, super::DISABLE_CREATE, "false"));
    assert_eq!(machines(&fold).len(), 2);
}

#[test]
fn objects_that_no_machine_refers_to_are_deleted_when_the_set_is_scaled() {
    // MA-15.7
    let mut fold = with_set(1);
    let orphan = |name: &str, fold: &Fold| {
        let mut orphan = object(&format!("{INFRASTRUCTURE}/v1"), "FooMachine", name, json!({}));
        let owner = crate::lifecycle::fields::owner(&the_set(fold), false);
        set(&mut orphan, "metadata.ownerReferences", json!([owner]));
        orphan
    };
    let made = orphan("orphan", &fold);
    fold.make(made);
    assert!(fold.settle(1_000));
    assert!(fold.find(&foo_machine(), "orphan").is_some());
    scale(&mut fold, 2);
    assert!(fold.find(&foo_machine(), "orphan").is_none());
    assert_eq!(fold.all(&foo_machine()).len(), 2);
}

#[test]
fn some_fields_reach_running_machines() {
    // MA-15.11
    let mut fold = with_set(1);
    drive(&mut fold);
    let name = machines(&fold)[0].name().to_owned();
    fold.edit(&fold.core("Machine", &name), |machine| set_annotation(machine, "theirs", "stays"));
    edit(&mut fold, |it| {
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
    let machine = fold.core("Machine", &name);
    for object in [machine.clone(), fold.find(&foo_machine(), &name).unwrap(), fold.find(&foo_config(), &name).unwrap()]
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
    edit(&mut fold, |it| {
        set(it, "spec.template.metadata.labels", json!({"app": "set", "cluster.x-k8s.io/cluster-name": CLUSTER}));
        set(it, "spec.template.metadata.annotations", Value::Null);
        set(it, "spec.template.spec.minReadySeconds", Value::Null);
    });
    let machine = fold.core("Machine", &name);
    for object in [machine.clone(), fold.find(&foo_machine(), &name).unwrap()] {
        assert_eq!((object.label("extra"), object.annotation("note")), (None, None), "{}", object.kind());
    }
    assert_eq!(fold.find(&foo_machine(), &name).unwrap().label("of"), Some("template"));
    assert_eq!(machine.annotation("theirs"), Some("stays"));
    assert_eq!(number(&machine, "spec.minReadySeconds"), None);
    let id = ObjectId::of(&machine);
    fold.delete(&id);
    edit(&mut fold, |it| {
        set(it, "spec.template.metadata.annotations", json!({"late": "1"}));
        set(it, "spec.template.spec.minReadySeconds", json!(9));
    });
    let machine = fold.core("Machine", &name);
    assert_eq!((machine.annotation("late"), number(&machine, "spec.minReadySeconds")), (None, Some(9)));
}

#[test]
fn the_status_counts_machines_and_their_versions() {
    // MA-18.1, MA-18.2, MA-18.3, MA-18.4
    let mut fold = with_set(3);
    assert_eq!(counters(&fold), [3, 0, 0, 0]);
    assert_eq!(reason(&fold, "MachinesReady"), "ReadyUnknown");
    assert_eq!(reason(&fold, "MachinesUpToDate"), "NoReplicas", "young machines are left out");
    drive(&mut fold);
    assert_eq!(counters(&fold), [3, 3, 3, 3], "a change of a machine is counted at once");
    let all = machines(&fold);
    mark(&mut fold, &all[0], "Available", false, "No");
    mark(&mut fold, &all[1], "UpToDate", false, "No");
    mark(&mut fold, &all[2], "Ready", false, "No");
    for (machine, version) in all.iter().zip(["v1.32.0", "v1.9.0", ""]) {
        fold.edit(machine, |machine| set(machine, "status.nodeInfo.kubeletVersion", json!(version)));
    }
    assert!(fold.settle(1_000));
    assert_eq!(counters(&fold), [3, 2, 2, 2]);
    let set = the_set(&fold);
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
        assert_eq!(reason(&fold, name), want, "{name}");
    }
}

#[test]
fn machines_that_do_not_say_whether_they_are_up_to_date_count_after_ten_seconds() {
    // MA-18.4
    let mut fold = with_set(1);
    fold.run(core::time::Duration::from_secs(9));
    assert_eq!(reason(&fold, "MachinesUpToDate"), "NoReplicas");
    fold.run(core::time::Duration::from_secs(2));
    assert_eq!(reason(&fold, "MachinesUpToDate"), "UpToDateUnknown");
}

#[test]
fn the_counters_of_earlier_versions_look_at_nodes() {
    // MA-18.5
    let mut fold = with_set(3);
    let counters = |fold: &Fold| {
        ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]
            .map(|name| number(&the_set(fold), &format!("status.deprecated.v1beta1.{name}")))
    };
    assert_eq!(counters(&fold), [Some(3), None, None], "no workload cluster is connected");
    edit(&mut fold, |it| set(it, "spec.template.spec.minReadySeconds", json!(60)));
    let all = machines(&fold);
    fold.objects.workload_mut(&cluster_key()).is_reachable = true;
    for (machine, ready) in all.iter().zip(["True", "True", "False"]) {
        let since = if machine.name() == all[0].name() { "2029-12-31T23:00:00Z" } else { "2030-01-01T00:00:00Z" };
        let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": since});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": machine.name()},
            "status": {"conditions": [condition]}});
        fold.create(Some(&cluster_key()), Object::try_from(node).unwrap()).unwrap();
        fold.edit(machine, |machine| set(machine, "status.nodeRef.name", json!(machine.name().to_owned())));
    }
    assert!(fold.settle(1_000));
    assert_eq!(counters(&fold), [Some(3), Some(2), Some(1)], "one has been ready for an hour");
    fold.run(core::time::Duration::from_secs(61));
    assert_eq!(counters(&fold)[1..], [Some(2), Some(2)]);
    fold.objects.workload_mut(&cluster_key()).is_reachable = false;
    edit(&mut fold, |it| set_annotation(it, "note", "x"));
    assert!(fold.settle(1_000));
    assert_eq!(counters(&fold)[1..], [Some(2), Some(2)], "what is unknown stays");
}

/// A Cluster with a control plane, and a set of one machine that may not be made yet.
fn held(change: impl FnOnce(&mut Object, &mut Object, &mut Object)) -> Fold {
    let mut fold = scene();
    let mut control_plane =
        object("controlplane.example.com/v1", "FooControlPlane", "cp", json!({"version": "v1.31.0"}));
    set(&mut control_plane, "status.version", json!("v1.31.0"));
    let mut cluster = (*fold.core("Cluster", CLUSTER)).clone();
    let reference = json!({"apiGroup": "controlplane.example.com", "kind": "FooControlPlane", "name": "cp"});
    set(&mut cluster, "spec.controlPlaneRef", reference);
    let mut made = group("MachineSet", "set", 1);
    change(&mut cluster, &mut control_plane, &mut made);
    let (spec, annotations) = (cluster.at("spec").cloned(), cluster.at("metadata.annotations").cloned());
    fold.edit(&cluster, |it| {
        set(it, "spec", spec.unwrap());
        set(it, "metadata.annotations", annotations.unwrap_or_default());
    });
    fold.make(control_plane);
    fold.make(made);
    assert!(fold.settle(1_000));
    fold
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
        let fold = held(change);
        let message = conditions::get(&the_set(&fold), "ScalingUp").unwrap().message;
        let told = format!("{message} {}", failure(&fold).unwrap_or_default());
        match want {
            Ok(()) => assert_eq!(machines(&fold).len(), 1, "{case}: {told}"),
            Err(words) => {
                assert!(told.contains(words), "{case}: {told}");
                assert!(machines(&fold).is_empty(), "{case}");
            }
        }
    }
}

#[test]
fn preflight_checks_that_fail_are_made_again() {
    // MA-17.7
    let mut fold = held(|_, cp, _| set(cp, "status.version", Value::Null));
    assert_eq!(failure(&fold), None, "a check that fails is no error");
    let control_plane = fold.find(&GroupKind::new("controlplane.example.com", "FooControlPlane"), "cp").unwrap();
    fold.edit(&control_plane, |it| set(it, "status.version", json!("v1.31.0")));
    fold.run(core::time::Duration::from_secs(14));
    assert!(machines(&fold).is_empty());
    fold.run(core::time::Duration::from_secs(1));
    assert_eq!(machines(&fold).len(), 1, "it is looked at again after 15 seconds");
}

#[test]
fn kubeadm_joins_machines_of_its_own_minor_version() {
    // MA-17.4, MA-17.6: also the bootstrap template may name checks to skip
    for (skips, want) in [(None, 0), (Some("KubeadmVersionSkew"), 1)] {
        let mut fold = scene();
        let mut template =
            object("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate", "k", json!({"template": {}}));
        skips.into_iter().for_each(|skips| {
            set_annotation(&mut template, "machineset.cluster.x-k8s.io/skip-preflight-checks", skips);
        });
        fold.make(template);
        let mut control_plane =
            object("controlplane.example.com/v1", "FooControlPlane", "cp", json!({"version": "v1.32.0"}));
        set(&mut control_plane, "status.version", json!("v1.32.0"));
        fold.make(control_plane);
        let reference = json!({"apiGroup": "controlplane.example.com", "kind": "FooControlPlane", "name": "cp"});
        fold.edit(&fold.core("Cluster", CLUSTER), |cluster| set(cluster, "spec.controlPlaneRef", reference));
        let mut made = group("MachineSet", "set", 1);
        let reference = json!({"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfigTemplate", "name": "k"});
        set(&mut made, "spec.template.spec.bootstrap.configRef", reference);
        fold.make(made);
        assert!(fold.settle(1_000));
        assert_eq!(machines(&fold).len(), want, "{skips:?}");
    }
}

/// Marks machines as a health check does.
fn fail(fold: &mut Fold, machine: &Object) {
    mark(fold, machine, "HealthCheckSucceeded", false, "UnhealthyNode");
    mark(fold, machine, "OwnerRemediated", false, "WaitingForRemediation");
}

#[test]
fn unhealthy_machines_are_marked_deleted_and_replaced() {
    // MA-19.10, MA-19.13
    let mut fold = with_set(2);
    drive(&mut fold);
    let sick = machines(&fold)[0].clone();
    fail(&mut fold, &sick);
    assert!(fold.settle(1_000));
    let machine = fold.core("Machine", sick.name());
    assert!(machine.is_being_deleted());
    assert_eq!(conditions::reason(&machine, "OwnerRemediated"), "MachineDeleting");
    assert_eq!(reason(&fold, "Remediating"), "Remediating");
    assert_eq!(machines(&fold).len(), 2, "the replacement is made when it is gone");
    finish(&mut fold);
    assert_eq!((machines(&fold).len(), fold.objects.get(&ObjectId::of(&sick)).is_none()), (2, true));
    let well = machines(&fold)[0].clone();
    mark(&mut fold, &well, "HealthCheckSucceeded", true, "Ok");
    mark(&mut fold, &well, "OwnerRemediated", false, "RemediationDeferred");
    assert!(fold.settle(1_000));
    assert_eq!(conditions::get(&fold.core("Machine", well.name()), "OwnerRemediated"), None);
}

#[test]
fn remediation_waits_for_preflight_checks() {
    // MA-19.13
    let mut fold = held(|_, _, _| {});
    drive(&mut fold);
    let control_plane = fold.find(&GroupKind::new("controlplane.example.com", "FooControlPlane"), "cp").unwrap();
    fold.edit(&control_plane, |it| set(it, "status.version", json!("v1.30.0")));
    let sick = machines(&fold)[0].clone();
    fail(&mut fold, &sick);
    assert!(fold.settle(1_000));
    let machine = fold.core("Machine", sick.name());
    assert_eq!(
        (machine.is_being_deleted(), &*conditions::reason(&machine, "OwnerRemediated")),
        (false, "RemediationDeferred")
    );
    fold.edit(&control_plane, |it| set(it, "status.version", json!("v1.31.0")));
    fold.run(core::time::Duration::from_secs(15));
    assert!(fold.core("Machine", sick.name()).is_being_deleted());
}

//! Deletion of a Machine: hooks, drain, volumes, and the deletion order.

use super::*;
use crate::lifecycle::context::StepContext;
use crate::lifecycle::objects::RefusedEviction;
use crate::lifecycle::step::{ObjectWrite, Reconciliation, StepWrite};

/// A running Machine in a Cluster with a control plane machine, so that its Node is drained and deleted.
fn worker() -> MachineSimulator {
    let mut simulator = running();
    other_machine(&mut simulator);
    simulator
}

fn other_machine(simulator: &mut MachineSimulator) {
    let mut other = machine("cp");
    fields::set_label(&mut other, "cluster.x-k8s.io/control-plane", "");
    simulator.make(other);
    settle(simulator);
}

fn stage(simulator: &MachineSimulator) -> String {
    let (status, reason) = condition(simulator, "Deleting");
    assert_eq!(status, "True");
    reason
}

fn pod(simulator: &mut MachineSimulator, name: &str, change: impl FnOnce(&mut Object)) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"nodeName": "n1"},
    });
    let mut pod = Object::try_from(pod).unwrap();
    change(&mut pod);
    simulator.create(Some(&cluster_key()), pod).unwrap();
}

/// A Pod that takes some time to terminate.
fn slow_pod(simulator: &mut MachineSimulator, name: &str, change: impl FnOnce(&mut Object)) {
    pod(simulator, name, |pod| {
        set(pod, "metadata.finalizers", json!(["test/finalizer"]));
        change(pod);
    });
}

fn pod_id(name: &str) -> ObjectId {
    ObjectId { workload: Some(cluster_key()), kind: GroupKind::new("", "Pod"), key: ObjectKey::new("default", name) }
}

fn pods(simulator: &MachineSimulator) -> Vec<String> {
    let workload = simulator.objects.workload(&cluster_key()).unwrap();
    workload.all(&GroupKind::new("", "Pod")).map(|pod| pod.name().to_owned()).collect()
}

fn others(simulator: &mut MachineSimulator, workload_object: Value) {
    simulator.create(Some(&cluster_key()), Object::try_from(workload_object).unwrap()).unwrap();
}

fn rule(name: &str, spec: Value) -> Object {
    core("MachineDrainRule", name, spec)
}

#[test]
fn a_deletion_goes_stage_by_stage() {
    // MA-9.1, MA-9.2, MA-9.10, MA-9.11, MA-9.12, MA-9.13, MA-13.6, DEC-6
    let mut simulator = worker();
    pod(&mut simulator, "p", |_| {});
    delete(&mut simulator);
    assert_eq!((phase(&simulator), stage(&simulator)), ("Deleting".into(), "WaitingForInfrastructureDeletion".into()));
    assert_eq!(pods(&simulator), Vec::<String>::new());
    // MA-10.1
    assert_eq!(node_now(&simulator, "n1").unwrap().at("spec.unschedulable"), Some(&json!(true)));
    assert!(!simulator.find(&config(), "m1").unwrap().is_being_deleted());
    release(&mut simulator, &infrastructure());
    assert_eq!(stage(&simulator), "WaitingForBootstrapDeletion");
    assert!(node_now(&simulator, "n1").is_some());
    release(&mut simulator, &config());
    assert!(node_now(&simulator, "n1").is_none() && !is_there(&simulator));
    let reported: Vec<&str> = simulator.events.iter().map(|(_, _, event)| event.reason).collect();
    for reason in ["DrainingNode", "DeletingNode", "Deleted", "DeletionCompleted"] {
        assert!(reported.contains(&reason), "{reason}: {reported:?}");
    }
}

#[test]
fn the_status_says_deleted_before_the_machine_is_gone() {
    // DEC-6, MA-9.13
    let mut simulator = setup();
    simulator.make(machine("m1"));
    settle(&mut simulator);
    let id = ObjectId::core("Machine", NAMESPACE, "m1");
    simulator.delete(&id);
    let mut seen = Vec::new();
    while is_there(&simulator) && seen.len() < 9 {
        simulator.take(&id);
        seen.extend(is_there(&simulator).then(|| phase(&simulator)));
    }
    assert_eq!(seen, ["Deleting", "Deleted"]);
}

#[test]
fn a_machine_that_has_nothing_is_deleted_at_once() {
    // MA-3.4, MA-6.2, MA-7.1
    let mut simulator = setup();
    simulator.make(machine("m1"));
    settle(&mut simulator);
    delete(&mut simulator);
    assert!(!is_there(&simulator));
}

#[test]
fn the_node_is_left_alone_when_it_goes_with_its_cluster() {
    // MA-9.3, MA-9.4
    let plane = |change: fn(&mut Object)| {
        let mut plane = external("controlplane.cluster.x-k8s.io/v1beta2", "TestPlane", "p");
        change(&mut plane);
        plane
    };
    let refer = |cluster: &mut Object| {
        set(
            cluster,
            "spec.controlPlaneRef",
            json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "TestPlane", "name": "p"}),
        );
    };
    for (case, has_other, control_plane, is_handled) in [
        ("a control plane machine stays", true, None, true),
        ("none stays", false, None, false),
        ("the control plane object is missing", true, Some(None), true),
        ("the control plane object stays", true, Some(Some(plane(|_| {}))), true),
        (
            "it is being deleted",
            true,
            Some(Some(plane(|it| set(it, "metadata.deletionTimestamp", json!("2030-01-01T00:00:00Z"))))),
            false,
        ),
        (
            "it is managed elsewhere",
            false,
            Some(Some(plane(|it| set(it, "status.externalManagedControlPlane", json!(true))))),
            true,
        ),
    ] {
        let mut simulator = running();
        if has_other {
            other_machine(&mut simulator);
        }
        if let Some(control_plane) = control_plane {
            let cluster = simulator.core("Cluster", CLUSTER);
            simulator.edit(&cluster, refer);
            control_plane.into_iter().for_each(|plane| drop(simulator.make(plane)));
        }
        delete(&mut simulator);
        release(&mut simulator, &infrastructure());
        release(&mut simulator, &config());
        assert!(!is_there(&simulator), "{case}");
        assert_eq!(node_now(&simulator, "n1").is_none(), is_handled, "{case}");
    }
}

#[test]
fn a_cluster_whose_deletion_begins_ends_the_drain() {
    // MA-9.4
    let mut simulator = worker();
    slow_pod(&mut simulator, "p", |_| {});
    delete(&mut simulator);
    assert_eq!(stage(&simulator), "DrainingNode");
    let cluster = simulator.core("Cluster", CLUSTER);
    simulator.edit(&cluster, |cluster| set(cluster, "metadata.finalizers", json!(["cluster.cluster.x-k8s.io"])));
    simulator.delete(&ObjectId::for_object(&cluster));
    settle(&mut simulator);
    assert_eq!(stage(&simulator), "WaitingForInfrastructureDeletion");
}

#[test]
fn a_node_that_was_not_noted_is_found_by_its_provider_id() {
    // MA-9.3
    let mut simulator = setup();
    begin(&mut simulator);
    other_machine(&mut simulator);
    simulator.create(Some(&cluster_key()), node("n1", ID)).unwrap();
    edit(&mut simulator, &infrastructure(), "m1", |it| set(it, "spec.providerID", json!(ID)));
    delete(&mut simulator);
    assert_eq!(field(&simulator, "status.nodeRef.name"), "");
    assert_eq!(node_now(&simulator, "n1").unwrap().at("spec.unschedulable"), Some(&json!(true)));
}

#[test]
fn hooks_hold_a_deletion() {
    // MA-9.5, MA-9.9
    let mut simulator = worker();
    pod(&mut simulator, "p", |_| {});
    let (drain, terminate) =
        ("pre-drain.delete.hook.machine.cluster.x-k8s.io/b", "pre-terminate.delete.hook.machine.cluster.x-k8s.io");
    for name in [drain, "pre-drain.delete.hook.machine.cluster.x-k8s.io/a", terminate] {
        annotate(&mut simulator, name, "");
    }
    delete(&mut simulator);
    assert_eq!((stage(&simulator), pods(&simulator).len()), ("WaitingForPreDrainHook".into(), 1));
    assert!(message(&simulator, "Deleting").ends_with("/a, pre-drain.delete.hook.machine.cluster.x-k8s.io/b"));
    assert_eq!(field(&simulator, "status.deletion.waitForPreDrainHookStartTime"), "2030-01-01T00:00:00Z");
    edit(&mut simulator, &GroupKind::core("Machine"), "m1", |it| {
        set(it, "metadata.annotations", json!({terminate: ""}));
    });
    settle(&mut simulator);
    assert_eq!((stage(&simulator), pods(&simulator).len()), ("WaitingForPreTerminateHook".into(), 0));
    assert_eq!(field(&simulator, "status.deletion.waitForPreTerminateHookStartTime"), "2030-01-01T00:00:00Z");
    assert!(!simulator.find(&infrastructure(), "m1").unwrap().is_being_deleted());
    edit(&mut simulator, &GroupKind::core("Machine"), "m1", |it| drop(it.remove("metadata.annotations")));
    settle(&mut simulator);
    assert_eq!(stage(&simulator), "WaitingForInfrastructureDeletion");
}

#[test]
fn a_drain_can_be_left_out_and_has_a_limit() {
    // MA-9.6, MA-9.7
    for (case, annotation, timeout, seconds, want) in [
        ("no limit", "", 0, 86_400, "DrainingNode"),
        ("within the limit", "", 60, 59, "DrainingNode"),
        ("at the limit", "", 60, 80, "WaitingForInfrastructureDeletion"),
        ("left out", "machine.cluster.x-k8s.io/exclude-node-draining", 0, 0, "WaitingForInfrastructureDeletion"),
    ] {
        let mut simulator = worker();
        slow_pod(&mut simulator, "p", |_| {});
        edit(&mut simulator, &GroupKind::core("Machine"), "m1", |it| {
            set(it, "spec.deletion.nodeDrainTimeoutSeconds", json!(timeout));
            if !annotation.is_empty() {
                fields::set_annotation(it, annotation, "");
            }
        });
        delete(&mut simulator);
        pass(&mut simulator, seconds);
        assert_eq!(stage(&simulator), want, "{case}");
        let begun = field(&simulator, "status.deletion.nodeDrainStartTime");
        assert_eq!(begun.is_empty(), case == "left out", "{case}");
    }
}

#[test]
fn infrastructure_that_goes_first_ends_the_drain() {
    // MA-9.6
    let mut simulator = worker();
    slow_pod(&mut simulator, "p", |_| {});
    simulator.delete(&ObjectId::new(infrastructure(), ObjectKey::new(NAMESPACE, "m1")));
    delete(&mut simulator);
    assert_eq!(stage(&simulator), "WaitingForInfrastructureDeletion");
}

#[test]
fn a_drain_takes_as_long_as_it_is_told() {
    let mut simulator = timings(Timings { drain: Duration::from_secs(5), ..Timings::NONE });
    simulator = running_in(simulator);
    other_machine(&mut simulator);
    delete(&mut simulator);
    assert_eq!(stage(&simulator), "DrainingNode");
    pass(&mut simulator, 4);
    assert_eq!(stage(&simulator), "DrainingNode");
    pass(&mut simulator, 1);
    assert_eq!(stage(&simulator), "WaitingForInfrastructureDeletion");
}

#[test]
fn pods_are_drained_or_not() {
    // MA-10.3, MA-10.5, MA-10.7
    let owner = |kind: &str, name: &str| {
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name,
            "controller": true}])
    };
    let mut simulator = worker();
    others(
        &mut simulator,
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"namespace": "default", "name": "agent"}}),
    );
    pod(&mut simulator, "a-daemon", |it| set(it, "metadata.ownerReferences", owner("DaemonSet", "agent")));
    pod(&mut simulator, "b-finished-daemon", |it| {
        set(it, "metadata.ownerReferences", owner("DaemonSet", "agent"));
        set(it, "status.phase", json!("Succeeded"));
    });
    pod(&mut simulator, "c-orphaned-daemon", |it| set(it, "metadata.ownerReferences", owner("DaemonSet", "gone")));
    pod(&mut simulator, "d-mirror", |it| fields::set_annotation(it, "kubernetes.io/config.mirror", "x"));
    pod(&mut simulator, "e-skip", |it| fields::set_label(it, "cluster.x-k8s.io/drain", "Skip"));
    pod(&mut simulator, "f-wait", |it| fields::set_label(it, "cluster.x-k8s.io/drain", "Wait-Completed"));
    pod(&mut simulator, "g-plain", |_| {});
    pod(&mut simulator, "h-elsewhere", |it| set(it, "spec.nodeName", json!("n2")));
    delete(&mut simulator);
    assert_eq!(stage(&simulator), "DrainingNode");
    assert_eq!(pods(&simulator), ["a-daemon", "d-mirror", "e-skip", "f-wait", "h-elsewhere"]);
    assert!(message(&simulator, "Deleting").contains("* Pod default/f-wait: waiting until they complete"));
    simulator.delete(&pod_id("f-wait"));
    settle(&mut simulator);
    assert_eq!(stage(&simulator), "WaitingForInfrastructureDeletion");
}

#[test]
fn what_is_lost_with_a_pod_is_told() {
    // MA-10.3
    let mut simulator = worker();
    pod(&mut simulator, "a", |it| set(it, "spec.volumes", json!([{"name": "v", "emptyDir": {}}])));
    pod(&mut simulator, "b", |_| {});
    delete(&mut simulator);
    let warned: Vec<&str> =
        simulator.events.iter().filter(|(_, _, event)| event.is_warning).map(|(_, _, event)| &*event.message).collect();
    assert!(warned.contains(&"Evicting Pod default/a: the data in its emptyDir volumes is lost"), "{warned:?}");
    assert!(warned.contains(&"Evicting Pod default/b: no controller creates it again"), "{warned:?}");
}

#[test]
fn terminating_pods_are_waited_for_and_not_evicted_again() {
    // MA-10.5, MA-10.7, MA-10.8
    let mut simulator = worker();
    for name in ["a", "b", "c", "d"] {
        slow_pod(&mut simulator, name, |_| {});
    }
    delete(&mut simulator);
    pass(&mut simulator, 100);
    let line = "* Pods default/a, default/b, default/c, ... (1 more): deletionTimestamp set, but still on the Node";
    assert!(message(&simulator, "Deleting").contains(line), "{}", message(&simulator, "Deleting"));
    assert_eq!(simulator.events.iter().filter(|(_, _, event)| event.reason == "EvictingPod").count(), 4);
}

#[test]
fn pods_that_may_not_be_evicted_yet_are_named_with_the_reason() {
    // MA-10.6, MA-10.8
    let mut simulator = worker();
    let at = simulator.now();
    for number in 0..8 {
        pod(&mut simulator, &format!("p{number}"), |_| {});
        let reason = (number > 0).then(|| format!("budget {}", number.max(2)));
        let refusal = reason.map(|reason| RefusedEviction { reason, at });
        simulator.objects.note_eviction(&cluster_key(), &ObjectKey::new("default", format!("p{number}")), refusal);
    }
    let gone = RefusedEviction { reason: "x".to_owned(), at };
    simulator.objects.note_eviction(&cluster_key(), &ObjectKey::new("default", "gone"), Some(gone));
    let id = ObjectId::core("Machine", NAMESPACE, "m1");
    simulator.delete(&id);
    let mut seen = String::new();
    while !pods(&simulator).is_empty() {
        simulator.take(&id);
        if pods(&simulator).len() == 7 {
            assert_eq!(pods(&simulator)[0], "p1", "refused evictions are not tried again before the next pass");
            seen = message(&simulator, "Deleting");
            simulator.advance_by(Duration::from_secs(20));
        }
    }
    let lines: Vec<&str> = seen.lines().skip(1).collect();
    let want = [
        "* Pod default/p0: being evicted",
        "* Pods default/p1, default/p2: cannot be evicted yet: budget 2",
        "* Pod default/p3: cannot be evicted yet: budget 3",
        "* Pod default/p4: cannot be evicted yet: budget 4",
        "* Pod default/p5: cannot be evicted yet: budget 5",
        "* Pod default/p6: cannot be evicted yet: budget 6",
    ];
    assert_eq!(lines, want, "at most five reasons");
    let workload = simulator.objects.workload(&cluster_key()).unwrap();
    for name in ["p1", "gone"] {
        assert_eq!(
            workload.refusal(&ObjectKey::new("default", name)),
            None,
            "nothing is remembered of Pods that are gone"
        );
    }
}

#[test]
fn pods_of_a_node_that_is_lost_are_not_waited_for() {
    // MA-10.2
    for (ready, want) in [("Unknown", "WaitingForInfrastructureDeletion"), ("False", "DrainingNode")] {
        let mut simulator = worker();
        slow_pod(&mut simulator, "p", |_| {});
        edit_workload(&mut simulator, &node_id("n1"), |node| put(node, "Ready", ready));
        delete(&mut simulator);
        assert_eq!(stage(&simulator), "DrainingNode", "{ready}");
        pass(&mut simulator, 21);
        assert_eq!(stage(&simulator), want, "{ready}");
    }
}

#[test]
fn pods_of_a_node_that_is_lost_have_a_second_to_end() {
    // MA-10.2
    let id = ObjectId::core("Machine", NAMESPACE, "m1");
    for (ready, want) in [("Unknown", Some(1)), ("True", None)] {
        let mut simulator = worker();
        pod(&mut simulator, "p", |_| {});
        edit_workload(&mut simulator, &node_id("n1"), |node| put(node, "Ready", ready));
        simulator.delete(&id);
        let mut graces = Vec::new();
        for _ in 0..10 {
            let context = StepContext::new(&simulator.objects, &simulator.settings, simulator.now());
            let (machine, mut step) = (simulator.core("Machine", "m1"), Reconciliation::default());
            // Kinds that are not listed yet stop the step without writes.
            let _ = super::super::step(&context, &machine, &mut step);
            let attempted = step.writes.into_iter().filter_map(|part| match part {
                StepWrite::Attempted(writes) => Some(writes),
                StepWrite::Required(_) => None,
            });
            graces.extend(attempted.flatten().filter_map(|write| match write {
                ObjectWrite::Evict { grace, .. } => Some(grace),
                _ => None,
            }));
            simulator.take(&id);
        }
        assert_eq!(graces, [want], "{ready}");
    }
}

#[test]
fn rules_decide_about_pods_and_their_order() {
    // MA-10.4, MA-10.5
    let mut simulator = worker();
    others(
        &mut simulator,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "a"}}}),
    );
    let of = |app: &str| {
        json!([{"selector": {"matchLabels": {"app": app}},
            "namespaceSelector": {"matchLabels": {"team": "a"}}}])
    };
    simulator.make(rule(
        "a-other-machines",
        json!({"drain": {"behavior": "Skip"}, "machines": [{"selector": {"matchLabels": {"x": "y"}}}]}),
    ));
    simulator.make(rule("b-last", json!({"drain": {"behavior": "Drain", "order": 10}, "pods": of("last")})));
    simulator.make(rule(
        "c-skip",
        json!({"drain": {"behavior": "Skip"}, "pods": of("skip"),
            "machines": [{"selector": {}, "clusterSelector": {}}]}),
    ));
    simulator.make(rule("d-other-order", json!({"drain": {"behavior": "Drain", "order": -10}, "pods": of("last")})));
    simulator.make(rule("e-wait", json!({"drain": {"behavior": "WaitCompleted"}, "pods": of("wait")})));
    for name in ["last", "skip", "wait"] {
        pod(&mut simulator, name, |it| fields::set_label(it, "app", name));
    }
    slow_pod(&mut simulator, "first", |_| {});
    delete(&mut simulator);
    assert_eq!(pods(&simulator), ["first", "last", "skip", "wait"]);
    let text = message(&simulator, "Deleting");
    assert!(text.contains("default/first: deletion") && text.contains("default/wait: waiting"), "{text}");
    assert!(text.ends_with("* 1 Pods of order 10 are drained afterwards"), "{text}");
    simulator.delete(&pod_id("wait"));
    edit_workload(&mut simulator, &pod_id("first"), |it| set(it, "metadata.finalizers", json!([])));
    settle(&mut simulator);
    assert_eq!(
        (pods(&simulator), stage(&simulator)),
        (vec!["skip".to_owned()], "WaitingForInfrastructureDeletion".into())
    );
}

#[test]
fn unusable_rules_are_failures_of_the_drain() {
    // MA-10.4, MA-9.7
    for (spec, want) in [
        (
            json!({"drain": {"behavior": "Skip"},
                "pods": [{"selector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}]}),
            "invalid selector",
        ),
        (
            json!({"drain": {"behavior": "Skip"}, "pods": [{"namespaceSelector": {}}]}),
            "Namespace default of Pod p is not known",
        ),
        (json!({"drain": {"behavior": "Guess"}}), "unknown behavior"),
    ] {
        let mut simulator = worker();
        pod(&mut simulator, "p", |_| {});
        simulator.make(rule("r", spec));
        delete(&mut simulator);
        assert_eq!(stage(&simulator), "DrainingNode");
        assert!(failure(&simulator).contains(want), "{}", failure(&simulator));
    }
}

#[test]
fn volumes_are_detached_before_the_infrastructure_goes() {
    // MA-9.8, MA-11.1, MA-11.2, MA-11.3
    let volume = |name: &str, claim: Value| {
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
            "csi": {"driver": "disk.test", "volumeHandle": format!("handle-{name}")}, "claimRef": claim}})
    };
    let claim = json!({"namespace": "default", "name": "c"});
    let attached =
        |it: &mut Object, name: &str| set(it, "status.volumesAttached", json!([{"name": name, "devicePath": ""}]));
    let csi = "kubernetes.io/csi/disk.test^handle-v";
    for (case, is_known, claim, is_ignored, name, want) in [
        ("claimed", true, claim.clone(), false, csi, "WaitingForVolumeDetach"),
        ("by its name", true, claim.clone(), false, "v", "WaitingForVolumeDetach"),
        ("of a Pod that stays", true, claim, true, csi, "WaitingForInfrastructureDeletion"),
        ("without claim", true, Value::Null, true, csi, "WaitingForVolumeDetach"),
        ("without volume", false, Value::Null, true, csi, "WaitingForVolumeDetach"),
    ] {
        let mut simulator = worker();
        if is_known {
            others(&mut simulator, volume("v", claim));
        }
        pod(&mut simulator, "stays", |it| {
            fields::set_label(it, "cluster.x-k8s.io/drain", "skip");
            let claim = if is_ignored { "c" } else { "d" };
            set(it, "spec.volumes", json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]));
        });
        edit_workload(&mut simulator, &node_id("n1"), |it| attached(it, name));
        delete(&mut simulator);
        assert_eq!(stage(&simulator), want, "{case}");
        edit_workload(&mut simulator, &node_id("n1"), |it| drop(it.remove("status.volumesAttached")));
        settle(&mut simulator);
        assert_eq!(stage(&simulator), "WaitingForInfrastructureDeletion", "{case}");
    }
}

#[test]
fn the_wait_for_volumes_has_its_own_guards() {
    // MA-9.8, MA-11.1, MA-11.2
    let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "va"},
        "spec": {"nodeName": "n1", "source": {"persistentVolumeName": "v"}}, "status": {"attached": true}});
    let gone = "WaitingForInfrastructureDeletion";
    for (case, annotation, timeout, ready, want) in [
        ("waits", "", 0, "True", "WaitingForVolumeDetach"),
        ("left out", "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach", 0, "True", gone),
        ("too long", "", 30, "True", gone),
        ("lost", "", 0, "Unknown", gone),
    ] {
        let mut simulator = worker();
        others(&mut simulator, attachment.clone());
        edit_workload(&mut simulator, &node_id("n1"), |node| put(node, "Ready", ready));
        edit(&mut simulator, &GroupKind::core("Machine"), "m1", |it| {
            set(it, "spec.deletion.nodeVolumeDetachTimeoutSeconds", json!(timeout));
            if !annotation.is_empty() {
                fields::set_annotation(it, annotation, "");
            }
        });
        delete(&mut simulator);
        pass(&mut simulator, 60);
        assert_eq!(stage(&simulator), want, "{case}");
    }
}

#[test]
fn a_node_that_cannot_be_deleted_is_left_behind() {
    // MA-9.12
    for (timeout, is_left) in [(json!(10), true), (json!(0), false), (Value::Null, false)] {
        let mut simulator = worker();
        edit(&mut simulator, &GroupKind::core("Machine"), "m1", |it| {
            set(it, "spec.deletion.nodeDeletionTimeoutSeconds", timeout.clone());
            fields::set_annotation(it, "machine.cluster.x-k8s.io/exclude-node-draining", "");
            fields::set_annotation(it, "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach", "");
        });
        delete(&mut simulator);
        simulator.objects.workload_mut(&cluster_key()).is_reachable = false;
        release(&mut simulator, &infrastructure());
        release(&mut simulator, &config());
        assert_eq!(stage(&simulator), "DeletingNode", "{timeout}");
        assert!(failure(&simulator).contains("is not connected"));
        pass(&mut simulator, 200);
        assert_eq!(is_there(&simulator), !is_left, "{timeout}");
    }
}

#[test]
fn a_node_is_deleted_although_its_infrastructure_took_longer_than_the_timeout() {
    // MA-9.12
    for is_refused in [false, true] {
        let mut simulator = worker();
        edit(&mut simulator, &GroupKind::core("Machine"), "m1", |it| {
            set(it, "spec.deletion.nodeDeletionTimeoutSeconds", json!(10));
        });
        delete(&mut simulator);
        pass(&mut simulator, 100);
        assert_eq!(stage(&simulator), "WaitingForInfrastructureDeletion");
        if is_refused {
            simulator.refuses = |write| write.object().is_some_and(|object| object.kind() == "Node");
        }
        release(&mut simulator, &infrastructure());
        release(&mut simulator, &config());
        pass(&mut simulator, 100);
        assert_eq!((is_there(&simulator), node_now(&simulator, "n1").is_some()), (false, is_refused));
    }
}

#[test]
fn a_node_that_cannot_be_changed_does_not_stop_the_deletion() {
    // MA-4.3, MA-4.4, MA-10.1
    let mut simulator = worker();
    pod(&mut simulator, "p", |_| {});
    edit(&mut simulator, &GroupKind::core("Machine"), "m1", |it| {
        set(it, "spec.deletion.nodeDrainTimeoutSeconds", json!(300));
    });
    simulator.refuses = |write| write.object().is_some_and(|object| object.kind() == "Node");
    delete(&mut simulator);
    pass(&mut simulator, 100);
    assert_eq!((stage(&simulator), pods(&simulator).len()), ("DrainingNode".into(), 1), "no eviction without a cordon");
    assert!(message(&simulator, "Deleting").contains("Drain of Node n1 is not complete yet"));
    assert!(failure(&simulator).contains("is refused"), "{}", failure(&simulator));
    pass(&mut simulator, 300);
    assert_eq!(stage(&simulator), "WaitingForInfrastructureDeletion", "the timeout passes");
}

#[test]
fn pods_whose_eviction_is_refused_do_not_hold_those_of_others() {
    // MA-10.6
    let mut simulator = worker();
    for name in ["a", "b", "c"] {
        pod(&mut simulator, name, |_| {});
    }
    simulator.refuses = |write| write.object().is_some_and(|object| object.name() == "a");
    delete(&mut simulator);
    assert_eq!(pods(&simulator), ["a"]);
    pod(&mut simulator, "d", |_| {});
    let context = StepContext::new(&simulator.objects, &simulator.settings, simulator.now());
    let (machine, mut step) = (simulator.core("Machine", "m1"), Reconciliation::default());
    super::super::step(&context, &machine, &mut step).unwrap();
    assert_eq!(evicted(step), ["d"], "the refused one waits for the next pass");
    simulator.advance_by(Duration::from_secs(20));
    let (context, mut step) =
        (StepContext::new(&simulator.objects, &simulator.settings, simulator.now()), Reconciliation::default());
    super::super::step(&context, &machine, &mut step).unwrap();
    assert_eq!(evicted(step), ["d", "a"], "and comes last");
}

/// The evicted Pods, in order.
fn evicted(step: Reconciliation) -> Vec<String> {
    let parts = step.writes.into_iter().filter_map(|part| match part {
        StepWrite::Attempted(writes) => Some(writes),
        StepWrite::Required(_) => None,
    });
    let pods = parts.flatten().filter_map(|write| match write {
        ObjectWrite::Evict { pod, .. } => Some(pod.name().to_owned()),
        _ => None,
    });
    pods.collect()
}

#[test]
fn a_deletion_that_takes_long_says_so() {
    // MA-13.9
    let mut simulator = worker();
    slow_pod(&mut simulator, "p", |_| {});
    delete(&mut simulator);
    let short = "* Deleting: Machine deletion in progress, stage: DrainingNode";
    assert_eq!(
        (condition(&simulator, "Ready"), message(&simulator, "Ready")),
        (("False", "NotReady".into()), short.into())
    );
    pass(&mut simulator, 5 * 60);
    assert!(message(&simulator, "Ready").contains("PodDisruptionBudget"), "{}", message(&simulator, "Ready"));
    assert!(!message(&simulator, "Ready").contains("15 minutes"));
    pass(&mut simulator, 10 * 60);
    assert!(message(&simulator, "Ready").contains("more than 15 minutes"), "{}", message(&simulator, "Ready"));
}

#[test]
fn what_is_gone_does_not_count_while_a_machine_is_deleted() {
    // MA-13.3, MA-13.4, MA-13.5, MA-13.9
    let mut simulator = running();
    annotate(&mut simulator, "pre-terminate.delete.hook.machine.cluster.x-k8s.io", "");
    delete(&mut simulator);
    for kind in [infrastructure(), config()] {
        simulator.delete(&ObjectId::new(kind.clone(), ObjectKey::new(NAMESPACE, "m1")));
        release(&mut simulator, &kind);
    }
    simulator.delete(&node_id("n1"));
    settle(&mut simulator);
    for (name, reason) in [
        ("BootstrapConfigReady", "ObjectDeleted"),
        ("InfrastructureReady", "ObjectDeleted"),
        ("NodeHealthy", "NodeDeleted"),
    ] {
        assert_eq!(condition(&simulator, name), ("False", reason.into()), "{name}");
    }
    assert_eq!(message(&simulator, "Ready").lines().count(), 1, "{}", message(&simulator, "Ready"));
}
